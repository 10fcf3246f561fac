"""CliffCompaction: one cut at a token threshold, verbatim excerpts in place of old turns, no model call.

from cliff_core import CliffConfig, Compactor, dialect

compactor = Compactor(dialect("chat"), CliffConfig.preset("default", threshold_tokens=16_000))
view = compactor.view(history)      # send view.messages; view.cliff says when a compaction happened
"""

from cliff_core.compactor import Cliff, Compactor, Fact, View
from cliff_core.config import CliffConfig, ConfigError
from cliff_core.dialects import Dialect, dialect

__all__ = ["Cliff", "CliffConfig", "Compactor", "ConfigError", "Dialect", "Fact", "View", "dialect"]

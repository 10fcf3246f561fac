"""CliffCompaction for OpenHands: a condenser that calls no model.

    from cliff_openhands import CliffCondenser
    agent = Agent(llm=llm, tools=tools, condenser=CliffCondenser(threshold_tokens=16_000))

In a configuration it is `{"kind": "CliffCondenser", "threshold_tokens": 16000}`. The SDK knows a `kind` once its class
was imported: the import hook of this package does that (`_cliff_openhands_hook`), or `import cliff_openhands` in a
process that has imported OpenHands (`--import-modules cliff_openhands` of the agent-server).
"""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["CliffCLICondenser", "CliffCondenser"]


def __getattr__(name: str) -> Any:
    """The condensers, imported when they are asked for: OpenHands takes seconds."""
    if name in __all__:
        from cliff_openhands import condenser

        return getattr(condenser, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


_sdk = sys.modules.get("openhands.sdk")
if _sdk is not None and not getattr(_sdk.__spec__, "_initializing", False):
    try:
        from cliff_openhands.condenser import CliffCLICondenser, CliffCondenser
    except ImportError as error:  # an SDK that is too old, and beside V0 only lies there
        import logging

        logging.getLogger("cliff_openhands").warning("cliff: the condensers do not fit this OpenHands SDK: %s", error)

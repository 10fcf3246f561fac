"""Policy `cliff`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cliff_core.compactor import Compactor, Fact
from cliff_core.config import CliffConfig
from cliff_core.ledger import Meter
from cliff_core.policies.base import PolicyView, Settings
from cliff_core.traces import Session


class CliffPolicy:
    """CliffCompaction: the `Compactor`, with the session's meter for its counts.

    Recorded usage is not shown to it (`observe`): it belongs to the recorded requests, not to these. The
    meter's ratio and the fixed part already hold what can be learned from it, so that the threshold is
    in the same tokens as every other figure of a replay."""

    price_ratio: float | None = None
    """`cache_price_ratio` of the sessions to come, where the configuration has none."""

    name = "cliff"
    note = ""

    def __init__(self, config: CliffConfig, settings: Settings | None = None) -> None:
        self.config = config
        self._compactor: Compactor

    def start(self, session: Session, meter: Meter, limit: int | None = None) -> None:
        facts: list[Fact] = [] if limit is None else [{"at": 0, "kind": "limit", "value": limit}]
        config = self.config
        if config.auto and config.cache_price_ratio is None:
            config = config.replace(cache_price_ratio=self.price_ratio)
        self._compactor = Compactor(meter.dialect, config, facts, meter.count_many)

    def view(self, history: Sequence[Any], fixed_tokens: int) -> PolicyView:
        view = self._compactor.view(history, fixed_tokens)
        compacted = view.cliff is not None
        return PolicyView(view.messages, view.tokens, view.cliff, None if view.failed else view, compacted)

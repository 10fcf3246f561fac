"""Policy `full`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cliff_core.config import CliffConfig
from cliff_core.ledger import Meter
from cliff_core.policies.base import PolicyView, Settings
from cliff_core.traces import Session


class Full:
    """Everything, always: what an agent sends that does not manage its context."""

    name = "full"
    note = ""

    def __init__(self, config: CliffConfig, settings: Settings | None = None) -> None:
        self._meter: Meter
        self._counted = self._tokens = 0

    def start(self, session: Session, meter: Meter, limit: int | None = None) -> None:
        self._meter = meter
        self._counted = self._tokens = 0

    def view(self, history: Sequence[Any], fixed_tokens: int) -> PolicyView:
        messages = list(history)
        if len(messages) < self._counted:
            self._counted = self._tokens = 0
        self._tokens += sum(map(self._meter.tokens, messages[self._counted :]))
        self._counted = len(messages)
        return PolicyView(messages, fixed_tokens + self._tokens)

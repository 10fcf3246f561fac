"""Policy `sliding`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from cliff_core import decision
from cliff_core.config import CliffConfig
from cliff_core.content import Message, Turn
from cliff_core.ledger import Meter
from cliff_core.policies.base import PolicyView, Settings
from cliff_core.traces import Session
from cliff_core.turns import head_end, pair, starts_turn


class Sliding:
    """Head and the newest whole turns that fit into the threshold; at least the newest one.

    The threshold is that of policy `cliff` (raised to T_min in preset `default`, lowered to what the provider
    takes), so that the two compare.
    Once the window is full it moves at every request, and nothing after the head is found in the prefix
    cache. No call is parted from its results."""

    name = "sliding"
    note = ""

    def __init__(self, config: CliffConfig, settings: Settings | None = None) -> None:
        self.config = config
        self._meter: Meter
        self._limit: int | None = None
        self._since = 0
        """Message at which the window began last; it never moves back."""

    def start(self, session: Session, meter: Meter, limit: int | None = None) -> None:
        self._meter, self._limit = meter, limit
        self._since = 0

    def view(self, history: Sequence[Any], fixed_tokens: int) -> PolicyView:
        head = self._head(history)
        if self._since > len(history):
            self._since = 0
        start = max(head, self._since)
        parsed = [self._meter.parsed(message) for message in history[start:]]
        starts = [index for index in range(len(parsed)) if starts_turn(parsed, index)]
        turns = [
            Turn(number, begin, tuple(parsed[begin:end]))
            for number, (begin, end) in enumerate(pairwise([*starts, len(parsed)]), 1)
        ]
        fixed = fixed_tokens + sum(self._meter.tokens(message) for message in history[:head])
        size = fixed + sum(message.tokens for message in parsed)
        budget = decision.effective_threshold(self.config, fixed, self._limit)
        if size > budget and len(turns) > 1:
            gone = self._cut(turns, size, budget)
            self._since = start + turns[gone].start
            size -= sum(turn.tokens for turn in turns[:gone])
            start = self._since
        return PolicyView([*history[:head], *history[start:]], size)

    def _cut(self, turns: Sequence[Turn], size: int, budget: int) -> int:
        """How many turns go: the fewest that make it fit, at a place where no call waits for a result."""
        _, legal = pair(turns)
        gone = 0
        for number in range(1, len(turns)):
            size -= turns[number - 1].tokens
            if number in legal:
                gone = number
                if size <= budget:
                    break
        return gone

    def _head(self, history: Sequence[Any]) -> int:
        """Messages in the head. It depends on the beginning of a history alone."""
        parsed: list[Message] = []
        for message in history:
            parsed.append(self._meter.parsed(message))
            if parsed[-1].role == "model" and (head := head_end(parsed)) is not None:
                return head
        return len(parsed)

"""What a policy would send in place of a growing history: one protocol, one class a policy."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

from cliff_core import decision
from cliff_core.compactor import Cliff, Compactor, Fact, View
from cliff_core.config import CliffConfig
from cliff_core.content import Message, Turn
from cliff_core.ledger import Meter
from cliff_core.traces import Session
from cliff_core.turns import head_end, pair, starts_turn


class PolicyError(ValueError):
    """An unknown policy; the text names the nearest."""


@dataclass(frozen=True, slots=True)
class PolicyView:
    """What one request sends."""

    messages: list[Any]
    tokens: int
    """The whole request, as the policy counts it."""
    cliff: Cliff | None = None
    """A compaction that begins with this view."""
    view: View | None = None
    """Policy `cliff`: the compactor's own view, with its cut, block and pins; None where it failed open."""


class Policy(Protocol):
    """One policy at a time on one session at a time; `start` makes it ready for the next."""

    name: str

    def start(self, session: Session, meter: Meter, limit: int | None = None) -> None:
        """A session begins; `meter` counts its messages. `limit`: tokens that the provider takes, where known."""
        ...

    def view(self, history: Sequence[Any], fixed_tokens: int) -> PolicyView:
        """What is sent for a history that grew since the last call, beside a system prompt and tool
        schemas of `fixed_tokens`."""
        ...


class Full:
    """Everything, always: what an agent sends that does not manage its context."""

    name = "full"

    def __init__(self, config: CliffConfig) -> None:
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


class Sliding:
    """Head and the newest whole turns that fit into the threshold; at least the newest one.

    The threshold is that of policy `cliff` (raised to T_min in preset `default`, lowered to what the provider
    takes), so that the two compare.
    Once the window is full it moves at every request, and nothing after the head is found in the prefix
    cache. No call is parted from its results."""

    name = "sliding"

    def __init__(self, config: CliffConfig) -> None:
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


class CliffPolicy:
    """CliffCompaction: the `Compactor`, with the session's meter for its counts.

    Recorded usage is not shown to it (`observe`): it belongs to the recorded requests, not to these. The
    meter's ratio and the fixed part already hold what can be learned from it, so that the threshold is
    in the same tokens as every other figure of a replay."""

    name = "cliff"

    def __init__(self, config: CliffConfig) -> None:
        self.config = config
        self._compactor: Compactor

    def start(self, session: Session, meter: Meter, limit: int | None = None) -> None:
        facts: list[Fact] = [] if limit is None else [{"at": 0, "kind": "limit", "value": limit}]
        self._compactor = Compactor(meter.dialect, self.config, facts, meter.count_many)

    def view(self, history: Sequence[Any], fixed_tokens: int) -> PolicyView:
        view = self._compactor.view(history, fixed_tokens)
        return PolicyView(view.messages, view.tokens, view.cliff, None if view.failed else view)


POLICIES: dict[str, Callable[[CliffConfig], Policy]] = {
    "full": Full,
    "sliding": Sliding,
    "cliff": CliffPolicy,
}
"""By name (DESIGN.md section 7); only policies that exist."""


def policies(names: Iterable[str], config: CliffConfig) -> list[Policy]:
    """The policies of these names, each once, in their order. Raises PolicyError for an unknown one, or none."""
    made: list[Policy] = []
    for name in dict.fromkeys(names):
        if name not in POLICIES:
            near = difflib.get_close_matches(name, POLICIES, n=1)
            hint = f"did you mean {near[0]}?" if near else "known are " + ", ".join(POLICIES)
            raise PolicyError(f"unknown policy {name!r}; {hint}")
        made.append(POLICIES[name](config))
    if not made:
        raise PolicyError("no policy is named; known are " + ", ".join(POLICIES))
    return made

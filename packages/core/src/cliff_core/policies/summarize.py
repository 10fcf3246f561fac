"""Policy `summarize`: a model writes a summary, and folds the one before into it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, floor
from typing import Any

from cliff_core import decision
from cliff_core.config import CliffConfig
from cliff_core.content import Message, Note, Turn, counted
from cliff_core.ledger import Meter
from cliff_core.policies.base import Auxiliary, PolicyView, Settings
from cliff_core.policies.shown import Shown
from cliff_core.traces import Session
from cliff_core.turns import pair

Summarizer = Callable[[str, Sequence[Message]], str]
"""The previous summary (empty: none), and the messages to summarize -> the new summary. A real one calls a model."""

INSTRUCTION = (
    "Summarize this conversation for yourself: the task, what was done and found, names of files and "
    "identifiers that matter, what is to be done next. The summary will stand in place of the older messages."
)
"""Ends the auxiliary request."""


class StandIn:
    """Stands for a summarizing model where a session is replayed offline: the first `share` of the characters of each
    text, the previous summary's included. It has the size of a summary, not its sense."""

    def __init__(self, share: float) -> None:
        if not 0 <= share <= 1:
            raise ValueError(f"the share of a summary is a number from 0 to 1, not {share!r}")
        self.share = share
        self.note = f"summaries by a stand-in that keeps the first {share:.0%} of each text, not by a model"

    def __call__(self, previous: str, messages: Sequence[Message]) -> str:
        texts = [previous, *(text for message in messages for text in counted(message.contents)[0])]
        kept = (text[: ceil(self.share * len(text))] for text in texts)
        return "\n".join(text for text in kept if text)


class Summarize:
    """Above the threshold, the turns before the newest ones are summarized, and the summary stands between head and
    live turns; the next summary is written of this one and of the turns since. The newest `keep_turns` stay live,
    fewer where head and live turns alone have more than (1 − gain) of the threshold (gain: `min_gain`, at least 0.25),
    and no call is parted from its results.

    The summary is asked for by one request of its own: the request as it would have been, and an instruction. So
    what a prefix cache holds is cheap there, too; its answer is charged as output."""

    name = "summarize"

    def __init__(
        self, config: CliffConfig, settings: Settings | None = None, summarizer: Summarizer | None = None
    ) -> None:
        self.config, self.settings = config, settings or Settings()
        stand_in = StandIn(self.settings.summary_share) if summarizer is None else None
        self.note = stand_in.note if stand_in else ""
        self._summarizer: Summarizer = summarizer or stand_in or StandIn(0)
        self._meter: Meter
        self._limit: int | None = None
        self._reset()

    def _reset(self) -> None:
        self._shown: Shown | None = None
        self._text = ""
        self._summary: Message | None = None
        self._since = 0  # first live message, once there is a summary
        self._live = 0  # tokens of head and live messages

    def start(self, session: Session, meter: Meter, limit: int | None = None) -> None:
        self._meter, self._limit = meter, limit
        self._reset()

    def view(self, history: Sequence[Any], fixed_tokens: int) -> PolicyView:
        if self._shown is None or len(history) < len(self._shown.messages):
            self._reset()
            self._shown = Shown(self._meter)
        shown = self._shown
        self._live += shown.take(history)
        size = fixed_tokens + self._live + (self._summary.tokens if self._summary else 0)
        fixed = fixed_tokens + shown.head_tokens
        threshold = decision.effective_threshold(self.config, fixed, self._limit)
        if size <= threshold or shown.head is None:
            return PolicyView(self._messages(shown), size)
        goal = floor((1 - max(self.config.min_gain, decision.LEAST_GAIN)) * threshold)
        freed = self._relieve(shown, size - goal)
        if freed and size - freed <= goal:
            return PolicyView(self._messages(shown), size - freed, compacted=True)
        size -= freed
        turns = shown.turns(max(self._since, shown.head))
        cut = self._cut(turns, fixed, goal)
        if cut is None:
            return PolicyView(self._messages(shown), size, compacted=freed > 0)
        before = [*self._messages(shown), Message("user", (Note(INSTRUCTION, "instruction"),))]
        gone = turns[:cut]
        self._text = self._summarizer(self._text, [message for turn in gone for message in turn.messages])
        old = self._summary.tokens if self._summary else 0
        self._summary = self._meter.parsed(Message("user", (Note(self._text, "summary"),)))
        self._since = gone[-1].end
        self._live -= sum(turn.tokens for turn in gone)
        size += self._summary.tokens - old - sum(turn.tokens for turn in gone)
        auxiliary = (Auxiliary(before, self._text),)
        return PolicyView(self._messages(shown), size, compacted=True, auxiliary=auxiliary)

    def _relieve(self, shown: Shown, wanted: int) -> int:
        """Free tokens in another way first; returns how many."""
        return 0

    def _cut(self, turns: Sequence[Turn], fixed: int, goal: int) -> int | None:
        """How many of the live turns are summarized."""
        _, legal = pair(turns)
        found: int | None = None
        for keep in range(self.config.keep_turns, 0, -1):
            cut = max((position for position in legal if 0 < position <= len(turns) - keep), default=None)
            if cut is not None:
                found = cut
                if fixed + sum(turn.tokens for turn in turns[cut:]) <= goal:
                    break
        return found

    def _messages(self, shown: Shown) -> list[Any]:
        if self._summary is None or shown.head is None:
            return list(shown.messages)
        return [*shown.messages[: shown.head], self._summary, *shown.messages[self._since :]]

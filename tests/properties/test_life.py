"""The life of a compactor: whatever a host does in whatever order, invariants 3 to 8 hold on the way."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from cliff_core import View
from properties import checks
from properties.driver import Host, Run, Sent, replay
from properties.histories import DIALECTS
from properties.oracle import native
from properties.strategies import Case, cases


class Life(RuleBasedStateMachine):
    """A host with a script: the messages that come next, whatever became of the last ones."""

    host: Host
    history: list[Any]
    words: list[tuple[int, str]]
    sent: Sent | None
    answered: list[Sent]
    """Views that the model answered in the history as it is now."""
    rejected: set[str]
    """Histories, as JSON, whose requests were rejected."""
    mine: list[Sent]
    """Views of the process as it is now."""
    inherited: set[int]
    """Sizes at which a cliff was forced before the process restarted: facts name no more of a history than its size."""

    @initialize(dialect=st.sampled_from(DIALECTS), case=cases(mishaps=False))
    def begin(self, dialect: str, case: Case) -> None:
        self.host = case.host(dialect)
        self.script = list(self.host.messages)
        self.next = 0
        self.history = []
        self.words = []
        self.sent = None
        self.answered = []
        self.mine = []
        self.rejected = set()
        self.inherited = set()
        note(case.story(dialect))

    # --- what a host does -------------------------------------------------------------------------------------

    @rule(many=st.integers(1, 4))
    def messages_come(self, many: int) -> None:
        for _ in range(many):
            self._append()

    @rule(steps=st.integers(1, 3))
    def steps_are_made(self, steps: int) -> None:
        """Requests that the model answers, and the results up to the next one."""
        for _ in range(steps):
            while self._coming() not in ("model", ""):
                self._append()
            if not self._coming():
                return
            sent = self._request()
            while self._coming() == "model":
                self._append()
            if sent.size and sent.point == sent.size:
                self.answered.append(sent)
            while self._coming() not in ("model", ""):
                self._append()

    @rule()
    def a_request_gets_no_answer(self) -> None:
        self._request()

    @precondition(lambda self: self.sent is not None)
    @rule(limit=st.sampled_from((None, None, 0.5, 0.9, 1.5)))
    def the_request_is_rejected(self, limit: float | None) -> None:
        assert self.sent is not None
        if self.sent.history != self.history:
            return
        told = None if limit is None else int(self.sent.view.tokens * limit)
        before = self.host.compactor.view(self.history, self.host.fixed)
        facts = self.host.compactor.facts
        smaller = self.host.compactor.overflowed(self.history, told)
        if smaller is None:
            again = self.host.compactor.view(self.history, self.host.fixed)
            checks.same(before, again)
            assert self.host.compactor.facts == facts
            return
        assert smaller.tokens < before.tokens
        self._forced(smaller)

    @rule()
    def it_is_rejected_until_nothing_is_left(self) -> None:
        sent = self._request()
        for _ in range(1_000):
            smaller = self.host.compactor.overflowed(self.history)
            if smaller is None:
                return
            assert smaller.tokens < sent.view.tokens
            sent = self._forced(smaller)
        raise AssertionError("a thousand rejections, and still something to drop")

    @precondition(lambda self: self.mine)
    @rule(ratio=st.sampled_from((0.3, 0.8, 1.0, 1.2, 3.0)), back=st.integers(0, 3))
    def usage_is_reported(self, ratio: float, back: int) -> None:
        self.host.observe(self.mine[-1 - back % len(self.mine)], ratio)

    @precondition(lambda self: len(self.history) > 0)
    @rule(code=st.integers(0, 40))
    def the_last_message_is_edited(self, code: int) -> None:
        size = len(self.history) - 1
        last = self.history[-1]
        other = native(last, self.host.run.name).role in ("tool", "model") and code % 2
        self._shorten(size)
        if other:
            self.history.append(self.host.altered(last))
            return
        message, words = self.host.edited(code)
        self.history.append(message)
        self.words.append((size, words))

    @precondition(lambda self: len(self.history) > 1)
    @rule(many=st.integers(1, 8))
    def the_history_is_cut_short(self, many: int) -> None:
        size = max(1, len(self.history) - many)
        self._shorten(size)
        self.next = max(0, self.next - many)

    @rule(tokens=st.sampled_from((0, 50, 400, 1_500)))
    def the_tools_change(self, tokens: int) -> None:
        self.host.fixed = tokens

    @rule()
    def the_process_restarts(self) -> None:
        self.host.restart()
        self.mine = []
        self.inherited |= {fact["at"] for fact in self.host.compactor.facts if fact["kind"] == "forced"}

    @rule()
    def the_host_builds_its_messages_anew(self) -> None:
        self.history = copy.deepcopy(self.history)

    # --- how ------------------------------------------------------------------------------------------------

    def _coming(self) -> str:
        """Role of the script's next message; empty at its end."""
        return self.host.natives[self.next].role if self.next < len(self.script) else ""

    def _append(self) -> None:
        if self.next < len(self.script):
            self.words += [(len(self.history), w) for i, w in self.host.words if i == self.next]
            # An object of its own: an edited script may send the same message twice.
            self.history.append(copy.deepcopy(self.script[self.next]))
            self.next += 1

    def _shorten(self, size: int) -> None:
        del self.history[size:]
        self.words = [(i, w) for i, w in self.words if i < size]
        self.answered = [sent for sent in self.answered if sent.size < size]
        self.sent = None

    def _request(self) -> Sent:
        before = json.dumps(self.history)
        sent = self.host.ask(list(self.history), self.words)
        assert json.dumps(self.history) == before, "a message of the history was changed"
        self._check(sent)
        return sent

    def _forced(self, view: View) -> Sent:
        sent = self.host.note(list(self.history), self.words, view, forced=True)
        self.rejected.add(json.dumps(sent.history[: sent.point]))
        self._check(sent)
        return sent

    def _check(self, sent: Sent) -> None:
        if sent.view.cliff is not None and sent.view.cliff.reason == "forced":
            was = json.dumps(sent.history[: sent.point])
            assert sent.point in self.inherited or was in self.rejected, "this history was never rejected"
        self.sent = sent
        self.mine.append(sent)
        if sent.forced:  # where a continued reply is rejected, its step is decided anew
            self.answered = [other for other in self.answered if other.size < sent.point]
        run = self.host.run
        sent.before = replay(run, sent)
        alone = Run(run.name, run.config, run.written, run.counts, [sent])
        for check in (
            checks.check_verbatim,
            checks.check_untouched,
            checks.check_paired,
            checks.check_deterministic,
            checks.check_tokens,
            checks.check_progress,
            checks.check_records,
        ):
            check(alone)
        if self.answered:
            checks.check_same_segment(run, self.answered[-1], sent)


# (A life has twenty steps, each checked by all invariants: fewer of them than of single histories.)
Life.TestCase.settings = settings(stateful_step_count=20, max_examples=min(300, settings.default.max_examples))
TestLife = Life.TestCase

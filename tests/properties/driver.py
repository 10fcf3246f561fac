"""A host that runs a session: it asks for views as hosts do, and some of what can go wrong goes wrong."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from cliff_core import CliffConfig, Compactor, Dialect, View, dialect
from properties.histories import Written
from properties.oracle import Counts, Native, Shape, acting, characters, native, shape

CONTROL_BYTES = 4
CountMany = Callable[[Sequence[str]], list[int]]


@dataclass(repr=False, eq=False)
class Sent:
    """A view that the host was given."""

    history: list[Any]
    view: View
    fixed: int
    facts: list[dict[str, Any]]
    """All facts known when it was given."""
    words: list[tuple[int, str]]
    natives: list[Native]
    shape: Shape
    point: int
    """Where its decision falls: after the history, or before the model step at its end."""
    before: Sent | None
    """The last view before `point` that the model answered."""
    answered: bool = False
    """The model went on from it."""
    forced: bool = False
    plain: bool = True
    """No fact but the first `fixed` acts."""

    @property
    def size(self) -> int:
        return len(self.history)

    def __repr__(self) -> str:  # pytest shows it, and it holds all that came before
        return f"<view of {self.size} messages, cut {self.view.cut}, {self.view.cliff}>"


@dataclass(repr=False, eq=False)
class Run:
    name: str
    config: CliffConfig
    written: Written
    counts: Counts
    sent: list[Sent] = field(default_factory=list)
    count_many: CountMany = characters
    overflows: list[list[View | None]] = field(default_factory=list)
    """For each rejected request: its view, then what `overflowed` gave, to the end."""

    @property
    def answered(self) -> list[Sent]:
        return [sent for sent in self.sent if sent.answered]


def cold(run: Run, sent: Sent) -> Compactor:
    """Another object with the same facts, as JSON carries them."""
    facts = json.loads(json.dumps(sent.facts))
    return Compactor(dialect(run.name), run.config, facts, run.count_many)


def seen(
    run: Run,
    history: list[Any],
    words: list[tuple[int, str]],
    view: View,
    fixed: int,
    facts: list[dict[str, Any]],
    natives: list[Native] | None = None,
) -> Sent:
    """A view with what can be known of its request by itself."""
    size = len(history)
    natives = natives or [native(message, run.name) for message in history]
    form = shape(natives)
    point = form.starts[-1] if form.starts and natives[-1].role == "model" else size
    return Sent(
        history=history,
        view=view,
        fixed=fixed,
        facts=facts,
        words=[(i, w) for i, w in words if i < size],
        natives=natives,
        shape=form,
        point=point,
        before=None,
        forced=any(f["kind"] == "forced" and f["at"] == point for f in facts),
        plain=all(f["kind"] == "fixed" and f["at"] == 0 for f in facts),
    )


def replay(run: Run, sent: Sent) -> Sent | None:
    """What another object with the same facts sent before: the last of its views, each with the one before it."""
    again = cold(run, sent)
    last: Sent | None = None
    for at in sent.shape.starts:
        if 0 < at < sent.point:
            fixed = acting(sent.facts, at).fixed
            history = sent.history[:at]
            view = seen(run, history, sent.words, again.view(history, fixed), fixed, sent.facts)
            view.before = last
            last = view
    assert again.facts == sent.facts, "looking at an earlier point taught something"
    return last


class Host:
    """Drives one compactor through a history. `controls`: bytes for each model step; zeros ask for nothing but
    the view."""

    def __init__(
        self,
        written: Written,
        config: CliffConfig,
        controls: Sequence[bytes] = (),
        fixed: int = 0,
        *,
        known: Dialect | None = None,
        count_many: CountMany = characters,
    ) -> None:
        self.dialect = known or dialect(written.dialect)
        self.count_many = count_many
        self.config = config
        self.written = written
        self.controls = list(controls)
        self.fixed = fixed
        self.run = Run(written.dialect, config, written, Counts(dialect(written.dialect)))
        self.compactor = Compactor(self.dialect, config, (), count_many)
        self.messages: list[Any] = list(written.messages)
        self.words = list(written.words)
        self.natives = [native(m, written.dialect) for m in self.messages]
        self._answers: list[Sent] = []

    def play(self) -> Run:
        whole = shape(self.natives)
        sizes = sorted({*whole.starts, len(self.messages)})
        late: list[tuple[Sent, float]] = []
        previous = 0
        for number, size in enumerate(sizes):
            if not size:
                continue
            code = self.controls[number % len(self.controls)] if self.controls else bytes(CONTROL_BYTES)
            self._before(code, previous, size)
            sent = self.ask(self.messages[:size], self.words)
            if code[0] >= 220:
                sent = self.reject(sent, 1 + code[0] % 5, code[0] % 2 == 0)
            if size < len(self.messages):
                self.answer(sent)
                reports, late = late, []
                for earlier, ratio in reports:
                    self.observe(earlier, ratio)
            ratio = 0.6 + (code[1] % 64) / 32
            if 128 <= code[1] < 224:
                self.observe(sent, ratio)
            elif code[1] >= 224:
                late.append((sent, ratio))
            previous = size
        return self.run

    def _before(self, code: bytes, previous: int, size: int) -> None:
        """What happens before the next request."""
        odd = code[3]
        fixed = self.fixed
        if odd >= 240:
            self.restart()
        elif odd >= 225:  # the tool list changes
            self.fixed += (-40, 60, 300)[odd % 3]
            self.fixed = max(0, self.fixed)
        elif odd >= 210:
            self.rebuild(size - 1)
        extra = code[2]
        if extra >= 200 and size - previous > 1:  # asked, and got no answer, while results come in
            for part in range(previous + 1, size):
                self.ask(self.messages[:part], self.words)
        elif extra >= 170:  # the last message was another one first
            edited = self.edited(extra)
            words = [(i, w) for i, w in self.words if i < size - 1] + [(size - 1, edited[1])]
            self.ask([*self.messages[: size - 1], edited[0]], words)
        elif extra >= 150 and previous:  # an older state of the session is looked at
            older = max(1, previous - extra % 5)
            # What was forced later would be forgotten, since that history is no more; and another fixed part
            # would act on the decisions that come after it.
            facts = self.compactor.facts
            if fixed == self.fixed and not any(f["kind"] == "forced" and f["at"] > older for f in facts):
                self.ask(self.messages[:older], self.words)

    def edited(self, code: int) -> tuple[dict[str, Any], str]:
        words = f"D-other: {'another thing ' * (code % 40)}".strip()
        message: dict[str, Any] = {"role": "user", "content": words}
        if self.run.name == "responses":
            message["type"] = "message"
        return message, words

    def altered(self, message: dict[str, Any]) -> dict[str, Any]:
        """The message with another text: of a result where it has one."""
        message = copy.deepcopy(message)
        stack: list[Any] = [message]
        while stack:
            value = stack.pop()
            for key in ("content", "output", "text", "thinking", "summary"):
                if not isinstance(value, dict) or key not in value:
                    continue
                if isinstance(value[key], str):
                    value[key] = f"altered {len(value[key])}: {value[key]}"
                    return message
                if isinstance(value[key], list):
                    stack.extend(reversed(value[key]))
        return message

    def _mark(self, last: int) -> None:
        """Move the cache marker as Claude Code does: to the newest message, whose text becomes a list."""
        if self.run.name != "anthropic":
            return
        for index, message in enumerate(self.messages[: last + 1]):
            content = message["content"]
            # (A merged block takes the form of its message.)
            if isinstance(content, str) and content and index % 3 == 0 and not self.config.merge_block:
                message["content"] = content = [{"type": "text", "text": content}]
            if isinstance(content, list) and content:
                content[-1].pop("cache_control", None)
                if index == last or index % 7 == 6:
                    content[-1]["cache_control"] = {"type": "ephemeral"}

    def answer(self, sent: Sent) -> None:
        """The model went on from this view."""
        sent.answered = True
        self._answers.append(sent)

    def restart(self) -> None:
        """Another process goes on, with the facts as JSON carries them."""
        facts = json.loads(json.dumps(self.compactor.facts))
        self.compactor = Compactor(self.dialect, self.config, facts, self.count_many)

    def rebuild(self, last: int) -> None:
        """The host builds all messages anew, with cache markers elsewhere."""
        self.messages = copy.deepcopy(self.messages)
        self._mark(last)

    def ask(self, history: list[Any], words: list[tuple[int, str]]) -> Sent:
        view = self.compactor.view(history, self.fixed)
        return self.note(history, words, view)

    def note(self, history: list[Any], words: list[tuple[int, str]], view: View, forced: bool = False) -> Sent:
        sent = seen(self.run, history, words, view, self.fixed, self.compactor.facts)
        sent.forced = sent.forced or forced
        sent.before = next(
            (
                earlier
                for earlier in reversed(self._answers)
                if earlier.size < sent.point and sent.natives[earlier.size].role == "model"
            ),
            None,
        )
        self.run.sent.append(sent)
        return sent

    def reject(self, sent: Sent, times: int, limit: bool) -> Sent:
        """The provider rejects a view, and the smaller ones, up to `times` times."""
        views: list[View | None] = [sent.view]
        for _ in range(times):
            told = int(sent.view.tokens * 0.9) if limit else None
            smaller = self.compactor.overflowed(sent.history, told)
            views.append(smaller)
            if smaller is None:
                break
            sent = self.note(sent.history, sent.words, smaller, forced=True)
        self.run.overflows.append(views)
        return sent

    def observe(self, sent: Sent, ratio: float) -> None:
        self.compactor.observe(sent.view, max(1, int(sent.view.estimate * ratio) + 50))

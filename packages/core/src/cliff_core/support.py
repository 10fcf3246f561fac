"""What the model no longer sees: names that its next call needs, and results that it asks for again.

The words are defined in `docs/support.md`; in short, for each request and the model step that answered it:

- **names** of a text: its words that are distinctive (`cliff_core.names`): paths, identifiers, versions, hashes.
- **needed**: the names in the argument values of the step's calls that stand in the history after the head and not in
  the head itself.
- **supported**: those of them that stand in the view, as the same word.
- **support** of a session: the mean of supported / needed over the requests that need any name.
- a **re-read**: a call of the step that repeats an earlier one (same tool, same arguments) whose result is no longer
  in the view; **re-issuable**: its call can be read off the view.

Work is proportional to the texts of the session and to what policies write: every message is read once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from operator import is_not
from typing import Any

from cliff_core.content import Message, ToolCall, ToolResult
from cliff_core.ledger import Meter
from cliff_core.names import leaves, names
from cliff_core.sequences import common
from cliff_core.signature import signature
from cliff_core.traces import Session
from cliff_core.turns import head_end


@dataclass(frozen=True, slots=True)
class Support:
    """One policy on one session."""

    requests: int = 0
    """Requests whose step needs at least one name."""
    needed: int = 0
    """Names needed, each once a request."""
    supported: int = 0
    """Of them in the view."""
    share_sum: float = 0.0
    """Sum over those requests of supported / needed."""
    repeats: int = 0
    """Calls that repeat an earlier one; the same under every policy."""
    rereads: int = 0
    """Of them those whose earlier result is not in the view."""
    reissuable: int = 0
    """Of these those whose call can be read off the view."""

    @property
    def share(self) -> float | None:
        """Support of the session; None where no request needs a name."""
        return self.share_sum / self.requests if self.requests else None

    def __add__(self, other: Support) -> Support:
        return Support(*(getattr(self, name) + getattr(other, name) for name in Support.__slots__))


@dataclass(frozen=True, slots=True)
class _Repeat:
    """A call that was made before."""

    call: ToolCall
    asked: int
    """Identity of the message that has the earlier call."""
    answered: int
    """Identity of the message that has its result."""
    result: str


@dataclass(frozen=True, slots=True)
class _Step:
    needed: frozenset[str]
    repeats: tuple[_Repeat, ...]


@dataclass(slots=True)
class Needs:
    """What each request of a session needs, whatever the policy. Made once a session."""

    steps: list[_Step]
    carriers: dict[str, set[int]]
    """Name -> identities of the session's messages that have it."""
    ids: frozenset[int]
    """Identities of the session's messages."""

    @classmethod
    def of(cls, session: Session, meter: Meter, beside: Iterable[str] = ()) -> Needs:
        """`meter` has parsed the session's messages; `beside`: texts of system prompt and tools that are sent beside
        them, which count as the head."""
        parsed = [meter.parsed(message) for message in session.messages]
        ids = [id(message) for message in session.messages]
        carriers: dict[str, set[int]] = {}
        first: dict[str, int] = {name: -1 for text in beside for name in names(text)}
        of_text: dict[str, list[str]] = {}
        for index, message in enumerate(parsed):
            for text in texts(message):
                if text not in of_text:
                    of_text[text] = names(text)
                for name in of_text[text]:
                    first.setdefault(name, index)
                    carriers.setdefault(name, set()).add(ids[index])
        end = head_end(parsed)
        head = len(parsed) if end is None else end
        history = _Repeats()
        steps: list[_Step] = []
        known = 0
        for request in session.requests:
            at = request.at
            for index in range(known, min(at, len(parsed))):
                history.take(ids[index], parsed[index])
            known = max(known, at)
            step = at
            while step < len(parsed) and parsed[step].role == "model":
                step += 1
            calls = [c for message in parsed[at:step] for c in message.contents if isinstance(c, ToolCall)]
            words: set[str] = set()
            for call in calls:
                for value in values(call):
                    words.update(of_text.get(value) or names(value))
            # (A name that the step itself has first is new: nothing could have shown it.)
            needed = frozenset(word for word in words if head <= first.get(word, at) < at)
            steps.append(_Step(needed, tuple(r for call in calls if (r := history.repeat(call)) is not None)))
        return cls(steps, carriers, frozenset(ids))


class _Repeats:
    """Calls and results of a history as it grows."""

    def __init__(self) -> None:
        self._answered: dict[tuple[str, str], _Repeat] = {}
        self._by_id: dict[str, tuple[int, ToolCall]] = {}
        self._waiting: list[tuple[int, ToolCall]] = []  # calls of this turn, in formats that pair by position
        self._role = ""

    def take(self, one: int, message: Message) -> None:
        """The next message; `one` is its identity."""
        if message.role == "model" and self._role != "model":
            self._waiting.clear()
        self._role = message.role
        for content in message.contents:
            if isinstance(content, ToolCall):
                if content.id:
                    self._by_id[content.id] = (one, content)
                elif not content.hosted:
                    self._waiting.append((one, content))
            elif isinstance(content, ToolResult) and content.text.strip():
                found = self._by_id.get(content.call_id) if content.call_id else None
                if found is None and not content.call_id and self._waiting:
                    found = self._waiting.pop(0)
                if found is not None:
                    self._answered[_key(found[1])] = _Repeat(found[1], found[0], one, content.text.strip())

    def repeat(self, call: ToolCall) -> _Repeat | None:
        return self._answered.get(_key(call))


def _key(call: ToolCall) -> tuple[str, str]:
    arguments = _object(call.arguments)
    return call.name, json.dumps(arguments, sort_keys=True, default=str)


def _object(arguments: Mapping[str, Any] | str) -> Any:
    if isinstance(arguments, str) and arguments.lstrip().startswith("{"):
        try:
            return json.loads(arguments, strict=False)
        except (ValueError, RecursionError):
            return arguments
    return dict(arguments) if isinstance(arguments, Mapping) else arguments


def values(call: ToolCall) -> Iterator[str]:
    """The texts among a call's argument values, at any depth; names of arguments are none."""
    return leaves(_object(call.arguments))


def texts(message: Message) -> Iterator[str]:
    """What can be read of a message."""
    for content in message.contents:
        if isinstance(content, ToolCall):
            yield from values(content)
        elif content.text:
            yield content.text
        if isinstance(content, ToolResult):
            yield from (opaque.text for opaque in content.opaque if opaque.text)


class Watch:
    """Follows one policy through one session: `see` each request's view in turn, then read `support`. Work per view is
    proportional to what of it differs from the one before."""

    def __init__(self, needs: Needs, meter: Meter) -> None:
        self.support = Support()
        self._needs, self._meter = needs, meter
        self._request = 0
        self._view: list[Any] = []
        self._there: set[int] = set()  # identities of the messages in view
        self._prosy: set[int] = set()  # of them the policy's own that have texts
        # Of the policy's own messages, by identity. They are kept, so that no other can get theirs.
        self._own: dict[int, tuple[Any, list[str]]] = {}  # with texts that are neither a call's nor a result
        self._names: dict[str, set[int]] = {}
        self._results: dict[str, set[int]] = {}
        self._calls: dict[tuple[str, str], set[int]] = {}

    def see(self, messages: Sequence[Any]) -> None:
        """The next request sends `messages`."""
        step = self._needs.steps[self._request]
        self._request += 1
        self._take(list(messages))
        supported = sum(1 for name in step.needed if self._has_name(name))
        rereads = reissuable = 0
        for repeat in step.repeats:
            if not self._has_result(repeat):
                rereads += 1
                reissuable += repeat.asked in self._there or self._has_call(repeat.call)
        needed = len(step.needed)
        if needed or step.repeats:
            share = supported / needed if needed else 0.0
            self.support += Support(int(needed > 0), needed, supported, share, len(step.repeats), rereads, reissuable)

    def _take(self, view: list[Any]) -> None:
        old, same = self._view, common(self._view, view)
        # Equal messages may be other objects: a block is made anew for each view, and two messages of a session can be
        # alike. What is known goes by identity.
        for index in list(compress(range(same), map(is_not, old, view))):
            if id(old[index]) in self._own and id(view[index]) not in self._needs.ids:
                view[index] = old[index]
            else:
                self._leave(old[index])
                self._enter(view[index])
        for message in old[same:]:
            self._leave(message)
        for message in view[same:]:
            self._enter(message)
        self._view = view

    def _leave(self, message: Any) -> None:
        self._there.discard(id(message))
        self._prosy.discard(id(message))

    def _enter(self, message: Any) -> None:
        one = id(message)
        self._there.add(one)
        if one not in self._needs.ids:
            if one not in self._own:
                self._read(message)
            if self._own[one][1]:
                self._prosy.add(one)

    def _read(self, message: Any) -> None:
        """Note what a message of the policy's own shows."""
        one, prose = id(message), list[str]()
        self._own[one] = (message, prose)
        parsed = self._meter.parsed(message)
        for text in texts(parsed):
            for name in names(text):
                self._names.setdefault(name, set()).add(one)
        for content in parsed.contents:
            if isinstance(content, ToolCall):
                self._calls.setdefault(_key(content), set()).add(one)
            elif isinstance(content, ToolResult):
                self._results.setdefault(content.text.strip(), set()).add(one)
            elif content.text:
                prose.append(content.text)

    def _has_name(self, name: str) -> bool:
        return self._any_there(self._needs.carriers[name]) or self._any_there(self._names.get(name))

    def _any_there(self, ids: set[int] | None) -> bool:
        return ids is not None and not ids.isdisjoint(self._there)

    def _has_result(self, repeat: _Repeat) -> bool:
        return (
            repeat.answered in self._there
            or self._any_there(self._results.get(repeat.result))
            or any(repeat.result in text for text in self._prose())
        )

    def _has_call(self, call: ToolCall) -> bool:
        """Whether a call can be issued again from what the policy's own messages show: the call itself; its complete
        signature; or each of its argument values whole in one text, as it is or as JSON has it."""
        if self._any_there(self._calls.get(_key(call))):
            return True
        prose = list(self._prose())
        if not prose:
            return False
        short = signature(call, MOST_SIGNATURE)
        if short.complete and any(f">{short.text}</call" in text for text in prose):
            return True
        wanted = [
            (value.strip(), json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1])
            for value in values(call)
            if value.strip()
        ]
        return bool(wanted) and any(all(any(form in text for form in forms) for forms in wanted) for text in prose)

    def _prose(self) -> Iterator[str]:
        """Texts of blocks and summaries in view."""
        for one in sorted(self._prosy):
            yield from self._own[one][1]


MOST_SIGNATURE = 10_000
"""Characters of a signature that is looked for whole."""

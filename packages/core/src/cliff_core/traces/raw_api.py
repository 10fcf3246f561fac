"""Recorded requests and responses of the three APIs:

- lines `{"request": {…}, "response": {…}}` (our proxy), with the bodies in `body` or `body_raw` (claude-trace), as
  objects or as text, streamed or not. Ours say in `cliff` whether all of the request was sent (`whole`): where it was
  not, the usage is that of something else, and is not taken;
- the OpenHands SDK's log of a request (`messages` or `input`, `tools`, `response`), and the folder of such files, which
  is read as one recording.

Requests are put into sessions by their messages: one continues a session if it begins with that session's
messages (the last may have changed, as clients add reminders there), or names its response
(`previous_response_id`). A session has the messages of its last request and the answer to it. Requests that
were refused (`error`, a status of 400 and more) or are none of a model's are left out; so are token counts.

A client that compacts starts a new session here: its new history does not begin with the old one.
"""

from __future__ import annotations

import hashlib
import heapq
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from cliff_core.dialects import dialect
from cliff_core.traces import sse
from cliff_core.traces.history import History
from cliff_core.traces.reasoning import spread
from cliff_core.traces.session import Request, Session, Usage
from cliff_core.traces.source import MalformedError, Sample, document, guarded, items, objects, option
from cliff_core.traces.usage import usage

NAME = "raw-api"
EXPECTS = "recorded API requests (JSON objects with `request` and `response`, or `messages` and `response`)"


def matches(sample: Sample) -> bool:
    records = sample.first if isinstance(sample.first, list) else sample.records
    return bool(records) and all(_is_pair(record) for record in records[:1])


def _is_pair(record: Any) -> bool:
    if not isinstance(record, dict) or "response" not in record:
        return False
    return isinstance(record.get("request"), dict) or any(
        isinstance(record.get(key), list) for key in ("messages", "input")
    )


def is_folder(path: Path) -> bool:
    """Whether a folder is a recording of one request in each file."""
    return any(_is_log(file) for file in sorted(path.glob("*.json"))[:3])


def _is_log(file: Path) -> bool:
    try:
        record = document(file)
    except (MalformedError, OSError, RecursionError):
        return False
    return isinstance(record, dict) and "request" not in record and _is_pair(record)


def read(path: Path) -> Iterator[Session]:
    return guarded(path, EXPECTS, _read(path))


def _read(path: Path) -> Iterator[Session]:
    recording = _Recording()
    broken: MalformedError | None = None
    try:
        for where, record in _folder(path) if path.is_dir() else items(path):
            if not _is_pair(record):
                raise MalformedError(where, "no request with its response")
            recording.take(record)
    except MalformedError as error:
        broken = error  # what is whole before it are sessions
    for number, conversation in enumerate(recording.conversations, 1):
        yield conversation.session(path, number)
    if broken is not None:
        raise broken


def _folder(path: Path) -> Iterator[tuple[str, Any]]:
    found: list[tuple[float, str, Any]] = []
    for file in sorted(path.glob("*.json")):
        try:
            record = document(file)
        except MalformedError as error:
            raise MalformedError(file.name, str(error)) from error
        if _is_pair(record):
            at = record.get("timestamp")
            found.append((at if isinstance(at, (int, float)) else 0.0, file.name, record))
    for _, name, record in sorted(found, key=lambda one: one[:2]):
        yield name, record


@dataclass(slots=True)
class _Exchange:
    """One answered request, in any of the recorded forms."""

    dialect: str
    messages: list[dict[str, Any]]
    answer: list[dict[str, Any]]
    usage: Usage | None
    model: str | None
    system: Any
    tools: list[dict[str, Any]] | None
    identity: str | None
    previous: str | None


class _Place(NamedTuple):
    """A history as a node of the tree of all histories, in which those that begin alike share their beginning."""

    node: int
    before: int = 0  # the node without the last message
    spoken: bool = False  # whether the model has a part in the messages before the last one
    speaks: bool = False  # whether it has a part in any of them

    @property
    def waits(self) -> tuple[int, bool] | None:
        """The node that a request must go through to go on with this history, and whether it must go beyond: the last
        message may have changed once the model has spoken before it. None for a history without a message."""
        if not self.before:
            return None
        return (self.before, True) if self.spoken else (self.node, False)


@dataclass(slots=True)
class _Conversation:
    dialect: str
    place: _Place
    messages: list[dict[str, Any]] = field(default_factory=list)
    answer: list[dict[str, Any]] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    model: str | None = None
    system: Any = None
    tools: list[dict[str, Any]] | None = None

    def add(self, exchange: _Exchange, place: _Place) -> None:
        self.requests.append(Request(len(exchange.messages), exchange.usage, exchange.model))
        self.place, self.messages, self.answer = place, exchange.messages, exchange.answer
        self.model = exchange.model or self.model
        self.system = exchange.system or self.system
        self.tools = exchange.tools or self.tools

    def session(self, path: Path, number: int) -> Session:
        history = History()
        history.messages = self.messages + self.answer
        history.requests = self.requests
        return history.session(
            path,
            NAME,
            self.dialect,
            name=str(number),
            model=self.model,
            tools=self.tools,
            system=self.system,
        )


class _Recording:
    def __init__(self) -> None:
        self.conversations: list[_Conversation] = []
        self._by_response: dict[str, int] = {}  # its number in `conversations`
        self._tree: dict[tuple[int, bytes], int] = {}  # a node and the next message's digest -> the next; 0: the root
        self._waiting: dict[tuple[int, bool], list[int]] = {}  # `waits` -> heap of numbers of conversations, negated

    def take(self, record: dict[str, Any]) -> None:
        exchange = _exchange(record)
        if exchange is None:
            return
        number = self._by_response.get(exchange.previous or "", -1)
        if number >= 0:  # only what is new was sent
            conversation = self.conversations[number]
            added = conversation.answer + exchange.messages
            exchange.messages = conversation.messages
            exchange.messages += added
            *_, place = self._places(conversation.place, conversation.dialect, added)
        else:
            places = list(self._places(_Place(self._next(0, exchange.dialect)), exchange.dialect, exchange.messages))
            place = places[-1]
            number = self._continued(places)
            if number < 0:
                number = len(self.conversations)
                self.conversations.append(_Conversation(exchange.dialect, places[0]))
            conversation = self.conversations[number]
        waited = conversation.place.waits
        conversation.add(exchange, place)
        if place.waits is not None and place.waits != waited:
            heapq.heappush(self._waiting.setdefault(place.waits, []), -number)
        if exchange.identity:
            self._by_response[exchange.identity] = number

    def _next(self, node: int, message: str) -> int:
        known = hashlib.blake2b(message.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        return self._tree.setdefault((node, known), len(self._tree) + 1)

    def _places(self, place: _Place, name: str, messages: list[dict[str, Any]]) -> Iterator[_Place]:
        """`place`, and where one is after each of the messages."""
        known = dialect(name)
        yield place
        for message in messages:
            node = self._next(place.node, json.dumps(known.canonical(message), sort_keys=True, default=str))
            # Responses items without a role are mostly the model's.
            speaks = place.speaks or message.get("role") in ("assistant", None)
            place = _Place(node, place.node, place.speaks, speaks)
            yield place

    def _continued(self, places: list[_Place]) -> int:
        """The number of the newest session that a request goes on with, by the places on its way; -1: none."""
        ends = [(place.node, False) for place in places]
        passes = [(place.node, True) for place in places[:-1]]
        return max((self._newest(waits) for waits in ends + passes if waits in self._waiting), default=-1)

    def _newest(self, waits: tuple[int, bool]) -> int:
        numbers = self._waiting[waits]
        while numbers and self.conversations[-numbers[0]].place.waits != waits:
            heapq.heappop(numbers)  # it has gone on since
        if not numbers:
            del self._waiting[waits]
            return -1
        return -numbers[0]


def _body(side: Any) -> dict[str, Any]:
    """The JSON body of a request or a response."""
    body = side
    if isinstance(side, dict):
        for key in ("body", "body_raw"):
            if side.get(key):
                body = side[key]
                break
    if isinstance(body, str):
        try:
            body = json.loads(body)
        except ValueError:
            body = sse.response(body)
    return body if isinstance(body, dict) else {}


def _exchange(record: dict[str, Any]) -> _Exchange | None:
    asked = record.get("request")
    request = _body(asked) if isinstance(asked, dict) else record
    response = _body(record.get("response"))
    status = option(record.get("response"), "status_code", int) or option(record.get("response"), "status", int)
    if (status or 0) >= 400 or response.get("error") or not response:
        return None
    messages, given = option(request, "messages", list), request.get("input")
    if messages is None and isinstance(given, str):
        messages = [{"role": "user", "content": given}]
    messages = messages if messages is not None else option(request, "input", list)
    name, answer = _answer(response)
    if messages is None or not name:
        return None
    sent = record.get("cliff")
    whole = not isinstance(sent, dict) or sent.get("whole", sent.get("action") in _WHOLE) is True
    reported = usage(response.get("usage"))
    tools = option(request, "tools", list) or option(option(request, "kwargs", dict), "tools", list)
    system = request.get("system") if name == "anthropic" else request.get("instructions")
    return _Exchange(
        dialect=name,
        messages=objects(messages),
        answer=spread(answer, reported.reasoning_tokens if reported else None),
        usage=reported if whole else None,
        model=option(response, "model", str) or option(request, "model", str),
        system=system if isinstance(system, (str, list)) and system else None,
        tools=objects(tools) or None,
        identity=option(response, "id", str),
        previous=option(request, "previous_response_id", str),
    )


_WHOLE = frozenset({"pass", "bypass", "shadow", "failed"})
"""What our proxy did where it sent a request as it came (its recordings before `whole`)."""


def _answer(response: dict[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    """The dialect that a response speaks (empty: none), and its messages."""
    choices = objects(response.get("choices"))
    if choices:
        message = option(choices[0], "message", dict)
        plain = {k: v for k, v in (message or {}).items() if v is not None and k != "provider_specific_fields"}
        return ("chat", [{"content": "", **plain}]) if message else ("", [])
    if isinstance(response.get("output"), list):
        return "responses", objects(response["output"])
    if response.get("type") == "message" and isinstance(response.get("content"), list):
        return "anthropic", [{"role": "assistant", "content": response["content"]}]
    return "", []

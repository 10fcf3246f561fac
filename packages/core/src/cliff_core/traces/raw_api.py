"""Recorded requests and responses of the three APIs:

- lines `{"request": {…}, "response": {…}}` (our proxy), with the bodies in `body` or `body_raw` (claude-trace), as
  objects or as text, streamed or not;
- the OpenHands SDK's log of a request (`messages` or `input`, `tools`, `response`), and the folder of such files, which
  is read as one recording.

Requests are put into sessions by their messages: one continues a session if it begins with that session's
messages (the last may have changed, as clients add reminders there), or names its response
(`previous_response_id`). A session has the messages of its last request and the answer to it. Requests that
were refused (`error`, a status of 400 and more) or are none of a model's are left out; so are token counts.

A client that compacts starts a new session here: its new history does not begin with the old one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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


@dataclass(slots=True)
class _Conversation:
    dialect: str
    keys: list[str] = field(default_factory=list)
    messages: list[dict[str, Any]] = field(default_factory=list)
    answer: list[dict[str, Any]] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    model: str | None = None
    system: Any = None
    tools: list[dict[str, Any]] | None = None

    def add(self, exchange: _Exchange, keys: list[str]) -> None:
        self.requests.append(Request(len(exchange.messages), exchange.usage, exchange.model))
        self.keys, self.messages, self.answer = keys, exchange.messages, exchange.answer
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
        self._by_response: dict[str, _Conversation] = {}

    def take(self, record: dict[str, Any]) -> None:
        exchange = _exchange(record)
        if exchange is None:
            return
        conversation = self._by_response.get(exchange.previous or "")
        if conversation is not None:
            exchange.messages = conversation.messages + conversation.answer + exchange.messages
        keys = _keys(exchange)
        if conversation is None:
            conversation = self._continued(exchange.dialect, keys)
        if conversation is None:
            conversation = _Conversation(exchange.dialect)
            self.conversations.append(conversation)
        conversation.add(exchange, keys)
        if exchange.identity:
            self._by_response[exchange.identity] = conversation

    def _continued(self, name: str, keys: list[str]) -> _Conversation | None:
        """The newest session that the request goes on with."""
        for conversation in reversed(self.conversations):
            common = len(conversation.keys)
            if conversation.dialect != name or common > len(keys) or not common:
                continue
            if conversation.keys[: common - 1] != keys[: common - 1]:
                continue
            if conversation.keys[common - 1] == keys[common - 1] or _answered(conversation.messages[: common - 1]):
                return conversation
        return None


def _answered(messages: list[dict[str, Any]]) -> bool:
    """Whether the model has a part in these messages (Responses items without a role are mostly its)."""
    return any(message.get("role") in ("assistant", None) for message in messages)


def _keys(exchange: _Exchange) -> list[str]:
    known = dialect(exchange.dialect)
    return [json.dumps(known.canonical(message), sort_keys=True, default=str) for message in exchange.messages]


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
    reported = usage(response.get("usage"))
    tools = option(request, "tools", list) or option(option(request, "kwargs", dict), "tools", list)
    system = request.get("system") if name == "anthropic" else request.get("instructions")
    return _Exchange(
        dialect=name,
        messages=objects(messages),
        answer=spread(answer, reported.reasoning_tokens if reported else None),
        usage=reported,
        model=option(response, "model", str) or option(request, "model", str),
        system=system if isinstance(system, (str, list)) and system else None,
        tools=objects(tools) or None,
        identity=option(response, "id", str),
        previous=option(request, "previous_response_id", str),
    )


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

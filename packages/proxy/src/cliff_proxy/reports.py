"""What a reply reports, read from a decoded copy while its bytes go by: usage, its end, an error."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import msgspec

from cliff_core.overflow import Rejection
from cliff_proxy import errors, events
from cliff_proxy.bodies import MAX_COPY, CannotDecode, Decoding
from cliff_proxy.engine import Api, Usage

_WORTH_READING = re.compile(
    rb'"(?:(usage"\s*:\s*\{(?!.*"(?:error"|type"\s*:\s*"response\.)))|error"\s*:\s*[{"]|'
    rb'type"\s*:\s*"(?:error|message_stop|response\.(?:completed|incomplete|failed))")',
    re.DOTALL,
)
"""In an event that reports something, as is `[DONE]`; the first group: it reports usage alone. Quotes within a text are
escaped: no text of a model looks so."""

_ACCEPTED = b"event: message_start\n"
"""Anthropic's first event: the prompt was accepted."""

_OPENING = {"ping", "response.created", "response.queued", "response.in_progress"}
"""Events that come before a prompt is accepted. (Anthropic's first one reports its tokens: it is accepted by then.)"""

_ENDS = {"message_stop", "response.completed", "response.incomplete", "response.failed"}


class Report:
    """Reads one reply. Nothing here raises: a reply that cannot be read reports nothing."""

    def __init__(self, api: Api, content_type: str, codings: Sequence[str], keep: bool = False) -> None:
        """`keep`: all of the decoded body is kept in `copy`."""
        self.complete = False
        """The last event of a stream is there."""
        self.begun = False
        """The upstream took the prompt: an event went by that comes after that only, or the reply is no stream."""
        self.rejection: Rejection | None = None
        """The first thing that the stream says is that the prompt was too long."""
        self.failed = False
        """The stream tells of an error."""
        self.streams = "event-stream" in content_type.lower()
        self._api = api
        self._figures: dict[str, int] = {}
        self._reported = False
        self._encoded = bool(codings)
        self._glanced_at = b""
        self._unread: list[bytes] = []
        """Events that report usage."""
        self._splitter: events.Splitter | None = None
        self._kept: bytearray | None = bytearray() if keep else None
        self._whole: bytearray | None = bytearray() if not self.streams else None
        self._decoding: Decoding | None = None
        """None: nothing is decoded."""
        self._lost = False
        """Nothing more is read."""
        if codings:
            try:
                self._decoding = Decoding(codings)
            except CannotDecode:
                self._lost = True
        self.begun = not self.streams or self._lost

    def taken(self, data: bytes) -> bool:
        """Whether the first bytes of the body say at a glance that the prompt was taken; `catch_up` reads them."""
        if self._encoded or self.begun or not data.startswith(_ACCEPTED):
            return False
        self.begun, self._glanced_at = True, data
        return True

    def catch_up(self) -> None:
        """Read what `taken` has left."""
        if data := self._glanced_at:
            self.begun, self._glanced_at = False, b""
            self.feed(data)

    def feed(self, data: bytes) -> None:
        """The next bytes of the body, as they came."""
        if self._lost:
            return
        if self._decoding is not None:
            try:
                data = self._decoding.feed(data)
            except CannotDecode:
                self._give_up()
                return
        if self._kept is not None:
            self._kept += data
        if self._whole is not None:
            self._whole += data
            if len(self._whole) > MAX_COPY:
                self._give_up()
            return
        if self._splitter is None:
            self._splitter = events.Splitter(MAX_COPY)
        for event in self._splitter.feed(data):
            if not self.begun:
                if event.startswith(_ACCEPTED):
                    self.begun = True
                    self._put_off(event)
                else:
                    self._read(event)
            elif b"[DONE]" in event:
                self._read(event)
            elif (found := _WORTH_READING.search(event)) is not None:
                if found[1] is not None:
                    self._put_off(event)
                else:
                    self._read(event)
        if self._splitter.lost:
            self._give_up()

    def _put_off(self, event: bytes) -> None:
        """An event that reports usage is read later: most streams have two. Of many the newest is kept, which includes
        what earlier ones said; the first has what Anthropic reports of the prompt."""
        if self._unread:
            del self._unread[1:]
        self._unread.append(event)

    def end(self) -> None:
        """The body is complete. Takes a few milliseconds for a long one that is no stream."""
        if self._whole:
            value = _json(bytes(self._whole))
            self._whole = None
            if isinstance(value, dict):
                self._take_usage(value)
        elif self._splitter is not None and not self._lost and (event := self._splitter.last()):
            self._read(event)

    @property
    def size(self) -> int:
        """Bytes that `end` has to read."""
        return len(self._whole or b"")

    @property
    def copy(self) -> bytes | None:
        """The decoded body so far, where it is kept."""
        return bytes(self._kept) if self._kept is not None else None

    @property
    def body(self) -> bytes:
        """The decoded body so far, of a reply that is no stream."""
        return bytes(self._whole or b"")

    def _give_up(self) -> None:
        self.begun = self._lost = True
        self._whole = self._kept = None

    def _read(self, event: bytes) -> None:
        data = events.data(event)
        if data == b"[DONE]":
            self.begun = self.complete = True
        elif data:  # else a comment, which only keeps the connection alive
            self._read_data(_json(data))

    def _read_data(self, value: Any) -> None:
        if not isinstance(value, dict):
            self.begun = True
            return
        kind = value.get("type")
        if kind in {"error", "response.failed"} or (kind is None and value.get("error")):
            self.failed = True
            if not self.begun:
                self.rejection = self.rejection or errors.event_rejection(value)
                self.begun = self.rejection is None
        elif kind not in _OPENING:
            self.begun = True
        self._take_usage(value)
        self.complete = self.complete or kind in _ENDS

    def _take_usage(self, reply: dict[str, Any]) -> None:
        """Usage lies at the top (all APIs), in `message` (Anthropic's first event) or `response` (Responses)."""
        for place in (reply, reply.get("message"), reply.get("response")):
            usage = place.get("usage") if isinstance(place, dict) else None
            if isinstance(usage, dict):
                for name, value in _figures(usage).items():  # later ones include earlier ones, or are left at 0
                    self._figures[name] = max(value, self._figures.get(name, 0))
                self._reported = True

    @property
    def usage(self) -> Usage | None:
        """What was reported so far, added up; None if nothing was."""
        for event in self._unread:  # two at most
            value = _json(events.data(event))
            if isinstance(value, dict):
                self._take_usage(value)
        self._unread.clear()
        if not self._reported:
            return None
        found = self._figures
        if self._api == "anthropic":
            read, written = found.get("cache_read_input_tokens", 0), found.get("cache_creation_input_tokens", 0)
            whole = found.get("input_tokens", 0) + read + written
            return Usage(whole, read, written, found.get("output_tokens", 0))
        whole = found.get("prompt_tokens", found.get("input_tokens", 0))
        output = found.get("completion_tokens", found.get("output_tokens", 0))
        return Usage(whole, found.get("cached_tokens", 0), found.get("cache_write_tokens", 0), output)


def _figures(usage: dict[str, Any]) -> dict[str, int]:
    """The whole numbers of a usage object, those of its details of the prompt among them."""
    found = {}
    for key, value in usage.items():
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            found[key] = value
        elif isinstance(value, dict) and key in {"prompt_tokens_details", "input_tokens_details"}:
            found |= _figures(value)
    return found


def _json(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        pass
    try:
        return json.loads(data)  # takes lone surrogates, too
    except (ValueError, RecursionError):
        return None

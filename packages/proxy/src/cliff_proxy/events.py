"""Server-sent events as they go by: cut out of the bytes of a stream, never put together again."""

from __future__ import annotations

import re

_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_LINE = re.compile(rb"\r\n|\n|\r")


class Splitter:
    """Collects bytes until an event (its lines, without the blank one) is complete."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rest = b""
        self.lost = False
        """An event was longer than the limit: nothing more is read of this stream."""

    def feed(self, data: bytes) -> list[bytes]:
        """The events that these bytes complete."""
        if self.lost:
            return []
        searched = max(len(self._rest) - 3, 0)
        rest = self._rest + data
        found: list[bytes] = []
        if b"\r" in rest:
            start = 0
            while end := _END.search(rest, max(start, searched)):
                found.append(rest[start : end.start()])
                start = end.end()
            rest = rest[start:]
        elif rest.find(b"\n\n", searched) >= 0:  # as nearly everybody writes it, and faster
            *found, rest = rest.split(b"\n\n")
        self._rest = rest
        if len(rest) > self._limit:
            self.lost, self._rest = True, b""
        return found

    def last(self) -> bytes:
        """What is left at the end of the stream: an event whose blank line is missing."""
        rest, self._rest = self._rest, b""
        return rest


def data(event: bytes) -> bytes:
    """The data of an event; empty for a comment."""
    lines = _LINE.split(event) if b"\r" in event else event.split(b"\n")
    values = [line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:")]
    return values[0] if len(values) == 1 else b"\n".join(values)

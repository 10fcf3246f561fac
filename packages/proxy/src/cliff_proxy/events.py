"""Server-sent events as they go by: cut out of the bytes of a stream, never put together again."""

from __future__ import annotations

import re
from collections.abc import Sequence

_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")


class Splitter:
    """Collects bytes and yields each event (its lines, without the blank one) as it is complete."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rest = b""
        self.lost = False
        """An event was longer than the limit: nothing more is read of this stream."""

    def feed(self, data: bytes) -> Sequence[bytes]:
        """The events that these bytes complete."""
        if self.lost:
            return ()
        if not self._rest and data.endswith(b"\n\n") and b"\r" not in data:  # whole events, as most servers write them
            return data[:-2].split(b"\n\n")
        found = []
        searched = max(len(self._rest) - 3, 0)
        self._rest += data
        start = 0
        while end := _END.search(self._rest, max(start, searched)):
            found.append(self._rest[start : end.start()])
            start = end.end()
        self._rest = self._rest[start:]
        if len(self._rest) > self._limit:
            self.lost, self._rest = True, b""
        return found

    def last(self) -> bytes:
        """What is left at the end of the stream: an event whose blank line is missing."""
        rest, self._rest = self._rest, b""
        return rest


def data(event: bytes) -> bytes:
    """The data of an event; empty for a comment."""
    if event.count(b"data:") == 1 and b"\r" not in event:
        before, _, value = event.partition(b"data:")
        if not before or before.endswith(b"\n"):
            return value.partition(b"\n")[0].removeprefix(b" ")
    lines = re.split(rb"\r\n|\n|\r", event)
    values = [line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:")]
    return b"\n".join(values)

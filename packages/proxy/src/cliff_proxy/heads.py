"""Heads of requests. One that differs from the one before it in nothing but its length is not read again.

A client sends the same dozens of headers with each request of a session. What they say, and what follows from it (where
the request goes, what its upstream is told), is found out once for a connection.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from cliff_proxy.headers import Fields, by_name

DIGITS = 15
"""Of a length, at most, for it to be told at a glance."""

_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,%d})(?=\r\n)" % DIGITS, re.IGNORECASE)

_NOT_PLAIN = frozenset({b"expect", b"transfer-encoding", b"upgrade"})
"""What has to be looked at for each request."""


class Head:
    """What a request says before its body, but for the body's length: the same for all requests that say the same."""

    __slots__ = ("fields", "found", "keep_alive", "method", "target", "values", "version", "websocket")

    def __init__(self, method: str, target: str, version: str, fields: Fields, keep_alive: bool) -> None:
        self.method = method
        self.target = target
        """As it came, undecoded; bytes that are no UTF-8 as surrogates."""
        self.version = version
        """`1.0` or `1.1`."""
        self.fields = fields
        """As they came, without Content-Length."""
        self.values = by_name(fields)
        self.keep_alive = keep_alive
        """Whether the connection can take another request after one with this head."""
        self.websocket = False
        """The client wants to go on with a WebSocket."""
        self.found: dict[str, Any] = {}
        """For who answers: what follows from all this, and need not be found out for each request."""


class Pattern(NamedTuple):
    """A head as it came, to tell others by that say the same."""

    before: bytes
    """Up to the digits of its length."""
    behind: bytes
    """From there to its end."""
    head: Head

    @classmethod
    def of(cls, raw: bytes, head: Head) -> Pattern | None:
        """None for one whose requests are not that plain."""
        found = list(_LENGTH.finditer(raw))
        if len(found) != 1 or not head.keep_alive or not head.values.keys().isdisjoint(_NOT_PLAIN):
            return None
        start, end = found[0].span(1)
        return cls(raw[:start], raw[end:], head)

    def length(self, data: bytes | bytearray, start: int, size: int) -> tuple[int, int] | None:
        """Where the body begins in the first `size` bytes of `data`, and its length; None where another head stands at
        `start`."""
        before, behind, _ = self
        if not data.startswith(before, start, size):
            return None
        start += len(before)
        end = data.find(b"\r", start, min(start + DIGITS + 1, size))
        if end < 0 or not data.startswith(behind, end, size):
            return None
        digits = data[start:end]
        return (end + len(behind), int(digits)) if digits.isdigit() else None

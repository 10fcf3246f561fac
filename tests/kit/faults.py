"""What can go wrong with a reply.

`after` counts pieces of the reply that are sent first. A stream has one piece an event. A reply in
one JSON body has two, its halves. None means before the status line. It never covers the whole
reply: a fault that comes after the last piece comes before it instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Fault:
    """The base of all faults."""


@dataclass(frozen=True)
class Status(Fault):
    """An HTTP error. Without a body of its own it has the shape of the API that was called."""

    code: int
    body: Any = None
    """JSON, or a string that is sent as it stands."""
    message: str | None = None
    retry_after: float | None = None
    """Seconds, as a `retry-after` header."""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Reset(Fault):
    """The connection breaks."""

    after: int | None = None
    half: bool = False
    """Half of the next piece is sent, too."""
    clean: bool = False
    """Closed (FIN) without the end of the body, in place of reset (RST)."""


@dataclass(frozen=True)
class Stall(Fault):
    """Silence: for `seconds`, then the reply goes on; without them, until the client gives up."""

    after: int | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Truncate(Fault):
    """The reply ends early, but properly as HTTP: no last events, or half a JSON body."""

    after: int = 1
    half: bool = True
    """Half of the next piece is sent, too."""


@dataclass(frozen=True)
class Malformed(Fault):
    """The JSON of one event (number `after`, from 0), or of the body, breaks off in the middle."""

    after: int = 0


@dataclass(frozen=True)
class StreamError(Fault):
    """An error event in the stream; to a client that does not stream, an HTTP error."""

    after: int = 1
    message: str = "Overloaded"
    type: str = "overloaded_error"
    code: str | None = None
    status: int = 529


@dataclass(frozen=True)
class Gzip(Fault):
    """The reply is compressed, whatever the client accepts."""


@dataclass(frozen=True)
class Overflow(Fault):
    """The prompt is rejected as too long, whatever its size. Names are those of `wordings`."""

    wording: str | None = None


FAULTS: dict[str, type[Fault]] = {
    "status": Status,
    "reset": Reset,
    "stall": Stall,
    "truncate": Truncate,
    "malformed": Malformed,
    "stream_error": StreamError,
    "gzip": Gzip,
    "overflow": Overflow,
}
"""By the name that a JSON script uses."""

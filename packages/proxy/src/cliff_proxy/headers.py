"""Which headers go on to the other side: order, spelling and duplicates as they came.

RFC 9110, 7.6.1: the headers of one connection, and those that `Connection` names, stay on it. A `Via` is not added: the
proxy belongs to the client, and servers that see one stop compressing their replies.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from multidict import CIMultiDict

Fields = Sequence[tuple[bytes, bytes]]
"""Names and values as they came."""

HOP_BY_HOP = frozenset(
    {
        *(b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade"),
        *(b"proxy-authenticate", b"proxy-authorization"),
    }
)
"""Of one connection, never forwarded in either direction. What frames a body is written anew."""

OWN_PREFIX = b"x-cliff"
"""Headers of a client that are meant for us."""

_NAMES_NONE = frozenset({b"keep-alive", b"Keep-Alive", b"close"})

_FORWARDED = HOP_BY_HOP | {b"host", b"expect"}
_REPLACED = _FORWARDED | {b"content-length", b"content-encoding"}


def to_upstream(fields: Fields, *, body_replaced: bool = False) -> list[tuple[bytes, bytes]]:
    """The headers of a request as the upstream gets them.

    Without `Host` (the upstream has its own), without `Expect` (the body is here already) and without ours. With
    `body_replaced` also without the length and the encoding of the body that came in.
    """
    dropped = _with_named(_REPLACED if body_replaced else _FORWARDED, fields)
    return [field for field in fields if (name := field[0].lower()) not in dropped and not name.startswith(OWN_PREFIX)]


def to_client(fields: Fields) -> list[tuple[bytes, bytes]]:
    """The headers of a reply as the client gets them: length, encoding and each `Set-Cookie` as they came."""
    dropped = _with_named(HOP_BY_HOP, fields)
    return [field for field in fields if field[0].lower() not in dropped]


def texts(fields: Iterable[tuple[bytes, bytes]]) -> CIMultiDict[str]:
    """Headers to look things up in."""
    try:
        return CIMultiDict([(name.decode("latin-1"), value.decode()) for name, value in fields])
    except UnicodeDecodeError:
        return CIMultiDict([(name.decode("latin-1"), _text(value)) for name, value in fields])


def _with_named(dropped: frozenset[bytes], fields: Fields) -> frozenset[bytes]:
    """Those, and the headers that `Connection` names."""
    for name, value in fields:
        if len(name) == 10 and name.lower() == b"connection" and value not in _NAMES_NONE:
            dropped |= {option.strip().lower() for option in value.split(b",")}
    return dropped


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")

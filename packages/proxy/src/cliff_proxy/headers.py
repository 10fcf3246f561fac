"""Which headers go on to the other side: order, spelling and duplicates as they came.

RFC 9110, 7.6.1: the headers of one connection, and those that `Connection` names, stay on it. A `Via` is not added: the
proxy belongs to the client, and servers that see one stop compressing their replies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Fields = Sequence[tuple[bytes, bytes]]
"""Names and values as they came."""

Values = Mapping[bytes, bytes]
"""Values by name, in lower case, as `by_name` has them."""

HOP_BY_HOP = frozenset(
    {
        *(b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade"),
        *(b"proxy-authenticate", b"proxy-authorization"),
    }
)
"""Of one connection, never forwarded in either direction. What frames a body is written anew."""

OWN_PREFIX = b"x-cliff"
"""Headers of a client that are meant for us."""

_FRAMING = frozenset({b"content-length"})
"""Which `Connection` cannot name: who reads the head needs it."""

_NAMES_NONE = frozenset({b"keep-alive", b"Keep-Alive", b"close"})

_FORWARDED = HOP_BY_HOP | {b"host", b"expect"}
_REPLACED = _FORWARDED | {b"content-encoding"}


def to_upstream(fields: Fields, values: Values, *, body_replaced: bool = False) -> list[tuple[bytes, bytes]]:
    """The headers of a request as the upstream gets them. `values`: the same `by_name`.

    Without `Host` (the upstream has its own), without `Expect` (the body is here already) and without ours. With
    `body_replaced` also without the encoding of the body that came in.
    """
    dropped = _with_named(_REPLACED if body_replaced else _FORWARDED, values)
    return [field for field in fields if (name := field[0].lower()) not in dropped and not name.startswith(OWN_PREFIX)]


def to_client(fields: Fields, values: Values) -> Fields:
    """The headers of a reply as the client gets them: length, encoding and each `Set-Cookie` as they came. `values`:
    the same `by_name`."""
    dropped = _with_named(HOP_BY_HOP, values)
    if dropped.isdisjoint(values):
        return fields
    return [field for field in fields if field[0].lower() not in dropped]


def by_name(fields: Fields) -> dict[bytes, bytes]:
    """Headers to look things up in; the values of one that stands there more than once are put together (RFC 9110,
    5.3)."""
    found: dict[bytes, bytes] = {}
    for name, value in fields:
        lower = name.lower()
        found[lower] = value if lower not in found else b"%b, %b" % (found[lower], value)
    return found


def text(value: bytes) -> str:
    """A value to be shown, or compared with one of ours."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _with_named(dropped: frozenset[bytes], values: Values) -> frozenset[bytes]:
    """Those, and the headers that `Connection` names."""
    named = values.get(b"connection", b"close")
    if named in _NAMES_NONE:
        return dropped
    return dropped | ({option.strip().lower() for option in named.split(b",")} - _FRAMING)

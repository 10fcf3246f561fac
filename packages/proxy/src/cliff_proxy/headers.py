"""Which headers go on to the other side: order, spelling and duplicates as they came.

RFC 9110, 7.6.1: the headers of one connection, and those that `Connection` names, stay on it. A `Via` is not added: the
proxy belongs to the client, and servers that see one stop compressing their replies.
"""

from __future__ import annotations

from collections.abc import Iterable

from multidict import CIMultiDict

RawHeaders = Iterable[tuple[bytes, bytes]]

HOP_BY_HOP = frozenset(
    {
        *("connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"),
        *("proxy-authenticate", "proxy-authorization"),
    }
)
"""Of one connection, never forwarded in either direction. What frames a body is written anew."""

OWN_PREFIX = "x-cliff"
"""Headers of a client that are meant for us."""


def to_upstream(raw: RawHeaders, *, body_replaced: bool = False) -> CIMultiDict[str]:
    """The headers of a request as the upstream gets them.

    Without `Host` (the upstream has its own), without `Expect` (the body is here already) and without ours. With
    `body_replaced` also without the length and the encoding of the body that came in.
    """
    dropped = {"host", "expect"}
    if body_replaced:
        dropped |= {"content-length", "content-encoding"}
    spelled: dict[str, str] = {}  # aiohttp takes two spellings of one name for a replacement: the first one is used
    kept: CIMultiDict[str] = CIMultiDict()
    for name, value in _end_to_end(raw, dropped).items():
        if not name.lower().startswith(OWN_PREFIX):
            kept.add(spelled.setdefault(name.lower(), name), value)
    return kept


def to_client(raw: RawHeaders) -> CIMultiDict[str]:
    """The headers of a reply as the client gets them: length, encoding and each `Set-Cookie` as they came."""
    return _end_to_end(raw, set())


def _end_to_end(raw: RawHeaders, dropped: set[str]) -> CIMultiDict[str]:
    headers = [(_text(name), _text(value)) for name, value in raw]
    named = [value for name, value in headers if name.lower() == "connection"]
    dropped = dropped | {name.strip().lower() for value in named for name in value.split(",")}
    kept: CIMultiDict[str] = CIMultiDict()
    for name, value in headers:
        if (lower := name.lower()) not in HOP_BY_HOP and lower not in dropped:
            kept.add(name, value)
    return kept


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")

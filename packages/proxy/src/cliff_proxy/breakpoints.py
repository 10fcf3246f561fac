"""One more cache breakpoint at the end of what stays the same through a growth segment (Anthropic's API only).

Anthropic takes four. Clients that use one to three leave one for the end of the block, or of the head before the
first cliff: a step of more than 20 blocks, which the provider's look-back does not cross, then still finds that part
in the cache. Nothing but a marker is added: the text that a cache is keyed by stays the same with and without it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from cliff_core.dialects.parts import is_object
from cliff_proxy.slices import Bytes, loads

MOST = 4

KEY = b'"cache_control"'
_MARKER = re.compile(KEY + rb"\s*:\s*(\{[^{}]*\}|null)?")
_LONGER = re.compile(rb'"ttl"\s*:\s*"1h"')
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_CONTENT = re.compile(rb'"content"\s*:\s*')


def markers(parts: Iterable[Bytes]) -> list[bytes]:
    """The values of all markers in the order of the parts (one in a call's arguments counts: better none of ours
    than one too many)."""
    values = []
    for raw in parts:
        part = bytes(raw)
        at = part.find(KEY)  # a hundred times as fast as the expression
        while at >= 0:
            found = _MARKER.match(part, at)
            if found and part[at - 1 : at] != b"\\" and found[1] != b"null":
                values.append(found[1] or b"")
            at = part.find(KEY, at + 1)
    return values


def value(before: Sequence[bytes], after: Sequence[bytes]) -> bytes | None:
    """The value of one more marker between those of a request; None where there is no room for one, or the client
    uses none at all.

    Longer-lived entries must stand before shorter ones: ours lives as long as the next one, or as the last."""
    if (not before and not after) or len(before) + len(after) >= MOST:
        return None
    beside = after[0] if after else before[-1]
    return b'{"type":"ephemeral","ttl":"1h"}' if _LONGER.search(beside) else b'{"type":"ephemeral"}'


def block(text: bytes, marker: bytes | None) -> bytes:
    """The block as a message. `text` is a JSON string; a list with and without the marker, so that it alone differs."""
    tail = b',"cache_control":' + marker if marker is not None else b""
    return b'{"role":"user","content":[{"type":"text","text":' + text + tail + b"}]}"


@lru_cache(maxsize=64)  # heads: the same one at each request
def marked(raw: bytes, marker: bytes) -> bytes | None:
    """A message of the client with a marker on its last part; None where it has one already or is not understood.

    A text becomes a list of one part, whose text keeps its bytes."""
    try:
        parsed = loads(raw)
    except (ValueError, RecursionError):
        return None
    content = parsed.get("content") if is_object(parsed) else None
    if isinstance(content, str) and content:
        return _text(raw, parsed, marker)
    if not isinstance(content, list) or not content or not is_object(content[-1]):
        return None
    last = content[-1]
    if "cache_control" in last or last.get("type") not in ("text", "image", "document", "tool_result") or _empty(last):
        return None
    # The last part's brace is the last but one: the message's own stands behind the list, if nothing else does.
    end = re.search(rb"\}(\s*\]\s*\})\Z", raw)
    if end is None:
        return None
    changed = raw[: end.start()] + b',"cache_control":' + marker + raw[end.start() :]
    return changed if _added(changed, parsed, content) else None


def _empty(part: object) -> bool:
    return is_object(part) and part.get("type") == "text" and not part.get("text")


def _text(raw: bytes, parsed: dict[str, object], marker: bytes) -> bytes | None:
    for found in _CONTENT.finditer(raw):
        start = found.end()
        string = _STRING.match(raw, start)
        if string is None:
            continue
        end = string.end()
        part = b'[{"type":"text","text":' + raw[start:end] + b',"cache_control":' + marker + b"}]"
        changed = raw[:start] + part + raw[end:]
        if _added(changed, parsed, [{"type": "text", "text": parsed["content"]}]):
            return changed
    return None


def _added(changed: bytes, parsed: dict[str, object], content: list[object]) -> bool:
    """Whether the change is the marker alone: what was found by looking at bytes is checked as JSON."""
    try:
        now = loads(changed)
        last = now["content"][-1]
        del last["cache_control"]
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):
        return False
    return bool(now == {**parsed, "content": content})

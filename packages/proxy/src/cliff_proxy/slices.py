"""A body's bytes, cut where its values and messages begin and end. Nothing is parsed for it, nothing written anew.

body = split(data)                       # Unsplittable where it is no JSON object with each key once
body.value("model")                      # a small value, parsed
items = body.items("messages")           # the raw bytes of each message; None where that is no array
body.with_items("messages", kept)        # the same bytes around another array

body = split(data, (start, end))         # what is known to be whole elements of an array is not looked at
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec

Bytes: TypeAlias = bytes | memoryview
"""Of one value: JSON text without white space around it."""


class Unsplittable(ValueError):  # noqa: N818 - it is a property of a body, and never reaches a user
    """The body is nothing that can be compacted; the text says why, and holds nothing of it."""


_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
_KEY = re.compile(rb'[\s]*,?[\s]*"((?:[^"\\]|\\.)*)"[\s]*:[\s]*', re.DOTALL)
_OPEN = re.compile(rb"[\s]*\{")
_CLOSE = re.compile(rb"[\s]*\}[\s]*\Z")
_BETWEEN = re.compile(rb"[\s]*,?[\s]*")

_SURROGATE = re.compile(
    rb"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<lone>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)
"""A lone escaped surrogate. Escaped backslashes and whole pairs come first: what follows is no part of them."""


@dataclass(frozen=True, slots=True)
class Body:
    """A JSON object and where its values lie."""

    data: bytes = field(repr=False)
    spans: dict[str, tuple[int, int]]
    text: bytes = field(repr=False)
    """What was split: `data`, or a copy in which `{}` stands for what is known, and letters for lone surrogates, which
    msgspec rejects."""
    known: tuple[int, int] | None = None
    """Bytes of `data` from the bracket of an array to the end of its last known element."""

    def raw(self, name: str) -> bytes | None:
        """The bytes of a value; None where there is none, or null."""
        span = self.spans.get(name)
        if span is None:
            return None
        found = self.data[span[0] : span[1]]
        return None if found == b"null" else found

    def value(self, name: str) -> Any:
        """A value, parsed; None where there is none or it cannot be."""
        found = self.raw(name)
        if found is None:
            return None
        try:
            return loads(found)
        except (ValueError, RecursionError):
            return None

    def places(self, name: str) -> list[tuple[int, int]] | None:
        """Where in `data` the elements of an array lie, those behind the known ones; None where there is no array of
        that name."""
        start, end = self.spans.get(name, (0, 0))
        if self.data[start : start + 1] != b"[":
            return None
        known = self.known if self.known is not None and self.known[0] == start else None
        shift = known[1] - known[0] - len(_KNOWN) if known is not None else 0
        places = _places(self.text, start, end - shift, shift)
        return places if known is None else places[1:]

    def items(self, name: str) -> list[memoryview] | None:
        """Views of those elements."""
        places = self.places(name)
        whole = memoryview(self.data)
        return None if places is None else [whole[start:end] for start, end in places]

    def with_items(self, name: str, items: Iterable[Bytes]) -> bytes:
        """The body with another array in the place of one."""
        start, end = self.spans[name]
        whole = memoryview(self.data)
        return b"".join((whole[:start], b"[", b",".join(items), b"]", whole[end:]))


_KNOWN = b"[{}"
"""Stands for the known elements of an array. No other value begins so, as one would with `0`: `0.5`."""


def elements(data: bytes, start: int, end: int) -> list[tuple[int, int]] | None:
    """Where the elements of an array lie between the end of a known one and its closing bracket; None where that is
    not what is there, or not without more ado."""
    text = b"".join((_KNOWN, memoryview(data)[start:end], b"]"))
    try:
        return _places(text, 0, len(text), start - len(_KNOWN))[1:]
    except (msgspec.DecodeError, RecursionError):
        return None


def more(data: bytes, start: int, end: int) -> int | None:
    """How many elements of an array stand there behind a known one; None where that is not what is there, or not
    without more ado."""
    try:
        return len(_ITEMS.decode(b"".join((_KNOWN, memoryview(data)[start:end], b"]")))) - 1
    except (msgspec.DecodeError, RecursionError):
        return None


def _places(text: bytes, start: int, end: int, shift: int) -> list[tuple[int, int]]:
    """Where the elements of the array lie that is `text[start:end]`, plus `shift`."""
    places = []
    at = start + 1
    for raw in _ITEMS.decode(memoryview(text)[start:end]):
        at = _skipped(text, at)
        size = len(memoryview(raw))
        places.append((at + shift, at + shift + size))
        at += size
    return places


def split(data: bytes, known: tuple[int, int] | None = None) -> Body:
    """The values of a JSON object. Raises `Unsplittable`.

    `known`: bytes from the bracket of an array to the end of one of its elements which hold whole elements (they were
    split before); they are not looked at again. Where the bracket is none of an array at the top, nothing can be said
    of the body: see `Body.spans`."""
    if known is None:
        part, shift = data, 0
    else:
        part = b"".join((memoryview(data)[: known[0]], _KNOWN, memoryview(data)[known[1] :]))
        shift = len(data) - len(part)
    text = part
    try:
        raws = _decoded(text)
    except msgspec.DecodeError:
        text = _SURROGATE.sub(lambda found: b"\\u0041" if found["lone"] else found[0], part)
        if text == part:
            raise Unsplittable("no JSON object") from None
        try:
            raws = _decoded(text)
        except msgspec.DecodeError:
            raise Unsplittable("no JSON object") from None
    opened = _OPEN.match(text)
    if opened is None:
        raise Unsplittable("no JSON object")
    at = opened.end()
    spans: dict[str, tuple[int, int]] = {}
    for name, raw in raws.items():
        key = _KEY.match(text, at)
        if key is None or _text(key[1]) != name:
            raise Unsplittable("a key stands twice")  # each reader takes another one
        start, at = key.end(), key.end() + len(memoryview(raw))
        spans[name] = (start, at)
    if not _CLOSE.match(text, at):  # the values found are fewer than the text has
        raise Unsplittable("a key stands twice")
    if known is not None:
        spans = {
            name: (start + shift * (start > known[0]), end + shift * (end > known[0]))
            for name, (start, end) in spans.items()
        }
    return Body(data, spans, text, known)


def _decoded(text: bytes) -> dict[str, msgspec.Raw]:
    try:
        return _FIELDS.decode(text)
    except RecursionError:
        raise Unsplittable("nested too deeply") from None


def _text(key: bytes) -> str:
    if b"\\" in key:
        return str(loads(b'"' + key + b'"'))
    return key.decode("utf-8", "replace")


def _skipped(text: bytes, at: int) -> int:
    found = _BETWEEN.match(text, at)
    return found.end() if found else at


def loads(raw: bytes) -> Any:
    """A value, parsed. Lone surrogates, numbers that are too large and broken UTF-8 are no obstacle.

    Raises ValueError for what is no JSON, RecursionError for what is nested too deeply."""
    try:
        return msgspec.json.decode(raw)
    except msgspec.DecodeError:
        return json.loads(raw.decode("utf-8", "replace"))


def dumps(value: Any) -> bytes:
    """A value of our own as JSON: UTF-8, or escaped where it holds a lone surrogate."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode("ascii")


def canonical(value: Any) -> bytes:
    """The same for equal values, whatever the order of their keys."""
    try:
        return msgspec.json.encode(value, order="sorted")
    except (UnicodeEncodeError, TypeError, OverflowError):
        return json.dumps(value, sort_keys=True, separators=(",", ":")).encode("ascii")

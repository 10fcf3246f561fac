"""Where a value stands in a JSON text, so that it can be replaced and every other byte stays."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\n\r]*")


@dataclass(frozen=True, slots=True)
class Member:
    """A member of an object in a JSON text, or an item of an array."""

    path: tuple[str, ...]
    """Its name, or its place as a text, after those of what is around it."""
    start: int
    """Where its value begins."""
    end: int
    value: Any


def members(text: str) -> Iterator[Member]:
    """All members and items in a text that is a JSON object, outer ones first. Raises ValueError for another text."""
    value, _ = _DECODER.raw_decode(text, _skip(text, 0))
    if not isinstance(value, dict):
        raise ValueError("it is no JSON object")
    yield from _members(text, _skip(text, 0), ())


def member(text: str, *path: str) -> Member | None:
    """The member of this path; of equal ones the last, as a JSON parser takes it."""
    return next((found for found in reversed(list(members(text))) if found.path == path), None)


def replaced(text: str, found: Member, value: str) -> str:
    return text[: found.start] + value + text[found.end :]


def _members(text: str, at: int, path: tuple[str, ...]) -> Iterator[Member]:
    opening = text[at]
    if opening not in "{[":
        return
    at = _skip(text, at + 1)
    place = 0
    while text[at] not in "}]":
        name = str(place)
        if opening == "{":
            name, at = _DECODER.raw_decode(text, at)
            at = _skip(text, _skip(text, at) + 1)  # the colon
        value, end = _DECODER.raw_decode(text, at)
        yield Member((*path, name), at, end, value)
        yield from _members(text, at, (*path, name))
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)
        place += 1


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at

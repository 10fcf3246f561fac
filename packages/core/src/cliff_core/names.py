"""Names: the distinctive words of a text (`docs/support.md`): paths, identifiers, versions, hashes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from cliff_core.content import ToolCall
from cliff_core.signature import SCAN_CHARS, arguments_of, paths

LEAST_CHARS, MOST_CHARS = 4, 200
"""Characters of a name."""

_WORD = re.compile(r"[\w./~@+-]+")
_TELLING = re.compile(r"[./_][^\W_]|\d|[a-z][A-Z]")
_LETTER = re.compile(r"[^\W\d_]")


def names(text: str) -> list[str]:
    """The distinctive words of a text, in order of appearance, each once.

    A word is a run of letters, digits and `_ . / ~ @ + -`, without `+ - @` and `./` at its beginning and `. - + / @ ~`
    at its end. It is distinctive if it has 4 to 200 characters, a letter, and one of these: a digit; a `.`, `/` or `_`
    before a letter or digit; a capital after a small letter."""
    return list(dict.fromkeys(word for raw in dict.fromkeys(_WORD.findall(text)) if (word := _name(raw))))


@lru_cache(maxsize=100_000)  # a session says the same words again and again
def _name(raw: str) -> str:
    if len(raw) < LEAST_CHARS:
        return ""
    word = raw.rstrip(".-+/@~").lstrip("+-@")
    while word.startswith("./"):
        word = word[2:]
    distinctive = LEAST_CHARS <= len(word) <= MOST_CHARS and _LETTER.search(word) and _TELLING.search(word)
    return word if distinctive else ""


def of_call(call: ToolCall) -> list[str]:
    """Verbatim names in the call's argument values, in order of appearance, each once: its `paths`, then the names that
    are no part of one of these. `SCAN_CHARS` of each value are read."""
    found = dict.fromkeys(paths(call))
    whole = tuple(found)
    for value in leaves(arguments_of(call)):
        found.update(dict.fromkeys(name for name in names(value[:SCAN_CHARS]) if not any(name in p for p in whole)))
    return list(found)


def leaves(value: Any, depth: int = 0) -> Iterator[str]:
    """The texts in a value, at a bounded depth. Names of arguments are none."""
    if isinstance(value, str):
        yield value
    elif depth < 20:
        if isinstance(value, Mapping):
            value = value.values()
        elif not isinstance(value, (list, tuple)):
            return
        for item in value:
            yield from leaves(item, depth + 1)

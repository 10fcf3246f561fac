"""What a block hands on to the next one, where the host has forgotten the turns behind it.

A host that hands over only what is left of a history (OpenHands) has no other source of two things that must not
go: the names of the index and the words of people that stood inside results. They are read off the block, verbatim,
by its grammar (`cliff_core.block`)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from cliff_core.block import DIRECTIVES_OPENING, OPENING

_PART = re.compile(
    # One text between tags; it cannot hold its own closing tag.
    r"<(names|thought|call|result|user|note)(-\d+|)((?: [a-z]+=\"[^\"]*\")*)(?:/>|>(.*?)</\1\2>)\n"
    r"|<turn (\d+)>\n"
    rf"|({re.escape(DIRECTIVES_OPENING)})",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Previous:
    """Of the previous block."""

    names: tuple[str, ...] = ()
    """Its names index, in its order."""
    directives: tuple[str, ...] = ()
    """People's words, oldest first."""
    last_turn: int = 0
    """Number of the last turn that it has an excerpt of."""


def previous(text: str) -> Previous:
    """What the text of a block hands on; nothing for a text that is no block of ours.

    The text is read from its beginning, part by part, so that no excerpt can pass for a part."""
    if not text.startswith(OPENING):
        return Previous()
    names: list[str] = []
    directives: list[str] = []
    last_turn = position = 0
    told = False
    text = text if text.endswith("\n") else text + "\n"
    position = len(OPENING)
    while match := _PART.match(text, position):
        position = match.end()
        tag, _, _, body, turn, opening = match.groups()
        if opening:
            told = True
        elif turn:
            last_turn = int(turn)
        elif tag == "names" and body:
            names += body.strip("\n").split("\n")
        elif tag == "user" and told and body:
            directives.append(body)
    return Previous(tuple(names), tuple(directives), last_turn)

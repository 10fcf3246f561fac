"""How alike the rollouts of a group are. With no training at all: the rollout most like the others is the choice.

Compared are sets of lines: the changed lines of the patches where all rollouts of a group have one, else the lines of
the final terminals, with numbers and identifiers masked, so that times, ports and hashes make no difference.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence

LEAST_CHARS = 9
"""Shorter lines of a terminal are everywhere: braces, prompts, blank."""

_IDENTIFIER = re.compile(r"[0-9a-f]{8,}")
_DIGITS = str.maketrans("123456789", "0" * 9)
_NOISE = ("Traceback", "litellm")

Lines = frozenset[int]
"""Checksums of lines: small, and the same on any machine."""


def terminal_lines(text: str) -> Lines:
    """The distinct lines of a terminal."""
    masked = _IDENTIFIER.sub("f", text.translate(_DIGITS))
    while "00" in masked:  # a number of any length is the same; this is twice as fast as a pattern
        masked = masked.replace("00", "0")
    lines = {line.strip() for line in masked.split("\n")}
    kept = (line for line in lines if len(line) >= LEAST_CHARS and not any(noise in line for noise in _NOISE))
    return frozenset(zlib.crc32(line.encode(errors="replace")) for line in kept)


def patch_lines(patch: str) -> Lines:
    """The distinct added and removed lines of a patch, with the sign and without blanks around."""
    changed = (line for line in patch.split("\n") if line[:1] in "+-" and not line.startswith(("+++ ", "--- ")))
    return frozenset(zlib.crc32((line[0] + line[1:].strip()).encode(errors="replace")) for line in changed if line[1:])


def patch_files(patch: str) -> frozenset[str]:
    """The files that a patch touches."""
    return frozenset(name.strip() for name in re.findall(r"(?m)^(?:\+\+\+ b/|--- a/)(\S.*)$", patch))


def likeness(one: Lines, other: Lines) -> float:
    """Shared lines as a part of all lines of both, 0 to 1. Of two rollouts that left nothing, 0."""
    every = len(one | other)
    return len(one & other) / every if every else 0.0


def agreement(artifacts: Sequence[Lines | None]) -> list[float | None]:
    """The mean likeness of each to the others; None: it left nothing to compare, or there is no other."""
    found: list[float | None] = []
    for index, own in enumerate(artifacts):
        others = [lines for i, lines in enumerate(artifacts) if i != index and lines is not None]
        if own is None or not others:
            found.append(None)
        else:
            found.append(sum(likeness(own, lines) for lines in others) / len(others))
    return found

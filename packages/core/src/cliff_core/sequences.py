"""Where two sequences part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def common(one: Sequence[Any], other: Sequence[Any], start: int = 0) -> int:
    """How many elements, or characters, both begin with, where the first `start` are known to be the same.

    Slices are compared as a whole, element by element by identity first: a step costs microseconds however long a
    history is."""
    end = min(len(one), len(other))
    if one[start:end] == other[start:end]:
        return end
    while end - start > 1:
        middle = (start + end) // 2
        if one[start:middle] == other[start:middle]:
            start = middle
        else:
            end = middle
    return start

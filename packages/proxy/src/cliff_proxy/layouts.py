"""Where the messages of earlier bodies lie, so that a request that begins with the same bytes is not split there again.

A client sends its whole history at each step. Of the bytes up to the newest messages nothing has to be read but whether
they are the same, which the process's own hash of bytes tells at some gigabytes a second: a group of messages at a
time, up to the first group that differs. Nothing of a body is kept but hashes, lengths, and what stands for its
messages.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Sequence
from typing import Any, NamedTuple

GROUP_BYTES = 8_192
"""Bytes of messages that are compared at once, at least. What stands behind the last whole group is always split."""

OPENING_BYTES = 256
"""First bytes of an array by which layouts are looked up."""

CANDIDATES = 8
"""Layouts with the same opening that are remembered (sub-agents of one session begin alike)."""


class Group(NamedTuple):
    """Some messages in a row."""

    messages: int
    """Messages up to its end."""
    end: int
    """Bytes from the array's bracket to the end of its last message."""
    key: int
    """Hash of its bytes, from the end of the group before it."""


class Layout:
    """An array of messages: what they are, and where in the array."""

    __slots__ = ("behind", "ends", "groups", "opening", "room", "slices", "starts", "unmarked")

    def __init__(self, slices: list[Any], starts: array[int], ends: array[int], groups: list[Group]) -> None:
        self.slices = slices
        """What stands for each message."""
        self.starts = starts
        """Bytes from the array's bracket to each message."""
        self.ends = ends
        self.groups = groups
        self.room = 0
        """Tokens up to the threshold of the view that was made of it."""
        self.behind = 0
        """Bytes of the body behind the last message."""
        self.unmarked = 0
        """Bytes from the bracket up to which there is no cache marker, as far as is known."""
        self.opening = 0
        """What it is looked up by; 0: it is too short."""

    def shared(self, data: bytes, at: int) -> Group | None:
        """The last group up to which the array at `data[at]` has the same bytes; None: not one."""
        whole = memoryview(data)
        start, found = at, None
        for group in self.groups:
            end = at + group.end
            if end > len(data) or hash(whole[start:end]) != group.key:
                break
            start, found = end, group
        return found

    def place(self, number: int) -> tuple[int, int]:
        """Where a message lies, in bytes from the array's bracket."""
        return self.starts[number], self.ends[number]


class Layouts:
    """The newest layout of each session. Can be used by several threads at once."""

    def __init__(self) -> None:
        self._all: dict[int, list[Layout]] = {}
        self._lock = threading.Lock()

    def nearest(self, api: str, data: bytes, at: int) -> tuple[Layout, Group] | None:
        """The layout that has most in common with the array at `data[at]`, and up to where."""
        with self._lock:
            candidates = tuple(self._all.get(_opening(api, data, at), ()))
        best: tuple[Layout, Group] | None = None
        for layout in reversed(candidates):
            found = layout.shared(data, at)
            if found is not None and (best is None or found.messages > best[1].messages):
                best = layout, found
                if found is layout.groups[-1]:
                    break
        return best

    def replace(self, old: Layout | None, new: Layout | None) -> None:
        """Take a session's newer layout in place of the one before; None: there is none (any more)."""
        with self._lock:
            if old is not None and (its := self._all.get(old.opening)) is not None and old in its:
                its.remove(old)
                if not its:
                    del self._all[old.opening]
            if new is not None and new.groups:
                its = self._all.setdefault(new.opening, [])
                its.append(new)
                del its[:-CANDIDATES]


def made(
    api: str,
    data: bytes,
    at: int,
    slices: list[Any],
    places: Sequence[tuple[int, int]],
    earlier: tuple[Layout, Group] | None = None,
) -> Layout:
    """The layout of the array at `data[at]`. `slices` stand for its messages; `places` (in `data`) are those of the
    messages behind what it has in common with an earlier one."""
    if earlier is None:
        starts, ends, groups = array("Q"), array("Q"), []
    else:
        layout, last = earlier
        starts, ends = layout.starts[: last.messages], layout.ends[: last.messages]
        groups = layout.groups[: layout.groups.index(last) + 1]
    whole = memoryview(data)
    done = at + (groups[-1].end if groups else 0)
    for start, end in places:
        starts.append(start - at)
        ends.append(end - at)
        if end - done >= GROUP_BYTES:
            groups.append(Group(len(ends), end - at, hash(whole[done:end])))
            done = end
    found = Layout(slices, starts, ends, groups)
    found.behind = len(data) - at - (ends[-1] if ends else 0)
    if earlier is not None:
        found.unmarked = min(earlier[0].unmarked, earlier[1].end)
    found.opening = _opening(api, data, at)
    return found


def _opening(api: str, data: bytes, at: int) -> int:
    return hash((api, data[at : at + OPENING_BYTES]))

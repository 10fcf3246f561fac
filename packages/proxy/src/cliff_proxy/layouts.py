"""Where the messages of earlier bodies lie, so that a request that begins with the same bytes is not split there again.

A client sends its whole history at each step. Of the bytes up to the newest messages nothing has to be read but whether
they are the same, which a hash tells at ten gigabytes a second: a group of messages at a time, up to the first group
that differs. Nothing of a body is kept but hashes, lengths, and what stands for its messages.
"""

from __future__ import annotations

import os
import threading
from array import array
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from xxhash import xxh3_64_intdigest

GROUP_BYTES = 8_192
"""Bytes of messages that are compared at once, at least. What stands behind the last whole group is always split."""

OPENING_BYTES = 256
"""First bytes of an array by which layouts are looked up."""

CANDIDATES = 8
"""Layouts with the same opening that are remembered (sub-agents of one session begin alike)."""


_SEED = int.from_bytes(os.urandom(8))


quick_hash: Callable[[bytes | memoryview], int] = partial(xxh3_64_intdigest, seed=_SEED)
"""Of some bytes, in this process: what leaves it, or decides what is sent, has a digest (`sessions.digest`)."""


class Around(NamedTuple):
    """What stands around an array of messages in a body."""

    at: int
    """Bytes up to its bracket."""
    before: int
    """Their hash."""
    size: int
    """Bytes from its closing bracket on."""
    behind: int
    """Their hash."""
    whole: int
    """Bytes of the body."""
    spans: dict[str, tuple[int, int]]
    """Where its values lie (`slices.Body`)."""

    @classmethod
    def of(cls, data: bytes, at: int, end: int, spans: dict[str, tuple[int, int]]) -> Around:
        """`end`: of the array."""
        whole, size = memoryview(data), len(data) - end + 1
        return cls(at, quick_hash(whole[:at]), size, quick_hash(whole[end - 1 :]), len(data), spans)

    def same(self, data: bytes, at: int) -> dict[str, tuple[int, int]] | None:
        """Where the values of another body lie that has the same around its array at `at`; None if it has not."""
        whole, end = memoryview(data), len(data) - self.size
        if at != self.at or end <= at or quick_hash(whole[:at]) != self.before:
            return None
        if quick_hash(whole[end:]) != self.behind:
            return None
        longer = len(data) - self.whole
        return {
            name: (start + longer * (start > at), stop + longer * (stop > at))
            for name, (start, stop) in self.spans.items()
        }


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

    __slots__ = (
        "around",
        "ends",
        "envelope",
        "groups",
        "last",
        "opening",
        "plain",
        "room",
        "slices",
        "starts",
        "tail",
        "tail_bytes",
        "unmarked",
    )

    def __init__(
        self, slices: list[Any], starts: array[int], ends: array[int], groups: list[Group], around: Around
    ) -> None:
        self.slices = slices
        """What stands for each message."""
        self.starts = starts
        """Bytes from the array's bracket to each message."""
        self.ends = ends
        self.groups = groups
        self.around = around
        self.envelope: Any = None
        """What was found around it."""
        self.last: Any = None
        """What was sent for it, where that is known to hold as long as messages are only added."""
        self.plain = (0, 0, 0)
        """Bytes that a later body had behind the last message, of which it is known that nothing in them tells; their
        hash, and how many messages they are."""
        self.tail = 0
        """Hash of what stands behind the last whole group."""
        self.tail_bytes = 0
        self.room = 0
        """Tokens up to the threshold of the view that was made of it."""
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
            if end > len(data) or quick_hash(whole[start:end]) != group.key:
                break
            start, found = end, group
        return found

    def place(self, number: int) -> tuple[int, int]:
        """Where a message lies, in bytes from the array's bracket."""
        return self.starts[number], self.ends[number]


class Layouts:
    """The newest layout of each session. Can be used by several threads at once."""

    def __init__(self) -> None:
        self._all: dict[int, tuple[Layout, ...]] = {}
        self._lock = threading.Lock()

    def beginning_as(self, api: str, data: bytes, at: int) -> tuple[Layout, ...]:
        """Those whose first bytes are those of the array at `data[at]`, the newest last."""
        return self._all.get(_opening(api, data, at), ())

    def nearest(self, api: str, data: bytes, at: int) -> tuple[Layout, Group] | None:
        """The layout that has most in common with the array at `data[at]`, and up to where."""
        best: tuple[Layout, Group] | None = None
        for layout in reversed(self.beginning_as(api, data, at)):
            found = layout.shared(data, at)
            if found is not None and (best is None or found.messages > best[1].messages):
                best = layout, found
                if found is layout.groups[-1]:
                    break
        return best

    def replace(self, old: Layout | None, new: Layout | None) -> None:
        """Take a session's newer layout in place of the one before; None: there is none (any more)."""
        with self._lock:
            if old is not None and old.opening in self._all:
                its = tuple(layout for layout in self._all[old.opening] if layout is not old)
                if its:
                    self._all[old.opening] = its
                else:
                    del self._all[old.opening]
            if new is not None and new.groups:
                self._all[new.opening] = (*self._all.get(new.opening, ()), new)[-CANDIDATES:]


def made(
    api: str,
    data: bytes,
    around: Around,
    slices: list[Any],
    places: Sequence[tuple[int, int]],
    earlier: tuple[Layout, Group] | None = None,
) -> Layout:
    """The layout of an array in `data`. `slices` stand for its messages; `places` (in `data`) are those of the messages
    behind what it has in common with an earlier one."""
    at = around.at
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
            groups.append(Group(len(ends), end - at, quick_hash(whole[done:end])))
            done = end
    found = Layout(slices, starts, ends, groups, around)
    if ends:
        found.tail, found.tail_bytes = quick_hash(whole[done : at + ends[-1]]), at + ends[-1] - done
    if earlier is not None:
        found.unmarked = min(earlier[0].unmarked, earlier[1].end)
    found.opening = _opening(api, data, at)
    return found


def _opening(api: str, data: bytes, at: int) -> int:
    return hash((api, data[at : at + OPENING_BYTES]))

"""A view as bytes: the client's own, around the block, and one more cache breakpoint where there is room for it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from cliff_core import View
from cliff_proxy import breakpoints
from cliff_proxy.layouts import Layout
from cliff_proxy.sessions import Merged, Slice, SliceDialect, merged
from cliff_proxy.slices import Body, Bytes, dumps

_json_text = lru_cache(maxsize=64)(dumps)
"""Blocks: the same one at each request of a growth segment."""


@dataclass(frozen=True, slots=True)
class Written:
    """A view of a body, to be written."""

    api: str
    body: Body
    name: str
    """Of the field of the messages."""
    layout: Layout
    dialect: SliceDialect
    seen: list[Slice]
    """What the view is of."""
    view: View
    trailing: bool
    """Whether one more message stands behind them: a client's own compaction."""

    def may_be_marked(self) -> bool:
        """Whether the body may have a cache marker; it need not be searched where an earlier one had none."""
        data, layout = self.body.data, self.layout
        start, _ = self.body.spans[self.name]
        if data.find(breakpoints.KEY, 0, start) >= 0 or data.find(breakpoints.KEY, start + layout.unmarked) >= 0:
            return True
        layout.unmarked = layout.groups[-1].end if layout.groups else 0
        return False

    def whole(self) -> bytes | None:
        """The whole body with one more cache breakpoint, at the end of the head's last user message once the model has
        spoken; None where none is set. Nothing else of it is changed."""
        data, head = self.body.data, self.view.head
        if self.api != "anthropic" or head >= len(self.seen) or not self.may_be_marked():
            return None
        stable = next((n for n in range(head - 1, -1, -1) if self.seen[n].message.role == "user"), None)
        if stable is None:
            return None
        start, end = self.body.spans[self.name]
        first, last = (start + offset for offset in self.layout.place(stable))
        before = breakpoints.markers((data[:start], data[end:], data[start:last]))
        marker = breakpoints.value(before, breakpoints.markers((data[last:end],)))
        changed = breakpoints.marked(data[first:last], marker) if marker is not None else None
        return b"".join((data[:first], changed, data[last:])) if changed is not None else None

    def with_block(self) -> bytes:
        """The body with a view that has a block: what is kept of the client's messages in one piece stays as it is."""
        view, seen, parts = self.view, self.seen, self._parts()
        live = len(seen) - view.cut
        same_head = view.head > 0 and view.messages[: view.head] == seen[: view.head]
        if not same_head or live <= 0 or view.messages[-live:] != seen[view.cut :]:
            return self.body.with_items(self.name, parts)
        middle = parts[view.head : len(parts) - live - self.trailing]
        head, tail = self._ends()
        return b"".join((head, b",", b",".join(middle), b",", tail))

    def splice(self, written: bytes) -> tuple[int, bytes, int] | None:
        """Of a view that was written: bytes of the body to the end of the head; what stands between that and the live
        messages; bytes of the body to those. None where it is not so simple."""
        view, layout = self.view, self.layout
        if view.block is None or not view.head or view.cut >= len(self.seen):
            return None
        head, tail = self._ends()
        middle = written[len(head) : len(written) - len(tail)]
        if b"".join((head, middle, tail)) != written:
            return None
        at, _ = self.body.spans[self.name]
        return at + layout.ends[view.head - 1], middle, at + layout.starts[view.cut]

    def _ends(self) -> tuple[memoryview, memoryview]:
        """The body up to the end of the head, and from the first live message on."""
        at, _ = self.body.spans[self.name]
        whole = memoryview(self.body.data)
        return whole[: at + self.layout.ends[self.view.head - 1]], whole[at + self.layout.starts[self.view.cut] :]

    def _raw(self, number: int) -> memoryview:
        """The bytes of a message as they came in now."""
        at, _ = self.body.spans[self.name]
        start, end = self.layout.place(number)
        return memoryview(self.body.data)[at + start : at + end]

    def _parts(self) -> list[Bytes]:
        """The messages of a view with a block as bytes."""
        view, slices = self.view, self.layout.slices
        messages = list(view.messages)
        numbers = [*range(view.head), *view.pinned, *range(view.cut, len(self.seen))]
        if self.trailing:
            messages.append(slices[-1])
            numbers.append(len(slices) - 1)
        places = {id(slices[number]): number for number in numbers}
        parts: list[Bytes] = []
        block = 0
        for place, message in enumerate(messages):
            if isinstance(message, Slice):
                parts.append(self._raw(places[id(message)]))
            elif isinstance(message, Merged):
                block = place
                parts.append(merged(self.dialect, bytes(self._raw(places[id(message.slice)])), message.text))
            else:
                block = place
                parts.append(message)
        if self.api != "anthropic":
            return parts
        marker = None
        if self.may_be_marked():
            start, end = self.body.spans[self.name]
            whole = self.body.data
            # System prompt and tools come before the messages in the prompt, wherever they stand in the body.
            before = breakpoints.markers((whole[:start], whole[end:], *parts[: block + 1]))
            marker = breakpoints.value(before, breakpoints.markers(parts[block + 1 :]))
        if not isinstance(messages[block], Merged):
            assert view.block is not None
            parts[block] = breakpoints.block(_json_text(view.block), marker)
        elif marker is not None:
            parts[block] = breakpoints.marked(bytes(parts[block]), marker) or parts[block]
        return parts

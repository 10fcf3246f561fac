"""A body, read: where its values lie, and what stands for each message. What an earlier one had is not read again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from cliff_proxy import formats, layouts
from cliff_proxy.formats import FORMATS, Format
from cliff_proxy.layouts import Around, Group, Layout, Layouts
from cliff_proxy.sessions import Slice, Slices
from cliff_proxy.slices import Body, Unsplittable, elements, split

ARRAYS_MOST = 16
"""Places at which the array of messages is looked for: schemas of tools can have fields of the same name."""


class Earlier(NamedTuple):
    """What a body has in common with an earlier one."""

    at: int
    """Where its array of messages begins."""
    layout: Layout
    group: Group
    """The last one that both have."""


@dataclass(frozen=True, slots=True)
class Read:
    """A body that was read."""

    body: Body
    form: Format
    layout: Layout | None
    """None: it has no messages."""


class Reader:
    """Reads bodies of all APIs."""

    def __init__(self, slices: Mapping[str, Slices], known: Layouts) -> None:
        self._slices = slices
        self._known = known
        self._newest: dict[str, int] = {}
        """Where the array of messages began in the last body that was known."""

    def known(self, api: str, data: bytes) -> tuple[int, tuple[Layout, ...]]:
        """Where a body's array of messages begins, and the earlier bodies that may begin with the same messages, the
        newest last; none where there are none."""
        at = self._newest.get(api, 0)
        if known := self._known.beginning_as(api, data, at):  # whatever stands before it: that is compared, too
            return at, known
        array, at = formats.ARRAYS[api], 0
        for _ in range(ARRAYS_MOST):
            found = array.search(data, at)
            if found is None:
                break
            at = found.end()
            if known := self._known.beginning_as(api, data, at):
                self._newest[api] = at
                return at, known
        return 0, ()

    def earlier(self, api: str, data: bytes, at: int) -> Earlier | None:
        """The earlier body that has most in common with one whose messages begin at `at`."""
        found = self._known.nearest(api, data, at)
        return Earlier(at, *found) if found is not None else None

    def read(self, api: str, data: bytes, upstream: str, earlier: Earlier | None) -> Read:
        """A body. Raises `Unsplittable`."""
        form = FORMATS[api]
        envelope = None
        continued = _continued(data, upstream, earlier) if earlier is not None else None
        if earlier is not None and continued is not None:
            body, places = continued
            envelope = earlier.layout.envelope
            around = earlier.layout.around._replace(whole=len(data), spans=body.spans)
        else:
            body, earlier = _split(data, form.messages, earlier)
            found = body.places(form.messages)
            if found is None or (not found and earlier is None):
                return Read(body, form, None)
            places = found
            around = Around.of(data, *body.spans[form.messages], body.spans)
        whole = memoryview(data)
        slices: list[Slice] = self._slices[api].of([whole[start:end] for start, end in places])
        if earlier is not None:
            slices = [*earlier.layout.slices[: earlier.group.messages], *slices]
        known = (earlier.layout, earlier.group) if earlier is not None else None
        layout = layouts.made(api, data, around, slices, places, known)
        layout.envelope = envelope
        return Read(body, form, layout)


def _continued(data: bytes, upstream: str, earlier: Earlier) -> tuple[Body, list[tuple[int, int]]] | None:
    """A body that has the same bytes as an earlier one around its messages, too, and where its new ones lie."""
    at, layout, group = earlier
    same = layout.envelope is not None and layout.envelope.upstream == upstream
    spans = layout.around.same(data, at) if same else None
    if spans is None:
        return None
    places = elements(data, at + group.end, len(data) - layout.around.size)
    return None if places is None else (Body(data, spans, b""), places)


def _split(data: bytes, name: str, earlier: Earlier | None) -> tuple[Body, Earlier | None]:
    """A body, and the earlier one if its messages are not split again."""
    if earlier is not None:
        try:
            body = split(data, (earlier.at, earlier.at + earlier.group.end))
            if body.spans.get(name, (0, 0))[0] == earlier.at:
                return body, earlier
        except Unsplittable:  # of what is known this was no beginning
            pass
    return split(data), None

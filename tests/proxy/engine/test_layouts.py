"""A body that begins as an earlier one is split as if it were the first one."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cliff_core import CliffConfig
from cliff_proxy import layouts
from cliff_proxy.engine import Call
from cliff_proxy.slices import elements, split
from proxy.engine.client import UPSTREAM, engine
from proxy.engine.test_slices import values


def layout(data: bytes, name: str = "messages", earlier=None, known=None) -> layouts.Layout:
    found = split(data, known)
    places = found.places(name)
    assert places is not None
    slices = list(range((earlier[1].messages if earlier else 0) + len(places)))
    around = layouts.Around.of(data, *found.spans[name], found.spans)
    return layouts.made("chat", data, around, slices, places, earlier)


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(layouts, "GROUP_BYTES", 20)
    monkeypatch.setattr(layouts, "OPENING_BYTES", 4)


def test_groups_are_whole_messages_of_at_least_so_many_bytes(small):
    found = layout(b'{"messages": [{"a":"aaaaaaaaaa"}, {"b":"b"}, {"c":1}, {"d":2}]}')
    assert [(group.messages, group.end) for group in found.groups] == [(2, 30)]  # behind it are 18 bytes
    assert [found.place(number) for number in range(4)] == [(1, 19), (21, 30), (32, 39), (41, 48)]
    assert found.around.size == 2


def test_what_two_bodies_have_in_common_ends_with_a_group(small):
    one = b'{"messages": [{"a":"aaaaaaaaaa"}, {"b":"b"}, {"c":"cccccccccccc"}, {"d":2}], "n": 1}'
    other = b'{"n": 22, "messages": [{"a":"aaaaaaaaaa"}, {"b":"b"}, {"c":"CCCCCCCCCCCC"}, {"d":2}]}'
    known = layouts.Layouts()
    first = layout(one)
    known.replace(None, first)
    at = other.index(b"[")
    found = known.nearest("chat", other, at)
    assert found is not None
    assert found == (first, first.groups[0])
    assert known.nearest("responses", other, at) is None
    body = split(other, (at, at + found[1].end))
    assert body.spans == split(other).spans
    assert [bytes(item) for item in body.items("messages") or ()] == [b'{"c":"CCCCCCCCCCCC"}', b'{"d":2}']
    known.replace(first, None)
    assert known.nearest("chat", other, at) is None
    assert known._all == {}


def test_of_several_the_one_with_most_in_common_is_taken_and_few_are_kept(small):
    known = layouts.Layouts()
    bodies = [b'{"messages":[{"a":"aaaaaaaaaaaaaa"},{"b":"%02dbbbbbbbbbbbb"},3]}' % number for number in range(12)]
    for data in bodies:
        known.replace(None, layout(data))
    at = bodies[0].index(b"[")
    seen = [(known.nearest("chat", data, at) or pytest.fail("none"))[1].messages for data in bodies]
    assert seen == [1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2]
    assert len(known._all) == 1


# What follows the known part is not what it seems to be: a longer value, another array of the same name.
@pytest.mark.parametrize(
    ("data", "known"),
    [
        (b'{"messages":[{},1]}', b"[{}"),
        (b'{"messages":[{}]}', b"[{}"),
        (b'{"messages":[{} , {}\n],"x":[{}]}', b"[{}"),
        (b'{"x":{"messages":[{},1]},"messages":[{},2]}', b"[{}"),
    ],
)
def test_the_known_part_is_not_looked_at(data, known):
    at = data.index(b"[")
    body = split(data, (at, at + len(known)))
    assert body.spans == split(data).spans
    if body.spans["messages"][0] == at:
        whole = split(data).places("messages")
        assert whole is not None
        assert body.places("messages") == whole[1:]


@given(
    items=st.lists(values, min_size=1, max_size=8),
    more=st.lists(values, max_size=3),
    indent=st.sampled_from([None, 0, 2]),
    lone=st.booleans(),
    changed=st.integers(0, 8),
    first=st.booleans(),
)
def test_any_body_that_goes_on_is_cut_as_if_it_were_new(items, more, indent, lone, changed, first):
    def spelled(messages: list[object], option: int) -> bytes:
        if lone:
            messages = [*messages, "\ud83d"]
        fields = {"messages": messages, "n": option} if first else {"n": option, "tools": [1], "messages": messages}
        return json.dumps(fields, indent=indent).encode()

    group, opening = layouts.GROUP_BYTES, layouts.OPENING_BYTES
    layouts.GROUP_BYTES, layouts.OPENING_BYTES = 8, 2
    try:
        before = spelled(items, 1)
        later = [*items, *more]
        if changed < len(later):
            later[changed] = {"changed": later[changed]}
        data = spelled(later, 22)
        known = layouts.Layouts()
        known.replace(None, layout(before))
        whole = split(data)
        at = whole.spans["messages"][0]
        earlier = known.nearest("chat", data, at)
        if earlier is not None:
            span = (at, at + earlier[1].end)
            body = split(data, span)
            assert body.spans == whole.spans
            places = whole.places("messages")
            assert places is not None
            assert body.places("messages") == places[earlier[1].messages :]
            assert body.value("n") == 22
            of_new, of_whole = layout(data, earlier=earlier, known=span), layout(data)
            assert [of_new.place(n) for n in range(len(places))] == [of_whole.place(n) for n in range(len(places))]
            assert of_new.groups == of_whole.groups
            assert of_new.around == of_whole.around
            spans = earlier[0].around.same(data, at)
            if spans is not None:
                assert spans == whole.spans
                assert elements(data, span[1], len(data) - of_whole.around.size) in (None, body.places("messages"))
            assert (spans is None) is (before[:at] != data[:at] or not before.endswith(data[-of_whole.around.size :]))
    finally:
        layouts.GROUP_BYTES, layouts.OPENING_BYTES = group, opening


def test_little_work_is_told_from_much():
    running = engine(CliffConfig(threshold_tokens=8_000))

    def call(turns: int, more: str = "") -> Call:
        messages = [{"role": "user", "content": "Do it."}]
        for number in range(turns):
            text = f"step {number} " * 40
            messages += [{"role": "assistant", "content": text}, {"role": "user", "content": f"go on {number}"}]
        body = {"model": "m", "messages": [*messages, {"role": "user", "content": "last" + more}]}
        return Call("chat", json.dumps(body).encode(), UPSTREAM)

    first = call(40)
    assert running.at_once(first) is None, "nothing is known yet"
    running.prepare(first)
    assert running.at_once(call(42)) is not None
    assert running.at_once(call(40, "x" * 20_000)) is None, "20 KB are new"
    view = running.prepare(call(56)).state.view
    assert 0 < 8_000 - view.tokens < 1_000
    assert running.at_once(call(59)) is None, "a cliff may be near"

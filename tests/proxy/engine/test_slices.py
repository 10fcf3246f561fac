"""Bodies are cut, never written anew."""

import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cliff_proxy.slices import Unsplittable, canonical, dumps, loads, split


def test_values_and_items_are_the_bytes_that_came():
    data = b' {"model" : "m", "n":1E2 ,"messages" :[ {"a": [1,2]} ,\n"x",{"b":"]}"}\t],"\\u0074ools":null}\n'
    body = split(data)
    assert body.value("model") == "m"
    assert body.raw("n") == b"1E2"
    assert body.raw("tools") is None
    assert body.raw("missing") is None
    items = body.items("messages")
    assert items is not None
    assert [bytes(item) for item in items] == [b'{"a": [1,2]}', b'"x"', b'{"b":"]}"}']
    assert body.items("model") is None
    assert body.items("missing") is None
    assert body.with_items("messages", [items[0], b"9"]) == (
        b' {"model" : "m", "n":1E2 ,"messages" :[{"a": [1,2]},9],"\\u0074ools":null}\n'
    )


def test_a_lone_surrogate_is_no_obstacle():
    data = rb'{"messages": [{"content": "\ud83d"} ,{"content":"\\ud83d \ude00\ud83d"}, "\ud83d\ude00"], "x": "\udfff"}'
    body = split(data)
    items = body.items("messages")
    assert items is not None
    assert [bytes(item) for item in items] == [
        rb'{"content": "\ud83d"}',
        rb'{"content":"\\ud83d \ude00\ud83d"}',
        rb'"\ud83d\ude00"',
    ]
    assert body.value("x") == "\udfff"
    assert [loads(bytes(item)) for item in items] == json.loads(data)["messages"]
    assert dumps({"content": "\ud83d é"}) == rb'{"content":"\ud83d \u00e9"}'
    assert dumps({"content": "é"}) == '{"content":"é"}'.encode()


@pytest.mark.parametrize(
    "data",
    [
        b'{"a":1,"a":22,"b":3}',
        b'{"a":1,"a":1}',
        b'{"a":11,"b":1,"a":22}',
        b'{"a":11,"b":1,"\\u0061":22}',
        b'{"b":[1],"a":1,   "a":1000000000}',
        b'{"a":1000000000,   "a":1}',
    ],
)
def test_a_key_that_stands_twice_is_left_to_the_provider(data):
    with pytest.raises(Unsplittable, match="twice"):
        split(data)


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{", b'{"a":NaN}', b'{"a":1}}', b"null", b"\xef\xbb\xbf{}", b'{"a":"\\x"}']
)
def test_what_is_no_json_object_is_left_to_the_provider(data):
    with pytest.raises(Unsplittable, match="no JSON object"):
        split(data)


def test_a_body_nested_too_deeply_is_left_to_the_provider():
    depth = 10 * sys.getrecursionlimit()
    with pytest.raises(Unsplittable, match="deeply"):
        split(b'{"messages":[' + b"[" * depth + b"]" * depth + b"]}")


def test_broken_utf8_and_large_numbers_can_be_read():
    assert loads(b'"\xff"') == "\ufffd"
    assert loads(b"1" + b"0" * 400) == 10**400
    assert canonical({"b": 10**400, "a": "\ud83d"}) == canonical({"a": "\ud83d", "b": 10**400})


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


@given(
    fields=st.dictionaries(st.text(max_size=6), values, max_size=5),
    items=st.lists(values, max_size=6),
    indent=st.sampled_from([None, 0, 3]),
    escaped=st.booleans(),
    lone=st.booleans(),
)
def test_any_object_is_cut_where_json_says(fields, items, indent, escaped, lone):
    if lone:
        items = [*items, "\ud83d"]
    whole = {**fields, "messages": items, "after": 1}
    data = json.dumps(whole, indent=indent, ensure_ascii=escaped or lone).encode("utf-8", "surrogatepass")
    body = split(data)
    assert {name: body.value(name) for name in whole} == whole
    found = body.items("messages")
    assert found is not None
    assert [loads(bytes(item)) for item in found] == items
    assert json.loads(body.with_items("messages", found[::-1])) == {**whole, "messages": items[::-1]}

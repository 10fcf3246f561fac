"""One more cache marker, and nothing else."""

import json

import pytest

from cliff_proxy import breakpoints

FIVE = b'{"type":"ephemeral"}'
HOUR = b'{"type":"ephemeral","ttl":"1h"}'


def test_markers_are_keys_not_texts():
    parts = [
        b'{"cache_control": {"type": "ephemeral"}, "text": "\\"cache_control\\": {} and \\"cache_control"}',
        b'{"cache_control":null}',
        b'[{"cache_control" : {"type":"ephemeral","ttl":"1h"}}]',
    ]
    assert breakpoints.markers(parts) == [b'{"type": "ephemeral"}', HOUR]


def test_ours_lives_as_long_as_the_next_one():
    assert breakpoints.value([], []) is None, "a client that uses none wants none"
    assert breakpoints.value([FIVE] * 3, [FIVE]) is None, "four are all that the API takes"
    assert breakpoints.value([FIVE] * 2, [FIVE]) == FIVE
    assert breakpoints.value([HOUR], [FIVE]) == FIVE
    assert breakpoints.value([HOUR], [HOUR, FIVE]) == HOUR
    assert breakpoints.value([HOUR], []) == HOUR


@pytest.mark.parametrize(
    "content",
    [
        'a task with "quotes", a \\ and \'content\': "x"',
        [{"type": "text", "text": "one"}, {"type": "text", "text": "two } ] }"}],
        [{"type": "image", "source": {"type": "base64", "data": "QQ=="}}],
        [{"type": "tool_result", "tool_use_id": "t", "content": "r"}],
    ],
)
@pytest.mark.parametrize("indent", [None, 1])
def test_a_marker_is_all_that_is_added(content, indent):
    message = {"role": "user", "content": content}
    raw = json.dumps(message, indent=indent).encode()
    found = breakpoints.marked(raw, FIVE)
    assert found is not None
    parsed = json.loads(found)
    assert parsed["content"][-1].pop("cache_control") == {"type": "ephemeral"}
    listed = [{"type": "text", "text": content}] if isinstance(content, str) else content
    assert parsed == {**message, "content": listed}
    if isinstance(content, str):
        assert json.dumps(content).encode() in found


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": ""},
        {"role": "user", "content": []},
        {"role": "user", "content": ["text"]},
        {"role": "user", "content": [{"type": "text", "text": ""}]},
        {"role": "user", "content": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}]},
        {"role": "user", "content": [{"type": "future", "text": "x"}]},
        {"content": [{"type": "text", "text": "x"}], "role": "user"},
        ["no object"],
    ],
)
def test_what_is_not_understood_is_left_alone(message):
    assert breakpoints.marked(json.dumps(message).encode(), FIVE) is None


def test_the_block_differs_by_the_marker_alone():
    with_it, without = breakpoints.block(b'"text"', FIVE), breakpoints.block(b'"text"', None)
    assert json.loads(without) == {"role": "user", "content": [{"type": "text", "text": "text"}]}
    assert with_it.replace(b',"cache_control":' + FIVE, b"") == without

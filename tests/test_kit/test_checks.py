"""The assertions that other tests stand on find what they are for, and nothing else."""

import pytest

from kit import Call, Step, Usage
from kit.checks import (
    api_of,
    assert_append_only,
    assert_paired,
    cached_share,
    cliffs_of,
    input_cost,
)
from kit.client import ask

MARK = {"cache_control": {"type": "ephemeral"}}


def user(content, **more):
    return {"role": "user", "content": content, **more}


def model(content="b", **more):
    return {"role": "assistant", "content": content, **more}


def body(*messages, **more):
    return {"model": "m", "messages": list(messages), **more}


A, B, C = user("a"), model(), user("c")


def test_append_only():
    assert_append_only([body(A), body(A, B, C), body(A, B, C, B, A)])
    assert_append_only([body(A), body(A)])
    assert_append_only([])


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (body(A, B, C), body(A, C)),
        (body(A, B), body(A)),
        (body(A), body(user("A"))),
        (body(A, system="one"), body(A, B, system="two")),
        (body(A, tools=[{"name": "a"}]), body(A, B, tools=[{"name": "b"}])),
        (body(A, model(reasoning_content="r")), body(A, B, C)),
        (body(A, model(tool_calls=[{"id": "1"}])), body(A, model(tool_calls=[{"id": "2"}]))),
        (body(user([{"type": "x", "a": 1, "b": 2}])), body(user([{"type": "x", "b": 2, "a": 1}]))),
    ],
)
def test_what_is_not_append_only(before, now):
    with pytest.raises(AssertionError, match="request 2 of the list does not continue the one"):
        assert_append_only([before, now])
    assert_append_only([before, now], cliffs=[2])
    assert cliffs_of([before, now, now]) == [2]


def test_a_cliff_must_be_one():
    with pytest.raises(AssertionError, match="request 2 of the list is no cliff"):
        assert_append_only([body(A), body(A, B)], cliffs=[2])
    with pytest.raises(AssertionError, match=r"no request that follows another at \[1, 9\]"):
        assert_append_only([body(A), body(C)], cliffs=[1, 2, 9])


def test_markers_and_lists_of_one_text_do_not_count():
    marked = user([{"type": "text", "text": "a", **MARK}], **MARK)
    assert_append_only([body(A), body(marked, B), body(A, B, C)])
    system = [{"type": "text", "text": "s", **MARK}]
    tools = [{"name": "t", **MARK}]
    assert_append_only([body(A, system="s", tools=[{"name": "t"}]), body(A, B, system=system, tools=tools)])


def test_results_as_text_or_list():
    def result(content, **more):
        return user([{"type": "tool_result", "tool_use_id": "1", "content": content, **more}])

    call = model([{"type": "tool_use", "id": "1", "name": "n", "input": {}}])
    marked = result([{"type": "text", "text": "r", **MARK}], **MARK)
    assert_append_only([body(A, call, marked), body(A, call, result("r"), B)])


def test_messages_of_one_role_in_a_row_are_one_turn_for_anthropic():
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "c"}]
    one, two = body(A, C, system="s"), body(user(parts), B, system="s")
    assert_append_only([one, two])
    del one["system"], two["system"]
    with pytest.raises(AssertionError):
        assert_append_only([one, two])


def test_a_message_that_grows():
    assert_append_only([body(A), body(user([{"type": "text", "text": "a"}, {"type": "image"}]))])


def test_responses_items():
    call = {"type": "function_call", "call_id": "1", "name": "n", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "1", "output": "ok"}
    assert_append_only([{"input": "a"}, {"input": [A, call, output]}])
    with pytest.raises(AssertionError):
        assert_append_only([{"input": [A, call, output]}, {"input": [A, call]}])


def test_arguments_and_schemas_may_hold_any_key():
    schema = {"properties": {"type": {"type": "string"}, "content": {"cache_control": None}}}
    tools = [{"name": "t", "input_schema": schema}]
    arguments = {"type": {"text": 1}, "text": "x", "content": "y", "cache_control": 1}
    call = model([{"type": "tool_use", "id": "1", "name": "t", "input": arguments}])
    one = body(A, call, tools=tools)
    assert_append_only([one, body(A, call, C, tools=tools)])
    other = model([{"type": "tool_use", "id": "1", "name": "t", "input": {**arguments, "cache_control": 2}}])
    assert cliffs_of([one, body(A, other, tools=tools)]) == [2]


def test_what_differs_is_shown():
    with pytest.raises(AssertionError) as error:
        assert_append_only([body(A, user("old" * 300)), body(A, user("new"))])
    assert "piece 3 of 4 was" in str(error.value)
    assert '"oldold' in str(error.value)
    assert " … " in str(error.value)
    assert '"new"' in str(error.value)


def test_api_of():
    assert api_of({"input": []}) == "responses"
    assert api_of(body(A)) == "chat"
    assert api_of(body(A, system="s")) == "anthropic"
    assert api_of(body(user([{"type": "tool_result"}]))) == "anthropic"
    assert api_of(body(user([{"type": "text"}]))) == "chat"


def test_paired():
    assert_paired(body(A, B))
    with pytest.raises(AssertionError, match="the request: No tool output found"):
        assert_paired({"input": [{"type": "function_call", "call_id": "a"}]})


def test_on_recorded_requests(model_server):
    server = model_server([Step(calls=[Call("bash")]), "ok", "new"], count=len)
    first = ask(server, "anthropic", system="s").json()
    result = {"type": "tool_result", "tool_use_id": "call_0_0", "content": "r"}
    grown = [user("x"), model(first["content"]), user([result])]
    ask(server, "anthropic", system="s", messages=grown)
    ask(server, "anthropic", system="s", messages=[user("other")])
    for request in server.requests:
        assert_paired(request)
    assert_append_only(server.requests, cliffs=[3])
    one, two, three = [request.usage for request in server.requests]
    share = (two.cached + three.cached) / (one.input + two.input + three.input)
    assert cached_share(server.requests) == share


def test_share_and_cost():
    figures = [Usage(input=1_000_000), Usage(input=2_000_000, cached=1_000_000, written=500_000)]
    assert cached_share(figures) == pytest.approx(1 / 3)
    assert input_cost(figures, 5.0, 0.5) == pytest.approx(5 + 2.5 + 0.5 + 2.5)
    assert input_cost(figures, 5.0, 0.5, 6.25) == pytest.approx(5 + 2.5 + 0.5 + 3.125)
    assert cached_share([]) == 0.0
    assert input_cost([], 1, 1) == 0.0

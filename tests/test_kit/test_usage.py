"""Tokens that a prompt cache holds, on sequences made by hand. Here a character is a token."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit import CacheRules, PromptCache, Usage
from kit.client import ask
from kit.usage import IMAGE_TOKENS, common_prefix, segments

MARK = {"cache_control": {"type": "ephemeral"}}


def text(value, **more):
    return {"type": "text", "text": value, **more}


def user(content, **more):
    return {"role": "user", "content": content, **more}


def body(*messages, **more):
    return {"model": "m", "messages": list(messages), **more}


def cached(*bodies, rules=None):
    """The cached tokens of each body, one after the other."""
    cache = PromptCache(len, rules)
    return [cache.use(segments(b), b["model"]).cached for b in bodies]


def size(*bodies):
    return [PromptCache(len).tokens(segments(b)) for b in bodies]


A, B, C = user("a" * 10), {"role": "assistant", "content": "b" * 10}, user("c" * 10)


def test_a_prompt_is_its_tools_system_and_messages():
    assert size(body(A)) == [len("user\n") + 10]
    assert size(body(A, system="s")) == [len("system\ns") + 15]
    assert size(body(A, tools=[{"name": "t"}])) == [len('{"name": "t"}') + 15]
    assert [s.text for s in segments(body(A, system="s", tools=[{"name": "t"}]))] == [
        '{"name": "t"}',
        "system\ns",
        "user\n" + "a" * 10,
    ]


def test_growing_history():
    bodies = [body(A), body(A, B), body(A, B, C)]
    one, two, _ = size(*bodies)
    assert cached(*bodies) == [0, one, two]


def test_common_part_of_a_changed_message():
    before, now = body(A, user("same start, old end")), body(A, user("same start, new end"))
    assert cached(before, now) == [0, size(body(A))[0] + len("user\nsame start, ")]


def test_change_at_the_front():
    assert cached(body(A, B, tools=[{"name": "t"}]), body(A, B)) == [0, 0]
    assert cached(body(A, B, system="one"), body(A, B, system="two")) == [0, len("system\n")]


def test_any_earlier_prompt_counts():
    whole = size(body(A, B))[0]
    assert cached(body(A, B), body(C), body(A, B, C)) == [0, len("user\n"), whole]


def test_models_do_not_share():
    assert cached(body(A), {**body(A), "model": "other"}) == [0, 0]


def test_markers_and_lists_of_one_text_are_the_same():
    marked = user([text("a" * 10, **MARK)])
    assert cached(body(A), body(marked), body(user("a" * 10, **MARK)))[1:] == [15, 15]


def test_minimum_and_step():
    rules = CacheRules(minimum=20, step=8)
    bodies = [body(user("a" * 12)), body(user("a" * 12), user("b" * 26)), body(user("a" * 12))]
    assert size(*bodies) == [17, 48, 17]
    longer = body(user("a" * 12), user("b" * 26), user("c"))
    assert cached(*bodies[:2], longer, rules=rules) == [0, 0, 48]  # 17 is below the minimum
    other = body(user("a" * 12), user("b" * 20 + "other"))
    assert cached(bodies[1], other, rules=rules) == [0, 40]  # 17 + 5 + 20 = 42, in steps of 8


def test_off():
    assert cached(body(A), body(A, B), rules=CacheRules(enabled=False)) == [0, 0]


def test_key_order_counts_only_where_a_model_sees_it():
    def call(value):
        return {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "1", "name": "n", "input": value}],
        }

    one, other = body(call({"a": 1, "b": 2})), body(call({"b": 2, "a": 1}))
    assert cached(one, other)[1] < size(one)[0]
    turned = {"content": A["content"], "role": "user"}
    assert cached(body(A), body(turned))[1] == size(body(A))[0]


def test_arguments_and_schemas_may_hold_any_key():
    schema = {"properties": {"type": {"type": "string"}}, "cache_control": {"a": 1}}
    call = {"type": "tool_use", "id": "1", "name": "n", "input": {"type": {"a": 1}}}
    one = body(A, {"role": "assistant", "content": [call]}, tools=[{"name": "t", "parameters": schema}])
    assert cached(one, one) == [0, *size(one)]


def test_media_and_encrypted_content():
    image = {"type": "image", "source": {"type": "base64", "data": "A" * 100_000}}
    assert IMAGE_TOKENS <= size(body(user([image])))[0] < IMAGE_TOKENS + 60
    other = {"type": "image", "source": {"type": "base64", "data": "B" * 100_000}}
    assert cached(body(user([image])), body(user([other])))[1] < 30
    sealed = {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "x" * 2000}
    assert 100 <= size({"model": "m", "input": [sealed]})[0] < 160


def test_responses_input():
    assert size({"model": "m", "input": "abc"}) == size({"model": "m", "input": [user("abc")]})
    output = {"type": "function_call_output", "call_id": "c", "output": "ok"}
    grown = {"model": "m", "input": [A, output], "instructions": "be"}
    assert cached({**grown, "input": [A]}, grown)[1] == len("system\nbe") + 15


class TestBreakpoints:
    """Anthropic: written at markers, read from a marker at most 20 blocks further on."""

    RULES = CacheRules(breakpoints=True)

    def figures(self, *bodies):
        cache = PromptCache(len, self.RULES)
        return [(u.cached, u.written) for u in (cache.use(segments(b), "m") for b in bodies)]

    def test_nothing_without_markers(self):
        assert self.figures(body(A), body(A)) == [(0, 0), (0, 0)]

    def test_a_marker_that_moves_on(self):
        first = body(user([text("a" * 10, **MARK)]))
        second = body(A, B, user([text("c" * 10, **MARK)]))
        assert self.figures(first, second) == [(0, 15), (15, size(second)[0] - 15)]

    def test_what_follows_the_last_marker_is_not_written(self):
        assert self.figures(body(user([text("a" * 10, **MARK), text("tail")]))) == [(0, 15)]

    def test_a_changed_prefix_is_no_hit(self):
        first = body(A, user([text("c" * 10, **MARK)]))
        second = body(user("A" * 10), user([text("c" * 10, **MARK)]))
        assert self.figures(first, second)[1] == (0, 30)

    @pytest.mark.parametrize(("between", "hit"), [(19, True), (20, False)])
    def test_lookback(self, between, hit):
        first = body(user([text("start", **MARK)]))
        blocks = [text(str(n)) for n in range(between - 1)]
        second = body(user([text("start"), *blocks, text("end", **MARK)]))
        assert (self.figures(first, second)[1][0] > 0) == hit

    def test_system_tools_results_and_automatic_markers(self):
        tool = {"name": "t", **MARK}
        assert self.figures(body(A, tools=[tool])) == [(0, len('{"name": "t"}'))]
        assert self.figures(body(A, system=[text("s", **MARK)])) == [(0, len("system\ns"))]
        result = {"type": "tool_result", "tool_use_id": "1", "content": [text("r", **MARK)]}
        assert self.figures(body(user([result])))[0][1] > 0
        assert self.figures(body(A, B, **MARK)) == [(0, size(body(A, B))[0])]


def test_each_api_reports_it_in_its_own_fields(model_server):
    server = model_server(["ok"] * 6, count=len)
    one, two = body(A), body(A, B, C)
    first, whole = size(one, two)
    usage = [ask(server, "chat", **b).json() for b in (one, two)][1]["usage"]
    assert usage["prompt_tokens"] == whole
    assert usage["prompt_tokens_details"]["cached_tokens"] == first
    asks = [{**b, "model": "other"} for b in (one, two)]
    usage = [ask(server, "anthropic", **b).json() for b in asks][1]["usage"]
    assert (usage["input_tokens"], usage["cache_read_input_tokens"]) == (whole - first, first)
    asks = [{"model": "third", "input": b["messages"]} for b in (one, two)]
    usage = [ask(server, "responses", **b).json() for b in asks][1]["usage"]
    assert usage["input_tokens"] == whole
    assert usage["input_tokens_details"]["cached_tokens"] == first
    assert [r.usage for r in server.requests[1::2]] == [Usage(whole, first, output=2)] * 3


@given(st.text(max_size=30), st.text(max_size=30), st.text(max_size=30))
def test_common_prefix(start, one, other):
    length = common_prefix(start + one, start + other)
    assert length >= len(start)
    assert (start + one)[:length] == (start + other)[:length]
    assert (start + one)[: length + 1] != (start + other)[: length + 1] or length in {
        len(start + one),
        len(start + other),
    }

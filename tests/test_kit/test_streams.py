"""A stream adds up to the reply that a client without streaming gets."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit import Call, ModelServer, Step
from kit.client import ask
from kit.sse import read

MORE = {
    "chat": {"stream_options": {"include_usage": True}},
    "anthropic": {},
    "responses": {"include": ["reasoning.encrypted_content"]},
}


def add_up_chat(events):
    chunks = [event.data for event in events if event.data != "[DONE]"]
    message = {"annotations": []}
    calls = {}
    finish = None
    for chunk in chunks:
        for choice in chunk["choices"]:
            finish = choice["finish_reason"] or finish
            delta = choice["delta"]
            for key, value in delta.items():
                if key == "tool_calls":
                    for piece in value:
                        _merge(calls.setdefault(piece["index"], {}), piece)
                elif key in {"content", "reasoning_content"} and value is not None:
                    message[key] = (message.get(key) or "") + value
                else:
                    message[key] = value
    if calls:
        for call in calls.values():
            del call["index"]
        message["tool_calls"] = list(calls.values())
    whole = {key: chunks[-1][key] for key in ("id", "created", "model", "usage")}
    return whole | {"message": message, "finish_reason": finish}


def _merge(call, piece):
    for key, value in piece.items():
        if isinstance(value, dict):
            _merge(call.setdefault(key, {}), value)
        elif key in {"arguments", "input"}:
            call[key] = call.get(key, "") + value
        else:
            call[key] = value


def plain_chat(body):
    choice = body["choices"][0]
    whole = {key: body[key] for key in ("id", "created", "model", "usage")}
    return whole | {"message": choice["message"], "finish_reason": choice["finish_reason"]}


def add_up_anthropic(events):
    message = events[0].data["message"]
    inputs = {}
    for event in events:
        data = event.data
        if event.name == "content_block_start":
            message["content"].append(data["content_block"])
        elif event.name == "content_block_delta":
            block, delta = message["content"][data["index"]], dict(data["delta"])
            kind = delta.pop("type")
            for key, value in delta.items():
                if kind == "input_json_delta":
                    inputs[data["index"]] = inputs.get(data["index"], "") + value
                else:
                    block[key] += value
        elif event.name == "content_block_stop" and inputs.get(data["index"]):
            message["content"][data["index"]]["input"] = json.loads(inputs[data["index"]])
        elif event.name == "message_delta":
            message |= data["delta"]
            message["usage"] |= data["usage"]
    return message


def add_up_responses(events):
    response = events[-1].data["response"]
    done = [event.data["item"] for event in events if event.name == "response.output_item.done"]
    assert done == response["output"]
    texts = {}
    for event in events:
        if event.name.endswith(".delta"):
            key = event.data["item_id"]
            texts[key] = texts.get(key, "") + event.data["delta"]
    for item in done:
        parts = item.get("summary") or item.get("content") or [{}]
        text = item.get("arguments") or item.get("input") or parts[0].get("text", "")
        assert texts.get(item.get("id"), "") == text
    return response


ADD_UP = {"chat": add_up_chat, "anthropic": add_up_anthropic, "responses": add_up_responses}

STEPS = {
    "text": Step("A text of some length, in several pieces."),
    "nothing": Step(),
    "thought": Step("x", thought="A thought of some length."),
    "hidden thought": Step("x", thought="secret", hidden=True),
    "calls": Step(calls=[Call("bash", {"command": "ls"}), Call("wait"), Call("bash", {"n": 1})]),
    "all": Step("Text.", thought="Thought.", calls=[Call("bash", {"command": "ls -la /tmp"})]),
    "ids": Step(calls=[Call("bash", {"command": "ls"}, id="again")]),
    "no JSON": Step(calls=[Call("bash", '{"command": "unclo')]),
    "custom": Step(calls=[Call("apply_patch", "*** Begin Patch\n*** End Patch", custom=True)]),
    "cut off": Step("This was to be lon", stop="length"),
    "any script": Step("日本語のテキスト, emoji 🎉, and ünïcödé"),
}


def both(api, step):
    """The reply, and what the stream adds up to."""
    with ModelServer([step]) as server:
        plain = ask(server, api, **MORE[api]).json()
    with ModelServer([step]) as server:
        stream = ask(server, api, **MORE[api], stream=True)
    summed = ADD_UP[api](list(read(stream.content)))
    return (plain_chat(plain) if api == "chat" else plain), summed


@pytest.mark.parametrize("api", MORE)
@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_stream_adds_up(api, step):
    plain, summed = both(api, step)
    assert summed == plain


@pytest.mark.parametrize(
    ("api", "raw"),
    [
        ("anthropic", {"type": "server_tool_use", "id": "s", "name": "web", "input": {"q": "x"}}),
        ("anthropic", {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}),
        ("responses", {"type": "mcp_call", "id": "mcp_0", "name": "n", "arguments": ""}),
        ("responses", {"type": "compaction", "id": "cmp_0", "encrypted_content": "abc"}),
        ("chat", {"reasoning": "the key of OpenRouter"}),
    ],
)
def test_raw_parts(api, raw):
    plain, summed = both(api, Step("text", raw=[raw]))
    assert summed == plain
    if api == "chat":
        assert plain["message"]["reasoning"] == raw["reasoning"]
    else:
        assert plain["content" if api == "anthropic" else "output"][0] == raw


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
CALLS = st.builds(Call, st.sampled_from(["bash", "edit"]), st.dictionaries(TEXTS, TEXTS | st.integers()))


@given(
    api=st.sampled_from(sorted(MORE)),
    step=st.builds(Step, TEXTS, TEXTS, st.lists(CALLS, max_size=3), piece=st.integers(1, 30)),
)
def test_any_stream_adds_up(api, step):
    plain, summed = both(api, step)
    assert summed == plain

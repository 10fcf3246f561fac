"""Requests that real providers reject for their form."""

import pytest

from kit import Step, rules
from kit.client import ask
from kit.rules import pairing, problems

USER = {"role": "user", "content": "x"}


def chat_call(*ids):
    calls = [{"id": id_, "type": "function", "function": {}} for id_ in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def chat_result(id_):
    return {"role": "tool", "tool_call_id": id_, "content": "ok"}


def blocks(role, *content):
    return {"role": role, "content": list(content)}


def use(*ids):
    return blocks("assistant", *({"type": "tool_use", "id": id_} for id_ in ids))


def result(*ids):
    return blocks("user", *({"type": "tool_result", "tool_use_id": id_} for id_ in ids))


def item(kind, id_, **more):
    return {"type": kind, "call_id": id_, **more}


@pytest.mark.parametrize(
    ("api", "items"),
    [
        ("chat", [USER, chat_call("a", "b"), chat_result("b"), chat_result("a"), USER]),
        ("chat", [USER, chat_call("a"), chat_result("a"), chat_call("a"), chat_result("a")]),
        ("anthropic", [USER, use("a", "b"), result("a", "b"), USER]),
        ("anthropic", [USER, use("a", "b"), result("a"), result("b"), USER]),
        ("anthropic", [USER, use("a"), result("a"), use("a"), result("a")]),
        ("responses", [USER, item("function_call", "a"), item("function_call_output", "a")]),
        (
            "responses",
            [
                item("function_call", "a"),
                item("custom_tool_call", "b"),
                item("custom_tool_call_output", "b"),
                item("function_call_output", "a"),
                item("web_search_call", None),
                item("mcp_call", None),
            ],
        ),
    ],
)
def test_paired(api, items):
    assert pairing(api, items) == []


@pytest.mark.parametrize(
    ("api", "items", "words"),
    [
        ("chat", [chat_call("a", "b"), chat_result("a"), USER], "did not have response messages: b"),
        ("chat", [chat_call("a")], "did not have response messages: a"),
        ("chat", [USER, chat_result("a")], "must be a response to a preceding message"),
        ("chat", [chat_call("a"), chat_result("a"), USER, chat_result("a")], "preceding message"),
        ("anthropic", [USER, use("a"), USER], "messages.1: `tool_use` ids were found without"),
        ("anthropic", [USER, use("a")], "messages.1: `tool_use` ids were found without"),
        ("anthropic", [result("a")], "messages.0: unexpected `tool_use_id` found"),
        ("anthropic", [use("a"), result("a"), USER, use("b"), result("a")], "messages.3"),
        ("responses", [item("function_call", "a")], "No tool output found for function call a."),
        ("responses", [item("function_call_output", "a")], "No tool call found for function call"),
        (
            "responses",
            [item("custom_tool_call", "a"), item("function_call_output", "a")],
            "No tool call found for function call output with call_id a.",
        ),
    ],
)
def test_not_paired(api, items, words):
    assert words in pairing(api, items)[0]


def test_reasoning_needs_what_it_led_to():
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": []}
    answer = {"type": "message", "role": "assistant", "content": []}
    body = {"model": "m"}
    assert problems("responses", body, [USER, reasoning, answer]) == []
    expected = ["Item 'rs_1' of type 'reasoning' was provided without its required following item."]
    assert problems("responses", body, [USER, reasoning]) == expected
    assert problems("responses", body, [reasoning, USER]) == expected


def test_anthropic_form():
    body = {"model": "m"}
    mark = {"cache_control": {"type": "ephemeral"}}
    marked = blocks("user", *({"type": "text", "text": "x", **mark} for _ in range(4)))
    assert problems("anthropic", body, [USER]) == ["max_tokens: Field required"]
    body |= {"max_tokens": 9, "system": [{"type": "text", "text": "s", **mark}]}
    body["messages"] = [marked]
    assert problems("anthropic", body, [marked]) == [
        "A maximum of 4 blocks with cache_control may be provided. Found 5."
    ]
    empty = blocks("user", {"type": "text", "text": ""})
    body = {"model": "m", "max_tokens": 9}
    assert problems("anthropic", body, [empty]) == ["messages.0: text content blocks must be non-empty"]


def test_no_messages_and_no_objects():
    assert problems("chat", {"model": "m"}, []) == ["messages: at least one message is required"]
    assert problems("chat", {"model": "m"}, [7]) == ["messages.0: Input should be an object"]
    assert problems("chat", {}, [USER]) == ["model: Field required"]


def test_alternation():
    model = {"role": "assistant"}
    assert rules.alternation([{"role": "system"}, USER, model, USER]) == []
    assert rules.alternation([USER, USER])


@pytest.mark.parametrize("strict", [True, False])
def test_the_server_rejects_and_remembers(model_server, strict):
    server = model_server(["ok"], strict=strict, allow_problems=True)
    reply = ask(server, messages=[USER, chat_result("a")])
    assert reply.status_code == (400 if strict else 200)
    assert bool(server.problems) == strict
    assert server.script.left == (1 if strict else 0)


def test_the_server_wants_alternation_if_told(model_server):
    server = model_server(["ok"], alternating=True, allow_problems=True)
    reply = ask(server, messages=[USER, USER])
    assert reply.json()["error"]["message"].startswith("Conversation roles must alternate")


def test_signed_thoughts_must_come_back_as_they_were(model_server):
    server = model_server([Step("ok", thought="a thought"), "two", "three"], allow_problems=True)
    content = ask(server, "anthropic").json()["content"]
    again = [USER, blocks("assistant", *content), USER]
    assert ask(server, "anthropic", messages=again).status_code == 200
    content[0] = {**content[0], "thinking": "another"}
    reply = ask(server, "anthropic", messages=[USER, blocks("assistant", *content), USER])
    assert reply.status_code == 400
    assert "cannot be modified" in reply.json()["error"]["message"]

"""Replies have the official shape of each API, key by key and event by event.

Checked by hand against the types of openai 3.57 and anthropic 2.14, and against recorded traffic.
"""

from kit import Call, Step
from kit.client import ask
from kit.sse import read

STEP = Step(
    "Let me look.",
    thought="Think first.",
    calls=[Call("bash", {"command": "ls"}), Call("bash", '{"command": "pwd"}')],
    piece=10,
)
USAGE = {"input": 100, "cached": 60, "written": 10, "output": 30, "reasoning": 12}
MODEL = {"model": "scripted"}


def test_chat_reply(model_server):
    server = model_server([Step(STEP.text, STEP.thought, STEP.calls, usage=USAGE)])
    reply = ask(server, "chat", **MODEL)
    assert reply.headers["content-type"] == "application/json"
    assert reply.json() == {
        "id": "chatcmpl-0",
        "object": "chat.completion",
        "created": 0,
        "model": "scripted",
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "Let me look.",
                    "refusal": None,
                    "annotations": [],
                    "reasoning_content": "Think first.",
                    "tool_calls": [
                        {
                            "id": "call_0_0",
                            "type": "function",
                            "function": {"name": "bash", "arguments": '{"command": "ls"}'},
                        },
                        {
                            "id": "call_0_1",
                            "type": "function",
                            "function": {"name": "bash", "arguments": '{"command": "pwd"}'},
                        },
                    ],
                },
                "logprobs": None,
                "finish_reason": "tool_calls",
            }
        ],
        "usage": {
            "prompt_tokens": 100,
            "completion_tokens": 30,
            "total_tokens": 130,
            "prompt_tokens_details": {"cached_tokens": 60, "audio_tokens": 0},
            "completion_tokens_details": {
                "reasoning_tokens": 12,
                "audio_tokens": 0,
                "accepted_prediction_tokens": 0,
                "rejected_prediction_tokens": 0,
            },
        },
        "service_tier": "default",
        "system_fingerprint": None,
    }


def test_chat_stream(model_server):
    server = model_server([STEP, "plain"])
    reply = ask(server, stream=True, stream_options={"include_usage": True})
    assert reply.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert reply.text.startswith('data: {"id":"chatcmpl-0","object":"chat.completion.chunk",')
    events = list(read(reply.content))
    assert events[-1].data == "[DONE]"
    assert {event.name for event in events} == {None}
    *chunks, end = [event.data for event in events[:-1]]
    assert end["choices"] == []
    assert end["usage"]["completion_tokens"] > 0
    assert all(chunk["usage"] is None for chunk in chunks)
    assert [(c["choices"][0]["delta"], c["choices"][0]["finish_reason"]) for c in chunks] == [
        ({"role": "assistant", "content": "", "refusal": None}, None),
        ({"reasoning_content": "Think firs"}, None),
        ({"reasoning_content": "t."}, None),
        ({"content": "Let me loo"}, None),
        ({"content": "k."}, None),
        (_call_start(0), None),
        (_call_piece(0, '{"command"'), None),
        (_call_piece(0, ': "ls"}'), None),
        (_call_start(1), None),
        (_call_piece(1, '{"command"'), None),
        (_call_piece(1, ': "pwd"}'), None),
        ({}, "tool_calls"),
    ]
    plain = list(read(ask(server, stream=True).content))
    assert all("usage" not in event.data for event in plain[:-1])
    assert plain[-2].data["choices"][0]["finish_reason"] == "stop"


def _call_start(index):
    function = {"name": "bash", "arguments": ""}
    call = {"index": index, "id": f"call_0_{index}", "type": "function", "function": function}
    return {"tool_calls": [call]}


def _call_piece(index, text):
    return {"tool_calls": [{"index": index, "function": {"arguments": text}}]}


def test_anthropic_reply(model_server):
    server = model_server([Step(STEP.text, STEP.thought, STEP.calls, usage=USAGE)])
    body = ask(server, "anthropic", **MODEL).json()
    signature = body["content"][0].pop("signature")
    assert len(signature) > 100
    assert body == {
        "id": "msg_0",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": [
            {"type": "thinking", "thinking": "Think first."},
            {"type": "text", "text": "Let me look."},
            {"type": "tool_use", "id": "call_0_0", "name": "bash", "input": {"command": "ls"}},
            {"type": "tool_use", "id": "call_0_1", "name": "bash", "input": {"command": "pwd"}},
        ],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 30,  # neither read from the cache nor written to it
            "cache_creation_input_tokens": 10,
            "cache_read_input_tokens": 60,
            "cache_creation": {"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 0},
            "output_tokens": 30,
            "service_tier": "standard",
        },
    }


def test_anthropic_stream(model_server):
    server = model_server([Step(STEP.text, STEP.thought, STEP.calls[:1], usage=USAGE, piece=10)])
    reply = ask(server, "anthropic", stream=True)
    assert reply.text.startswith('event: message_start\ndata: {"type":"message_start","message":')
    events = list(read(reply.content))
    assert all(event.name == event.data["type"] for event in events)
    message = events[0].data["message"]
    assert (message["content"], message["stop_reason"]) == ([], None)
    assert message["usage"]["cache_read_input_tokens"] == 60
    signature = events[5].data["delta"]["signature"]
    assert [event.data for event in events[1:]] == [
        _block(0, {"type": "thinking", "thinking": "", "signature": ""}),
        {"type": "ping"},
        _delta(0, {"type": "thinking_delta", "thinking": "Think firs"}),
        _delta(0, {"type": "thinking_delta", "thinking": "t."}),
        _delta(0, {"type": "signature_delta", "signature": signature}),
        {"type": "content_block_stop", "index": 0},
        _block(1, {"type": "text", "text": ""}),
        _delta(1, {"type": "text_delta", "text": "Let me loo"}),
        _delta(1, {"type": "text_delta", "text": "k."}),
        {"type": "content_block_stop", "index": 1},
        _block(2, {"type": "tool_use", "id": "call_0_0", "name": "bash", "input": {}}),
        _delta(2, {"type": "input_json_delta", "partial_json": ""}),
        _delta(2, {"type": "input_json_delta", "partial_json": '{"command"'}),
        _delta(2, {"type": "input_json_delta", "partial_json": ': "ls"}'}),
        {"type": "content_block_stop", "index": 2},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use", "stop_sequence": None},
            "usage": {
                "input_tokens": 30,
                "cache_creation_input_tokens": 10,
                "cache_read_input_tokens": 60,
                "output_tokens": 30,
            },
        },
        {"type": "message_stop"},
    ]


def _block(index, block):
    return {"type": "content_block_start", "index": index, "content_block": block}


def _delta(index, delta):
    return {"type": "content_block_delta", "index": index, "delta": delta}


RESPONSES_STEP = Step("Done.", thought="Think.", calls=[STEP.calls[0], Call("apply_patch", "*** Begin", custom=True)])
REASONING = {
    "id": "rs_0",
    "type": "reasoning",
    "summary": [{"type": "summary_text", "text": "Think."}],
}
MESSAGE = {
    "id": "msg_0",
    "type": "message",
    "status": "completed",
    "role": "assistant",
    "content": [{"type": "output_text", "annotations": [], "logprobs": [], "text": "Done."}],
}
FUNCTION = {
    "status": "completed",
    "id": "fc_0_0",
    "type": "function_call",
    "arguments": '{"command": "ls"}',
    "call_id": "call_0_0",
    "name": "bash",
}
CUSTOM = {
    "status": "completed",
    "id": "ctc_0_1",
    "type": "custom_tool_call",
    "input": "*** Begin",
    "call_id": "call_0_1",
    "name": "apply_patch",
}


def test_responses_reply(model_server):
    server = model_server([RESPONSES_STEP, "ok"])
    sent = {**MODEL, "input": "Go.", "instructions": "Be.", "store": False}
    body = ask(server, "responses", **sent).json()
    usage = body.pop("usage")
    assert body == {
        "id": "resp_0",
        "object": "response",
        "created_at": 0,
        "status": "completed",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": "Be.",
        "max_output_tokens": None,
        "max_tool_calls": None,
        "model": "scripted",
        "output": [REASONING, MESSAGE, FUNCTION, CUSTOM],
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "prompt_cache_key": None,
        "reasoning": {"effort": None, "summary": None},
        "safety_identifier": None,
        "service_tier": "default",
        "store": False,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "tool_choice": "auto",
        "tools": [],
        "top_logprobs": 0,
        "top_p": 1.0,
        "truncation": "disabled",
        "user": None,
        "metadata": {},
    }
    assert usage == {
        "input_tokens": 2 + 2,  # "system\nBe.", "user\nGo.": a token for four characters
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 1 + 1 + 1 + 4 + 2 + 2,
        "output_tokens_details": {"reasoning_tokens": 1},
        "total_tokens": 15,
    }
    server = model_server([RESPONSES_STEP])
    sealed = ask(server, "responses", include=["reasoning.encrypted_content"]).json()["output"][0]
    assert sealed.pop("encrypted_content")
    assert sealed == REASONING


def test_responses_stream(model_server):
    server = model_server([RESPONSES_STEP])
    reply = ask(server, "responses", stream=True)
    events = list(read(reply.content))
    assert "[DONE]" not in reply.text
    assert all(event.name == event.data["type"] for event in events)
    assert [event.data["sequence_number"] for event in events] == list(range(len(events)))
    for event in events[:2]:
        assert event.data["response"]["status"] == "in_progress"
        assert event.data["response"]["output"] == []
        assert event.data["response"]["usage"] is None
    assert events[-1].data["response"]["output"] == [REASONING, MESSAGE, FUNCTION, CUSTOM]
    thinking = REASONING["summary"][0]
    part = MESSAGE["content"][0]
    summary = {"item_id": "rs_0", "output_index": 0, "summary_index": 0}
    content = {"item_id": "msg_0", "output_index": 1, "content_index": 0}
    bash = {"item_id": "fc_0_0", "output_index": 2}
    patch = {"item_id": "ctc_0_1", "output_index": 3}
    expected = [
        ("output_item.added", {"output_index": 0, "item": {**REASONING, "summary": []}}),
        ("reasoning_summary_part.added", summary | {"part": {**thinking, "text": ""}}),
        ("reasoning_summary_text.delta", summary | {"delta": "Think."}),
        ("reasoning_summary_text.done", summary | {"text": "Think."}),
        ("reasoning_summary_part.done", summary | {"part": thinking}),
        ("output_item.done", {"output_index": 0, "item": REASONING}),
        (
            "output_item.added",
            {"output_index": 1, "item": {**MESSAGE, "status": "in_progress", "content": []}},
        ),
        ("content_part.added", content | {"part": {**part, "text": ""}}),
        ("output_text.delta", content | {"delta": "Done.", "logprobs": []}),
        ("output_text.done", content | {"text": "Done.", "logprobs": []}),
        ("content_part.done", content | {"part": part}),
        ("output_item.done", {"output_index": 1, "item": MESSAGE}),
        (
            "output_item.added",
            {"output_index": 2, "item": {**FUNCTION, "status": "in_progress", "arguments": ""}},
        ),
        ("function_call_arguments.delta", bash | {"delta": FUNCTION["arguments"]}),
        ("function_call_arguments.done", bash | {"arguments": FUNCTION["arguments"]}),
        ("output_item.done", {"output_index": 2, "item": FUNCTION}),
        (
            "output_item.added",
            {"output_index": 3, "item": {**CUSTOM, "status": "in_progress", "input": ""}},
        ),
        ("custom_tool_call_input.delta", patch | {"delta": "*** Begin"}),
        ("custom_tool_call_input.done", patch | {"input": "*** Begin"}),
        ("output_item.done", {"output_index": 3, "item": CUSTOM}),
    ]
    assert [event.name for event in events[:2]] == ["response.created", "response.in_progress"]
    assert [(e.name.removeprefix("response."), _bare(e.data)) for e in events[2:-1]] == expected
    assert events[-1].name == "response.completed"


def _bare(data):
    return {key: value for key, value in data.items() if key not in {"type", "sequence_number"}}


def test_hidden_thoughts(model_server):
    server = model_server([Step("x", thought="secret", hidden=True)] * 3)
    chat = ask(server, "chat", **MODEL).json()
    assert "reasoning_content" not in chat["choices"][0]["message"]
    assert chat["usage"]["completion_tokens_details"]["reasoning_tokens"] == 1
    message = ask(server, "anthropic", **MODEL).json()
    assert message["content"][0].keys() == {"type", "data"}
    assert message["content"][0]["type"] == "redacted_thinking"
    response = ask(server, "responses")
    assert response.json()["output"][0]["summary"] == []
    assert response.json()["output"][0]["encrypted_content"]
    for text in (str(chat), str(message), response.text):
        assert "secret" not in text


def test_anthropic_omitted_thinking(model_server):
    server = model_server([Step("x", thought="secret")] * 2)
    thinking = {"type": "adaptive", "display": "omitted"}
    block = ask(server, "anthropic", thinking=thinking).json()["content"][0]
    assert block["thinking"] == ""
    assert block["signature"]
    events = read(ask(server, "anthropic", thinking=thinking, stream=True).content)
    assert [e.data["delta"]["type"] for e in events if e.name == "content_block_delta"] == [
        "signature_delta",
        "text_delta",
    ]


def test_stop_reasons(model_server):
    stops = ["stop", "length", "filter", "stop_sequence"]
    server = model_server([Step("x", stop=stop) for stop in stops for _ in range(3)])
    found = []
    for _ in stops:
        chat = ask(server, "chat", **MODEL).json()
        message = ask(server, "anthropic", **MODEL).json()
        response = ask(server, "responses").json()
        details = response["incomplete_details"]
        found.append((chat["choices"][0]["finish_reason"], message["stop_reason"], details))
        assert response["status"] == ("incomplete" if details else "completed")
    assert found == [
        ("stop", "end_turn", None),
        ("length", "max_tokens", {"reason": "max_output_tokens"}),
        ("content_filter", "refusal", {"reason": "content_filter"}),
        ("stop_sequence", "stop_sequence", {"reason": "stop_sequence"}),
    ]

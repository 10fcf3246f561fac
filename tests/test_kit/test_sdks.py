"""The official Python clients, where they are installed, understand every reply."""

import pytest

from kit import Call, Step
from kit.checks import assert_append_only

CALLS = [Call("bash", {"command": "ls; echo ✓"}), Call("bash", '{"command": "pwd"}')]
STEPS = [Step("Let me look at it.", thought="First I think.", calls=CALLS), Step("All done.")]
SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}}


def conversation(server, first, turn):
    """Two turns; the second sends back what the first gave. Returns what the client made of it."""
    history, found = [*first], []
    for _ in STEPS:
        answer, more = turn(history)
        found.append(answer)
        history += more
    server.assert_finished()
    assert_append_only(server.requests)
    assert server.requests[1].usage.cached == server.requests[0].usage.input
    return found


def test_openai_chat(model_server):
    openai = pytest.importorskip("openai")
    tools = [{"type": "function", "function": {"name": "bash", "parameters": SCHEMA}}]
    found = {}
    for stream in (False, True):
        server = model_server(STEPS)
        client = openai.OpenAI(base_url=server.openai_url, api_key="x", max_retries=0)

        def turn(history, client=client, stream=stream):
            ask = {"model": "scripted", "messages": history, "tools": tools}
            if stream:
                ask["stream_options"] = {"include_usage": True}
                with client.chat.completions.stream(**ask) as events:
                    list(events)
                    reply = events.get_final_completion()
            else:
                reply = client.chat.completions.create(**ask)
            message = reply.choices[0].message
            calls = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.function.name, "arguments": call.function.arguments},
                }
                for call in message.tool_calls or []
            ]
            back = {"role": "assistant", "content": message.content}
            back["reasoning_content"] = getattr(message, "reasoning_content", None)
            back |= {"tool_calls": calls} if calls else {}
            results = [{"role": "tool", "tool_call_id": c["id"], "content": "ok"} for c in calls]
            answer = (back, reply.usage.model_dump(exclude_none=True), reply.choices[0].finish_reason)
            return answer, [back, *results]

        found[stream] = conversation(server, [{"role": "user", "content": "List."}], turn)
    assert found[True] == found[False]
    assert found[True][0][0]["reasoning_content"] == "First I think."


def test_anthropic(model_server):
    anthropic = pytest.importorskip("anthropic")
    tools = [{"name": "bash", "input_schema": SCHEMA}]
    found = {}
    for stream in (False, True):
        server = model_server(STEPS)
        client = anthropic.Anthropic(base_url=server.anthropic_url, api_key="x", max_retries=0)

        def turn(history, client=client, stream=stream):
            ask = {"model": "scripted", "max_tokens": 99, "messages": history, "tools": tools}
            if stream:
                with client.messages.stream(**ask) as events:
                    list(events)
                    reply = events.get_final_message()
            else:
                reply = client.messages.create(**ask)
            content = [block.model_dump(exclude_none=True) for block in reply.content]
            ids = [block["id"] for block in content if block["type"] == "tool_use"]
            results = [{"type": "tool_result", "tool_use_id": i, "content": "ok"} for i in ids]
            back = [{"role": "assistant", "content": content}, {"role": "user", "content": results}]
            return reply.model_dump(), back

        found[stream] = conversation(server, [{"role": "user", "content": "List."}], turn)
    assert found[True] == found[False]
    assert found[True][0]["content"][2]["input"] == {"command": "ls; echo ✓"}


def test_openai_responses(model_server):
    openai = pytest.importorskip("openai")
    custom = Call("apply_patch", "*** Begin Patch\n*** End Patch", custom=True)
    steps = [Step("Let me look.", thought="First.", calls=[*CALLS, custom]), STEPS[1]]
    tools = [
        {"type": "function", "name": "bash", "parameters": SCHEMA, "strict": False},
        {"type": "custom", "name": "apply_patch"},
    ]
    found = {}
    for stream in (False, True):
        server = model_server(steps)
        client = openai.OpenAI(base_url=server.openai_url, api_key="x", max_retries=0)

        def turn(history, client=client, stream=stream):
            include = ["reasoning.encrypted_content"]
            ask = {"model": "scripted", "input": history, "tools": tools, "include": include}
            if stream:
                with client.responses.stream(**ask) as events:
                    list(events)
                    reply = events.get_final_response()
            else:
                reply = client.responses.create(**ask)
            whole = reply.to_dict()
            back = whole["output"]
            for item in back:  # what the client's helper for streams adds
                item.pop("parsed_arguments", None)
                for part in item.get("content") or []:
                    part.pop("parsed", None)
            outputs = [
                {"type": f"{i['type']}_output", "call_id": i["call_id"], "output": "ok"} for i in back if "call_id" in i
            ]
            return whole, [*back, *outputs]

        found[stream] = conversation(server, [{"role": "user", "content": "List."}], turn)
    assert found[True] == found[False]


def test_errors(model_server):
    openai = pytest.importorskip("openai")
    anthropic = pytest.importorskip("anthropic")
    message = [{"role": "user", "content": "x" * 99}]
    server = model_server([], context_limit=5)
    client = openai.OpenAI(base_url=server.openai_url, api_key="x", max_retries=0)
    with pytest.raises(openai.BadRequestError) as error:
        client.chat.completions.create(model="m", messages=message)
    assert error.value.code == "context_length_exceeded"
    with pytest.raises(openai.BadRequestError, match="exceeds the context window"):
        client.responses.create(model="m", input=message)
    server.wording = "openai-responses-stream"
    with pytest.raises(openai.APIError, match="exceeds the context window"):
        list(client.responses.create(model="m", input=message, stream=True))
    server.wording = None
    client = anthropic.Anthropic(base_url=server.anthropic_url, api_key="x", max_retries=0)
    with pytest.raises(anthropic.BadRequestError, match="prompt is too long: 26 tokens > 5 maximum"):
        client.messages.create(model="m", max_tokens=9, messages=message)

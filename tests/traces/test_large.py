"""Large files, and files made to be slow: each kept a quadratic reader busy for more than 20 seconds, most for minutes.
Nothing is measured, a test that hangs is seen."""

import json
from typing import Any

import pytest

from cliff_core.traces import sse, terminus

CLOSED = "<keystrokes>ls\n</keystrokes>"


@pytest.mark.parametrize(
    ("text", "thought", "typed"),
    [
        ("<keystrokes>" * 40_000, None, None),
        ("<keystrokes " * 100_000, None, None),
        ("<keystrokes " * 100_000 + ">", None, None),
        (CLOSED + "<keystrokes>" * 40_000, [], ["ls\n"]),
        (CLOSED + "<plan>" * 40_000 + "<analysis>A</analysis>", ["A"], ["ls\n"]),
        ("<plan><analysis>" * 40_000 + "</plan>" + CLOSED, ["<analysis>" + "<plan><analysis>" * 39_999], ["ls\n"]),
    ],
)
def test_terminus_reply_with_many_open_tags(text: str, thought: list[str] | None, typed: list[str] | None) -> None:
    mark = terminus.reply(text).get("_cliff", {})
    assert mark.get("thought") == thought
    assert typed == ([call["arguments"] for call in mark["calls"]] if mark else None)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("", "```bash\n x" * 40_000),
        ("", "```bash" + "\n" * 100_000),
        (r"```bash\s*\n(.*?)\n```", "```bash\n" + "x```bash\n\n" * 30_000),
        ("<a>(.*?)</a>", "<a>" * 40_000),
    ],
)
def test_mini_reply_with_many_open_fences(sessions: Any, pattern: str, text: str) -> None:
    messages = [{"role": role, "content": text} for role in ("system", "user", "assistant")]
    config = {"agent": {"action_regex": pattern}}
    (session,) = sessions({"info": {"config": config}, "messages": messages})
    assert session.messages == messages


def claude(number: int, role: str, **more: Any) -> dict[str, Any]:
    message = {"role": role, "content": [{"type": "text", "text": "x"}], "id": f"m{number}"}
    parent = f"u{number - 1}" if number else None
    return {"type": role, "uuid": f"u{number}", "parentUuid": parent, "sessionId": "s", "message": message, **more}


def test_claude_code_long_sidechain_without_an_agent(sessions: Any) -> None:
    (session,) = sessions(*(claude(number, "assistant", isSidechain=True) for number in range(20_000)))
    assert (session.name, len(session.requests)) == ("s/u0", 20_000)


def test_claude_code_many_user_lines_in_a_row(sessions: Any) -> None:
    (session,) = sessions(*(claude(number, "user") for number in range(20_000)))
    assert [len(message["content"]) for message in session.messages] == [20_000]


def codex(kind: str, payload: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, "payload": payload}


SPOKEN = codex("response_item", {"type": "message", "role": "user", "content": []})


def test_codex_many_counts_of_tokens_without_a_request(sessions: Any) -> None:
    counts = (
        codex("event_msg", {"type": "token_count", "info": {"total_token_usage": {"input_tokens": number}}})
        for number in range(30_000)
    )
    (session,) = sessions(*[SPOKEN] * 30_000, *counts)
    assert (len(session.messages), session.requests) == (30_000, [])


def test_codex_many_roll_backs(sessions: Any) -> None:
    back = codex("event_msg", {"type": "thread_rolled_back", "num_turns": 1})
    (session,) = sessions(*[SPOKEN] * 30_000, *[back] * 29_999)
    assert len(session.messages) == 1


def v0(number: int, call: str, kind: str) -> dict[str, Any]:
    reply = {"content": str(number), "tool_calls": [{"id": call}]}
    response = {"id": f"r{number}", "choices": [{"message": reply}]}
    return {
        kind: "run",
        "args": {},
        "content": "",
        "tool_call_metadata": {"tool_call_id": call, "model_response": response},
    }


def test_openhands_v0_many_calls_without_a_result(sessions: Any) -> None:
    (session,) = sessions([v0(number, f"c{number}", "action") for number in range(10_000)])
    assert [message["content"] for message in session.messages] == ["9999"]  # the last one was still running
    assert len(session.requests) == 10_000


def test_openhands_v0_many_calls_with_one_id(sessions: Any) -> None:
    events = [v0(number, "c", kind) for kind in ("action", "observation") for number in range(10_000)]
    (session,) = sessions(events)
    assert [message["content"] for message in session.messages[::2]] == [str(number) for number in range(10_000)]


def test_openhands_v0_one_reply_of_many_calls(sessions: Any) -> None:
    action = v0(0, "c0", "action")
    message = action["tool_call_metadata"]["model_response"]["choices"][0]["message"]
    message["tool_calls"] = [{"id": f"c{number}"} for number in range(20_000)]
    results = ({"observation": "run", "tool_call_metadata": {"tool_call_id": f"c{n}"}} for n in range(20_000))
    (session,) = sessions([action, *results])
    assert len(session.messages) == 20_001


def test_openhands_v1_many_responses(sessions: Any) -> None:
    event = {"kind": "MessageEvent", "source": "agent", "llm_message": {"role": "assistant"}}
    (session,) = sessions([{**event, "llm_response_id": f"r{number}"} for number in range(30_000)])
    assert len(session.requests) == 30_000


def test_swe_agent_many_agents_and_a_large_configuration(sessions: Any) -> None:
    config = {"agent": {"model": {"name": "m"}}, "more": ["x"] * 200_000}
    history = [{"role": "user", "content": "T", "agent": f"a{number}"} for number in range(10_000)]
    found = sessions({"trajectory": [], "replay_config": json.dumps(config), "history": history})
    assert [session.model for session in found] == ["m"] * 10_000


def test_responses_that_name_the_one_before(sessions: Any) -> None:
    (session,) = sessions(
        *(
            {
                "request": {"input": "T", "previous_response_id": f"p{number - 1}"},
                "response": {"id": f"p{number}", "output": [{"type": "message", "role": "assistant"}]},
            }
            for number in range(5_000)
        )
    )
    assert [request.at for request in session.requests] == list(range(1, 10_000, 2))
    assert len(session.messages) == 10_000


def test_many_sessions_that_begin_alike(sessions: Any) -> None:
    found = sessions(
        *(
            {
                "request": {"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": str(number)}]},
                "response": {"choices": [{"message": {"role": "assistant", "content": "A"}}]},
            }
            for number in range(6_000)
        )
    )
    assert [session.messages[1]["content"] for session in found] == [str(number) for number in range(6_000)]


def test_stream_of_many_pieces() -> None:
    start = {"type": "message_start", "message": {"type": "message"}}
    block = {"type": "content_block_start", "content_block": {"type": "text", "text": ""}}
    delta = f"data: {json.dumps({'type': 'content_block_delta', 'delta': {'text': 'x' * 1000}})}\n\n"
    stream = "".join(f"data: {json.dumps(event)}\n\n" for event in (start, block)) + delta * 30_000
    assert sse.response(stream)["content"] == [{"type": "text", "text": "x" * 30_000_000}]


def test_stream_with_a_huge_index() -> None:
    """It names a call, and is no number of calls to make room for."""
    chunks = [
        {"choices": [{"delta": {"tool_calls": [{"index": 10**12, "id": "b", "function": {"arguments": "{"}}]}}]},
        {"choices": [{"delta": {"tool_calls": [{"index": 3, "id": "a", "function": {"name": "f"}}]}}]},
        {"choices": [{"delta": {"tool_calls": [{"index": 10**12, "function": {"arguments": "}"}}]}}]},
        {"choices": [{"delta": {"tool_calls": [{"id": "c"}]}}]},
    ]
    found = sse.response("".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks))
    assert found["choices"][0]["message"]["tool_calls"] == [
        {"id": "a", "type": "function", "function": {"name": "f", "arguments": ""}},
        {"id": "b", "type": "function", "function": {"name": "", "arguments": "{}"}},
        {"id": "c", "type": "function", "function": {"name": "", "arguments": ""}},
    ]

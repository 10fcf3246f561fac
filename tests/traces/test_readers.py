"""What the samples do not show: seldom records of each format."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cliff_core.traces import Request, Usage, read

# --- mini-swe-agent ----------------------------------------------------------------------------------------


def mini(*messages: dict[str, Any], **info: Any) -> dict[str, Any]:
    begin = [{"role": "system", "content": "S"}, {"role": "user", "content": "T"}]
    return {"trajectory_format": "mini-swe-agent-1", "info": info, "messages": [*begin, *messages]}


def test_mini_rejection_without_words_is_the_result_of_the_call(sessions: Any) -> None:
    command = {"role": "assistant", "content": "```bash\nrm x\n```"}
    (session,) = sessions(
        mini(
            command,
            {"role": "user", "content": "Command not executed. Switching to human mode"},
            command,
            {"role": "user", "content": "Command not executed. The user rejected your command with …: no"},
            command,
            {"role": "user", "content": "The user added a new task: more"},
        )
    )
    assert [message.get("_cliff", {}).get("role") for message in session.messages] == (
        [None, None, None, "tool", None, None, None, None]
    )


def test_mini_keeps_the_last_result_of_a_run_that_crashed(sessions: Any) -> None:
    steps = ({"role": "assistant", "content": "```bash\nls\n```"}, {"role": "user", "content": "a.py"})
    for status, kept in (("Submitted", 3), ("LimitsExceeded", 3), ("BadRequestError", 4), (None, 4)):
        (session,) = sessions(mini(*steps, exit_status=status))
        assert len(session.messages) == kept


def test_mini_replies_without_any_recorded_response_are_requests(sessions: Any) -> None:
    (session,) = sessions(mini({"role": "assistant", "content": "A"}))
    assert session.requests == [Request(2)]


@pytest.mark.parametrize("pattern", ["(", "no group", "(two)(groups)", "(a{99999999999})"])
def test_mini_with_a_pattern_that_is_none(sessions: Any, pattern: str) -> None:
    steps = {"role": "assistant", "content": "```bash\nls\n```"}
    (session,) = sessions(mini(steps, config={"agent": {"action_regex": pattern}}))
    assert session.messages[2]["_cliff"]["calls"] == [{"name": "bash", "arguments": "ls"}]


PATTERNS = ["", r"```bash\s*\n(.*?)\n```", r"<a>\n(.*?)</a>", r"<a>(.*?)\s*</a>", "a(.*?)a", r"<a>(.*?)(?=\n)"]
FENCED = ["```bash", "```mswea_bash_command", "```", "\n", " ", "x", "<a>", "</a>", "a"]


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mini") / "file"


@given(st.sampled_from(PATTERNS), st.lists(st.sampled_from(FENCED), max_size=25).map("".join))
def test_mini_commands_are_those_of_the_pattern(scratch: Path, pattern: str, text: str) -> None:
    """However it is searched for (see `test_large`)."""
    step = {"role": "assistant", "content": text}
    scratch.write_text(json.dumps(mini(step, config={"agent": {"action_regex": pattern}})))
    (session,) = read(scratch)
    found = list(re.finditer(pattern or r"```(?:bash|mswea_bash_command)\s*\n(.*?)\n```", text, re.DOTALL))
    if len(found) != 1:
        assert session.messages[2] == step
        return
    around = (text[: found[0].start()].strip(), text[found[0].end() :].strip())
    assert session.messages[2]["_cliff"] == {
        "thought": [part for part in around if part],
        "calls": [{"name": "bash", "arguments": found[0][1].strip()}],
    }


def test_mini_reply_with_two_commands_runs_none(sessions: Any) -> None:
    block = "```bash\nls\n```\n"
    (session,) = sessions(mini({"role": "assistant", "content": block * 2}, {"role": "user", "content": "found 2"}))
    assert "_cliff" not in session.messages[2]
    assert session.messages[3]["_cliff"] == {"role": "note", "kind": "format_error"}


def test_mini_responses_reply_that_was_thrown_away(sessions: Any) -> None:
    usage = {"input_tokens": 40, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 3}
    error = {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_text", "text": "no call"}],
        "extra": {"interrupt_type": "FormatError", "response": {"usage": usage, "model": "m-1"}},
    }
    (session,) = sessions(mini(error, {"object": "response", "output": [], "usage": usage}, {"role": "exit"}))
    assert session.requests == [Request(2, Usage(40, 0, None, 3), "m-1"), Request(3, Usage(40, 0, None, 3))]
    assert session.dialect == "responses"
    assert "extra" not in session.messages[2]


# --- SWE-agent ---------------------------------------------------------------------------------------------


def test_swe_agent_sessions_of_several_agents_and_demonstrations(sessions: Any) -> None:
    def said(agent: str, role: str, content: str, **more: Any) -> dict[str, Any]:
        return {"agent": agent, "role": role, "content": content, **more}

    history = [
        said("main", "user", "DEMO", is_demo=True),
        said("main", "assistant", "DEMO REPLY", is_demo=True, action="ls"),
        said("main", "user", "T"),
        said("main", "assistant", "A", action="", thought="A"),
        said("helper", "user", "H"),
        said("main", "assistant", "Exit", action="exit_format"),
    ]
    document = {"trajectory": [], "history": history, "replay_config": "{broken"}
    first, second = sessions(document)
    assert [message.get("_cliff", {}).get("role") for message in first.messages] == ["note", "note", None, None]
    assert (first.name, first.requests, first.model) == ("main", [Request(3)], None)
    assert (second.name, second.messages) == ("helper", [{"role": "user", "content": "H"}])


# --- OpenHands ---------------------------------------------------------------------------------------------


def v0_response(identity: str, *ids: str) -> dict[str, Any]:
    calls = [{"id": i, "type": "function", "function": {"name": "f", "arguments": "{}"}} for i in ids]
    message = {"role": "assistant", "content": identity, "tool_calls": calls}
    return {"id": identity, "choices": [{"message": message}], "usage": {"prompt_tokens": 9, "completion_tokens": 1}}


def v0(kind: str, name: str, response: dict[str, Any] | None = None, call: str = "", **more: Any) -> dict[str, Any]:
    event: dict[str, Any] = {kind: name, "source": "agent", "args": {}, "content": "", "extras": {}, **more}
    if response:
        event["tool_call_metadata"] = {"tool_call_id": call, "function_name": "f", "model_response": response}
    return event


def test_openhands_v0_other_events(sessions: Any) -> None:
    one, two = v0_response("one", "1"), v0_response("two", "2", "3")
    (session,) = sessions(
        [
            v0("action", "message", source="user", args={"content": "T"}),
            v0("action", "run", source="user", args={"command": "ls"}),
            v0("observation", "run", content="a.py", extras={"metadata": {"exit_code": 0}}),
            v0("action", "message", args={"content": "Hello.", "image_urls": ["http://i"]}),
            v0("action", "delegate", one, "1"),
            v0("observation", "delegate", one, "1", content="x", extras={"outputs": {"content": "delegated"}}),
            v0("observation", "browse", content="page"),
            v0("action", "run", two, "2"),
            v0("observation", "user_rejected", two, "2", content="no"),
            v0("action", "finish", source="user", args={"thought": "bye"}),
        ]
    )
    assert session.messages == [
        {"role": "user", "content": "T"},
        {"role": "user", "content": "User executed the command:\nls"},
        {
            "role": "user",
            "content": "\nObserved result of command executed by user:\na.py\n[Command finished with exit code 0]",
            "_cliff": {"role": "tool"},
        },
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Hello."},
                {"type": "image_url", "image_url": {"url": "http://i"}},
            ],
        },
        {"role": "assistant", "content": "one", "tool_calls": one["choices"][0]["message"]["tool_calls"]},
        {"role": "tool", "tool_call_id": "1", "name": "f", "content": "delegated"},
        {"role": "user", "content": "page", "_cliff": {"role": "note"}},
        {"role": "user", "content": "bye"},
        # The log ends while a call runs: its message comes last, with the results that are there.
        {"role": "assistant", "content": "two", "tool_calls": two["choices"][0]["message"]["tool_calls"]},
        {
            "role": "tool",
            "tool_call_id": "2",
            "name": "f",
            "content": "OBSERVATION:\nno\n[Last action has been rejected by the user]",
        },
    ]
    assert [request.at for request in session.requests] == [3, 4, 7]


def test_openhands_v0_ids_that_repeat(sessions: Any) -> None:
    """A result belongs to the first reply that it completes, and to no other."""
    one, two, three = v0_response("one", "1", "2"), v0_response("two", "2"), v0_response("three", "2")
    (session,) = sessions(
        [
            *(v0("action", "run", response) for response in (one, two, three)),
            v0("observation", "run", call="1", content="a", response=one),
            v0("observation", "run", call="2", content="b", response=two),
            v0("observation", "run", call="2", content="c", response=two),
        ]
    )
    assert [message["content"] for message in session.messages] == ["one", "a", "b", "two", "c", "three"]


def test_openhands_v0_finish_is_text(sessions: Any) -> None:
    response = v0_response("written", "1")
    for thought, text in (("", "written"), ("written", "written"), ("thought", "thought\nwritten")):
        (session,) = sessions([v0("action", "finish", response, "1", args={"thought": thought})])
        assert session.messages == [{"role": "assistant", "content": text}]


def test_openhands_v1_other_events(sessions: Any) -> None:
    def action(call: str, function: dict[str, Any]) -> dict[str, Any]:
        return {"kind": "ActionEvent", "llm_response_id": call, "tool_call_id": call, "tool_call": function}

    (session,) = sessions(
        [
            {"kind": "MessageEvent", "source": "user", "llm_message": {"role": "user", "content": "T"}},
            action("1", {"function": {"name": "browse", "arguments": {"url": "u"}}}),
            {
                "kind": "ObservationEvent",
                "tool_call_id": "1",
                "tool_name": "browse",
                "observation": {"output": "page", "screenshot_data": "AAAA"},
            },
            action("2", {"id": "2", "name": "rm", "arguments": "{}"}),
            {"kind": "UserRejectObservation", "tool_call_id": "2", "tool_name": "rm", "rejection_reason": "no"},
            {
                "kind": "MessageEvent",
                "source": "agent",
                "llm_message": {"role": "assistant", "content": [], "reasoning_content": "hm"},
            },
            {"kind": "PauseEvent", "source": "user"},
        ]
    )
    assert session.messages[1]["tool_calls"][0] == {
        "id": "1",
        "type": "function",
        "function": {"name": "browse", "arguments": '{"url": "u"}'},
    }
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    assert session.messages[2]["content"] == [{"type": "text", "text": "page"}, image]
    assert session.messages[4]["content"] == "Action rejected: no"
    assert session.messages[5] == {"role": "assistant", "content": "", "reasoning_content": "hm"}
    assert [request.at for request in session.requests] == [1, 3, 5]


# --- ATIF, NeMo Gym ----------------------------------------------------------------------------------------


def test_atif_other_steps(sessions: Any) -> None:
    def step(source: str, message: str, **more: Any) -> dict[str, Any]:
        return {"source": source, "message": message, **more}

    call = {"tool_call_id": "a", "function_name": "f", "arguments": {}}
    (session,) = sessions(
        {
            "schema_version": "ATIF-v1.8",
            "agent": {"name": "other"},
            "steps": [
                step("user", "T"),
                step("agent", "copied", is_copied_context=True),
                step("agent", "", tool_calls=[call], observation={"results": [{"content": "by position"}]}),
                step("agent", "no call", observation={"results": [{"content": "the environment speaks"}]}),
                step("system", "told nobody"),
                step("agent", "", tool_calls=[call]),
            ],
        }
    )
    assert [request.at for request in session.requests] == [2, 4, 6]
    assert session.messages[3] == {"role": "tool", "tool_call_id": "a", "content": "by position"}
    assert session.messages[5] == {
        "role": "user",
        "content": "the environment speaks",
        "_cliff": {"role": "tool"},
    }
    assert "told nobody" not in str(session.messages)


def test_nemo_gym_terminus_by_its_calls(sessions: Any) -> None:
    def text(content: str, role: str = "assistant") -> dict[str, Any]:
        return {"type": "message", "role": role, "content": content}

    output = [
        text("say"),
        {"type": "function_call", "name": "bash_command", "arguments": "{broken"},
        {"type": "function_call_output", "output": "a.py"},
        text("Continue.", "user"),
        text("more"),
    ]
    (session,) = sessions({"responses_create_params": {"input": []}, "response": {"output": output}})
    assert session.dialect == "chat-text"
    assert session.messages[0]["_cliff"]["calls"][0]["arguments"] == "{broken"
    assert session.messages[2:] == [
        {"role": "user", "content": "Continue."},
        {"role": "assistant", "content": "more"},
    ]
    assert [request.at for request in session.requests] == [0, 3]


# --- Claude Code -------------------------------------------------------------------------------------------


def line(uuid: str, parent: str | None, role: str, content: Any, **more: Any) -> dict[str, Any]:
    message = {"role": role, "content": content, "id": f"m-{uuid}", "model": "c"}
    return {"type": role, "uuid": uuid, "parentUuid": parent, "sessionId": "S", "message": message, **more}


def text(content: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}]


def test_claude_code_sidechains_without_agent_names(sessions: Any) -> None:
    found = sessions(
        line("1", None, "user", "T"),
        line("a", None, "user", "first", isSidechain=True),
        line("b", None, "user", "second", isSidechain=True),
        line("c", "a", "assistant", text("1st"), isSidechain=True),
        line("d", "b", "assistant", text("2nd"), isSidechain=True),
        line("2", "1", "assistant", text("A")),
        line("e", "c", "user", "on", isSidechain=True),
    )
    assert [(session.name, len(session.messages)) for session in found] == [("S", 2), ("S/a", 3), ("S/b", 2)]


def test_claude_code_sidechains_whose_parents_go_round_in_a_circle(sessions: Any) -> None:
    found = sessions(
        line("a", "c", "user", "first", isSidechain=True),
        line("b", "a", "assistant", text("1st"), isSidechain=True),
        line("c", "b", "user", "more", isSidechain=True),
        line("d", "c", "assistant", text("2nd"), isSidechain=True),
    )
    assert [(session.name, len(session.messages)) for session in found] == [("S/a", 4)]


def test_claude_code_file_of_one_sub_agent(sessions: Any) -> None:
    (session,) = sessions(
        line("a", None, "user", "T", isSidechain=True, agentId="x"),
        line("b", "a", "assistant", text("A"), isSidechain=True, agentId="x"),
    )
    assert (session.name, session.extra["sidechain"], len(session.messages)) == ("S/x", True, 2)


def test_claude_code_repeated_lines_count_once(sessions: Any) -> None:
    """A resumed session repeats its lines."""
    once = [line("1", None, "user", "T"), line("2", "1", "assistant", text("A"))]
    assert sessions(*once, *once)[0].messages == sessions(*once)[0].messages


def test_claude_code_calls_of_the_last_reply_stay_open(sessions: Any) -> None:
    call = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    orphan = {"type": "tool_result", "tool_use_id": "unknown", "content": "x"}
    (session,) = sessions(
        line("1", None, "user", [*text("T"), orphan]),
        line("2", "1", "assistant", [call]),
        line("3", "2", "user", "stop"),
    )
    assert [message["content"] for message in session.messages] == [text("T"), [call], "stop"]


def test_claude_code_summaries_are_in_no_message(sessions: Any) -> None:
    (session,) = sessions(
        line("1", None, "user", "T"),
        line("2", "1", "assistant", text("A")),
        {"type": "system", "subtype": "microcompact_boundary", "uuid": "3", "parentUuid": "2"},
        line("4", "3", "user", "seen by the person alone", isVisibleInTranscriptOnly=True),
        line("5", "4", "user", "go on"),
        {**line("6", "5", "assistant", text("B")), "message": {"id": "x", "model": "<synthetic>", "content": []}},
        line("7", "6", "assistant", text("C")),
    )
    assert [message["content"] for message in session.messages] == ["T", text("A"), "go on", text("C")]
    assert (session.compactions, session.comparable) == ((2,), 1)


# --- Codex, pi ---------------------------------------------------------------------------------------------


def test_codex_compaction_items_and_a_roll_back_of_everything(sessions: Any) -> None:
    def item(kind: str, **more: Any) -> dict[str, Any]:
        return {"type": "response_item", "payload": {"type": kind, **more}}

    spoken = item("message", role="user", content="T")
    answer = item("message", role="assistant", content="A")
    (session,) = sessions(
        spoken,
        answer,
        {"type": "event_msg", "payload": {"type": "thread_rolled_back", "num_turns": 9}},
        {"type": "event_msg", "payload": {"type": "thread_rolled_back"}},
        spoken,
        answer,
        item("compaction", encrypted_content="x"),
        {"type": "compacted", "payload": {"message": ""}},
        spoken,
        answer,
    )
    assert [request.at for request in session.requests] == [1, 3]
    assert (session.compactions, session.comparable, session.extra["rolled_back"]) == ((2,), 1, 1)
    assert [message["role"] for message in session.messages] == ["user", "assistant"] * 2


def test_codex_roll_back_of_a_turn_takes_its_requests(sessions: Any) -> None:
    """Counts of tokens that come later belong to the request before it, which is there still."""

    def said(role: str) -> dict[str, Any]:
        return {"type": "response_item", "payload": {"type": "message", "role": role, "content": []}}

    def event(kind: str, **more: Any) -> dict[str, Any]:
        return {"type": "event_msg", "payload": {"type": kind, **more}}

    usage = {"total_token_usage": {"input_tokens": 7}, "last_token_usage": {"input_tokens": 7}}
    (session,) = sessions(
        *(said(role) for role in ("user", "assistant", "user", "assistant")),
        event("thread_rolled_back", num_turns=1),
        event("token_count", info=usage),
        said("user"),
        said("assistant"),
    )
    assert session.requests == [Request(1, Usage(7)), Request(3)]
    assert (len(session.messages), session.extra["rolled_back"]) == (4, 1)


def test_pi_bash_output(sessions: Any) -> None:
    def ran(**more: Any) -> dict[str, Any]:
        return {"type": "message", "message": {"role": "bashExecution", "command": "x", **more}}

    (session,) = sessions(
        {"type": "session", "id": "P"},
        ran(output="", exitCode=0),
        ran(output="a", cancelled=True, exitCode=None),
        ran(output="a", truncated=True, fullOutputPath="/tmp/f"),
        {"type": "message", "message": {"role": "user", "content": "  "}},
    )
    assert [message["content"][0]["text"] for message in session.messages] == [
        "Ran `x`\n(no output)",
        "Ran `x`\n```\na\n```\n\n(command cancelled)",
        "Ran `x`\n```\na\n```\n\n[Output truncated. Full output: /tmp/f]",
    ]


# --- recorded requests -------------------------------------------------------------------------------------


def exchange(*messages: tuple[str, str], answer: str = "A", tokens: int = 9) -> dict[str, Any]:
    return {
        "request": {"messages": [{"role": role, "content": content} for role, content in messages]},
        "response": {
            "choices": [{"message": {"role": "assistant", "content": answer}}],
            "usage": {"prompt_tokens": tokens, "completion_tokens": 1},
        },
    }


def test_requests_are_put_into_sessions_by_their_messages(sessions: Any) -> None:
    system, task, other = ("system", "S"), ("user", "T"), ("user", "other")
    reply, more = ("assistant", "A"), ("user", "more")
    found = sessions(
        exchange(system, task),
        exchange(system, other),  # another session: its only message from a person is another
        exchange(system, task, reply, ("user", "more, with a reminder")),
        exchange(system, task, reply, more, answer="B"),  # the last message changed
        exchange(system, task),  # it went back to the beginning
        exchange(("user", "summary"), tokens=3),  # the client compacted
    )
    assert [[request.at for request in session.requests] for session in found] == [[2, 4, 4], [2], [2], [1]]
    assert [message["content"] for message in found[0].messages] == ["S", "T", "A", "more", "B"]
    assert [session.name for session in found] == ["1", "2", "3", "4"]

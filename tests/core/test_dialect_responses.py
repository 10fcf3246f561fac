"""OpenAI Responses items: what each becomes, when two are the same, where the block goes."""

import json

import pytest

from cliff_core.content import (
    Directive,
    Message,
    Note,
    Opaque,
    Thought,
    ToolCall,
    ToolResult,
    counted,
)
from cliff_core.dialects import dialect
from cliff_core.tokens import document_tokens, encrypted_tokens, image_tokens

RESPONSES = dialect("responses")
PIXEL = "data:image/png;base64,iVBORw0KGgo="
PDF = "data:application/pdf;base64,JVBERi0xLjQK"


def parse(item):
    parsed = RESPONSES.parse(item)
    assert parsed.tokens == 0
    return parsed


def model(*contents):
    return Message("model", contents)


def tool(*contents):
    return Message("tool", contents)


# --- messages ----------------------------------------------------------------------------------


@pytest.mark.parametrize("named", [{}, {"type": "message"}])
def test_messages(named):
    assert parse({**named, "role": "user", "content": "Fix it."}) == Message("user", (Directive("Fix it."),))
    assert parse({**named, "role": "developer", "content": "Be brief."}) == Message(
        "system", (Note("Be brief.", "developer:Be brief."),)
    )
    assert parse({**named, "role": "assistant", "content": "Done."}) == model(Thought("Done."))


def test_message_of_parts():
    content = [
        {"type": "input_text", "text": "<environment_context>x</environment_context>"},
        {"type": "input_text", "text": "Fix it."},
        {"type": "input_image", "image_url": PIXEL, "detail": "auto"},
        {"type": "input_file", "filename": "a.pdf", "file_data": PDF},
        {"type": "input_file", "file_id": "file-1"},
        {"type": "input_audio", "input_audio": {"data": "x" * 4_000, "format": "mp3"}},
    ]
    assert parse({"type": "message", "role": "user", "content": content}) == Message(
        "user",
        (
            Note("<environment_context>x</environment_context>", "environment_context"),
            Directive("Fix it."),
            Opaque("image", image_tokens(PIXEL), pin=True),
            Opaque("document", document_tokens(PDF), pin=True),
            Opaque("document", document_tokens(""), pin=True),
            Opaque("audio", 2, pin=True),
        ),
    )


def test_what_the_model_wrote():
    content = [
        {"type": "output_text", "text": "No. ", "annotations": [], "logprobs": []},
        {"type": "refusal", "refusal": "I can't."},
    ]
    item = {"type": "message", "id": "msg_1", "role": "assistant", "content": content}
    assert parse(item) == model(Thought("No. "), Thought("I can't."))


def test_codex_developer_message_has_a_note_for_each_part():
    content = [
        {"type": "input_text", "text": "<permissions instructions>\nAsk.\n</permissions instructions>"},
        {"type": "input_text", "text": "<collaboration_mode>Default</collaboration_mode>"},
    ]
    kinds = [n.kind for n in parse({"role": "developer", "content": content}).contents]
    assert kinds == ["permissions", "collaboration_mode"]


# --- reasoning ---------------------------------------------------------------------------------


def test_reasoning_is_its_summary_and_the_tokens_of_what_is_encrypted():
    item = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [
            {"type": "summary_text", "text": "**Plan**"},
            {"type": "summary_text", "text": "**Check**"},
        ],
        "content": None,
        "encrypted_content": "g" * 1_000,
    }
    assert parse(item) == model(Thought("**Plan**"), Thought("**Check**"), Thought("", encrypted_tokens(1_000)))


def test_reported_reasoning_tokens_win():
    item = {"type": "reasoning", "summary": [], "encrypted_content": "g" * 1_000}
    assert parse({**item, "_reasoning_tokens": 640}) == model(Thought("", 640))
    assert parse({"type": "reasoning", "summary": [], "_reasoning_tokens": 7}) == model(Thought("", 7))
    for wrong in (None, "640", True, -1, 0.5):
        assert parse({**item, "_reasoning_tokens": wrong}) == model(Thought("", encrypted_tokens(1_000)))


def test_shown_reasoning_counts_as_its_text():
    item = {
        "type": "reasoning",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "Hm."}],
        "encrypted_content": "g" * 1_000,
    }
    assert parse(item) == model(Thought("Hm."))
    assert parse({"type": "reasoning", "id": "rs_1", "summary": []}) == model()


# --- calls that a client answers ---------------------------------------------------------------


def test_function_call_and_output():
    call = {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "a",
        "name": "exec_command",
        "arguments": '{"cmd":"ls"}',
        "status": "completed",
    }
    assert parse(call) == model(ToolCall("exec_command", '{"cmd":"ls"}', "a"))
    output = {"type": "function_call_output", "call_id": "a", "output": " src\n"}
    assert parse(output) == tool(ToolResult(" src\n", "a"))


def test_output_that_failed():
    text = "Chunk ID: 1\nWall time: 0.1 seconds\nProcess exited with code 2\nOutput:\nno"
    output = {"type": "function_call_output", "call_id": "a", "output": text}
    assert parse(output) == tool(ToolResult(text, "a", error=True))
    plain = {"type": "function_call_output", "call_id": "a", "output": "half"}
    assert parse({**plain, "status": "completed"}) == tool(ToolResult("half", "a"))
    for status in ("incomplete", "failed"):
        assert parse({**plain, "status": status}) == tool(ToolResult("half", "a", error=True))


def test_json_output_stays_text():
    text = '{"output":"no\\n","metadata":{"exit_code":1,"duration_seconds":0.1}}'
    output = {"type": "function_call_output", "call_id": "a", "output": text}
    assert parse(output) == tool(ToolResult(text, "a", error=True))


def test_output_of_parts():
    output = [
        {"type": "input_text", "text": "Shown:"},
        {"type": "input_image", "image_url": PIXEL},
        {"type": "input_file", "file_data": PDF},
        {"type": "input_text", "text": "End."},
    ]
    assert parse({"type": "function_call_output", "call_id": "a", "output": output}) == tool(
        ToolResult(
            "Shown:\nEnd.",
            "a",
            False,
            (Opaque("image", image_tokens(PIXEL)), Opaque("document", document_tokens(PDF))),
        )
    )


def test_failure_as_an_object():
    output = {"content": "no such file", "success": False}
    assert parse({"type": "function_call_output", "call_id": "a", "output": output}) == tool(
        ToolResult("no such file", "a", error=True)
    )


def test_custom_call():
    patch = "*** Begin Patch\n*** Update File: a.py\n*** End Patch"
    call = {"type": "custom_tool_call", "call_id": "a", "name": "apply_patch", "input": patch}
    assert parse(call) == model(ToolCall("apply_patch", patch, "a"))
    output = {"type": "custom_tool_call_output", "call_id": "a", "output": "Done!"}
    assert parse(output) == tool(ToolResult("Done!", "a"))


def test_local_shell():
    call = {
        "type": "local_shell_call",
        "id": "lsh_1",
        "call_id": "a",
        "action": {
            "type": "exec",
            "command": ["bash", "-lc", "ls"],
            "env": {},
            "working_directory": "/app",
            "timeout_ms": None,
        },
    }
    arguments = {"command": ["bash", "-lc", "ls"], "working_directory": "/app"}
    assert parse(call) == model(ToolCall("local_shell_call", arguments, "a"))
    # Its output has the call's id for an id of its own.
    output = {"type": "local_shell_call_output", "id": "a", "output": '{"exit_code": 0}'}
    assert parse(output) == tool(ToolResult('{"exit_code": 0}', "a"))


def test_shell():
    call = {"type": "shell_call", "call_id": "a", "action": {"commands": ["ls", "pwd"]}}
    assert parse(call) == model(ToolCall("shell_call", {"commands": ["ls", "pwd"]}, "a"))
    here = {**call, "environment": {"type": "local"}}
    assert parse(here).contents[0].hosted is False
    there = {**call, "environment": {"type": "container_reference", "container_id": "c"}}
    assert parse(there).contents[0].hosted is True
    output = {
        "type": "shell_call_output",
        "call_id": "a",
        "output": [
            {"stdout": "src\n", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}},
            {"stdout": "", "stderr": "no", "outcome": {"type": "exit", "exit_code": 1}},
        ],
    }
    assert parse(output) == tool(ToolResult("src\n\nno", "a", error=True))
    late = {"stdout": "src", "stderr": "", "outcome": {"type": "timeout"}}
    assert parse({**output, "output": [late]}) == tool(ToolResult("src", "a", error=True))


def test_apply_patch():
    operation = {"type": "update_file", "path": "a.py", "diff": "-a\n+b"}
    call = {"type": "apply_patch_call", "call_id": "a", "operation": operation}
    assert parse(call) == model(ToolCall("apply_patch_call", operation, "a"))
    output = {"type": "apply_patch_call_output", "call_id": "a", "status": "failed"}
    assert parse(output) == tool(ToolResult("", "a", error=True))
    output = {**output, "status": "completed", "output": "Done"}
    assert parse(output) == tool(ToolResult("Done", "a"))


def test_computer():
    call = {"type": "computer_call", "call_id": "a", "action": {"type": "click", "x": 1, "y": 2}}
    assert parse(call) == model(ToolCall("computer_call", {"type": "click", "x": 1, "y": 2}, "a"))
    several = {"type": "computer_call", "call_id": "a", "actions": [{"type": "wait"}]}
    assert parse(several) == model(ToolCall("computer_call", {"actions": [{"type": "wait"}]}, "a"))
    shot = {"type": "computer_screenshot", "image_url": PIXEL}
    assert parse({"type": "computer_call_output", "call_id": "a", "output": shot}) == tool(
        ToolResult("", "a", False, (Opaque("image", image_tokens(PIXEL)),))
    )


def test_tool_search_by_the_client():
    call = {
        "type": "tool_search_call",
        "call_id": "a",
        "execution": "client",
        "arguments": {"query": "web"},
    }
    assert parse(call) == model(ToolCall("tool_search_call", {"query": "web"}, "a"))
    output = {
        "type": "tool_search_output",
        "call_id": "a",
        "execution": "client",
        "tools": [{"type": "function", "name": "fetch"}],
    }
    # [{"type": "function", "name": "fetch"}]: 3 + 2 + (4+4) + 10 + (4+4) + 7 = 38 characters
    assert parse(output) == tool(ToolResult("", "a", False, (Opaque("tool_reference", 10, pin=True),)))


def test_tool_search_by_the_provider_is_part_of_the_models_step():
    call = {"type": "tool_search_call", "id": "ts_1", "execution": "server", "arguments": {}}
    output = {"type": "tool_search_output", "id": "tso_1", "execution": "server", "tools": []}
    (asked,), (found,) = parse(call).contents, parse(output).contents
    assert parse(output).role == "model"
    assert asked == ToolCall("tool_search_call", {}, "tool_search_call", hosted=True)
    assert found.call_id == asked.id


def test_approval_is_open_until_it_is_given():
    request = {
        "type": "mcp_approval_request",
        "id": "mcpr_1",
        "name": "drop",
        "arguments": '{"table":"a"}',
        "server_label": "db",
    }
    assert parse(request) == model(ToolCall("drop", '{"table":"a"}', "mcpr_1"))
    answer = {
        "type": "mcp_approval_response",
        "approval_request_id": "mcpr_1",
        "approve": False,
        "reason": "Never.",
    }
    assert parse(answer) == tool(ToolResult("Never.", "mcpr_1", error=True))


def test_program_and_its_output_are_not_parted():
    program = {"type": "program", "id": "p", "call_id": "a", "code": "f()", "fingerprint": "x"}
    assert parse(program) == model(ToolCall("program", {"code": "f()"}, "a"))
    output = {"type": "program_output", "call_id": "a", "result": "4", "status": "completed"}
    assert parse(output) == model(ToolResult("4", "a"))


# --- calls that ran at the provider ------------------------------------------------------------


def test_web_search():
    call = {
        "type": "web_search_call",
        "id": "ws_1",
        "status": "completed",
        "action": {"type": "search", "query": "cliff", "queries": ["cliff"]},
    }
    arguments = {"type": "search", "query": "cliff", "queries": ["cliff"]}
    assert parse(call) == model(ToolCall("web_search_call", arguments, "ws_1", hosted=True))
    sources = [{"type": "url", "url": "https://a.org"}, {"type": "url", "url": "https://b.org"}]
    action = {"type": "search", "query": "cliff", "sources": sources}
    # Codex sends it without an id.
    assert parse({"type": "web_search_call", "action": action}) == model(
        ToolCall("web_search_call", {"type": "search", "query": "cliff"}, "web_search_call", hosted=True),
        ToolResult("https://a.org\nhttps://b.org", "web_search_call"),
    )
    assert parse({**call, "status": "failed"}) == model(
        ToolCall("web_search_call", arguments, "ws_1", hosted=True),
        ToolResult("", "ws_1", error=True),
    )


def test_file_search():
    call = {
        "type": "file_search_call",
        "id": "fs_1",
        "queries": ["cliff"],
        "status": "completed",
        "results": [{"file_id": "f", "filename": "a.md", "score": 0.5, "text": "A cliff is…"}],
    }
    assert parse(call) == model(
        ToolCall("file_search_call", {"queries": ["cliff"]}, "fs_1", hosted=True),
        ToolResult("a.md\nA cliff is…", "fs_1"),
    )
    assert parse({**call, "results": None}).contents == (parse(call).contents[0],)


def test_code_interpreter():
    call = {
        "type": "code_interpreter_call",
        "id": "ci_1",
        "code": "print(4)",
        "container_id": "c",
        "outputs": [{"type": "logs", "logs": "4\n"}, {"type": "image", "url": PIXEL}],
    }
    assert parse(call) == model(
        ToolCall("code_interpreter_call", {"code": "print(4)"}, "ci_1", hosted=True),
        ToolResult("4\n", "ci_1", False, (Opaque("image", image_tokens(PIXEL)),)),
    )
    assert parse({**call, "outputs": None}).contents == (parse(call).contents[0],)


def test_image_generation():
    call = {"type": "image_generation_call", "id": "ig_1", "result": "iVBORw0KGgo="}
    assert parse({**call, "revised_prompt": "A cliff"}) == model(
        ToolCall("image_generation_call", {"prompt": "A cliff"}, "ig_1", hosted=True),
        ToolResult("", "ig_1", False, (Opaque("image", image_tokens("iVBORw0KGgo=")),)),
    )


def test_mcp_call_has_its_result():
    call = {
        "type": "mcp_call",
        "id": "mcp_1",
        "name": "find",
        "server_label": "db",
        "arguments": '{"q":1}',
        "output": "two rows",
        "error": None,
    }
    its = ToolCall("find", '{"q":1}', "mcp_1", hosted=True)
    assert parse(call) == model(its, ToolResult("two rows", "mcp_1"))
    for error in (
        "no such table",
        {"type": "mcp_protocol_error", "code": 1, "message": "no such table"},
        {
            "type": "mcp_tool_execution_error",
            "content": [{"type": "text", "text": "no such table"}],
        },
    ):
        assert parse({**call, "output": None, "error": error}) == model(
            its, ToolResult("no such table", "mcp_1", error=True)
        )


def test_unknown_call():
    hosted = {"type": "weather_call", "id": "w", "arguments": '{"at":1}', "picture": "QUJD" * 9_000}
    call, rest = parse(hosted).contents
    assert call == ToolCall("weather_call", '{"at":1}', "w", hosted=True)
    assert rest.kind == "weather_call"
    assert encrypted_tokens(36_000) < rest.tokens < encrypted_tokens(36_000) + 10
    asked = {"type": "weather_call", "call_id": "a", "name": "rain", "input": "x"}
    assert parse(asked) == model(ToolCall("rain", "x", "a"))
    answer = {"type": "weather_call_output", "call_id": "a", "output": "wet"}
    assert parse(answer) == tool(ToolResult("wet", "a"))


# --- the rest ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["compaction", "compaction_summary"])
def test_compaction_is_pinned(kind):
    assert parse({"type": kind, "encrypted_content": "g" * 400}) == model(
        Opaque("compaction", encrypted_tokens(400), pin=True)
    )


def test_compaction_trigger():
    assert parse({"type": "compaction_trigger"}) == Message("trigger", (Opaque("compaction_trigger"),))


def test_item_reference():
    expected = model(Opaque("item_reference"))
    assert parse({"type": "item_reference", "id": "rs_1"}) == expected
    assert parse({"id": "rs_1"}) == expected


def test_settings_and_tools_that_hold_from_here_on_are_pinned():
    for item in (
        {"type": "additional_tools", "role": "developer", "tools": [{"name": "a"}]},
        {"type": "configuration_update", "reasoning": {"effort": "low"}},
    ):
        parsed = parse(item)
        assert (parsed.role, [(o.kind, o.pin) for o in parsed.contents]) == (
            "system",
            [("system", True)],
        )


def test_list_of_mcp_tools_can_be_had_again():
    parsed = parse({"type": "mcp_list_tools", "server_label": "db", "tools": [{"name": "find"}]})
    assert (parsed.role, [(o.kind, o.pin) for o in parsed.contents]) == (
        "model",
        [("mcp_list_tools", False)],
    )


def test_unknown_item_does_not_end_a_model_step():
    parsed = parse({"type": "hologram", "data": "QUJD" * 25_000})
    assert (parsed.role, parsed.contents[0].kind) == ("model", "hologram")
    assert parse({"type": "hologram", "role": "user"}).role == "user"
    assert parse({"type": "hologram", "role": "developer"}).role == "system"
    assert parse({"type": "message", "role": "critic", "content": "Bad."}).role == "user"
    assert parse({}).role == "model"


def test_response_object_is_its_output():
    response = {
        "object": "response",
        "id": "resp_1",
        "output": [
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]},
            {"type": "function_call", "call_id": "a", "name": "bash", "arguments": "{}"},
            3,
        ],
        "usage": {"input_tokens": 9},
    }
    assert parse(response) == model(Thought("Hm."), ToolCall("bash", "{}", "a"))


@pytest.mark.parametrize("content", [7, [[{"text": 1}], 3, None], {"type": "text"}, [{}], True])
def test_content_of_a_wrong_type(content):
    for item in (
        {"role": "user", "content": content},
        {"role": "assistant", "content": content},
        {"role": "system", "content": content},
        {"type": "function_call_output", "call_id": "a", "output": content},
    ):
        texts, tokens = counted(parse(item).contents)
        assert not any(texts)
        assert tokens > 0


def test_fields_of_a_wrong_type():
    assert parse({"type": "function_call", "name": 3, "call_id": 4, "arguments": None}) == model(
        ToolCall("function_call", "")
    )
    assert parse({"type": "reasoning", "summary": 3, "content": {}, "encrypted_content": 4}) == (model())
    assert parse({"type": "web_search_call", "action": None}) == model(
        ToolCall("web_search_call", "", "web_search_call", hosted=True)
    )
    assert parse({"type": ["message"]}).role == "model"


# --- equality ----------------------------------------------------------------------------------


def test_what_the_provider_filled_in_is_no_difference():
    returned = {
        "type": "message",
        "id": "msg_1",
        "status": "completed",
        "role": "assistant",
        "phase": None,
        "content": [{"type": "output_text", "text": "Done.", "annotations": [], "logprobs": None}],
    }
    sent = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Done."}],
    }
    before = json.dumps(returned)
    assert RESPONSES.canonical(returned) == sent
    assert RESPONSES.canonical(sent) is sent
    assert RESPONSES.canonical({"role": "assistant", "content": "Done."}) == sent
    assert json.dumps(returned) == before


@pytest.mark.parametrize(
    "item",
    [
        {"type": "reasoning", "summary": [], "encrypted_content": "g"},
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": "1"},
        {"type": "custom_tool_call", "call_id": "a", "name": "f", "input": "x"},
        {"type": "web_search_call", "action": {"type": "search", "query": "q"}},
        {"type": "compaction", "encrypted_content": "g"},
    ],
)
def test_ids_come_and_go(item):
    assert RESPONSES.canonical(item) is item
    assert RESPONSES.canonical({**item, "id": "x_1", "status": "completed"}) == item
    assert RESPONSES.canonical({**item, "id": None}) == item
    assert RESPONSES.canonical({**item, "status": "incomplete"}) != item


def test_id_that_says_what_is_meant_counts():
    for item in (
        {"type": "item_reference", "id": "rs_1"},
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "image_generation_call", "id": "ig_1", "result": ""},
        {"type": "local_shell_call_output", "id": "a", "output": "1"},
        {"id": "msg_1"},
    ):
        assert RESPONSES.canonical(item) is item
        assert RESPONSES.canonical({**item, "id": "other"}) != item


def test_texts_and_markers():
    marked = {
        "role": "user",
        "content": [{"type": "input_text", "text": "Hi.", "prompt_cache_breakpoint": {"mode": "explicit"}}],
    }
    sent = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi."}]}
    assert RESPONSES.canonical(marked) == sent
    assert RESPONSES.canonical({"role": "user", "content": "Hi."}) == sent
    output = {"type": "function_call_output", "call_id": "a", "output": "1"}
    listed = [{"type": "input_text", "text": "1"}]
    assert RESPONSES.canonical({**output, "output": listed}) == output


# --- the block ---------------------------------------------------------------------------------


def test_place_of_the_block():
    system, user, greeting = Message("system", ()), Message("user", ()), Message("model", ())
    # Codex: developer, developer, environment, task
    assert RESPONSES.block_index([system, system, user, user]) == 4
    assert RESPONSES.block_index([system, greeting, user]) == 3
    assert RESPONSES.block_index([system, system]) == 2
    assert RESPONSES.block_index([system, greeting]) == 1
    assert RESPONSES.block_index([]) == 0


def test_block_message():
    assert RESPONSES.block_message("b") == {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_text", "text": "b"}],
    }


def test_merged_block():
    assert RESPONSES.merge_block({"role": "user", "content": "Task."}, "b") == {
        "role": "user",
        "content": "Task.\n\nb",
    }
    message = RESPONSES.block_message("Task.")
    assert RESPONSES.merge_block(message, "b") == {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_text", "text": "Task."}, {"type": "input_text", "text": "b"}],
    }
    assert message == RESPONSES.block_message("Task.")
    assert RESPONSES.merge_block({"type": "compaction"}, "b") is None


# --- recorded sessions -------------------------------------------------------------------------


def test_recorded_codex_session(traces):
    calls, results, hidden = [], [], 0
    for line in (traces / "codex/meridian-session/session.jsonl").open(encoding="utf-8"):
        event = json.loads(line)
        if event["type"] != "response_item":
            continue
        item = event["payload"]
        parsed = parse(item)
        for content in parsed.contents:
            assert not isinstance(content, Opaque)
            if isinstance(content, ToolCall):
                calls.append((content.id, content.arguments))
                assert content == ToolCall(item["name"], item["arguments"], item["call_id"])
            elif isinstance(content, ToolResult):
                results.append(content)
                assert (content.call_id, content.text) == (item["call_id"], item["output"])
            elif isinstance(content, Thought) and not content.text:
                hidden += content.tokens
        role = {"user": "user", "developer": "system", "assistant": "model"}.get(item.get("role"))
        output = item["type"] == "function_call_output"
        assert parsed.role == (role or ("tool" if output else "model"))
    assert len(calls) == len(results) == 270
    assert 10_000 < hidden < 20_000  # 302 000 characters of encrypted reasoning


def test_recorded_rollouts(traces):
    calls = results = 0
    for path in sorted(traces.glob("nemo_gym/*/*.jsonl")):
        for line in path.open(encoding="utf-8"):
            trial = json.loads(line)
            for item in [
                *trial["responses_create_params"]["input"],
                *trial["response"]["output"],
            ]:
                for content in parse(item).contents:
                    assert not isinstance(content, Opaque)
                    calls += isinstance(content, ToolCall)
                    results += isinstance(content, ToolResult)
    assert (calls, results) == (197, 188)

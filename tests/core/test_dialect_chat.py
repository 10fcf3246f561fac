"""OpenAI Chat Completions messages: what each becomes, when two are the same, where the block goes."""

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

CHAT = dialect("chat")
PIXEL = "data:image/png;base64,iVBORw0KGgo="
PDF = "data:application/pdf;base64,JVBERi0xLjQK"


def parse(message):
    parsed = CHAT.parse(message)
    assert parsed.tokens == 0
    return parsed


def model(*contents):
    return Message("model", contents)


# --- the model ---------------------------------------------------------------------------------


def test_text():
    assert parse({"role": "assistant", "content": " Done.\n"}) == model(Thought(" Done.\n"))


def test_parallel_calls_keep_their_order_and_their_arguments_as_sent():
    message = {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "a",
                "type": "function",
                "function": {"name": "bash", "arguments": '{"command": "ls"}'},
            },
            {
                "id": "b",
                "type": "function",
                "function": {"name": "bash", "arguments": '{"command": broken'},
            },
        ],
        "function_call": None,
    }
    assert parse(message) == model(
        ToolCall("bash", '{"command": "ls"}', "a"), ToolCall("bash", '{"command": broken', "b")
    )


def test_custom_call():
    call = {"id": "c", "type": "custom", "custom": {"name": "apply_patch", "input": "*** Begin"}}
    assert parse({"role": "assistant", "tool_calls": [call]}) == model(ToolCall("apply_patch", "*** Begin", "c"))


def test_arguments_that_are_an_object_or_nothing():
    calls = [
        {"id": "a", "function": {"name": "f", "arguments": {"x": 1}}},
        {"id": "b", "function": {"name": "g", "arguments": None}},
        {"id": "c", "function": {"name": "h", "arguments": ["é", 1]}},
    ]
    assert parse({"role": "assistant", "content": "", "tool_calls": calls}) == model(
        ToolCall("f", {"x": 1}, "a"), ToolCall("g", "", "b"), ToolCall("h", '["é", 1]', "c")
    )


def test_legacy_function_call_and_its_result_have_no_ids():
    call = {
        "role": "assistant",
        "content": None,
        "function_call": {"name": "get", "arguments": "{}"},
    }
    assert parse(call) == model(ToolCall("get", "{}"))
    assert parse({"role": "function", "name": "get", "content": "42"}) == Message("tool", (ToolResult("42"),))


def test_refusals():
    assert parse({"role": "assistant", "content": None, "refusal": "I can't."}) == model(Thought("I can't."))
    part = {"type": "refusal", "refusal": "No."}
    assert parse({"role": "assistant", "content": [part]}) == model(Thought("No."))


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning", "reasoning_text"])
def test_reasoning_comes_before_the_text(key):
    assert parse({"role": "assistant", "content": "So.", key: "Hm."}) == model(Thought("Hm."), Thought("So."))


def test_the_same_reasoning_in_several_fields_counts_once():
    block = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln" * 100}
    message = {
        "role": "assistant",
        "content": "So.",
        "reasoning_content": "Hm.",
        "reasoning": "Hm.",
        "thinking_blocks": [block],
        "provider_specific_fields": {"thinking_blocks": [block]},
    }
    assert parse(message) == model(Thought("Hm."), Thought("So."))


def test_reasoning_content_that_joins_several_blocks_counts_once():
    blocks = [{"type": "thinking", "thinking": text} for text in ("One. ", "Two.")]
    message = {"role": "assistant", "reasoning_content": "One. Two.", "thinking_blocks": blocks}
    assert parse(message) == model(Thought("One. "), Thought("Two."))


def test_redacted_thinking_and_thinking_in_the_content():
    message = {
        "role": "assistant",
        "content": [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "So."}],
        "thinking_blocks": [{"type": "redacted_thinking", "data": "x" * 400}],
    }
    assert parse(message) == model(Thought("", encrypted_tokens(400)), Thought("Hm."), Thought("So."))


def test_openrouter_reasoning_details_are_pieces_of_one_text():
    message = {
        "role": "assistant",
        "reasoning": "the cat the dog",
        "reasoning_details": [
            {"type": "reasoning.text", "text": "the"},
            {"type": "reasoning.text", "text": " cat the"},
            {"type": "reasoning.text", "text": " dog"},
            {"type": "reasoning.encrypted", "data": "x" * 200},
        ],
    }
    assert parse(message) == model(Thought("the cat the dog"), Thought("", encrypted_tokens(200)))


def test_generated_images_are_not_pinned():
    image = {"type": "image_url", "image_url": {"url": PIXEL}}
    assert parse({"role": "assistant", "content": "", "images": [image]}) == model(Opaque("image", image_tokens(PIXEL)))


# --- results -----------------------------------------------------------------------------------


def test_result_text_is_exact():
    text = '\n{\n  "returncode": 0,\n  "output": "  x\\n"\n}\n'
    assert parse({"role": "tool", "tool_call_id": "a", "content": text}) == Message("tool", (ToolResult(text, "a"),))


def test_result_that_states_a_failure():
    text = '{\n  "returncode": 1,\n  "output": "no"\n}'
    assert parse({"role": "tool", "tool_call_id": "a", "content": text}) == Message(
        "tool", (ToolResult(text, "a", error=True),)
    )


def test_result_of_several_parts():
    content = [
        {"type": "text", "text": "one"},
        {"type": "image_url", "image_url": {"url": PIXEL}},
        {"type": "text", "text": "two "},
    ]
    assert parse({"role": "tool", "tool_call_id": "a", "content": content}) == Message(
        "tool", (ToolResult("one\ntwo ", "a", False, (Opaque("image", image_tokens(PIXEL)),)),)
    )


def test_result_without_content_or_id():
    assert parse({"role": "tool", "content": None}) == Message("tool", (ToolResult(""),))


def test_answers_to_questions_are_a_persons_words():
    text = 'User has answered your questions: "Which database?"="Postgres". You can now continue.'
    assert parse({"role": "tool", "tool_call_id": "a", "content": text}) == Message(
        "tool",
        (
            ToolResult("User has answered your questions:", "a"),
            Directive('"Which database?"="Postgres". You can now continue.'),
        ),
    )


# --- people and hosts --------------------------------------------------------------------------


def test_user_text_is_split():
    text = "<system-reminder>\nBe brief.\n</system-reminder>\nFix the bug."
    assert parse({"role": "user", "content": text}) == Message(
        "user",
        (
            Note("<system-reminder>\nBe brief.\n</system-reminder>", "system-reminder:Be brief."),
            Directive("Fix the bug."),
        ),
    )


def test_named_user():
    assert parse({"role": "user", "name": "ann", "content": "Hi."}) == Message("user", (Directive("Hi."),))


def test_what_a_person_attached_is_pinned():
    content = [
        {"type": "text", "text": "Look."},
        {"type": "image_url", "image_url": {"url": PIXEL, "detail": "low"}},
        {"type": "image_url", "image_url": "https://example.org/a.png"},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": PDF}},
        {"type": "file", "file": {"file_id": "file-1"}},
        {"type": "input_audio", "input_audio": {"data": "x" * 4_000, "format": "mp3"}},
    ]
    assert parse({"role": "user", "content": content}) == Message(
        "user",
        (
            Directive("Look."),
            Opaque("image", image_tokens(PIXEL), pin=True),
            Opaque("image", image_tokens("https://example.org/a.png"), pin=True),
            Opaque("document", document_tokens(PDF), pin=True),
            Opaque("document", document_tokens(""), pin=True),
            Opaque("audio", 2, pin=True),
        ),
    )


@pytest.mark.parametrize("role", ["system", "developer"])
def test_system_messages_are_notes(role):
    assert parse({"role": role, "content": "12 tokens left"}) == Message(
        "system", (Note("12 tokens left", f"{role}:# tokens left"),)
    )
    parts = [{"type": "text", "text": "One."}, {"type": "text", "text": "Two."}]
    assert parse({"role": role, "content": parts}) == Message(
        "system", (Note("One.", f"{role}:One."), Note("Two.", f"{role}:Two."))
    )
    assert parse({"role": role, "content": ""}) == Message("system", ())


# --- what is not understood --------------------------------------------------------------------


def test_unknown_role_is_opaque_and_begins_no_turn():
    message = {"role": "exit", "content": ""}
    # {"role": "exit", "content": ""} in characters: 2 + (4+4) + 6 + (7+4) + 2 = 29
    assert parse(message) == Message("user", (Opaque("exit", 8),))
    assert parse({"content": "x"}).role == "user"


def test_unknown_part_is_not_pinned():
    part = {"type": "hologram", "data": "QUJD" * 25_000}
    (opaque,) = parse({"role": "user", "content": [part]}).contents
    assert (opaque.kind, opaque.pin, opaque.text) == ("hologram", False, "")
    assert encrypted_tokens(100_000) < opaque.tokens < encrypted_tokens(100_000) + 20


@pytest.mark.parametrize("content", [7, [[{"text": 1}], 3, None], {"type": "text"}, [{}], True])
@pytest.mark.parametrize("role", ["system", "user", "assistant", "tool"])
def test_content_of_a_wrong_type(role, content):
    contents = parse({"role": role, "content": content}).contents
    texts, tokens = counted(contents)
    assert not any(texts)
    assert tokens > 0


def test_calls_of_a_wrong_type():
    message = {"role": "assistant", "tool_calls": [None, 3, {"function": 4}], "thinking_blocks": 5}
    assert parse(message) == model(Opaque("tool_call", 2), Opaque("tool_call", 2), ToolCall("", ""))


# --- equality ----------------------------------------------------------------------------------


def test_text_and_list_of_one_text_are_the_same():
    plain = {"role": "user", "content": "Hi."}
    marker = {"type": "ephemeral"}
    listed = {
        "role": "user",
        "content": [{"type": "text", "text": "Hi.", "cache_control": marker}],
    }
    before = json.dumps(listed)
    assert CHAT.canonical(plain) is plain
    assert CHAT.canonical(listed) == plain
    assert CHAT.canonical({**plain, "cache_control": marker}) == plain
    assert json.dumps(listed) == before


def test_breakpoints_of_openai_are_markers():
    parts = [{"type": "text", "text": "One."}, {"type": "text", "text": "Two."}]
    marked = [parts[0], {**parts[1], "prompt_cache_breakpoint": {"mode": "explicit"}}]
    message = {"role": "user", "content": parts}
    assert CHAT.canonical({"role": "user", "content": marked}) == message
    assert CHAT.canonical(message) is message


def test_marker_in_arguments_is_no_marker():
    call = {"id": "a", "function": {"name": "f", "arguments": {"cache_control": "no-store"}}}
    message = {"role": "assistant", "tool_calls": [call]}
    assert CHAT.canonical(message) is message


def test_other_content_differs():
    two = [{"type": "text", "text": "Hi."}, {"type": "text", "text": ""}]
    cited = [{"type": "text", "text": "Hi.", "citations": [1]}]
    plain = {"role": "user", "content": "Hi."}
    for content in (two, cited, [], None, "Hi. "):
        assert CHAT.canonical({"role": "user", "content": content}) != plain


# --- the block ---------------------------------------------------------------------------------


def test_place_of_the_block():
    system, user, greeting = Message("system", ()), Message("user", ()), Message("model", ())
    assert CHAT.block_index([system, user]) == 2
    assert CHAT.block_index([system, greeting, user, user]) == 4
    assert CHAT.block_index([system, user, system]) == 3
    assert CHAT.block_index([system, system]) == 2
    assert CHAT.block_index([system, greeting]) == 1
    assert CHAT.block_index([]) == 0


def test_block_message():
    assert CHAT.block_message("b") == {"role": "user", "content": "b"}


def test_merged_block():
    message = {"role": "user", "content": "Task.", "name": "ann"}
    assert CHAT.merge_block(message, "b") == {
        "role": "user",
        "content": "Task.\n\nb",
        "name": "ann",
    }
    assert message["content"] == "Task."
    parts = [{"type": "text", "text": "Task."}]
    assert CHAT.merge_block({"role": "user", "content": parts}, "b") == {
        "role": "user",
        "content": [{"type": "text", "text": "Task."}, {"type": "text", "text": "b"}],
    }
    assert len(parts) == 1
    assert CHAT.merge_block({"role": "user", "content": None}, "b") is None
    assert CHAT.merge_block({"role": "assistant", "content": "Task."}, "b") is None


# --- recorded sessions -------------------------------------------------------------------------


def test_recorded_mini_swe_agent_sessions(traces):
    for path in sorted(traces.glob("mini_v2/*/*.json")):
        messages = json.loads(path.read_text())["messages"]
        parsed = [parse(message) for message in messages]
        calls = [c for m in parsed for c in m.contents if isinstance(c, ToolCall)]
        results = [c for m in parsed for c in m.contents if isinstance(c, ToolResult)]
        assert all(isinstance(call.arguments, str) and call.name == "bash" for call in calls)
        assert len(calls) - len(results) in (0, 1)
        for message, its in zip(messages, parsed, strict=True):
            if message["role"] == "tool":
                failed = message["extra"]["returncode"] != 0
                assert its.contents == (ToolResult(message["content"], message["tool_call_id"], failed),)
            assert CHAT.canonical(message) is message
        roles = {message["role"] for message in messages}
        assert {m.role for m in parsed} == {"system", "user", "model", "tool"}
        assert roles == {"system", "user", "assistant", "tool", "exit"}


def test_recorded_openhands_requests(traces):
    previous = []
    for path in sorted(traces.glob("raw_api/oh-sdk-llm-logs/*.json")):
        messages = json.loads(path.read_text())["messages"]
        parsed = [parse(message) for message in messages]
        assert not any(isinstance(c, Opaque) for m in parsed for c in m.contents)
        assert [CHAT.canonical(m) for m in messages][: len(previous)] == previous
        previous = [CHAT.canonical(m) for m in messages]

"""The host's messages as contents."""

from typing import Any

import pytest

from cliff_core.content import Directive, Note, Opaque, Thought, ToolCall, ToolResult
from cliff_mini_swe_agent.shapes import BlockMessage, MiniDialect, input_tokens, is_reply

DIALECT = MiniDialect()


def user(text: Any, **extra: Any) -> dict[str, Any]:
    return {"role": "user", "content": text, "extra": extra}


def item(text: str, **extra: Any) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}], "extra": extra}


@pytest.mark.parametrize("shape", [user, item])
@pytest.mark.parametrize("kind", ["UserNewTask", "UserInterruption", "UserRejection"])
def test_a_persons_words(shape: Any, kind: str) -> None:
    message = DIALECT.parse(shape("The user said: <system-reminder>x</system-reminder> go", interrupt_type=kind))
    assert message.role == "user"
    assert message.contents == (Directive("The user said: <system-reminder>x</system-reminder> go"),)


@pytest.mark.parametrize("shape", [user, item])
@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("FormatError", "Tool call error: none"),
        ("LimitsExceeded", "x"),
        ("UserInterruption", "Interrupted by user: Temporary interruption caught."),
        ("UserRejection", "Commands not executed. Switching to human mode"),
    ],
)
def test_the_hosts_words(shape: Any, kind: str, text: str) -> None:
    assert DIALECT.parse(shape(text, interrupt_type=kind)).contents == (Note(text, kind),)


@pytest.mark.parametrize("shape", [user, item])
def test_an_observation_in_a_user_message(shape: Any) -> None:
    found = DIALECT.parse(shape("<output>\nx</output>", raw_output="x", returncode=2))
    assert found.role == "tool"
    assert found.contents == (ToolResult("<output>\nx</output>", error=True),)
    assert not DIALECT.parse(shape("x", raw_output="x", returncode=0)).contents[0].error


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("```mswea_bash_command\n", "\n```"),
        ("```bash\n", "\n```\n"),
        ("<mswea_bash_command>", "</mswea_bash_command>"),
        ("<command>\n", "\n</command>"),
    ],
)
def test_a_command_in_a_text(before: str, after: str) -> None:
    text = f"THOUGHT: look.\n\n{before}cat a.py{after}"
    message = {
        "role": "assistant",
        "content": text,
        "tool_calls": None,
        "extra": {"actions": [{"command": "cat a.py"}]},
    }
    found = DIALECT.parse(message)
    assert found.role == "model"
    assert found.contents[:2] == (Thought("THOUGHT: look."), ToolCall("bash", "cat a.py"))
    assert all(isinstance(content, Opaque) for content in found.contents[2:])


def test_a_persons_command_is_a_step() -> None:
    found = DIALECT.parse(user("User command: \n```bash\nls\n```", actions=[{"command": "ls"}]))
    assert found.role == "model"
    assert found.contents[:2] == (Thought("User command:"), ToolCall("bash", "ls"))


def test_tool_calls() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
    extra = {"actions": [{"command": "ls", "tool_call_id": "1"}]}
    found = DIALECT.parse({"role": "assistant", "content": "T", "tool_calls": [call], "extra": extra})
    assert found.contents == (Thought("T"), ToolCall("bash", '{"command": "ls"}', "1"))
    result = {"role": "tool", "tool_call_id": "1", "content": "failed", "extra": {"returncode": 1}}
    assert DIALECT.parse(result).contents == (ToolResult("failed", "1", True),)


def test_a_response_object() -> None:
    output = [
        {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "R"}]},
        {"type": "function_call", "call_id": "1", "name": "bash", "arguments": '{"command": "ls"}'},
    ]
    found = DIALECT.parse({"object": "response", "output": output, "extra": {"actions": []}})
    assert found.role == "model"
    assert found.contents == (Thought("R"), ToolCall("bash", '{"command": "ls"}', "1"))
    result = {"type": "function_call_output", "call_id": "1", "output": "x", "extra": {"returncode": -1}}
    assert DIALECT.parse(result).contents == (ToolResult("x", "1", True),)


def test_exit_messages_count_by_their_text() -> None:
    extra = {"traceback": "x" * 10_000}
    assert DIALECT.parse({"role": "exit", "content": "E", "extra": extra}).contents == (Note("E", "exit"),)


@pytest.mark.parametrize("content", [None, [], 7, {"a": 1}])
def test_strange_messages_are_no_error(content: Any) -> None:
    for role in ("user", "assistant", "tool", "exit", "other", None):
        DIALECT.parse({"role": role, "content": content, "extra": None})
        DIALECT.parse({"role": role, "content": content, "extra": {"actions": [None, {"command": "x"}]}})
        DIALECT.parse({"role": role, "content": content, "extra": {"interrupt_type": "UserNewTask"}})


def test_images_of_an_observation() -> None:
    parts = [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,x"}}]
    (result,) = DIALECT.parse(user(parts, raw_output="", returncode=0)).contents
    assert isinstance(result, ToolResult)
    assert result.text == "see"
    assert [opaque.kind for opaque in result.opaque] == ["image"]


def test_the_block_has_the_shape_of_the_session() -> None:
    chat = MiniDialect.of([{"role": "system", "content": "S"}, user("T")]).block_message("B")
    items = MiniDialect.of([item("T")]).block_message("B")
    assert isinstance(chat, BlockMessage)
    assert chat == {"role": "user", "content": "B"}
    assert items == {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "B"}]}
    merged = DIALECT.merge_block(user("T"), "B")
    assert isinstance(merged, BlockMessage)
    assert merged["content"] == "T\n\nB"


def test_the_same_message_after_a_restart() -> None:
    one = user("x", raw_output="x", returncode=0, timestamp=1.0)
    assert DIALECT.canonical(one) == DIALECT.canonical(user("x", raw_output="x", returncode=0, timestamp=2.0))
    assert DIALECT.canonical(one) != DIALECT.canonical(user("x"))


@pytest.mark.parametrize(
    ("message", "tokens"),
    [
        ({"extra": {"response": {"usage": {"prompt_tokens": 1150, "cache_read_input_tokens": 1000}}}}, 1150),
        ({"object": "response", "usage": {"input_tokens": 800, "input_tokens_details": {"cached_tokens": 500}}}, 800),
        (
            {"usage": {"input_tokens": 100, "cache_read_input_tokens": 1000, "cache_creation_input_tokens": 50}},
            1150,
        ),
        ({"extra": {"response": {"usage": None}}}, 0),
        ({"extra": {"response": "repr"}}, 0),
        ({"usage": {"prompt_tokens": True}}, 0),
        ({}, 0),
    ],
)
def test_reported_tokens(message: dict[str, Any], tokens: int) -> None:
    assert input_tokens(message) == tokens


def test_replies() -> None:
    assert is_reply({"role": "assistant"})
    assert is_reply({"object": "response"})
    assert is_reply(user("x", interrupt_type="FormatError"))
    assert not is_reply(user("x", actions=[{"command": "ls"}]))

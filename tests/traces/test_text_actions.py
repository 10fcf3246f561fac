"""`chat-text`: calls and results inside texts, told by the private key `_cliff`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cliff_core.content import Directive, Message, Note, Opaque, Thought, ToolCall, ToolResult, counted
from cliff_core.dialects import dialect

TEXT = dialect("chat-text")
CHAT = dialect("chat")


def test_command_in_a_code_block() -> None:
    message = {
        "role": "assistant",
        "content": "THOUGHT: look\n\n```bash\nls -la\n```\nBye.",
        "_cliff": {"thought": ["THOUGHT: look", "Bye."], "calls": [{"name": "bash", "arguments": "ls -la"}]},
    }
    assert TEXT.parse(message) == Message(
        "model",
        (
            Thought("THOUGHT: look"),
            Thought("Bye."),
            ToolCall("bash", "ls -la"),
            Opaque("markup", text="\n\n```bash\n\n```\n"),
        ),
    )


def test_commands_in_json() -> None:
    text = '{"analysis": "a\\nb", "commands": [{"keystrokes": "ls\\n"}, {"keystrokes": "é\\n"}]}'
    calls = [
        {"name": "bash_command", "arguments": "ls\n", "id": "1", "answered": False},
        {"name": "bash_command", "arguments": "é\n", "id": "2", "answered": True},
    ]
    message = {"role": "assistant", "content": text, "_cliff": {"thought": ["a\nb"], "calls": calls}}
    assert TEXT.parse(message) == Message(
        "model",
        (
            Thought("a\nb"),
            ToolCall("bash_command", "ls\n", "1", hosted=True),
            ToolCall("bash_command", "é\n", "2"),
            Opaque("markup", text='{"analysis": "", "commands": [{"keystrokes": ""}, {"keystrokes": ""}]}'),
        ),
    )


def test_reasoning_stands_before_the_text() -> None:
    message = {
        "role": "assistant",
        "content": [{"type": "text", "text": "x ls"}],
        "reasoning_content": "why",
        "_cliff": {"thought": "x", "calls": [{"name": "bash", "arguments": {"command": "ls", "n": 1}}]},
    }
    assert TEXT.parse(message).contents == (
        Thought("why"),
        Thought("x"),
        ToolCall("bash", {"command": "ls", "n": 1}),
        Opaque("markup", text=" "),
    )


def test_calls_that_are_not_in_the_text() -> None:
    message = {
        "role": "assistant",
        "content": "Plan: x",
        "_cliff": {"thought": ["Plan: x"], "calls": [{"name": "bash_command", "arguments": "ls"}]},
    }
    assert TEXT.parse(message).contents == (Thought("Plan: x"), ToolCall("bash_command", "ls"))


def test_result() -> None:
    message = {"role": "user", "content": "<returncode>1</returncode>", "_cliff": {"role": "tool", "call_id": "7"}}
    assert TEXT.parse(message) == Message("tool", (ToolResult("<returncode>1</returncode>", "7", error=True),))


def test_result_with_an_image() -> None:
    content = [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": "http://i"}}]
    (result,) = TEXT.parse({"role": "user", "content": content, "_cliff": {"role": "tool"}}).contents
    assert isinstance(result, ToolResult)
    assert (result.text, result.call_id, [opaque.kind for opaque in result.opaque]) == ("see", "", ["image"])


@pytest.mark.parametrize("role", ["user", "assistant"])
def test_note(role: str) -> None:
    message = {"role": role, "content": "No command found.", "_cliff": {"role": "note", "kind": "format_error"}}
    assert TEXT.parse(message) == Message("user", (Note("No command found.", "format_error"),))
    message["_cliff"] = {"role": "note"}
    assert TEXT.parse(message) == Message("user", (Note("No command found.", "user:No command found."),))


PLAIN = [
    {"role": "system", "content": "S"},
    {"role": "user", "content": "T"},
    {"role": "assistant", "content": "A", "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{}"}}]},
    {"role": "tool", "tool_call_id": "1", "content": "R"},
]


@pytest.mark.parametrize("message", PLAIN)
def test_everything_else_is_chat(message: dict[str, object]) -> None:
    assert TEXT.name == "chat-text"
    assert TEXT.parse(message) == CHAT.parse(message)
    assert TEXT.canonical(message) == CHAT.canonical(message)
    assert TEXT.canonical({**message, "_cliff": {"role": "tool"}}) == CHAT.canonical(message)
    assert TEXT.block_message("b") == CHAT.block_message("b")
    assert TEXT.merge_block(message, "b") == CHAT.merge_block(message, "b")


def test_block_index() -> None:
    head = [TEXT.parse(message) for message in PLAIN[:2]]
    assert TEXT.block_index(head) == CHAT.block_index(head)


@pytest.mark.parametrize(
    "said", [None, 3, [], {}, {"calls": 1, "thought": 2}, {"calls": [None, {}], "thought": [None]}, {"role": 5}]
)
def test_a_strange_key_is_no_error(said: object) -> None:
    contents = TEXT.parse({"role": "assistant", "content": "A", "_cliff": said}).contents
    assert "".join(counted(contents)[0]) == "A"
    assert Directive("A") not in contents


@given(
    before=st.text(st.characters(exclude_characters="`", codec="utf-8"), max_size=30),
    command=st.text(min_size=1, max_size=30),
    after=st.text(max_size=30),
)
def test_text_is_counted_once(before: str, command: str, after: str) -> None:
    """Thought, command and markup have, together, the characters of the text: no more, no less."""
    text = f"{before}```bash\n{command}\n```{after}"
    said = {"thought": before, "calls": [{"name": "", "arguments": command}]}
    texts, known = counted(TEXT.parse({"role": "assistant", "content": text, "_cliff": said}).contents)
    assert sorted("".join(texts)) == sorted(text)
    assert known == 0

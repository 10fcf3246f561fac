"""Terminus-2's messages as contents, told apart by what the host puts around them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cliff_core.content import Directive, Message, Note, Opaque, Thought, ToolCall, ToolResult
from cliff_terminus2.dialect import PART, Said, TerminusDialect, without_echo

PADDING = "\n" * 30
QUESTION = (
    "Are you sure you want to mark the task as complete? This will trigger your solution to be graded and you won't be "
    'able to make any further corrections. If so, include "task_complete": true in your JSON response again.'
)


def typed(text: str) -> list[str]:
    """A stand-in for the hosts' parsers."""
    return [command["keystrokes"] for command in json.loads(text)["commands"]]


DIALECT = TerminusDialect(typed)


def reply(*keystrokes: str, analysis: str = "It is there.", plan: str = "Read it.") -> str:
    return json.dumps({"analysis": analysis, "plan": plan, "commands": [{"keystrokes": keys} for keys in keystrokes]})


def said(text: str, *keystrokes: str) -> Message:
    message = Said(role="user", content=text)
    message.typed = keystrokes
    return DIALECT.parse(message)


def without_markup(message: Message) -> list[Any]:
    return [content for content in message.contents if not (isinstance(content, Opaque) and content.kind == "markup")]


def test_a_reply_is_thoughts_and_calls() -> None:
    text = reply("ls\n", "cat a.txt\n")
    message = DIALECT.parse({"role": "assistant", "content": text})
    assert message.role == "model"
    calls = [("call_1", "ls\n"), ("call_2", "cat a.txt\n")]
    assert without_markup(message) == [
        Thought("It is there."),
        Thought("Read it."),
        *(ToolCall("bash_command", keys, name, hosted=True) for name, keys in calls),
    ]
    markup = "".join(content.text for content in message.contents if isinstance(content, Opaque))
    assert "analysis" in markup
    assert "cat a.txt" not in markup  # each text counts once


def test_a_reply_that_the_host_could_not_read_is_a_thought() -> None:
    message = DIALECT.parse({"role": "assistant", "content": "I think that the task is done."})
    assert message.contents == (Thought("I think that the task is done."),)
    # Commands in a reply with an error are not carried out, and stand nowhere as calls.
    broken = '{"analysis": "A", "commands": [{"keystrokes": "rm -r build\\n"}], oh}'
    assert not [c for c in DIALECT.parse({"role": "assistant", "content": broken}).contents if isinstance(c, ToolCall)]


@pytest.mark.parametrize(
    ("text", "keystrokes"),
    [
        # It waits, or is done: no keystrokes to be seen, in either format.
        ("<response>\n<analysis>A</analysis>\n<plan>P</plan>\n<commands>\n</commands>\n</response>", []),
        ('<response><analysis>A</analysis><plan>P</plan><keystrokes duration="5"></keystrokes></response>', [""]),
        ('{"analysis": "A", "plan": "P", "commands": []}', []),
        # Read or repaired by the hosts, but no JSON as a whole.
        ('Here: {"analysis": "A", "plan": "P", "commands": [{"keystrokes": "ls\\n"}]} or {"a": 1}', ["ls\n"]),
        ('{"analysis": "A", "plan": "P", "commands": [{"keystrokes": "ls\\n"}]', ["ls\n"]),
        # What is typed has the other format.
        ('{"analysis": "A", "plan": "P", "commands": [{"keystrokes": "echo \'<plan>no</plan>\'\\n"}]}', ["echo"]),
        ('<analysis>A</analysis><plan>P</plan><keystrokes>echo \'{"plan": "no"}\'\n</keystrokes>', ["echo"]),
    ],
)
def test_analysis_and_plan_are_thoughts_in_every_reply(text: str, keystrokes: list[str]) -> None:
    message = TerminusDialect(lambda _: keystrokes).parse({"role": "assistant", "content": text})
    thoughts = [content.text for content in message.contents if isinstance(content, Thought)]
    assert thoughts == ["A", "P"]
    typed = [content.arguments for content in message.contents if isinstance(content, ToolCall)]
    assert typed == [keys for keys in keystrokes if keys]


def test_a_json_string_is_decoded() -> None:
    text = r'{"analysis": "a \"quoted\"\nline, \u00e9", "plan": "an \escape", "commands": []}'
    message = DIALECT.parse({"role": "assistant", "content": text})
    thoughts = [content.text for content in message.contents if isinstance(content, Thought)]
    assert thoughts == ['a "quoted"\nline, \u00e9', r"an \escape"]  # no JSON: as it was written


@pytest.mark.parametrize(
    ("piece", "thought"), [("<plan>", None), ("<analysis></plan>", None), ('{"plan": "', "{"), ('"plan": "\\\\', "\\")]
)
def test_a_model_that_repeats_itself(piece: str, thought: str | None) -> None:
    """A search that begins anew at each opening would not come to an end."""
    text = piece * 50_000
    message = DIALECT.parse({"role": "assistant", "content": text})
    assert [content.text for content in message.contents if isinstance(content, Thought)] == [thought or text]


def test_half_a_character_stays_as_it_was_written() -> None:
    """Decoded it could not be sent: no request with such a block would leave the host."""
    for text in (reply("ls\n", analysis="\ud83d"), reply("echo \udc00\n")):
        assert DIALECT.parse({"role": "assistant", "content": text}).contents == (Thought(text),)


def test_reasoning_is_a_thought_of_its_own() -> None:
    message = DIALECT.parse({"role": "assistant", "content": reply("ls\n"), "reasoning_content": "Hm."})
    assert Thought("Hm.") in message.contents


def test_the_task_is_no_output() -> None:
    text = (
        "You are an AI assistant.\n\nTask Description:\nDo it.\n\nCurrent terminal state:\nCurrent Terminal Screen:\n#"
    )
    assert DIALECT.parse({"role": "user", "content": text}) == Message("user", (Directive(text),))


@pytest.mark.parametrize("heading", ["New Terminal Output:\n", "Current Terminal Screen:\n"])
def test_output_without_heading_and_padding(heading: str) -> None:
    message = said(f"{heading}# ls\na.txt\n#{PADDING}", "ls\n")
    assert message.role == "user"
    assert message.contents[0] == ToolResult("# ls\na.txt\n#", "call_1")
    assert message.contents[1] == Opaque("markup", text=heading + PADDING)


def test_the_result_is_that_of_the_last_call() -> None:
    assert said("New Terminal Output:\nx", "ls\n", "", "pwd\n").contents[0] == ToolResult("x", "call_2")
    assert said("New Terminal Output:\nx").contents[0] == ToolResult("x", "")


def test_the_question_is_told_apart() -> None:
    text = f"Current terminal state:\nNew Terminal Output:\n# ls\na.txt{PADDING}\n\n{QUESTION}"
    assert without_markup(said(text)) == [ToolResult("# ls\na.txt"), Note(QUESTION, "confirmation")]


def test_warnings_are_told_apart() -> None:
    text = "Previous response had warnings:\nWARNINGS: - Extra text before JSON object\n\nNew Terminal Output:\n# ls"
    warnings = text.partition("\n\nNew")[0]
    assert without_markup(said(text)) == [Note(warnings, "warnings"), ToolResult("# ls")]


def test_errors_are_notes() -> None:
    text = "Previous response had parsing errors:\nERROR: Invalid JSON\n\nPlease fix these issues and provide JSON."
    assert said(text).contents == (Note(text, "parsing errors"),)
    text = "ERROR!! NONE of the actions you just requested were performed because you exceeded 4096 tokens."
    assert said(text).contents == (Note(text, "answer too long"),)


def test_a_timeout_is_an_error_and_its_screen_a_result() -> None:
    text = (
        "Previous command:\nmake\n\n\nThe previous command timed out after 60 seconds\n\n"
        "It is possible that it runs on.\n\n"
        f"Here is the current state of the terminal:\n\nNew Terminal Output:\ncc -c a.c{PADDING}"
    )
    note, result = without_markup(said(text, "make\n"))
    assert isinstance(note, Note)
    assert note.kind == "timeout"
    assert note.text.startswith("The previous command timed out after 60 seconds")
    assert result == ToolResult("cc -c a.c", "call_1", error=True)
    # The host may put it into its other sentences.
    warned = without_markup(said(f"Previous response had warnings:\nWARNINGS: - Extra\n\n{text}", "make\n"))
    assert warned == [Note("Previous response had warnings:\nWARNINGS: - Extra", "warnings"), note, result]
    asked = without_markup(said(f"Current terminal state:\n{text}\n\n{QUESTION}", "make\n"))
    assert asked == [note, result, Note(QUESTION, "confirmation")]


def test_everything_that_is_sent_is_counted() -> None:
    texts = [
        f"New Terminal Output:\n# ls\na.txt{PADDING}",
        f"Current terminal state:\nNew Terminal Output:\n# ls{PADDING}\n\n{QUESTION}",
        "Previous response had warnings:\nWARNINGS: - Extra\n\nNew Terminal Output:\n# cat > f <<'E'\n> x\n> E\n#",
    ]
    for text in texts:
        contents = said(text, "cat > f <<'E'\nx\nE\n").contents
        counted = sum(len(content.text) for content in contents if not isinstance(content, ToolCall))
        assert len(text) - 6 <= counted <= len(text)  # line breaks between what is told apart


def test_marks_are_for_the_compactor_alone() -> None:
    assert [DIALECT.parse(mark) for mark in PART] == [Message("trigger", ()), Message("model", ())]


# --- the echo of inline bodies --------------------------------------------------------------------------


def test_the_echo_of_a_heredoc_goes() -> None:
    keys = "cat > a.py <<'EOF'\nimport os\n\nprint(os)\nEOF\n"
    screen = "# cat > a.py <<'EOF'\n> import os\n>\n> print(os)\n> EOF\n# python3 a.py\n<module 'os'>\n#"
    kept, echo = without_echo(screen, [keys, "python3 a.py\n"])
    assert kept == "# cat > a.py <<'EOF'\n# python3 a.py\n<module 'os'>\n#"
    assert echo == "> import os\n>\n> print(os)\n> EOF"


def test_what_a_command_prints_of_the_file_stays() -> None:
    keys = ["cat > a.py <<'EOF'\nimport os\nEOF\n", "cat a.py; cat quoted\n"]
    screen = "# cat > a.py <<'EOF'\n> import os\n> EOF\n# cat a.py; cat quoted\nimport os\n> another line\n#"
    kept, _ = without_echo(screen, keys)
    assert kept == "# cat > a.py <<'EOF'\n# cat a.py; cat quoted\nimport os\n> another line\n#"


def test_the_echo_of_a_pasted_file_goes() -> None:
    keys = ["cat > notes.txt\nfirst\n\nlast\n", "C-d", "cat notes.txt\n"]
    screen = "# cat > notes.txt\nfirst\n\nlast\n# cat notes.txt\nfirst\n\nlast\n#"
    kept, echo = without_echo(screen, keys)
    assert kept == "# cat > notes.txt\n# cat notes.txt\nfirst\n\nlast\n#"
    assert echo == "first\n\nlast"


def test_a_line_wider_than_the_terminal_goes_on_in_the_next_row() -> None:
    long = "word " * 60 + "end"
    shown = "> " + long
    rows = "\n".join(shown[at : at + 160] for at in range(0, len(shown), 160))
    kept, _ = without_echo(f"# cat > a <<E\n{rows}\n> E\n#", [f"cat > a <<E\n{long}\nE\n"])
    assert kept == "# cat > a <<E\n#"


def test_a_space_at_the_end_of_a_full_row_is_not_shown() -> None:
    """As a real tmux of 20 columns gives it."""
    screen = "# cat > f\naaaa bbbb cccc dddd\neeee ffff\n# cat > g <<E\n> aaaa bbbb cccc dd\neeee ffff\n> E\n#"
    typed = ["cat > f\naaaa bbbb cccc dddd eeee ffff\n", "C-d", "cat > g <<E\naaaa bbbb cccc dd eeee ffff\nE\n"]
    assert without_echo(screen, typed)[0] == "# cat > f\n# cat > g <<E\n#"


def test_output_of_several_commands_in_one_stays() -> None:
    screen = "# cd src\n# ls\na.py\n> not typed\n#"
    assert without_echo(screen, ["cd src\nls\n"]) == (screen, "")

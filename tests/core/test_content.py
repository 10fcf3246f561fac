"""What a person wrote and what the host wrote; what counts; and every dialect with any JSON at all."""

import copy
import json
import string

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cliff_core.content import (
    HOST_SENTENCES,
    HOST_TAGS,
    Directive,
    Message,
    Note,
    Opaque,
    Thought,
    ToolCall,
    ToolResult,
    Turn,
    arguments_text,
    counted,
    looks_failed,
    note_kind,
    result_text,
    user_text,
)
from cliff_core.dialects import dialect

# --- people and hosts --------------------------------------------------------------------------


def test_persons_text():
    assert user_text("  Fix <b>this</b>.\n\nThen stop.\n") == [Directive("Fix <b>this</b>.\n\nThen stop.")]
    assert user_text(" \n") == []


def test_tags_among_words():
    text = "One <system-reminder>\nA.\n</system-reminder>\n two <bash-input>ls</bash-input> three"
    assert user_text(text) == [
        Directive("One"),
        Note("<system-reminder>\nA.\n</system-reminder>", "system-reminder:A."),
        Directive("two"),
        Note("<bash-input>ls</bash-input>", "bash-input"),
        Directive("three"),
    ]


def test_tag_with_attributes_or_a_space():
    context = '<codex_internal_context source="goal">Go.</codex_internal_context>'
    assert user_text(context) == [Note(context, "codex_internal_context")]
    permissions = "<permissions instructions>\nAsk.\n</permissions instructions>"
    assert user_text(permissions) == [Note(permissions, "permissions")]


def test_tag_that_is_not_closed_is_a_persons():
    for text in ("What is <system-reminder>?", "</system-reminder>", "<skills> </skills>"):
        assert user_text(text) == [Directive(text)]


def test_many_open_tags_take_linear_time():
    text = "<system-reminder>" * 20_000 + "</bash-input>"
    assert user_text(text) == [Directive(text)]


def test_slash_command_is_the_hosts_unless_it_has_arguments():
    bare = "<command-message>ide</command-message>\n<command-name>/ide</command-name>"
    empty = f"{bare}\n<command-args>  </command-args>"
    # From a recorded session: a person's only word on the matter.
    full = f"{bare}\n<command-args>keep each commit with working code please</command-args>"
    assert user_text(bare) == [Note(bare, "command-name")]
    assert user_text(empty) == [Note(empty, "command-name")]
    assert user_text(f"{full}\nGo.") == [Directive(full), Directive("Go.")]
    assert user_text(f"{bare}\nand {bare}") == [
        Note(bare, "command-name"),
        Directive("and"),
        Note(bare, "command-name"),
    ]


@pytest.mark.parametrize("sentence", HOST_SENTENCES)
def test_sentences_of_the_host(sentence):
    (note,) = user_text(f"\n{sentence} and so on.\n")[:1]
    assert isinstance(note, Note)
    assert note.text.startswith(sentence)


def test_words_after_an_interruption_are_a_persons():
    assert user_text("[Request interrupted by user for tool use]\nUse tabs.") == [
        Note("[Request interrupted by user for tool use]", "user:[Request interrupted by user"),
        Directive("Use tabs."),
    ]
    assert user_text("Tool loaded.") == [Note("Tool loaded.", "user:Tool loaded.")]
    assert user_text("Tool loaded.\n\nGo on.")[1] == Directive("Go on.")


def test_sentence_in_the_middle_is_a_persons():
    text = "It says: Tool loaded."
    assert user_text(text) == [Directive(text)]


@pytest.mark.parametrize(
    ("role", "text", "kind"),
    [
        ("system", "<total_tokens>812 tokens left</total_tokens>", "total_tokens"),
        ("system", "You have 812 of 900 tokens left.\nGo on.", "system:You have # of # tokens left."),
        ("developer", "\n  Be brief.", "developer:Be brief."),
        ("user", "x" * 100, "user:" + "x" * 60),
        ("user", "<b", "user:<b"),
        (
            "user",
            "<system-reminder>\nYour todo list is empty. 3\n</system-reminder>",
            "system-reminder:Your todo list is empty. #",
        ),
        ("user", "Base directory for this skill: /s/a2\n\n# A", "user:Base directory for this skill: /s/a#"),
        ("user", 'Result of calling the Read tool: "1"', "user:Result of calling the Read tool:"),
        ("user", "", "user:"),
    ],
)
def test_kind_of_a_note(role, text, kind):
    assert note_kind(role, text) == kind


def test_reminders_of_several_kinds_do_not_supersede_each_other():
    todo = "<system-reminder>\nYour todo list has changed.</system-reminder>"
    changed = "<system-reminder>\nNote: /a.py was modified.</system-reminder>"
    assert note_kind("user", todo) != note_kind("user", changed)


HOST_TEXTS = [f"<{tag}>x</{tag}>" for tag in sorted(HOST_TAGS)] + list(HOST_SENTENCES)


@given(
    st.lists(
        st.one_of(st.sampled_from(HOST_TEXTS), st.text(), st.sampled_from(["<", ">", "</", "\n", "</skill>"]))
    ).map("".join)
)
def test_pieces_are_the_text_in_its_order(text):
    end = 0
    for piece in user_text(text):
        start = text.index(piece.text, end)
        assert not text[end:start].strip()
        end = start + len(piece.text)
    assert not text[end:].strip()


# --- what a person said in a result ------------------------------------------------------------

REJECTED = "The user doesn't want to proceed with this tool use. The tool use was rejected."


def test_reason_of_a_rejection():
    said = f"{REJECTED} To tell you how to proceed, the user said:\n"
    assert result_text(f"{said}Use tabs.\n") == (said, [Directive("Use tabs.")])
    note = "Note: The user's next message may contain a correction or preference. Pay attention."
    head, pieces = result_text(f"{said}Use tabs.\n\n{note}")
    assert head == said
    assert [(type(piece), piece.text) for piece in pieces] == [
        (Directive, "Use tabs."),
        (Note, note),
    ]


def test_answers():
    text = 'Your questions have been answered: "Tabs?"="Yes"'
    assert result_text(text) == (
        "Your questions have been answered:",
        [Directive('"Tabs?"="Yes"')],
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1\n",
        f"{REJECTED} STOP what you are doing.",
        f"{REJECTED} To tell you how to proceed, the user said:\n  ",
        "I think: User has answered your questions: no",
    ],
)
def test_other_results_stay_as_they_are(text):
    assert result_text(text) == (text, [])


# --- failures ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        '{\n  "returncode": 1,\n  "output": ""\n}',  # mini-swe-agent 2
        "<returncode>127</returncode>\n<output>\n</output>",  # mini-swe-agent
        "Exit code: 1\nWall time: 2 seconds\nOutput:\n",  # Codex shell_command
        "Wall time: 1 s\nProcess exited with code 2\nOutput:\n",  # Codex exec_command
        "Wall time: 222.0 seconds\naborted by user",
        "execution error: Io(Custom { kind: Other })",
        "Exit code 3\njq: error",  # Claude Code
        "<tool_use_error>File does not exist.</tool_use_error>",
        "tsc --noEmit\n\n\nCommand exited with code 2",  # pi
        "no\n[The command completed with exit code 1.]\n[Python interpreter: /usr/bin/python]",
        "no\n[Command finished with exit code 1]",  # OpenHands
        '{"output": "no", "exit_code": 1, "error": null}',  # Hermes
        "FAIL\nexit status 1",
    ],
)
def test_stated_failures(text):
    assert looks_failed(text)
    middle = "." * 2_000
    assert looks_failed(text + "\n" + middle)
    assert looks_failed(middle + "\n" + text) or text[0] == "<" or text.startswith("execution")


@pytest.mark.parametrize(
    "text",
    [
        "",
        '{"returncode": 0}',
        "<returncode>0</returncode>",
        "Exit code: 0",
        "Process exited with code 0",
        "[The command completed with exit code 0.]",
        "Command exited with code 0",
        "print('Exit code 1')",
        "." * 1_000 + "\nExit code 1\n" + "." * 1_000,
    ],
)
def test_no_failure_stated(text):
    assert not looks_failed(text)


def test_recorded_failures(traces):
    """Exit codes that mini-swe-agent recorded beside its results."""
    for path in sorted(traces.glob("mini_v2/*/*.json")):
        results = [m for m in json.loads(path.read_text())["messages"] if m["role"] == "tool"]
        assert len(results) > 100
        for message in results:
            assert looks_failed(message["content"]) == (message["extra"]["returncode"] != 0)


# --- counting ----------------------------------------------------------------------------------


def test_counted_texts():
    contents = (
        Thought("Hm.", 7),
        ToolCall("bash", {"command": "é"}, "a"),
        ToolCall("apply_patch", "*** Begin", "b"),
        ToolResult("1", "a", opaque=(Opaque("image", 5), Opaque("document", text="Page."))),
        Directive("Go."),
        Note("Brief.", "system:Brief."),
        Opaque("compaction", 11, "Before."),
        Thought("", 3),
    )
    assert counted(contents) == (
        [
            "Hm.",
            "bash",
            '{"command":"é"}',
            "apply_patch",
            "*** Begin",
            "1",
            "Page.",
            "Go.",
            "Brief.",
            "Before.",
        ],
        7 + 5 + 11 + 3,
    )


def test_arguments_as_text():
    assert arguments_text('{"a": 1}') == '{"a": 1}'
    assert arguments_text({"a": [1, None], "ü": {"b": True}}) == '{"a":[1,null],"ü":{"b":true}}'


def test_turn():
    messages = (Message("model", (), 4), Message("tool", (), 5))
    turn = Turn(2, 7, messages)
    assert (turn.tokens, turn.end, list(turn.contents())) == (9, 9, [])


# --- every dialect -----------------------------------------------------------------------------

FORMATS = ("chat", "anthropic", "responses")
NAMES = """
    role content type text id name status output arguments input call_id tool_use_id tool_call_id
    tool_calls function custom function_call thinking_blocks reasoning_content reasoning_details
    refusal images audio summary encrypted_content signature data thinking source media_type title
    image_url url file file_data input_audio is_error return_code stdout stderr lines encrypted_stdout
    tool_references tool_changes clear_at output_config action operation queries results outputs logs
    code error message tools execution outcome exit_code approve reason approval_request_id result
    revised_prompt object cache_control prompt_cache_breakpoint annotations logprobs _reasoning_tokens
    system developer user assistant tool_result tool_use server_tool_use mcp_tool_use redacted_thinking
    web_search_tool_result web_search_result web_fetch_result code_execution_result compaction fallback
    text_editor_code_execution_str_replace_result tool_search_tool_search_result tool_reference
    document image search_result tool_addition input_text output_text input_image input_file base64
    function_call_output custom_tool_call local_shell_call shell_call shell_call_output web_search_call
    file_search_call code_interpreter_call image_generation_call mcp_call mcp_list_tools response
    apply_patch_call computer_call computer_call_output tool_search_call tool_search_output program
    mcp_approval_request mcp_approval_response item_reference compaction_trigger additional_tools
    completed incomplete failed weather_call weather_output
"""
WORDS = NAMES.split()
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.sampled_from(WORDS),
    st.text(max_size=20),
    st.sampled_from([*HOST_TEXTS, "data:image/png;base64,iVBORw0KGgo=", "\ud83d"]),
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.one_of(st.sampled_from(WORDS), st.text(max_size=4)), inner, max_size=6),
    ),
    max_leaves=12,
)
TYPES = st.sampled_from(WORDS)
OBJECTS = st.one_of(
    st.dictionaries(st.one_of(st.sampled_from(WORDS), st.text(max_size=4)), JSON, max_size=8),
    # The shapes that formats have, with anything in them.
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant", "system", "developer", "tool", "function"])},
        optional={
            "content": st.one_of(
                JSON,
                st.lists(
                    st.fixed_dictionaries(
                        {"type": TYPES},
                        optional=dict.fromkeys(("text", "content", "source", "input"), JSON),
                    ),
                    max_size=4,
                ),
            ),
            "tool_calls": JSON,
            "thinking_blocks": JSON,
        },
    ),
    st.fixed_dictionaries(
        {"type": TYPES},
        optional=dict.fromkeys(("action", "output", "outputs", "results", "summary", "content", "status"), JSON),
    ),
)


@pytest.mark.parametrize("name", FORMATS)
@given(OBJECTS)
@example({})
@example({"role": ["user"], "type": {"a": 1}, "content": {"type": []}})
@example({"type": "message", "role": "user", "content": [{"type": "text", "text": 3}]})
def test_any_object_is_parsed_and_compared(name, message):
    its = dialect(name)
    before = copy.deepcopy(message)
    parsed = its.parse(message)
    assert parsed.role in ("system", "user", "model", "tool", "trigger")
    assert parsed.tokens == 0
    texts, tokens = counted(parsed.contents)
    assert all(isinstance(text, str) for text in texts)
    assert isinstance(tokens, int)
    assert tokens >= 0
    assert all(c.text for c in parsed.contents if isinstance(c, (Directive, Note)))

    canonical = its.canonical(message)
    assert its.canonical(canonical) is canonical
    assert its.canonical(before) == canonical
    assert message == before

    its.block_index([parsed, Message("user", ())])
    merged = its.merge_block(message, "block")
    assert message == before
    if merged is not None:
        assert its.parse(merged).role in ("user", "tool")
        assert {**merged, "content": None} == {**message, "content": None}


def _marked(value):
    """The value with a cache marker in every object that can have one."""
    if isinstance(value, list):
        return [_marked(item) for item in value]
    if isinstance(value, dict):
        marked = {key: item if key in ("input", "arguments") else _marked(item) for key, item in value.items()}
        return {**marked, "cache_control": {"type": "ephemeral"}}
    return value


@pytest.mark.parametrize("name", FORMATS)
@given(OBJECTS)
def test_markers_are_no_difference(name, message):
    its = dialect(name)
    bare = {key: value for key, value in message.items() if key != "cache_control"}
    assert its.canonical(_marked(bare)) == its.canonical(bare)


@pytest.mark.parametrize("name", FORMATS)
def test_anything_that_is_no_object(name):
    for message in (None, 3, "text", [], ["a"]):
        parsed = dialect(name).parse(message)
        assert [content.kind for content in parsed.contents] == ["unknown"]
        assert dialect(name).canonical(message) is message


@pytest.mark.parametrize("name", FORMATS)
def test_very_deep_objects(name):
    deep = json.loads('{"a":' * 400 + "1" + "}" * 400)
    for message in ({"role": "user", "content": [deep]}, {"type": "x_call", "input": [deep]}):
        assert dialect(name).parse(message).contents
        assert dialect(name).canonical(message) is not None


def test_unknown_dialect():
    with pytest.raises(ValueError, match="unknown dialect 'gemini'; known are chat"):
        dialect("gemini")


def test_hosts_tags_are_plain_names():
    assert all(set(tag) <= set(string.ascii_letters + "_- ") for tag in HOST_TAGS)

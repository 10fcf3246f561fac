"""Formats are found by content, sessions by folder; and the small parts that several readers share."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cliff_core.traces import FORMATS, Request, TraceError, Usage, discover, find, read, sse, terminus
from cliff_core.traces.openhands_v0 import command_output
from cliff_core.traces.reasoning import settle, spread
from cliff_core.traces.usage import usage

SAMPLES = Path(__file__).parent / "samples"

FORMAT_OF = {
    "atif_native.json": "atif",
    "atif_terminus.json": "atif",
    "claude_code.jsonl": "claude-code",
    "claude_trace.jsonl": "raw-api",
    "codex.jsonl": "codex",
    "llm_logs": "raw-api",
    "mini_v1.traj.json": "mini-swe-agent",
    "mini_v2.traj.json": "mini-swe-agent",
    "mini_v2_responses.traj.json": "mini-swe-agent",
    "mini_v2_text.traj.json": "mini-swe-agent",
    "nemo_gym.jsonl": "nemo-gym",
    "openhands_v0.json": "openhands-v0",
    "openhands_v0_output.jsonl": "openhands-v0",
    "openhands_v1": "openhands-v1",
    "openhands_v1_output.jsonl": "openhands-v1",
    "pi.jsonl": "pi",
    "pi_tree.jsonl": "pi",
    "raw_pairs.jsonl": "raw-api",
    "swe_agent_0.traj": "swe-agent",
    "swe_agent_1.traj": "swe-agent",
}


@pytest.mark.parametrize("name", FORMAT_OF)
def test_format_by_content(name: str, tmp_path: Path) -> None:
    expected = FORMAT_OF[name]
    assert expected == find(SAMPLES / name).NAME
    copy = tmp_path / "renamed.txt"
    if (SAMPLES / name).is_file():
        shutil.copy(SAMPLES / name, copy)
        assert expected == find(copy).NAME


@pytest.mark.parametrize("name", [name for name in FORMAT_OF if name.endswith((".json", ".traj"))])
def test_a_document_may_be_on_one_line(name: str, tmp_path: Path) -> None:
    copy = tmp_path / "compact"
    copy.write_text(json.dumps(json.loads((SAMPLES / name).read_text())))
    assert [s.messages for s in read(copy)] == [s.messages for s in read(SAMPLES / name)]


def test_formats_have_names_of_their_own() -> None:
    assert len({reader.NAME for reader in FORMATS}) == len(FORMATS) == len(set(FORMAT_OF.values()))


def test_other_forms_of_the_same_events(tmp_path: Path) -> None:
    """OpenHands events: a bare list, one a line, pairs; requests: a list."""
    v0 = json.loads((SAMPLES / "openhands_v0.json").read_text())["trajectory"]
    v1 = json.loads((SAMPLES / "openhands_v1_output.jsonl").read_text().splitlines()[0])["history"]
    pairs = [json.loads(line) for line in (SAMPLES / "raw_pairs.jsonl").read_text().splitlines()]
    path = tmp_path / "events"
    for whole, name in ((v0, "openhands-v0"), (v1, "openhands-v1")):
        path.write_text(json.dumps(whole))
        (alone,) = read(path)
        path.write_text("".join(json.dumps(event) + "\n" for event in whole))
        (lines,) = read(path)
        assert alone == lines
        assert alone.format == name
    path.write_text(json.dumps({"history": [[v0[0], v0[1]], v0[2:]]}))
    assert next(read(path)).messages == next(read(SAMPLES / "openhands_v0.json")).messages
    path.write_text(json.dumps(pairs))
    assert [s.messages for s in read(path)] == [s.messages for s in read(SAMPLES / "raw_pairs.jsonl")]


def test_claude_code_that_begins_with_many_other_lines(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    summary = json.dumps({"type": "summary", "summary": "x", "leafUuid": "y"}) + "\n"
    path.write_text(summary * 150 + (SAMPLES / "claude_code.jsonl").read_text())
    assert [s.messages for s in read(path)] == [s.messages for s in read(SAMPLES / "claude_code.jsonl")]


def test_discover(tmp_path: Path) -> None:
    for name in ("b/pi.jsonl", "a/codex.jsonl", "a/z/mini_v1.traj.json", ".git/pi.jsonl"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(SAMPLES / Path(name).name, tmp_path / name)
    shutil.copytree(SAMPLES / "openhands_v1", tmp_path / "a" / "conversation")
    shutil.copytree(SAMPLES / "llm_logs", tmp_path / "c")
    (tmp_path / "a" / "notes.md").write_text("# Notes")
    (tmp_path / "b" / "config.json").write_text('{"x": 1}')
    (tmp_path / "b" / "empty").touch()
    skipped: list[TraceError] = []
    named = tmp_path / "a" / "notes.md"
    assert discover([named, tmp_path, tmp_path / "none"], skipped) == [
        named,  # named, so it stays, and is an error when it is read
        tmp_path / "a" / "codex.jsonl",
        tmp_path / "a" / "conversation",
        tmp_path / "a" / "z" / "mini_v1.traj.json",
        tmp_path / "b" / "pi.jsonl",
        tmp_path / "c",
        tmp_path / "none",
    ]
    expected = "expected a recorded session"
    assert [str(error) for error in skipped] == [
        f"{tmp_path}/a/notes.md: {expected}; line 1, column 1: the file breaks off (Expecting value)",
        f"{tmp_path}/b/config.json: {expected}; no known format: an object with the keys x",
        f"{tmp_path}/b/empty: {expected}; line 1: the file is empty",
    ]
    assert discover([tmp_path / "b"]) == [tmp_path / "b" / "pi.jsonl"]


def test_sessions_of_a_file_come_one_by_one(tmp_path: Path) -> None:
    """The first is there before the second is read."""
    path = tmp_path / "output.jsonl"
    path.write_text((SAMPLES / "openhands_v0_output.jsonl").read_text() + "{broken")
    sessions = read(path)
    assert next(sessions).name == "a"
    assert next(sessions).name == "b"
    with pytest.raises(TraceError):
        next(sessions)


# --- usage -------------------------------------------------------------------------------------------------

USAGES = [
    ({"prompt_tokens": 9, "completion_tokens": 2}, Usage(9, None, None, 2)),
    ({"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 4}}, Usage(9, 4)),
    ({"prompt_tokens": 9, "prompt_tokens_details": None, "cache_read_input_tokens": 3}, Usage(9, 3)),
    # litellm for Anthropic: cached tokens are part of the prompt already
    (
        {"prompt_tokens": 1150, "cache_creation_input_tokens": 50, "cache_read_input_tokens": 1000},
        Usage(1150, 1000, 50),
    ),
    ({"prompt_cache_hit_tokens": 6, "prompt_cache_miss_tokens": 3}, Usage(9, 6)),
    ({"prompt_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 5}}, Usage(9, None, None, None, 5)),
    (
        {"input_tokens": 9, "input_tokens_details": {"cached_tokens": 4}, "output_tokens": 3},
        Usage(9, 4, None, 3),
    ),
    (
        {"input_tokens": 1, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 3, "output_tokens": 2},
        Usage(9, 5, 3, 2),
    ),
    ({"input_tokens": 9, "output_tokens": 2}, Usage(9, None, None, 2)),
    ({"prompt_tokens": 0}, None),
    ({"input_tokens": 0, "cache_read_input_tokens": 0}, None),
    ({"prompt_tokens": True}, None),
    ({"prompt_tokens": "9"}, None),
    ({}, None),
    (None, None),
    ([], None),
]


@pytest.mark.parametrize(("reported", "expected"), USAGES)
def test_usage(reported: Any, expected: Usage | None) -> None:
    assert usage(reported) == expected


# --- reasoning ---------------------------------------------------------------------------------------------


def reasoning(size: int) -> dict[str, Any]:
    return {"type": "reasoning", "encrypted_content": "x" * (size - 1)}


def test_reported_reasoning_is_shared_out_by_size() -> None:
    items = [reasoning(10), {"type": "function_call"}, reasoning(20), reasoning(1)]
    assert [item.get("_reasoning_tokens") for item in spread(items, 100)] == [32, None, 64, 4]
    assert spread(items, None) == items
    assert spread(items, 0) == items
    assert spread([{"type": "message"}], 50) == [{"type": "message"}]


CALL = [{"type": "reasoning", "_reasoning_tokens": 400}, {"type": "function_call"}, {"type": "function_call_output"}]


@pytest.mark.parametrize(
    ("grown", "between", "kept"),
    [
        (60, CALL, 0),  # less than the answer of 450 tokens: its reasoning was not sent again
        (240, CALL, 0),
        (260, CALL, 400),  # at least half of it may be in there
        (900, CALL, 400),
        (-500, CALL, 400),  # a compaction, which says nothing of reasoning
        (60, [*CALL, {"role": "user"}], 400),  # earlier reasoning may go when a person speaks
    ],
)
def test_reasoning_that_was_not_counted_again(grown: int, between: list[dict[str, Any]], kept: int) -> None:
    messages = [{"role": "user"}, *between]
    first = Request(1, Usage(1000, 0, None, 450, 400))
    settle(messages, [first, Request(len(messages), Usage(1000 + grown))])
    assert messages[1]["_reasoning_tokens"] == kept


# --- texts of hosts ----------------------------------------------------------------------------------------


def test_what_openhands_appends_to_output() -> None:
    metadata = {
        "exit_code": 1,
        "working_dir": "/w",
        "py_interpreter_path": "/usr/bin/python",
        "prefix": "[Below is the output of the previous command.]\n",
        "suffix": "\n[The command completed with exit code 1.]",
    }
    assert command_output("a.py", metadata) == (
        "[Below is the output of the previous command.]\n"
        "a.py\n"
        "[The command completed with exit code 1.]\n"
        "[Current working directory: /w]\n"
        "[Python interpreter: /usr/bin/python]\n"
        "[Command finished with exit code 1]"
    )
    assert command_output("a.py", {"exit_code": -1}) == "a.py"
    assert command_output("a.py", None) == "a.py"


XML = """<response>
<analysis> A </analysis>
<plan>P</plan>
<commands>
<keystrokes duration="0.1">ls
</keystrokes>
<keystrokes>C-c</keystrokes>
</commands>
</response>"""


@pytest.mark.parametrize(
    ("text", "derived", "thought", "typed"),
    [
        (XML, None, ["A", "P"], ["ls\n", "C-c"]),
        ('Sure: {"analysis": "A", "commands": [{"keystrokes": "ls\n"}]} Done.', None, ["A"], ["ls\n"]),
        # Cut off: the host repaired it, and recorded what it ran.
        ('{"analysis": "A", "commands": [{"keystrokes": "ls\\n"', ["ls\n"], ['{"analysis": "A",'], ["ls\n"]),
        ("Analysis: A\nPlan: P", ["ls\n"], ["Analysis: A\nPlan: P"], ["ls\n"]),
    ],
)
def test_terminus_replies(text: str, derived: list[str] | None, thought: list[str], typed: list[str]) -> None:
    calls = [("bash_command", keystrokes) for keystrokes in derived] if derived else None
    reply = terminus.reply(text, calls)
    assert reply["content"] == text
    assert reply["_cliff"]["thought"] == thought
    assert [call["arguments"] for call in reply["_cliff"]["calls"]] == typed
    assert [call["answered"] for call in reply["_cliff"]["calls"]] == [False] * (len(typed) - 1) + [True]


def test_terminus_reply_that_only_thinks() -> None:
    text = '{"analysis": "A", "plan": "P", "commands": [], "task_complete": true}'
    assert terminus.reply(text)["_cliff"] == {"thought": ["A", "P"], "calls": []}


@pytest.mark.parametrize("text", ["Sorry.", "{}", '{"commands": []}', '{"analysis": 1, "commands": 2}', "<x>{</x>}"])
def test_terminus_replies_without_a_command(text: str) -> None:
    assert terminus.reply(text) == {"role": "assistant", "content": text}


TAGS = ["<keystrokes>", "<keystrokes", "</keystrokes>", "<plan>", "<plan", "</plan>", "<analysis>", "</analysis>"]
BETWEEN = [">", "<", "/", "x", " ", "\n", ' duration="0.1"']


@given(st.lists(st.sampled_from(TAGS + BETWEEN), max_size=30).map("".join))
def test_terminus_tags_are_those_of_a_pattern(text: str) -> None:
    """Which takes quadratic time (see `test_large`)."""
    typed = [found for found in re.findall(r"<keystrokes[^>]*>(.*?)</keystrokes>", text, re.DOTALL) if found]
    said = re.finditer(r"<(analysis|plan)>(.*?)</\1>", text, re.DOTALL)
    mark = terminus.reply(text).get("_cliff", {"thought": [], "calls": []})
    assert [call["arguments"] for call in mark["calls"]] == typed
    assert mark["thought"] == ([found[2].strip() for found in said] if typed else [])


def test_stream_that_breaks_off() -> None:
    start = {"type": "message_start", "message": {"id": "m", "type": "message", "usage": {"input_tokens": 3}}}
    block = {"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "t", "input": {}}}
    delta = {"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": '{"a'}}
    stream = "".join(f"data: {json.dumps(event)}\n\n" for event in (start, block, delta))
    assert sse.response(stream + 'data: {"type": "content_blo') == {
        "id": "m",
        "type": "message",
        "usage": {"input_tokens": 3},
        "content": [{"type": "tool_use", "id": "t", "input": {"_broken": '{"a'}}],
    }
    assert sse.response('data: {"type": "error", "error": {"type": "overloaded_error"}}\n\n') == {
        "error": {"type": "overloaded_error"}
    }
    assert sse.response("") == {}


@pytest.mark.parametrize("value", [[], {}, [[]], None, 1, True, 1.5, "event", ""])
@pytest.mark.parametrize("key", ["type", "kind", "role", "schema_version", "trajectory_format", "request", "history"])
def test_any_value_where_a_format_is_looked_for(key: str, value: Any, tmp_path: Path) -> None:
    """A list has no hash: recognising a format must not need one."""
    file = tmp_path / "odd.jsonl"
    file.write_text(json.dumps({key: value, "payload": {}, "message": {}, "id": "1"}) + "\n")
    with pytest.raises(TraceError, match="no known format"):
        find(file)

"""Files that are no session, or break off: one clear line each, and nothing but TraceError."""

import json
import os
import shutil
import socket
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cliff_core import traces
from cliff_core.traces import Session, TraceError

SAMPLES = Path(__file__).parent / "samples"
NAMES = sorted(path.name for path in SAMPLES.iterdir() if path.is_file())


def attempt(path: Path) -> tuple[list[Session], str]:
    """What a file gives, and how it ends."""
    sessions: list[Session] = []
    try:
        for session in traces.read(path):
            sessions.append(session)
    except TraceError as error:
        return sessions, str(error)
    return sessions, ""


CASES = {
    "empty": (b"", "expected a recorded session; line 1: the file is empty"),
    "blank": (b" \n\n \t\n", "expected a recorded session; line 1: the file is empty"),
    "prose": (
        b"# Notes\nnothing\n",
        "expected a recorded session; line 1, column 1 (byte 0): no JSON (Expecting value)",
    ),
    "one word": (b"hello", "expected a recorded session; line 1, column 1: the file breaks off (Expecting value)"),
    "binary": (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "expected a recorded session; byte 8: the file is binary"),
    "gzip": (
        b"\x1f\x8b\x08\0",
        "expected a recorded session; byte 0: the file is compressed (gzip): unpack it first",
    ),
    "zstd": (
        b"\x28\xb5\x2f\xfd\x04",
        "expected a recorded session; byte 0: the file is compressed (zstd): unpack it first",
    ),
    "UTF-16": (
        "\ufeff{}".encode("utf-16-le"),
        "expected a recorded session; byte 0: the file is UTF-16, not UTF-8",
    ),
    "Latin-1": (
        b'{\n"messages": [\n "caf\xe9"]}',
        "expected a recorded session; line 3, byte 5: no UTF-8 (0xe9)",
    ),
    "Latin-1 in a line": (
        b'{"messages": ["caf\xe9"]}',
        "expected a recorded session; line 1, byte 18: no UTF-8 (0xe9)",
    ),
    "unknown object": (
        b'{"name": "x", "version": 1}',
        "expected a recorded session; no known format: an object with the keys name, version",
    ),
    "empty object": (b"{}", "expected a recorded session; no known format: an empty object"),
    "unknown list": (b"[1, 2]", "expected a recorded session; no known format: a list"),
    "number": (b"12", "expected a recorded session; no known format: a number"),
    "null": (b"null", "expected a recorded session; no known format: null"),
    "deep": (b"[" * 200_000, "expected a recorded session; nested too deeply"),
    "long number": (b"1" * 5_000, "expected a recorded session; line 1: no JSON (Exceeds the limit"),
    "pretty document that breaks off": (
        b'{\n "info": {},\n "messages": [\n  {"role": "user", "cont',
        "expected a recorded session; line 4, column 20 (byte 49): the file breaks off (Unterminated string)",
    ),
    "document on one line that breaks off": (
        b'{"info": {}, "messages": [{"role": "user"',
        "expected a recorded session; line 1, column 42: the file breaks off (Expecting ',' delimiter)",
    ),
    "two documents": (
        b'{\n"a": 1\n}\n{"b": 2}\n',
        "expected a recorded session; line 4, column 1 (byte 11): more text after the end of the JSON document",
    ),
    "mini-swe-agent without a role": (
        b'{"trajectory_format": "mini-swe-agent-1", "messages": [{"role": "system"}, {"content": "x"}]}',
        "expected a mini-swe-agent trajectory (a JSON object with `info` and `messages`);"
        " messages[1]: the key 'role' is missing",
    ),
    "mini-swe-agent with a strange role": (
        b'{"info": {}, "messages": [{"role": "robot"}]}',
        "expected a mini-swe-agent trajectory (a JSON object with `info` and `messages`);"
        " messages[0]: role: system, user, assistant, tool or exit expected, not 'robot'",
    ),
    "mini-swe-agent with a text for a message": (
        b'{"info": {}, "messages": ["hello"]}',
        "expected a mini-swe-agent trajectory (a JSON object with `info` and `messages`);"
        " messages[0]: an object expected, not a text",
    ),
    "SWE-agent with a strange role": (
        b'{"trajectory": [], "history": [{"role": "robot"}]}',
        "expected a SWE-agent trajectory (a JSON object with `trajectory` and `history`);"
        " history[0]: role: system, user, assistant or tool expected, not 'robot'",
    ),
    "OpenHands V0 without the model's reply": (
        b'[{"action": "run", "args": {}, "tool_call_metadata": {"tool_call_id": "x"}}]',
        "expected an OpenHands V0 event log (events with `action` or `observation`);"
        " line 1: event 0: tool_call_metadata: the key 'model_response' is missing",
    ),
    "OpenHands V1 without a message": (
        b'[{"kind": "MessageEvent", "source": "user", "llm_message": null}]',
        "expected an OpenHands V1 event log (events with `kind`, or a conversation's folder);"
        " line 1: event 0: llm_message: an object expected, not null",
    ),
    "ATIF without steps": (
        b'{"schema_version": "ATIF-v1.7", "steps": {}}',
        "expected an ATIF trajectory (a JSON object with `schema_version` and `steps`);"
        " steps: a list expected, not an object",
    ),
    "ATIF with a strange source": (
        b'{"schema_version": "ATIF-v1.7", "steps": [{"source": "dog"}]}',
        "expected an ATIF trajectory (a JSON object with `schema_version` and `steps`);"
        " steps[0]: source: system, user or agent expected, not 'dog'",
    ),
    "NeMo Gym without output": (
        b'{"responses_create_params": {}, "response": {}}\n',
        "expected NeMo Gym rollouts (a JSON object with `responses_create_params` and `response` on each line);"
        " line 1: response: the key 'output' is missing",
    ),
    "Claude Code without a message id": (
        b'{"type": "assistant", "uuid": "1", "parentUuid": null, "message": {"content": []}}\n',
        "expected a Claude Code session (JSON lines of `type` user and assistant);"
        " line 1: message: the key 'id' is missing",
    ),
    "Codex with an item without a type": (
        b'{"type": "response_item", "payload": {"role": "user"}}\n',
        "expected a Codex rollout (JSON lines of `type` and `payload`); line 1: the key 'type' is missing",
    ),
    "pi with a strange role": (
        b'{"type": "session", "id": "1"}\n{"type": "message", "message": {"role": "dog"}}\n',
        "expected a pi session (JSON lines that begin with `type` session);"
        " line 2: message: role: user, assistant or toolResult expected, not 'dog'",
    ),
    "recorded requests with something else": (
        b'{"request": {}, "response": {}}\n{"x": 1}\n',
        "expected recorded API requests (JSON objects with `request` and `response`, or `messages` and `response`);"
        " line 2: no request with its response",
    ),
    "structure that no reader foresaw": (
        b'{"info": {}, "messages": [{"role": "assistant", "extra": 7}]}',
        "expected a mini-swe-agent trajectory (a JSON object with `info` and `messages`); unexpected structure (",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_one_clear_line(case: str, tmp_path: Path) -> None:
    data, expected = CASES[case]
    path = tmp_path / "file"
    path.write_bytes(data)
    sessions, error = attempt(path)
    assert sessions == []
    assert error.startswith(f"{path}: {expected}")
    if "(Exceeds" not in expected and not expected.endswith("("):  # the rest is Python's own wording
        assert error == f"{path}: {expected}"
    assert "\n" not in error


# A recorder that crashed leaves its last line unfinished: what is whole before it is given.
UNFINISHED = {
    "claude_code.jsonl": (1, "a Claude Code session (JSON lines of `type` user and assistant)"),
    "codex.jsonl": (1, "a Codex rollout (JSON lines of `type` and `payload`)"),
    "pi.jsonl": (1, "a pi session (JSON lines that begin with `type` session)"),
    "openhands_v0_output.jsonl": (1, "an OpenHands V0 event log (events with `action` or `observation`)"),
    "openhands_v1_output.jsonl": (1, "an OpenHands V1 event log (events with `kind`, or a conversation's folder)"),
    "nemo_gym.jsonl": (
        1,
        "NeMo Gym rollouts (a JSON object with `responses_create_params` and `response` on each line)",
    ),
    "raw_pairs.jsonl": (
        3,
        "recorded API requests (JSON objects with `request` and `response`, or `messages` and `response`)",
    ),
}


@pytest.mark.parametrize("name", UNFINISHED)
def test_unfinished_last_line(name: str, tmp_path: Path) -> None:
    count, expected = UNFINISHED[name]
    lines = (SAMPLES / name).read_bytes().splitlines(keepends=True)
    path = tmp_path / name
    path.write_bytes(b"".join(lines[:-1]) + lines[-1][:20])
    sessions, error = attempt(path)
    assert len([session for session in sessions if session.messages]) >= count
    assert error.startswith(f"{path}: expected {expected}; line {len(lines)}, column ")
    assert ": the file breaks off (" in error


@pytest.mark.parametrize("name", UNFINISHED)
def test_broken_line_in_the_middle(name: str, tmp_path: Path) -> None:
    lines = (SAMPLES / name).read_bytes().splitlines(keepends=True)
    path = tmp_path / name
    path.write_bytes(lines[0] + b"{oops\n" + b"".join(lines[1:]))
    _, error = attempt(path)
    where = "line 2, column 2: no JSON (Expecting property name enclosed in double quotes)"
    # Claude Code's first line, a summary, does not tell the format yet.
    known = "a recorded session" if name == "claude_code.jsonl" else UNFINISHED[name][1]
    expected = "no known format: an object with the keys type, summary, leafUuid" if known[2] == "r" else where
    assert error == f"{path}: expected {known}; {expected}"


def test_missing_file(tmp_path: Path) -> None:
    path = tmp_path / "none.jsonl"
    assert attempt(path) == (
        [],
        f"{path}: expected a recorded session; cannot be read: No such file or directory",
    )


def test_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "locked.json"
    path.write_text("{}")

    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)  # tests may run as root, who may read everything
    assert attempt(path) == ([], f"{path}: expected a recorded session; cannot be read: Permission denied")


def test_an_error_has_its_parts(tmp_path: Path) -> None:
    path = tmp_path / "none: expected x.jsonl"
    with pytest.raises(TraceError) as caught:
        list(traces.read(path))
    error = caught.value
    assert (error.path, error.expects) == (path, "a recorded session")
    assert error.reason == "cannot be read: No such file or directory"
    assert str(error) == f"{path}: expected a recorded session; {error.reason}"


def fed(path: Path, data: bytes) -> threading.Thread:
    """A named pipe that gives `data`, once."""
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(data,), daemon=True)
    writer.start()
    return writer


@pytest.mark.parametrize("name", NAMES)
def test_a_pipe_is_read_as_its_file(name: str, tmp_path: Path) -> None:
    writer = fed(tmp_path / name, (SAMPLES / name).read_bytes())
    sessions, error = attempt(tmp_path / name)
    writer.join(10)
    expected, _ = attempt(SAMPLES / name)
    assert error == ""
    assert [(s.name, s.messages, s.requests) for s in sessions] == [(s.name, s.messages, s.requests) for s in expected]
    assert {s.path for s in sessions} <= {tmp_path / name}


def test_a_pipe_with_something_else(tmp_path: Path) -> None:
    writer = fed(tmp_path / "pipe", b"hello")
    sessions, error = attempt(tmp_path / "pipe")
    writer.join(10)
    assert sessions == []
    assert error.endswith("; line 1, column 1: the file breaks off (Expecting value)")


def test_what_is_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # a socket's path is short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
        assert attempt(Path("socket")) == ([], "socket: expected a recorded session; cannot be read: it is a socket")
    assert attempt(Path("/dev/zero")) == (
        [],
        "/dev/zero: expected a recorded session; cannot be read: it is a device",
    )


def test_in_a_folder_what_is_no_file_is_skipped(tmp_path: Path) -> None:
    shutil.copy(SAMPLES / "pi.jsonl", tmp_path / "a.jsonl")
    os.mkfifo(tmp_path / "b.jsonl")
    (tmp_path / "c.json").symlink_to("/dev/zero")
    skipped: list[TraceError] = []
    assert traces.discover([tmp_path], skipped) == [tmp_path / "a.jsonl"]
    assert [(error.path.name, error.reason) for error in skipped] == [
        ("b.jsonl", "it is a pipe"),
        ("c.json", "it is a device"),
    ]


def test_folder_that_is_no_session(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("x")
    assert attempt(tmp_path) == (
        [],
        f"{tmp_path}: expected a recorded session; the folder: neither OpenHands events nor a log of requests",
    )


def test_folder_with_a_broken_event(tmp_path: Path) -> None:
    folder = tmp_path / "conversation"
    shutil.copytree(SAMPLES / "openhands_v1", folder)
    broken = folder / "events" / "event-00002-a1.json"
    broken.write_text(broken.read_text()[:40])
    sessions, error = attempt(folder)
    assert sessions == []
    assert error.startswith(
        f"{folder}: expected an OpenHands V1 event log (events with `kind`, or a conversation's folder);"
        " event-00002-a1.json: line 4, column "
    )


def test_folder_without_events(tmp_path: Path) -> None:
    (tmp_path / "base_state.json").write_text("{}")
    assert attempt(tmp_path)[1] == (
        f"{tmp_path}: expected an OpenHands V1 event log (events with `kind`, or a conversation's folder);"
        " events: the folder has no event-*.json"
    )


def test_log_folder_with_a_broken_file(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    shutil.copytree(SAMPLES / "llm_logs", folder)
    (folder / "c-3.json").write_text('{"messages": [')
    sessions, error = attempt(folder)
    assert sessions == []
    assert error == (
        f"{folder}: expected recorded API requests (JSON objects with `request` and `response`, or `messages` and"
        " `response`); c-3.json: line 1, column 15 (byte 14): the file breaks off (Expecting value)"
    )


def test_byte_order_mark_and_blank_lines_are_no_error(tmp_path: Path) -> None:
    path = tmp_path / "pi.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + (SAMPLES / "pi.jsonl").read_bytes().replace(b"\n", b"\r\n\n"))
    assert attempt(path)[1] == ""
    assert [s.messages for s in traces.read(path)] == [s.messages for s in traces.read(SAMPLES / "pi.jsonl")]


# --- nothing but TraceError --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("broken") / "file"


@given(st.data())
def test_truncated_anywhere(scratch: Path, data: st.DataObject) -> None:
    content = (SAMPLES / data.draw(st.sampled_from(NAMES))).read_bytes()
    scratch.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    _, error = attempt(scratch)
    assert "\n" not in error


@given(st.data())
def test_bytes_changed_anywhere(scratch: Path, data: st.DataObject) -> None:
    content = bytearray((SAMPLES / data.draw(st.sampled_from(NAMES))).read_bytes())
    for at, byte in data.draw(st.lists(st.tuples(st.integers(0, len(content) - 1), st.integers(0, 255)), max_size=4)):
        content[at] = byte
    scratch.write_bytes(bytes(content))
    _, error = attempt(scratch)
    assert "\n" not in error


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every container and key of a JSON value."""
    found: list[tuple[Any, Any]] = []
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else []
    for key in keys:
        found += [(value, key), *places(value[key])]
    return found


@given(st.data())
def test_values_replaced_anywhere(scratch: Path, data: st.DataObject) -> None:
    """Whatever stands in the place of a value, or is missing: a session or a TraceError."""
    content = (SAMPLES / data.draw(st.sampled_from(NAMES))).read_text()
    try:
        values = [json.loads(content)]
    except ValueError:
        values = [json.loads(line) for line in content.splitlines()]
    for _ in range(data.draw(st.integers(1, 3))):
        container, key = data.draw(st.sampled_from(places(values)))
        if isinstance(container, dict) and data.draw(st.booleans()):
            container.pop(key, None)
        elif isinstance(container, dict) or key < len(container):
            container[key] = data.draw(JSON)
    scratch.write_text("".join(json.dumps(value) + "\n" for value in values))
    sessions, error = attempt(scratch)
    assert "\n" not in error
    for session in sessions:
        assert all(isinstance(message, dict) for message in session.messages)
        assert all(0 <= request.at <= len(session.messages) for request in session.requests)


@given(JSON)
def test_any_json(scratch: Path, value: Any) -> None:
    scratch.write_text(json.dumps(value))
    assert "\n" not in attempt(scratch)[1]

"""`--record`: what `cliff replay` reads again."""

from __future__ import annotations

import json
import stat

from cliff_core import traces
from cliff_proxy.engine import Usage
from proxy.engine.client import engine
from proxy.engine.test_engine import CONFIG, call, session


def answer(number: int, tokens: int, stream: bool) -> bytes:
    """Anthropic's reply with the call of a turn."""
    block = session("anthropic", number + 1)[2 * number + 1]["content"][0]
    usage = {"input_tokens": tokens, "cache_read_input_tokens": 10, "output_tokens": 5}
    if not stream:
        message = {"type": "message", "role": "assistant", "model": "m", "content": [block], "usage": usage}
        return json.dumps(message, indent=1).encode()
    events = [
        {"type": "message_start", "message": {"type": "message", "role": "assistant", "content": [], "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": {**block, "input": {}}},
        {"type": "content_block_delta", "index": 0, "delta": {"partial_json": json.dumps(block["input"])}},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 5}},
    ]
    return b"".join(b"event: x\ndata: %b\n\n" % json.dumps(event).encode() for event in events)


def test_a_recorded_session_is_read_again_whole(tmp_path):
    folder = tmp_path / "new" / "records"
    running = engine(CONFIG, record=folder)
    assert running.recording
    messages = session("anthropic", 6)
    labels = {b"x-claude-code-session-id": b"../abc", b"authorization": b"Bearer secret", b"x-api-key": b"sk-secret"}
    for turns in range(6):
        asked = messages[: 2 * turns + 1]
        indent = call("anthropic", asked, labels=labels)
        prepared = running.prepare(indent)
        tokens = prepared.state.view.tokens
        running.answered(prepared, Usage(tokens, 10), answer(turns, tokens - 10, stream=turns % 2 == 1))
        other = running.prepare(call("anthropic", session("anthropic", 0, "another session"), labels=labels))
        running.answered(other, Usage(20), None)
    (file,) = folder.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.name.startswith("abc.")
    assert file.suffix == ".jsonl"
    assert b"secret" not in file.read_bytes()
    (found,) = traces.read(file)
    assert [json.loads(json.dumps(m)) for m in found.messages] == messages[:12]
    assert len(found.requests) == 6
    lines = [json.loads(line)["cliff"] for line in file.read_text().splitlines()]
    assert [line["action"] for line in lines] == ["pass", "pass", "pass", "cliff", "view", "cliff"]
    assert lines[3]["cliff"]["number"] == 1
    # What the provider reports is of what was sent, which a session is measured by only where that is its history.
    assert [line["whole"] for line in lines] == [True, True, True, False, False, False]
    assert [request.usage is not None for request in found.requests] == [line["whole"] for line in lines]


def test_a_session_has_one_recording_and_one_name_though_the_proxy_is_started_again(tmp_path):
    names = set()
    messages = session("anthropic", 6)
    for turns in range(6):
        running = engine(CONFIG, record=tmp_path)
        prepared = running.prepare(call("anthropic", messages[: 2 * turns + 1]))
        running.answered(prepared, Usage(prepared.state.view.tokens), answer(turns, 9, stream=False))
        names |= {one["id"] for one in running.status()["sessions"]}
    (file,) = tmp_path.iterdir()
    assert names == {file.stem}
    (found,) = traces.read(file)
    assert len(found.requests) == 6


def test_sessions_that_begin_alike_have_names_of_their_own():
    running = engine(CONFIG)
    for word in ("one", "two"):
        messages = [
            *session("anthropic", 0),
            {"role": "assistant", "content": word},
            {"role": "user", "content": "go on"},
        ]
        running.prepare(call("anthropic", messages))
    first, second = (one["id"] for one in reversed(running.status()["sessions"]))
    assert second == f"{first}-2"


def test_a_folder_that_cannot_be_written_is_a_problem_and_work_goes_on(tmp_path):
    (tmp_path / "file").write_text("")
    running = engine(CONFIG, record=tmp_path / "file" / "records")
    prepared = running.prepare(call("anthropic", session("anthropic", 6)))
    running.answered(prepared, Usage(4_000), b"{}")
    assert prepared.body is not None
    (problem,) = running.status()["problems"]
    assert problem.startswith(f"nothing is recorded in {tmp_path / 'file' / 'records'}: ")


def test_nothing_is_recorded_unless_asked_for():
    running = engine(CONFIG)
    assert not running.recording
    running.answered(running.prepare(call("chat", session("chat", 1))), None, b"{}")

"""Sessions that other people recorded, sent through an engine step by step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cliff_core import CliffConfig
from cliff_core.traces import read
from properties.checks import native_problems
from properties.oracle import unmarked
from proxy.engine.client import FIELD, Client, Provider, engine, messages_of, spelled

STEPS = 25
"""Requests of a session that are sent: the last ones, which are the largest."""


def test_a_recorded_session_goes_through(session_path: Path, tmp_path: Path) -> None:
    for number, session in enumerate(read(session_path)):
        if session.dialect not in FIELD:
            continue
        messages = [json.loads(json.dumps(message)) for message in session.messages]
        client = Client(session.dialect, messages, marks=True)
        client.sizes = client.sizes[-STEPS:]
        config = CliffConfig(threshold_tokens=16_000)
        provider = Provider(0.28)
        store = tmp_path / f"{number}.sqlite"
        running = engine(config, store)
        whole: dict[bytes, Any] = {}
        before: list[Any] | None = None
        for step in client.play(running, provider):
            assert step.prepared.action in ("pass", "view", "cliff")
            came, went = messages_of(session.dialect, step.came), messages_of(session.dialect, step.out)
            if not native_problems(session.dialect, came):
                assert native_problems(session.dialect, went) == []
            if step.prepared.note in ("summary", "trigger"):
                continue
            assert _kept(step.items, went) >= len(went) - 1, "all but the block is the client's own"
            plain = [_canonical(message) for message in went]
            if before is not None and step.prepared.action != "cliff":
                assert plain[: len(before)] == before
            before = plain
            whole[step.came] = step.out
        # A restarted proxy, asked for the last requests.
        again = engine(config, store)
        for size in client.sizes[-3:]:
            step = client.ask(again, size)
            assert step.out == whole.get(step.came, step.out)
        assert running.status()["problems"] == []


def _kept(items: list[bytes], went: list[Any]) -> int:
    known = {json.dumps(unmarked(json.loads(item))) for item in items}
    return sum(json.dumps(unmarked(message)) in known for message in went)


def _canonical(message: Any) -> Any:
    plain = unmarked(message)
    content = plain.get("content") if isinstance(plain, dict) else None
    if isinstance(content, list) and len(content) == 1 and set(content[0]) == {"type", "text"}:
        return {**plain, "content": content[0]["text"]}
    return plain


def test_spelling_is_not_read() -> None:
    """What the tests above rely on: one message, spelled in several ways, is one message."""
    assert {json.dumps(json.loads(spelled({"a": "é\ud83d"}, style))) for style in range(6)} == {
        '{"a": "\\u00e9\\ud83d"}'
    }

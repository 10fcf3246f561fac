"""Many clients at once: each gets what it would get alone."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

from cliff_proxy.engine import Usage
from proxy.engine.client import engine
from proxy.engine.test_engine import CONFIG, call, session


def played(running, words: str, turns: int) -> list[bytes | None]:
    found = []
    for size in range(1, 2 * turns + 2, 2):
        prepared = running.prepare(call("anthropic", session("anthropic", turns, words)[:size]))
        running.answered(prepared, Usage(int(prepared.state.view.tokens * 1.2) + 100))
        found.append(prepared.body)
    return found


def test_sessions_at_once():
    names = [f"task {number}" for number in range(12)]
    running = engine(CONFIG)
    with ThreadPoolExecutor(12) as pool:
        together = list(pool.map(lambda words: played(running, words, 10), names))
    assert together == [played(engine(CONFIG), words, 10) for words in names]
    status = running.status()
    assert status["totals"]["requests"] == 12 * 11
    assert sum(one["requests"] for one in status["sessions"]) == 12 * 11
    assert status["problems"] == []


def test_a_session_asked_by_several_at_once():
    """The same request from several clients, and branches that they go on with."""
    running = engine(CONFIG)
    alone = engine(CONFIG)
    requests = [
        call("chat", [*session("chat", turns), {"role": "user", "content": f"branch {branch}"}])
        for turns in range(8)
        for branch in range(4)
    ]
    expected = {request.body: alone.prepare(request).body for request in requests}
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(running.prepare, requests * 3))
    assert [one.body for one in found] == [expected[request.body] for request in requests * 3]
    assert not [one for one in found if one.action == "failed"]


def test_what_is_let_go_while_it_is_answered():
    running = engine(CONFIG, memory_bytes=1)
    assert played(running, "a task", 10) == played(engine(CONFIG), "a task", 10)
    assert json.loads(json.dumps(running.status()))["totals"]["sessions_in_memory"] == 0

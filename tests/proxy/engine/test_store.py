"""What a restart must know, and what happens where it cannot be kept."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from cliff_core import CliffConfig
from cliff_core.overflow import Rejection
from cliff_proxy import store as stores
from cliff_proxy.engine import Usage
from cliff_proxy.store import Row, Store
from proxy.engine.client import engine
from proxy.engine.test_engine import CONFIG, call, play, session, turn

FACT = {"at": 3, "kind": "usage", "value": [100, 90]}
ROW = Row(b"digest", 3, FACT)


def test_facts_and_limits_come_back(tmp_path):
    path = tmp_path / "new" / "folder" / "store.sqlite"
    one = Store(path)
    one.add(b"head", [ROW, Row(b"other", 5, {"at": 0, "kind": "fixed", "value": 7})])
    one.set_limit(b"model", 9_000)
    assert one.limit(b"model") == 9_000
    again = Store(path)  # the first is not closed: it was killed
    assert again.rows(b"head") == [ROW, Row(b"other", 5, {"at": 0, "kind": "fixed", "value": 7})]
    assert again.rows(b"another head") == []
    assert again.limit(b"model") == 9_000
    again.set_limit(b"model", None)
    assert again.limit(b"model") is None
    assert Store(path).limit(b"model") is None
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert one.problem is None
    assert again.problem is None


def test_no_words_are_in_the_file(tmp_path):
    path = tmp_path / "store.sqlite"
    running = engine(CONFIG, path)
    running.answered(play(running, "anthropic", 6, system="the secret system prompt")[-1], Usage(9_000))
    rejected = running.prepare(call("anthropic", session("anthropic", 3, "the secret task"), api_key="sk-secret"))
    running.overflowed(rejected, Rejection(limit=3_000))
    running.close()
    data = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    for words in (b"secret", b"w1x1", b"api.example", b"a-model-that"):
        assert words not in data
    kinds = sqlite3.connect(path).execute("SELECT DISTINCT kind FROM facts").fetchall()
    assert {kind for (kind,) in kinds} == {"fixed", "usage", "limit", "forced"}


def test_old_sessions_go_first(tmp_path, monkeypatch):
    monkeypatch.setattr(stores, "ROWS_MOST", 100)
    kept = Store(tmp_path / "store.sqlite")
    for number in range(40):
        kept.add(b"head %d" % number, [ROW, ROW, ROW])
        assert kept.rows(b"head 0"), "it is used all the time"
    assert len([n for n in range(40) if kept.rows(b"head %d" % n)]) <= 34
    assert kept.rows(b"head 39")
    assert not kept.rows(b"head 1")


def unusable(path: Path, how: str) -> None:
    """Make the file at `path` one that cannot be used."""
    if how == "corrupt":
        path.write_bytes(b"no database " * 1_000)
    elif how == "damaged":
        Store(path).add(b"head", [ROW] * 2_000)
        for beside in path.parent.glob("*-wal"):
            sqlite3.connect(path).execute("PRAGMA wal_checkpoint(TRUNCATE)")
            beside.unlink(missing_ok=True)
        data = bytearray(path.read_bytes())
        data[200:] = os.urandom(len(data) - 200)
        path.write_bytes(data)
    elif how == "newer":
        sqlite3.connect(path).execute("PRAGMA user_version = 99")
    elif how == "folder":
        path.mkdir()
    elif how == "nowhere":
        path.parent.rmdir()
        path.parent.write_text("a file where the folder should be")


@pytest.mark.parametrize("how", ["corrupt", "damaged", "newer", "folder", "nowhere"])
def test_a_store_that_cannot_be_used_is_a_problem_and_work_goes_on(tmp_path, how):
    path = tmp_path / "folder" / "store.sqlite"
    path.parent.mkdir()
    unusable(path, how)
    running = engine(CONFIG, path)
    steps = play(running, "chat", 6)
    (problem,) = running.status()["problems"]
    assert problem.startswith(f"the store {path} is not used: ")
    assert [step.body for step in steps] == [step.body for step in play(engine(CONFIG), "chat", 6)]


READ_ONLY = """
import os, sys
sys.path[:0] = ["tests"]
from pathlib import Path
from proxy.engine.client import engine
from proxy.engine.test_engine import CONFIG, play
play(engine(CONFIG), "chat", 6)  # all that is imported late is there
os.setuid(65534)  # root may write everywhere
running = engine(CONFIG, Path(sys.argv[1]))
assert play(running, "chat", 6)[-1].body is not None
print(running.status()["problems"])
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become a user that may read the file and not write it")
def test_a_read_only_store_is_a_problem_and_work_goes_on(tmp_path):
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # pytest's own are closed to other users
        path = Path(folder) / "store.sqlite"
        Store(path).close()
        path.chmod(0o444)
        Path(folder).chmod(0o555)
        found = subprocess.run(
            [sys.executable, "-c", READ_ONLY, str(path)], capture_output=True, text=True, check=False
        )
    assert found.returncode == 0, found.stderr
    assert "is not used" in found.stdout
    assert "Make it and its folder writable" in found.stdout


def test_a_full_disk_is_a_problem_and_work_goes_on(tmp_path):
    path = tmp_path / "store.sqlite"
    running = engine(CONFIG, path)
    before = play(running, "chat", 2)
    assert running.status()["problems"] == []
    pages = running._store._db.execute("PRAGMA page_count").fetchone()[0]
    running._store._db.execute(f"PRAGMA max_page_count = {pages}")  # as if the disk had no more
    for number in range(200):
        running.prepare(call("chat", session("chat", 1, f"task {number}")))
    (problem,) = running.status()["problems"]
    assert "database or disk is full" in problem
    assert "Make room" in problem
    again = running.prepare(call("chat", session("chat", 6)))
    assert again.body is not None
    assert again.state.session is before[-1].state.session


def test_a_locked_store_is_a_problem_and_work_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(stores, "PATIENCE", 0.05)
    path = tmp_path / "store.sqlite"
    running = engine(CONFIG, path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    assert play(running, "chat", 6)[-1].body is not None
    (problem,) = running.status()["problems"]
    assert "locked" in problem


def test_a_deleted_store_changes_nothing_of_sessions_that_learned_nothing(tmp_path):
    path = tmp_path / "store.sqlite"
    whole = play(engine(CONFIG), "anthropic", 8)
    running = engine(CONFIG, path)
    play(running, "anthropic", 5)
    for file in tmp_path.iterdir():
        file.unlink()
    again = engine(CONFIG, path)
    assert again.prepare(call("anthropic", session("anthropic", 8))).body == whole[-1].body
    assert again.status()["problems"] == []


KILLED = """
import sys, time
sys.path[:0] = ["tests"]
from pathlib import Path
from cliff_core.overflow import Rejection
from cliff_proxy.engine import Usage
from proxy.engine.client import engine
from proxy.engine.test_engine import call, session
from proxy.engine.test_store import WIDE, learn
running = engine(WIDE, Path(sys.argv[1]))
print(learn(running), flush=True)
time.sleep(60)
"""

WIDE = CliffConfig(threshold_tokens=50_000)


def learn(running) -> str:
    """A session that learns of each kind: a calibration, another tool list, a limit, a forced cliff."""
    messages = session("anthropic", 12)
    tools = [{"name": f"tool_{n}", "input_schema": {"type": "object"}} for n in range(40)]
    first = running.prepare(call("anthropic", messages[:5]))
    running.answered(first, Usage(int(first.state.view.tokens * 1.3) + 500))
    running.prepare(call("anthropic", messages[:7], tools=tools))
    rejected = running.prepare(call("anthropic", messages[:13], tools=tools))
    again = running.overflowed(rejected, Rejection(limit=9_000))
    return str(sorted(fact["kind"] for fact in again.state.session.compactor.facts))


def test_a_killed_process_has_lost_nothing(tmp_path):
    path = tmp_path / "store.sqlite"
    one = subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE, text=True)
    assert one.stdout is not None
    learned = one.stdout.readline().strip()
    one.kill()
    one.wait()
    assert learned == "['fixed', 'fixed', 'forced', 'limit', 'usage']"
    whole = engine(WIDE)
    assert learn(whole) == learned
    tools = [{"name": f"tool_{n}", "input_schema": {"type": "object"}} for n in range(40)]
    again = engine(WIDE, path)
    for turns in (6, 7, 10, 12):
        request = call("anthropic", session("anthropic", turns), tools=tools)
        assert again.prepare(request).body == whole.prepare(request).body
    assert again.prepare(request).state.session.compactor.facts == whole.prepare(request).state.session.compactor.facts
    # Another session of the model knows the limit as well.
    other = call("anthropic", session("anthropic", 8, "another task"))
    assert again.prepare(other).state.view.threshold == 8_550


def test_two_processes_share_a_store(tmp_path):
    """`cliff run` starts a proxy for each command."""
    path = tmp_path / "store.sqlite"
    one, other = engine(CONFIG, path), engine(CONFIG, path)
    for turns in range(8):
        messages = session("chat", turns)
        first = one.prepare(call("chat", messages))
        one.answered(first, Usage(int(first.state.view.tokens * 1.4) + 300))
        other.prepare(call("chat", [*session("chat", turns, "another"), *turn("chat", turns)]))
    # The session moves to the other process, as after a restart of its client.
    moved = call("chat", session("chat", 8))
    assert other.prepare(moved).body == one.prepare(moved).body
    assert one.status()["problems"] == other.status()["problems"] == []

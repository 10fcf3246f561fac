"""`cliff status`: finds the user's proxies, and says what they did."""

import json
import os
import re
import subprocess
import sys

from typer.testing import CliRunner

from cliff_proxy import running
from cliff_proxy.commands import status
from cliff_proxy.running import Running
from cliff_proxy.summary import line

runner = CliRunner()


def asked(*arguments):
    return runner.invoke(status.app, list(arguments))


def test_where_none_runs(home):
    done = asked("--url", "http://127.0.0.1:9")
    assert done.exit_code == 1
    assert done.output == "status: no proxy runs at http://127.0.0.1:9\n"
    done = asked("--json", "--url", "http://127.0.0.1:9")
    assert (done.exit_code, json.loads(done.output)) == (1, {"proxies": [], "errors": []})


def test_from_within_a_run(cliff, home):
    inner = f"{sys.executable} -m cliff_core status"
    done = cliff("run", "-q", "--", "sh", "-c", f"{inner} && {inner} --json")
    assert done.returncode == 0, done.stderr
    head, said, rest = done.stdout.split("\n", 2)
    assert re.fullmatch(r"http://127.0.0.1:\d+ \(cliff run -- sh, process \d+\)", head)
    assert said == "  no request came through the proxy"
    [proxy] = json.loads(rest)["proxies"]
    assert (proxy["kind"], proxy["command"]) == ("run", "sh")
    assert proxy["server"]["requests"] == 0
    assert proxy["sessions"] == []


def test_a_file_of_a_dead_process_is_taken_away(home):
    dead = subprocess.Popen(["true"])
    dead.wait()
    path = home.runtime / "1-1.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"url": "http://127.0.0.1:1", "pid": dead.pid, "kind": "run", "command": "x"}))
    (home.runtime / "2-2.json").write_text("{")
    assert running.found() == []
    assert not path.exists()


def test_a_proxy_that_does_not_answer(home):
    with running.announced(Running("http://127.0.0.1:1", os.getpid(), "serve")):
        done = asked("--json")
        assert done.exit_code == 1
        assert f"the proxy of process {os.getpid()} at http://127.0.0.1:1 does not answer" in done.stderr
        assert json.loads(done.stdout)["errors"] == [{"url": "http://127.0.0.1:1", "error": "it does not answer"}]


def test_where_no_file_can_be_written_the_proxy_works_all_the_same(home):
    home.runtime.write_text("a file, where the folder should be")
    with running.announced(Running("http://127.0.0.1:1", 1, "serve")):
        assert running.found() == []


STATUS = {
    "server": {"requests": 40, "pid": 7},
    "totals": {
        "cliffs": 3,
        "input_tokens": 400_000,
        "full_tokens_estimate": 1_000_000,
        "dollars": 0.5,
        "full_dollars_estimate": 1.25,
        "saved_dollars_estimate": 0.75,
    },
    "sessions": [
        {
            "id": "5f3a",
            "label": "823de2e7-022c",
            "model": "claude-opus-5-5",
            "requests": 40,
            "cliffs": 3,
            "tokens": 18_000,
            "threshold": 24_000,
            "input_tokens": 400_000,
            "cache_read_tokens": 300_000,
            "full_tokens_estimate": 1_000_000,
            "saved_dollars_estimate": 0.75,
        }
    ],
    "problems": ["the store is full"],
}


def test_one_line():
    assert line(STATUS) == (
        "40 requests, 3 cliffs, 400k input tokens in place of about 1M, $0.500 in place of about $1.25; "
        "1 problem: the store is full"
    )
    assert line({"server": {"requests": 2}, "totals": {"cliffs": 0, "input_tokens": 5}}) == "2 requests, 0 cliffs"
    assert line({}) == "no request came through the proxy"


def test_sessions_and_problems(home, monkeypatch):
    monkeypatch.setattr(status, "_candidates", lambda settings: [Running("http://127.0.0.1:1", 7, "serve")])
    monkeypatch.setattr(running, "ask", lambda url, name, token: STATUS)
    out = asked().stdout
    assert out.splitlines()[0] == "http://127.0.0.1:1 (cliff serve, process 7)"
    assert out.splitlines()[-1] == "  problem: the store is full"
    [row] = [row for row in out.splitlines() if "opus" in row]
    assert row.split() == [
        *("5f3a", "823de2e7", "claude-opus-5-5", "40", "3", "18k", "24k", "400k", "1M", "75%", "60%", "$0.750")
    ]


def test_a_pipe_gets_each_session_on_one_line(home, monkeypatch):
    sessions = [{**STATUS["sessions"][0], "model": "provider/" + "a-long-name-" * 9}]
    monkeypatch.setattr(status, "_candidates", lambda settings: [Running("http://127.0.0.1:1", 7, "serve")])
    monkeypatch.setattr(running, "ask", lambda url, name, token: {**STATUS, "sessions": sessions})
    monkeypatch.delenv("COLUMNS", raising=False)
    _, _, _, row, _ = asked().stdout.splitlines()
    assert row.split() == [
        *("5f3a", "823de2e7", sessions[0]["model"], "40", "3", "18k", "24k", "400k", "1M", "75%", "60%", "$0.750")
    ]
    monkeypatch.setenv("COLUMNS", "80")
    assert len(asked().stdout.splitlines()) > 5

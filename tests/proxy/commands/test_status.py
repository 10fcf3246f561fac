"""`cliff status`: finds the user's proxies, and says what they did."""

import json
import os
import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from cliff_core.prices import Price
from cliff_proxy import running
from cliff_proxy.accounts import Accounts
from cliff_proxy.commands import status
from cliff_proxy.engine import Usage
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
        "saved_tokens_estimate": 600_000,
        "sessions": 1,
        "priced_sessions": 1,
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
            "saved_tokens_estimate": 600_000,
            "saved_dollars_estimate": 0.75,
        }
    ],
    "problems": ["the store is full"],
}


SHADOW = {
    "server": {"requests": 40},
    "totals": {
        "cliffs": 1,
        "input_tokens": 355_000,
        "full_tokens_estimate": 355_000,
        "saved_tokens_estimate": 149_000,
        "dollars": 0.5,
        "full_dollars_estimate": 0.6,
        "actions": {"shadow": 40},
    },
    "sessions": [
        {
            "id": "5f3a",
            "model": "claude-opus-5-5",
            "requests": 40,
            "cliffs": 1,
            "tokens": 90_000,
            "threshold": 128_000,
            "input_tokens": 355_000,
            "cache_read_tokens": 284_000,
            "full_tokens_estimate": 355_000,
            "saved_tokens_estimate": 149_000,
        }
    ],
}
"""All was sent; what would have been is an estimate."""


@pytest.fixture
def answering(home, monkeypatch):
    """One proxy, with the status that it is given, and a terminal of so many columns or a pipe."""

    def answers(said, columns=None):
        monkeypatch.setattr(status, "_candidates", lambda settings: [Running("http://127.0.0.1:1", 7, "serve")])
        monkeypatch.setattr(running, "ask", lambda url, name, token: said)
        if columns is None:
            monkeypatch.delenv("COLUMNS", raising=False)
        else:
            monkeypatch.setenv("COLUMNS", str(columns))
        return asked().stdout.splitlines()

    return answers


def test_one_line():
    assert line(STATUS) == (
        "40 requests, 3 cliffs, 400k input tokens in place of about 1M, $0.500 in place of about $1.25; "
        "1 problem: the store is full"
    )
    assert line({"server": {"requests": 1}, "totals": {"cliffs": 0, "input_tokens": 5}}) == "1 request, 0 cliffs"
    assert line({}) == "no request came through the proxy"


def test_cliffs_of_a_proxy_before_this_one_save_as_well():
    """It was restarted: views of earlier cuts are sent, and no cliff of its own."""
    totals = {"cliffs": 0, "full_tokens_estimate": 90_000, "saved_tokens_estimate": 60_000}
    assert line({"server": {"requests": 2}, "totals": totals}) == (
        "2 requests, 0 cliffs, 30k input tokens in place of about 90k"
    )


def test_the_end_line_has_all_problems():
    """After `cliff run` nobody can ask for the others."""
    found = line({"server": {"requests": 1}, "problems": ["the store is full", "nothing is recorded in /x: no space"]})
    assert found == ("1 request, 0 cliffs; 2 problems: (1) the store is full (2) nothing is recorded in /x: no space")


def test_dollars_say_of_how_many_sessions_they_are():
    totals = {**STATUS["totals"], "sessions": 3, "priced_sessions": 2}
    assert line({**STATUS, "totals": totals, "problems": []}).endswith(
        ", $0.500 in place of about $1.25 for the 2 of 3 sessions with a known price"
    )


def test_in_shadow_mode_it_is_said_what_would_have_been_sent(answering):
    assert line(SHADOW) == "40 requests, would have sent 206k of 355k input tokens, 1 cliff"
    _, said, heads, row = answering(SHADOW)
    assert said == f"  {line(SHADOW)}"
    assert re.split("  +", heads) == [
        *("session", "client", "model", "requests", "cliffs", "now", "threshold"),
        *("would send", "full", "cached", "tokens saved"),
    ]
    assert row.split() == ["5f3a", "-", "claude-opus-5-5", "40", "1", "90k", "128k", "206k", "355k", "80%", "42%"]


def test_sessions_and_problems(answering):
    head, said, heads, row, *problems = answering({**STATUS, "problems": ["the store is full", "no upstream"]}, 200)
    assert head == "http://127.0.0.1:1 (cliff serve, process 7)"
    assert said == "  40 requests, 3 cliffs, 400k input tokens in place of about 1M, $0.500 in place of about $1.25"
    assert re.split("  +", heads) == [
        *("session", "client", "model", "requests", "cliffs", "now", "threshold"),
        *("sent", "full", "cached", "tokens saved", "dollars saved"),
    ]
    assert row.split() == [
        *("5f3a", "823de2e7", "claude-opus-5-5", "40", "3", "18k", "24k", "400k", "1M", "75%", "60%", "$0.750")
    ]
    assert problems == ["  problem: the store is full", "  problem: no upstream"], "each once"


def test_dollars_of_a_session_without_a_price(answering):
    known = STATUS["sessions"][0]
    unknown = {key: value for key, value in known.items() if key != "saved_dollars_estimate"} | {"id": "99aa"}
    *_, heads, first, second = answering({**STATUS, "sessions": [known, unknown], "problems": []})
    assert (first.split()[-2:], second.split()[-2:]) == (["60%", "$0.750"], ["60%", "-"])
    *_, heads, row = answering({**STATUS, "sessions": [unknown], "problems": []})
    assert heads.endswith("tokens saved")
    assert row.split()[-1] == "60%"


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (
            80,
            [
                "session     requests  cliffs  now  sent  full  tokens saved  dollars saved",
                "5f3a0c12          40       3  18k  400k    1M           60%         $0.750",
                "5f3a0c12-2        40       3  18k  400k    1M           60%         $0.750",
                "  no room for: client, cached, model, threshold",
            ],
        ),
        (
            60,
            [
                "session     cliffs  sent  full  tokens saved  dollars saved",
                "5f3a0c12         3  400k    1M           60%         $0.750",
                "5f3a0c12-2       3  400k    1M           60%         $0.750",
                "  no room for: client, cached, model, threshold, now,",
                "requests",
            ],
        ),
    ],
)
def test_a_narrow_terminal_has_fewer_columns_and_whole_ids(answering, columns, expected):
    sessions = [{**STATUS["sessions"][0], "id": name} for name in ("5f3a0c12", "5f3a0c12-2")]
    out = answering({**STATUS, "sessions": sessions, "problems": []}, columns)
    assert [row.rstrip() for row in out[2:]] == expected


def test_in_a_very_narrow_terminal_figures_stand_below_each_other(answering):
    out = [row.strip() for row in answering({**STATUS, "problems": []}, 30)]
    assert out[2:] == [
        *("5f3a", "client 823de2e7", "model claude-opus-5-5", "requests 40", "cliffs 3", "now 18k", "threshold 24k"),
        *("sent 400k", "full 1M", "cached 75%", "tokens saved 60%", "dollars saved $0.750"),
    ]


def test_a_pipe_gets_each_session_on_one_line(answering):
    model = "provider/" + "a-long-name-" * 9 + "[beta]\n[/x]"
    _, _, _, row, _ = answering({**STATUS, "sessions": [{**STATUS["sessions"][0], "model": model}]})
    assert row.split() == [
        *("5f3a", "823de2e7", *model.split(), "40", "3", "18k", "24k", "400k", "1M", "75%", "60%", "$0.750")
    ]


def usage(input_tokens):
    return Usage(input_tokens, 0, 0, 10)


def test_totals_count_the_sessions_whose_price_is_known():
    """Of those that were answered with usage; 2 dollars a million."""
    accounts = Accounts()
    price = Price(2.0, 0.2, None, 8.0)
    known, unknown, _ = (
        accounts.open(name, "", "chat", "m", p) for name, p in (("a", price), ("b", None), ("c", price))
    )
    assert not accounts.priced
    for account in (known, unknown, unknown, known):
        accounts.enter(account, usage(1_000), 3_000, 1_000)
    totals = accounts.totals.as_dict(accounts.priced)
    assert (totals["sessions"], totals["priced_sessions"], totals["requests"]) == (2, 1, 4)
    assert (totals["dollars"], totals["full_dollars_estimate"]) == (0.004, 0.012)
    assert totals["saved_dollars_estimate"] == 0.008


def test_in_shadow_mode_no_dollars_were_saved():
    accounts = Accounts()
    account = accounts.open("a", "", "chat", "m", Price(2.0, 0.2, None, 8.0))
    accounts.enter(account, usage(3_000), 3_000, 1_000)
    found = account.as_dict()
    assert (found["saved_tokens_estimate"], found["dollars"]) == (2_000, 0.006)
    assert "saved_dollars_estimate" not in found

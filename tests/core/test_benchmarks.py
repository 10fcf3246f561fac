"""The benchmarks on recorded sessions: where there are none, and without the authors' package."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def words(number):
    return " ".join(["hello"] * number)


@pytest.fixture
def run(tmp_path):
    """Run a benchmark in an empty folder, where neither sessions nor the authors' package are found."""

    def running(name, *arguments, **variables):
        known = {name: value for name, value in os.environ.items() if not name.startswith("CLIFF_")}
        known |= {"XDG_DATA_HOME": str(tmp_path / "data"), "CLIFF_TRACES": str(tmp_path / "nowhere"), **variables}
        command = [sys.executable, BENCHMARKS / f"{name}.py", *map(str, arguments)]
        return subprocess.run(command, cwd=tmp_path, env=known, capture_output=True, text=True)

    return running


@pytest.fixture
def session(tmp_path):
    """30 results of about 400 tokens; mini-swe-agent 2."""
    messages = [{"role": "user", "content": "the task"}]
    for turn in range(30):
        function = {"name": "bash", "arguments": '{"command": "make"}'}
        messages.append({"role": "assistant", "content": None, "tool_calls": [{"id": str(turn), "function": function}]})
        messages.append({"role": "tool", "tool_call_id": str(turn), "content": words(400)})
    path = tmp_path / "sessions" / "some.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"trajectory_format": "mini-swe-agent-1.1", "info": {}, "messages": messages}))
    return path


@pytest.mark.parametrize("name", ["auto", "defaults"])
def test_without_recorded_sessions(run, tmp_path, name):
    done = run(name)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"error: there is no {tmp_path / 'nowhere'}: the recorded sessions of the tables in docs/" in done.stderr
    (tmp_path / "empty").mkdir()
    for where in ({"CLIFF_TRACES": "empty"}, {}):
        done = run(name, *([] if where else ["empty"]), **where)
        assert (done.returncode, done.stdout) == (2, "")
        assert "error: no recorded session in empty: " in done.stderr
        assert "give the files or folders of others (docs/replay.md has the formats)" in done.stderr


def test_auto(run, session):
    done = run("auto", session, "--least", 20)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.split("\n")
    assert len([line for line in lines if line.startswith("| sessions | 30 | 5.0 | 8 000 (8 000) |")]) == 1
    assert lines[3].startswith("auto: 1.000 of the best on average")
    done = run("auto", session, "--least", 31)
    assert done.returncode == 1
    assert "no session of 31 requests or more has a cliff: there is nothing to compare" in done.stderr


def test_auto_says_what_it_cannot_read(run, session):
    broken = session.with_name("broken.json")
    broken.write_text(session.read_text()[:-20])
    done = run("auto", broken, session)
    assert done.returncode == 0
    assert done.stderr.count("\n") == 1
    assert "broken.json" in done.stderr
    assert "| sessions | 30 |" in done.stdout


def test_defaults_says_which_sessions_it_counts(run, session):
    """Without the authors' package they are not those of docs/defaults.md."""
    flags = (session, "--only", "min_gain=0", "--thresholds", "3000", "--jobs", 1)
    done = run("defaults", *flags)
    assert done.returncode == 0
    assert " ".join(done.stderr.split()) == (
        "without the authors' package (set CLIFF_AUTHORS_PYTHON, as `make bench-defaults` does): sessions are counted "
        "in which default has 3 cliffs or more, which are not those of docs/defaults.md"
    )
    first = "threshold 3000, 1 sessions in which default has 3 cliffs or more; against default"
    assert done.stdout.split("\n")[0] == first
    data = json.loads(run("defaults", *flags, "--json").stdout)["3000"]
    assert data["base"] == "default"
    assert [one["session"] for one in data["sessions"]] == ["sessions/some"]
    done = run("defaults", session, "--only", "min_gain=0", "--thresholds", "90000", "--jobs", 1)
    assert done.stdout == ""
    assert "threshold 90000: no session in which default has 3 cliffs" in done.stderr


def test_defaults_with_an_environment_that_has_not_the_package(run, session):
    done = run("defaults", session, CLIFF_AUTHORS_PYTHON=sys.executable)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"error: policy authors: {sys.executable} has not the package" in done.stderr

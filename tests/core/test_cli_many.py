"""`cliff replay` of many sessions, `cliff report`, `cliff tune`."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from rich.console import Console
from typer.testing import CliRunner

from cliff_core import batch, cli
from cliff_core.commands.options import REPLAY_OPTIONS
from cliff_core.policies import Settings
from cliff_core.tuning import THRESHOLDS

runner = CliRunner()

PROGRAM = [sys.executable, "-m", "cliff_core"]
SMALL = ("--preset", "paper", "--threshold", "2500")


@pytest.fixture(autouse=True)
def no_variables(monkeypatch, tmp_path):
    for name in [name for name in os.environ if name.startswith("CLIFF_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


def words(number):
    return " ".join(["hello"] * number)


def trajectory(path, turns=12, model="openai/gpt-5-mini"):
    """A session of mini-swe-agent 2: a task of 14 tokens, results of about 400."""
    messages = [{"role": "user", "content": words(10)}]
    for turn in range(turns):
        function = {"name": "bash", "arguments": json.dumps({"command": f"cat src/file_{turn}.py"})}
        messages.append({"role": "assistant", "content": None, "tool_calls": [{"id": str(turn), "function": function}]})
        messages.append({"role": "tool", "tool_call_id": str(turn), "content": f"src/file_{turn + 1}.py " + words(400)})
    info = {"config": {"model": {"model_name": model}}}
    data = {"trajectory_format": "mini-swe-agent-1.1", "instance_id": path.stem, "info": info, "messages": messages}
    path.write_text(json.dumps(data))
    return path


@pytest.fixture
def folder(tmp_path):
    found = tmp_path / "sessions"
    found.mkdir()
    for number in range(5):
        trajectory(found / f"{number:02}.json", turns=8 + number)
    return found


def cliff(*arguments):
    return runner.invoke(cli.app, [*map(str, arguments)])


# --- replay ---------------------------------------------------------------------------------------


def test_several_processes_print_what_one_prints(folder):
    one = cliff("replay", folder, *SMALL, "--jobs", 1)
    assert one.exit_code == 0
    assert "5 sessions" in one.stdout
    assert cliff("replay", folder, *SMALL, "-j", 2).stdout == one.stdout
    listed = cliff("replay", folder, *SMALL, "--json", "-j", 2).stdout
    assert listed == cliff("replay", folder, *SMALL, "--json").stdout
    assert [session["name"] for session in json.loads(listed)["sessions"]] == [f"{n:02}" for n in range(5)]


def test_json_is_as_it_would_be_printed_at_once(folder):
    text = cliff("replay", folder, *SMALL, "--json").stdout
    assert text == json.dumps(json.loads(text), indent=2) + "\n"
    none = cliff("replay", folder / "missing.json", "--json").stdout
    assert none == json.dumps(json.loads(none), indent=2) + "\n"
    assert json.loads(none)["sessions"] == []


def test_a_store(folder, tmp_path, monkeypatch):
    store = tmp_path / "store.jsonl"
    first = cliff("replay", folder, *SMALL, "--store", store)
    assert store.read_text().count("\n") == 5
    monkeypatch.setattr(batch, "replay", lambda *_: 1 / 0)
    assert cliff("replay", folder, *SMALL, "--store", store).stdout == first.stdout
    assert cliff("replay", folder, *SMALL).exit_code == 2, "it is really done there"
    assert not (tmp_path / "cache").exists()


def test_many_files_are_stored_in_the_cache(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(batch, "STORE_FROM", 5)
    first = cliff("replay", folder, *SMALL)
    (store,) = (tmp_path / "cache" / "cliff" / "replays").iterdir()
    monkeypatch.setattr(batch, "replay", lambda *_: 1 / 0)
    assert cliff("replay", folder, *SMALL).stdout == first.stdout
    assert cliff("replay", folder, *SMALL, "--no-store").exit_code == 2
    assert store.read_text().count("\n") == 5


def test_a_store_that_cannot_be_written(folder, tmp_path, monkeypatch):
    result = cliff("replay", folder, "--store", tmp_path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"error: {tmp_path}: results cannot be kept there (Is a directory)" in result.stderr
    monkeypatch.setattr(batch, "STORE_FROM", 5)
    (tmp_path / "cache").write_text("a file")
    result = cliff("replay", folder)
    assert result.exit_code == 0, "the default one is left out"
    assert "results cannot be kept there" in result.stderr


def test_the_bar_counts_files(folder, monkeypatch):
    terminal = Console(stderr=True, force_terminal=True, width=80)
    monkeypatch.setattr("cliff_core.commands.inputs.stderr", terminal)
    for jobs in (1, 2):
        result = cliff("replay", folder, "--json", "--jobs", jobs)
        assert "replaying" in result.stderr
        assert "5/5" in result.stderr
        json.loads(result.stdout)


def test_interrupted_and_gone_on_with(tmp_path):
    """Ctrl-C in the midst of a folder: what was done is kept, and the same command does the rest."""
    folder = tmp_path / "sessions"
    folder.mkdir()
    for number in range(40):
        trajectory(folder / f"{number:02}.json", turns=60)
    store = tmp_path / "store.jsonl"
    command = [*PROGRAM, "replay", folder, *SMALL, "--json", "--jobs", "2", "--store", store]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not store.exists() or store.read_bytes().count(b"\n") < 3:
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, problems = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"kept in {store}: the same command goes on from there" in problems
    assert "Traceback" not in problems
    done = store.read_bytes()
    assert 3 <= done.count(b"\n") < 40
    again = subprocess.run(command, capture_output=True, text=True, check=True)
    assert len(json.loads(again.stdout)["sessions"]) == 40
    assert store.read_bytes().startswith(done), "nothing was done twice"
    assert store.read_bytes().count(b"\n") == 40


def test_policies_of_their_own_thresholds(folder):
    data = json.loads(cliff("replay", folder / "04.json", "--policy", "cliff@3000,cliff@4000,full", "--json").stdout)
    figures = data["sessions"][0]["policies"]
    assert list(figures) == ["cliff@3000", "cliff@4000", "full"]
    assert figures["cliff@3000"]["peak_tokens"] <= 3_000 < figures["cliff@4000"]["peak_tokens"] <= 4_000
    wrong = cliff("replay", folder, "--policy", "cliff@many")
    assert wrong.exit_code == 2
    assert "policy 'cliff@many': threshold_tokens must be a whole number" in " ".join(wrong.stderr.split())


def test_all_policies(folder):
    result = cliff("replay", folder / "04.json", *SMALL, "--policy", "all", "--json")
    assert "warning: without policy authors: --policy authors says how to get it" in result.stderr
    policies = json.loads(result.stdout)["sessions"][0]["policies"]
    assert list(policies) == ["cliff", "full", "sliding", "summarize", "microcompact", "clear-tools"]
    assert policies["summarize"]["auxiliary"]["requests"] > 0
    assert "not by a model" in policies["summarize"]["note"]
    assert policies["full"]["support"] == {
        "share": 1.0,
        "requests": 11,
        "names_needed": 11,
        "names_supported": 11,
        "repeated_calls": 0,
        "rereads": 0,
        "reissuable": 0,
    }


def test_a_stand_in_is_labelled_in_a_table_and_in_a_plot(folder, tmp_path):
    pytest.importorskip("matplotlib")
    plot = tmp_path / "a.svg"
    result = cliff("replay", folder, *SMALL, "--policy", "cliff,summarize", "--plot", plot)
    said = "summaries by a stand-in that keeps the first 10% of each text, not by a model"
    assert said in " ".join(result.stdout.split())
    assert f"<!-- {said} -->" in plot.read_text()


def test_settings_reach_the_policies(folder):
    def figures(*arguments):
        result = cliff("replay", folder / "04.json", *SMALL, "--policy", "clear-tools,summarize", "--json", *arguments)
        return json.loads(result.stdout)["sessions"][0]["policies"]

    usual = figures()
    assert figures("--summary-share", "0.5")["summarize"]["note"].count("50%") == 1
    assert figures("--clear-keep", 1)["clear-tools"]["input_tokens"] < usual["clear-tools"]["input_tokens"]
    assert figures("--clear-at-least", 100_000)["clear-tools"]["cost_vs_full"] == 1.0
    dear = figures("--price-input", 1, "--price-output", 100)["summarize"]["auxiliary"]["cost"]
    assert dear > figures("--price-input", 1)["summarize"]["auxiliary"]["cost"]


def test_help_states_the_defaults():
    defaults = Settings()
    assert REPLAY_OPTIONS["summary_share"][1].help.endswith(f": {defaults.summary_share}.")
    assert REPLAY_OPTIONS["clear_keep"][1].help.endswith(f": {defaults.clear_keep}.")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--store", "a", "--no-store"], "--store and --no-store exclude each other"),
        (["--jobs", "0"], "Invalid value for '--jobs'"),
        (["--summary-share", "2"], "Invalid value for '--summary-share'"),
        (["--policy", "authors"], "policy authors: the authors' package is not installed"),
        (["--policy", "authors", "--authors-python", "/no/python"], "/no/python cannot be run"),
    ],
)
def test_a_flag_that_is_wrong(folder, arguments, problem):
    result = cliff("replay", folder, *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert problem in " ".join(re.sub("[│╭╮╰╯─]", " ", result.stderr).split())


# --- report ---------------------------------------------------------------------------------------


def test_a_report(folder, tmp_path):
    out = tmp_path / "report.html"
    result = cliff("report", folder, *SMALL, "-o", out)
    assert (result.exit_code, result.stdout) == (0, "")
    assert f"report: {out}" in result.stderr
    text = out.read_text()
    assert "5 sessions, 50 requests, threshold 2 500 tokens, preset paper." in text
    for name in ("cliff", "full", "sliding", "summarize", "microcompact", "clear-tools"):
        assert f"</span>{name}<" in text
    again = tmp_path / "again.html"
    cliff("report", folder, *SMALL, "-o", again, "--jobs", 2, "--store", tmp_path / "store")
    assert again.read_bytes() == out.read_bytes()


def test_a_report_of_nothing(tmp_path, folder):
    out = tmp_path / "report.html"
    result = cliff("report", trajectory(tmp_path / "empty.json", turns=0), "-o", out)
    assert result.exit_code == 2
    assert "there is no session with a model request: no page is written" in result.stderr
    assert not out.exists()
    result = cliff("report", folder, "-o", tmp_path / "missing" / "a.html", "--policy", "full")
    assert result.exit_code == 2
    assert "a.html: the page cannot be written: No such file or directory" in result.stderr


def test_a_report_in_spite_of_an_input_that_fails(tmp_path, folder):
    (folder / "broken.json").write_text('{"messages": [')
    out = tmp_path / "report.html"
    result = cliff("report", folder, "-o", out, "--policy", "cliff,full")
    assert result.exit_code == 2
    assert "5 sessions" in out.read_text()


# --- tune -----------------------------------------------------------------------------------------


def test_tune(folder):
    for number in range(5):
        trajectory(folder / f"{number:02}.json", turns=40 + number)
    result = cliff("tune", folder, "--thresholds", "3000,4000,8000")
    assert result.exit_code == 0, result.output
    lines = result.stdout.split("\n")
    assert lines[0] == "5 sessions · 210 requests"
    assert [line.split()[0] for line in lines[3:8]] == ["3", "4", "8", "auto", "full"]
    assert "smallest workable threshold: 2 370 tokens; a smaller one is raised to it" in lines
    assert "least cost, replay: a threshold of 3 000 tokens" in lines
    assert result.stderr == ""
    data = json.loads(cliff("tune", folder, "--thresholds", "3000,4000,8000", "--json").stdout)
    assert list(data["thresholds"]) == ["3000", "4000", "8000"]
    assert (data["smallest_threshold"], data["best_replayed"]) == (2_370, 3_000)
    costs = {name: point["cost_replayed"] for name, point in data["thresholds"].items()}
    assert min(costs, key=costs.get) == "3000"
    assert max(costs.values()) < data["full"]["cost_replayed"]
    at_8000 = data["thresholds"]["8000"]
    assert data["auto"] == {name: value for name, value in at_8000.items() if name != "cost_closed"}
    assert data["thresholds"]["3000"]["support"]["share"] <= 1 == data["full"]["support"]["share"]


def test_tune_of_one_session_says_how_it_grows(folder):
    text = cliff("tune", folder / "04.json").stdout
    assert re.search(r"grows by 4\d\d tokens a request from 14", text)
    assert len(re.findall("^ +[0-9]", text, re.MULTILINE)) == len(THRESHOLDS)
    assert "least cost, closed form: full context" in text, "8 000 is never reached"


@pytest.mark.parametrize("columns", [40, 71, 120])
def test_tune_at_any_width(folder, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    text = cliff("tune", folder, "--thresholds", "3000,4000").stdout
    assert all(len(line) <= columns for line in text.split("\n"))
    assert ("█" in text) == (columns >= 72)


def test_tune_adds_no_dollars_to_shares(folder, tmp_path):
    trajectory(folder / "unknown.json", model="nobody/knows")
    result = cliff("tune", folder)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "1 session of 6 have no price: costs do not add up; give --model or --price-input" in result.stderr
    assert cliff("tune", folder, "--price-input", 1).exit_code == 0
    assert "$" not in cliff("tune", folder / "unknown.json", "--thresholds", "3000").stdout


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--thresholds", "8k"], "thresholds are whole numbers of tokens, as in 8000,16000; not '8k'"),
        (["--thresholds", "0"], "not '0'"),
        (["--policy", "full"], "cliff tune replays policy cliff: it has no --policy"),
    ],
)
def test_a_flag_of_tune_that_is_wrong(folder, arguments, problem):
    result = cliff("tune", folder, *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert problem in " ".join(re.sub("[│╭╮╰╯─]", " ", result.stderr).split())


def test_tune_of_nothing(tmp_path):
    result = cliff("tune", trajectory(tmp_path / "empty.json", turns=0), "--json")
    assert result.exit_code == 2
    data = json.loads(result.stdout)
    assert (data["sessions"], data["best_replayed"]) == (0, None)

"""`cliff replay` of many sessions, `cliff report`, `cliff tune`."""

import json
import os
import re
import resource
import shutil
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
    missing = tmp_path / "missing"
    for store, problem in ((tmp_path, "it is a folder"), (missing / "store", f"there is no folder {missing}")):
        result = cliff("replay", folder, "--store", store)
        assert (result.exit_code, result.stdout) == (2, "")
        assert f"{store} cannot be written: {problem}\n" in result.stderr
    assert not missing.exists()
    os.mkfifo(tmp_path / "pipe")
    notes = tmp_path / "notes.json"
    notes.write_text("my notes")
    for store, problem in ((tmp_path / "pipe", "it is a pipe"), (notes, "it is no store of cliff; name another file")):
        result = cliff("replay", folder, "--store", store)
        assert (result.exit_code, result.stdout) == (2, "")
        assert f"error: {store}: results cannot be kept there ({problem})\n" in result.stderr
    assert notes.read_text() == "my notes"
    monkeypatch.setattr(batch, "STORE_FROM", 5)
    (tmp_path / "cache").write_text("a file")
    result = cliff("replay", folder)
    assert result.exit_code == 0, "the default one is left out"
    assert f"{tmp_path / 'cache' / 'cliff' / 'replays'}: results cannot be kept there (Not a dir" in result.stderr


@pytest.mark.parametrize(
    ("command", "flag"),
    [("replay", "--store"), ("tune", "--store"), ("report", "--store"), ("report", "--output"), ("replay", "--plot")],
)
def test_an_input_is_not_written_over(folder, tmp_path, command, flag):
    """Whatever it is called, and whether it could be read or not."""
    if flag == "--plot":
        pytest.importorskip("matplotlib")
    suffix = ".svg" if flag == "--plot" else ".json"
    named = (folder / "00.json").rename(folder / f"00{suffix}")
    soft, hard = tmp_path / f"soft{suffix}", tmp_path / f"hard{suffix}"
    soft.symlink_to(named)
    hard.hardlink_to(named)
    broken = folder / f"broken{suffix}"
    broken.write_text('{"messages": [')
    for output, inputs in (
        (named, [named]),
        (named, [folder]),
        (soft, [folder]),
        (hard, [folder]),
        (named, [soft]),
        (broken, [broken]),
        *([(broken, [folder])] if suffix == ".json" else []),
    ):
        content = output.read_bytes()
        result = cliff(command, *inputs, flag, output)
        assert (result.exit_code, result.stdout) == (2, "")
        assert f"{output} is an input and would be overwritten: name another file\n" in result.stderr
        assert output.read_bytes() == content


def test_a_file_of_a_session_that_is_a_folder_is_not_written_over(traces, tmp_path):
    session = tmp_path / "session"
    shutil.copytree(traces / "raw_api" / "oh-sdk-llm-logs", session)
    (first, *_) = sorted(session.glob("*.json"))
    for output in (first, session / "new.json"):
        result = cliff("report", session, "-o", output)
        assert (result.exit_code, result.stdout) == (2, "")
        assert f"{output} is an input and would be overwritten" in result.stderr
    assert cliff("report", session, "--policy", "full", "-o", session / "report.html").exit_code == 0


def test_two_outputs_are_two_files(folder, tmp_path):
    result = cliff("report", folder, "-o", tmp_path / "a", "--store", tmp_path / "a")
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{tmp_path / 'a'} is named for two outputs\n" in result.stderr
    assert not (tmp_path / "a").exists()


def test_outputs_among_the_sessions_are_no_sessions(folder):
    """The second time they are there."""
    command = ("report", folder, "--policy", "full", "-o", folder / "a.html", "--store", folder / "s.jsonl")
    for _ in range(2):
        result = cliff(*command)
        assert (result.exit_code, result.stderr) == (0, f"report: {folder / 'a.html'}\n")
    result = cliff("replay", folder, "--policy", "full")
    assert result.exit_code == 0
    lines = result.stderr.strip().split("\n")
    assert [re.search(r"warning: skipped \S+/(\S+): ", line)[1] for line in lines] == ["a.html", "s.jsonl"]
    (folder / "s.jsonl").write_bytes(b"")
    assert cliff(*command).exit_code == 0, "one that was interrupted before the first result"
    (folder / "s.jsonl").write_bytes(b"")
    assert cliff("replay", folder, "--policy", "full").exit_code == 2, "any other is a session that is empty"


def test_a_store_that_is_full(folder, tmp_path):
    """It is said once, and all is replayed; what was kept before is found the next time."""
    store = tmp_path / "store"
    command = [*PROGRAM, "replay", folder, *SMALL, "--json", "--store", store]
    subprocess.run(command, capture_output=True, check=True)
    lines = store.read_bytes().splitlines(keepends=True)
    store.write_bytes(b"".join(lines[:2]))
    room = store.stat().st_size + len(lines[2]) // 2

    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))

    done = subprocess.run(command, capture_output=True, text=True, check=True, preexec_fn=limited)
    assert len(json.loads(done.stdout)["sessions"]) == 5
    assert done.stderr == f"warning: no more results are kept in {store}: No space left on device\n"
    assert store.stat().st_size == room
    again = subprocess.run(command, capture_output=True, text=True, check=True)
    assert again.stdout == done.stdout
    assert store.read_bytes().splitlines(keepends=True) == lines


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


def test_a_report_that_cannot_be_written(tmp_path, folder, monkeypatch):
    monkeypatch.setattr(batch, "replay", lambda *_: pytest.fail("it is found out first"))
    missing = tmp_path / "missing"
    for output, problem in ((tmp_path, "it is a folder"), (missing / "a.html", f"there is no folder {missing}")):
        result = cliff("report", folder, "-o", output, "--policy", "full")
        assert result.exit_code == 2
        assert f"{output} cannot be written: {problem}\n" in result.stderr
    result = cliff("report", folder, "-o", "")
    assert "a path is empty: is a variable not set?" in " ".join(result.stderr.split())
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    for output in (folder / "00.json", tmp_path / "new.html"):
        result = cliff("report", folder, "-o", output)
        assert f"{output} cannot be written: permission denied\n" in result.stderr


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
    assert data["smallest_threshold"] == {"least": 2_370, "most": 2_370, "raises": True}
    assert data["best_replayed"] == 3_000
    costs = {name: point["cost_replayed"] for name, point in data["thresholds"].items()}
    assert min(costs, key=costs.get) == "3000"
    assert max(costs.values()) < data["full"]["cost_replayed"]
    at_8000 = data["thresholds"]["8000"]
    assert at_8000["raised"] == 0
    assert data["auto"] == {name: value for name, value in at_8000.items() if name not in ("cost_closed", "raised")}
    assert data["thresholds"]["3000"]["support"]["share"] <= 1 == data["full"]["support"]["share"]


def with_prompt(path, tokens, turns):
    """A session with a system prompt, which no cliff frees."""
    data = json.loads(trajectory(path, turns=turns).read_text())
    data["messages"].insert(0, {"role": "system", "content": words(tokens)})
    path.write_text(json.dumps(data))
    return path


def test_tune_of_sessions_whose_fixed_parts_differ(tmp_path):
    """The least cost is the least of the table, in text and JSON: the second session's smallest is not the first's."""
    paths = trajectory(tmp_path / "small.json", turns=80), with_prompt(tmp_path / "large.json", 20_000, 20)
    flags = ("--thresholds", "3000,12000,26000")
    lines = cliff("tune", *paths, *flags).stdout.split("\n")
    shares = {row.split("%")[0][:10].strip(): row.split() for row in lines[3:6]}
    assert list(shares) == ["3 000", "12 000", "26 000"]
    assert min(shares, key=lambda name: float(shares[name][3].rstrip("%"))) == "3 000"
    assert float(shares["26 000"][3].rstrip("%")) > 1.1 * float(shares["3 000"][3].rstrip("%"))
    text = " ".join(" ".join(lines).split())
    assert (
        "smallest workable threshold: 2 370 to 25 904 tokens, by session; each raises a smaller one to its own "
        "least cost, closed form: a threshold of 3 000 tokens, raised in 1 of 2 sessions "
        "least cost, replay: a threshold of 3 000 tokens, raised in 1 of 2 sessions " in text
    )
    data = json.loads(cliff("tune", *paths, *flags, "--json").stdout)
    assert data["smallest_threshold"] == {"least": 2_370, "most": 25_904, "raises": True}
    assert (data["best_closed"], data["best_replayed"]) == (3_000, 3_000)
    assert {name: point["raised"] for name, point in data["thresholds"].items()} == {"3000": 1, "12000": 1, "26000": 0}

    text = " ".join(cliff("tune", paths[1], *flags).stdout.split())
    assert "smallest workable threshold: 25 904 tokens; a smaller one is raised to it" in text
    data = json.loads(cliff("tune", paths[1], *flags, "--json").stdout)
    assert len({data["thresholds"][name]["cost_replayed"] for name in ("3000", "12000")}) == 1
    text = " ".join(cliff("tune", *paths, "--preset", "paper", *flags).stdout.split())
    assert "2 370 to 25 904 tokens, by session; preset paper takes a smaller one as it is" in text
    assert "raised" not in text


def test_tune_of_one_session_says_what_a_threshold_was_raised_to(tmp_path):
    path = with_prompt(tmp_path / "large.json", 5_000, 80)
    lines = cliff("tune", path, "--thresholds", "3000,20000").stdout.split("\n")
    assert "least cost, replay: a threshold of 3 000 tokens, raised to 8 257" in lines
    assert json.loads(cliff("tune", path, "--thresholds", "3000,20000", "--json").stdout)["best_replayed"] == 3_000


def test_tune_of_one_session_says_how_it_grows(folder):
    text = cliff("tune", folder / "04.json").stdout
    assert re.search(r"grows by 4\d\d tokens a request from 14", text)
    assert len(re.findall("^ +[0-9]", text, re.MULTILINE)) == len(THRESHOLDS)
    assert "least cost, closed form: full context" in text, "8 000 is never reached"


@pytest.mark.parametrize("columns", [40, 60, 77, 78, 120])
def test_tune_at_any_width(folder, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    text = cliff("tune", folder, "--thresholds", "3000,4000").stdout
    assert all(len(line) <= columns for line in text.split("\n"))
    assert ("█" in text) == (columns >= 78)
    assert "…" not in text or columns < 60


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
        (["--thresholds", "8000," + "9" * 400], "thresholds are whole numbers of tokens"),
        (["--policy", "full"], "No such option: --policy"),
        (["--threshold", "9000"], "No such option: --threshold (Possible options: --thresholds)"),
        (["--threshold-tokens", "9000"], "No such option: --threshold-tokens"),
    ],
)
def test_a_flag_of_tune_that_is_wrong(folder, arguments, problem):
    result = cliff("tune", folder, *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert problem in " ".join(re.sub("[│╭╮╰╯─]", " ", result.stderr).split())


def test_tune_offers_no_flag_that_it_refuses(folder):
    """A threshold that is set for all commands is none of its own either: it tries those of --thresholds."""
    text = cliff("tune", "--help").stdout
    flags = set(re.findall(r"^  (?:-., )?(--[a-z-]+)", text, re.MULTILINE))
    assert {"--thresholds", "--keep-turns", "--model", "--jobs"} < flags
    assert not {"--policy", "--threshold", "--threshold-tokens", "--clear-keep", "--authors-python"} & flags
    config = json.loads(cliff("tune", folder, "--keep-turns", 4, "--json").stdout)["config"]
    assert config["keep_turns"] == 4
    assert "threshold_tokens" not in config


def test_tune_of_nothing(tmp_path):
    result = cliff("tune", trajectory(tmp_path / "empty.json", turns=0), "--json")
    assert result.exit_code == 2
    data = json.loads(result.stdout)
    assert (data["sessions"], data["best_replayed"]) == (0, None)

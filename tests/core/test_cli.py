"""`cliff` in this process (Typer's runner) and as a program of its own."""

import importlib.metadata
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from cliff_core import batch, cli
from cliff_core.commands import replay as replay_command
from cliff_core.commands.options import OPTION_HELP
from cliff_core.config import OPTIONS, CliffConfig
from cliff_core.decision import room
from cliff_core.ledger import Pricing
from cliff_core.replay import limit_of

runner = CliRunner()


@pytest.fixture(autouse=True)
def no_variables(monkeypatch):
    for name in [name for name in os.environ if name.startswith("CLIFF_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "80")


def words(number):
    return " ".join(["hello"] * number)


def trajectory(path, turns=12, name="made", model="openai/gpt-5-mini"):
    """A session of mini-swe-agent 2: a task of 14 tokens, turns of 6 + 404, usage with 100 beside them."""
    messages = [{"role": "user", "content": words(10)}]
    for turn in range(1, turns + 1):
        reported = {"prompt_tokens": 114 + 410 * (turn - 1), "completion_tokens": 1}
        function = {"name": "bash", "arguments": "hello"}
        messages.append(
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": str(turn), "type": "function", "function": function}],
                "extra": {"response": {"usage": reported}, "actions": []},
            }
        )
        messages.append({"role": "tool", "tool_call_id": str(turn), "content": words(400)})
    info = {"config": {"model": {"model_name": model}}, "exit_status": "Submitted"}
    data = {"trajectory_format": "mini-swe-agent-1.1", "instance_id": name, "info": info, "messages": messages}
    path.write_text(json.dumps(data))
    return path


@pytest.fixture
def made(tmp_path):
    return trajectory(tmp_path / "made.traj.json")


def cliff(*arguments):
    return runner.invoke(cli.app, ["replay", *map(str, arguments)])


def as_json(*arguments):
    result = cliff(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


SMALL = ("--preset", "paper", "--threshold", "2500")


# --- what it prints -------------------------------------------------------------------------------


def test_a_table(made):
    result = cliff(made, *SMALL)
    assert result.exit_code == 0
    assert result.stderr == ""
    lines = result.stdout.split("\n")
    assert lines[:3] == ["made", str(made), "mini-swe-agent · openai/gpt-5-mini · 12 requests"]
    assert [line.split()[0] for line in lines[5:8]] == ["cliff", "full", "sliding"]
    assert "fixed part: 100 tokens, from the first recorded usage" in result.stdout
    assert "gpt-5-mini" in " ".join(lines[12:])
    assert "Cost is that of input alone" in result.stdout


def test_json_has_the_schema(made):
    data = as_json(made, *SMALL)
    assert list(data)[:2] == ["sessions", "errors"]
    assert data["errors"] == []
    (session,) = data["sessions"]
    assert (session["path"], session["format"], session["requests"]) == (str(made), "mini-swe-agent", 12)
    for name in ("cliff", "full", "sliding"):
        figures = session["policies"][name]
        whole = ("input_tokens", "cached_tokens", "cliffs", "peak_tokens")
        assert all(isinstance(figures[key], int) for key in whole)
        assert all(isinstance(figures[key], float) for key in ("cost", "cost_vs_full"))
    assert session["policies"]["full"]["input_tokens"] == 12 * 114 + 410 * 66
    assert data["config"]["threshold_tokens"] == 2500
    assert data["tokens"]["name"] == "o200k_base"


def test_policies_in_the_order_asked_for(made):
    session = as_json(made, "--policy", "sliding, full")["sessions"][0]
    assert list(session["policies"]) == ["sliding", "full"]


def test_prices(made):
    def prices(*arguments):
        return as_json(made, *arguments)["sessions"][0]["prices"]

    assert prices()["input"] == 0.25, "of the session's own model"
    assert prices("--model", "claude-opus-4-5")["write"] == 6.25
    given = prices("--price-input", 2, "--price-cached", 0.5, "--price-write", 3)
    assert (given["input"], given["cached"], given["write"]) == (2, 0.5, 3)
    assert prices("--price-input", 1)["cached"] == 0.2


def test_a_cached_price_above_the_other_is_said(made):
    said = "warning: --price-cached is above --price-input: cached input is taken to cost more than other input\n"
    assert cliff(made, "--price-input", 1, "--price-cached", 5).stderr == said
    assert cliff(made, "--price-input", 1, "--price-cached", 1).stderr == ""


def test_costs_are_relative_where_no_price_is_known(tmp_path):
    unknown = trajectory(tmp_path / "a.json", model="a-model-that-nobody-makes")
    result = cliff(unknown)
    assert "cached input at 0.2 of the input price" in " ".join(result.stdout.split())
    assert "$" not in result.stdout
    assert as_json(unknown)["sessions"][0]["prices"]["input"] == 1.0


def test_cache_rules(made):
    def cached(*arguments):
        return as_json(made, "--policy", "full", *arguments)["sessions"][0]["policies"]["full"]["cached_tokens"]

    prefixes = [114 + 410 * turn for turn in range(11)]
    assert cached("--cache-min", 0, "--cache-step", 1) == sum(prefixes)
    assert cached("--cache-min", 600, "--cache-step", 100) == sum(p - p % 100 for p in prefixes if p >= 600)
    assert cached() == sum(p - p % 128 for p in prefixes if p >= 1024), "OpenAI's"


def test_a_folder_shows_a_bar_on_a_terminal(tmp_path, monkeypatch):
    for name in ("a", "b"):
        trajectory(tmp_path / f"{name}.json", name=name)
    terminal = Console(stderr=True, force_terminal=True, width=80)
    monkeypatch.setattr("cliff_core.commands.inputs.stderr", terminal)
    result = cliff(tmp_path)
    assert "replaying" in result.stderr
    assert "replaying" not in result.stdout
    assert "\x1b" not in result.stdout
    assert "2 sessions · 24 requests" in result.stdout


def test_a_total_of_several_sessions(tmp_path):
    for name in ("a", "b"):
        trajectory(tmp_path / f"{name}.json", name=name)
    result = cliff(tmp_path)
    assert result.exit_code == 0
    assert "2 sessions · 24 requests" in result.stdout
    assert [s["name"] for s in as_json(tmp_path)["sessions"]] == ["a", "b"]


def test_each_file_is_replayed_once(tmp_path):
    """Under the name and at the place it was first met by; one that cannot be read fails once."""
    folder = tmp_path / "sessions"
    folder.mkdir()
    for name in ("a", "b", "c"):
        trajectory(folder / f"{name}.json", name=name)
    link = tmp_path / "link.json"
    link.symlink_to(folder / "b.json")
    same = folder / ".." / "sessions" / "b.json"
    result = cliff(link, folder / "c.json", folder, same, folder, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    paths = [session["path"] for session in json.loads(result.stdout)["sessions"]]
    assert paths == [str(link), str(folder / "c.json"), str(folder / "a.json")]
    assert "total" not in cliff(link, same).stdout
    broken, notes = folder / "broken.json", folder / "notes.txt"
    broken.write_text('{"messages": [')
    notes.write_text("nothing here")
    empty = tmp_path / "empty"
    empty.mkdir()
    for paths in ([folder, folder], [folder, broken, notes], [notes, broken, folder, empty, empty]):
        lines = cliff(*paths, "--policy", "full").stderr.strip().split("\n")
        assert sum(str(broken) in line for line in lines) == 1
        assert sum(str(notes) in line for line in lines) == 1
        assert sum(str(empty) in line for line in lines) == (empty in paths)


# --- options of a compaction ----------------------------------------------------------------------


def test_every_option_is_a_flag_with_help():
    assert set(OPTION_HELP) == set(OPTIONS)
    shown = " ".join(runner.invoke(cli.app, ["replay", "--help"]).stdout.split())
    for option in OPTIONS:
        assert f"--{option.replace('_', '-')}" in shown
        assert OPTION_HELP[option] in shown


def test_flags_reach_the_configuration(made):
    flags = {
        "--preset": "paper",
        "--threshold-tokens": 9000,
        "--keep-turns": 2,
        "--result-max-chars": 5,
        "--call-max-chars": 6,
        "--thought-max-chars": 7,
        "--min-gain": 0.5,
        "--directives-max-chars": 8,
        "--notes": "newest",
        "--path-index-chars": 9,
        "--error-chars": 10,
        "--cache-price-ratio": 12.5,
    }
    given = [part for flag in flags.items() for part in flag]
    config = as_json(made, *given, "--pin-directives", "--merge-block")["config"]
    expected = {flag[2:].replace("-", "_"): value for flag, value in flags.items()}
    assert config == {**expected, "pin_directives": True, "merge_block": True}
    assert as_json(made, "--no-pin-directives")["config"]["pin_directives"] is False


def test_without_flags_the_configuration_is_the_preset(made):
    assert as_json(made)["config"] == CliffConfig().as_dict()
    assert as_json(made, "--preset", "paper")["config"] == CliffConfig.preset("paper").as_dict()


def test_variables_and_flags_over_them(made, monkeypatch):
    monkeypatch.setenv("CLIFF_KEEP_TURNS", "1")
    monkeypatch.setenv("CLIFF_THRESHOLD_TOKENS", "5000")
    monkeypatch.setenv("CLIFF_STRICT", "1")
    result = cliff(made, "--keep-turns", "2", "--json")
    config = json.loads(result.stdout)["config"]
    assert (config["keep_turns"], config["threshold_tokens"]) == (2, 5000)
    assert "warning: CLIFF_STRICT is no option of cliff" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--policy", "slidng"], "unknown policy 'slidng'; did you mean sliding?"),
        (["--policy", ""], "no policy is named; known are full, sliding, summ"),
        (["--policy", " ,"], "no policy is named; known are full, sliding, summ"),
        (["--price-input", "inf"], "a price is a number from 0 to 1000000000, not inf"),
        (["--price-input", "nan"], "a price is a number from 0 to 1000000000, not nan"),
        (["--price-input", "-1"], "a price is a number from 0 to 1000000000, not -1.0"),
        (["--price-input", "1", "--price-cached", "inf"], "a price is a number from 0"),
        (["--price-input", "1", "--price-write", "inf"], "a price is a number from 0"),
        (["--preset", "papr"], "preset must be one of default, paper, not 'papr'; did you mean 'paper'?"),
        (["--threshold", "0"], "threshold_tokens must be a whole number of at least 1"),
        (["--threshold", "many"], "Invalid value for '--threshold'"),
        (["--model", "no-such-model"], "no price is known for the model 'no-such-model'"),
        (["--price-cached", "1"], "--price-cached, --price-write and --price-output need --price-input"),
        (["--plot", "x.png", "--at", "1"], "--at prints one view of policy cliff: it has no --plot"),
        (["--at", "1", "--policy", "full"], "--at prints one view of policy cliff: it has no --policy"),
        (["--at", "1", "--clear-keep", "0"], "it has no --clear-keep"),
        (["--at", "1", "--store", "s"], "it has no --store"),
        (["--at", "1", "--no-store"], "it has no --no-store"),
        (["--model", "gpt-5", "--price-input", "2"], "--model and --price-input exclude each other"),
        (["--policy", "cliff,full@3000"], "policy full sends everything: it has no threshold"),
        (["--plot", ""], "Invalid value for '--plot': a path is empty: is a variable not set?"),
        (["--store", ""], "Invalid value for '--store': a path is empty: is a variable not set?"),
        ([""], "Invalid value for 'PATH': a path is empty: is a variable not set?"),
        (["--session", "x"], "--session needs --at"),
        (["--plot", "x.pdf"], "a plot is a .png or .svg file, not 'x.pdf'"),
        (["--kep-turns", "2"], "--keep-turns"),
    ],
)
def test_a_flag_that_is_wrong(made, arguments, problem):
    result = cliff(made, *arguments)
    assert result.exit_code == 2
    assert problem in " ".join(result.stderr.split())
    assert result.stdout == ""


# --- inputs that are wrong ------------------------------------------------------------------------


def test_a_broken_input_does_not_stop_the_others(tmp_path, made):
    broken = tmp_path / "broken.json"
    broken.write_text('{"messages": [')
    missing = tmp_path / "missing.json"
    result = cliff(broken, made, missing, "--json")
    assert result.exit_code == 2
    data = json.loads(result.stdout)
    assert [session["name"] for session in data["sessions"]] == ["made"]
    assert [error["path"] for error in data["errors"]] == [str(broken), str(missing)]
    lines = result.stderr.strip().split("\n")
    assert len(lines) == 2
    assert all(line.startswith("error: ") for line in lines)
    assert [error["error"] for error in data["errors"]] == [line.removeprefix("error: ") for line in lines]
    table = cliff(broken, made)
    assert table.exit_code == 2
    assert table.stdout.startswith("made\n")


def test_a_folder_without_sessions(tmp_path):
    (tmp_path / "README.md").write_text("nothing here")
    result = cliff(tmp_path)
    assert result.exit_code == 2
    assert result.stdout == ""
    hint = "(docs/replay.md lists the formats)"
    assert f"error: {tmp_path}: no recorded session in this folder {hint}\n" in result.stderr
    assert "warning: skipped " in result.stderr


def test_files_of_a_folder_that_are_no_sessions_are_left_out(tmp_path, made):
    (tmp_path / "README.md").write_text("nothing here")
    (tmp_path / "package.json").write_text("{}")
    result = cliff(tmp_path)
    assert result.exit_code == 0
    lines = result.stderr.strip().split("\n")
    assert [re.search(r"warning: skipped \S+/(\S+): ", line)[1] for line in lines] == ["README.md", "package.json"]
    for number in range(9):
        (tmp_path / f"{number}.txt").write_text("nothing here")
    lines = cliff(tmp_path).stderr.strip().split("\n")
    assert len(lines) == 6
    assert lines[-1] == "warning: skipped 6 more files that are no sessions"


@pytest.mark.parametrize("arguments", [(), ("--at", "1")])
def test_an_unknown_format_is_said_with_where_the_formats_are(tmp_path, arguments):
    strange = tmp_path / "strange.json"
    strange.write_text('{"a": 1}')
    problem = "expected a recorded session; no known format: an object with the keys a"
    result = cliff(strange, *arguments)
    assert result.stderr == f"error: {strange}: {problem} (docs/replay.md lists the formats)\n"


def test_a_session_of_a_folder_that_broke_off_is_an_error(tmp_path, made):
    (tmp_path / "broken.json").write_text('{"messages": [')
    result = cliff(tmp_path, "--json")
    assert result.exit_code == 2
    data = json.loads(result.stdout)
    assert [session["name"] for session in data["sessions"]] == ["made"]
    assert data["errors"][0]["path"] == str(tmp_path / "broken.json")
    assert result.stderr.startswith(f"error: {tmp_path / 'broken.json'}: expected ")


def test_a_session_without_requests_is_said(tmp_path, made):
    empty = trajectory(tmp_path / "empty.json", turns=0, name="empty")
    result = cliff(empty)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == f"warning: {empty}: there is no model request in empty\n"
    result = cliff(empty, made)
    assert result.stdout == cliff(made).stdout
    result = cliff(empty, "--json")
    assert [session["requests"] for session in json.loads(result.stdout)["sessions"]] == [0]
    assert "no model request" in result.stderr


def test_a_file_without_sessions_is_said(made, monkeypatch):
    monkeypatch.setattr("cliff_core.traces.read", lambda path: iter(()))
    result = cliff(made)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == f"warning: {made}: there is no session in this file\n"
    result = cliff(made, "--at", 1, "--json")
    assert (result.exit_code, json.loads(result.stdout)["errors"][0]["error"]) == (2, "there is no session")


def test_a_fault_of_ours_is_one_line_and_does_not_stop_the_others(tmp_path, monkeypatch):
    for name in ("a", "b"):
        trajectory(tmp_path / f"{name}.json", name=name)
    right = batch.replay

    def faulty(session, *arguments):
        if session.name == "a":
            raise ValueError("x\ny")
        return right(session, *arguments)

    monkeypatch.setattr(batch, "replay", faulty)
    result = cliff(tmp_path, "--json")
    assert result.exit_code == 2
    assert [session["name"] for session in json.loads(result.stdout)["sessions"]] == ["b"]
    assert "a.json: could not be replayed (ValueError: x y)" in result.stderr
    assert "Traceback" not in result.stderr
    assert len(result.stderr.strip().split("\n")) == 1


def test_warnings_of_the_core_name_the_session_and_come_once(tmp_path):
    for name in ("a", "b"):
        trajectory(tmp_path / f"{name}.json", name=name)
    result = cliff(tmp_path, "--threshold", "2000", "--json")
    assert result.exit_code == 0
    lines = result.stderr.strip().split("\n")
    assert len(lines) == 2
    assert lines[0].startswith(f"warning: {tmp_path / 'a.json'}: threshold_tokens=2000 is too small")
    json.loads(result.stdout)


# --- one view -------------------------------------------------------------------------------------


def test_the_view_at_a_request(made):
    result = cliff(made, *SMALL, "--at", 7)
    assert result.exit_code == 0
    lines = result.stdout.strip().split("\n")
    assert lines[0].startswith("made: request 7, ")
    assert {line.split()[0] for line in lines[1:]} == {"head", "block", "cut", "live"}
    assert "\x1b" not in result.stdout, "no colour in a pipe"
    data = json.loads(cliff(made, *SMALL, "--at", 7, "--json").stdout)
    assert (data["path"], data["name"], data["request"]) == (str(made), "made", 7)
    assert data["cliff"]["number"] == 1


def test_the_view_of_one_of_several_sessions(tmp_path):
    for name in ("a", "b"):
        trajectory(tmp_path / f"{name}.json", name=name)
    result = cliff(tmp_path, "--at", 1)
    assert result.exit_code == 2
    assert "several sessions: a, b; --session takes a name or a number from 1 to 2" in result.stderr
    for wanted in ("b", "2"):
        result = cliff(tmp_path, "--at", 1, "--session", wanted)
        assert result.exit_code == 0
        assert result.stdout.startswith("b: request 1, 114 tokens")
    result = cliff(tmp_path, "--at", 1, "--session", "c")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "no session 'c': a, b" in result.stderr


def test_a_session_is_meant_by_the_name_that_is_shown(tmp_path):
    """That of the file where the session has none; a number first, since names may be numbers; never one of several."""
    for file, name in (("a", ""), ("b", "same"), ("c.traj", ""), ("d", "same"), ("e", "2"), ("f", "a")):
        trajectory(tmp_path / f"{file}.json", name=name)
    found = {1: "a.json", 2: "b.json", 3: "c.traj.json", 4: "d.json", 5: "e.json", 6: "f.json"}
    for wanted, number in (("c.traj", 3), ("2", 2), ("5", 5), ("6", 6)):
        data = json.loads(cliff(tmp_path, "--at", 1, "--session", wanted, "--json").stdout)
        assert data["path"] == str(tmp_path / found[number])
    for wanted, numbers in (("same", "2, 4"), ("a", "1, 6")):
        result = cliff(tmp_path, "--at", 1, "--session", wanted)
        assert (result.exit_code, result.stdout) == (2, "")
        said = f"several sessions are named '{wanted}': numbers {numbers}; --session takes a name or a number"
        assert f"{said} from 1 to 6\n" in result.stderr
    result = cliff(tmp_path, "--at", 1, "--session", "7")
    assert "no session '7': a, same, c.traj, same, 2, a; --session takes a name or a number" in result.stderr


def test_errors_of_one_view_as_json(tmp_path, made):
    broken, missing = tmp_path / "broken.json", tmp_path / "missing.json"
    broken.write_text('{"messages": [')
    other = trajectory(tmp_path / "other.json")
    for arguments in ((made, "--at", 13), (broken, "--at", 1), (missing, "--at", 1), (made, other, "--at", 1)):
        result = cliff(*arguments, "--json")
        assert result.exit_code == 2
        (error,) = json.loads(result.stdout)["errors"]
        assert error["path"] == str(arguments[0])
        assert result.stderr == f"error: {error['error']}\n"
    result = cliff(made, broken, "--at", 1, "--json")
    assert result.exit_code == 2
    data = json.loads(result.stdout)
    assert (data["request"], [error["path"] for error in data["errors"]]) == (1, [str(broken)])
    assert json.loads(cliff(made, "--at", 1, "--json").stdout)["errors"] == []


def test_json_has_numbers_only_that_json_has(made):
    """A recorded file may have others: Python writes and reads them."""

    def refuse(name):
        raise AssertionError(name)

    made.write_text(made.read_text().replace('"extra": {', '"note": [NaN, -Infinity, 1.5], "extra": {', 1))
    result = cliff(made, "--at", 2, "--json")
    assert result.exit_code == 0, result.stderr
    data = json.loads(result.stdout, parse_constant=refuse)
    assert data["messages"][1]["note"] == [None, None, 1.5]
    result = cliff(made, "--price-input", "5e-324", "--price-cached", "1e9", "--price-write", "1e9", "--json")
    assert result.exit_code == 0
    json.loads(result.stdout, parse_constant=refuse)


def test_the_window_of_the_model_limits_the_threshold(made):
    def threshold(*arguments):
        given = ("--threshold", 900_000, *arguments)
        of_replay = as_json(made, *given)["sessions"][0]["policies"]["cliff"]["threshold"]
        assert json.loads(cliff(made, *given, "--at", 1, "--json").stdout)["threshold"] == of_replay
        return of_replay

    assert threshold() == 272_000 - 128_000 - 13_600, "of the session's own model"
    assert threshold("--model", "claude-opus-4-5") == 200_000 - 64_000 - 10_000


def test_a_threshold_that_follows_the_session(tmp_path):
    """Ten times a cached token's price: 8 000 tokens, once five turns are known."""
    made = trajectory(tmp_path / "long.json", turns=40)
    found = as_json(made, "--threshold", "auto")["sessions"][0]["policies"]["cliff"]
    assert as_json(made, "--threshold", "8000")["sessions"][0]["policies"]["cliff"] == found
    assert found["threshold"] == 8_000
    assert {cliff["threshold"] for cliff in found["cliff_list"]} == {8_000}
    text = cliff(made, "--threshold", "auto").stdout
    assert "threshold: auto, 8 000 tokens at the end, 8 000 at the cliffs" in text
    assert json.loads(cliff(made, "--threshold", "auto", "--at", 3, "--json").stdout)["threshold"] == 32_000
    # Cached input that costs almost nothing: no cliff pays. A ratio that is given stands over the prices.
    dear = ("--threshold", "auto", "--price-input", 1, "--price-cached", "0.001")
    assert as_json(made, *dear)["sessions"][0]["policies"]["cliff"]["cliffs"] == 0
    given = as_json(made, *dear, "--cache-price-ratio", 10)
    assert given["config"]["cache_price_ratio"] == 10
    assert given["sessions"][0]["policies"]["cliff"]["cliffs"] == found["cliffs"]


def test_each_policy_has_the_threshold_of_its_name(tmp_path):
    made = trajectory(tmp_path / "long.json", turns=40)
    result = cliff(made, "--policy", "cliff@auto,cliff@9000,full", "--threshold", "16000")
    assert "threshold: auto, 8 000 tokens at the end" in result.stdout
    assert "in place of" not in result.stdout
    assert result.stdout.count("smallest workable threshold: ") == 1, "what two have in common is said once"


def test_there_is_no_such_request(made):
    result = cliff(made, "--at", 13)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "there is no request 13: the session has 12 requests" in result.stderr
    assert cliff(made, "--at", 0).exit_code == 2


# --- plots ----------------------------------------------------------------------------------------


def test_a_plot(tmp_path, made):
    pytest.importorskip("matplotlib")
    result = cliff(made, "--plot", tmp_path / "a.svg", "--json")
    assert result.exit_code == 0
    assert (tmp_path / "a.svg").read_text().startswith("<?xml")
    assert f"plot: {tmp_path / 'a.svg'}" in result.stderr
    json.loads(result.stdout)


def test_a_plot_knows_what_the_model_takes(tmp_path, made, monkeypatch):
    """Thresholds are lowered to leave room for the answer, those of policies other than cliff too."""
    pytest.importorskip("matplotlib")
    drawn = []
    monkeypatch.setattr(replay_command, "draw", lambda panels, *_: drawn.extend(panels))
    options = ("--model", "claude-opus-4-5", "--policy", "sliding", "--threshold", 10**6)
    assert cliff(made, "--plot", tmp_path / "a.svg", *options).exit_code == 0
    limit = limit_of(Pricing("claude-opus-4-5").of("")[2])
    assert limit is not None
    assert [panel.threshold for panel in drawn] == [room(limit)]


def test_a_plot_that_cannot_be_written(tmp_path, made):
    pytest.importorskip("matplotlib")
    """It is found out first."""
    missing = tmp_path / "missing"
    result = cliff(made, "--plot", missing / "a.svg")
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{missing / 'a.svg'} cannot be written: there is no folder {missing}\n" in result.stderr
    (tmp_path / "a.svg").mkdir()
    result = cliff(made, "--plot", tmp_path / "a.svg")
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{tmp_path / 'a.svg'} cannot be written: it is a folder\n" in result.stderr


def test_a_plot_that_cannot_be_drawn(tmp_path, made, monkeypatch):
    pytest.importorskip("matplotlib")

    def fail(*_):
        raise ValueError("no\nfont")

    monkeypatch.setattr(replay_command, "draw", fail)
    result = cliff(made, "--plot", tmp_path / "a.svg")
    assert result.exit_code == 2
    assert result.stderr == f"error: {tmp_path / 'a.svg'}: the plot cannot be written: ValueError: no font\n"


def test_a_plot_without_matplotlib(made, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = cliff(made, "--plot", "a.svg")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "pip install matplotlib" in result.stderr


def test_a_matplotlib_that_cannot_be_imported_is_found_out_first(made, tmp_path):
    (tmp_path / "matplotlib").mkdir()
    (tmp_path / "matplotlib" / "__init__.py").write_text("raise ImportError('made for another numpy')")
    result = program("replay", made, "--plot", "a.svg", env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert (result.returncode, result.stdout) == (2, b"")
    assert b"which cannot be imported (ImportError: made for another numpy)" in b" ".join(result.stderr.split())
    assert b"Traceback" not in result.stderr


# --- commands of other packages -------------------------------------------------------------------


class Entry:
    value = "module:app"

    def __init__(self, name, app):
        self.name, self._app = name, app

    def load(self):
        if isinstance(self._app, BaseException):
            raise self._app
        return self._app


@pytest.fixture
def plugins(monkeypatch):
    single, several, own = typer.Typer(), typer.Typer(), typer.Typer()

    @single.command()
    def only(number: int):
        """One command alone."""
        print(number + 1)

    @several.command()
    def one():
        print("one")

    @several.command()
    def two():
        print("two")

    @own.command()
    def not_replay():
        print("not ours")

    entries = [
        Entry("single", single),
        Entry("several", several),
        Entry("broken", ImportError("no module\nnamed x")),
        Entry("leaving", SystemExit(3)),
        Entry("replay", own),
    ]

    def entry_points(group):
        assert group == "cliff.commands"
        return entries

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)


def test_commands_of_entry_points(plugins, made):
    assert runner.invoke(cli.app, ["single", "41"]).stdout == "42\n"
    assert runner.invoke(cli.app, ["several", "two"]).stdout == "two\n"
    assert "completion" not in runner.invoke(cli.app, ["single", "--help"]).stdout
    assert "not ours" not in cliff(made).stdout, "our own command comes first"


def test_a_command_that_cannot_be_loaded_does_not_break_the_others(plugins):
    result = runner.invoke(cli.app, ["--help"])
    assert result.exit_code == 0
    assert re.search(r"single +One command alone", result.stdout)
    warning = "warning: the command 'broken' cannot be loaded from module:app (ImportError: no module named x)"
    assert warning in result.stderr
    assert "'leaving' cannot be loaded" in result.stderr
    result = runner.invoke(cli.app, ["broken"])
    assert result.exit_code == 2
    assert "No such command 'broken'" in result.stderr
    assert warning in result.stderr
    assert runner.invoke(cli.app, ["single", "1"]).stderr == ""


def test_help_and_version():
    result = runner.invoke(cli.app, [])
    assert "replay" in result.output
    assert runner.invoke(cli.app, ["--version"]).stdout == f"cliff {importlib.metadata.version('cliff-core')}\n"
    assert runner.invoke(cli.app, ["replya"]).exit_code == 2


# --- as a program ---------------------------------------------------------------------------------

PROGRAM = [sys.executable, "-m", "cliff_core"]


def program(*arguments, **options):
    return subprocess.run([*PROGRAM, *map(str, arguments)], capture_output=True, timeout=60, check=False, **options)


def test_streams_and_exit_status(tmp_path, made):
    right = program("replay", made, "--json")
    assert (right.returncode, right.stderr) == (0, b"")
    json.loads(right.stdout)
    wrong = program("replay", tmp_path / "missing.json")
    assert (wrong.returncode, wrong.stdout) == (2, b"")
    assert wrong.stderr.count(b"\n") == 1
    assert b"Traceback" not in wrong.stderr


def test_the_script_is_the_same(made):
    script = Path(sys.executable).with_name("cliff")
    if not script.exists():
        pytest.skip(f"{script} is missing: the package is not installed")
    shown = subprocess.run([script, "replay", made, "--json"], capture_output=True, timeout=60, check=True)
    assert shown.stdout == program("replay", made, "--json").stdout


@pytest.mark.parametrize("arguments", [("replay", "made"), ("replay", "made", "--json"), ("--help",), ("--version",)])
def test_an_output_that_cannot_be_written(made, arguments):
    """One line, and no word from the interpreter when it ends."""
    given = [str(made) if argument == "made" else argument for argument in arguments]
    command = " ".join(map(shlex.quote, [*PROGRAM, *given]))
    for output, problem in ((">/dev/full", "No space left on device"), (">&-", "it is closed")):
        if output == ">/dev/full" and not os.path.exists("/dev/full"):
            continue
        done = subprocess.run(f"{command} {output}", shell=True, stderr=subprocess.PIPE, text=True, check=False)
        assert done.returncode == 2
        assert done.stderr == f"error: standard output cannot be written: {problem}\n"


def test_standard_error_that_is_closed(tmp_path, made):
    command = " ".join(map(shlex.quote, [*PROGRAM, "replay", str(made), str(tmp_path / "missing.json"), "--json"]))
    done = subprocess.run(f"{command} 2>&-", shell=True, stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert len(json.loads(done.stdout)["errors"]) == 1


def test_a_terminal_without_columns(made):
    shown = program("replay", made, env={**os.environ, "COLUMNS": "0"})
    assert (shown.returncode, shown.stderr) == (0, b"")
    assert shown.stdout == program("replay", made, env={**os.environ, "COLUMNS": "80"}).stdout


def test_a_session_from_a_pipe(made):
    shown = program("replay", "/dev/stdin", "--json", input=made.read_bytes())
    assert (shown.returncode, shown.stderr) == (0, b"")
    (session,) = json.loads(shown.stdout)["sessions"]
    assert (session["path"], session["name"], session["requests"]) == ("/dev/stdin", "made", 12)


def test_a_folder_with_a_pipe_does_not_wait(tmp_path, made):
    os.mkfifo(tmp_path / "pipe.json")
    done = program("replay", tmp_path, "--json")
    assert done.returncode == 0
    warning = f"warning: skipped {tmp_path / 'pipe.json'}: expected a recorded session; it is a pipe\n"
    assert done.stderr.decode() == warning
    assert [session["name"] for session in json.loads(done.stdout)["sessions"]] == ["made"]


@pytest.mark.parametrize("arguments", [("--at", "100"), ("--json", "--at", "100"), ()])
def test_a_reader_that_goes_away(tmp_path, arguments):
    paths = [trajectory(tmp_path / f"{number}.json", turns=100) for number in range(1 if arguments else 30)]
    process = subprocess.Popen(
        [*PROGRAM, "replay", *paths, *SMALL, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(60) in (0, cli.BROKEN_PIPE), "0: all was written before"
    assert process.stderr.read() == b""
    process.stderr.close()


def test_interrupted(tmp_path):
    """Ctrl-C while a file is read: here a pipe that nobody writes to."""
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    process = subprocess.Popen([*PROGRAM, "replay", pipe], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    writer = os.open(pipe, os.O_WRONLY)  # it is open for reading now, and waits
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    os.close(writer)
    assert process.returncode == 130
    assert out == b""
    assert b"Traceback" not in err


def test_an_encoding_that_has_not_our_signs(made):
    shown = program("replay", made, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert shown.returncode == 0
    assert b"fixed part: 100 tokens" in shown.stdout


def test_a_command_loads_what_it_needs():
    """A command of another package does not load ours, nor ours the plots' library."""
    code = "import sys, cliff_core.cli; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "cliff_core.traces" not in loaded
    code = "import sys, cliff_core.commands.replay; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"matplotlib", "numpy", "tiktoken", "litellm"} & set(loaded)


def test_importing_the_package_is_light():
    """No heavy library, and none that only the command line needs (DESIGN.md section 5)."""
    code = "import sys, cliff_core; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    loaded = set(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    )
    assert not loaded & {"typer", "rich", "matplotlib", "numpy", "tiktoken", "litellm", "pydantic"}


# --- recorded sessions ----------------------------------------------------------------------------


def test_a_folder_of_recorded_sessions(traces):
    data = as_json(
        traces / "mini_v2", "--preset", "paper", "--threshold", 16_000, "--price-input", 1, "--price-cached", 0.2
    )
    shares = {s["name"]: s["policies"]["cliff"]["cost_vs_full"] for s in data["sessions"]}
    assert shares["pylint-dev__astroid-1333"] < 0.30
    assert all(abs(s["recorded"]["difference"]) <= 0.05 for s in data["sessions"])

"""`cliff select` as people type it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from cliff_select.commands import app
from selector.made import PATCH, jsonl, mini_batch, mini_terminal, record, study, terminal_bench


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def cliff(*arguments: object) -> Result:
    """In this process: LightGBM takes longer to load than most of these commands to run."""
    return CliRunner().invoke(app, list(map(str, arguments)), prog_name="cliff select")


def typed(*arguments: object) -> subprocess.CompletedProcess[str]:
    """As a program of its own."""
    command = [sys.executable, "-m", "cliff_core", "select", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


@pytest.fixture
def batches(tmp_path: Path) -> Path:
    patch = PATCH.format(file="a.py", line="new")
    mini_batch(
        tmp_path / "runs" / "1",
        {"org__a-1": {"status": "LimitsExceeded", "patch": patch}, "org__b-2": {"patch": patch}},
    )
    mini_batch(tmp_path / "runs" / "2", {"org__a-1": {"patch": patch}, "org__b-2": {"patch": patch}})
    return tmp_path


def test_choices(batches: Path) -> None:
    run = typed("runs")
    assert run.returncode == 0, run.stderr
    first = run.stdout.splitlines()[0]
    assert first.startswith("org__a-1: 2  score ")
    assert "margin" in first
    assert "    done: 1.00, others 0.00 (+" in run.stdout
    assert "2 groups, 4 rollouts" in run.stdout


def test_json(batches: Path) -> None:
    run = cliff("runs/1", "runs/2", "--json")
    data = json.loads(run.stdout)
    assert data["errors"] == []
    first = data["choices"][0]
    assert (first["task"], first["chosen"]) == ("org__a-1", "2")
    assert first["score"] - first["ranking"][1]["score"] == pytest.approx(first["margin"])
    assert first["reasons"][0]["feature"] == "done"
    assert run.stdout == cliff("runs/2", "runs/1", "--json").stdout


def test_copy(batches: Path) -> None:
    run = cliff("runs", "--copy", "best")
    assert run.exit_code == 0, run.stderr
    predictions = json.loads((batches / "best" / "preds.json").read_text())
    expected = json.loads((batches / "runs" / "2" / "preds.json").read_text())
    assert predictions["org__a-1"] == expected["org__a-1"]
    assert set(predictions) == {"org__a-1", "org__b-2"}
    assert (batches / "best" / "org__a-1" / "org__a-1.traj.json").is_file()
    again = cliff("runs", "--copy", "best")
    assert again.exit_code == 2
    assert "new or empty" in again.stderr


def test_bad_input_is_said_and_the_rest_is_done(batches: Path) -> None:
    run = cliff("missing", "runs", "--json")
    assert run.exit_code == 2
    data = json.loads(run.stdout)
    assert [choice["task"] for choice in data["choices"]] == ["org__a-1", "org__b-2"]
    assert [error["path"] for error in data["errors"]] == ["missing"]
    assert "missing: no such file or folder" in run.stderr


def test_standard_output_holds_data_alone(batches: Path) -> None:
    """From any order, hash seed and number of threads the same bytes; what is wrong is on standard error."""
    run = typed("missing", "runs/1", "runs/2", "--json")
    assert run.returncode == 2
    found = json.loads(run.stdout)["choices"]
    assert found == json.loads(cliff("runs/2", "runs/1", "--json").stdout)["choices"]
    assert run.stderr.splitlines() == ["error: missing: no such file or folder"]


def test_an_empty_patch_comes_last(tmp_path: Path) -> None:
    """Whatever its score: a run that was stopped but left a patch may be right, an empty patch never is."""
    patch = PATCH.format(file="a.py", line="new")
    mini_batch(tmp_path / "runs" / "1", {"a": {"patch": ""}, "b": {}})
    mini_batch(tmp_path / "runs" / "2", {"a": {"patch": patch, "status": "LimitsExceeded"}, "b": {}})
    first, second = json.loads(cliff("runs", "--json").stdout)["choices"]
    assert (first["chosen"], first["margin"]) == ("2", None)
    assert first["ranking"][1]["score"] > first["score"]
    assert [ranked["empty"] for ranked in first["ranking"]] == [False, True]
    assert [ranked["empty"] for ranked in second["ranking"]] == [False, False]
    assert "a: 2  score " in cliff("runs").stdout
    assert "the only one of 2 with a patch" in cliff("runs").stdout
    assert "a: 2  score +0.000" in cliff("runs", "--agreement").stdout


def test_names_that_are_no_file_names(tmp_path: Path) -> None:
    tasks = ["..", ".hidden", "a/b", "a_b", "A_b", "preds.json", "x" * 300, "t\nu", "é"]
    jsonl(tmp_path / "r.jsonl", [record(task, "r", mini_terminal()) for task in tasks])
    run = cliff("r.jsonl", "--copy", "best")
    assert run.exit_code == 0, run.stderr
    assert sorted(path.name.lower() for path in (tmp_path / "best").iterdir()) == sorted(
        ["_..", "_.hidden", "a_b", "a_b-2", "a_b-3", "preds.json-2", "x" * 150, "t_u", "_"]
    )
    assert len(cliff("r.jsonl").stdout.splitlines()) == len(tasks) + 1  # a line a group


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    for run in ("r1", "r2"):
        terminal_bench(tmp_path, run, "t", resolved=True, terminal=mini_terminal() if run == "r1" else "unknown")
    run = cliff(tmp_path)
    assert run.exit_code == 0
    assert "exit codes of the last commands not known of every rollout in t: chosen without" in run.stderr


@pytest.mark.parametrize("folder", ["train", "evaluate", " choose"])
@pytest.mark.parametrize("before", [("./{}",), ("--", "{}"), ("--json", "{}")])
def test_a_folder_named_like_a_command(folder: str, before: tuple[str, ...], tmp_path: Path) -> None:
    mini_batch(tmp_path / folder, {"a": {}})
    run = cliff(*(part.format(folder) for part in before))
    assert run.exit_code == 0, run.stderr
    assert '"task": "a"' in run.stdout or "a: " in run.stdout


def test_train_evaluate_and_use(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "study.jsonl", study(tasks=8))
    run = cliff("train", path, "--labels", path, "-o", "m.txt")
    assert run.exit_code == 0, run.stderr
    card = json.loads((tmp_path / "m.card.json").read_text())
    splits = {(split, k) for split in ("other-agent", "other-tasks", "other-both", "new-tasks") for k in (2, 3)}
    assert {(score["split"], score["k"]) for score in card["scores"]} == splits  # measured as `evaluate` does
    assert all(score["share"]["value"] == 1.0 for score in card["scores"])
    run = cliff("evaluate", path, "--json", "-k", "3,2,3", "--split", "new-tasks,other-agent")
    results = json.loads(run.stdout)["results"]
    assert [(r["split"], r["agent"], r["k"]) for r in results] == [
        (split, agent, k) for split in ("other-agent", "new-tasks") for agent in ("one", "two") for k in (3, 2)
    ]
    assert all(r["random"]["value"] <= r["chosen"]["value"] <= r["oracle"]["value"] for r in results)
    assert all(r["dollars"] == pytest.approx(0.055 * r["k"]) for r in results)
    run = cliff("evaluate", path, "--model", "m.txt", "-k", "3")
    assert "trained on 16 of these 16 groups' tasks" in run.stderr
    assert "the given model" in run.stdout
    run = cliff(path, "--model", "m.txt")
    assert run.exit_code == 0
    assert "16 groups, 64 rollouts" in run.stdout


def test_a_model_that_learned_nothing_is_said(tmp_path: Path) -> None:
    for run in ("r1", "r2"):
        terminal_bench(tmp_path / "runs", run, "t", resolved=run == "r1", terminal=mini_terminal())
    run = cliff("train", "runs", "-o", "m.txt", "--no-scores")
    assert run.exit_code == 0
    assert "all rollouts get the same score" in " ".join(run.stderr.split())


def test_ablation(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "study.jsonl", study(tasks=6))
    run = cliff("evaluate", path, "--ablation", "-k", "2", "--split", "other-agent")
    assert run.exit_code == 0, run.stderr
    labels = [line for line in run.stdout.splitlines() if line.startswith("features: ")]
    assert labels == [
        f"features: {label}"
        for label in (
            *("shipped", "all", "without run", "without artifact", "without agreement"),
            *("run alone", "artifact alone", "agreement alone"),
        )
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("train", "runs", "-o", "m.txt"), "no verdicts"),
        (("train", "runs", "--features", "luck", "-o", "m.txt"), "known are shipped, all, done"),
        (("evaluate", "runs", "-k", "1"), "numbers from 2 on"),
        (("evaluate", "runs", "--split", "none"), "known are other-agent"),
        (("runs", "--model", "nothing.txt"), "cannot be read"),
        (("runs", "--model", "m.txt", "--agreement"), "uses no model"),
        (("train",), "Missing argument"),
        (("runs", "--copy", "runs/best"), "lies among the runs"),
        (("evaluate", "runs", "--shipped", "--model", "m.txt"), "--model and --shipped"),
        (("evaluate", "runs", "--shipped", "--ablation"), "--shipped and --ablation"),
        (("evaluate", "runs", "--shipped", "--features", "all"), "--shipped and --features"),
    ],
)
def test_options_that_cannot_be_used(arguments: tuple[str, ...], message: str, batches: Path) -> None:
    run = cliff(*arguments)
    assert run.exit_code == 2
    assert message in " ".join(run.stderr.split())
    assert "Traceback" not in run.stderr


def test_help_without_arguments(tmp_path: Path) -> None:
    run = cliff()
    assert run.exit_code == 0
    assert "cliff select PATH..." in run.stdout


def test_the_variable_of_the_tests_is_known(recwarn: pytest.WarningsRecorder) -> None:
    from cliff_core import CliffConfig

    CliffConfig.from_env({"CLIFF_ROLLOUTS": "/data"})
    assert list(recwarn) == []

"""`cliff select` as people type it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from selector.made import PATCH, jsonl, mini_batch, mini_terminal, study, terminal_bench


def cliff(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cliff_core", "select", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=300)


@pytest.fixture
def batches(tmp_path: Path) -> Path:
    patch = PATCH.format(file="a.py", line="new")
    mini_batch(tmp_path / "runs" / "1", {"org__a-1": {"status": "LimitsExceeded"}, "org__b-2": {"patch": patch}})
    mini_batch(tmp_path / "runs" / "2", {"org__a-1": {"patch": patch}, "org__b-2": {"patch": patch}})
    return tmp_path


def test_choices(batches: Path) -> None:
    run = cliff("runs", cwd=batches)
    assert run.returncode == 0, run.stderr
    first = run.stdout.splitlines()[0]
    assert first.startswith("org__a-1: 2  score ")
    assert "margin" in first
    assert "    done: 1.00, others 0.00 (+" in run.stdout
    assert "2 groups, 4 rollouts" in run.stdout


def test_json(batches: Path) -> None:
    run = cliff("runs/1", "runs/2", "--json", cwd=batches)
    data = json.loads(run.stdout)
    assert data["errors"] == []
    first = data["choices"][0]
    assert (first["task"], first["chosen"]) == ("org__a-1", "2")
    assert first["score"] - first["ranking"][1]["score"] == pytest.approx(first["margin"])
    assert first["reasons"][0]["feature"] == "done"
    assert run.stdout == cliff("runs/2", "runs/1", "--json", cwd=batches).stdout


def test_copy(batches: Path) -> None:
    run = cliff("runs", "--copy", "best", cwd=batches)
    assert run.returncode == 0, run.stderr
    predictions = json.loads((batches / "best" / "preds.json").read_text())
    expected = json.loads((batches / "runs" / "2" / "preds.json").read_text())
    assert predictions["org__a-1"] == expected["org__a-1"]
    assert set(predictions) == {"org__a-1", "org__b-2"}
    assert (batches / "best" / "org__a-1" / "org__a-1.traj.json").is_file()
    again = cliff("runs", "--copy", "best", cwd=batches)
    assert again.returncode == 2
    assert "new or empty" in again.stderr


def test_bad_input_is_said_and_the_rest_is_done(batches: Path) -> None:
    run = cliff("missing", "runs", "--json", cwd=batches)
    assert run.returncode == 2
    data = json.loads(run.stdout)
    assert [choice["task"] for choice in data["choices"]] == ["org__a-1", "org__b-2"]
    assert [error["path"] for error in data["errors"]] == ["missing"]
    assert "missing: no such file or folder" in run.stderr


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    for run in ("r1", "r2"):
        terminal_bench(tmp_path, run, "t", resolved=True, terminal=mini_terminal() if run == "r1" else "unknown")
    run = cliff(tmp_path, cwd=tmp_path)
    assert run.returncode == 0
    assert "exit codes of the last commands not known of every rollout in t: chosen without" in run.stderr


@pytest.mark.parametrize("folder", ["train", "evaluate", " choose"])
@pytest.mark.parametrize("before", [("./{}",), ("--", "{}"), ("--json", "{}")])
def test_a_folder_named_like_a_command(folder: str, before: tuple[str, ...], tmp_path: Path) -> None:
    mini_batch(tmp_path / folder, {"a": {}})
    run = cliff(*(part.format(folder) for part in before), cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert '"task": "a"' in run.stdout or "a: " in run.stdout


def test_train_evaluate_and_use(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "study.jsonl", study())
    run = cliff("train", path, "--labels", path, "-o", "m.txt", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    card = json.loads((tmp_path / "m.card.json").read_text())
    assert card["scores"][0]["share"]["value"] == 1.0
    run = cliff("evaluate", path, "--json", cwd=tmp_path)
    results = json.loads(run.stdout)["results"]
    assert {(r["split"], r["k"]) for r in results} == {
        (split, k) for split in ("other-agent", "other-tasks", "other-both", "new-tasks") for k in (2, 3)
    }
    assert all(r["random"]["value"] <= r["chosen"]["value"] <= r["oracle"]["value"] for r in results)
    assert all(r["dollars"] == pytest.approx(0.055 * r["k"]) for r in results)
    run = cliff("evaluate", path, "--model", "m.txt", "-k", "3", cwd=tmp_path)
    assert "trained on 24 of these 24 groups' tasks" in run.stderr
    assert "the given model" in run.stdout
    run = cliff(path, "--model", "m.txt", cwd=tmp_path)
    assert run.returncode == 0
    assert "24 groups, 96 rollouts" in run.stdout


def test_ablation(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "study.jsonl", study(tasks=6))
    run = cliff("evaluate", path, "--ablation", "-k", "2", "--split", "other-agent", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
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
    ],
)
def test_options_that_cannot_be_used(arguments: tuple[str, ...], message: str, batches: Path) -> None:
    run = cliff(*arguments, cwd=batches)
    assert run.returncode == 2
    assert message in " ".join(run.stderr.split())
    assert "Traceback" not in run.stderr


def test_help_without_arguments(tmp_path: Path) -> None:
    run = cliff(cwd=tmp_path)
    assert run.returncode == 0
    assert "cliff select PATH..." in run.stdout


def test_the_variable_of_the_tests_is_known(recwarn: pytest.WarningsRecorder) -> None:
    from cliff_core import CliffConfig

    CliffConfig.from_env({"CLIFF_ROLLOUTS": "/data"})
    assert list(recwarn) == []

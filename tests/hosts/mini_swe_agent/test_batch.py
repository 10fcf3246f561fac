"""`mini-extra swebench` (two workers) and `swebench-single` with the options of a YAML file, and `programbench`."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from sessions import everything, repository, texts, tool_calls

from kit import ModelServer, Request, Step, checks

STEPS = 42
THRESHOLD = 9_000
INSTANCES = ("first__task-1", "second__task-2", "third__task-3")


class Scripts:
    """The same script for each instance, by the name in its task."""

    def __init__(self, steps: list[Step]) -> None:
        self.steps = steps
        self.taken: Counter[str] = Counter()

    def __call__(self, request: Request) -> Step:
        name = instance(request)
        self.taken[name] += 1
        return self.steps[self.taken[name] - 1]


def instance(request: Request) -> str:
    text = everything(request.messages)
    (name,) = [name for name in INSTANCES if f"task-marker {name}" in text]
    return name


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    folder = tmp_path / "dataset"
    folder.mkdir()
    lines = [
        json.dumps({"instance_id": name, "problem_statement": f"task-marker {name}: mend it.", "repo": "some/repo"})
        for name in INSTANCES
    ]
    (folder / "test.jsonl").write_text("\n".join(lines))
    return folder


def check(requests: list[Request], trajectory: dict[str, Any]) -> None:
    assert len(requests) == STEPS + 1
    cliffs = checks.cliffs_of(requests)
    assert len(cliffs) >= 2
    checks.assert_append_only(requests, cliffs)
    for request in requests:
        checks.assert_paired(request)
    assert trajectory["info"]["exit_status"] == "Submitted"
    assert len(trajectory["info"]["cliff"]["cliffs"]) == len(cliffs)
    assert trajectory["info"]["config"]["model_type"].startswith("minisweagent.models.")
    assert trajectory["info"]["cliff"]["model_class"].startswith("cliff_mini_swe_agent.Cliff")


@pytest.mark.parametrize(
    ("config", "model_class"), [("swebench.yaml", "litellm"), ("swebench_backticks.yaml", "litellm_textbased")]
)
def test_batch(config: str, model_class: str, dataset: Path, command_line: Any, tmp_path: Path) -> None:
    own = tmp_path / "cliff.yaml"
    own.write_text(
        f"model:\n  model_class: cliff_mini_swe_agent.{model_class}\n  cliff:\n    threshold_tokens: {THRESHOLD}\n"
    )
    script = Scripts(texts(STEPS) if "textbased" in model_class else tool_calls(STEPS))
    with ModelServer(script) as server:
        run = command_line(
            *("mini-extra", "swebench", "--subset", dataset, "--split", "test", "-w", "2", "-o", tmp_path / "out"),
            *("-m", "openai/scripted", "--environment-class", "local"),
            *("-c", config, "-c", own, "-c", f"environment.cwd={repository(tmp_path / 'repository')}"),
            cwd=tmp_path,
            env=server.env(),
        )
    assert run.status == 0, run.output[-3000:]
    assert not server.problems
    for name in INSTANCES:
        trajectory = json.loads((tmp_path / "out" / name / f"{name}.traj.json").read_text())
        check([r for r in server.requests if instance(r) == name], trajectory)
    log = (tmp_path / "out" / "minisweagent.log").read_text()
    assert log.count("minisweagent.cliff - INFO - cliff is on: threshold 9000 tokens, preset default") == len(INSTANCES)
    assert log.count("minisweagent.cliff - INFO - cliff 1: ") == len(INSTANCES)
    assert set(json.loads((tmp_path / "out" / "preds.json").read_text())) == set(INSTANCES)


def test_single(dataset: Path, command_line: Any, tmp_path: Path) -> None:
    with ModelServer(tool_calls(STEPS)) as server:
        run = command_line(
            *("mini-extra", "swebench-single", "--subset", dataset, "--split", "test", "-i", "1", "-y"),
            *("-m", "openai/scripted", "--model-class", "cliff_mini_swe_agent.litellm", "--environment-class", "local"),
            *("--exit-immediately", "-o", tmp_path / "single.json", "-c", "swebench.yaml"),
            *("-c", f"model.cliff.threshold_tokens={THRESHOLD}"),
            *("-c", f"environment.cwd={repository(tmp_path / 'repository')}"),
            cwd=tmp_path,
            env=server.env(),
        )
    assert run.status == 0, run.output[-3000:]
    check(server.requests, json.loads((tmp_path / "single.json").read_text()))


def test_a_failed_import_is_told(dataset: Path, command_line: Any, tmp_path: Path) -> None:
    run = command_line(
        *("mini", "-m", "openai/scripted", "--model-class", "cliff_mini_swe_agent.Model", "-t", "x", "-y"),
        *("-c", "mini.yaml", "-c", "model.cliff_inner=no.such.module.Class"),
        cwd=tmp_path,
        env={},
    )
    assert run.status == 1
    assert "cannot import the model class no.such.module.Class: No module named 'no'" in " ".join(run.output.split())


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("model.cliff.treshold_tokens=9000", "unknown option 'treshold_tokens'; did you mean threshold_tokens?"),
        (
            "model.cliff.threshold_tokens=many",
            """threshold_tokens must be a whole number of at least 1, or "auto", not 'many'""",
        ),
        ("model.cliff.preset=papper", "preset must be one of default, paper, not 'papper'; did you mean 'paper'?"),
        ("model.cliff=9000", "model.cliff must be a mapping of options such as threshold_tokens, not 9000"),
    ],
)
def test_a_wrong_option_is_told_before_the_first_call(
    option: str, message: str, command_line: Any, tmp_path: Path
) -> None:
    with ModelServer([]) as server:
        run = command_line(
            *("mini", "-m", "openai/scripted", "--model-class", "cliff_mini_swe_agent.litellm", "-t", "x", "-y"),
            *("-c", "mini.yaml", "-c", option),
            cwd=tmp_path,
            env=server.env(),
        )
    assert run.status == 1
    assert message in " ".join(run.output.split())
    assert not server.requests


def test_the_environment_overrides_the_file(command_line: Any, tmp_path: Path) -> None:
    with ModelServer(tool_calls(2)) as server:
        run = command_line(
            *("mini", "-m", "openai/scripted", "--model-class", "cliff_mini_swe_agent.litellm", "-t", "x", "-y"),
            *("-c", "mini.yaml", "-c", "model.cliff.threshold_tokens=9000", "--exit-immediately"),
            *("-o", tmp_path / "o.json"),
            cwd=repository(tmp_path / "repository", files=3),
            env=server.env() | {"CLIFF_THRESHOLD_TOKENS": "7000", "CLIFF_PRESET": "paper"},
        )
    assert run.status == 0, run.output[-3000:]
    assert "threshold 7000 tokens, preset paper" in " ".join(run.output.split())

"""Readers of what hosts leave, and groups."""

import gzip
import json
from pathlib import Path

import pytest

from cliff_select import labels, read
from cliff_select.rollouts import Group
from selector.made import PATCH, harbor, jsonl, mini_batch, mini_terminal, record, terminal_bench


def only(groups: list[Group]) -> Group:
    (group,) = groups
    return group


def test_mini_swe_agent_batches(tmp_path: Path) -> None:
    patch = PATCH.format(file="a.py", line="new")
    for run in ("1", "2"):
        mini_batch(tmp_path / run, {"org__repo-12345": {"patch": patch, "steps": 3, "code": 1}, "org__repo-2": {}})
    groups, problems = read([tmp_path / "1", tmp_path / "2"])
    assert problems == []
    assert [group.task for group in groups] == ["org__repo-12345", "org__repo-2"]
    first = groups[0].rollouts[0]
    assert [rollout.run for rollout in groups[0].rollouts] == ["1", "2"]
    assert (first.ended, first.steps, first.seconds, first.failed, first.patch) == ("done", 3, 20.0, 3, patch)
    assert (first.calls, first.tokens) == ({"run": 3}, 333)
    assert first.prediction is not None
    assert first.prediction["instance_id"] == "org__repo-12345"
    assert [group.task for group in read([tmp_path])[0]] == [group.task for group in groups]


def test_a_prediction_without_a_trajectory_is_a_rollout(tmp_path: Path) -> None:
    mini_batch(tmp_path / "1", {"a": {}})
    (tmp_path / "1" / "a" / "a.traj.json").unlink()
    rollout = only(read([tmp_path])[0]).rollouts[0]
    assert (rollout.patch, rollout.steps, rollout.text) == ("", None, None)


@pytest.mark.parametrize(
    ("status", "ended"), [("Submitted", "done"), ("LimitsExceeded", "limit"), ("ValueError", "error")]
)
def test_exit_status(status: str, ended: str, tmp_path: Path) -> None:
    mini_batch(tmp_path / "1", {"a": {"status": status}})
    assert only(read([tmp_path])[0]).rollouts[0].ended == ended


def test_terminal_bench(tmp_path: Path) -> None:
    for run in ("r1", "r2"):
        terminal_bench(tmp_path, run, "tally", resolved=run == "r1", terminal=mini_terminal(steps=4))
    groups, problems = read([tmp_path])
    assert problems == []
    group = only(groups)
    assert (group.task, [r.run for r in group.rollouts]) == ("tally", ["r1/tally.1-of-1.r1", "r2/tally.1-of-1.r2"])
    first = group.rollouts[0]
    assert (first.ended, first.steps, first.seconds, first.tokens) == ("done", 4, 100.0, 1010)
    assert labels.of(group, labels.read([tmp_path])) == [True, False]


@pytest.mark.parametrize("failure", ["test_timeout", "parse_error", "unset"])
def test_what_came_after_the_run_makes_no_difference(failure: str, tmp_path: Path) -> None:
    """The verdict, the test's output and the failures of the tests are not seen."""
    for name, resolved, mode in (("a", True, "unset"), ("b", False, failure)):
        terminal_bench(tmp_path / name, "r", "tally", resolved=resolved, failure=mode, terminal="a strange screen")
    one, other = (only(read([tmp_path / name])[0]).rollouts[0] for name in ("a", "b"))
    assert (one.ended, one.text, one.failed, one.seconds) == (other.ended, other.text, other.failed, other.seconds)
    assert "VERDICT" not in repr(one) + repr(other)
    lines = [record("t", "1", None, failure=mode, resolved=good) for mode, good in (("unset", True), (failure, False))]
    one, other = (only(read([jsonl(tmp_path / f"{i}.jsonl", [line])])[0]).rollouts[0] for i, line in enumerate(lines))
    assert one.ended == other.ended is None


def test_a_timeout_of_the_agent_is_seen(tmp_path: Path) -> None:
    terminal_bench(tmp_path, "r", "tally", resolved=False, failure="agent_timeout", terminal="a strange screen")
    assert only(read([tmp_path])[0]).rollouts[0].ended == "cut"


def test_harbor(tmp_path: Path) -> None:
    harbor(tmp_path / "job", "tally", "tally__a", reward=1.0)
    harbor(tmp_path / "job", "tally", "tally__b", reward=0.0, exception="AgentTimeoutError")
    harbor(tmp_path / "job", "tally", "tally__c", reward=0.0, exception="VerifierTimeoutError")
    groups, problems = read([tmp_path])
    assert problems == []
    group = only(groups)
    assert [r.ended for r in group.rollouts] == ["done", "cut", "done"]
    assert [r.run for r in group.rollouts] == ["job/tally__a", "job/tally__b", "job/tally__c"]
    first = group.rollouts[0]
    assert (first.seconds, first.dollars, first.steps, first.tokens) == (30.0, 0.25, 1, 100)
    assert labels.of(group, labels.read([tmp_path])) == [True, False, False]


def test_a_plain_folder_with_patches_beside(tmp_path: Path) -> None:
    from selector.made import mini_trajectory

    for run in ("first", "second"):
        (tmp_path / run).mkdir()
        (tmp_path / run / "task-1.traj.json").write_text(json.dumps(mini_trajectory()))
        (tmp_path / run / "task-1.patch").write_text(PATCH.format(file="a", line=run))
        (tmp_path / run / "notes.txt").write_text("no session")
    group = only(read([tmp_path])[0])
    assert (group.task, [r.run for r in group.rollouts]) == ("task-1", ["first", "second"])
    assert [("+second" in (r.patch or "")) for r in group.rollouts] == [False, True]


@pytest.mark.parametrize(
    ("names", "task"),
    [
        (("a.1.json", "a.2.json"), "a"),
        (("a-run1.json", "a-run2.json"), "a"),
        (("a_attempt_1.traj.json", "a_attempt_2.traj.json"), "a"),
        (("1.json", "2.json"), "folder"),
        (("run-1.json", "run-2.json"), "folder"),
    ],
)
def test_the_run_in_a_file_name(names: tuple[str, ...], task: str, tmp_path: Path) -> None:
    from selector.made import mini_trajectory

    (tmp_path / "folder").mkdir()
    for name in names:
        (tmp_path / "folder" / name).write_text(json.dumps(mini_trajectory()))
    group = only(read([tmp_path / "folder"])[0])
    assert (group.task, len(group.rollouts)) == (task, 2)


def test_a_number_that_is_part_of_a_name_is_no_run(tmp_path: Path) -> None:
    from selector.made import mini_trajectory

    for name in ("django__django-11", "django__django-12"):
        (tmp_path / f"{name}.traj.json").write_text(json.dumps(mini_trajectory()))
    assert [group.task for group in read([tmp_path])[0]] == ["django__django-11", "django__django-12"]


def test_published_rollouts_are_grouped_by_agent(tmp_path: Path) -> None:
    lines = [record("t", f"r{run}", mini_terminal(), agent=agent) for agent in ("x", "y") for run in (1, 2)]
    path = tmp_path / "r.jsonl.gz"
    path.write_bytes(gzip.compress("\n".join(json.dumps(line) for line in lines).encode()))
    assert [(g.agent, len(g.rollouts)) for g in read([path])[0]] == [("x", 2), ("y", 2)]


def test_a_trial_that_is_there_twice_counts_once(tmp_path: Path) -> None:
    lines = [record("t", "r1", "", trial="same"), record("t", "r2", mini_terminal(steps=9), trial="same")]
    for order in (lines, lines[::-1]):
        (rollout,) = only(read([jsonl(tmp_path / "r.jsonl", order)])[0]).rollouts
        assert (rollout.run, rollout.steps) == ("r2", 9)


def test_runs_of_the_same_name_get_their_path(tmp_path: Path) -> None:
    for place in ("x", "y"):
        mini_batch(tmp_path / place / "out", {"a": {}})
    names = [r.run for r in only(read([tmp_path / "x" / "out", tmp_path / "y" / "out"])[0]).rollouts]
    assert names == ["x", "y"]


def test_runs_of_the_same_name_in_one_file_get_a_number(tmp_path: Path) -> None:
    lines = [record("t", "r", mini_terminal(steps=n), trial=str(n)) for n in (3, 4, 5)]
    group = only(read([jsonl(tmp_path / "r.jsonl", lines)])[0])
    assert [(r.run, r.steps) for r in group.rollouts] == [("r", 3), ("r#2", 4), ("r#3", 5)]


def test_what_cannot_be_read_is_said_and_the_rest_is_read(tmp_path: Path) -> None:
    mini_batch(tmp_path / "1", {"a": {}, "b": {}})
    (tmp_path / "1" / "b" / "b.traj.json").write_text('{"info": {}, "messages": [')
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad.jsonl").write_text('{"task": "t", "terminal": "x"}\nno JSON\n')
    groups, problems = read([tmp_path / "1", tmp_path / "empty", tmp_path / "missing", tmp_path / "bad.jsonl"])
    assert [group.task for group in groups] == ["a", "b"]  # b by its patch
    assert [problem.path.name for problem in problems] == ["b.traj.json", "empty", "missing", "bad.jsonl"]
    assert "line 2" in problems[-1].text


@pytest.mark.parametrize("data", ["[" * 100_000, "[]", "\ufeff", '{"a": null}', '{"a": {"model_patch": 5}}'])
def test_predictions_that_are_none(data: str, tmp_path: Path) -> None:
    (tmp_path / "preds.json").write_text(data)
    groups, (problem,) = read([tmp_path])
    assert groups == []
    assert "preds.json" in problem.text


@pytest.mark.parametrize("name", [None, "", ["n"], {"a": 1}])
def test_a_trial_without_a_name_is_said(name: object, tmp_path: Path) -> None:
    for folder, task in (("tb", "task_id"), ("hb", "task_name")):
        (tmp_path / folder).mkdir()
        file = tmp_path / folder / ("results.json" if folder == "tb" else "result.json")
        file.write_text(json.dumps({"trial_name": "n", task: name}))
    groups, problems = read([tmp_path])
    assert groups == []
    assert [problem.path.parent.name for problem in problems] == ["hb", "tb"]


@pytest.mark.parametrize("count", ["NaN", "1e999", "-Infinity", '"5"', "true", "1" + "0" * 400])
def test_figures_that_are_none_are_not_known(count: str, tmp_path: Path) -> None:
    trial = harbor(tmp_path / "job", "t", "t__a", reward=1.0)
    text = (trial / "result.json").read_text().replace("0.25", count).replace(": 100", f": {count}")
    (trial / "result.json").write_text(text)
    (trial / "agent" / "trajectory.json").unlink()
    rollout = only(read([tmp_path])[0]).rollouts[0]
    assert (rollout.tokens, rollout.dollars) == (5, None)


def test_a_session_that_broke_off_is_said_and_other_files_are_not(tmp_path: Path) -> None:
    from selector.made import mini_trajectory

    whole = json.dumps(mini_trajectory())
    for name, text in (("a.1.json", whole), ("a.2.json", whole[:300]), ("settings.json", "{}"), ("README.md", "hi")):
        (tmp_path / name).write_text(text)
    groups, problems = read([tmp_path])
    assert [r.run for r in only(groups).rollouts] == ["a.1"]
    assert [problem.path.name for problem in problems] == ["a.2.json"]


def test_a_packed_file_that_is_broken_is_said(tmp_path: Path) -> None:
    whole = gzip.compress(json.dumps(record("t", "r", mini_terminal() * 50)).encode())
    for name, data in (("cut.jsonl.gz", whole[:-20]), ("bad.jsonl.gz", whole[:60] + b"\x00" * 40 + whole[100:])):
        (tmp_path / name).write_bytes(data)
        groups, (problem,) = read([tmp_path / name])
        assert (groups, problem.path.name) == ([], name)


def test_a_submission_that_is_no_patch_is_none(tmp_path: Path) -> None:
    from selector.made import mini_trajectory

    for run, submission in (("1", PATCH.format(file="a", line="new")), ("2", "All done.")):
        (tmp_path / f"a.{run}.traj.json").write_text(json.dumps(mini_trajectory(patch=submission)))
    assert [r.patch is not None for r in only(read([tmp_path])[0]).rollouts] == [True, False]


def test_verdicts_of_trials_with_the_same_name(tmp_path: Path) -> None:
    """They go by folder: the names that such runs get are not the host's."""
    for place, resolved in (("x", True), ("y", False)):
        terminal_bench(tmp_path / place / "out", "r", "t", resolved=resolved, terminal=mini_terminal())
    paths = [tmp_path / "x" / "out", tmp_path / "y" / "out"]
    assert labels.of(only(read(paths)[0]), labels.read(paths)) == [True, False]


def test_verdicts_that_differ(tmp_path: Path) -> None:
    lines = [{"task": "t", "run": "r", "resolved": resolved} for resolved in (True, False)]
    with pytest.raises(labels.LabelError, match="differ on t r"):
        labels.read([jsonl(tmp_path / "l.jsonl", lines)])


def test_verdicts_of_published_rollouts_go_by_trial(tmp_path: Path) -> None:
    """A run with two trials of a task, one of them a copy of that of another run."""
    lines = [
        record("t", "first", mini_terminal(steps=3), trial="a", resolved=True),
        record("t", "last", "", trial="a", resolved=True),
        record("t", "last", mini_terminal(steps=5), trial="b", resolved=False),
        record("t", "last", mini_terminal(steps=6), trial="c", resolved=True),
    ]
    for order in (lines, lines[::-1]):
        path = jsonl(tmp_path / "r.jsonl", order)
        group = only(read([path])[0])
        verdicts = labels.of(group, labels.read([path]))
        assert {r.trial: v for r, v in zip(group.rollouts, verdicts, strict=True)} == {"a": True, "b": False, "c": True}


def test_an_empty_verdict_is_none(tmp_path: Path) -> None:
    (tmp_path / "l.csv").write_text("\ufefftask,run,resolved\na,1,\na,2,no\n")
    lines = [{"task": "a", "run": "3", "resolved": None}, {"task": "a", "run": "4", "resolved": True}]
    found = labels.read([tmp_path / "l.csv", jsonl(tmp_path / "l.jsonl", lines)])
    assert found == {("", "a", "2"): False, ("", "a", "4"): True}


def test_labels_as_csv(tmp_path: Path) -> None:
    (tmp_path / "l.csv").write_text("task,run,resolved\na,1,true\na,2,0\n")
    mini_batch(tmp_path / "1", {"a": {}})
    mini_batch(tmp_path / "2", {"a": {}})
    mini_batch(tmp_path / "3", {"a": {}})
    group = only(read([tmp_path / "1", tmp_path / "2", tmp_path / "3"])[0])
    assert labels.of(group, labels.read([tmp_path / "l.csv"])) == [True, False, None]


@pytest.mark.parametrize("text", ["task,run\na,1\n", "task,run,resolved\na,1,perhaps\n"])
def test_labels_that_are_none(text: str, tmp_path: Path) -> None:
    (tmp_path / "l.csv").write_text(text)
    with pytest.raises(labels.LabelError, match="resolved"):
        labels.read([tmp_path / "l.csv"])


def test_a_result_that_broke_off_is_said(tmp_path: Path) -> None:
    trial = terminal_bench(tmp_path, "r1", "tally", resolved=True, terminal=mini_terminal())
    terminal_bench(tmp_path, "r2", "tally", resolved=True, terminal=mini_terminal())
    (trial / "results.json").write_text('{"trial_name": "t')
    groups, problems = read([tmp_path])
    assert [r.run for r in only(groups).rollouts] == ["r2/tally.1-of-1.r2"]
    (problem,) = problems
    assert "broke off" in problem.text


def test_a_path_given_twice_counts_once(tmp_path: Path) -> None:
    mini_batch(tmp_path / "1", {"a": {}})
    said: list[str] = []
    groups, _ = read([tmp_path / "1", tmp_path / "1" / ".." / "1"], note=said.append)
    assert len(only(groups).rollouts) == 1
    assert "given twice" in said[0]


@pytest.mark.parametrize(("last", "ended"), [("finish", "done"), ("bash", None), (None, "done")])
def test_how_other_sessions_end(last: str | None, ended: str | None, tmp_path: Path) -> None:
    """Requests and answers in the form of an API: done is who says so, or who asks for nothing more."""
    call = {"id": "c", "type": "function", "function": {"name": last, "arguments": "{}"}}
    answer = {"role": "assistant", "content": "So.", **({"tool_calls": [call]} if last else {})}
    request = {"model": "m", "messages": [{"role": "user", "content": "Do it."}]}
    (tmp_path / "t.jsonl").write_text(json.dumps({"request": request, "response": {"choices": [{"message": answer}]}}))
    (rollout,) = only(read([tmp_path / "t.jsonl"])[0]).rollouts
    assert (rollout.ended, rollout.steps, rollout.closing is not None) == (ended, 1, True)

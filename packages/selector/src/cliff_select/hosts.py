"""What hosts leave of a run, one reader a layout. A layout is known by what its files hold.

| layout | a rollout is | read of it |
|---|---|---|
| mini-swe-agent batch | a folder beside `preds.json` | `INSTANCE.traj.json`, its entry of `preds.json` |
| terminal-bench run | `RUN/TASK/TRIAL/results.json` | times and tokens, `panes/post-agent.txt`, `agent-logs` |
| Harbor job | `JOB/TRIAL/result.json` | times and tokens, `agent/trajectory.json`, `agent/*` |
| published rollouts | a line of a JSONL file with `task` and `terminal` | the line, but for its verdict |
| anything else | a session that `cliff_core.traces` reads | it, and a patch beside it |
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from cliff_core import traces
from cliff_select import jsons, sessions, terminal
from cliff_select.rollouts import Problem, Rollout
from cliff_select.terminal import Ended

Found = Iterator[Rollout | Problem]

PATCHES = (".patch", ".diff")

_AGENT_FAILURES: dict[str, Ended] = {
    "agent_timeout": "cut",
    "context_length_exceeded": "limit",
    "output_length_exceeded": "limit",
    "fatal_llm_parse_error": "error",
    "unknown_agent_error": "error",
    "agent_installation_failed": "error",
}
"""terminal-bench's failure modes that are of the agent's run. Any other (`test_timeout`, `parse_error`) is of the
tests after it and is not looked at: it is as good as the verdict."""

_MARKED_RUN = re.compile(r"(?:\.\d{1,3}|[._-]+(?:run|attempt|trial|rollout)[._-]?\d+)$")
_ONLY_RUN = re.compile(r"(?:run|attempt|trial|rollout)?[._-]?\d{1,3}")
_AFTERWARDS = re.compile(r"Verif|Reward|Test", re.IGNORECASE)
"""Exceptions of Harbor by name that come after the agent's run."""


def of(folder: Path, names: list[str]) -> Callable[[Path, Path, bool], Found] | None:
    """The reader of a folder with these files; None: it is none of a known layout, or holds such folders."""
    if "preds.json" in names:
        return mini_batch
    for name, keys, reader in (
        ("results.json", {"trial_name", "task_id"}, terminal_bench),
        ("result.json", {"trial_name", "task_name"}, harbor),
    ):
        if name in names:
            found = _keys(folder / name)
            if found is None:
                return _broken
            if keys <= found:
                return reader
    return None


def is_overview(folder: Path, names: list[str]) -> bool:
    """Whether a folder is that of a whole terminal-bench run or Harbor job: the rollouts are further down."""
    return any(
        name in names and keys & (_keys(folder / name) or set())
        for name, keys in (
            ("results.json", {"pass_at_k", "n_resolved"}),
            ("run_metadata.json", {"run_id"}),
            ("result.json", {"n_total_trials", "stats"}),
        )
    )


def file(path: Path, root: Path, costs: bool) -> Found:
    """A file that was named: published rollouts, or a session."""
    if is_published(path):
        yield from published(path)
    else:
        yield from _sessions([path], root, costs)


# --- published rollouts ----------------------------------------------------------------------------------


def is_published(path: Path) -> bool:
    try:
        first = next(jsons.records(path), {})
    except (OSError, ValueError):
        return False
    return "task" in first and "terminal" in first


def published(path: Path) -> Found:
    """A trial that is there twice counts once: the one whose terminal is known."""
    try:
        lines: dict[tuple[str, str, str], dict[str, Any]] = {}
        for number, record in enumerate(jsons.records(path), 1):
            if not _named(record, "task"):
                raise ValueError(f"record {number}: `task` is missing")
            trial = str(record.get("trial") or record.get("run") or number)
            key = (str(record.get("agent") or ""), record["task"], trial)
            if key not in lines or (record.get("terminal") and not lines[key].get("terminal")):
                lines[key] = record
    except (OSError, ValueError) as error:
        yield Problem(path, f"{path}: expected rollouts, one JSON object a line; {error}")
        return
    for (agent, task, trial), record in lines.items():
        seconds = _between(record.get("started"), record.get("ended"))
        failure = str(record.get("failure") or "")
        yield from _with_screen(
            Rollout(
                task,
                str(record.get("run") or trial),
                path,
                True,
                agent,
                trial,
                seconds=seconds,
                ended=_AGENT_FAILURES.get(failure),
            ),
            record.get("terminal"),
        )


def _with_screen(rollout: Rollout, text: Any) -> Iterator[Rollout]:
    """With what the terminal tells, which is more than the harness knows."""
    if not isinstance(text, str) or not text.strip():
        yield rollout
        return
    yield sessions.with_screen(rollout, terminal.read(text))


# --- mini-swe-agent --------------------------------------------------------------------------------------


def mini_batch(folder: Path, root: Path, costs: bool) -> Found:
    """Output of `mini-extra swebench`: an instance is a task, the folder the run."""
    try:
        predictions = jsons.load(folder / "preds.json")
        if not isinstance(predictions, dict):
            raise ValueError("an object expected")
    except (OSError, ValueError) as error:
        yield Problem(folder / "preds.json", f"{folder / 'preds.json'}: expected predictions by instance; {error}")
        predictions = {}
    run = _label(folder, root)
    trajectories = {path.name.removesuffix(".traj.json"): path for path in sorted(folder.glob("*/*.traj.json"))}
    for task in sorted({*predictions, *trajectories}):
        entry = predictions.get(task)
        prediction = entry if isinstance(entry, dict) else {}
        patch = prediction.get("model_patch")
        path = trajectories.get(task)
        if path is None and not isinstance(patch, str):
            yield Problem(folder / "preds.json", f"{folder / 'preds.json'}: `model_patch` of {task} is missing")
            continue
        rollout = Rollout(
            task,
            run,
            path or folder / "preds.json",
            path is None,
            patch=patch if isinstance(patch, str) else None,
            prediction=prediction or None,
        )
        yield from _with_session(rollout, path, costs)


# --- terminal-bench --------------------------------------------------------------------------------------


def terminal_bench(folder: Path, root: Path, costs: bool) -> Found:
    """A trial: `is_resolved`, `parser_results` and `post-test.txt` are not looked at."""
    result = _object(folder / "results.json")
    if not _named(result, "task_id", "trial_name"):
        yield from _broken(folder, root, costs)
        return
    pane = folder / "panes" / "post-agent.txt"
    rollout = Rollout(
        result["task_id"],
        _label(folder.parent.parent, root) + "/" + result["trial_name"],
        folder,
        seconds=_between(result.get("agent_started_at"), result.get("agent_ended_at")),
        ended=_AGENT_FAILURES.get(str(result.get("failure_mode")), "done"),
        tokens=_sum(result.get("total_input_tokens"), result.get("total_output_tokens")),
        steps=len(list((folder / "agent-logs").glob("episode-*"))) or None,
    )
    log = next(iter(sorted((folder / "agent-logs").glob("*.traj.json"))), None)
    if log is not None:
        yield from _with_session(rollout, log, costs)
        return
    text = terminal.plain(pane.read_text(errors="replace")) if pane.is_file() else None
    yield from _with_screen(rollout, text)


# --- Harbor ----------------------------------------------------------------------------------------------


def harbor(folder: Path, root: Path, costs: bool) -> Found:
    """A trial: `verifier_result` and the folder `verifier` are not looked at."""
    result = _object(folder / "result.json")
    if not _named(result, "task_name", "trial_name"):
        yield from _broken(folder, root, costs)
        return
    context = result.get("agent_result")
    context = context if isinstance(context, dict) else {}
    execution = result.get("agent_execution")
    execution = execution if isinstance(execution, dict) else {}
    rollout = Rollout(
        result["task_name"],
        _label(folder.parent, root) + "/" + result["trial_name"],
        folder,
        seconds=_between(execution.get("started_at"), execution.get("finished_at")),
        ended=_harbor_end(result.get("exception_info")),
        tokens=_sum(context.get("n_input_tokens"), context.get("n_output_tokens")),
        dollars=jsons.number(context.get("cost_usd")),
    )
    agent = folder / "agent"
    for pattern in ("trajectory.json", "*.traj.json"):
        for path in sorted(agent.glob(pattern)):
            yield from _with_session(rollout, path, costs)
            return
    logs = [path for pattern in ("*.pane", "*.txt", "*.log") for path in sorted(agent.glob(pattern))]
    text = terminal.plain(logs[0].read_text(errors="replace")) if logs else None
    yield from _with_screen(rollout, text)


def _harbor_end(exception: Any) -> Ended:
    kind = str(exception.get("exception_type") or "") if isinstance(exception, dict) else ""
    if not kind or _AFTERWARDS.search(kind):
        return "done"
    return "cut" if "Timeout" in kind or "Cancelled" in kind else "error"


# --- plain folders ---------------------------------------------------------------------------------------


def plain(folders: list[Path], root: Path, costs: bool) -> Found:
    """Sessions in folders of no known layout, and files of published rollouts among them."""
    files = []
    for folder in folders:
        for path in sorted(child for child in folder.iterdir() if child.is_file()):
            if ".jsonl" in path.suffixes and is_published(path):
                yield from published(path)
            elif path.suffix not in PATCHES and path.name != "run_metadata.json":
                files.append(path)
    yield from _sessions(files, root, costs)


def _sessions(files: list[Path], root: Path, costs: bool) -> Found:
    """A session's task is its file's name without endings and without a mark of the run (`.1`, `_run2`,
    `-attempt3`). Where nothing else is in the name, the task is the folder's."""
    for path in files:
        if len(files) > 1 and not _is_session(path):
            continue
        stem = _stem(path)
        marked = _MARKED_RUN.search(stem)
        if _ONLY_RUN.fullmatch(stem):
            rollout = Rollout(path.parent.absolute().name, stem, path)
        elif marked is not None and marked.start():
            rollout = Rollout(stem[: marked.start()], stem, path)
        else:
            rollout = Rollout(stem, _label(path.parent, root), path)
        patch = next((p for ending in PATCHES for p in [path.with_name(stem + ending)] if p.is_file()), None)
        if patch is not None:
            rollout = replace(rollout, patch=patch.read_text(errors="replace"))
        yield from _with_session(rollout, path, costs)


def _is_session(path: Path) -> bool:
    """Files of a folder that are no session are left out without a word, unless they have a session's name or are
    JSON that broke off: reading those says what is wrong."""
    try:
        traces.find(path)
    except traces.TraceError:
        return path.name.endswith((".traj.json", ".traj", ".trajectory.json")) or _broke_off(path)
    return True


def _broke_off(path: Path) -> bool:
    try:
        if path.suffix == ".json":
            jsons.load(path)
        elif path.suffix == ".jsonl":
            for _ in jsons.records(path):
                pass
    except (OSError, ValueError):
        return True
    return False


# --- shared ----------------------------------------------------------------------------------------------


def _with_session(rollout: Rollout, path: Path | None, costs: bool) -> Found:
    if path is None:
        yield rollout
        return
    try:
        for session in traces.read(path):
            yield sessions.with_session(rollout, session, path, costs)
            return
        yield Problem(path, f"{path}: there is no session in this file")
    except traces.TraceError as error:
        yield Problem(path, str(error))
        if rollout.patch is not None or rollout.seconds is not None:
            yield rollout


def _label(folder: Path, root: Path) -> str:
    """A folder as seen from the path that was given."""
    try:
        inside = folder.relative_to(root)
    except ValueError:
        return folder.name
    return inside.as_posix() if inside.parts else root.absolute().name


def _stem(path: Path) -> str:
    name = path.name
    for ending in (".gz", ".json", ".jsonl", ".traj", ".trajectory", ".session"):
        name = name.removesuffix(ending)
    return name


def _object(path: Path) -> dict[str, Any]:
    found = jsons.load(path)
    return found if isinstance(found, dict) else {}


def _named(record: dict[str, Any], *keys: str) -> bool:
    return all(isinstance(record.get(key), str) and record[key] for key in keys)


def _keys(path: Path) -> set[str] | None:
    """None: it cannot be read."""
    try:
        return set(_object(path))
    except (OSError, ValueError):
        return None


def _broken(folder: Path, root: Path, costs: bool) -> Found:
    for name in ("results.json", "result.json"):
        if (folder / name).is_file():
            yield Problem(folder / name, f"{folder / name}: expected the result of a trial; it names none or broke off")


def _between(start: Any, end: Any) -> float | None:
    """Seconds between two ISO times."""
    try:
        seconds = (datetime.fromisoformat(str(end)) - datetime.fromisoformat(str(start))).total_seconds()
    except (ValueError, TypeError):
        return None
    return seconds if seconds >= 0 else None


def _sum(*values: Any) -> int | None:
    return int(sum(number for value in values if (number := jsons.number(value)) is not None)) or None

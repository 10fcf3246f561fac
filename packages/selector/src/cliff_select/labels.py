"""Verdicts, for training and evaluation alone: no feature is made of anything here.

From a file (CSV or JSONL with `task`, `run`, `resolved` and, where there are several, `agent`), or from what the
benchmark wrote: terminal-bench's `is_resolved`, Harbor's reward.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cliff_select import hosts, jsons
from cliff_select.rollouts import Group

Key = tuple[str, str, str] | Path
"""Agent, task and run, or the folder of a trial."""
Labels = Mapping[Key, bool]

_TRUE = ("true", "1", "yes")
_FALSE = ("false", "0", "no")


class LabelError(Exception):
    """The verdicts cannot be read; the text says what to do."""


def read(paths: Sequence[Path]) -> dict[Key, bool]:
    """The verdicts of all paths. Folders: those of terminal-bench runs and Harbor jobs. LabelError otherwise."""
    found: dict[Key, bool] = {}
    for path in paths:
        for key, verdict in _folder(path).items() if path.is_dir() else _file(path):
            if found.setdefault(key, verdict) != verdict:
                run = key if isinstance(key, Path) else " ".join(key).strip()
                raise LabelError(f"{path}: two verdicts that differ on {run}; give each run a name of its own")
    if not found:
        raise LabelError(f"{', '.join(str(path) for path in paths)}: no verdicts in there; give --labels FILE")
    return found


def of(group: Group, labels: Labels) -> list[bool | None]:
    """The verdict on each rollout; None: there is none. A file without agents holds for all."""
    found = []
    for rollout in group.rollouts:
        agent, task, run = rollout.agent, rollout.task, rollout.run
        keys: tuple[Key, ...] = (
            (agent, task, rollout.trial or run),
            (agent, task, run),
            ("", task, run),
            rollout.source.resolve(),
        )
        found.append(next((labels[key] for key in keys if key in labels), None))
    return found


def _file(path: Path) -> list[tuple[Key, bool]]:
    try:
        if path.suffix == ".csv":
            with path.open(encoding="utf-8-sig", newline="") as stream:  # spreadsheets put a mark at the beginning
                records: list[Mapping[str, Any]] = list(csv.DictReader(stream))
        else:
            records = list(jsons.records(path))
        return [
            ((str(record.get("agent") or ""), str(record["task"]), _run(record)), verdict)
            for record in records
            if (verdict := _verdict(record["resolved"])) is not None
        ]
    except KeyError as error:
        raise LabelError(f"{path}: {error} is missing; each record needs `task`, `run` and `resolved`") from None
    except (OSError, ValueError, csv.Error) as error:
        raise LabelError(f"{path}: expected verdicts as CSV or JSONL with `task`, `run`, `resolved`; {error}") from None


def _run(record: Mapping[str, Any]) -> str:
    """Published rollouts go by their trial: a run may hold several of a task, and one may stand in two runs."""
    return str(("terminal" in record and record.get("trial")) or record["run"])


def _verdict(value: Any) -> bool | None:
    """None: an empty field is no verdict."""
    text = "" if value is None else str(value).strip().lower()
    if not text:
        return None
    if text not in _TRUE + _FALSE:
        raise ValueError(f"`resolved` is true or false, not {value!r}")
    return text in _TRUE


def _folder(path: Path) -> dict[Key, bool]:
    found: dict[Key, bool] = {}
    for name, folders, names in os.walk(path):
        folder = Path(name)
        folders.sort()
        reader = hosts.of(folder, names)
        if reader is hosts.terminal_bench:
            found[folder.resolve()] = jsons.load(folder / "results.json").get("is_resolved") is True
        elif reader is hosts.harbor:
            found[folder.resolve()] = _rewarded(jsons.load(folder / "result.json").get("verifier_result"))
    return found


def _rewarded(result: Any) -> bool:
    rewards = result.get("rewards") if isinstance(result, dict) else None
    if not isinstance(rewards, dict) or not rewards:
        return False
    value = rewards.get("reward", next(iter(rewards.values())))
    return isinstance(value, int | float) and value >= 1

"""Verdicts, for training and evaluation alone: no feature is made of anything here.

From a file (CSV or JSONL with `task`, `run`, `resolved` and, where there are several, `agent`), or from what the
benchmark wrote: terminal-bench's `is_resolved`, Harbor's reward.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cliff_select import hosts
from cliff_select.rollouts import Group, Rollout

Labels = Mapping[tuple[str, str, str], bool]
"""By agent, task and run."""

_TRUE = ("true", "1", "yes")
_FALSE = ("false", "0", "no", "")


class LabelError(Exception):
    """The verdicts cannot be read; the text says what to do."""


def read(paths: Sequence[Path]) -> dict[tuple[str, str, str], bool]:
    """The verdicts of all paths. Folders: those of terminal-bench runs and Harbor jobs. LabelError otherwise."""
    found: dict[tuple[str, str, str], bool] = {}
    for path in paths:
        if path.is_dir():
            found.update(_folder(path))
        else:
            found.update(_file(path))
    if not found:
        raise LabelError(f"{', '.join(str(path) for path in paths)}: no verdicts in there; give --labels FILE")
    return found


def of(group: Group, labels: Labels) -> list[bool | None]:
    """The verdict on each rollout; None: there is none. A file without agents holds for all."""
    return [labels.get(rollout.key, labels.get(("", rollout.task, rollout.run))) for rollout in group.rollouts]


def _file(path: Path) -> dict[tuple[str, str, str], bool]:
    try:
        if path.suffix == ".csv":
            with path.open(encoding="utf-8", newline="") as stream:
                records: list[Mapping[str, Any]] = list(csv.DictReader(stream))
        else:
            records = list(hosts.records(path))
        return {
            (str(record.get("agent") or ""), str(record["task"]), str(record["run"])): _verdict(record["resolved"])
            for record in records
        }
    except KeyError as error:
        raise LabelError(f"{path}: {error} is missing; each record needs `task`, `run` and `resolved`") from None
    except (OSError, ValueError, EOFError, csv.Error) as error:
        raise LabelError(f"{path}: expected verdicts as CSV or JSONL with `task`, `run`, `resolved`; {error}") from None


def _verdict(value: Any) -> bool:
    text = str(value).strip().lower()
    if text not in _TRUE + _FALSE and value is not None:
        raise ValueError(f"`resolved` is true or false, not {value!r}")
    return text in _TRUE


def _folder(path: Path) -> dict[tuple[str, str, str], bool]:
    found = {}
    for name, folders, names in os.walk(path):
        folder = Path(name)
        folders.sort()
        reader = hosts.of(folder, names)
        if reader is hosts.terminal_bench:
            result = json.loads((folder / "results.json").read_bytes())
            verdict = result.get("is_resolved") is True
        elif reader is hosts.harbor:
            result = json.loads((folder / "result.json").read_bytes())
            verdict = _rewarded(result.get("verifier_result"))
        else:
            continue
        for rollout in reader(folder, path, False):
            if isinstance(rollout, Rollout):
                found[rollout.key] = verdict
    return found


def _rewarded(result: Any) -> bool:
    rewards = result.get("rewards") if isinstance(result, dict) else None
    if not isinstance(rewards, dict) or not rewards:
        return False
    value = rewards.get("reward", next(iter(rewards.values())))
    return isinstance(value, int | float) and value >= 1

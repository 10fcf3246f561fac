"""The chosen artifacts, ready to submit."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cliff_select.choose import Choice
from cliff_select.rollouts import Group, Problem, Rollout

MOST_CHARS = 150
"""Of a folder's name."""


def copy_chosen(choices: Sequence[Choice], folder: Path) -> list[Problem]:
    """The chosen artifacts: what the host left of each, and `preds.json` with all patches."""
    problems: list[Problem] = []
    predictions: dict[str, Any] = {}
    folder.mkdir(parents=True, exist_ok=True)
    names = _names([choice.group for choice in choices])
    for choice, name in zip(choices, names, strict=True):
        rollout = choice.chosen
        target = folder / name
        try:
            if rollout.source.is_dir():
                shutil.copytree(rollout.source, target, symlinks=True)
            else:
                target.mkdir()
                if not rollout.shared:
                    shutil.copy2(rollout.source, target / rollout.source.name)
                elif rollout.text is not None:
                    (target / "terminal.txt").write_text(rollout.text, encoding="utf-8", errors="replace")
            if rollout.patch is not None:
                (target / "chosen.patch").write_text(rollout.patch, encoding="utf-8", errors="replace")
        except (OSError, shutil.Error) as error:
            problems.append(Problem(rollout.source, f"{rollout.source}: cannot be copied to {target} ({error})"))
        if rollout.patch is not None:
            predictions[choice.task] = _prediction(rollout)
    if predictions:
        (folder / "preds.json").write_text(json.dumps(predictions, indent=2), encoding="utf-8")
    return problems


def _prediction(rollout: Rollout) -> dict[str, Any]:
    if rollout.prediction is not None:
        return dict(rollout.prediction)
    return {"model_name_or_path": "", "instance_id": rollout.task, "model_patch": rollout.patch}


def _names(groups: Sequence[Group]) -> list[str]:
    """A folder's name for each group: one that every file system takes, and none twice."""
    found: list[str] = []
    taken: set[str] = set()
    for group in groups:
        name = f"{group.agent}__{group.task}" if group.agent else group.task
        plain = "".join(c if (c.isascii() and c.isalnum()) or c in "._-" else "_" for c in name)[:MOST_CHARS]
        plain = own = "_" + plain if plain.startswith(".") else plain
        number = 1
        while own.lower() in taken or own == "preds.json":
            number += 1
            own = f"{plain}-{number}"
        taken.add(own.lower())
        found.append(own)
    return found

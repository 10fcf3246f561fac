"""The scorer: a small LightGBM model as text, and its card.

Trained is the probability of success given the features and given how often the task is solved at all: the task's
own rate, drawn towards that of all tasks, is each rollout's starting score. So trees are spent on what tells good
from bad within a group and not on which tasks are easy. Everything is deterministic: one thread, fixed
seeds, no order of a set or hash; scores are rounded.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import resources
from itertools import combinations
from pathlib import Path
from typing import Any

from cliff_select import jsons
from cliff_select.features import BY_NAME, SHIPPED, Features, Parts, of

DECIMALS = 6
"""Of a score. Scores that are the same to so many are the same."""

SIZES = (2, 3)
"""Groups that are trained on: all subsets of a task's rollouts of these sizes."""

PRIOR_WEIGHT = 2.0
"""Rollouts by which a task's rate of success is drawn towards the rate of all."""

ROUNDS = 300

PARAMETERS: Mapping[str, Any] = {
    "objective": "binary",
    "boost_from_average": False,
    "learning_rate": 0.025,
    "num_leaves": 3,
    "min_data_in_leaf": 30,
    "lambda_l2": 10.0,
    "max_bin": 31,
    "feature_fraction": 0.5,
    "bagging_fraction": 0.5,
    "bagging_freq": 1,
    "seed": 7,
    "deterministic": True,
    "force_row_wise": True,
    "num_threads": 1,
    "verbose": -1,
}


_WHOLE = re.compile(
    r"(?sm)tree\n(?=.*^num_class=1$)(?=.*^num_tree_per_iteration=1$)"
    r".*^end of trees$.*^end of parameters$.*^pandas_categorical:"
)


class ModelError(Exception):
    """A model cannot be used or made; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Example:
    """The rollouts of one task with their verdicts."""

    task: str
    agent: str
    parts: tuple[Parts, ...]
    solved: tuple[bool, ...]


@dataclass(frozen=True)
class Model:
    """LightGBM's text and the card."""

    text: str
    card: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The features, in the model's order."""
        return tuple(self._booster.feature_name())

    @cached_property
    def used(self) -> tuple[str, ...]:
        """Those that any tree asks for."""
        splits = self._booster.feature_importance("split")
        return tuple(name for name, count in zip(self.names, splits, strict=True) if count)

    @cached_property
    def _booster(self) -> Any:
        lightgbm = _lightgbm()
        if not _WHOLE.match(self.text):  # LightGBM itself reads beyond the end of a text that broke off
            raise ModelError("no LightGBM model that `cliff select train` wrote, or only a part of one")
        try:
            booster = lightgbm.Booster(model_str=self.text)
        except Exception as error:
            raise ModelError(f"no LightGBM model ({' '.join(str(error).split())})") from None
        unknown = [name for name in booster.feature_name() if name not in BY_NAME]
        if unknown:
            raise ModelError(f"this release does not know its features ({', '.join(unknown)}); train it again")
        return booster

    def scores(self, rollouts: Sequence[Features]) -> list[float]:
        """Log-odds, up to a constant of the task: only differences within a group mean something."""
        if not rollouts:
            return []
        found = self._booster.predict(self._rows(rollouts), raw_score=True, num_threads=1)
        return [round(float(score), DECIMALS) + 0.0 for score in found]

    def contributions(self, rollouts: Sequence[Features]) -> list[dict[str, float]]:
        """What each feature adds to each score (Shapley values)."""
        if not rollouts:
            return []
        found = self._booster.predict(self._rows(rollouts), pred_contrib=True, num_threads=1)
        return [
            {name: round(float(value), DECIMALS) for name, value in zip(self.names, row, strict=False)} for row in found
        ]

    def _rows(self, rollouts: Sequence[Features]) -> Any:
        import numpy

        return numpy.array([[features[name] for name in self.names] for features in rollouts], dtype=float)


@cache
def shipped() -> Model:
    """The model of this package."""
    folder = resources.files("cliff_select") / "models"
    card = json.loads((folder / "default.card.json").read_text(encoding="utf-8"))
    return Model((folder / "default.txt").read_text(encoding="utf-8"), card)


def load(path: Path) -> Model:
    """A model that `train` wrote. ModelError where it is none."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"{path}: cannot be read ({error})") from None
    card: Any = {}
    if card_path(path).is_file():
        try:
            card = jsons.load(card_path(path))
        except (OSError, ValueError) as error:
            raise ModelError(f"{card_path(path)}: no JSON ({error})") from None
    model = Model(text, card if isinstance(card, dict) else {})
    try:
        model.names  # noqa: B018 - found out now rather than in the middle of a report
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None
    return model


def save(model: Model, path: Path) -> None:
    """The model as LightGBM's text, and its card beside it."""
    path.write_text(model.text, encoding="utf-8")
    card_path(path).write_text(json.dumps(model.card, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def card_path(path: Path) -> Path:
    return path.with_name(path.name.removesuffix(".txt") + ".card.json")


def train(examples: Sequence[Example], names: Sequence[str] = SHIPPED, sizes: Sequence[int] = SIZES) -> Model:
    """Learn from rollouts with verdicts. ModelError where there is nothing to learn."""
    rows: list[list[float]] = []
    solved: list[bool] = []
    weights: list[float] = []
    starts: list[float] = []
    examples = [example for example in examples if len(example.parts) > 1]
    if not any(0 < sum(example.solved) < len(example.solved) for example in examples):
        raise ModelError(
            "nothing to learn: of no task were some rollouts solved and some not; give more runs of more tasks"
        )
    overall = sum(sum(e.solved) / len(e.solved) for e in examples) / len(examples)
    for example in examples:
        subsets = [s for k in sizes for s in combinations(range(len(example.parts)), k)]
        rate = (sum(example.solved) + PRIOR_WEIGHT * overall) / (len(example.solved) + PRIOR_WEIGHT)
        for subset in subsets:
            for index, features in zip(subset, of([example.parts[i] for i in subset]), strict=True):
                rows.append([features[name] for name in names])
                solved.append(example.solved[index])
                weights.append(1 / (len(subsets) * len(subset)))  # each task counts the same
                starts.append(math.log(rate / (1 - rate)))
    scale = len(weights) / sum(weights)
    import numpy

    lightgbm = _lightgbm()
    data = lightgbm.Dataset(
        numpy.array(rows, dtype=float),
        numpy.array(solved, dtype=float),
        weight=numpy.array(weights) * scale,
        init_score=numpy.array(starts),
        feature_name=list(names),
        free_raw_data=True,
    )
    directions = [BY_NAME[name].direction for name in names]
    booster = lightgbm.train({**PARAMETERS, "monotone_constraints": directions}, data, ROUNDS)
    return Model(booster.model_to_string(), card(examples, names, sizes))


def card(examples: Sequence[Example], names: Sequence[str], sizes: Sequence[int]) -> dict[str, Any]:
    """What a model was made of. Tasks are there as checksums: enough to tell whether a task was trained on."""
    by_agent: dict[str, list[Example]] = defaultdict(list)
    for example in examples:
        by_agent[example.agent or "unnamed"].append(example)
    return {
        "what": "scores rollouts of one task against each other; only differences within a group mean something",
        "data": [
            {
                "agent": agent,
                "tasks": len(members),
                "tasks with both verdicts": sum(0 < sum(e.solved) < len(e.solved) for e in members),
                "rollouts": sum(len(e.parts) for e in members),
                "solved": sum(sum(e.solved) for e in members),
            }
            for agent, members in sorted(by_agent.items())
        ],
        "groups": f"subsets of {' and '.join(str(size) for size in sizes)} rollouts of a task; tasks weigh the same",
        "features": {name: f"{BY_NAME[name].kind}; {BY_NAME[name].needs}" for name in names},
        "lightgbm": _lightgbm().__version__,
        "parameters": {**PARAMETERS, "rounds": ROUNDS, "prior_weight": PRIOR_WEIGHT},
        "not for": [
            "telling whether a rollout is right: the best of a group of failures is a failure",
            "comparing scores of different tasks, or agents and models with each other",
            "rewards of a training run: it looks at signs of success, which a model would learn to show",
            "any decision about people",
        ],
        "tasks": sorted({digest(example.task) for example in examples}),
    }


def digest(task: str) -> str:
    """A short checksum of a task's name."""
    return hashlib.sha256(task.encode()).hexdigest()[:12]


def _lightgbm() -> Any:
    """Imported late: it takes a second."""
    try:
        import lightgbm
    except (ImportError, OSError) as error:
        raise ModelError(
            f"LightGBM cannot be loaded ({' '.join(str(error).split())}); `pip install lightgbm`, and on Linux its "
            "OpenMP library (`apt install libgomp1`). `--agreement` chooses without a model"
        ) from None
    return lightgbm

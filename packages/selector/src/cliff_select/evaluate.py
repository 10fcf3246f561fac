"""How good the choices are: one rollout at random, the chosen one, the best there is (oracle), by k.

Measured on every subset of k of a task's rollouts, then averaged within the task, then over tasks, so that
each task counts the same. The share is (chosen − random) / (oracle − random): what of a perfect choice's gain is got.
Intervals: 95 %, tasks drawn again with replacement. Rollouts with the same score count as one of them at random.

Splits, none with a rollout on both sides: `other-agent` trains on the other agents' rollouts (of the same tasks),
`other-tasks` on other tasks of the same agent, `other-both` on other tasks of other agents, `new-tasks` on other
tasks of all agents: that is how the shipped model meets a new task. Tasks go into folds by family, the name up to the
first dot (`fix.easy` is of `fix`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from cliff_select.choose import by_agreement
from cliff_select.features import ALL, NAMES, SHIPPED, Parts, candidates, of
from cliff_select.model import Example, Model, train

Split = Literal["other-agent", "other-tasks", "other-both", "new-tasks", "model"]
SPLITS: tuple[Split, ...] = ("other-agent", "other-tasks", "other-both", "new-tasks")

FOLDS = 5
DRAWS = 2_000

Scores = Callable[[Sequence[Parts]], list[float | None]]
"""The scores of a group's rollouts."""


@dataclass(frozen=True, slots=True)
class TaskValue:
    """Of one task, over all subsets of k: shares solved, 0 to 1."""

    random: float
    chosen: float
    agreement: float
    oracle: float


@dataclass(frozen=True, slots=True)
class Interval:
    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Result:
    """One agent, one k."""

    split: Split
    agent: str
    k: int
    tasks: int
    mixed: int
    """Tasks of which some rollouts are solved and some not: only there is anything to choose."""
    random: Interval
    chosen: Interval
    agreement: Interval
    oracle: Interval
    share: Interval
    agreement_share: Interval
    beyond_agreement: Interval
    """Chosen − agreement."""
    dollars: float | None
    """Of k rollouts of a task, in the mean; None: not known of any."""


def evaluate(
    examples: Sequence[Example],
    sizes: Sequence[int],
    splits: Sequence[Split] = SPLITS,
    *,
    model: Model | None = None,
    names: Sequence[str] = SHIPPED,
    dollars: Callable[[str], float | None] = lambda agent: None,
    draws: int = DRAWS,
) -> list[Result]:
    """The results of each split, agent and k. A split for which there is no other agent gives none.

    `model`: for the split `model`, used as it is."""
    results = []
    agents = sorted({example.agent for example in examples})
    for split in splits:
        for agent in agents:
            tested = [example for example in examples if example.agent == agent]
            if split in ("other-agent", "other-both") and len(agents) < 2:
                continue
            scored = _scorers(examples, tested, split, model, names)
            for k in sizes:
                values = [
                    task_value(example, k, scores)
                    for example, scores in zip(tested, scored, strict=True)
                    if len(example.parts) >= k
                ]
                if values:
                    price = dollars(agent)
                    results.append(_result(split, agent, k, values, None if price is None else price * k, draws))
    return results


def ablations() -> dict[str, tuple[str, ...]]:
    """Sets of features by name: those of the shipped model, all, without each kind, each kind alone."""
    kinds = tuple(dict.fromkeys(feature.kind for feature in ALL))
    found = {"shipped": SHIPPED, "all": NAMES}
    for kind in kinds:
        found[f"without {kind}"] = tuple(feature.name for feature in ALL if feature.kind != kind)
    for kind in kinds:
        found[f"{kind} alone"] = tuple(feature.name for feature in ALL if feature.kind == kind)
    return found


def task_value(example: Example, k: int, scores: Scores) -> TaskValue:
    """Of all subsets of k rollouts of a task."""
    totals = [0.0, 0.0, 0.0, 0.0]
    subsets = list(combinations(range(len(example.parts)), k))
    for subset in subsets:
        group = [example.parts[i] for i in subset]
        solved = [example.solved[i] for i in subset]
        if all(solved) or not any(solved):  # nothing to choose
            values = (float(solved[0]),) * 4
        else:
            values = (
                sum(solved) / k,
                _of_best(scores(group), solved, candidates(group)),
                _of_best(by_agreement(group), solved, candidates(group)),
                1.0,
            )
        totals = [total + value for total, value in zip(totals, values, strict=True)]
    return TaskValue(*(total / len(subsets) for total in totals))


def family(task: str) -> str:
    return task.partition(".")[0]


def folds(tasks: Sequence[str], count: int = FOLDS) -> list[set[str]]:
    """The tasks in so many folds, families together, largest first into the emptiest."""
    families: dict[str, list[str]] = {}
    for task in sorted(set(tasks)):
        families.setdefault(family(task), []).append(task)
    found: list[set[str]] = [set() for _ in range(min(count, len(families)))]
    for members in sorted(families.values(), key=lambda members: (-len(members), members)):
        min(found, key=len).update(members)
    return found


def _scorers(
    examples: Sequence[Example], tested: Sequence[Example], split: Split, model: Model | None, names: Sequence[str]
) -> list[Scores]:
    """What scores each tested example: a model that has not seen it."""
    if split == "model":
        assert model is not None
        return [_scorer(model)] * len(tested)
    agent = tested[0].agent
    pool = [e for e in examples if split == "new-tasks" or (e.agent == agent) == (split == "other-tasks")]
    if split == "other-agent":
        return [_scorer(train(pool, names))] * len(tested)
    found: dict[str, Scores] = {}
    for fold in folds([example.task for example in examples]):
        if any(example.task in fold for example in tested):
            scorer = _scorer(train([example for example in pool if example.task not in fold], names))
            found.update(dict.fromkeys(fold, scorer))
    return [found[example.task] for example in tested]


def _scorer(model: Model) -> Scores:
    return lambda group: list[float | None](model.scores(of(group)))


def _of_best(scores: Sequence[float | None], solved: Sequence[bool], able: Sequence[int]) -> float:
    top = max((score for i in able if (score := scores[i]) is not None), default=None)
    best = [solved[i] for i in able if scores[i] == top]
    return sum(best) / len(best)


def _result(split: Split, agent: str, k: int, values: list[TaskValue], price: float | None, draws: int) -> Result:
    drawing = random.Random(k)
    samples = [values] + [drawing.choices(values, k=len(values)) for _ in range(draws)]
    table = [_means(sample) for sample in samples]

    def interval(column: int) -> Interval:
        drawn = sorted(row[column] for row in table[1:])
        low, high = (drawn[int(len(drawn) * q)] for q in (0.025, 0.975)) if drawn else (table[0][column],) * 2
        return Interval(table[0][column], low, high)

    mixed = sum(value.oracle > value.random for value in values)
    chance, chosen, alike, best, share, alike_share, beyond = (interval(column) for column in range(7))
    return Result(split, agent, k, len(values), mixed, chance, chosen, alike, best, share, alike_share, beyond, price)


def _means(values: Sequence[TaskValue]) -> tuple[float, ...]:
    count = len(values)
    chance = sum(value.random for value in values) / count
    chosen = sum(value.chosen for value in values) / count
    alike = sum(value.agreement for value in values) / count
    best = sum(value.oracle for value in values) / count
    gain = best - chance
    share, alike_share = ((chosen - chance) / gain, (alike - chance) / gain) if gain > 1e-12 else (0.0, 0.0)
    return chance, chosen, alike, best, share, alike_share, chosen - alike

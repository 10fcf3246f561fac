"""The choice in each group, and why."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cliff_select.agreement import agreement
from cliff_select.features import Features, Parts, artifacts, candidates, of, parts, unknown
from cliff_select.model import DECIMALS, Model
from cliff_select.rollouts import Group, Rollout

MOST_REASONS = 3


@dataclass(frozen=True, slots=True)
class Reason:
    """A feature that spoke for the chosen one."""

    feature: str
    value: float
    others: float
    """The mean of the others. Not a number: not known."""
    gain: float
    """What it adds to the score beyond the mean of what it adds to the others'."""


@dataclass(frozen=True, slots=True)
class Ranked:
    rollout: Rollout
    score: float | None
    agreement: float | None
    empty: bool = False
    """Its patch is empty and another left something: it comes after those, whatever its score."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The group's rollouts, best first."""

    group: Group
    ranking: tuple[Ranked, ...]
    reasons: tuple[Reason, ...] = ()
    missing: tuple[str, ...] = ()
    """What the model wanted to know and some rollout does not tell."""

    @property
    def task(self) -> str:
        return self.group.task

    @property
    def chosen(self) -> Rollout:
        return self.ranking[0].rollout

    @property
    def margin(self) -> float | None:
        """By how much the chosen one's score is above the next one's; None: there is no other that could be chosen."""
        if len(self.ranking) < 2 or self.ranking[1].empty != self.ranking[0].empty:
            return None
        first, second = self.ranking[0].score, self.ranking[1].score
        return None if first is None or second is None else round(first - second, DECIMALS)


def choose(groups: Sequence[Group], model: Model | None) -> list[Choice]:
    """The choice in each group by `model`; None: by agreement alone, with no training.

    A group of one is chosen as it is. Of the same score, the one more like the others; then the first by name."""
    members = [[parts(rollout) for rollout in group.rollouts] for group in groups]
    if model is None:
        return [_choice(group, own, by_agreement(own)) for group, own in zip(groups, members, strict=True)]
    # All at once: a call of LightGBM takes longer than its trees.
    rows = [of(own) for own in members]
    flat = [features for group_rows in rows for features in group_rows]
    scores, added = iter(model.scores(flat)), iter(model.contributions(flat))
    choices = []
    for group, own, group_rows in zip(groups, members, rows, strict=True):
        own_scores: list[float | None] = [next(scores) for _ in group_rows]
        own_added = [next(added) for _ in group_rows]
        choice = _choice(group, own, own_scores)
        if len(own) > 1:
            reasons = tuple(_reasons(model.used, group_rows, own_added, group.rollouts.index(choice.chosen)))
            choice = replace(choice, reasons=reasons, missing=unknown(own, model.used))
        choices.append(choice)
    return choices


def order(scores: Sequence[float | None], alike: Sequence[float | None], able: Sequence[int]) -> list[int]:
    """Indices, best first: `able` (`candidates`) before the others, what has no score last."""

    def key(index: int) -> tuple[bool, float, float, int]:
        score, like = scores[index], alike[index]
        return (
            index not in able,
            -score if score is not None else math.inf,
            -round(like, DECIMALS) if like is not None else math.inf,
            index,
        )

    return sorted(range(len(scores)), key=key)


def _choice(group: Group, members: Sequence[Parts], scores: Sequence[float | None]) -> Choice:
    if len(members) < 2:
        return Choice(group, (Ranked(group.rollouts[0], None, None),))
    alike = agreement(artifacts(members))
    able = candidates(members)
    ranking = tuple(Ranked(group.rollouts[i], scores[i], alike[i], i not in able) for i in order(scores, alike, able))
    return Choice(group, ranking, missing=("a patch or terminal",) if None in alike else ())


def by_agreement(group: Sequence[Parts]) -> list[float | None]:
    """The baseline: likeness to the others."""
    return [None if value is None else round(value, DECIMALS) for value in agreement(artifacts(group))]


def _reasons(
    names: Sequence[str], rows: Sequence[Features], added: Sequence[Mapping[str, float]], first: int
) -> list[Reason]:
    others = [index for index in range(len(rows)) if index != first]
    found = []
    for name in names:
        gain = round(added[first][name] - sum(added[i][name] for i in others) / len(others), DECIMALS)
        if gain > 0:
            found.append(Reason(name, rows[first][name], _mean([rows[i][name] for i in others]), gain))
    return sorted(found, key=lambda reason: (-reason.gain, reason.feature))[:MOST_REASONS]


def _mean(values: Sequence[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else math.nan

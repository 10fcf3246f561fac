"""The features of a rollout, of three kinds: of its run, of what it left (artifact), of its agreement with the group.

Nearly all are ranks within the group, 0 (least) to 1 (most): tasks and agents differ in how many steps they take,
how fast they are and how much they print, and a rank does not. Not a number: not known of this rollout. Each feature
has a direction, which the model must keep (LightGBM's monotone constraints): with a few hundred rollouts of
a few dozen tasks to learn from, that is worth more than any tuning.

    of([parts(rollout) for rollout in group]) -> one mapping a rollout
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from cliff_select.agreement import Lines, agreement, patch_files, patch_lines, terminal_lines
from cliff_select.rollouts import Rollout

Kind = Literal["run", "artifact", "agreement"]
Features = Mapping[str, float]

NAN = math.nan

TAIL_CHARS = 6_000
"""The end of a terminal in which errors are counted."""
MOST_CONFIRMATIONS = 3

_ERROR = re.compile(r"\b(?:error|failed|exception|not found)\b")
_CONFIRMED = re.compile(r"✅|✓|successful|verified|passed|passes")


@dataclass(frozen=True, slots=True)
class Feature:
    name: str
    kind: Kind
    direction: Literal[-1, 0, 1]
    """1: more of it never lowers the score; -1: never raises it; 0: free."""
    needs: str
    """What must be known of a rollout, in words."""


ALL = (
    Feature("done", "run", 1, "how the run ended"),
    Feature("cut_off", "run", -1, "how the run ended"),
    Feature("steps_rank", "run", 1, "steps"),
    Feature("seconds_rank", "run", -1, "times"),
    Feature("seconds_per_step_rank", "run", -1, "times and steps"),
    Feature("failed_rank", "run", -1, "exit codes of the last commands"),
    Feature("confirmed_rank", "run", 1, "the last words"),
    Feature("tokens_rank", "run", 0, "tokens"),
    Feature("edits_rank", "run", 0, "tool calls"),
    Feature("commands_rank", "run", 0, "tool calls"),
    Feature("errors_rank", "artifact", -1, "the terminal"),
    Feature("size_rank", "artifact", 0, "a patch or terminal"),
    Feature("files_rank", "artifact", 0, "a patch"),
    Feature("overlap_rank", "artifact", 1, "a patch or terminal"),
    Feature("others_done", "agreement", 0, "how the run ended"),
    Feature("steps_apart_rank", "agreement", -1, "steps"),
    Feature("end_overlap_rank", "agreement", 1, "the terminal"),
)
"""`overlap`: lines shared with the others (`agreement`). `steps_apart`: distance to the group's median."""

NAMES = tuple(feature.name for feature in ALL)
SHIPPED = (
    "done",
    "cut_off",
    "seconds_rank",
    "seconds_per_step_rank",
    "failed_rank",
    "confirmed_rank",
    "errors_rank",
)
"""What the shipped model looks at: chosen by validation within each agent. The others brought nothing there
(docs/selector.md has the ablation), partly because its rollouts have no patches and no counted calls. They are
there for training on rollouts that do (`cliff select train --features all`)."""

BY_NAME = {feature.name: feature for feature in ALL}


@dataclass(frozen=True, slots=True)
class Parts:
    """What of one rollout the features of any group with it are made of. Small, so that it is made once."""

    numbers: Mapping[str, float]
    terminal: Lines | None
    ending: Lines | None
    """The last lines alone."""
    patch: Lines | None


def parts(rollout: Rollout) -> Parts:
    """The work that takes time: it reads the terminal."""
    text = rollout.text
    steps, seconds = _or_nan(rollout.steps), _or_nan(rollout.seconds)
    calls = rollout.calls
    numbers = {
        "done": NAN if rollout.ended is None else float(rollout.ended == "done"),
        "cut_off": NAN if rollout.ended is None else float(rollout.ended == "cut"),
        "steps": steps,
        "seconds": seconds,
        "seconds_per_step": seconds / max(1.0, steps),
        "failed": _or_nan(rollout.failed),
        "confirmed": _confirmations(rollout.closing),
        "tokens": _or_nan(rollout.tokens),
        "edits": NAN if calls is None else float(calls.get("edit", 0)),
        "commands": NAN if calls is None else float(calls.get("run", 0)),
        "errors": NAN if text is None else float(len(_ERROR.findall(text[-TAIL_CHARS:].lower()))),
    }
    patch = None
    files = NAN
    if rollout.patch is not None:
        patch = patch_lines(rollout.patch)
        files = float(len(patch_files(rollout.patch)))
    numbers["files"] = files
    lines = None if text is None else terminal_lines(text)
    ending = None if text is None else terminal_lines("\n".join(text.split("\n")[-60:]))
    return Parts(numbers, lines, ending, patch)


def artifacts(group: Sequence[Parts]) -> list[Lines | None]:
    """The patches where all of the group have one, else the terminals."""
    if all(member.patch is not None for member in group):
        return [member.patch for member in group]
    return [member.terminal for member in group]


def candidates(group: Sequence[Parts]) -> list[int]:
    """Who can be chosen: an empty patch solves nothing, so whoever left one is out while another left something."""
    some = [index for index, member in enumerate(group) if member.patch is None or member.patch]
    return some or list(range(len(group)))


def of(group: Sequence[Parts]) -> list[Features]:
    """The features of each rollout of a group, among these others and no more."""
    columns = _columns(group)
    found: list[Features] = []
    for index in range(len(group)):
        features = {"done": columns["done"][index], "cut_off": columns["cut_off"][index]}
        others = [value for i, value in enumerate(columns["done"]) if i != index and not math.isnan(value)]
        features["others_done"] = sum(others) / len(others) if others else NAN
        for name in NAMES:
            if name.endswith("_rank"):
                features[name] = rank(columns[name.removesuffix("_rank")], index)
        found.append(features)
    return found


def unknown(group: Sequence[Parts], names: Sequence[str]) -> tuple[str, ...]:
    """What the features of these names need and some rollout of the group does not tell, in words."""
    columns = _columns(group)
    needs = {
        BY_NAME[name].needs: None
        for name in names
        if any(math.isnan(value) for value in columns[_COLUMNS.get(name, name.removesuffix("_rank"))])
    }
    return tuple(needs)


_COLUMNS = {"others_done": "done"}


def _columns(group: Sequence[Parts]) -> dict[str, list[float]]:
    """The figures behind the ranks, by name, one for each rollout."""
    columns = {name: [member.numbers[name] for member in group] for name in group[0].numbers}
    left = artifacts(group)
    columns["size"] = [NAN if lines is None else float(len(lines)) for lines in left]
    columns["overlap"] = [_or_nan(value) for value in agreement(left)]
    columns["end_overlap"] = [_or_nan(value) for value in agreement([member.ending for member in group])]
    middle = _median(columns["steps"])
    columns["steps_apart"] = [abs(steps - middle) for steps in columns["steps"]]
    return columns


def rank(values: Sequence[float], index: int) -> float:
    """The part of the others that is less, and half of those that are equal. What is not known is in the middle: it
    neither helps nor harms. Not a number for the whole group where less than two are known."""
    own = values[index]
    others = [value for i, value in enumerate(values) if i != index and not math.isnan(value)]
    if len(others) + (not math.isnan(own)) < 2:
        return NAN
    if math.isnan(own):
        return 0.5
    return sum(1.0 if value < own else 0.5 if value == own else 0.0 for value in others) / len(others)


def _confirmations(closing: str | None) -> float:
    """How often the last words say that something was seen to work."""
    if closing is None:
        return NAN
    return float(min(MOST_CONFIRMATIONS, len(_CONFIRMED.findall(closing.lower()))))


def _median(values: Sequence[float]) -> float:
    known = sorted(value for value in values if not math.isnan(value))
    if not known:
        return NAN
    half = len(known) // 2
    return known[half] if len(known) % 2 else (known[half - 1] + known[half]) / 2


def _or_nan(value: float | None) -> float:
    return NAN if value is None else float(value)

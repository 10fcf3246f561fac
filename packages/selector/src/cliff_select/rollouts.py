"""Rollouts of tasks, from what each host leaves of k runs; rollouts of one task are a group.

What a host's benchmark found out after the agent's end (verdict, test output, failures of the tests) is read by
`labels` alone. It never gets into a `Rollout`.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cliff_select.terminal import Ended


@dataclass(frozen=True, slots=True)
class Rollout:
    """One run of an agent on a task. None: not known."""

    task: str
    run: str
    """Which of the task's runs; unique in the group."""
    source: Path
    """Its folder or file."""
    shared: bool = False
    """Whether that is a file of many rollouts."""
    agent: str = ""
    """Where a file holds several agents: rollouts of different agents are in different groups."""
    trial: str = ""
    """Of published rollouts the name in the host's record."""
    text: str | None = None
    """The end of what the agent showed: its terminal, or the end of its session as text."""
    closing: str | None = None
    """What it said and did last."""
    patch: str | None = None
    ended: Ended | None = None
    steps: int | None = None
    """Requests to the model, or executed actions where requests are not known."""
    seconds: float | None = None
    failed: int | None = None
    """Failed commands among the last six (`terminal.LAST_COMMANDS`)."""
    calls: Mapping[str, int] | None = None
    """Tool calls by kind: `read`, `edit`, `run`, `other`."""
    tokens: int | None = None
    """Sent and received."""
    dollars: float | None = None
    prediction: Mapping[str, Any] | None = field(default=None, compare=False)
    """Its entry of `preds.json`."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that could not be read. One line, with what to do where that is known."""

    path: Path
    text: str


@dataclass(frozen=True, slots=True)
class Group:
    """The rollouts of one task, by name of the run."""

    task: str
    agent: str
    rollouts: tuple[Rollout, ...]

    @property
    def name(self) -> str:
        return f"{self.task} ({self.agent})" if self.agent else self.task


def read(
    paths: Sequence[Path], *, costs: bool = False, note: Callable[[str], None] = lambda text: None
) -> tuple[list[Group], list[Problem]]:
    """The groups of all paths, by agent and task, and what could not be read.

    `costs`: work out dollars by the ledger, which takes longer. `note` is told of what was left out on purpose."""
    found: list[Rollout] = []
    problems: list[Problem] = []
    for path in paths:
        before = len(found), len(problems)
        for item in _read(path, costs):
            if isinstance(item, Problem):
                problems.append(item)
            else:
                found.append(item)
        if (len(found), len(problems)) == before:
            problems.append(Problem(path, f"{path}: no run of an agent in there (see `cliff select --help`)"))
    return grouped(found, note), problems


def grouped(rollouts: Sequence[Rollout], note: Callable[[str], None] = lambda text: None) -> list[Group]:
    """Rollouts by agent and task. One that is there twice counts once; runs of the same name get their path's."""
    groups: dict[tuple[str, str], list[Rollout]] = defaultdict(list)
    for rollout in rollouts:
        groups[rollout.agent, rollout.task].append(rollout)
    done = []
    for agent, task in sorted(groups):
        members = _distinct(groups[agent, task], note)
        named = _named(members)
        done.append(Group(task, agent, tuple(sorted(named, key=lambda member: member.run))))
    return done


def _named(members: list[Rollout]) -> list[Rollout]:
    """Runs of the same name get what tells their paths apart, and where that does not help a number."""
    names = [member.run for member in members]
    twice = {name for name in names if names.count(name) > 1}
    if not twice:
        return members
    places = [member.source.absolute().parts for member in members if member.run in twice]
    start, end = _common(places), _common([place[::-1] for place in places])
    found: list[Rollout] = []
    taken: set[str] = set(names) - twice
    for member in members:
        name = member.run
        if name in twice:
            parts = member.source.absolute().parts
            name = "/".join(parts[start : len(parts) - end]) or name
            number = 1
            while name in taken:
                number += 1
                name = f"{member.run}#{number}"
        taken.add(name)
        found.append(replace(member, run=name))
    return found


def _common(places: Sequence[tuple[str, ...]]) -> int:
    """How many parts all begin with."""
    differing = (i for i, parts in enumerate(zip(*places, strict=False)) if len(set(parts)) > 1)
    return next(differing, min(map(len, places), default=0))


def _distinct(members: list[Rollout], note: Callable[[str], None]) -> list[Rollout]:
    """A rollout that was given twice, by two paths, is one."""
    kept: list[Rollout] = []
    for member in members:
        place = member.source.resolve()
        if any(other.source.resolve() == place and replace(other, source=member.source) == member for other in kept):
            note(f"{member.source}: {member.task}, {member.run} was given twice and counts once")
        else:
            kept.append(member)
    return kept


def _read(path: Path, costs: bool) -> Iterator[Rollout | Problem]:
    from cliff_select import hosts

    if not path.exists():
        yield Problem(path, f"{path}: no such file or folder")
        return
    if not path.is_dir():
        yield from hosts.file(path, path.parent, costs)
        return
    plain: list[Path] = []
    for name, folders, names in os.walk(path):
        folder = Path(name)
        folders[:] = sorted(child for child in folders if not child.startswith("."))
        reader = hosts.of(folder, names)
        if reader is not None:
            folders.clear()
            yield from reader(folder, path, costs)
        elif not hosts.is_overview(folder, names):
            plain.append(folder)
    yield from hosts.plain(plain, path, costs)

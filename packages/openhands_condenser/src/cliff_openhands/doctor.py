"""What `cliff doctor` looks at: whether OpenHands can find our condenser, and what its settings say. OpenHands itself
is not imported: that takes seconds."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from cliff_core.config import OPTIONS, CliffConfig, ConfigError
from cliff_core.doctor import Finding
from cliff_openhands import settings

DISTRIBUTIONS = {
    "openhands": "1.16.0",
    "openhands-ai": "1.6.0 (V0) and 1.11.0",
    "openhands-sdk": "1.21.0, 1.34.0 and 1.58.2",
}
"""Distributions of OpenHands, and the releases that our tests run on."""


def check() -> Iterator[Finding]:
    """All findings. Nothing is changed."""
    found = dict(_installed())
    for name, version in found.items():
        yield Finding("ok", f"{name} {version} is installed here; tested with {DISTRIBUTIONS[name]}")
    if not found:
        yield Finding("ok", "OpenHands is not installed in this environment")
    yield from hook()
    yield from _settings()


def hook() -> Iterator[Finding]:
    """Whether the import hook is on: here, and in the environment of the `openhands` on PATH."""
    if os.environ.get("CLIFF_OPENHANDS_HOOK", "").strip() == "0":
        yield Finding(
            "problem" if _names_ours() else "warning",
            "the import hook is off (CLIFF_OPENHANDS_HOOK=0): OpenHands knows our classes only where they are imported",
            "unset the variable, or see docs/openhands.md",
        )
    elif "_cliff_openhands_hook" not in sys.modules:
        yield Finding(
            "problem",
            "the import hook did not run when this Python started: OpenHands does not know our classes",
            "install cliff-openhands again, into site-packages (not by PYTHONPATH or --target)",
        )
    else:
        yield Finding("ok", "the import hook is on")
    script = shutil.which("openhands")
    if script is None:
        return
    home = Path(script).resolve().parent
    if home != Path(sys.executable).parent.resolve() and not _has_hook(home.parent):
        yield Finding(
            "problem" if _names_ours() else "warning",
            f"the `openhands` on PATH is in another environment, without cliff-openhands: {home.parent}",
            "install cliff-openhands there, or `cliff openhands disable`",
        )


def _has_hook(environment: Path) -> bool:
    folders = [*environment.glob("lib/python3*/site-packages"), environment / "Lib" / "site-packages"]
    return any((folder / "cliff_openhands.pth").is_file() for folder in folders)


def _installed() -> Iterator[tuple[str, str]]:
    for name in DISTRIBUTIONS:
        try:
            yield name, importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue


def _names_ours() -> bool:
    try:
        condenser = settings.condenser_of(settings.settings_path())
    except settings.SettingsError:
        return False
    return condenser is not None and condenser.get("kind") in settings.KINDS


def _settings() -> Iterator[Finding]:
    """What the settings of the `openhands` command say."""
    path = settings.settings_path()
    try:
        condenser = settings.condenser_of(path)
    except settings.SettingsError as error:
        yield Finding("problem", str(error), "repair the file, or remove it and start `openhands`")
        return
    kind = condenser.get("kind") if condenser is not None else None
    if condenser is None or kind not in settings.KINDS:
        if path.is_file():
            yield Finding("ok", "the `openhands` command does not use cliff (`cliff openhands enable` changes that)")
        return
    if kind != settings.CLI_KIND:
        yield Finding(
            "warning",
            f"{path} names {kind}, which the `openhands` command drops without a word",
            "cliff openhands enable",
        )
    # Fields of the class that it is a kind of are the host's business.
    options = {name: value for name, value in condenser.items() if name in OPTIONS and value is not None}
    try:
        preset = options.pop("preset", "default")
        CliffConfig.preset(preset, **options)
    except ConfigError as error:
        yield Finding("problem", f"{path}: {error}", "cliff openhands enable, with the options that are meant")
        return
    yield Finding("ok", f"the `openhands` command uses cliff ({path})")

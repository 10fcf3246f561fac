"""`cliff` as a program, in a home of its own; and a home for what runs in this process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kit.fixtures import model_server  # noqa: F401

FOREIGN = ("ANTHROPIC_", "OPENAI_", "CLAUDE", "CODEX_", "CLIFF_", "OPENCODE")
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


@dataclass(frozen=True)
class Home:
    """Folders of one user; `env` is a whole environment."""

    folder: Path
    env: dict[str, str]

    @property
    def state(self) -> Path:
        return self.folder / "state" / "cliff"

    @property
    def runtime(self) -> Path:
        return self.folder / "runtime" / "cliff"

    @property
    def config(self) -> Path:
        """The user's settings file; its folder is there."""
        path = self.folder / "config" / "cliff" / "proxy.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def start(self, *arguments: str, env: dict[str, str] | None = None, **options: Any) -> subprocess.Popen[str]:
        """`cliff ARGUMENTS…`, with pipes unless told otherwise."""
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(
            [sys.executable, "-m", "cliff_core", *arguments],
            env=self.env | (env or {}),
            cwd=self.folder,
            text=True,
            **pipes | options,
        )


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    for name in list(os.environ):
        if name.startswith(FOREIGN) or name.upper() in PROXIES:
            monkeypatch.delenv(name)
    for name, folder in (
        ("HOME", "home"),
        ("XDG_CONFIG_HOME", "config"),
        ("XDG_STATE_HOME", "state"),
        ("XDG_RUNTIME_DIR", "runtime"),
    ):
        (tmp_path / folder).mkdir()
        monkeypatch.setenv(name, str(tmp_path / folder))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    return Home(tmp_path, dict(os.environ))


Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def cliff(home: Home) -> Run:
    """Runs `cliff ARGUMENTS…` to its end."""

    def run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        process = home.start(*arguments, **options)
        out, err = process.communicate(timeout=60)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    return run

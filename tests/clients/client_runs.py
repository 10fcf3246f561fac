"""Runs a real client through the real `cliff run`, in a home of its own, against the scripted server."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kit import ModelServer
from kit.websocket import WebSocketServer

CLIENTS = Path(os.environ["NPM_CLIENTS"])
WORDS = ("parse", "line", "token", "buffer", "cursor", "stream", "reader", "value", "index", "offset", "limit", "error")


@dataclass(frozen=True)
class Run:
    """A command that ended."""

    status: int
    out: str
    err: str


@dataclass
class Home:
    """A user's home, with a repository to work in. Nothing of the real environment but PATH."""

    folder: Path
    server: ModelServer | WebSocketServer
    env: dict[str, str]
    options: tuple[str, ...] = ()
    """Of `cliff run`."""
    runs: list[Run] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name in ("home", "state", "runtime"):
            (self.folder / name).mkdir(parents=True)
        repository(self.work)

    @property
    def work(self) -> Path:
        return self.folder / "work"

    @property
    def records(self) -> Path:
        return self.folder / "records"

    def run(self, *argv: str) -> Run:
        """`cliff run -- ARGV…` to its end."""
        return self.cliff("run", *self.options, "--record", str(self.records), "--", *argv)

    def cliff(self, *argv: str) -> Run:
        own = {
            "PATH": f"{CLIENTS}:{os.environ['PATH']}",
            "HOME": str(self.folder / "home"),
            "XDG_STATE_HOME": str(self.folder / "state"),
            "XDG_RUNTIME_DIR": str(self.folder / "runtime"),
        }
        done = subprocess.run(
            [sys.executable, "-m", "cliff_core", *argv],
            cwd=self.work,
            env=own | self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        self.runs.append(Run(done.returncode, done.stdout, done.stderr))
        return self.runs[-1]

    def actions(self) -> list[str]:
        """What the proxy did with each recorded request of the longest session."""
        files = [file.read_text().splitlines() for file in sorted(self.records.glob("*.jsonl"))]
        return [json.loads(line)["cliff"]["action"] for line in max(files, key=len)]


def repository(folder: Path, files: int = 60) -> None:
    """A folder of modules, each with text of its own: some 6 KB to read."""
    folder.mkdir(parents=True)
    for number in range(files):
        chance = random.Random(number)
        lines = [
            f"def {chance.choice(WORDS)}_{number}_{at}({chance.choice(WORDS)}={at}, {chance.choice(WORDS)}={number}):"
            for at in range(140)
        ]
        (folder / f"module_{number}.py").write_text("\n".join(lines) + "\n")
    subprocess.run(["git", "init", "-q", str(folder)], check=True)


def texts(value: Any) -> str:
    """All texts of a JSON value, for a search."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return "\n".join(map(texts, value.values()))
    return "\n".join(map(texts, value)) if isinstance(value, list) else ""

"""Runs of V0's own program in a real folder, and what they leave behind."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kit import Call, ModelServer, Step

TASK = "The parser of this folder drops the last line of a file. Find out why, and mend it. (task-marker-7)"
WORDS = ("parse", "line", "token", "buffer", "cursor", "stream", "reader", "value", "index", "offset", "limit", "error")
OPENING = "Excerpts of earlier steps of this session"
FINISH = Step(
    "All done.", calls=[Call("finish", {"message": "The parser reads every line.", "task_completed": "true"})]
)


def folder(path: Path, files: int = 32) -> Path:
    """A folder of modules, each with text of its own."""
    path.mkdir(parents=True)
    for number in range(files):
        chance = random.Random(number)
        lines = [
            f"def {chance.choice(WORDS)}_{number}_{at}({chance.choice(WORDS)}, {chance.choice(WORDS)}={at * number}):"
            for at in range(90)
        ]
        (path / f"module_{number}.py").write_text("\n".join(lines) + "\n")
    return path


def script(steps: int, path: Path, first: int = 0) -> list[Step]:
    """Reads of 5 KB, some of them parallel with commands, and errors.

    Long texts come by the editor: what a command printed is lost now and then, as the host's runtime has a race with
    a process that ends."""
    found = []
    for at in range(first, first + steps):
        calls = [Call("str_replace_editor", {"command": "view", "path": str(path / f"module_{at % 32}.py")})]
        if at % 3 == 1:
            calls += [bash(f"wc -l module_{at % 32}.py"), bash(f"grep -c cursor module_{at % 32}.py")]
        elif at % 10 == 6:
            calls = [bash(f"cat missing_{at}.py")]
        found.append(Step(f"Step {at}: module {at} may hold the loop.", calls=calls))
    return found


def bash(command: str) -> Call:
    return Call("execute_bash", {"command": command, "security_risk": "LOW"})


@dataclass
class Session:
    """A folder with a configuration, in which the program can run more than once."""

    base: Path
    config: str
    """Its sections from [condenser] or the agent's on."""
    server: ModelServer

    def write(self, *, agent: str = "", core: str = "") -> None:
        self.base.mkdir(parents=True, exist_ok=True)
        (self.base / "config.toml").write_text(
            f"""\
[core]
runtime = "cli"
workspace_base = "{self.work}"
max_iterations = 90
file_store = "local"
file_store_path = "{self.base / "store"}"
save_trajectory_path = "{self.base / "trajectory.json"}"
{core}
[llm]
model = "openai/scripted"
base_url = "{self.server.openai_url}"
api_key = "test"
native_tool_calling = true
num_retries = 0
[agent]
enable_browsing = false
enable_jupyter = false
enable_mcp = false
{agent}
{self.config}
"""
        )

    @property
    def work(self) -> Path:
        return self.base / "work"

    @property
    def events(self) -> list[dict[str, Any]]:
        """The host's own record of the last run."""
        found: list[dict[str, Any]] = json.loads((self.base / "trajectory.json").read_text())
        return found

    def arguments(self, task: str = TASK) -> Sequence[str]:
        return (
            *("-m", "openhands.core.main", "--config-file", str(self.base / "config.toml")),
            *("--no-auto-continue", "--name", "session", "-t", task),
        )

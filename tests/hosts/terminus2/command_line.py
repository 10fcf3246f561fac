"""Runs the hosts' real command lines. To import them takes up to twenty seconds, so one process does it once, and each
command is a fork of that: `CommandLine(folder)("tb", …)` starts what the console script of that name starts.

As a program this file is that process: a line of JSON in for each command, its number and exit status out.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent

SETTINGS = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "HARBOR_TELEMETRY": "0",
    "HF_HUB_OFFLINE": "1",
    "COLUMNS": "160",
}
"""The hosts run unattended and offline with these (facts/terminus2.md, "Obstacles")."""

MODELS = {
    "openai/scripted": {"max_input_tokens": 100_000, "max_output_tokens": 4_000, "max_tokens": 4_000},
    # terminal-bench summarizes when less than 8000 tokens of the maximum output (!) are free: at 6 000 here.
    "openai/scripted-14k": {"max_input_tokens": 14_000, "max_output_tokens": 14_000, "max_tokens": 14_000},
    "openai/scripted-claude": {"max_input_tokens": 100_000, "max_output_tokens": 4_000, "max_tokens": 4_000},
}
"""What is declared of the scripted models in litellm's table."""


def declare() -> None:
    import litellm

    same = {"litellm_provider": "openai", "mode": "chat", "input_cost_per_token": 0.0, "output_cost_per_token": 0.0}
    litellm.register_model({name: {**same, **sizes} for name, sizes in MODELS.items()})


@dataclass(frozen=True)
class Run:
    """A command that ended."""

    status: int
    output: str
    """What it printed, errors included."""


class CommandLine:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runs = 0
        self.ended: dict[int, int] = {}
        self.starting, self.lock = threading.Lock(), threading.Lock()
        mine = ("CLIFF_", "OPENAI_", "ANTHROPIC_", "LITELLM_", "TMUX")
        environ = {name: value for name, value in os.environ.items() if not name.startswith(mine)}
        environ["PATH"] = f"{Path(sys.executable).parent}:{environ['PATH']}"  # the task's python3 has pytest
        self.process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ | SETTINGS
        )

    def __call__(self, *argv: str | Path, cwd: Path, env: dict[str, str]) -> Run:
        """Runs a command to its end."""
        return self.wait(self.start(*argv, cwd=cwd, env=env))

    def start(self, *argv: str | Path, cwd: Path, env: dict[str, str]) -> int:
        """Starts a command; `wait` takes the number that this returns."""
        assert self.process.stdin is not None
        with self.starting:
            self.runs += 1
            number = self.runs
            command = {"number": number, "argv": [str(word) for word in argv], "cwd": str(cwd), "env": env}
            self.process.stdin.write(json.dumps(command | {"log": str(self._log(number))}) + "\n")
            self.process.stdin.flush()
        return number

    def wait(self, number: int) -> Run:
        assert self.process.stdout is not None
        while number not in self.ended:
            with self.lock:  # several threads may wait, and each line is read by one
                if number not in self.ended:
                    ended, status = map(int, self.process.stdout.readline().split())
                    self.ended[ended] = status
        return Run(self.ended[number], self._log(number).read_text(errors="replace"))

    def _log(self, number: int) -> Path:
        return self.folder / f"run-{number}.log"

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def serve() -> None:
    from importlib.metadata import entry_points

    import cliff_terminus2.harbor
    import cliff_terminus2.terminal_bench  # noqa: F401

    scripts = {script.name: script.load() for script in entry_points(group="console_scripts") if script.name in NAMES}
    import local_compose

    local_compose.use()
    declare()
    answers = os.dup(1)
    for line in sys.stdin:
        command: dict[str, Any] = json.loads(line)
        if os.fork() == 0:  # waits for the command, so that others can start meanwhile
            child = os.fork()
            if child == 0:
                run(command, scripts[command["argv"][0]])
            _, status = os.waitpid(child, 0)
            os.write(answers, f"{command['number']} {os.waitstatus_to_exitcode(status)}\n".encode())
            os._exit(0)
    os._exit(0)  # what the hosts' libraries do at exit takes seconds, and nothing depends on it


NAMES = ("tb", "harbor")


def run(command: dict[str, Any], script: Any) -> None:
    """In the fork: as if the shell had started it, without a terminal."""
    log = os.open(command["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for number, file in enumerate((os.open(os.devnull, os.O_RDONLY), log, log)):
        os.dup2(file, number)
    os.chdir(command["cwd"])
    os.environ.update(command["env"])
    sys.argv = command["argv"]
    status = 1
    try:
        script()
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    sys.path.insert(0, str(HERE))
    serve()

"""Runs the host's real command lines. `import litellm` takes ten seconds, so one process imports it once, and each
command is a fork of that: `CommandLine("mini", …)` starts what the console script of that name starts.

As a program this file is that process: a line of JSON in for each command, its number and exit status out.
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import host_settings


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
        environ = {name: value for name, value in os.environ.items() if not name.startswith("CLIFF_")}
        self.process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environ | host_settings.settings(folder),
        )

    def __call__(self, *argv: str | Path, cwd: Path, env: dict[str, str]) -> Run:
        """Runs a command to its end."""
        return self.wait(self.start(*argv, cwd=cwd, env=env))

    def start(self, *argv: str | Path, cwd: Path, env: dict[str, str]) -> int:
        """Starts a command; `wait` takes the number that this returns."""
        self.runs += 1
        command = {"number": self.runs, "argv": [str(word) for word in argv], "cwd": str(cwd), "env": env}
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command | {"log": str(self._log(self.runs))}) + "\n")
        self.process.stdin.flush()
        return self.runs

    def wait(self, number: int) -> Run:
        assert self.process.stdout is not None
        while number not in self.ended:
            ended, status = map(int, self.process.stdout.readline().split())
            self.ended[ended] = status
        return Run(self.ended[number], self._log(number).read_text(errors="replace"))

    def _log(self, number: int) -> Path:
        return self.folder / f"run-{number}.log"

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(10)


def serve() -> None:
    from importlib.metadata import entry_points

    import datasets  # noqa: F401
    import minisweagent.models.litellm_model
    import minisweagent.run.mini  # noqa: F401

    scripts = {script.name: script for script in entry_points(group="console_scripts")}
    answers = os.dup(1)
    for line in sys.stdin:
        command: dict[str, Any] = json.loads(line)
        if os.fork() == 0:  # waits for the command, so that others can start meanwhile
            child = os.fork()
            if child == 0:
                run(command, scripts[command["argv"][0]].load())
            _, status = os.waitpid(child, 0)
            os.write(answers, f"{command['number']} {os.waitstatus_to_exitcode(status)}\n".encode())
            os._exit(0)


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
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)  # the tracebacks of typer
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    serve()

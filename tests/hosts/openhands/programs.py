"""Runs the host's real programs. To import OpenHands takes 10 s and more, so one process imports it once, and each
program is a fork of that: `programs.start("-m", "openhands.core.main", …)` is `python -m openhands.core.main …` (`-c`
likewise), and `programs.start("openhands", …)` what the console script of that name starts. The imports are those of
an ordinary Python that starts with the given environment, the import hook included.

As a program this file is that process: a line of JSON in for each program; its number and process id, then its number
and exit status out.
"""

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Run:
    """A program that ended."""

    status: int
    output: str
    """What it printed, errors included."""


class Programs:
    def __init__(self, folder: Path, *modules: str, env: dict[str, str]) -> None:
        """`modules` are imported once, with `env` as the whole environment."""
        self.folder = folder
        self.runs = 0
        self.pids: dict[int, int] = {}
        self.ended: dict[int, int] = {}
        folder.mkdir(parents=True, exist_ok=True)
        self._imports = open(folder / "imports.log", "wb")  # noqa: SIM115 - as long as the process
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", __file__, *modules],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._imports,
            text=True,
            cwd=folder,
            env=env,
        )

    def __call__(self, *argv: str | Path, cwd: Path, env: dict[str, str]) -> Run:
        """Runs a program to its end."""
        return self.wait(self.start(*argv, cwd=cwd, env=env))

    def start(self, *argv: str | Path, cwd: Path, env: dict[str, str]) -> int:
        """Starts a program; `wait` and `stop` take the number that this returns."""
        self.runs += 1
        command = {"number": self.runs, "argv": [str(word) for word in argv], "cwd": str(cwd), "env": env}
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command | {"log": str(self.log(self.runs))}) + "\n")
        self.process.stdin.flush()
        return self.runs

    def wait(self, number: int) -> Run:
        while number not in self.ended:
            self._answer()
        return Run(self.ended[number], self.log(number).read_text(errors="replace"))

    def stop(self, number: int) -> Run:
        """Ends a server as its supervisor would."""
        while number not in self.pids:
            self._answer()
        if number not in self.ended:
            os.kill(self.pids[number], signal.SIGTERM)
        return self.wait(number)

    def log(self, number: int) -> Path:
        return self.folder / f"run-{number}.log"

    def close(self) -> None:
        for number in range(1, self.runs + 1):
            self.stop(number)
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(600)
        self._imports.close()

    def _answer(self) -> None:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError((self.folder / "imports.log").read_text(errors="replace")[-3000:])
        kind, number, value = line.split()
        {"pid": self.pids, "end": self.ended}[kind][int(number)] = int(value)


def serve(modules: list[str]) -> None:
    from importlib import import_module
    from importlib.metadata import entry_points

    answers = os.dup(1)
    os.dup2(2, 1)  # what an import prints is no answer
    for module in modules:
        import_module(module)
    scripts = {script.name: script for script in entry_points(group="console_scripts")}
    for line in sys.stdin:
        command: dict[str, Any] = json.loads(line)
        number = command["number"]
        if os.fork() == 0:  # waits for the program, so that others can start meanwhile
            child = os.fork()
            if child == 0:
                os.close(answers)
                run(command, scripts)
            os.write(answers, f"pid {number} {child}\n".encode())
            _, status = os.waitpid(child, 0)
            os.write(answers, f"end {number} {os.waitstatus_to_exitcode(status)}\n".encode())
            os._exit(0)


def run(command: dict[str, Any], scripts: dict[str, Any]) -> None:
    """In the fork: as if the shell had started it, without a terminal."""
    import runpy

    log = os.open(command["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for number, file in enumerate((os.open(os.devnull, os.O_RDONLY), log, log)):
        os.dup2(file, number)
    os.chdir(command["cwd"])
    os.environ.update(command["env"])
    name, *arguments = command["argv"]
    status = 1
    try:
        result = None
        if name in ("-m", "-c"):
            sys.path.insert(0, command["cwd"])
        if name == "-m":
            sys.argv = arguments
            runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
        elif name == "-c":
            sys.argv = ["-c", *arguments[1:]]
            exec(compile(arguments[0], "-c", "exec"), {"__name__": "__main__"})
        else:
            sys.argv = [name, *arguments]
            result = scripts[name].load()()
        status = result if isinstance(result, int) else 0
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
    serve(sys.argv[1:])

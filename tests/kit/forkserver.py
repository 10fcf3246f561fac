"""A host's real command lines. To import a host takes ten seconds and more, so one process imports it once, and each
command is a fork of that process.

As a program this file is that process: a line of JSON in for each command; its number and process id, then its number
and exit status out. It imports the standard library alone, so that a command's imports are those of an ordinary Python.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from threading import Lock
from typing import Any, NoReturn


@dataclass(frozen=True)
class Run:
    """A command that ended."""

    status: int
    """Of its exit; of a signal the negative number."""
    output: str
    """What it printed, errors included."""


class ForkServer:
    """Runs commands of this Python's environment, without a terminal: `server("mini", …)` what the console script of
    that name runs, `server("-m", "openhands.core.main", …)` what `python -m openhands.core.main …` runs, `-c` likewise.
    Several threads may use one."""

    def __init__(self, folder: Path, *modules: str, env: Mapping[str, str]) -> None:
        """`modules` are imported once, with `env` as the whole environment; what they print, and each command's
        output, goes to a file in `folder`."""
        self.folder = folder
        self._started = 0
        self._pids: dict[int, int] = {}
        self._ended: dict[int, int] = {}
        self._writing, self._reading = Lock(), Lock()
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / "imports.log", "wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-P", __file__, *modules],  # -P: no command imports the kit's modules
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=folder,
                env=env,
            )

    def __call__(self, *argv: str | Path, cwd: Path, env: Mapping[str, str]) -> Run:
        """Runs a command to its end; `env` is added to the server's own environment."""
        return self.wait(self.start(*argv, cwd=cwd, env=env))

    def start(self, *argv: str | Path, cwd: Path, env: Mapping[str, str]) -> int:
        """Starts a command; `wait` and `stop` take the number that this returns."""
        with self._writing:
            self._started += 1
            number = self._started
            log = self.log(number)
            log.touch()  # a command may be stopped before its first line
            command = {"number": number, "argv": [str(word) for word in argv], "cwd": str(cwd), "env": dict(env)}
            assert self._process.stdin is not None
            try:
                self._process.stdin.write(json.dumps(command | {"log": str(log)}) + "\n")
                self._process.stdin.flush()
            except BrokenPipeError:
                raise self._died() from None
        return number

    def wait(self, number: int) -> Run:
        """The command when it has ended."""
        status = self._answer(self._ended, number)
        return Run(status, self.log(number).read_text(errors="replace"))

    def stop(self, number: int) -> Run:
        """Ends a command as its supervisor would, by SIGTERM, if it has not ended yet."""
        pid = self._answer(self._pids, number)
        if number not in self._ended:
            with suppress(ProcessLookupError):  # its end has not been read yet
                os.kill(pid, signal.SIGTERM)
        return self.wait(number)

    def log(self, number: int) -> Path:
        """The file that a command prints to."""
        return self.folder / f"run-{number}.log"

    def close(self) -> None:
        """Ends all commands and the server."""
        assert self._process.stdin is not None
        with suppress(RuntimeError, BrokenPipeError):  # it died, and whoever needed it was told
            for number in range(1, self._started + 1):
                self.stop(number)
            self._process.stdin.close()
        self._process.wait()

    def _answer(self, known: dict[int, int], number: int) -> int:
        while number not in known:
            with self._reading:  # several threads may wait, and each line is read by one
                if number not in known:
                    self._read()
        return known[number]

    def _read(self) -> None:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise self._died()
        kind, number, value = line.split()
        {"pid": self._pids, "end": self._ended}[kind][int(number)] = int(value)

    def _died(self) -> RuntimeError:
        printed = (self.folder / "imports.log").read_text(errors="replace")
        return RuntimeError(f"the fork server ended, which had printed:\n{printed[-3000:]}")


def serve(modules: Sequence[str]) -> None:
    """Imports, then forks for each line until there are no more."""
    answers = os.dup(1)
    os.dup2(2, 1)  # what an import prints is no answer
    for module in modules:
        import_module(module)
    scripts = {script.name: script for script in entry_points(group="console_scripts")}
    for line in sys.stdin:
        command: dict[str, Any] = json.loads(line)
        number = command["number"]
        if os.fork() == 0:  # waits for the command, so that others can start meanwhile
            child = os.fork()
            if child == 0:
                os.close(answers)
                run(command, scripts)
            os.write(answers, f"pid {number} {child}\n".encode())
            _, status = os.waitpid(child, 0)
            os.write(answers, f"end {number} {os.waitstatus_to_exitcode(status)}\n".encode())
            os._exit(0)
    os._exit(0)  # what a host's libraries do at exit takes seconds, and nothing depends on it


def run(command: dict[str, Any], scripts: Mapping[str, EntryPoint]) -> NoReturn:
    """In the fork: as if a shell had started it."""
    log = os.open(command["log"], os.O_WRONLY)
    for number, file in enumerate((os.open(os.devnull, os.O_RDONLY), log, log)):
        os.dup2(file, number)
    os.chdir(command["cwd"])
    os.environ.update(command["env"])
    name, *arguments = command["argv"]
    status = 1
    try:
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
            sys.exit(scripts[name].load()())
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if status and not isinstance(end.code, int):
            print(end.code, file=sys.stderr)
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)  # a host may have one of its own
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    serve(sys.argv[1:])

"""`cliff`: the command line. Its commands are loaded when they are needed, ours and those of other packages."""

from __future__ import annotations

import importlib.metadata
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import EntryPoint
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

GROUP = "cliff.commands"
"""Entry points of this group are commands: NAME = a Typer app."""

OWN_NAMES = ("replay", "report", "tune", "doctor")
OWN = {name: EntryPoint(name, f"cliff_core.commands.{name}:app", GROUP) for name in OWN_NAMES}

BROKEN_PIPE = 141
"""Exit status of a program whose reader went away (128 + SIGPIPE), as `set -o pipefail` expects it."""


class Commands(TyperGroup):
    """Commands by entry point. One that cannot be loaded is a warning, and the others work."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(entry_points())

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        entry = entry_points().get(cmd_name)
        if entry is None:
            return None
        try:
            command = typer.main.get_command(entry.load())
        except (Exception, SystemExit) as error:
            from cliff_core.commands.said import warn

            problem = f"{type(error).__name__}: {error}"
            warn(f"the command {cmd_name!r} cannot be loaded from {entry.value} ({problem})")
            return None
        command.name = cmd_name
        # Those of `cliff` itself are enough.
        completion = ("install_completion", "show_completion")
        command.params = [param for param in command.params if param.name not in completion]
        return command

    def invoke(self, ctx: Any) -> Any:
        """Where the reader of the output went away (`| head`), end without a word."""
        try:
            try:
                return super().invoke(ctx)
            finally:
                sys.stdout.flush()
        except BrokenPipeError:
            _discard()
            raise typer.Exit(BROKEN_PIPE) from None


def entry_points() -> dict[str, EntryPoint]:
    """Commands by name, ours first: nobody replaces them."""
    others = {entry.name: entry for entry in importlib.metadata.entry_points(group=GROUP)}
    return OWN | {name: others[name] for name in sorted(others) if name not in OWN}


app = typer.Typer(
    name="cliff",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"cliff {importlib.metadata.version('cliff-core')}")
        raise typer.Exit()


@app.callback()
def cliff(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """CliffCompaction for coding agents: one cut at a token threshold, verbatim excerpts in place of
    old turns, no model call."""


class OutputError(Exception):
    """Standard output cannot be written."""


class Output(io.TextIOWrapper):
    """Standard output whose faults are told apart from those of other files. A reader that went away is none."""

    def write(self, text: str) -> int:
        with _writing():
            return super().write(text)

    def flush(self) -> None:
        with _writing():
            super().flush()


@contextmanager
def _writing() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(error.strerror or str(error)) from error


def _discard() -> None:
    """What is still buffered is flushed once more when the interpreter ends: it goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main() -> None:
    """The console script."""
    # Recorded text may hold what the terminal's encoding does not. A stream that was closed is None.
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    elif isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr.reconfigure(errors="replace")
    if sys.stdout is None:
        sys.exit(_unwritable("it is closed"))
    if isinstance(sys.stdout, io.TextIOWrapper):
        encoding, by_line = sys.stdout.encoding, sys.stdout.line_buffering
        sys.stdout = Output(sys.stdout.detach(), encoding, "replace", line_buffering=by_line)
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # before a command began: the version
        _discard()
        sys.exit(BROKEN_PIPE)
    except OutputError as error:
        _discard()
        sys.exit(_unwritable(str(error)))


def _unwritable(problem: str) -> int:
    print(f"error: standard output cannot be written: {problem}", file=sys.stderr)
    return 2

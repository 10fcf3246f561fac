"""The recorded sessions that a command is given."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from cliff_core import batch, traces
from cliff_core.commands.said import Log, say, stderr, warn

SESSION_SUFFIXES = (".json", ".jsonl", ".traj")
MOST_SKIPPED = 5
"""Files of a folder that are named one by one where they are no sessions."""


class Inputs:
    """The sessions of the given paths, one at a time and each file once; what cannot be read is said and noted.

    `outputs`: files that the command will write, or None. Each is tried first, and in a folder of sessions it is left
    out. Raises typer.BadParameter where one cannot be written, or would overwrite an input or another one."""

    def __init__(self, paths: list[Path], log: Log, outputs: Iterable[Path | None] = ()) -> None:
        written = [path for path in outputs if path is not None]
        for path in written:
            if problem := _unwritable(path):
                raise typer.BadParameter(f"{path} cannot be written: {problem}")
        self.errors: list[dict[str, str]] = []
        self.skipped: list[str] = []
        """What a folder holds besides sessions, and why that is none."""
        self._log = log
        self._progress: Progress | None = None
        skipped: list[traces.TraceError] = []
        self.files: list[Path] = []
        for path in _once(paths):
            found = traces.discover([path], skipped)
            if not found:
                self.failed(path, f"{path}: no recorded session in this folder ({batch.FORMATS_ARE})")
            self.files += found
        self.files = _once(self.files)
        ours = {_identity(path) for path in written}
        met = {os.path.realpath(path) for path in self.files}
        broken = []
        for error in skipped:
            real = os.path.realpath(error.path)
            if real in met:
                continue
            met.add(real)
            is_output = _identity(error.path) in ours
            # A file that has the name of a session and cannot be read is one that broke off; or it is a store.
            is_session = error.__cause__ is not None and error.path.name.endswith(SESSION_SUFFIXES)
            if is_session and not batch.is_store(error.path, or_empty=is_output):
                broken.append(error)
            elif not is_output:
                self.skipped.append(str(error))
        _spare([*self.files, *(error.path for error in broken)], written)
        for error in broken:
            self.failed(error.path, str(error))
        for text in self.skipped[:MOST_SKIPPED]:
            warn(f"skipped {text}")
        if len(self.skipped) > MOST_SKIPPED:
            warn(f"skipped {len(self.skipped) - MOST_SKIPPED} more files that are no sessions")

    def failed(self, path: Path, text: str) -> None:
        say("error", "red", text)
        self.errors.append({"path": str(path), "error": text})

    def __iter__(self) -> Iterator[traces.Session]:
        """The sessions themselves, one at a time."""
        for path in self.files:
            yield from self._sessions(path)

    @contextmanager
    def replayed(
        self,
        plan: batch.Plan,
        jobs: int | None = None,
        store: Path | None = None,
        no_store: bool = False,
        quiet: bool = False,
    ) -> Iterator[Iterator[batch.Done]]:
        """The sessions, replayed; with a progress bar on standard error, where that is a terminal and there are several
        files. `quiet`: without warnings of the core. An interrupt inside it is said, with where the results are."""
        kept: batch.Store | None = None
        if store is not None or (not no_store and len(self.files) >= batch.STORE_FROM):
            try:
                kept = batch.Store(store or batch.default_store(plan))
            except OSError as error:
                problem = f"{store or error.filename}: results cannot be kept there ({error.strerror or error})"
                if store is not None:
                    self.failed(store, problem)
                    yield iter(())
                    return
                warn(problem)
        try:
            with self._bar() as bar:
                yield self._replays(batch.run(self.files, plan, jobs, kept, bar), quiet)
        except BrokenProcessPool:
            self.failed(Path(), "a process was ended from outside (out of memory?): try --jobs 1")
        except KeyboardInterrupt:
            if kept is not None:
                warn(f"interrupted; what was done is kept in {kept.path}: the same command goes on from there")
            raise
        finally:
            if kept is not None:
                kept.close()

    def _replays(self, items: Iterator[batch.Done | batch.Said], quiet: bool) -> Iterator[batch.Done]:
        for item in items:
            if isinstance(item, batch.Done):
                if not item.replay.session.requests:
                    session = item.replay.session
                    warn(f"{session.path}: there is no model request in {session.name or 'the session'}")
                yield item
            elif item.kind == "error":
                self.failed(item.path, item.text)
            elif not quiet:
                self._log.said(item.text)

    @contextmanager
    def _bar(self) -> Iterator[Callable[[Path], None]]:
        if len(self.files) < 2 or not stderr.is_terminal:
            yield lambda path: None
            return
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        # Standard output is left alone: it may be a file.
        bar = Progress(*columns, console=stderr, transient=True, redirect_stdout=False, redirect_stderr=False)
        with bar as self._progress:
            task = bar.add_task("replaying", total=len(self.files))
            yield lambda path: bar.advance(task)
        self._progress = None

    @contextmanager
    def printing(self) -> Iterator[None]:
        """The bar goes away while data is printed: both may be on one terminal."""
        if self._progress is not None:
            self._progress.stop()
        yield
        if self._progress is not None:
            self._progress.start()

    def _sessions(self, path: Path) -> Iterator[traces.Session]:
        empty = True
        try:
            for session in traces.read(path):
                empty = False
                self._log.about = f"{session.path}: "
                yield session
            if empty:
                warn(f"{path}: there is no session in this file")
        except traces.TraceError as error:
            self.failed(path, batch.unread(error))
        finally:
            self._log.about = ""


def _once(paths: list[Path]) -> list[Path]:
    """Each file or folder once, under the name it was first met by."""
    found: dict[str, Path] = {}
    for path in paths:
        found.setdefault(os.path.realpath(path), path)
    return list(found.values())


def _identity(path: Path) -> tuple[int, int] | str:
    """Equal for all names of one file, hard links too."""
    try:
        found = path.stat()
    except OSError:
        return os.path.realpath(path)
    return found.st_dev, found.st_ino


def _unwritable(path: Path) -> str | None:
    """Why no file can be written there, as far as can be told without writing."""
    if os.path.isdir(path):
        return "it is a folder"
    if not os.path.isdir(path.parent):
        return f"there is no folder {path.parent}"
    if not os.access(path if os.path.exists(path) else path.parent, os.W_OK):
        return "permission denied"
    return None


def _spare(inputs: list[Path], outputs: list[Path]) -> None:
    """Raises typer.BadParameter where an output would overwrite an input, or a file in the folder of one session."""
    taken = {_identity(path) for path in inputs}
    for path in outputs:
        inside = Path(os.path.realpath(path)).parents if path.suffix in SESSION_SUFFIXES else ()
        if any(_identity(place) in taken for place in (path, *inside)):
            raise typer.BadParameter(f"{path} is an input and would be overwritten: name another file")
    if len({_identity(path) for path in outputs}) < len(outputs):
        raise typer.BadParameter(f"{outputs[0]} is named for two outputs")

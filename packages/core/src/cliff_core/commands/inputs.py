"""The recorded sessions that a command is given."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from cliff_core import batch, traces
from cliff_core.commands.said import Log, say, stderr, warn

SESSION_SUFFIXES = (".json", ".jsonl", ".traj")
MOST_SKIPPED = 5
"""Files of a folder that are named one by one where they are no sessions."""


class Inputs:
    """The sessions of the given paths, one at a time; what cannot be read is said and noted."""

    def __init__(self, paths: list[Path], log: Log) -> None:
        self.errors: list[dict[str, str]] = []
        self._log = log
        self._progress: Progress | None = None
        skipped: list[traces.TraceError] = []
        self._files: list[Path] = []
        for path in paths:
            found = traces.discover([path], skipped)
            if not found:
                self.failed(path, f"{path}: no recorded session in this folder")
            self._files += found
        others = []
        for error in skipped:
            # A file that has the name of a session and cannot be read is one that broke off.
            if error.__cause__ is not None and error.path.name.endswith(SESSION_SUFFIXES):
                self.failed(error.path, str(error))
            else:
                others.append(error)
        for error in others[:MOST_SKIPPED]:
            warn(f"skipped {error}")
        if len(others) > MOST_SKIPPED:
            warn(f"skipped {len(others) - MOST_SKIPPED} more files that are no sessions")

    def failed(self, path: Path, text: str) -> None:
        say("error", "red", text)
        self.errors.append({"path": str(path), "error": text})

    def __iter__(self) -> Iterator[traces.Session]:
        """The sessions themselves, one at a time."""
        for path in self._files:
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
        if store is not None or (not no_store and len(self._files) >= batch.STORE_FROM):
            path = store or batch.default_store(plan)
            try:
                kept = batch.Store(path)
            except OSError as error:
                problem = f"{path}: results cannot be kept there ({error.strerror or error})"
                if store is not None:
                    self.failed(path, problem)
                    yield iter(())
                    return
                warn(problem)
        try:
            with self._bar() as bar:
                yield self._replays(batch.run(self._files, plan, jobs, kept, bar), quiet)
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
        if len(self._files) < 2 or not stderr.is_terminal:
            yield lambda path: None
            return
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        # Standard output is left alone: it may be a file.
        bar = Progress(*columns, console=stderr, transient=True, redirect_stdout=False, redirect_stderr=False)
        with bar as self._progress:
            task = bar.add_task("replaying", total=len(self._files))
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
            self.failed(path, str(error))
        finally:
            self._log.about = ""

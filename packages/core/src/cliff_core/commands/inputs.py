"""The recorded sessions that a command is given."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.progress import Progress

from cliff_core import traces
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
        """With a progress bar on standard error, where that is a terminal and there are several files."""
        if len(self._files) < 2 or not stderr.is_terminal:
            for path in self._files:
                yield from self._sessions(path)
            return
        # Standard output is left alone: it may be a file.
        with Progress(
            *Progress.get_default_columns(),
            console=stderr,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        ) as self._progress:
            task = self._progress.add_task("replaying", total=len(self._files))
            for path in self._files:
                yield from self._sessions(path)
                self._progress.advance(task)

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

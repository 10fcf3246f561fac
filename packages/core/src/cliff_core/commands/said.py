"""What a command says beside its data, on standard error; and its standard output."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.text import Text

from cliff_core.tables import WIDE
from cliff_core.wording import printable

USUAL_WIDTH = 80
"""Columns of a terminal that does not know (COLUMNS=0)."""


class Stream(Console):
    """Standard output or standard error. A broken pipe is the business of `cli.Commands.invoke`.

    What reads a pipe or a file takes lines: none is folded there, unless COLUMNS says how wide it is."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, highlight=False)
        if not self.is_terminal and not os.environ.get("COLUMNS", "").isdigit():
            self.width = WIDE
        elif self.width < 1:
            self.width = USUAL_WIDTH

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


stderr = Stream(stderr=True)
"""One for progress and warnings, so that neither is written over the other."""


def warn(text: str) -> None:
    say("warning", "yellow", text)


def say(label: str, style: str, text: str) -> None:
    """One line: a label in a style, and a text."""
    line = " ".join(printable(text).split("\n"))
    stderr.print(Text(f"{label}: ", style=style).append(line, style=""), soft_wrap=True)


class Log(logging.Handler):
    """Warnings of the core, each once, with what they are about."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.about = ""
        self._said: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        self.said(self.about + record.getMessage().removeprefix("cliff: "))

    def said(self, text: str) -> None:
        """A warning, unless it was said before."""
        if text not in self._said:
            self._said.add(text)
            warn(text)


@contextmanager
def logged() -> Iterator[Log]:
    """Warnings of the core go to standard error as ours do."""
    logger, log = logging.getLogger("cliff_core"), Log()
    propagate, logger.propagate = logger.propagate, False
    logger.addHandler(log)
    try:
        yield log
    finally:
        logger.removeHandler(log)
        logger.propagate = propagate

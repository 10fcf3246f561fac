"""The log: one line an event, to standard error or a file. No credential and no text of a message is ever in it.

An exception's own words may quote what it choked on, so only its class and its place are logged.
"""

from __future__ import annotations

import logging
import logging.handlers
import os
import sys
import traceback
from pathlib import Path

logger = logging.getLogger("cliff_proxy")


MAX_BYTES = 5 * 2**20
"""Of a log file; then it becomes FILE.1, in place of the one before."""


def set_up(level: int = logging.INFO, path: Path | None = None) -> None:
    """Lines of this package to standard error, or to a file; what libraries say of requests is not printed.

    The file is the user's alone. Raises OSError where it cannot be written."""
    handler: logging.Handler = logging.StreamHandler(sys.stderr)
    if path is not None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
        handler = logging.handlers.RotatingFileHandler(path, maxBytes=MAX_BYTES, backupCount=1, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%S%z"))
    for name in ("cliff_proxy", "cliff_core"):
        found = logging.getLogger(name)
        found.handlers, found.propagate = [handler], False
        found.setLevel(level)


def silent() -> logging.Logger:
    """A logger that says nothing, for libraries that quote requests in their errors."""
    quiet = logging.getLogger("cliff_proxy.aiohttp")
    quiet.addHandler(logging.NullHandler())
    quiet.propagate = False
    return quiet


def described(error: BaseException) -> str:
    """An exception without its words: `ValueError at slices.py:40`."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return type(error).__name__ + place

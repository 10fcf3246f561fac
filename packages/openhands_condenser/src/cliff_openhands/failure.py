"""How a failure of ours is told in a log."""

from __future__ import annotations

from pathlib import Path


def place(error: Exception) -> str:
    """What failed, and where; an error's own words may hold those of a message."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = "" if trace is None else f" in {Path(trace.tb_frame.f_code.co_filename).name}, line {trace.tb_lineno}"
    return type(error).__name__ + where

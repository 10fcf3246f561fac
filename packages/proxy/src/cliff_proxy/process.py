"""What the process of a proxy is told: its event loop, how long threads keep each other waiting, and where freed memory
goes.

A body of some megabytes is held several times for some milliseconds. glibc would keep such memory, for each thread its
own; given back at once, it has to be had again for the next body. So it is kept while bodies come, and then given back
(`benchmarks/proxy.py`: a quarter of the time at 4 MB, 8 MiB).
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import sys
from collections.abc import Callable, Coroutine
from typing import Any

SWITCH_SECONDS = 0.001
"""For how long a thread that computes may keep the event loop waiting; Python's own is 5 ms."""

LARGE = 2**20
"""Bytes of a body after which memory is given back, and of a buffer that is a mapping of its own."""

KEPT = 8 * LARGE
"""Freed bytes that are kept for the next body."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # malloc.h


def run(main: Coroutine[Any, Any, None]) -> None:
    """Runs to its end on uvloop, which takes half of the time of asyncio's own loop; on that where there is none
    (Windows)."""
    factory: Callable[[], asyncio.AbstractEventLoop] | None
    try:
        from uvloop import new_event_loop as factory
    except ImportError:
        factory = None
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main)


def tune() -> None:
    """For all of the process; where there is no glibc, memory is left as it is."""
    sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_SECONDS))
    with contextlib.suppress(AttributeError):  # no such functions
        for option, value in ((_ARENA_MAX, 1), (_MMAP_THRESHOLD, LARGE), (_TRIM_THRESHOLD, KEPT)):
            _library().mallopt(option, value)


def give_back() -> None:
    """Gives the system what is kept of freed memory. Takes a millisecond or two."""
    with contextlib.suppress(AttributeError):
        _library().malloc_trim(0)


def _library() -> Any:
    """The C library; None where its names are not to be had so."""
    return ctypes.CDLL(None) if sys.platform.startswith("linux") else None

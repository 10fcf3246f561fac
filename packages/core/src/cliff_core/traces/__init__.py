"""Recorded sessions: one reader module a format, one `Session` for all of them.

A reader module has `NAME`, `EXPECTS` (one line: what such a file looks like), `matches(sample)` and
`read(path)`; the format of a file is found out by its content (`find`), never by its name.

    for path in discover([folder], skipped := []):
        try:
            for session in read(path):
                ...
        except TraceError as error:     # one line; sessions before the place where it broke were given
            ...

What a reader gives is what the recorded agent would have sent had it never compacted: all original messages in
their order, in one of the dialects, and for each request how many of them were its history. What the host adds or
repairs when it sends (results of aborted calls, say) is done as that host does it; each module says how.

Private keys, which are never sent: `_cliff` on messages of agents whose calls and results are plain text (then the
dialect is `chat-text`, see `cliff_core.dialects.text_actions`), and `_reasoning_tokens` on Responses reasoning
items: what the provider reported for them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol, cast

from cliff_core.traces import (
    atif,
    claude_code,
    codex,
    mini_swe_agent,
    nemo_gym,
    openhands_v0,
    openhands_v1,
    pi,
    raw_api,
    swe_agent,
)
from cliff_core.traces.session import Request, Session, TraceError, Usage
from cliff_core.traces.source import MalformedError, Sample, pipe, sample, special

__all__ = ["FORMATS", "Reader", "Request", "Session", "TraceError", "Usage", "discover", "find", "read"]


class Reader(Protocol):
    """What a reader module has."""

    NAME: str
    EXPECTS: str

    def matches(self, sample: Sample) -> bool: ...

    def read(self, path: Path) -> Iterator[Session]: ...


FORMATS = cast(
    "tuple[Reader, ...]",
    (
        mini_swe_agent,
        swe_agent,
        openhands_v0,
        openhands_v1,
        atif,
        nemo_gym,
        claude_code,
        codex,
        pi,
        raw_api,
    ),
)

EXPECTS = "a recorded session"

_SAMPLE_RECORDS = 200
"""Records that are looked at where the first does not tell: Claude Code may begin with many lines of summaries."""


def find(path: Path) -> Reader:
    """The format of a file or of the folder of one session. TraceError where it has none that is known."""
    try:
        if path.is_dir():
            for folder in (openhands_v1, raw_api):
                if folder.is_folder(path):
                    return cast(Reader, folder)
            raise MalformedError("the folder", "neither OpenHands events nor a log of requests")
        for size in (1, _SAMPLE_RECORDS):
            begin = sample(path, size)
            for reader in FORMATS:
                if reader.matches(begin):
                    return reader
    except MalformedError as error:
        raise TraceError(path, EXPECTS, str(error)) from error
    except OSError as error:
        raise TraceError(path, EXPECTS, f"cannot be read: {error.strerror or error}") from error
    except RecursionError as error:
        raise TraceError(path, EXPECTS, "nested too deeply") from error
    raise TraceError(path, EXPECTS, f"no known format: {_shape(begin)}")


def read(path: Path) -> Iterator[Session]:
    """The sessions of a file or pipe, or of the folder of one; lazily where the format allows it.

    Raises TraceError where it breaks, after the sessions that are whole."""
    with pipe(path):
        yield from find(path).read(path)


def discover(paths: Iterable[Path], skipped: list[TraceError] | None = None) -> list[Path]:
    """What `read` takes: each file given, and the sessions of each folder, by name.

    Files of a folder that are no session are left out and, with the reason, put into `skipped`, as is what is no
    regular file (pipes, devices); what was named stays, whatever it is. A folder that is one session is one. Hidden
    folders are not entered."""
    found: list[Path] = []
    for path in paths:
        if not path.is_dir():
            found.append(path)
            continue
        for folder, folders, names in os.walk(path):
            here = Path(folder)
            if openhands_v1.is_folder(here) or raw_api.is_folder(here):
                found.append(here)
                folders.clear()
                continue
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in sorted(names):
                try:
                    if kind := special(here / name):
                        raise TraceError(here / name, EXPECTS, f"it is {kind}")
                    find(here / name)
                except TraceError as error:
                    if skipped is not None:
                        skipped.append(error)
                else:
                    found.append(here / name)
    return found


def _shape(begin: Sample) -> str:
    kind = type(begin.first).__name__
    if isinstance(begin.first, dict):
        keys = ", ".join(str(key)[:40] for key in list(begin.first)[:6])
        return f"an object with the keys {keys}" if keys else "an empty object"
    names = {"list": "a list", "str": "a text", "bool": "true or false", "NoneType": "null"}
    return names.get(kind, "a number")

"""A replay without its session's messages: what tables, reports and plots need, and what is kept of it as JSON."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from cliff_core.block import Dropped
from cliff_core.compactor import Cliff
from cliff_core.config import CliffConfig
from cliff_core.ledger import Entry
from cliff_core.replay import Recorded, Replay, Result, Scale, model_of
from cliff_core.support import Support
from cliff_core.traces import Request, Session


def slim(session: Session) -> Session:
    """The session without messages and usage. (What it has of requests is their number.)"""
    return Session(
        session.path,
        session.format,
        session.dialect,
        [],
        [Request(0)] * len(session.requests),
        name=session.name,
        model=model_of(session),
        compactions=session.compactions,
        comparable=session.comparable,
    )


def data(replay: Replay) -> dict[str, Any]:
    """For JSON. Entries stand in columns."""
    session = replay.session
    return {
        "session": {
            "format": session.format,
            "dialect": session.dialect,
            "requests": len(session.requests),
            "name": session.name,
            "model": session.model,
            "compactions": list(session.compactions),
            "comparable": session.comparable,
        },
        "scale": _fields(replay.scale),
        "full": None if "full" in replay.results else _result(replay.full),
        "results": [_result(result) for result in replay.results.values()],
        "recorded": None if replay.recorded is None else _fields(replay.recorded),
    }


def replay(data: dict[str, Any], path: Path, config: CliffConfig) -> Replay:
    """What `data` was made of; the file lies at `path` now. Raises KeyError, TypeError or ValueError for other data."""
    known = dict(data["session"])
    session = Session(
        path,
        known["format"],
        known["dialect"],
        [],
        [Request(0)] * known["requests"],
        name=known["name"],
        model=known["model"],
        compactions=tuple(known["compactions"]),
        comparable=known["comparable"],
    )
    results = {result["policy"]: _read(result) for result in data["results"]}
    full = results["full"] if data["full"] is None else _read(data["full"])
    recorded = None if data["recorded"] is None else Recorded(**data["recorded"])
    return Replay(session, config, Scale(**data["scale"]), full, results, recorded)


def _fields(known: Any) -> dict[str, Any]:
    return {field.name: getattr(known, field.name) for field in dataclasses.fields(known)}


def _result(result: Result) -> dict[str, Any]:
    return {
        "policy": result.policy,
        "entries": _columns(result.entries),
        "auxiliary": _columns(result.auxiliary),
        "cliffs": [[request, cliff.as_dict()] for request, cliff in result.cliffs],
        "threshold": result.threshold,
        "smallest_threshold": result.smallest_threshold,
        "compactions": list(result.compactions),
        "support": _fields(result.support),
        "note": result.note,
    }


def _read(data: dict[str, Any]) -> Result:
    return Result(
        data["policy"],
        _entries(data["entries"]),
        tuple(
            (request, Cliff(**{**cliff, "dropped": Dropped(**cliff["dropped"])})) for request, cliff in data["cliffs"]
        ),
        data["threshold"],
        data["smallest_threshold"],
        auxiliary=_entries(data["auxiliary"]),
        compactions=tuple(data["compactions"]),
        support=Support(**data["support"]),
        note=data["note"],
    )


def _columns(entries: tuple[Entry, ...]) -> list[list[int]]:
    return [
        [entry.tokens for entry in entries],
        [entry.cached for entry in entries],
        [int(entry.written) for entry in entries],
        [entry.output for entry in entries],
    ]


def _entries(columns: list[list[int]]) -> tuple[Entry, ...]:
    return tuple(
        Entry(tokens, cached, bool(written), output) for tokens, cached, written, output in zip(*columns, strict=True)
    )

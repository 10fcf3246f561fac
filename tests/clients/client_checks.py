"""What must hold for the requests that an upstream got of one session."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from client_runs import texts

from cliff_core.block import OPENING
from kit import Request, checks

BLOCK = OPENING.strip()


def conversation(request: Request) -> dict[str, Any]:
    """The messages alone, with those that an earlier response stands for: clients change their tools in mid-session
    themselves."""
    if request.api == "responses":
        return {"input": request.messages}
    return {"system": ".", "messages": request.messages}


def block(request: Request) -> str:
    """The text of the block; empty where there is none."""
    found = [text for text in map(texts, request.messages) if BLOCK in text]
    assert len(found) <= 1, f"request {request.number} has {len(found)} blocks"
    return found[0] if found else ""


def cliffs(requests: list[Request]) -> list[int]:
    """The places in the list, from 1, at which the block changes."""
    blocks = [block(request) for request in requests]
    return [place for place, (before, now) in enumerate(pairwise(blocks), 2) if before != now]


def assert_held(requests: list[Request], *, least: int = 3) -> list[int]:
    """Calls paired, at least so many cliffs, none in consecutive requests, append-only between them."""
    for request in requests:
        checks.assert_paired(request)
    found = cliffs(requests)
    assert len(found) >= least, f"cliffs at {found} of {len(requests)} requests"
    assert all(after - before > 1 for before, after in pairwise(found)), found
    checks.assert_append_only([conversation(request) for request in requests], found)
    return found


def assert_present(requests: list[Request], text: str) -> None:
    """A text is in every request after the first one that has it."""
    having = [text in texts(request.messages) for request in requests]
    assert any(having), f"never sent: {text[:80]!r}"
    first = having.index(True)
    missing = [place for place, has in enumerate(having, 1) if not has and place > first]
    assert not missing, f"{text[:80]!r} is missing in requests {missing} of {len(requests)}"

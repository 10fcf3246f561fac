"""A folder of modules, and scripted sessions that read them with OpenHands' own tools."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kit import Call, ModelServer, Step, checks

TASK = "The parser of this folder drops the last line of a file. Find out why, and mend it. (task-marker-7)"
WORDS = ("parse", "line", "token", "buffer", "cursor", "stream", "reader", "value", "index", "offset", "limit", "error")
OPENING = "Excerpts of earlier steps of this session"
FINISH = Step(calls=[Call("finish", {"message": "Done."})])
THRESHOLD = 16_000


def folder(path: Path, files: int = 40) -> Path:
    path.mkdir(parents=True)
    for number in range(files):
        chance = random.Random(number)
        lines = [
            f"def {chance.choice(WORDS)}_{number}_{at}({chance.choice(WORDS)}, {chance.choice(WORDS)}={at * number}):"
            for at in range(110)
        ]
        (path / f"module_{number}.py").write_text("\n".join(lines) + "\n")
    return path


def view(path: Path, *lines: int) -> Call:
    more: dict[str, Any] = {"view_range": list(lines)} if lines else {}
    given = {"command": "view", "path": str(path), **more, "security_risk": "LOW", "summary": "read a module"}
    return Call("file_editor", given)


def terminal(command: str) -> Call:
    return Call("terminal", {"command": command, "security_risk": "LOW", "summary": "a command"})


def steps(path: Path, number: int, *, commands: bool = False) -> Iterator[Step]:
    """Reads of 5 KB, some in parallel with others; with `commands` a few in the terminal, which takes its time."""
    for at in range(number):
        calls = [view(path / f"module_{at}.py")]
        if at % 3 == 1:
            calls += [view(path / f"module_{at}.py", 1, 4), view(path / f"missing_{at}.py")]
        if commands and at % 7 == 5:
            calls.append(terminal(f"wc -l module_{at}.py"))
        yield Step(f"Step {at}: module {at} may hold the loop.", calls=calls)


def assert_condensed(requests: Any, cliffs: int = 3) -> None:
    """The requests of one session: they grow but for so many cliffs or more, and there is one block from then on."""
    found = checks.cliffs_of(requests)
    assert len(found) >= cliffs, f"cliffs at {found}"
    checks.assert_append_only(requests, found)
    for number, request in enumerate(requests, 1):
        checks.assert_paired(request)
        text = "\n".join(checks.stream(request))
        assert text.count(OPENING) == (1 if number >= found[0] else 0)
        assert TASK in text


def assert_models_own(server: ModelServer, count: int) -> None:
    """There was no request but the agent's own."""
    server.assert_finished()
    assert len(server.requests) == count
    assert not [request.path for request in server.other if "model" not in request.path]

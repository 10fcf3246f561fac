"""Scripted sessions of a coding agent, and the real repository in which its commands run."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kit import Call, Step

SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
TASK = "The parser of this repository drops the last line of a file. Find out why, and mend it. (task-marker-7)"
WORDS = ("parse", "line", "token", "buffer", "cursor", "stream", "reader", "value", "index", "offset", "limit", "error")


def repository(folder: Path, files: int = 120) -> Path:
    """A folder of modules, each with text of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(files):
        chance = random.Random(number)
        lines = [
            f"def {chance.choice(WORDS)}_{number}_{at}({chance.choice(WORDS)}, {chance.choice(WORDS)}={at * number}):"
            for at in range(60)
        ]
        (folder / f"module_{number}.py").write_text("\n".join(lines) + "\n")
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    return folder


def commands(steps: int) -> Iterator[list[str]]:
    """The commands of each step: reads of 3 to 4 KB, some in parallel with short ones, errors, edits."""
    for at in range(steps):
        found = [f"sed -n '1,{45 + at % 10}p' module_{at}.py"]
        if at % 3 == 1:
            found += [f"wc -l module_{at}.py", f"grep -c cursor module_{at}.py"]
        if at % 10 == 5:
            found = [f"cat missing_{at}.py"]
        if at % 7 == 4:
            found.append(f"cat > notes_{at}.md <<'EOF'\n# Notes {at}\n" + f"- looked at module_{at}\n" * 30 + "EOF")
        yield found
    yield [SUBMIT]


def tool_calls(steps: int) -> list[Step]:
    """For the classes with tool calls, of Chat, Responses and Messages."""
    return [
        Step(
            text=f"THOUGHT: step {at}: module_{at} may hold the loop.",
            thought=f"Considering module {at}. " * 3,
            calls=[Call("bash", {"command": command}) for command in found],
        )
        for at, found in enumerate(commands(steps))
    ]


def texts(steps: int) -> list[Step]:
    """For the text-based classes: one command, in a fence."""
    return [
        Step(f"THOUGHT: step {at}: module_{at} may hold the loop.\n\n```mswea_bash_command\n{found[0]}\n```")
        for at, found in enumerate(commands(steps))
    ]


def everything(value: Any) -> str:
    """All texts of a JSON value, for a search."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return "\n".join(map(everything, value.values()))
    return "\n".join(map(everything, value)) if isinstance(value, list) else ""

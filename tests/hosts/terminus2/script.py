"""The scripted agent that solves `tasks/tally` in 29 episodes or a few more, for both parsers, and answers a native
summarizer.

Each step prints a number that does not stand in its own text (`obs-1007` from `$((1000+7))`). As long as the agent does
not see it, the terminal is still busy and it waits, as a real one would: nothing depends on the machine's speed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kit import ModelServer, Step

MODULES = {
    "model": '''"""A booking."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Booking:
    """One line of the ledger; the amount is in cents."""

    date: str
    account: str
    amount: int
    note: str = ""

    @property
    def month(self) -> str:
        return self.date[:7]
''',
    "parse": '''"""Lines of a ledger -> bookings."""

from collections.abc import Iterable, Iterator

from tally.model import Booking


def bookings(lines: Iterable[str]) -> Iterator[Booking]:
    """Comments and blank lines are skipped; another line that is no booking is an error with its number."""
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        words = text.split(maxsplit=3)
        if len(words) < 3:
            raise ValueError(f"line {number}: DATE ACCOUNT AMOUNT expected, not {text!r}")
        yield Booking(words[0], words[1], int(words[2]), words[3] if len(words) > 3 else "")
''',
    "balance": '''"""Sums of bookings by a key."""

from collections import Counter
from collections.abc import Callable, Iterable

from tally.model import Booking


def sums(bookings: Iterable[Booking], key: Callable[[Booking], str]) -> dict[str, int]:
    """The sum of each key's bookings, sorted by key."""
    found: Counter[str] = Counter()
    for booking in bookings:
        found[key(booking)] += booking.amount
    return dict(sorted(found.items()))
''',
    "report": '''"""Sums as lines."""

from collections.abc import Mapping


def lines(sums: Mapping[str, int]) -> str:
    """NAME SUM, one a line, in the order given."""
    return "".join(f"{name} {total}\\n" for name, total in sums.items())
''',
    "cli": '''"""python3 -m tally balance|months FILE"""

import sys
from pathlib import Path

from tally.balance import sums
from tally.parse import bookings
from tally.report import lines

KEYS = {"balance": lambda booking: booking.account, "months": lambda booking: booking.month}


def main(arguments: list[str]) -> int:
    if len(arguments) != 2 or arguments[0] not in KEYS:
        print("usage: python3 -m tally balance|months FILE", file=sys.stderr)
        return 2
    with Path(arguments[1]).open(encoding="utf-8") as file:
        sys.stdout.write(lines(sums(bookings(file), KEYS[arguments[0]])))
    return 0
''',
}

TESTS = {
    "model": 'self.assertEqual(model.Booking("2021-03-04", "a", 5).month, "2021-03")',
    "parse": 'self.assertEqual([b.amount for b in parse.bookings(["# no", "2021-01-01 a 7 x y"])], [7])',
    "balance": "self.assertEqual(balance.sums([], str), {})",
    "report": 'self.assertEqual(report.lines({"a": 1}), "a 1\\n")',
    "cli": "self.assertEqual(cli.main([]), 2)",
}

NOTES = "".join(f"{name}.py does one thing and has one test, test_{name}.py.\n" for name in MODULES)
"""A file that is pasted into `cat`."""


@dataclass(frozen=True)
class Turn:
    """One reply: what it says and types. `mark` counts from 1."""

    mark: int
    analysis: str
    plan: str
    keystrokes: Sequence[tuple[str, float]]
    complete: bool = False

    def text(self, parser: str) -> str:
        typed = [*self.keystrokes, *([(f"echo obs-$((1000+{self.mark}))\n", 0.1)] if self.mark else [])]
        if parser == "json":
            found: dict[str, Any] = {
                "analysis": self.analysis,
                "plan": self.plan,
                "commands": [{"keystrokes": keys, "duration": seconds} for keys, seconds in typed],
            }
            return json.dumps(found | ({"task_complete": True} if self.complete else {}), indent=2)
        commands = "".join(f'<keystrokes duration="{seconds}">{keys}</keystrokes>\n' for keys, seconds in typed)
        end = "<task_complete>true</task_complete>\n" if self.complete else ""
        return (
            f"<response>\n<analysis>{self.analysis}</analysis>\n<plan>{self.plan}</plan>\n"
            f"<commands>\n{commands}</commands>\n{end}</response>"
        )


WAIT = Turn(0, "The last command has not ended yet.", "Wait.", [("", 0.7)])


def turns() -> list[Turn]:
    return [Turn(mark, *said) for mark, said in enumerate(_said(), 1)]


def test_of(name: str) -> str:
    """The test of a module."""
    return (
        f"import unittest\n\nfrom tally import {name}\n\n\nclass {name.title()}Test(unittest.TestCase):\n"
        f"    def test_{name}(self) -> None:\n        {TESTS[name]}\n"
    )


def _said() -> Iterator[tuple[Any, ...]]:
    yield "Nothing is built yet.", "Look at the folder and the ledger.", [("ls -la; wc ledger.txt\n", 0.1)]
    first = 1
    for name, source in MODULES.items():
        yield (
            f"tally/{name}.py is missing. The lines of the ledger tell what it has to take.",
            f"Read the ledger from line {first} on before I write {name}.",
            [(f"sed -n '{first},{first + 69}p' ledger.txt\n", 0.1)],
        )
        first += 70
        yield (
            f"The lines have three words and a note. {name}.py can be written now.",
            f"Write tally/{name}.py.",
            [
                ("mkdir -p tally; touch tally/__init__.py\n", 0.05),
                (f"cat > tally/{name}.py <<'EOF'\n{source}EOF\n", 0.1),
            ],
        )
        yield (
            f"{name}.py is written; it has no test.",
            "Write its test.",
            [(f"cat > test_{name}.py <<'EOF'\n{test_of(name)}EOF\n", 0.1)],
        )
        yield (
            f"The test of {name} is there.",
            "Run all tests, and look at what they loaded.",
            [(f"python3 -m unittest -v 2>&1 | tail -20; python3 -v -c 'import tally.{name}' 2>&1 | tail -40\n", 0.3)],
        )
    yield (
        "What is there should be written down.",
        "Paste some notes; Ctrl-C in case that the end of the file was not taken.",
        [(f"cat > notes.txt\n{NOTES}", 0.7), ("C-d", 0.4), ("C-c", 0.2)],
    )
    yield (
        "Each module is tested; the package cannot be run yet.",
        "Write __main__.py.",
        [
            (
                "cat > tally/__main__.py <<'EOF'\nimport sys\n\nfrom tally.cli import main\n\n"
                "sys.exit(main(sys.argv[1:]))\nEOF\n",
                0.1,
            )
        ],
    )
    yield (
        "The program is whole.",
        "Run it on the ledger.",
        [("python3 -m tally balance ledger.txt; python3 -m tally months ledger.txt\n", 0.4)],
    )
    for about in ("bank", "food", "rent", "travel"):
        yield (
            f"The sum of {about} should be checked against the lines themselves.",
            f"List the lines of {about}.",
            [(f"grep -n {about} ledger.txt | head -60\n", 0.1)],
        )
    yield "All sums are right.", "Run the tests once more.", [("python3 -m unittest 2>&1 | tail -5\n", 0.5)]
    yield "The tests pass.", "Done.", [("ls\n", 0.1)], True
    yield "Yes, it is complete.", "Confirm.", [], True


SUMMARY = "You are about to hand off your work"
QUESTIONS = "Please begin by asking several questions"
ANSWERS = "The next agent has a few questions for you"
NATIVE = (SUMMARY, QUESTIONS, ANSWERS, "Briefly continue this task")


def is_native(request: Any) -> bool:
    """Whether a request is one of the host's own summarizer."""
    return any(words in last_text(request) for words in NATIVE)


def last_text(request: Any) -> str:
    content = request.messages[-1]["content"]
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def busy(said: str, mark: int) -> bool:
    """Whether a prompt shows a terminal that is not at the end of a step. (After a native summary it shows none.)"""
    screen = said.partition("\n\nAre you sure")[0].rstrip()
    return f"obs-{1000 + mark}" not in screen and not screen.endswith(("#", "$")) and shows_output(said)


def shows_output(said: str) -> bool:
    return any(words in said for words in ("New Terminal Output:", "Current Terminal Screen:"))


class Agent:
    """A function of the request, for `ModelServer`: the next turn, or what the native summarizer wants to hear."""

    def __init__(self, parser: str, said: Sequence[Turn] | None = None) -> None:
        self.parser = parser
        self.turns = turns() if said is None else list(said)
        self.taken = self.waited = 0

    def __call__(self, request: Any) -> Step:
        if is_native(request):
            return Step(f"The modules {', '.join(MODULES)} and their tests are written one after the other. " * 12)
        if self.taken and busy(last_text(request), self.turns[self.taken - 1].mark):
            self.waited += 1
            assert self.waited < 40, "the terminal does not answer"
            return Step(WAIT.text(self.parser))
        self.taken += 1
        return Step(self.turns[self.taken - 1].text(self.parser))


def seen(server: ModelServer, marks: int) -> set[int]:
    """The steps of which some request shows the output."""
    texts = "\n".join(
        text
        for request in server.answered
        for message in request.messages
        if message["role"] == "user"
        for text in [message["content"] if isinstance(message["content"], str) else json.dumps(message["content"])]
    )
    return {mark for mark in range(1, marks + 1) if f"obs-{1000 + mark}" in texts}


def lost(server: ModelServer) -> int:
    """How many times the agent was told something else in place of what its last command printed."""
    requests = [request for request in server.answered if not is_native(request)]
    return sum(not shows_output(last_text(request)) for request in requests)

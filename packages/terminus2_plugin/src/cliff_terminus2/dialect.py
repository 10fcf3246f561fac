"""Terminus-2's messages as the core's contents: the only module that knows their shapes (facts/terminus2.md, 1.1).

There is no system message and no tool call on the wire. The first message is the format, the task and the screen;
then the model's text (JSON or XML: analysis, plan, keystrokes) and what the host says to it take turns. Keystrokes are
calls, and the terminal's output is their common result; the host's own sentences around it are notes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from cliff_core import dialect
from cliff_core.content import Content, Message, Note, Opaque, ToolResult, looks_failed
from cliff_core.signature import inline_bodies
from cliff_core.traces.terminus import TOOL

_CHAT, _TEXT = dialect("chat"), dialect("chat-text")

Typed = Callable[[str], Sequence[str]]
"""A reply -> the keystrokes that the host's own parser finds in it."""


class Said(dict[str, Any]):
    """A message of the host that follows a reply: equal to the host's, and it knows what was typed before it."""

    typed: Sequence[str] = ()


class Mark(dict[str, Any]):
    """A message that only a compactor sees. `{"role": "trigger"}`, then `{"role": "model"}`: what follows is a turn of
    its own (the core takes no decision between the two)."""


PART = (Mark(role="trigger"), Mark(role="model"))

# What the host says, by its beginning (the same in terminal-bench 0.2.18 and Harbor 0.26.0).
_OUTPUT = ("New Terminal Output:\n", "Current Terminal Screen:\n")
_WARNINGS = "Previous response had warnings:\n"
_ERRORS = "Previous response had parsing errors:\n"
_STATE = "Current terminal state:\n"
_QUESTION = "\n\nAre you sure you want to mark the task as complete?"
_COMMAND = "Previous command:\n"
_TIMEOUT = "\n\nThe previous command timed out after "
_SCREEN = "Here is the current state of the terminal:\n\n"
_NOTHING_DONE = "ERROR!! NONE of the actions you just requested were performed"


class TerminusDialect:
    """Messages of Terminus-2. `typed` is the host's parser, so that a command which it repaired is the one shown."""

    name = "terminus-2"

    def __init__(self, typed: Typed) -> None:
        self._typed = typed

    def parse(self, message: Mapping[str, Any]) -> Message:
        if isinstance(message, Mark):
            return Message(message["role"], ())
        text = message.get("content")
        if not isinstance(text, str):
            return _CHAT.parse(message)
        if message.get("role") == "assistant":
            return self._reply(message, text)
        if message.get("role") == "user":
            said = tuple(_said(text, getattr(message, "typed", ())))
            if said:
                return Message("user", said)
        return _CHAT.parse(message)

    def keystrokes(self, text: str) -> list[str]:
        """What a reply types; nothing where the host cannot read it."""
        try:
            return [keys for keys in self._typed(text) if isinstance(keys, str)]
        except Exception:  # the host says so to the model
            return []

    def _reply(self, message: Mapping[str, Any], text: str) -> Message:
        typed = [keys for keys in self.keystrokes(text) if keys.strip()]
        thoughts = list(_thoughts(text))
        if not (typed or thoughts) or _SURROGATE.search("".join((*typed, *thoughts))):
            return _CHAT.parse(message)
        # Nothing is open: no API pairs them, and the one output of all (the last one's) stands in the same turn.
        calls = [
            {"name": TOOL, "arguments": keys, "id": f"call_{number}", "answered": False}
            for number, keys in enumerate(typed, 1)
        ]
        return _TEXT.parse({**message, "_cliff": {"thought": thoughts, "calls": calls}})

    def canonical(self, message: Mapping[str, Any]) -> Any:
        return _CHAT.canonical(message)

    def block_index(self, head: Sequence[Message]) -> int:
        return _CHAT.block_index(head)

    def block_message(self, text: str) -> dict[str, Any]:
        return _CHAT.block_message(text)

    def merge_block(self, message: Mapping[str, Any], text: str) -> dict[str, Any] | None:
        return _CHAT.merge_block(message, text)


_SURROGATE = re.compile(r"[\ud800-\udfff]")
"""Half of a character, from an escape in JSON: nobody can send it, so such a reply stays as it was written."""

_PROSE = ("analysis", "plan")
_FIELD = re.compile(r'"(analysis|plan)"\s*:\s*"([^"\\]*(?:\\.[^"\\]*)*)"', re.DOTALL)


def _thoughts(text: str) -> Iterator[str]:
    """Analysis and plan of a reply, of one that the host repairs or refuses as well. They stand before the keystrokes,
    which may contain the other format."""
    tag = min((at for name in _PROSE if (at := text.find(f"<{name}>")) >= 0), default=len(text))
    field = _FIELD.search(text)
    if field is not None and field.start() < tag:
        said = dict(reversed(_FIELD.findall(text)))  # the first of each
        for name, words in said.items():
            with suppress(ValueError):  # no JSON: as it was written
                said[name] = json.loads(f'"{words}"', strict=False)
    else:
        said = {name: _between(text, f"<{name}>", f"</{name}>") for name in _PROSE}
    yield from filter(None, (said.get(name, "").strip() for name in _PROSE))


def _between(text: str, opening: str, closing: str) -> str:
    """What stands between the first `opening` and the next `closing`; nothing without both."""
    found, end, _ = text.partition(opening)[2].partition(closing)
    return found if end else ""


def _said(text: str, typed: Sequence[str]) -> Iterator[Content]:
    """What the host said after a reply, told apart; nothing where it is none of its sentences (the task)."""
    if text.startswith(_ERRORS):
        yield Note(text, "parsing errors")
    elif text.startswith(_NOTHING_DONE):
        yield Note(text, "answer too long")
    elif text.startswith(_WARNINGS):
        marks = (text.find("\n\n" + mark) for mark in (*_OUTPUT, _COMMAND))
        start = min((at for at in marks if at >= 0), default=len(text))
        yield Note(text[:start], "warnings")
        yield from _screen(text[start:].lstrip("\n"), typed)
    elif text.startswith(_STATE) and (end := text.rfind(_QUESTION)) >= 0:
        yield Opaque("markup", text=_STATE)
        yield from _screen(text[len(_STATE) : end], typed)
        yield Note(text[end:].strip(), "confirmation")
    elif text.startswith((*_OUTPUT, _COMMAND)):
        yield from _screen(text, typed)


def _screen(text: str, typed: Sequence[str]) -> Iterator[Content]:
    """What the commands came to: the terminal's output, or that one of them took too long."""
    at = text.find(_TIMEOUT) if text.startswith(_COMMAND) else -1
    if at >= 0:
        start = text.find(_SCREEN, at)
        end = start + len(_SCREEN) if start >= 0 else len(text)
        yield Note(text[at:end].strip(), "timeout")
        yield Opaque("markup", text=text[:at])  # the command stands above, as a call
        yield from _output(text[end:], typed, error=True)
    else:
        yield from _output(text, typed)


def _output(text: str, typed: Sequence[str], error: bool = False) -> Iterator[Content]:
    """The terminal's output without the host's heading, tmux's padding and the echo of inline bodies, all of which are
    counted all the same."""
    heading = next((mark for mark in _OUTPUT if text.startswith(mark)), "")
    padded = text[len(heading) :]
    kept, echo = without_echo(padded.strip("\n"), typed)
    kept = kept.strip()
    calls = sum(1 for keys in typed if keys.strip())
    yield ToolResult(kept, f"call_{calls}" if calls else "", error or looks_failed(kept))
    rest = heading + echo + "\n" * (len(padded) - len(padded.strip("\n")))
    if rest:
        yield Opaque("markup", text=rest)


def without_echo(screen: str, typed: Sequence[str]) -> tuple[str, str]:
    """Output without the terminal's echo of inline bodies, and that echo.

    The echo of a heredoc (any continuation line) is what was typed after bash's `> `; that of a pasted file follows the
    line that took it. A line wider than the terminal goes on in the next row."""
    if not any("\n" in keys.strip("\n") for keys in typed):
        return screen, ""
    rows = screen.split("\n")
    gone: set[int] = set()
    at = 0
    for keys in typed:
        lines = keys.rstrip("\n").split("\n")
        for line in lines[1:]:
            for row in range(at, len(rows)):
                if rows[row].startswith(">") and (end := _ends(rows, row, "> " + line)):
                    gone.update(range(row, end))
                    at = end
                    break
        for body in filter(None, inline_bodies(keys)):
            opener = keys[: keys.find(body)].rstrip("\n").rpartition("\n")[2]
            end = next((row + 1 for row in range(len(rows)) if row not in gone and rows[row].endswith(opener)), 0)
            for line in body.rstrip("\n").split("\n") if end else ():
                start, end = end, _ends(rows, end, line)
                if not end or start in gone:
                    break
                gone.update(range(start, end))
    kept = "\n".join(row for number, row in enumerate(rows) if number not in gone)
    return kept, "\n".join(row for number, row in enumerate(rows) if number in gone)


def _ends(rows: Sequence[str], start: int, line: str) -> int:
    """The row after the echo of `line` that begins in row `start`; 0 if it does not begin there."""
    line = line.rstrip()
    shown = ""
    for row in range(start, len(rows)):
        while shown and not line.startswith(shown + rows[row]) and line.startswith(shown + " "):
            shown += " "  # tmux leaves out the spaces at the end of a row
        shown += rows[row]
        if shown.rstrip() == line:
            return row + 1
        if not shown or not line.startswith(shown):
            return 0
    return 0

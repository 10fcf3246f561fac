"""Terminus-2's replies: JSON or XML with an analysis, a plan and keystrokes, inside the text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

TOOL = "bash_command"
"""What Harbor calls a derived call."""

_KEYSTROKES = re.compile("<(keystrokes)")  # its attributes follow
_PROSE = re.compile("<(analysis|plan)(?=>)")


def reply(text: str, derived: list[tuple[str, Any]] | None = None) -> dict[str, Any]:
    """A reply as a `chat-text` message. `derived`: name and keystrokes of each call that the record has."""
    thoughts, typed = _parts(text)
    known = derived or [(TOOL, keystrokes) for keystrokes in typed]
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if not known and not thoughts:
        return message
    if not thoughts and not typed:  # analysis and plan without the commands, or a reply that the host repaired
        thoughts = [text.partition('"commands"')[0].strip()]
    calls = [
        {"name": name, "arguments": keystrokes, "id": f"call_{number}", "answered": number == len(known)}
        for number, (name, keystrokes) in enumerate(known, 1)  # one observation for all: it is the last one's
    ]
    message["_cliff"] = {"thought": thoughts, "calls": calls}
    return message


def result(text: Any, reply: dict[str, Any] | None) -> dict[str, Any]:
    """What the terminal showed after a reply, as the next user message."""
    calls = (reply or {}).get("_cliff", {}).get("calls") or []
    mark: dict[str, Any] = {"role": "tool"}
    if calls:
        mark["call_id"] = calls[-1]["id"]
    return {"role": "user", "content": text, "_cliff": mark}


def _parts(text: str) -> tuple[list[str], list[str]]:
    """Analysis and plan, and keystrokes, as decoded texts."""
    start, end = text.find("{"), text.rfind("}")
    if 0 <= start < end:
        try:
            found = json.loads(text[start : end + 1], strict=False)
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, dict) and ("commands" in found or "analysis" in found):
            thoughts = [found[key] for key in ("analysis", "plan") if isinstance(found.get(key), str)]
            commands = found.get("commands")
            typed = [c.get("keystrokes") for c in commands if isinstance(c, dict)] if isinstance(commands, list) else []
            return [t for t in thoughts if t], [k for k in typed if isinstance(k, str) and k]
    keystrokes = [found for found in _tagged(text, _KEYSTROKES) if found]
    return [found.strip() for found in _tagged(text, _PROSE)] if keystrokes else [], keystrokes


def _tagged(text: str, opening: re.Pattern[str]) -> Iterator[str]:
    """What stands between each opening tag and the next closing one of its name.

    Linear: a closing tag that is missing is looked for once."""
    unclosed: set[str] = set()
    at = 0
    while tag := opening.search(text, at):
        name, at = tag[1], tag.end()
        if name in unclosed:
            continue
        start = text.find(">", at) + 1
        end = text.find(f"</{name}>", start) if start else -1
        if end < 0:
            unclosed.add(name)
            continue
        yield text[start:end]
        at = end + len(f"</{name}>")

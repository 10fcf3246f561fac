"""Server-sent events: the events of a stream, and text cut into the pieces of one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

CONTENT_TYPE = "text/event-stream; charset=utf-8"


def encode(value: Any) -> bytes:
    """Compact JSON in UTF-8, escaped only where a lone surrogate has no UTF-8."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


@dataclass(frozen=True)
class Event:
    """One event. Data that is a string is sent as it stands (`[DONE]`)."""

    data: Any
    name: str | None = None

    def encode(self) -> bytes:
        data = self.data.encode() if isinstance(self.data, str) else encode(self.data)
        name = f"event: {self.name}\n".encode() if self.name else b""
        return name + b"data: " + data + b"\n\n"


def pieces(text: str, size: int) -> list[str]:
    """The text in pieces of at most so many characters."""
    return [text[i : i + size] for i in range(0, len(text), size)]


def read(stream: bytes) -> Iterator[Event]:
    """The complete events of a stream, JSON parsed where it is JSON."""
    for block in stream.decode("utf-8", "replace").split("\n\n")[:-1]:
        name, data = None, []
        for line in block.split("\n"):
            key, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if key == "event":
                name = value
            elif key == "data":
                data.append(value)
        text = "\n".join(data)
        try:
            yield Event(json.loads(text), name)
        except ValueError:
            yield Event(text, name)

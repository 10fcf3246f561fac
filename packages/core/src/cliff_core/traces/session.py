"""What every reader gives: a session, its requests, their usage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


class TraceError(Exception):
    """A file cannot be read as a session. One line: the path, what was expected, where it broke."""

    def __init__(self, path: Path, expects: str, reason: str) -> None:
        super().__init__(path, expects, reason)
        self.path, self.expects, self.reason = path, expects, reason

    def __str__(self) -> str:
        return " ".join(f"{self.path}: expected {self.expects}; {self.reason}".split("\n"))


@dataclass(frozen=True, slots=True)
class Usage:
    """What the provider reported of one request, in tokens.

    `input_tokens` is the whole prompt, cached tokens included, in every format; None: not reported."""

    input_tokens: int
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """One model request: the first `at` messages of the session were its history."""

    at: int
    usage: Usage | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Session:
    """One recorded session with all of its original messages, in the message format of `dialect`.

    Where the recorded agent compacted, the original messages stay and its summary is left out;
    `compactions` holds the message indices at which that happened: recorded usage from the first one on does not
    describe the full context (`comparable` is then the number of requests before it)."""

    path: Path
    format: str
    dialect: str
    messages: list[dict[str, Any]]
    requests: list[Request]
    name: str = ""
    model: str | None = None
    tools: list[dict[str, Any]] | None = None
    system: str | list[dict[str, Any]] | None = None
    """What is sent beside the messages (Anthropic `system`, Responses `instructions`). In Chat Completions the
    system prompt is a message, and this is None."""
    compactions: tuple[int, ...] = ()
    comparable: int | None = None
    """How many of the first requests can be compared with their recorded usage; None: all, 0: none
    (the recorded agent did not send the full context). They end at the first compaction, or where the recorded prompt
    falls by a tenth although none is recorded."""
    extra: Mapping[str, Any] = field(default_factory=dict)

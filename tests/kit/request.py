"""One request as the server saw it, and the reply it got."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from . import sse, usage
from .faults import Malformed, StreamError, Truncate
from .script import Step
from .usage import Usage

MODEL_ITEMS = {
    "reasoning",
    "compaction",
    "function_call",
    "custom_tool_call",
    "local_shell_call",
    "shell_call",
    "apply_patch_call",
    "computer_call",
    "web_search_call",
    "file_search_call",
    "code_interpreter_call",
    "image_generation_call",
    "tool_search_call",
    "mcp_call",
    "mcp_list_tools",
}
"""Types of Responses items that the model wrote, beside its messages."""


@dataclass
class Reply:
    """What was sent back."""

    status: int
    outcome: str = "open"
    """`open` while it is being sent, then `complete`, `reset` (a scripted fault), `client closed`
    or `server closed`."""
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""
    """The bytes sent so far, before compression."""
    sent: int = 0
    """Pieces sent so far: the events of a stream."""

    def json(self) -> Any:
        """The body of a reply that is no stream."""
        return json.loads(self.body)

    def events(self) -> list[sse.Event]:
        """The events of a stream that were sent."""
        return list(sse.read(self.body))


@dataclass
class Request:
    """One request. `number` counts from 1, in order of arrival, apart for models and the rest."""

    number: int
    api: str
    """`chat`, `anthropic`, `responses`, or `other` for what asks no model (models, counts)."""
    method: str
    path: str
    """As sent, percent-encoding included."""
    query: str
    headers: list[tuple[str, str]]
    """In order, names in lower case, credentials replaced (`recording.redact`)."""
    raw: bytes
    """The body, byte for byte."""
    step: Step | None = None
    """The step that answered; None if the request was rejected, or a side request."""
    rejected: str | None = None
    """Why no step answered: `limit`, `invalid`, `exhausted`, `script failed`."""
    usage: Usage | None = None
    """What the server counted and reported."""
    reply: Reply | None = None
    earlier: list[Any] = field(default_factory=list)
    """Responses: the items that `previous_response_id` stands for."""

    @cached_property
    def body(self) -> dict[str, Any]:
        """The body, decompressed and parsed; ValueError if it is no JSON object."""
        value = json.loads(decompress(self.raw, self.header("content-encoding")))
        if not isinstance(value, dict):
            raise ValueError("the body is no JSON object")
        return value

    def header(self, name: str) -> str | None:
        """The first header of this name."""
        return next((value for key, value in self.headers if key == name.lower()), None)

    @property
    def answered(self) -> bool:
        """Whether a step answered it, and the whole answer was sent."""
        if self.step is None or self.reply is None or self.rejected:
            return False
        broken = isinstance(self.step.fault, (Malformed, StreamError, Truncate))
        return self.reply.status == 200 and self.reply.outcome == "complete" and not broken

    @property
    def model(self) -> str:
        return str(self.body.get("model", ""))

    @property
    def stream(self) -> bool:
        return bool(self.body.get("stream"))

    @property
    def messages(self) -> list[Any]:
        """Messages, or input items with those that `previous_response_id` stands for."""
        return [*self.earlier, *usage.messages(self.body)]

    @property
    def tools(self) -> list[Any]:
        return self.body.get("tools") or []

    @property
    def turns(self) -> int:
        """Steps of the model in the messages: contiguous runs of what it wrote."""
        wrote = [_is_models(item) for item in self.messages]
        return sum(now and not before for before, now in zip([False, *wrote], wrote, strict=False))

    @property
    def text(self) -> str:
        """All text of the prompt, as the cache compares it."""
        return "\n".join(s.text for s in usage.segments(self.body, self.messages))


def _is_models(item: Any) -> bool:
    if not isinstance(item, dict):
        return False
    return item.get("role") == "assistant" or item.get("type") in MODEL_ITEMS


def decompress(raw: bytes, encoding: str | None) -> bytes:
    """The body behind its `content-encoding`."""
    for name in reversed(list(_names(encoding))):
        try:
            if name == "gzip":
                raw = gzip.decompress(raw)
            elif name == "deflate":
                raw = zlib.decompress(raw)
            elif name == "zstd":
                import zstandard  # the only one that Python 3.11 to 3.13 lacks

                raw = zstandard.ZstdDecompressor().decompressobj().decompress(raw)
            else:
                raise ValueError(f"unknown content-encoding {name!r}")
        except (OSError, EOFError, zlib.error) as error:
            raise ValueError(f"the body is not {name}: {error}") from error
        except ImportError as error:
            raise ValueError("a zstd body needs the package zstandard") from error
    return raw


def _names(encoding: str | None) -> Iterator[str]:
    for name in (encoding or "").split(","):
        if name.strip() and name.strip() != "identity":
            yield name.strip().lower()

"""A client and a provider around an engine, without HTTP: bodies of generated sessions, byte for byte."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cliff_core import CliffConfig
from cliff_core.overflow import Rejection
from cliff_proxy.engine import Call, Engine, Prepared, Usage
from cliff_proxy.settings import Settings
from properties.oracle import native, shape

FIELD = {"anthropic": "messages", "chat": "messages", "responses": "input"}
MODEL = "a-model-that-no-table-knows"
UPSTREAM = "https://api.example.com"


def settings(config: CliffConfig | None = None, **changes: Any) -> Settings:
    config = config or CliffConfig()
    return Settings(config=config, threshold_given=True, **changes)


def spelled(message: Any, style: int) -> bytes:
    """A message as one of several clients spells it."""
    separators = ((",", ":"), (", ", ": "), (" , ", " :\n"))[style % 3]
    return _utf8(json.dumps(message, separators=separators, ensure_ascii=style % 2 == 0))


def _utf8(text: str) -> bytes:
    """UTF-8; what has none (half a surrogate pair) as an escape."""
    return "".join(c if not "\ud800" <= c <= "\udfff" else f"\\u{ord(c):04x}" for c in text).encode()


def body(api: str, items: Sequence[bytes], *, style: int = 0, **fields: Any) -> bytes:
    """A request; the messages stand first, in the middle or last."""
    named = {"model": MODEL, "stream": True, **fields}
    parts = [b"%b:%b" % (json.dumps(name).encode(), json.dumps(value).encode()) for name, value in named.items()]
    array = b'"%b": [%b]' % (FIELD[api].encode(), b", ".join(items))
    parts.insert(style % (len(parts) + 1), array)
    return b"{ " + b", ".join(parts) + b" }\n"


def messages_of(api: str, data: bytes) -> list[Any]:
    found: list[Any] = json.loads(data)[FIELD[api]]
    return found


@dataclass
class Step:
    """One request, as it came in and as it went out."""

    items: list[bytes]
    came: bytes
    prepared: Prepared
    went: list[bytes] = field(default_factory=list)
    """Bodies that were sent, the rejected one before the one that replaced it."""

    @property
    def out(self) -> bytes:
        return self.went[-1]


class Provider:
    """Counts as no tokenizer of ours does: characters by a rate; rejects what is above its window."""

    def __init__(self, rate: float = 0.31, window: int | None = None, limit: bool = False) -> None:
        self.rate, self.window, self.limit = rate, window, limit

    def tokens(self, data: bytes) -> int:
        return max(1, int(len(data) * self.rate))

    def rejection(self, data: bytes) -> Rejection | None:
        if self.window is None or self.tokens(data) <= self.window:
            return None
        return Rejection(self.window if self.limit else None)


class Client:
    """Holds one history, and asks with more of it at each step, as agents do."""

    def __init__(
        self, api: str, messages: Sequence[Any], *, style: int = 0, marks: bool = False, **fields: Any
    ) -> None:
        self.api, self.style, self.marks, self.fields = api, style, marks, fields
        self.messages = list(messages)
        natives = [native(message, api) for message in self.messages]
        self.sizes = [size for size in sorted({*shape(natives).starts, len(self.messages)}) if size]

    def items(self, size: int) -> list[bytes]:
        messages = self.messages[:size]
        if self.marks and self.api == "anthropic":
            messages = _marked(messages)
        return [spelled(message, self.style + place) for place, message in enumerate(messages)]

    def call(self, size: int) -> tuple[list[bytes], Call]:
        items = self.items(size)
        return items, Call(self.api, body(self.api, items, style=self.style, **self.fields), UPSTREAM)  # type: ignore[arg-type]

    def ask(self, engine: Engine, size: int, provider: Provider | None = None) -> Step:
        """One request, with its replay where it is rejected, and the usage that is reported for it."""
        items, call = self.call(size)
        prepared = engine.at_once(call) or engine.prepare(call)
        engine.write()
        step = Step(items, call.body, prepared)
        step.went.append(prepared.body or call.body)
        if provider is None:
            return step
        rejection = provider.rejection(step.out)
        if rejection is not None:
            again = engine.overflowed(prepared, rejection)
            if again is None:
                return step
            step.prepared = again
            step.went.append(again.body or call.body)
            if provider.rejection(step.out) is not None:
                return step
        engine.answered(step.prepared, Usage(provider.tokens(step.out)))
        return step

    def play(self, engine: Engine, provider: Provider | None = None) -> list[Step]:
        return [self.ask(engine, size, provider) for size in self.sizes]


def _marked(messages: Sequence[Any]) -> list[Any]:
    """With a cache marker on the last message alone, whose text becomes a list, as Claude Code does it."""
    found = list(messages)
    last = copy.deepcopy(found[-1])
    content = last.get("content")
    if isinstance(content, str) and content:
        last["content"] = content = [{"type": "text", "text": content}]
    if isinstance(content, list) and content and isinstance(content[-1], dict):
        content[-1]["cache_control"] = {"type": "ephemeral"}
        found[-1] = last
    return found


def engine(config: CliffConfig | None = None, store: Path | None = None, **changes: Any) -> Engine:
    return Engine(settings(config, store=store, **changes))

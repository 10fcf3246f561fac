"""Message formats: `dialect(name)` gives the one object that knows a format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Protocol

from cliff_core.content import Message

NAMES = ("chat", "anthropic", "responses", "chat-text")
_MODULES = {"chat-text": "text_actions"}


class Dialect(Protocol):
    """Everything that is known of one message format. All methods are pure; no message is changed in place.

    A dialect whose messages are no dicts (the proxy's are bytes) has a method `plain` that gives what the other
    methods take; one whose `parse` counts what it returns (`Message.with_tokens`) is believed."""

    name: str

    def parse(self, message: Mapping[str, Any]) -> Message:
        """The contents of one message, in order, not yet counted. Never raises for a message that is an
        object: what is not understood becomes `Opaque`."""
        ...

    def canonical(self, message: Mapping[str, Any]) -> Any:
        """The message as it is compared with an earlier copy of itself: without cache markers, and with a
        text and a list of that one text made equal (clients move markers and switch between the two)."""
        ...

    def block_index(self, head: Sequence[Message]) -> int:
        """Where in the head the block is inserted (0…len(head)), so that the result is legal in the API."""
        ...

    def block_message(self, text: str) -> dict[str, Any]:
        """The block as a user message of its own."""
        ...

    def merge_block(self, message: Mapping[str, Any], text: str) -> dict[str, Any] | None:
        """`message` (the last user message of the head) with the block appended, its own text staying a prefix;
        None where that cannot be done (the block is then a message of its own)."""
        ...


def dialect(name: str) -> Dialect:
    """The dialect `chat` (OpenAI Chat Completions), `anthropic` (Messages) or `responses` (OpenAI Responses).

    Raises ValueError for another name; adapters with a format of their own pass an object instead."""
    if name not in NAMES:
        raise ValueError(f"unknown dialect {name!r}; known are {', '.join(NAMES)}")
    found: Dialect = import_module(f"cliff_core.dialects.{_MODULES.get(name, name)}").DIALECT
    return found

"""One module per API, each with the same functions: `Api` says which."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from ..request import Request
from ..script import Step
from ..sse import Event
from ..usage import Usage
from . import anthropic, chat, responses


class Api(Protocol):
    """What the server asks of an API's module. `place` is the number of the step, from 0."""

    def reply(self, step: Step, place: int, usage: Usage, request: Request) -> dict[str, Any]:
        """The body of the reply to a client that does not stream."""

    def events(self, step: Step, place: int, usage: Usage, request: Request) -> tuple[list[Event], dict[str, Any]]:
        """The events of the stream that adds up to that reply, and the reply."""

    def error(self, status: int, message: str, kind: str | None = None, code: str | None = None) -> dict[str, Any]:
        """The body of an HTTP error."""

    def error_events(self, body: Any, place: int, sent: int, request: Request) -> list[Event]:
        """An error in the middle of a stream, after so many events."""

    def max_tokens(self, body: Mapping[str, Any]) -> int:
        """What the request allows for the answer; 0 if it does not say."""


APIS: dict[str, Api] = {"chat": chat, "anthropic": anthropic, "responses": responses}

__all__ = ["APIS", "Api"]

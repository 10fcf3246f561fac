"""A session while it is read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cliff_core.traces.reasoning import settle
from cliff_core.traces.session import Request, Session, Usage


class History:
    """Messages and requests in their order. A request's history is what stands here when it is made."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.requests: list[Request] = []
        self.compactions: list[int] = []
        self.model: str | None = None
        self._comparable: int | None = None

    def add(self, message: dict[str, Any]) -> None:
        self.messages.append(message)

    def request(self, usage: Usage | None = None, model: str | None = None) -> None:
        if model:
            self.model = model
        self.requests.append(Request(len(self.messages), usage, model))

    def set_usage(self, usage: Usage | None) -> None:
        """The usage of the newest request, once it is known."""
        last = self.requests[-1]
        self.requests[-1] = Request(last.at, usage, last.model)

    def compacted(self) -> None:
        """The recorded agent shortened what it sends from here on."""
        if self._comparable is None:
            self._comparable = len(self.requests)
        self.compactions.append(len(self.messages))

    def session(
        self,
        path: Path,
        name_of_format: str,
        dialect: str,
        *,
        name: str = "",
        model: str | None = None,
        tools: list[dict[str, Any]] | None = None,
        system: str | list[dict[str, Any]] | None = None,
        comparable: int | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> Session:
        if dialect == "chat" and any("_cliff" in message for message in self.messages):
            dialect = "chat-text"
        if dialect == "responses":
            settle(self.messages, self.requests)
        return Session(
            path=path,
            format=name_of_format,
            dialect=dialect,
            messages=self.messages,
            requests=self.requests,
            name=name,
            model=model or self.model,
            tools=tools,
            system=system,
            compactions=tuple(self.compactions),
            comparable=self._first_incomparable() if comparable is None else comparable,
            extra=extra or {},
        )

    def _first_incomparable(self) -> int | None:
        """Requests before the first compaction, recorded or not: hosts clear old results without a word, and the
        recorded prompt then falls while the history grows."""
        before = 0
        for index, request in enumerate(self.requests[: self._comparable]):
            if request.usage is not None:
                if request.usage.input_tokens < 0.9 * before:
                    return index
                before = request.usage.input_tokens
        return self._comparable

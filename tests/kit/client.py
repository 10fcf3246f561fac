"""The smallest client of each API: for tests that look at bytes, where an SDK would hide them."""

from __future__ import annotations

from typing import Any

import httpx

from .server import ModelServer

PATHS = {
    "chat": "/v1/chat/completions",
    "anthropic": "/v1/messages",
    "responses": "/v1/responses",
}

http = httpx.Client(timeout=30, trust_env=False)
"""One for all tests: making one takes longer than a request."""


def minimal(api: str, text: str = "x") -> dict[str, Any]:
    """The smallest legal body."""
    messages = [{"role": "user", "content": text}]
    if api == "responses":
        return {"model": "m", "input": messages}
    return {"model": "m", "messages": messages} | ({"max_tokens": 99} if api == "anthropic" else {})


def ask(server: ModelServer | str, api: str = "chat", **body: Any) -> httpx.Response:
    """Posts a body, by default the minimal one, to a server or a base URL without `/v1`."""
    url = server if isinstance(server, str) else server.url
    return http.post(url + PATHS[api], json={**minimal(api), **body})

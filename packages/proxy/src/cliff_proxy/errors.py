"""Errors on both sides: what an upstream's error says in its own words, and errors of ours in an API's shape."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from cliff_core import overflow

MAX_ERROR = 2**20
"""Bytes of an error that are held back and looked at."""

_TEXT_CHARS = 1_000
"""Characters of one text of an error; providers' own are shorter, what is longer quotes the request."""

_OWN_KEYS = (
    *("error", "errors", "message", "msg", "detail", "code", "type", "status", "error_type", "response"),
    *("metadata", "raw"),
)
"""Where providers put their own words (OpenRouter hands on those of its provider in `metadata.raw`). All other keys of
an error, such as `input` of a validation error, hold what the client sent."""

_DEPTH = 8

_ECHO = re.compile(r"""['"](?:input|messages|content|body|prompt|system|tools)['"]\s*:|input_value=""")
"""From here on a text quotes the request (pydantic, FastAPI, vLLM)."""

_NEVER = frozenset({401, 402, 403, 404, 405, 407})
"""Statuses that speak of other things than a prompt's length, whatever their text."""


def rejection(status: int, body: bytes) -> overflow.Rejection | None:
    """Whether an error response, decoded, says that the prompt was too long."""
    if status in _NEVER:
        return None
    try:
        text = own_words(json.loads(body))
    except (ValueError, RecursionError):
        text = _own(body[: 4 * _TEXT_CHARS].decode("utf-8", "replace"))
    return overflow.find(text, status)


def event_rejection(value: Any) -> overflow.Rejection | None:
    """The same for the data of an error event in a stream."""
    return overflow.find(own_words(value))


def own_words(value: Any) -> str:
    """What an error says itself, without what it quotes of the request."""
    return "\n".join(_words(value, 0))


def _words(value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        if value.lstrip()[:1] in {"{", "["} and depth < _DEPTH:
            try:
                inner = json.loads(value)
            except (ValueError, RecursionError):
                pass
            else:
                yield from _words(inner, depth + 1)
                return
        yield _own(value)
    elif isinstance(value, Mapping) and depth < _DEPTH:
        for key, inner in value.items():
            if key in _OWN_KEYS:
                yield from _words(inner, depth + 1)
    elif isinstance(value, list) and depth < _DEPTH:
        for inner in value[:5]:
            yield from _words(inner, depth + 1)


def _own(text: str) -> str:
    echo = _ECHO.search(text)
    return text[: min(echo.start() if echo else len(text), _TEXT_CHARS)]


def shaped(provider: str, status: int, message: str) -> dict[str, Any]:
    """An error of ours as the clients of this provider know errors."""
    if provider == "anthropic":
        kinds = {401: "authentication_error", 403: "permission_error", 404: "not_found_error"}
        kind = kinds.get(status, "invalid_request_error" if status < 500 else "api_error")
        return {"type": "error", "error": {"type": kind, "message": message}}
    kinds = {401: "authentication_error", 403: "permission_error"}
    kind = kinds.get(status, "invalid_request_error" if status < 500 else "server_error")
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}

"""Where a request goes: by its path, else by its headers, to one of the upstreams."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from cliff_proxy.engine import Api
from cliff_proxy.headers import Values
from cliff_proxy.settings import OPENAI, Settings

OWN = "/_cliff/"
"""Paths that are ours begin so."""


@dataclass(frozen=True, slots=True)
class Route:
    """Where a request goes, and what it is."""

    api: Api | None
    """None: passed through unread."""
    provider: str
    """`anthropic` or `openai`: the shape of errors of our own."""
    upstream: str
    """Base URL."""
    target: str
    """Path and query behind it, as they came."""
    compact: bool = False
    """OpenAI's `/responses/compact`."""

    @property
    def url(self) -> str:
        return self.upstream + self.target


def route(method: str, raw_path: str, values: Values, settings: Settings) -> Route:
    """The route of a request. The path is not decoded: `%2F` stays what it is."""
    anthropic = b"anthropic-version" in values or b"x-api-key" in values
    chatgpt = settings.openai_upstream == OPENAI and b"chatgpt-account-id" in values
    openai = settings.chatgpt_upstream if chatgpt else settings.openai_upstream
    return _route(method, raw_path, anthropic, chatgpt, settings.anthropic_upstream, openai)


@lru_cache(64)  # clients ask for the same paths again and again
def _route(method: str, raw_path: str, anthropic: bool, chatgpt: bool, upstream: str, openai_upstream: str) -> Route:
    """`anthropic` and `chatgpt`: whether the headers are those of their clients."""
    target = origin_form(raw_path)
    path = target.partition("?")[0].rstrip("/")
    api, compact = _api(path) if method == "POST" else (None, False)
    if _is_anthropic(path, anthropic):
        return Route(api, "anthropic", upstream.rstrip("/"), target, compact)
    target = target.removeprefix("/v1") if chatgpt else target
    return Route(api, "openai", openai_upstream.rstrip("/"), target, compact)


def origin_form(raw_path: str) -> str:
    """The path and query of a request target; a client that takes us for a forward proxy sends a whole URL."""
    if raw_path.startswith("/"):
        return raw_path
    if "://" in raw_path:
        _, slash, rest = raw_path.partition("://")[2].partition("/")
        return slash + rest or "/"
    return "/" if raw_path == "*" else "/" + raw_path


def _api(path: str) -> tuple[Api | None, bool]:
    if path == "/messages" or path.endswith("/v1/messages"):  # not OpenAI's /v1/threads/ID/messages
        return "anthropic", False
    if path.endswith("/chat/completions"):
        return "chat", False
    if path.endswith("/responses/compact"):
        return "responses", True
    return ("responses", False) if path.endswith("/responses") else (None, False)


_ANTHROPIC = ("/v1/messages", "/messages", "/v1/complete", "/api/")  # the last: Claude Code's own
_OPENAI = ("/chat/completions", "/completions", "/responses", "/embeddings", "/images", "/audio")


def _is_anthropic(path: str, anthropic: bool) -> bool:
    if path.endswith("/v1/messages"):
        return True
    if path.removeprefix("/v1").startswith(_OPENAI) or path.endswith(("/chat/completions", "/responses")):
        return False
    if path.startswith(_ANTHROPIC):
        return True
    return anthropic

"""Who may ask: the names that the proxy answers to, and the token that others than this machine need."""

from __future__ import annotations

import hmac
import ipaddress
from dataclasses import dataclass
from functools import lru_cache

from cliff_proxy.headers import Values, text
from cliff_proxy.settings import Settings

TOKEN_HEADER = "x-cliff-token"

MAX_NAME = 255
"""Characters of a name (RFC 1035)."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is not served."""

    status: int
    message: str


@lru_cache(64)
def is_loopback(host: str) -> bool:
    """Whether an address or a name (without a port) is this machine only."""
    host = host.strip("[]").rstrip(".").lower()
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def in_url(host: str) -> str:
    """An address or a name as it stands in a URL."""
    return f"[{host}]" if ":" in host else host


def check(settings: Settings) -> None:
    """ValueError where the settings would serve strangers."""
    if not is_loopback(settings.host) and not settings.token:
        raise ValueError(
            f"host {settings.host!r} can be reached from other machines: set a token (CLIFF_TOKEN), which clients "
            f"send as {TOKEN_HEADER}, or use 127.0.0.1"
        )


def refusal(settings: Settings, values: Values) -> Refusal | None:
    """Why this request is refused; None if it is not.

    On loopback the `Host` must be a name of loopback: a web page whose name was made to point here (DNS rebinding)
    sends its own. Bound elsewhere, the names of this machine are not known, and the token is demanded.
    """
    if is_loopback(settings.host):
        if _names_loopback(values.get(b"host", b"")):
            return None
        return Refusal(403, "this proxy answers to 127.0.0.1 and localhost only")
    # Compared in constant time; without a token nobody is served (`check` does not let it come to that).
    given = values.get(TOKEN_HEADER.encode(), b"")
    if settings.token and hmac.compare_digest(given, settings.token.encode()):
        return None
    return Refusal(401, f"this proxy wants its token in the header {TOKEN_HEADER}")


@lru_cache(64)
def _names_loopback(host: bytes) -> bool:
    """Whether a `Host` header has a name of this machine."""
    named = text(host)
    name = named.partition("]")[0] + "]" if named.startswith("[") else named.partition(":")[0]
    return len(name) <= MAX_NAME and is_loopback(name)

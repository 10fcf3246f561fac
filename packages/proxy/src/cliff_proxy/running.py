"""The user's running proxies: each says in a file where it is, so that `cliff status` and `cliff doctor` find it."""

from __future__ import annotations

import contextlib
import json
import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from cliff_proxy import places
from cliff_proxy.access import TOKEN_HEADER

ANSWER_SECONDS = 5.0
"""For how long a proxy may take to say how it is."""


@dataclass(frozen=True, slots=True)
class Running:
    """A proxy that runs, or ran."""

    url: str
    pid: int
    kind: Literal["run", "serve"]
    command: str = ""
    """Of `cliff run`: the name of what it runs. No arguments: they may hold a prompt or a key."""


@contextlib.contextmanager
def announced(proxy: Running) -> Iterator[None]:
    """While it runs. Where the file cannot be written, nobody finds the proxy, and it works all the same."""
    path = places.running() / f"{proxy.pid}-{proxy.url.rpartition(':')[2]}.json"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        partial = path.with_suffix(".new")
        with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump(asdict(proxy), file)
        partial.replace(path)
    except OSError:
        pass
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def found() -> list[Running]:
    """Those whose process is there, the oldest first. Files of others are taken away: a killed proxy leaves its own."""
    proxies = []
    for path in sorted(places.running().glob("*.json"), key=_age):
        try:
            proxy = Running(**json.loads(path.read_text()))
        except (OSError, ValueError, TypeError):
            continue
        if _lives(proxy.pid):
            proxies.append(proxy)
        else:
            with contextlib.suppress(OSError):
                path.unlink()
    return proxies


def ask(url: str, name: str, token: str | None = None, seconds: float = ANSWER_SECONDS) -> dict[str, Any] | None:
    """What a proxy answers at `/_cliff/NAME`; None where there is no proxy of ours. Raises PermissionError where it
    wants a token, or another one."""
    headers = {TOKEN_HEADER: token} if token else {}
    request = urllib.request.Request(f"{url.rstrip('/')}/_cliff/{name}", headers=headers)
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(request, timeout=seconds) as reply:
            value = json.loads(reply.read())
    except urllib.error.HTTPError as error:
        if error.code == 401:
            raise PermissionError(f"the proxy at {url} wants its token: set CLIFF_TOKEN") from None
        return None
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def is_ours(url: str, seconds: float = 1.0) -> bool:
    """Whether a proxy of ours answers there."""
    return (ask(url, "healthz", seconds=seconds) or {}).get("status") == "ok"


def _age(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True

"""The user's running proxies: each says in a file where it is, so that `cliff status` and `cliff doctor` find it. And
what a proxy must not do beside them: take their port, send to one of them."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import json
import os
import socket
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from cliff_proxy import access, places
from cliff_proxy.access import TOKEN_HEADER
from cliff_proxy.settings import UPSTREAMS, Settings

EVERYWHERE = ("0.0.0.0", "::")
"""To listen at: all addresses of this machine; to send to: loopback."""

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


def leads_to_ours(url: str) -> bool:
    """Whether a base URL, whatever its path, leads to a running proxy of ours on this machine. Other machines are not
    asked."""
    try:
        scheme, host, port = _address(url)
    except ValueError:  # it is no URL
        return False
    return _is_here(host) and is_ours(f"{scheme}://{access.in_url(host)}:{port}")


def check_upstreams(settings: Settings, names: Iterable[str] = UPSTREAMS) -> None:
    """ValueError where an upstream is the proxy itself, which would send each request to itself again and again, or
    another running proxy of ours, which would compact what this one sent."""
    for name in names:
        url = getattr(settings, name)
        _, host, port = _address(url)
        at = f"{access.in_url(host)}:{port}"
        if settings.port and port == settings.port and _is_own(settings, host):
            raise ValueError(
                f"{name} is the address of this proxy itself ({at}): set it to the base URL of the API, or choose "
                "another port"
            )
        if leads_to_ours(url):
            raise ValueError(
                f"{name} leads to a running cliff proxy ({at}), which would compact a second time: point the client at "
                f"that one, or set {name} to the base URL of the API"
            )


def listen_problem(settings: Settings) -> str:
    """Why a proxy of these settings could not listen, tried without taking a connection; empty where it could."""

    async def bind() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            asyncio.Protocol, settings.host, settings.port, reuse_address=os.name != "nt", start_serving=False
        )
        server.close()

    try:
        asyncio.run(bind())
    except OSError as error:
        return listen_error(error, settings)
    return ""


def listen_error(error: OSError, settings: Settings) -> str:
    """What kept a proxy from listening, for people."""
    if error.errno == errno.EADDRINUSE:
        url = f"http://127.0.0.1:{settings.port}"
        who = "another cliff proxy (cliff status)" if is_ours(url) else "another program"
        return f"port {settings.port} of {settings.host} is taken by {who}"
    return f"{settings.host}:{settings.port}: {error.strerror or error}"


def _address(url: str) -> tuple[str, str, int]:
    """Scheme, host and port of a URL; what it may hold of a user and a password is left out."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


def _is_own(settings: Settings, host: str) -> bool:
    """Whether a proxy of these settings listens at that host, too."""
    if settings.host in EVERYWHERE:
        return _is_here(host)
    both = access.is_loopback(settings.host) and (access.is_loopback(host) or host in EVERYWHERE)
    return both or host == settings.host


def _is_here(host: str) -> bool:
    """Whether an address is of this machine: no other can be listened at. Names are not looked up."""
    if access.is_loopback(host):
        return True
    try:
        family = socket.AF_INET6 if ipaddress.ip_address(host).version == 6 else socket.AF_INET
        socket.create_server((host, 0), family=family).close()
    except (OSError, ValueError):
        return False
    return True


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

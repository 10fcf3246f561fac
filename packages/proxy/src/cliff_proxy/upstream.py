"""The upstream's side: where it is, connections to it without limits or time-outs, and how both can fail."""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from aiohappyeyeballs import start_connection

from cliff_proxy.access import is_loopback
from cliff_proxy.headers import Fields
from cliff_proxy.outgoing import BYTES, Body, BrokenOff, Connection, Reply
from cliff_proxy.routes import Route

if TYPE_CHECKING:
    from cliff_proxy.sockets import Socket, Sockets

__all__ = ["BrokenOff", "NotThere", "Opening", "Reply", "Upstream", "origin"]

CONNECT_SECONDS = 30.0
"""Within which an upstream has to take a connection, TLS included. Nothing else has a time limit: a model may think for
long."""

KEEP_SECONDS = 60.0
"""For how long a connection is kept that nobody uses."""

KEEPALIVE_SECONDS = 60
"""Of silence, after which TCP asks whether the upstream is still there."""

READ_BYTES = 2**18
"""That are taken from a connection at a time."""

OURS = frozenset({b"host", b"content-length", b"transfer-encoding", b"connection"})
"""Fields that are written here, never taken over."""

REPEATABLE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"})
"""Methods that may be sent twice (RFC 9110, 9.2.2)."""


class NotThere(Exception):  # noqa: N818
    """No connection to the upstream could be made."""


@dataclass(slots=True)
class _Place:
    """An upstream, and how to get there."""

    address: tuple[str, int]
    secure: bool
    host: bytes
    """Its `Host`."""
    before: bytes
    """What stands before the path in a request's target."""
    more: list[bytes] = field(default_factory=list)
    """Lines that each request has, ours."""
    authorization: bytes = b""
    """The line for credentials of its URL."""
    proxy: SplitResult | None = None
    idle: list[Connection] = field(default_factory=list)
    """Connections that are kept, the newest last."""


class Opening(NamedTuple):
    """What stands before the body of a request, and where it goes."""

    method: str
    place: _Place
    lines: bytes
    """All of its head but what frames the body."""


class Upstream:
    """Connections to all upstreams. One for a running proxy."""

    def __init__(self) -> None:
        self._places: dict[str, _Place] = {}
        self._open: set[Connection] = set()
        self._buffer = memoryview(bytearray(READ_BYTES))
        self._context: ssl.SSLContext | None = None
        self._sockets: Sockets | None = None
        self._sweeping: asyncio.TimerHandle | None = None
        self._closed = False

    async def start(self) -> None:
        """To be called in the loop that serves."""
        self._loop = asyncio.get_running_loop()

    async def close(self) -> None:
        """Breaks off what is still being sent or received."""
        self._closed = True
        if self._sweeping is not None:
            self._sweeping.cancel()
        if self._sockets is not None:
            await self._sockets.close()
        for connection in list(self._open):
            connection.fail(BrokenOff("the proxy ends"))
        for _ in range(10):  # until the sockets are closed
            await asyncio.sleep(0)

    def opening(self, method: str, route: Route, fields: Fields) -> Opening:
        """The beginning of requests that say the same but for their body. Raises NotThere."""
        place = self._places.get(route.upstream) or self._place(route.upstream)
        return Opening(method, place, _lines(place, method, route.target, fields))

    async def send(self, opening: Opening, body: Body, length: int | None = None) -> Reply:
        """The beginning of the reply. Raises NotThere, BrokenOff, or what `body` raises.

        A body that comes in pieces goes out in chunks, unless its `length` is known. Its reply may be here before all
        of it was sent.
        """
        method, place, lines = opening
        if isinstance(body, BYTES):
            length = len(body)
        elif body is None:
            length = 0 if length is not None or method in ("POST", "PUT", "PATCH") else None
        if length is not None:
            head = b"%bContent-Length: %d\r\n\r\n" % (lines, length)
        else:
            head = lines + (b"\r\n" if body is None else b"Transfer-Encoding: chunked\r\n\r\n")
        if (kept := self._kept(place)) is not None:
            try:
                return await kept.start(method, head, body, length)
            except BaseException as error:
                kept.drop()
                # It was closed while nobody used it, which is not always seen in time.
                unseen = isinstance(error, BrokenOff) and kept.silent
                if not unseen or method not in REPEATABLE or isinstance(body, AsyncIterator):
                    raise
        connection = await self._connect(place)
        return await connection.ask(method, head, body, length)

    async def websocket(self, route: Route, fields: Fields, protocols: list[str]) -> Socket:
        """A WebSocket to the upstream, at the same place. Raises NotThere."""
        from aiohttp import ClientError  # which takes longer to import than all of the rest

        from cliff_proxy.sockets import Sockets

        self._sockets = self._sockets or Sockets(CONNECT_SECONDS)
        try:
            return await self._sockets.connect(route.url, fields, protocols, _through(route.upstream))
        except (ClientError, OSError, ValueError) as error:
            raise NotThere(type(error).__name__) from None

    # --- Connections -----------------------------------------------------------------------------------

    def _kept(self, place: _Place) -> Connection | None:
        oldest = self._loop.time() - KEEP_SECONDS
        while place.idle:
            connection = place.idle.pop()
            if connection.closing:
                continue
            if connection.since > oldest and not connection.readable():
                return connection
            connection.drop()
        return None

    def _sweep(self) -> None:
        """Closes the connections that nobody has used for long."""
        now, self._sweeping = self._loop.time(), None
        for place in self._places.values():
            kept = [connection for connection in place.idle if not connection.closing]
            place.idle = [connection for connection in kept if connection.since > now - KEEP_SECONDS]
            for connection in kept[: len(kept) - len(place.idle)]:
                connection.drop()
        if oldest := [place.idle[0].since for place in self._places.values() if place.idle]:
            self._sweeping = self._loop.call_at(min(oldest) + KEEP_SECONDS, self._sweep)

    async def _connect(self, place: _Place) -> Connection:
        """A new connection; NotThere."""
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                if place.proxy is None:
                    connection = await self._reach(place, *place.address, place.secure)
                else:
                    connection = await self._reach_through(place, place.proxy)
        except ssl.SSLCertVerificationError as error:
            why = f"its certificate is not trusted ({error.verify_message}); SSL_CERT_FILE names others"
            raise NotThere(why) from None
        except TimeoutError:
            raise NotThere(f"no connection within {CONNECT_SECONDS:g} s") from None
        except (OSError, RuntimeError) as error:  # uvloop's for an address that cannot be
            raise NotThere(getattr(error, "strerror", "") or str(error) or type(error).__name__) from None
        if self._closed:
            connection.drop()
            raise NotThere("the proxy ends")
        return connection

    async def _reach(self, place: _Place, host: str, port: int, secure: bool) -> Connection:
        def ended(connection: Connection, kept: bool) -> None:
            if not kept:
                self._open.discard(connection)
                return
            connection.since = self._loop.time()
            place.idle.append(connection)
            if self._sweeping is None:
                self._sweeping = self._loop.call_later(KEEP_SECONDS, self._sweep)

        secured: dict[str, Any] = {"ssl": await self._tls(), "server_hostname": host} if secure else {}
        reached = await start_connection(await self._addresses(host, port), happy_eyeballs_delay=0.25)
        _, connection = await self._loop.create_connection(
            lambda: Connection(self._buffer, secure, ended), sock=reached, **secured
        )
        self._open.add(connection)
        ours = connection.transport.get_extra_info("socket")  # while a model thinks nothing else shows that it is there
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if hasattr(socket, "TCP_KEEPIDLE"):
            ours.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_SECONDS)
        return connection

    async def _addresses(self, host: str, port: int) -> list[Any]:
        try:  # an address needs no thread
            return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        except socket.gaierror:
            return await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)

    async def _tls(self) -> ssl.SSLContext:
        if self._context is None:  # reads all certificates
            self._context = await self._loop.run_in_executor(None, ssl.create_default_context)
            self._context.set_alpn_protocols(["http/1.1"])
        return self._context

    async def _reach_through(self, place: _Place, proxy: SplitResult) -> Connection:
        """By the HTTP proxy of the environment."""
        if proxy.scheme not in ("http", "https"):
            raise NotThere(f"the proxy that the environment names is {proxy.scheme}: http and https are known")
        secure = proxy.scheme == "https"
        connection = await self._reach(place, proxy.hostname or "", proxy.port or (443 if secure else 80), secure)
        if not place.secure:
            return connection
        host, port = place.address
        try:
            name = _bracketed(host).encode("idna") + b":%d" % port
            lines = [b"CONNECT %b HTTP/1.1" % name, b"Host: " + name, *_credentials(b"Proxy-Authorization", proxy)]
            reply = await connection.ask("CONNECT", b"\r\n".join(lines) + b"\r\n\r\n")
            if reply.status != 200:
                raise NotThere(f"the HTTP proxy refused the connection ({reply.status})")
            context = await self._tls()
            if connection.closing:
                raise BrokenOff("it closed the connection")
            transport = await self._loop.start_tls(connection.transport, connection, context, server_hostname=host)
            assert transport is not None
            connection.secured(transport)
        except BrokenOff as error:
            raise NotThere(f"the HTTP proxy broke off: {error}") from None
        except BaseException:
            connection.drop()
            self._open.discard(connection)  # in the middle of a handshake it does not learn that it is lost
            raise
        return connection

    def _place(self, upstream: str) -> _Place:
        """Where an upstream is; NotThere where its URL is none."""
        try:
            url = urlsplit(upstream)
            host, secure = url.hostname or "", url.scheme == "https"
            port = url.port or (443 if secure else 80)
            name = _bracketed(host).encode("idna") + (
                b":%d" % port if url.port not in (None, 443 if secure else 80) else b""
            )
        except ValueError:
            raise NotThere("its URL is none") from None
        place = _Place((host, port), secure, name, url.path.encode())
        place.authorization = b"".join(_credentials(b"Authorization", url))
        if through := _through(upstream):
            place.proxy = urlsplit(through)
            if not secure:
                place.before = b"http://" + name + place.before
                place.more = _credentials(b"Proxy-Authorization", place.proxy)
        self._places[upstream] = place
        return place


def _lines(place: _Place, method: str, target: str, fields: Fields) -> bytes:
    """A request's head without what frames its body."""
    line = b"%b %b%b HTTP/1.1\r\nHost: %b" % (
        method.encode("latin-1"),
        place.before,
        target.encode("utf-8", "surrogateescape"),
        place.host,
    )
    lines = [line, *place.more, *(name + b": " + value for name, value in fields if name.lower() not in OURS)]
    if place.authorization and not any(name.lower() == b"authorization" for name, _ in fields):
        lines.append(place.authorization)
    return b"\r\n".join(lines) + b"\r\n"


def _credentials(name: bytes, url: SplitResult) -> list[bytes]:
    """The line for the credentials of a URL, if it has any."""
    if url.username is None and url.password is None:
        return []
    both = f"{unquote(url.username or '')}:{unquote(url.password or '')}"
    return [name + b": Basic " + base64.b64encode(both.encode())]


def _bracketed(host: str) -> str:
    return f"[{host.partition('%')[0]}]" if ":" in host else host


def _through(upstream: str) -> str:
    """The URL of the environment's proxy (HTTPS_PROXY, NO_PROXY, …) for an upstream; empty for none, and on this
    machine."""
    url = urlsplit(upstream)
    host = url.hostname or ""
    if is_loopback(host):
        return ""
    import urllib.request  # slow to import

    named = urllib.request.getproxies().get(url.scheme, "")
    if not named or urllib.request.proxy_bypass(host):
        return ""
    return named if "://" in named else f"http://{named}"


def origin(route: Route) -> str:
    """The upstream without anything that may be a secret."""
    url = urlsplit(route.upstream)
    return f"{url.scheme}://{url.netloc.rpartition('@')[2]}"

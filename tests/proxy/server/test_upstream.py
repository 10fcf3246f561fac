"""Connections to upstreams: what stands on the wire; replies that are strange, slow, broken or early.

The upstream is a server in the test's own loop that says every byte itself.
"""

import asyncio
import base64
import contextlib
import functools
import os
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cliff_proxy import outgoing, upstream
from cliff_proxy.headers import Fields
from cliff_proxy.routes import Route
from cliff_proxy.upstream import BrokenOff, NotThere, Reply, Upstream, origin
from kit import Step
from kit.client import PATHS, minimal
from kit.faults import Reset
from kit.transport import Transport

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"": asyncio.new_event_loop}


@pytest.fixture(autouse=True, params=["asyncio", "uvloop"])
def loop(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose loop a test runs in."""
    if request.param == "uvloop":
        uvloop = pytest.importorskip("uvloop", reason="uvloop is not for this system")
        monkeypatch.setitem(LOOPS, "", uvloop.new_event_loop)


def in_a_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Runs a test in a loop of its own; one that hangs fails."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        with asyncio.Runner(loop_factory=LOOPS[""]) as runner:
            runner.run(asyncio.wait_for(test(*args, **kwargs), 60))

    return run


class Peer:
    """The upstream's end of a connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def head(self) -> list[bytes]:
        """The lines of the next request's head."""
        return (await self.reader.readuntil(b"\r\n\r\n"))[:-4].split(b"\r\n")

    async def send(self, *data: bytes) -> None:
        self.writer.write(b"".join(data))
        await self.writer.drain()

    async def answer(self, reply: bytes = OK) -> list[bytes]:
        """The next request's head, answered; its body must have a length, if it has one."""
        lines = await self.head()
        for line in lines:
            if line.lower().startswith(b"content-length:"):
                await self.reader.readexactly(int(line.partition(b":")[2]))
        await self.send(reply)
        return lines

    async def end(self) -> bytes:
        """Waits until the other side has closed the connection: what it sent until then."""
        got = b""
        with contextlib.suppress(ConnectionError):
            while data := await self.reader.read(2**16):
                got += data
        return got

    def close(self, *, reset: bool = False) -> None:
        """By FIN, or by RST."""
        if reset:
            linger = struct.pack("ii", 1, 0)
            self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.writer.transport.abort()
        else:
            self.writer.close()


Handler = Callable[[Peer], Awaitable[object]]


@contextlib.asynccontextmanager
async def serving(handler: Handler, host: str = "127.0.0.1", **more: Any) -> AsyncIterator[str]:
    """A server that gives each connection to the handler. What goes wrong there goes wrong in the test."""
    tasks: list[asyncio.Task[object]] = []

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.append(asyncio.ensure_future(handler(Peer(reader, writer))))
        await asyncio.wait(tasks[-1:])
        if not tasks[-1].cancelled() and not writer.is_closing():
            writer.close()

    server = await asyncio.start_server(connected, host, 0, limit=2**22, backlog=1024, **more)
    port = server.sockets[0].getsockname()[1]
    scheme = "https" if "ssl" in more else "http"
    try:
        yield f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
        for task in tasks:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                await task
    finally:
        server.close()
        for task in tasks:
            task.cancel()


@contextlib.asynccontextmanager
async def connecting() -> AsyncIterator[Upstream]:
    connections = Upstream()
    await connections.start()
    try:
        yield connections
    finally:
        await connections.close()


def to(url: str, target: str = "/v1/messages") -> Route:
    return Route("anthropic", "anthropic", url, target)


async def send(
    connections: Upstream, method: str, route: Route, fields: Fields, body: Any, length: int | None = None
) -> Reply:
    return await connections.send(connections.opening(method, route, fields), body, length)


async def whole(reply: Reply) -> bytes:
    """The rest of a reply, which is then closed."""
    got = b""
    while data := await reply.read():
        got += data
    assert reply.at_eof()
    reply.close()
    return got


async def ask(connections: Upstream, url: str, method: str = "GET", body: Any = None) -> bytes:
    return await whole(await send(connections, method, to(url), [], body))


async def pieces(*data: bytes) -> AsyncIterator[bytes]:
    for piece in data:
        yield piece


# --- Requests ----------------------------------------------------------------------------------------------------

FIELDS = [(b"X-One", b"1"), (b"x-two", b" 2\xe9"), (b"X-ONE", b""), (b"Accept-Encoding", b"zstd")]
FRAMING = [
    (b"HOST", b"elsewhere"),
    (b"content-Length", b"7"),
    (b"Connection", b"close"),
    (b"Transfer-Encoding", b"gzip"),
]
LINES = [b"X-One: 1", b"x-two:  2\xe9", b"X-ONE: ", b"Accept-Encoding: zstd"]


@pytest.mark.parametrize(
    ("method", "length", "body", "framing", "sent"),
    [
        ("POST", None, b"{}", [b"Content-Length: 2"], b"{}"),
        ("POST", 99, bytearray(b"{}"), [b"Content-Length: 2"], b"{}"),
        ("PURGE", None, memoryview(b"{}"), [b"Content-Length: 2"], b"{}"),
        ("POST", None, b"", [b"Content-Length: 0"], b""),
        ("POST", None, None, [b"Content-Length: 0"], b""),
        ("GET", None, None, [], b""),
        ("DELETE", None, None, [], b""),
        ("GET", 0, None, [b"Content-Length: 0"], b""),
        ("POST", None, (b"one", b"", b"0123456789abcdef"), [b"Transfer-Encoding: chunked"], None),
        ("POST", None, (), [b"Transfer-Encoding: chunked"], b"0\r\n\r\n"),
        ("PUT", 5, (b"on", b"", b"etw"), [b"Content-Length: 5"], b"onetw"),
    ],
)
@in_a_loop
async def test_requests(method: str, length: int | None, body: Any, framing: list[bytes], sent: bytes | None) -> None:
    """Fields go out as they are, but for those that frame the request."""
    expected = b"3\r\none\r\n10\r\n0123456789abcdef\r\n0\r\n\r\n" if sent is None else sent
    got = asyncio.get_running_loop().create_future()

    async def serve(peer: Peer) -> None:
        lines = await peer.head()
        got.set_result((lines, await peer.reader.readexactly(len(expected))))
        await peer.send(OK)
        assert await peer.end() == b""

    async with serving(serve) as url, connecting() as connections:
        given = [*FIELDS[:2], *FRAMING, *FIELDS[2:]]
        if isinstance(body, tuple):
            body = pieces(*body)
        reply = await send(connections, method, to(url, "/v1/a%2Fb?c=%20d"), given, body, length)
        assert await whole(reply) == b"{}"
        host = url.removeprefix("http://").encode()
        first = method.encode() + b" /v1/a%2Fb?c=%20d HTTP/1.1"
        assert await got == ([first, b"Host: " + host, *LINES, *framing], expected)
        await connections.close()


@pytest.mark.parametrize(
    ("target", "sent"),
    [("/a\u00e9?\u20ac", b"/a\xc3\xa9?\xe2\x82\xac"), ("/\udce9", b"/\xe9"), ("//x/../y?q=a|b", b"//x/../y?q=a|b")],
)
@in_a_loop
async def test_targets(target: str, sent: bytes) -> None:
    async with connecting() as connections:

        async def serve(peer: Peer) -> None:
            assert (await peer.answer())[0] == b"GET /of/gateway" + sent + b" HTTP/1.1"

        async with serving(serve) as url:
            reply = await send(connections, "GET", to(url + "/of/gateway", target), [], None)
            assert await whole(reply) == b"{}"


@in_a_loop
async def test_an_ipv6_address() -> None:
    async def serve(peer: Peer) -> bytes:
        return (await peer.answer())[1]

    seen: list[bytes] = []

    async def note(peer: Peer) -> None:
        seen.append(await serve(peer))

    async with serving(note, "::1") as url, connecting() as connections:
        assert await ask(connections, url) == b"{}"
    assert seen == [b"Host: " + url.removeprefix("http://").encode()]
    assert seen[0].startswith(b"Host: [::1]:")


@pytest.mark.parametrize("own", [[], [(b"authorization", b"Bearer k")]])
@in_a_loop
async def test_credentials_in_the_upstreams_url(own: list[tuple[bytes, bytes]]) -> None:
    """They are used where the client has none of its own."""
    seen: list[list[bytes]] = []

    async def serve(peer: Peer) -> None:
        seen.append(await peer.answer())

    async with serving(serve) as url, connecting() as connections:
        named = url.replace("//", "//user:w%40rd@")
        assert await whole(await send(connections, "GET", to(named), own, None)) == b"{}"
        assert origin(to(named)) == url
    basic = b"Authorization: Basic " + base64.b64encode(b"user:w@rd")
    assert seen[0][2:] == ([b"authorization: Bearer k"] if own else [basic])
    assert seen[0][1] == b"Host: " + url.removeprefix("http://").encode()


@pytest.mark.parametrize("copies", [False, True])
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, pieces])
@in_a_loop
async def test_a_large_body_to_an_upstream_that_reads_late(
    monkeypatch: pytest.MonkeyPatch, kind: Any, copies: bool
) -> None:
    """It waits in the body itself, and a body that comes in pieces is not asked for more."""
    if copies:
        monkeypatch.setattr(outgoing, "writes_views", lambda transport: False)
    body = bytes(range(256)) * 2**18
    taken, reads = 0, asyncio.Event()

    async def upload() -> AsyncIterator[bytes]:
        nonlocal taken
        for start in range(0, len(body), 2**18):
            taken += 2**18
            yield body[start : start + 2**18]

    async def serve(peer: Peer) -> None:
        await peer.head()
        peer.writer.transport.pause_reading()
        await reads.wait()
        peer.writer.transport.resume_reading()
        assert await peer.reader.readexactly(len(body)) == body
        await peer.send(OK)

    async with serving(serve) as url, connecting() as connections:
        sent = upload() if kind is pieces else kind(body)
        asking = asyncio.ensure_future(send(connections, "POST", to(url), [], sent, len(body)))
        if kind is pieces:
            before = -1
            while not 0 < taken == before:  # what fits into the buffers of the system is asked for
                before = taken
                await asyncio.sleep(0.01)
            assert taken < len(body)
        reads.set()
        assert await whole(await asking) == b"{}"


@pytest.mark.parametrize("when", ["before the reply", "after its head", "in silence"])
@in_a_loop
async def test_a_body_that_breaks_off(when: str) -> None:
    """What its source raises is what the caller sees; the upstream sees a connection that is closed."""
    seen = asyncio.get_running_loop().create_future()
    gone = asyncio.Event()

    async def upload() -> AsyncIterator[bytes]:
        yield b"first"
        await gone.wait()
        raise ConnectionResetError("of the client")

    async def serve(peer: Peer) -> None:
        await peer.head()
        await peer.reader.readuntil(b"first\r\n")
        if when == "after its head":
            await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")
        else:
            gone.set()
        seen.set_result(await peer.end())

    async with serving(serve) as url, connecting() as connections:
        if when != "after its head":
            with pytest.raises(ConnectionResetError, match="of the client"):
                await send(connections, "POST", to(url), [], upload())
        else:
            reply = await send(connections, "POST", to(url), [], upload())
            assert await reply.read() == b"half"
            gone.set()
            with pytest.raises(ConnectionResetError, match="of the client"):
                await reply.read()
            reply.close()
        assert await seen == b""


@pytest.mark.parametrize("body", [(b"on",), (b"on", b"etwo"), ()])
@in_a_loop
async def test_a_body_that_is_not_as_long_as_it_said(body: tuple[bytes, ...]) -> None:
    seen = asyncio.get_running_loop().create_future()

    async def serve(peer: Peer) -> None:
        await peer.head()
        seen.set_result(await peer.end())

    async with serving(serve) as url, connecting() as connections:
        with pytest.raises(BrokenOff, match=r"the body is (longer|shorter) than its Content-Length"):
            await send(connections, "POST", to(url), [], pieces(*body), 5)
        assert len(await seen) <= 2


# --- Replies -----------------------------------------------------------------------------------------------------


async def reply_to(
    data: Iterable[bytes], method: str = "GET", *, reset: bool = False, closes: bool = True
) -> tuple[Reply, list[bytes], Exception | None]:
    """A reply that is sent in these writes, the pieces that came of it, and how it broke."""

    async def serve(peer: Peer) -> None:
        await peer.head()
        for piece in data:
            await peer.send(piece)
            if len(piece) == 1:
                await asyncio.sleep(0)  # its own packet, and its own read
        if closes:
            peer.close(reset=reset)
        else:
            await peer.end()

    async with serving(serve) as url, connecting() as connections:
        reply = await send(connections, method, to(url), [], None)
        got: list[bytes] = []
        try:
            while piece := await reply.read():
                got.append(piece)
        except BrokenOff as error:
            return reply, got, error
        assert reply.at_eof()
        assert await reply.read() == b""
        reply.close()
        await connections.close()
        return reply, got, None


@in_a_loop
async def test_the_head_of_a_reply() -> None:
    head = (
        b"HTTP/1.1 418 I'm a \xe9 teapot\r\nSet-Cookie: a=1\r\nX-Empty:\r\nset-cookie:\tb=2 \t\r\nX-Raw: \xff\xe9\r\n"
        b"Upgrade: h2c\r\nConnection: Upgrade\r\nContent-Length: 3\r\n\r\nabc"
    )
    reply, got, _ = await reply_to([head], closes=False)
    assert (reply.status, reply.reason, b"".join(got)) == (418, b"I'm a \xe9 teapot", b"abc")
    assert reply.fields == [
        (b"Set-Cookie", b"a=1"),
        (b"X-Empty", b""),
        (b"set-cookie", b"b=2"),
        (b"X-Raw", b"\xff\xe9"),
        (b"Upgrade", b"h2c"),
        (b"Connection", b"Upgrade"),
        (b"Content-Length", b"3"),
    ]
    assert (reply.values[b"set-cookie"], b"x-none" in reply.values) == (b"a=1, b=2", False)
    assert reply.content_length == 3


BODY = b"one" + bytes(range(256)) + b"end"
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n"
    b'3;a="b;c"\r\none\r\n0100;x\r\n' + bytes(range(256)) + b"\r\n03\r\nend\r\n0;last\r\nX-Sum: 5\r\nX-Other: 6\r\n\r\n"
)
FRAMED = {
    "length": b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY,
    "chunked": CHUNKED,
    "chunked, coded": CHUNKED.replace(b"chunked", b"gzip, Chunked", 1),
    "chunked, two fields": CHUNKED.replace(b"chunked", b"gzip\r\nTransfer-Encoding: chunked", 1),
    "chunked, not that long": CHUNKED.replace(b"Transfer", b"Content-Length: 3\r\nTransfer", 1),
    "chunked, not that short": CHUNKED.replace(b"Trailer", b"content-length: 9999\r\nTrailer", 1),
    "until it is closed": b"HTTP/1.1 200 OK\r\n\r\n" + BODY,
    "until it is closed, 1.0": b"HTTP/1.0 200\r\nX: y\r\n\r\n" + BODY,
    "until it is closed, coded": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n" + BODY,
    "bare line feeds": b"HTTP/1.1 200 OK\nContent-Length: %d\n\n" % len(BODY) + BODY,
}


@pytest.mark.parametrize("size", [1, 7, 10**6])
@pytest.mark.parametrize("name", FRAMED)
@in_a_loop
async def test_framing(name: str, size: int) -> None:
    """However it is cut into packets."""
    data = FRAMED[name]
    closes = "closed" in name
    reply, got, error = await reply_to([data[n : n + size] for n in range(0, len(data), size)], closes=closes)
    assert error is None
    assert b"".join(got) == BODY
    assert reply.content_length == (len(BODY) if name in {"length", "bare line feeds"} else None)
    said = [field for field, _ in reply.fields]
    assert (b"Content-Length" in said) == (reply.content_length is not None)
    assert b"content-length" not in said
    assert not any(field.startswith(b"X-") for field in said)  # trailers


NO_BODIES = [
    ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n"),
    ("HEAD", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
    ("GET", b"HTTP/1.1 204 No Content\r\n\r\n"),
    ("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n"),
    ("GET", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
]


@pytest.mark.parametrize(("method", "head"), NO_BODIES)
@in_a_loop
async def test_replies_without_a_body(method: str, head: bytes) -> None:
    """Their end is known at once, and the connection is used again."""
    peers: list[Peer] = []

    async def serve(peer: Peer) -> None:
        peers.append(peer)
        await peer.answer(head)
        await peer.answer()

    async with serving(serve) as url, connecting() as connections:
        reply = await send(connections, method, to(url), [], None)
        assert reply.at_eof()
        assert await reply.read() == b""
        reply.close()
        assert await ask(connections, url) == b"{}"
    assert len(peers) == 1


@in_a_loop
async def test_a_body_in_reply_to_head() -> None:
    """It is not handed out, and the connection is not used again."""
    peers: list[Peer] = []

    async def serve(peer: Peer) -> None:
        peers.append(peer)
        await peer.answer()
        await peer.end()

    async with serving(serve) as url, connecting() as connections:
        for _ in range(2):
            reply = await send(connections, "HEAD", to(url), [], None)
            assert await whole(reply) == b""
            while connections._open:
                await asyncio.sleep(0)
        assert len(peers) == 2


@in_a_loop
async def test_a_head_without_a_length_in_reply_to_head() -> None:
    reply, got, error = await reply_to([b"HTTP/1.1 200 OK\r\nX: y\r\n\r\n"], "HEAD", closes=False)
    assert (reply.status, got, error) == (200, [], None)


@pytest.mark.parametrize("size", [1, 10**6])
@in_a_loop
async def test_interim_replies_are_skipped(size: int) -> None:
    data = (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n"
        b"HTTP/1.1 201 Made\r\nX: y\r\nContent-Length: 2\r\n\r\n{}"
    )
    reply, got, _ = await reply_to([data[n : n + size] for n in range(0, len(data), size)], closes=False)
    assert (reply.status, reply.reason, b"".join(got)) == (201, b"Made", b"{}")
    assert reply.fields == [(b"X", b"y"), (b"Content-Length", b"2")]


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: %d\r\n" % (n, n) for n in range(510)),
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 2**16 + b"\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: " + b"x" * 2**16 + b"\r\nY: " + b"y" * 2**18 + b"\r\n",
    ],
    ids=["512 fields", "64 KB in a field", "more than one read"],
)
@in_a_loop
async def test_large_heads(head: bytes) -> None:
    reply, got, _ = await reply_to([head + b"Content-Length: 2\r\n\r\n{}"], closes=False)
    assert sum(len(name) + len(value) + 4 for name, value in reply.fields[:-1]) == len(head) - len(
        b"HTTP/1.1 200 OK\r\n"
    )
    assert got == [b"{}"]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"SSH-2.0-OpenSSH_9.6\r\n", "no HTTP/1.1"),
        (b"HTTP/2 200\r\n\r\n", "no HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}", "no HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: identity\r\n\r\n{}", "no HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}", "no HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\n{}", "no HTTP/1.1"),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n", "nobody asked for"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 2**21, "a head of more than 1048576 bytes"),
        (b"", "it closed the connection"),
        (b"HTTP/1.1 200 OK\r\nContent-Le", "it closed the connection"),
        (b"HTTP/1.1 100 Continue\r\n\r\n", "it closed the connection"),
    ],
    ids=lambda value: value[:40] if isinstance(value, bytes) else "",
)
@in_a_loop
async def test_no_reply(data: bytes, why: str) -> None:
    with pytest.raises(BrokenOff, match=why):
        await reply_to([data])


HALF = {
    "length": (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", b"half"),
    "chunked": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n", b"half"),
    "two codings": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhalf",
        b"half",
    ),
    "half a chunk": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhalf", b"half"),
    "no last chunk": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n0\r\n", b"half"),
    "broken chunks": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\nxyz\r\n", b"half"),
    "no body yet": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b""),
}


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("name", HALF)
@in_a_loop
async def test_half_a_reply(name: str, reset: bool) -> None:
    """What came is handed out, and then it is known that this was not all."""
    data, expected = HALF[name]
    closing = asyncio.Event()

    async def serve(peer: Peer) -> None:
        await peer.head()
        await peer.send(data)
        await closing.wait()
        peer.close(reset=reset)

    async with serving(serve) as url, connecting() as connections:
        reply = await send(connections, "POST", to(url), [], b"{}")
        got = await reply.read() if expected else b""
        closing.set()
        with pytest.raises(BrokenOff):
            await reply.read()
        with pytest.raises(BrokenOff):  # nor later
            await reply.read()
        assert got == expected
        assert not reply.at_eof()
        reply.close()


WITH_MORE = {
    "length": (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", b"{}garbage"),
    "length, closes": (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n", b"{}garbage"),
    "chunked": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"2\r\n{}\r\n0\r\n\r\nxx"),
    "two replies": (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", b"{}" + OK),
    "the beginning of a reply": (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", b"{}H"),
}


@pytest.mark.parametrize("then", ["silence", "fin", "rst"])
@pytest.mark.parametrize("name", WITH_MORE)
@in_a_loop
async def test_a_reply_with_more_behind_it(name: str, then: str) -> None:
    """Who waits for its end gets all of it, and the connection is not used again."""
    head, rest = WITH_MORE[name]
    more = asyncio.Event()
    heads: list[bytes] = []

    async def serve(peer: Peer) -> None:
        heads.append((await peer.head())[0])
        await peer.send(head)
        await more.wait()
        await peer.send(rest)
        if then == "silence":
            await peer.end()
        else:
            peer.close(reset=then == "rst")

    async with serving(serve) as url, connecting() as connections:
        for _ in range(2):
            more.clear()
            reply = await send(connections, "GET", to(url), [], None)
            reading = asyncio.ensure_future(whole(reply))
            await asyncio.sleep(0)
            more.set()
            assert await reading == b"{}"
            assert [place.idle for place in connections._places.values()] == [[]]
        while connections._open:
            await asyncio.sleep(0)
    assert len(heads) == 2


@in_a_loop
async def test_a_reply_without_a_length_that_is_reset() -> None:
    """Its end would be the end of the connection: this is none."""
    sent = asyncio.Event()

    async def serve(peer: Peer) -> None:
        await peer.head()
        await peer.send(b"HTTP/1.1 200 OK\r\n\r\nhalf")
        await sent.wait()
        peer.close(reset=True)

    async with serving(serve) as url, connecting() as connections:
        reply = await send(connections, "GET", to(url), [], None)
        assert await reply.read() == b"half"
        sent.set()
        with pytest.raises(BrokenOff, match="ConnectionResetError"):
            await reply.read()


@in_a_loop
async def test_pieces_come_as_they_are_sent() -> None:
    """And `pending` and `at_eof` say what is known without another read."""
    more = asyncio.Event()

    async def serve(peer: Peer) -> None:
        await peer.head()
        await peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        await more.wait()
        await peer.send(b"3\r\none\r\n")
        more.clear()
        await more.wait()
        await peer.send(b"3\r\ntwo\r\n", b"4\r\nmore\r\n", b"0\r\n\r\n")
        await peer.end()

    async with serving(serve) as url, connecting() as connections:
        reply = await send(connections, "GET", to(url), [], None)
        assert (reply.pending(), reply.at_eof()) == (False, False)
        more.set()
        assert await reply.read() == b"one"
        assert (reply.pending(), reply.at_eof()) == (False, False)
        more.set()
        assert await reply.read() == b"twomore"
        assert (reply.pending(), reply.at_eof()) == (False, True)
        reply.close()
        reply.close()
        await connections.close()


@in_a_loop
async def test_a_reply_that_is_read_late() -> None:
    """The upstream waits; nothing is lost."""
    body = bytes(range(256)) * 2**16

    async def serve(peer: Peer) -> None:
        await peer.head()
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body), body)
        await peer.answer()

    async with serving(serve) as url, connecting() as connections:
        reply = await send(connections, "GET", to(url), [], None)
        (connection,) = connections._open
        while connection.transport.is_reading():
            await asyncio.sleep(0)
        assert outgoing.HELD < reply.size <= outgoing.HELD + upstream.READ_BYTES
        for _ in range(100):
            await asyncio.sleep(0)
        assert reply.size <= outgoing.HELD + upstream.READ_BYTES
        assert await whole(reply) == body
        assert await ask(connections, url) == b"{}"  # on the same connection
        assert connections._open == {connection}


# --- Early replies -----------------------------------------------------------------------------------------------

EARLY = b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 11\r\n\r\n{error: 413}"[:-1]


@pytest.mark.parametrize("copies", [False, True])
@pytest.mark.parametrize("after", ["silence", "fin", "rst"])
@pytest.mark.parametrize("kind", ["bytes", "pieces", "a piece and then none"])
@in_a_loop
async def test_a_refusal_in_mid_upload(monkeypatch: pytest.MonkeyPatch, kind: str, after: str, copies: bool) -> None:
    """It is delivered, although the body was never read; the connection is not used again."""
    if copies:
        monkeypatch.setattr(outgoing, "writes_views", lambda transport: False)
    closed: list[bool] = []

    async def serve(peer: Peer) -> None:
        await peer.head()
        await peer.send(EARLY)
        if after == "silence":
            peer.writer.transport.pause_reading()
            await over.wait()
            peer.writer.transport.resume_reading()
            await peer.end()
        else:
            peer.close(reset=after == "rst")
        closed.append(True)

    async def upload() -> AsyncIterator[bytes]:
        try:
            yield b"x" * 2**16
            while kind == "pieces":
                yield b"x" * 2**16
            await asyncio.Event().wait()
        finally:
            ended.set()

    ended = asyncio.Event()
    over = asyncio.Event()
    async with serving(serve) as url, connecting() as connections:
        body = bytes(2**25) if kind == "bytes" else upload()
        reply = await send(connections, "POST", to(url), [], body)
        assert reply.status == 413
        assert await whole(reply) == b"{error: 413"
        over.set()
        while not closed or connections._open:
            await asyncio.sleep(0)
        if kind == "a piece and then none":
            await ended.wait()


@pytest.mark.parametrize("held", [2**12, 2**18])
@pytest.mark.parametrize("size", [11, 60_000])
@in_a_loop
async def test_a_refusal_that_the_next_write_meets_before_the_next_read(
    size: int, held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The upstream answers and resets while our loop is busy, and then we write first: the answer is there all the
    same, even if it is more than is read at a time and may wait."""
    monkeypatch.setattr(outgoing, "HELD", held)
    monkeypatch.setattr(upstream, "READ_BYTES", held)
    listening = socket.create_server(("127.0.0.1", 0))

    async def upload() -> AsyncIterator[bytes]:
        yield b"x"
        connected, _ = listening.accept()
        connected.settimeout(30)
        while not connected.recv(2**16).endswith(b"\r\n1\r\nx\r\n"):
            pass
        connected.sendall(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: %d\r\n\r\n" % size + bytes(size))
        deadline = time.monotonic() + 30
        while unsent(connected) and time.monotonic() < deadline:
            pass  # all of it is on our side
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connected.close()
        yield b"y"
        yield b"z"
        await asyncio.Event().wait()

    async with connecting() as connections:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        reply = await send(connections, "POST", to(url), [], upload())
        assert (reply.status, await whole(reply)) == (413, bytes(size))
    listening.close()


def unsent(connected: socket.socket) -> int:
    """Bytes that the other side has not taken."""
    import fcntl
    import termios

    return int(struct.unpack("i", fcntl.ioctl(connected.fileno(), termios.TIOCOUTQ, bytes(4)))[0])


@in_a_loop
async def test_a_reply_goes_on_while_the_body_does() -> None:
    """Both directions at once."""

    async def serve(peer: Peer) -> None:
        await peer.head()
        await peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(3):
            size = int(await peer.reader.readuntil(b"\r\n"), 16)
            data = await peer.reader.readexactly(size + 2)
            await peer.send(b"%x\r\n" % size, data)
        assert await peer.reader.readexactly(5) == b"0\r\n\r\n"
        await peer.send(b"0\r\n\r\n")
        await peer.answer()

    said = asyncio.Queue[bytes]()

    async def upload() -> AsyncIterator[bytes]:
        while piece := await said.get():
            yield piece

    async with serving(serve) as url, connecting() as connections:
        reply = await send(connections, "POST", to(url), [], upload())
        for piece in (b"one", b"two", b"three"):
            said.put_nowait(piece)
            assert await reply.read() == piece
        said.put_nowait(b"")
        assert await whole(reply) == b""
        assert await ask(connections, url) == b"{}"
        assert len(connections._open) == 1


# --- Connections that are kept -----------------------------------------------------------------------------------


async def connections_for(handler: Handler, requests: int, method: str = "POST") -> tuple[list[bytes], int]:
    """The replies to requests in a row, and how many connections they took."""
    peers: list[Peer] = []

    async def serve(peer: Peer) -> None:
        peers.append(peer)
        await handler(peer)

    async with serving(serve) as url, connecting() as connections:
        got = [await ask(connections, url, method, b"{}") for _ in range(requests)]
        await connections.close()
    return got, len(peers)


async def forever(peer: Peer, reply: bytes = OK) -> None:
    while not peer.reader.at_eof():
        await peer.answer(reply)


@in_a_loop
async def test_one_connection_for_requests_in_a_row() -> None:
    assert await connections_for(forever, 5) == ([b"{}"] * 5, 1)


@pytest.mark.parametrize(
    "reply",
    [
        OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"),
        OK.replace(b"/1.1", b"/1.0"),
        OK + b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong",
        OK + b"garbage",
        OK + b"H",
    ],
    ids=["close", "1.0", "two replies", "garbage", "the beginning of a reply"],
)
@in_a_loop
async def test_replies_after_which_a_connection_is_not_used(reply: bytes) -> None:
    assert await connections_for(lambda peer: forever(peer, reply), 2) == ([b"{}"] * 2, 2)


@in_a_loop
async def test_sockets() -> None:
    """Small writes go out at once, and a connection that is dead is noticed while a model thinks."""
    async with serving(forever) as url, connecting() as connections:
        assert await ask(connections, url) == b"{}"
        (connection,) = connections._open
        ours = connection.transport.get_extra_info("socket")
        assert ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert ours.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        await connections.close()


@in_a_loop
async def test_as_many_connections_as_requests_at_once() -> None:
    peers: list[Peer] = []
    together = asyncio.Event()

    async def serve(peer: Peer) -> None:
        peers.append(peer)
        while not peer.reader.at_eof():
            await peer.head()
            if len(peers) == 150:
                together.set()
            await together.wait()
            await peer.send(OK)

    async with serving(serve) as url, connecting() as connections:
        for _ in range(2):  # the second time on those that are there
            assert await asyncio.gather(*(ask(connections, url) for _ in range(150))) == [b"{}"] * 150
        await connections.close()
    assert len(peers) == 150


@in_a_loop
async def test_a_reply_that_is_not_read_to_its_end() -> None:
    """Its connection is closed at once."""
    ended = 0

    async def serve(peer: Peer) -> None:
        nonlocal ended
        await peer.head()
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")
        await peer.end()
        ended += 1

    async with serving(serve) as url, connecting() as connections:
        reply = await send(connections, "GET", to(url), [], None)
        reply.close()
        reply.close()
        while not ended:
            await asyncio.sleep(0)
        assert await reply.read() == b"half"
        with pytest.raises(BrokenOff):
            await reply.read()
        reading = await send(connections, "GET", to(url), [], None)
        assert await reading.read() == b"half"
        waits = asyncio.ensure_future(reading.read())
        await asyncio.sleep(0)
        reading.close()
        with pytest.raises(BrokenOff):
            await waits


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("method", ["GET", "POST"])
@in_a_loop
async def test_a_kept_connection_that_is_closed(method: str, reset: bool) -> None:
    """Where that is seen, it is not used."""

    async def serve(peer: Peer) -> None:
        await peer.answer()
        peer.close(reset=reset)

    peers = 0

    async def count(peer: Peer) -> None:
        nonlocal peers
        peers += 1
        await serve(peer)

    async with serving(count) as url, connecting() as connections:
        for _ in range(3):
            assert await ask(connections, url, method) == b"{}"
            while connections._open:
                await asyncio.sleep(0)
    assert peers == 3


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n"])
@in_a_loop
async def test_a_kept_connection_that_is_closed_while_the_loop_is_busy(said: bytes) -> None:
    """Its end is here, but was not read yet: it is not used for a request that must not be sent twice."""
    peers: list[Peer] = []

    async def serve(peer: Peer) -> None:
        peers.append(peer)
        await peer.answer()
        await peer.end()

    async with serving(serve) as url, connecting() as connections:
        assert await ask(connections, url, "POST", b"{}") == b"{}"
        (connection,) = connections._open
        theirs = peers[0].writer.get_extra_info("socket")
        with socket.socket(fileno=os.dup(theirs.fileno())) as own:  # without a turn of the loop
            if said:
                own.send(said)
            own.shutdown(socket.SHUT_WR)
        assert not connection.closing
        assert await ask(connections, url, "POST", b"{}") == b"{}"
        assert len(peers) == 2
        await connections.close()


@pytest.mark.parametrize("method", ["GET", "DELETE", "POST", "PATCH"])
@pytest.mark.parametrize("kind", ["none", "bytes", "pieces"])
@in_a_loop
async def test_a_kept_connection_that_is_closed_as_it_is_used(method: str, kind: str) -> None:
    """The request may have been done. One that may be done twice is sent again; the client decides about others."""
    requests: list[bytes] = []

    async def serve(peer: Peer) -> None:
        requests.append((await peer.answer())[0])
        if len(requests) == 1:
            requests.append((await peer.head())[0])
            peer.close(reset=True)

    async with serving(serve) as url, connecting() as connections:
        body = {"none": None, "bytes": b"", "pieces": pieces(b"x")}
        assert await ask(connections, url, method) == b"{}"
        if method in {"GET", "DELETE"} and kind != "pieces":
            assert await ask(connections, url, method, body[kind]) == b"{}"
            assert len(requests) == 3
        else:
            with pytest.raises(BrokenOff):
                await ask(connections, url, method, body[kind])
            assert len(requests) == 2


@in_a_loop
async def test_a_request_that_was_answered_by_half_is_not_sent_again() -> None:
    requests: list[bytes] = []

    async def serve(peer: Peer) -> None:
        requests.append((await peer.answer())[0])
        requests.append((await peer.head())[0])
        await peer.send(b"HTTP/1.1 2")
        peer.close()

    async with serving(serve) as url, connecting() as connections:
        assert await ask(connections, url) == b"{}"
        with pytest.raises(BrokenOff):
            await ask(connections, url)
    assert len(requests) == 2


@in_a_loop
async def test_a_kept_connection_on_which_something_comes() -> None:
    """Nobody asked for it: whose reply would it be?"""
    peers: list[Peer] = []
    kept = asyncio.Event()

    async def serve(peer: Peer) -> None:
        peers.append(peer)
        await peer.answer()
        await kept.wait()
        if len(peers) == 1:
            await peer.send(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
            await peer.end()

    async with serving(serve) as url, connecting() as connections:
        assert await ask(connections, url) == b"{}"
        kept.set()
        while connections._open:
            await asyncio.sleep(0)
        assert await ask(connections, url) == b"{}"
    assert len(peers) == 2


@in_a_loop
async def test_connections_are_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upstream, "KEEP_SECONDS", 0.0)
    closed = asyncio.Event()

    async def serve(peer: Peer) -> None:
        await peer.answer()
        assert await peer.end() == b""
        closed.set()

    async with serving(serve) as url, connecting() as connections:
        assert await ask(connections, url) == b"{}"
        await closed.wait()  # by the timer
        (place,) = connections._places.values()
        assert place.idle == []
        assert await ask(connections, url) == b"{}"
        assert await ask(connections, url) == b"{}"  # it was there, but too old


# --- The end -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["while it connects", "before the reply", "in mid-upload"])
@in_a_loop
async def test_a_request_that_is_cancelled(when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The upstream sees it at once."""
    asked, ended = asyncio.Event(), asyncio.Event()

    async def serve(peer: Peer) -> None:
        await peer.head()
        asked.set()
        await peer.end()
        ended.set()

    async with serving(serve) as url, connecting() as connections:
        body = bytes(2**25) if when == "in mid-upload" else pieces(b"x")
        asking = asyncio.ensure_future(send(connections, "POST", to(url), [], body))
        if when == "while it connects":
            await asyncio.sleep(0)
        else:
            await asked.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        if when != "while it connects":
            await ended.wait()
        while connections._open:
            await asyncio.sleep(0)


@pytest.mark.parametrize("framing", [b"Content-Length: 9", b"X: until it is closed"])
@in_a_loop
async def test_the_end_of_the_proxy(framing: bytes) -> None:
    """What is on its way is broken off, and never looks complete."""

    async def serve(peer: Peer) -> None:
        await peer.head()
        await peer.send(b"HTTP/1.1 200 OK\r\n" + framing + b"\r\n\r\nhalf")
        await peer.end()

    async def silent(peer: Peer) -> None:
        await peer.end()

    async with serving(serve) as url, serving(silent) as other:
        connections = Upstream()
        await connections.start()
        reply = await send(connections, "GET", to(url), [], None)
        assert await reply.read() == b"half"
        asking = asyncio.ensure_future(send(connections, "POST", to(other), [], b"{}"))
        while len(connections._open) < 2:
            await asyncio.sleep(0)
        await connections.close()
        with pytest.raises(BrokenOff):
            await asking
        with pytest.raises(BrokenOff):
            await reply.read()
        assert not reply.at_eof()
        with pytest.raises(NotThere):
            await send(connections, "GET", to(url), [], None)


# --- No upstream -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://no-such-host.invalid", "ame"),  # "Name or service not known", in whatever words
        ("http://127.0.0.1:99999", "its URL is none"),
        ("http://[::1", "its URL is none"),
    ],
)
@in_a_loop
async def test_no_such_upstream(url: str, why: str) -> None:
    async with connecting() as connections:
        with pytest.raises(NotThere, match=why):
            await send(connections, "POST", to(url), [], b"{}")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
@in_a_loop
async def test_an_upstream_that_refuses_connections(host: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    async with connecting() as connections:
        with pytest.raises(NotThere, match="Connect call failed"):
            await send(connections, "POST", to(f"http://{host}:{port}"), [], b"{}")


@in_a_loop
async def test_an_upstream_that_does_not_shake_hands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upstream, "CONNECT_SECONDS", 0.05)

    async def serve(peer: Peer) -> None:
        await peer.end()

    async with serving(serve) as url, connecting() as connections:
        with pytest.raises(NotThere, match=r"no connection within 0\.05 s"):
            await send(connections, "POST", to(url.replace("http", "https")), [], b"{}")
        assert not connections._open


# --- TLS ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Self-made, for this machine and `model.example`: key and certificate in one file."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl, which makes the certificate, is missing")
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    key, own = path.with_name("key.pem"), path.with_name("certificate.pem")
    new = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "2"]
    names = "subjectAltName=DNS:localhost,DNS:model.example,DNS:proxy.example,IP:127.0.0.1"
    subprocess.run([*new, "-addext", names, "-keyout", key, "-out", own], check=True, capture_output=True)
    path.write_bytes(key.read_bytes() + own.read_bytes())
    return path


@pytest.fixture
def tls(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """For a server that is trusted."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    return tls_of(certificate)


def tls_of(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


@in_a_loop
async def test_tls(tls: ssl.SSLContext) -> None:
    """Large bodies both ways, and the connection is kept."""
    body = bytes(range(256)) * 2**14
    peers: list[Peer] = []

    async def serve(peer: Peer) -> None:
        peers.append(peer)
        for _ in range(2):
            assert (await peer.head())[-1] == b"Content-Length: %d" % len(body)
            got = await peer.reader.readexactly(len(body))
            await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(got), got)
        await peer.answer(OK.replace(b"Content-Length: 2", b"X: until it is closed"))

    async with serving(serve, ssl=tls) as url, connecting() as connections:
        for _ in range(2):
            assert await ask(connections, url, "POST", body) == body
        assert await ask(connections, url) == b"{}"
    assert len(peers) == 1


@pytest.mark.parametrize("reset", [False, True])
@in_a_loop
async def test_tls_broken_off(tls: ssl.SSLContext, reset: bool) -> None:
    sent = asyncio.Event()

    async def serve(peer: Peer) -> None:
        await peer.head()
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")
        await sent.wait()
        peer.close(reset=reset)

    async with serving(serve, ssl=tls) as url, connecting() as connections:
        reply = await send(connections, "POST", to(url), [], b"{}")
        assert await reply.read() == b"half"
        sent.set()
        with pytest.raises(BrokenOff):
            await reply.read()
        reply.close()


@in_a_loop
async def test_tls_kept_and_closed(tls: ssl.SSLContext) -> None:
    peers: list[Peer] = []

    async def serve(peer: Peer) -> None:
        peers.append(peer)
        await peer.answer()

    async with serving(serve, ssl=tls) as url, connecting() as connections:
        for _ in range(2):
            assert await ask(connections, url, "POST", b"{}") == b"{}"
            while connections._open:
                await asyncio.sleep(0)
    assert len(peers) == 2


@pytest.mark.parametrize("size", [10, 2**22])
@in_a_loop
async def test_tls_and_a_refusal_in_mid_upload(tls: ssl.SSLContext, size: int) -> None:
    async def serve(peer: Peer) -> None:
        await peer.head()
        await peer.send(EARLY)
        await peer.end()

    async with serving(serve, ssl=tls) as url, connecting() as connections:
        reply = await send(connections, "POST", to(url), [], bytes(size))
        assert (reply.status, await whole(reply)) == (413, b"{error: 413")


@pytest.mark.parametrize("piece", [1, 2**20])
@in_a_loop
async def test_tls_and_a_refusal_before_the_next_write(tls: ssl.SSLContext, piece: int) -> None:
    """The upstream answers and resets while our loop is busy: the answer is read before we write, and then we write no
    more."""
    listening = socket.create_server(("127.0.0.1", 0))
    listening.settimeout(30)

    def take() -> ssl.SSLSocket:
        connected, _ = listening.accept()
        connected.settimeout(30)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return tls.wrap_socket(connected, server_side=True)

    asked = 0

    async def upload() -> AsyncIterator[bytes]:
        nonlocal asked
        yield b"x"
        connected = await taking
        got = b""
        while not got.endswith(b"\r\n1\r\nx\r\n"):
            got += connected.recv(2**16)
        connected.sendall(b"HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}")
        deadline = time.monotonic() + 30
        while unsent(connected) and time.monotonic() < deadline:
            pass  # all of it is on our side
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connected.close()
        while asked < 100:
            asked += 1
            yield bytes(piece)
        await asyncio.Event().wait()

    async with connecting() as connections:
        taking = asyncio.ensure_future(asyncio.to_thread(take))
        url = f"https://localhost:{listening.getsockname()[1]}"
        reply = await send(connections, "POST", to(url), [], upload())
        assert (reply.status, await whole(reply)) == (413, b"{}")
        assert asked == 1
    listening.close()


@in_a_loop
async def test_a_certificate_that_is_not_trusted(certificate: Path) -> None:
    async def serve(peer: Peer) -> None:
        await peer.end()

    async with serving(serve, ssl=tls_of(certificate)) as url, connecting() as connections:
        with pytest.raises(NotThere, match=r"certificate is not trusted \(self-signed certificate\); SSL_CERT_FILE"):
            await send(connections, "POST", to(url), [], b"{}")
        assert not connections._open


@in_a_loop
async def test_a_certificate_for_another_name(tls: ssl.SSLContext) -> None:
    async def serve(peer: Peer) -> None:
        await peer.end()

    async with serving(serve, "::1", ssl=tls) as url, connecting() as connections:
        with pytest.raises(NotThere, match=r"its certificate is not trusted .*'::1'"):
            await send(connections, "POST", to(url), [], b"{}")


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
@in_a_loop
async def test_an_upstream_without_tls(said: bytes) -> None:
    async def serve(peer: Peer) -> None:
        await peer.reader.read(1)
        await peer.send(said)

    async with serving(serve) as url, connecting() as connections:
        with pytest.raises(NotThere):
            await send(connections, "POST", to(url.replace("http", "https")), [], b"{}")


# --- The proxy of the environment --------------------------------------------------------------------------------


async def tunnel(peer: Peer, url: str, heads: list[list[bytes]]) -> None:
    """What a proxy does when it is asked to CONNECT: everything is passed on to the upstream at the URL."""
    heads.append(await peer.head())
    reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
    await peer.send(b"HTTP/1.1 200 Connection established\r\nVia: 1.1 x\r\n\r\n")

    async def pass_on(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(2**16):
            sink.write(data)
            await sink.drain()
        sink.close()

    await asyncio.gather(pass_on(peer.reader, writer), pass_on(reader, peer.writer))


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("credentials", ["", "us%40er:word@", "user@"])
@in_a_loop
async def test_https_through_a_proxy(
    tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch, credentials: str, secure: bool
) -> None:
    """One tunnel for requests in a row; the upstream sees nothing of the proxy."""
    heads: list[list[bytes]] = []
    seen: list[list[bytes]] = []

    async def serve(peer: Peer) -> None:
        for _ in range(2):
            seen.append(await peer.answer())
        await peer.end()

    async with serving(serve, ssl=tls) as url:
        more = {"ssl": tls} if secure else {}
        async with serving(lambda peer: tunnel(peer, url, heads), **more) as proxy, connecting() as connections:
            monkeypatch.setenv("https_proxy", proxy.replace("//", "//" + credentials))
            monkeypatch.setenv("no_proxy", "")
            for _ in range(2):
                assert await ask(connections, "https://model.example/base", "POST", b"{}") == b"{}"
            await connections.close()
    basic = {"us%40er:word@": b"us@er:word", "user@": b"user:"}.get(credentials)
    given = [b"Proxy-Authorization: Basic " + base64.b64encode(basic)] if basic else []
    assert heads == [[b"CONNECT model.example:443 HTTP/1.1", b"Host: model.example:443", *given]]
    first = [b"POST /base/v1/messages HTTP/1.1", b"Host: model.example", b"Content-Length: 2"]
    assert seen == [first, first]


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (b"HTTP/1.1 407 Authentication Required\r\nContent-Length: 4\r\n\r\nword", r"refused the connection \(407\)"),
        (b"HTTP/1.1 502 Bad Gateway\r\n\r\n", r"refused the connection \(502\)"),
        (b"HTTP/1.1 ", "broke off"),
        (b"", "broke off"),
        (b"HTTP/1.1 200 OK\r\n\r\n", "closed|Reset"),  # and no TLS behind it
    ],
)
@in_a_loop
async def test_a_proxy_that_does_not_connect(monkeypatch: pytest.MonkeyPatch, reply: bytes, why: str) -> None:
    async def serve(peer: Peer) -> None:
        await peer.answer(reply)

    async with serving(serve) as proxy, connecting() as connections:
        monkeypatch.setenv("https_proxy", proxy.replace("//", "//user:secret@"))
        monkeypatch.setenv("no_proxy", "")
        with pytest.raises(NotThere, match=why) as caught:
            await send(connections, "POST", to("https://model.example"), [], b"{}")
        assert "secret" not in str(caught.value)
        while connections._open:
            await asyncio.sleep(0)


@in_a_loop
async def test_a_proxy_behind_which_nobody_shakes_hands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upstream, "CONNECT_SECONDS", 0.05)

    async def serve(peer: Peer) -> None:
        await peer.answer(b"HTTP/1.1 200 OK\r\n\r\n")
        await peer.end()

    async with serving(serve) as proxy, connecting() as connections:
        monkeypatch.setenv("https_proxy", proxy)
        monkeypatch.setenv("no_proxy", "")
        with pytest.raises(NotThere, match=r"no connection within 0\.05 s"):
            await send(connections, "POST", to("https://model.example"), [], b"{}")
        while connections._open:
            await asyncio.sleep(0)


@in_a_loop
async def test_http_through_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole URL as target; never for an upstream on this machine, or one that NO_PROXY names."""
    seen: list[list[bytes]] = []

    async def serve(peer: Peer) -> None:
        while not peer.reader.at_eof():
            seen.append(await peer.answer())

    async with serving(serve) as proxy, serving(forever) as url, connecting() as connections:
        monkeypatch.setenv("http_proxy", proxy.replace("http://", "user:word@"))
        monkeypatch.setenv("no_proxy", "here.invalid")
        assert await ask(connections, "http://model.example:8080/base", "POST", b"{}") == b"{}"
        assert await ask(connections, "http://[2001:db8::1]") == b"{}"
        assert await ask(connections, url) == b"{}"
        with pytest.raises(NotThere):
            await ask(connections, "http://here.invalid")
        await connections.close()
    basic = b"Proxy-Authorization: Basic " + base64.b64encode(b"user:word")
    assert seen == [
        [
            b"POST http://model.example:8080/base/v1/messages HTTP/1.1",
            b"Host: model.example:8080",
            basic,
            b"Content-Length: 2",
        ],
        [b"GET http://[2001:db8::1]/v1/messages HTTP/1.1", b"Host: [2001:db8::1]", basic],
    ]


@in_a_loop
async def test_a_proxy_of_another_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "socks5://user:secret@127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "")
    async with connecting() as connections:
        with pytest.raises(NotThere, match=r"the environment names is socks5: http and https are known$"):
            await send(connections, "POST", to("https://model.example"), [], b"{}")


# --- Others ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("api", PATHS)
@pytest.mark.parametrize("fault", [None, Reset(after=2)], ids=["whole", "reset"])
@in_a_loop
async def test_the_scripted_model(model_server: Any, api: str, fault: Any) -> None:
    import json

    server = model_server([Step("a text of some length", fault=fault), Step("next")])
    body = json.dumps({**minimal(api), "stream": True}).encode()
    async with connecting() as connections:
        fields = [(b"Content-Type", b"application/json")]
        reply = await send(connections, "POST", to(server.url, PATHS[api]), fields, body)
        got = b""
        with contextlib.suppress(BrokenOff) if fault else contextlib.nullcontext():
            while data := await reply.read():
                got += data
        assert reply.ended == (fault is None)
        reply.close()
        (request,) = server.wait(1)
        assert request.reply.body.startswith(got)
        assert fault or got == request.reply.body
        reply = await send(connections, "POST", to(server.url, PATHS[api]), fields, json.dumps(minimal(api)).encode())
        assert (reply.status, len(await whole(reply))) == (200, reply.content_length)


def test_importing_it_is_quick() -> None:
    """aiohttp is there for WebSockets only."""
    said = "import sys, cliff_proxy.upstream; print([n for n in ('aiohttp', 'urllib.request') if n in sys.modules])"
    assert subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=True).stdout == "[]\n"


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["take", "read", "wait"]), st.lists(st.sampled_from([1, 64, 65, 300])), st.booleans()
        ),
        min_size=1,
        max_size=6,
    ),
    st.integers(1, 400),
)
def test_every_reply_of_a_connection_is_read_to_its_end(asked: list[tuple[str, list[int], bool]], size: int) -> None:
    """However it is cut and whatever waits: each byte once, and the connection is kept for the next request."""
    buffer = memoryview(bytearray(2**12))

    @in_a_loop
    async def run() -> None:
        kept: list[bool] = []
        connection = outgoing.Connection(buffer, False, lambda _, again: kept.append(again))
        transport = Transport()
        connection.connection_made(transport)
        for way, pieces, chunked in asked:
            body = b"".join(b"%d" % (length % 10) * length for length in pieces)
            if chunked:
                chunks = [b"%x\r\n%b\r\n" % (length, b"%d" % (length % 10) * length) for length in pieces]
                sent = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"".join(chunks) + b"0\r\n\r\n"
            else:
                sent = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body
            asking = asyncio.create_task(connection.ask("POST", b"head", b"body"))
            await asyncio.sleep(0)
            got, reply = b"", None
            while sent or reply is None or not reply.at_eof():
                assert transport.reading or reply is not None, "nobody will go on reading"
                while sent and transport.reading:
                    part, sent = sent[:size], sent[size:]
                    connection.get_buffer(-1)[: len(part)] = part
                    connection.buffer_updated(len(part))
                if reply is None:
                    reply = await asking
                if way == "wait":
                    await asyncio.sleep(0)
                got += reply.take() if way == "take" else await reply.read()
            reply.close()
            assert got == body
            assert transport.reading
        assert kept == [True] * len(asked)

    held, outgoing.HELD = outgoing.HELD, 64
    try:
        run()
    finally:
        outgoing.HELD = held

"""The client's side of HTTP/1.1: what stands on the wire, in any pieces; limits; clients that are slow, silent or
gone."""

import asyncio
import contextlib
import functools
import itertools
import math
import re
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cliff_proxy import serving
from cliff_proxy.serving import BUFFER, Incomplete, Request, Server
from kit import wire
from kit.transport import Transport
from kit.websocket import WebSocketServer

Answer = Callable[[Request], Awaitable[None]]
Parts = list[tuple[bytes, bytes]]


def in_a_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Runs a test in a loop of its own; one that hangs fails."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), 60))

    return run


@contextlib.asynccontextmanager
async def listening(handler: Answer) -> AsyncIterator[tuple[Server, int]]:
    server = Server(handler)
    taking = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0)
    try:
        yield server, taking.sockets[0].getsockname()[1]
    finally:
        taking.close()
        await server.shutdown()


async def talk(port: int, *sent: bytes) -> bytes:
    """All that comes until the end of the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.writelines(sent)
    got = await reader.read()
    writer.close()
    return got


async def echo(request: Request) -> None:
    """Says what came."""
    body = await request.body(2**20)
    request.respond(200, b"%b %b" % (request.head.target.encode(), body or b""), "text/plain")


async def settled(turns: int = 20) -> None:
    """Until every task has done what it can do."""
    for _ in range(turns):
        await asyncio.sleep(0)


def feed(connection: serving.Connection, data: bytes) -> None:
    """As a transport does."""
    buffer = connection.get_buffer(-1)
    for start in range(0, len(data), len(buffer)):
        piece = data[start : start + len(buffer)]
        buffer[: len(piece)] = piece
        connection.buffer_updated(len(piece))


async def fed(handler: Answer, *pieces: bytes) -> Transport:
    """A connection that gets these pieces, one after the other."""
    transport = Transport()
    connection = Server(handler)()
    connection.connection_made(transport)
    for piece in pieces:
        if transport.closed:
            break
        feed(connection, piece)
        await settled(5)
    await settled(100)
    return transport


# --- Requests ---------------------------------------------------------------------------------------------------


UPGRADING = b"Connection: keep-alive, Upgrade\r\nUpgrade: h2c\r\n"
SENT = (
    b"GET /a?b=%2F HTTP/1.1\r\nHost: localhost\r\nX-Empty:\r\nX-Odd: \xff\xe9 \t\r\nx-odd: 2\r\n\r\n"
    b"POST /b HTTP/1.1\r\nContent-Length: 9\r\n\r\none\r\n\r\ntw"
    b'POST /c HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3;x="y"\r\none\r\n2\r\ntw\r\n0\r\nX-Trailer: 1\r\n\r\n'
    b"\r\nPOST /d HTTP/1.1\r\n" + UPGRADING + b"Content-Length: 3\r\n\r\none"
    b"POST /e HTTP/1.1\r\n" + UPGRADING + b"Transfer-Encoding: Chunked\r\n\r\n3\r\none\r\n0\r\n\r\n"
    b"DELETE /f HTTP/1.1\r\n" + UPGRADING + b"Content-Length: 0\r\n\r\n"
    b"POST /ws HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    b"HEAD http://localhost/g HTTP/1.1\r\n\r\n"
    b"PUT /h HTTP/1.1\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx"
)
GOT: list[tuple[str, str, int | None, Parts, bytes]] = [
    (
        *("GET", "/a?b=%2F", None),
        [(b"Host", b"localhost"), (b"X-Empty", b""), (b"X-Odd", b"\xff\xe9"), (b"x-odd", b"2")],
        b"",
    ),
    ("POST", "/b", 9, [], b"one\r\n\r\ntw"),
    ("POST", "/c", None, [(b"Transfer-Encoding", b"chunked")], b"onetw"),
    ("POST", "/d", 3, [(b"Connection", b"keep-alive, Upgrade"), (b"Upgrade", b"h2c")], b"one"),
    (
        *("POST", "/e", None),
        [(b"Connection", b"keep-alive, Upgrade"), (b"Upgrade", b"h2c"), (b"Transfer-Encoding", b"Chunked")],
        b"one",
    ),
    ("DELETE", "/f", 0, [(b"Connection", b"keep-alive, Upgrade"), (b"Upgrade", b"h2c")], b""),
    ("POST", "/ws", None, [(b"Connection", b"Upgrade"), (b"Upgrade", b"websocket")], b""),
    ("HEAD", "http://localhost/g", None, [], b""),
    ("PUT", "/h", 1, [(b"Connection", b"close")], b"x"),
]


def cuts() -> list[list[bytes]]:
    halves = [[SENT[:at], SENT[at:]] for at in range(1, len(SENT))]
    return [[SENT], [SENT[at : at + 1] for at in range(len(SENT))], *halves]


@in_a_loop
async def test_requests_however_they_are_cut() -> None:
    for pieces in cuts():
        got = []

        async def answer(request: Request, got: list[Any] = got) -> None:
            body = await request.body(100)
            got.append((request.method, request.head.target, request.content_length, request.head.fields, body))
            assert not request.head.websocket
            request.begin(200, b"Yes", [(b"Content-Length", b"2"), (b"Date", b"x")])
            request.end(b"ok")

        transport = await fed(answer, *pieces)
        assert got == GOT
        head = b"HTTP/1.1 200 Yes\r\nContent-Length: 2\r\nDate: x\r\n"
        assert transport.written == ((head + b"\r\nok") * 7 + head + b"\r\n" + head + b"Connection: close\r\n\r\nok")
        assert transport.closed


@in_a_loop
async def test_bodies_piece_by_piece() -> None:
    """As they come, whatever their framing is; each byte once."""
    for pieces in cuts():
        got = []

        async def answer(request: Request, got: list[Any] = got) -> None:
            found = [piece async for piece in request.pieces()]
            assert all(found)
            got.append(b"".join(found))
            request.respond(200, b"", "text/plain")

        await fed(answer, *pieces)
        assert got == [body for *_, body in GOT]


@in_a_loop
async def test_a_body_that_is_too_long() -> None:
    """By its length it is not waited for; without one as soon as that is seen. Nothing of it is lost."""
    for head in (b"Content-Length: 9", b"Transfer-Encoding: chunked"):
        sent = b"123456789" if b"L" in head else b"3\r\n123\r\n6\r\n456789\r\n0\r\n\r\n"
        got = []

        async def answer(request: Request, got: list[Any] = got) -> None:
            got.append(await request.body(8))
            got.append(b"".join([piece async for piece in request.pieces()]))
            request.respond(200, b"", "text/plain")

        await fed(answer, b"POST / HTTP/1.1\r\n" + head + b"\r\n\r\n", *[sent[at : at + 1] for at in range(len(sent))])
        assert got == [None, b"123456789"]


BAD: dict[str, tuple[int, bytes]] = {
    "TLS": (400, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
    "HTTP/0.9": (505, b"GET /\r\n\r\n"),
    "HTTP/2": (505, b"GET / HTTP/2.0\r\n\r\n"),
    "HTTP/2 at once": (400, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    "an unknown method": (400, b"FOO / HTTP/1.1\r\n\r\n"),
    "two lengths": (400, b"POST / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\none"),
    "lengths in a list": (400, b"POST / HTTP/1.1\r\nContent-Length: 3, 3\r\n\r\none"),
    "a negative length": (400, b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n"),
    "a length with a sign": (400, b"POST / HTTP/1.1\r\nContent-Length: +3\r\n\r\none"),
    "an endless length": (400, b"POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n"),
    "length, then chunks": (
        400,
        b"POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ),
    "chunks, then length": (
        400,
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
    ),
    "chunks not last": (400, b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n"),
    "another coding": (501, b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n"),
    "two codings": (501, b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
    "a bad chunk": (400, b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"),
    "a space before a colon": (400, b"POST / HTTP/1.1\r\nContent-Length : 3\r\n\r\none"),
    "a folded header": (400, b"GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n"),
    "bare line feeds": (400, b"GET / HTTP/1.1\nHost: localhost\n\n"),
    "a NUL": (400, b"GET / HTTP/1.1\r\nA: \x00\r\n\r\n"),
    "too many headers": (431, b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * (serving.MAX_FIELDS + 1) + b"\r\n"),
    "a head without end": (431, b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * (serving.MAX_HEAD // 6 + 10)),
    "a long target": (414, b"GET /" + b"x" * serving.MAX_TARGET + b" HTTP/1.1\r\n\r\n"),
    "a target without end": (431, b"GET /" + b"x" * serving.MAX_HEAD),
}


@pytest.mark.parametrize("name", BAD)
@in_a_loop
async def test_what_is_refused(name: str) -> None:
    """Before anybody sees it; the connection ends."""
    status, sent = BAD[name]
    seen = []

    async def answer(request: Request) -> None:
        seen.append(request)

    async with listening(answer) as (_, port):
        got = await talk(port, sent)
    assert got.startswith(b"HTTP/1.1 %d " % status)
    assert b"\r\nConnection: close\r\n" in got
    assert b'{"error": {"message": ' in got
    assert seen == []


@in_a_loop
async def test_what_is_refused_comes_after_the_answers_before_it() -> None:
    async with listening(echo) as (_, port):
        got = await talk(port, b"GET /1 HTTP/1.1\r\n\r\nGET /2 HTTP/1.1\r\n\r\nnonsense\r\n\r\nGET /3 HTTP/1.1\r\n\r\n")
    before, refused, _ = got.partition(b"HTTP/1.1 400 ")
    assert [part[-3:] for part in before.split(b"HTTP/1.1 200 ")] == [b"", b"/1 ", b"/2 "]
    assert refused


@in_a_loop
async def test_a_large_head_is_none_too_large() -> None:
    fields = b"".join(b"X-%d: %b\r\n" % (number, b"v" * 1000) for number in range(serving.MAX_FIELDS - 1))
    async with listening(echo) as (_, port):
        large = b"GET /1 HTTP/1.1\r\nCookie: " + b"c" * 2**16 + b"\r\n\r\n"
        got = await talk(port, large, b"GET /2 HTTP/1.1\r\nConnection: close\r\n" + fields + b"\r\n")
    assert got.count(b"HTTP/1.1 200 OK\r\n") == 2


@in_a_loop
async def test_a_body_that_is_not_what_it_says() -> None:
    """In the middle of it; and one that ends too early."""
    for rest in (b"xyz\r\n", None):
        errors = []

        async def answer(request: Request, errors: list[Any] = errors) -> None:
            try:
                await request.body(100)
            except (Incomplete, asyncio.CancelledError) as error:
                errors.append(type(error))
                request.abort()

        async with listening(answer) as (_, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
            await asyncio.sleep(0.01)
            writer.write(rest) if rest else writer.write_eof()
            assert await reader.read() == b""
            writer.close()
        assert errors == [Incomplete if rest else asyncio.CancelledError]


@in_a_loop
async def test_trailers_without_end() -> None:
    async def answer(request: Request) -> None:
        with pytest.raises(Incomplete):
            await request.body(2**30)
        request.abort()

    head = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
    transport = await fed(answer, head, *[b"x: " + b"y" * 2**16 + b"\r\n"] * 20)
    assert transport.written == b"<end>"


@in_a_loop
@pytest.mark.parametrize("before", [b"", b"GET /before HTTP/1.1\r\n\r\n"], ids=["first", "second"])
async def test_a_body_that_came_before_it_was_asked_for(before: bytes) -> None:
    """Reading stops at what may wait, and goes on once all of the body is wanted."""
    release = asyncio.Event()

    async def answer(request: Request) -> None:
        await release.wait()
        await echo(request)

    transport = Transport()
    connection = Server(answer)()
    connection.connection_made(transport)
    feed(connection, before + b"POST /large HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (2 * BUFFER))
    feed(connection, b"x" * (BUFFER + 1))
    await settled()
    assert not transport.reading
    release.set()
    await settled()
    assert transport.reading
    feed(connection, b"x" * (BUFFER - 1))
    await settled()
    assert transport.written.endswith(b"/large " + b"x" * (2 * BUFFER))


H2C = b"Connection: Upgrade\r\nUpgrade: h2c\r\n"


@in_a_loop
async def test_a_refusal_is_said_once() -> None:
    """Also behind a request that asks for another protocol, which is read in two steps."""

    async def answer(request: Request) -> None:
        request.respond(200, b"", "text/plain")

    transport = await fed(answer, b"GET / HTTP/1.1\r\n" + H2C + b"\r\nnonsense\r\n\r\n")
    assert transport.written.count(b"HTTP/1.1 400 ") == 1
    assert transport.written.endswith(b"<end>")


@in_a_loop
async def test_a_refusal_is_said_once_to_a_client_that_reads_slowly() -> None:
    """The answer before it ends in the same turn in which the client goes on to read."""

    async def answer(request: Request) -> None:
        request.begin(200, b"OK", [])
        request.write(b"half")
        connection.pause_writing()
        await request.drain()
        request.end(b"rest")

    transport = Transport()
    connection = Server(answer)()
    connection.connection_made(transport)
    feed(connection, b"GET / HTTP/1.1\r\n\r\n")
    await settled()
    feed(connection, b"nonsense\r\n\r\n")
    connection.resume_writing()
    await settled()
    assert transport.written.count(b"HTTP/1.1 400 ") == 1
    assert transport.written.endswith(b"<end>")


@pytest.mark.parametrize("count", [100, 2_000])
@in_a_loop
async def test_many_requests_at_once_that_ask_for_another_protocol(count: int) -> None:
    transport = Transport()
    connection = Server(echo)()
    connection.connection_made(transport)
    feed(connection, b"".join(b"GET /%d HTTP/1.1\r\n%b\r\n" % (number, H2C) for number in range(count)))
    await settled(3 * count + 20)
    assert transport.written.count(b"HTTP/1.1 200 ") == count
    assert transport.written.endswith(b"/%d " % (count - 1))


# --- Heads that are not read again --------------------------------------------------------------------------------

PLAIN = b"POST /a HTTP/1.1\r\nHost: localhost\r\ncontent-length: %b\r\nX-Key: one\r\n\r\n"
LIKE = (PLAIN, b"POST /a HTTP/1.1\r\nHost: localhost\r\nX-Key: one\r\nContent-Length:\t%b\r\n\r\n")
"""Whose like is told at a glance."""
UNLIKE = (
    PLAIN.replace(b"one", b"two"),
    PLAIN.replace(b"%b", b"%b "),
    PLAIN.replace(b"1.1", b"1.0").replace(b"X-Key: one", b"Connection: keep-alive"),
    PLAIN.replace(b"X-Key: one", b"Expect: 100-continue"),
    PLAIN.replace(b"X-Key: one", UPGRADING.strip()),
    PLAIN.replace(b"X-Key: one", b"X-Odd: \r\n Content-Length: 1"),
    PLAIN.replace(b"content-length: %b", b"X-Length: %b\r\nTransfer-Encoding: chunked"),
    PLAIN.replace(b"content-length: %b", b"X-Length: %b"),
    PLAIN.replace(b"content-length: %b", b"Content-Length: %b\r\nContent-Length: 3"),
    PLAIN.replace(b"content-length: %b", b"Content-Length: +%b"),
    b"\r\n" + PLAIN,
)


async def got_by(pieces: list[bytes]) -> tuple[list[Any], bytes, bool]:
    """What a handler gets, and a client."""
    got: list[Any] = []

    async def answer(request: Request) -> None:
        head = request.head
        said = head.method, head.target, head.version, head.fields, request.content_length
        body = None
        with contextlib.suppress(Incomplete):
            body = await request.body(1000)
        got.append((*said, body))
        request.begin(200, b"OK", [(b"Date", b"x"), (b"Content-Length", b"%d" % len(got))])
        request.end(b"x" * len(got))

    transport = await fed(answer, *pieces)
    return got, transport.written, transport.closed


@given(
    st.lists(
        st.tuples(
            st.sampled_from([*LIKE, *LIKE, *UNLIKE]),
            st.sampled_from([b"0", b"1", b"5", b"12", b"007", b"", b"1e1", b"-1", b"0x5", b"5 5", b"9" * 25]),
            st.sampled_from([b"", b"x", b"xxxxx", b"x" * 12, b"\r\n\r\n", b"0\r\n\r\n", b"x" * 7]),
        ),
        max_size=6,
    ),
    st.lists(st.integers(0, 900), max_size=4),
    st.booleans(),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_head_like_the_one_before_it_says_the_same(
    asked: list[tuple[bytes, bytes, bytes]], cuts: list[int], by_request: bool
) -> None:
    """As the parser reads it, whatever follows whatever, however it is cut."""
    requests = [(head % length if b"%b" in head else head) + body for head, length, body in asked]
    sent = b"".join(requests)
    at = sorted({0, len(sent), *(cut for cut in cuts if cut < len(sent))})
    pieces = requests if by_request else [sent[start:end] for start, end in itertools.pairwise(at)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(serving, "_date", lambda: b"Date: now\r\n")
        got = asyncio.run(got_by(pieces))
        patch.setattr(serving.Pattern, "of", lambda raw, head: None)
        assert got == asyncio.run(got_by(pieces))


@pytest.mark.parametrize("head", LIKE)
@pytest.mark.parametrize("size", [10_000, 1, 7, 160, 200])
@in_a_loop
async def test_a_head_is_read_once(head: bytes, size: int) -> None:
    """But for its length; also where one packet has several requests, or part of one."""
    bodies = [b"first", b"x", b"", b"\r\n\r\n", b"x" * 300, b"POST", b"last"]
    first, *others = [head % b"%d" % len(body) + body for body in bodies]
    rest = b"".join(others)
    got, _, closed = await got_by([first, *(rest[at : at + size] for at in range(0, len(rest), size))])
    fields = [(b"Host", b"localhost"), (b"X-Key", b"one")]
    assert got == [("POST", "/a", "1.1", fields, len(body), body) for body in bodies]
    assert size < len(rest) or len({id(fields) for _, _, _, fields, _, _ in got}) == 1
    assert not closed


@in_a_loop
async def test_half_a_head_behind_a_request_has_as_long_as_any_other() -> None:
    transport = Transport()
    connection = Server(echo)()
    connection.connection_made(transport)
    before = asyncio.get_running_loop().time()
    feed(connection, b"GET / HTTP/1.1\r\n\r\nGET /half HTTP/1.1\r\n")
    await settled()
    assert transport.written.endswith(b"/ ")
    assert before < connection.deadline <= asyncio.get_running_loop().time() + serving.HEAD_SECONDS


@in_a_loop
async def test_requests_wait_for_the_one_before() -> None:
    """In order, and no more of them than a few are read."""
    release = asyncio.Event()
    begun = []

    async def answer(request: Request) -> None:
        begun.append(request.head.target)
        await release.wait()
        await echo(request)

    transport = Transport()
    connection = Server(answer)()
    connection.connection_made(transport)
    count = 0
    while transport.reading:
        feed(connection, b"GET /%d HTTP/1.1\r\n\r\n" % count)
        count += 1
    await settled()
    assert (count, begun) == (serving.PIPELINED + 1, ["/0"])
    release.set()
    for _ in range(count):
        await settled()
    assert transport.reading
    assert begun == [f"/{number}" for number in range(count)]
    assert [part.split(b"\r\n\r\n")[1] for part in transport.written.split(b"HTTP/1.1 ")[1:]] == [
        b"/%d " % number for number in range(count)
    ]


class Reading(Transport):
    """Takes what a client has sent as long as it is read."""

    def feed(self, connection: Any, sent: bytes, size: int) -> bytes:
        """What is left of it."""
        while sent and self.reading and not self.closed:
            feed(connection, sent[:size])
            sent = sent[size:]
        return sent


WAYS = ["body", "pieces", "late", "unread"]


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Little may wait, so that reading stops often."""
    monkeypatch.setattr(serving, "BUFFER", 64)
    monkeypatch.setattr(serving, "PIPELINED", 2)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.sampled_from(WAYS), st.sampled_from([0, 1, 64, 65, 500]), st.booleans()), max_size=12),
    st.integers(1, 400),
)
def test_whatever_stops_goes_on(narrow: None, asked: list[tuple[str, int, bool]], size: int) -> None:
    """Requests of all kinds behind each other, answered in all ways: each gets its answer, and all is read."""

    @in_a_loop
    async def run() -> None:
        async def answer(request: Request) -> None:
            way, _, _ = asked[int(request.head.target[1:])]
            got = b""
            if way == "late":
                await asyncio.sleep(0)
            if way in {"body", "late"}:
                got = await request.body(1000) or b""
            elif way == "pieces":
                got = b"".join([piece async for piece in request.pieces()])
            request.respond(200, b"%b %d" % (request.head.target.encode(), len(got)), "text/plain")

        transport = Reading()
        connection = Server(answer)()
        connection.connection_made(transport)
        sent = b""
        for number, (_, length, chunked) in enumerate(asked):
            head = b"POST /%d HTTP/1.1\r\n" % number
            if chunked:
                chunk = b"%x\r\n%b\r\n" % (length, b"x" * length) if length else b""
                sent += head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk + b"0\r\n\r\n"
            else:
                sent += head + b"Content-Length: %d\r\n\r\n" % length + b"x" * length
        for _ in range(20 * len(asked) + 20):
            sent = transport.feed(connection, sent, size)
            await settled(5)
        answers = [part.split(b"\r\n\r\n")[1] for part in transport.written.split(b"HTTP/1.1 200")[1:]]
        read = [0 if way == "unread" else length for way, length, _ in asked]
        assert answers == [b"/%d %d" % (number, length) for number, length in enumerate(read)]
        assert (sent, transport.reading, transport.closed) == (b"", True, False)

    run()


@in_a_loop
async def test_a_client_that_reads_no_answers_gets_no_more_of_them() -> None:
    """Its next requests wait, and those behind them stay with it."""
    begun = []

    async def answer(request: Request) -> None:
        begun.append(request.head.target)
        await echo(request)

    transport = Transport()
    connection = Server(answer)()
    connection.connection_made(transport)
    feed(connection, b"GET /0 HTTP/1.1\r\n\r\n")
    connection.pause_writing()
    count = 1
    while transport.reading and count < 100:
        feed(connection, b"GET /%d HTTP/1.1\r\n\r\n" % count)
        count += 1
    await settled()
    assert (count, begun) == (serving.PIPELINED + 1, ["/0"])
    connection.resume_writing()
    await settled(200)
    assert begun == [f"/{number}" for number in range(count)]
    assert transport.reading


@in_a_loop
async def test_a_request_that_cannot_be_read_does_not_stop_the_rest() -> None:
    """What came of it is dropped, so that the client can send on until it reads the answers."""
    release = asyncio.Event()

    async def answer(request: Request) -> None:
        await release.wait()
        request.respond(200, b"one", "text/plain")

    transport = Transport()
    connection = Server(answer)()
    connection.connection_made(transport)
    chunk = b"%x\r\n%b\r\n" % (BUFFER + 1, bytes(BUFFER + 1))
    feed(connection, b"GET / HTTP/1.1\r\n\r\nPOST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk + b"zz\r\n")
    assert transport.reading
    release.set()
    await settled(100)
    assert transport.reading
    assert re.findall(rb"HTTP/1.1 (\d+)", transport.written) == [b"200", b"400"]
    assert transport.written.endswith(b"<end>")


@in_a_loop
async def test_an_answer_is_not_lost_with_the_next_request() -> None:
    """That one is broken off while its body is still being sent: the connection ends behind what was written before."""

    async def answer(request: Request) -> None:
        if request.method == "GET":
            request.respond(200, b"one", "text/plain")
        else:
            request.abort()

    transport = Transport()
    connection = Server(answer)()
    connection.connection_made(transport)
    feed(connection, b"GET / HTTP/1.1\r\n\r\nPUT / HTTP/1.1\r\nContent-Length: 9\r\n\r\nx")
    await settled()
    assert transport.written.endswith(b"one<end>")
    assert (transport.closed, transport.reading) == (False, True)
    assert connection.deadline < math.inf


@in_a_loop
@pytest.mark.parametrize("upgrade", [b"", b"Connection: Upgrade\r\nUpgrade: websocket\r\n"])
async def test_every_connection_without_a_request_has_a_deadline(upgrade: bytes) -> None:
    transport = Transport()
    connection = Server(echo)()
    connection.connection_made(transport)
    feed(connection, b"GET / HTTP/1.1\r\n%b\r\n" % upgrade)
    await settled()
    assert transport.written.endswith(b"/ ")
    assert connection.deadline < math.inf


@in_a_loop
async def test_many_at_once_on_one_connection() -> None:
    async with listening(echo) as (_, port):
        got = await talk(port, b"GET / HTTP/1.1\r\n\r\n" * 5_000, b"GET / HTTP/1.0\r\n\r\n")
    assert got.count(b"HTTP/1.1 200 OK\r\n") == 5_001


@in_a_loop
async def test_a_body_that_nobody_asks_for_is_not_taken() -> None:
    asked, found = asyncio.Event(), []

    async def answer(request: Request) -> None:
        await asked.wait()
        found.append(request.size)
        found.extend([len(piece) async for piece in request.pieces()])
        request.respond(200, b"", "text/plain")

    size = 50 * 2**20
    async with listening(answer) as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % size)
        writer.write(bytes(size))
        await asyncio.sleep(0.2)
        asked.set()
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        writer.close()
    assert found[0] <= 2 * BUFFER
    assert sum(found[1:]) == size


# --- Expectations ------------------------------------------------------------------------------------------------

EXPECTS = b"POST / HTTP/1.1\r\nExpect: 100-Continue\r\nContent-Length: 2\r\n\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


@in_a_loop
async def test_a_body_is_asked_for_once() -> None:
    transport = await fed(echo, EXPECTS)
    assert transport.written == CONTINUE
    transport = await fed(echo, EXPECTS, b"o", b"k")
    assert transport.written.startswith(CONTINUE + b"HTTP/1.1 200 OK\r\n")
    assert transport.written.endswith(b"\r\n\r\n/ ok")
    # It is here already; or an old client, which does not know of it.
    for sent in (EXPECTS + b"ok", EXPECTS.replace(b"/1.1", b"/1.0") + b"ok"):
        assert CONTINUE not in (await fed(echo, sent)).written


@in_a_loop
async def test_an_answer_in_place_of_a_body_ends_the_connection() -> None:
    """The client may send the body, or not, and what comes next could be either."""

    async def answer(request: Request) -> None:
        request.respond(413, b"", "text/plain")

    async with listening(answer) as (_, port):
        got = await talk(port, EXPECTS)
    assert got.startswith(b"HTTP/1.1 413 ")
    assert b"\r\nConnection: close\r\n" in got


@in_a_loop
async def test_an_answer_before_the_end_of_the_request() -> None:
    """It can be read, although the client still sends; what it sends is dropped, and the connection goes on."""
    seen = []

    async def answer(request: Request) -> None:
        seen.append(request)
        request.respond(413, b"", "text/plain") if request.has_body else await echo(request)

    size = 20 * 2**20
    async with listening(answer) as (_, port):
        for kind in (b"length", b"chunks", b"length, closing"):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"POST / HTTP/1.1\r\n" + (b"Connection: close\r\n" if b"closing" in kind else b""))
            if b"length" in kind:
                writer.write(b"Content-Length: %d\r\n\r\n" % size)
            else:
                writer.write(b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % size)
            assert (await reader.readline()).startswith(b"HTTP/1.1 413 ")
            writer.write(bytes(size) + (b"" if b"length" in kind else b"\r\n0\r\n\r\n"))
            if b"closing" in kind:
                await reader.read()
            else:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(b"GET /next HTTP/1.1\r\n\r\n")
                assert await reader.readuntil(b"/next ")
            writer.close()
    assert [request.size for request in seen] == [0] * 5


# --- Answers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_line", "status", "fields", "said", "closes"),
    [
        ("GET / HTTP/1.1", 200, [(b"content-length", b"6")], b"content-length: 6\r\n\r\nonetwo", False),
        ("GET / HTTP/1.1", 200, [], b"Transfer-Encoding: chunked\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n", False),
        ("GET / HTTP/1.0", 200, [(b"Age", b"6")], b"Age: 6\r\nConnection: close\r\n\r\nonetwo", True),
        ("GET / HTTP/1.0", 200, [], b"Connection: close\r\n\r\nonetwo", True),
        (
            *("GET / HTTP/1.0\r\nConnection: keep-alive", 200, [(b"Content-Length", b"6")]),
            *(b"Content-Length: 6\r\nConnection: keep-alive\r\n\r\nonetwo", False),
        ),
        ("GET / HTTP/1.0\r\nConnection: keep-alive", 200, [], b"Connection: close\r\n\r\nonetwo", True),
        ("HEAD / HTTP/1.1", 200, [(b"Content-Length", b"6")], b"Content-Length: 6\r\n\r\n", False),
        ("HEAD / HTTP/1.1", 200, [], b"\r\n", False),
        ("GET / HTTP/1.1", 204, [(b"Content-Length", b"0")], b"\r\n", False),
        ("GET / HTTP/1.1", 304, [(b"Content-Length", b"6")], b"Content-Length: 6\r\n\r\n", False),
        ("GET / HTTP/1.1\r\nConnection: close", 200, [], b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
         b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n", True),
    ],
)  # fmt: skip
@in_a_loop
async def test_framing(request_line: str, status: int, fields: Parts, said: bytes, closes: bool) -> None:
    async def answer(request: Request) -> None:
        request.begin(status, b"Reason", [*fields, (b"Date", b"now")])
        request.write(b"")
        request.write(b"one")
        request.end(b"two")

    transport = await fed(answer, request_line.encode() + b"\r\n\r\n")
    before, found, after = transport.written.partition(b"Date: now\r\n")
    length = b"".join(b"%b: %b\r\n" % field for field in fields if status != 204)
    assert before + after == b"HTTP/1.1 %d Reason\r\n" % status + said
    assert (found != b"", before.endswith(length), transport.closed) == (True, True, closes)


@in_a_loop
async def test_head_and_body_in_one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    writes: list[bytes] = []
    monkeypatch.setattr(Transport, "write", lambda self, data: writes.append(data))

    async def answer(request: Request) -> None:
        request.begin(200, b"OK", [(b"Date", b"x")])
        if request.head.target == "/flush":
            request.flush()
            request.flush()
        request.write(b"one")
        request.end(b"two" if request.head.target != "/end" else b"")

    await fed(answer, b"GET / HTTP/1.1\r\n\r\n")
    head = b"HTTP/1.1 200 OK\r\nDate: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert writes == [head + b"3\r\none\r\n", b"3\r\ntwo\r\n0\r\n\r\n"]
    writes.clear()
    await fed(answer, b"GET /flush HTTP/1.1\r\n\r\n")
    assert writes == [head, b"3\r\none\r\n", b"3\r\ntwo\r\n0\r\n\r\n"]
    writes.clear()
    await fed(answer, b"GET /end HTTP/1.1\r\n\r\n")
    assert writes == [head + b"3\r\none\r\n", b"0\r\n\r\n"]


@in_a_loop
async def test_an_answer_has_a_date() -> None:
    transport = await fed(echo, b"GET / HTTP/1.1\r\n\r\n")
    (line,) = [line for line in transport.written.split(b"\r\n") if line.startswith(b"Date: ")]
    assert line.endswith(b" GMT")


@pytest.mark.parametrize(
    ("version", "fields", "reset"), [("1.1", [], False), ("1.1", [(b"Content-Length", b"9")], False), ("1.0", [], True)]
)
@in_a_loop
async def test_an_answer_that_breaks_off(version: str, fields: Parts, reset: bool) -> None:
    """What was written comes, and no proper end; where the end of the connection would be one, it is reset."""

    async def answer(request: Request) -> None:
        request.begin(200, b"OK", fields)
        request.write(b"half")
        await asyncio.sleep(0.05)
        request.abort()

    async with listening(answer) as (_, port):
        if reset:
            with pytest.raises(ConnectionResetError):
                await talk(port, f"GET / HTTP/{version}\r\n\r\n".encode())
        else:
            got = await talk(port, f"GET / HTTP/{version}\r\n\r\n".encode())
            assert got.endswith(b"half" if fields else b"4\r\nhalf\r\n")


@in_a_loop
async def test_a_client_that_reads_slowly() -> None:
    """It is waited for."""
    waits = asyncio.Event()
    piece = bytes(2**16)
    written = 0

    async def answer(request: Request) -> None:
        nonlocal written
        request.begin(200, b"OK", [])
        while not request.blocked:
            request.write(piece)
            written += len(piece)
        waits.set()
        await request.drain()
        assert not request.blocked
        request.end(b"end")

    async with listening(answer) as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**16)
        writer.write(b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n")
        await waits.wait()
        got = await reader.read()
        writer.close()
    assert got.endswith(b"3\r\nend\r\n0\r\n\r\n")
    assert got.count(b"\0") == written


# --- The end -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["end", "reset"])
@pytest.mark.parametrize("when", ["waiting", "writing"])
@in_a_loop
async def test_a_client_that_goes_away(way: str, when: str) -> None:
    """Who works for it is told at once, once."""
    begun, ended = asyncio.Event(), asyncio.Event()
    told = []

    async def answer(request: Request) -> None:
        request.begin(200, b"OK", [])
        begun.set()
        try:
            while when == "writing":
                request.write(bytes(2**16))
                await request.drain()
            await asyncio.sleep(60)
        except (asyncio.CancelledError, ConnectionError) as error:
            told.append(error)
            await asyncio.sleep(0.05)
            ended.set()
            raise

    async with listening(answer) as (server, port):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        await begun.wait()
        if way == "reset":
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.transport.abort()
        await ended.wait()
        await settled()
        assert not server._connections
    assert len(told) == 1


@pytest.mark.parametrize("sent", ["a body", "requests"])
@in_a_loop
async def test_a_client_that_goes_away_while_it_is_not_read(sent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who works for it is told, although more is here than may wait."""
    monkeypatch.setattr(serving, "SWEEP_SECONDS", 0.01)
    begun, told = asyncio.Event(), asyncio.Event()

    async def answer(request: Request) -> None:
        begun.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            told.set()
            raise

    async with listening(answer) as (server, port):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        if sent == "a body":
            writer.write(b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % 2**24 + bytes(2**23))
        else:
            writer.write(b"GET / HTTP/1.1\r\n\r\n" * 1000)
        await begun.wait()
        (connection,) = server._connections
        while not connection.paused:
            await asyncio.sleep(0)
        await asyncio.sleep(0.05)  # some sweeps
        assert not told.is_set()
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.transport.abort()
        await told.wait()
        await settled()
        assert not server._connections


@in_a_loop
async def test_who_is_silent_for_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Is closed: without a request, in the middle of a head, in the middle of a body that is not wanted any more. Who
    waits for an answer is not."""
    for name in ("IDLE_SECONDS", "HEAD_SECONDS", "LINGER_SECONDS"):
        monkeypatch.setattr(serving, name, 0.02)
    monkeypatch.setattr(serving, "SWEEP_SECONDS", 0.01)
    release = asyncio.Event()

    async def answer(request: Request) -> None:
        if request.head.target == "/slow":
            await release.wait()
        request.respond(200, b"", "text/plain")

    async with listening(answer) as (server, port):
        slow = asyncio.create_task(talk(port, b"GET /slow HTTP/1.1\r\nConnection: close\r\n\r\n"))
        assert await talk(port) == b""
        assert await talk(port, b"GET / HT") == b""
        assert (await talk(port, b"GET / HTTP/1.1\r\n\r\nGET / HT")).startswith(b"HTTP/1.1 200")
        assert (await talk(port, b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\n")).startswith(b"HTTP/1.1 200")
        (waiting,) = server._connections
        assert waiting.deadline == math.inf
        release.set()
        assert (await slow).startswith(b"HTTP/1.1 200")


@in_a_loop
async def test_the_server_ends() -> None:
    """Idle connections are closed; a request in progress is answered, and its connection closed after it."""
    release, begun = asyncio.Event(), asyncio.Event()

    async def answer(request: Request) -> None:
        begun.set()
        await release.wait()
        await echo(request)

    async with listening(answer) as (server, port):
        busy = asyncio.create_task(talk(port, b"GET /1 HTTP/1.1\r\n\r\n"))
        await begun.wait()
        idle = asyncio.create_task(talk(port))
        half = asyncio.create_task(talk(port, b"GET / HT"))
        while len(server._connections) < 3 or not any(connection._stalled for connection in server._connections):
            await asyncio.sleep(0)
        server.close()
        assert (await idle, await half) == (b"", b"")
        release.set()
        got = await busy
    assert got.endswith(b"/1 ")
    assert b"\r\nConnection: close\r\n" in got


@in_a_loop
async def test_the_server_ends_while_a_request_comes() -> None:
    """It is taken in full."""
    begun = asyncio.Event()

    async def answer(request: Request) -> None:
        begun.set()
        await echo(request)

    for head, rest in ((b"Content-Length: 3", b"one"), (b"Transfer-Encoding: chunked", b"3\r\none\r\n0\r\n\r\n")):
        begun.clear()
        async with listening(answer) as (server, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"POST / HTTP/1.1\r\n" + head + b"\r\n\r\n")
            await begun.wait()
            server.close()
            writer.write(rest)
            assert (await reader.read()).endswith(b"/ one")
            writer.close()


@in_a_loop
async def test_the_server_breaks_off() -> None:
    """What is not done in time."""
    begun = asyncio.Event()

    async def answer(request: Request) -> None:
        request.begin(200, b"OK", [])
        request.write(b"half")
        begun.set()
        await asyncio.sleep(60)

    async with listening(answer) as (server, port):
        busy = asyncio.create_task(talk(port, b"GET /1 HTTP/1.1\r\n\r\n"))
        await begun.wait()
        await server.shutdown()
        assert (await busy).endswith(b"4\r\nhalf\r\n")
        assert not server._connections


# --- With the rest of the proxy ------------------------------------------------------------------------------------


def test_the_server_is_imported_without_aiohttp() -> None:
    """It takes longer than all the rest, and is for WebSockets only."""
    script = "import sys, cliff_proxy.server; sys.exit('aiohttp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_requests_of_one_connection(start_proxy: Any) -> None:
    """Sent at once, answered in order; the upstream sees them one after the other."""
    with wire.WireServer(lambda c, m: c.send(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n" + m.body)) as server:
        connection = wire.connect(start_proxy(server).port)
        sent = b"".join(
            b"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\n[%d]" % n for n in range(9)
        )
        connection.send(sent)
        bodies = []
        for _ in range(9):
            reply = connection.message()
            assert reply is not None
            bodies.append(reply.body)
        connection.close()
    assert bodies == [b"[%d]" % n for n in range(9)]
    assert [request.body for request in server.requests] == bodies


def test_no_tunnels(start_proxy: Any) -> None:
    with wire.WireServer() as server:
        connection = wire.connect(start_proxy(server).port)
        connection.send("CONNECT localhost:443 HTTP/1.1\r\nHost: localhost:443\r\n\r\n\x16\x03\x01")
        reply = connection.message()
        assert reply is not None
        assert (reply.status, reply.values("connection"), connection.line()) == (405, ["close"], b"")
        connection.close()
    assert server.requests == []


def test_a_refusal_in_the_middle_of_an_upload(start_proxy: Any) -> None:
    """It reaches the client, which still sends."""
    answered = threading.Event()

    class Server(wire.WireServer):
        def _serve(self, connection: wire.Connection) -> None:
            assert connection.head() is not None
            connection.send(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
            answered.wait(30)

    with Server() as server:
        connection = wire.connect(start_proxy(server).port)
        connection.send("POST /v1/files HTTP/1.1\r\nHost: localhost\r\nContent-Length: 90000000\r\n\r\nfirst")
        reply = connection.message()
        answered.set()
        connection.close()
    assert reply is not None
    assert (reply.status, reply.body) == (413, b"{}")


UPGRADE = (
    "GET /v1/other HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
FRAME = b"\x81\x82\0\0\0\0[]"


def test_a_websockets_first_frame_with_its_request(start_proxy: Any) -> None:
    with WebSocketServer() as server:
        connection = wire.connect(start_proxy(server).port)
        connection.send(UPGRADE, FRAME)
        head = connection.head()
        assert head is not None
        assert head.status == 101
        connection.send(b"\x88\x82\0\0\0\0\x03\xe8")
        assert connection.read(4) == b"\x88\x02\x03\xe8"
        connection.close()
    assert server.other == ["[]"]


def test_a_connection_goes_on_after_a_websocket_that_is_not_to_be_had(start_proxy: Any) -> None:
    with wire.WireServer() as server:
        connection = wire.connect(start_proxy(server).port)
        connection.send(UPGRADE, "GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n")
        statuses = []
        for _ in range(2):
            reply = connection.message()
            assert reply is not None
            statuses.append(reply.status)
        connection.close()
    assert statuses == [426, 200]
    assert [request.target for request in server.requests] == ["/v1/other", "/v1/models"]


def test_a_websocket_that_aiohttp_does_not_take(start_proxy: Any) -> None:
    """The client is told so, and nothing waits for ever."""
    with WebSocketServer() as server:
        proxy = start_proxy(server)
        reply = wire.ask(proxy.port, UPGRADE.replace("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "X: y"))
        while proxy.status()["server"]["open_requests"]:
            pass
    assert reply.status == 400

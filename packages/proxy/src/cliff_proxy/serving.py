"""The client's side of HTTP/1.1: connections that are taken, their requests, and the answers.

    server = Server(handler)                    # async def handler(request: Request) -> None
    await loop.create_server(server, host, port)

Heads and chunked bodies are read by `httptools` (the parser of Node); a body whose length is known goes past it. Each
request is handled by a task of its own, which is cancelled when its client goes away; the requests of one connection
are handled one after the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import select
import socket
import struct
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, cast

import httptools

from cliff_proxy.errors import shaped
from cliff_proxy.headers import Fields, Values, by_name
from cliff_proxy.heads import Head, Pattern

MAX_HEAD = 2**20
"""Bytes of a head, and of anything else in a request that is no part of a body."""

MAX_TARGET = 2**16
"""Bytes of a request's target."""

MAX_FIELDS = 512

READ_BYTES = 2**18
"""That are taken from a connection at a time."""

BUFFER = 2**18
"""Bytes of a body that are taken before somebody asks for them."""

PIPELINED = 16
"""Requests of one connection that may wait for the one before."""

HEAD_SECONDS = 60.0
"""Within which a head that was begun has to be complete."""

IDLE_SECONDS = 3600.0
"""For how long a connection without a request is kept. Longer than clients keep theirs: else one sends its next request
when we close."""

LINGER_SECONDS = 10.0
"""For how long the rest of a request is taken after its answer, so that the client can read the answer first."""

SWEEP_SECONDS = 1.0
"""How often it is looked for connections whose time is over, or whose client is gone."""

Handler = Callable[["Request"], Coroutine[Any, Any, None]]


class Incomplete(ConnectionError):  # noqa: N818 - it says what it is
    """The client's body ends before its end, or is not what its framing says."""


class Request:
    """One request and its answer.

    The answer: `begin`, any number of `write`s, `end`. They do not wait; `drain` does, where the client reads slowly.
    The head is sent with the first bytes of the body, or by `flush`.
    """

    __slots__ = (
        *("head", "method", "version", "content_length", "has_body", "keep_alive"),
        *("begun", "ended", "allowed", "size", "complete", "_connection", "_pieces", "_waiter", "_wanted", "_broken"),
        *("_expects", "_opening", "_chunked", "_silent", "_framed"),
    )

    def __init__(self, connection: Connection, head: Head, content_length: int | None, body: bytes = b"") -> None:
        """`body`: what is here of it."""
        self.head = head
        self.method = head.method
        self.version = head.version
        self.content_length = content_length
        """Bytes of the body, where the head says how many."""
        self.has_body = bool(content_length) or b"transfer-encoding" in head.values
        self.keep_alive = head.keep_alive
        """Whether the connection can take another request after this one."""
        self.begun = False
        """An answer was begun."""
        self.ended = False
        """The answer is complete."""
        self.allowed = BUFFER
        """Bytes of the body that may wait here."""
        self.size = len(body)
        """Bytes of the body that are here."""
        self.complete = False
        """All of the request came."""
        self._connection = connection
        self._pieces = [body] if body else []
        self._waiter: asyncio.Future[None] | None = None
        self._wanted = 0
        """It is done when more than so many bytes are here, or all."""
        self._broken = False
        expect = head.values.get(b"expect")
        self._expects = (
            expect is not None and self.has_body and self.version == "1.1" and expect.lower() == b"100-continue"
        )
        self._opening = b""
        self._chunked = self._silent = self._framed = False

    # --- Its body ------------------------------------------------------------------------------------------

    async def body(self, limit: int) -> bytes | None:
        """All of the body; None where it is longer than `limit` bytes: then `pieces` has it. Raises Incomplete."""
        if self.content_length is not None and self.content_length > limit:
            return None
        self.allowed = limit
        if self._connection.paused:  # at what was allowed before
            self._connection.look()
        while not self.complete and self.size <= limit:
            await self._more(limit)
        if self.size > limit:
            self.allowed = BUFFER
            return None
        taken = self._take()
        return taken[0] if len(taken) == 1 else b"".join(taken)

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body as it comes. Raises Incomplete."""
        while True:
            for piece in self._take():
                yield piece
            if self.complete and not self._pieces:
                return
            if not self._pieces:
                await self._more(0)

    def _take(self) -> list[bytes]:
        taken, self._pieces, self.size = self._pieces, [], 0
        if self._connection.paused:
            self._connection.look()
        return taken

    async def _more(self, wanted: int) -> None:
        """Until more than so many bytes are here, or all."""
        if self._expects and not self.begun:
            self._expects = False
            self._connection.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if not self._broken:
            self._waiter, self._wanted = asyncio.get_running_loop().create_future(), wanted
            try:
                await self._waiter
            finally:
                self._waiter = None
        if self._broken:
            raise Incomplete("the body is not complete")

    def receive(self, data: bytes) -> None:
        """The next bytes of the body."""
        if self.ended:
            return  # nobody wants them any more
        self._expects = False
        self._pieces.append(data)
        self.size += len(data)
        if self._waiter is not None and self.size > self._wanted:
            self._wake()

    def completed(self) -> None:
        """There is no more of it."""
        self.complete, self._expects = True, False
        if self._waiter is not None:
            self._wake()

    def fail(self) -> None:
        """There is more of it, but it will not come."""
        self._broken, self.keep_alive = True, False
        self._wake()

    def drop(self) -> None:
        """What is here of it is not wanted any more."""
        self._pieces.clear()
        self.size = 0

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # --- Its answer ----------------------------------------------------------------------------------------

    def begin(self, status: int, reason: bytes, fields: Fields, values: Values | None = None) -> None:
        """The head of the answer. A length among the fields is that of the body; without one it is sent in chunks, or
        until the end of the connection to a client that knows no chunks. `values`: the fields' `by_name`, if at hand.
        """
        if values is None:
            values = by_name(fields)
        self.begun = True
        self._silent = self.method == "HEAD" or status in {204, 304}
        if b"content-length" in values:
            self._framed = status != 204
            if not self._framed:
                fields = [field for field in fields if field[0].lower() != b"content-length"]
        parts = [b"HTTP/1.1 %d %b\r\n" % (status, reason)]
        parts += [b"%b: %b\r\n" % field for field in fields]
        if b"date" not in values:
            parts.append(_date())
        connection = self._connection
        if self._expects or (connection.server.closing and connection.is_last()):
            self.keep_alive = False
        if not self._framed and not self._silent:
            if self.version == "1.1":
                self._chunked = True
                parts.append(b"Transfer-Encoding: chunked\r\n")
            else:
                self.keep_alive = False
        if not self.keep_alive:
            parts.append(b"Connection: close\r\n")
        elif self.version == "1.0":
            parts.append(b"Connection: keep-alive\r\n")
        parts.append(b"\r\n")
        self._opening = b"".join(parts)

    def flush(self) -> None:
        """Sends the head, where no byte of the body is there to go with it."""
        if self._opening:
            self._connection.write(self._opening)
            self._opening = b""

    def write(self, data: bytes) -> None:
        """The next bytes of the body. ConnectionResetError where the client is gone."""
        head, self._opening = self._opening, b""
        if self._silent or not data:
            data = head
        elif self._chunked:
            data = b"%b%x\r\n%b\r\n" % (head, len(data), data)
        elif head:
            data = head + data
        if data:
            self._connection.write(data)

    def end(self, data: bytes = b"") -> None:
        """The last bytes of the body."""
        head, self._opening = self._opening, b""
        if self._silent:
            data = head
        elif self._chunked:
            chunk = b"%x\r\n%b\r\n" % (len(data), data) if data else b""
            data = b"%b%b0\r\n\r\n" % (head, chunk)
        elif head:
            data = head + data
        self.ended = True
        if data:
            self._connection.write(data)

    def respond(self, status: int, body: bytes, content_type: str) -> None:
        """An answer of our own."""
        fields = ((b"Content-Type", content_type.encode()), (b"Content-Length", b"%d" % len(body)))
        self.begin(status, HTTPStatus(status).phrase.encode(), fields)
        self.end(body)

    def refuse(self, status: int, message: str, provider: str = "openai") -> None:
        """An error of ours in the shape of an API."""
        self.respond(status, json.dumps(shaped(provider, status, message)).encode(), "application/json; charset=utf-8")

    @property
    def blocked(self) -> bool:
        """Whether the client reads more slowly than it is written to: `drain` then waits."""
        return self._connection.drained is not None

    async def drain(self) -> None:
        """Until the client can take more."""
        if self._connection.drained is not None:
            await self._connection.drained

    def abort(self) -> None:
        """Closes the connection after what was written, so that the client sees that the answer is not complete."""
        self._connection.break_off(reset=self.begun and not (self._chunked or self._framed or self.ended))

    def hand_over(self, protocol: asyncio.Protocol) -> None:
        """Gives the connection to another protocol, which gets the request and all that follows as if it were new."""
        said = self.head
        lines = [f"{said.method} {said.target} HTTP/{said.version}\r\n".encode("utf-8", "surrogateescape")]
        lines += [b"%b: %b\r\n" % field for field in said.fields]
        self.begun = self.ended = True
        self._connection.hand_over(protocol, b"".join(lines) + b"\r\n")


class Connection(asyncio.BufferedProtocol):
    """One client's connection."""

    def __init__(self, server: Server) -> None:
        self.drained: asyncio.Future[None] | None = None
        """Done when the client can take more; None while it can."""
        self.last = False
        """Nothing more is read."""
        self.deadline = math.inf
        """When its time is over, by the loop's clock."""
        self.task: asyncio.Task[None] | None = None
        self.server = server
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        """None once the connection is lost or given away."""
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""
        self._fields: list[tuple[bytes, bytes]] = []
        self._begun = False
        """The parser is within a head."""
        self._pattern: Pattern | None = None
        """Of the last head that came in one piece with some of its body, if it is plain."""
        self._stalled = 0
        """Bytes that were read since a head was complete, or any of a body."""
        self._newest: Request | None = None
        """The last request whose head is complete."""
        self._within = False
        """It is not here in full."""
        self._left = 0
        """Bytes of its body that are to come, past the parser."""
        self._current: Request | None = None
        """The request that is being answered."""
        self._queue: deque[Request] = deque()
        """Those after it."""
        self._rest: bytearray | None = None
        """What follows a request for another protocol."""
        self._refusal: tuple[int, str] | None = None
        """Why nothing more is read: an answer after all others."""
        self._lingers = False
        self.paused = False
        """Reading is: more is here than may wait."""

    def is_last(self) -> bool:
        """Whether no other request waits."""
        return not self._queue

    # --- The transport's --------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by class
        if (connected := transport.get_extra_info("socket")) is not None:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self.deadline = self._loop.time() + IDLE_SECONDS
        self.server.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._queue.clear()
        self.server.discard(self)
        self._hung_up()

    def eof_received(self) -> None:
        self.deadline = self._loop.time() + IDLE_SECONDS
        self._hung_up()  # and the transport closes itself, after what was written

    def pause_writing(self) -> None:
        self.drained = self._loop.create_future()

    def resume_writing(self) -> None:
        drained, self.drained = self.drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)
        self._loop.call_soon(self._next)

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.server.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.received(self.server.buffer, nbytes)

    def received(self, data: bytes | bytearray, size: int) -> None:
        """The first `size` bytes of `data` came."""
        start = 0
        while start < size:
            if self._left:
                start = self._read_body(data, start, size)
            elif self._rest is not None:
                self._rest += _part(data, start, size)
                break
            elif self.last:
                break
            else:
                start = self._read(data, start, size)
        if self._current is None:
            self._next()
        self.look()

    def look(self) -> None:
        """Stops reading while more is here than may wait, and goes on after that."""
        newest = self._newest
        full = (
            len(self._queue) >= PIPELINED
            or (newest is not None and newest.size > newest.allowed)
            or (self._rest is not None and len(self._rest) > BUFFER)
        )
        if full is not self.paused and self._transport is not None and not self._transport.is_closing():
            self.paused = full
            if full:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    # --- Reading ----------------------------------------------------------------------------------------------

    def _read_body(self, data: bytes | bytearray, start: int, size: int) -> int:
        """What is here of a body whose length is known; gives back where it ends."""
        assert self._newest is not None
        end = min(size, start + self._left)
        self._left -= end - start
        self._newest.receive(_part(data, start, end))
        if not self._left:
            self._parser = httptools.HttpRequestParser(self)
            self._completed(self._newest)
        return end

    def _read(self, data: bytes | bytearray, start: int, size: int) -> int:
        """Bytes that are no part of a body whose beginning is here already: those of `data` from `start` on; gives back
        how far it got."""
        pattern = self._pattern if not self._within and not self._begun else None
        found = pattern.length(data, start, size) if pattern is not None else None
        if pattern is None or found is None:
            return start + self._parse(_part(data, start, size))
        begins, length = found
        end = min(begins + length, size)
        self._newest = request = Request(self, pattern.head, length, _part(data, begins, end))
        self._queue.append(request)
        self._left = length - request.size
        self._within = self._left > 0
        request.complete = not self._within
        self._stalled = 0
        return end

    def _parse(self, data: bytes) -> int:
        """Gives back how much of it was read: all, unless another protocol is asked for."""
        before, begun = self._newest, self._begun
        whole = not begun and not self._within
        self._stalled += len(data)
        read = len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            read = upgrade.args[0]
            self._upgraded()
        except httptools.HttpParserError:
            self._refusal = self._refusal or (400, "this is no request of HTTP/1.1 that can be read")
        if self._begun and not begun and self._current is None:
            self.deadline = self._loop.time() + HEAD_SECONDS
        if self._stalled > MAX_HEAD and self._refusal is None:
            self._refusal = (431, "the head of the request is too large")
        newest = self._newest
        if newest is not None and self._within:
            if self._refusal is not None:
                newest.fail()
                if newest in self._queue:  # nobody has seen it yet
                    self._queue.remove(newest)
                    newest.drop()
            elif newest.content_length is not None and not self._left:
                self._left = newest.content_length - newest.size
        self.last = self.last or self._refusal is not None
        if whole and newest is not before and newest is not None:
            end = data.find(b"\r\n\r\n") + 4
            # Else its head is not all that stands before its body: there was another request.
            alone = end + newest.size == len(data) and newest.content_length
            self._pattern = Pattern.of(data[:end], newest.head) if alone and self._refusal is None else None
        return read

    def on_message_begin(self) -> None:
        self._begun = True

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._within:  # else it is of a trailer
            self._fields.append((name, value.rstrip(b" \t")))

    def _refuse(self, status: int, message: str) -> None:
        self._refusal = (status, message)
        raise ValueError(message)  # which ends the parser

    def on_headers_complete(self) -> None:
        self._begun = False
        if self._within:  # a parser that has been told of it
            self._url = b""
            return
        parser = self._parser
        version = parser.get_http_version()
        if version not in {"1.1", "1.0"}:
            self._refuse(505, "HTTP/1.1 is spoken here")
        if len(self._url) > MAX_TARGET:
            self._refuse(414, f"a target of more than {MAX_TARGET} bytes")
        if len(self._fields) > MAX_FIELDS:
            self._refuse(431, f"more than {MAX_FIELDS} headers")
        fields, length = self._fields, None
        for name, value in fields:
            if name.lower() == b"content-length":
                length = int(value)
        if length is not None:
            fields = [field for field in fields if field[0].lower() != b"content-length"]
        method, target = parser.get_method().decode("ascii"), self._url.decode("utf-8", "surrogateescape")
        head = Head(method, target, version, fields, parser.should_keep_alive())
        request = Request(self, head, length)
        if head.values.get(b"transfer-encoding", b"chunked").lower() != b"chunked":
            self._refuse(501, "of transfer codings, only chunked is known here")
        if method == "GET" and parser.should_upgrade() and not request.has_body:  # RFC 6455, 4.1
            head.websocket = head.values.get(b"upgrade", b"").lower() == b"websocket"
        self._newest, self._within = request, True
        self._queue.append(request)
        self._url, self._fields, self._stalled = b"", [], 0

    def on_body(self, body: bytes) -> None:
        assert self._newest is not None
        self._stalled = 0
        self._newest.receive(body)

    def on_message_complete(self) -> None:
        assert self._newest is not None
        self._stalled = 0
        if not self._parser.should_upgrade():  # that is said before the body is read
            self._completed(self._newest)

    def _upgraded(self) -> None:
        """What to do with what follows a request that asks for another protocol. Only a WebSocket's, which has no body,
        can be meant; to the others it is just a request."""
        request = self._newest
        assert request is not None
        self._parser = httptools.HttpRequestParser(self)
        if request.head.websocket:
            self._completed(request)
            self._rest = bytearray()
        elif request.content_length:
            self._left = request.content_length
        elif request.has_body:
            self._parser.feed_data(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
        else:
            self._completed(request)

    def _completed(self, request: Request) -> None:
        """All of the newest request is here."""
        self._within = False
        request.completed()
        if request is self._current and request.ended and self.task is None:  # it was answered before that
            self._settle(request)

    # --- Answering ----------------------------------------------------------------------------------------------

    def _next(self) -> None:
        """Begins with the next request, where none is being answered and the client takes its answers."""
        if self._current is not None or self._transport is None or self._transport.is_closing():
            return
        if self.drained is not None:
            return
        if self._queue:
            self.deadline = math.inf
            self._current = request = self._queue.popleft()
            if self.paused:  # there is room for another one
                self.look()
            if sys.version_info >= (3, 12):
                task = asyncio.Task(self._answer(request), loop=self._loop, name="request", eager_start=True)
            else:
                task = self._loop.create_task(self._answer(request))
            if not task.done():
                self.task = task
        elif self._rest is not None:  # after a request for another protocol, which stayed with this one
            rest, self._rest = self._rest, None
            self.received(rest, len(rest))
        elif self._refusal is not None and not self._lingers:
            status, message = self._refusal
            Request(self, Head("GET", "", "1.1", (), False), None).refuse(status, message)
            self._linger()
        elif self.server.closing:
            self._transport.close()

    async def _answer(self, request: Request) -> None:
        try:
            await self.server.handler(request)
        except asyncio.CancelledError:
            pass  # the client is gone, or the server ends
        finally:
            self.task = None
            self._answered(request)

    def _answered(self, request: Request) -> None:
        if self._transport is None:  # lost, or given away
            self.server.discard(self)
        elif not request.ended:
            self.break_off()
        elif request.complete:
            self._settle(request)
        else:
            request.drop()
            self._linger() if not request.keep_alive else self._wait()

    def _settle(self, request: Request) -> None:
        """After a request that is here in full, and its answer."""
        assert self._transport is not None
        self._current = None
        if request.size:  # nobody wanted it
            request.drop()
        if self.paused:
            self.look()
        self.deadline = self._loop.time() + (HEAD_SECONDS if self._begun else IDLE_SECONDS)
        if not request.keep_alive:
            self.last = True
            self._transport.close()
        elif self._queue or self._rest is not None or self._refusal is not None or self.server.closing:
            self._loop.call_soon(self._next)

    def _wait(self) -> None:
        """For the rest of a request that is answered already."""
        self.deadline = self._loop.time() + LINGER_SECONDS
        self.look()

    def _linger(self) -> None:
        """Ends the connection, but takes what is still sent: else the client may lose the answer."""
        assert self._transport is not None
        if self._lingers:
            return
        self.last = self._lingers = True
        self._wait()
        with contextlib.suppress(OSError):  # it is reset already, which asyncio's own loop says at once
            self._transport.write_eof()

    def break_off(self, reset: bool = False) -> None:
        """Closes after what was written; with `reset` so that it is no proper end."""
        if self._transport is None or self._transport.is_closing():
            return
        self.last = True
        self.deadline = self._loop.time() + LINGER_SECONDS
        if reset:
            connected = self._transport.get_extra_info("socket")
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack(_LINGER, 1, 0))
            self._transport.abort()
        elif self._within and self._newest is not None:
            # What a client still sends to a socket that is closed resets it, and what was written before may be lost.
            self._newest.ended, self._newest.keep_alive = True, False
            self._newest.drop()
            self._queue.clear()
            self._linger()
        else:
            self._transport.close()

    def write(self, data: bytes) -> None:
        if self._transport is None or self._transport.is_closing():
            raise ConnectionResetError("the client is gone")
        self._transport.write(data)

    def hand_over(self, protocol: asyncio.Protocol, head: bytes) -> None:
        transport, self._transport = self._transport, None
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the client is gone")
        self.deadline = math.inf
        if not self.paused:
            transport.pause_reading()  # uvloop reads on for the protocol that it began to read for
        transport.set_protocol(protocol)
        transport.resume_reading()
        protocol.connection_made(transport)
        protocol.data_received(head + bytes(self._rest or b""))

    @property
    def unsent(self) -> bool:
        """Whether some of what was written is still here."""
        return self._transport is not None and self._transport.get_write_buffer_size() > 0

    def gone(self) -> bool:
        """Whether the client is gone, where nothing is read that would tell. Windows does not say."""
        if not self.paused or self._transport is None or self._transport.is_closing() or not hasattr(select, "poll"):
            return False
        looking = select.poll()
        looking.register(self._transport.get_extra_info("socket"), getattr(select, "POLLRDHUP", 0))
        return bool(looking.poll(0))  # errors and hang-ups are always told

    def expire(self) -> None:
        """Its time is over."""
        if self._transport is not None:
            self._transport.abort()

    def end(self) -> None:
        """No more requests; the one that is being answered goes on."""
        if self._current is None and not self._queue and self._transport is not None:
            self.last = True
            self._transport.close()

    def _hung_up(self) -> None:
        """The client is gone."""
        task, self.task = self.task, None
        if task is not None:
            task.cancel()


class Server:
    """All connections of clients; a protocol factory for `create_server`."""

    def __init__(self, handler: Handler) -> None:
        """`handler` answers a request, and raises nothing."""
        self.handler = handler
        self.closing = False
        """No more requests are taken."""
        self.buffer = bytearray(READ_BYTES)
        """That all connections read into, one after the other."""
        self._connections: set[Connection] = set()
        self._sweeping: asyncio.TimerHandle | None = None

    def __call__(self) -> Connection:
        return Connection(self)

    def add(self, connection: Connection) -> None:
        self._connections.add(connection)
        if self._sweeping is None:
            self._sweeping = asyncio.get_running_loop().call_later(SWEEP_SECONDS, self._sweep)

    def discard(self, connection: Connection) -> None:
        self._connections.discard(connection)

    def _sweep(self) -> None:
        """Closes connections whose time is over, or whose client is gone."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        for connection in list(self._connections):
            if connection.deadline < now or connection.gone():
                connection.expire()
        self._sweeping = loop.call_later(SWEEP_SECONDS, self._sweep) if self._connections else None

    @property
    def unsent(self) -> bool:
        """Whether a client has yet to take some of its answer."""
        return any(connection.unsent for connection in self._connections)

    def close(self) -> None:
        """Takes no more requests; those in progress go on, and their connections are closed after them."""
        self.closing = True
        for connection in list(self._connections):
            connection.end()

    async def shutdown(self, seconds: float = 0.1) -> None:
        """Breaks off what is in progress, and waits so long for its end."""
        self.close()
        tasks = [connection.task for connection in self._connections if connection.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)
        for connection in list(self._connections):
            connection.expire()
        if self._sweeping is not None:
            self._sweeping.cancel()
        await asyncio.sleep(0)  # the transports tell of their end


def _part(data: bytes | bytearray, start: int, end: int) -> bytes:
    """Copied once."""
    return bytes(memoryview(data)[start:end])


_LINGER = "hh" if os.name == "nt" else "ii"

_dated = (0, b"")


def _date() -> bytes:
    """The header, made once a second."""
    global _dated
    now = int(time.time())
    if _dated[0] != now:
        _dated = (now, f"Date: {formatdate(now, usegmt=True)}\r\n".encode())
    return _dated[1]

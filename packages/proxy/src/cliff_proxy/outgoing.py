"""One connection to an upstream: a request goes out, its reply comes in as it is sent.

HTTP/1.1 by an asyncio protocol and llhttp (`httptools`). Bytes are handed on as they come and never joined; a request's
body is not copied. Both directions wait for whoever is slow: an upload for an upstream that does not read, an upstream
for a client that does not.
"""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any, Final, cast

import httptools

from cliff_proxy.headers import by_name

Body = bytes | bytearray | memoryview | AsyncIterator[bytes] | None

MAX_HEAD = 2**20
"""Bytes of a reply's head, at least; one that is longer is none."""

HELD = 2**18
"""Bytes of a reply that wait here for `read` before the upstream has to wait."""

PIECE = 2**18
"""Bytes of a body that are written in one go where a write costs time (TLS) or a copy."""

RECORD = 2**14
"""Bytes of a large body that are written with TLS before it is looked for an answer: those of one record."""

TURNS = 10
"""Of the loop, at most, in which it reads what such a look has found."""

BYTES: Final = (bytes, bytearray, memoryview)


def writes_views(transport: asyncio.WriteTransport) -> bool:
    """Whether its `writelines` takes what it gets as it is. asyncio's own joins it all before 3.12."""
    return type(transport).writelines is not asyncio.WriteTransport.writelines


def looking(transport: asyncio.BaseTransport) -> Callable[[], Sequence[Any]]:
    """Gives something where bytes, the end, or an error came that was not read yet."""
    ours = transport.get_extra_info("socket")
    if ours is None or ours.fileno() < 0:
        return list
    if hasattr(select, "poll"):  # which takes any number of a socket
        poll = select.poll()
        poll.register(ours, select.POLLIN)
        return partial(poll.poll, 0)
    return lambda: select.select([ours], [], [], 0)[0]


class BrokenOff(Exception):  # noqa: N818 - an event, not a mistake
    """The upstream's connection ended where the reply did not."""


class Reply:
    """An upstream's reply: its head, and its body as it comes."""

    __slots__ = (
        *("chunked", "content_length", "error", "ended", "fields", "reason", "size", "status", "values"),
        *("pieces", "_connection", "waiter"),
    )

    def __init__(self, connection: Connection, status: int, reason: bytes, fields: list[tuple[bytes, bytes]]) -> None:
        self.status = status
        self.reason = reason
        self.fields = fields
        """As they came; without a length where the body has another framing."""
        self.values = values = by_name(fields)
        self.chunked = values.get(b"transfer-encoding", b"").lower().endswith(b"chunked")
        """How its end is told, whatever the field of a length says (RFC 9112, 6.3)."""
        if self.chunked and values.pop(b"content-length", None) is not None:
            self.fields = [field for field in fields if field[0].lower() != b"content-length"]
        length = values.get(b"content-length")
        self.content_length = int(length) if length is not None else None
        """What the field says, in reply to HEAD, too."""
        self.ended = False
        """Whether the end has come; more may be pending."""
        self.error: Exception | None = None
        """Why the end will not come."""
        self.size = 0
        """Bytes that are pending."""
        self.pieces: list[bytes] = []
        """Those bytes, as they came."""
        self._connection: Connection | None = connection
        self.waiter: asyncio.Future[None] | None = None
        """Who reads, until something comes."""

    def pending(self) -> bool:
        """Whether bytes of the body are here now."""
        return bool(self.pieces)

    def at_eof(self) -> bool:
        """Whether nothing is pending and nothing more will come."""
        return self.ended and not self.pieces

    async def read(self) -> bytes:
        """What is here, else what comes next; empty at the end. BrokenOff where the connection ended before that."""
        if not self.pieces and not self.ended and self.error is None:
            self.waiter = asyncio.get_running_loop().create_future()
            try:
                await self.waiter
            finally:
                self.waiter = None
        if not self.pieces and self.error is not None:
            raise self.error
        return self.take()

    def take(self) -> bytes:
        """What is here; empty where that is nothing."""
        pieces = self.pieces
        if not pieces:
            return b""
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        self.size = 0
        if self._connection is not None and self._connection.paused:
            self._connection.go_on()
        return data

    def close(self) -> None:
        """At its end: the connection is kept for other requests. Before it: the connection is closed."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if not self.ended and self.error is None:
            self.fail(BrokenOff("closed by us"))
        connection.release(complete=self.ended)

    # --- For the connection ----------------------------------------------------------------------------

    def fail(self, error: Exception) -> None:
        """Nothing more comes: what is here can be read, and what is not complete then raises this."""
        if not self.ended and self.error is None:
            self.error = error
        self.wake()

    def wake(self) -> None:
        """Tells who reads."""
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)


class Connection(asyncio.BufferedProtocol):
    """A connection, for one request at a time."""

    def __init__(self, buffer: memoryview, secure: bool, ended: Callable[[Connection, bool], None]) -> None:
        """`buffer`: one for all connections of a loop. `ended(connection, kept)` is called when a reply is over and the
        connection can be used again, and when it is lost."""
        self.since = 0.0
        """When it was put aside (for who keeps it)."""
        self.silent = True
        """Whether nothing has come in answer to the last request."""
        self._buffer = buffer
        self._secure = secure
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._parser: httptools.HttpResponseParser | None = None
        self._method = ""
        self._asked: asyncio.Future[Reply] | None = None
        self._reply: Reply | None = None
        self._fields: list[tuple[bytes, bytes]] = []
        self._reason = b""
        self._head_size = 0
        self._keeps = False
        self._until_close = False
        self.paused = False
        """Reading is: more of a reply is here than may wait."""
        self._writable: asyncio.Future[None] | None = None
        self._upload: asyncio.Task[None] | None = None
        self._looking: Callable[[], Sequence[Any]] | None = None

    @property
    def transport(self) -> asyncio.Transport:
        return self._transport

    @property
    def closing(self) -> bool:
        """Whether it is of no more use."""
        return self._transport.is_closing()

    def readable(self) -> bool:
        """Whether something came that the loop has not read yet: of one that nobody uses its end, or what nobody asked
        for. Only for one that is not closing."""
        if self._looking is None:
            self._looking = looking(self._transport)
        return bool(self._looking())

    def secured(self, transport: asyncio.Transport) -> None:
        """What was asked so far had TLS as its answer: this transport."""
        self._transport, self._secure = transport, True
        self._asked = self._reply = None

    # --- The request -------------------------------------------------------------------------------------

    async def ask(self, method: str, head: bytes, body: Body = None, length: int | None = None) -> Reply:
        """The beginning of the reply to a request; BrokenOff where none comes, and what `body` raises."""
        try:
            return await self.start(method, head, body, length)
        except BaseException:
            self.drop()
            raise

    def start(self, method: str, head: bytes, body: Body, length: int | None) -> asyncio.Future[Reply]:
        """The same for who drops the connection where this or the future raises.

        A body that comes in pieces is sent in chunks, or has to have the `length` that the head says. It may still go
        out when its reply is here.
        """
        if self._transport.is_closing():
            raise BrokenOff("it was closed at once")
        self._method = method
        asked = self._asked = self._loop.create_future()
        self._head_size = 0
        self.silent = True
        if body is None:
            self._transport.write(head)
        elif not isinstance(body, BYTES):
            self._upload = self._loop.create_task(self._send_pieces(head, body, length))
        elif len(body) <= PIECE or (not self._secure and writes_views(self._transport)):
            self._transport.writelines((head, body))
        else:
            self._upload = self._loop.create_task(self._send_sliced(head, memoryview(body)))
        return asked

    async def _send_sliced(self, head: bytes, body: memoryview) -> None:
        self._transport.write(head)
        if await self._write(body):
            self._upload = None

    async def _send_pieces(self, head: bytes, body: AsyncIterator[bytes], length: int | None) -> None:
        self._transport.write(head)
        sent = 0
        try:
            async for piece in body:
                sent += len(piece)
                if length is not None and sent > length:
                    raise BrokenOff("the body is longer than its Content-Length")
                data = piece if length is not None or not piece else b"%x\r\n%b\r\n" % (len(piece), piece)
                if self.closing or not await self._write(memoryview(data)):
                    return
                if self._writable is not None:
                    await self._writable
            if length is not None and sent < length:
                raise BrokenOff("the body is shorter than its Content-Length")
        except Exception as error:
            self.fail(error)
            return
        if length is None and not self.closing:
            self._transport.write(b"0\r\n\r\n")
        self._upload = None

    async def _write(self, data: memoryview) -> bool:
        """Writes some of a large body as the upstream takes it; whether it wants more.

        An upstream that refuses a body answers and closes, and where a write meets that before a read does, an answer
        in TLS is lost (`_rescue` is for others). So what came is read before each write, and nothing is written after
        a refusal.
        """
        size = RECORD if self._secure else PIECE
        for start in range(0, len(data), size):
            if self._writable is not None:
                await self._writable
            for _ in range(TURNS if self._secure else 0):
                if self.paused or self.closing or not self.readable():
                    break
                await asyncio.sleep(0)
            if self.closing or self._refused():
                return False
            self._transport.write(data[start : start + size])
        return True

    def _refused(self) -> bool:
        """Whether the rest of a body is not wanted (RFC 9112, 9.5)."""
        reply = self._reply
        return reply is not None and (reply.ended or (reply.status >= 400 and not self._keeps))

    # --- Its end -----------------------------------------------------------------------------------------

    def release(self, *, complete: bool) -> None:
        """The reply is not read any further: the connection is kept where nothing of the exchange is left on it."""
        left = not complete or self._upload is not None or self._transport.get_write_buffer_size()
        if left or not self._keeps or self.closing:
            self.drop()
            return
        self._asked = self._reply = None
        if self.paused:
            self.go_on()
        self._ended(self, True)

    def drop(self) -> None:
        """Closes it at once."""
        if self._upload is not None:
            self._upload.cancel()
            self._upload = None
        self._asked = self._reply = None
        self._transport.abort()

    def fail(self, error: Exception) -> None:
        """Breaks it off; who waits for the reply gets the error, or the reply where it is complete."""
        if self._reply is not None:
            self._reply.fail(error)
        elif self._asked is not None and not self._asked.done():
            self._asked.set_exception(error)
        self._transport.abort()

    def go_on(self) -> None:
        """There is room for more of the reply."""
        if self.paused:
            self.paused = False
            self._transport.resume_reading()

    # --- The transport -----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._feed(self._buffer[:nbytes])

    def pause_writing(self) -> None:
        self._writable = self._loop.create_future()

    def resume_writing(self) -> None:
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._writable = None

    def eof_received(self) -> None:
        self._over(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None and not self._secure:
            self._rescue()
        self._over(exc)
        self._parser = None  # which knows us
        self._ended(self, False)

    def _rescue(self) -> None:
        """A server that refuses an upload answers and closes. Where a write meets that before the next read does,
        the answer is still to be had from the socket."""
        waits = self._asked is not None and (self._reply is None or not self._reply.ended)
        ours: Any = self._transport.get_extra_info("socket")
        if not waits or ours is None:
            return
        with contextlib.suppress(OSError):
            rest: socket.socket
            with ours.dup() as rest:
                rest.setblocking(False)
                while count := rest.recv_into(self._buffer):
                    self._feed(self._buffer[:count])

    def _over(self, exc: Exception | None) -> None:
        """Nothing more comes: the end of a reply without a length, and too early for every other."""
        reply = self._reply
        if reply is not None and self._until_close and exc is None and reply.error is None:
            reply.ended = True
            reply.wake()
        elif self._asked is not None and (reply is None or not reply.ended):
            self.fail(BrokenOff("it closed the connection" if exc is None else type(exc).__name__))

    # --- The parser --------------------------------------------------------------------------------------

    def _feed(self, data: memoryview) -> None:
        if self._asked is None:  # nobody asked
            self.drop()
            return
        self.silent = False
        if self._parser is None:
            self._parser = httptools.HttpResponseParser(self)
            # What servers get wrong without harm.
            self._parser.set_dangerous_leniencies(
                lenient_headers=True,
                lenient_chunked_length=True,
                lenient_optional_cr_before_lf=True,
                lenient_spaces_after_chunk_size=True,
            )
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            said = str(error) if isinstance(error, httptools.HttpParserError) else "a protocol that nobody asked for"
            self.fail(BrokenOff(f"no HTTP/1.1: {said}"))
            return
        reply = self._reply
        if reply is None:
            self._head_size += len(data)
            if self._head_size > MAX_HEAD:
                self.fail(BrokenOff(f"a head of more than {MAX_HEAD} bytes"))
            return
        if reply.waiter is not None and (reply.size or reply.ended):
            reply.wake()
        if reply.size > HELD and not self.paused and not reply.ended:
            self.paused = True
            self._transport.pause_reading()

    def on_message_begin(self) -> None:
        if self._reply is not None:
            raise ValueError("a reply that nobody asked for")
        self._fields, self._reason = [], b""

    def on_status(self, status: bytes) -> None:
        self._reason += status

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._reply is None:  # else a trailer
            self._fields.append((name, value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        assert self._parser is not None
        status = self._parser.get_status_code()
        if status < 200:  # an interim reply; or 101, which the parser raises
            return
        reply = Reply(self, status, self._reason, self._fields)
        self._keeps = self._parser.should_keep_alive()
        if self._method == "HEAD" or (self._method == "CONNECT" and status < 300):
            reply.ended = True
            self._parser = None  # it waits for a body
        else:
            self._until_close = reply.content_length is None and not reply.chunked
            if reply.content_length is not None and b"transfer-encoding" in reply.values:
                raise ValueError("a length beside a coding without one")
        self._reply = reply
        if self._asked is not None and not self._asked.done():
            self._asked.set_result(reply)

    def on_body(self, data: bytes) -> None:
        assert self._reply is not None
        if self._reply.ended:
            raise ValueError("a body that nobody asked for")
        self._reply.pieces.append(data)
        self._reply.size += len(data)

    def on_message_complete(self) -> None:
        if self._reply is not None:
            self._reply.ended = True

"""A reply on the wire: latency, pieces, faults."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from starlette.types import Receive, Send

from . import sse
from .faults import Fault, Gzip, Malformed, Reset, Stall, Truncate
from .request import Reply, Request


@dataclass
class Plan:
    """What is to be sent."""

    status: int
    chunks: list[bytes]
    """The events of a stream, or one body."""
    content_type: str = "application/json"
    headers: list[tuple[str, str]] = field(default_factory=list)
    latency: float = 0.0
    pause: float = 0.0
    fault: Fault | None = None

    @property
    def streams(self) -> bool:
        return self.content_type == sse.CONTENT_TYPE


def json_plan(status: int, body: Any, **more: Any) -> Plan:
    """One JSON body; a string is sent as it stands."""
    return Plan(status, [body.encode() if isinstance(body, str) else sse.encode(body)], **more)


def stream_plan(events: Iterable[sse.Event], **more: Any) -> Plan:
    """A stream of events."""
    return Plan(200, [event.encode() for event in events], sse.CONTENT_TYPE, **more)


class _Over(Exception):  # noqa: N818
    """Nothing more is to be sent; the message is the outcome."""


class Playback:
    """Follows a plan, and records on the request what it did."""

    def __init__(
        self,
        plan: Plan,
        request: Request,
        done: Callable[[Request], None],
        stopping: asyncio.Event,
    ) -> None:
        self.plan = plan
        self.request = request
        self.done = done
        self.stopping = stopping
        self.gone = asyncio.Event()
        self.reply = request.reply = Reply(plan.status)

    async def __call__(self, receive: Receive, send: Send, connection: asyncio.Transport | None) -> None:
        self.connection = connection
        watch = asyncio.create_task(self._watch(receive))
        try:
            await self._play(send)
        except _Over as over:
            self.reply.outcome = str(over)
            if self.stopping.is_set() and connection:
                connection.abort()
            self.done(self.request)
        finally:
            watch.cancel()

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.gone.set()

    async def _wait(self, seconds: float | None) -> None:
        """Waits; None: until the client or the server gives up."""
        ends = [asyncio.create_task(event.wait()) for event in (self.gone, self.stopping)]
        try:
            await asyncio.wait(ends, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in ends:
                task.cancel()
        if self.stopping.is_set():
            raise _Over("server closed")
        if self.gone.is_set():
            raise _Over("client closed")

    async def _play(self, send: Send) -> None:
        plan = self.plan
        chunks = self._chunks()
        last = len(chunks) - 1
        trouble = plan.fault if isinstance(plan.fault, (Reset, Stall)) else None
        place = None if trouble is None or trouble.after is None else min(trouble.after, last)
        if plan.latency:
            await self._wait(plan.latency)
        if trouble and place is None:
            await self._trouble(trouble, b"", send)
        packer = zlib.compressobj(wbits=31) if isinstance(plan.fault, Gzip) else None
        await send(self._start(chunks, packer is not None))
        for at, chunk in enumerate(chunks):
            if at:
                await self._wait(plan.pause) if plan.pause else await asyncio.sleep(0)
            if trouble and place == at:
                await self._trouble(trouble, chunk[: len(chunk) // 2], send)
            if self.gone.is_set():
                raise _Over("client closed")
            self.reply.body += chunk
            self.reply.sent += 1
            if at == last:
                self.reply.outcome = "complete"
                self.done(self.request)
            data = chunk
            if packer:
                data = packer.compress(chunk)
                data += packer.flush(zlib.Z_FINISH if at == last else zlib.Z_SYNC_FLUSH)
            await send({"type": "http.response.body", "body": data, "more_body": at < last})

    def _chunks(self) -> list[bytes]:
        """The pieces to send, with the faults that lie in the pieces themselves."""
        fault, chunks = self.plan.fault, list(self.plan.chunks)
        if not self.plan.streams and fault is not None and not isinstance(fault, Gzip):
            middle = len(chunks[0]) // 2
            chunks = [chunks[0][:middle], chunks[0][middle:]]
        last = len(chunks) - 1
        if isinstance(fault, Truncate):
            after = min(fault.after, last)
            rest = chunks[after][: len(chunks[after]) // 2] if fault.half else b""
            return [*chunks[:after], rest]
        if isinstance(fault, Malformed):
            if not self.plan.streams:
                return chunks[:1]
            at = min(fault.after, last)
            data = chunks[at].index(b"data: ") + len(b"data: ")
            chunks[at] = chunks[at][: (data + len(chunks[at])) // 2] + b"\n\n"
        return chunks

    def _start(self, chunks: list[bytes], compressed: bool) -> dict[str, Any]:
        headers = [("content-type", self.plan.content_type), *self.plan.headers]
        if compressed:
            headers.append(("content-encoding", "gzip"))
        elif not self.plan.streams:
            headers.append(("content-length", str(sum(map(len, chunks)))))
        self.reply.headers = headers
        raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        return {"type": "http.response.start", "status": self.plan.status, "headers": raw}

    async def _trouble(self, fault: Reset | Stall, half: bytes, send: Send) -> None:
        """Breaks the connection, or is silent. `half` is half of the next piece."""
        if isinstance(fault, Stall):
            await self._wait(fault.seconds)
            return
        if half and fault.half:
            self.reply.body += half
            await send({"type": "http.response.body", "body": half, "more_body": True})
        if self.connection is None:
            raise RuntimeError("the connection of this request is not known")
        if fault.clean:
            self.connection.close()
        else:
            reset(self.connection)
        with contextlib.suppress(asyncio.TimeoutError):  # until uvicorn knows that it is gone
            await asyncio.wait_for(self.gone.wait(), 5)
        raise _Over("reset")


def reset(transport: asyncio.Transport) -> None:
    """Closes the connection with RST in place of FIN."""
    connection = transport.get_extra_info("socket")
    linger = struct.pack("ii", 1, 0)  # on, 0 seconds
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    transport.abort()

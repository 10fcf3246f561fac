"""One request to its upstream and the reply back: bytes as they come, in both directions.

Requests to a model are read whole, handed to the engine, and sent as it says; the reply is relayed while a copy is read
for what it reports. Everything else is passed through unread. What an upstream does (an error, silence, half a reply, a
broken connection) happens to the client, too, with two exceptions: where no upstream is there, the client gets a 502 in
the shape of its API, and a prompt that is refused as too long is sent again, shorter.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections import deque
from typing import TYPE_CHECKING

import msgspec

from cliff_core.overflow import Rejection
from cliff_proxy import bodies, errors, headers
from cliff_proxy.engine import Prepared
from cliff_proxy.heads import Head
from cliff_proxy.metrics import Metrics
from cliff_proxy.reports import Report
from cliff_proxy.routes import Route
from cliff_proxy.serving import Request
from cliff_proxy.upstream import BrokenOff, NotThere, Opening, Reply, Upstream, origin
from cliff_proxy.work import Work

if TYPE_CHECKING:
    from cliff_proxy.websocket import Bridges

logger = logging.getLogger("cliff_proxy")

HOLD_SECONDS = 5.0
"""For how long the opening of a reply may be held back, in which an upstream can still refuse the prompt: an error's
body, or the events of a stream before the first that tells of an accepted prompt."""

REPLAYS = 3
"""How often a prompt is sent again, shorter each time, while the upstream refuses it as too long. One is the rule: a
second is needed only where the upstream did not say what it takes."""

ACTION = b"x-cliff"

_TOLD = ("told", "told with another body")
"""Under which a head has what the upstream is told of its requests (`Head.found`)."""

_AS_THEY_CAME = frozenset({"bypass", "shadow", "failed"})


class Exchange(msgspec.Struct):
    """A request to a model on its way."""

    request: Request
    route: Route
    body: bytes
    """As it came."""
    prepared: Prepared
    received: int
    """Bytes of it."""
    size: int = 0
    """Bytes that were sent."""
    counted: bool = False
    """The request was, for our metrics: only when the first bytes of its reply are on their way."""


class Relay:
    """Answers requests. One for a running proxy."""

    def __init__(self, work: Work, upstream: Upstream, metrics: Metrics) -> None:
        self.work = work
        self.upstream = upstream
        self.metrics = metrics
        self.open = 0
        """Requests being answered."""
        self.replays = REPLAYS
        self.hold_seconds = HOLD_SECONDS
        self._bridges: Bridges | None = None
        self._untold: deque[tuple[str, Prepared, Report]] = deque()
        """Answers that the engine is to be told of."""

    async def close(self) -> None:
        """Closes WebSockets that are open, and tells the engine of the last answers."""
        if self._bridges is not None:
            await self._bridges.close()
        self.tell()

    async def answer(self, request: Request, route: Route) -> None:
        """Answers a request; an upstream that breaks off or a client that goes away end here."""
        self.open += 1
        try:
            if request.head.websocket:
                await self._bridge(request, route)
            elif route.api is None:
                await self._pass(request, route)
            else:
                await self._model(request, route)
        except NotThere as error:
            logger.warning("no upstream at %s: %s", origin(route), error)
            self.metrics.add("upstream_errors_total", kind="unreachable")
            message = f"the proxy cannot reach its upstream {origin(route)}: {error}"
            request.refuse(502, message, route.provider)
        except BrokenOff as error:
            logger.info("the upstream %s broke off: %s", origin(route), error)
            self.metrics.add("upstream_errors_total", kind="broken")
            request.abort()
        except ConnectionError:  # of the client
            self.metrics.add("hangups_total")
            request.abort()
        except asyncio.CancelledError:
            self.metrics.add("hangups_total")
            raise
        finally:
            self.open -= 1

    # --- What is passed through unread ---------------------------------------------------------------

    async def _pass(self, request: Request, route: Route, action: str | None = None) -> None:
        """The request as its body comes."""
        self.metrics.add("requests_total", api=route.api or "other", action="failed" if action else "pass")
        upload = request.pieces() if request.has_body else None
        told = request.head.found.get(_TOLD[False]) or self._told(request.head, route)
        reply = await self.upstream.send(told, upload, request.content_length)
        try:
            self._begin(request, reply, action)
            self._count(route, reply)
            while data := await reply.read():
                if reply.at_eof():
                    request.end(data)
                    return
                request.write(data)
                if request.blocked:
                    await request.drain()
            request.end()
        finally:
            reply.close()

    async def _bridge(self, request: Request, route: Route) -> None:
        """A WebSocket. What it takes is imported when the first one comes."""
        if self._bridges is None:
            module = await asyncio.get_running_loop().run_in_executor(
                None, importlib.import_module, "cliff_proxy.websocket"
            )
            self._bridges = self._bridges or module.Bridges(self)
        if not await self._bridges.serve(request, route):
            request.refuse(426, "no WebSocket to the upstream: use HTTP", route.provider)

    # --- Requests to a model -------------------------------------------------------------------------

    async def _model(self, request: Request, route: Route) -> None:
        body = await request.body(bodies.MAX_BODY)
        if body is None:
            why = f"a body of more than {bodies.MAX_BODY} bytes"
            self.work.failed(why)
            await self._pass(request, route, action=f"failed; {why}")
        else:
            if self._untold:
                self.tell()
            prepared = await self.work.prepare(request.head.values, route, body, route.api or "chat")
            exchange = Exchange(request, route, body, prepared, len(body))
            del body, prepared  # nothing else holds them for the time of a stream
            try:
                await self._exchange(exchange)
            finally:
                self._count_request(exchange)

    async def _exchange(self, exchange: Exchange) -> None:
        """Sends the request, again while it is refused as too long and there is something left to drop."""
        api = str(exchange.route.api)
        for replay in range(self.replays + 1):
            request, prepared = exchange.request, exchange.prepared
            replaced = prepared.body is not None
            data = exchange.body if prepared.body is None else prepared.body
            exchange.size = len(data)
            told = request.head.found.get(_TOLD[replaced]) or self._told(request.head, exchange.route, replaced)
            reply = await self.upstream.send(told, data)
            del data, prepared  # nothing else holds them for the time of a stream
            try:
                report = self._report(exchange.route, reply)
                may_replay = replay < self.replays and exchange.prepared.action not in _AS_THEY_CAME
                failed, seen, rejection = reply.status >= 400, b"", None
                if may_replay and (failed or not report.begun):
                    seen = reply.take()
                    if not seen or failed or not report.taken(seen):  # which it nearly always is
                        seen, rejection = await self._opening(reply, report, seen)
                if rejection is not None:
                    self._count_request(exchange)
                    self.metrics.add("rejections_total", api=api)
                    shorter = await self.work.shorter(exchange.prepared, rejection)
                    if shorter is not None:
                        exchange.prepared = shorter
                        self.metrics.add("sent_bytes_total", exchange.size, api=api)
                        self.work.replayed(api, shorter)
                        continue
                await self._relay(exchange, reply, report, seen)
                return
            finally:
                reply.close()

    def _told(self, head: Head, route: Route, replaced: bool = False) -> Opening:
        """What the upstream is told of requests with such a head; `replaced`: with another body. NotThere."""
        fields = headers.to_upstream(head.fields, head.values, body_replaced=replaced)
        found = head.found[_TOLD[replaced]] = self.upstream.opening(head.method, route, fields)
        return found

    def _report(self, route: Route, reply: Reply) -> Report:
        coded = reply.values.get(b"content-encoding")
        codings = bodies.encodings(coded) if coded is not None else ()
        kind = (reply.values.get(b"content-type") or b"").decode("latin-1")
        return Report(route.api or "chat", kind, codings, self.work.engine.recording)

    async def _opening(self, reply: Reply, report: Report, first: bytes) -> tuple[bytes, Rejection | None]:
        """What has to be seen of a reply before the client may see it, and what it says of the prompt's length.

        `first`: what was taken of it already."""
        failed = reply.status >= 400
        held: list[bytes] = []
        size = 0

        def enough(data: bytes) -> bool:
            """Whether enough was seen with these."""
            nonlocal size
            held.append(data)
            if not size and not failed and report.taken(data):
                return True
            size += len(data)
            report.feed(data)
            decided = report.begun or report.rejection is not None
            return (decided and not failed) or size > errors.MAX_ERROR

        try:
            if not first or not enough(first):
                async with asyncio.timeout(self.hold_seconds):
                    while (data := await reply.read()) and not enough(data):
                        pass
        except (TimeoutError, BrokenOff):
            return b"".join(held), None  # whatever it is, it goes on in front of the client
        if not failed or report.streams:
            return b"".join(held), report.rejection
        return b"".join(held), errors.rejection(reply.status, report.body) if size <= errors.MAX_ERROR else None

    async def _relay(self, exchange: Exchange, reply: Reply, report: Report, opening: bytes) -> None:
        """The reply to the client. What need not be done before its bytes go out is done after it."""
        request = exchange.request
        self._begin(request, reply, _said(exchange.prepared), opening)
        exchange.body = b""  # not for the time of a stream
        if exchange.prepared.body is not None:
            exchange.prepared = msgspec.structs.replace(exchange.prepared, body=None)
        told, counted = reply.status >= 300, False
        left = reply.content_length
        try:
            data, last = opening, False
            while not last:
                seen = bool(data)
                if not seen:
                    data = await reply.read()
                last = not data or reply.at_eof()
                try:
                    request.end(data) if last else request.write(data)
                finally:
                    report.catch_up() if seen else report.feed(data)
                if not counted:
                    counted = True
                    self._count_request(exchange)
                    self._count(exchange.route, reply)
                    self.metrics.add("sent_bytes_total", exchange.size, api=str(exchange.route.api))
                if left is not None:
                    left -= len(data)
                if not told and (last or report.complete or left == 0):
                    told = True
                    self._tell_soon(exchange, report)
                if request.blocked and not last:
                    await request.drain()
                data = b""
        except (BrokenOff, ConnectionError, asyncio.CancelledError):
            if not told and report.usage is not None:  # the prompt was taken and counted, if not answered in full
                self._tell_soon(exchange, report)
            raise

    def _tell_soon(self, exchange: Exchange, report: Report) -> None:
        """Tells the engine of an answer before anything else of a client is looked at: its next request may follow at
        once."""
        if not self._untold:
            asyncio.get_running_loop().call_soon(self.tell)
        self._untold.append((str(exchange.route.api), exchange.prepared, report))

    def tell(self) -> None:
        """Tells the engine of what it does not know yet."""
        while self._untold:
            self.work.tell(*self._untold.popleft())

    def _count_request(self, exchange: Exchange) -> None:
        if not exchange.counted:
            exchange.counted = True
            self.work.count(str(exchange.route.api), exchange.prepared, exchange.received)

    def _count(self, route: Route, reply: Reply) -> None:
        self.metrics.add("responses_total", api=route.api or "other", status=str(reply.status))

    def _begin(self, request: Request, reply: Reply, action: str | None, opening: bytes = b"") -> None:
        """The head with the upstream's status and headers, sent at once unless bytes of the body go with it."""
        kept = headers.to_client(reply.fields, reply.values)
        values = reply.values if kept is reply.fields else None
        if action is not None:
            if ACTION in reply.values:
                kept = [field for field in kept if field[0].lower() != ACTION]
            kept = [*kept, (ACTION, action.encode())]
        request.begin(reply.status, reply.reason, kept, values)
        if not opening and not reply.pending() and not reply.at_eof():
            request.flush()


def _said(prepared: Prepared) -> str:
    """For the response header `x-cliff`."""
    text = "; ".join(filter(None, (prepared.action, prepared.detail, prepared.note)))
    if not (text.isascii() and text.isprintable()):
        text = "".join(letter if " " <= letter <= "~" else "?" for letter in text)
    return text[:500]

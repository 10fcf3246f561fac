"""One request to its upstream and the reply back: bytes as they come, in both directions.

Requests to a model are read whole, handed to the engine, and sent as it says; the reply is relayed while a copy is read
for what it reports. Everything else is passed through unread. What an upstream does (an error, silence, half a reply, a
broken connection) happens to the client, too, with two exceptions: where no upstream is there, the client gets a 502 in
the shape of its API, and a prompt that is refused as too long is sent again, shorter.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, replace

import aiohttp
from aiohttp import web

from cliff_core.overflow import Rejection
from cliff_proxy import bodies, errors, headers
from cliff_proxy.engine import Prepared
from cliff_proxy.metrics import Metrics
from cliff_proxy.replies import Relayed, broken_off, error_response
from cliff_proxy.reports import Report
from cliff_proxy.routes import Route
from cliff_proxy.upstream import Body, BrokenOff, NotThere, Upstream, origin, read
from cliff_proxy.websocket import bridge
from cliff_proxy.work import Work

logger = logging.getLogger("cliff_proxy")

HOLD_SECONDS = 5.0
"""For how long the opening of a reply may be held back, in which an upstream can still refuse the prompt: an error's
body, or the events of a stream before the first that tells of an accepted prompt."""

REPLAYS = 3
"""How often a prompt is sent again, shorter each time, while the upstream refuses it as too long. One is the rule: a
second is needed only where the upstream did not say what it takes."""

ACTION = "x-cliff"


@dataclass(slots=True)
class Exchange:
    """A request to a model on its way."""

    request: web.BaseRequest
    route: Route
    body: bytes
    """As it came."""
    prepared: Prepared


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

    async def answer(self, request: web.BaseRequest, route: Route) -> web.StreamResponse:
        """The response to a request; an upstream that breaks off or a client that goes away end here."""
        self.open += 1
        try:
            if request.headers.get("upgrade", "").lower() == "websocket":
                bridged = await bridge(self, request, route)
                return bridged or error_response(route.provider, 426, "no WebSocket to the upstream: use HTTP")
            if route.api is None:
                return await self._pass(request, route)
            return await self._model(request, route)
        except NotThere as error:
            logger.warning("no upstream at %s: %s", origin(route), error)
            self.metrics.add("upstream_errors_total", kind="unreachable")
            message = f"the proxy cannot reach its upstream {origin(route)}: {error}"
            return error_response(route.provider, 502, message)
        except BrokenOff as error:
            logger.info("the upstream %s broke off: %s", origin(route), error)
            self.metrics.add("upstream_errors_total", kind="broken")
            return broken_off(request)
        except ConnectionError:  # of the client
            self.metrics.add("hangups_total")
            return broken_off(request)
        except asyncio.CancelledError:
            self.metrics.add("hangups_total")
            raise
        finally:
            self.open -= 1

    # --- What is passed through unread ---------------------------------------------------------------

    async def _pass(
        self, request: web.BaseRequest, route: Route, begun: Iterable[bytes] = (), action: str | None = None
    ) -> web.StreamResponse:
        """The request with what was read of its body already (`begun`), and the rest as it comes."""
        self.metrics.add("requests_total", api=route.api or "other", action="failed" if action else "pass")
        sent = headers.to_upstream(request.raw_headers)
        upload = _upload(request, begun) if begun or request.can_read_body else None
        reply = await self.upstream.send(request.method, route, sent, upload)
        try:
            response = await self._begin(request, route, reply, action, wait=False)
            while data := await read(reply):
                await response.write(data)
            await response.write_eof()
            return response
        finally:
            reply.close()

    # --- Requests to a model -------------------------------------------------------------------------

    async def _model(self, request: web.BaseRequest, route: Route) -> web.StreamResponse:
        pieces: list[bytes] = []
        size = request.content_length or 0
        if size <= bodies.MAX_BODY:
            await expect(request)
            size = 0
            async for piece in _pieces(request):
                pieces.append(piece)
                size += len(piece)
                if size > bodies.MAX_BODY:
                    break
        if size > bodies.MAX_BODY:
            why = f"a body of more than {bodies.MAX_BODY} bytes"
            self.work.failed(why)
            return await self._pass(request, route, pieces, f"failed; {why}")
        body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        del pieces
        prepared = await self.work.prepare(request.headers, route, body, route.api or "chat")
        return await self._exchange(Exchange(request, route, body, prepared))

    async def _exchange(self, exchange: Exchange) -> web.StreamResponse:
        """Sends the request, again while it is refused as too long and there is something left to drop."""
        api = str(exchange.route.api)
        for replay in range(self.replays + 1):
            reply = await self._send_prepared(exchange)
            try:
                report = self._report(exchange.route, reply)
                may_replay = replay < self.replays and exchange.prepared.action not in {"bypass", "shadow", "failed"}
                opening, rejection = await self._opening(reply, report, may_replay)
                if rejection is not None:
                    self.metrics.add("rejections_total", api=api)
                    shorter = await self.work.shorter(exchange.prepared, rejection)
                    if shorter is not None:
                        exchange.prepared = shorter
                        self.work.replayed(api, shorter)
                        continue
                return await self._relay(exchange, reply, report, opening)
            finally:
                reply.close()
        raise AssertionError("the last try is always relayed")

    async def _send_prepared(self, exchange: Exchange) -> aiohttp.ClientResponse:
        request, prepared = exchange.request, exchange.prepared
        data = exchange.body if prepared.body is None else prepared.body
        sent = headers.to_upstream(request.raw_headers, body_replaced=prepared.body is not None)
        self.metrics.add("sent_bytes_total", len(data), api=str(exchange.route.api))
        return await self.upstream.send(request.method, exchange.route, sent, Body(data) if data else None)

    def _report(self, route: Route, reply: aiohttp.ClientResponse) -> Report:
        codings = bodies.encodings(reply.headers.getall("content-encoding", ()))
        return Report(route.api or "chat", reply.headers.get("content-type", ""), codings, self.work.engine.recording)

    async def _opening(
        self, reply: aiohttp.ClientResponse, report: Report, may_replay: bool
    ) -> tuple[list[bytes], Rejection | None]:
        """What has to be seen of a reply before the client may see it, and what it says of the prompt's length."""
        held: list[bytes] = []
        failed = reply.status >= 400
        if not may_replay or (not failed and report.begun):
            return held, None
        size = 0
        try:
            async with asyncio.timeout(self.hold_seconds):
                while failed or not report.begun:
                    data = await read(reply)
                    if not data:
                        break
                    held.append(data)
                    report.feed(data)
                    size += len(data)
                    if report.rejection is not None and not failed:
                        return held, report.rejection
                    if size > errors.MAX_ERROR:
                        return held, None
        except (TimeoutError, BrokenOff):
            return held, None  # whatever it is, it goes on in front of the client
        if failed and not report.streams:
            return held, errors.rejection(reply.status, report.body)
        return held, report.rejection

    async def _relay(
        self, exchange: Exchange, reply: aiohttp.ClientResponse, report: Report, opening: list[bytes]
    ) -> web.StreamResponse:
        """The reply to the client. The engine is told before the client can know that the reply is complete: its next
        request may follow at once."""
        request = exchange.request
        action = _said(exchange.prepared)
        exchange.body, exchange.prepared = b"", replace(exchange.prepared, body=None)  # not for the time of a stream
        told = reply.status >= 300
        left = reply.content_length
        try:
            response = await self._begin(request, exchange.route, reply, action, wait=bool(opening))
            async for data in _data(reply, report, opening):
                if left is not None:
                    left -= len(data)
                last = not opening and reply.content.at_eof()
                if not told and (last or report.complete or left == 0):
                    told = True
                    self.work.tell(str(exchange.route.api), exchange.prepared, report)
                await (response.write_eof(data) if last else response.write(data))
            if not told:
                told = True
                self.work.tell(str(exchange.route.api), exchange.prepared, report)
            await response.write_eof()
            return response
        except (BrokenOff, ConnectionError, asyncio.CancelledError):
            if not told and report.usage is not None:  # the prompt was taken and counted, if not answered in full
                self.work.tell(str(exchange.route.api), exchange.prepared, report)
            raise

    async def _begin(
        self, request: web.BaseRequest, route: Route, reply: aiohttp.ClientResponse, action: str | None, wait: bool
    ) -> web.StreamResponse:
        """The response with the upstream's status and headers, sent at once unless bytes of the body go with them."""
        self.metrics.add("responses_total", api=route.api or "other", status=str(reply.status))
        kept = headers.to_client(reply.raw_headers)
        if action is not None:
            kept.popall(ACTION, None)
            kept.add(ACTION, action)
        response = Relayed(reply.status, reply.reason, kept)
        await response.prepare(request)
        if not wait and not reply.content.total_bytes:
            request.writer.send_headers()
        return response


async def expect(request: web.BaseRequest) -> None:
    """Lets a client that waits for it (`Expect: 100-continue`) send its body."""
    if request.headers.get("expect", "").lower() == "100-continue" and request.version >= (1, 1):
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")


async def _upload(request: web.BaseRequest, begun: Iterable[bytes]) -> AsyncIterator[bytes]:
    for piece in begun:
        yield piece
    if not begun:
        await expect(request)
    async for piece in _pieces(request):
        yield piece


async def _pieces(request: web.BaseRequest) -> AsyncIterator[bytes]:
    """The body as it comes; ConnectionError where the client goes away before its end."""
    try:
        while piece := await request.content.readany():
            yield piece
    except (web.RequestPayloadError, aiohttp.ClientError, OSError) as error:
        raise ConnectionResetError("the body is not complete") from error


async def _data(reply: aiohttp.ClientResponse, report: Report, opening: list[bytes]) -> AsyncIterator[bytes]:
    """The opening, which the report has read, and the rest, which it reads."""
    while opening:
        yield opening.pop(0)
    while data := await read(reply):
        report.feed(data)
        yield data


def _said(prepared: Prepared) -> str:
    """For the response header `x-cliff`."""
    text = "; ".join(part for part in (prepared.action, prepared.detail, prepared.note) if part)
    return "".join(letter if " " <= letter <= "~" else "?" for letter in text)[:500]

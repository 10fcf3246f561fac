"""WebSockets: frames go through in both directions; on `/v1/responses` what a client says is compacted as over HTTP.

There a client sends `response.create` frames that hold what is new and the id of the response they follow; the provider
keeps the rest for the time of the connection. So does the bridge: under each response's id the whole history, and
beside it what the provider has. As long as a view is what the provider has and more, only the new part is sent; after a
cliff the whole view, as a new beginning. Frames that need no change go through as they came.

Where no WebSocket to the upstream can be had, the client is answered 426: it goes on over HTTP at once, and sees there
what is wrong.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import aiohttp
import msgspec
from aiohttp import web

from cliff_core.overflow import Rejection
from cliff_proxy import headers
from cliff_proxy.bodies import MAX_BODY
from cliff_proxy.engine import Prepared
from cliff_proxy.log import silent
from cliff_proxy.reports import Report
from cliff_proxy.routes import Route
from cliff_proxy.serving import MAX_FIELDS, MAX_HEAD, Request
from cliff_proxy.sockets import Socket
from cliff_proxy.upstream import NotThere

if TYPE_CHECKING:
    from cliff_proxy.relay import Relay

logger = logging.getLogger("cliff_proxy")

RESPONSES_KEPT = 8
"""Responses of one connection that a client can go on from; OpenAI itself keeps the newest only."""

_FRAME = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])

Items = list[bytes]


class _Waiting(NamedTuple):
    """A client's connection that aiohttp is given, and what it is for."""

    request: Request
    route: Route
    upstream: Socket
    ended: asyncio.Future[int]
    """With the code that the client closed with."""


class _Server(web.Server):
    """Says when a connection is lost."""

    lost: Callable[[Any], None]

    def connection_lost(self, handler: Any, exc: BaseException | None = None) -> None:
        super().connection_lost(handler, exc)
        self.lost(handler)


class Bridges:
    """WebSockets between clients and upstreams. One for a running proxy, once the first one comes."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self._waiting: dict[Any, _Waiting] = {}
        """By the protocol that their connection was given to."""
        self._server = _Server(
            self._pump,
            handler_cancellation=True,
            access_log=None,
            logger=silent(),
            max_line_size=MAX_HEAD,
            max_field_size=MAX_HEAD,
            max_headers=MAX_FIELDS,
        )
        self._server.lost = self._lost

    async def close(self) -> None:
        """Closes those that are open."""
        self._server.pre_shutdown()
        await self._server.shutdown(0.1)

    async def serve(self, request: Request, route: Route) -> bool:
        """Serves a client's WebSocket until one side closes it; False where the upstream has none."""
        head = request.head
        sent = [field for field in headers.to_upstream(head.fields, head.values) if not _of_handshake(field[0])]
        named = headers.text(head.values.get(b"sec-websocket-protocol", b""))
        protocols = [name.strip() for name in named.split(",") if name.strip()]
        try:
            upstream = await self._relay.upstream.websocket(route, sent, protocols)
        except NotThere as error:
            logger.info("no WebSocket at the upstream (%s): the client is told to use HTTP", error)
            return False
        ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        code = int(aiohttp.WSCloseCode.GOING_AWAY)
        protocol = self._server()
        self._waiting[protocol] = _Waiting(request, route, upstream, ended)
        try:
            request.hand_over(protocol)
            code = await ended
        finally:
            self._waiting.pop(protocol, None)
            await upstream.close(code=code)
        return True

    def _lost(self, protocol: Any) -> None:
        """A client's connection has ended; nothing is left to do where it was pumped."""
        waiting = self._waiting.pop(protocol, None)
        if waiting is not None and not waiting.ended.done():
            waiting.ended.set_exception(ConnectionResetError("the client is gone"))

    async def _pump(self, taken: web.BaseRequest) -> web.StreamResponse:
        """aiohttp's side of the client's connection."""
        waiting = self._waiting.pop(taken.protocol)
        ended, code = waiting.ended, int(aiohttp.WSCloseCode.GOING_AWAY)
        try:
            chosen = (waiting.upstream.protocol,) if waiting.upstream.protocol else ()
            client = web.WebSocketResponse(protocols=chosen, max_msg_size=0, autoclose=False)
            fields = waiting.upstream.fields
            for name, value in headers.to_client(fields, headers.by_name(fields)):
                if not _of_handshake(name):
                    client.headers.add(name.decode("latin-1"), headers.text(value))
            await client.prepare(taken)
            ends = _Ends(client, waiting.upstream)
            speaks = waiting.route.target.partition("?")[0].rstrip("/").endswith("/responses")
            await ends.pump(Conversation(self._relay, waiting.request, waiting.route, ends) if speaks else None)
            code = ends.code
            return client
        except asyncio.CancelledError:
            if not ended.done():
                ended.set_exception(ConnectionResetError("the client is gone"))
            raise
        except web.HTTPException as refused:  # no handshake
            return web.Response(status=refused.status, text=refused.text, headers={"Connection": "close"})
        except Exception as error:
            if not ended.done():
                ended.set_exception(error)  # who waits for it says so
            raise
        finally:
            if not ended.done():
                ended.set_result(code)


def _of_handshake(name: bytes) -> bool:
    """Whether a header is about the connection itself: each side has its own."""
    return name.lower().startswith(b"sec-websocket-")


class _Ends:
    """Both connections."""

    def __init__(self, client: web.WebSocketResponse, upstream: aiohttp.ClientWebSocketResponse) -> None:
        self.client = client
        self.upstream = upstream
        self.code: int = aiohttp.WSCloseCode.GOING_AWAY
        """What the connections are closed with."""

    async def pump(self, conversation: Conversation | None) -> None:
        """Until one side closes, and then the other side with the same code."""
        asked, answered = (None, None) if conversation is None else (conversation.asked, conversation.answered)
        tasks = {
            asyncio.ensure_future(_relayed(self.client, self.upstream, asked)),
            asyncio.ensure_future(_relayed(self.upstream, self.client, answered)),
        }
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if conversation is not None:
                conversation.close()
        for task in done:
            if task.exception() is None:
                target, self.code, reason = task.result()
                with contextlib.suppress(ConnectionError):
                    await target.close(code=self.code, message=reason)
            elif not isinstance(task.exception(), ConnectionError):
                raise task.exception() or AssertionError


async def _relayed(source: Any, target: Any, text: Callable[[str], Any] | None) -> tuple[Any, int, bytes]:
    """Hands on messages until there are no more; what the other side is to be closed with."""
    while True:
        message = await source.receive()
        if message.type is aiohttp.WSMsgType.TEXT:
            await (target.send_str(message.data) if text is None else text(message.data))
        elif message.type is aiohttp.WSMsgType.BINARY:
            await target.send_bytes(message.data)
        elif message.type is aiohttp.WSMsgType.CLOSE and message.data and message.data not in {1005, 1006, 1015}:
            return target, message.data, str(message.extra or "").encode()[:123]
        else:
            return target, aiohttp.WSCloseCode.GOING_AWAY, b""


@dataclass(slots=True)
class _State:
    """After a response."""

    items: Items
    """The whole history, the response included."""
    known: Items
    """What the provider has under the response's id."""


@dataclass(slots=True)
class _Turn:
    """A request on its way."""

    frame: dict[str, msgspec.Raw]
    prepared: Prepared
    items: Items
    known: Items
    report: Report
    output: Items = field(default_factory=list)
    held: list[str] = field(default_factory=list)
    """Events that came before the prompt was taken."""
    dead: set[str] = field(default_factory=set)
    """Ids of responses that were refused, of which more events may come."""
    begun: str = ""
    """The id of the response that these events tell of."""
    replays: int = 0
    timer: asyncio.TimerHandle | None = None


class Conversation:
    """What is said on one connection to `/v1/responses`."""

    def __init__(self, relay: Relay, request: Request, route: Route, ends: _Ends) -> None:
        self._relay = relay
        self._request = request
        self._route = route
        self._ends = ends
        self._states: OrderedDict[str, _State] = OrderedDict()
        self._turns: dict[str, _Turn] = {}
        """By `stream_id`: a client may have several on one connection; usually the only one has none."""
        self._sending = asyncio.Lock()
        self._releasing: asyncio.Future[None] | None = None

    # --- From the client -----------------------------------------------------------------------------

    async def asked(self, text: str) -> None:
        """A frame of the client."""
        try:
            frame = _FRAME.decode(text)
            create = _text(frame.get("type")) == "response.create"
            fresh = _items(frame.get("input")) if create else None
        except msgspec.MsgspecError:
            create, fresh, frame = False, None, {}
        if not create:
            await self._ends.upstream.send_str(text)
            return
        stream, earlier = _text(frame.get("stream_id")), _text(frame.get("previous_response_id"))
        state = self._states.get(earlier) if earlier else _State([], [])
        self._forget(stream)
        items = [*state.items, *fresh] if state is not None and fresh is not None else []
        if state is None or fresh is None or sum(map(len, items)) > MAX_BODY:
            await self._ends.upstream.send_str(text)  # it goes on from what we have not seen
            return
        body = _joined({**_without(frame, "type", "previous_response_id", "stream_id"), "input": _array(items)})
        self._relay.tell()
        prepared = await self._relay.work.prepare(self._request.head.values, self._route, body, "responses")
        self._relay.work.count("responses", prepared, len(body))
        wanted = items if prepared.body is None else _items(_FRAME.decode(prepared.body)["input"]) or items
        self._turns[stream] = turn = _Turn(frame, prepared, items, wanted, self._new_report())
        if wanted == items and state.known == state.items:
            await self._ends.upstream.send_str(text)
        elif earlier and wanted[: len(state.known)] == state.known:
            await self._send(turn, wanted[len(state.known) :], follows=True)
        else:
            await self._send(turn, wanted, follows=False)

    async def _send(self, turn: _Turn, items: Items, follows: bool) -> None:
        frame = turn.frame if follows else _without(turn.frame, "previous_response_id")
        await self._ends.upstream.send_str(_joined({**frame, "input": _array(items)}).decode("utf-8", "surrogatepass"))

    # --- From the upstream ---------------------------------------------------------------------------

    async def answered(self, text: str) -> None:
        """A frame of the upstream."""
        try:
            event = msgspec.json.decode(text)
        except msgspec.MsgspecError:
            event = None
        stream = event.get("stream_id") if isinstance(event, dict) else None
        turn = self._turns.get(stream if isinstance(stream, str) else "") if isinstance(event, dict) else None
        if turn is None:
            await self._ends.client.send_str(text)
            return
        response = event.get("response")
        if event.get("type") == "response.failed" and isinstance(response, dict) and response.get("id") in turn.dead:
            turn.dead.discard(str(response.get("id")))
            return  # the rest of a refusal that the client has not seen
        report = turn.report
        report.feed(b"data: " + text.encode("utf-8", "surrogatepass").replace(b"\n", b" ") + b"\n\n")
        if report.rejection is not None and await self._shorter(turn, report.rejection):
            return
        if not report.begun and report.rejection is None:
            turn.begun = str(response.get("id")) if isinstance(response, dict) else ""
            self._hold(turn, text)
            return
        if event.get("type") == "response.output_item.done":
            turn.output.append(bytes(_FRAME.decode(text)["item"]))
        if report.complete or report.failed:
            self._ended(turn, event, text)
        await self._release(turn, text)

    async def _shorter(self, turn: _Turn, rejection: Rejection) -> bool:
        """Whether a refused prompt was sent again."""
        self._relay.metrics.add("rejections_total", api="responses")
        if turn.replays >= self._relay.replays or turn.prepared.action in {"bypass", "shadow", "failed"}:
            return False
        shorter = await self._relay.work.shorter(turn.prepared, rejection)
        items = None if shorter is None or shorter.body is None else _items(_FRAME.decode(shorter.body)["input"])
        if shorter is None or items is None:
            return False
        self._relay.work.replayed("responses", shorter)
        if turn.timer is not None:
            turn.timer.cancel()
        turn.prepared, turn.known, turn.report = shorter, items, self._new_report()
        turn.replays += 1
        turn.dead |= {turn.begun} if turn.begun else set()
        turn.held.clear()
        await self._send(turn, items, follows=False)
        return True

    def _ended(self, turn: _Turn, event: dict[str, Any], text: str) -> None:
        for stream in [stream for stream, known in self._turns.items() if known is turn]:
            del self._turns[stream]
        response = event.get("response")
        if isinstance(response, dict) and event.get("type") in {"response.completed", "response.incomplete"}:
            output = turn.output or _items(_FRAME.decode(_FRAME.decode(text)["response"]).get("output")) or []
            self._states[str(response.get("id"))] = _State([*turn.items, *output], [*turn.known, *output])
            while len(self._states) > RESPONSES_KEPT:
                self._states.popitem(last=False)
        self._relay.work.tell("responses", turn.prepared, turn.report)

    # --- Events that are held back -------------------------------------------------------------------

    def _hold(self, turn: _Turn, text: str) -> None:
        turn.held.append(text)
        if turn.timer is None:
            turn.timer = asyncio.get_running_loop().call_later(self._relay.hold_seconds, self._overdue, turn)

    def _overdue(self, turn: _Turn) -> None:
        self._releasing = asyncio.ensure_future(self._release(turn))

    async def _release(self, turn: _Turn, *more: str) -> None:
        if turn.timer is not None:
            turn.timer.cancel()
        async with self._sending:  # in the order in which they came
            texts, turn.held = [*turn.held, *more], []
            for text in texts:
                with contextlib.suppress(ConnectionError):  # its end is seen where it is read
                    await self._ends.client.send_str(text)

    def _forget(self, stream: str) -> None:
        if (turn := self._turns.pop(stream, None)) is not None and turn.timer is not None:
            turn.timer.cancel()

    def close(self) -> None:
        """The connection is over: no timer is left."""
        for stream in list(self._turns):
            self._forget(stream)

    def _new_report(self) -> Report:
        return Report("responses", "text/event-stream", [], self._relay.work.engine.recording)


# --- Frames: raw values by name -------------------------------------------------------------------------


def _text(raw: msgspec.Raw | None) -> str:
    """A string; empty for everything else."""
    try:
        found = msgspec.json.decode(raw) if raw is not None else ""
    except msgspec.MsgspecError:
        return ""
    return found if isinstance(found, str) else ""


def _items(raw: msgspec.Raw | None) -> Items | None:
    """The items of an input; a text is one message."""
    if raw is None:
        return None
    value = bytes(raw)
    if value.startswith(b'"'):
        return [b'{"type":"message","role":"user","content":' + value + b"}"]
    return [bytes(item) for item in _ITEMS.decode(value)] if value.startswith(b"[") else None


def _without(frame: dict[str, msgspec.Raw], *names: str) -> dict[str, msgspec.Raw | bytes]:
    return {name: raw for name, raw in frame.items() if name not in names}


def _array(items: Sequence[bytes]) -> bytes:
    return b"[" + b",".join(items) + b"]"


def _joined(fields: dict[str, msgspec.Raw | bytes] | dict[str, Any]) -> bytes:
    return b"{" + b",".join(msgspec.json.encode(name) + b":" + bytes(raw) for name, raw in fields.items()) + b"}"

"""The scripted model on OpenAI's WebSocket: `response.create` frames in, the events of a stream out, a frame each.

The state of a connection is the provider's: what a response's id stands for is kept for the time of the connection, and
the refusal of a prompt ends it.
"""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import aiohttp
from aiohttp import web

from . import recording, sse
from .model import ScriptedModel
from .playback import Plan
from .request import Reply, Request


class WebSocketServer(ScriptedModel):
    """Use it as a context manager, like `ModelServer`; its options are those of `ScriptedModel`."""

    def __init__(self, script: Any = (), *, refuse: int | None = None, **options: Any) -> None:
        """`refuse`: a status that is answered in place of the upgrade."""
        super().__init__(script, **options)
        self.requests: list[Request] = []
        """Of all frames that asked for a response; `messages` are with those that the ids stand for."""
        self.other: list[str] = []
        """All other frames."""
        self.handshakes: list[dict[str, str]] = []
        self.closed: list[int | None] = []
        """The codes with which clients closed their connections."""
        self.close_with: int | None = None
        """A code with which the connection is closed in place of the next answer."""
        self._refuse = refuse
        self._ready = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> WebSocketServer:
        self._thread = threading.Thread(target=asyncio.run, args=(self._serve(),), daemon=True)
        self._thread.start()
        assert self._ready.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(30)

    async def _serve(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        server = await self._loop.create_server(web.Server(self._connected), "127.0.0.1", 0)
        self.port: int = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._end.wait()
        server.close()

    async def _connected(self, request: web.BaseRequest) -> web.StreamResponse:
        self.handshakes.append({name: recording.redacted(name, value) for name, value in request.headers.items()})
        if self._refuse is not None or request.headers.get("upgrade") != "websocket":
            return web.json_response({"error": {"message": "refused"}}, status=self._refuse or 404)
        socket = web.WebSocketResponse(protocols=("realtime",), max_msg_size=0)
        socket.headers["X-Request-Id"] = "r1"
        await socket.prepare(request)
        self._stored.clear()
        async for message in socket:
            if message.type is not aiohttp.WSMsgType.TEXT:
                await socket.send_bytes(message.data)
                continue
            frame = json.loads(message.data)
            if not isinstance(frame, dict) or frame.get("type") != "response.create":
                self.other.append(message.data)
                continue
            if self.close_with is not None:
                await socket.close(code=self.close_with, message=b"enough")
                break
            for event in self._answer(frame, message.data, request):
                await socket.send_str(event)
        self.closed.append(socket.close_code)
        return socket

    def _answer(self, frame: dict[str, Any], text: str, upgrade: web.BaseRequest) -> list[str]:
        body = {name: value for name, value in frame.items() if name != "type"} | {"stream": True, "store": True}
        headers = [(name.lower(), recording.redacted(name, value)) for name, value in upgrade.headers.items()]
        path = upgrade.path
        request = Request(len(self.requests) + 1, "responses", "GET", path, "", headers, json.dumps(body).encode())
        self.requests.append(request)
        plan: Plan = self.answer(request)
        request.reply = Reply(plan.status, body=b"".join(plan.chunks))
        if not plan.streams:
            return [json.dumps({"type": "error", "status": plan.status, **json.loads(plan.chunks[0])})]
        events = [json.dumps(event.data) for event in sse.read(request.reply.body)]
        stream = frame.get("stream_id")
        return events if stream is None else [e[:-1] + f', "stream_id": {json.dumps(stream)}}}' for e in events]

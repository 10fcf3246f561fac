"""uvicorn on a port of loopback, in a thread: it starts and stops at once, and it knows the
connection of each request, so that a fault can break it."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Scope
from uvicorn.protocols.http.h11_impl import H11Protocol


class Loopback:
    """The port is taken at once; connections wait until the thread serves them."""

    def __init__(self, port: int = 0) -> None:
        self.stopping = asyncio.Event()
        """Set in the thread when it is to end."""
        self._connections: dict[Any, asyncio.Transport] = {}
        # With the protocol named, asyncio sets TCP_NODELAY; without it each reply takes 40 ms more.
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", port))
        self._socket.listen(1024)
        self.port: int = self._socket.getsockname()[1]
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    def connection(self, scope: Scope) -> asyncio.Transport | None:
        """The connection that a request came by."""
        return self._connections.get(tuple(scope["client"]))

    def start(self, app: ASGIApp) -> None:
        self._server = _Server(app, self._connections, self.stopping)
        self._thread = threading.Thread(
            target=self._server.run, args=([self._socket],), name="model-server", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Breaks off what is still being sent, closes the port, ends the thread."""
        if self._server and self._thread and self._thread.is_alive():
            self._server.end()
            self._thread.join(10)
        self._socket.close()


class _Server(uvicorn.Server):
    def __init__(self, app: ASGIApp, connections: dict[Any, asyncio.Transport], stopping: asyncio.Event) -> None:
        class Protocol(H11Protocol):
            def connection_made(self, transport: Any) -> None:
                super().connection_made(transport)
                self.peer = transport.get_extra_info("peername")
                connections[self.peer] = transport

            def connection_lost(self, exc: Exception | None) -> None:
                connections.pop(self.peer, None)
                super().connection_lost(exc)

        self._stopping = stopping
        self._serving = threading.Event()
        super().__init__(
            uvicorn.Config(
                app,
                http=Protocol,
                ws="none",
                loop="asyncio",
                lifespan="off",
                log_config=None,
                log_level="critical",
                access_log=False,
                server_header=False,
                date_header=False,
            )
        )

    def end(self) -> None:
        """From another thread: ends the main loop."""
        self._serving.wait(10)
        self._loop.call_soon_threadsafe(self._stopping.set)

    async def main_loop(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._serving.set()
        await self._stopping.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        tasks = list(self.server_state.tasks)
        if tasks:
            await asyncio.wait(tasks, timeout=5)
        for connection in list(self.server_state.connections):
            connection.transport.abort()

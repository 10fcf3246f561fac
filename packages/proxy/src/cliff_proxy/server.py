"""The proxy on its port: who may ask, our own paths, and everything else relayed.

    proxy = Proxy(settings)
    await proxy.start()             # proxy.url; raises ValueError or OSError where it cannot be served
    ...
    await proxy.stop()

or `asyncio.run(serve(settings))`, which runs until it is interrupted.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from cliff_core.wording import counted
from cliff_proxy import access
from cliff_proxy.engine import Engine
from cliff_proxy.heads import Head
from cliff_proxy.log import described
from cliff_proxy.metrics import Metrics
from cliff_proxy.process import tune
from cliff_proxy.relay import Relay
from cliff_proxy.routes import OWN, Route, origin_form, route
from cliff_proxy.serving import Request, Server
from cliff_proxy.settings import Settings
from cliff_proxy.upstream import Upstream
from cliff_proxy.work import Work

logger = logging.getLogger("cliff_proxy")

BACKLOG = 1024
"""Connections that wait to be taken."""

GRACE_SECONDS = 10.0
"""For how long requests in progress may go on after the proxy was told to stop."""


class Proxy:
    """One running proxy."""

    def __init__(self, settings: Settings, engine: Engine | None = None) -> None:
        """ValueError where the settings would let other machines in without a token."""
        access.check(settings)
        self.settings = settings
        self.metrics = Metrics()
        self.port = settings.port
        """The port that is listened on, once started."""
        self._engine: Engine | None = engine
        self._work: Work | None = None
        self._upstream: Upstream | None = None
        self._relay: Relay | None = None
        self._clients = Server(self._answer)
        self._listening: asyncio.Server | None = None
        self._started = time.time()

    @property
    def url(self) -> str:
        """Where a client on this machine finds it, without `/v1`."""
        host = self.settings.host
        if host in {"0.0.0.0", "::", ""}:
            host = "127.0.0.1" if host != "::" else "::1"
        return f"http://{access.in_url(host)}:{self.port}"

    async def start(self) -> None:
        """Listens. OSError where the address is taken or is not ours."""
        loop = asyncio.get_running_loop()
        tune()
        if self._engine is None:
            self._engine = await loop.run_in_executor(None, Engine, self.settings)
        self._work, self._upstream = Work(self._engine, self.metrics), Upstream()
        await self._upstream.start()
        self._relay = Relay(self._work, self._upstream, self.metrics)
        try:
            self._listening = await loop.create_server(
                self._clients, self.settings.host, self.settings.port, backlog=BACKLOG, reuse_address=os.name != "nt"
            )
        except OSError:
            await self.stop(0)
            raise
        self.port = self._listening.sockets[0].getsockname()[1]
        logger.info("listening on %s", self.url)

    async def stop(self, grace: float = GRACE_SECONDS) -> None:
        """Takes no more requests, lets those in progress go on for `grace` seconds, then breaks them off."""
        if self._listening is not None:
            self._listening.close()
        self._clients.close()
        if self._relay is not None:
            end = time.monotonic() + grace
            while (self._relay.open or self._clients.unsent) and time.monotonic() < end:
                await asyncio.sleep(0.05)
            await self._clients.shutdown()
            await self._relay.close()
        if self._upstream is not None:
            await self._upstream.close()
        if self._work is not None:
            await self._work.close()
        if self._engine is not None:
            await asyncio.get_running_loop().run_in_executor(None, self._engine.close)

    # --- One request -----------------------------------------------------------------------------------

    async def _answer(self, request: Request) -> None:
        try:
            where, target, refused = request.head.found.get("where") or self._where(request.head)
            if refused is not None and not (refused.status == 401 and target == OWN + "healthz"):
                self.metrics.add("refusals_total")
                request.refuse(refused.status, refused.message, where.provider)
            elif request.method == "CONNECT":
                request.keep_alive = False
                request.refuse(405, "this is no proxy for any address: set it as the base URL of an API")
            elif target.startswith(OWN):
                await self._own(request, target.partition("?")[0])
            else:
                assert self._relay is not None
                await self._relay.answer(request, where)
        except ConnectionError:  # of the client
            self.metrics.add("hangups_total")
            request.abort()
        except Exception as error:  # a mistake of ours: the client must not take it for an answer of the upstream
            logger.error("a request failed: %s", described(error))
            request.abort()

    def _where(self, head: Head) -> tuple[Route, str, access.Refusal | None]:
        """Where requests with such a head go, their target, and why they are refused."""
        target = head.target if head.target.startswith("/") else origin_form(head.target)
        where = route(head.method, target, head.values, self.settings)
        found = head.found["where"] = where, target, access.refusal(self.settings, head.values)
        return found

    async def _own(self, request: Request, path: str) -> None:
        name = path.removeprefix(OWN)
        if request.method not in {"GET", "HEAD"}:
            request.refuse(405, f"{path} takes GET")
        elif name == "healthz":
            _json(request, {"status": "ok", "version": version("cliff-proxy")})
        elif name == "metrics":
            status = await self._status()
            gauges = {"open_requests": status["server"]["open_requests"], "sessions": len(status["sessions"])}
            text = self.metrics.text(gauges)
            request.respond(200, text.encode(), "text/plain; version=0.0.4; charset=utf-8")
        elif name == "status":
            _json(request, await self._status())
        else:
            request.refuse(404, f"no {path}; there are healthz, metrics and status")

    async def _status(self) -> dict[str, Any]:
        """What the engine says, and the server's own figures."""
        assert self._engine is not None
        assert self._work is not None
        assert self._relay is not None
        self._relay.tell()
        await self._work.settled()
        try:
            found = await asyncio.get_running_loop().run_in_executor(None, self._engine.status)
        except Exception as error:
            found = {"sessions": [], "problems": [f"the engine's status failed: {described(error)}"], "totals": {}}
        problems = list(found.get("problems", []))
        total = self.metrics.total
        if failures := int(total("failures_total")):
            requests = counted(failures, "request")
            problems.append(f"{requests} went on as sent, as our work failed; the last time: {self._work.problem}")
        if missing := int(total("upstream_errors_total", kind="unreachable")):
            problems.append(f"{counted(missing, 'request')} found no upstream")
        server = {
            "version": version("cliff-proxy"),
            "pid": os.getpid(),
            "url": self.url,
            "started": round(self._started),
            "open_requests": self._relay.open,
            "requests": int(total("requests_total")),
            "cliffs": int(total("cliffs_total")),
            "rejections": int(total("rejections_total")),
            "replays": int(total("replays_total")),
            "failures": failures,
            "hangups": int(total("hangups_total")),
            "refusals": int(total("refusals_total")),
            "upstream_errors": int(total("upstream_errors_total")),
        }
        return found | {"problems": problems, "server": server}


async def serve(
    settings: Settings, engine: Engine | None = None, started: Callable[[Proxy], None] = lambda proxy: None
) -> None:
    """Serves until SIGINT or SIGTERM. `started` is called once it listens."""
    proxy = Proxy(settings, engine)
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError, RuntimeError):  # not the main thread, or Windows
            loop.add_signal_handler(number, ended.set)
    await proxy.start()
    try:
        started(proxy)
        await ended.wait()
    finally:
        await proxy.stop()


def _json(request: Request, value: Any) -> None:
    request.respond(200, json.dumps(value).encode(), "application/json")

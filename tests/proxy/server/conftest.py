"""The proxy on a port of loopback, in a thread, before any upstream; and an engine that does what a test says."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest

from cliff_core.overflow import Rejection
from cliff_proxy.engine import Call, Prepared, Usage
from cliff_proxy.process import run
from cliff_proxy.server import Proxy
from cliff_proxy.settings import Settings
from kit.client import http
from kit.fixtures import model_server  # noqa: F401


@dataclass
class ScriptedEngine:
    """Sends bodies as they came, unless a test says otherwise; records what it is asked."""

    prepares: Callable[[Call], Prepared] = lambda call: Prepared(None, "pass")
    shortens: Callable[[Prepared, Rejection], Prepared | None] = lambda prepared, rejection: None
    calls: list[Call] = field(default_factory=list)
    answers: list[tuple[Prepared, Usage | None]] = field(default_factory=list)
    rejections: list[Rejection] = field(default_factory=list)
    closed: bool = False
    recording: bool = False
    replies: list[bytes | None] = field(default_factory=list)
    unwritten: bool = False

    def prepare(self, call: Call) -> Prepared:
        self.calls.append(call)
        return self.prepares(call)

    def at_once(self, call: Call) -> None:
        """All work is done in a thread."""

    def answered(
        self, prepared: Prepared, usage: Usage | None, reply: bytes | None = None, *, write: bool = True
    ) -> None:
        self.answers.append((prepared, usage))
        self.replies.append(reply)

    def overflowed(self, prepared: Prepared, rejection: Rejection) -> Prepared | None:
        self.rejections.append(rejection)
        return self.shortens(prepared, rejection)

    def status(self) -> dict[str, Any]:
        return {"sessions": [{"id": "one"}], "problems": [], "totals": {}}

    def close(self) -> None:
        self.closed = True


class Running:
    """A proxy in a thread of its own."""

    def __init__(self, settings: Settings, engine: Any) -> None:
        self.engine = engine
        self.proxy = Proxy(settings, engine)
        self._ready = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=run, args=(self._run(),), daemon=True)

    async def _run(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        try:
            await self.proxy.start()
        except BaseException as error:
            self._error = error
            return
        finally:
            self._ready.set()
        await self._end.wait()
        await self.proxy.stop(grace=0)

    def __enter__(self) -> Running:
        self._thread.start()
        assert self._ready.wait(30), "the proxy did not start"
        if self._error is not None:
            raise self._error
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(30)
        assert not self._thread.is_alive(), "the proxy did not stop"

    @property
    def port(self) -> int:
        return self.proxy.port

    @property
    def answers(self) -> list[tuple[Prepared, Usage | None]]:
        """What the engine was told, once it knows of all replies so far."""
        self.status()
        return list(self.engine.answers)

    def status(self) -> Any:
        return http.get(self.url + "/_cliff/status").json()

    @property
    def url(self) -> str:
        return self.proxy.url


StartProxy = Callable[..., Running]


@pytest.fixture
def start_proxy() -> Iterator[StartProxy]:
    """`start_proxy(upstream, engine, **settings)`: the upstream is a server with a URL, or a URL."""
    with ExitStack() as stack:

        def start(upstream: Any, engine: Any = None, **settings: Any) -> Running:
            url = upstream if isinstance(upstream, str) else upstream.url
            upstreams = {"anthropic_upstream": url, "openai_upstream": url}
            engine = ScriptedEngine() if engine is None else engine
            return stack.enter_context(Running(Settings(**{"port": 0, **upstreams, **settings}), engine))

        yield start


@pytest.fixture
def scripted_engine() -> type[ScriptedEngine]:
    """An engine that does what a test says."""
    return ScriptedEngine

"""The engine for the server: in threads, as it blocks; within a time; never in a request's way when it fails."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import msgspec

from cliff_core.overflow import Rejection
from cliff_proxy import bodies
from cliff_proxy.engine import Api, Call, Engine, Prepared, Usage
from cliff_proxy.headers import Values
from cliff_proxy.log import described
from cliff_proxy.metrics import Metrics
from cliff_proxy.process import LARGE, give_back
from cliff_proxy.reports import Report
from cliff_proxy.routes import Route

logger = logging.getLogger("cliff_proxy")

PREPARE_SECONDS = 20.0
"""For how long a request may wait for the engine; then it goes on as it came. (A first request of a million tokens
takes one or two.)"""

READ_AT_ONCE = 2**16
"""Bytes of a reply that are parsed in the event loop (a tenth of a millisecond); longer ones in a thread."""

IDLE_SECONDS = 1.0
"""After the last large body, memory is given back."""

AT_ONCE = 2**20
"""Bytes of a body that is worked on in the event loop where little of it is new (`Engine.at_once`): to hand a tenth of
a millisecond's work to a thread and back takes longer."""

BYPASS = b"x-cliff-bypass"

_CLIFFS = frozenset({"cliff", "forced"})

T = TypeVar("T")


class Work:
    """Asks the engine, and counts what it does."""

    def __init__(self, engine: Engine, metrics: Metrics) -> None:
        self.engine = engine
        self.metrics = metrics
        self.problem = ""
        """The last failure of our own work, without any text of a request."""
        self._threads = ThreadPoolExecutor(4, thread_name_prefix="cliff-engine")
        self._jobs: set[concurrent.futures.Future[Any]] = set()
        """What is done in threads. While there is something, everything is: it may hold a lock for long."""
        self._told: set[concurrent.futures.Future[Any]] = set()
        """Answers that the engine is being told of."""
        self._idle: asyncio.TimerHandle | None = None
        self._seconds = 0.0
        """In which requests were prepared that are not counted yet."""

    async def close(self) -> None:
        """Waits for what is being done."""
        if self._idle is not None:
            self._idle.cancel()
        await asyncio.get_running_loop().run_in_executor(None, self._threads.shutdown)

    async def prepare(self, values: Values, route: Route, body: bytes, api: Api) -> Prepared:
        """What to send in place of a body. Never fails: whatever happens, the body can go on as it came."""
        start = time.perf_counter()
        codings = bodies.encodings(values[b"content-encoding"]) if b"content-encoding" in values else ()
        bypass = BYPASS in values and values[BYPASS].strip().lower() not in {b"", b"0", b"false", b"no"}
        call = Call(api, body, route.upstream, values, bypass, route.compact)
        prepared = self.engine.at_once(call) if not (self._jobs or codings or len(body) > AT_ONCE) else None
        if prepared is None:
            prepared = await self._prepare(call, codings)
        elif self.engine.unwritten:
            await self._in_thread(self.engine.write)
        self._seconds += time.perf_counter() - start
        return prepared

    async def _prepare(self, call: Call, codings: Sequence[str]) -> Prepared:
        """The same in a thread, after the engine knows of all answers so far."""
        told = tuple(self._told)

        def work() -> Prepared:
            if told:
                concurrent.futures.wait(told)
            return self.engine.prepare(
                msgspec.structs.replace(call, body=bodies.decode(call.body, codings)) if codings else call
            )

        try:
            async with asyncio.timeout(PREPARE_SECONDS):
                return await self._in_thread(work)
        except TimeoutError:
            return Prepared(None, "failed", f"the engine took longer than {PREPARE_SECONDS:g} s")
        except bodies.CannotDecode as error:
            return Prepared(None, "failed", f"the body cannot be decoded: {error}")
        except Exception as error:
            return Prepared(None, "failed", described(error))

    async def shorter(self, prepared: Prepared, rejection: Rejection) -> Prepared | None:
        """What to send in place of a refused prompt; None where nothing is left to drop."""
        try:
            return await self._in_thread(lambda: self.engine.overflowed(prepared, rejection))
        except Exception as error:
            self.failed(described(error))
            return None

    def tell(self, api: str, prepared: Prepared, report: Report) -> None:
        """Tells the engine of an answer. Nobody waits for that but the requests that come after it."""
        if report.failed and report.usage is None:
            return  # an error in place of an answer
        if not self._jobs and not self.engine.recording and report.size <= READ_AT_ONCE:
            report.end()
            usage = report.usage
            self._tokens(api, usage)
            try:
                self.engine.answered(prepared, usage, write=False)
            except Exception as error:
                self.failed(described(error))
            if self.engine.unwritten:
                self._told_of(self._submit(self.engine.write))
            return
        loop = asyncio.get_running_loop()

        def work() -> None:
            try:
                report.end()
                usage = report.usage
                loop.call_soon_threadsafe(self._tokens, api, usage)
                self.engine.answered(prepared, usage, report.copy)
            except Exception as error:
                loop.call_soon_threadsafe(self.failed, described(error))

        self._told_of(self._submit(work))

    def _told_of(self, job: concurrent.futures.Future[Any]) -> None:
        self._told.add(job)
        job.add_done_callback(self._told.discard)

    def _tokens(self, api: str, usage: Usage | None) -> None:
        if usage is not None:
            for kind in ("input", "cache_read", "cache_write", "output"):
                self.metrics.add("tokens_total", getattr(usage, kind), api=api, kind=kind)

    async def settled(self) -> None:
        """Until the engine knows of all answers so far."""
        if told := tuple(self._told):
            await self._in_thread(lambda: concurrent.futures.wait(told))

    def _submit(self, work: Callable[[], T]) -> concurrent.futures.Future[T]:
        job = self._threads.submit(work)
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)
        return job

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.wrap_future(self._submit(work))

    def failed(self, why: str) -> None:
        """Notes that our own work failed, and that the request went on as it came."""
        self.problem = why
        self.metrics.add("failures_total")
        logger.warning("forwarded as it came: %s", why)

    def count(self, api: str, prepared: Prepared, size: int) -> None:
        """A request of so many bytes was prepared. Not counted by `prepare` itself, so that no client waits for it."""
        if prepared.action == "failed":
            self.failed(prepared.note)
        seconds, self._seconds = self._seconds, 0.0
        self.metrics.add("prepare_seconds_sum", seconds)
        self.metrics.add("prepare_seconds_count")
        self.metrics.add("requests_total", api=api, action=prepared.action)
        if size > LARGE:
            if self._idle is not None:
                self._idle.cancel()
            self._idle = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._threads.submit, give_back)
        self.metrics.add("received_bytes_total", size, api=api)
        self._cliff(api, prepared)

    def replayed(self, api: str, prepared: Prepared) -> None:
        """A prompt is sent again."""
        self.metrics.add("replays_total")
        self._cliff(api, prepared)

    def _cliff(self, api: str, prepared: Prepared) -> None:
        if prepared.action in _CLIFFS:
            self.metrics.add("cliffs_total", api=api, reason=prepared.action)
            logger.info("cliff (%s, %s) %s", api, prepared.action, prepared.detail)

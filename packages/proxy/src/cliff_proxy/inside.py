"""A proxy in a thread of this process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from cliff_proxy.process import run
from cliff_proxy.server import Proxy
from cliff_proxy.settings import Settings

STOP_SECONDS = 5.0
"""For how long its end is waited for: what it knows is written then."""


class Inside:
    """Starts at once; `wait` says when it listens. `ended` is called in the thread, with the reason, where it ends of
    itself."""

    def __init__(self, settings: Settings, ended: Callable[[str], None]) -> None:
        self.url = ""
        self.error: BaseException | None = None
        """Why it could not start, or why it ended."""
        self._settings = settings
        self._ended = ended
        self._ready = threading.Event()
        self._stopping: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="cliff-proxy", daemon=True)
        self._thread.start()

    def wait(self, seconds: float) -> bool:
        """Whether it started, or failed to (`error`), within that time."""
        return self._ready.wait(seconds)

    def stop(self) -> None:
        """Breaks off what is still being answered: its client is gone."""
        if self._loop is not None and self._stopping is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        try:
            run(self._serve())
        except BaseException as error:
            self.error = error
        if self._ready.is_set() and not (self._stopping and self._stopping.is_set()):
            self._ended(_words(self.error))
        self._ready.set()

    async def _serve(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        proxy = Proxy(self._settings)
        await proxy.start()
        self.url = proxy.url
        self._ready.set()
        try:
            await self._stopping.wait()
        finally:
            await proxy.stop(grace=0)


def _words(error: BaseException | None) -> str:
    return f"{type(error).__name__}: {error}" if error is not None else "no reason given"

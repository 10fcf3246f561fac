"""An asyncio transport without a socket, for protocols whose bytes a test hands over itself."""

from __future__ import annotations

import asyncio
from typing import Any


class Transport(asyncio.Transport):
    """Keeps what is written, and says whether it is read."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.closed = False
        self.reading = True

    def write(self, data: Any) -> None:
        self.written += data

    def write_eof(self) -> None:
        self.written += b"<end>"

    def get_write_buffer_size(self) -> int:
        return 0

    def close(self) -> None:
        self.closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

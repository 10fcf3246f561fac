"""HTTP/1.1 as bytes, for tests of what stands on the wire: a server that says what it is told to, and a client that
shows what it got."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Handler = Callable[["Connection", "Message"], None]


@dataclass
class Message:
    """One request or response."""

    first: str
    """Its request line or status line."""
    headers: list[tuple[str, str]] = field(default_factory=list)
    """In order, names as they were spelled."""
    body: bytes = b""
    complete: bool = True
    """Whether the body ended as its framing says."""

    def values(self, name: str) -> list[str]:
        """The values of all headers of this name."""
        return [value for key, value in self.headers if key.lower() == name.lower()]

    @property
    def target(self) -> str:
        return self.first.split(" ")[1]

    @property
    def status(self) -> int:
        return int(self.first.split(" ")[1])


class Connection:
    """One end of a connection."""

    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected
        self._file = connected.makefile("rb")

    def send(self, *data: bytes | str) -> None:
        self.socket.sendall(b"".join(d.encode("latin-1") if isinstance(d, str) else d for d in data))

    def line(self) -> bytes:
        """The next line, its end included; empty at the end of the connection."""
        return self._file.readline()

    def read(self, size: int) -> bytes:
        return self._file.read(size)

    def head(self) -> Message | None:
        """The first line and the headers; None if the other side closed the connection."""
        first = self.line().decode("latin-1").rstrip("\r\n")
        if not first:
            return None
        message = Message(first)
        while line := self.line().decode("latin-1").rstrip("\r\n"):
            name, _, value = line.partition(":")
            message.headers.append((name, value.strip()))
        return message

    def message(self, *, no_body: bool = False) -> Message | None:
        """The next message with its body."""
        message = self.head()
        if message is None or no_body:
            return message
        if "chunked" in message.values("transfer-encoding"):
            message.complete = False
            while (size := int(self.line().strip() or b"-1", 16)) > 0:
                message.body += self.read(size)
                self.line()
            if size == 0:
                self.line()
                message.complete = True
        elif length := message.values("content-length"):
            message.body = self.read(int(length[0]))
            message.complete = len(message.body) == int(length[0])
        elif message.first.startswith("HTTP/"):
            message.body = self._file.read()
        return message

    def closed(self) -> bool:
        """Waits until the other side has closed the connection; what it still sends is dropped."""
        with contextlib.suppress(OSError):
            while self._file.read(2**16):
                pass
        return True

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self._file.close()
        self.socket.close()


def connect(port: int, timeout: float = 30.0) -> Connection:
    """A connection to a port of loopback."""
    return Connection(socket.create_connection(("127.0.0.1", port), timeout))


def ask(port: int, request: bytes | str, *, no_body: bool = False) -> Message:
    """Sends these bytes on a new connection, and returns the response."""
    connection = connect(port)
    try:
        connection.send(request)
        message = connection.message(no_body=no_body)
        assert message is not None, "the connection was closed without a response"
        return message
    finally:
        connection.close()


class WireServer:
    """Takes connections on loopback and hands each request to a function, in a thread of its own.

    Without a function each request gets `reply`. Use it as a context manager.
    """

    def __init__(self, handler: Handler | None = None, reply: bytes = b"", port: int = 0) -> None:
        self.requests: list[Message] = []
        self.errors: list[Any] = []
        self._handler = handler
        self._reply = reply or b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: application/json\r\n\r\n{}"
        self._listening = socket.create_server(("127.0.0.1", port), backlog=1024)
        self._connections: list[Connection] = []
        self.port: int = self._listening.getsockname()[1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> WireServer:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)  # else the thread that accepts goes on
        self._listening.close()
        for connection in self._connections:
            connection.close()

    def _accept(self) -> None:
        while True:
            try:
                connected, _ = self._listening.accept()
            except OSError:
                return
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = Connection(connected)
            self._connections.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: Connection) -> None:
        try:
            while (request := connection.message()) is not None:
                self.requests.append(request)
                if self._handler is None:
                    connection.send(self._reply)
                else:
                    self._handler(connection, request)
        except (OSError, ValueError) as error:  # closed under our hands
            self.errors.append(error)

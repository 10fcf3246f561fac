"""WebSockets to upstreams: aiohttp's, which is imported with the first one."""

from __future__ import annotations

from typing import Any

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from cliff_proxy.headers import Fields


class Socket(aiohttp.ClientWebSocketResponse):
    """One WebSocket."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        response: aiohttp.ClientResponse = args[3]
        self.fields: Fields = response.raw_headers
        """Of the upstream's 101, as they came."""


class Sockets:
    """WebSockets to all upstreams, without limits."""

    def __init__(self, connect_seconds: float) -> None:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=connect_seconds),
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=("accept", "accept-encoding", "user-agent", "content-type"),
            ws_response_class=Socket,
            max_line_size=2**16,
            max_field_size=2**16,
        )

    async def connect(self, url: str, fields: Fields, protocols: list[str], through: str) -> Socket:
        """A WebSocket at an `http` or `https` URL, by the proxy `through` if there is one; aiohttp's errors."""
        spelled: dict[str, str] = {}  # aiohttp takes two spellings of one name for a replacement: the first is used
        sent: CIMultiDict[str] = CIMultiDict()
        for raw, value in fields:
            name = raw.decode("latin-1")
            sent.add(spelled.setdefault(name.lower(), name), value.decode("utf-8", "surrogateescape"))
        connected = await self._session.ws_connect(
            URL("ws" + url.removeprefix("http"), encoded=True),
            headers=sent,
            protocols=protocols,
            max_msg_size=0,
            autoclose=False,
            timeout=aiohttp.ClientWSTimeout(ws_close=5),
            proxy=URL(through) if through else None,
        )
        assert isinstance(connected, Socket)
        return connected

    async def close(self) -> None:
        """Breaks off what is open."""
        await self._session.close()

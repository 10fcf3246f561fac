"""The upstream's side: connections without limits or time-outs, sending, reading, and how both can fail."""

from __future__ import annotations

import urllib.request
from typing import Any

import aiohttp
from aiohttp import payload
from multidict import CIMultiDict
from yarl import URL

from cliff_proxy.access import is_loopback
from cliff_proxy.routes import Route

CONNECT_SECONDS = 30.0
"""Within which an upstream has to take a connection. Nothing else has a time limit: a model may think for long."""


class BrokenOff(Exception):  # noqa: N818 - an event, not a mistake
    """The upstream's connection ended where the reply did not."""


class NotThere(Exception):  # noqa: N818
    """No connection to the upstream could be made."""


class Body(payload.Payload):
    """Bytes that are sent piece by piece, so that other clients get their turn."""

    PIECE = 2**18

    def __init__(self, value: bytes) -> None:
        super().__init__(value)
        self._size = len(value)

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return bytes(self._value).decode(encoding, errors)

    async def write(self, writer: Any) -> None:
        await self.write_with_length(writer, None)

    async def write_with_length(self, writer: Any, content_length: int | None) -> None:
        whole = memoryview(self._value)
        for start in range(0, len(whole), self.PIECE):
            await writer.write(whole[start : start + self.PIECE])


class Upstream:
    """Connections to all upstreams. One for a running proxy."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None
        self._proxies: dict[str, dict[str, Any]] = {}

    async def start(self) -> None:
        """To be called in the loop that serves."""
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=60),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=("accept", "accept-encoding", "user-agent", "content-type"),
            read_bufsize=2**18,
            max_line_size=2**16,
            max_field_size=2**16,
        )

    async def close(self) -> None:
        """Breaks off what is still being sent or received."""
        if self._session is not None:
            await self._session.close()

    async def send(self, method: str, route: Route, sent: CIMultiDict[str], data: Any) -> aiohttp.ClientResponse:
        """The beginning of the reply. Raises NotThere, or BrokenOff."""
        assert self._session is not None
        try:
            return await self._session.request(
                method,
                URL(route.url, encoded=True),
                headers=sent,
                data=data,
                allow_redirects=False,
                **self._through(route.upstream),
            )
        except aiohttp.ClientConnectorCertificateError as error:
            reason = getattr(error.certificate_error, "verify_message", "")
            raise NotThere(f"its certificate is not trusted ({reason}); SSL_CERT_FILE names others") from None
        except aiohttp.ClientConnectorError as error:
            raise NotThere(error.os_error.strerror or type(error).__name__) from None
        except aiohttp.ConnectionTimeoutError:
            raise NotThere(f"no connection within {CONNECT_SECONDS:g} s") from None
        except (aiohttp.InvalidURL, aiohttp.ClientHttpProxyError) as error:
            raise NotThere(type(error).__name__) from None
        except (aiohttp.ClientError, OSError) as error:
            raise BrokenOff(type(error).__name__) from None

    async def websocket(
        self, route: Route, sent: CIMultiDict[str], protocols: list[str]
    ) -> aiohttp.ClientWebSocketResponse:
        """A WebSocket to the upstream; aiohttp's errors where there is none."""
        assert self._session is not None
        connected: aiohttp.ClientWebSocketResponse = await self._session.ws_connect(
            websocket_url(route),
            headers=sent,
            protocols=protocols,
            max_msg_size=0,
            autoclose=False,
            timeout=aiohttp.ClientWSTimeout(ws_close=5),
            **self._through(route.upstream),
        )
        return connected

    def _through(self, upstream: str) -> dict[str, Any]:
        """The forward proxy of the environment (HTTPS_PROXY, NO_PROXY, …) for an upstream; none on this machine."""
        if upstream not in self._proxies:
            url = URL(upstream)
            named = urllib.request.getproxies().get(url.scheme, "")
            host = url.host or ""
            if not named or is_loopback(host) or urllib.request.proxy_bypass(host):
                self._proxies[upstream] = {}
            else:
                self._proxies[upstream] = {"proxy": URL(named if "://" in named else f"http://{named}")}
        return self._proxies[upstream]


async def read(reply: aiohttp.ClientResponse) -> bytes:
    """The next bytes of a reply; empty at its end."""
    try:
        return await reply.content.readany()
    except (aiohttp.ClientError, OSError) as error:
        if rest := reply.content._read_nowait(-1):  # what came before the connection broke
            return rest
        raise BrokenOff(type(error).__name__) from None


def websocket_url(route: Route) -> URL:
    """Where the upstream takes WebSockets: the same place."""
    scheme, _, rest = route.url.partition("://")
    return URL(("wss" if scheme == "https" else "ws") + "://" + rest, encoded=True)


def origin(route: Route) -> str:
    """The upstream without anything that may be a secret."""
    url = URL(route.upstream)
    return f"{url.scheme}://{url.host}" + (f":{url.explicit_port}" if url.explicit_port else "")

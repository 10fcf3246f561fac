"""Responses to clients: an upstream's reply, an error of ours, a connection that is closed."""

from __future__ import annotations

from aiohttp import hdrs, web
from multidict import CIMultiDict

from cliff_proxy import errors


class Nothing(web.StreamResponse):
    """The answer to a client whose connection is closed."""

    async def prepare(self, request: web.BaseRequest) -> None:
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        return None


class Relayed(web.StreamResponse):
    """A reply with the upstream's headers, and none of aiohttp's own but the date.

    The headers are written with the first bytes of the body, or by `send_headers`."""

    _send_headers_immediately = False

    def __init__(self, status: int, reason: str | None, kept: CIMultiDict[str]) -> None:
        super().__init__(status=status, reason=reason, headers=kept)
        self._added = {name for name in (hdrs.CONTENT_TYPE, hdrs.SERVER) if name not in kept}

    async def _prepare_headers(self) -> None:
        await super()._prepare_headers()
        for name in self._added:
            self.headers.popall(name, None)


def broken_off(request: web.BaseRequest) -> web.StreamResponse:
    """Closes the client's connection after what was written, as a reply that is not complete."""
    request.protocol.force_close()
    return Nothing()


def error_response(provider: str, status: int, message: str) -> web.StreamResponse:
    """An error of ours in the shape of an API."""
    return web.json_response(errors.shaped(provider, status, message), status=status)

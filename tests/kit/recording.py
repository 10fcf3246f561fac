"""Redaction of credentials, and the recording as files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from . import sse
from .request import Request

CREDENTIALS = {
    "authorization",
    "proxy-authorization",
    "x-api-key",
    "api-key",
    "x-goog-api-key",
    "cookie",
    "chatgpt-account-id",
}


def redact(value: str) -> str:
    """What stands in a record for a credential. The same for the same value, so a test can tell."""
    return f"[redacted {hashlib.sha256(value.encode()).hexdigest()[:8]}]"


def redacted(name: str, value: str) -> str:
    """The value of a header as it is recorded."""
    return redact(value) if name.lower() in CREDENTIALS else value


def entry(request: Request) -> dict[str, Any]:
    """One line of a recording: a pair of request and response in the shape of claude-trace.

    What that shape has no place for is under `kit`.
    """
    reply = request.reply
    streamed = reply is not None and ("content-type", sse.CONTENT_TYPE) in reply.headers
    response = reply and {
        "status_code": reply.status,
        "headers": dict(reply.headers),
        "body": None if streamed else _json(reply.body),
        "body_raw": reply.body.decode("utf-8", "replace") if streamed else None,
    }
    url = request.path + (f"?{request.query}" if request.query else "")
    try:
        body = request.body
    except ValueError:
        body = None
    return {
        "request": {
            "method": request.method,
            "url": url,
            "headers": dict(request.headers),
            "body": body,
        },
        "response": response,
        "kit": {
            "number": request.number,
            "api": request.api,
            "rejected": request.rejected,
            "usage": request.usage and asdict(request.usage),
            "fault": request.step and request.step.fault and repr(request.step.fault),
            "outcome": reply and reply.outcome,
            "raw": None if request.api == "other" else f"{request.number:04}.request",
        },
    }


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return data.decode("utf-8", "replace")


def dump(requests: Iterable[Request], folder: Path) -> Path:
    """Writes `requests.jsonl`, and the exact bytes of each request to a model beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "requests.jsonl"
    path.write_bytes(b"")
    for request in requests:
        append(request, folder)
    return path


def append(request: Request, folder: Path) -> None:
    """Adds one request to the recording in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    if request.api != "other":
        (folder / f"{request.number:04}.request").write_bytes(request.raw)
    with (folder / "requests.jsonl").open("ab") as file:
        file.write(json.dumps(entry(request)).encode() + b"\n")

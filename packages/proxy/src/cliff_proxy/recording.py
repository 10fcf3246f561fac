"""`--record DIR`: one file a session, with the requests as the client sent them and their replies, for `cliff replay`.

Bodies only: headers, and with them credentials, are never written."""

from __future__ import annotations

import json
import logging
import os
import threading
from pathlib import Path

from cliff_core import View
from cliff_proxy.accounts import Account
from cliff_proxy.slices import dumps

logger = logging.getLogger("cliff_proxy")


class Recorder:
    """Appends to the files of one folder. Nothing here raises: when it cannot write, `problem` says why."""

    def __init__(self, folder: Path) -> None:
        self.problem: str | None = None
        self._folder = folder
        self._lock = threading.Lock()
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.chmod(0o700)
        except OSError as error:
            self._fail(error)

    def write(self, account: Account, request: bytes, reply: bytes, action: str, view: View, whole: bool) -> None:
        """Append one request with its reply. `whole`: all of it was sent; else what was reported is of less."""
        about = {
            "action": action,
            "whole": whole,
            "tokens": view.tokens,
            "threshold": view.threshold,
            "cliff": view.cliff.as_dict() if view.cliff is not None else None,
        }
        line = b'{"request":{"body":%b},"response":{"body":%b},"cliff":%b}\n' % (
            _embedded(request),
            _embedded(reply),
            dumps(about),
        )
        name = account.id if not account.label else f"{account.label.replace('/', '_')}.{account.id}"
        with self._lock:
            try:
                path = self._folder / f"{name}.jsonl"
                file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
                try:
                    os.write(file, line)
                finally:
                    os.close(file)
            except OSError as error:
                self._fail(error)

    def _fail(self, error: OSError) -> None:
        if self.problem is None:
            self.problem = f"nothing is recorded in {self._folder}: {error.strerror or error}"
            logger.warning("%s", self.problem)


def _embedded(body: bytes) -> bytes:
    """A body as part of a line: as it is, or as a text where it is no JSON in one line."""
    text = body.strip()
    if text[:1] == b"{" and b"\n" not in text and b"\r" not in text:
        return text
    return json.dumps(body.decode("utf-8", "replace")).encode("ascii")

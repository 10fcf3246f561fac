"""What cannot be derived from a history, in a small SQLite file: facts of sessions, limits of models.

A cache in all else: without it each session is folded from its history again. Facts are kept by the content of the
history in which they were learned (the digest of its messages), so that a session finds its own after a restart, and
no other does. There is no text and no credential in it: digests, kinds and numbers. The digests have no key: who can
read the file can find out whether a conversation that he knows was held here, not what was said (mode 0600).

Nothing here raises. When the file cannot be used (corrupt, read-only, full, locked for longer than `PATIENCE`
seconds), `problem` says why, and what is learned from then on is kept in memory until the process ends.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sqlite3
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cliff_core import Fact

logger = logging.getLogger("cliff_proxy")

PATIENCE = 2.0
"""Seconds to wait for another process that writes."""

ROWS_MOST = 200_000
"""Facts that are kept (about 100 bytes each); those of the sessions that were used longest ago go first."""

VERSION = 1

_SCHEMA = """
CREATE TABLE IF NOT EXISTS heads (head BLOB PRIMARY KEY, used INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS facts (
    head BLOB NOT NULL, digest BLOB NOT NULL, size INTEGER NOT NULL,
    at INTEGER NOT NULL, kind TEXT NOT NULL, value TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS facts_head ON facts (head);
CREATE TABLE IF NOT EXISTS limits (model BLOB PRIMARY KEY, tokens INTEGER NOT NULL) WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class Row:
    """A fact, and the history that it belongs to."""

    digest: bytes
    """Of the messages of the request in which it was learned."""
    size: int
    """How many they are."""
    fact: Fact


class Store:
    """Can be used by several threads at once, and the file by several processes."""

    def __init__(self, path: Path | None) -> None:
        """`path`: None keeps all in memory."""
        self.problem: str | None = None
        self._path = path
        self._lock = threading.Lock()
        self._limits: dict[bytes, int] = {}
        self._added = 0
        self._db = _memory()
        if path is not None:
            try:
                self._db = _opened(path)
            except (sqlite3.Error, OSError) as error:
                self._fail(error)

    def rows(self, head: bytes) -> list[Row]:
        """The facts of all sessions that begin with `head`, in the order in which they were learned."""
        with self._lock:
            try:
                found = self._db.execute(
                    "SELECT digest, size, at, kind, value FROM facts WHERE head = ? ORDER BY rowid", (head,)
                ).fetchall()
                if found:
                    self._use(head)
                    self._db.commit()
                return [
                    Row(d, size, {"at": at, "kind": kind, "value": json.loads(v)}) for d, size, at, kind, v in found
                ]
            except (sqlite3.Error, ValueError) as error:
                self._fail(error)
                return []

    def add(self, head: bytes, rows: Iterable[Row]) -> None:
        """Keep facts. They are in the file when this returns, so that a killed process has lost none."""
        values = [
            (head, row.digest, row.size, row.fact["at"], row.fact["kind"], json.dumps(row.fact["value"]))
            for row in rows
        ]
        if not values:
            return
        with self._lock:
            for _ in range(2):  # the second time in memory, if the file fails
                try:
                    self._db.executemany("INSERT INTO facts VALUES (?, ?, ?, ?, ?, ?)", values)
                    self._use(head)
                    self._added += len(values)
                    if self._added >= ROWS_MOST // 100:
                        self._added = 0
                        self._forget()
                    self._db.commit()
                    return
                except sqlite3.Error as error:
                    self._fail(error)

    def limit(self, model: bytes) -> int | None:
        """Tokens that a model of an upstream is known to take."""
        known = self._limits.get(model)
        if known is not None:
            return known or None
        with self._lock:
            try:
                row = self._db.execute("SELECT tokens FROM limits WHERE model = ?", (model,)).fetchone()
            except sqlite3.Error as error:
                self._fail(error)
                row = None
            self._limits[model] = row[0] if row else 0
            return row[0] if row else None

    def set_limit(self, model: bytes, tokens: int | None) -> None:
        """Note what a model takes; None: nothing is known (any more)."""
        with self._lock:
            self._limits[model] = tokens or 0
            for _ in range(2):
                try:
                    self._db.execute("DELETE FROM limits WHERE model = ?", (model,))
                    if tokens:
                        self._db.execute("INSERT INTO limits VALUES (?, ?)", (model, tokens))
                    self._db.commit()
                    return
                except sqlite3.Error as error:
                    self._fail(error)

    def close(self) -> None:
        with self._lock, contextlib.suppress(sqlite3.Error):
            self._db.close()

    def _use(self, head: bytes) -> None:
        self._db.execute(
            "INSERT INTO heads SELECT ?, coalesce(max(used), 0) + 1 FROM heads WHERE true "
            "ON CONFLICT (head) DO UPDATE SET used = excluded.used",
            (head,),
        )

    def _forget(self) -> None:
        """Let the sessions go that were used longest ago, until a tenth of the room is free."""
        count = self._db.execute("SELECT count(*) FROM facts").fetchone()[0]
        if count <= ROWS_MOST:
            return
        for (head,) in self._db.execute("SELECT head FROM heads ORDER BY used").fetchall():
            count -= self._db.execute("DELETE FROM facts WHERE head = ?", (head,)).rowcount
            self._db.execute("DELETE FROM heads WHERE head = ?", (head,))
            if count <= ROWS_MOST * 9 // 10:
                return

    def _fail(self, error: Exception) -> None:
        """Go on in memory."""
        with contextlib.suppress(sqlite3.Error):
            self._db.close()
        self._db = _memory()
        if self.problem is None:
            self.problem = f"the store {self._path} is not used: {error}. {_advice(error)}"
            logger.warning("%s", self.problem)


def _opened(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    db = sqlite3.connect(path, timeout=PATIENCE, check_same_thread=False)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")  # a killed process loses nothing; a power failure the newest facts
        version = db.execute("PRAGMA user_version").fetchone()[0]
        if version not in (0, VERSION):
            raise sqlite3.DatabaseError(f"it is of version {version}, this one knows {VERSION}")
        db.executescript(_SCHEMA)
        if not version:
            db.execute(f"PRAGMA user_version = {VERSION}")
        # Reading alone does not show that a file cannot be written.
        db.execute("INSERT INTO limits VALUES (x'', 0) ON CONFLICT DO UPDATE SET tokens = 0")
        db.commit()
        db.execute("SELECT count(*) FROM facts").fetchone()
    except sqlite3.Error:
        db.close()
        raise
    return db


def _memory() -> sqlite3.Connection:
    db = sqlite3.connect(":memory:", check_same_thread=False)
    db.executescript(_SCHEMA)
    return db


def _advice(error: Exception) -> str:
    text = str(error)
    if "malformed" in text or "not a database" in text or "version" in text:
        return (
            "Delete it (with its -wal and -shm files) and start the proxy again; views of most sessions stay the same."
        )
    if "readonly" in text or isinstance(error, OSError) or "unable to open" in text:
        return "Make it and its folder writable, or choose another file by --store."
    if "full" in text:
        return "Make room on its disk and start the proxy again."
    return "Sessions go on; what they learn is lost when the proxy ends."

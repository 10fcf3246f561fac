"""Many recorded sessions: on several cores, in memory that does not grow with their number, and resumed after an
interrupt.

A **plan** is what is done with each session. The unit of work is a file (or the folder of one session): `study` reads
it and replays its sessions one after the other. `run` does that for many files, in their order, in processes of a
pool where that pays; at any time a few files are in work and none is kept. With a `Store`, what was done is kept in a
file and not done again.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import multiprocessing
import os
import re
import signal
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

from cliff_core import records, tokens, traces
from cliff_core.config import CliffConfig
from cliff_core.ledger import Pricing, Tariff
from cliff_core.policies import Policy, Settings, policies
from cliff_core.policies.authors import VERSION as AUTHORS_VERSION
from cliff_core.replay import Replay, limit_of, model_of, replay
from cliff_core.traces import Session
from cliff_core.traces.source import special

_log = logging.getLogger(__name__)

POOL_FROM = 8
"""Files from which on several processes are used where nobody says how many."""

STORE_FROM = 20
"""Files from which on results are kept where nobody says so."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is done with each session. It travels to other processes."""

    config: CliffConfig
    names: tuple[str, ...]
    """Policies."""
    settings: Settings = field(default_factory=Settings)
    pricing: Pricing = field(default_factory=Pricing)

    def policies(self) -> list[Policy]:
        """Raises PolicyError where one cannot be had."""
        return policies(self.names, self.config, self.settings)

    def key(self) -> str:
        """Changes with everything that a result depends on beside the file: the options, this package's own source,
        the vocabulary, the price table."""
        settings = asdict(self.settings)
        settings.pop("authors_python")
        vocabulary = tokens.vocabulary()
        parts = [
            self.config.as_dict(),
            self.names,
            settings,
            asdict(self.pricing),
            AUTHORS_VERSION,
            _sources(),
            [vocabulary.name, vocabulary.source],
            _version("litellm"),
        ]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


@cache
def _sources() -> str:
    """A digest of this package: a change of the code makes other results."""
    found = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        found.update(path.read_bytes())
    return found.hexdigest()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


@dataclass(frozen=True, slots=True)
class Done:
    """One session, replayed. Its messages are gone: a few numbers a request are left."""

    replay: Replay
    tariff: Tariff
    window: int | None
    """The model's context window, where it is known."""
    limit: int | None
    """Tokens that the provider takes, where known (`replay.limit_of`)."""


@dataclass(frozen=True, slots=True)
class Said:
    """Something to tell: an input that failed, or a warning."""

    kind: Literal["error", "warning"]
    text: str
    path: Path


Item = Done | Said


def study(path: Path, plan: Plan, chosen: Sequence[Policy]) -> Iterator[Item]:
    """Replay the sessions of one file; what goes wrong is said, and does not stop the others."""
    with _heard() as heard:
        empty = True
        try:
            for session in traces.read(path):
                empty = False
                try:
                    done: Item | None = _done(session, plan, chosen)
                except Exception as error:
                    problem = " ".join(f"{type(error).__name__}: {error}".split())
                    done = Said("error", f"{session.path}: could not be replayed ({problem})", session.path)
                yield from (Said("warning", f"{session.path}: {text}", session.path) for text in heard)
                heard.clear()
                if done is not None:
                    yield done
            if empty:
                yield Said("warning", f"{path}: there is no session in this file", path)
        except traces.TraceError as error:
            yield Said("error", unread(error), path)


def unread(error: traces.TraceError) -> str:
    """Why a file could not be read, as people are told."""
    no_format = error.expects == traces.EXPECTS and error.__cause__ is None
    return f"{error} ({FORMATS_ARE})" if no_format else str(error)


FORMATS_ARE = "docs/replay.md lists the formats"


def _done(session: Session, plan: Plan, chosen: Sequence[Policy]) -> Done:
    tariff, rules, known = plan.pricing.of(model_of(session))
    limit = limit_of(known)
    done = replay(session, chosen, plan.config, rules, limit, tariff.cache_price_ratio)
    window = known.context_window if known is not None else None
    return Done(replace(done, session=records.slim(session)), tariff, window, limit)


class _Hearing(logging.Handler):
    def __init__(self, heard: list[str]) -> None:
        super().__init__(logging.WARNING)
        self.heard = heard

    def emit(self, record: logging.LogRecord) -> None:
        self.heard.append(record.getMessage().removeprefix("cliff: "))


@contextmanager
def _heard() -> Iterator[list[str]]:
    """Warnings of the core, in place of being printed."""
    logger, heard = logging.getLogger("cliff_core"), list[str]()
    handlers, logger.handlers = logger.handlers, [_Hearing(heard)]
    propagate, logger.propagate = logger.propagate, False
    try:
        yield heard
    finally:
        logger.handlers, logger.propagate = handlers, propagate


# --- many files -----------------------------------------------------------------------------------


def run(
    files: Sequence[Path],
    plan: Plan,
    jobs: int | None = None,
    store: Store | None = None,
    finished: Callable[[Path], None] = lambda path: None,
) -> Iterator[Item]:
    """Study all files, in their order. `jobs`: processes; None: as many as there are cores, from `POOL_FROM` files on.
    `finished` is told of each file when its last item was given.

    Raises PolicyError before the first item where a policy cannot be had."""
    jobs = jobs or (_cores() if len(files) >= POOL_FROM else 1)
    chosen = plan.policies()
    plan_key = plan.key() if store is not None else ""
    if jobs > 1:
        results = _pooled(files, plan, chosen, jobs, plan_key, store)
    elif store is not None:
        results = _stored(files, plan, chosen, plan_key, store)
    else:
        results = _alone(files, plan, chosen)
    try:
        for path, items in results:
            yield from items
            finished(path)
    finally:
        results.close()
        for policy in chosen:
            _close(policy)


def _cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


def _close(policy: Policy) -> None:
    close = getattr(policy, "close", None)
    if close is not None:
        close()


_Results = Generator[tuple[Path, Iterable[Item]], None, None]


def _alone(files: Iterable[Path], plan: Plan, chosen: Sequence[Policy]) -> _Results:
    for path in files:
        yield path, study(path, plan, chosen)


def _stored(files: Iterable[Path], plan: Plan, chosen: Sequence[Policy], plan_key: str, store: Store) -> _Results:
    for path in files:
        key = _key(path, plan_key)
        items = store.get(key, path, plan) if key else None
        if items is None:
            items = list(study(path, plan, chosen))
            store.put(key, items)
        yield path, items


def _pooled(
    files: Iterable[Path], plan: Plan, chosen: Sequence[Policy], jobs: int, plan_key: str, store: Store | None
) -> _Results:
    """In the order of the files, with as many in work as keep all processes busy. What is no regular file (a pipe
    belongs to this process) is studied here."""
    waiting: deque[tuple[Path, str, Iterable[Item] | Future[list[Item]]]] = deque()
    pool = ProcessPoolExecutor(jobs, mp_context=_context(), initializer=_begin, initargs=(plan,))
    try:
        for path in files:
            waiting.append(_started(path, plan, chosen, plan_key, store, pool))
            if len(waiting) > 4 * jobs:
                yield _finished(*waiting.popleft(), store)
        while waiting:
            yield _finished(*waiting.popleft(), store)
    except BaseException:
        # Ctrl-C, or nobody reads on: no process goes on with what nobody wants. (Their own end takes the rest.)
        processes = list((getattr(pool, "_processes", None) or {}).values())
        for process in processes:
            process.terminate()
        # Its thread is waited for: on 3.11 the end of Python may meet a pipe that it has just closed.
        pool.shutdown(cancel_futures=True)
        for process in processes:
            process.join()
        raise
    pool.shutdown()


def _started(
    path: Path, plan: Plan, chosen: Sequence[Policy], plan_key: str, store: Store | None, pool: ProcessPoolExecutor
) -> tuple[Path, str, Iterable[Item] | Future[list[Item]]]:
    if not (path.is_file() or path.is_dir()):
        return path, "", study(path, plan, chosen)
    key = _key(path, plan_key) if store is not None else ""
    kept = store.get(key, path, plan) if store is not None and key else None
    return path, key, pool.submit(_work, path) if kept is None else kept


def _finished(
    path: Path, key: str, items: Iterable[Item] | Future[list[Item]], store: Store | None
) -> tuple[Path, Iterable[Item]]:
    if isinstance(items, Future):
        items = items.result()
        if store is not None:
            store.put(key, items)
    return path, items


def _context() -> multiprocessing.context.BaseContext:
    """Processes that begin with nothing of ours: threads (a progress bar) do not survive a fork."""
    methods = multiprocessing.get_all_start_methods()
    return multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")


_plan: Plan
_chosen: list[Policy]


def _begin(plan: Plan) -> None:
    """In a process of the pool, once."""
    global _plan, _chosen
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process says when to stop
    _plan, _chosen = plan, plan.policies()


def _work(path: Path) -> list[Item]:
    return list(study(path, _plan, _chosen))


# --- what was done --------------------------------------------------------------------------------


class Store:
    """Results in a file: a line each, `KEY JSON`, appended as they come. The key is a digest of the file's content and
    of the plan (`Plan.key`), so a result is found wherever the file lies, and never after anything changed. A line that
    an interrupt cut off goes, and other lines are left alone.

    Raises OSError where the file cannot be opened, or holds something else. Where it cannot be written later on (the
    disk is full), a warning says so, and no more is kept."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if kind := special(path):
            raise OSError(errno.EINVAL, f"it is {kind}", str(path))
        self._places: dict[str, int] = {}
        # Both are open as long as this object.
        self._end = open(path, "ab", buffering=0)  # noqa: SIM115
        self._file = open(path, "rb")  # noqa: SIM115
        if not is_store(path, or_empty=True):
            self.close()
            raise OSError(errno.EEXIST, "it is no store of cliff; name another file", str(path))
        place = 0
        for line in self._file:
            if not line.endswith(b"\n"):
                self._end.truncate(place)
                break
            if line[_KEY_CHARS : _KEY_CHARS + 1] == b" ":
                self._places[line[:_KEY_CHARS].decode("ascii", "replace")] = place
            place += len(line)

    def get(self, key: str, path: Path, plan: Plan) -> list[Item] | None:
        """What was done for a file that now lies at `path`; None: nothing yet."""
        place = self._places.get(key)
        if place is None:
            return None
        self._file.seek(place)
        try:
            data = json.loads(self._file.readline()[_KEY_CHARS:])
            return [_item(item, path, plan) for item in data]
        except (ValueError, KeyError, TypeError, IndexError):
            return None

    def put(self, key: str, items: Sequence[Item]) -> None:
        """Keep what was done, unless something failed: that is tried again."""
        if not key or any(isinstance(item, Said) and item.kind == "error" for item in items):
            return
        if self._end.closed:
            return
        data = [_data(item) for item in items]
        line = f"{key} {json.dumps(data, separators=(',', ':'))}\n".encode()
        try:
            place = self._end.seek(0, os.SEEK_END)
            if self._end.write(line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            _log.warning("no more results are kept in %s: %s", self.path, error.strerror or error)
            self._end.close()
        else:
            self._places[key] = place

    def close(self) -> None:
        self._end.close()
        self._file.close()


_KEY_CHARS = 64
_RESULT = re.compile(rb"[0-9a-f]{%d} \[" % _KEY_CHARS)


def is_store(path: Path, or_empty: bool = False) -> bool:
    """Whether a file begins with a result."""
    try:
        with open(path, "rb") as file:
            head = file.read(_KEY_CHARS + 2)
    except OSError:
        return False
    return _RESULT.match(head) is not None or (or_empty and not head)


MOST_STORES = 5
"""Plans whose results are kept in the default folder; those of older ones are removed."""


def default_store(plan: Plan) -> Path:
    """`cliff/replays` below the XDG cache directory, which is made, has a file for each plan."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base) / "cliff" / "replays"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{plan.key()[:16]}.jsonl"
    others = sorted((file for file in folder.glob("*.jsonl") if file != path), key=lambda file: file.stat().st_mtime)
    for file in others[: max(0, len(others) - MOST_STORES + 1)]:
        with suppress(OSError):
            file.unlink()
    return path


def _key(path: Path, plan_key: str) -> str:
    """Empty where the content cannot be read twice, or at all."""
    digest = hashlib.sha256(plan_key.encode())
    try:
        if path.is_dir():
            for file in sorted(path.rglob("*")):
                if file.is_file():
                    digest.update(f"\0{file.relative_to(path)}\0".encode("utf-8", "surrogateescape"))
                    digest.update(file.read_bytes())
        elif path.is_file():
            with open(path, "rb") as opened:
                digest.update(hashlib.file_digest(opened, "sha256").digest())
        else:
            return ""
    except OSError:
        return ""
    return digest.hexdigest()


def _data(item: Item) -> Any:
    if isinstance(item, Said):
        return {"said": item.text.removeprefix(f"{item.path}: ")}
    return records.data(item.replay)


def _item(data: Any, path: Path, plan: Plan) -> Item:
    if "said" in data:
        return Said("warning", f"{path}: {data['said']}", path)
    done = records.replay(data, path, plan.config)
    tariff, _, known = plan.pricing.of(model_of(done.session))
    return Done(done, tariff, known.context_window if known is not None else None, limit_of(known))

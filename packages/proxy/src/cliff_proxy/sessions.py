"""Sessions, told apart by what their messages say.

A request continues a session if it begins with all of that session's messages, cache markers aside. Any other request
starts a session of its own, with the facts that were learned at a beginning that it shares; so parallel sessions and
sub-agents never mix, whatever they have in common, and a client that goes back to an earlier message disturbs nobody.
"""

from __future__ import annotations

import threading
import weakref
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from cliff_core import CliffConfig, Compactor, Fact, tokens
from cliff_core.block import MESSAGE_TOKENS
from cliff_core.content import Message, ToolResult, counted
from cliff_core.dialects import Dialect, dialect
from cliff_core.sequences import common
from cliff_core.turns import head_end
from cliff_proxy.layouts import Layout, Layouts, quick_hash
from cliff_proxy.slices import canonical, dumps, loads
from cliff_proxy.store import Row, Store

DIGEST_BYTES = 16
TAIL = 2
"""Messages at the end in which a request may differ from a session to be taken for its successor."""

SLICE_BYTES = 1_500
"""What a message takes beside its text: objects, places in lists."""

TEXT_SHARE = 1.5
"""Bytes in memory for each byte of a message (1 for a Latin text, 2 for one with any other character)."""


def digest(*parts: bytes) -> bytes:
    """Of parts whose lengths are known or which end by themselves."""
    found = blake2b(digest_size=DIGEST_BYTES)
    for part in parts:
        found.update(part)
    return found.digest()


class Slice:
    """What is known of the bytes of one message. The bytes themselves are not kept."""

    __slots__ = ("__weakref__", "digest", "mergeable", "message", "size", "users")

    def __init__(self, message: Message, digest: bytes, size: int, mergeable: bool) -> None:
        self.message = message
        """Its contents, counted."""
        self.digest = digest
        """Equal for messages that differ in cache markers alone."""
        self.size = size
        """Bytes in memory, about."""
        self.mergeable = mergeable
        self.users = 0
        """How many places in sessions it is counted for (`Sessions`)."""


@dataclass(frozen=True, slots=True)
class Merged:
    """A message of the client with the block appended."""

    slice: Slice
    text: str


class SliceDialect:
    """The dialect of an API for slices in place of parsed messages: each is parsed once, whoever sends it."""

    def __init__(self, inner: Dialect) -> None:
        self.inner = inner
        self.name = inner.name
        self.block_index = inner.block_index
        self._encoded = lru_cache(maxsize=64)(lambda text: dumps(inner.block_message(text)))

    def plain(self, message: Slice) -> Slice:
        return message

    def parse(self, message: Any) -> Message:
        """The core tells results apart by identity, and the same bytes can stand in a history twice."""
        found: Message = message.message
        if not any(isinstance(c, ToolResult) for c in found.contents):
            return found
        contents = (replace(c) if isinstance(c, ToolResult) else c for c in found.contents)
        return Message(found.role, tuple(contents), found.tokens)

    def canonical(self, message: Any) -> bytes:
        found: bytes = message.digest
        return found

    def block_message(self, text: str) -> Any:
        """The block as a message, ready to be sent: the same one at each request of a growth segment."""
        return self._encoded(text)

    def merge_block(self, message: Any, text: str) -> Any:
        return Merged(message, text) if message.mergeable else None


class Slices:
    """All messages of one API that any session holds, each once."""

    def __init__(self, api: str) -> None:
        self.dialect = SliceDialect(dialect(api))
        self._known: dict[tuple[int, int], weakref.ref[Slice]] = {}
        self._same: weakref.WeakValueDictionary[bytes, Slice] = weakref.WeakValueDictionary()
        """Digest -> a slice of equal content: what is known of one is known of all."""
        self._lock = threading.Lock()

    def of(self, items: Sequence[memoryview]) -> list[Slice]:
        """A slice for each item; what is new among them is parsed and counted."""
        keys = [(quick_hash(item), len(item)) for item in items]
        known = self._known
        found: list[Slice | None] = [ref() if (ref := known.get(key)) is not None else None for key in keys]
        new = {key: items[place].tobytes() for place, key in enumerate(keys) if found[place] is None}
        if not new:
            return found  # type: ignore[return-value]
        made = dict(zip(new, self._made(list(new.values())), strict=True))
        with self._lock:
            for key, one in made.items():
                ref = known.get(key)
                other = ref() if ref is not None else None
                if other is not None:  # another thread was faster
                    made[key] = other
                else:
                    known[key] = weakref.ref(one, self._forgetter(key))
                    self._same.setdefault(one.digest, one)
        return [one or made[key] for one, key in zip(found, keys, strict=True)]

    def _forgetter(self, key: tuple[int, int]) -> Any:
        known = self._known

        def forget(ref: weakref.ref[Slice]) -> None:
            if known.get(key) is ref:
                del known[key]

        return forget

    def _made(self, items: list[bytes]) -> list[Slice]:
        inner = self.dialect.inner
        parsed: list[tuple[Message, bytes, bool]] = []
        texts: list[str] = []
        sizes: list[tuple[int, int]] = []
        for item in items:
            try:
                value = loads(item)
                mergeable = inner.merge_block(value, "") is not None
                same = digest(canonical(inner.canonical(value)))
                twin = self._same.get(same)  # another copy with markers elsewhere
                message = twin.message if twin is not None else inner.parse(value)
                its, known = counted(message.contents) if twin is None else ([], 0)
            except (ValueError, RecursionError):  # nested too deeply: it stays whole while it lives
                message, same, mergeable = Message("user", ()), digest(item), False
                its, known = [], len(item) // 4
            texts += its
            sizes.append((len(its), known))
            parsed.append((message, same, mergeable))
        counts = iter(tokens.count_many(texts))
        found = []
        for (message, same, mergeable), (number, known), item in zip(parsed, sizes, items, strict=True):
            if not message.tokens:
                message = message.with_tokens(MESSAGE_TOKENS + known + sum(next(counts) for _ in range(number)))
            found.append(Slice(message, same, int(TEXT_SHARE * len(item)), mergeable))
        return found


class Session:
    """One history and the fold over it. Use `compactor` while holding `lock`."""

    def __init__(
        self,
        root: bytes,
        slices: list[Slice],
        chain: list[bytes],
        fixed: bytes,
        compactor: Compactor,
        given: Sequence[Fact],
    ) -> None:
        self.root = root
        self.slices = slices
        """Of the newest request."""
        self.chain = chain
        """Digests of the first n messages."""
        self.fixed = fixed
        """Digest of system prompt and tools of the newest request."""
        self.compactor = compactor
        self.lock = threading.Lock()
        self.beginning: _Head
        """It and the sessions that begin as it does."""
        self.head = 0
        """Messages in the head; all of them before the model has spoken."""
        self.counted: list[Slice] = []
        """Those that memory is counted for."""
        self.learned = 0
        """Messages of the largest request in which something was learned."""
        self.sent = 0
        """Messages of the largest request that went out without a view of its own."""
        self.known = 0
        """The beginning's `news` of what its compactor knows of."""
        self.account: Any = None
        self.layout: Layout | None = None
        """Of the newest request."""
        self._written = Counter(map(_key, given))
        self._seen: list[Fact] = []
        """Of the compactor's at the last call."""

    def new_facts(self) -> list[Fact]:
        """The facts that were learned since the last call."""
        known = self.compactor.facts
        if known == self._seen:
            return []
        self._seen = known
        written = self._written.copy()
        facts = []
        for fact in known:
            key = _key(fact)
            if written[key]:
                written[key] -= 1
            else:
                facts.append(fact)
                self._written[key] += 1
        return facts

    def anew(self, facts: Sequence[Fact]) -> Compactor:
        """A compactor that saw nothing yet, with other facts."""
        return Compactor(self.compactor.dialect, self.compactor.config, facts)


def _places(chain: Sequence[bytes], head: int, fixed: bytes, start: int = 0) -> Iterator[bytes]:
    """The digests by which facts of the first `start`, … messages are kept.

    A history is known by its messages; until the model has spoken, by system prompt and tools as well: the heads of
    sub-agents can be the same."""
    for size in range(start, len(chain)):
        yield chain[size] if size > head else digest(chain[size], fixed)


def _settled(slices: Sequence[Slice]) -> int:
    """Messages up to the model's last step; all of them before it has spoken."""
    head = _head(slices)
    return next((i + 1 for i in range(len(slices) - 1, head - 1, -1) if slices[i].message.role == "model"), len(slices))


def _head(slices: Sequence[Slice]) -> int:
    for most in (HEAD_MOST // 32, HEAD_MOST):
        found = head_end([one.message for one in slices[:most]])
        if found is not None:
            return found
    return min(len(slices), HEAD_MOST)


HEAD_MOST = 1_024
"""Messages in which the end of the head is looked for."""


def _key(fact: Fact) -> tuple[int, str, str]:
    return fact["at"], fact["kind"], str(fact["value"])


class _Head:
    """The sessions in memory that begin with the same message, the newest last, and all that is stored of such."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.sessions: list[Session] = []
        self.rows: dict[bytes, list[Row]] = {}
        self.longest = 0
        """Messages of the longest history in which something was learned."""
        self.news = 0
        """Changes when one of the sessions has learned something."""
        self.add(rows)

    def add(self, rows: Iterable[Row]) -> None:
        self.news += 1
        for row in rows:
            self.rows.setdefault(row.digest, []).append(row)
            self.longest = max(self.longest, row.size)


class Sessions:
    """The sessions in memory, the newest last; bounded by `memory_bytes`. Can be used by several threads at once."""

    def __init__(self, store: Store, memory_bytes: int) -> None:
        self.layouts = Layouts()
        self._store = store
        self.unwritten: list[tuple[bytes, list[Row]]] = []
        """What was learned, and where, until it is written."""
        self._memory_bytes = memory_bytes
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._all: OrderedDict[int, Session] = OrderedDict()
        self._heads: dict[bytes, _Head] = {}
        self._cost = 0

    def __len__(self) -> int:
        return len(self._all)

    def find(
        self,
        root: bytes,
        slices: list[Slice],
        fixed: bytes,
        config: CliffConfig,
        of: SliceDialect,
        given: Sequence[Fact],
    ) -> tuple[Session, bool, Session | None]:
        """The session that a request belongs to, whether it was in memory, and the one whose beginning it shares: steps
        of the model, or the head, where the client named that session (equal heads alone say nothing).

        `root` stands for API, model, upstream and configuration; `given` are facts that every session of it has."""
        first = _next(root, slices[0])
        with self._lock:
            head = self._heads.get(first)
            if head is None:
                head = self._heads[first] = _Head(self._store.rows(first))
            near, shared = _nearest(head.sessions, slices)
            end_of_head = near.head if near is not None and shared > near.head else _head(slices)
            spoken = shared > end_of_head
            if near is not None and (spoken or (near.fixed == fixed and shared == len(near.slices))):
                chain = [*near.chain[: shared + 1], *_extended(near.chain[shared], slices[shared:])]
                news = any(place in head.rows for place in _places(chain, end_of_head, fixed, shared + 1))
                # A history that goes on, or one of which the last words were changed: a client puts a reminder there,
                # or goes back a step. Not where a cold start would know more or less: another branch was here before
                # and learned something, or this one did where it now differs.
                if near.learned <= shared >= len(near.slices) - TAIL and not news:
                    self._claim(head, near, slices, chain, fixed, shared)
                    near.head, near.known = end_of_head, head.news
                    return near, True, near
            chain = [root, *_extended(root, slices)]
            rows = _on_path(head.rows, _places(chain, end_of_head, fixed))
            facts = [*given, *(row.fact for row in rows)]
            session = Session(root, slices, chain, fixed, Compactor(of, config, facts), facts)
            session.beginning, session.head, session.known = head, end_of_head, head.news
            session.learned = max((row.size for row in rows), default=0)
            self._all[id(session)] = session
            head.sessions.append(session)
            self._cost_more(session, slices)
            if near is not None and spoken and shared >= len(near.slices) - TAIL:
                self._drop(near)  # most likely it is the same client; if not, it is folded again
            # Tools that a client loads at its first step change the fixed part of the same conversation.
            named = near is not None and near.account is not None and bool(near.account.label)
            return session, False, near if spoken or (named and shared >= end_of_head) else None

    def learn(self, session: Session, slices: list[Slice]) -> None:
        """Keep what a session has learned since the last call, from a request with `slices`; `write` is to be called
        before the request is sent.

        What is learned belongs to the history up to the model's last step: what stands behind it can be another text in
        the next request (a reminder). What was forced belongs to the whole."""
        with self._lock:
            facts = session.new_facts()
            if not facts:
                return
            chain = self._chain(session, slices)
            places = dict(enumerate(_places(chain, _head(slices), session.fixed)))
            rows = []
            for fact in facts:
                size = len(slices) if fact["kind"] == "forced" else _settled(slices)
                rows.append(Row(places[size], size, fact))
                session.learned = max(session.learned, size)
            head = self._heads.get(chain[1])
            if head is not None:
                head.add(rows)
                session.known += 1
            self.unwritten.append((chain[1], rows))

    def write(self) -> None:
        """What was learned goes to the store. It may have to wait for other proxies."""
        with self._writing:  # who comes here while another one writes waits for that, too
            with self._lock:
                unwritten, self.unwritten = self.unwritten, []
            for head, rows in unwritten:
                self._store.add(head, rows)

    def news(self, session: Session, slices: list[Slice]) -> bool:
        """Whether what a provider reports for a request with `slices` may be learned: nothing was reported at this
        place of the history before, and no other session went on from there (its views would change)."""
        with self._lock:
            size = _settled(slices)
            if _shared(session.slices, slices) < size:
                return False  # another branch has taken it over: that one would learn it
            chain = self._chain(session, slices)
            head = self._heads.get(chain[1])
            if head is None:
                return True
            (place,) = _places(chain[: size + 1], _head(slices), session.fixed, size)
            if any(row.fact["kind"] == "usage" for row in head.rows.get(place, ())):
                return False
            return not any(
                other is not session and len(other.slices) > len(slices) and _shared(other.slices, slices) >= size
                for other in head.sessions
            )

    def _chain(self, session: Session, slices: list[Slice]) -> list[bytes]:
        """The digests of a request's history: the session's own unless another branch took it over meanwhile."""
        if _shared(session.slices, slices) == len(slices):
            return session.chain[: len(slices) + 1]
        return [session.root, *_extended(session.root, slices)]

    def lies(self, session: Session, layout: Layout) -> None:
        """The newest body of a session lies so. Not of one that was let go meanwhile."""
        with self._lock:
            if id(session) in self._all:
                self.layouts.replace(session.layout, layout)
                session.layout = layout

    def trim(self) -> None:
        """Let the sessions go that were used longest ago, until the rest fits."""
        with self._lock:
            while self._cost > self._memory_bytes and self._all:
                self._drop(next(iter(self._all.values())))

    def _drop(self, session: Session) -> None:
        del self._all[id(session)]
        self.layouts.replace(session.layout, None)
        session.layout = None
        self._cost_less(session, 0)
        head = self._heads[session.chain[1]]
        head.sessions.remove(session)
        if not head.sessions:
            del self._heads[session.chain[1]]

    def _cost_more(self, session: Session, added: list[Slice]) -> None:
        """Count the memory of messages, each text once however many sessions have it."""
        for one in added:
            self._cost += SLICE_BYTES + (0 if one.users else one.size)
            one.users += 1
        session.counted += added

    def _cost_less(self, session: Session, kept: int) -> None:
        for one in session.counted[kept:]:
            one.users -= 1
            self._cost -= SLICE_BYTES + (0 if one.users else one.size)
        del session.counted[kept:]

    def _claim(
        self, head: _Head, session: Session, slices: list[Slice], chain: list[bytes], fixed: bytes, shared: int
    ) -> None:
        """Make a session that of a request, which begins with its first `shared` messages."""
        self._cost_less(session, shared)
        self._cost_more(session, slices[shared:])
        session.slices, session.chain, session.fixed = slices, chain, fixed
        self._all.move_to_end(id(session))
        if head.sessions[-1] is not session:
            head.sessions.remove(session)
            head.sessions.append(session)


def _nearest(sessions: Sequence[Session], slices: list[Slice]) -> tuple[Session | None, int]:
    """The session with the longest common beginning: of several the one that is continued, then the newest."""
    best, most = None, (0, False)
    for session in reversed(sessions):
        shared = _shared(session.slices, slices)
        rank = (shared, shared == len(session.slices))
        if rank > most:
            best, most = session, rank
    return best, most[0]


def _on_path(rows: Mapping[bytes, list[Row]], path: Iterable[bytes]) -> list[Row]:
    """What was learned at the beginnings of a history."""
    places = set(path) if rows else set()
    return [row for place, its in rows.items() if place in places for row in its]


def _next(last: bytes, one: Slice) -> bytes:
    return blake2b(last + one.digest, digest_size=DIGEST_BYTES).digest()


def _extended(last: bytes, slices: Sequence[Slice]) -> list[bytes]:
    """The digests of a history that goes on, after each message."""
    found = []
    for one in slices:
        last = _next(last, one)
        found.append(last)
    return found


def _shared(one: list[Slice], other: list[Slice]) -> int:
    """How many messages both begin with, cache markers aside."""
    end = min(len(one), len(other))
    start = 0
    while (start := common(one, other, start)) < end:  # by identity
        if one[start].digest != other[start].digest:
            return start
        start += 1
    return end


def merged(of: SliceDialect, raw: bytes, text: str) -> bytes:
    """A message of the client with the block appended."""
    found: Mapping[str, Any] | None = of.inner.merge_block(loads(raw), text)
    return dumps(found)

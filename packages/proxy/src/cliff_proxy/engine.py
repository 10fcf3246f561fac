"""What is sent upstream in place of a request: sessions, views, what was learned. Knows no HTTP.

The server hands over a decoded body and gets back the bytes to send; it reports what came of them. All methods are
blocking and safe to call from several threads at once; none raises for a body, whatever it holds.
"""

from __future__ import annotations

import logging
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

import msgspec

from cliff_core import CliffConfig, Fact, View
from cliff_core.decision import room
from cliff_core.overflow import Rejection
from cliff_core.tokens import RATIO_RANGE
from cliff_core.wording import counted
from cliff_proxy import formats, windows
from cliff_proxy.accounts import Account, Accounts
from cliff_proxy.formats import FORMATS, Format, Purpose
from cliff_proxy.layouts import Layout, quick_hash
from cliff_proxy.log import described
from cliff_proxy.reading import Earlier, Read, Reader
from cliff_proxy.recording import Recorder
from cliff_proxy.sessions import Session, Sessions, Slice, SliceDialect, Slices, digest
from cliff_proxy.settings import Settings
from cliff_proxy.slices import Body, Unsplittable, canonical, more
from cliff_proxy.store import Store
from cliff_proxy.views import Written

logger = logging.getLogger("cliff_proxy")

Api = Literal["anthropic", "chat", "responses"]
"""Also the names of the core's dialects."""

Action = Literal["pass", "view", "cliff", "forced", "bypass", "shadow", "failed"]
"""What was done, for the header `x-cliff`: `pass` (sent as it came: below the threshold, no session's request, …),
`view` (an earlier cliff's view, or no more than a cache breakpoint was added), `cliff` (a new cliff), `forced` (after a
rejection), `bypass` and `shadow` (asked for: sent as it came), `failed` (sent as it came because our work could not be
done)."""

LIMIT_LEAST = 1_000
"""A smaller limit is no context window: the figure in the error's text meant something else."""

USAGE_RANGE = (0.25, 4.0)
"""Reported tokens for each estimated one; a report outside of it counts something else, and teaches nothing."""

AT_ONCE_BYTES = 4_096
"""New bytes of a body at most for it to be little work: a millisecond, most of it to count tokens."""

OBSERVED_SHARE = 2
"""A report is learned from where a request has half of the threshold at least: what it teaches decides nothing
before. And from a session's first requests, which tell what is off by a rate from what is off by an amount."""

FIRST_STEPS = 4
"""Steps of the model up to which a request is one of those."""

ELEMENT_TOKENS = 8
"""Tokens at most that a message has whatever it says (`block.MESSAGE_TOKENS`, and what an odd one is counted by)."""

MORE_BYTES = 32_768
"""Bytes that may come to a request before the whole of it is looked at again."""

_TELLING = re.compile(
    # May have more tokens than bytes: what a provider fetches, or holds itself. (Within a text, quotes are escaped.)
    rb'"(?:image"|image_url"|input_image"|document"|file"|file_id"|input_file"|input_audio"|encrypted_content"'
    rb'|redacted_thinking"|cache_control"|compaction|image_generation_call"|computer_screenshot")'
)
_ESCAPED = re.compile(rb"\\u00[2-7]")
"""A letter that is escaped, which may be one of these."""

_SUMMARIES = tuple(sentence.encode() for sentence in formats.SUMMARIES)


def _tells(messages: bytes) -> bool:
    """Whether messages have to be looked at: they may have more tokens than bytes, or be a client's own compaction."""
    # One after the other: each search looks for a first letter, or a whole, which is much faster than one for any.
    for sentence in _SUMMARIES:
        if sentence in messages:
            return True
    if b"\\u00" in messages and _ESCAPED.search(messages):
        return True
    return _TELLING.search(messages) is not None


BYTES_A_TOKEN = 10
"""Bytes of a body for each of its tokens at most, for a rejection to say something of its model: images are large and
have few tokens, and a gateway can reject a body for its bytes."""

TOLERANCE = 50
"""A report that differs from what was expected by less than a fiftieth teaches nothing new. So a session has few
facts, whatever its length."""


class Call(msgspec.Struct):
    """A request of a client to one of the three APIs."""

    api: Api
    body: bytes
    """Decoded: JSON text."""
    upstream: str
    """Base URL that it goes to: limits are learned for a model and an upstream."""
    labels: Mapping[bytes, bytes] = {}
    """The client's headers, or of them its ids (names in lower case): for display only."""
    bypass: bool = False
    compact: bool = False
    """OpenAI's `/responses/compact`: untouched while it fits the model's window."""

    def __repr__(self) -> str:
        return f"Call({self.api})"  # no message, no credential


@dataclass(frozen=True, slots=True)
class Usage:
    """What the provider reported for one request, in tokens."""

    input: int
    """All of the prompt, cache reads and writes included."""
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0


class Prepared(msgspec.Struct):
    """What to send for a call."""

    body: bytes | None
    """None: forward the bytes that came in, encoded as they came."""
    action: Action
    note: str = ""
    """Why, where `action` does not say it (`previous_response_id`, the error of a failed compaction, …)."""
    detail: str = ""
    """For `x-cliff` beside the action, such as `session=…; cliffs=2; tokens=15310`."""
    state: Any = None
    """The engine's own."""


@dataclass(frozen=True, slots=True)
class _Envelope:
    """What a call says beside its messages: the same for all that have the same bytes there."""

    upstream: str
    model: str
    plan: windows.Plan
    fixed: bytes
    """Digest of system prompt and tools."""
    fixed_tokens: int
    root: bytes
    limits: bytes
    """See `_root`."""


@dataclass(frozen=True, slots=True)
class _Last:
    """What was sent for a request far below its threshold. While messages are only added, nothing has to be decided:
    the next one gets the same with them behind it."""

    end: int
    """Bytes of the body up to the end of its last message."""
    key: int
    """Their hash."""
    session: Session
    news: int
    """Of the session's beginning: see `Session.known`."""
    learned: int | None
    """Limit of the model."""
    rate: float
    """Tokens for each estimated one, 1 at least."""
    spare: int
    """Tokens up to half of the threshold."""
    dropped: int
    """Tokens that the whole history would have had more."""
    splice: tuple[int, bytes, int] | None
    """Bytes to the end of the head; the block and what is pinned; bytes to the first live message. None: it was sent as
    it came."""


class _More(msgspec.Struct):
    """A request that only added to an earlier one (`Prepared.state`)."""

    call: Call
    last: _Last
    limits: bytes


@dataclass(frozen=True, slots=True)
class _Sent:
    """What is known of a request while it is under way (`Prepared.state`)."""

    call: Call
    body: Body
    layout: Layout
    form: Format
    purpose: Purpose
    session: Session
    own: list[Slice]
    """Those that are the session's: a client's own compaction is no step of it."""
    seen: list[Slice]
    """Those that the view is of."""
    view: View
    whole: bool
    """Whether the request went out with its whole history."""
    limits: bytes
    """What the limit of its model is kept under."""

    def written(self, dialect: SliceDialect) -> Written:
        """The view as bytes."""
        trailing = self.purpose == "summary"
        return Written(
            self.call.api, self.body, self.form.messages, self.layout, dialect, self.seen, self.view, trailing
        )


class Engine:
    """All sessions of one proxy."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        logging.getLogger("cliff_core").addFilter(discreet)
        self._store = Store(settings.store)
        self._sessions = Sessions(self._store, settings.memory_bytes)
        self._slices = {api: Slices(api) for api in FORMATS}
        self._reader = Reader(self._slices, self._sessions.layouts)
        self._accounts = Accounts()
        self._recorder = Recorder(settings.record) if settings.record is not None else None
        self.recording = self._recorder is not None
        """Whether `answered` wants the bytes of replies (`--record`)."""
        self._lock = threading.Lock()
        self._plans: OrderedDict[tuple[str, int | None], windows.Plan] = OrderedDict()
        self._fixed: OrderedDict[tuple[int, ...], tuple[bytes, int]] = OrderedDict()
        self._counts: dict[str, int] = {}
        self._limits: dict[bytes, tuple[str, int]] = {}
        """Learned ones that are in use, with the names of their models: for `status`."""

    # --- one request -----------------------------------------------------------------------------------------

    def at_once(self, call: Call) -> Prepared | None:
        """The same as `prepare`, where it is little work: few bytes are new, and no cliff is near. What was learned is
        not written (`unwritten`). None for every other call."""
        if call.bypass:
            return None
        try:
            at, known = self._reader.known(call.api, call.body)
            added = self._more(call, known)
            if added is not None:
                self._count(added.action)
                return added
            earlier = self._reader.earlier(call.api, call.body, at)
            if earlier is None:
                return None
            _, layout, group = earlier
            seen = layout.ends[-1] if group is layout.groups[-1] else group.end  # as far as sizes tell
            new = len(call.body) - earlier.at - layout.around.size - seen
            if new > min(layout.room, AT_ONCE_BYTES):
                return None
            read = self._read(call, earlier)
            same = read.layout is not None and read.layout.envelope is not None
            if not same and formats.fixed_key(read.form, read.body) not in self._fixed:
                return None  # other tools, of which all tokens have to be counted
        except Exception:  # `prepare` says what is wrong with it
            return None
        return self._guarded(lambda: self._prepare(call, read))

    def prepare(self, call: Call) -> Prepared:
        """The bytes to send in place of a call's body."""
        if call.bypass:
            self._count("bypass")
            return Prepared(None, "bypass")
        prepared = self._guarded(lambda: self._prepared(call))
        self.write()
        return prepared

    def _prepared(self, call: Call) -> Prepared:
        at, known = self._reader.known(call.api, call.body)
        added = self._more(call, known)
        if added is not None:
            return added
        return self._prepare(call, self._read(call, self._reader.earlier(call.api, call.body, at)))

    def _read(self, call: Call, earlier: Earlier | None = None) -> Read:
        return self._reader.read(call.api, call.body, call.upstream, earlier)

    def _guarded(self, work: Callable[[], Prepared]) -> Prepared:
        try:
            prepared = work()
        except Unsplittable as error:
            prepared = Prepared(None, "pass", str(error))
        except Exception as error:  # fail open: the upstream must get what the client sent
            prepared = self._failed(error)
        self._count(prepared.action)
        return prepared

    def _more(self, call: Call, known: Sequence[Layout]) -> Prepared | None:
        """For a request that only adds to one of `known`, if it was noted what was sent for that. None where something
        may have to be decided or learned: then all is looked at."""
        if call.compact:
            return None
        body = call.body
        for layout in reversed(known):
            last: _Last | None = layout.last
            if last is None:
                continue
            whole, at, end = memoryview(body), last.end, len(body) - layout.around.size
            if end < at:
                continue
            if len(known) > 1 and quick_hash(whole[at - layout.tail_bytes : at]) != layout.tail:
                continue  # which is told sooner than by all of it
            if quick_hash(whole[:at]) == last.key and quick_hash(whole[end:]) == layout.around.behind:
                return self._added(call, layout, last, whole, at, end)
        return None

    def _added(self, call: Call, layout: Layout, last: _Last, whole: memoryview, at: int, end: int) -> Prepared | None:
        """The same, where the messages that were added lie between `at` and `end`."""
        size, body, envelope = end - at, call.body, layout.envelope
        if size > MORE_BYTES or size * last.rate > last.spare or last.news != last.session.beginning.news:
            return None
        if envelope.upstream != call.upstream or self._store.limit(envelope.limits) != last.learned:
            return None
        plain, key, messages = layout.plain
        if plain > size or quick_hash(whole[at : at + plain]) != key:
            plain = messages = 0
        added = more(body, at + plain, end)
        if added is None or _tells(body[at + plain : end]):
            return None
        messages += added
        if (size + messages * ELEMENT_TOKENS) * last.rate > last.spare:
            return None
        layout.plain = size, quick_hash(whole[at:end]), messages
        last.session.sent = max(last.session.sent, len(layout.ends) + messages)
        account: Account = last.session.account
        detail = f"session={account.id}; cliffs={account.sums.cliffs}"
        state = _More(call, last, envelope.limits)
        if last.splice is None:
            return Prepared(None, "pass", "", detail, state)
        head, middle, live = last.splice
        return Prepared(b"".join((whole[:head], middle, whole[live:])), "view", "", detail, state)

    @property
    def unwritten(self) -> bool:
        """Whether something was learned that is not in the store yet."""
        return bool(self._sessions.unwritten)

    def write(self) -> None:
        """Puts into the store what was learned, and lets go what is too much to keep."""
        self._sessions.write()
        self._sessions.trim()

    def _prepare(self, call: Call, read: Read) -> Prepared:
        form, body, layout = read.form, read.body, read.layout
        envelope = layout.envelope if layout is not None else None
        if envelope is None and (name := formats.stateful(form, body)) is not None:
            self._count(name)
            return Prepared(None, "pass", name)
        if layout is None:
            return Prepared(None, "pass", "no messages")
        if envelope is None:
            envelope = layout.envelope = self._envelope(call, form, body)
        plan, limits = envelope.plan, envelope.limits
        slices: list[Slice] = layout.slices
        purpose: Purpose = formats.purpose(slices[-1].message)
        if call.compact and purpose == "step":
            purpose = "trigger"
        own = slices if purpose == "step" or call.compact else slices[:-1]
        if not own:
            return Prepared(None, "pass", purpose)
        seen = own if purpose == "summary" else slices
        given: list[Fact] = [] if plan.limit is None else [_limit(plan.limit)]
        learned = self._store.limit(limits)
        if learned is not None:
            with self._lock:
                self._limits[limits] = envelope.model, learned
        dialect = self._slices[call.api].dialect
        session, warm, kin = self._sessions.find(envelope.root, own, envelope.fixed, plan.config, dialect, given)
        with session.lock:
            compactor = session.compactor
            least = _least(compactor.facts)
            if learned is not None and (least is None or learned < least):
                if warm or len(compactor.facts) > len(given):
                    compactor.limited(learned, len(own))
                else:
                    session.compactor = compactor = session.anew([*compactor.facts, _limit(learned)])
            view = compactor.view(seen, _steady(compactor.facts, envelope.fixed_tokens, purpose))
            if view.failed:
                return Prepared(None, "failed", "compaction failed (see the log)")
            self._sessions.learn(session, own)
            self._account(session, kin, call, body, envelope.model)
            layout.room = view.threshold - view.tokens
            self._sessions.lies(session, layout)
            known = session.known
        sent = _Sent(call, body, layout, form, purpose, session, own, seen, view, True, limits)
        if purpose != "step" and view.full_tokens <= _room(plan.room, self._store.limit(limits)):
            return Prepared(None, "pass", purpose, _detail(session, view), sent)
        prepared = self._out(sent)
        layout.last = self._last(sent, prepared, learned, known)
        return prepared

    def _last(self, sent: _Sent, prepared: Prepared, learned: int | None, known: int) -> _Last | None:
        view, session = sent.view, sent.session
        facts = session.compactor.facts
        if session.compactor.config.auto:
            return None  # the threshold changes with what the session grows by
        if session.beginning.longest > len(sent.own):
            return None  # a longer history was here before, and learned something
        if any(fact["at"] + (fact["kind"] == "usage") > view.size for fact in facts if fact["kind"] != "limit"):
            return None  # it acts on longer histories only
        # A limit that was learned just now acts from the next request on.
        least = _least(facts)
        threshold = view.threshold if least is None else min(view.threshold, room(least))
        spare = threshold // OBSERVED_SHARE - view.tokens
        if sent.purpose != "step" or view.cliff is not None or spare <= 0 or self.settings.shadow or self.recording:
            return None  # a cliff at the newest message may be decided again
        if _is_early(sent.own):
            return None
        written = sent.written(self._slices[sent.call.api].dialect)
        if sent.call.api == "anthropic" and written.may_be_marked():
            return None
        splice = written.splice(prepared.body) if prepared.body is not None else None
        if view.block is not None and splice is None:
            return None
        end = sent.layout.around.at + sent.layout.ends[-1]
        key = quick_hash(memoryview(sent.body.data)[:end])
        rate = max(1.0, view.tokens / max(1, view.estimate))
        if any(fact["kind"] == "usage" for fact in facts):
            rate = max(rate, RATIO_RANGE[1])  # what is added can count by another rate than what is there
        dropped = view.full_tokens - view.tokens
        return _Last(end, key, session, known, learned, rate, spare, dropped, splice)

    def _out(self, sent: _Sent, forced: bool = False) -> Prepared:
        """What goes out for a view."""
        view, session = sent.view, sent.session
        account: Account = session.account
        new = (view.cliff is not None or forced) and sent.purpose == "step"
        if new:
            self._accounts.cliff(account)
        detail = _detail(session, view)
        if self.settings.shadow:
            note = f"would send {view.tokens} of {view.full_tokens} tokens" if view.block is not None else ""
            return Prepared(None, "shadow", note, detail, sent)
        written = sent.written(self._slices[sent.call.api].dialect)
        if view.block is None:
            data = written.whole()
            if data is None:
                return Prepared(None, "pass", "", detail, sent)
            note = sent.purpose if sent.purpose != "step" else "cache breakpoint"
        else:
            data = written.with_block()
            note = sent.purpose if sent.purpose != "step" else ""
        action: Action = "forced" if forced else "cliff" if new else "view"
        return Prepared(data, action, note, detail, replace(sent, whole=view.block is None))

    # --- what came of it -------------------------------------------------------------------------------------

    def answered(self, prepared: Prepared, usage: Usage | None, reply: bytes | None = None, write: bool = True) -> None:
        """The request was answered; None where the provider reported no usage.

        `reply`: the decoded body of the response, JSON or a whole event stream; looked at only while `recording`.
        `write`: as for `prepare`."""
        sent = prepared.state
        if isinstance(sent, _More):
            if usage is not None and usage.input > 0:
                account: Account = sent.last.session.account
                self._accounts.enter(account, usage, usage.input + sent.last.dropped, usage.input)
                account.tokens = usage.input
                self._no_limit(sent.limits, usage)
            return
        if not isinstance(sent, _Sent):
            return
        try:
            if usage is not None and usage.input > 0:
                self._observe(sent, usage)
            if self._recorder is not None and reply is not None:
                account = sent.session.account
                self._recorder.write(account, sent.body.data, reply, prepared.action, sent.view, sent.whole)
        except Exception as error:  # the client has its answer
            self._failed(error)
        if write:
            self.write()

    def _observe(self, sent: _Sent, usage: Usage) -> None:
        view, session = sent.view, sent.session
        estimate, expected = view.estimate, view.tokens
        if sent.whole:
            estimate, expected = view.full_estimate, view.full_tokens
        low, high = USAGE_RANGE
        sound = low * estimate <= usage.input <= high * max(estimate, 1)
        if not sound:
            self._count("usage out of range")
        telling = OBSERVED_SHARE * view.tokens >= view.threshold or _is_early(sent.own)
        if sent.purpose == "step" and sound and telling and abs(usage.input - expected) * TOLERANCE > usage.input:
            with session.lock:
                if self._sessions.news(session, sent.own):
                    size = max(view.size, session.sent)
                    session.compactor.observe(replace(view, estimate=estimate, size=size), usage.input)
                    self._sessions.learn(session, sent.own)
        # What an estimate is off by is the same for both, in the main.
        full = usage.input + max(0, view.full_tokens - expected)
        would = min(usage.input, max(0, usage.input + view.tokens - expected)) if self.settings.shadow else usage.input
        self._accounts.enter(session.account, usage, full, would)
        self._no_limit(sent.limits, usage)

    def _no_limit(self, limits: bytes, usage: Usage) -> None:
        known = self._store.limit(limits)
        if known is not None and usage.input > known:
            self._store.set_limit(limits, None)
            with self._lock:
                self._limits.pop(limits, None)

    def overflowed(self, prepared: Prepared, rejection: Rejection) -> Prepared | None:
        """The request was rejected as too long: what to send instead, once; None where nothing is left to drop."""
        sent = prepared.state
        try:
            if isinstance(sent, _More):
                sent = self._prepare(sent.call, self._read(sent.call)).state
            if not isinstance(sent, _Sent) or self.settings.shadow:
                return None
            return self._overflowed(sent, rejection)
        except Exception as error:  # the client gets the provider's own error
            self._failed(error)
            return None
        finally:
            self.write()

    def _overflowed(self, sent: _Sent, rejection: Rejection) -> Prepared | None:
        limit = rejection.limit if rejection.limit is not None and rejection.limit >= LIMIT_LEAST else None
        session = sent.session
        rejected = sent.view.full_tokens if sent.whole else sent.view.tokens
        if sent.whole and sent.purpose != "step" and sent.view.tokens < rejected:
            smaller: View | None = sent.view  # it was sent untouched
        else:
            with session.lock:
                smaller = session.compactor.overflowed(sent.seen, limit)
                self._sessions.learn(session, sent.own)
        if limit is None and len(sent.body.data) <= BYTES_A_TOKEN * sent.view.full_tokens:
            limit = rejected
        if limit is not None:
            self._learn_limit(sent, limit)
        if smaller is None:
            return None
        self._count("forced")
        return self._out(replace(sent, view=smaller), forced=True)

    def _learn_limit(self, sent: _Sent, limit: int) -> None:
        known = self._store.limit(sent.limits)
        if limit >= LIMIT_LEAST and (known is None or limit < known):
            self._store.set_limit(sent.limits, limit)
            with self._lock:
                self._limits[sent.limits] = (sent.session.account.model, limit)

    # --- what is known ---------------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """For `/_cliff/status`: sessions with their cliffs, tokens and savings; problems; totals. Ready for JSON."""
        with self._lock:
            counts = dict(self._counts)
            limits = dict(self._limits.values())
        problems = [problem for problem in (self._store.problem, self._recorder and self._recorder.problem) if problem]
        for name in FORMATS["responses"].stateful:
            if counts.get(name):
                problems.append(
                    f"{counted(counts[name], 'request')} with {name} went through as sent: the provider keeps the "
                    "history, and only the client can shorten it"
                )
        if counts.get("failed"):
            problems.append(f"{counted(counts['failed'], 'request')} went on as sent, as our work failed: see the log")
        return {
            "sessions": self._accounts.as_list(),
            "problems": problems,
            "totals": {
                **self._accounts.totals.as_dict(self._accounts.priced),
                "sessions_in_memory": len(self._sessions),
                "actions": counts,
            },
            "limits": limits,
        }

    def close(self) -> None:
        """Write what is not yet written."""
        self._store.close()

    # --- helpers ---------------------------------------------------------------------------------------------

    def _plan(self, model: str, answer: int | None) -> windows.Plan:
        key = (model, answer)
        with self._lock:
            found = self._plans.get(key)
        if found is None:
            found = windows.plan(self.settings, model, answer)
            with self._lock:
                _keep(self._plans, key, found)
        return found

    def _envelope(self, call: Call, form: Format, body: Body) -> _Envelope:
        model = formats.model(body)
        plan = self._plan(model, windows.answer_class(formats.answer_tokens(form, body)))
        return _Envelope(call.upstream, model, plan, *self._fixed_part(form, body), *_root(call, model, plan))

    def _fixed_part(self, form: Format, body: Body) -> tuple[bytes, int]:
        """Digest and tokens of what is sent outside the messages."""
        key = formats.fixed_key(form, body)
        with self._lock:
            found = self._fixed.get(key)
            if found is not None:
                self._fixed.move_to_end(key)
                return found
        same, tokens = formats.fixed(form, body)
        found = digest(same), tokens
        with self._lock:
            _keep(self._fixed, key, found)
        return found

    def _account(self, session: Session, kin: Session | None, call: Call, body: Body, model: str) -> None:
        if session.account is not None:
            return
        label = formats.label(call.labels, body)
        of_kin: Account | None = kin.account if kin is not None else None
        # A branch: the client went back, changed its last words, or its tools before the model had spoken.
        if of_kin is not None and of_kin.label == label:
            session.account = of_kin
        else:
            begins = session.chain[min(session.head, len(session.chain) - 1)]  # the same after a restart
            session.account = self._accounts.open(begins.hex()[:8], label, call.api, model, windows.price_of(model))

    def _count(self, name: str) -> None:
        with self._lock:
            self._counts[name] = self._counts.get(name, 0) + 1

    def _failed(self, error: Exception) -> Prepared:
        logger.error("a request could not be worked on: %s", described(error))
        return Prepared(None, "failed", type(error).__name__)


def discreet(record: logging.LogRecord) -> bool:
    """Takes errors' own words out of a record of the core: they may quote a message."""
    record.exc_info = None
    if isinstance(record.args, tuple):
        record.args = tuple(described(arg) if isinstance(arg, BaseException) else arg for arg in record.args)
    return True


KEPT = 256
"""Plans and fixed parts that are remembered."""


def _keep(cache: OrderedDict[Any, Any], key: Any, value: Any) -> None:
    cache[key] = value
    while len(cache) > KEPT:
        cache.popitem(last=False)


def _root(call: Call, model: str, plan: windows.Plan) -> tuple[bytes, bytes]:
    """Digests of what all sessions have in common that can share anything, and of what shares a limit."""
    return _roots(call.api, call.upstream, model, plan.config, plan.limit)


@lru_cache(maxsize=256)
def _roots(api: str, upstream: str, model: str, config: CliffConfig, limit: int | None) -> tuple[bytes, bytes]:
    limits = digest(canonical([upstream, model]))
    return digest(canonical([api, limits.hex(), config.as_dict(), limit])), limits


def _room(window: int | None, limit: int | None) -> float:
    """Tokens that a request may have, by the model's window and by what it rejected."""
    known = [most for most in (window, None if limit is None else room(limit)) if most is not None]
    return min(known, default=float("inf"))


def _limit(tokens: int) -> Fact:
    return {"at": 0, "kind": "limit", "value": tokens}


def _least(facts: Sequence[Fact]) -> int | None:
    """The least limit that is known."""
    return min((fact["value"] for fact in facts if fact["kind"] == "limit"), default=None)


def _steady(facts: Sequence[Fact], tokens: int, purpose: Purpose) -> int:
    """The size of the fixed part, as noted where it changed by little, or for a request that is no step.

    Never 0: so every session that was seen has a fact, and is known after a restart."""
    last = next((fact["value"] for fact in reversed(facts) if fact["kind"] == "fixed"), None)
    if last is not None and (purpose != "step" or abs(tokens - last) * TOLERANCE <= last):
        return int(last)
    return max(1, tokens)


def _is_early(slices: Sequence[Slice]) -> bool:
    steps, before = 0, ""
    for one in slices:
        steps += one.message.role == "model" != before
        before = one.message.role
        if steps > FIRST_STEPS:
            return False
    return True


def _detail(session: Session, view: View) -> str:
    account: Account = session.account
    account.tokens, account.threshold, account.messages = view.tokens, view.threshold, view.size
    return f"session={account.id}; cliffs={account.sums.cliffs}; tokens={view.tokens}"

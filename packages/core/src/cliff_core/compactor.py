"""The fold over a history: which view of it is sent (DESIGN.md section 6)."""

from __future__ import annotations

import logging
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any, TypeGuard

from cliff_core import decision, tokens
from cliff_core.block import MESSAGE_TOKENS, Block, BlockWriter, Dropped
from cliff_core.config import CliffConfig
from cliff_core.content import Message, Opaque, Turn, counted
from cliff_core.decision import Grown, Reason
from cliff_core.dialects import Dialect
from cliff_core.sequences import common
from cliff_core.tokens import Calibration
from cliff_core.turns import head_end, starts_turn

logger = logging.getLogger("cliff_core")

Fact = dict[str, Any]
"""`{"at": messages in that request, "kind": …, "value": …}`: what cannot be derived from a history.

| kind | value | acts |
|---|---|---|
| `usage` | [reported tokens, estimated tokens] of the view that was sent | on decisions after `at` |
| `fixed` | tokens of system prompt and tool schemas outside the history | from `at` on |
| `limit` | tokens that the provider takes | from `at` on |
| `forced` | tokens of the view that was rejected | at `at` |
"""

FACT_KINDS = ("usage", "fixed", "limit", "forced")


@dataclass(frozen=True, slots=True)
class Cliff:
    """A compaction, as it is recorded. Token figures are of whole requests, corrected by reported usage."""

    number: int
    """Counts from 1 in the session."""
    cut: int
    """Messages of the history before this index are cut away (but for head and pinned ones)."""
    live_turns: int
    tokens_before: int
    tokens_after: int
    threshold: int
    """T_eff."""
    reason: Reason
    dropped: Dropped

    def as_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "number": self.number,
            "cut": self.cut,
            "live_turns": self.live_turns,
            "tokens_before": self.tokens_before,
            "tokens_after": self.tokens_after,
            "threshold": self.threshold,
            "reason": self.reason,
            "dropped": {name: getattr(self.dropped, name) for name in Dropped.__slots__},
        }


@dataclass(frozen=True, slots=True)
class View:
    """What to send in place of a history."""

    messages: list[Any]
    """The host's own message objects, but for the block."""
    tokens: int
    """Size of the whole request, corrected by reported usage."""
    threshold: int
    """T_eff: the size above which the next cliff comes."""
    cliff: Cliff | None = None
    """The cliff that this view begins with; on the first view of a growth segment only."""
    size: int = 0
    """Messages of the history that it is a view of."""
    estimate: int = 0
    """Size of the whole request before correction."""
    full_estimate: int = 0
    """The same if the whole history were sent."""
    full_tokens: int = 0
    """The same, corrected by reported usage."""
    head: int = 0
    """Messages of the history in the head."""
    cut: int = 0
    """History index of the first live message; equal to `head` before the first cliff."""
    block: str | None = None
    """Text of the block; None before the first cliff."""
    pinned: tuple[int, ...] = ()
    """History indices of the messages that are pinned."""
    failed: bool = False
    """Compaction could not be done: `messages` is the history itself, and nothing was counted."""


@dataclass(frozen=True, slots=True)
class _State:
    """What the last cliff decided."""

    number: int = 0
    cut_turn: int = 0
    block: Block | None = None
    cliff: Cliff | None = None


@dataclass(frozen=True, slots=True)
class _Known:
    """The facts that act at a point."""

    facts: int = 0
    """How many of the facts, in the order in which they act, were taken in."""
    calibration: Calibration = field(default_factory=Calibration)
    fixed: int = 0
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class _Checkpoint:
    at: int
    state: _State
    known: _Known


class Compactor:
    """Folds a growing history into views; one object a session.

    `dialect` is a message format (`cliff_core.dialects.dialect`), `facts` what an earlier object had learned
    (`Compactor.facts`): a new object with the same facts gives the same views. Work per call is proportional
    to what was appended. Not safe for use by several threads at once.

    It never raises for a history: where compaction cannot be done, the view is the history itself and a
    warning is logged (logger `cliff_core`)."""

    def __init__(
        self,
        dialect: Dialect,
        config: CliffConfig,
        facts: Iterable[Fact] = (),
        count_many: Callable[[Sequence[str]], list[int]] = tokens.count_many,
    ) -> None:
        if isinstance(dialect, str):
            raise TypeError(f"pass dialect({dialect!r}), the object, in place of its name")
        self.dialect = dialect
        self.config = config
        self._count_many = count_many
        self._plain: Callable[[Any], Any] = getattr(dialect, "plain", _plain)
        self._writer = BlockWriter(config, lambda text: count_many([text])[0])
        self._facts: list[Fact]
        self._forced: dict[int, int]  # at -> tokens of the smallest view rejected there
        self._fixed: list[tuple[int, int]]
        self._set_facts(map(_checked, facts))
        self._told = self._asked = False
        self._history: list[Any]
        self._messages: list[Message]
        self._prefix: list[int]
        """Tokens of the first n messages."""
        self._head: int | None
        self._starts: list[int]
        """Where turns begin."""
        self._turns: list[Turn]
        """Complete turns, as far as they were needed."""
        self._checkpoints: list[_Checkpoint]
        """One for each turn but the first, before which there is nothing to cut."""
        self._reset()

    @property
    def facts(self) -> list[Fact]:
        """Facts learned so far, for JSON, in the order in which they act."""
        return [dict(fact) for fact in self._facts]

    def view(self, history: Sequence[Any], fixed_tokens: int = 0) -> View:
        """The view of a history that was appended to since the last call (or not: then the fold starts again
        from the last checkpoint before the first difference).

        `fixed_tokens`: system prompt and tool schemas that are sent outside the history."""
        try:
            self._take(history)
            self._fix(fixed_tokens)
            return self._view()
        except Exception as error:  # fail open: the host must get what it would have sent without us
            return self._failed(history, fixed_tokens, error)

    def observe(self, view: View, input_tokens: int | None) -> None:
        """The provider counted `input_tokens` for a view, cache reads and writes included.

        None and 0 (a provider that reports nothing) are ignored; what is no whole number as well, with a warning."""
        if not input_tokens or view.estimate <= 0:
            return
        if not _whole(input_tokens) or input_tokens < 0:
            logger.warning("cliff: %r is no number of tokens and is ignored", input_tokens)
            return
        # A report that comes after later requests were sent must not change their decisions.
        at = max(view.size, len(self._messages))
        self._learn({"at": at, "kind": "usage", "value": [input_tokens, view.estimate]})

    def limited(self, limit: int, at: int) -> None:
        """The provider is known to take `limit` tokens, from the request with `at` messages on (another session
        learned it); not on one that was seen: what was sent stays what it was."""
        self._learn(_checked({"at": max(at, len(self._messages) + 1), "kind": "limit", "value": limit}))

    def overflowed(self, history: Sequence[Any], limit: int | None = None) -> View | None:
        """The view of `history` was rejected as too long: the next smaller one; None when nothing is left to
        drop. `limit`: tokens that the provider takes, where it said so.

        Can be called again when that view is rejected too."""
        kept_facts, kept_checkpoints = list(self._facts), list(self._checkpoints)
        try:
            self._take(history)
            rejected = self._view()
            at = self._point()
            known = limit if _whole(limit) and limit > 0 else rejected.tokens
            kept_facts, kept_checkpoints = list(self._facts), list(self._checkpoints)
            self._rewind(at, keep_forced=True)
            self._learn({"at": at, "kind": "limit", "value": known})
            self._learn({"at": at, "kind": "forced", "value": rejected.tokens})
            smaller = self._view()
            if smaller.tokens < rejected.tokens:
                return smaller
        except Exception as error:  # fail open: the host shows its own error
            logger.warning("cliff: the rejected request could not be made smaller (%r)", error)
            self._reset()
            self._set_facts(kept_facts)
            return None
        self._checkpoints = kept_checkpoints
        self._set_facts(kept_facts)
        return None

    # --- what is known of the history ----------------------------------------------------------------------

    def _reset(self) -> None:
        self._history, self._messages, self._prefix = [], [], [0]
        self._head = None
        self._starts, self._turns, self._checkpoints = [], [], []

    def _take(self, history: Sequence[Any]) -> None:
        """Make `history` the known one: drop what differs, parse and count what is new."""
        history = list(history)
        same = self._same(history)
        if same < len(self._history):
            self._rewind(same)
        # Later calls are compared with the newest objects: a host keeps those.
        self._history = history
        new = [self.dialect.parse(self._plain(message)) for message in self._history[same:]]
        if not new:
            return
        texts: list[str] = []
        parts: list[tuple[int, int]] = []
        for message in new:
            its, known = counted(message.contents) if not message.tokens else ([], 0)
            parts.append((len(its), known))
            texts += its
        counts = iter(self._count_many(texts))
        for message, (number, known) in zip(new, parts, strict=True):
            if not message.tokens:  # else the dialect counts
                message = message.with_tokens(MESSAGE_TOKENS + known + sum([next(counts) for _ in range(number)]))
            self._messages.append(message)
            self._prefix.append(self._prefix[-1] + message.tokens)
        if self._head is None:
            self._head = head_end(self._messages)
            if self._head is None:
                return
            same = self._head
        self._starts += [
            index for index in range(same, len(self._messages)) if index == self._head or self._starts_turn(index)
        ]

    def _starts_turn(self, index: int) -> bool:
        return self._head is not None and index > self._head and starts_turn(self._messages, index)

    def _same(self, history: list[Any]) -> int:
        """How many of the first messages are those already known, cache markers aside."""
        same = common(history, self._history)
        while same < min(len(history), len(self._history)):
            one, other = self._plain(history[same]), self._plain(self._history[same])
            if self.dialect.canonical(one) != self.dialect.canonical(other):
                break
            same = common(history, self._history, same + 1)
        return same

    def _rewind(self, size: int, keep_forced: bool = False) -> None:
        """Forget what depends on messages from index `size` on, a decision at `size` included."""
        while self._checkpoints and self._checkpoints[-1].at >= size:
            self._checkpoints.pop()
        if keep_forced:
            return
        if any(at > size for at in self._forced):  # it was forced on a history that is no more
            self._set_facts(f for f in self._facts if f["kind"] != "forced" or f["at"] <= size)
        del self._messages[size:], self._prefix[size + 1 :]
        if self._head is not None and self._head >= size:
            self._head = None
        while self._starts and (self._head is None or self._starts[-1] >= size):
            self._starts.pop()
        while self._turns and self._turns[-1].end >= size:
            self._turns.pop()

    def _turns_before(self, at: int) -> list[Turn]:
        """All turns of the first `at` messages; complete ones are built once."""
        while len(self._turns) + 1 < len(self._starts):
            number = len(self._turns)
            start, end = self._starts[number], self._starts[number + 1]
            self._turns.append(Turn(number + 1, start, tuple(self._messages[start:end])))
        number = bisect_left(self._starts, at)
        turns = self._turns[:number]
        if len(turns) < number or (turns and turns[-1].end > at):  # the newest one still grows
            start = self._starts[number - 1]
            turns[number - 1 :] = [Turn(number, start, tuple(self._messages[start:at]))]
        return turns

    # --- facts ---------------------------------------------------------------------------------------------

    def _fix(self, fixed_tokens: int) -> None:
        """Note a change of the fixed part. The first figure of a session holds for all of it."""
        fixed_tokens = max(0, int(fixed_tokens))
        size = len(self._history)
        known = [value for at, value in self._fixed if at <= size]
        if fixed_tokens != (known[-1] if known else 0):
            at = size if self._fixed or self._asked else 0
            self._learn({"at": at, "kind": "fixed", "value": fixed_tokens})
        self._asked = True

    def _learn(self, fact: Fact) -> None:
        insort(self._facts, fact, key=_acts)
        self._index(fact)

    def _index(self, fact: Fact) -> None:
        if fact["kind"] == "fixed":
            insort(self._fixed, (fact["at"], fact["value"]), key=itemgetter(0))
        elif fact["kind"] == "forced":
            self._forced[fact["at"]] = min(fact["value"], self._forced.get(fact["at"], fact["value"]))

    def _set_facts(self, facts: Iterable[Fact]) -> None:
        self._facts = sorted(facts, key=_acts)
        self._forced = {}
        self._fixed = []
        for fact in self._facts:
            self._index(fact)

    def _known_at(self, known: _Known, at: int) -> _Known:
        while known.facts < len(self._facts) and _acts(fact := self._facts[known.facts]) <= at:
            kind, value = fact["kind"], fact["value"]
            if kind == "usage":
                known = replace(known, calibration=known.calibration.with_pair(value[1], value[0]))
            elif kind == "fixed":
                known = replace(known, fixed=value)
            elif kind == "limit":
                known = replace(known, limit=value if known.limit is None else min(known.limit, value))
            known = replace(known, facts=known.facts + 1)
        return known

    # --- the fold ------------------------------------------------------------------------------------------

    def _point(self) -> int:
        """Where the decision for the history as a whole falls: after it, or before the model step at its end."""
        size = len(self._messages)
        if size and self._starts and self._messages[-1].role == "model":
            return self._starts[-1]
        return size

    def _view(self) -> View:
        state, known = _State(), _Known()
        if self._checkpoints:
            state, known = self._checkpoints[-1].state, self._checkpoints[-1].known
        # The first turn start needs no decision: before it there is only the head.
        for number in range(len(self._checkpoints) + 1, len(self._starts)):
            at = self._starts[number]
            known = self._known_at(known, at)
            state = self._decide(at, state, known)
            self._checkpoints.append(_Checkpoint(at, state, known))
        at = self._point()
        if not self._checkpoints or at > self._checkpoints[-1].at:
            known = self._known_at(known, at)
            state = self._decide(at, state, known)
        return self._render(state, self._known_at(known, len(self._messages)), at)

    def _sizes(self, state: _State, known: _Known, end: int) -> tuple[int, int, int]:
        """Estimates for the first `end` messages: the whole request; of it, what stands before the turns (system
        prompt, tools, head); the pinned messages."""
        head = len(self._messages) if self._head is None else self._head
        fixed = known.fixed + self._prefix[head]
        live = self._prefix[end] - self._prefix[self._cut(state)]
        if state.block is None:
            return fixed + live, fixed, 0
        return fixed + state.block.tokens + state.block.pinned_tokens + live, fixed, state.block.pinned_tokens

    def _cut(self, state: _State) -> int:
        head = len(self._messages) if self._head is None else self._head
        return state.cliff.cut if state.cliff is not None else head

    def _decide(self, at: int, state: _State, known: _Known) -> _State:
        if self._head is None or at <= self._head:
            return state
        rejected = self._forced.get(at)
        if rejected is None and self._messages[at - 1].role == "trigger":
            return state  # a request to the provider itself asks for no model step: it gets the view as it stands
        estimate, fixed, pinned = self._sizes(state, known, at)
        corrected = known.calibration.corrected
        if rejected is None and corrected(estimate) <= self._threshold(corrected(fixed + pinned), known, at):
            return state
        cut = decision.cliff(
            self._turns_before(at),
            self.config,
            fixed,
            since=state.cut_turn,
            block_tokens=state.block.tokens if state.block is not None else 0,
            pinned_tokens=pinned,
            limit=known.limit,
            rejected=rejected,
            corrected=corrected,
            writer=self._writer,
            growth=self._grown(known, at),
        )
        if cut is None:
            return state
        index = self._starts[cut.index] if cut.index < len(self._starts) else at
        return _State(
            number=state.number + 1,
            cut_turn=cut.index,
            block=cut.block,
            cliff=Cliff(
                number=state.number + 1,
                cut=min(index, at),
                live_turns=cut.live_turns,
                tokens_before=cut.tokens_before,
                tokens_after=cut.tokens_after,
                threshold=cut.threshold,
                reason=cut.reason,
                dropped=cut.block.dropped,
            ),
        )

    def _threshold(self, fixed: int, known: _Known, at: int) -> int:
        return decision.effective_threshold(self.config, fixed, known.limit, self._grown(known, at))

    def _grown(self, known: _Known, at: int) -> Grown | None:
        """What the session has grown by before a point; None where nobody asks."""
        if not self.config.auto or self._head is None or at <= self._head:
            return None
        corrected, before = known.calibration.corrected, known.fixed + self._prefix[self._head]
        tokens = corrected(known.fixed + self._prefix[at]) - corrected(before)
        return Grown(bisect_left(self._starts, at), tokens)

    def _render(self, state: _State, known: _Known, at: int) -> View:
        history = self._history
        estimate, fixed, pinned = self._sizes(state, known, len(self._messages))
        corrected = known.calibration.corrected
        threshold = self._threshold(corrected(fixed + pinned), known, at)
        if not self.config.auto and threshold > self.config.first_threshold and not self._told:
            self._told = True
            logger.warning(
                "cliff: threshold_tokens=%d is too small here: system prompt, tools and task leave too little room; "
                "%d is used, the smallest that works",
                self.config.first_threshold,
                threshold,
            )
        head = len(history) if self._head is None else self._head
        full = known.fixed + self._prefix[-1]
        view = View(
            messages=list(history),
            tokens=corrected(estimate),
            threshold=threshold,
            size=len(history),
            estimate=estimate,
            full_estimate=full,
            full_tokens=corrected(full),
            head=head,
            cut=head,
        )
        if state.block is None or state.cliff is None:
            return view
        cliff = state.cliff
        return replace(
            view,
            messages=self._assembled(head, state.block, cliff.cut),
            cliff=cliff if self._decided_here(state, at) else None,
            cut=cliff.cut,
            block=state.block.text,
            pinned=state.block.pinned,
        )

    def _decided_here(self, state: _State, at: int) -> bool:
        """Whether the cliff of `state` was decided at point `at` and not at an earlier one."""
        earlier = [c for c in self._checkpoints[-2:] if c.at < at]
        return not earlier or earlier[-1].state.number < state.number

    def _assembled(self, size: int, block: Block, cut: int) -> list[Any]:
        """Head, block, pinned messages and live turns, in an order that is legal in the API."""
        head, parsed = self._history[:size], self._messages[:size]
        index = max(self.dialect.block_index(parsed), _after_compaction(parsed))
        front, end_of_head = head[:index], head[index:]
        ahead, others = block.pinned[: block.ahead], block.pinned[block.ahead :]
        if ahead:
            # The provider ignores what stands before its compaction: the block stands behind it.
            end = len(ahead)
            while self._messages[ahead[end - 1]].role == "system":
                end -= 1
            front = [*head, *map(self._history.__getitem__, ahead[:end])]
            end_of_head = [self._history[i] for i in ahead[end:]]
        merged = None
        if self.config.merge_block and not ahead:
            last = max((i for i, message in enumerate(parsed) if message.role == "user"), default=None)
            if last is not None and last < index:
                merged = self.dialect.merge_block(self._plain(front[last]), block.text)
            if merged is not None and last is not None:
                front[last] = merged
        if merged is None:
            front.append(self.dialect.block_message(block.text))
        rest = [*others, *range(cut, len(self._history))]
        if end_of_head:  # it stays right before the model's first message
            first = next((n for n, i in enumerate(rest) if self._messages[i].role == "model"), len(rest))
            attached, rest = rest[:first], rest[first:]
            return [
                *front,
                *map(self._history.__getitem__, attached),
                *end_of_head,
                *map(self._history.__getitem__, rest),
            ]
        return [*front, *map(self._history.__getitem__, rest)]

    def _failed(self, history: Sequence[Any], fixed_tokens: int, error: Exception) -> View:
        logger.warning("cliff: the history is sent as it is: it could not be compacted (%r)", error, exc_info=error)
        self._reset()
        return View(list(history), 0, self.config.first_threshold, size=len(history), head=len(history), failed=True)


def _after_compaction(head: Sequence[Message]) -> int:
    """Index behind the newest provider compaction of a head (its history began with one); 0 if it has none."""
    for index in range(len(head) - 1, -1, -1):
        if any(isinstance(content, Opaque) and content.kind == "compaction" for content in head[index].contents):
            return index + 1
    return 0


def _acts(fact: Fact) -> int:
    """From which decision point on a fact acts: usage is known once its request was answered."""
    at: int = fact["at"]
    return at + 1 if fact["kind"] == "usage" else at


def _checked(fact: Any) -> Fact:
    try:
        at, kind, value = fact["at"], fact["kind"], fact["value"]
        numbers = value if kind == "usage" else [value]
        least = 0 if kind == "fixed" else 1
        sound = len(fact) == 3 and kind in FACT_KINDS and _whole(at) and at >= 0
        if sound and len(numbers) == (2 if kind == "usage" else 1) and all(_whole(n) and n >= least for n in numbers):
            return {"at": at, "kind": kind, "value": list(value) if kind == "usage" else value}
    except (TypeError, KeyError):
        pass
    kinds = ", ".join(FACT_KINDS)
    raise ValueError(f"not a fact of a session: {fact!r}; expected at, kind ({kinds}) and value, in whole tokens")


def _whole(number: object) -> TypeGuard[int]:
    return isinstance(number, int) and not isinstance(number, bool)


def _plain(message: Any) -> Any:
    """A message as a dict: clients hand out objects of pydantic, and hosts append them to their histories.

    Raises TypeError for another object: counted as a few characters it would hide how large a request is."""
    if message is None or isinstance(message, (dict, str, int, float, list, tuple)):
        return message
    dump = getattr(message, "model_dump", None)
    if callable(dump):
        return dump(exclude_none=True)
    if isinstance(message, Mapping):
        return dict(message)
    raise TypeError(f"a message is a {type(message).__name__}; pass dicts, or objects with model_dump()")

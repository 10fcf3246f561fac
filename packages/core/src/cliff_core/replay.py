"""Replay a recorded session: what each policy would have sent at each of its model requests.

All policies are counted by one meter, which is brought to the provider's tokens where the file has
recorded usage (`measure`): so their figures compare with each other, and with a bill. What the model
wrote is taken as recorded, whatever a policy would have shown it: a replay tells what a policy sends and
costs on the same work, not whether the model would have done that work.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from cliff_core import decision
from cliff_core.compactor import Cliff, View
from cliff_core.config import CliffConfig
from cliff_core.dialects import dialect
from cliff_core.ledger import Account, CacheRules, Entry, Ledger, Meter
from cliff_core.policies import CliffPolicy, Full, Policy
from cliff_core.prices import Model
from cliff_core.support import Needs, Support, Watch
from cliff_core.tokens import Calibration
from cliff_core.traces import Session

RATIO_REQUESTS = 10
"""Reported requests from which the ratio is taken."""

FixedSource = Literal["recorded", "stored", "unknown"]


@dataclass(frozen=True, slots=True)
class Scale:
    """How our counts of a session become the provider's."""

    fixed_tokens: int
    """System prompt, tool schemas, and whatever else each request had beside the messages."""
    fixed_source: FixedSource
    """`recorded`: what the first recorded usage has beyond the messages; `stored`: counted from the file;
    `unknown`: the file has neither, 0."""
    ratio: float = 1.0
    """Provider's tokens for each further one of ours."""
    ratio_requests: int = 0
    """Recorded requests that the ratio was taken from; 0: not from recorded ones."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """Recorded usage, beside policy `full` on the same requests. Tokens."""

    requests: int
    """Requests that can be compared."""
    input_tokens: int
    cached_tokens: int | None
    """None where the provider did not report it."""
    full_tokens: int

    @property
    def difference(self) -> float:
        """How far `full` is from the recorded input, as a share of that."""
        return self.full_tokens / self.input_tokens - 1


@dataclass(frozen=True, slots=True)
class Result(Account):
    """One policy on one session."""

    policy: str
    entries: tuple[Entry, ...]
    """One a request."""
    cliffs: tuple[tuple[int, Cliff], ...] = ()
    """Compactions, each with the number of its request (from 1)."""
    threshold: int | None = None
    """The largest T_eff: above the configured threshold where that was too small, below it where the provider
    takes less. With `auto` the newest. Policy `cliff` only."""
    smallest_threshold: int | None = None
    """The smallest threshold that never has to be raised in this session. Policy `cliff` only."""
    auxiliary: tuple[Entry, ...] = ()
    """Requests that the policy made for itself."""
    compactions: tuple[int, ...] = ()
    """Requests (from 1) that begin with a compaction, of any policy."""
    support: Support = field(default_factory=Support)
    note: str = ""
    """What every output must say of its figures."""


@dataclass(frozen=True, slots=True)
class Replay:
    """One session under several policies."""

    session: Session
    config: CliffConfig
    scale: Scale
    full: Result
    """The baseline, whether or not it was asked for."""
    results: dict[str, Result]
    """By policy, in the order asked for."""
    recorded: Recorded | None


def replay(
    session: Session,
    policies: Sequence[Policy],
    config: CliffConfig,
    rules: CacheRules | None = None,
    limit: int | None = None,
    price_ratio: float | None = None,
) -> Replay:
    """Run all policies over a session, one request after the other.

    `limit`: tokens that the provider takes (`limit_of`), None where that is not known. `price_ratio`: that of the
    session's prices (`Tariff.cache_price_ratio`), for `threshold_tokens = "auto"`."""
    for policy in policies:
        if isinstance(policy, CliffPolicy):
            policy.price_ratio = price_ratio
    meter, scale = _meter(session)
    needs = Needs.of(session, meter, _stored(session))
    results = {policy.name: _run(session, policy, config, meter, scale, needs, rules, limit) for policy in policies}
    full = results.get("full") or _run(session, Full(config), config, meter, scale, needs, rules, limit)
    return Replay(session, config, scale, full, results, _recorded(session, full))


def view_at(session: Session, policy: CliffPolicy, request: int, limit: int | None = None) -> tuple[View, Meter]:
    """What policy `cliff` sends at one request (from 1), with the meter that it was counted by."""
    meter, scale = _meter(session)
    policy.start(session, meter, limit)
    view = None
    for known in session.requests[:request]:
        view = policy.view(session.messages[: known.at], scale.fixed_tokens).view
    if view is None:
        raise ValueError(f"nothing could be compacted at request {request}")
    return view, meter


def _meter(session: Session) -> tuple[Meter, Scale]:
    """What counts a session in the provider's tokens."""
    meter = Meter(dialect(session.dialect))
    meter.read(session.messages)
    scale = measure(session, meter)
    meter = meter.corrected(scale.ratio)
    meter.read(session.messages)
    return meter, scale


def measure(session: Session, meter: Meter) -> Scale:
    """Fixed part and ratio of a session; `meter` counts without a ratio.

    With recorded usage of requests that sent the full context: the ratio is the growth of the recorded figure
    over the growth of ours from the first to the tenth (`tokens.Calibration`: 1 until there are 1 000 tokens of
    growth, and never outside 0.5 to 2), and the fixed part is what the first figure has beyond its messages,
    never below 0. So `full` begins at the recorded figure and grows at its pace; what a session does later
    is not fitted. The ratio is of texts alone. Without: what the file stores of system prompt and tools."""
    reported = _reported(session)
    if not reported:
        stored = _stored(session)
        if not stored:
            return Scale(0, "unknown")
        return Scale(sum(meter.count_many(stored)), "stored")
    sums = [(0, 0)]
    for message in session.messages[: reported[-1][0]]:
        texts, other = meter.raw(message)
        sums.append((sums[-1][0] + texts, sums[-1][1] + other))
    calibration = Calibration()
    for at, recorded in reported[:RATIO_REQUESTS]:
        texts, other = sums[at]
        calibration = calibration.with_pair(texts, recorded - other)
    ratio = calibration.ratio
    at, recorded = reported[0]
    first = sum(map(meter.corrected(ratio).tokens, session.messages[:at]))
    return Scale(max(0, recorded - first), "recorded", ratio, min(len(reported), RATIO_REQUESTS))


def model_of(session: Session) -> str | None:
    """The session's model; where requests name several and the session none, the one of most requests."""
    if session.model:
        return session.model
    named = Counter(request.model for request in session.requests if request.model)
    return named.most_common(1)[0][0] if named else None


def limit_of(model: Model | None) -> int | None:
    """The model's limit (`decision.window_limit`); None where its window is not known."""
    return None if model is None else decision.window_limit(model.context_window, model.max_output)


def _reported(session: Session) -> list[tuple[int, int]]:
    """Messages and recorded input tokens of the requests that can be compared."""
    return [
        (request.at, request.usage.input_tokens)
        for request in session.requests[: session.comparable]
        if request.usage is not None and request.usage.input_tokens > 0
    ]


def _stored(session: Session) -> list[str]:
    """Texts of system prompt and tools, where they are beside the messages."""
    system = session.system
    texts = [system] if isinstance(system, str) else [str(b.get("text", "")) for b in system or ()]
    if session.tools:
        texts.append(json.dumps(session.tools, ensure_ascii=False, separators=(",", ":")))
    return [text for text in texts if text]


def _run(
    session: Session,
    policy: Policy,
    config: CliffConfig,
    meter: Meter,
    scale: Scale,
    needs: Needs,
    rules: CacheRules | None,
    limit: int | None,
) -> Result:
    policy.start(session, meter, limit)
    ledger, watch = Ledger(meter, rules), Watch(needs, meter)
    compactions: list[int] = []
    cliffs: list[tuple[int, Cliff]] = []
    smallest = threshold = None
    auto = isinstance(policy, CliffPolicy) and policy.config.auto
    for number, request in enumerate(session.requests, 1):
        view = policy.view(session.messages[: request.at], scale.fixed_tokens)
        for auxiliary in view.auxiliary:
            ledger.assist(auxiliary.messages, auxiliary.output, scale.fixed_tokens)
        ledger.enter(view.messages, scale.fixed_tokens)
        watch.see(view.messages)
        if view.compacted:
            compactions.append(number)
        if view.cliff is not None:
            cliffs.append((number, view.cliff))
        if view.view is not None:
            fixed = scale.fixed_tokens + _kept(view.view, session, meter)
            smallest = max(smallest or 0, decision.smallest_threshold(config, fixed))
            newest = view.view.threshold
            threshold = newest if auto else max(threshold or 0, newest)
    return Result(
        policy.name,
        tuple(ledger.entries),
        tuple(cliffs),
        threshold,
        smallest,
        auxiliary=tuple(ledger.auxiliary),
        compactions=tuple(compactions),
        support=watch.support,
        note=policy.note,
    )


def _kept(view: View, session: Session, meter: Meter) -> int:
    """Tokens of head and pinned messages: with the fixed part, what no cliff can free."""
    indices = (*range(view.head), *view.pinned)
    return sum(meter.tokens(session.messages[index]) for index in indices)


def _recorded(session: Session, full: Result) -> Recorded | None:
    requests = recorded = ours = 0
    cached: int | None = None
    for request, entry in zip(session.requests[: session.comparable], full.entries, strict=False):
        if request.usage is None or request.usage.input_tokens <= 0:
            continue
        requests += 1
        recorded += request.usage.input_tokens
        ours += entry.tokens
        if request.usage.cached_tokens is not None:
            cached = (cached or 0) + request.usage.cached_tokens
    return Recorded(requests, recorded, cached, ours) if requests else None

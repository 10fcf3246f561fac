"""The threshold that costs least: in closed form, and by replaying.

**In closed form** (`closed_form`): the cost of a request of a long session, and the threshold at which it is least.
`Growth.cost` is the same for a session of a given length, whose first segment grows from F and which may end before the
first cliff.

**By replay**: policy `cliff` at each of some thresholds, and with `threshold_tokens = "auto"`. The closed form takes
growth as even, and a and b from a line through the median sizes after cliffs at those thresholds; the replay knows
better, at the price of running. `auto` has the same formula and knows no replay, and only what was sent so far.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from cliff_core.closed_form import Bound, Course
from cliff_core.config import AUTO
from cliff_core.ledger import Tariff
from cliff_core.replay import Replay, Result
from cliff_core.support import Support

THRESHOLDS = (8_000, 12_000, 16_000, 24_000, 32_000, 48_000, 64_000, 96_000, 128_000, 192_000)
"""What is tried where nobody says."""

FINE = 1.02
"""Step between thresholds that the closed form is evaluated at."""


ONLINE = f"cliff@{AUTO}"
"""The policy that sets its threshold as it goes."""


def names(thresholds: Sequence[int]) -> tuple[str, ...]:
    """Policies to replay (`policies` knows `cliff@TOKENS`)."""
    return (*(f"cliff@{threshold}" for threshold in thresholds), ONLINE, "full")


@dataclass(frozen=True, slots=True)
class Growth:
    """What the closed form knows of a session. Tokens."""

    requests: int
    fixed: float
    """F: what no cliff frees. (The first request: nothing else is in it.)"""
    per_request: float
    """g: growth of the full context, a request."""
    after: tuple[float, float] | None
    """a and b: after a cliff there are a + b · T; None: no threshold that was tried had a cliff."""
    smallest: int = 0
    """The smallest threshold that works here: a smaller one is raised to it."""
    bound: Bound | None = None
    """`Course.bound`."""

    @classmethod
    def of(cls, replay: Replay) -> Growth:
        """Of a session that was replayed with the policies of `names`."""
        entries = replay.full.entries
        first, last = entries[0].tokens, entries[-1].tokens
        sizes: dict[int, float] = {}  # by T_eff
        smallest = 0
        for result in by_threshold(replay).values():
            smallest = max(smallest, result.smallest_threshold or 0)
            if result.compactions and result.threshold:
                after = [result.entries[number - 1].tokens for number in result.compactions]
                sizes[result.threshold] = median(after)
        raised = 0 if replay.config.exact else smallest
        growth = (last - first) / max(1, len(entries) - 1)
        return cls(len(entries), first, growth, _line(sizes), raised, Bound.of(replay.config, growth))

    @property
    def course(self) -> Course | None:
        """None: nothing is known to be freed."""
        return None if self.after is None else Course(self.fixed, self.per_request, self.after, self.bound)

    def best(self, tariff: Tariff) -> float:
        """T*: the threshold at which a request of a long session costs least, at least the smallest that works;
        infinity: none does better than full context, as nothing is known to be freed or what is in the cache costs
        nothing."""
        course = self.course
        if course is None or tariff.cached <= 0:
            return math.inf
        return course.best(_uncached(tariff) / tariff.cached, self.smallest)

    def cost(self, threshold: float, tariff: Tariff) -> float:
        """Dollars of input of the whole session at a threshold; at infinity that of full context. A threshold below
        what a cliff leaves cannot be held: it is as if it were that."""
        after, length = self.fixed, self.requests  # of the segments after the first
        first = self.requests
        course = self.course
        if course is not None and self.per_request > 0:
            threshold = max(threshold, self.smallest, course.least)
            if not math.isinf(threshold):
                after = course.left(threshold)
                first = min(first, self._length(self.fixed, threshold))
                length = self._length(after, threshold)
        segments, rest = divmod(self.requests - first, length) if length else (0, 0)
        cost = self._segment(self.fixed, 0.0, first, tariff)
        cost += segments * self._segment(after, self.fixed, length, tariff)
        cost += self._segment(after, self.fixed, rest, tariff)
        return cost / 1_000_000

    def _length(self, start: float, threshold: float) -> int:
        """Requests up to the threshold."""
        return max(1, math.floor((threshold - start) / self.per_request) + 1)

    def _segment(self, start: float, held: float, length: int, tariff: Tariff) -> float:
        """Cost of `length` requests, the first with `held` of its `start` tokens in the cache, each other with the
        one before it."""
        if not length:
            return 0.0
        sent = _sum(start, self.per_request, length)
        held += _sum(start, self.per_request, length - 1)
        return tariff.cached * held + _uncached(tariff) * (sent - held)


MOST_SLOPE = 0.9
"""b is at most this: a cliff frees something."""


def _line(sizes: dict[int, float]) -> tuple[float, float] | None:
    """a and b of the line of least squares; flat where there is one size alone, or where sizes fall."""
    if not sizes:
        return None
    x = sum(sizes) / len(sizes)
    y = sum(sizes.values()) / len(sizes)
    spread = sum((one - x) ** 2 for one in sizes)
    b = sum((one - x) * (size - y) for one, size in sizes.items()) / spread if spread else 0.0
    b = min(max(b, 0.0), MOST_SLOPE)
    return max(0.0, y - b * x), b


def _sum(start: float, growth: float, length: int) -> float:
    """Sizes of `length` requests together, the first of `start` tokens."""
    return length * start + growth * length * (length - 1) / 2


def _uncached(tariff: Tariff) -> float:
    return tariff.input if tariff.write is None else tariff.write


def by_threshold(replay: Replay) -> dict[int, Result]:
    """Results of the policies that `names` names."""
    found = ((name.partition("@")[2], result) for name, result in replay.results.items() if name != ONLINE)
    return {int(threshold): result for threshold, result in found if threshold}


@dataclass(slots=True)
class Point:
    """All sessions at one threshold."""

    closed: float = 0.0
    """Cost in closed form: dollars, or the units of `ledger.RELATIVE`."""
    replayed: float = 0.0
    cliffs: int = 0
    peak_tokens: int = 0
    support: Support = field(default_factory=Support)

    def add(self, result: Result, tariff: Tariff) -> None:
        """A session, replayed."""
        self.replayed += result.cost(tariff)
        self.cliffs += len(result.compactions)
        self.peak_tokens = max(self.peak_tokens, result.peak_tokens)
        self.support += result.support


@dataclass(slots=True)
class Tuning:
    """Adds sessions up; one number a threshold is kept, and a few of each session's growth."""

    thresholds: tuple[int, ...]
    sessions: int = 0
    requests: int = 0
    full: Point = field(default_factory=Point)
    auto: Point = field(default_factory=Point)
    """With `threshold_tokens = "auto"`; it has no cost in closed form of its own."""
    points: dict[int, Point] = field(default_factory=dict)
    smallest: list[int] = field(default_factory=list)
    """The smallest workable threshold of each session."""
    raises: bool = True
    """Each session raises a smaller threshold to its own (preset `paper` does not)."""
    largest: int = 0
    """Tokens of the largest request with full context."""
    curve: dict[int, float] = field(default_factory=dict)
    """Closed form at `thresholds`, and at others between them, `FINE` apart."""
    last: tuple[Growth, Tariff] | None = None
    """Of the newest session."""

    def add(self, replay: Replay, tariff: Tariff) -> None:
        """A session that was replayed with the policies of `names`, and has requests."""
        growth = Growth.of(replay)
        self.last = growth, tariff
        self.sessions += 1
        self.requests += growth.requests
        self.smallest.append(max(result.smallest_threshold or 0 for result in by_threshold(replay).values()))
        self.raises = not replay.config.exact
        self.largest = max(self.largest, replay.full.peak_tokens)
        self.full.replayed += replay.full.cost(tariff)
        self.full.closed += growth.cost(math.inf, tariff)
        self.full.support += replay.full.support
        self.full.peak_tokens = self.largest
        for threshold, result in by_threshold(replay).items():
            point = self.points.setdefault(threshold, Point())
            point.closed += growth.cost(threshold, tariff)
            point.add(result, tariff)
        if ONLINE in replay.results:
            self.auto.add(replay.results[ONLINE], tariff)
        for threshold in _fine(self.thresholds):
            self.curve[threshold] = self.curve.get(threshold, 0.0) + growth.cost(threshold, tariff)

    def raised(self, threshold: int) -> int:
        """Sessions in which this threshold is raised."""
        return sum(smallest > threshold for smallest in self.smallest) if self.raises else 0

    @property
    def best_closed(self) -> int | None:
        """The threshold of least cost in closed form, of all sessions together, each with its own where that is
        `raised`; None: full context costs no more."""
        threshold = min(self.curve, key=lambda one: (self.curve[one], one), default=None)
        return threshold if threshold is not None and self.curve[threshold] < self.full.closed else None

    @property
    def best_replayed(self) -> int | None:
        """The threshold of least cost among those that were replayed; None: full context costs no more."""
        threshold = min(self.points, key=lambda one: (self.points[one].replayed, one), default=None)
        return threshold if threshold is not None and self.points[threshold].replayed < self.full.replayed else None


def _fine(thresholds: Sequence[int]) -> list[int]:
    found, value = set(thresholds), float(min(thresholds))
    while value <= max(thresholds):
        found.add(round(value))
        value *= FINE
    return sorted(found)

"""What a threshold costs, in closed form: one formula, for `cliff tune` and for `threshold_tokens = "auto"`.

A session sends F tokens that never go (system prompt, tools, head, pins) and grows by g tokens a request. Above a
threshold T it is cut to S tokens; S = a + b · T, since a larger segment leaves a larger block. A growth segment is the
requests S, S + g, … up to T: n = (T − S) / g + 1 of them, of (S + T) / 2 tokens on average. All of S but F is new after
a cliff, and g in each other request; so, with c and u the prices of a cached and an uncached token, a request costs

    c · (S + T) / 2  +  (u − c) · (T − F) / n

which is least, with y = T − S + g, at

    y* = √(2 · g · (a − g − (1 − b) · F) / (1 + b) · (u − c) / c),   T* = (y* − g + a) / (1 − b)

So a steeper session, a larger rest and dearer uncached input all call for fewer cliffs.

Preset `default` keeps fewer turns where a + b · T would leave less than `min_gain` of T − F free: then S is
F + (1 − `min_gain`) · (T − F), and at least what always stays (`Bound`). So S has three pieces, each a line. The least
is at the smallest threshold that may be taken, at T* of a piece, or where two pieces meet: `best` compares these.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from cliff_core.config import CliffConfig

EXCERPT_TOKENS = 200.0
"""What a turn that was cut away adds to the view after the cliff: its excerpts, and its part of the lists of names and
words. (In 12 recorded sessions of 40 requests and more a block has 187 tokens for each turn that it covers, by the
median of the cliffs at 32 000 and 64 000. With 120 or 250 the cost under `auto` differs by less than 1 % on average.)
Never more than the turn itself."""


LIST_CHARS = 3
"""Characters of the list of names for a token."""


@dataclass(frozen=True, slots=True)
class Bound:
    """Preset `default`: what a view after a cliff may have."""

    gain: float
    """`min_gain`."""
    stays: float
    """Tokens beside F that always stay."""

    @classmethod
    def of(cls, config: CliffConfig, per_request: float) -> Bound | None:
        """The newest turn and the list of names always stay. None: the view after a cliff may be of any size (preset
        `paper`)."""
        if config.exact:
            return None
        return cls(config.min_gain, per_request + config.path_index_chars / LIST_CHARS)


@dataclass(frozen=True, slots=True)
class Course:
    """How the requests of a session grow and are cut. Tokens."""

    fixed: float
    """F: what no cliff frees."""
    per_request: float
    """g: growth of the full context, a request."""
    after: tuple[float, float]
    """a and b: after a cliff there are a + b · T."""
    bound: Bound | None = None

    @classmethod
    def expected(cls, config: CliffConfig, fixed: float, per_request: float) -> Course:
        """Where the sizes after cliffs are not known: F, the live turns, and the excerpts of those that were cut."""
        share = min(1.0, EXCERPT_TOKENS / per_request) if per_request > 0 else 1.0
        after = (fixed + config.keep_turns * per_request) / (1 + share), share / (1 + share)
        return cls(fixed, per_request, after, Bound.of(config, per_request))

    def left(self, threshold: float) -> float:
        """S: what a cliff at a threshold leaves."""
        a, b = self.after
        left = a + b * threshold
        if self.bound is not None:
            left = min(left, self.fixed + max(self.bound.stays, (1 - self.bound.gain) * (threshold - self.fixed)))
        return max(self.fixed, left)

    @property
    def least(self) -> float:
        """The smallest threshold that can be held: one below it is as if it were this."""
        a, b = self.after
        held = a / (1 - b)
        return max(self.fixed, held if self.bound is None else min(held, self.fixed + self.bound.stays))

    def cost(self, threshold: float, ratio: float) -> float:
        """Of a request of a long session, in cached tokens. `ratio`: price of uncached by that of cached input."""
        left, growth = self.left(threshold), self.per_request
        between = max(0.0, threshold - left)
        if between + growth <= 0:
            return left
        return (left + threshold) / 2 + (ratio - 1) * growth * (threshold - self.fixed) / (between + growth)

    def best(self, ratio: float, smallest: float) -> float:
        """The threshold at which a request of a long session costs least, at least `smallest`; infinity where what is
        in the cache costs nothing (`ratio` is infinite)."""
        if math.isinf(ratio):
            return math.inf
        smallest = max(smallest, self.least)
        a, b = self.after
        found = [smallest, self._turning(a, b, ratio)]
        if self.bound is not None:
            flat = self.fixed + self.bound.stays
            found += [self._turning(flat, 0.0, ratio), self.fixed + self.bound.stays / (1 - self.bound.gain)]
            found += [(flat - a) / b] if b > 0 else []
        return min((one for one in found if one >= smallest), key=lambda one: (self.cost(one, ratio), one))

    def _turning(self, a: float, b: float, ratio: float) -> float:
        """T* of sizes a + b · T."""
        rest = max(0.0, a - self.per_request - (1 - b) * self.fixed)
        segment = math.sqrt(2 * max(0.0, self.per_request) * rest / (1 + b) * max(0.0, ratio - 1))
        return (segment - self.per_request + a) / (1 - b)

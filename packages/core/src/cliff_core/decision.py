"""The one decision (DESIGN.md section 4): whether to cut now, where, and what the block keeps."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import Literal

from cliff_core import tokens
from cliff_core.block import Block, BlockWriter, Draft
from cliff_core.closed_form import Course
from cliff_core.config import CACHE_PRICE_RATIO, FREE_CACHE, CliffConfig
from cliff_core.content import Turn
from cliff_core.turns import pair

Reason = Literal["threshold", "limit", "forced"]

HEADROOM_TOKENS = 2_000
"""What a view needs beside its fixed part to be worth a threshold (DESIGN.md section 4: T_min)."""

LEAST_ROOM = 0.15
"""Share of a raised threshold that is left beside its fixed part (docs/defaults.md): with less, cliffs come so often
that what each makes new costs more; with more, the segments do."""

LEAST_GAIN = 0.25
"""Share of a rejected view that a forced cliff frees; and share of what a threshold leaves beside the fixed part that a
cliff must free where none leaves `min_gain` free."""

LIMIT_SHARE = 0.95
"""Share of a known limit of the provider up to which a prompt may grow: counts differ by a few percent."""

WINDOW_MARGIN = 20
"""One part in so many of a model's window stays free beside the answer: 5 %."""

AUTO_TURNS = 5
"""With `auto`, turns from which on a session's growth is taken from them: fewer are noise."""

AUTO_LEAST, AUTO_MOST = 8_000, 192_000
"""Bounds of the thresholds that `auto` takes, as of those that `cliff tune` tries where nobody says: below, a view
keeps little more than its newest turn. A model's limit, where it is known, takes the place of the upper one."""

AUTO_STEP = 1_000
"""Above its least, `auto` takes multiples of this, so that it changes with a session's course, not at each turn."""


@dataclass(frozen=True, slots=True)
class Grown:
    """What a session has grown by so far, for `auto`: all turns up to a checkpoint that the host still knows. Tokens as
    the provider counts them."""

    turns: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Cut:
    """A cliff that was decided. Token figures are corrected ones (see `cliff`)."""

    index: int
    """Position among the turns of the first live one."""
    block: Block
    live_turns: int
    tokens_before: int
    tokens_after: int
    threshold: int
    reason: Reason


def smallest_threshold(config: CliffConfig, fixed_tokens: int) -> int:
    """T_min: the smallest threshold that works with `fixed_tokens` of system prompt, tools, head and pins."""
    return math.ceil((fixed_tokens + HEADROOM_TOKENS) / (1 - LEAST_ROOM))


def _goal(tokens: int, fixed_tokens: int, gain: float) -> int:
    """What a view may have at most, so that `gain` of what `tokens` leave beside the fixed part is free."""
    return fixed_tokens + math.floor((1 - gain) * max(0, tokens - fixed_tokens))


def room(limit: int) -> int:
    """Tokens up to which a prompt may grow where the provider takes `limit`."""
    return math.floor(LIMIT_SHARE * limit)


def window_limit(window: int | None, answer: int | None) -> int | None:
    """A model's limit, so that T_eff is never above window - longest answer - 5 % of the window, where these are
    known (DESIGN.md section 4): that is `room` of it, exactly. None: the window is not known, or too small for any.

    `window` and `answer` are the most tokens that the model reads and writes. An answer counts at most half of the
    window: for some models the tables have the whole window there."""
    if not isinstance(window, int) or window <= 0:
        return None
    answer = min(answer, window // 2) if isinstance(answer, int) and answer > 0 else 0
    left = window - answer - -(-window // WINDOW_MARGIN)
    if left <= 0:
        return None
    limit = math.ceil(left / LIMIT_SHARE)
    return limit if room(limit) >= left else limit + 1


def effective_threshold(
    config: CliffConfig, fixed_tokens: int, limit: int | None = None, growth: Grown | None = None
) -> int:
    """T_eff: the configured threshold, raised to T_min, never above what the provider is known to take.

    With `auto`, the configured threshold is the one that costs least in closed form (`closed_form`) for a session of
    this fixed part and growth. It is a function of what stands before the checkpoint alone, so that a cold fold gives
    the same. Until `AUTO_TURNS` are known it is that of somebody who sets none (`config.AUTO_START`)."""
    threshold = config.first_threshold
    if config.auto:
        threshold = max(threshold, smallest_threshold(config, fixed_tokens))
        if growth is not None and growth.turns >= AUTO_TURNS:
            threshold = _auto(config, fixed_tokens, limit, growth)
    if not config.exact:
        threshold = max(threshold, smallest_threshold(config, fixed_tokens))
    return threshold if limit is None else min(threshold, room(limit))


def _auto(config: CliffConfig, fixed_tokens: int, limit: int | None, growth: Grown) -> int:
    most = AUTO_MOST if limit is None else room(limit)
    smallest = max(AUTO_LEAST, smallest_threshold(config, fixed_tokens))
    course = Course.expected(config, fixed_tokens, growth.tokens / growth.turns)
    ratio = CACHE_PRICE_RATIO if config.cache_price_ratio is None else config.cache_price_ratio
    best = course.best(math.inf if ratio >= FREE_CACHE else ratio, smallest)
    if best <= smallest or smallest >= most:
        return smallest
    return most if best >= most else min(most, math.ceil(best / AUTO_STEP) * AUTO_STEP)


def cliff(
    turns: Sequence[Turn],
    config: CliffConfig,
    fixed_tokens: int,
    *,
    since: int = 0,
    block_tokens: int = 0,
    pinned_tokens: int = 0,
    legal: Container[int] | None = None,
    limit: int | None = None,
    rejected: int | None = None,
    corrected: Callable[[int], int] = lambda estimate: estimate,
    carried_names: Sequence[str] = (),
    writer: BlockWriter | None = None,
    growth: Grown | None = None,
) -> Cut | None:
    """Decide at a checkpoint: after the last turn, before a model step.

    Args:
        turns: all turns known, counted; their messages' tokens are estimates.
        fixed_tokens: estimate for everything before the turns: system prompt, tool schemas, head.
        since: position of the first turn that is live now: earlier ones had their block.
        block_tokens: estimate for the block that is in the view now (as a message).
        pinned_tokens: estimate for the messages pinned in the view now.
        legal: positions (0…len(turns)) at which the host allows a cut; None: wherever no call waits.
        limit: tokens that the provider is known to take, in its own count.
        rejected: tokens of the view that was just rejected: force a cliff to a smaller one.
        corrected: estimate of a whole request -> what the provider will count.
        carried_names: names index of an earlier block whose turns the host has forgotten.
        writer: keeps excerpts between calls; one is made when absent.
        growth: what the session has grown by, for `threshold_tokens = "auto"`.

    Returns:
        The cut, or None where the view stays as it is.
    """
    estimate = fixed_tokens + block_tokens + pinned_tokens + sum(turn.tokens for turn in turns[since:])
    before = corrected(estimate)
    fixed = corrected(fixed_tokens + pinned_tokens)
    threshold = effective_threshold(config, fixed, limit, growth)
    if rejected is None and before <= threshold:
        return None
    writer = writer or BlockWriter(config, tokens.count)
    _, open_cuts = pair(turns[since:])
    allowed = [
        position
        for position in range(since, len(turns) + 1)
        if position - since in open_cuts and (legal is None or position in legal)
    ]
    suffix = [0] * (len(turns) - since + 1)
    for position in range(len(turns) - 1, since - 1, -1):
        suffix[position - since] = suffix[position - since + 1] + turns[position].tokens

    drafts: dict[int, Draft] = {}

    def draft(index: int) -> Draft:
        if index not in drafts:
            drafts[index] = writer.draft(turns, since, index, carried_names)
        return drafts[index]

    def after(index: int, dropped: int = 0) -> int:
        return corrected(fixed_tokens + draft(index).tokens(dropped) + suffix[index - since])

    def chosen(index: int, dropped: int, reason: Reason) -> Cut:
        return Cut(
            index=index,
            block=draft(index).block(dropped),
            live_turns=len(turns) - index,
            tokens_before=before,
            tokens_after=after(index, dropped),
            threshold=threshold,
            reason=reason,
        )

    def options(most: int, least: int, first: int) -> list[int]:
        """Cuts that keep `most` turns, then fewer. Where the host allows no cut, more turns stay."""
        found: dict[int, None] = {}
        for keep in range(most, least - 1, -1):
            index = max((p for p in allowed if first <= p <= len(turns) - keep), default=None)
            if index is not None:
                found[index] = None
        return list(found)

    def fitting(options: list[int], goal: int, reason: Reason) -> Cut | None:
        """The first option of at most `goal` tokens, else the last one without its oldest excerpts."""
        for index in options:
            if after(index) <= goal:
                return chosen(index, 0, reason)
        if options:
            index = options[-1]
            for dropped in range(1, len(draft(index).excerpts) + 1):
                if after(index, dropped) <= goal:
                    return chosen(index, dropped, reason)
        return None

    if rejected is not None:
        # A view that was rejected: turns go before excerpts, and all excerpts before the last turn.
        smaller = min(before, rejected)
        goal = min(threshold, math.floor((1 - LEAST_GAIN) * smaller))
        live, none_live = options(config.keep_turns, 1, since), options(0, 0, since)
        cut = fitting(live, goal, "forced") or fitting(none_live, goal, "forced")
        if cut is None and (none_live or live):
            index = (none_live or live)[-1]
            cut = chosen(index, len(draft(index).excerpts), "forced")
        return cut if cut is not None and cut.tokens_after < smaller else None

    unlimited = effective_threshold(config, fixed, None, growth)
    reason: Reason = "limit" if threshold < unlimited else "threshold"
    if config.exact:
        live = options(config.keep_turns, config.keep_turns, since + 1)
        return chosen(live[0], 0, reason) if live else None
    live = options(config.keep_turns, 1, since + 1)
    cut = fitting(live, _goal(threshold, fixed, config.min_gain), reason)
    if cut is None and live:
        index = live[-1]
        cut = chosen(index, len(draft(index).excerpts), reason)
        # Never more than LEAST_GAIN: the requests until so much can go are above the threshold.
        gain = threshold - _goal(threshold, fixed, min(config.min_gain, LEAST_GAIN))
        if cut.tokens_before - cut.tokens_after < max(1, gain):
            return None
    return cut

"""The one decision (DESIGN.md section 4): whether to cut now, where, and what the block keeps."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import Literal

from cliff_core import tokens
from cliff_core.block import Block, BlockWriter, Draft
from cliff_core.config import CliffConfig
from cliff_core.content import Turn
from cliff_core.turns import pair

Reason = Literal["threshold", "limit", "forced"]

HEADROOM_TOKENS = 2_000
"""What a view needs beside its fixed part to be worth a threshold (DESIGN.md section 4: T_min)."""

LEAST_GAIN = 0.25
"""Share of the budget that a raised threshold and a forced cliff leave free whatever `min_gain` says."""

LIMIT_SHARE = 0.95
"""Share of a known limit of the provider up to which a prompt may grow: counts differ by a few percent."""


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
    return math.ceil((fixed_tokens + HEADROOM_TOKENS) / (1 - max(config.min_gain, LEAST_GAIN)))


def effective_threshold(config: CliffConfig, fixed_tokens: int, limit: int | None = None) -> int:
    """T_eff: the configured threshold, raised to T_min, never above what the provider is known to take."""
    threshold = config.threshold_tokens
    if not config.exact:
        threshold = max(threshold, smallest_threshold(config, fixed_tokens))
    return threshold if limit is None else min(threshold, math.floor(LIMIT_SHARE * limit))


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
    carried_paths: Sequence[str] = (),
    writer: BlockWriter | None = None,
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
        carried_paths: path index of an earlier block whose turns the host has forgotten.
        writer: keeps excerpts between calls; one is made when absent.

    Returns:
        The cut, or None where the view stays as it is.
    """
    estimate = fixed_tokens + block_tokens + pinned_tokens + sum(turn.tokens for turn in turns[since:])
    before = corrected(estimate)
    threshold = effective_threshold(config, corrected(fixed_tokens + pinned_tokens), limit)
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
            drafts[index] = writer.draft(turns, since, index, carried_paths)
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
        goal = min(threshold, math.floor((1 - max(config.min_gain, LEAST_GAIN)) * smaller))
        live, none_live = options(config.keep_turns, 1, since), options(0, 0, since)
        cut = fitting(live, goal, "forced") or fitting(none_live, goal, "forced")
        if cut is None and (none_live or live):
            index = (none_live or live)[-1]
            cut = chosen(index, len(draft(index).excerpts), "forced")
        return cut if cut is not None and cut.tokens_after < smaller else None

    reason: Reason = (
        "limit" if threshold < effective_threshold(config, corrected(fixed_tokens + pinned_tokens)) else "threshold"
    )
    if config.exact:
        live = options(config.keep_turns, config.keep_turns, since + 1)
        return chosen(live[0], 0, reason) if live else None
    live = options(config.keep_turns, 1, since + 1)
    cut = fitting(live, math.floor((1 - config.min_gain) * threshold), reason)
    if cut is None and live:
        index = live[-1]
        cut = chosen(index, len(draft(index).excerpts), reason)
        if cut.tokens_before - cut.tokens_after < max(1, math.ceil(config.min_gain * threshold)):
            return None
    return cut

"""Encrypted reasoning has a size only in what the provider reported, where it counts at all."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from cliff_core.traces.session import Request


def spread(items: list[dict[str, Any]], tokens: int | None) -> list[dict[str, Any]]:
    """The items of one response with its reported reasoning tokens on its reasoning items (`_reasoning_tokens`, a
    private key that is not sent), shared out by the size of their encrypted content."""
    sizes = [len(item.get("encrypted_content") or "") + 1 if item.get("type") == "reasoning" else 0 for item in items]
    whole = sum(sizes)
    if not tokens or not whole:
        return items
    spread_items = []
    given = seen = 0
    for item, size in zip(items, sizes, strict=True):
        if size:
            seen += size
            share = tokens * seen // whole - given
            given += share
            item = {**item, "_reasoning_tokens": share}
        spread_items.append(item)
    return spread_items


def settle(messages: list[dict[str, Any]], requests: Sequence[Request]) -> None:
    """Set `_reasoning_tokens` to 0 where the recorded prompts prove that reasoning was not sent again, or not counted
    (some gateways drop it): where a prompt grew by less than the answer before it had tokens."""
    for before, after in itertools.pairwise(requests):
        if before.usage is None or after.usage is None or not before.usage.reasoning_tokens:
            continue
        between = messages[before.at : after.at]
        if any(message.get("role") == "user" for message in between):
            continue  # earlier reasoning may go when a person speaks
        grown = after.usage.input_tokens - before.usage.input_tokens
        written = before.usage.output_tokens or 0
        if 0 <= grown < written - before.usage.reasoning_tokens // 2 and before.usage.reasoning_tokens >= _CLEAR:
            messages[:] = [
                {**message, "_reasoning_tokens": 0} if "_reasoning_tokens" in message else message
                for message in messages
            ]
            return


_CLEAR = 100
"""Reasoning tokens from which on such a gap cannot be a different framing of the same messages."""

"""How large a request of a model may grow: its threshold, and what its window takes."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TypeVar

from cliff_core import CliffConfig, decision, prices
from cliff_core.config import Threshold
from cliff_proxy.settings import Settings

logger = logging.getLogger("cliff_proxy")

Value = TypeVar("Value")

THRESHOLD_MOST = 128_000
WINDOW_SHARE = 0.6
WINDOW_UNKNOWN = 128_000
"""Tokens that a model is taken to have whose name says nothing: what it rejects teaches more (`Store.limit`)."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is decided for one model and size of answer."""

    config: CliffConfig
    """With the model's threshold."""
    limit: int | None
    """Tokens that the provider takes (`decision.window_limit`). None: the window is not known."""

    @property
    def room(self) -> int | None:
        """Tokens that a request may have: the core leaves a share of a limit free."""
        return None if self.limit is None else decision.room(self.limit)


def plan(settings: Settings, model: str, answer: int | None) -> Plan:
    """The threshold of a model, in this order: `thresholds`, a `threshold_tokens` that was given,
    min(128 000, 0.6 x window); for `auto` with the prices of the model. `answer`: tokens that the request asks for at
    most (`answer_class`).

    The threshold is not lowered to the limit here: the core does it, and says so."""
    window, most = window_of(settings.windows, model)
    chosen: Threshold | None = matching(settings.thresholds, model)
    if chosen is None and settings.threshold_given:
        chosen = settings.config.threshold_tokens
    if chosen is None:
        chosen = max(1, min(THRESHOLD_MOST, math.floor(WINDOW_SHARE * (window or WINDOW_UNKNOWN))))
        if window is None:
            _say_unknown(model, chosen)
    # The model's own figure first: some clients ask for another number of tokens at each request, and a session has
    # one plan.
    limit = decision.window_limit(window, most or answer)
    config = settings.config.replace(threshold_tokens=chosen)
    return Plan(prices.priced(config, model), limit)


def answer_class(asked: int | None) -> int | None:
    """A number of tokens that a client asks for, rounded up to a power of two, so that small changes change nothing."""
    return None if asked is None or asked <= 0 else 1 << (min(asked, 2**30) - 1).bit_length()


def window_of(windows: Mapping[str, int], model: str) -> tuple[int | None, int | None]:
    """Window and longest answer of a model, in tokens; None: not known."""
    known = _lookup(model)
    most = known.max_output if known is not None else None
    given = matching(windows, model)
    if given is not None:
        return given, most
    return (known.context_window if known is not None else None), most


@lru_cache(maxsize=256)
def _lookup(model: str) -> prices.Model | None:
    return prices.lookup(model) if model else None


@lru_cache(maxsize=1_000)  # once in the life of a process
def _say_unknown(model: str, threshold: int) -> None:
    logger.warning(
        "model %.120r is in no table: its window is taken to be %d tokens, its threshold is %d; set `windows` or "
        "`thresholds` for it (litellm in the same environment brings a longer table)",
        model,
        WINDOW_UNKNOWN,
        threshold,
    )


def price_of(model: str) -> prices.Price | None:
    """Dollars per million tokens; None: not known."""
    known = _lookup(model)
    return known.price if known is not None else None


def matching(by_model: Mapping[str, Value], model: str) -> Value | None:
    """The value of the first glob that a model's name matches; the exact name before all globs."""
    if model in by_model:
        return by_model[model]
    return next((value for glob, value in by_model.items() if fnmatchcase(model, glob)), None)

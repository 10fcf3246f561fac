"""What a policy would send in place of a growing history: one protocol, one class a policy, one module each.

A policy is replayed for comparison only; what an adapter runs is `cliff_core.Compactor`."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable

from cliff_core.config import CliffConfig, ConfigError
from cliff_core.policies.authors import Authors
from cliff_core.policies.base import Auxiliary, Policy, PolicyError, PolicyView, Settings
from cliff_core.policies.clear_tools import ClearTools
from cliff_core.policies.cliff import CliffPolicy
from cliff_core.policies.full import Full
from cliff_core.policies.microcompact import Microcompact
from cliff_core.policies.sliding import Sliding
from cliff_core.policies.summarize import StandIn, Summarize, Summarizer

__all__ = [
    "POLICIES",
    "Authors",
    "Auxiliary",
    "ClearTools",
    "CliffPolicy",
    "Full",
    "Microcompact",
    "Policy",
    "PolicyError",
    "PolicyView",
    "Settings",
    "Sliding",
    "StandIn",
    "Summarize",
    "Summarizer",
    "policies",
]

POLICIES: dict[str, Callable[[CliffConfig, Settings | None], Policy]] = {
    "full": Full,
    "sliding": Sliding,
    "summarize": Summarize,
    "microcompact": Microcompact,
    "clear-tools": ClearTools,
    "authors": Authors,
    "cliff": CliffPolicy,
}
"""By name (DESIGN.md section 7)."""


def policies(names: Iterable[str], config: CliffConfig, settings: Settings | None = None) -> list[Policy]:
    """The policies of these names, each once, in their order; `NAME@TOKENS` is one at a threshold of its own,
    `cliff@auto` one that sets its own. Raises PolicyError for an unknown one, or none, or one that needs something that
    is missing, and for `auto` of another policy: none has it."""
    made: list[Policy] = []
    for name in dict.fromkeys(names):
        base, at, threshold = name.partition("@")
        if base not in POLICIES:
            near = difflib.get_close_matches(base, POLICIES, n=1)
            hint = f"did you mean {near[0]}?" if near else "known are " + ", ".join(POLICIES)
            raise PolicyError(f"unknown policy {name!r}; {hint}")
        own = config
        if at:
            try:
                own = config.replace(threshold_tokens=threshold)
            except ConfigError as error:
                raise PolicyError(f"policy {name!r}: {error}") from None
            if own.auto and base != CliffPolicy.name:
                raise PolicyError(f"policy {name!r}: only cliff has auto; give a number of tokens, as in {base}@16000")
        policy = POLICIES[base](own, settings)
        policy.name = name
        made.append(policy)
    if not made:
        raise PolicyError("no policy is named; known are " + ", ".join(POLICIES))
    return made

"""All that is used of the OpenHands SDK, and what differs between its releases (1.21.0 to 1.58.2).

Whoever imports this module imports the SDK, which takes seconds: `cliff_openhands` itself does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from openhands.sdk.agent import AgentBase  # type: ignore[import-not-found]
from openhands.sdk.context.condenser import (  # type: ignore[import-not-found]
    LLMSummarizingCondenser,
    RollingCondenser,
)
from openhands.sdk.context.condenser.base import (  # type: ignore[import-not-found]
    CondensationRequirement,
    NoCondensationAvailableException,
)
from openhands.sdk.context.view import View  # type: ignore[import-not-found]
from openhands.sdk.context.view.properties import ALL_PROPERTIES  # type: ignore[import-not-found]
from openhands.sdk.conversation import BaseConversation  # type: ignore[import-not-found]
from openhands.sdk.event import (  # type: ignore[import-not-found]
    ActionEvent,
    AgentErrorEvent,
    Condensation,
    CondensationSummaryEvent,
    MessageEvent,
    ObservationBaseEvent,
    ObservationEvent,
    SystemPromptEvent,
    UserRejectObservation,
)

__all__ = [
    "ActionEvent",
    "AgentBase",
    "AgentErrorEvent",
    "BaseConversation",
    "Condensation",
    "CondensationRequirement",
    "CondensationSummaryEvent",
    "LLMSummarizingCondenser",
    "MessageEvent",
    "NoCondensationAvailableException",
    "ObservationBaseEvent",
    "ObservationEvent",
    "RollingCondenser",
    "SystemPromptEvent",
    "UserRejectObservation",
    "View",
    "allowed_cuts",
    "enforced",
    "window",
]


def enforced(events: Sequence[Any], known: Sequence[Any] | None = None) -> list[Any]:
    """The events that a reload would keep: the SDK's own properties, applied until nothing changes.

    `known` are all events of which `events` are left (default: `events`). The SDK applies its properties when a
    conversation is loaded (1.21: at each step), not to each event as it comes: a live view may hold an observation
    that has no call, or a second one for a call. `View.enforce_properties` does the same, but warns each time."""
    kept = list(events)
    known = kept if known is None else known
    while True:
        for rule in ALL_PROPERTIES:
            gone = rule.enforce(kept, known)
            if gone:
                kept = [event for event in kept if event.id not in gone]
                break
        else:
            return kept


def allowed_cuts(events: Sequence[Any]) -> set[int]:
    """Indices 0…len(events) at which the SDK allows a cut. `events` must be `enforced`: in 1.34.0 an observation
    without a call is a KeyError here."""
    view = View()
    view.events = list(events)
    return set(view.manipulation_indices)


def window(llm: Any) -> tuple[int | None, int | None]:
    """Tokens that the agent's model reads and writes at most, where they are known."""
    return (
        _positive(llm, "effective_max_input_tokens") or _positive(llm, "max_input_tokens"),
        _positive(llm, "effective_max_output_tokens") or _positive(llm, "max_output_tokens"),
    )


def _positive(llm: Any, name: str) -> int | None:
    value = getattr(llm, name, None)
    return value if isinstance(value, int) and value > 0 else None

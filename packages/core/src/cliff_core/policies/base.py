"""The protocol of all policies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from cliff_core.compactor import Cliff, View
from cliff_core.ledger import Meter
from cliff_core.traces import Session


class PolicyError(ValueError):
    """A policy cannot be had: its name is unknown (the text names the nearest), or a part of it is missing (the text
    says how to get it)."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What policies other than `cliff` can be told. Their threshold and the turns that they keep live are those of
    `CliffConfig`, so that all compare."""

    summary_share: float = 0.1
    """Share of each text that the stand-in for a summarizing model keeps (0 to 1)."""
    clear_keep: int = 3
    """Newest tool uses whose results stay: `keep` of `clear_tool_uses_20250919`."""
    clear_at_least: int = 0
    """Tokens that clearing must free, else nothing is cleared (`clear_at_least`)."""
    clear_exclude: tuple[str, ...] = ()
    """Tools whose uses are never cleared (`exclude_tools`)."""
    clear_inputs: bool = False
    """Whether the arguments of cleared calls go, too (`clear_tool_inputs`)."""
    clear_trigger_uses: int | None = None
    """Tool uses above which clearing begins, in place of the threshold in tokens (`trigger` of type `tool_uses`)."""
    authors_python: str | None = None
    """Python of the environment that has the authors' package; None: as `authors.find_python` says."""


@dataclass(frozen=True, slots=True)
class Auxiliary:
    """A model call that a policy makes for itself. It is charged."""

    messages: list[Any]
    """What is sent, after the session's system prompt and tools."""
    output: str
    """What the model answers."""


@dataclass(frozen=True, slots=True)
class PolicyView:
    """What one request sends.

    Messages are the session's own objects where they are untouched, else `content.Message` (a policy knows no
    message format) or, of the policies that run a real compactor, messages in the session's format."""

    messages: list[Any]
    tokens: int
    """The whole request, as the policy counts it."""
    cliff: Cliff | None = None
    """A compaction of policy `cliff` that begins with this view."""
    view: View | None = None
    """Policy `cliff`: the compactor's own view, with its cut, block and pins; None where it failed open."""
    compacted: bool = False
    """Whether a compaction of any policy begins with this view."""
    auxiliary: tuple[Auxiliary, ...] = ()
    """Model calls made for this view, before it is sent."""


class Policy(Protocol):
    """One policy at a time on one session at a time; `start` makes it ready for the next."""

    name: str
    note: str
    """What every output must say of its figures; empty: nothing."""

    def start(self, session: Session, meter: Meter, limit: int | None = None) -> None:
        """A session begins; `meter` counts its messages. `limit`: tokens that the provider takes, where known."""
        ...

    def view(self, history: Sequence[Any], fixed_tokens: int) -> PolicyView:
        """What is sent for a history that grew since the last call, beside a system prompt and tool
        schemas of `fixed_tokens`."""
        ...

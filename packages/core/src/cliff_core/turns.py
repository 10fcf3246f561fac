"""Head, turns, and which result belongs to which call (DESIGN.md section 2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from cliff_core.content import Directive, Message, ToolCall, ToolResult, Turn


def head_end(messages: Sequence[Message]) -> int | None:
    """Number of messages in the head; None while no turn has begun.

    The head ends before the first model message that follows a user message, or before the first one that
    makes a call where a session has no user message. It depends on a prefix alone: it never moves as the
    history grows."""
    user = False
    for index, message in enumerate(messages):
        if message.role == "user":
            user = True
        elif message.role == "model" and (user or any(isinstance(c, ToolCall) for c in message.contents)):
            return index
    return None


def starts_turn(messages: Sequence[Message], index: int) -> bool:
    """Whether message `index`, after the head's end, begins a model step: a run of model messages is one step."""
    return messages[index].role == "model" and messages[index - 1].role != "model"


def group(messages: Sequence[Message]) -> tuple[int, list[Turn]]:
    """The size of the head, and all turns of a history."""
    head = head_end(messages)
    if head is None:
        return len(messages), []
    starts = [head, *(i for i in range(head + 1, len(messages)) if starts_turn(messages, i))]
    ends = [*starts[1:], len(messages)]
    turns = [
        Turn(number, start, tuple(messages[start:end]))
        for number, (start, end) in enumerate(zip(starts, ends, strict=True), 1)
    ]
    return head, turns


ABORTED_AFTER_TURNS = 8
"""How many turns a call without a result can be waited for where nobody spoke. Providers reject a history with
an unanswered call, so one that stays belongs to a lenient server or to a recording; waiting for ever would end
all compaction of its session."""


@dataclass(slots=True)
class Paired:
    """Results of one turn by the position of their call among `turn.contents()`; results without a call."""

    results: dict[int, list[ToolResult]] = field(default_factory=dict)
    orphans: list[ToolResult] = field(default_factory=list)


class _Open(NamedTuple):
    id: str
    turn: int
    position: int
    hosted: bool


def pair(turns: Sequence[Turn]) -> tuple[list[Paired], set[int]]:
    """Each result at its call, and the legal cuts: positions 0…len(turns) where no call waits for a result.

    A result belongs to the first waiting call of its id in its own turn (ids may repeat across turns), without
    an id to the first waiting call; one that finds none there came late, and belongs to a call that still
    waits in an earlier turn. A call that never got a result waits until a person spoke after it and the model
    went on, or for `ABORTED_AFTER_TURNS`: it was aborted then, and what comes later is a result without a call
    in the history itself."""
    paired = [Paired() for _ in turns]
    legal: set[int] = set()
    waiting: list[_Open] = []  # calls of earlier turns
    for number, turn in enumerate(turns):
        waiting = [call for call in waiting if number - call.turn <= ABORTED_AFTER_TURNS]
        if not waiting:
            legal.add(number)
        asked: list[_Open] = []
        position = -1
        spoke = False
        for message in turn.messages:
            for content in message.contents:
                position += 1
                if isinstance(content, ToolCall):
                    asked.append(_Open(content.id, number, position, content.hosted))
                elif isinstance(content, ToolResult):
                    call = _answered(content.call_id, asked) or _answered(content.call_id, waiting)
                    if call is None:
                        paired[number].orphans.append(content)
                    else:
                        paired[call.turn].results.setdefault(call.position, []).append(content)
                elif isinstance(content, Directive) and message.role == "user":
                    spoke = True
        if spoke and number + 1 < len(turns):
            waiting = []
        else:
            waiting += [call for call in asked if not call.hosted]
    if not waiting:
        legal.add(len(turns))
    return paired, legal


def _answered(call_id: str, waiting: list[_Open]) -> _Open | None:
    for call in waiting:
        if not call_id or call.id == call_id:
            waiting.remove(call)
            return call
    return None

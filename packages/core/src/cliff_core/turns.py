"""Head, turns, and which result belongs to which call (DESIGN.md section 2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

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
    """Whether message `index` (after the head) begins a model step: a run of model messages is one step."""
    return messages[index].role == "model" and (index == 0 or messages[index - 1].role != "model")


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


@dataclass(slots=True)
class Paired:
    """Results of one turn by the position of their call among `turn.contents()`; results without a call;
    positions of calls that wait for a result."""

    results: dict[int, list[ToolResult]] = field(default_factory=dict)
    orphans: list[ToolResult] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)


def pair(turns: Sequence[Turn]) -> tuple[list[Paired], set[int]]:
    """Each result at its call, and the legal cuts: positions 0…len(turns) where no call waits for a result.

    A result belongs to the first waiting call of its id in its own turn (ids may repeat across turns), without
    an id to the first waiting call; one that finds none there came late, and belongs to a call that still
    waits in an earlier turn. A call that never got a result waits until a person spoke after it and the model
    went on: it was aborted then, and what comes later is a result without a call in the history itself."""
    paired: list[Paired] = []
    legal: set[int] = set()
    earlier: list[tuple[str, Paired, int]] = []  # id, turn and position of calls that wait across turns
    for turn in turns:
        if not earlier:
            legal.add(len(paired))
        this = Paired()
        paired.append(this)
        waiting: list[tuple[str, Paired, int]] = []
        spoke = False
        for position, content in enumerate(turn.contents()):
            if isinstance(content, ToolCall):
                waiting.append((content.id, this, position))
            elif isinstance(content, ToolResult):
                call = _match(content.call_id, waiting) or _match(content.call_id, earlier)
                if call is None:
                    this.orphans.append(content)
                else:
                    call[1].results.setdefault(call[2], []).append(content)
            elif isinstance(content, Directive):
                spoke = True
        contents = tuple(turn.contents()) if waiting else ()
        waiting = [call for call in waiting if not getattr(contents[call[2]], "hosted", False)]
        this.waiting.extend(position for _, _, position in waiting)
        earlier = [*earlier, *waiting] if len(paired) == len(turns) or not spoke else []
    if not earlier:
        legal.add(len(turns))
    return paired, legal


def _match(call_id: str, waiting: list[tuple[str, Paired, int]]) -> tuple[str, Paired, int] | None:
    for call in waiting:
        if not call_id or call[0] == call_id:
            waiting.remove(call)
            return call
    return None

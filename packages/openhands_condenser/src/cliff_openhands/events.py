"""Events of the SDK as the core's content, and what they cost."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from cliff_core import tokens
from cliff_core.block import MESSAGE_TOKENS
from cliff_core.content import (
    Content,
    Directive,
    Message,
    Note,
    Opaque,
    Role,
    Thought,
    ToolCall,
    ToolResult,
    counted,
    looks_failed,
    note_kind,
    user_text,
)
from cliff_openhands.host import (
    ActionEvent,
    AgentErrorEvent,
    CondensationSummaryEvent,
    MessageEvent,
    ObservationBaseEvent,
    ObservationEvent,
    SystemPromptEvent,
    UserRejectObservation,
)

REJECTED = "User rejected the action"
"""The SDK's own reason of a rejection, where the person gave none."""


def is_model(event: Any) -> bool:
    """Whether the model said it."""
    return isinstance(event, ActionEvent) or (isinstance(event, MessageEvent) and event.llm_message.role == "assistant")


def is_person(event: Any) -> bool:
    """Whether it is a message of a person. (The SDK sends some complaints about a reply in the user's name; they
    cannot be told apart.)"""
    return isinstance(event, MessageEvent) and event.source == "user" and not is_model(event)


def stays(event: Any) -> bool:
    """Whether it is never forgotten, wherever it stands."""
    return is_person(event) or isinstance(event, SystemPromptEvent)


def is_block(event: Any) -> bool:
    """Whether it stands for forgotten events: a block of ours, or another condenser's summary."""
    return isinstance(event, CondensationSummaryEvent)


def message(event: Any) -> Message:
    """An event as the core knows messages, counted."""
    return Message(_role(event), tuple(_contents(event)), size(event))


def _role(event: Any) -> Role:
    if isinstance(event, SystemPromptEvent):
        return "system"
    if is_model(event):
        return "model"
    return "tool" if isinstance(event, ObservationBaseEvent) else "user"


def _contents(event: Any) -> Iterator[Content]:
    if isinstance(event, ActionEvent):
        yield from _reasoning(event)
        for part in event.thought:
            if part.text:
                yield Thought(part.text)
        yield ToolCall(event.tool_call.name, event.tool_call.arguments, id=event.tool_call_id)
        return
    sent = event.to_llm_message()
    text = "\n".join(part.text for part in sent.content if _is_text(part) and part.text)
    images = tuple(
        Opaque("image", tokens.image_tokens(url)) for part in sent.content for url in getattr(part, "image_urls", ())
    )
    if isinstance(event, ObservationBaseEvent):
        yield ToolResult(text, event.tool_call_id, _failed(event, text), images)
        if isinstance(event, UserRejectObservation) and _said(event):
            yield Directive(event.rejection_reason)
        return
    if isinstance(event, SystemPromptEvent):
        yield Note(text, "system")
    elif is_model(event):
        yield from _reasoning(event.llm_message)
        if text:
            yield Thought(text)
    elif is_person(event):
        yield from user_text(text)
    elif text:
        yield Note(text, note_kind("user", text))
    yield from images


def _is_text(part: Any) -> bool:
    return isinstance(getattr(part, "text", None), str)


def _reasoning(said: Any) -> Iterator[Thought]:
    """What was thought before it was said; signatures and redacted thoughts have tokens and no text."""
    blocks = list(said.thinking_blocks or ())
    item = getattr(said, "responses_reasoning_item", None)
    summaries = list(getattr(item, "summary", None) or ()) if item is not None else []
    hidden = "".join(
        value
        for block in blocks
        for value in (getattr(block, "signature", None), getattr(block, "data", None))
        if isinstance(value, str)
    ) + str(getattr(item, "encrypted_content", None) or "")
    text = said.reasoning_content or "\n".join(
        [*(block.thinking for block in blocks if isinstance(getattr(block, "thinking", None), str)), *summaries]
    )
    if text or hidden:
        yield Thought(text, tokens.encrypted_tokens(len(hidden)))


def _failed(event: Any, text: str) -> bool:
    if isinstance(event, AgentErrorEvent):
        return True
    if isinstance(event, ObservationEvent):
        code = getattr(event.observation, "exit_code", None)
        return bool(event.observation.is_error) or (code not in (None, 0, -1)) or looks_failed(text)
    return False


def _said(event: Any) -> bool:
    """Whether a rejection holds a person's words (a hook's are the host's)."""
    reason = event.rejection_reason.strip()
    return bool(reason) and reason != REJECTED and event.rejection_source == "user"


# --- tokens --------------------------------------------------------------------------------------------------

_sizes: OrderedDict[tuple[str, str], int] = OrderedDict()
"""Tokens of events seen, by id and time: in 1.21 each step reads the events anew."""
_SIZES_MAX = 50_000


def size(event: Any) -> int:
    """Estimate of an event's tokens as a message; of the system prompt with the schemas of its tools."""
    key = (event.id, event.timestamp)
    known = _sizes.get(key)
    if known is None:
        texts, known = counted(tuple(_contents(event)))
        if isinstance(event, SystemPromptEvent):
            texts += map(_schema, event.tools)
        known += MESSAGE_TOKENS + sum(tokens.count_many(texts))
        _sizes[key] = known
        while len(_sizes) > _SIZES_MAX:
            _sizes.popitem(last=False)
    return known


def _schema(tool: Any) -> str:
    """A tool's schema as it is sent: the SDK always asks for a risk."""
    return json.dumps(tool.to_openai_tool(add_security_risk_prediction=True), ensure_ascii=False, default=str)


# --- turns ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Step:
    """A model step and what followed it, as indices into a list of events."""

    start: int
    end: int


def head_size(events: Sequence[Any]) -> int:
    """Events in the head: before the first block, and before the first model step that follows a person's message
    or makes a call."""
    spoken = False
    for index, event in enumerate(events):
        if is_block(event) or isinstance(event, ActionEvent) or (is_model(event) and spoken):
            return index
        spoken = spoken or is_person(event)
    return len(events)


def steps(events: Sequence[Any], first: int) -> list[Step]:
    """The model steps from index `first` on. Actions of one response are one step, whatever stands between them."""
    starts: list[int] = []
    response: str | None = None
    for index in range(first, len(events)):
        event = events[index]
        if is_model(event):
            its = getattr(event, "llm_response_id", None)
            if its is None or its != response:
                starts.append(index)
            response = its
    return [Step(start, end) for start, end in zip(starts, [*starts[1:], len(events)], strict=False)]


def is_waiting(events: Sequence[Any]) -> bool:
    """Whether a call of the newest step has no result yet (a person is asked for confirmation, say): nothing is cut
    before it has, since the result would come without a call."""
    newest = steps(events, head_size(events))[-1:]
    answered = {event.tool_call_id for event in events if isinstance(event, ObservationBaseEvent)}
    return any(
        isinstance(event, ActionEvent) and event.tool_call_id not in answered
        for step in newest
        for event in events[step.start : step.end]
    )

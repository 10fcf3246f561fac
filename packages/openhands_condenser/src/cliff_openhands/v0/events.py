"""V0's events -> the core's messages and turns, in the way of the host's `ConversationMemory`.

A step is what one response of the model began: all its calls, whose actions and results lie one after the other in the
log. What a person wrote is not among the turns: it stays in the view as an event of its own, whatever is cut away.
"""
# mypy: disable-error-code="import-not-found"

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from openhands.events.action import (
    Action,
    AgentFinishAction,
    CmdRunAction,
    MessageAction,
    SystemMessageAction,
)
from openhands.events.action.agent import CondensationAction, CondensationRequestAction
from openhands.events.event import Event, EventSource
from openhands.events.observation import (
    AgentCondensationObservation,
    AgentDelegateObservation,
    CmdOutputObservation,
    ErrorObservation,
    FileEditObservation,
    UserRejectObservation,
)
from openhands.events.observation.agent import RecallObservation
from openhands.events.observation.observation import Observation
from openhands.events.serialization.event import truncate_content

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
    Turn,
    arguments_text,
    counted,
    looks_failed,
)

AUTO_CONTINUE = "Please continue on whatever approach you think is suitable."
"""What the host itself answers in a person's name (`openhands.core.main.auto_continue_response`)."""


@dataclass
class Step:
    """One step of the model and what follows it, up to the next one."""

    ids: list[int] = field(default_factory=list)
    """Of all its events but people's messages."""
    model: list[Content] = field(default_factory=list)
    rest: list[Message] = field(default_factory=list)
    usage: int = 0
    """Tokens of the request that it answered, as the provider reported them; 0 if it did not."""
    people: int = 0
    """Tokens of the messages that people wrote in it."""

    def turn(self, number: int, live: bool) -> Turn:
        """Its turn; one that the view has forgotten weighs nothing."""
        messages = (_sized("model", self.model), *self.rest)
        return Turn(number, 0, messages, -1 if live else 0)


@dataclass
class Log:
    """A history as the condenser needs it."""

    head: list[int] = field(default_factory=list)
    """Events before the first step."""
    head_tokens: int = 0
    steps: list[Step] = field(default_factory=list)


def read(events: Iterable[Event], most_chars: int | None, vision: bool) -> Log:
    """The history in steps. `most_chars`: characters from which on the host cuts an observation short."""
    events = list(events)
    answered = {
        event.tool_call_metadata.tool_call_id
        for event in events
        if isinstance(event, Observation) and event.tool_call_metadata is not None
    }
    log = Log()
    current = ""
    for event in events:
        if isinstance(event, (CondensationAction, CondensationRequestAction, AgentCondensationObservation)):
            continue
        key = _response(event)
        if key and key != current:
            current = key
            log.steps.append(Step())
        step = log.steps[-1] if log.steps else None
        if step is None:
            log.head.append(event.id)
            log.head_tokens += sum(message.tokens for message in _messages(event, most_chars, vision))
        elif is_person(event):
            step.people += sum(message.tokens for message in _messages(event, most_chars, vision))
        else:
            step.ids.append(event.id)
            if key:
                _add_action(step, event, answered)
            else:
                step.rest += _messages(event, most_chars, vision)
    return log


def is_person(event: Event) -> bool:
    """Whether a person wrote it."""
    return (
        isinstance(event, MessageAction)
        and event.source == EventSource.USER
        and not event.content.startswith(AUTO_CONTINUE)
    )


def tool_tokens(events: Iterable[Event]) -> int:
    """Estimate for the schemas of the tools, which the first event has beside the system prompt."""
    for event in events:
        if isinstance(event, SystemMessageAction):
            return sum(tokens.count(arguments_text(tool)) for tool in event.tools or () if isinstance(tool, dict))
    return 0


def forgotten(steps: Sequence[Step], gone: Set[int]) -> list[int]:
    """What is forgotten with `steps`, in order, beside what already is."""
    return [identity for step in steps for identity in step.ids if identity not in gone]


# --- the model's steps --------------------------------------------------------------------------------


def _response(event: Event) -> str:
    """A name for the response of the model that the action is part of; empty for everything else."""
    if not isinstance(event, Action):
        return ""
    if event.tool_call_metadata is not None:
        return f"response {event.tool_call_metadata.model_response.id}"
    if event.source == EventSource.AGENT and isinstance(event, (MessageAction, AgentFinishAction)):
        return f"event {event.id}"
    return ""


def _add_action(step: Step, event: Any, answered: Set[str]) -> None:
    metadata = event.tool_call_metadata
    said = _said(metadata.model_response) if metadata is not None else None
    if metadata is not None:
        step.usage = _usage(metadata.model_response)
    if isinstance(event, MessageAction):
        step.model.append(Thought(event.content or ""))
        return
    content = getattr(said, "content", None)
    if not isinstance(content, str):
        content = ""
    if isinstance(event, AgentFinishAction):
        # The host sends it back as text, and moves the response's text into the event when it does.
        thought = event.thought
        text = f"{thought}\n{content}" if content and thought and thought != content else thought or content
        step.model.append(Thought(text))
        return
    if content.strip() and not step.model:
        step.model.append(Thought(content))
    if metadata.tool_call_id in answered:  # the host does not send a call that got no result
        step.model.append(ToolCall(metadata.function_name, _arguments(said, metadata), metadata.tool_call_id))


def _said(response: Any) -> Any:
    choices = getattr(response, "choices", None)
    return getattr(choices[0], "message", None) if choices else None


def _arguments(said: Any, metadata: Any) -> str:
    for call in getattr(said, "tool_calls", None) or ():
        if call.id == metadata.tool_call_id:
            return call.function.arguments or ""
    return ""


def _usage(response: Any) -> int:
    """Tokens of the request, cached ones included."""
    usage = getattr(response, "usage", None)
    found = getattr(usage, "prompt_tokens", None)
    return found if type(found) is int and found > 0 else 0


# --- everything else ----------------------------------------------------------------------------------


def _messages(event: Event, most_chars: int | None, vision: bool) -> list[Message]:
    """What the host makes of an event that is no step of the model; nothing for what it does not send."""
    if isinstance(event, SystemMessageAction):
        return [_sized("system", [Note(event.content, "system")])]
    if isinstance(event, MessageAction):
        said: list[Content] = [
            Note(event.content, "auto-continue") if not is_person(event) else Directive(event.content or "")
        ]
        return [_sized("user", said + _images(event.image_urls, vision, pin=True))]
    if isinstance(event, CmdRunAction):  # a person's, in the host's terminal
        return [_sized("user", [Note(f"User executed the command:\n{event.command}", "user-command")])]
    if isinstance(event, RecallObservation):
        return _recalled(event)
    if isinstance(event, Observation):
        return _observed(event, most_chars, vision)
    return []


def _recalled(event: RecallObservation) -> list[Message]:
    """Texts that the host looked up: each knowledge text is one of its kind, the rest is counted."""
    contents: list[Content] = [
        Note(found.content, f"microagent:{found.name}") for found in event.microagent_knowledge or ()
    ]
    beside = "\n".join(
        text
        for name in ("repo_name", "repo_directory", "repo_instructions", "conversation_instructions", "date")
        if isinstance(text := getattr(event, name, ""), str) and text
    )
    if beside:
        contents.append(Opaque("recall", text=beside))
    return [_sized("user", contents)] if contents else []


def _observed(event: Any, most_chars: int | None, vision: bool) -> list[Message]:
    if isinstance(event, CmdOutputObservation):
        text = event.to_agent_observation()
    elif isinstance(event, FileEditObservation):
        text = str(event)
    elif isinstance(event, AgentDelegateObservation):
        text = event.outputs.get("content", event.content)
    else:
        text = event.content
    text = truncate_content(text if isinstance(text, str) else str(text), most_chars)
    failed = False
    if isinstance(event, ErrorObservation):
        text, failed = f"{text}\n[Error occurred in processing last action]", True
    elif isinstance(event, UserRejectObservation):
        text, failed = f"OBSERVATION:\n{text}\n[Last action has been rejected by the user]", True
    elif isinstance(event, CmdOutputObservation):
        failed = event.exit_code not in (0, -1)  # -1: it still runs
    else:
        failed = looks_failed(text)
    shown = [getattr(event, "set_of_marks", None) or getattr(event, "screenshot", None)]
    images = _images([*(getattr(event, "image_urls", None) or ()), *shown], vision, pin=False)
    if event.tool_call_metadata is None:  # of no call: a malformed one, or a command that a person typed
        return [_sized("user", [Note(text, type(event).__name__), *images])]
    opaque = tuple(image for image in images if isinstance(image, Opaque))
    return [_sized("tool", [ToolResult(text, event.tool_call_metadata.tool_call_id, failed, opaque)])]


def _images(urls: Iterable[Any] | None, vision: bool, pin: bool) -> list[Content]:
    if not vision:
        return []
    return [Opaque("image", tokens.image_tokens(url), pin=pin) for url in urls or () if isinstance(url, str) and url]


def _sized(role: Role, contents: Iterable[Content]) -> Message:
    """A message with its tokens."""
    message = Message(role, tuple(contents))
    texts, known = counted(message.contents)
    return message.with_tokens(MESSAGE_TOKENS + known + sum(map(tokens.count, texts)))

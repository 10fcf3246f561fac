"""Generated event histories, with all that can go wrong in one, played to a condenser as the agent does it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st
from openhands.sdk.event import (
    ActionEvent,
    AgentErrorEvent,
    Condensation,
    CondensationRequest,
    Event,
    HookExecutionEvent,
    MessageEvent,
    ObservationEvent,
    PauseEvent,
    SystemPromptEvent,
    UserRejectObservation,
)
from openhands.sdk.llm import Message, MessageToolCall, TextContent, ThinkingBlock
from openhands.sdk.tool.builtins.think import ThinkObservation

from cliff_openhands.host import NoCondensationAvailableException, View

RESULTS = ("observed", "failed", "rejected", "blocked", "malformed", "twice", "never")


@dataclass(frozen=True)
class Told:
    """What a history is made of, in the order in which it happens."""

    kind: str
    size: int = 1
    """Words of its text."""
    results: tuple[str, ...] = ()
    """What became of each call of a step."""
    thinking: bool = False
    reverse: bool = False
    """Results come in the reverse order."""
    interrupted: bool = False
    """A person speaks between the results."""


sizes = st.sampled_from([1, 20, 150, 700, 2_500])
steps = st.builds(
    Told,
    kind=st.just("step"),
    size=sizes,
    results=st.lists(st.sampled_from(RESULTS[:1] * 8 + RESULTS), min_size=1, max_size=3).map(tuple),
    thinking=st.booleans(),
    reverse=st.booleans(),
    interrupted=st.sampled_from([False, False, False, True]),
)
others = st.builds(
    Told, kind=st.sampled_from(["user", "answer", "note", "orphan", "hook", "pause", "request", "system"]), size=sizes
)
histories = st.lists(st.one_of(steps, steps, steps, others), min_size=5, max_size=40)


class Ids:
    def __init__(self) -> None:
        self.number = 0

    def __call__(self, kind: str) -> str:
        self.number += 1
        return f"{kind}-{self.number:06d}"


def words(number: int, size: int) -> str:
    return " ".join(f"w{number}" for _ in range(size))


def told_events(told: Told, ids: Ids) -> Iterator[Any]:
    """The events of one thing told, in groups: after each group the agent may take a step."""
    number = ids.number
    text = words(number, told.size)
    if told.kind == "step":
        yield from _step(told, ids, text)
    elif told.kind == "user":
        yield person(f"please {text}", ids)
    elif told.kind == "answer":
        said = Message(role="assistant", content=[TextContent(text=text)])
        yield MessageEvent(id=ids("m"), source="agent", llm_message=said, llm_response_id=ids("r"))
    elif told.kind == "note":
        said = Message(role="user", content=[TextContent(text=f"reminder {text}")])
        yield MessageEvent(id=ids("m"), source="environment", llm_message=said)
    elif told.kind == "orphan":
        yield observed(ids("c"), text, ids)
    elif told.kind == "hook":
        more = {"hook_event_type": "PreToolUse", "hook_command": "true", "success": True, "exit_code": 0}
        yield HookExecutionEvent(id=ids("h"), source="environment", **more)
    elif told.kind == "pause":
        yield PauseEvent(id=ids("p"))
    elif told.kind == "request":
        yield CondensationRequest(id=ids("q"))
    elif told.kind == "system":
        yield SystemPromptEvent(id=ids("s"), system_prompt=TextContent(text=text), tools=[])


def person(text: str, ids: Ids) -> Any:
    said = Message(role="user", content=[TextContent(text=text)])
    return MessageEvent(id=ids("u"), source="user", llm_message=said)


def observed(call: str, text: str, ids: Ids) -> Any:
    result = ThinkObservation.from_text(text)
    return ObservationEvent(id=ids("o"), tool_name="terminal", tool_call_id=call, action_id="a", observation=result)


def _step(told: Told, ids: Ids, text: str) -> Iterator[Any]:
    response = ids("r")
    calls, results = [], []
    for place, result in enumerate(told.results):
        call = ids("c")
        arguments = f'{{"command": "cat src/module_{ids.number}.py", "security_risk": "LOW"}}'
        action = ActionEvent(
            id=ids("a"),
            thought=[TextContent(text=f"step {response}")] if place == 0 else [],
            thinking_blocks=[ThinkingBlock(thinking="hm", signature="s" * 40)] if told.thinking and place == 0 else [],
            tool_name="terminal",
            tool_call_id=call,
            tool_call=MessageToolCall(id=call, name="terminal", arguments=arguments, origin="completion"),
            llm_response_id=response,
        )
        if result == "malformed":  # the SDK answers at once, before the other calls of the response
            calls += [action, AgentErrorEvent(id=ids("e"), tool_name="terminal", tool_call_id=call, error="bad call")]
            continue
        calls.append(action)
        if result == "observed":
            results.append(observed(call, text, ids))
        elif result == "failed":
            results.append(AgentErrorEvent(id=ids("e"), tool_name="terminal", tool_call_id=call, error=f"Error {text}"))
        elif result in ("rejected", "blocked"):
            source = "user" if result == "rejected" else "hook"
            reason = {"rejection_reason": f"because {call}", "rejection_source": source}
            more = {"tool_name": "terminal", "tool_call_id": call, "action_id": action.id}
            results.append(UserRejectObservation(id=ids("x"), **more, **reason))
        elif result == "twice":  # a crash: an error stands in for the result, which then comes after all
            lost = AgentErrorEvent(id=ids("e"), tool_name="terminal", tool_call_id=call, error="lost")
            results += [lost, observed(call, text, ids)]
    if told.reverse:
        results.reverse()
    yield from calls
    for place, result in enumerate(results):
        if told.interrupted and place == 1:
            yield person(f"wait {response}", ids)
        yield result


@dataclass
class Play:
    """A conversation without its agent: events come, and before each model step the condenser is asked."""

    condenser: Any
    llm: Any = None
    events: list[Any] = field(default_factory=list)
    view: Any = field(default_factory=View)
    condensed: list[Any] = field(default_factory=list)
    ended: bool = False

    def add(self, event: Any) -> None:
        self.events.append(event)
        self.view.append_event(event)

    def reloaded(self) -> Any:
        """The view of the stored events."""
        stored = [Event.model_validate_json(event.model_dump_json(exclude_none=True)) for event in self.events]
        return View.from_events(stored)

    def begin(self, ids: Ids, system: int = 200) -> None:
        prompt = TextContent(text=words(0, system))
        self.add(SystemPromptEvent(id=ids("s"), system_prompt=prompt, tools=[]))
        self.add(person("the task", ids))

    def ask(self) -> Any:
        """What the agent does before a step: a condensation is an event, and the step ends. Yields each."""
        for _ in range(8):
            before = list(self.view.events)
            try:
                answer = self.condenser.condense(self.view, agent_llm=self.llm)
            except NoCondensationAvailableException:
                self.ended = True  # the host ends the run with this error
                return
            assert self.view.events == before
            if not isinstance(answer, Condensation):
                return
            self.condensed.append(answer)
            yield before, answer
        raise AssertionError("condensation after condensation")

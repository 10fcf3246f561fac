"""What the scripted model says: steps, calls, and the script that yields one step a request."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from .faults import Fault
from .usage import Usage

if TYPE_CHECKING:
    from .request import Request


@dataclass(frozen=True)
class Call:
    """One tool call."""

    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict)
    """A mapping is sent as JSON, in its order; a string as it stands (it may be no JSON at all)."""
    custom: bool = False
    """A freeform tool of OpenAI's, such as Codex's apply_patch: `arguments` is its input."""
    id: str | None = None
    """`call_STEP_PLACE` if not given, counted from 0."""

    def __post_init__(self) -> None:
        if self.custom and not isinstance(self.arguments, str):
            raise TypeError(f"a custom call's arguments are a string: {self.arguments!r}")

    @property
    def text(self) -> str:
        """The arguments as they are sent in OpenAI's APIs."""
        if isinstance(self.arguments, str):
            return self.arguments
        return json.dumps(self.arguments, ensure_ascii=False)

    @property
    def object(self) -> dict[str, Any]:
        """The arguments as they are sent in Anthropic's API, where they must be an object."""
        if isinstance(self.arguments, Mapping):
            return dict(self.arguments)
        try:
            value = json.loads(self.arguments)
        except ValueError:
            value = None
        return value if isinstance(value, dict) else {"input": self.arguments}


@dataclass(frozen=True)
class Step:
    """One reply of the model, in words that fit all three APIs."""

    text: str = ""
    thought: str = ""
    """Chat: `reasoning_content`. Anthropic: signed thinking. Responses: a reasoning item."""
    calls: Sequence[Call] = ()
    hidden: bool = False
    """The thought is not shown. Chat: only its tokens are counted; Anthropic: a redacted block;
    Responses: no summary, only encrypted content."""
    stop: str | None = None
    """`stop`, `length`, `filter`; `calls` or `stop` if not given. Others are sent as they stand."""
    raw: Sequence[Mapping[str, Any]] = ()
    """Content blocks (Anthropic) or output items (Responses) of kinds that have no field here, sent
    as they stand between the thought and the text. Chat: further keys of the message."""
    usage: Mapping[str, int] = field(default_factory=dict)
    """Figures that replace the computed ones, by the names of `Usage`."""
    latency: float = 0.0
    """Seconds before the status line."""
    pause: float = 0.0
    """Seconds between two events of a stream."""
    piece: int = 20
    """Characters in one event of a stream."""
    headers: Sequence[tuple[str, str]] = ()
    """Further headers of the reply. A name may occur twice."""
    fault: Fault | None = None

    def __post_init__(self) -> None:
        names = [f.name for f in fields(Usage)]
        for name in self.usage:
            if name not in names:
                raise ValueError(f"no usage figure is called {name!r}; they are {', '.join(names)}")
        if self.piece < 1:
            raise ValueError(f"piece must be at least 1, not {self.piece}")
        for call in self.calls:
            if not isinstance(call, Call):
                raise TypeError(f"calls holds kit.Call objects, not {call!r}")
        if self.fault is not None and not isinstance(self.fault, Fault):
            raise TypeError(f"fault must be a kit.Fault, not {self.fault!r}")

    @property
    def reason(self) -> str:
        """Why the model stopped: `stop` as given, or what the calls imply."""
        return self.stop or ("calls" if self.calls else "stop")


ScriptFunction = Callable[["Request"], "Step | str"]
ScriptSource = Iterable["Step | str"] | ScriptFunction


class ScriptExhausted(Exception):  # noqa: N818 - it is what happened, in the words of the tests
    """There are more requests than steps."""


class Script:
    """A list of steps, one for each request, or a function of the request that returns a step.

    A string stands for `Step(text=…)`. With `repeat` a list starts again at its end.
    """

    def __init__(self, source: ScriptSource, repeat: bool = False) -> None:
        self.function = source if callable(source) else None
        self.steps = [] if callable(source) else [as_step(step) for step in source]
        self.repeat = repeat
        self.taken = 0
        """Steps handed out so far."""

    @property
    def left(self) -> int | None:
        """Steps that no request has taken yet; None if there is no end."""
        if self.function or self.repeat:
            return None
        return len(self.steps) - self.taken

    def next(self, request: Request) -> Step:
        """The step for this request."""
        if self.function:
            step = as_step(self.function(request))
        elif self.repeat and self.steps:
            step = self.steps[self.taken % len(self.steps)]
        elif self.taken < len(self.steps):
            step = self.steps[self.taken]
        else:
            count = f"{len(self.steps)} step{'' if len(self.steps) == 1 else 's'}"
            raise ScriptExhausted(
                f"the script is exhausted: it has {count}, all taken; "
                f"this is request {request.number}, with {len(request.messages)} messages"
            )
        self.taken += 1
        return step


def as_step(value: Any) -> Step:
    """A step, or the step that a string stands for."""
    if isinstance(value, str):
        return Step(value)
    if not isinstance(value, Step):
        raise TypeError(f"a script yields kit.Step objects or strings, not {value!r}")
    return value

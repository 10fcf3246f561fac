"""mini-swe-agent trajectories: 1.x (`mini-swe-agent-1`, commands inside the text) and 2.x (`mini-swe-agent-1.1`:
tool calls, text, or Responses objects).

Sent is what the model classes send: `content` of 1.x, everything but `extra` of 2.x (null keys and litellm's
`provider_specific_fields` are left out: the client drops the former, the latter repeat other keys), `output` of a
Responses object item by item. Never sent and left out: the last message of 1.x when the run was submitted or
ran into a limit (the patch, or nothing), and `exit` of 2.x. Results that nobody answered any more stay.

A user message is a result after an executed command (1.x) or with `extra.returncode`/`raw_output` (2.x). Format
errors are notes; what a person typed at an interruption is a directive. A reply that 2.x threw away for its format
is in no message, but was a request: its usage is on the error (in Responses runs nothing marks such an error: there
it counts as a person's words). In 1.x a command that a person typed in human
mode is an assistant message without a response: no request.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from cliff_core.traces.history import History
from cliff_core.traces.reasoning import spread
from cliff_core.traces.session import Session
from cliff_core.traces.source import MalformedError, Sample, document, field, guarded, need, objects, option
from cliff_core.traces.usage import usage

NAME = "mini-swe-agent"
EXPECTS = "a mini-swe-agent trajectory (a JSON object with `info` and `messages`)"

_FENCE = r"```(?:bash|mswea_bash_command)\s*\n(.*?)\n```"
_LITERAL = r"[^\\\[\](){}.*+?^$|]"
_FENCED = re.compile(rf"(?!\s){_LITERAL}(?:{_LITERAL}|\(\?:[\w|]+\))*(?:\\s\*)?(?:\\n)?\(\.\*\?\)((?:\\n)?{_LITERAL}+)")
"""Patterns of a fixed opening, white space, `(.*?)` and a fixed closing, as are all those of mini-swe-agent itself: in
linear time for any text. Another one takes the time that it takes."""
_PERSON = ("Interrupted by user: ", "Command not executed. The user rejected", "The user added a new task: ")
"""Beginnings of 1.x messages that carry a person's words."""
_ENDED = ("Submitted", "LimitsExceeded")


def matches(sample: Sample) -> bool:
    first = sample.first
    if not isinstance(first, dict) or not isinstance(first.get("messages"), list):
        return False
    form = first.get("trajectory_format")
    return (isinstance(form, str) and form.startswith("mini-swe-agent")) or isinstance(first.get("info"), dict)


def read(path: Path) -> Iterator[Session]:
    return guarded(path, EXPECTS, _read(path))


def _read(path: Path) -> Iterator[Session]:
    trajectory = document(path)
    messages = [
        need(message, dict, f"messages[{index}]") for index, message in enumerate(field(trajectory, "messages", list))
    ]
    info = option(trajectory, "info", dict) or {}
    config = option(info, "config", dict) or {}
    status = info.get("exit_status")
    history = History()
    if any(m.get("object") == "response" or m.get("type") == "function_call_output" for m in messages):
        _responses(messages, history)
        dialect = "responses"
    else:
        v1 = not any(m.get("role") in ("tool", "exit") or "actions" in (m.get("extra") or {}) for m in messages)
        if v1 and len(messages) > 2 and messages[-1].get("role") == "user" and status in _ENDED:
            messages.pop()
        _chat(messages, history, _action(config), v1)
        dialect = "chat"
    yield history.session(
        path,
        NAME,
        dialect,
        name=option(trajectory, "instance_id", str) or "",
        model=option(option(config, "model", dict), "model_name", str),
        extra={
            "exit_status": status,
            "version": info.get("mini_version"),
            "form": trajectory.get("trajectory_format"),
        },
    )


class _Action(NamedTuple):
    """What finds the commands in a text."""

    pattern: re.Pattern[str]
    closing: str  # what every match ends with; empty where that is not known

    def found(self, text: str) -> list[re.Match[str]]:
        """All matches. None ends beyond the last closing, where each opening would be followed to the end."""
        return list(self.pattern.finditer(text, 0, text.rfind(self.closing) + len(self.closing)))


def _action(config: dict[str, Any]) -> _Action:
    """The run's own pattern (1.x: of the agent, 2.x: of the model)."""
    for part in ("agent", "model"):
        pattern = option(option(config, part, dict), "action_regex", str)
        if pattern:
            try:
                found = re.compile(pattern, re.DOTALL)
            except (re.error, OverflowError):
                continue
            if found.groups == 1:
                return _Action(found, _closing(pattern))
    return _Action(re.compile(_FENCE, re.DOTALL), _closing(_FENCE))


def _closing(pattern: str) -> str:
    fenced = _FENCED.fullmatch(pattern)
    return fenced[1].replace(r"\n", "\n") if fenced else ""


def _chat(messages: list[dict[str, Any]], history: History, action: _Action, v1: bool) -> None:
    recorded = any("response" in (m.get("extra") or {}) for m in messages)
    answers = False  # the newest assistant message has a command of which no result came yet
    for index, message in enumerate(messages):
        role = field(message, "role", str, f"messages[{index}]")
        extra = message.get("extra") or {}
        sent = {
            key: value
            for key, value in message.items()
            if key not in ("extra", "timestamp", "provider_specific_fields") and (value is not None or key == "content")
        }
        if role == "exit":
            continue
        if role == "assistant":
            response = extra.get("response")
            if response is not None or not recorded:
                history.request(usage(option(response, "usage", dict)), option(response, "model", str))
            if not sent.get("tool_calls"):
                calls = _calls(message, extra, action)
                answers = bool(calls)
                if calls:
                    sent["_cliff"] = calls
        elif role == "user" and index > 1:
            kind = extra.get("interrupt_type")
            text = sent.get("content")
            if kind == "FormatError":
                if "response" in extra:
                    response = extra["response"]
                    history.request(usage(option(response, "usage", dict)), option(response, "model", str))
                sent["_cliff"] = {"role": "note", "kind": "format_error"}
            elif "raw_output" in extra or "returncode" in extra:
                sent["_cliff"] = {"role": "tool"}
            elif v1 and not (isinstance(text, str) and text.startswith(_PERSON)):
                sent["_cliff"] = {"role": "tool"} if answers else {"role": "note", "kind": "format_error"}
            answers = False
        elif role not in ("system", "user", "tool", "developer"):
            expected = "system, user, assistant, tool or exit"
            raise MalformedError(f"messages[{index}]: role", f"{expected} expected, not {role!r}")
        history.add(sent)


def _calls(message: dict[str, Any], extra: dict[str, Any], action: _Action) -> dict[str, Any] | None:
    """The executed command of a text: 2.x has it beside the text, 1.x executes one and only one."""
    text = message.get("content")
    if not isinstance(text, str):
        return None
    found = action.found(text)
    if "actions" in extra:
        commands = [a["command"] for a in objects(extra["actions"]) if isinstance(a.get("command"), str)]
    else:
        commands = [match.group(1).strip() for match in found] if len(found) == 1 else []
    if not commands:
        return None
    start, end = (found[0].start(), found[-1].end()) if found else (text.find(commands[0]), len(text))
    thoughts = [part for part in (text[: max(start, 0)].strip(), text[end:].strip()) if part]
    return {"thought": thoughts, "calls": [{"name": "bash", "arguments": command} for command in commands]}


def _responses(messages: list[dict[str, Any]], history: History) -> None:
    for index, message in enumerate(messages):
        if message.get("object") == "response":
            reported = usage(message.get("usage"))
            history.request(reported, option(message, "model", str))
            output = field(message, "output", list, f"messages[{index}]")
            output = [need(item, dict, f"messages[{index}]: output") for item in output]
            items = [{key: value for key, value in item.items() if key != "extra"} for item in output]
            for item in spread(items, reported.reasoning_tokens if reported else None):
                history.add(item)
        elif message.get("role") != "exit":
            extra = message.get("extra") or {}
            if extra.get("interrupt_type") == "FormatError" and isinstance(extra.get("response"), dict):
                history.request(usage(extra["response"].get("usage")), option(extra["response"], "model", str))
            history.add({key: value for key, value in message.items() if key not in ("extra", "timestamp")})

"""SWE-agent `.traj` files, 0.x and 1.x: `history` is what was said, `trajectory` repeats it.

Text parsers have the command in the reply's code block (`action` beside it) and the result as a user message;
function calling has `tool_calls` and role `tool`. Demonstrations are the host's text, whatever their role. The
last message of a run that ended by itself (`exit_cost`, `exit_format`, …) was written by the host and is left out;
after `exit_cost` the request before it was made, and its answer thrown away.

No request has a usage of its own (`info.model_stats` has the sums: `extra`), and history processors cut old
results out of what was sent: nothing here can be compared with a full context.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cliff_core.traces.history import History
from cliff_core.traces.session import Session
from cliff_core.traces.source import MalformedError, Sample, document, field, guarded, need, option

NAME = "swe-agent"
EXPECTS = "a SWE-agent trajectory (a JSON object with `trajectory` and `history`)"

_SENT = ("role", "content", "tool_calls", "thinking_blocks", "reasoning_content", "cache_control")


def matches(sample: Sample) -> bool:
    first = sample.first
    if not isinstance(first, dict) or not isinstance(first.get("trajectory"), list):
        return False
    history = first.get("history")
    return isinstance(history, list) and all(isinstance(m, dict) and "role" in m for m in history[:3])


def read(path: Path) -> Iterator[Session]:
    return guarded(path, EXPECTS, _read(path))


def _read(path: Path) -> Iterator[Session]:
    trajectory = document(path)
    by_agent: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for index, message in enumerate(field(trajectory, "history", list)):
        where = f"history[{index}]"
        agent = need(message, dict, where).get("agent")
        by_agent.setdefault(agent if isinstance(agent, str) else "", []).append((where, message))
    info = option(trajectory, "info", dict) or {}
    stats = option(info, "model_stats", dict) or {}
    model = _model(trajectory)
    for agent, messages in by_agent.items():
        history = History()
        _fill(messages, history)
        history.model = model
        yield history.session(
            path,
            NAME,
            "chat",
            name=agent if len(by_agent) > 1 else option(trajectory, "environment", str) or "",
            comparable=0,
            extra={"exit_status": info.get("exit_status"), "model_stats": stats},
        )


def _fill(messages: list[tuple[str, dict[str, Any]]], history: History) -> None:
    waiting = False  # the newest reply has a command in its text, of which no result came yet
    for where, message in messages:
        role = field(message, "role", str, where)
        action = message.get("action")
        action = action.strip() if isinstance(action, str) else ""
        sent = {key: message[key] for key in _SENT if message.get(key) is not None}
        sent.setdefault("content", "")
        if message.get("is_demo"):
            if role != "system":
                sent["_cliff"] = {"role": "note", "kind": "demonstration"}
        elif role == "assistant":
            if action.startswith("exit_") and not sent.get("tool_calls"):
                if action == "exit_cost":
                    history.request()
                break
            history.request()
            waiting = bool(action) and not sent.get("tool_calls")
            if waiting:
                thought = message.get("thought")
                calls = [{"name": "bash", "arguments": action}]
                sent["_cliff"] = {"thought": thought if isinstance(thought, str) else "", "calls": calls}
        elif role == "tool":
            ids = message.get("tool_call_ids")
            if isinstance(ids, list) and ids:
                sent["tool_call_id"] = ids[0]
        elif role == "user":
            if waiting:
                sent["_cliff"] = {"role": "tool"}
            waiting = False
        elif role != "system":
            raise MalformedError(f"{where}: role", f"system, user, assistant or tool expected, not {role!r}")
        history.add(sent)


def _model(trajectory: dict[str, Any]) -> str | None:
    """1.x keeps its own configuration, as JSON text."""
    config = option(trajectory, "replay_config", str)
    try:
        found = json.loads(config) if config else None
    except ValueError:
        return None
    return option(option(option(found, "agent", dict), "model", dict), "name", str)

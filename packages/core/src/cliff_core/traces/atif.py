"""ATIF `trajectory.json` of Harbor and others (schema ATIF-v1.0 to v1.8); embedded sub-agents are sessions of
their own.

Most agents have native calls: each result names its call. Terminus-2 has none: it sends the model's reply as text
and the terminal's output as the next user message; `tool_calls` are derived from the reply, one observation answers
all of them, and `message` is the reply itself (`raw_content`) or its analysis and plan. Those steps are `chat-text`
with the keystrokes as calls; commands that are not in the text are counted as calls beside it. Terminus-2's
reasoning is left out: by default it is not sent again.

A step that marks a compaction (`extra.context_management`) and the summary in the user step after it are left
out; the originals before it stay. `cached_tokens` is missing on a miss: 0 where there is a prompt.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cliff_core.traces import terminus
from cliff_core.traces.history import History
from cliff_core.traces.session import Session, Usage
from cliff_core.traces.source import MalformedError, Sample, document, field, guarded, need, objects, option
from cliff_core.traces.usage import count, total

NAME = "atif"
EXPECTS = "an ATIF trajectory (a JSON object with `schema_version` and `steps`)"


def matches(sample: Sample) -> bool:
    first = sample.first
    version = first.get("schema_version") if isinstance(first, dict) else None
    return isinstance(version, str) and version.startswith("ATIF") and "steps" in first


def read(path: Path) -> Iterator[Session]:
    return guarded(path, EXPECTS, _read(path))


def _read(path: Path) -> Iterator[Session]:
    yield from _sessions(path, document(path), "")


def _sessions(path: Path, trajectory: Any, where: str) -> Iterator[Session]:
    agent = option(trajectory, "agent", dict) or {}
    history = History()
    steps = field(trajectory, "steps", list, where)
    text_only = str(agent.get("name") or "").startswith("terminus")
    summary_follows = False
    begun = False
    for index, step in enumerate(steps):
        place = f"{where}steps[{index}]"
        source = field(step, "source", str, place)
        managed = option(option(step, "extra", dict), "context_management", dict)
        if managed and managed.get("type") == "compaction":
            history.compacted()
            summary_follows = True
        elif source == "agent":
            begun, summary_follows = True, False
            _agent_step(step, place, history, text_only)
        elif source == "user":
            if not summary_follows:
                history.add({"role": "user", "content": _content(step.get("message"))})
            summary_follows = False
        elif source == "system":
            if not begun and step.get("message"):
                history.add({"role": "system", "content": _content(step["message"])})
        else:
            raise MalformedError(f"{place}: source", f"system, user or agent expected, not {source!r}")
    name = trajectory.get("trajectory_id") or trajectory.get("session_id") or ""
    yield history.session(
        path,
        NAME,
        "chat",
        name=str(name),
        model=option(agent, "model_name", str),
        tools=objects(agent.get("tool_definitions")) or None,
        extra={"agent": agent.get("name"), "version": trajectory.get("schema_version")},
    )
    for index, inner in enumerate(option(trajectory, "subagent_trajectories", list) or []):
        yield from _sessions(path, inner, f"{where}subagent_trajectories[{index}].")


def _agent_step(step: dict[str, Any], where: str, history: History, text_only: bool) -> None:
    if step.get("llm_call_count") != 0 and not step.get("is_copied_context"):
        history.request(_usage(step.get("metrics")), option(step, "model_name", str))
    calls = objects(step.get("tool_calls"))
    results = objects(option(option(step, "observation", dict), "results", list))
    content = _content(step.get("message"))
    if text_only:
        answer = terminus.reply(content if isinstance(content, str) else "", _typed(calls))
        history.add(answer)
        for result in results:
            if result.get("content") is not None:
                history.add(terminus.result(_content(result["content"]), answer))
        return
    reply: dict[str, Any] = {"role": "assistant", "content": content}
    if isinstance(step.get("reasoning_content"), str) and step["reasoning_content"]:
        reply["reasoning_content"] = step["reasoning_content"]
    history.add(reply)
    ids = [str(call.get("tool_call_id") or f"call_{number}") for number, call in enumerate(calls, 1)]
    named = [str(result["source_call_id"]) for result in results if result.get("source_call_id") is not None]
    if not calls:
        for result in results:  # what the environment says to an agent without calls
            history.add({"role": "user", "content": _content(result.get("content")), "_cliff": {"role": "tool"}})
    elif not results or set(named) == set(ids) or len(results) == len(ids):
        reply["tool_calls"] = [_call(call, identity) for call, identity in zip(calls, ids, strict=True)]
        for position, result in enumerate(results):
            identity = result.get("source_call_id")
            if identity is None:
                identity = ids[min(position, len(ids) - 1)]
            history.add({"role": "tool", "tool_call_id": str(identity), "content": _content(result.get("content"))})
    else:  # calls that only tell what was done, and results for them together
        reply["_cliff"] = {"thought": content if isinstance(content, str) else "", "calls": _shared(calls, ids)}
        for result in results:
            history.add(
                {
                    "role": "user",
                    "content": _content(result.get("content")),
                    "_cliff": {"role": "tool", "call_id": ids[-1]},
                }
            )


def _typed(calls: list[dict[str, Any]]) -> list[tuple[str, Any]]:
    """Derived calls of Terminus-2 as its keystrokes."""
    found = []
    for call in calls:
        arguments = call.get("arguments")
        keystrokes = arguments.get("keystrokes") if isinstance(arguments, dict) else None
        name = str(call.get("function_name") or terminus.TOOL)
        found.append((name, keystrokes if isinstance(keystrokes, str) else arguments or ""))
    return found


def _shared(calls: list[dict[str, Any]], ids: list[str]) -> list[dict[str, Any]]:
    return [
        {
            "name": str(call.get("function_name") or ""),
            "arguments": call.get("arguments") or {},
            "id": identity,
            "answered": identity == ids[-1],
        }
        for call, identity in zip(calls, ids, strict=True)
    ]


def _call(call: dict[str, Any], identity: str) -> dict[str, Any]:
    arguments = call.get("arguments")
    return {
        "id": identity,
        "type": "function",
        "function": {
            "name": str(call.get("function_name") or ""),
            "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False),
        },
    }


def _content(content: Any) -> Any:
    """A text, or parts in the form of Chat Completions."""
    if content is None or isinstance(content, str):
        return content or ""
    parts: list[dict[str, Any]] = []
    for part in need(content, list, "message"):
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            parts.append({"type": "text", "text": part["text"]})
        elif isinstance(part, dict):
            source = option(part, "source", dict) or {}
            parts.append({"type": "image_url", "image_url": {"url": str(source.get("path") or "")}})
    return parts


def _usage(metrics: Any) -> Usage | None:
    prompt = count(metrics, "prompt_tokens")
    return total(prompt, count(metrics, "cached_tokens") or 0, None, count(metrics, "completion_tokens"), None)

"""OpenHands V1 (software-agent-sdk): events with `kind`, as `history` of each line of an evaluation's output, as a
list or lines of their own, or as the folder of a conversation (`base_state.json`, `events/event-00000-*.json`).

Messages are built as the SDK does: actions of one response (`llm_response_id`) are one message, each observation is
the result of its call; an action that never got an observation is not sent, unless the log ends there. Usage is in
`stats.usage_to_metrics` of the conversation (the agent's; a condenser has its own), or nowhere. Evaluations leave
the system prompt and the first message out of `history`: the task is taken from `instruction`.

Condensations are compactions; their summaries are left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cliff_core.traces.history import History
from cliff_core.traces.openhands_v0 import command_output, token_usage
from cliff_core.traces.session import Request, Session
from cliff_core.traces.source import MalformedError, Sample, document, field, guarded, need, objects, option, records

NAME = "openhands-v1"
EXPECTS = "an OpenHands V1 event log (events with `kind`, or a conversation's folder)"

_FAILED = "[An error occurred during execution.]\n"


def matches(sample: Sample) -> bool:
    if isinstance(sample.first, list):
        return _are_events(sample.first)
    return any(_are_events(record.get("history")) for record in sample.objects) or _are_events(list(sample.records))


def is_folder(path: Path) -> bool:
    """Whether a folder is one conversation."""
    return (path / "base_state.json").is_file() or any((path / "events").glob("event-*.json"))


def _are_events(events: Any) -> bool:
    return bool(
        isinstance(events, list)
        and events
        and isinstance(events[0], dict)
        and isinstance(events[0].get("kind"), str)
        and events[0]["kind"].endswith(("Event", "Condensation", "Observation", "Request"))
    )


def read(path: Path) -> Iterator[Session]:
    return guarded(path, EXPECTS, _read_folder(path) if path.is_dir() else _read(path))


def _read_folder(path: Path) -> Iterator[Session]:
    state: Any = {}
    if (path / "base_state.json").exists():
        state = _inside(path / "base_state.json")
    events = [_inside(file) for file in sorted((path / "events").glob("event-*.json"))]
    if not events:
        raise MalformedError("events", "the folder has no event-*.json")
    usages = []
    stats = option(option(state, "stats", dict), "usage_to_metrics", dict) or {}
    for key, metrics in stats.items():
        if key == "agent" or len(stats) == 1:
            usages = objects(option(metrics, "token_usages", list))
    model = option(option(option(state, "agent", dict), "llm", dict), "model", str)
    yield _session(path, "events", events, usages, str(option(state, "id", str) or path.name), model)


def _inside(file: Path) -> Any:
    try:
        return document(file)
    except MalformedError as error:
        raise MalformedError(file.name, str(error)) from error


def _read(path: Path) -> Iterator[Session]:
    loose: list[Any] = []
    for where, record in records(path):
        if isinstance(record, list):
            yield _session(path, where, record, [], "", None)
        elif isinstance(record, dict) and "history" in record:
            events = record["history"] if record["history"] is not None else []
            metrics = option(record, "metrics", dict)
            yield _session(
                path,
                where,
                events,
                objects(option(metrics, "token_usages", list)),
                str(record.get("instance_id") or ""),
                option(option(option(record, "metadata", dict), "llm", dict), "model", str),
                option(record, "instruction", str),
                record.get("error"),
            )
        else:
            loose.append(record)
    if loose:
        yield _session(path, "the events", loose, [], "", None)


def _session(
    path: Path,
    where: str,
    events: Any,
    usages: list[dict[str, Any]],
    name: str,
    model: str | None,
    task: str | None = None,
    error: Any = None,
) -> Session:
    log = [
        (f"{where}: event {index}", need(event, dict, f"{where}: event {index}"))
        for index, event in enumerate(need(events, list, f"{where}: the events"))
    ]
    history = History()
    history.model = model
    tools: list[dict[str, Any]] | None = None
    steps = [event for _, event in log if _is_model(event)]
    answered = {event.get("tool_call_id") for _, event in log if event.get("kind") != "ActionEvent"}
    spoken = next((event for _, event in log if event.get("kind") in ("MessageEvent", "ActionEvent")), {})
    if task and spoken.get("source") != "user":
        history.add({"role": "user", "content": task})
    responses: dict[str, None] = {}  # in order
    reply: dict[str, Any] = {}  # the message of the response whose actions are being read
    for place, event in log:
        kind = event.get("kind")
        if _is_model(event):
            response = str(event.get("llm_response_id") or event.get("id") or place)
            if response not in responses:
                responses[response] = None
                history.request()
                reply = {}
        if kind == "ActionEvent":
            if event.get("tool_call_id") in answered or _response(event) == _response(steps[-1]):
                if not reply:
                    reply = {**_reply(event), "tool_calls": []}
                    history.add(reply)
                reply["tool_calls"].append(_call(event, place))
            continue
        reply = {}
        if kind == "SystemPromptEvent":
            parts = [event.get("system_prompt"), event.get("dynamic_context")]
            history.add({"role": "system", "content": _content(objects(parts))})
            given = objects(event.get("tools"))
            tools = given if given and all("function" in tool for tool in given) else None
        elif kind == "MessageEvent":
            history.add(_message(field(event, "llm_message", dict, place), event, place))
        elif kind == "Condensation":
            history.compacted()
        elif kind in ("ObservationEvent", "AgentErrorEvent", "UserRejectObservation"):
            history.add(
                {
                    "role": "tool",
                    "tool_call_id": event.get("tool_call_id"),
                    "name": event.get("tool_name"),
                    "content": _result(event),
                }
            )
    by_id = {usage.get("response_id"): usage for usage in usages}
    history.requests = [
        Request(request.at, token_usage(by_id.get(response)), request.model)
        for request, response in zip(history.requests, responses, strict=True)
    ]
    return history.session(path, NAME, "chat", name=name, tools=tools, extra={"error": error} if error else {})


def _is_model(event: dict[str, Any]) -> bool:
    return event.get("kind") == "ActionEvent" or (
        event.get("kind") == "MessageEvent" and event.get("source") == "agent"
    )


def _response(event: dict[str, Any]) -> Any:
    return event.get("llm_response_id") or event.get("id")


def _reply(event: dict[str, Any]) -> dict[str, Any]:
    reply: dict[str, Any] = {"role": "assistant", "content": _content(objects(event.get("thought")))}
    for key in ("reasoning_content", "thinking_blocks"):
        if event.get(key):
            reply[key] = event[key]
    return reply


def _call(event: dict[str, Any], where: str) -> dict[str, Any]:
    call = field(event, "tool_call", dict, where)
    function = option(call, "function", dict) or call  # the first releases kept the provider's own object
    arguments = function.get("arguments")
    return {
        "id": event.get("tool_call_id") or call.get("id"),
        "type": "function",
        "function": {
            "name": function.get("name"),
            "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments),
        },
    }


def _message(message: dict[str, Any], event: dict[str, Any], where: str) -> dict[str, Any]:
    content = message.get("content")
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else objects(content)
    sent: dict[str, Any] = {
        "role": field(message, "role", str, f"{where}: llm_message"),
        "content": _content([*parts, *objects(event.get("extended_content"))]),
    }
    for key in ("reasoning_content", "thinking_blocks"):
        if message.get(key):
            sent[key] = message[key]
    return sent


def _content(parts: list[dict[str, Any]]) -> Any:
    """Parts as the API has them; one text alone as it is."""
    sent: list[dict[str, Any]] = []
    for part in parts:
        if isinstance(part.get("text"), str):
            sent.append({"type": "text", "text": part["text"]})
        for url in part.get("image_urls") or ():
            sent.append({"type": "image_url", "image_url": {"url": url}})
    if not sent:
        return ""
    return sent[0]["text"] if len(sent) == 1 and "text" in sent[0] else sent


def _result(event: dict[str, Any]) -> Any:
    if event["kind"] == "AgentErrorEvent":
        return str(event.get("error") or "")
    if event["kind"] == "UserRejectObservation":
        return f"Action rejected: {event.get('rejection_reason') or ''}"
    observation = option(event, "observation", dict) or {}
    parts = observation.get("content")
    if isinstance(parts, list):
        content = [dict(part) for part in objects(parts)]
        texts = [part for part in content if isinstance(part.get("text"), str)]
        if texts and isinstance(observation.get("metadata"), dict):
            texts[0]["text"] = command_output(texts[0]["text"], observation["metadata"])
        if observation.get("is_error") is True:
            content.insert(0, {"text": _FAILED})
        return _content([*content, *objects(event.get("extended_content"))])
    # The first releases had a field of their own for the text of each kind.
    error = option(observation, "error", str)
    texts_of_kinds = (option(observation, key, str) for key in ("output", "content", "message"))
    text = error or command_output(next(filter(None, texts_of_kinds), ""), observation.get("metadata"))
    screenshot = observation.get("screenshot_data")
    if isinstance(screenshot, str) and screenshot:
        url = f"data:image/png;base64,{screenshot}"
        return _content([{"text": text}, {"image_urls": [url]}])
    return text

"""OpenHands V0 event logs (openhands-ai up to 1.6): a list of events, alone, as `trajectory` (downloads), or as
`history` of each line of an evaluation's output.

Messages are built as its `ConversationMemory` does: what the model wrote comes from the response beside each
action (one message for several events of one response), placed once all of its calls have their results, in
the order of the calls; a `finish` call goes back as plain text; a call that never got a result is not sent at all,
unless the log ends there. Command output has the directory, interpreter and exit code appended that the model saw.
Errors without a call (a malformed one) are notes. `recall`, `null` and state changes are left out: their text is
rendered from templates that the log does not have.

The log keeps what the condenser forgot; its summaries are left out, each condensation is a compaction.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cliff_core.traces.history import History
from cliff_core.traces.session import Request, Session, Usage
from cliff_core.traces.source import Sample, field, guarded, need, objects, option, records
from cliff_core.traces.usage import count, total, usage

NAME = "openhands-v0"
EXPECTS = "an OpenHands V0 event log (events with `action` or `observation`)"


def matches(sample: Sample) -> bool:
    if isinstance(sample.first, list):
        return _are_events(sample.first)
    return any(_are_events(_events(record)) for record in sample.objects) or _are_events(list(sample.records))


def _are_events(events: Any) -> bool:
    if not isinstance(events, list) or not events:
        return False
    first = events[0]
    if isinstance(first, list) and first:  # once: pairs of an action and its observation
        first = first[0]
    if not isinstance(first, dict) or "kind" in first:
        return False
    return ("action" in first and "args" in first) or ("observation" in first and "content" in first)


def _events(record: Any) -> Any:
    if isinstance(record, list):
        return record
    return record.get("history") or record.get("trajectory") if isinstance(record, dict) else None


def read(path: Path) -> Iterator[Session]:
    return guarded(path, EXPECTS, _read(path))


def _read(path: Path) -> Iterator[Session]:
    loose: list[Any] = []  # events of a file that has one on each line
    for where, record in records(path):
        if isinstance(record, dict) and "history" not in record and "trajectory" not in record:
            loose.append(record)
            continue
        events = _events(record)
        instance = record.get("instance_id") if isinstance(record, dict) else None
        yield _session(path, where, events if events is not None else [], record, str(instance or ""))
    if loose:
        yield _session(path, "the events", loose, {}, "")


def _session(path: Path, where: str, events: Any, record: Any, name: str) -> Session:
    flat: list[Any] = []
    for event in need(events, list, f"{where}: the events"):
        flat.extend(event if isinstance(event, list) else [event])
    log = _Log()
    for index, event in enumerate(flat):
        log.take(need(event, dict, f"{where}: event {index}"), f"{where}: event {index}")
    log.finish()
    metrics = option(record, "metrics", dict) or {}
    log.add_usage(objects(metrics.get("token_usages")))
    llm = option(option(record, "metadata", dict), "llm_config", dict)
    return log.history.session(
        path,
        NAME,
        "chat",
        name=name,
        model=log.history.model or option(llm, "model", str),
        tools=log.tools,
        extra={"error": record.get("error")} if isinstance(record, dict) and record.get("error") else {},
    )


@dataclass(slots=True)
class _Reply:
    """A message whose calls have not all got their results."""

    number: int  # in the order of the log
    message: dict[str, Any]
    calls: list[str]  # ids, each once
    at: int = 0  # the one whose result is waited for


class _Log:
    """Events to messages, in the way of the host."""

    def __init__(self) -> None:
        self.history = History()
        self.tools: list[dict[str, Any]] | None = None
        self._responses: list[str] = []  # ids, one for each request
        self._pending: dict[str, _Reply] = {}  # by id of the response
        self._numbers = itertools.count()
        self._waiting: dict[str, list[tuple[int, str]]] = {}  # id of a call -> heap of who waits: number, response
        self._results: dict[str, dict[str, Any]] = {}

    def take(self, event: dict[str, Any], where: str) -> None:
        metadata = option(event, "tool_call_metadata", dict)
        if "action" in event:
            self._action(event, metadata, where)
        elif "observation" in event:
            self._observation(event, metadata, where)

    def finish(self) -> None:
        """A reply whose calls were still running when the log ends is the last message."""
        last = self._responses[-1] if self._responses else ""
        if last in self._pending:
            reply = self._pending[last]
            self.history.add(reply.message)
            for call in reply.calls:
                if call in self._results:
                    self.history.add(self._results.pop(call))

    def _called(self, response: str, message: dict[str, Any]) -> None:
        calls = list(dict.fromkeys(str(call.get("id")) for call in objects(message["tool_calls"])))
        before = self._pending.get(response)
        number = before.number if before is not None else next(self._numbers)
        self._pending[response] = reply = _Reply(number, message, calls)
        self._settle(response, reply)

    def _answered(self, call: str, result: dict[str, Any]) -> None:
        self._results[call] = result
        waiting = self._waiting.get(call, [])
        while waiting and call in self._results:  # ids may repeat: one reply uses the result up
            number, response = heapq.heappop(waiting)
            reply = self._pending.get(response)
            if reply is not None and (reply.number, reply.calls[reply.at]) == (number, call):
                self._settle(response, reply)

    def _settle(self, response: str, reply: _Reply) -> None:
        """Put a reply that has all of its results, and these, into the history. Another one waits for a result."""
        for _ in reply.calls:
            call = reply.calls[reply.at]
            if call not in self._results:
                heapq.heappush(self._waiting.setdefault(call, []), (reply.number, response))
                return
            reply.at = (reply.at + 1) % len(reply.calls)
        del self._pending[response]
        self.history.add(reply.message)
        for call in reply.calls:
            self.history.add(self._results.pop(call))

    def _request(self, response: dict[str, Any] | None) -> bool:
        """Whether the response is a new one: several events share one."""
        identity = str(option(response, "id", str) or f"#{len(self._responses)}")
        if identity in self._responses[-50:]:
            return False
        self._responses.append(identity)
        self.history.request(usage(option(response, "usage", dict)), option(response, "model", str))
        return True

    def _action(self, event: dict[str, Any], metadata: dict[str, Any] | None, where: str) -> None:
        kind = event["action"]
        arguments = option(event, "args", dict) or {}
        user = event.get("source") == "user"
        if kind == "system":
            self.tools = objects(arguments.get("tools")) or None
            self.history.add({"role": "system", "content": str(arguments.get("content") or "")})
        elif kind == "message":
            if not user:
                self._request(option(metadata, "model_response", dict))
            self.history.add(_said("user" if user else "assistant", arguments))
        elif kind == "condensation":
            self.history.compacted()
        elif kind == "run" and user:
            text = f"User executed the command:\n{arguments.get('command') or ''}"
            self.history.add({"role": "user", "content": text})
        elif metadata is not None:
            response = field(metadata, "model_response", dict, f"{where}: tool_call_metadata")
            self._request(response)
            message = _reply(response, where)
            if kind == "finish":
                thought, content = str(arguments.get("thought") or ""), message.get("content") or ""
                if thought and thought != content:
                    content = f"{thought}\n{content}"
                self.history.add({"role": "assistant", "content": content or thought})
            else:
                self._called(str(response.get("id")), message)
        elif kind == "finish" and user:
            self.history.add({"role": "user", "content": str(arguments.get("thought") or "")})

    def _observation(self, event: dict[str, Any], metadata: dict[str, Any] | None, where: str) -> None:
        kind = event["observation"]
        if kind in ("recall", "null", "agent_state_changed", "condense", "loop_detection"):
            return
        content = _seen(event)
        if metadata is not None:
            identity = field(metadata, "tool_call_id", str, f"{where}: tool_call_metadata")
            name = metadata.get("function_name")
            self._answered(identity, {"role": "tool", "tool_call_id": identity, "name": name, "content": content})
        elif kind == "error":
            self.history.add({"role": "user", "content": content, "_cliff": {"role": "note", "kind": "error"}})
        elif kind == "run":
            text = f"\nObserved result of command executed by user:\n{content}"
            self.history.add({"role": "user", "content": text, "_cliff": {"role": "tool"}})
        else:
            self.history.add({"role": "user", "content": content, "_cliff": {"role": "note"}})

    def add_usage(self, usages: list[dict[str, Any]]) -> None:
        """Usage from the run's own list, by response, where the response did not bring it (or nothing of a cache)."""
        requests = self.history.requests
        by_id = {u.get("response_id"): u for u in usages}
        in_order = len(usages) == len(requests)
        for index, request in enumerate(requests):
            if request.usage is None or request.usage.cached_tokens is None:
                found = by_id.get(self._responses[index]) or (usages[index] if in_order else None)
                requests[index] = Request(request.at, token_usage(found) or request.usage, request.model)


def token_usage(reported: Any) -> Usage | None:
    """An entry of `token_usages` (V0 and V1)."""
    return total(
        count(reported, "prompt_tokens"),
        count(reported, "cache_read_tokens"),
        count(reported, "cache_write_tokens"),
        count(reported, "completion_tokens"),
        count(reported, "reasoning_tokens") or None,
    )


def _reply(response: dict[str, Any], where: str) -> dict[str, Any]:
    choices = objects(field(response, "choices", list, f"{where}: model_response"))
    message = option(choices[0] if choices else None, "message", dict) or {}
    content = message.get("content")
    return {
        "role": "assistant",
        "content": content if isinstance(content, str) and content.strip() else "",
        "tool_calls": [
            {key: value for key, value in call.items() if key != "index"} for call in objects(message.get("tool_calls"))
        ],
    }


def _said(role: str, arguments: dict[str, Any]) -> dict[str, Any]:
    text = str(arguments.get("content") or "")
    urls = [url for url in arguments.get("image_urls") or () if isinstance(url, str)]
    if not urls:
        return {"role": role, "content": text}
    parts: list[dict[str, Any]] = [{"type": "text", "text": text}]
    for number, url in enumerate(urls, 1):
        if role == "user":
            parts.append({"type": "text", "text": f"Image {number}:"})
        parts.append({"type": "image_url", "image_url": {"url": url}})
    return {"role": role, "content": parts}


def _seen(event: dict[str, Any]) -> str:
    """What the model sees of an observation."""
    kind = event["observation"]
    text = event.get("content")
    text = text if isinstance(text, str) else ""
    extras = option(event, "extras", dict) or {}
    if kind == "run":
        return command_output(text, extras.get("metadata"))
    if kind == "delegate":
        outputs = option(extras, "outputs", dict) or {}
        return str(outputs.get("content", text))
    if kind == "error":
        return f"{text}\n[Error occurred in processing last action]"
    if kind == "user_rejected":
        return f"OBSERVATION:\n{text}\n[Last action has been rejected by the user]"
    return text


def command_output(text: str, metadata: Any) -> str:
    """A command's output with what OpenHands (V0 and V1) appends for the model."""
    if not isinstance(metadata, dict):
        return text
    text = f"{metadata.get('prefix') or ''}{text}{metadata.get('suffix') or ''}"
    if metadata.get("working_dir"):
        text += f"\n[Current working directory: {metadata['working_dir']}]"
    if metadata.get("py_interpreter_path"):
        text += f"\n[Python interpreter: {metadata['py_interpreter_path']}]"
    if metadata.get("exit_code", -1) != -1:
        text += f"\n[Command finished with exit code {metadata['exit_code']}]"
    return text

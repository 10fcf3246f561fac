"""NeMo Gym rollouts: a line is a trial, with the task in `responses_create_params` and all that followed in
`response.output`. A run of the model's items is one request.

Items are Responses items; token ids and log probabilities for training are left out. Agents of Harbor's Terminus-2
sent text: the message item is the whole reply and the function calls repeat its commands, the outputs were user
messages. Those trials are `chat-text`.

Usage is a sum over the trial (`extra`); it is a request's own where there was only one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cliff_core.traces import terminus
from cliff_core.traces.history import History
from cliff_core.traces.session import Session
from cliff_core.traces.source import Sample, field, guarded, items, need, objects, option
from cliff_core.traces.usage import usage

NAME = "nemo-gym"
EXPECTS = "NeMo Gym rollouts (a JSON object with `responses_create_params` and `response` on each line)"

_TRAINING = ("prompt_token_ids", "generation_token_ids", "generation_log_probs", "routed_experts")


def matches(sample: Sample) -> bool:
    records = sample.first if isinstance(sample.first, list) else sample.records
    return any(isinstance(r, dict) and "responses_create_params" in r and "response" in r for r in records[:1])


def read(path: Path) -> Iterator[Session]:
    return guarded(path, EXPECTS, _read(path))


def _read(path: Path) -> Iterator[Session]:
    for where, record in items(path):
        asked = field(record, "responses_create_params", dict, where)
        response = field(record, "response", dict, where)
        output = [
            _plain(need(item, dict, f"{where}: response.output[{index}]"))
            for index, item in enumerate(field(response, "output", list, f"{where}: response"))
        ]
        given = asked.get("input")
        begin = [{"role": "user", "content": given}] if isinstance(given, str) else [_plain(i) for i in objects(given)]
        history = History()
        history.model = option(response, "model", str) or option(asked, "model", str)
        sum_of_usage = usage(response.get("usage"))
        text = _is_terminus(record, output)
        if text:
            _fill_text(begin, output, history)
        else:
            _fill(begin, output, history)
        if len(history.requests) == 1:
            history.set_usage(sum_of_usage)
        yield history.session(
            path,
            NAME,
            "chat" if text else "responses",
            name=_name(record),
            tools=objects(asked.get("tools")) or None,
            system=option(asked, "instructions", str),
            extra={"reward": record.get("reward"), "usage": sum_of_usage},
        )


def _plain(item: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in item.items() if key not in _TRAINING}


def _name(record: dict[str, Any]) -> str:
    about = option(record["responses_create_params"], "metadata", dict) or {}
    name = record.get("instance_id") or about.get("instance_id") or record.get("_ng_task_index")
    return "" if name is None else str(name)


def _is_terminus(record: dict[str, Any], output: list[dict[str, Any]]) -> bool:
    agent = option(option(record, "metadata", dict), "agent_info", dict)
    if (option(agent, "name", str) or "").startswith("terminus"):
        return True
    calls = [item for item in output if item.get("type") == "function_call"]
    return bool(calls) and all(item.get("name") == terminus.TOOL for item in calls)


def _is_result(item: dict[str, Any]) -> bool:
    return str(item.get("type") or "").endswith("_output") or item.get("role") in ("user", "system", "developer")


def _fill(begin: list[dict[str, Any]], output: list[dict[str, Any]], history: History) -> None:
    for item in begin:
        history.add(item)
    answered = True
    for item in output:
        if _is_result(item):
            answered = True
        elif answered:
            history.request()
            answered = False
        history.add(item)


def _fill_text(begin: list[dict[str, Any]], output: list[dict[str, Any]], history: History) -> None:
    for item in begin:
        history.add({"role": item.get("role") or "user", "content": _text(item.get("content"))})
    reply: dict[str, Any] | None = None
    for index, item in enumerate(output):
        kind = item.get("type")
        if kind == "message" and item.get("role") == "assistant":
            derived = []
            end = index + 1
            while end < len(output) and output[end].get("type") == "function_call":
                call = output[end]
                derived.append((str(call.get("name") or terminus.TOOL), _keystrokes(call.get("arguments"))))
                end += 1
            history.request()
            reply = terminus.reply(_text(item.get("content")), derived)
            history.add(reply)
        elif kind == "function_call_output":
            history.add(terminus.result(_text(item.get("output")), reply))
        elif kind == "message":
            history.add({"role": item.get("role") or "user", "content": _text(item.get("content"))})


def _keystrokes(arguments: Any) -> Any:
    try:
        found = json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return arguments
    keystrokes = found.get("keystrokes") if isinstance(found, dict) else None
    return keystrokes if isinstance(keystrokes, str) else arguments


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(part["text"] for part in objects(content) if isinstance(part.get("text"), str))

"""OpenAI Responses: `/v1/responses`."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from typing import Any

from ..request import Request
from ..script import Call, Step
from ..sse import Event, pieces
from ..usage import Usage
from . import chat

INCOMPLETE = {"length": "max_output_tokens", "filter": "content_filter"}


def reply(step: Step, place: int, usage: Usage, request: Request) -> dict[str, Any]:
    whole = _response(place, request)
    whole["output"] = _output(step, place, request)
    whole["usage"] = usage_of(usage)
    if step.reason in {"stop", "calls"}:
        whole["status"] = "completed"
    else:
        whole["status"] = "incomplete"
        whole["incomplete_details"] = {"reason": INCOMPLETE.get(step.reason, step.reason)}
    return whole


def _response(place: int, request: Request) -> dict[str, Any]:
    """The response before it has an output: what the request asked for, and the defaults."""
    body = request.body
    reasoning = body.get("reasoning") or {}
    text = body.get("text") or {}
    return {
        "id": f"resp_{place}",
        "object": "response",
        "created_at": 0,
        "status": "in_progress",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": body.get("instructions"),
        "max_output_tokens": body.get("max_output_tokens"),
        "max_tool_calls": body.get("max_tool_calls"),
        "model": request.model,
        "output": [],
        "parallel_tool_calls": body.get("parallel_tool_calls", True),
        "previous_response_id": body.get("previous_response_id"),
        "prompt_cache_key": body.get("prompt_cache_key"),
        "reasoning": {"effort": reasoning.get("effort"), "summary": reasoning.get("summary")},
        "safety_identifier": None,
        "service_tier": "default",
        "store": body.get("store", True),
        "temperature": body.get("temperature", 1.0),
        "text": {"format": {"type": "text"}, "verbosity": "medium"} | text,
        "tool_choice": body.get("tool_choice", "auto"),
        "tools": body.get("tools") or [],
        "top_logprobs": 0,
        "top_p": body.get("top_p", 1.0),
        "truncation": body.get("truncation", "disabled"),
        "usage": None,
        "user": None,
        "metadata": body.get("metadata") or {},
    }


def _output(step: Step, place: int, request: Request) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if step.thought:
        summary = [] if step.hidden else [{"type": "summary_text", "text": step.thought}]
        item = {"id": f"rs_{place}", "type": "reasoning", "summary": summary}
        if step.hidden or "reasoning.encrypted_content" in (request.body.get("include") or []):
            item["encrypted_content"] = seal(step.thought)
        items.append(item)
    items += [dict(item) for item in step.raw]
    if step.text:
        part = {"type": "output_text", "annotations": [], "logprobs": [], "text": step.text}
        items.append(
            {
                "id": f"msg_{place}",
                "type": "message",
                "status": "incomplete" if step.reason == "length" else "completed",
                "role": "assistant",
                "content": [part],
            }
        )
    return items + [_call(call, place, at) for at, call in enumerate(step.calls)]


def _call(call: Call, place: int, at: int) -> dict[str, Any]:
    item: dict[str, Any] = {"status": "completed"}
    if call.custom:
        item |= {"id": f"ctc_{place}_{at}", "type": "custom_tool_call", "input": call.text}
    else:
        item |= {"id": f"fc_{place}_{at}", "type": "function_call", "arguments": call.text}
    return item | {"call_id": call.id or f"call_{place}_{at}", "name": call.name}


def seal(thought: str) -> str:
    """Encrypted content: opaque, the same for the same thought, longer for a longer one."""
    digest = hashlib.sha256(thought.encode("utf-8", "surrogatepass")).digest()
    return "kit" + base64.b64encode(digest * (2 + len(thought) // 32)).decode()


def events(step: Step, place: int, usage: Usage, request: Request) -> tuple[list[Event], dict[str, Any]]:
    whole = reply(step, place, usage, request)
    found: list[Event] = []

    def event(name: str, **data: Any) -> None:
        found.append(Event({"type": name, "sequence_number": len(found), **data}, name))

    event("response.created", response=_response(place, request))
    event("response.in_progress", response=_response(place, request))
    for index, item in enumerate(whole["output"]):
        added, changes = _changes(item, step.piece)
        event("response.output_item.added", output_index=index, item=added)
        for name, data in changes:
            event(f"response.{name}", item_id=item.get("id"), output_index=index, **data)
        event("response.output_item.done", output_index=index, item=item)
    event(f"response.{whole['status']}", response=whole)
    return found, whole


def _changes(item: dict[str, Any], size: int) -> tuple[dict[str, Any], list[tuple[str, dict[str, Any]]]]:
    """The item as it is added, and the events until it is done."""
    kind = item["type"]
    if kind == "function_call":
        text = item["arguments"]
        changes: list[tuple[str, dict[str, Any]]] = [
            ("function_call_arguments.delta", {"delta": piece}) for piece in pieces(text, size)
        ]
        changes.append(("function_call_arguments.done", {"arguments": text}))
        return {**item, "status": "in_progress", "arguments": ""}, changes
    if kind == "custom_tool_call":
        text = item["input"]
        changes = [("custom_tool_call_input.delta", {"delta": p}) for p in pieces(text, size)]
        changes.append(("custom_tool_call_input.done", {"input": text}))
        return {**item, "status": "in_progress", "input": ""}, changes
    if kind == "reasoning":
        changes = []
        for at, part in enumerate(item["summary"]):
            where, text = {"summary_index": at}, part["text"]
            changes.append(("reasoning_summary_part.added", where | {"part": {**part, "text": ""}}))
            changes += [("reasoning_summary_text.delta", where | {"delta": piece}) for piece in pieces(text, size)]
            changes.append(("reasoning_summary_text.done", where | {"text": text}))
            changes.append(("reasoning_summary_part.done", where | {"part": part}))
        return {**item, "summary": []}, changes
    if kind == "message" and item["content"][0]["type"] == "output_text":
        part = item["content"][0]
        where = {"content_index": 0}
        changes = [("content_part.added", where | {"part": {**part, "text": ""}})]
        changes += [
            ("output_text.delta", where | {"delta": piece, "logprobs": []}) for piece in pieces(part["text"], size)
        ]
        changes.append(("output_text.done", where | {"text": part["text"], "logprobs": []}))
        changes.append(("content_part.done", where | {"part": part}))
        return {**item, "status": "in_progress", "content": []}, changes
    return item, []


def compaction(place: int, usage: Usage, request: Request) -> dict[str, Any]:
    """The body of `/v1/responses/compact`: the messages of the user, and one compaction item."""
    users = [item for item in request.messages if item.get("role") in {"user", "developer"}]
    return {
        "id": f"resp_{place}",
        "object": "response.compaction",
        "created_at": 0,
        "output": [*users, compaction_item(place, request)],
        "usage": usage_of(usage),
    }


def compaction_item(place: int, request: Request) -> dict[str, Any]:
    """The item that stands for all of the conversation so far."""
    return {"type": "compaction", "id": f"cmp_{place}", "encrypted_content": seal(request.text)}


def wants_compaction(request: Request) -> bool:
    """Codex's remote compaction: the last item asks for exactly one compaction item."""
    return bool(request.messages) and request.messages[-1].get("type") == "compaction_trigger"


def usage_of(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input,
        "input_tokens_details": {
            "cached_tokens": usage.cached,
            "cache_write_tokens": usage.written,
        },
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.input + usage.output,
    }


error = chat.error


def error_events(body: Any, place: int, sent: int, request: Request) -> list[Event]:
    """OpenAI sends the error twice: as an event, and in the response that failed."""
    found = body.get("error", body) if isinstance(body, dict) else {"message": str(body)}
    opening: list[Event] = []
    if not sent:
        for name in ("response.created", "response.in_progress"):
            data = {"type": name, "sequence_number": len(opening)}
            opening.append(Event({**data, "response": _response(place, request)}, name))
    at = sent or len(opening)
    failed = _response(place, request) | {
        "status": "failed",
        "error": {"code": found.get("code") or "server_error", "message": found.get("message")},
    }
    return [
        *opening,
        Event({"type": "error", "sequence_number": at, "error": found}, "error"),
        Event(
            {"type": "response.failed", "sequence_number": at + 1, "response": failed},
            "response.failed",
        ),
    ]


def max_tokens(body: Mapping[str, Any]) -> int:
    return int(body.get("max_output_tokens") or 0)

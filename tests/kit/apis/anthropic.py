"""Anthropic Messages: `/v1/messages`."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from ..request import Request
from ..script import Step
from ..sse import Event, pieces
from ..usage import Usage

STOPS = {"stop": "end_turn", "calls": "tool_use", "length": "max_tokens", "filter": "refusal"}
KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def reply(step: Step, place: int, usage: Usage, request: Request) -> dict[str, Any]:
    content: list[dict[str, Any]] = []
    if step.thought and step.hidden:
        content.append({"type": "redacted_thinking", "data": _seal("redacted", step.thought)})
    elif step.thought:
        shown = "" if _omits_thinking(request) else step.thought
        signature = sign(step.thought)
        content.append({"type": "thinking", "thinking": shown, "signature": signature})
    content += [dict(block) for block in step.raw]
    if step.text:
        content.append({"type": "text", "text": step.text})
    for at, call in enumerate(step.calls):
        id_ = call.id or f"call_{place}_{at}"
        content.append({"type": "tool_use", "id": id_, "name": call.name, "input": call.object})
    return {
        "id": f"msg_{place}",
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "content": content,
        "stop_reason": STOPS.get(step.reason, step.reason),
        "stop_sequence": None,
        "usage": _usage(usage),
    }


def events(step: Step, place: int, usage: Usage, request: Request) -> tuple[list[Event], dict[str, Any]]:
    whole = reply(step, place, usage, request)
    found = []

    def event(name: str, **data: Any) -> None:
        found.append(Event({"type": name, **data}, name))

    figures = {**whole["usage"], "output_tokens": 1}
    start = {**whole, "content": [], "stop_reason": None, "usage": figures}
    event("message_start", message=start)
    for index, block in enumerate(whole["content"]):
        empty, deltas = _deltas(block, step.piece)
        event("content_block_start", index=index, content_block=empty)
        if index == 0:
            event("ping")
        for delta in deltas:
            event("content_block_delta", index=index, delta=delta)
        event("content_block_stop", index=index)
    names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    figures = {name: whole["usage"][name] for name in (*names, "output_tokens")}
    delta = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    event("message_delta", delta=delta, usage=figures)
    event("message_stop")
    return found, whole


def _deltas(block: dict[str, Any], size: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The block as it starts, and what is added to it."""
    if block["type"] == "text":
        parts = [{"type": "text_delta", "text": piece} for piece in pieces(block["text"], size)]
        return {**block, "text": ""}, parts
    if block["type"] == "thinking":
        parts = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(block["thinking"], size)]
        parts.append({"type": "signature_delta", "signature": block["signature"]})
        return {**block, "thinking": "", "signature": ""}, parts
    if block["type"] in {"tool_use", "server_tool_use", "mcp_tool_use"}:
        text = json.dumps(block["input"], ensure_ascii=False) if block["input"] else ""
        parts = [{"type": "input_json_delta", "partial_json": piece} for piece in ["", *pieces(text, size)]]
        return {**block, "input": {}}, parts
    return block, []


def _omits_thinking(request: Request) -> bool:
    return (request.body.get("thinking") or {}).get("display") == "omitted"


def sign(thought: str) -> str:
    """The signature of a thought; `server.ModelServer` checks it when the thought comes back."""
    return _seal("signed", thought)


def _seal(label: str, text: str) -> str:
    digest = hashlib.sha256(f"{label}\0{text}".encode("utf-8", "surrogatepass")).digest()
    return "kit" + base64.b64encode(digest * 3).decode()  # as long as a short real one


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input - usage.cached - usage.written,
        "cache_creation_input_tokens": usage.written,
        "cache_read_input_tokens": usage.cached,
        "cache_creation": {
            "ephemeral_5m_input_tokens": usage.written,
            "ephemeral_1h_input_tokens": 0,
        },
        "output_tokens": usage.output,
        "service_tier": "standard",
    }


def error(status: int, message: str, kind: str | None = None, code: str | None = None) -> dict[str, Any]:
    kind = kind or KINDS.get(status, "invalid_request_error" if status < 500 else "api_error")
    return {
        "type": "error",
        "error": {"type": kind, "message": message},
        "request_id": "req_0",
    }


def error_events(body: Any, place: int, sent: int, request: Request) -> list[Event]:
    data = body if isinstance(body, dict) and "error" in body else {"error": body}
    return [Event({"type": "error", **data}, "error")]


def max_tokens(body: Mapping[str, Any]) -> int:
    return int(body.get("max_tokens") or 0)

"""OpenAI Chat Completions: `/v1/chat/completions`.

Reasoning is `reasoning_content`, as DeepSeek and vLLM have it; OpenAI itself shows none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..request import Request
from ..script import Call, Step
from ..sse import Event, pieces
from ..usage import Usage

STOPS = {"stop": "stop", "calls": "tool_calls", "length": "length", "filter": "content_filter"}


def reply(step: Step, place: int, usage: Usage, request: Request) -> dict[str, Any]:
    message: dict[str, Any] = {
        "role": "assistant",
        "content": step.text or (None if step.calls else ""),
        "refusal": None,
        "annotations": [],
    }
    if step.thought and not step.hidden:
        message["reasoning_content"] = step.thought
    if step.calls:
        message["tool_calls"] = [_call(c, place, at) for at, c in enumerate(step.calls)]
    for more in step.raw:
        message |= more
    return {
        "id": f"chatcmpl-{place}",
        "object": "chat.completion",
        "created": 0,
        "model": request.model,
        "choices": [
            {
                "index": 0,
                "message": message,
                "logprobs": None,
                "finish_reason": STOPS.get(step.reason, step.reason),
            }
        ],
        "usage": _usage(usage),
        "service_tier": "default",
        "system_fingerprint": None,
    }


def events(step: Step, place: int, usage: Usage, request: Request) -> tuple[list[Event], dict[str, Any]]:
    whole = reply(step, place, usage, request)
    wants_usage = bool((request.body.get("stream_options") or {}).get("include_usage"))
    found = []

    def chunk(choices: list[dict[str, Any]], figures: dict[str, Any] | None = None) -> None:
        data = {
            "id": whole["id"],
            "object": "chat.completion.chunk",
            "created": 0,
            "model": whole["model"],
            "service_tier": "default",
            "system_fingerprint": None,
            "choices": choices,
        }
        if wants_usage:
            data["usage"] = figures
        found.append(Event(data))

    def delta(value: dict[str, Any], finish: str | None = None) -> None:
        choice = {"index": 0, "delta": value, "logprobs": None, "finish_reason": finish}
        chunk([choice])

    first = {"role": "assistant", "content": "" if step.text or not step.calls else None}
    delta({**first, "refusal": None})
    for more in step.raw:
        delta(dict(more))
    if step.thought and not step.hidden:
        for piece in pieces(step.thought, step.piece):
            delta({"reasoning_content": piece})
    for piece in pieces(step.text, step.piece):
        delta({"content": piece})
    for at, call in enumerate(step.calls):
        field = "input" if call.custom else "arguments"
        start = _call(call, place, at)
        start[start["type"]][field] = ""
        delta({"tool_calls": [{"index": at, **start}]})
        for piece in pieces(call.text, step.piece):
            delta({"tool_calls": [{"index": at, start["type"]: {field: piece}}]})
    delta({}, whole["choices"][0]["finish_reason"])
    if wants_usage:
        chunk([], whole["usage"])
    found.append(Event("[DONE]"))
    return found, whole


def _call(call: Call, place: int, at: int) -> dict[str, Any]:
    id_ = call.id or f"call_{place}_{at}"
    if call.custom:
        return {"id": id_, "type": "custom", "custom": {"name": call.name, "input": call.text}}
    function = {"name": call.name, "arguments": call.text}
    return {"id": id_, "type": "function", "function": function}


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cached, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": usage.reasoning,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def error(status: int, message: str, kind: str | None = None, code: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind or _kind(status), "param": None, "code": code}}


def _kind(status: int) -> str:
    kinds = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_exceeded"}
    return kinds.get(status, "invalid_request_error" if status < 500 else "server_error")


def error_events(body: Any, place: int, sent: int, request: Request) -> list[Event]:
    """As vLLM, SGLang and OpenRouter send it: an event with the error, and the stream ends."""
    return [Event(body if isinstance(body, dict) and "error" in body else {"error": body})]


def max_tokens(body: Mapping[str, Any]) -> int:
    return int(body.get("max_completion_tokens") or body.get("max_tokens") or 0)

"""Streamed responses (server-sent events) put together again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from cliff_core.traces.source import option


def events(stream: str) -> Iterator[dict[str, Any]]:
    """The data of each event that is a JSON object; one that breaks off at the end is left out."""
    data: list[str] = []
    for line in [*stream.splitlines(), ""]:
        if line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
        elif not line.strip() and data:
            try:
                value = json.loads("\n".join(data))
            except ValueError:
                value = None
            data = []
            if isinstance(value, dict):
                yield value


def response(stream: str) -> dict[str, Any]:
    """The response that would have come without streaming, as far as the stream goes."""
    message: dict[str, Any] = {}
    for event in events(stream):
        kind = event.get("type")
        if isinstance(kind, str) and kind.startswith("response."):
            whole = option(event, "response", dict)
            if whole is not None:
                message.update({key: value for key, value in whole.items() if value or key not in message})
            elif kind == "response.output_item.done" and isinstance(event.get("item"), dict):
                message.setdefault("output", [])
                if isinstance(message["output"], list):
                    message["output"].append(event["item"])
        elif isinstance(kind, str):
            _anthropic(message, kind, event)
        elif isinstance(event.get("choices"), list):
            _chat(message, event)
        elif "error" in event:
            message["error"] = event["error"]
    for block in message.get("content") or ():
        if isinstance(block, dict) and "_json" in block:
            block["input"] = _object(block.pop("_json"))
    return message


def _anthropic(message: dict[str, Any], kind: str, event: dict[str, Any]) -> None:
    if kind == "message_start":
        message.update(option(event, "message", dict) or {})
        message["content"] = []
    elif kind == "content_block_start":
        message.setdefault("content", []).append(dict(option(event, "content_block", dict) or {}))
    elif kind == "content_block_delta" and message.get("content"):
        delta, block = option(event, "delta", dict) or {}, message["content"][-1]
        for key in ("text", "thinking", "signature"):
            if isinstance(delta.get(key), str):
                block[key] = str(block.get(key) or "") + delta[key]
        if isinstance(delta.get("partial_json"), str):
            block["_json"] = str(block.get("_json") or "") + delta["partial_json"]
    elif kind == "message_delta":
        message.update(option(event, "delta", dict) or {})
        usage = {key: value for key, value in (option(event, "usage", dict) or {}).items() if value is not None}
        message["usage"] = {**(option(message, "usage", dict) or {}), **usage}
    elif kind == "error":
        message["error"] = event.get("error")


def _chat(message: dict[str, Any], chunk: dict[str, Any]) -> None:
    message.update({key: value for key, value in chunk.items() if key != "choices" and value is not None})
    choice = message.setdefault("choices", [{"message": {"role": "assistant", "content": ""}}])[0]["message"]
    for part in chunk["choices"][:1]:
        delta = option(part, "delta", dict) or {}
        for key in ("content", "reasoning_content", "reasoning"):
            if isinstance(delta.get(key), str):
                choice[key] = str(choice.get(key) or "") + delta[key]
        for call in option(delta, "tool_calls", list) or ():
            calls = choice.setdefault("tool_calls", [])
            at = call.get("index") if isinstance(call.get("index"), int) else len(calls)
            while len(calls) <= at:
                calls.append({"id": "", "type": "function", "function": {"name": "", "arguments": ""}})
            calls[at]["id"] = call.get("id") or calls[at]["id"]
            for key in ("name", "arguments"):
                piece = option(option(call, "function", dict), key, str)
                calls[at]["function"][key] += piece or ""


def _object(text: str) -> Any:
    try:
        return json.loads(text or "{}")
    except ValueError:
        return {"_broken": text}

"""Streamed responses (server-sent events) put together again."""

from __future__ import annotations

import json
from bisect import bisect_left
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
    pieces = _Pieces()
    indices: list[int] = []  # of the calls in a stream of Chat Completions
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
            _anthropic(message, kind, event, pieces)
        elif isinstance(event.get("choices"), list):
            _chat(message, event, pieces, indices)
        elif "error" in event:
            message["error"] = event["error"]
    pieces.join()
    for block in message.get("content") or ():
        if isinstance(block, dict) and "_json" in block:
            block["input"] = _object(block.pop("_json"))
    return message


class _Pieces:
    """Texts that come in pieces, joined once: to add each to what came before would copy that every time."""

    def __init__(self) -> None:
        self._found: dict[tuple[int, str], tuple[dict[str, Any], list[str]]] = {}

    def add(self, holder: dict[str, Any], key: str, piece: str) -> None:
        holder.setdefault(key, "")
        self._found.setdefault((id(holder), key), (holder, []))[1].append(piece)

    def join(self) -> None:
        for (_, key), (holder, pieces) in self._found.items():
            holder[key] = str(holder[key] or "") + "".join(pieces)


def _anthropic(message: dict[str, Any], kind: str, event: dict[str, Any], pieces: _Pieces) -> None:
    if kind == "message_start":
        message.update(option(event, "message", dict) or {})
        message["content"] = []
    elif kind == "content_block_start":
        message.setdefault("content", []).append(dict(option(event, "content_block", dict) or {}))
    elif kind == "content_block_delta" and message.get("content"):
        delta, block = option(event, "delta", dict) or {}, message["content"][-1]
        for key in ("text", "thinking", "signature"):
            if isinstance(delta.get(key), str):
                pieces.add(block, key, delta[key])
        if isinstance(delta.get("partial_json"), str):
            pieces.add(block, "_json", delta["partial_json"])
    elif kind == "message_delta":
        message.update(option(event, "delta", dict) or {})
        usage = {key: value for key, value in (option(event, "usage", dict) or {}).items() if value is not None}
        message["usage"] = {**(option(message, "usage", dict) or {}), **usage}
    elif kind == "error":
        message["error"] = event.get("error")


def _chat(message: dict[str, Any], chunk: dict[str, Any], pieces: _Pieces, indices: list[int]) -> None:
    message.update({key: value for key, value in chunk.items() if key != "choices" and value is not None})
    choice = message.setdefault("choices", [{"message": {"role": "assistant", "content": ""}}])[0]["message"]
    for part in chunk["choices"][:1]:
        delta = option(part, "delta", dict) or {}
        for key in ("content", "reasoning_content", "reasoning"):
            if isinstance(delta.get(key), str):
                pieces.add(choice, key, delta[key])
        for call in option(delta, "tool_calls", list) or ():
            calls = choice.setdefault("tool_calls", [])
            index = call["index"] if isinstance(call.get("index"), int) else (indices or [-1])[-1] + 1
            at = bisect_left(indices, index)
            if indices[at : at + 1] != [index]:
                indices.insert(at, index)
                calls.insert(at, {"id": "", "type": "function", "function": {"name": "", "arguments": ""}})
            calls[at]["id"] = call.get("id") or calls[at]["id"]
            for key in ("name", "arguments"):
                if piece := option(option(call, "function", dict), key, str):
                    pieces.add(calls[at]["function"], key, piece)


def _object(text: str) -> Any:
    try:
        return json.loads(text or "{}")
    except ValueError:
        return {"_broken": text}

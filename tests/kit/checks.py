"""Assertions on what a model was sent, for the tests of all hosts.

A request is a `Request` that the server recorded, or a body (a dict) of any of the three APIs.
Cache markers never count, and a text counts the same as a list that holds only that text.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from . import rules
from .request import Request
from .usage import Usage, messages

Sent = Request | Mapping[str, Any]


def api_of(request: Sent) -> str:
    """`chat`, `anthropic` or `responses`: as the server knows it, else by the keys of the body."""
    if isinstance(request, Request):
        return request.api
    if "input" in request:
        return "responses"
    kinds = {"tool_use", "tool_result", "thinking", "redacted_thinking"}
    parts = [
        part for message in messages(request) if isinstance(message.get("content"), list) for part in message["content"]
    ]
    blocks = any(isinstance(part, Mapping) and part.get("type") in kinds for part in parts)
    return "anthropic" if blocks or "system" in request else "chat"


def assert_paired(request: Sent) -> None:
    """Each call has its result, each result its call, where the API wants them."""
    found = rules.pairing(api_of(request), _items(request))
    assert not found, f"{_name(request)}: " + "\n".join(found)


def assert_append_only(requests: Sequence[Sent], cliffs: Collection[int] = ()) -> None:
    """Each prompt is the one before it and more: tools, system prompt, messages, to the byte.

    `cliffs` are places in the list, counted from 1, at which a prompt may differ from the one
    before. To be an honest cliff it must differ.
    """
    unknown = [place for place in cliffs if not 2 <= place <= len(requests)]
    assert not unknown, f"no request that follows another at {unknown}: there are {len(requests)}"
    streams = [stream(request) for request in requests]
    for place in range(2, len(requests) + 1):
        before, now = streams[place - 2], streams[place - 1]
        at = _difference(before, now)
        if place in cliffs:
            assert at is not None, f"request {place} of the list is no cliff: nothing went away"
            continue
        assert at is None, (
            f"request {place} of the list does not continue the one before: piece {at} of "
            f"{len(before)} was\n    {_short(before, at)}\nand is\n    {_short(now, at)}"
        )


def cliffs_of(requests: Sequence[Sent]) -> list[int]:
    """The places in the list, from 1, at which a prompt does not continue the one before."""
    streams = [stream(request) for request in requests]
    pairs = enumerate(pairwise(streams), 2)
    return [at for at, (one, two) in pairs if _difference(one, two) is not None]


def stream(request: Sent) -> list[str]:
    """The prompt as pieces that can be compared: each tool, each part of each message."""
    body = request.body if isinstance(request, Request) else request
    pieces = [_json(tool) for tool in body.get("tools") or []]
    system = body.get("system") or body.get("instructions")
    if system:
        pieces += [f"system: {_json(part)}" for part in _parts(system)]
    joins = api_of(request) == "anthropic"  # messages of one role in a row are one turn
    role = None
    for item in _items(request):
        item = dict(item)
        content = item.pop("content", None)
        head = {k: item.pop(k) for k in ("role", "name", "tool_call_id") if k in item}
        if head and not (joins and head == {"role": role}):
            pieces.append(_json(head))
        role = head.get("role")
        pieces += [_json(part) for part in _parts(content)]
        if _json(item) != "{}":
            pieces.append(_json(item))
    return pieces


def usages(requests: Iterable[Request | Usage]) -> list[Usage]:
    """The figures that the server counted; requests that were rejected have none."""
    found = [r.usage if isinstance(r, Request) else r for r in requests]
    return [usage for usage in found if usage is not None]


def cached_share(requests: Iterable[Request | Usage]) -> float:
    """The part of all input tokens that came from the cache; 0 if there are none."""
    figures = usages(requests)
    whole = sum(usage.input for usage in figures)
    return sum(usage.cached for usage in figures) / whole if whole else 0.0


def input_cost(
    requests: Iterable[Request | Usage],
    price_input: float,
    price_cached: float,
    price_written: float | None = None,
) -> float:
    """What the input cost in dollars. Prices are dollars per million tokens.

    Tokens written to the cache cost as others do if they have no price of their own.
    """
    price_written = price_input if price_written is None else price_written
    return (
        sum(
            (usage.input - usage.cached - usage.written) * price_input
            + usage.cached * price_cached
            + usage.written * price_written
            for usage in usages(requests)
        )
        / 1_000_000
    )


def _items(request: Sent) -> list[Any]:
    return request.messages if isinstance(request, Request) else messages(request)


def _parts(content: Any) -> list[Any]:
    """A text as the list of one text that means the same."""
    if content is None or content == "":
        return []
    return content if isinstance(content, list) else [content]


def _json(value: Any) -> str:
    return json.dumps(_canonical(value), ensure_ascii=False)


def _canonical(value: Any) -> Any:
    """A part, tool or item without its cache marker and nulls, the texts of a result as strings.

    What lies deeper (arguments, schemas) is compared as it is.
    """
    if not isinstance(value, Mapping):
        return value
    kept = {k: v for k, v in value.items() if k != "cache_control" and v is not None}
    if kept.keys() == {"type", "text"} and kept["type"] in ("text", "input_text"):
        return kept["text"]
    if "content" in kept:
        kept["content"] = [_canonical(part) for part in _parts(kept["content"])]
    return kept


def _difference(before: Sequence[str], now: Sequence[str]) -> int | None:
    """The first piece, from 0, of `before` that `now` has not in its place."""
    if now[: len(before)] == before:
        return None
    pairs = zip(before, now, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(before), len(now)))


def _short(pieces: Sequence[str], at: int) -> str:
    if at >= len(pieces):
        return "(nothing)"
    piece = pieces[at]
    return piece if len(piece) <= 300 else f"{piece[:200]} … {piece[-100:]}"


def _name(request: Sent) -> str:
    return f"request {request.number}" if isinstance(request, Request) else "the request"

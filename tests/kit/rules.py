"""Requests that real providers reject for their form: `problems` names what is wrong with one.

The words are the providers' own (reports: anthropics/claude-code#13460, #8210, vercel/ai#8379).
Only what an agent or a compaction can get wrong is here; types and value ranges are not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

OUTPUT_OF = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "local_shell_call": "local_shell_call_output",
    "shell_call": "shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
    "computer_call": "computer_call_output",
    "tool_search_call": "tool_search_output",
}
"""The calls among Responses items that a client answers, and the item that answers them."""


def problems(api: str, body: Mapping[str, Any], items: Sequence[Any]) -> list[str]:
    """What the API would reject; `items` are the messages, earlier ones included."""
    if not items:
        return ["messages: at least one message is required"]
    strange = [place for place, item in enumerate(items) if not isinstance(item, Mapping)]
    if strange:
        return [f"messages.{strange[0]}: Input should be an object"]
    if not body.get("model"):
        return ["model: Field required"]
    if api == "anthropic":
        return _anthropic(body, items)
    return _chat(items) if api == "chat" else _responses(items)


def pairing(api: str, items: Sequence[Any]) -> list[str]:
    """Calls without results and results without calls, in the words of the API."""
    if api == "anthropic":
        return _anthropic_pairing(items)
    return _chat(items) if api == "chat" else _responses_pairing(items)


def _chat(items: Sequence[Any]) -> list[str]:
    found = []
    open_ids: list[str] = []
    for place, message in enumerate(items):
        if message.get("role") == "tool":
            if message.get("tool_call_id") in open_ids:
                open_ids.remove(message["tool_call_id"])
            else:
                found.append(
                    f"messages.[{place}]: messages with role 'tool' must be a response to a "
                    "preceding message with 'tool_calls'. "
                    f"(tool_call_id {message.get('tool_call_id')!r})"
                )
            continue
        found += _unanswered(open_ids)
        open_ids = [call.get("id") for call in message.get("tool_calls") or []]
    return found + _unanswered(open_ids)


def _unanswered(ids: Sequence[str]) -> list[str]:
    if not ids:
        return []
    return [
        "An assistant message with 'tool_calls' must be followed by tool messages responding to "
        "each 'tool_call_id'. The following tool_call_ids did not have response messages: " + ", ".join(map(str, ids))
    ]


def _anthropic(body: Mapping[str, Any], items: Sequence[Any]) -> list[str]:
    found = _anthropic_pairing(items)
    if "max_tokens" not in body:
        found.append("max_tokens: Field required")
    markers = _markers(body)
    if markers > 4:
        found.append(f"A maximum of 4 blocks with cache_control may be provided. Found {markers}.")
    for place, message in enumerate(items):
        for part in _blocks(message):
            if part.get("type") == "text" and not part.get("text"):
                found.append(f"messages.{place}: text content blocks must be non-empty")
    roles = [message.get("role") for message in items]
    for place, role in enumerate(roles):
        before = roles[place - 1] if place else None
        after = roles[place + 1] if place + 1 < len(roles) else "assistant"
        if role == "system" and (before != "user" or after != "assistant"):
            found.append(
                f"messages.{place}: a system message must follow a user message and precede an assistant "
                "message or end the conversation"
            )
    return found


def _anthropic_pairing(items: Sequence[Any]) -> list[str]:
    found = []
    asked: list[Any] = []  # by the turn before
    asked_at = 0
    for place, blocks in [*_turns(items), (len(items), [])]:
        given = [b.get("tool_use_id") for b in blocks if b.get("type") == "tool_result"]
        missing = list((Counter(asked) - Counter(given)).elements())
        if missing:
            found.append(
                f"messages.{asked_at}: `tool_use` ids were found without `tool_result` blocks "
                f"immediately after: {', '.join(map(str, missing))}. Each `tool_use` block must "
                "have a corresponding `tool_result` block in the next message."
            )
        found += [
            f"messages.{place}: unexpected `tool_use_id` found in `tool_result` blocks: {id_}. "
            "Each `tool_result` block must have a corresponding `tool_use` block in the previous "
            "message."
            for id_ in (Counter(given) - Counter(asked)).elements()
        ]
        asked = [b.get("id") for b in blocks if b.get("type") == "tool_use"]
        asked_at = place
    return found


def _turns(items: Sequence[Any]) -> list[tuple[int, list[Mapping[str, Any]]]]:
    """The blocks of each turn with its place: the API joins messages of one role in a row."""
    found: list[tuple[int, list[Mapping[str, Any]]]] = []
    role = None
    for place, message in enumerate(items):
        if message.get("role") != role:
            found.append((place, []))
            role = message.get("role")
        found[-1][1].extend(_blocks(message))
    return found


def _blocks(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    content = message.get("content")
    return [b for b in content if isinstance(b, Mapping)] if isinstance(content, list) else []


def _markers(value: Any) -> int:
    if isinstance(value, Mapping):
        inner = [v for k, v in value.items() if k not in {"input", "input_schema"}]
        return bool(value.get("cache_control")) + _markers(inner)
    return sum(_markers(v) for v in value) if isinstance(value, list) else 0


def _responses(items: Sequence[Any]) -> list[str]:
    found = _responses_pairing(items)
    for item, following in zip(items, [*items[1:], None], strict=True):
        if item.get("type") != "reasoning":
            continue
        kind = (following or {}).get("type") or "message"
        answer = following and (
            following.get("role") == "assistant" or (kind != "message" and kind not in OUTPUT_OF.values())
        )
        if not answer:
            found.append(
                f"Item '{item.get('id')}' of type 'reasoning' was provided without its required following item."
            )
    return found


def _responses_pairing(items: Sequence[Any]) -> list[str]:
    found = []
    open_calls: Counter[tuple[str, str]] = Counter()
    for item in items:
        kind, id_ = item.get("type"), item.get("call_id")
        if kind in OUTPUT_OF:
            if kind == "tool_search_call" and item.get("execution") != "client":
                continue  # the provider searches by itself
            open_calls[OUTPUT_OF[kind], id_] += 1
        elif kind in OUTPUT_OF.values():
            if kind == "tool_search_output" and item.get("execution") != "client":
                continue
            if not open_calls[kind, id_]:
                found.append(f"No tool call found for {kind.replace('_', ' ')} with call_id {id_}.")
            else:
                open_calls[kind, id_] -= 1
    names = {output: call.replace("_", " ") for call, output in OUTPUT_OF.items()}
    found += [f"No tool output found for {names[kind]} {id_}." for kind, id_ in open_calls.elements()]
    return found


def alternation(items: Sequence[Any]) -> list[str]:
    """What chat templates of Gemma's and Mistral's kind reject."""
    roles = [m.get("role") for m in items if m.get("role") in {"user", "assistant"}]
    if any(role == before for before, role in zip([None, *roles], roles, strict=False)):
        return ["Conversation roles must alternate user/assistant/user/assistant/..."]
    return []

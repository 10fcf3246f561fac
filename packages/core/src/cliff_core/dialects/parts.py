"""What the message formats have in common: texts, images, documents, unknown parts, cache markers.

Everything here takes any JSON value and raises for none."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeGuard

from cliff_core.content import (
    Content,
    Message,
    Note,
    Opaque,
    ToolResult,
    looks_failed,
    note_kind,
    result_text,
    user_text,
)
from cliff_core.tokens import document_tokens, encrypted_tokens, image_tokens
from cliff_core.tokens import estimate as estimated

Object = Mapping[str, Any]

TEXT_TYPES = frozenset({"text", "input_text", "output_text"})
"""Gateways between the formats leave one format's text parts in another's messages."""

MARKERS = frozenset({"cache_control", "prompt_cache_breakpoint"})
"""Keys that mark a place for a provider's prompt cache: Anthropic's, and OpenAI's in both of its
formats."""

_DATA = 1_000  # characters of a string without a space from which on it is data, not text
_AUDIO = 2_000  # characters of base64 per token: MP3 has 16 KB a second, a second about 10 tokens
_DEPTH = 50  # no format nests deeper; deeper values are left as they are


def is_object(value: object) -> TypeGuard[Object]:
    # An exact type first: `isinstance` with an abstract class takes ten times as long.
    return type(value) is dict or isinstance(value, Mapping)


def string(value: object) -> str:
    """`value` if it is a text, else an empty one."""
    return value if isinstance(value, str) else ""


def kind_of(value: Object) -> str:
    return string(value.get("type"))


def listed(content: object) -> Sequence[Any]:
    """Content as a list of parts, whether it is one, a single part, or nothing."""
    if content is None or content == "":
        return ()
    return content if isinstance(content, (list, tuple)) else (content,)


def text_of(part: object) -> str | None:
    """The text of a text part; None for a part of another kind."""
    if isinstance(part, str):
        return part
    if is_object(part) and (kind_of(part) in TEXT_TYPES or "type" not in part):
        text = part.get("text")
        return text if isinstance(text, str) else None
    return None


def arguments(value: object) -> Mapping[str, Any] | str:
    """Arguments of a call as they were sent: an object, a text, or the JSON text of something
    else."""
    if isinstance(value, str) or is_object(value):
        return value
    if value is None:
        return ""
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        return ""


# --- what cannot become text ----------------------------------------------------------------------


def estimate(value: object) -> int:
    """Tokens of a value that is not understood, from its JSON text: as without a vocabulary, but
    long strings without a space (some kind of data) as encrypted content.

    What `canonical` may leave out is not counted, so that a later copy of a message has the same size."""
    characters = tokens = 0
    stack = [(value, 0)]
    while stack:
        item, depth = stack.pop()
        if isinstance(item, str):
            characters += 2
            if len(item) >= _DATA and " " not in item[:_DATA]:
                tokens += encrypted_tokens(len(item))
            elif item.isascii():
                characters += len(item)
            else:
                tokens += estimated(item)
        elif is_object(item):
            characters += 2
            if depth < _DEPTH:
                for key, inner in item.items():
                    if key in MARKERS or inner is None or (key == "status" and inner == "completed"):
                        continue
                    if key == "id" and not depth:
                        continue
                    characters += len(str(key)) + 4
                    stack.append((inner, depth + 1))
        elif isinstance(item, (list, tuple)):
            characters += 2 + len(item)
            if depth < _DEPTH:
                stack.extend((inner, depth + 1) for inner in item)
        else:
            characters += 5
    return tokens + (characters + 3) // 4


def unknown(value: object, kind: str = "") -> Opaque:
    """A part or item that no dialect knows: counted, kept out of the block, not pinned."""
    name = kind or (kind_of(value) if is_object(value) else "") or "unknown"
    return Opaque(name, estimate(value))


def image(data: object, pin: bool) -> Opaque:
    """An image: base64, a data URL, or an address (whose size is unknown)."""
    return Opaque("image", image_tokens(string(data)), pin=pin)


def document(data: object, text: str, pin: bool) -> Opaque:
    """A document: its text where the format shows it, else an estimate from its data (base64 or
    data URL)."""
    return Opaque("document", 0 if text else document_tokens(string(data)), text, pin=pin)


def audio(data: object, pin: bool) -> Opaque:
    return Opaque("audio", len(string(data)) // _AUDIO, pin=pin)


def system(value: object) -> Opaque:
    """A system message without text: a change of tools or of settings that holds from here on."""
    return Opaque("system", estimate(value), pin=True)


# --- whole messages -------------------------------------------------------------------------------


def notes(role: str, content: object) -> Message:
    """A system or developer message: the host's words, and what it has beside text."""
    contents: list[Content] = []
    for part in listed(content):
        text = text_of(part)
        if text is None:
            contents.append(system(part))
        elif text:
            contents.append(Note(text, note_kind(role, text)))
    return Message("system", tuple(contents))


def person(text: str) -> Iterable[Content]:
    return user_text(text) if text else ()


def result(texts: Sequence[str], call_id: object, error: bool | None, opaque: Iterable[Opaque] = ()) -> list[Content]:
    """A result, and what a person said in it. Several texts of one result stand on lines of their
    own.

    `error`: None where the format has no flag, so that the text must tell."""
    text = texts[0] if len(texts) == 1 else "\n".join(texts)
    text, said = result_text(text)
    failed = looks_failed(text) if error is None else error
    return [ToolResult(text, string(call_id), failed, tuple(opaque)), *said]


# --- comparing ------------------------------------------------------------------------------------


def unmarked(value: Any, depth: int = _DEPTH) -> Any:
    """`value` without cache markers; the same object where it has none.

    A call's own arguments are left alone."""
    if is_object(value):
        changed: dict[str, Any] | None = None
        for key, item in value.items():
            if key in MARKERS:
                changed = dict(value) if changed is None else changed
                del changed[key]
            elif depth and key not in ("input", "arguments") and isinstance(item, (dict, list)):
                inner = unmarked(item, depth - 1)
                if inner is not item:
                    changed = dict(value) if changed is None else changed
                    changed[key] = inner
        return value if changed is None else changed
    if isinstance(value, list):
        items: list[Any] | None = None
        for index, item in enumerate(value):
            if depth and isinstance(item, (dict, list)):
                inner = unmarked(item, depth - 1)
                if inner is not item:
                    items = list(value) if items is None else items
                    items[index] = inner
        return value if items is None else items
    return value


def lone_text(content: object, kinds: frozenset[str]) -> str | None:
    """The text of a list that has one text part and nothing else; None for other content."""
    if type(content) is list and len(content) == 1:
        part = content[0]
        if type(part) is dict and len(part) == 2 and kind_of(part) in kinds:
            text = part.get("text")
            return text if isinstance(text, str) else None
    return None


# --- placing the block ----------------------------------------------------------------------------


def after_head(head: Sequence[Message]) -> int:
    """Where the block goes: after the head, or after its leading system messages if no user speaks
    in it."""
    if any(message.role == "user" for message in head):
        return len(head)
    return next((i for i, message in enumerate(head) if message.role != "system"), len(head))


def merged(message: Object, text: str, part: Mapping[str, Any]) -> dict[str, Any] | None:
    """A user message with `text` appended: to its text, or as one more part of its list."""
    if not is_object(message) or message.get("role") != "user":
        return None
    content = message.get("content")
    if isinstance(content, str):
        return {**message, "content": f"{content}\n\n{text}"}
    if isinstance(content, (list, tuple)):
        return {**message, "content": [*content, dict(part)]}
    return None

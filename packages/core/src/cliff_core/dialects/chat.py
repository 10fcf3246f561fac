"""OpenAI Chat Completions messages, with what litellm and other gateways add to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cliff_core.content import Content, Message, Opaque, Thought, ToolCall
from cliff_core.dialects import Dialect, parts
from cliff_core.tokens import encrypted_tokens

_TEXT = frozenset({"text"})
_REASONING = ("reasoning_content", "reasoning", "reasoning_text")


class ChatDialect:
    """A message is one of the roles `system`, `developer`, `user`, `assistant`, `tool` or
    `function`.

    A message of another role (mini-swe-agent's `exit`) is opaque, and counts as a user's: it begins
    no turn and stays in the one before it."""

    name = "chat"

    def parse(self, message: Mapping[str, Any]) -> Message:
        if not parts.is_object(message):
            return Message("user", (parts.unknown(message),))
        role = message.get("role")
        if role == "assistant":
            return Message("model", tuple(_model(message)))
        if role in ("tool", "function"):
            return Message("tool", tuple(_result(message)))
        if role == "user":
            return Message("user", tuple(_user(message.get("content"))))
        if role in ("system", "developer"):
            return parts.notes(role, message.get("content"))
        return Message("user", (parts.unknown(message, parts.string(role)),))

    def canonical(self, message: Mapping[str, Any]) -> Any:
        plain = parts.unmarked(message)
        if parts.is_object(plain):
            text = parts.lone_text(plain.get("content"), _TEXT)
            if text is not None:
                return {**plain, "content": text}
        return plain

    def block_index(self, head: Sequence[Message]) -> int:
        return parts.after_head(head)

    def block_message(self, text: str) -> dict[str, Any]:
        return {"role": "user", "content": text}

    def merge_block(self, message: Mapping[str, Any], text: str) -> dict[str, Any] | None:
        return parts.merged(message, text, {"type": "text", "text": text})


def _user(content: object) -> list[Content]:
    contents: list[Content] = []
    for part in parts.listed(content):
        text = parts.text_of(part)
        if text is None:
            contents.append(_attached(part, pin=True))
        else:
            contents.extend(parts.person(text))
    return contents


def _attached(part: object, pin: bool) -> Opaque:
    """A part that is no text. What a person attached is pinned, unless it is of an unknown type."""
    if parts.is_object(part):
        kind = parts.kind_of(part)
        inner = part.get(kind)
        if kind in ("image_url", "image", "input_image"):
            return parts.image(inner.get("url") if parts.is_object(inner) else inner, pin)
        if kind in ("file", "input_file"):
            data = inner.get("file_data") if parts.is_object(inner) else part.get("file_data")
            return parts.document(data, "", pin)
        if kind == "input_audio":
            return parts.audio(inner.get("data") if parts.is_object(inner) else inner, pin)
    return parts.unknown(part)


def _result(message: Mapping[str, Any]) -> list[Content]:
    texts: list[str] = []
    opaque: list[Opaque] = []
    for part in parts.listed(message.get("content")):
        text = parts.text_of(part)
        if text is None:
            opaque.append(_attached(part, pin=False))
        else:
            texts.append(text)
    return parts.result(texts, message.get("tool_call_id"), None, opaque)


def _model(message: Mapping[str, Any]) -> list[Content]:
    contents = _reasoning(message)
    for part in parts.listed(message.get("content")):
        text = parts.text_of(part)
        if text is not None:
            if text:
                contents.append(Thought(text))
            continue
        kind = parts.kind_of(part) if parts.is_object(part) else ""
        if kind == "refusal":
            contents.extend(_thoughts(part.get("refusal")))
        elif kind not in ("thinking", "redacted_thinking"):  # reasoning came first
            contents.append(_attached(part, pin=False))
    contents.extend(_thoughts(message.get("refusal")))
    contents.extend(_attached(part, pin=False) for part in parts.listed(message.get("images")))
    if message.get("audio") is not None:
        contents.append(parts.unknown(message["audio"], "audio"))
    for call in parts.listed(message.get("tool_calls")):
        contents.append(_call(call))
    if message.get("function_call") is not None:  # older than `tool_calls`: one, without an id
        contents.append(_call({"function": message["function_call"]}))
    return contents


def _thoughts(text: object) -> list[Content]:
    return [Thought(text)] if isinstance(text, str) and text else []


def _call(call: object) -> Content:
    if not parts.is_object(call):
        return parts.unknown(call, "tool_call")
    body: object = call.get("function")
    if not parts.is_object(body):
        body = call.get("custom")
    if not parts.is_object(body):
        body = call
    arguments = body.get("arguments")
    if arguments is None:
        arguments = body.get("input")
    return ToolCall(parts.string(body.get("name")), parts.arguments(arguments), parts.string(call.get("id")))


def _reasoning(message: Mapping[str, Any]) -> list[Content]:
    """Reasoning, each text once: gateways send the same text in several fields.

    Signatures add no tokens: they prove a text that is counted."""
    contents: list[Content] = []
    texts: list[str] = []

    def add(text: object) -> None:
        if isinstance(text, str) and text and text not in texts:
            texts.append(text)
            contents.append(Thought(text))

    content = message.get("content")
    blocks = [
        block
        for block in (
            *parts.listed(message.get("thinking_blocks")),
            *(content if isinstance(content, list) else ()),
        )
        if parts.is_object(block)
    ]
    for block in blocks:
        kind = parts.kind_of(block)
        if kind == "thinking":
            add(block.get("thinking"))
        elif kind == "redacted_thinking":
            contents.append(Thought("", encrypted_tokens(len(parts.string(block.get("data"))))))
    details = [d for d in parts.listed(message.get("reasoning_details")) if parts.is_object(d)]
    for key in ("text", "summary"):  # OpenRouter: streamed ones are pieces of one text
        add("".join(parts.string(detail.get(key)) for detail in details))
    for detail in details:
        data = parts.string(detail.get("data"))
        if data:
            contents.append(Thought("", encrypted_tokens(len(data))))
    known = {"".join(texts), "\n".join(texts), "\n\n".join(texts)}
    for key in _REASONING:
        if parts.string(message.get(key)) not in known:
            add(message.get(key))
    return contents


DIALECT: Dialect = ChatDialect()

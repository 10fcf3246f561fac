"""Anthropic Messages, with server tools, MCP, thinking, compaction and mid-conversation system
messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cliff_core.content import Content, Message, Note, Opaque, Thought, ToolCall, note_kind
from cliff_core.dialects import Dialect, parts
from cliff_core.tokens import encrypted_tokens

_TEXT = frozenset({"text"})


class AnthropicDialect:
    """A message is one of the roles `user`, `assistant`, `system`.

    A user message whose blocks are all tool results is a message of role `tool`. A message of
    another role is opaque, and counts as a user's: it begins no turn and stays in the one before
    it."""

    name = "anthropic"

    def parse(self, message: Mapping[str, Any]) -> Message:
        if not parts.is_object(message):
            return Message("user", (parts.unknown(message),))
        role, content = message.get("role"), message.get("content")
        if role == "assistant":
            return Message("model", tuple(_model(content)))
        if role == "user":
            return _user(content)
        if role in ("system", "developer"):
            return _system(message)
        return Message("user", (parts.unknown(message, parts.string(role)),))

    def canonical(self, message: Mapping[str, Any]) -> Any:
        plain = parts.unmarked(message)
        if not parts.is_object(plain):
            return plain
        content = plain.get("content")
        if not isinstance(content, list):
            return plain
        text = parts.lone_text(content, _TEXT)
        if text is not None:
            return {**plain, "content": text}
        blocks: list[Any] | None = None
        for index, block in enumerate(content):
            if parts.is_object(block):
                text = parts.lone_text(block.get("content"), _TEXT)
                if text is not None:
                    blocks = list(content) if blocks is None else blocks
                    blocks[index] = {**block, "content": text}
        return plain if blocks is None else {**plain, "content": blocks}

    def block_index(self, head: Sequence[Message]) -> int:
        """Before the system messages that end the head: each must follow a user message, and be
        followed by an assistant message or nothing ("role 'system' must precede an 'assistant'
        message or end the array", anthropics/claude-code#73821)."""
        index = parts.after_head(head)
        if any(message.role == "user" for message in head):
            while head[index - 1].role == "system":
                index -= 1
        return index

    def block_message(self, text: str) -> dict[str, Any]:
        return {"role": "user", "content": text}

    def merge_block(self, message: Mapping[str, Any], text: str) -> dict[str, Any] | None:
        return parts.merged(message, text, {"type": "text", "text": text})


def _user(content: object) -> Message:
    contents: list[Content] = []
    blocks = parts.listed(content)
    results = 0
    for block in blocks:
        text = parts.text_of(block)
        if text is not None:
            contents.extend(parts.person(text))
        elif _is_result(block):
            results += 1
            contents.extend(_result(block))
        else:
            contents.append(_attached(block, pin=True))
    only_results = results > 0 and results == len(blocks)
    return Message("tool" if only_results else "user", tuple(contents))


def _is_result(block: object) -> bool:
    # The provider's own tools have `web_search_tool_result`, `mcp_tool_result`, …
    return parts.is_object(block) and parts.kind_of(block).endswith("tool_result")


def _attached(block: object, pin: bool) -> Opaque:
    """A block that is no text. What a person attached is pinned, unless it is of an unknown
    type."""
    if not parts.is_object(block):
        return parts.unknown(block)
    kind = parts.kind_of(block)
    source = block.get("source")
    if kind == "image":
        return parts.image(source.get("data") if parts.is_object(source) else None, pin)
    if kind == "document":
        return _document(block, source, pin)
    if kind == "search_result":
        return Opaque("search_result", text=_joined(block.get("content")), pin=pin)
    if kind == "container_upload":
        return Opaque(kind, parts.estimate(block), pin=pin)
    if kind == "tool_reference":
        return Opaque(kind, parts.estimate(block), pin=True)
    if kind in ("tool_addition", "tool_removal"):
        return parts.system(block)
    return parts.unknown(block)


def _document(block: Mapping[str, Any], source: object, pin: bool) -> Opaque:
    data, text = "", ""
    if parts.is_object(source):
        if parts.kind_of(source) == "text":
            text = parts.string(source.get("data"))
        else:
            text = _joined(source.get("content"))
            data = parts.string(source.get("data"))
    about = [parts.string(block.get(key)) for key in ("title", "context")]
    return parts.document(data, "\n".join(filter(None, (*about, text))) if text else "", pin)


def _joined(content: object) -> str:
    return "\n".join(text for part in parts.listed(content) if (text := parts.text_of(part)))


# --- results --------------------------------------------------------------------------------------


def _result(block: Mapping[str, Any]) -> list[Content]:
    """A `tool_result` of the client, or the result of a tool that ran at the provider or an MCP
    server."""
    texts: list[str] = []
    opaque: list[Opaque] = []
    failed = False
    hosted = parts.kind_of(block) not in ("tool_result", "mcp_tool_result")
    for part in parts.listed(block.get("content")):
        text = parts.text_of(part)
        if text is not None:
            texts.append(text)
        elif parts.is_object(part) and parts.kind_of(part) == "search_result":
            found = (part.get("title"), part.get("source"), _joined(part.get("content")))
            texts.extend(text for value in found if (text := parts.string(value)))
        elif hosted and parts.is_object(part):
            failed |= _hosted(part, texts, opaque)
        else:
            opaque.append(_attached(part, pin=False))
    # Claude Code leaves `is_error` out of most results, and of some that failed.
    flag = block.get("is_error")
    error = True if failed or flag is True else False if flag is False else None
    return parts.result(texts, block.get("tool_use_id"), error, opaque)


def _hosted(part: Mapping[str, Any], texts: list[str], opaque: list[Opaque]) -> bool:
    """Take in what a server tool returned; True for an error."""
    kind = parts.kind_of(part)
    if kind.endswith("_error"):
        texts.extend(text for key in ("error_code", "error_message") if (text := parts.string(part.get(key))))
        return True
    if kind == "web_search_result":
        texts.extend(text for key in ("title", "url") if (text := parts.string(part.get(key))))
        _encrypted(part.get("encrypted_content"), kind, opaque)
    elif kind == "web_fetch_result":
        texts.extend(filter(None, (parts.string(part.get("url")),)))
        opaque.extend(_attached(inner, pin=False) for inner in parts.listed(part.get("content")))
    elif kind.endswith("code_execution_result"):
        for key in ("stdout", "stderr"):
            texts.extend(filter(None, (parts.string(part.get(key)),)))
        _encrypted(part.get("encrypted_stdout"), kind, opaque)
        opaque.extend(parts.unknown(file) for file in parts.listed(part.get("content")))
        return part.get("return_code") not in (0, None)
    elif kind == "text_editor_code_execution_view_result":
        texts.append(parts.string(part.get("content")))
    elif kind == "text_editor_code_execution_str_replace_result":
        texts.append("\n".join(map(parts.string, parts.listed(part.get("lines")))))
    elif kind == "tool_search_tool_search_result":
        references = parts.listed(part.get("tool_references"))
        opaque.extend(_attached(reference, pin=False) for reference in references)
    elif kind == "advisor_result":
        texts.append(parts.string(part.get("text")))
    elif kind == "advisor_redacted_result":
        _encrypted(part.get("encrypted_content"), kind, opaque)
    else:
        opaque.append(_attached(part, pin=False))
    return False


def _encrypted(data: object, kind: str, opaque: list[Opaque]) -> None:
    if isinstance(data, str) and data:
        opaque.append(Opaque(kind, encrypted_tokens(len(data))))


# --- what the model wrote -------------------------------------------------------------------------


def _model(content: object) -> list[Content]:
    contents: list[Content] = []
    for block in parts.listed(content):
        text = parts.text_of(block)
        if text is not None:
            if text:
                contents.append(Thought(text))
        elif not parts.is_object(block):
            contents.append(parts.unknown(block))
        elif _is_result(block):
            contents.extend(_result(block))
        else:
            contents.extend(_written(block))
    return contents


def _written(block: Mapping[str, Any]) -> list[Content]:
    kind = parts.kind_of(block)
    if kind == "thinking":
        text = parts.string(block.get("thinking"))
        if text:  # its signature is no text of the prompt
            return [Thought(text)]
        # Not shown (`display: omitted`): what the model thought is in the signature alone.
        signature = parts.string(block.get("signature"))
        return [Thought("", encrypted_tokens(len(signature)))] if signature else []
    if kind == "redacted_thinking":
        return [Thought("", encrypted_tokens(len(parts.string(block.get("data")))))]
    if kind.endswith("tool_use"):
        return [
            ToolCall(
                parts.string(block.get("name")),
                parts.arguments(block.get("input")),
                parts.string(block.get("id")),
                hosted=kind != "tool_use",  # server_tool_use, mcp_tool_use
            )
        ]
    if kind == "compaction":
        return [_compaction(block)]
    if kind == "fallback":  # "not rendered into the prompt"
        return [Opaque(kind)]
    return [_attached(block, pin=False)]


def _compaction(block: Mapping[str, Any]) -> Opaque:
    text = parts.string(block.get("content"))
    hidden = parts.string(block.get("encrypted_content"))
    if not text and not hidden:  # it failed: nothing was compacted, and the API ignores the block
        return Opaque("compaction_failed")
    changes = block.get("tool_changes")
    tokens = parts.estimate(changes) if changes else 0
    if not text:
        tokens += encrypted_tokens(len(hidden))
    return Opaque("compaction", tokens, text, pin=True)


# --- what the host wrote --------------------------------------------------------------------------


def _system(message: Mapping[str, Any]) -> Message:
    """A system message within the conversation.

    Text with `clear_at: next_user_message` is a reminder for one turn that the API stops showing by
    itself: it must not come back in the block. Settings in `output_config` hold for one turn, too.
    """
    passing = message.get("clear_at") == "next_user_message"
    contents: list[Content] = []
    for part in parts.listed(message.get("content")):
        text = parts.text_of(part)
        if text is None:
            contents.append(parts.system(part))
        elif text:
            if passing:
                contents.append(Opaque("system", text=text))
            else:
                contents.append(Note(text, note_kind("system", text)))
    if not contents:
        contents.append(Opaque("system"))
    return Message("system", tuple(contents))


DIALECT: Dialect = AnthropicDialect()

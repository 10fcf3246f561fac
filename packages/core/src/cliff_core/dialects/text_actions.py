"""`chat-text`: Chat Completions messages of agents whose calls stand inside the text.

mini-swe-agent 1.x, SWE-agent's text parsers, Terminus-2 and others send no tool calls: a reply's text has the
command in a code block or in JSON, and what it printed comes back as a user message. On the wire nothing tells
it from a person's words, so whoever knows (the readers of recorded sessions, an adapter) says so in a private
key of the message, `_cliff`, which is not sent:

- on a model's message `{"thought": TEXT | [TEXT…], "calls": [{"name", "arguments", "id"?, "answered"?}…]}`:
  what its text contains. `arguments` is an object, or the command as it was typed. `"answered": false` is a call
  that gets no result of its own (the last of several commands has the one result of all).
- on any other message `{"role": "tool", "call_id"?: ID}`: its text is the result of the last such call (or of
  the one named); `{"role": "note", "kind"?: KIND}`: the host wrote it.

A message without the key, and everything else, is as in `chat`. What the text has besides thoughts and calls
(fences, JSON punctuation) is counted as `Opaque` of kind `markup`, so that text, thoughts and calls count once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from cliff_core.content import Content, Message, Note, Opaque, Thought, ToolCall, ToolResult, note_kind
from cliff_core.dialects import Dialect, dialect

KEY = "_cliff"


class TextActions:
    """Chat Completions, with what `_cliff` says of a text."""

    name = "chat-text"

    def __init__(self, base: Dialect) -> None:
        self._base = base

    def parse(self, message: Mapping[str, Any]) -> Message:
        said = message.get(KEY)
        plain = _without_key(message)
        if not isinstance(said, Mapping):
            return self._base.parse(plain)
        if said.get("role") == "tool":
            return self._base.parse({**plain, "role": "tool", "tool_call_id": said.get("call_id") or ""})
        if said.get("role") == "note":
            return self._note(plain, said.get("kind"))
        return self._reply(plain, said) if plain.get("role") == "assistant" else self._base.parse(plain)

    def _note(self, message: Mapping[str, Any], kind: Any) -> Message:
        contents: list[Content] = []
        for content in self._base.parse({**message, "role": "tool"}).contents:
            if isinstance(content, ToolResult):
                if content.text:
                    name = kind if isinstance(kind, str) and kind else note_kind("user", content.text)
                    contents.append(Note(content.text, name))
                contents.extend(content.opaque)
        return Message("user", tuple(contents))

    def _reply(self, message: Mapping[str, Any], said: Mapping[str, Any]) -> Message:
        beside = self._base.parse({**message, "role": "assistant", "content": None}).contents
        written = self._base.parse({"role": "assistant", "content": message.get("content")}).contents
        text = "".join(content.text for content in written if isinstance(content, Thought))
        contents: list[Content] = [content for content in beside if isinstance(content, Thought)]
        thoughts, calls = _thoughts(said.get("thought")), [_call(call) for call in _objects(said.get("calls"))]
        contents += [*map(Thought, thoughts), *calls]
        markup = _left_over(text, [*thoughts, *(piece for call in calls for piece in _typed(call))])
        if markup:
            contents.append(Opaque("markup", text=markup))
        contents += [content for content in (*written, *beside) if not isinstance(content, Thought)]
        return Message("model", tuple(contents))

    def canonical(self, message: Mapping[str, Any]) -> Any:
        return self._base.canonical(_without_key(message))

    def block_index(self, head: Sequence[Message]) -> int:
        return self._base.block_index(head)

    def block_message(self, text: str) -> dict[str, Any]:
        return self._base.block_message(text)

    def merge_block(self, message: Mapping[str, Any], text: str) -> dict[str, Any] | None:
        return self._base.merge_block(message, text)


def _without_key(message: Mapping[str, Any]) -> Mapping[str, Any]:
    return {key: value for key, value in message.items() if key != KEY} if KEY in message else message


def _objects(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, (list, tuple)) else []


def _thoughts(value: Any) -> list[str]:
    found = value if isinstance(value, (list, tuple)) else [value]
    return [text for text in found if isinstance(text, str) and text]


def _call(call: Mapping[str, Any]) -> ToolCall:
    arguments = call.get("arguments", "")
    if not isinstance(arguments, (str, Mapping)):
        arguments = json.dumps(arguments, ensure_ascii=False, default=str)
    return ToolCall(str(call.get("name") or ""), arguments, str(call.get("id") or ""), call.get("answered") is False)


def _typed(call: ToolCall) -> list[str]:
    """The texts of a call that may stand in the message."""
    if isinstance(call.arguments, str):
        return [call.arguments]
    return [value for value in call.arguments.values() if isinstance(value, str)]


def _left_over(text: str, pieces: Sequence[str]) -> str:
    """`text` without each of the pieces, as it stands or as a JSON string, each taken out once."""
    segments = [text]
    for piece in pieces:
        for form in (piece, json.dumps(piece, ensure_ascii=False)[1:-1], json.dumps(piece)[1:-1]):
            at = next((i for i, segment in enumerate(segments) if form and form in segment), None)
            if at is not None:
                segments[at : at + 1] = segments[at].split(form, 1)
                break
    return "".join(segments)


DIALECT: Dialect = TextActions(dialect("chat"))

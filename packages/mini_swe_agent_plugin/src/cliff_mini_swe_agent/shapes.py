"""The host's messages as a dialect of the core: the only module that knows their shapes.

Three families share one list of messages, told apart by the message itself (facts/mini-swe-agent.md, 1.5):
Chat Completions with tool calls; text with commands inside (`extra.actions`), answered by user messages with
`extra.raw_output`; whole Responses objects (`object: response`) with `function_call_output` items. `extra` is the
host's own and never sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from cliff_core import Dialect, dialect
from cliff_core.content import Content, Directive, Message, Note, Opaque, ToolResult
from cliff_core.dialects import parts

_CHAT, _TEXT, _RESPONSES = dialect("chat"), dialect("chat-text"), dialect("responses")

_PERSONS = frozenset({"UserNewTask", "UserInterruption", "UserRejection"})
"""`extra.interrupt_type` of messages that carry a person's words; others (FormatError, …) are the host's."""

_NO_WORDS = (
    "Interrupted by user: Temporary interruption caught.",
    "Switched to human mode.",
    "Commands not executed. Switching to human mode",
)
"""What the host writes into such a message where the person said nothing."""

_OPENING = re.compile(r"\s*(?:```[\w-]*|<[\w-]+>)[ \t]*\n?\Z")
_CLOSING = re.compile(r"\A\s*(?:```|</[\w-]+>)\s*")
"""What stands around a command in a text: a fence (`mini_textbased.yaml`) or a tag (`swebench_xml.yaml`)."""


class BlockMessage(dict[str, Any]):
    """A message that ends with the block; the type tells where a cache breakpoint belongs."""


class MiniDialect:
    """mini-swe-agent's messages, of all its model classes.

    `like` is a user message of the session: the block gets its shape, which differs between the Responses classes
    (`litellm_response` has role and text, the others items of input texts)."""

    name = "mini-swe-agent"

    def __init__(self, like: Mapping[str, Any] | None = None) -> None:
        self._items = like is not None and like.get("type") == "message"

    @classmethod
    def of(cls, messages: Iterable[Any]) -> MiniDialect:
        """The dialect for the session of these messages."""
        users = (m for m in messages if isinstance(m, Mapping) and m.get("role") == "user")
        return cls(next(users, None))

    def parse(self, message: Mapping[str, Any]) -> Message:
        extra = _extra(message)
        plain = _sent(message)
        role, interrupt = plain.get("role"), extra.get("interrupt_type")
        commands = _commands(extra)
        if role == "exit":  # never sent by the host's own agents
            return Message("user", tuple(_words(plain, lambda text: Note(text, "exit"))))
        if role == "user" and isinstance(interrupt, str):
            return Message("user", tuple(_words(plain, lambda text: _said(text, interrupt))))
        if role in ("assistant", "user") and commands and not plain.get("tool_calls"):
            # Of a person in human mode, too: it is a step like the model's, and its excerpt says whose.
            return _TEXT.parse({**plain, "role": "assistant", "_cliff": _step(plain.get("content"), commands)})
        if role == "user" and is_observation(message):
            return _flagged(_TEXT.parse({**plain, "_cliff": {"role": "tool"}}), extra)
        return _flagged(_base(plain).parse(plain), extra)

    def canonical(self, message: Mapping[str, Any]) -> Any:
        extra = _extra(message)
        plain = _sent(message)
        told = {key: extra[key] for key in ("actions", "interrupt_type", "returncode") if key in extra}
        return _base(plain).canonical(plain), told, "raw_output" in extra

    def block_index(self, head: Sequence[Message]) -> int:
        return _CHAT.block_index(head)

    def block_message(self, text: str) -> dict[str, Any]:
        return BlockMessage((_RESPONSES if self._items else _CHAT).block_message(text))

    def merge_block(self, message: Mapping[str, Any], text: str) -> dict[str, Any] | None:
        merged = _base(message).merge_block(message, text)
        return None if merged is None else BlockMessage(merged)


def is_observation(message: Mapping[str, Any]) -> bool:
    """Whether a message is what a command printed (text and human mode: nothing else tells)."""
    extra = _extra(message)
    return "raw_output" in extra or "returncode" in extra


def is_reply(message: Mapping[str, Any]) -> bool:
    """Whether a message stands for a request to the model: its reply, or the error that it had no legal form."""
    if _extra(message).get("interrupt_type") == "FormatError":
        return True
    return message.get("role") == "assistant" or message.get("object") == "response"


def input_tokens(message: Mapping[str, Any]) -> int:
    """Tokens of the prompt as the provider counted them, cache reads and writes included; 0 if it did not say.

    The response lies in `extra`; a Responses object is the response itself."""
    response = _extra(message).get("response")
    usage = (response if isinstance(response, Mapping) else message).get("usage")
    if not isinstance(usage, Mapping):
        return 0
    if "prompt_tokens" in usage:
        return _count(usage, "prompt_tokens")
    # OpenAI's input tokens contain the cached ones, Anthropic's own do not.
    return sum(_count(usage, k) for k in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"))


def _count(usage: Mapping[str, Any], name: str) -> int:
    value = usage.get(name)
    return value if type(value) is int and value > 0 else 0


def _extra(message: Mapping[str, Any]) -> Mapping[str, Any]:
    extra = message.get("extra")
    return extra if isinstance(extra, Mapping) else {}


def _sent(message: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in message.items() if key != "extra"}


def _base(message: Mapping[str, Any]) -> Dialect:
    items = message.get("object") == "response" or message.get("type") in ("message", "function_call_output")
    return _RESPONSES if items else _CHAT


def _commands(extra: Mapping[str, Any]) -> list[str]:
    actions = extra.get("actions")
    found = [a.get("command") for a in actions if isinstance(a, Mapping)] if isinstance(actions, list) else []
    return [command for command in found if isinstance(command, str)]


def _step(content: Any, commands: list[str]) -> dict[str, Any]:
    """What `chat-text` is to be told of a text with commands inside: its calls, and the rest without their fences."""
    text = "".join(filter(None, map(parts.text_of, parts.listed(content))))
    thoughts = []
    end = 0
    for command in commands:
        start = text.find(command, end) if command else -1
        if start >= 0:
            thoughts.append(_OPENING.sub("", text[end:start]))
            end = start + len(command)
            closing = _CLOSING.match(text[end:])
            end += closing.end() if closing else 0
    thoughts.append(text[end:])
    return {
        "thought": [thought.strip() for thought in thoughts if thought.strip()],
        "calls": [{"name": "bash", "arguments": command} for command in commands],
    }


def _words(message: Mapping[str, Any], made: Any) -> Iterable[Content]:
    """The texts of a message as `made` of them, and what is no text."""
    for part in parts.listed(message.get("content")):
        text = parts.text_of(part)
        if text is None:
            yield from (c for c in _CHAT.parse({"role": "user", "content": [part]}).contents if isinstance(c, Opaque))
        elif text:
            yield made(text)


def _said(text: str, interrupt: str) -> Directive | Note:
    if interrupt in _PERSONS and text not in _NO_WORDS:
        return Directive(text)
    return Note(text, interrupt)


def _flagged(message: Message, extra: Mapping[str, Any]) -> Message:
    """Results with the command's own exit code, in place of what their text looks like."""
    code = extra.get("returncode")
    if type(code) is not int:
        return message
    contents = (replace(c, error=code != 0) if isinstance(c, ToolResult) else c for c in message.contents)
    return Message(message.role, tuple(contents))

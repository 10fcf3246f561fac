"""What a request of each API says beside its messages: the fixed part, limits, whose it is, what it is for."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from cliff_core import tokens
from cliff_core.content import Directive, Message, Note
from cliff_core.dialects import parts
from cliff_proxy.headers import text
from cliff_proxy.layouts import quick_hash
from cliff_proxy.slices import Body, canonical

Purpose = Literal["step", "summary", "trigger"]
"""`step` asks the model to go on; `summary` is a client's own compaction, `trigger` the provider's."""


@dataclass(frozen=True, slots=True)
class Format:
    """Names of the fields of an API's requests."""

    messages: str
    system: str | None
    """Sent outside the messages."""
    tools: tuple[str, ...]
    answer: tuple[str, ...]
    """Tokens that an answer may have, the first that is set."""
    stateful: tuple[str, ...] = ()
    """With one of these the provider adds messages that we do not see."""


FORMATS: dict[str, Format] = {
    "anthropic": Format("messages", "system", ("tools",), ("max_tokens",)),
    "chat": Format("messages", None, ("tools", "functions"), ("max_completion_tokens", "max_tokens")),
    "responses": Format(
        "input", "instructions", ("tools",), ("max_output_tokens",), ("previous_response_id", "conversation")
    ),
}

BILLING = "x-anthropic-billing-header:"
"""Claude Code begins its system prompt with such a text, which changes with every version and request."""

SUMMARIES = (
    # Claude Code (seen in a recorded session), Cline
    "Your task is to create a detailed summary of",
    # Codex without OpenAI's own compaction
    "You are performing a CONTEXT CHECKPOINT COMPACTION",
    # opencode
    "Provide a detailed prompt for continuing our conversation above",
    "Provide a detailed summary of our conversation above",
)
"""What clients write to have the whole session summarized. Taken for a step, such a call gets the view: it works,
but knows less."""

SUMMARY_CHARS = 2_000
"""Where in the text of the last message such a sentence is looked for: its first and last characters."""


ARRAYS = {api: re.compile(rb'"%b"\s*:\s*(?=\[)' % form.messages.encode()) for api, form in FORMATS.items()}
"""Where a body's array of messages may begin."""


def stateful(form: Format, body: Body) -> str | None:
    """The field by which the provider adds messages of its own."""
    return next((name for name in form.stateful if body.raw(name) is not None), None)


def model(body: Body) -> str:
    found = body.value("model")
    return found if isinstance(found, str) else ""


def answer_tokens(form: Format, body: Body) -> int | None:
    """How many tokens the answer may have, if the request says so."""
    for name in form.answer:
        found = body.value(name)
        if isinstance(found, int) and not isinstance(found, bool) and found > 0:
            return found
    return None


def fixed(form: Format, body: Body) -> tuple[bytes, int]:
    """What is sent outside the messages: in one spelling for all equal ones, and its tokens.

    Tools that the model does not see yet (`defer_loading`) have none."""
    texts = _system(form, body)
    tools = [tool for name in form.tools for tool in parts.listed(parts.unmarked(body.value(name)))]
    shown = [tool for tool in tools if not (parts.is_object(tool) and tool.get("defer_loading") is True)]
    counts = tokens.count_many([*texts, *(json.dumps(tool, ensure_ascii=False) for tool in shown)])
    return canonical([texts, tools]), sum(counts)


def fixed_key(form: Format, body: Body) -> tuple[int, ...]:
    """Stands for what `fixed` depends on, in this process."""
    system = body.raw(form.system) if form.system else None
    if system is not None and BILLING.encode() in system:
        system = canonical(_system(form, body))
    raws = [system, *(body.raw(name) for name in form.tools)]
    return tuple(number for raw in raws for number in (quick_hash(raw or b""), len(raw or b"")))


def _system(form: Format, body: Body) -> list[str]:
    """The texts of a system prompt outside the messages."""
    system = parts.unmarked(body.value(form.system)) if form.system else None
    return [text for part in parts.listed(system) if (text := parts.text_of(part)) and not text.startswith(BILLING)]


def purpose(message: Message) -> Purpose:
    """What a request is for, by its last message."""
    if message.role == "trigger":
        return "trigger"
    for content in message.contents:
        if isinstance(content, (Directive, Note)):
            text = content.text
            ends = text if len(text) <= 2 * SUMMARY_CHARS else text[:SUMMARY_CHARS] + text[-SUMMARY_CHARS:]
            if any(sentence in ends for sentence in SUMMARIES):
                return "summary"
    return "step"


_LABELS = (
    *(b"x-claude-code-session-id", b"session-id", b"session_id", b"thread-id", b"conversation_id", b"x-session-id"),
)
_AGENTS = (b"x-claude-code-agent-id",)


def label(labels: Mapping[bytes, bytes], body: Body) -> str:
    """The client's own id of a session, for display; empty where it sends none."""
    found = next((text(labels[name]) for name in _LABELS if labels.get(name)), "")
    if not found:
        user = body.value("metadata")
        said: Any = parts.string(user.get("user_id")) if parts.is_object(user) else ""
        try:
            said = json.loads(said) if said.startswith("{") else None
        except ValueError:
            said = None
        found = parts.string(said.get("session_id")) if parts.is_object(said) else ""
    if not found:
        found = parts.string(body.value("prompt_cache_key"))
    agent = next((text(labels[name]) for name in _AGENTS if labels.get(name)), "")
    return "/".join(filter(None, (_plain(found), _plain(agent))))


def _plain(text: str) -> str:
    """An id, without what is none of one's characters (it goes to a terminal and to file names)."""
    return "".join(c for c in text[:64] if c.isascii() and (c.isalnum() or c in "-_.")).strip(".")

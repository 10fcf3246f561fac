"""One view, told apart: what of the history it keeps, what stands in the block, and what was cut."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from rich.text import Text

from cliff_core.compactor import View
from cliff_core.content import (
    Directive,
    Message,
    Note,
    Opaque,
    Thought,
    ToolCall,
    ToolResult,
    arguments_text,
)
from cliff_core.ledger import Meter
from cliff_core.wording import grouped, printable

Place = Literal["head", "block", "pinned", "cut", "live"]

STYLES: dict[Place, str] = {
    "head": "cyan",
    "block": "yellow",
    "pinned": "magenta",
    "cut": "bright_black",
    "live": "green",
}

PREVIEW = 100
"""Characters that are shown of a message that was cut."""


@dataclass(frozen=True, slots=True)
class Part:
    """A message, or the block."""

    place: Place
    title: str
    text: str
    tokens: int


def parts(history: list[Any], view: View, meter: Meter) -> Iterator[Part]:
    """Everything, in the order of the history; the block where the request has it."""
    pinned = set(view.pinned)
    block_at = _block_at(history, view)
    for index, message in enumerate(history):
        if index == block_at and view.block is not None:
            yield _block(view.block, meter)
        place: Place = "live"
        if index < view.head:
            place = "head"
        elif index < view.cut:
            place = "pinned" if index in pinned else "cut"
        content = meter.parsed(message)
        yield Part(place, f"message {index + 1}, {content.role}", _text(content), content.tokens)
    if view.block is not None and block_at == len(history):
        yield _block(view.block, meter)


def _block(text: str, meter: Meter) -> Part:
    return Part("block", "excerpts of what was cut", text, meter.count_many([text])[0])


def _block_at(history: list[Any], view: View) -> int:
    """Index of the message before which the block is shown: behind the one that it follows in the request (of the
    head, or a pinned compaction of the provider), or that it is appended to."""
    before = [*range(view.head), *view.pinned]
    place = next(
        (n for n, index in enumerate(before) if view.messages[n] is not history[index]),
        len(before),
    )
    merged = len(view.messages) == view.head + len(view.pinned) + view.size - view.cut
    follows = before[: place + merged]
    return follows[-1] + 1 if follows else 0


def lines(name: str, request: int, view: View, parts: Iterator[Part]) -> Iterator[Text]:
    """A summary, then all parts with a label before every line, so that they can be told apart without
    colour. A message that was cut has one line."""
    yield Text(printable(_summary(name, request, view)), style="bold")
    for part in parts:
        style = STYLES[part.place]
        gutter = f"{part.place:<6} │ "
        title = f"{part.title}, {grouped(part.tokens)} tokens"
        if part.place == "cut":
            preview = " ".join(printable(part.text[: 4 * PREVIEW]).split())
            short = preview[:PREVIEW] + ("…" if len(preview) > PREVIEW else "")
            yield Text(f"{gutter}{title}: {short}", style=style)
            continue
        yield Text(gutter, style=style).append(title, style="bold")
        for line in printable(part.text).split("\n"):
            yield Text(gutter, style=style).append(line, style="default")


def view_json(view: View, request: int) -> dict[str, Any]:
    """The same as JSON; indices are those of the session's messages, from 0."""
    return {
        "request": request,
        "tokens": view.tokens,
        "threshold": view.threshold,
        "head": view.head,
        "cut": view.cut,
        "pinned": list(view.pinned),
        "cliff": view.cliff.as_dict() if view.cliff else None,
        "block": view.block,
        "messages": view.messages,
    }


def _summary(name: str, request: int, view: View) -> str:
    text = f"{name}: request {request}, {grouped(view.tokens)} tokens of {grouped(view.threshold)}"
    if view.block is not None:
        text += f"; messages {view.head + 1} to {view.cut} are cut"
        if view.pinned:
            text += f", but for {len(view.pinned)} that are pinned"
    else:
        text += "; nothing is cut"
    if view.cliff is not None:
        before, after = grouped(view.cliff.tokens_before), grouped(view.cliff.tokens_after)
        text += f"; cliff {view.cliff.number} is here, from {before} to {after} tokens"
    return text


def _text(message: Message) -> str:
    shown: list[str] = []
    for content in message.contents:
        if isinstance(content, ToolCall):
            shown.append(f"{content.name} {arguments_text(content.arguments)}")
        elif isinstance(content, ToolResult):
            shown.append(content.text)
            shown += map(_opaque, content.opaque)
        elif isinstance(content, Opaque):
            shown.append(_opaque(content))
        elif isinstance(content, Thought) and not content.text:
            shown.append(f"[reasoning without text, {grouped(content.tokens)} tokens]")
        elif isinstance(content, (Thought, Directive, Note)):
            shown.append(content.text)
    return "\n".join(shown)


def _opaque(content: Opaque) -> str:
    return content.text or f"[{content.kind}, {grouped(content.tokens)} tokens]"

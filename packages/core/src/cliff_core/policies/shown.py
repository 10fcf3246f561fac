"""A growing history whose messages a policy rewrites."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from cliff_core.content import Message, ToolCall, ToolResult, Turn
from cliff_core.ledger import Meter
from cliff_core.turns import head_end, starts_turn

CLEARED = "[tool result cleared]"
"""Stands for a result that was cleared. (Anthropic does not publish its own words; these have as many tokens as any
such placeholder.)"""


class Shown:
    """What a policy shows of each message: the session's own, or a rewritten `Message`. Work per call is proportional
    to what was appended."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self.messages: list[Any] = []
        self.parsed: list[Message] = []
        self.head: int | None = None
        """Messages in the head, once it has ended."""
        self.starts: list[int] = []
        """Where turns begin."""
        self.head_tokens = 0
        self.uses: list[tuple[int, int]] = []
        """Tool results in order: message, and position in it."""
        self._calls: dict[str, tuple[int, int]] = {}
        self._last_call: tuple[int, int] | None = None
        self._call_of: dict[tuple[int, int], tuple[int, int]] = {}

    def take(self, history: Sequence[Any]) -> int:
        """Append what is new of `history`; returns how many tokens that has."""
        added = 0
        for message in history[len(self.messages) :]:
            parsed = self._meter.parsed(message)
            index = len(self.messages)
            self.messages.append(message)
            self.parsed.append(parsed)
            added += parsed.tokens
            for position, content in enumerate(parsed.contents):
                if isinstance(content, ToolCall):
                    self._last_call = (index, position)
                    if content.id:
                        self._calls[content.id] = self._last_call
                elif isinstance(content, ToolResult):
                    call = self._calls.get(content.call_id, self._last_call if not content.call_id else None)
                    if call is not None:
                        self._call_of[index, position] = call
                    self.uses.append((index, position))
            if self.head is None:
                if parsed.role == "model":
                    self.head = head_end(self.parsed)
                if self.head is None:
                    self.head_tokens += parsed.tokens
                else:
                    self.head_tokens = sum(one.tokens for one in self.parsed[: self.head])
                    self.starts = [self.head]
            elif starts_turn(self.parsed, index):
                self.starts.append(index)
        return added

    def turns(self, since: int) -> list[Turn]:
        """Turns from the one that begins at message `since` on."""
        starts = [start for start in self.starts if start >= since]
        return [
            Turn(number, start, tuple(self.parsed[start:end]))
            for number, (start, end) in enumerate(pairwise([*starts, len(self.parsed)]), 1)
        ]

    def tool(self, use: tuple[int, int]) -> str:
        """Name of the tool that gave a result; empty where its call is not known."""
        call = self._call_of.get(use)
        content = self.parsed[call[0]].contents[call[1]] if call else None
        return content.name if isinstance(content, ToolCall) else ""

    def clear(self, use: tuple[int, int], inputs: bool = False) -> int:
        """Put the placeholder in place of a result, with `inputs` nothing in place of its call's arguments; returns the
        tokens that this frees."""
        result = self.parsed[use[0]].contents[use[1]]
        assert isinstance(result, ToolResult)
        if result.text == CLEARED:
            return 0
        freed = self._rewrite(use, replace(result, text=CLEARED, opaque=()))
        call = self._call_of.get(use)
        if inputs and call is not None:
            content = self.parsed[call[0]].contents[call[1]]
            assert isinstance(content, ToolCall)
            freed += self._rewrite(call, replace(content, arguments={}))
        return freed

    def _rewrite(self, place: tuple[int, int], content: ToolCall | ToolResult) -> int:
        index, position = place
        before = self.parsed[index]
        contents = (*before.contents[:position], content, *before.contents[position + 1 :])
        made = self._meter.parsed(Message(before.role, contents))
        self.messages[index] = self.parsed[index] = made
        return before.tokens - made.tokens

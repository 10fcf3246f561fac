"""Policy `clear-tools`: Anthropic's context editing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cliff_core import decision
from cliff_core.config import CliffConfig
from cliff_core.ledger import Meter
from cliff_core.policies.base import PolicyView, Settings
from cliff_core.policies.shown import Shown
from cliff_core.traces import Session


class ClearTools:
    """Old tool results become a placeholder, as `clear_tool_uses_20250919` of the Messages API defines it
    (platform.claude.com/docs/en/build-with-claude/context-editing), in every message format.

    - **trigger**: the request as the client has it, with nothing cleared, is above the threshold (or, with
      `clear_trigger_uses`, has more tool uses than that);
    - **keep**: the newest tool uses stay, all older ones are cleared, the oldest first;
    - **clear_at_least**: where that would free fewer tokens, nothing is cleared;
    - **exclude_tools**: uses of these tools are not cleared (they count among the newest);
    - **clear_tool_inputs**: the arguments of cleared calls go, too; else calls stay.

    The API is stateless: clients send the whole history each time, and each request is edited anew. So once the
    history is above the trigger the border moves with every use (openclaw/openclaw#137021 shows it in a log: 2
    results cleared, growing to 7), and what follows the border is not found in the prefix cache. What is left is sent
    however large it is."""

    name = "clear-tools"
    note = ""

    def __init__(self, config: CliffConfig, settings: Settings | None = None) -> None:
        self.config, self.settings = config, settings or Settings()
        self._meter: Meter
        self._limit: int | None = None
        self._reset()

    def _reset(self) -> None:
        self._shown: Shown | None = None
        self._size = 0  # with nothing cleared
        self._freed = 0
        self._border = 0  # uses that were looked at

    def start(self, session: Session, meter: Meter, limit: int | None = None) -> None:
        self._meter, self._limit = meter, limit
        self._reset()

    def view(self, history: Sequence[Any], fixed_tokens: int) -> PolicyView:
        if self._shown is None or len(history) < len(self._shown.messages):
            self._reset()
            self._shown = Shown(self._meter)
        shown, settings = self._shown, self.settings
        self._size += shown.take(history)
        size = fixed_tokens + self._size
        if settings.clear_trigger_uses is not None:
            due = len(shown.uses) > settings.clear_trigger_uses
        else:
            due = size > decision.effective_threshold(self.config, fixed_tokens + shown.head_tokens, self._limit)
        if not due:
            return PolicyView(list(history), size)
        # Once due it stays due, and what was cleared stays cleared: the history only grows.
        border = max(self._border, len(shown.uses) - settings.clear_keep)
        for use in shown.uses[self._border : border]:
            if shown.tool(use) not in settings.clear_exclude:
                self._freed += shown.clear(use, settings.clear_inputs)
        self._border = border
        if self._freed < max(1, settings.clear_at_least):
            return PolicyView(list(history), size)
        return PolicyView(list(shown.messages), size - self._freed)

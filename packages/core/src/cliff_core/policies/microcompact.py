"""Policy `microcompact`: clear first, summarize when that is not enough."""

from __future__ import annotations

from cliff_core.policies.shown import Shown
from cliff_core.policies.summarize import Summarize


class Microcompact(Summarize):
    """As `summarize`, but above the threshold the old tool results are cleared first: all but the newest
    (`clear_keep`), and they stay cleared. Where the view has then more than (1 − gain) of the threshold, a summary
    is written of what is left.

    This needs no model call as long as results are what fills the context, and costs the prefix cache at each
    clearing."""

    name = "microcompact"

    def _reset(self) -> None:
        super()._reset()
        self._border = 0  # uses that were cleared

    def _relieve(self, shown: Shown, wanted: int) -> int:
        border = max(self._border, len(shown.uses) - self.settings.clear_keep)
        live = max(self._since, shown.head or 0)
        freed = sum(
            shown.clear(use)
            for use in shown.uses[self._border : border]
            if use[0] >= live and shown.tool(use) not in self.settings.clear_exclude
        )
        self._border = border
        self._live -= freed
        return freed

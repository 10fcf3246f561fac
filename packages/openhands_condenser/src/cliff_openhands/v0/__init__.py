"""OpenHands V0 (openhands-ai up to 1.6.0, `python -m openhands.core.main`): the condenser of type `cliff`.

`[condenser] type = "cliff"` works where the package's import hook is on; without it,
`classpath = "cliff_openhands.v0.CliffCodeActAgent"` in the agent's section loads the same. Nothing of OpenHands is
imported before a name is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "CliffCodeActAgent": "agent",
    "CliffCondenser": "condenser",
    "CliffCondenserConfig": "config",
}

__all__ = ["CliffCodeActAgent", "CliffCondenser", "CliffCondenserConfig"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)

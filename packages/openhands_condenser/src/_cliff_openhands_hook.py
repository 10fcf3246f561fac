"""Makes our condensers known to OpenHands when, and only when, OpenHands is imported.

OpenHands looks a condenser up by its class's name among the classes already imported, and has no extension point that
would import one. `cliff_openhands.pth` therefore imports this module at each start of Python; it registers a finder
that waits for the modules below, and loads ours right after one of them. `CLIFF_OPENHANDS_HOOK=0` switches it off.

Nothing here may cost or break a Python that has nothing to do with OpenHands: these three modules are loaded anyway.
"""

import _thread
import os
import sys

TYPE_CHECKING = False  # (`typing` itself is not loaded yet)
if TYPE_CHECKING:
    from typing import Any

AFTER = {
    "openhands.sdk": "cliff_openhands.condenser",  # V1
    "openhands.core.config": "cliff_openhands.v0.config",  # V0
}
"""Module of OpenHands -> ours that is imported right after it."""


class Finder:
    """Finds nothing itself: lets the others find a module of `AFTER`, and adds to what runs when it is loaded."""

    def __init__(self) -> None:
        self.looking: set[tuple[str, int]] = set()

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Any":
        if name not in AFTER:
            return None
        here = (name, _thread.get_ident())
        if here in self.looking:  # another finder asked all of them, ours included
            return None
        self.looking.add(here)
        try:
            for finder in sys.meta_path:
                find = getattr(finder, "find_spec", None)
                spec = find(name, path, target) if find is not None and finder is not self else None
                if spec is not None:
                    _then(spec.loader, AFTER[name])
                    return spec
        finally:
            self.looking.discard(here)
        return None


def _then(loader: "Any", ours: str) -> None:
    """Import `ours` after `loader` has run its module. The loader is of this one module."""
    run = getattr(loader, "exec_module", None)
    if run is None:  # a namespace, or a loader of another kind: not OpenHands as it is installed
        return

    def exec_module(module: "Any") -> None:
        run(module)
        try:
            __import__(ours)
        except Exception as error:
            _warn(ours, error)

    loader.exec_module = exec_module


def _warn(ours: str, error: Exception) -> None:
    """OpenHands goes on without us."""
    import logging

    logging.getLogger("cliff_openhands").warning(
        "cliff: OpenHands runs without the cliff condenser: %s could not be loaded (%s: %s)",
        ours,
        type(error).__name__,
        error,
    )


def install() -> None:
    """Register the finder, once."""
    if os.environ.get("CLIFF_OPENHANDS_HOOK", "").strip() == "0":
        return
    if not any(type(finder).__name__ == "Finder" and type(finder).__module__ == __name__ for finder in sys.meta_path):
        sys.meta_path.insert(0, Finder())


install()

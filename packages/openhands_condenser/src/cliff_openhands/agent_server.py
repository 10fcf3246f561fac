"""`python -m cliff_openhands.agent_server …`: the SDK's agent-server, which knows our condensers.

The same as `python -m openhands.agent_server --import-modules cliff_openhands …`, where that cannot be said: without
the import hook, or as the app server's OH_SANDBOX_AGENT_SERVER_MODULE.
"""

from __future__ import annotations


def main() -> None:
    """Run the server with this process's arguments."""
    from openhands.agent_server.__main__ import main as serve  # type: ignore[import-not-found]

    from cliff_openhands import condenser  # noqa: F401 - to be found by its name it must have been imported

    serve()


if __name__ == "__main__":
    main()

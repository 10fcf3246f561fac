"""The ways by which OpenHands V1 is given its condenser (`make test-hosts`): its own programs, unmodified. In an
environment without it there is nothing to collect here, and only those modules whose program is installed."""

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kit.fixtures import model_server  # noqa: F401
from kit.forkserver import ForkServer


def _is_here(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:
        return False


sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]

COMMAND, APP, V0 = map(_is_here, ("openhands_cli", "openhands.app_server", "openhands.core"))
# The command does not use the agent-server, and its own requirements let in one of another SDK.
SERVER = _is_here("openhands.agent_server") and not COMMAND and not V0

collect_ignore = [
    name
    for name, here in {
        "test_command.py": COMMAND,
        "test_agent_server.py": SERVER,
        "test_app_server.py": APP and not V0,
    }.items()
    if not here
]


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Of the programs: a home of their own. The app server's is what `cliff openhands enable --server` writes."""
    import host_settings
    from work import THRESHOLD

    from cliff_openhands.settings import server_lines

    folder = tmp_path_factory.mktemp("programs")
    app = dict(line.split("=", 1) for line in server_lines({"threshold_tokens": THRESHOLD}))
    app |= {
        "RUNTIME": "process",
        "SERVE_FRONTEND": "false",
        "OH_SANDBOX_KIND": "ProcessSandboxServiceInjector",
        # Its sandboxes have no hook (see `test_app_server`).
        "OH_SANDBOX_AGENT_SERVER_MODULE": "cliff_openhands.agent_server",
        "OH_SANDBOX_BASE_WORKING_DIR": str(folder / "sandboxes"),
        "OH_APP_CONVERSATION_SANDBOX_STARTUP_TIMEOUT": "600",
    }
    return (
        (app if APP else {})
        | host_settings.settings(folder / "home")
        | {
            "OPENHANDS_PERSISTENCE_DIR": str(folder / "settings"),
            "OH_PERSISTENCE_DIR": str(folder / "server"),
            "OH_CONVERSATIONS_PATH": str(folder / "conversations"),
            "OH_BASH_EVENTS_DIR": str(folder / "bash"),
            "OH_WORKSPACE_PATH": str(folder / "workspace"),
            "OH_ENABLE_VSCODE": "false",
            "OH_SECRET_KEY": "for tests",
        }
    )


@pytest.fixture(scope="session")
def programs(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Programs of a Python that started with the import hook."""
    modules = [
        *("openhands_cli.entrypoint", "openhands_cli.tui.textual_app") * COMMAND,
        *("openhands.agent_server.__main__", "openhands.agent_server.api") * SERVER,
        *("openhands.app_server.app",) * APP,
    ]
    started = ForkServer(tmp_path_factory.mktemp("runs"), *modules, env=environment)
    yield started
    started.close()
    if shutil.which("tmux"):  # what the terminal tool leaves behind where its program ends in a hurry
        subprocess.run(["tmux", "-L", "openhands", "kill-server"], env=environment, capture_output=True, check=False)

"""Tests in the real hosts: `make test-hosts`. In the workspace's own environment, which has neither host, there is
nothing to collect here. They need tmux."""

import importlib.util
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kit.fixtures import model_server  # noqa: F401
from kit.forkserver import ForkServer

HERE = Path(__file__).parent
collect_ignore_glob = ["tasks/*"]  # a task's tests run where its agent worked
if importlib.util.find_spec("terminal_bench") is None or importlib.util.find_spec("harbor") is None:
    collect_ignore_glob.append("test_*.py")
else:
    sys.path.insert(0, str(HERE))
    import host_settings

    host_settings.clean()
    # Before any test module imports the hosts, which read them then.
    os.environ |= host_settings.SETTINGS | {"OPENAI_API_KEY": "test", "ANTHROPIC_API_KEY": "test"}


@pytest.fixture(scope="session")
def command_line(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    if shutil.which("tmux") is None:
        pytest.fail("tmux is missing, in which Terminus-2 works: install it (apt-get install tmux)")
    line = ForkServer(tmp_path_factory.mktemp("commands"), "ready_hosts", env=host_settings.commands())
    yield line
    line.close()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Shows what tests recorded as `table`."""
    for report in terminalreporter.stats.get("passed", []):
        for name, text in report.user_properties:
            if name == "table":
                terminalreporter.section("Terminus-2 with both summarizers")
                terminalreporter.write_line(text)

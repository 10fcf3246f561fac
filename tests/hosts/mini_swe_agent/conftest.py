"""Tests in the real host: `make test-hosts`. In the workspace's own environment, which has no mini-swe-agent, there is
nothing to collect here."""

import importlib.util
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kit.fixtures import model_server  # noqa: F401
from kit.forkserver import ForkServer

if importlib.util.find_spec("minisweagent") is None:
    collect_ignore_glob = ["test_*.py"]
else:
    sys.path.insert(0, str(Path(__file__).parent))
    import host_settings

    host_settings.clean()
    # Before any test module imports the host, which reads them then.
    os.environ |= host_settings.settings(Path(tempfile.mkdtemp(prefix="mini-")))


@pytest.fixture(scope="session")
def command_line(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("commands")
    modules = ("datasets", "minisweagent.models.litellm_model", "minisweagent.run.mini")
    line = ForkServer(folder, *modules, env=os.environ | host_settings.settings(folder))
    yield line
    line.close()


@pytest.fixture(scope="session")
def version() -> tuple[int, ...]:
    """Of the host."""
    from importlib.metadata import version

    return tuple(map(int, version("mini-swe-agent").split(".")))

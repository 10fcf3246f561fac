"""OpenHands V0 (`make test-hosts`). In an environment without it there is nothing to collect here."""

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kit.fixtures import model_server  # noqa: F401
from kit.forkserver import ForkServer


def _is_here() -> bool:
    try:
        return importlib.util.find_spec("openhands.core.main") is not None
    except ImportError:
        return False


sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Programs of a Python that started with the import hook."""
    yield from _programs(tmp_path_factory.mktemp("programs"))


@pytest.fixture(scope="session")
def without_hook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    yield from _programs(tmp_path_factory.mktemp("without"), CLIFF_OPENHANDS_HOOK="0")


def _programs(folder: Path, **variables: str) -> Iterator[Any]:
    import host_settings

    env = host_settings.settings(folder / "home") | variables
    started = ForkServer(folder, "openhands.core.main", "openhands.runtime.impl.cli", env=env)
    yield started
    started.close()


if not _is_here():
    collect_ignore_glob = ["test_*.py"]
else:
    import tempfile

    import host_settings

    # Before a test module imports the host, which reads them then.
    settings = host_settings.settings(Path(tempfile.mkdtemp(prefix="openhands-v0-")))
    for name in os.environ.keys() - settings.keys():
        del os.environ[name]
    os.environ.update(settings)

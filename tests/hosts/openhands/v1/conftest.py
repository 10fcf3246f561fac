"""The condensers in the real SDK (`make test-hosts`), in one process for each of its releases: to import it takes 10 s
and more. In an environment without it there is nothing to collect here."""

import importlib.util
import logging
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kit.fixtures import model_server  # noqa: F401


def _is_here() -> bool:
    """V0 brings an SDK as well, which it does not use: the condensers are tested in those that are used."""
    try:
        return importlib.util.find_spec("openhands.sdk") is not None and not importlib.util.find_spec("openhands.core")
    except ImportError:
        return False


if not _is_here():
    collect_ignore_glob = ["test_*.py"]
else:
    sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]
    import host_settings

    # Before a test module imports the host, which reads them then.
    settings = host_settings.settings(Path(tempfile.mkdtemp(prefix="openhands-v1-")))
    for name in os.environ.keys() - settings.keys():
        del os.environ[name]
    os.environ.update(settings)


@pytest.fixture(scope="session")
def sdk() -> tuple[int, ...]:
    """The SDK's version."""
    from importlib.metadata import version

    return tuple(map(int, version("openhands-sdk").split(".")))


@pytest.fixture
def warnings() -> Iterator[list[str]]:
    """What was warned of, once for each: the warnings that are told once a conversation are told again."""
    import cliff_openhands.condenser as condenser

    condenser._told.clear()
    found: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.levelno >= logging.WARNING:
                found.append(record.getMessage())

    handler = Keep()
    logging.getLogger("cliff_openhands").addHandler(handler)
    yield found
    logging.getLogger("cliff_openhands").removeHandler(handler)


def pytest_collection_modifyitems(items: list[Any]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore"))

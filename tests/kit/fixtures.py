"""The pytest fixture. A test folder gets it by one line in its conftest.py:

from kit.fixtures import model_server  # noqa: F401
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from .script import ScriptSource
from .server import ModelServer

StartServer = Callable[..., ModelServer]


@pytest.fixture
def model_server() -> Iterator[StartServer]:
    """Starts scripted servers: `model_server(script, **options)`; all stop at the test's end.

    The test fails if a server has had problems. `allow_problems=True` leaves that to the test.
    """
    with ExitStack() as stack:
        watched = []

        def start(script: ScriptSource = (), *, allow_problems: bool = False, **options: Any) -> ModelServer:
            server = stack.enter_context(ModelServer(script, **options))
            if not allow_problems:
                watched.append(server)
            return server

        yield start
    problems = [problem for server in watched for problem in server.problems]
    if problems:
        pytest.fail("the model server had problems:\n" + "\n".join(problems), pytrace=False)

"""Shared by the properties: they make the compactor warn by the thousand, and look at its warnings themselves."""

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="module")
def quiet() -> Iterator[None]:
    logger = logging.getLogger("cliff_core")
    logger.propagate, before = False, logger.propagate
    yield
    logger.propagate = before

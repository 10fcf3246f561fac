"""Where the published rollouts are: other people's, beside the repository and never in it."""

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
ROLLOUTS = Path(os.environ.get("CLIFF_ROLLOUTS", REPOSITORY.parent / "shared" / "rollouts" / "rollouts.jsonl.gz"))


@pytest.fixture(scope="session")
def rollouts() -> Path:
    """The file of published rollouts; a test that asks for it is skipped where it is missing."""
    if not ROLLOUTS.is_file():
        pytest.skip(f"the published rollouts are missing: {ROLLOUTS} is no file (CLIFF_ROLLOUTS names another)")
    return ROLLOUTS

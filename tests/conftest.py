"""Shared by all tests: how many examples hypothesis tries, and where the recorded sessions are.

This file also serves the tests of the core's wheel, where only pytest and hypothesis are installed.
"""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# HYPOTHESIS_PROFILE chooses one. No deadlines: a busy machine is not a failure.
SLOW = [HealthCheck.too_slow]
settings.register_profile("dev", max_examples=100, deadline=None, suppress_health_check=SLOW)
# The same examples each time where a failure stops a landing; new ones are found at a desk.
settings.register_profile("quick", settings.get_profile("dev"), max_examples=50, derandomize=True, print_blob=True)
settings.register_profile("ci", settings.get_profile("dev"), max_examples=1000, derandomize=True, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))

REPOSITORY = Path(__file__).resolve().parent.parent
# Other people's sessions: they are not part of this repository and lie beside it.
TRACES = Path(os.environ.get("CLIFF_TRACES", REPOSITORY.parent / "shared" / "traces"))
NO_TRACES = f"the recorded sessions are missing: {TRACES} is no folder (CLIFF_TRACES names another)"


def recorded_sessions() -> list[Path]:
    """Each session of TRACES (FORMAT/NAME/): its file, or its folder where it has several."""
    found = []
    for folder in sorted(TRACES.glob("*/*/")):
        files = sorted(folder.iterdir())
        found.append(files[0] if len(files) == 1 else folder)
    return found


@pytest.fixture(scope="session")
def traces() -> Path:
    """The folder of recorded sessions; a test that asks for it is skipped where it is missing."""
    if not TRACES.is_dir():
        pytest.skip(NO_TRACES)
    return TRACES


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test with an argument `session_path` runs once for each recorded session."""
    if "session_path" not in metafunc.fixturenames:
        return
    if TRACES.is_dir():
        sessions = [pytest.param(path, id="/".join(path.relative_to(TRACES).parts[:2])) for path in recorded_sessions()]
    else:
        sessions = [pytest.param(None, id="none", marks=pytest.mark.skip(reason=NO_TRACES))]
    metafunc.parametrize("session_path", sessions)

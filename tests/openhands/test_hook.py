"""The import hook, in Pythons of its own: with a stand-in for OpenHands, and without any."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "packages" / "openhands_condenser"
PTH = (PACKAGE / "cliff_openhands.pth").read_text()


def python(code: str, cwd: Path, *flags: str, path: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("CLIFF_")}
    return subprocess.run(
        [sys.executable, *flags, "-c", code],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=env | variables | ({"PYTHONPATH": path} if path else {}),
        check=False,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A stand-in for OpenHands, and one for what is to be imported after it."""
    sdk = tmp_path / "openhands" / "sdk"
    sdk.mkdir(parents=True)
    (sdk / "__init__.py").write_text("READY = True\nprint('sdk')\n")
    (tmp_path / "ours.py").write_text("from openhands.sdk import READY\nprint('ours', READY)\n")
    (tmp_path / "broken.py").write_text("1 / 0\n")
    return tmp_path


WITH = "import _cliff_openhands_hook as hook; hook.AFTER['openhands.sdk'] = {!r}; "


def test_it_is_on_in_this_environment(tmp_path: Path) -> None:
    done = python("import sys; print('_cliff_openhands_hook' in sys.modules, len(sys.meta_path))", tmp_path)
    off = python("import sys; print(len(sys.meta_path))", tmp_path, CLIFF_OPENHANDS_HOOK="0")
    assert done.stdout.split() == ["True", str(int(off.stdout) + 1)]


def test_it_loads_nothing_at_the_start(tmp_path: Path) -> None:
    """But itself: `site` has loaded the rest before it reads a .pth file."""
    done = python(
        f"import sys, os; sys.path.insert(0, {str(PACKAGE / 'src')!r}); before = set(sys.modules)\n"
        "import _cliff_openhands_hook; print(*set(sys.modules) - before)",
        tmp_path,
        "-S",
    )
    assert done.stdout.split() == ["_cliff_openhands_hook"]


def test_ours_is_imported_right_after_it(folder: Path) -> None:
    done = python(WITH.format("ours") + "import openhands.sdk; print('end')", folder)
    assert done.stdout.split("\n")[:3] == ["sdk", "ours True", "end"]
    assert done.stderr == ""


def test_by_any_way_of_importing_it(folder: Path) -> None:
    (folder / "openhands" / "sdk" / "part.py").write_text("")
    for code in ("from openhands.sdk import READY", "import openhands.sdk.part", "import ours"):
        assert python(WITH.format("ours") + code, folder).stdout.split("\n")[:2] == ["sdk", "ours True"]


def test_to_look_for_it_is_not_to_import_it(folder: Path) -> None:
    look = "import importlib.util; print(importlib.util.find_spec('openhands.sdk').name); "
    done = python(WITH.format("ours") + look + "import openhands.sdk", folder)
    assert done.stdout.split() == ["openhands.sdk", "sdk", "ours", "True"]


def test_other_finders_may_ask_all_finders(folder: Path) -> None:
    """As wrappers of imports do (tracing libraries)."""
    asking = """
import sys, importlib.util
class Asking:
    def find_spec(self, name, path=None, target=None):
        if name == "openhands.sdk" and not getattr(self, "busy", False):
            self.busy = True
            return importlib.util.find_spec(name)
sys.meta_path.insert(0, Asking())
"""
    done = python(WITH.format("ours") + asking + "import openhands.sdk", folder)
    assert done.stdout.split() == ["sdk", "ours", "True"]


def test_a_failure_of_ours_is_a_warning(folder: Path) -> None:
    for name in ("broken", "missing"):
        done = python(WITH.format(name) + "import openhands.sdk; print('end')", folder)
        assert done.stdout.split() == ["sdk", "end"]
        assert done.returncode == 0
        assert f"OpenHands runs without the cliff condenser: {name} could not be loaded" in done.stderr


def test_a_failure_of_openhands_is_its_own(folder: Path) -> None:
    (folder / "openhands" / "sdk" / "__init__.py").write_text("raise RuntimeError('theirs')\n")
    done = python(WITH.format("ours") + "import openhands.sdk", folder)
    assert "RuntimeError: theirs" in done.stderr
    assert "cliff" not in done.stderr.split("RuntimeError: theirs")[-1]
    assert done.stdout == ""


def test_without_openhands(tmp_path: Path) -> None:
    done = python("import openhands.sdk", tmp_path)
    assert "ModuleNotFoundError" in done.stderr


def test_off(folder: Path) -> None:
    done = python(WITH.format("ours") + "import openhands.sdk; print('end')", folder, CLIFF_OPENHANDS_HOOK="0")
    assert done.stdout.split() == ["sdk", "end"]


def test_it_is_registered_once(tmp_path: Path) -> None:
    code = "import sys, _cliff_openhands_hook as h; n = len(sys.meta_path); h.install(); print(len(sys.meta_path) - n)"
    assert python(code, tmp_path).stdout.strip() == "0"


def test_the_line_of_the_pth_file(tmp_path: Path) -> None:
    """One line that begins with `import`, as `site` wants it; without the module it does nothing."""
    assert PTH.count("\n") == 1
    assert PTH.startswith("import ")
    done = python(f"exec({PTH!r}); print('end')", tmp_path, "-S", "-I")
    assert (done.stdout.strip(), done.stderr, done.returncode) == ("end", "", 0)
    (tmp_path / "_cliff_openhands_hook.py").write_text("1 / 0\n")
    done = python(f"exec({PTH!r}); print('end')", tmp_path, "-S")
    assert (done.stdout.strip(), done.stderr, done.returncode) == ("end", "", 0)


def test_import_is_light(tmp_path: Path) -> None:
    heavy = "('openhands', 'pydantic', 'litellm', 'typer')"
    code = f"import sys, cliff_openhands, cliff_openhands.v0; print([m for m in {heavy} if m in sys.modules])"
    assert python(code, tmp_path).stdout.strip() == "[]"

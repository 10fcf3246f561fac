"""`cliff doctor`: its own checks, those of other packages, and what it prints."""

import json
import os
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from cliff_core import cli, doctor
from cliff_core.doctor import Finding

runner = CliRunner()


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """No other package's checks, nothing in the environment, our script on PATH."""
    for name in [name for name in os.environ if name.startswith("CLIFF_")]:
        monkeypatch.delenv(name)
    others(monkeypatch)
    monkeypatch.setattr(doctor.shutil, "which", lambda name: f"{doctor.sys.prefix}/bin/cliff")
    monkeypatch.setattr(doctor, "_authors", lambda: None)


def others(monkeypatch, **checks):
    entries = [SimpleNamespace(name=name, load=lambda check=check: check) for name, check in checks.items()]
    monkeypatch.setattr(doctor.importlib.metadata, "entry_points", lambda group: entries)


def run(*arguments):
    return runner.invoke(cli.app, ["doctor", *arguments])


def found():
    return [(check, finding.level) for check, finding in doctor.examine()]


def test_a_sound_installation_has_no_problem():
    assert found() == [("core", "ok"), ("core", "ok"), ("core", "ok")]


def test_the_authors_package_is_a_problem(monkeypatch):
    monkeypatch.setattr(doctor, "_authors", lambda: "0.1.0")
    assert found()[0] == ("core", "problem")
    _, finding = next(doctor.examine())
    assert "cliffcompaction 0.1.0" in finding.what
    assert "pip uninstall cliffcompaction" in finding.mend


@pytest.mark.parametrize("path", [None, "/somewhere/else/bin/cliff"])
def test_a_script_that_is_not_ours_is_a_warning(monkeypatch, path):
    monkeypatch.setattr(doctor.shutil, "which", lambda name: path)
    assert found()[0] == ("core", "warning")


def test_options_of_the_environment_are_said(monkeypatch):
    monkeypatch.setenv("CLIFF_THRESHOLD_TOKENS", "16000")
    *_, (_, finding) = doctor.examine()
    assert finding == Finding("ok", "options from the environment: threshold_tokens=16000")


def test_an_unknown_option_of_the_environment_is_a_warning(monkeypatch):
    monkeypatch.setenv("CLIFF_TRESHOLD_TOKENS", "16000")
    warning, changed = [finding for _, finding in doctor.examine()][-2:]
    assert warning.level == "warning"
    assert "did you mean CLIFF_THRESHOLD_TOKENS?" in warning.what
    assert changed == Finding("ok", "the environment changes no option")


def test_a_wrong_value_in_the_environment_is_a_problem(monkeypatch):
    monkeypatch.setenv("CLIFF_KEEP_TURNS", "none")
    *_, (_, finding) = doctor.examine()
    assert finding.level == "problem"
    assert finding.what.startswith("CLIFF_KEEP_TURNS: keep_turns must be a whole number")


def test_checks_of_other_packages_follow_in_the_order_of_names(monkeypatch):
    others(monkeypatch, two=lambda: [Finding("ok", "b")], one=lambda: [Finding("warning", "a", "do c")])
    assert list(doctor.examine())[3:] == [
        ("one", Finding("warning", "a", "do c")),
        ("two", Finding("ok", "b")),
    ]


def test_a_check_that_fails_is_a_finding(monkeypatch):
    def broken():
        yield Finding("ok", "so far")
        raise RuntimeError("no")

    others(monkeypatch, broken=broken, other=lambda: [Finding("ok", "fine")])
    assert [finding.level for _, finding in doctor.examine()][3:] == ["ok", "problem", "ok"]


def test_a_check_that_cannot_be_loaded_is_a_finding(monkeypatch):
    def load():
        raise ImportError("gone")

    entry = SimpleNamespace(name="gone", load=load)
    monkeypatch.setattr(doctor.importlib.metadata, "entry_points", lambda group: [entry])
    assert found()[3:] == [("gone", "problem")]


def test_text_and_exit_status(monkeypatch):
    assert run().exit_code == 0
    others(monkeypatch, mine=lambda: [Finding("problem", "It is broken \x1b[31m", "mend it")])
    result = run()
    assert result.exit_code == 1
    assert result.stdout.splitlines()[-2:] == [
        "problem mine: It is broken \N{SYMBOL FOR ESCAPE}[31m",
        "         -> mend it",
    ]


def test_json(monkeypatch):
    others(monkeypatch, mine=lambda: [Finding("warning", "It may break", "mend it")])
    result = run("--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)[-1] == {
        "check": "mine",
        "level": "warning",
        "what": "It may break",
        "mend": "mend it",
    }


@pytest.mark.parametrize("columns", [None, "40"])
def test_no_path_is_broken(monkeypatch, columns):
    """In a pipe, which can be searched, and on a terminal, from which it can be copied."""
    path = "/a/long/path/" + "of-many-folders/" * 8 + "proxy.sqlite"
    others(monkeypatch, mine=lambda: [Finding("warning", f"the store {path} is not used", f"delete {path}")])
    if columns is None:
        monkeypatch.delenv("COLUMNS", raising=False)
    else:
        monkeypatch.setenv("COLUMNS", columns)
    assert run().stdout.splitlines()[-2:] == [
        f"warning mine: the store {path} is not used",
        f"         -> delete {path}",
    ]

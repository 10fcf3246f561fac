"""`cliff doctor` on the proxy: each finding, and what to do about it."""

import json
import os
import socket

import pytest

from cliff_core.doctor import examine
from cliff_proxy import doctor, running
from cliff_proxy.running import Running


def found(level=None):
    return [(f.what, f.mend) for f in doctor.check() if level in (None, f.level)]


@pytest.fixture
def dead():
    """A base URL on this machine where nothing runs."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture(autouse=True)
def no_clients(home, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")


def test_nothing_is_wrong_with_a_new_home(home):
    assert found("problem") == []
    assert found("warning") == []
    assert list(home.folder.rglob("*.*")) == []  # a check changes nothing


def test_it_is_found_by_the_core(home):
    assert "proxy" in {check for check, _ in examine()}


def test_settings_that_are_wrong(home):
    home.config.write_text("prot = 1\n")
    [(what, mend)] = found("problem")
    assert what == f"{home.config}: unknown setting 'prot'; did you mean port?"
    assert mend


def test_places_that_cannot_be_written(home):
    home.config.write_text("store = '/proc/version/store.sqlite'\nrecord = 'records'\n")
    (home.folder / "records").mkdir(mode=0o755)
    assert found("problem")[0][0] == (
        "the store /proc/version/store.sqlite cannot be written: /proc/version is no folder"
    )
    assert "others can read the recorded sessions" in found("warning")[0][0]


@pytest.mark.parametrize("name", ["ANTHROPIC_BASE_URL", "OPENAI_BASE_URL"])
def test_a_base_url_where_nothing_runs(home, monkeypatch, dead, name):
    monkeypatch.setenv(name, dead)
    assert found("problem") == [
        (f"{name} in the environment is {dead}, where nothing runs", "unset it, or start the proxy")
    ]
    monkeypatch.setenv(name, "https://gateway.example/v1")
    assert found("problem") == []


def test_base_urls_in_the_files_of_clients(home, dead):
    (home.folder / "home" / ".claude").mkdir()
    settings = home.folder / "home" / ".claude" / "settings.json"
    settings.write_text(json.dumps({"env": {"ANTHROPIC_BASE_URL": dead}}))
    (home.folder / "home" / ".codex").mkdir()
    config = home.folder / "home" / ".codex" / "config.toml"
    config.write_text(f'openai_base_url = "{dead}/v1"\n[model_providers.mine]\nbase_url = "{dead}"\n')
    assert [what for what, _ in found("problem")] == [
        f"ANTHROPIC_BASE_URL in {settings} is {dead}, where nothing runs",
        f"openai_base_url in {config} is {dead}, where nothing runs",
        f"model_providers.mine.base_url in {config} is {dead}, where nothing runs",
    ]


def test_a_proxy_that_does_not_answer(home, dead):
    with running.announced(Running(dead, os.getpid(), "serve")):
        [(what, mend)] = found("problem")
    assert what == f"the proxy at {dead} (process {os.getpid()}) does not answer"
    assert mend.startswith(f"kill {os.getpid()}")


def test_a_running_proxy_and_its_problems(home, monkeypatch, dead):
    status = {"server": {"requests": 0}, "problems": ["the store is full"]}
    monkeypatch.setattr(running, "ask", lambda *_: status)
    with running.announced(Running(dead, os.getpid(), "serve")):
        assert any("was not reached by any client yet" in what for what, _ in found("ok"))
        assert [what for what, _ in found("warning")] == [
            f"the proxy at {dead} (process {os.getpid()}): the store is full"
        ]


def test_a_service_that_does_not_answer(home, dead):
    home.config.write_text(f"port = {dead.rpartition(':')[2]}\n")
    unit = home.folder / "config" / "systemd" / "user" / "cliff-proxy.service"
    unit.parent.mkdir(parents=True)
    unit.write_text("")
    [(what, mend)] = found("problem")
    assert what == f"the service is installed ({unit}), and does not answer at {dead}"
    assert "cliff service remove" in mend


def test_an_http_proxy_before_loopback(home, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:8080")
    assert found("warning")[0][1] == "export NO_PROXY=127.0.0.1,localhost"
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    assert found("warning") == []


def test_a_variable_that_codex_does_not_read(home, monkeypatch):
    program = home.folder / "bin" / "codex"
    program.parent.mkdir()
    program.write_text("")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    monkeypatch.setenv("OPENAI_BASE_URL", "https://gateway.example/v1")
    assert any(str(program) in what for what, _ in found("ok"))
    assert found("warning")[0][0] == "OPENAI_BASE_URL is set, which Codex does not read"


def test_no_credential_is_shown(home, monkeypatch):
    monkeypatch.setenv("CLIFF_TOKEN", "secret-1")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret-2")
    assert "secret" not in str(found())

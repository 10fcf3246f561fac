"""`cliff doctor` on the proxy: each finding, and what to do about it."""

import json
import os
import socket

import pytest

from cliff_core.doctor import examine
from cliff_proxy import doctor, running
from cliff_proxy.running import Running
from cliff_proxy.store import Store


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
    monkeypatch.setenv("CLIFF_PORT", "0")  # what runs on this machine at the usual one is none of the tests' business


@pytest.fixture
def installed(home, monkeypatch):
    """Makes a client that is on PATH."""

    def install(name):
        program = home.folder / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text("")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(program.parent))
        return program

    return install


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


def test_a_host_without_a_token(home, monkeypatch):
    monkeypatch.setenv("CLIFF_HOST", "0.0.0.0")
    [(what, mend)] = found("problem")
    assert what.startswith("host '0.0.0.0' can be reached from other machines: set a token (CLIFF_TOKEN)")
    assert mend == "until then `cliff serve` does not start (`cliff run` does)"


def test_a_token_that_others_can_read(home):
    home.config.write_text("token = 'secret-1'\n")
    home.config.chmod(0o644)
    assert found("warning") == [(f"others can read the token in {home.config}", f"chmod 600 {home.config}")]
    home.config.chmod(0o600)
    assert found("warning") == []
    home.config.write_text("shadow = true\n")
    home.config.chmod(0o644)
    assert found("warning") == []


def test_an_upstream_that_is_the_proxy_itself(home, monkeypatch, dead):
    monkeypatch.setenv("CLIFF_PORT", dead.rpartition(":")[2])
    monkeypatch.setenv("CLIFF_OPENAI_UPSTREAM", dead)
    [(what, mend)] = found("problem")
    assert what.startswith(f"openai_upstream is the address of this proxy itself ({dead.removeprefix('http://')})")
    assert mend == "correct it: until then `cliff serve` does not start"


def test_a_port_of_another_program(home, monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        monkeypatch.setenv("CLIFF_PORT", str(port))
        assert found("problem") == [
            (
                f"port {port} of 127.0.0.1 is taken by another program",
                "choose another `port`: `cliff serve` does not start (`cliff run` does)",
            )
        ]
    assert found("problem") == []


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        (
            "store = '/proc/version/store.sqlite'",
            "the store /proc/version/store.sqlite cannot be written: /proc/version",
        ),
        ("store = '/proc/version'", "the store /proc/version cannot be written: "),
        (
            "store = '/proc/nope/store.sqlite'",
            "the store /proc/nope/store.sqlite cannot be written: nothing can be made",
        ),
        ("log = '/proc/nope.log'", "the log /proc/nope.log cannot be written: nothing can be made in /proc (No such"),
        ("log = '/proc'", "the log /proc cannot be written: it is a folder"),
        ("record = '/proc/nope'", "nothing can be recorded in /proc/nope: nothing can be made in /proc (No such"),
        ("record = '/proc/version'", "nothing can be recorded in /proc/version: /proc/version is no folder"),
    ],
)
def test_places_that_cannot_be_written(home, setting, says):
    home.config.write_text(setting + "\n")
    [(what, mend)] = found("problem")
    assert what.startswith(says)
    assert mend == f"mend its permissions, or choose another (`{setting.partition(' ')[0]}`)"


def test_the_log_of_a_run(home):
    home.state.write_text("a file, where the folder should be")
    home.config.write_text("store = 'none'\n")
    assert found("problem")[0][0] == f"the log {home.state}/run.log cannot be written: {home.state} is no folder"


def test_recordings_that_others_can_read(home):
    home.config.write_text("record = 'records'\n")
    (home.folder / "records").mkdir(mode=0o755)
    assert "others can read the recorded sessions" in found("warning")[0][0]


@pytest.mark.parametrize("in_use", [False, True])
def test_a_store(home, in_use):
    home.state.mkdir()
    path = home.state / "proxy.sqlite"
    path.touch()
    assert found("problem") == []
    store = Store(path)
    store.set_limit(b"model", 1_000)
    if not in_use:
        store.close()
    before = sorted(home.state.iterdir())
    assert found("problem") == []
    assert sorted(home.state.iterdir()) == before  # nothing is made
    store.close()
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(60)
        file.write((7).to_bytes(4, "big"))  # user_version (sqlite.org/fileformat2.html)
    assert found("problem")[0][0] == f"the store {path} cannot be used: it is of version 7, this one knows 1"
    path.write_bytes(b"no database " * (size // 12))
    [(what, mend)] = found("problem")
    assert what == f"the store {path} cannot be used: file is not a database"
    assert mend.startswith("delete it (with its -wal and -shm files)")


@pytest.mark.parametrize("name", ["ANTHROPIC_BASE_URL", "OPENAI_BASE_URL"])
def test_a_base_url_where_nothing_runs(home, monkeypatch, dead, name):
    monkeypatch.setenv(name, dead)
    assert found("problem") == [
        (f"{name} in the environment is {dead}, where nothing runs", "unset it, or start the proxy")
    ]
    monkeypatch.setenv(name, "https://gateway.example/v1")
    assert found("problem") == []
    monkeypatch.setenv(name, "foo")
    assert found("problem") == [
        (
            f"{name} in the environment must be a base URL such as https://api.example.com (it does not begin with "
            "http:// or https://)",
            "correct it, or unset it",
        )
    ]


def test_a_provider_that_a_run_refuses(home, monkeypatch, installed):
    program = installed("claude")
    assert found("ok")[-1][0] == f"Claude Code is {program}: cliff run -- claude"
    monkeypatch.setenv("CLAUDE_CODE_USE_BEDROCK", "1")
    [(what, _)] = found("problem")
    assert what.startswith(
        f"Claude Code is {program}, which `cliff run` refuses: Claude Code is set to another provider"
    )
    monkeypatch.delenv("CLAUDE_CODE_USE_BEDROCK")
    program = installed("codex")
    (home.folder / "home" / ".codex").mkdir()
    (home.folder / "home" / ".codex" / "config.toml").write_text("model_provider = 'amazon-bedrock'\n")
    [(what, _)] = found("problem")
    assert what.startswith(f"Codex is {program}, which `cliff run` refuses: codex is set to Amazon Bedrock")


@pytest.mark.parametrize("place", ["home/.claude/settings.json", ".claude/settings.local.json"])
def test_a_file_of_claude_that_is_no_json(home, place):
    file = home.folder / place
    file.parent.mkdir(parents=True)
    file.write_text('{"env": {"KEY": "secret-1"')
    [(what, mend)] = found("problem")
    assert what.endswith(f"{place} cannot be read: Expecting ',' delimiter: line 1 column 27 (char 26)")
    assert mend == "correct it: what it sets is not known here"
    assert "secret" not in str(found())


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


def test_a_service_that_does_not_answer(home, monkeypatch, dead):
    monkeypatch.setenv("CLIFF_PORT", dead.rpartition(":")[2])
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


def test_a_variable_that_codex_does_not_read(home, monkeypatch, installed):
    program = installed("codex")
    monkeypatch.setenv("OPENAI_BASE_URL", "https://gateway.example/v1")
    assert any(str(program) in what for what, _ in found("ok"))
    assert found("warning")[0][0] == "OPENAI_BASE_URL is set, which Codex does not read"


def test_no_credential_is_shown(home, monkeypatch):
    monkeypatch.setenv("CLIFF_TOKEN", "secret-1")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret-2")
    assert "secret" not in str(found())

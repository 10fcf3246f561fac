"""What each client is given: settings, upstreams. That they work is shown with the real ones (tests/clients)."""

import json
from pathlib import Path

import pytest

from cliff_proxy.clients import ClaudeCode, Client, ClientError, Codex, OpenCode, Upstreams, client, no_proxy

URL = "http://127.0.0.1:4000"


def given(launch, name="claude"):
    """The `--settings` of a command line."""
    at = launch.argv.index("--settings")
    assert launch.argv[at - 1] == name
    for file in launch.files:
        assert launch.argv[at + 1] == str(file)
        assert file.stat().st_mode & 0o777 == 0o600
        text = file.read_text()
        file.unlink()
        return json.loads(text)
    return json.loads(launch.argv[at + 1])


@pytest.mark.parametrize(
    ("argv", "kind", "place"),
    [
        (["claude", "-p", "x"], ClaudeCode, 0),
        (["/opt/bin/claude"], ClaudeCode, 0),
        (["npx", "-y", "@anthropic-ai/claude-code@2.1.332", "-p"], ClaudeCode, 2),
        (["npx", "codex", "exec"], Codex, 1),
        (["codex"], Codex, 0),
        (["opencode", "run"], OpenCode, 0),
        (["python", "codex"], Client, 0),
    ],
)
def test_clients_are_known_by_name(home, argv, kind, place):
    found = client(argv, home.env)
    assert type(found) is kind
    assert found.place == place


def test_any_command(home):
    found = client(["python", "agent.py"], home.env)
    assert found.upstreams() == Upstreams()
    launch = found.launch(URL)
    assert launch.argv == ["python", "agent.py"]
    assert launch.env == {"ANTHROPIC_BASE_URL": URL, "OPENAI_BASE_URL": f"{URL}/v1"}


def test_base_urls_in_the_environment_become_the_upstreams(home):
    env = home.env | {"ANTHROPIC_BASE_URL": "http://a", "OPENAI_API_BASE": "http://o/v1"}
    found = client(["agent"], env)
    assert found.upstreams() == Upstreams("http://a", "http://o/v1")
    assert found.launch(URL).env == {
        "ANTHROPIC_BASE_URL": URL,
        "OPENAI_BASE_URL": f"{URL}/v1",
        "OPENAI_API_BASE": f"{URL}/v1",
    }


@pytest.mark.parametrize(
    ("argv", "env", "names"),
    [
        (["agent"], {"ANTHROPIC_API_BASE": "a", "OPENAI_API_BASE": "o"}, ("ANTHROPIC_API_BASE", "OPENAI_API_BASE")),
        (["codex"], {"OPENAI_BASE_URL": "o"}, ("", "OPENAI_BASE_URL")),
        (["codex", "-c", "openai_base_url=o"], {"OPENAI_BASE_URL": "x"}, ("", "openai_base_url of Codex")),
        (
            ["claude"],
            {"ANTHROPIC_BASE_URL": "a"},
            ("ANTHROPIC_BASE_URL (environment or settings of Claude Code)", ""),
        ),
        (
            ["opencode"],
            {"OPENCODE_CONFIG_CONTENT": '{"provider": {"openai": {"options": {"baseURL": "o"}}}}'},
            ("", "provider.openai.options.baseURL of opencode"),
        ),
    ],
)
def test_an_upstream_says_where_it_stands(home, argv, env, names):
    found = client(argv, home.env | env).upstreams()
    assert found == Upstreams("a" if names[0] else None, "o" if names[1] else None)
    assert (found.anthropic_in, found.openai_in) == names


def test_a_base_url_without_v1_stays_without(home):
    env = home.env | {"OPENAI_BASE_URL": "https://api.example.com/api/paas/v4"}
    assert client(["agent"], env).launch(URL).env["OPENAI_BASE_URL"] == URL


def test_loopback_goes_around_an_http_proxy():
    assert no_proxy({}) == {}
    assert no_proxy({"https_proxy": "http://p:1"}) == dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost")
    given = {"HTTP_PROXY": "http://p:1", "NO_PROXY": "localhost,corp"}
    assert no_proxy(given)["no_proxy"] == "localhost,corp,127.0.0.1"


# --- Claude Code --------------------------------------------------------------------------------------


def test_claude_gets_settings_and_nothing_else(home):
    launch = client(["claude", "-p", "x"], home.env | {"OPENAI_BASE_URL": "http://o"}).launch(URL)
    assert given(launch) == {"env": {"ANTHROPIC_BASE_URL": URL}}
    assert launch.argv[3:] == ["-p", "x"]
    assert launch.env == {"ANTHROPIC_BASE_URL": URL}


@pytest.mark.parametrize("form", ["text", "file", "equals"])
def test_settings_that_claude_is_given_stay(home, form):
    value = json.dumps({"env": {"ANTHROPIC_BASE_URL": "http://mine", "A": "1"}, "model": "opus"})
    Path("mine.json").write_text(value)
    words = {"text": ["--settings", value], "file": ["--settings", "mine.json"], "equals": [f"--settings={value}"]}
    found = client(["claude", *words[form], "-p", "x"], home.env | {"ANTHROPIC_BASE_URL": "http://environment"})
    assert found.upstreams() == Upstreams(anthropic="http://mine")
    launch = found.launch(URL)
    assert bool(launch.files) == (form == "file")  # which may hold keys: they must not get onto a command line
    assert given(launch) == {"env": {"ANTHROPIC_BASE_URL": URL, "A": "1"}, "model": "opus"}
    assert launch.argv[3:] == ["-p", "x"]


def test_what_follows_two_dashes_is_no_option_of_claude(home):
    found = client(["claude", "-p", "--", "--settings"], home.env)
    assert found.launch(URL).argv[3:] == ["-p", "--", "--settings"]


def test_settings_files_override_the_environment(home):
    env = home.env | {"ANTHROPIC_BASE_URL": "http://environment"}
    assert client(["claude"], env).upstreams().anthropic == "http://environment"
    for folder, name, url in (
        (home.folder / "home" / ".claude", "settings.json", "http://user"),
        (home.folder / ".claude", "settings.json", "http://project"),
        (home.folder / ".claude", "settings.local.json", "http://local"),
    ):
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps({"env": {"ANTHROPIC_BASE_URL": url}}))
        assert client(["claude"], env).upstreams().anthropic == url


@pytest.mark.parametrize("argv", [["--settings", "{"], ["--settings", "gone.json"]])
def test_settings_that_cannot_be_read(home, argv):
    with pytest.raises(ClientError, match="--settings"):
        client(["claude", *argv], home.env).upstreams()


def test_other_providers_are_refused(home):
    with pytest.raises(ClientError, match="CLAUDE_CODE_USE_BEDROCK"):
        client(["claude"], home.env | {"CLAUDE_CODE_USE_BEDROCK": "1"}).upstreams()
    assert client(["claude"], home.env | {"CLAUDE_CODE_USE_BEDROCK": "0"}).upstreams() == Upstreams()


# --- Codex --------------------------------------------------------------------------------------------


@pytest.fixture
def codex(home):
    """Writes Codex's configuration, and gives a client of a command line."""

    def make(*argv, config="", env=None):
        folder = home.folder / "home" / ".codex"
        folder.mkdir(exist_ok=True)
        (folder / "config.toml").write_text(config)
        return client(["/nowhere/codex", *argv], home.env | (env or {}))

    return make


PROVIDER = 'model_provider = "mine"\n[model_providers.mine]\nbase_url = "http://mine/v1"\n'


def test_codex_gets_its_base_url_on_the_command_line(codex):
    found = codex("exec", "hi")
    assert found.upstreams() == Upstreams()
    launch = found.launch(URL)
    assert launch.argv == ["/nowhere/codex", "-c", f'openai_base_url="{URL}/v1"', "exec", "hi"]
    assert launch.env == {}


def test_upstreams_of_codex(codex):
    env = {"OPENAI_BASE_URL": "http://environment/v1"}
    assert codex(env=env).upstreams().openai == "http://environment/v1"
    assert codex(config='openai_base_url = "http://file/v1"', env=env).upstreams().openai == "http://file/v1"
    found = codex(
        "-c", 'openai_base_url="http://flag/v1"', "exec", config='openai_base_url = "http://file/v1"', env=env
    )
    assert found.upstreams().openai == "http://flag/v1"
    assert found.launch(URL).argv == ["/nowhere/codex", "-c", f'openai_base_url="{URL}/v1"', "exec"]


@pytest.mark.parametrize(
    ("argv", "config"),
    [
        ([], PROVIDER),
        (["-c", "model_provider=mine"], PROVIDER.removeprefix('model_provider = "mine"\n')),
        (["exec", '--config=model_provider="mine"'], PROVIDER.removeprefix('model_provider = "mine"\n')),
    ],
)
def test_a_provider_of_the_configuration_stays(codex, argv, config):
    found = codex(*argv, config=config, env={"OPENAI_BASE_URL": "http://environment"})
    assert found.upstreams() == Upstreams(openai="http://mine/v1")
    launch = found.launch(URL)
    assert launch.argv == ["/nowhere/codex", "-c", f'model_providers.mine.base_url="{URL}/v1"', *argv]


def test_a_profile_of_codex(codex, home):
    found = codex("-p", "work", config=PROVIDER)
    (home.folder / "home" / ".codex" / "work.config.toml").write_text('model_provider = "openai"\n')
    assert found.upstreams() == Upstreams()
    assert found.launch(URL).argv[1:3] == ["-c", f'openai_base_url="{URL}/v1"']


def test_codex_without_its_background_server(home):
    program = home.folder / "codex"
    program.write_text("#!/bin/sh\necho '  --no-daemon  Run without the shared background server'\n")
    program.chmod(0o755)
    assert client([str(program)], home.env).launch(URL).argv[3:] == ["--no-daemon"]


@pytest.mark.parametrize(
    ("argv", "config"),
    [(["--oss"], ""), ([], 'model_provider = "ollama"'), ([], 'model_provider = "amazon-bedrock"')],
)
def test_providers_of_codex_that_cannot_be_reached(codex, argv, config):
    with pytest.raises(ClientError, match="run it without cliff"):
        codex(*argv, config=config).upstreams()


# --- opencode -----------------------------------------------------------------------------------------


def test_opencode(home):
    own = {"theme": "dark", "provider": {"openai": {"options": {"baseURL": "http://o/v1", "timeout": 5}}}}
    found = client(["opencode"], home.env | {"OPENCODE_CONFIG_CONTENT": json.dumps(own)})
    assert found.upstreams() == Upstreams(openai="http://o/v1")
    launch = found.launch(URL)
    assert json.loads(launch.env["OPENCODE_CONFIG_CONTENT"]) == {
        "theme": "dark",
        "provider": {
            "openai": {"options": {"baseURL": f"{URL}/v1", "timeout": 5}},
            "anthropic": {"options": {"baseURL": f"{URL}/v1"}},
        },
    }


def test_opencode_with_files_of_its_own(home):
    Path("opencode.json").write_text(
        json.dumps({"provider": {"anthropic": {"options": {"baseURL": "https://a.example/v1"}}}})
    )
    assert client(["opencode"], home.env).upstreams() == Upstreams(anthropic="https://a.example")

"""Settings: defaults, file, variables, flags, each over the one before; what is wrong is named with its place."""

import dataclasses
import re
import warnings
from pathlib import Path

import pytest
import typer

from cliff_core import ConfigError
from cliff_core.commands.options import OPTION_HELP
from cliff_core.config import OPTIONS, OTHER_VARIABLES, CliffConfig
from cliff_proxy.accounts import Sums
from cliff_proxy.commands import run, serve
from cliff_proxy.settings import HELP, NAMES, Settings, base_url, variable

PAGE = Path(__file__).parents[3] / "docs" / "proxy.md"


def write(path, text):
    path.write_text(text)
    return path


def test_defaults(home):
    settings = Settings.load(environ=home.env)
    assert settings.replace(store=None) == Settings()
    assert settings.store == home.state / "proxy.sqlite"
    assert not settings.threshold_given


def test_each_source_overrides_the_one_before(home):
    file = write(home.config, "port = 1001\nthreshold_tokens = 5_000\nkeep_turns = 5\nshadow = true\n")
    env = home.env | {"CLIFF_PORT": "1002", "CLIFF_KEEP_TURNS": "4"}
    settings = Settings.load(file, env, port="1003", shadow=None)
    assert (settings.port, settings.config.keep_turns, settings.shadow) == (1003, 4, True)
    assert settings.config.threshold_tokens == 5_000
    assert settings.threshold_given
    assert settings.given == {"port", "threshold_tokens", "keep_turns", "shadow"}


def test_the_users_own_file_is_read(home):
    write(home.config, "port = 1001\n")
    assert Settings.load(environ=home.env).port == 1001
    other = write(home.folder / "other.toml", "shadow = true\n")
    assert Settings.load(other, home.env).port == Settings().port


def test_a_preset_leaves_what_was_chosen(home):
    settings = Settings.load(environ=home.env | {"CLIFF_PRESET": "paper", "CLIFF_MIN_GAIN": "0.5"})
    assert settings.config == CliffConfig.preset("paper", min_gain=0.5)


def test_tokens_by_model(home):
    file = write(home.config, '[thresholds]\n"gpt-5*" = 64_000\n[windows]\n"my-model" = 131072\n')
    settings = Settings.load(file, home.env)
    assert (settings.thresholds, settings.windows) == ({"gpt-5*": 64_000}, {"my-model": 131072})
    settings = Settings.load(file, home.env | {"CLIFF_THRESHOLDS": "claude-*=1_000, o*=2000"})
    assert settings.thresholds == {"claude-*": 1000, "o*": 2000}
    file = write(home.config, 'threshold_tokens = "auto"\n[thresholds]\n"gpt-5*" = "auto"\n')
    settings = Settings.load(file, home.env)
    assert (settings.config.auto, settings.threshold_given, settings.thresholds) == (True, True, {"gpt-5*": "auto"})
    settings = Settings.load(environ=home.env | {"CLIFF_THRESHOLD_TOKENS": "auto"}, thresholds="claude-*=auto,o*=2000")
    assert (settings.config.auto, settings.thresholds) == (True, {"claude-*": "auto", "o*": 2000})


def test_none_stores_nothing(home):
    assert Settings.load(environ=home.env, store="none").store is None
    assert Settings.load(environ=home.env, record="~/sessions").record == home.folder / "home" / "sessions"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://api.example.com/v1/", "https://api.example.com"),
        ("https://gateway.example/openai/v1", "https://gateway.example/openai"),
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("https://api.example.com/api/paas/v4", "https://api.example.com/api/paas/v4"),
    ],
)
def test_base_urls(url, expected):
    assert base_url(url) == expected


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("foo", "it does not begin with http:// or https://"),
        ("https:///v1", "it names no host"),
        ("https://api.example.com/v1?key=1", "it has a query or a fragment"),
        ("http://127.0.0.1:99999", "Port out of range 0-65535"),
        ("http://[::1", "Invalid IPv6 URL"),
    ],
)
def test_why_a_base_url_is_none(url, why):
    with pytest.raises(ValueError, match="^" + re.escape(f"a base URL such as https://api.example.com ({why})") + "$"):
        base_url(url)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("prot = 1\n", "unknown setting 'prot'; did you mean port?"),
        ("threshold_token = 1\n", "unknown setting 'threshold_token'; did you mean threshold_tokens?"),
        ("threshold = 64_000\n", "unknown setting 'threshold'; did you mean threshold_tokens?"),
        ("zzzzzz = 1\n", "unknown setting 'zzzzzz'; the settings are host, port, "),
        ("port = 70000\n", "port must be a whole number from 0 to 65535, not 70000"),
        ("port = true\n", "port must be a whole number from 0 to 65535, not True"),
        ("shadow = 'maybe'\n", "shadow must be true or false, not 'maybe'"),
        (
            "openai_upstream = 'api.openai.com'\n",
            "openai_upstream must be a base URL such as https://api.example.com "
            "(it does not begin with http:// or https://), not 'api.openai.com'",
        ),
        ("thresholds = 'gpt-5'\n", 'thresholds must be tokens or "auto" by model'),
        ("[thresholds]\n'gpt-5*' = 'automatic'\n", 'thresholds must be tokens or "auto" by model'),
        ("[windows]\n'gpt-5*' = 'auto'\n", "windows must be tokens by model"),
        ("threshold_tokens = 'automatic'\n", """or "auto", not 'automatic'"""),
        ("min_gain = 2\n", "min_gain: min_gain must be a number from 0 to 0.9, not 2"),
        ("port 8642\n", "no TOML: "),
    ],
)
def test_what_is_wrong_in_a_file_is_named(home, text, says):
    file = write(home.config, text)
    with pytest.raises(ConfigError, match=re.escape(f"{file}: ") + ".*" + re.escape(says)):
        Settings.load(file, home.env)


def test_a_file_that_is_not_there(home):
    with pytest.raises(ConfigError, match=r"gone\.toml: cannot be read: No such file"):
        Settings.load(home.folder / "gone.toml", home.env)


def test_a_wrong_variable_and_a_wrong_flag_are_named(home):
    with pytest.raises(ConfigError, match=r"^CLIFF_PORT must be a whole number"):
        Settings.load(environ=home.env | {"CLIFF_PORT": "x"})
    with pytest.raises(ConfigError, match=r"^--memory-bytes must be a whole number of at least 1048576, not '1'"):
        Settings.load(environ=home.env, memory_bytes="1")


def test_a_token_is_never_shown(home):
    settings = Settings.load(environ=home.env | {"CLIFF_TOKEN": "secret-1"})
    assert settings.token == "secret-1"
    assert "secret-1" not in str(settings.as_dict())
    file = write(home.config, "token = 17\n")
    with pytest.raises(ConfigError, match=r"token must be a text$"):
        Settings.load(file, home.env)


def test_unknown_variables_warn(home):
    with pytest.warns(
        UserWarning, match=r"CLIFF_PROT is no setting of cliff and is ignored; did you mean CLIFF_PORT\?"
    ):
        Settings.load(environ=home.env | {"CLIFF_PROT": "1"})
    with pytest.warns(UserWarning, match=r"ignored; did you mean CLIFF_THRESHOLD_TOKENS\?"):
        Settings.load(environ=home.env | {"CLIFF_THRESHOLD": "64000"})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Settings.load(environ=home.env | {"CLIFF_TRACES": "x", "CLIFF_PORT": ""})


def test_the_core_knows_our_variables():
    assert {variable(name) for name in NAMES} <= OTHER_VARIABLES


def test_every_setting_can_be_given():
    assert set(NAMES) == {f.name for f in dataclasses.fields(Settings)} - {"config", "threshold_given", "given"}
    assert set(HELP) == set(NAMES) - {"token"}
    assert not set(NAMES) & set(OPTIONS)


@pytest.mark.parametrize(("app", "without"), [(run.app, {"host", "port"}), (serve.app, set())])
def test_every_setting_has_a_flag(app, without):
    flags = {param.name for param in typer.main.get_command(app).params}
    assert set(HELP) - without | set(OPTIONS) <= flags
    assert not without & flags


def test_the_help_says_what_a_flag_takes():
    shown = {param.name: param.metavar for param in typer.main.get_command(serve.app).params}
    assert (shown["port"], shown["memory_bytes"], shown["openai_upstream"]) == ("NUMBER", "BYTES", "URL")
    assert [name for name in HELP if name != "shadow" and not shown[name]] == []


def section(name):
    """A section of `docs/proxy.md`."""
    return PAGE.read_text().partition(f"\n## {name}\n")[2].partition("\n## ")[0]


def test_the_page_has_every_sum_of_the_status():
    cells = re.findall(r"^\| (`.+?) \|", section("What was saved"), re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", " ".join(cells))) == set(Sums().as_dict(priced=True))


def test_the_page_has_every_setting():
    """`docs/proxy.md`: a row for each, with its default."""
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+?) \|", section("Settings"), re.MULTILINE))
    shown = {
        "thresholds": "none",
        "windows": "none",
        "token": "none",
        "record": "none",
        "store": "`~/.local/state/cliff/proxy.sqlite`",
        "log": "standard error",
        "threshold_tokens": "by model",
        "cache_price_ratio": "of the model",
    }
    defaults = {name: getattr(Settings(), name) for name in NAMES} | CliffConfig().as_dict()
    for name, default in defaults.items():
        text = str(default).lower() if isinstance(default, bool) else str(default)
        assert rows.get(name) == shown.get(name, f"`{text}`"), name
    assert set(rows) == set(NAMES) | set(OPTION_HELP)

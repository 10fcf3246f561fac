"""The proxy's settings: defaults, TOML file, `CLIFF_*` variables, flags, each over the one before.

One name per setting everywhere: `port` in the file, `CLIFF_PORT`, `--port`. The options of a compaction
(`cliff_core.config`) stand beside them, in the same file and under the same rules.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
import tomllib
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from cliff_core import CliffConfig, ConfigError
from cliff_core.config import ENV_PREFIX, OPTIONS, OTHER_VARIABLES, Threshold, read_threshold
from cliff_proxy import places

OPENAI = "https://api.openai.com"

UPSTREAMS = ("anthropic_upstream", "openai_upstream", "chatgpt_upstream")
"""Settings that are base URLs."""

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Settings:
    """All that a running proxy is told.

    `Settings()` is for tests and embedding: it stores and logs nothing to files. `load` is what the commands use."""

    host: str = "127.0.0.1"
    """Address to listen on. Another than loopback needs a token."""
    port: int = 8642
    """0: a free one."""
    anthropic_upstream: str = "https://api.anthropic.com"
    """Base URL without `/v1`; it may have a path of its own."""
    openai_upstream: str = OPENAI
    """Base URL without `/v1`; it may have a path of its own."""
    chatgpt_upstream: str = "https://chatgpt.com/backend-api/codex"
    """Where requests to OpenAI's paths go that carry the header `chatgpt-account-id` (Codex with a ChatGPT login, whose
    requests api.openai.com would refuse), with a leading `/v1` of the path taken away. Only while `openai_upstream` is
    the default: a gateway gets everything."""
    config: CliffConfig = field(default_factory=CliffConfig)
    """The options of a compaction."""
    threshold_given: bool = False
    """Whether a person chose `threshold_tokens`; else it is min(128 000, 0.6 x window) of each model."""
    thresholds: dict[str, Threshold] = field(default_factory=dict)
    """Model (a glob) -> threshold in tokens or `auto`, over `threshold_tokens`."""
    windows: dict[str, int] = field(default_factory=dict)
    """Model (a glob) -> context window in tokens, over the built-in table."""
    shadow: bool = False
    """Only observe: every request is sent as it came, and the log says what would have been done."""
    token: str | None = None
    """Demanded in `x-cliff-token` when bound to another address than loopback. Never logged; no flag, as other users
    see command lines."""
    record: Path | None = None
    """Folder in which sessions are recorded for `cliff replay` and `cliff show`; None: nothing is recorded."""
    store: Path | None = None
    """SQLite file with what a restart must know; None: nothing is stored."""
    memory_bytes: int = 256 * 2**20
    """Upper bound for what is kept of sessions in memory."""
    log: Path | None = None
    """File that the log goes to; None: standard error."""
    given: frozenset[str] = frozenset()
    """Names of the settings that a person chose."""

    @classmethod
    def load(
        cls,
        file: Path | None = None,
        environ: Mapping[str, str] | None = None,
        **flags: Any,
    ) -> Settings:
        """The settings of a TOML file, of `CLIFF_*` variables and of flags, each over the one before.

        Without `file` the user's own is read, where there is one (`places.config_file`). A flag that is None was not
        given. Unknown names in the file and values that cannot be used raise `ConfigError`; an unknown variable
        warns."""
        environ = os.environ if environ is None else environ
        default = places.config_file(environ)
        if file is None and default.is_file():
            file = default
        given: dict[str, Any] = {}
        chosen: dict[str, Any] = {}
        for where, values in (
            (f"{file}: ", _file(file) if file is not None else {}),
            ("", _variables(environ)),
            ("--", {name: value for name, value in flags.items() if value is not None}),
        ):
            for name, value in values.items():
                if name in OPTIONS:
                    _one(chosen, where, name, value)
                elif name in NAMES:
                    given[name] = _read(where, name, value)
                else:
                    raise ConfigError(f"{where}unknown setting {name!r}{_nearest(name)}")
        # One by one above, so that a wrong value names its place; together here, as a preset changes the others.
        config = CliffConfig.from_env({}, chosen)
        return cls(
            config=config,
            threshold_given="threshold_tokens" in chosen,
            given=frozenset(given | chosen),
            **{"store": places.store(environ)} | given,
        )

    def as_dict(self) -> dict[str, Any]:
        """All of them by name, ready for JSON, the options of the compaction among them; of a token only that it is
        set."""
        found: dict[str, Any] = {}
        for name in NAMES:
            value = getattr(self, name)
            found[name] = str(value) if isinstance(value, Path) else value
        found["token"] = "set" if self.token else None
        return found | self.config.as_dict()

    def replace(self, **changes: Any) -> Settings:
        """The same with some changed."""
        return dataclasses.replace(self, **changes)


def base_url(value: str) -> str:
    """A base URL without `/v1` and slashes at its end. Raises ValueError where it is none: what it must be, and why it
    is not."""
    try:
        parts = urlsplit(value.strip())
        _ = parts.port
    except ValueError as error:
        raise _no_base_url(str(error)) from None
    if parts.scheme not in ("http", "https"):
        raise _no_base_url("it does not begin with http:// or https://")
    if not parts.hostname:
        raise _no_base_url("it names no host")
    if parts.query or parts.fragment:
        raise _no_base_url("it has a query or a fragment")
    return parts.geturl().rstrip("/").removesuffix("/v1").rstrip("/")


def _no_base_url(why: str) -> ValueError:
    return ValueError(f"a base URL such as https://api.example.com ({why})")


# --- Reading values: each takes what TOML gives, or text (a variable, a flag) ------------------------


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("a text")
    return value.strip()


def _url(value: Any) -> str:
    return base_url(_text(value))


def _bool(value: Any) -> bool:
    words = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
    if isinstance(value, str) and value.strip().lower() in words:
        return words[value.strip().lower()]
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value


def _whole(least: int, most: int | None = None) -> Callable[[Any], int]:
    says = f"a whole number from {least} to {most}" if most is not None else f"a whole number of at least {least}"

    def read(value: Any) -> int:
        try:
            number = int(value.strip().replace("_", "")) if isinstance(value, str) else value
        except ValueError:
            raise ValueError(says) from None
        if isinstance(number, bool) or not isinstance(number, int) or number < least or (most and number > most):
            raise ValueError(says)
        return number

    return read


def _by_model(read: Callable[[Any], Value], what: str, example: str) -> Callable[[Any], dict[str, Value]]:
    """A table, or text: GLOB=VALUE, several with commas."""
    says = f"{what} by model: a table in the file, `{example}` elsewhere"

    def read_all(value: Any) -> dict[str, Value]:
        if isinstance(value, str):
            pairs = [pair.rpartition("=") for pair in value.split(",") if pair.strip()]
            value = {model.strip(): tokens for model, _, tokens in pairs}
        if not isinstance(value, Mapping) or not all(value):
            raise ValueError(says)
        try:
            return {str(model): read(tokens) for model, tokens in value.items()}
        except ValueError:
            raise ValueError(says) from None

    return read_all


def _path(value: Any) -> Path | None:
    if isinstance(value, Path):
        return value.expanduser()
    text = _text(value)
    return None if text == "none" else Path(text).expanduser().absolute()


READERS: dict[str, Callable[[Any], Any]] = {
    "host": _text,
    "port": _whole(0, 65535),
    **dict.fromkeys(UPSTREAMS, _url),
    "thresholds": _by_model(read_threshold, 'tokens or "auto"', "gpt-5*=64000,claude-haiku-*=auto"),
    "windows": _by_model(_whole(1), "tokens", "gpt-5*=400000,claude-haiku-*=200000"),
    "shadow": _bool,
    "token": _text,
    "record": _path,
    "store": _path,
    "memory_bytes": _whole(2**20),
    "log": _path,
}
"""How a setting is read. A field of `Settings` without one can be set in Python only."""

NAMES = tuple(READERS)

HELP = {
    "host": "Address to listen on; another than loopback needs a token (CLIFF_TOKEN).",
    "port": "Port to listen on; 0: a free one.",
    "anthropic_upstream": "Base URL of the Anthropic API, without /v1.",
    "openai_upstream": "Base URL of the OpenAI APIs, without /v1.",
    "chatgpt_upstream": "Base URL for Codex with a ChatGPT login.",
    "thresholds": "Threshold by model: GLOB=TOKENS or GLOB=auto, several with commas.",
    "windows": "Context window by model: GLOB=TOKENS, several with commas.",
    "shadow": "Only observe: every request is sent as it came.",
    "record": "Record sessions in this folder, for `cliff replay` and `cliff show`.",
    "store": "SQLite file with what a restart must know; `none`: nothing is stored.",
    "memory_bytes": "Upper bound for what is kept of sessions in memory.",
    "log": "File that the log goes to.",
}
"""Help of the flags; a setting without one has no flag."""


def variable(name: str) -> str:
    """The environment variable of a setting."""
    return ENV_PREFIX + name.upper()


def _file(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: no TOML: {error}") from None


def _variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The settings of `CLIFF_*` variables; an empty one is as if it were not set."""
    found = {}
    for name in sorted(environ):
        if not name.startswith(ENV_PREFIX):
            continue
        setting = name.removeprefix(ENV_PREFIX).lower()
        if setting in NAMES or setting in OPTIONS:
            if environ[name].strip():
                found[setting] = environ[name]
        elif name not in OTHER_VARIABLES:
            warnings.warn(f"{name} is no setting of cliff and is ignored{_nearest(setting, ENV_PREFIX)}", stacklevel=3)
    return found


def _one(chosen: dict[str, Any], where: str, name: str, value: Any) -> None:
    """An option of the compaction, checked alone."""
    try:
        CliffConfig.from_env({}, {name: value})
    except ConfigError as error:
        raise ConfigError(f"{_place(where, name)}: {error}") from None
    chosen[name] = value


def _read(where: str, name: str, value: Any) -> Any:
    try:
        return READERS[name](value)
    except ValueError as error:
        shown = "" if name == "token" else f", not {value!r}"
        raise ConfigError(f"{_place(where, name)} must be {error}{shown}") from None


def _place(where: str, name: str) -> str:
    """The name of a setting as it is written there."""
    if not where:
        return variable(name)
    return where + (name.replace("_", "-") if where == "--" else name)


def _nearest(name: str, prefix: str = "") -> str:
    known = [*NAMES, *OPTIONS]
    whole = f"{name.lower()}_tokens"  # the flag is `--threshold` for short, and `thresholds` is nearer to that
    near = [whole] if whole in OPTIONS else difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    shown = [prefix + (n.upper() if prefix else n) for n in near or known]
    return f"; did you mean {shown[0]}?" if near else "; the settings are " + ", ".join(shown)

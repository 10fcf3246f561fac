"""How each client is told where the proxy is: variables for any command, settings where a client reads those first.

A client is asked for its upstreams (where it would send its requests without us), then for the command line and the
variables that send them through the proxy. Only what that client reads is set: the programs that an agent runs inherit
the variables, too. What is said here of Claude Code, Codex and opencode was found by running them (facts/proxy.md,
section 3; `make test-clients`).
"""

from __future__ import annotations

import json
import os
import re
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


class ClientError(Exception):
    """The client cannot be sent through the proxy; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class Upstreams:
    """Where a client would send its requests. None: the API's own address."""

    anthropic: str | None = None
    openai: str | None = None
    anthropic_in: str = field(default="", compare=False)
    """The variable or setting that says so, for people."""
    openai_in: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Launch:
    """What is to be run."""

    argv: list[str]
    env: dict[str, str] = field(default_factory=dict)
    """Variables to set beside those that there are."""
    files: list[Path] = field(default_factory=list)
    """To be removed when it has ended."""


class Client:
    """Any command: the variables that the usual SDKs and agents read."""

    ANTHROPIC = ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE")
    OPENAI = ("OPENAI_BASE_URL", "OPENAI_API_BASE")
    """The first one is always set, the other where it was: it would win over the first, as in litellm."""

    def __init__(self, argv: Sequence[str], environ: Mapping[str, str], place: int = 0) -> None:
        self.argv = list(argv)
        self.environ = environ
        self.place = place
        """Where in `argv` the client's own name is (`npx codex`)."""

    @property
    def arguments(self) -> list[str]:
        """Those of the client itself."""
        return self.argv[self.place + 1 :]

    def upstreams(self) -> Upstreams:
        """Raises `ClientError` where requests would not come through a proxy."""
        (anthropic, anthropic_in), (openai, openai_in) = self._given(self.ANTHROPIC), self._given(self.OPENAI)
        return Upstreams(anthropic, openai, anthropic_in, openai_in)

    def launch(self, url: str) -> Launch:
        """What to run when the proxy is at `url`."""
        env = self._pointed(self.ANTHROPIC, url) | self._pointed(self.OPENAI, openai_url(url, self.upstreams().openai))
        return Launch(self.argv, env | no_proxy(self.environ))

    def _given(self, names: Sequence[str]) -> tuple[str | None, str]:
        """The value of the first of these variables that has one, and its name."""
        return next(((value, name) for name in names if (value := self.environ.get(name, "").strip())), (None, ""))

    def _pointed(self, names: Sequence[str], url: str) -> dict[str, str]:
        return {names[0]: url} | {name: url for name in names if self.environ.get(name, "").strip()}

    def _with(self, *options: str, arguments: Sequence[str] | None = None) -> list[str]:
        """The command line with options right after the client's name."""
        rest = self.arguments if arguments is None else arguments
        return [*self.argv[: self.place + 1], *options, *rest]


class ClaudeCode(Client):
    """`env` of its settings files overrides the environment, `--settings` overrides the files, and of two `--settings`
    only the last counts."""

    OTHER_PROVIDERS = ("BEDROCK", "VERTEX", "FOUNDRY", "MANTLE", "ANTHROPIC_AWS", "ANTHROPIC_GOOGLE_CLOUD", "GATEWAY")

    def upstreams(self) -> Upstreams:
        env = self._env()
        for provider in self.OTHER_PROVIDERS:
            name = f"CLAUDE_CODE_USE_{provider}"
            if str(env.get(name, "")).strip().lower() not in ("", "0", "false", "no", "off"):
                raise ClientError(
                    f"Claude Code is set to another provider ({name}), whose requests cannot go through this proxy: "
                    "unset it, or run claude without cliff"
                )
        if self._managed().get("ANTHROPIC_BASE_URL"):
            raise ClientError(
                "the base URL of Claude Code is set by your organization's managed settings, which nothing overrides: "
                "run claude without cliff"
            )
        url = str(env.get("ANTHROPIC_BASE_URL") or "").strip() or None
        return Upstreams(anthropic=url, anthropic_in="ANTHROPIC_BASE_URL (environment or settings of Claude Code)")

    def launch(self, url: str) -> Launch:
        given, arguments, from_file = self._settings()
        value = {"ANTHROPIC_BASE_URL": url}
        merged = json.dumps(given | {"env": _mapping(given.get("env")) | value})
        files = []
        if from_file:  # it may hold keys, and others see command lines
            handle, name = tempfile.mkstemp(prefix="cliff-", suffix=".json")
            with open(handle, "w") as file:
                file.write(merged)
            merged, files = name, [Path(name)]
        argv = self._with("--settings", merged, arguments=arguments)
        return Launch(argv, value | no_proxy(self.environ), files)

    def _env(self) -> dict[str, Any]:
        """The variables as Claude Code sees them."""
        found: dict[str, Any] = dict(self.environ)
        for file in self.files(self.environ):
            found |= _mapping(_json_file(file).get("env"))
        return found | _mapping(self._settings()[0].get("env")) | self._managed()

    @staticmethod
    def files(environ: Mapping[str, str]) -> tuple[Path, ...]:
        """Its settings files, each over the one before: the user's, the project's, the user's for the project."""
        home = Path(environ.get("HOME") or Path.home())
        user = Path(environ.get("CLAUDE_CONFIG_DIR") or home / ".claude")
        return user / "settings.json", Path(".claude/settings.json"), Path(".claude/settings.local.json")

    def _managed(self) -> dict[str, Any]:
        folders = (Path("/etc/claude-code"), Path("/Library/Application Support/ClaudeCode"))
        return {k: v for f in folders for k, v in _mapping(_json_file(f / "managed-settings.json").get("env")).items()}

    def _settings(self) -> tuple[dict[str, Any], list[str], bool]:
        """What `--settings` gives, the arguments without it, and whether it names a file (else it is JSON)."""
        values, rest = _taken(self.arguments, ("--settings",))
        if not values:
            return {}, rest, False
        text = values[-1]
        from_file = not text.lstrip().startswith("{")
        if from_file:
            try:
                text = Path(text).expanduser().read_text()
            except OSError as error:
                raise ClientError(f"--settings {text}: cannot be read: {error.strerror or error}") from None
        try:
            return _mapping(json.loads(text)), rest, from_file
        except ValueError as error:
            raise ClientError(f"--settings of claude is no JSON: {error}") from None


class Codex(Client):
    """It reads no variable for its base URL, but configuration on its command line (`-c KEY=VALUE`).

    The provider stays the one that the user has, so that logins, headers and earlier sessions stay, too."""

    def upstreams(self) -> Upstreams:
        key = self._key()
        given = dict(self._overrides()[0]).get(key)
        if given is None:
            found: Any = self._config()
            for part in key.split("."):
                found = _mapping(found).get(part)
            given = found if isinstance(found, str) and found.strip() else None
        where = f"{key} of Codex"
        if given is None and key == "openai_base_url":
            given, where = self._given(self.OPENAI)
        return Upstreams(openai=given, openai_in=where)

    def launch(self, url: str) -> Launch:
        key = self._key()
        address = openai_url(url, self.upstreams().openai)
        options = ["-c", f"{key}={json.dumps(address)}"]
        if self._has_daemon():
            options.append("--no-daemon")
        kept = [word for name, word in self._overrides()[1] if name != key]
        return Launch(self._with(*options, arguments=kept), no_proxy(self.environ))

    def _key(self) -> str:
        """The configuration key of the base URL of the provider that is in use."""
        overrides = dict(self._overrides()[0])
        provider = overrides.get("model_provider") or self._config().get("model_provider") or "openai"
        if "--oss" in self.arguments or provider in ("ollama", "lmstudio"):
            raise ClientError(
                "codex with a local provider (--oss) does not go through this proxy: run it without cliff, or add the "
                "local server to model_providers in its config.toml"
            )
        if provider == "amazon-bedrock":
            raise ClientError(
                "codex is set to Amazon Bedrock, whose signed requests cannot go through a proxy: run it without cliff"
            )
        return "openai_base_url" if provider == "openai" else f"model_providers.{provider}.base_url"

    def _config(self) -> dict[str, Any]:
        """`config.toml`, and that of a profile over it. (A project's own configuration cannot name a provider.)"""
        home = Path(self.environ.get("HOME") or Path.home())
        folder = Path(self.environ.get("CODEX_HOME") or home / ".codex")
        found = _toml_file(folder / "config.toml")
        profiles, _ = _taken(self.arguments, ("-p", "--profile"))
        for profile in profiles[-1:]:
            found = found | _toml_file(folder / f"{profile}.config.toml")
        return found

    def _overrides(self) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
        """The `-c KEY=VALUE` of the command line; and its words, each with the key that it belongs to."""
        pairs: list[tuple[str, str]] = []
        words: list[tuple[str, str]] = []
        arguments = iter(self.arguments)
        for word in arguments:
            if word == "--":
                words += [("", word), *(("", rest) for rest in arguments)]
                break
            option, value = _option(word, ("-c", "--config"))
            if option is None:
                words.append(("", word))
                continue
            parts = [word]
            if value is None:
                value = next(arguments, "")
                parts.append(value)
            name, _, text = value.partition("=")
            pairs.append((name.strip(), _toml_text(text.strip())))
            words += [(name.strip(), part) for part in parts]
        return pairs, words

    def _has_daemon(self) -> bool:
        """Whether this release may hand its work to a server in the background, which would not know the proxy."""
        import subprocess

        try:
            command = [*self.argv[: self.place + 1], "--help"]
            text = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False).stdout
        except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
            return False
        return "--no-daemon" in text


class OpenCode(Client):
    """Its providers have base URLs of their own; configuration by variable is laid over its files."""

    VARIABLE = "OPENCODE_CONFIG_CONTENT"

    def upstreams(self) -> Upstreams:
        anthropic, anthropic_in = self._base("anthropic") or self._given(self.ANTHROPIC)
        openai, openai_in = self._base("openai") or self._given(self.OPENAI)
        return Upstreams(anthropic and anthropic.rstrip("/").removesuffix("/v1"), openai, anthropic_in, openai_in)

    def _base(self, name: str) -> tuple[str, str] | None:
        """A provider's base URL of its own, and where it is; None where it has none."""
        url = _mapping(self._provider(name).get("options")).get("baseURL")
        return (str(url), f"provider.{name}.options.baseURL of opencode") if url else None

    def launch(self, url: str) -> Launch:
        found = self._content()
        providers = dict(_mapping(found.get("provider")))
        for name in ("anthropic", "openai"):
            own = _mapping(providers.get(name))
            base = f"{url}/v1" if name == "anthropic" else openai_url(url, self.upstreams().openai)
            providers[name] = own | {"options": _mapping(own.get("options")) | {"baseURL": base}}
        return Launch(self.argv, {self.VARIABLE: json.dumps(found | {"provider": providers})} | no_proxy(self.environ))

    def _content(self) -> dict[str, Any]:
        try:
            return _mapping(json.loads(self.environ.get(self.VARIABLE) or "{}"))
        except ValueError as error:
            raise ClientError(f"{self.VARIABLE} is no JSON: {error}") from None

    def _provider(self, name: str) -> dict[str, Any]:
        home = Path(self.environ.get("HOME") or Path.home())
        folder = Path(self.environ.get("XDG_CONFIG_HOME") or home / ".config") / "opencode"
        found: dict[str, Any] = {}
        for config in (_json_file(folder / "opencode.json"), _json_file(Path("opencode.json")), self._content()):
            found |= _mapping(_mapping(config.get("provider")).get(name))
        return found


KNOWN: dict[str, type[Client]] = {"claude": ClaudeCode, "codex": Codex, "opencode": OpenCode}
PACKAGES = {"@anthropic-ai/claude-code": "claude", "@openai/codex": "codex", "opencode-ai": "opencode"}
RUNNERS = ("npx", "bunx", "pnpx")
"""They run a package of npm by its name."""


def client(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> Client:
    """The client of a command line."""
    for place, word in enumerate(argv if Path(argv[0]).name in RUNNERS else argv[:1]):
        name = re.sub(r"(?<=.)@[^/@]*$", "", word)  # npx NAME@VERSION
        name = PACKAGES.get(name) or Path(name).name.removesuffix(".exe")
        if name in KNOWN:
            return KNOWN[name](argv, environ, place)
    return Client(argv, environ)


def openai_url(url: str, upstream: str | None) -> str:
    """The base URL for OpenAI's APIs: with `/v1`, as the clients want it, unless the upstream's has none."""
    return f"{url}/v1" if upstream is None or upstream.rstrip("/").endswith("/v1") else url


def no_proxy(environ: Mapping[str, str]) -> dict[str, str]:
    """Where an HTTP proxy is set, loopback must not go through it."""
    lower = {name.lower(): value for name, value in environ.items() if value.strip()}
    if not {"http_proxy", "https_proxy", "all_proxy"} & lower.keys():
        return {}
    hosts = [host for host in lower.get("no_proxy", "").split(",") if host.strip()]
    value = ",".join([*hosts, *(host for host in ("127.0.0.1", "localhost") if host not in hosts)])
    return {"NO_PROXY": value, "no_proxy": value}


def _taken(arguments: Sequence[str], names: Sequence[str]) -> tuple[list[str], list[str]]:
    """The values of an option, and the arguments without it. What follows `--` is no option."""
    values, rest = [], []
    words = iter(arguments)
    for word in words:
        option, value = _option(word, names)
        if option is None:
            rest.append(word)
            if word == "--":
                rest += words
            continue
        values.append(next(words, "") if value is None else value)
    return values, rest


def _option(word: str, names: Sequence[str]) -> tuple[str | None, str | None]:
    """The option that a word is, with its value where that is in the same word."""
    if word in names:
        return word, None
    for name in names:
        if name.startswith("--") and word.startswith(name + "="):
            return name, word[len(name) + 1 :]
        if not name.startswith("--") and word.startswith(name) and not word.startswith("--"):
            return name, word[len(name) :].removeprefix("=")
    return None, None


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _json_file(path: Path) -> dict[str, Any]:
    """A client's own file; what cannot be read is the client's business."""
    try:
        return _mapping(json.loads(path.read_text()))
    except (OSError, ValueError):
        return {}


def _toml_file(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except (OSError, ValueError):
        return {}


def _toml_text(text: str) -> str:
    """A value of `-c`: TOML, else the text itself, as Codex reads it."""
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
    return value if isinstance(value, str) else text

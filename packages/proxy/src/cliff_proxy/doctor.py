"""What `cliff doctor` looks at of the proxy: its settings, its places, the running proxies, the clients.

Nothing is asked but proxies on this machine, and no credential is shown."""

from __future__ import annotations

import json
import os
import shutil
import stat
import tomllib
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cliff_core import ConfigError
from cliff_core.doctor import Finding
from cliff_proxy import access, places, running
from cliff_proxy.clients import no_proxy
from cliff_proxy.service import Launchd, Systemd
from cliff_proxy.settings import Settings


def check() -> Iterator[Finding]:
    """All findings on the proxy."""
    settings, findings = _settings()
    yield from findings
    yield from _places(settings)
    found = list(running.found())
    yield from _running(settings, found)
    yield from _service(settings)
    yield from _variables(os.environ)
    yield from _claude()
    yield from _codex()


def _settings() -> tuple[Settings, list[Finding]]:
    file = places.config_file()
    where = str(file) if file.is_file() else f"none (there is no {file})"
    with warnings.catch_warnings(record=True):  # the core's own check names variables that are none
        warnings.simplefilter("always")
        try:
            settings = Settings.load()
            access.check(settings)
        except (ConfigError, ValueError) as error:
            return Settings(), [Finding("problem", str(error), "correct it: until then no proxy starts")]
    said = ", ".join(sorted(settings.given)) or "none"
    return settings, [Finding("ok", f"settings file: {where}; settings that differ from the defaults: {said}")]


def _places(settings: Settings) -> Iterator[Finding]:
    for what, path in (("the store", settings.store), ("the log", settings.log)):
        if path is not None and (problem := _unwritable(path)):
            yield Finding("problem", f"{what} {path} cannot be written: {problem}", "mend its permissions, or move it")
    folder = settings.record
    if folder is not None and folder.is_dir() and stat.S_IMODE(folder.stat().st_mode) & 0o077:
        yield Finding(
            "warning", f"others can read the recorded sessions in {folder}", f"chmod 700 {folder} (and its files)"
        )


def _unwritable(path: Path) -> str:
    """Why a file cannot be written there; nothing is made."""
    near = path
    while not near.exists() and near != near.parent:
        near = near.parent
    if near == path and path.is_dir():
        return "it is a folder"
    if near != path and not near.is_dir():
        return f"{near} is no folder"
    return "" if os.access(near, os.W_OK) else f"no permission for {near}"


def _running(settings: Settings, found: list[running.Running]) -> Iterator[Finding]:
    for proxy in found:
        try:
            status = running.ask(proxy.url, "status", settings.token)
        except PermissionError as error:
            yield Finding("warning", str(error))
            continue
        name = f"the proxy at {proxy.url} (process {proxy.pid})"
        if status is None:
            yield Finding("problem", f"{name} does not answer", f"kill {proxy.pid}, and start it again")
            continue
        requests = status.get("server", {}).get("requests", 0)
        reached = f"was reached by {requests} requests" if requests else "was not reached by any client yet"
        yield Finding("ok", f"{name} answers, and {reached}")
        for problem in status.get("problems", []):
            yield Finding("warning", f"{name}: {problem}")


def _service(settings: Settings) -> Iterator[Finding]:
    for under in (Systemd(), Launchd()):
        if not under.file.is_file():
            continue
        url = f"http://127.0.0.1:{settings.port}"
        if running.is_ours(url):
            yield Finding("ok", f"the service is installed ({under.file}), and answers at {url}")
        else:
            yield Finding(
                "problem",
                f"the service is installed ({under.file}), and does not answer at {url}",
                f"{under.logs}; cliff service install starts it anew, cliff service remove takes it away",
            )


def _variables(environ: Mapping[str, str]) -> Iterator[Finding]:
    for name in ("ANTHROPIC_BASE_URL", "OPENAI_BASE_URL", "OPENAI_API_BASE", "ANTHROPIC_API_BASE"):
        yield from _base_url(f"{name} in the environment", environ.get(name, ""), "unset it, or start the proxy")
    added = no_proxy(environ)
    if added and added["no_proxy"] != environ.get("no_proxy", environ.get("NO_PROXY", "")):
        yield Finding(
            "warning",
            "an HTTP proxy is set, and clients of `cliff serve` would look for it behind that (`cliff run` sees to it)",
            f"export NO_PROXY={added['NO_PROXY']}",
        )


def _base_url(where: str, url: str, mend: str) -> Iterator[Finding]:
    """A base URL on this machine where nothing answers: clients fail that have it."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        yield Finding("problem", f"{where} is no URL", mend)
        return
    if not url or not access.is_loopback(host) or port is None:
        return
    at = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    if _leads_to_us(url):
        yield Finding("ok", f"{where} leads to a running cliff proxy")
    elif not _listens(host, port):
        yield Finding("problem", f"{where} is {at}, where nothing runs", mend)


def _leads_to_us(url: str) -> bool:
    parts = urlsplit(url)
    return access.is_loopback(parts.hostname or "") and running.is_ours(f"{parts.scheme}://{parts.netloc}")


def _listens(host: str, port: int) -> bool:
    import socket

    try:
        with socket.create_connection((host, port), 1.0):
            return True
    except OSError:
        return False


def _claude() -> Iterator[Finding]:
    if found := shutil.which("claude"):
        yield Finding("ok", f"Claude Code is {found}: cliff run -- claude")
    folder = Path(os.environ.get("CLAUDE_CONFIG_DIR") or Path.home() / ".claude")
    for file in (folder / "settings.json", Path(".claude/settings.json"), Path(".claude/settings.local.json")):
        env = _json(file).get("env")
        url = env.get("ANTHROPIC_BASE_URL") if isinstance(env, dict) else None
        yield from _base_url(
            f"ANTHROPIC_BASE_URL in {file}", str(url or ""), "take it out there: it overrides the environment"
        )


def _codex() -> Iterator[Finding]:
    found = shutil.which("codex")
    if found:
        yield Finding("ok", f"Codex is {found}: cliff run -- codex")
    file = Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex") / "config.toml"
    try:
        config = tomllib.loads(file.read_text())
    except FileNotFoundError:
        config = {}
    except (OSError, ValueError) as error:
        yield Finding("problem", f"{file} cannot be read: {error}", "correct it: Codex cannot read it either")
        return
    providers = config.get("model_providers")
    named = providers if isinstance(providers, dict) else {}
    urls = {"openai_base_url": config.get("openai_base_url")}
    urls |= {f"model_providers.{k}.base_url": v.get("base_url") for k, v in named.items() if isinstance(v, dict)}
    for key, url in urls.items():
        yield from _base_url(f"{key} in {file}", str(url or ""), "take it out there, or start what it leads to")
    given = os.environ.get("OPENAI_BASE_URL", "")
    if found and given and not urls["openai_base_url"] and not _leads_to_us(given):
        yield Finding(
            "warning",
            "OPENAI_BASE_URL is set, which Codex does not read",
            "cliff run -- codex (it takes that address as its upstream), or openai_base_url in config.toml",
        )


def _json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}

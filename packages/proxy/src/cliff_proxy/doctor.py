"""What `cliff doctor` looks at of the proxy: its settings, its places, the running proxies, the clients.

Nothing is asked but proxies on this machine, and no credential is shown."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import stat
import tempfile
import tomllib
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from cliff_core import ConfigError
from cliff_core.doctor import Finding
from cliff_core.wording import counted
from cliff_proxy import access, places, running
from cliff_proxy.clients import ClaudeCode, ClientError, client, no_proxy
from cliff_proxy.service import Launchd, Systemd
from cliff_proxy.settings import Settings, base_url
from cliff_proxy.store import VERSION


def check() -> Iterator[Finding]:
    """All findings on the proxy."""
    settings, findings = _settings()
    yield from findings
    yield from _upstreams(settings)
    yield from _places(settings)
    found = list(running.found())
    yield from _running(settings, found)
    yield from _port(settings, found)
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
        except ConfigError as error:
            return Settings(), [Finding("problem", str(error), "correct it: until then no proxy starts")]
    said = ", ".join(sorted(settings.given)) or "none"
    findings = [Finding("ok", f"settings file: {where}; settings that differ from the defaults: {said}")]
    try:
        access.check(settings)
    except ValueError as error:
        findings.append(Finding("problem", str(error), "until then `cliff serve` does not start (`cliff run` does)"))
    if file.is_file() and _others_can_read(file) and "token" in tomllib.loads(file.read_text()):
        findings.append(Finding("warning", f"others can read the token in {file}", f"chmod 600 {file}"))
    return settings, findings


def _upstreams(settings: Settings) -> Iterator[Finding]:
    try:
        running.check_upstreams(settings)
    except ValueError as error:
        yield Finding("problem", str(error), "correct it: until then `cliff serve` does not start")


def _places(settings: Settings) -> Iterator[Finding]:
    mend = "mend its permissions, or choose another (`{}`)"
    log, store, folder = settings.log or places.run_log(), settings.store, settings.record
    if problem := _unwritable_file(log):
        yield Finding("problem", f"the log {log} cannot be written: {problem}", mend.format("log"))
    if store is not None:
        if problem := _unwritable_file(store) or _unwritable_folder(store.parent):  # SQLite has files beside it
            yield Finding("problem", f"the store {store} cannot be written: {problem}", mend.format("store"))
        elif problem := _corrupt(store):
            yield Finding(
                "problem",
                f"the store {store} cannot be used: {problem}",
                "delete it (with its -wal and -shm files): views of most sessions stay the same",
            )
    if folder is None:
        return
    if problem := _unwritable_folder(folder):
        yield Finding("problem", f"nothing can be recorded in {folder}: {problem}", mend.format("record"))
    elif folder.is_dir() and _others_can_read(folder):
        yield Finding(
            "warning", f"others can read the recorded sessions in {folder}", f"chmod 700 {folder} (and its files)"
        )


def _others_can_read(path: Path) -> bool:
    return bool(stat.S_IMODE(path.stat().st_mode) & 0o077)


def _unwritable_file(path: Path) -> str:
    """Why a file cannot be written there; empty where it can."""
    if path.is_dir():
        return "it is a folder"
    if not path.exists():
        return _unwritable_folder(path.parent)
    try:
        with path.open("ab"):
            return ""
    except OSError as error:
        return error.strerror or str(error)


def _unwritable_folder(folder: Path) -> str:
    """Why no file can be made in a folder, or the folder itself; empty where it can. What is made to find that out has
    no name where the system can do that, and is gone at once. (Permissions alone do not tell: the system's own folders,
    a disk that is read-only.)"""
    near = folder
    while not near.exists() and near != near.parent:
        near = near.parent
    if not near.is_dir():
        return f"{near} is no folder"
    try:
        with tempfile.TemporaryFile(dir=near):
            return ""
    except OSError as error:
        return f"nothing can be made in {near} ({error.strerror or error})"


def _corrupt(store: Path) -> str:
    """Why a file is no store of ours; empty where it is one, and where there is none."""
    if not store.is_file() or not store.stat().st_size:
        return ""
    # `immutable`: the file alone is read, and nothing made beside it; not while a proxy has it open.
    how = "mode=ro" if store.with_name(store.name + "-wal").exists() else "immutable=1"
    try:
        with contextlib.closing(sqlite3.connect(f"{store.as_uri()}?{how}", uri=True)) as db:
            version = db.execute("PRAGMA user_version").fetchone()[0]
            if version in (0, VERSION):
                found = db.execute("PRAGMA quick_check(1)").fetchone()[0]
                return "" if found == "ok" else str(found)
            return f"it is of version {version}, this one knows {VERSION}"
    except sqlite3.Error as error:
        return str(error)


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
        reached = f"was reached by {counted(requests, 'request')}" if requests else "was not reached by any client yet"
        yield Finding("ok", f"{name} answers, and {reached}")
        for problem in status.get("problems", []):
            yield Finding("warning", f"{name}: {problem}")


def _port(settings: Settings, found: list[running.Running]) -> Iterator[Finding]:
    """Only where none of the user's own proxies has it."""
    ours = any(proxy.url.rpartition(":")[2] == str(settings.port) for proxy in found)
    if not ours and (problem := running.listen_problem(settings)):
        yield Finding("problem", problem, "choose another `port`: `cliff serve` does not start (`cliff run` does)")


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
    """A base URL that is none, or on this machine where nothing answers: clients fail that have it."""
    if not url:
        return
    try:
        base_url(url)
    except ValueError as error:
        yield Finding("problem", f"{where} must be {error}", "correct it, or unset it")
        return
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port
    if not access.is_loopback(host) or port is None:
        return
    at = f"http://{access.in_url(host)}:{port}"
    if running.leads_to_ours(url):
        yield Finding("ok", f"{where} leads to a running cliff proxy")
    elif not _listens(host, port):
        yield Finding("problem", f"{where} is {at}, where nothing runs", mend)


def _listens(host: str, port: int) -> bool:
    import socket

    try:
        with socket.create_connection((host, port), 1.0):
            return True
    except OSError:
        return False


def _claude() -> Iterator[Finding]:
    if found := shutil.which("claude"):
        yield _client("Claude Code", "claude", found)
    for file in ClaudeCode.files(os.environ):
        try:
            value = json.loads(file.read_text())
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            yield Finding("problem", f"{file} cannot be read: {error}", "correct it: what it sets is not known here")
            continue
        env = value.get("env") if isinstance(value, dict) else None
        url = env.get("ANTHROPIC_BASE_URL") if isinstance(env, dict) else None
        yield from _base_url(
            f"ANTHROPIC_BASE_URL in {file}", str(url or ""), "take it out there: it overrides the environment"
        )


def _codex() -> Iterator[Finding]:
    found = shutil.which("codex")
    if found:
        yield _client("Codex", "codex", found)
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
    if found and given and not urls["openai_base_url"] and not running.leads_to_ours(given):
        yield Finding(
            "warning",
            "OPENAI_BASE_URL is set, which Codex does not read",
            "cliff run -- codex (it takes that address as its upstream), or openai_base_url in config.toml",
        )


def _client(name: str, command: str, found: str) -> Finding:
    """Whether `cliff run` takes a client that is installed."""
    try:
        client([command]).upstreams()
    except ClientError as error:
        return Finding("problem", f"{name} is {found}, which `cliff run` refuses: {error}")
    return Finding("ok", f"{name} is {found}: cliff run -- {command}")

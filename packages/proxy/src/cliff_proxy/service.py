"""The proxy as a service of the user: systemd or launchd starts it at login, and again when it fails.

What is installed is one file, and what the manager makes of it; a failed installation and a removal leave neither. The
log, the store and the settings stay.
"""

from __future__ import annotations

import os
import plistlib
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from cliff_proxy import places, running
from cliff_proxy.settings import Settings

START_SECONDS = 30.0
"""For how long a new service may take to answer."""

KEPT_VARIABLES = (
    *("XDG_CONFIG_HOME", "XDG_STATE_HOME", "SSL_CERT_FILE", "SSL_CERT_DIR"),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy"),
)
"""Variables that say where files are and how upstreams are reached: the service gets those of the installation.
(systemd has XDG_RUNTIME_DIR.)"""


class ServiceError(Exception):
    """Nothing was installed; the text says why."""


class Manager(Protocol):
    """What starts services on this system."""

    file: Path
    """What is installed."""
    logs: str
    """How a person reads what it says itself."""

    def text(self, argv: Sequence[str], environ: Mapping[str, str], log: Path) -> bytes:
        """The file's content."""
        ...

    def start(self) -> None:
        """Enables and starts what is installed, anew where it runs. Raises `ServiceError`."""
        ...

    def stop(self) -> None:
        """Stops and disables it; nothing where it is not there."""
        ...

    def forget(self) -> None:
        """After the file was taken away."""
        ...


class Systemd:
    """systemd's manager of the user's services."""

    NAME = "cliff-proxy.service"

    def __init__(self) -> None:
        base = os.environ.get("XDG_CONFIG_HOME", "")
        folder = Path(base) if os.path.isabs(base) else Path.home() / ".config"
        self.file = folder / "systemd" / "user" / self.NAME
        self.logs = f"journalctl --user -u {self.NAME}"

    def text(self, argv: Sequence[str], environ: Mapping[str, str], log: Path) -> bytes:
        given = [_quoted(f"{name}={value}", variables=False) for name, value in environ.items()]
        variables = "".join(f"Environment={one}\n" for one in given)
        return (
            "# Written by `cliff service install`; `cliff service remove` takes it away.\n"
            "[Unit]\nDescription=CliffCompaction proxy\n\n"
            f"[Service]\nExecStart={' '.join(map(_quoted, argv))}\n{variables}"
            "Restart=on-failure\nRestartSec=2\nUMask=0077\n\n"
            "[Install]\nWantedBy=default.target\n"
        ).encode()

    def start(self) -> None:
        self._call("daemon-reload")
        self._call("enable", self.NAME)
        self._call("restart", self.NAME)

    def stop(self) -> None:
        self._call("disable", "--now", self.NAME, must=False)

    def forget(self) -> None:
        self._call("daemon-reload", must=False)
        self._call("reset-failed", self.NAME, must=False)

    def _call(self, *arguments: str, must: bool = True) -> None:
        _call(["systemctl", "--user", *arguments], must)


class Launchd:
    """launchd's agents of the user, on macOS."""

    LABEL = "org.cliffcompaction.proxy"

    def __init__(self) -> None:
        self.file = Path.home() / "Library" / "LaunchAgents" / f"{self.LABEL}.plist"
        self.logs = f"launchctl print gui/{os.getuid()}/{self.LABEL}"

    def text(self, argv: Sequence[str], environ: Mapping[str, str], log: Path) -> bytes:
        return plistlib.dumps(
            {
                "Label": self.LABEL,
                "ProgramArguments": list(argv),
                "EnvironmentVariables": dict(environ),
                "RunAtLoad": True,
                "KeepAlive": {"SuccessfulExit": False},
                "ProcessType": "Background",
                "StandardErrorPath": str(log),
                "Umask": 0o077,
            }
        )

    def start(self) -> None:
        self.stop()
        _call(["launchctl", "bootstrap", f"gui/{os.getuid()}", str(self.file)])

    def stop(self) -> None:
        _call(["launchctl", "bootout", f"gui/{os.getuid()}/{self.LABEL}"], must=False)

    def forget(self) -> None:
        """Nothing: a service that was booted out is forgotten."""


def manager() -> Manager:
    """The manager of this system. Raises `ServiceError` where there is none that a user can use."""
    if sys.platform == "darwin":
        return Launchd()
    if shutil.which("systemctl") is None:
        raise ServiceError("there is neither systemd nor launchd here: let your own supervisor run `cliff serve`")
    asked = subprocess.run(["systemctl", "--user", "show-environment"], capture_output=True, text=True, check=False)
    if asked.returncode:
        raise ServiceError(
            f"systemd manages no services of this user here ({asked.stderr.strip() or 'systemctl --user failed'}): log "
            "in as that user, or let your own supervisor run `cliff serve`"
        )
    return Systemd()


def log_file() -> Path:
    """The service's log, unless the settings name another."""
    return places.state() / "proxy.log"


def install(under: Manager, config: Path | None, log: Path, url: str, settings: Settings) -> None:
    """Installs, or replaces, the service, and waits until it answers at `url`. `settings`: those that it will have.
    Raises `ServiceError` when everything is as it was before again."""
    before = under.file.read_bytes() if under.file.exists() else None
    if running.is_ours(url):
        if before is None:
            raise ServiceError(f"another cliff proxy runs at {url} (cliff status): stop it, or choose another port")
    elif problem := running.listen_problem(settings):  # the service would say so in its log, again and again
        raise ServiceError(f"{problem}: `port` in the file chooses another")
    argv = [sys.executable, "-m", "cliff_core", "serve", "--log", str(log)]
    if config is not None:
        argv += ["--config", str(config)]
    environ = {name: os.environ[name] for name in KEPT_VARIABLES if os.environ.get(name)}
    made_log = not log.exists()
    said_before = 0 if made_log else log.stat().st_size
    try:
        log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(log, os.O_WRONLY | os.O_CREAT, 0o600))
        under.file.parent.mkdir(parents=True, exist_ok=True)
        _write(under.file, under.text(argv, environ, log))
        under.start()
        _wait(url, under)
    except (OSError, ServiceError) as error:
        said = _tail(log, said_before)
        _undo(under, before)
        if made_log:
            log.unlink(missing_ok=True)
        raise ServiceError(f"{error}{said}") from None


def remove(under: Manager) -> bool:
    """Stops the service and takes it away; whether there was one."""
    there = under.file.exists()
    under.stop()
    under.file.unlink(missing_ok=True)
    under.forget()
    return there


def _undo(under: Manager, before: bytes | None) -> None:
    under.stop()
    if before is None:
        under.file.unlink(missing_ok=True)
        under.forget()
        return
    _write(under.file, before)
    under.start()


def _write(file: Path, content: bytes) -> None:
    """The user's alone: the address of an HTTP proxy may hold a password."""
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as opened:
        opened.write(content)


def _wait(url: str, under: Manager) -> None:
    end = time.monotonic() + START_SECONDS
    while not running.is_ours(url):
        if time.monotonic() > end:
            raise ServiceError(f"the service was started and does not answer at {url} ({under.logs})")
        time.sleep(0.2)


def _tail(log: Path, start: int) -> str:
    """The last lines that a log got from `start` (bytes) on; an earlier service's would mislead."""
    try:
        with log.open("rb") as file:
            file.seek(start if log.stat().st_size >= start else 0)  # it was rotated
            lines = file.read().decode(errors="replace").splitlines()[-3:]
    except OSError:
        return ""
    return "; its log ends: " + " | ".join(lines) if lines else ""


def _call(command: list[str], must: bool = True) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise ServiceError(f"{command[0]} cannot be run: {error.strerror}") from None
    if must and done.returncode:
        words = " ".join((done.stderr or done.stdout).split()) or f"exit status {done.returncode}"
        raise ServiceError(f"`{' '.join(command)}` failed: {words}")


def _quoted(word: str, variables: bool = True) -> str:
    """A word of a unit file: quoted, its specifiers and variables (which only commands have) as they stand."""
    word = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{word.replace("$", "$$") if variables else word}"'

"""Where files go: what the XDG base directories say, on macOS too."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def config_file(environ: Mapping[str, str] = os.environ) -> Path:
    """The settings of the user."""
    return _base(environ, "XDG_CONFIG_HOME", ".config") / "cliff" / "proxy.toml"


def state(environ: Mapping[str, str] = os.environ) -> Path:
    """The folder of what is kept between runs: the store, logs."""
    return _base(environ, "XDG_STATE_HOME", ".local/state") / "cliff"


def store(environ: Mapping[str, str] = os.environ) -> Path:
    """What a restarted proxy must know; all proxies of a user share it."""
    return state(environ) / "proxy.sqlite"


def run_log(environ: Mapping[str, str] = os.environ) -> Path:
    """The log of `cliff run`, unless the settings name another."""
    return state(environ) / "run.log"


def running(environ: Mapping[str, str] = os.environ) -> Path:
    """The folder in which each running proxy of the user says where it is."""
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    return Path(runtime) / "cliff" if os.path.isabs(runtime) else state(environ) / "running"


def _base(environ: Mapping[str, str], name: str, otherwise: str) -> Path:
    """A relative path is invalid and ignored, as the specification says."""
    value = environ.get(name, "")
    return Path(value) if os.path.isabs(value) else Path(environ.get("HOME") or Path.home()) / otherwise

"""The settings as flags of a command."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from cliff_core import ConfigError
from cliff_core.commands.options import config_options
from cliff_core.commands.said import warn
from cliff_proxy.settings import HELP, UPSTREAMS, Settings

METAVARS = {
    "host": "ADDRESS",
    "port": "NUMBER",
    **dict.fromkeys(UPSTREAMS, "URL"),
    "thresholds": "GLOB=TOKENS|auto,...",
    "windows": "GLOB=TOKENS,...",
    "record": "FOLDER",
    "store": "FILE|none",
    "memory_bytes": "BYTES",
    "log": "FILE",
}
"""What a flag takes, for its help; all are read as texts, as the variables are (`Settings.load`)."""

CONFIG = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="Read this TOML file instead of the user's own (cliff/proxy.toml)."),
]


def settings_options(*without: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command, which has `**options`, a flag for each setting but these, and for each option of a compaction;
    None: not given."""

    def add(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        rest = [p for p in signature.parameters.values() if p.kind is p.VAR_KEYWORD]
        flags = [_flag(name, text) for name, text in HELP.items() if name not in without]
        command.__signature__ = signature.replace(parameters=[*own, *flags, *rest])  # type: ignore[attr-defined]
        return config_options(command)

    return add


def _flag(name: str, text: str) -> inspect.Parameter:
    switch = isinstance(getattr(Settings(), name), bool)
    option = "--" + name.replace("_", "-")
    names = f"{option}/--no-{option[2:]}" if switch else option
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[
            bool | None if switch else str | None,
            typer.Option(names, metavar=METAVARS.get(name), help=text, show_default=False),
        ],
    )


def read_settings(config: Path | None, options: dict[str, Any]) -> Settings:
    """The settings of the file, the environment and the flags that were given. What is wrong ends the command."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            settings = Settings.load(config, **options)
        except ConfigError as error:
            raise typer.BadParameter(str(error)) from None
    for warning in caught:
        warn(str(warning.message))
    return settings

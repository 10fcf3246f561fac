"""Options of a compaction as flags of a command."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Annotated, Any

import typer

from cliff_core.commands.said import warn
from cliff_core.config import OPTIONS, CliffConfig, ConfigError

OPTION_HELP = {
    "preset": "Defaults of the options below: `paper` is the published rule, `default` adds to it.",
    "threshold_tokens": "Tokens of a whole request above which a cliff happens.",
    "keep_turns": "Newest turns that stay as they are.",
    "result_max_chars": "Characters up to which a tool result is kept; longer ones are dropped.",
    "call_max_chars": "Characters of a tool call's signature.",
    "thought_max_chars": "First characters of a thought that are kept.",
    "min_gain": "Share of the threshold that a cliff must leave free.",
    "pin_directives": "Keep people's words through all cliffs.",
    "directives_max_chars": "Characters of their older words that are kept.",
    "notes": "Host text that is kept: `newest` of each kind, or `all`.",
    "path_index_chars": "Characters of the list of paths that earlier calls named.",
    "error_chars": "First and last characters that are kept of a long error.",
    "merge_block": "Append the block to the last message of the head.",
}
ALIASES = {"threshold_tokens": ("--threshold",)}


def config_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give `command`, which has `**options`, a flag for each option of `CliffConfig`; None: not given."""
    signature = inspect.signature(command, eval_str=True)
    own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    added = [_flag(option, attribute) for option, attribute in OPTIONS.items()]
    command.__signature__ = signature.replace(parameters=[*own, *added])  # type: ignore[attr-defined]
    command.__annotations__ = {
        **{p.name: p.annotation for p in (*own, *added)},
        "return": None,
    }
    return command


def _flag(option: str, attribute: str) -> inspect.Parameter:
    kind = type(getattr(CliffConfig(), attribute))
    name = "--" + option.replace("_", "-")
    names = [*ALIASES.get(option, ()), name]
    if kind is bool:
        names = [f"{name}/--no-{name[2:]}"]
    info = typer.Option(*names, help=OPTION_HELP.get(option, ""), show_default=False)
    return inspect.Parameter(
        option,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[kind | None, info],
    )


def read_config(options: dict[str, Any]) -> CliffConfig:
    """The configuration of the environment and of the flags that were given."""
    given = {name: value for name, value in options.items() if value is not None}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            config = CliffConfig.from_env(**given)
        except ConfigError as error:
            raise typer.BadParameter(str(error)) from None
    for warning in caught:
        warn(str(warning.message))
    return config

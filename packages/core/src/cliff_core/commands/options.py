"""Options that commands share, as flags: of a compaction, and of a replay."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from cliff_core.batch import Plan
from cliff_core.commands.said import warn
from cliff_core.config import OPTIONS, CliffConfig, ConfigError, Threshold, read_threshold
from cliff_core.ledger import Pricing, UnknownPriceError
from cliff_core.policies import POLICIES, PolicyError, Settings
from cliff_core.policies.authors import find_python

OPTION_HELP = {
    "preset": "Defaults of the options below: `paper` is the published rule, `default` adds to it.",
    "threshold_tokens": "Tokens of a whole request above which a cliff happens, or `auto`: what costs least.",
    "keep_turns": "Newest turns that stay as they are.",
    "result_max_chars": "Characters up to which a tool result is kept; longer ones are dropped.",
    "call_max_chars": "Characters of a tool call's signature.",
    "thought_max_chars": "First characters of a thought that are kept.",
    "min_gain": "Share of the threshold, less what never goes, that a cliff must leave free.",
    "pin_directives": "Keep people's words through all cliffs.",
    "directives_max_chars": "Characters of their older words that are kept.",
    "notes": "Host text that is kept: `newest` of each kind, or `all`.",
    "path_index_chars": "Characters of the list of names (paths, identifiers) that earlier calls had.",
    "error_chars": "First and last characters that are kept of a long error.",
    "merge_block": "Append the block to the last message of the head.",
    "cache_price_ratio": "With `--threshold auto`: price of uncached input by that of cached input.",
}
ALIASES = {"threshold_tokens": ("--threshold",)}
KINDS: dict[str, type] = {"threshold_tokens": str, "cache_price_ratio": float}
"""Options whose default does not tell their type."""


def read_path(text: str) -> Path:
    """A path that was given. (Path("") is the current folder.)"""
    if text == "":
        raise typer.BadParameter("a path is empty: is a variable not set?")
    return Path(text)


Paths = Annotated[
    list[Path], typer.Argument(metavar="PATH", help="Recorded sessions, or folders of them.", parser=read_path)
]
"""The inputs of a replay."""


def config_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give `command`, which has `**options`, a flag for each option of `CliffConfig`; None: not given."""
    return _with_flags(command, [_flag(option, attribute) for option, attribute in OPTIONS.items()])


def replay_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give `command`, which has `**options`, the flags of a replay (`read_plan`, `read_work`)."""
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, info])
        for name, (kind, info) in REPLAY_OPTIONS.items()
    ]
    return _with_flags(command, added)


def _with_flags(command: Callable[..., None], added: list[inspect.Parameter]) -> Callable[..., None]:
    signature = inspect.signature(command, eval_str=True)
    own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    command.__signature__ = signature.replace(parameters=[*own, *added])  # type: ignore[attr-defined]
    command.__annotations__ = {**{p.name: p.annotation for p in (*own, *added)}, "return": None}
    return command


MOST_DOLLARS = 1_000_000_000


def _price(value: float | None) -> float | None:
    if value is not None and not 0 <= value <= MOST_DOLLARS:  # not a number is neither
        raise typer.BadParameter(f"a price is a number from 0 to {MOST_DOLLARS}, not {value}")
    return value


def _dollars(text: str) -> tuple[type, Any]:
    return float, typer.Option(callback=_price, help=text, show_default=False)


def _number(text: str, least: int = 0) -> tuple[type, Any]:
    return int, typer.Option(min=least, help=text, show_default=False)


REPLAY_OPTIONS: dict[str, tuple[type, Any]] = {
    "policy": (str, typer.Option(help="Policies to compare, or `all`: " + ", ".join(POLICIES) + ".")),
    "model": (str, typer.Option(help="Take this model's prices instead of the session's own.", show_default=False)),
    "price_input": _dollars("Dollars per million input tokens."),
    "price_cached": _dollars("The same for input from the cache."),
    "price_write": _dollars("The same for input that is written to it."),
    "price_output": _dollars("The same for output, of which only a policy's own model calls are charged."),
    "cache_min": _number("Tokens below which a prefix is not cached."),
    "cache_step": _number("Cached prefixes are multiples of so many tokens.", 1),
    "summary_share": (
        float,
        typer.Option(min=0, max=1, help="Share of each text in the stand-in for a model's summary: 0.1."),
    ),
    "clear_keep": _number("Newest tool uses that clear-tools and microcompact leave: 3."),
    "clear_at_least": _number("Tokens that clear-tools must free, or it clears nothing."),
    "authors_python": (str, typer.Option(help="Python of an environment with cliffcompaction 0.1.0.")),
    "jobs": (
        int,
        typer.Option("--jobs", "-j", min=1, help="Processes; without it one for each core where there are many files."),
    ),
    "store": (
        Path,
        typer.Option(
            help="Keep results in this file and go on from it; without it in the cache, of 20 files or more.",
            parser=read_path,
            metavar="FILE",
        ),
    ),
    "no_store": (bool, typer.Option("--no-store", help="Keep no results, and take none.")),
}


def read_plan(options: dict[str, Any], default: str) -> Plan:
    """The plan of the flags of `replay_options` and `config_options`, which are taken out of `options`; `default`:
    policies where none are named. What cannot be had is an error that says why."""
    given = {name: options.pop(name, None) for name in REPLAY_OPTIONS if name not in WORK_OPTIONS}
    config = read_config(options)
    if given["price_input"] is None and any(
        given[f"price_{kind}"] is not None for kind in ("cached", "write", "output")
    ):
        raise typer.BadParameter("--price-cached, --price-write and --price-output need --price-input")
    if given["model"] is not None and given["price_input"] is not None:
        raise typer.BadParameter("--model and --price-input exclude each other: prices are the model's, or as given")
    if (given["price_cached"] or 0) > (given["price_input"] or 0):
        warn("--price-cached is above --price-input: cached input is taken to cost more than other input")
    pricing = Pricing(
        given["model"],
        given["price_input"],
        given["price_cached"],
        given["price_write"],
        given["price_output"],
        given["cache_min"],
        given["cache_step"],
    )
    named = ("summary_share", "clear_keep", "clear_at_least", "authors_python")
    settings = Settings(**{name: given[name] for name in named if given[name] is not None})
    plan = Plan(config, _names(default if given["policy"] is None else given["policy"], settings), settings, pricing)
    try:
        for policy in plan.policies():
            close = getattr(policy, "close", None)
            if close is not None:
                close()
        if pricing.model is not None:
            pricing.of(pricing.model)
    except (PolicyError, UnknownPriceError) as error:
        raise typer.BadParameter(str(error)) from None
    return plan


def _names(policy: str, settings: Settings) -> tuple[str, ...]:
    if policy.strip() != "all":
        named = tuple(dict.fromkeys(name.strip() for name in policy.split(",") if name.strip()))
        if any(name.startswith("full@") for name in named):
            raise typer.BadParameter("policy full sends everything: it has no threshold")
        return named
    names = ["cliff", *(name for name in POLICIES if name != "cliff")]
    if find_python(settings.authors_python) is None:
        names.remove("authors")
        warn("without policy authors: --policy authors says how to get it")
    return tuple(names)


WORK_OPTIONS = ("jobs", "store", "no_store")


def read_work(options: dict[str, Any]) -> tuple[int | None, Path | None, bool]:
    """`--jobs`, `--store` and whether `--no-store` was given, taken out of `options`."""
    jobs, store, no_store = (options.pop(name, None) for name in WORK_OPTIONS)
    if store is not None and no_store:
        raise typer.BadParameter("--store and --no-store exclude each other")
    return jobs, store, bool(no_store)


def _threshold(text: str) -> Threshold:
    try:
        return read_threshold(text)
    except ConfigError as error:
        raise typer.BadParameter(str(error)) from None


def _flag(option: str, attribute: str) -> inspect.Parameter:
    kind = KINDS.get(option) or type(getattr(CliffConfig(), attribute))
    name = "--" + option.replace("_", "-")
    names = [*ALIASES.get(option, ()), name]
    if kind is bool:
        names = [f"{name}/--no-{name[2:]}"]
    reading: dict[str, Any] = {}
    if option == "threshold_tokens":
        reading = {"parser": _threshold, "metavar": "TOKENS|auto"}
    info = typer.Option(*names, help=OPTION_HELP.get(option, ""), show_default=False, **reading)
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

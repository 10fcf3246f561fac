"""The options of both hosts: `summarizer`, and each option of the core as `cliff_NAME` (DESIGN.md section 7)."""

from __future__ import annotations

import difflib
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from cliff_core import CliffConfig, ConfigError, Fact, prices
from cliff_core.config import ENV_PREFIX, OPTIONS
from cliff_core.decision import window_limit

Summarizer = Literal["cliff", "native", "off"]
"""`native`: the host's own, untouched. `off`: neither; a prompt that is too long ends the task."""

PREFIX = "cliff_"

NAMES = ("summarizer", *(PREFIX + name for name in OPTIONS))
"""The options of this package."""

THRESHOLD = "threshold_tokens"


@dataclass(frozen=True, slots=True)
class Options:
    """What was asked for."""

    summarizer: Summarizer
    config: CliffConfig
    source: str
    """Where the threshold was set: `option`, `environment` or `default`."""

    def of_model(self, name: str | None) -> Options:
        """With the prices of a model, where they matter (`prices.priced`)."""
        return replace(self, config=prices.priced(self.config, name))


def read(given: Mapping[str, Any], environ: Mapping[str, str] | None = None) -> Options:
    """Options from the host's arguments (those that are None were not given), over `CLIFF_*` variables.

    Only `NAMES` are looked at. Raises `ConfigError`, which names the nearest option, for a value that cannot be used
    and for an unknown `cliff_…`."""
    environ = os.environ if environ is None else environ
    check_names((name for name in given if name.startswith(PREFIX)), NAMES)
    summarizer: Any = "cliff" if given.get("summarizer") is None else given["summarizer"]
    if summarizer not in get_args(Summarizer):
        known = get_args(Summarizer)
        near = difflib.get_close_matches(str(summarizer), known, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ConfigError(f"summarizer must be one of {', '.join(known)}, not {summarizer!r}{hint}")
    options = {name: given[PREFIX + name] for name in OPTIONS if given.get(PREFIX + name) is not None}
    try:
        CliffConfig.from_env({}, **options)
    except ConfigError as error:  # it begins with the option's name
        raise ConfigError(f"{PREFIX}{error}") from None
    source = "default"
    if THRESHOLD in options:
        source = "option"
    elif environ.get((ENV_PREFIX + THRESHOLD).upper(), "").strip():
        source = "environment"
    chosen: Summarizer = summarizer
    return Options(chosen, CliffConfig.from_env(environ, **options), source)


def check_names(names: Iterable[str], known: Collection[str]) -> None:
    """Raises `ConfigError` for the first name that is not among the known ones."""
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(str(name).lower(), sorted(known), n=1, cutoff=0.5)
            hint = f"; did you mean {near[0]}?" if near else f"; the options are {', '.join(sorted(known))}"
            raise ConfigError(f"unknown option {name!r}{hint}")


def window_facts(window: int | None, answer: int | None) -> list[Fact]:
    """What is known of the model as facts for a compactor (`decision.window_limit`): `window` and `answer` are the
    declared maxima of input and output, in tokens."""
    limit = window_limit(window, answer)
    return [] if limit is None else [{"at": 0, "kind": "limit", "value": limit}]

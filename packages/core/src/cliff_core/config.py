"""Options of a compaction: one frozen class, two presets, one place for every default (DESIGN.md section 4)."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Preset = Literal["paper", "default"]

AUTO: Literal["auto"] = "auto"
Threshold = int | Literal["auto"]
"""Tokens, or what costs least in closed form (`docs/tune.md`)."""

ENV_PREFIX = "CLIFF_"

OTHER_VARIABLES = frozenset(
    {
        *("CLIFF_TRACES", "CLIFF_ROLLOUTS", "CLIFF_AUTHORS_PYTHON", "CLIFF_OPENHANDS_HOOK"),
        *("CLIFF_HOST", "CLIFF_PORT", "CLIFF_ANTHROPIC_UPSTREAM", "CLIFF_OPENAI_UPSTREAM", "CLIFF_CHATGPT_UPSTREAM"),
        *("CLIFF_THRESHOLDS", "CLIFF_WINDOWS", "CLIFF_SHADOW", "CLIFF_TOKEN", "CLIFF_RECORD", "CLIFF_STORE"),
        *("CLIFF_MEMORY_BYTES", "CLIFF_LOG"),
    }
)
"""`CLIFF_*` variables of this project that are no option of a compaction: of tests, a policy, the hook, the proxy."""


AUTO_START = 32_000
"""With `auto`, the threshold of a session's first turns: that of somebody who sets none."""

CACHE_PRICE_RATIO = 5.0
"""Where no price is known: uncached input costs 5 to 6 times cached input for the paper's models (`prices.SHORT`:
0.95 / 0.16, 0.95 / 0.19, 1.4 / 0.26)."""

FREE_CACHE = 1_000.0
"""The largest `cache_price_ratio`, which stands for cached input that costs nothing."""


class ConfigError(ValueError):
    """An option has an unknown name or a value that cannot be used; the text says what to do."""


@dataclass(frozen=True, slots=True)
class CliffConfig:
    """How much of a history is kept, and when it is cut.

    Raises `ConfigError` for a value that cannot be used. `CliffConfig()` is preset `default`;
    `CliffConfig.preset("paper", …)` and `from_env` make the others, and know this field as option `preset`."""

    preset_name: Preset = "default"
    """`paper` is Algorithm 1 exactly: no escalation, no raised threshold, nothing pinned."""
    threshold_tokens: Threshold = 32_000
    """Tokens of a whole request (system prompt, tool schemas, messages) above which a cliff happens; `auto`: what costs
    least, from the session's own growth (`decision.effective_threshold`)."""
    keep_turns: int = 2
    """Newest turns that stay as they are; fewer when the decision needs it (preset `default`)."""
    result_max_chars: int = 500
    """Characters of a tool result up to which it is an excerpt; a longer one is dropped."""
    call_max_chars: int = 150
    """Characters of a tool call's signature."""
    thought_max_chars: int = 300
    """First characters of a thought that are kept."""
    min_gain: float = 0.6
    """Share that a cliff leaves free of what a threshold has beside system prompt, tools, head and pinned messages:
    near the limit a cliff at every request costs more than no compaction. Where even one live turn leaves no room for
    it, a cliff must free a quarter (`decision.LEAST_GAIN`), or this if it is less."""
    pin_directives: bool = True
    """People's words stay through all cliffs, in a part of the block of their own."""
    directives_max_chars: int = 6_000
    """Characters of that part; the newest directive is whole whatever its length. Notes have as much again."""
    notes: Literal["all", "newest"] = "newest"
    """`newest`: of each kind of host text the newest before the cut; `all`: as directives of their window."""
    path_index_chars: int = 3_000
    """Characters of the list of names (paths, identifiers; `cliff_core.names`) in the arguments of calls before the
    cut, the most used and newest first. 0: no list."""
    error_chars: int = 250
    """First and last characters kept of a long result that is an error. 0: by length, like any result."""
    merge_block: bool = False
    """Append the block to the last message of the head, for chat templates that reject two user messages
    in a row."""
    cache_price_ratio: float | None = None
    """For `auto`: the price of input that no cache holds (of a cache write, where that has a price) by that of cached
    input. 1: the cache saves nothing; `FREE_CACHE`: what it holds costs nothing. None: of the model, where the caller
    knows it (`prices.priced`), else `CACHE_PRICE_RATIO`."""

    def __post_init__(self) -> None:
        for option, attribute in OPTIONS.items():
            object.__setattr__(self, attribute, _checked(option, getattr(self, attribute)))

    @property
    def exact(self) -> bool:
        """Whether this is Algorithm 1 exactly (DESIGN.md section 3, last paragraph)."""
        return self.preset_name == "paper"

    @property
    def auto(self) -> bool:
        """Whether the threshold follows the session."""
        return self.threshold_tokens == AUTO

    @property
    def first_threshold(self) -> int:
        """`threshold_tokens`; with `auto` what stands in for it while little is known of a session."""
        return AUTO_START if self.threshold_tokens == "auto" else self.threshold_tokens

    @classmethod
    def preset(cls, name: str = "default", /, **options: Any) -> CliffConfig:
        """A preset with some options changed. Raises `ConfigError` for an unknown preset, name or value."""
        name = _checked("preset", name)
        return cls(**_attributes({"preset": name, **PRESETS[name], **options}))

    @classmethod
    def from_env(
        cls,
        environ: Mapping[str, str] | None = None,
        file: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> CliffConfig:
        """Options from a preset, a file's values, `CLIFF_*` variables and arguments, each over the one before.

        Values of variables are read as their option's type; an empty one is as if it were not set. An unknown
        `CLIFF_*` variable warns (the authors' proxy uses some); an unknown name in `file` or `options` raises
        `ConfigError`."""
        environ = os.environ if environ is None else environ
        merged = dict(file or {})
        for variable in sorted(environ):
            if not variable.startswith(ENV_PREFIX) or variable in OTHER_VARIABLES:
                continue
            name = variable[len(ENV_PREFIX) :].lower()
            if name in OPTIONS:
                if environ[variable].strip():
                    merged[name] = _read(variable, name, environ[variable])
            else:
                warnings.warn(
                    f"{variable} is no option of cliff and is ignored{_nearest(name, ENV_PREFIX)}",
                    stacklevel=2,
                )
        merged.update(options)
        return cls.preset(merged.pop("preset", "default"), **merged)

    def replace(self, **options: Any) -> CliffConfig:
        """The same with some options changed; a changed `preset` does not change the others."""
        return dataclasses.replace(self, **_attributes(options))

    def as_dict(self) -> dict[str, Any]:
        """All options by name, ready for JSON."""
        return {option: getattr(self, attribute) for option, attribute in OPTIONS.items()}


PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "paper": {
        "keep_turns": 3,
        "min_gain": 0.0,
        "pin_directives": False,
        "notes": "all",
        "path_index_chars": 0,
        "error_chars": 0,
    },
}

OPTIONS: dict[str, str] = {f.name.removesuffix("_name"): f.name for f in dataclasses.fields(CliffConfig)}
"""Option -> attribute of `CliffConfig` (the same but for `preset`, which names the constructor there)."""

_DEFAULTS = {f.name: f.default for f in dataclasses.fields(CliffConfig)}
_CHOICES = {"preset": tuple(PRESETS), "notes": ("all", "newest")}
_LEAST = {"keep_turns": 1}
_RANGES = {"min_gain": (0.0, 0.9), "cache_price_ratio": (1.0, FREE_CACHE)}


def _attributes(options: Mapping[str, Any]) -> dict[str, Any]:
    for option in options:
        if option not in OPTIONS:
            raise ConfigError(f"unknown option {option!r}{_nearest(str(option))}")
    return {OPTIONS[option]: value for option, value in options.items()}


def _read(variable: str, name: str, value: str) -> Any:
    try:
        return _checked(name, value)
    except ConfigError as error:
        raise ConfigError(f"{variable}: {error}") from None


def _nearest(name: str, prefix: str = "") -> str:
    near = difflib.get_close_matches(name.lower(), OPTIONS, n=1, cutoff=0.5)
    if near:
        return f"; did you mean {prefix}{near[0].upper() if prefix else near[0]}?"
    return "; the options are " + ", ".join(prefix + (n.upper() if prefix else n) for n in OPTIONS)


def _checked(name: str, value: Any) -> Any:
    """`value` as the type of option `name`; text is read (environment variables, command lines)."""
    default = _DEFAULTS[OPTIONS[name]]
    if isinstance(value, str):
        value = value.strip()
    if name in _CHOICES:
        if value not in _CHOICES[name]:
            near = difflib.get_close_matches(value, _CHOICES[name], n=1) if isinstance(value, str) else []
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ConfigError(f"{name} must be one of {', '.join(_CHOICES[name])}, not {value!r}{hint}")
        return value
    if isinstance(default, bool):
        if isinstance(value, bool):
            return value
        if isinstance(value, str) and value.strip().lower() in ("1", "true", "yes", "on"):
            return True
        if isinstance(value, str) and value.strip().lower() in ("0", "false", "no", "off"):
            return False
        raise ConfigError(f"{name} must be true or false, not {value!r}")
    if name in _RANGES:
        if value is None and default is None:
            return None
        low, high = _RANGES[name]
        try:
            number = float(value) if not isinstance(value, bool) else -1.0
        except (TypeError, ValueError):
            number = -1.0
        if not low <= number <= high:
            raise ConfigError(f"{name} must be a number from {low:g} to {high:g}, not {value!r}")
        return number
    if name == "threshold_tokens":
        return read_threshold(value, name)
    whole, least = _whole(value), _LEAST.get(name, 0)
    if whole is None or whole < least:
        raise ConfigError(f"{name} must be a whole number of at least {least}, not {value!r}")
    return whole


def read_threshold(value: Any, name: str = "threshold_tokens") -> Threshold:
    """A threshold as files, variables and command lines give it: `16000`, `16_000` or `auto`, also as text.

    Raises `ConfigError`, which begins with `name`."""
    if isinstance(value, str) and value.strip().lower() == AUTO:
        return AUTO
    number = _whole(value)
    if number is None or number < 1:
        raise ConfigError(f'{name} must be a whole number of at least 1, or "{AUTO}", not {value!r}')
    return number


def _whole(value: Any) -> int | None:
    """A whole number, also as text; None for anything else."""
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            value = int(value.strip().replace("_", ""))
    return value if isinstance(value, int) and not isinstance(value, bool) else None

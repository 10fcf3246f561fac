"""Prices and limits of models: from the table in litellm's wheel, else from a short one of ours.

    lookup("openrouter/anthropic/claude-opus-4.5").price.cached     # 0.5: dollars per million tokens

litellm is not imported for it (that takes seconds, and may ask the network); its table is a JSON file."""

from __future__ import annotations

import functools
import json
import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cliff_core.config import FREE_CACHE, CliffConfig

logger = logging.getLogger("cliff_core")

LITELLM_FILE = "model_prices_and_context_window_backup.json"


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars per million tokens. None: the table has no figure.

    Of the base tier: what some providers add for requests above 200 000 or 272 000 tokens, for a faster service or
    for longer-lived caches is not in it."""

    input: float
    """Input that no cache holds."""
    cached: float | None
    """Input read from the provider's cache."""
    cache_write: float | None
    """Input that is written to it; None where that costs what other input does."""
    output: float
    source: str = ""
    """Where the figures come from, for people."""

    @property
    def cache_price_ratio(self) -> float:
        """That option of a compaction: price of input that no cache holds, or of its write, by that of cached input. 1
        where the table has no price of cached input."""
        dear = self.input if self.cache_write is None else self.cache_write
        return price_ratio(dear, self.input if self.cached is None else self.cached)


def price_ratio(uncached: float, cached: float) -> float:
    """`cache_price_ratio` of two prices."""
    return min(max(uncached / cached, 1.0), FREE_CACHE) if cached > 0 else FREE_CACHE


def priced(config: CliffConfig, model: str | None) -> CliffConfig:
    """With a model's `cache_price_ratio` where that acts, nobody set it, and the model's price is known."""
    if not config.auto or config.cache_price_ratio is not None or not model:
        return config
    ratio = _ratio(model)
    return config if ratio is None else config.replace(cache_price_ratio=ratio)


@functools.lru_cache(maxsize=256)
def _ratio(model: str) -> float | None:
    known = lookup(model)
    return None if known is None or known.price is None else known.price.cache_price_ratio


@dataclass(frozen=True, slots=True)
class Model:
    """What is known of a model."""

    name: str
    """Its name in the table: another than was asked for where only the maker, the date or a suffix differs."""
    provider: str
    """Who serves it at this price (litellm's names)."""
    price: Price | None
    context_window: int | None
    """Tokens of input. For most models the window as a whole; for OpenAI's with 272 000 or 922 000 the output's part
    is already taken off."""
    max_output: int | None
    """Tokens of an answer, reasoning included."""
    cache_min_tokens: int | None = None
    """Tokens from which on a prefix is cached (`CACHE_RULES`); None: not known."""
    cache_step_tokens: int | None = None
    """A cached prefix is a multiple of this."""


def lookup(name: str) -> Model | None:
    """What is known of a model, by any of its usual names: with or without the provider's or a gateway's prefix, with
    or without a date. None if the table has nothing that is clearly this model."""
    return _shared().lookup(name)


SOURCES = ("litellm", "short")


def load(sources: Sequence[str] = SOURCES) -> Table:
    """A table from the first source that has one. (`lookup` shares one that was loaded at its first call.)"""
    for path in _litellm_paths() if "litellm" in sources else ():
        try:
            with open(path, encoding="utf-8") as file:
                entries = json.load(file)
            if isinstance(entries, dict):
                return Table(entries, f"litellm{_litellm_version()}")
            problem = "it is no JSON object"
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            problem = str(error)
        logger.warning("cliff: the price table %s cannot be used: %s", path, problem)
    return Table(SHORT if "short" in sources else {}, SHORT_SOURCE)


@functools.cache
def _shared() -> Table:
    return load()


def _litellm_paths() -> Iterator[str]:
    import importlib.util

    try:
        spec = importlib.util.find_spec("litellm")
    except (ImportError, ValueError):
        return
    for folder in (spec and spec.submodule_search_locations) or ():
        yield os.path.join(folder, LITELLM_FILE)


def _litellm_version() -> str:
    import importlib.metadata

    try:
        return " " + importlib.metadata.version("litellm")
    except importlib.metadata.PackageNotFoundError:
        return ""


# --- finding a model by its name --------------------------------------------------------------------------

MODES = frozenset({"chat", "completion", "responses"})
"""Of litellm's kinds of models, those that an agent talks to."""

MAKERS = {
    "claude-": "anthropic",
    "gpt-": "openai",
    "chatgpt-": "openai",
    "codex-": "openai",
    "o1": "openai",
    "o3": "openai",
    "o4": "openai",
    "deepseek-": "deepseek",
    "kimi-": "moonshot",
    "glm-": "zai",
    "gemini-": "gemini",
    "grok-": "xai",
    "qwen": "dashscope",
    "mistral-": "mistral",
    "devstral-": "mistral",
    "codestral-": "mistral",
    "minimax-": "minimax",
}
"""Beginning of a model's name: who made it and serves it (litellm's names)."""

CLOUDS = ("bedrock", "vertex_ai", "azure")
"""Providers (beginnings of litellm's names) that serve others' models at the makers' price or close to it. Other
resellers' prices differ up to threefold: they count only where the name that is looked up has the reseller in it."""

LOCAL = frozenset({"ollama", "ollama_chat", "hosted_vllm", "vllm", "lm_studio", "llamafile", "lemonade", "xinference"})
"""Prefixes of models that run on one's own machine: a provider's price says nothing about them."""

_VENDOR = re.compile(r"^(?:[a-z][a-z_-]*\.)+(?=[a-z])")  # Bedrock: us.anthropic.claude-…
_BEDROCK = re.compile(r"-v\d+(?::\d+)?$")
_SUFFIX = re.compile(r"(?::(?:thinking|beta|extended|exacto)|\[[^\[\]]*\]|@default)$")
_DATE = re.compile(r"[-@](20\d\d-?[01]\d-?[0-3]\d|latest)$")


def canonical(name: str) -> str:
    """A model's name without provider, date and suffix: `claude-opus-4-5` for
    `us.anthropic.claude-opus-4-5-20251101-v1:0` and for `openrouter/anthropic/claude-opus-4.5:thinking`."""
    return _canonical(name)[0]


def _canonical(name: str) -> tuple[str, str]:
    """That, and the date's digits."""
    name = name.strip().lower().rpartition("/")[2]
    bare = _VENDOR.sub("", name)
    if bare != name:
        bare = _BEDROCK.sub("", bare)
    bare = _SUFFIX.sub("", bare)
    dated = _DATE.search(bare)
    date = dated[1].replace("-", "") if dated else ""
    return _DATE.sub("", bare).replace(".", "-"), date


class Table:
    """Models by name, in litellm's format."""

    def __init__(self, entries: Mapping[str, Any], source: str) -> None:
        self.source = source
        self._entries = {name.lower(): (name, entry) for name, entry in entries.items()}

    def lookup(self, name: str) -> Model | None:
        """As the function `lookup`."""
        name = name.strip().lower()
        prefixes = name.split("/")
        for start in range(1 if prefixes[0] in LOCAL else len(prefixes)):
            found = self._exact("/".join(prefixes[start:]))
            if found is not None:
                return self._model(*found)
        if prefixes[0] in LOCAL:
            return None
        bare, date = _canonical(name)
        ranked = [
            (rank, key, entry)
            for key, entry in self._canonical_names.get(bare, ())
            if (rank := _rank(key, entry, bare, date, prefixes[:-1])) is not None
        ]
        if not ranked:
            return None
        _, key, entry = min(ranked, key=lambda item: item[0])
        return self._model(key, entry)

    def _exact(self, name: str) -> tuple[str, Mapping[str, Any]] | None:
        for _ in range(3):
            key, entry = self._entries.get(name, (name, None))
            if not isinstance(entry, Mapping):
                return None
            if entry.get("mode") in MODES:
                return key, entry
            name = str(entry.get("alias_of", "")).lower()
        return None

    @functools.cached_property
    def _canonical_names(self) -> dict[str, list[tuple[str, Mapping[str, Any]]]]:
        """Entries with a price, by canonical name."""
        names: dict[str, list[tuple[str, Mapping[str, Any]]]] = {}
        for key, entry in self._entries.values():
            if isinstance(entry, Mapping) and entry.get("mode") in MODES and _per_million(entry, "input"):
                names.setdefault(canonical(key), []).append((key, entry))
        return names

    def _model(self, name: str, entry: Mapping[str, Any]) -> Model:
        provider = str(entry.get("litellm_provider") or "")
        input_price, output = _per_million(entry, "input"), _per_million(entry, "output")
        price = None
        if input_price is not None and output is not None:
            # A zero means that there is no fee beyond that for input.
            write = _per_million(entry, "cache_creation_input") or None
            cached = _per_million(entry, "cache_read_input")
            price = Price(input_price, cached, write, output, f"{self.source}, {name}")
        minimum, step = cache_rule(name, provider)
        return Model(
            name,
            provider,
            price,
            _tokens(entry.get("max_input_tokens")),
            _tokens(entry.get("max_output_tokens")),
            minimum,
            step,
        )


def _rank(key: str, entry: Mapping[str, Any], bare: str, date: str, prefixes: Sequence[str]) -> tuple[Any, ...] | None:
    """Order of the entries for one canonical name, the best first; None for one whose price need not be the model's.

    First the provider that was asked for, then the maker, then clouds; of these the one with the date."""
    provider = str(entry.get("litellm_provider") or "")
    asked = any(prefix and re.match(re.escape(prefix) + r"(?![a-z0-9])", provider) for prefix in prefixes)
    maker = any(provider == name for start, name in MAKERS.items() if bare.startswith(start))
    if not (asked or maker or provider.startswith(CLOUDS)):
        return None
    regions = key.count("/") + key.rpartition("/")[2].count(".")  # regions and gateways add to the price
    return not asked, not maker, bool(date) and _canonical(key)[1] != date, regions, key


def _per_million(entry: Mapping[str, Any], kind: str) -> float | None:
    cost = entry.get(f"{kind}_token_cost" if kind.startswith("cache") else f"{kind}_cost_per_token")
    if isinstance(cost, bool) or not isinstance(cost, (int, float)):
        return None
    return round(cost * 1_000_000, 6)


def _tokens(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


# --- prompt caches ----------------------------------------------------------------------------------------

CACHE_RULES: tuple[tuple[str, str, int | None, int | None], ...] = (
    # Anthropic: docs.litellm.ai/docs/completion/prompt_caching (7 October 2026) and Anthropic's own list as quoted in
    # anthropics/anthropic-sdk-python#1194 (Haiku 3 and 3.5) and in dev.to/creeta (Opus 4.7). Models that neither
    # names have what most have. A prefix ends at a marker, so it has no step.
    (r"claude-(opus|fable|mythos)-5", "", 512, 1),
    (r"claude-(haiku-4-5|opus-4-[56])", "", 4_096, 1),
    (r"claude-opus-4-7|claude-3-haiku|claude-3-5-haiku", "", 2_048, 1),
    (r"claude-.*", "", 1_024, 1),
    # OpenAI: its cookbook, "Prompt Caching 201", which holds for models before GPT-5.6; recorded sessions have
    # multiples of 128 only, the smallest 1 152. developers.openai.com/api/docs/guides/prompt-caching has the 1 024 for
    # later models, too.
    (r"gpt-4o.*|gpt-4-1.*|gpt-4-5.*|gpt-5(-[1-5])?(-[a-z].*)?|o[134](-.*)?|codex-.*", "", 1_024, 128),
    (r"gpt-(5-\d.*|[6-9].*)", "", 1_024, None),
    # DeepSeek: recorded sessions of 2025 have multiples of 64 only. Its documentation for V4 gives no figures.
    (r"deepseek-(chat|reasoner|coder|v3.*|r1.*)", "deepseek", 64, 64),
    # Google: ai.google.dev/gemini-api/docs/caching (13 October 2026).
    (r"gemini-2-5-.*", "", 2_048, None),
    (r"gemini-[3-9].*", "", 4_096, None),
)
"""Canonical name (a regular expression), provider if it matters, tokens from which on a prefix is cached, and of what
a cached prefix is a multiple. None: not known. Other providers publish no figures that were found."""


def cache_rule(name: str, provider: str = "") -> tuple[int | None, int | None]:
    """`cache_min_tokens` and `cache_step_tokens` of a model."""
    bare = canonical(name)
    for pattern, only, minimum, step in CACHE_RULES:
        if only in ("", provider) and re.fullmatch(pattern, bare):
            return minimum, step
    return None, None


# --- without litellm --------------------------------------------------------------------------------------

SHORT_SOURCE = "cliff's short table (figures of litellm 1.110.2, read on 30 November 2026)"


def _entry(
    provider: str, costs: tuple[float, float | None, float | None, float], window: int, max_output: int
) -> dict[str, Any]:
    """Costs: dollars per million tokens of input, cached input, cache writes and output."""
    names = (
        "input_cost_per_token",
        "cache_read_input_token_cost",
        "cache_creation_input_token_cost",
        "output_cost_per_token",
    )
    return {
        "litellm_provider": provider,
        "mode": "chat",
        "max_input_tokens": window,
        "max_output_tokens": max_output,
        **{name: cost / 1_000_000 for name, cost in zip(names, costs, strict=True) if cost is not None},
    }


SHORT: dict[str, dict[str, Any]] = {
    "deepseek/deepseek-chat": _entry("deepseek", (0.28, 0.028, None, 0.42), 131_072, 8_192),
    "deepseek/deepseek-reasoner": _entry("deepseek", (0.28, 0.028, None, 0.42), 131_072, 65_536),
    "gpt-4o-2024-08-06": _entry("openai", (2.5, 1.25, None, 10), 128_000, 16_384),
    "gpt-5-mini": _entry("openai", (0.25, 0.025, None, 2), 272_000, 128_000),
    "gpt-5.3-codex": _entry("openai", (1.75, 0.175, None, 14), 272_000, 128_000),
    "gpt-5.4": _entry("openai", (2.5, 0.25, None, 15), 1_050_000, 128_000),
    "gpt-5.5": _entry("openai", (5, 0.5, None, 30), 1_050_000, 128_000),
    "gpt-5.6": _entry("openai", (4, 0.4, 5, 20), 922_000, 128_000),
    "anthropic.claude-3-5-haiku-20241022-v1:0": _entry("bedrock", (0.8, 0.08, 1, 4), 200_000, 8_192),
    "anthropic.claude-sonnet-4-20250514-v1:0": _entry("bedrock_converse", (3, 0.3, 3.75, 15), 200_000, 64_000),
    "claude-opus-4-5": _entry("anthropic", (5, 0.5, 6.25, 25), 200_000, 64_000),
    "claude-haiku-4-5": _entry("anthropic", (1, 0.1, 1.25, 5), 200_000, 64_000),
    "claude-opus-5-5": _entry("anthropic", (4, 0.2, 5, 20), 1_000_000, 128_000),
    "claude-sonnet-5-5": _entry("anthropic", (2, 0.1, 2.5, 10), 1_000_000, 128_000),
    "claude-haiku-5-5": _entry("anthropic", (0.1, 0.01, 0.125, 0.5), 1_000_000, 128_000),
    "moonshot/kimi-k2.6": _entry("moonshot", (0.95, 0.16, None, 4), 262_144, 262_144),
    "moonshot/kimi-k2.7-code": _entry("moonshot", (0.95, 0.19, None, 4), 262_144, 262_144),
    "zai/glm-5.1": _entry("zai", (1.4, 0.26, None, 4.4), 200_000, 128_000),
    "zai/glm-5.3-flash": _entry("zai", (0.15, 0.03, None, 0.5), 1_048_576, 128_000),
}
"""The models of the recorded sessions that this project is tested on (as far as litellm's table still has them), those
of the paper, and those of the clients that the proxy is tested with."""

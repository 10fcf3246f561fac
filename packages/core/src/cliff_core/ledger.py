"""What each request of a session sends, what of it a prefix cache already holds, and what that costs.

**Cached** is the longest common prefix with the request before: the fixed part (system prompt, tool
schemas) first, then whole equal messages, then the common beginning of the first message that differs
(so a block that was appended to the task leaves the task in the cache). The provider's rules then
apply: nothing below a least length, and a granularity (`CacheRules`). Lifetimes are left out: a
cache entry is taken to live until the next request. Only the request before counts, so two policies
never warm each other's cache.

**Cost** is the cost of input. Output tokens are what the session's model wrote, the same under every
policy. A cached token costs the cached price; any other costs the price of a cache write where a
provider has one and the request is long enough to be cached (Anthropic: 1.25 times input, since agents
set a cache breakpoint at the end of each request), else the input price. Prices are dollars per
million tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cliff_core import prices, tokens
from cliff_core.block import MESSAGE_TOKENS
from cliff_core.config import CACHE_PRICE_RATIO
from cliff_core.content import Message, counted
from cliff_core.dialects import Dialect
from cliff_core.sequences import common


class Meter:
    """Counts messages of one session, each text once, in the provider's tokens.

    `ratio` is the provider's tokens per token of our vocabulary (`replay.measure`); it applies to texts, not
    to what is known otherwise (images, encrypted reasoning, the frame of a message). `count_many` is what
    a `Compactor` of the same session is given, so that its decisions are made in the same tokens."""

    def __init__(self, dialect: Dialect, ratio: float = 1.0, counts: dict[str, int] | None = None) -> None:
        self.dialect = dialect
        self.ratio = ratio
        self._counts: dict[str, int] = {} if counts is None else counts
        # By identity; the message itself is kept, so that no other can get its identity.
        self._parsed: dict[int, tuple[Any, Message]] = {}

    def corrected(self, ratio: float) -> Meter:
        """A meter of the same session with another ratio. Nothing is counted again."""
        return Meter(self.dialect, ratio, self._counts)

    def read(self, messages: Sequence[Any]) -> None:
        """Parse and count messages all at once: faster than one by one."""
        new = [message for message in messages if id(message) not in self._parsed]
        # (A policy's own messages are in no format.)
        parsed = [message if isinstance(message, Message) else self.dialect.parse(message) for message in new]
        parts = [counted(content.contents) for content in parsed]
        self._raw([text for texts, _ in parts for text in texts])
        for message, content, (texts, known) in zip(new, parsed, parts, strict=True):
            total = MESSAGE_TOKENS + known + sum(self.count_many(texts))
            self._parsed[id(message)] = (message, content.with_tokens(total))

    def parsed(self, message: Any) -> Message:
        """The contents of a message, counted."""
        if id(message) not in self._parsed:
            self.read([message])
        return self._parsed[id(message)][1]

    def tokens(self, message: Any) -> int:
        """Tokens of a message, corrected."""
        return self.parsed(message).tokens

    def raw(self, message: Any) -> tuple[int, int]:
        """Tokens of its texts in our vocabulary, and the tokens that no ratio applies to."""
        texts, known = counted(self.parsed(message).contents)
        return sum(self._raw(texts)), MESSAGE_TOKENS + known

    def count_many(self, texts: Sequence[str]) -> list[int]:
        """Tokens of texts, corrected. A text that has any keeps at least one."""
        counts = self._raw(texts)
        if self.ratio == 1.0:
            return counts
        return [max(1, round(count * self.ratio)) if count else 0 for count in counts]

    def _raw(self, texts: Sequence[str]) -> list[int]:
        new = [text for text in dict.fromkeys(texts) if text not in self._counts]
        if new:
            self._counts.update(zip(new, tokens.count_many(new), strict=True))
        return [self._counts[text] for text in texts]


@dataclass(frozen=True, slots=True)
class CacheRules:
    """A provider's rules for its prefix cache, in tokens."""

    least: int = 0
    """A shorter prefix is not cached (OpenAI and Anthropic: 1 024 for most models)."""
    step: int = 1
    """Cached prefixes are multiples of this (OpenAI: 128, DeepSeek: 64)."""

    def held(self, prefix: int) -> int:
        """Tokens of a common prefix that are found in the cache."""
        return prefix - prefix % self.step if prefix >= self.least else 0


@dataclass(frozen=True, slots=True)
class Tariff:
    """Dollars per million input tokens."""

    input: float
    cached: float
    write: float | None = None
    """Price of a token that is written to the cache; None: no price of its own."""
    source: str = ""
    """Where the figures come from, for people."""
    relative: bool = False
    """No dollars: only the shares of two costs mean something."""
    output: float | None = None
    """Price of what a model answers to an auxiliary request; None: `OUTPUT_FACTOR` times input."""

    @property
    def answer(self) -> float:
        """Price of output."""
        return OUTPUT_FACTOR * self.input if self.output is None else self.output

    @property
    def cache_price_ratio(self) -> float:
        """That option of a compaction (`Price.cache_price_ratio`)."""
        return prices.price_ratio(self.input if self.write is None else self.write, self.cached)


OUTPUT_FACTOR = 5.0
"""Output costs so many times input where its price is not known: what Anthropic takes; others take 4 to 8 times."""

RELATIVE = Tariff(
    1.0,
    1.0 / CACHE_PRICE_RATIO,
    source="no price is known; --model or --price-input sets one",
    relative=True,
)
"""Where no price is known."""


class UnknownPriceError(ValueError):
    """A model was named whose price is not known; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Pricing:
    """What was asked for: a model's name, or prices; and cache rules other than the provider's."""

    model: str | None = None
    """In place of the session's own."""
    input: float | None = None
    cached: float | None = None
    """With `input` alone, a cached token costs a fifth of it."""
    write: float | None = None
    output: float | None = None
    least: int | None = None
    step: int | None = None

    def of(self, model: str | None) -> tuple[Tariff, CacheRules, prices.Model | None]:
        """Prices and cache rules of a session whose model is `model`, and what else is known of that model.

        Raises UnknownPriceError where a model was asked for and there is no price for it."""
        known = prices.lookup(self.model or model or "")
        if self.input is not None:
            cached, source = self.cached, "as given"
            if cached is None:
                cached, source = self.input / 5, "as given; cached taken as one fifth of input"
            tariff = Tariff(self.input, cached, self.write, source, output=self.output)
        elif known is not None and known.price is not None:
            price = known.price
            cached = price.input if price.cached is None else price.cached
            tariff = Tariff(price.input, cached, price.cache_write, price.source, output=price.output)
        elif self.model is not None:
            raise UnknownPriceError(
                f"no price is known for the model {self.model!r}; give --price-input and --price-cached instead"
            )
        else:
            tariff = RELATIVE
        least, step = self.least, self.step
        if known is not None:
            least = known.cache_min_tokens if least is None else least
            step = known.cache_step_tokens if step is None else step
        return tariff, CacheRules(least or 0, step or 1), known


@dataclass(frozen=True, slots=True)
class Entry:
    """One request, in tokens."""

    tokens: int
    """The whole request."""
    cached: int
    """What of it the cache held."""
    written: bool = True
    """Whether it is long enough to be written to the cache."""
    output: int = 0
    """What the model answered, where that is charged: auxiliary requests."""

    @property
    def uncached(self) -> int:
        return self.tokens - self.cached

    def cost(self, tariff: Tariff) -> float:
        """Dollars (see the head of this module)."""
        price = tariff.write if self.written and tariff.write is not None else tariff.input
        return (self.cached * tariff.cached + self.uncached * price + self.output * tariff.answer) / 1_000_000


class Account:
    """Sums over the requests of a session."""

    entries: Sequence[Entry]
    auxiliary: Sequence[Entry]

    @property
    def input_tokens(self) -> int:
        """Tokens sent, in auxiliary requests too."""
        return sum(entry.tokens for entry in (*self.entries, *self.auxiliary))

    @property
    def cached_tokens(self) -> int:
        """What of them the cache held."""
        return sum(entry.cached for entry in (*self.entries, *self.auxiliary))

    @property
    def peak_tokens(self) -> int:
        """Tokens of the largest request of the session itself."""
        return max((entry.tokens for entry in self.entries), default=0)

    def cost(self, tariff: Tariff) -> float:
        """Dollars of input, and of what auxiliary requests were answered."""
        return sum(entry.cost(tariff) for entry in (*self.entries, *self.auxiliary))


class Ledger(Account):
    """The requests of one session under one policy. Work per request: one comparison of the lists, which
    stops at identity, and counting from the first difference on."""

    entries: list[Entry]
    auxiliary: list[Entry]

    def __init__(self, meter: Meter, rules: CacheRules | None = None) -> None:
        self.entries, self.auxiliary = [], []
        self._meter = meter
        self._rules = rules or CacheRules()
        self._messages: list[Any] = []
        self._sums = [0]  # of the first n messages of the last request
        self._fixed: int | None = None

    def enter(self, messages: Sequence[Any], fixed_tokens: int = 0) -> Entry:
        """Note a request of `messages` after a fixed part of `fixed_tokens`."""
        messages = list(messages)
        same, prefix = self._prefix(messages, fixed_tokens)
        del self._sums[same + 1 :]
        for message in messages[same:]:
            self._sums.append(self._sums[-1] + self._meter.tokens(message))
        self._messages, self._fixed = messages, fixed_tokens
        entry = self._entry(fixed_tokens + self._sums[-1], prefix)
        self.entries.append(entry)
        return entry

    def assist(self, messages: Sequence[Any], output: str, fixed_tokens: int = 0) -> Entry:
        """Note an auxiliary request that was answered with `output`."""
        messages = list(messages)
        same, prefix = self._prefix(messages, fixed_tokens)
        total = fixed_tokens + self._sums[same] + sum(map(self._meter.tokens, messages[same:]))
        entry = self._entry(total, prefix, sum(self._meter.count_many([output])))
        self.auxiliary.append(entry)
        return entry

    def _prefix(self, messages: list[Any], fixed_tokens: int) -> tuple[int, int]:
        """What a request shares with the one before: whole messages, and tokens."""
        same = common(self._messages, messages)
        if fixed_tokens != self._fixed:  # the fixed part comes first: a change leaves nothing in the cache
            return same, 0
        prefix = fixed_tokens + self._sums[same]
        if same < min(len(messages), len(self._messages)):
            prefix += self._beginning(self._messages[same], messages[same])
        return same, prefix

    def _entry(self, total: int, prefix: int, output: int = 0) -> Entry:
        return Entry(total, min(self._rules.held(prefix), total), total >= self._rules.least, output)

    def _beginning(self, one: Any, other: Any) -> int:
        """Tokens of the common beginning of the texts of two messages that differ."""
        first, second = self._meter.parsed(one), self._meter.parsed(other)
        if first.role != second.role:
            return 0
        found = 0
        for text, its in zip(counted(first.contents)[0], counted(second.contents)[0], strict=False):
            length = common(text, its)
            found += sum(self._meter.count_many([text[:length]]))
            if length < max(len(text), len(its)):
                break
        return found

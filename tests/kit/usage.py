"""What a request costs: the tokens of its prompt, and those of them that a prompt cache holds.

The prompt is a sequence of segments in the order in which a model reads it: tools, system prompt,
messages. `PromptCache` remembers the segments of earlier prompts and finds the longest common
prefix. Cache markers are no part of a prompt; a string and a list of one text are the same text.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

Count = Callable[[str], int]

IMAGE_TOKENS = 1568
"""For each image, and each document that is no text."""


def quarter(text: str) -> int:
    """A token for four characters: the default count, which depends on no code under test."""
    return len(text) // 4


@dataclass(frozen=True)
class Usage:
    """Tokens of one request."""

    input: int = 0
    """The whole prompt, cached parts included."""
    cached: int = 0
    """Read from the cache."""
    written: int = 0
    """Written to the cache, where the provider charges for it (`CacheRules.breakpoints`)."""
    output: int = 0
    """Everything the model wrote, its reasoning included."""
    reasoning: int = 0


@dataclass(frozen=True)
class CacheRules:
    """How a provider caches prompts. The defaults cache all of the common prefix.

    OpenAI: `minimum=1024, step=128`. Anthropic: `minimum=1024, breakpoints=True`.
    """

    minimum: int = 0
    """Shorter prefixes are not cached."""
    step: int = 1
    """A cached prefix is a multiple of so many tokens."""
    breakpoints: bool = False
    """Only prefixes that end at a `cache_control` marker are written, and they are found from a
    marker at most 20 segments later, as Anthropic documents it."""
    enabled: bool = True


@dataclass(frozen=True)
class Segment:
    """A piece of a prompt. Two segments are the same if their texts are."""

    text: str
    extra: int = 0
    """Tokens of what is no text."""
    marker: bool = False
    """A cache breakpoint lies at its end."""


def segments(body: Mapping[str, Any], items: Sequence[Any] | None = None) -> list[Segment]:
    """The prompt of a request to any of the three APIs; `items` replaces its messages."""
    found = [Segment(_json(_unmarked(tool)), marker=_marked(tool)) for tool in body.get("tools") or []]
    system = body.get("system") or body.get("instructions")
    if system:
        found += _message({"role": "system", "content": system})
    for item in messages(body) if items is None else items:
        found += _message(item)
    if found and _marked(body):  # Anthropic's automatic caching: a marker at the end
        found[-1] = replace(found[-1], marker=True)
    return found


def messages(body: Mapping[str, Any]) -> list[Any]:
    """The messages of a request; a plain string (Responses) is one user message."""
    items = body.get("input") if "input" in body else body.get("messages")
    if isinstance(items, str):
        return [{"role": "user", "content": items}]
    return list(items) if isinstance(items, list) else []


def _message(item: Any) -> list[Segment]:
    """A segment for each part of the content, and one for all other keys."""
    if not isinstance(item, Mapping):
        return [Segment(str(item))]
    label = str(item.get("role") or item.get("type") or "")
    content = item.get("content")
    parts = list(content) if isinstance(content, list) else [content] if content else []
    skipped = {"role", "content", "cache_control", "id", "status", "type"}
    rest = {key: value for key, value in item.items() if key not in skipped and value is not None}
    found: list[Segment] = []
    for part in [*parts, rest] if rest else parts:
        text, extra = _flat(part)
        found.append(Segment(f"{label}\n{text}" if not found else text, extra, _marked(part)))
    if not found:
        found.append(Segment(f"{label}\n"))
    if _marked(item):
        found[-1] = replace(found[-1], marker=True)
    return found


def _flat(value: Any) -> tuple[str, int]:
    """The words of a value, and the tokens of its media and of what is encrypted in it."""
    texts: list[str] = []
    extra = 0

    def visit(value: Any, key: str = "") -> None:
        nonlocal extra
        if value is None:
            return
        if key in {"input", "parameters", "input_schema", "schema"} and not isinstance(value, str):
            texts.append(_json(value))  # the order of its keys is the model's
        elif isinstance(value, Mapping):
            if _is_media(value):
                texts.append(f"<{value.get('type')} {_digest(_json(_unmarked(value)))}>")
                extra += IMAGE_TOKENS
                return
            kind = value.get("type")
            if kind not in (None, "text", "input_text", "output_text"):
                texts.append(str(kind))
            for name in sorted(value):
                if name not in {"type", "cache_control", "annotations", "logprobs"}:
                    visit(value[name], name)
        elif isinstance(value, list):
            for part in value:
                visit(part)
        elif key in {"encrypted_content", "signature", "data"} and isinstance(value, str):
            texts.append(f"<{key} {_digest(value)}>")
            extra += 0 if key == "signature" else len(value) // 20
        else:
            texts.append(value if isinstance(value, str) else _json(value))

    visit(value)
    return "\n".join(texts), extra


def _is_media(value: Mapping[str, Any]) -> bool:
    if value.get("type") in ("image", "image_url", "input_image", "input_file", "file"):
        return True
    source = value.get("source")
    return value.get("type") == "document" and not (isinstance(source, Mapping) and source.get("type") == "text")


def _marked(value: Any) -> bool:
    """Whether a cache marker stands on it, or on a part of it (a tool result's last text)."""
    if not isinstance(value, Mapping):
        return False
    content = value.get("content")
    inner = content if value.get("type") == "tool_result" and isinstance(content, list) else []
    return bool(value.get("cache_control")) or any(_marked(part) for part in inner)


def _unmarked(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: v for k, v in value.items() if k != "cache_control"}
    return value


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


class _Node(dict[str, "_Node"]):
    """What followed a prefix, in all prompts that had it."""


class PromptCache:
    """Counts the tokens of prompts and finds what earlier ones had in common with them."""

    def __init__(self, count: Count = quarter, rules: CacheRules | None = None) -> None:
        self.rules = rules or CacheRules()
        self._count = count
        self._counts: dict[str, int] = {}
        self._prefixes: dict[str, _Node] = {}
        self._written: dict[str, set[str]] = {}

    def tokens(self, prompt: Iterable[Segment]) -> int:
        """The tokens of a prompt."""
        return sum(self._tokens(segment) for segment in prompt)

    def use(self, prompt: Sequence[Segment], model: str = "") -> Usage:
        """What an answered prompt costs. Later prompts to the same model find it in the cache."""
        total = self.tokens(prompt)
        if not self.rules.enabled:
            return Usage(input=total)
        if self.rules.breakpoints:
            cached, written = self._at_breakpoints(prompt, model)
        else:
            cached, written = self._rounded(self._common(prompt, model)), 0
        self._remember(prompt, model)
        return Usage(input=total, cached=cached, written=written)

    def _tokens(self, segment: Segment) -> int:
        if segment.text not in self._counts:
            self._counts[segment.text] = self._count(segment.text)
        return self._counts[segment.text] + segment.extra

    def _rounded(self, tokens: int) -> int:
        return tokens // self.rules.step * self.rules.step if tokens >= self.rules.minimum else 0

    def _common(self, prompt: Sequence[Segment], model: str) -> int:
        node, tokens = self._prefixes.get(model, _Node()), 0
        for segment in prompt:
            if segment.text not in node:
                common = max((common_prefix(segment.text, text) for text in node), default=0)
                return tokens + self._count(segment.text[:common])
            node, tokens = node[segment.text], tokens + self._tokens(segment)
        return tokens

    def _remember(self, prompt: Sequence[Segment], model: str) -> None:
        node = self._prefixes.setdefault(model, _Node())
        for segment in prompt:
            node = node.setdefault(segment.text, _Node())

    def _at_breakpoints(self, prompt: Sequence[Segment], model: str) -> tuple[int, int]:
        written = self._written.setdefault(model, set())
        sums, names, chain = [0], [""], hashlib.sha256()
        for segment in prompt:
            sums.append(sums[-1] + self._tokens(segment))
            chain.update(segment.text.encode("utf-8", "surrogatepass") + b"\0")
            names.append(chain.hexdigest())
        marks = [end for end, segment in enumerate(prompt, 1) if segment.marker]
        marks = [end for end in marks if sums[end] >= self.rules.minimum]
        hits = [end for mark in marks for end in range(mark, max(mark - 20, 0), -1) if names[end] in written]
        hit = max(hits, default=0)
        written.update(names[mark] for mark in marks)
        last = max(marks, default=0)
        return sums[hit], max(sums[last] - sums[hit], 0)


def common_prefix(one: str, other: str) -> int:
    """How many characters two texts have in common at their beginning."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low

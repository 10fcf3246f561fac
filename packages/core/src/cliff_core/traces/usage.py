"""What providers and hosts call tokens, as `Usage`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cliff_core.traces.session import Usage


def usage(reported: Any) -> Usage | None:
    """The usage object of an OpenAI, litellm, DeepSeek or Anthropic response; None if it says nothing.

    Chat Completions (`prompt_tokens`) and Responses (`input_tokens`, `input_tokens_details`) count cached tokens
    into the prompt; Anthropic's `input_tokens` are what was neither read from nor written to its cache."""
    if not isinstance(reported, Mapping):
        return None
    if "prompt_tokens" in reported or "prompt_cache_hit_tokens" in reported:
        details = reported.get("prompt_tokens_details")
        cached = _first(
            count(details, "cached_tokens"),
            count(reported, "cache_read_input_tokens"),
            count(reported, "prompt_cache_hit_tokens"),
        )
        prompt = count(reported, "prompt_tokens")
        if prompt is None:
            prompt = (cached or 0) + (count(reported, "prompt_cache_miss_tokens") or 0)
        written = _first(count(reported, "cache_creation_input_tokens"), count(details, "cache_creation_tokens"))
        completion = reported.get("completion_tokens_details")
        return total(
            prompt, cached, written, count(reported, "completion_tokens"), count(completion, "reasoning_tokens")
        )
    if "input_tokens_details" in reported:
        return total(
            count(reported, "input_tokens"),
            count(reported.get("input_tokens_details"), "cached_tokens"),
            None,
            count(reported, "output_tokens"),
            count(reported.get("output_tokens_details"), "reasoning_tokens"),
        )
    read = count(reported, "cache_read_input_tokens")
    written = count(reported, "cache_creation_input_tokens")
    fresh = count(reported, "input_tokens")
    if fresh is None and read is None and written is None:
        return None
    prompt = (fresh or 0) + (read or 0) + (written or 0)
    return total(prompt, read, written, count(reported, "output_tokens"), None)


def total(
    prompt: int | None, cached: int | None, written: int | None, output: int | None, reasoning: int | None
) -> Usage | None:
    """None where no prompt was counted: a request that was aborted before it was answered."""
    if not prompt:
        return None
    return Usage(prompt, cached, written, output, reasoning)


def count(reported: Any, key: str) -> int | None:
    """A number of tokens, where there is one."""
    value = reported.get(key) if isinstance(reported, Mapping) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _first(*counts: int | None) -> int | None:
    return next((found for found in counts if found is not None), None)

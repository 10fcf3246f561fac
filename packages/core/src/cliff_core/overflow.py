"""Which errors say that a prompt was too long: one table of the providers' wordings.

Nothing here knows a host or a client library: `find` takes texts and a status. The wordings are those of
`facts/mini-swe-agent.md` and of `tests/kit/wordings.py`, which names a source for each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

TEXT_CHARS = 4_000
"""Characters of an error that are read: some clients append the whole request."""

_WORDINGS = (
    # OpenAI, vLLM, DeepSeek, OpenRouter, Mistral, LiteLLM's proxy
    r"maximum context length (?:is|of) (?P<limit>[\d,]+)",
    r"too large for model with (?P<limit>[\d,]+) maximum context length",
    r"context_length_exceeded",
    r"input tokens exceed the configured limit of (?P<limit>[\d,]+)",
    r"exceeds the context window",
    r"reduce the length of the (?:input )?(?:messages|prompt)(?:.*?while limit is (?P<limit>[\d,]+))?",
    r"max_tokens must be at least 1, got -\d",
    # Anthropic, Vertex
    r"prompt is too long(?:: [\d,]+ tokens > (?P<limit>[\d,]+))?",
    r"exceed context limit: [\d,]+ \+ (?P<output>[\d,]+) > (?P<limit>[\d,]+)",
    r"request_too_large|request exceeds the maximum size",
    # Gemini, Bedrock, xAI, Copilot
    r"exceeds the maximum number of tokens allowed \((?P<limit>[\d,]+)\)",
    r"input is too long for requested model",
    r"maximum prompt length is (?P<limit>[\d,]+)",
    r"model_max_prompt_tokens_exceeded|prompt token count of [\d,]+ exceeds the limit of (?P<limit>[\d,]+)",
    # llama.cpp, LM Studio, Ollama, SGLang, Together, TGI
    r"exceeds the available context size(?: \((?P<limit>[\d,]+) tokens\))?",
    r"context the overflows(?:.*?context length of only (?P<limit>[\d,]+))?",
    r"exceeded max context length",
    r"longer than the model's context length \((?P<limit>[\d,]+)",
    r"`max_new_tokens` must be <= (?P<limit>[\d,]+)(?:.*?and (?P<output>[\d,]+) `max_new_tokens`)?",
    # Moonshot, MiniMax, DashScope
    r"exceeded model token limit(?:: (?P<limit>[\d,]+))?",
    r"context window exceeds limit",
    r"range of input length should be \[\d+, (?P<limit>[\d,]+)\]",
)
_FOR_ANSWER = re.compile(r"(?P<output>[\d,]+) in the (?:completion|output)", re.IGNORECASE)

_TOO_LARGE_FOR_RATE = re.compile(
    r"request too large for .*?tokens per min.*?limit (?P<limit>[\d,]+)", re.IGNORECASE | re.DOTALL
)
"""The one rate limit that waiting does not lift: a single request above the limit of a minute."""

_PATTERNS = tuple(re.compile(wording, re.IGNORECASE | re.DOTALL) for wording in _WORDINGS)


@dataclass(frozen=True, slots=True)
class Rejection:
    """A prompt was too long."""

    limit: int | None = None
    """Tokens that a prompt may have, where the provider says so (what it reserves for the answer is off)."""


def find(text: str, status: int | None = None) -> Rejection | None:
    """What the text of an error says of the prompt's length; None if it is another error."""
    text = text[:TEXT_CHARS]
    if match := _TOO_LARGE_FOR_RATE.search(text):
        return Rejection(_number(match.group("limit")))
    if status == 429:
        return None
    found = [match for pattern in _PATTERNS if (match := pattern.search(text))]
    if not found:
        return Rejection() if status == 413 else None
    for match in found:
        figures = match.groupdict()
        limit = _number(figures.get("limit"))
        if limit is not None:
            answer = _number(figures.get("output"))
            if answer is None and (beside := _FOR_ANSWER.search(text)):
                answer = _number(beside.group("output"))
            return Rejection(limit - (answer or 0) if limit > (answer or 0) else limit)
    return Rejection()


def _number(text: str | None) -> int | None:
    digits = (text or "").replace(",", "")
    return int(digits) if digits else None


_STATUS = re.compile(r"\bHTTP (\d{3})\b")  # mini-swe-agent's OpenRouter and Requesty classes: `HTTP 413: …`


def rejection(error: BaseException) -> Rejection | None:
    """`find` for an exception of any client library: its class, its text, and those that it came from."""
    classified = False
    for cause in _chain(error):
        classified |= any(kind.__name__ == "ContextWindowExceededError" for kind in type(cause).__mro__)
        text = f"{cause} {getattr(cause, 'body', '') or ''}"
        status = getattr(cause, "status_code", None)
        if not isinstance(status, int):
            said = _STATUS.search(text[:TEXT_CHARS])
            status = int(said.group(1)) if said else None
        found = find(text, status)
        if found is not None:
            return found
    return Rejection() if classified else None


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The exception and what it was raised from or while handling, the newest first."""
    seen: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in seen and len(seen) < 5:
        seen.append(cause)
        yield cause
        cause = cause.__cause__ or cause.__context__

"""The table of overflow wordings, against the test kit's one."""

import json
from typing import Any

import pytest

from cliff_core.overflow import Rejection, find, rejection
from kit import WORDINGS
from kit.wordings import Numbers

NO_LIMIT = {
    *("openai-responses", "openai-responses-stream", "anthropic-bytes", "vllm-max-tokens", "bedrock"),
    *("llama.cpp-old", "ollama", "groq", "no-body", "minimax"),
}
"""Wordings that do not say what the model takes."""


@pytest.mark.parametrize("name", WORDINGS)
def test_each_wording_and_its_limit(name: str) -> None:
    wording = WORDINGS[name]
    body = wording.body(Numbers(tokens=9_100, limit=8_000, output=500))
    text = body if isinstance(body, str) else json.dumps(body)
    found = find(text, wording.status)
    says_output = name in {"anthropic-max-tokens", "vllm-old", "openrouter", "deepseek", "tgi"}
    assert found == Rejection(None if name in NO_LIMIT else 7_500 if says_output else 8_000)


@pytest.mark.parametrize(
    "text",
    [
        "Rate limit reached for gpt-5 on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000.",
        "Quota exceeded for quota metric 'input_token_count', limit: 250000",
        "max_tokens is too large: 100000. This model supports at most 16384 completion tokens.",
        "Invalid 'messages': expected an array of at least one message.",
        "Connection error.",
        "",
    ],
)
@pytest.mark.parametrize("status", [None, 400, 429, 500])
def test_other_errors(text: str, status: int | None) -> None:
    assert find(text, status) is None


def test_a_rate_limit_is_none_whatever_else_it_says() -> None:
    assert find("Please reduce the length of the messages.", 429) is None
    assert find("Please reduce the length of the messages.", 400) == Rejection()


class Provider(Exception):  # noqa: N818
    def __init__(self, text: str, **more: Any) -> None:
        super().__init__(text)
        self.__dict__.update(more)


def test_exceptions() -> None:
    assert rejection(Provider("Bad request", body={"error": {"code": "context_length_exceeded"}})) == Rejection()
    assert rejection(Provider("", status_code=413)) == Rejection()
    assert rejection(Provider("HTTP 413: ")) == Rejection()
    assert rejection(Provider("HTTP 400: something")) is None
    named = type("ContextWindowExceededError", (Exception,), {})("in words that nobody knows")
    assert rejection(named) == Rejection()
    outer = RuntimeError("the gateway failed")
    outer.__cause__ = Provider("maximum context length is 8,000 tokens")
    assert rejection(outer) == Rejection(8_000)

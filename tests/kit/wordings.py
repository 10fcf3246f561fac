"""How each provider rejects a prompt that does not fit: status, body, and who reported it.

Bodies differ even among "OpenAI-compatible" servers. `source` names a public report
(repository#number), `pi`'s list of patterns (earendil-works/pi, packages/ai/src/utils/overflow.ts)
or, as `unconfirmed`, common knowledge.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Numbers:
    """What a wording may quote."""

    tokens: int
    """Of the prompt."""
    limit: int
    output: int
    """`max_tokens` of the request; 0 if it has none."""

    @property
    def total(self) -> int:
        return self.tokens + self.output


@dataclass(frozen=True)
class Wording:
    """One way to reject."""

    body: Callable[[Numbers], Any]
    """The JSON body; a string is sent as it stands."""
    source: str
    status: int = 400
    counts_output: bool = False
    """The limit holds for prompt and `max_tokens` together."""
    in_stream: bool = False
    """A client that streams gets 200 and the error as an event."""


def _openai(message: str, kind: str | None = "invalid_request_error", **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": None} | more}


def _anthropic(message: str, kind: str = "invalid_request_error") -> dict[str, Any]:
    error = {"type": kind, "message": message}
    return {"type": "error", "error": error, "request_id": "req_0"}


def _gemini(n: Numbers) -> dict[str, Any]:
    message = f"The input token count ({n.tokens}) exceeds the maximum number of tokens allowed ({n.limit})."
    return {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}


RESPONSES_MESSAGE = "Your input exceeds the context window of this model. Please adjust your input and try again."


def _responses(_: Numbers) -> dict[str, Any]:
    return _openai(RESPONSES_MESSAGE, param="input", code="context_length_exceeded")


WORDINGS: dict[str, Wording] = {
    "openai": Wording(
        lambda n: _openai(
            f"This model's maximum context length is {n.limit} tokens. However, your messages "
            f"resulted in {n.tokens} tokens. Please reduce the length of the messages.",
            param="messages",
            code="context_length_exceeded",
        ),
        "chathub-dev/chathub#126",
    ),
    "openai-configured": Wording(
        lambda n: _openai(
            f"Input tokens exceed the configured limit of {n.limit} tokens. Your messages resulted "
            f"in {n.tokens} tokens. Please reduce the length of the messages.",
            param="messages",
            code="context_length_exceeded",
        ),
        "archi-physics/archi#497",
    ),
    "openai-rate": Wording(
        lambda n: _openai(
            f"Request too large for gpt-5 in organization org-0 on tokens per min (TPM): Limit "
            f"{n.limit}, Requested {n.tokens}. The input or output tokens must be reduced in order "
            "to run successfully.",
            "tokens",
            code="rate_limit_exceeded",
        ),
        "unconfirmed (the status 413 with this code: facts/mini-swe-agent.md)",
        status=413,
    ),
    "openai-responses": Wording(_responses, "maximhq/bifrost#4413, onyx-dot-app/onyx#6051"),
    "openai-responses-stream": Wording(_responses, "openai/codex#4675", in_stream=True),
    "anthropic": Wording(
        lambda n: _anthropic(f"prompt is too long: {n.tokens} tokens > {n.limit} maximum"),
        "anthropics/claude-code#11281",
    ),
    "anthropic-max-tokens": Wording(
        lambda n: _anthropic(
            f"input length and `max_tokens` exceed context limit: {n.tokens} + {n.output} > "
            f"{n.limit}, decrease input length or `max_tokens` and try again"
        ),
        "docker/docker-agent#569",
        counts_output=True,
    ),
    "anthropic-bytes": Wording(
        lambda n: {"error": {"type": "request_too_large", "message": "Request exceeds the maximum size"}},
        "anthropics/anthropic-sdk-python#938, anthropics/claude-code#14567",
        status=413,
    ),
    "vllm": Wording(
        lambda n: _openai(
            f"This model's maximum context length is {n.limit} tokens. However, your request has "
            f"{n.tokens} input tokens. Please reduce the length of the input messages. "
            f"(parameter=input_tokens, value={n.tokens})",
            "BadRequestError",
            param="input_tokens",
            code=400,
        ),
        "vllm-project/vllm#33425",
    ),
    "vllm-old": Wording(
        lambda n: {
            "object": "error",
            "message": f"This model's maximum context length is {n.limit} tokens. However, you "
            f"requested {n.total} tokens ({n.tokens} in the messages, {n.output} in the "
            "completion). Please reduce the length of the messages or completion.",
            "type": "BadRequestError",
            "param": None,
            "code": 400,
        },
        "vllm-project/vllm#20409, THUDM/LongBench#104",
        counts_output=True,
    ),
    "vllm-max-tokens": Wording(
        lambda n: _openai(
            f"max_tokens must be at least 1, got {n.limit - n.tokens}.",
            "BadRequestError",
            code=400,
        ),
        "vllm-project/vllm#4667",
    ),
    "sglang": Wording(
        lambda n: {
            "object": "error",
            "message": f"The input ({n.tokens} tokens) is longer than the model's context length ({n.limit} tokens).",
            "type": "BadRequestError",
            "param": None,
            "code": 400,
        },
        "QwenLM/Qwen3#1321; in a stream: sgl-project/sglang#12081",
        in_stream=True,
    ),
    "openrouter": Wording(
        lambda n: {
            "error": {
                "message": f"This endpoint's maximum context length is {n.limit} tokens. However, "
                f"you requested about {n.total} tokens ({n.tokens} of text input, {n.output} in "
                "the output). Please reduce the length of either one, or use the "
                "context-compression plugin to compress your prompt automatically.",
                "code": 400,
                "metadata": {"provider_name": None},
            },
            "user_id": "user_0",
        },
        "Aider-AI/aider#3721, RooCodeInc/Roo-Code#11998, earendil-works/pi#6378",
        counts_output=True,
    ),
    "gemini": Wording(lambda n: [_gemini(n)], "google-gemini/gemini-cli#6678"),
    "gemini-object": Wording(_gemini, "google-gemini/gemini-cli#4118"),
    "bedrock": Wording(
        lambda n: {"message": "Input is too long for requested model."},
        "aws-samples/assessment-generator#2, charmbracelet/crush#946 (shape)",
    ),
    "deepseek": Wording(
        lambda n: _openai(
            f"This model's maximum context length is {n.limit} tokens. However, you requested "
            f"{n.total} tokens ({n.tokens} in the messages, {n.output} in the completion). Please "
            "reduce the length of the messages or completion.",
            code="invalid_request_error",
        ),
        "evalstate/fast-agent#621",
        counts_output=True,
    ),
    "llama.cpp": Wording(
        lambda n: {
            "error": {
                "code": 400,
                "message": f"request ({n.tokens} tokens) exceeds the available context size "
                f"({n.limit} tokens), try increasing it",
                "type": "exceed_context_size_error",
                "n_prompt_tokens": n.tokens,
                "n_ctx": n.limit,
            }
        },
        "ggml-org/llama.cpp#15780 (shape); pi",
    ),
    "llama.cpp-old": Wording(
        lambda n: {
            "error": {
                "code": 500,
                "message": "the request exceeds the available context size. try increasing the "
                "context size or enable context shift",
                "type": "exceed_context_size_error",
                "n_prompt_tokens": n.tokens,
                "n_ctx": n.limit,
            }
        },
        "ggml-org/llama.cpp#15780",
        status=500,
    ),
    "lm-studio": Wording(
        lambda n: {
            "error": f"Trying to keep the first {n.tokens} tokens when context the overflows. "
            f"However, the model is loaded with context length of only {n.limit} tokens, which is "
            "not enough. Try to load the model with a larger context length, or provide a shorter "
            "input"
        },
        "lmstudio-ai/lmstudio-bug-tracker#546, dyad-sh/dyad#925",
    ),
    "ollama": Wording(
        lambda n: _openai(
            f"prompt too long; exceeded max context length by {n.tokens - n.limit} tokens",
            "api_error",
        ),
        "pi",
    ),
    "xai": Wording(
        lambda n: {
            "code": "Client specified an invalid argument",
            "error": f"This model's maximum prompt length is {n.limit} but the request contains {n.tokens} tokens.",
        },
        "cline/cline#3120",
    ),
    "groq": Wording(
        lambda n: _openai(
            "Please reduce the length of the messages or completion.",
            param="messages",
            code="context_length_exceeded",
        ),
        "OpenHands/OpenHands#1902, letta-ai/letta#1963",
    ),
    "cerebras": Wording(
        lambda n: {
            "message": "Please reduce the length of the messages or completion. Current length is "
            f"{n.tokens} while limit is {n.limit}",
            "type": "invalid_request_error",
            "param": "messages",
            "code": "context_length_exceeded",
        },
        "cline/cline#5140",
    ),
    "no-body": Wording(lambda n: "", "pi (Cerebras, Mistral)", status=413),
    "mistral": Wording(
        lambda n: {
            "object": "error",
            "message": f"Prompt contains {n.tokens} tokens and 0 draft tokens, too large for model "
            f"with {n.limit} maximum context length",
            "type": "invalid_request_error",
            "param": None,
            "code": "3051",
        },
        "pi; shape unconfirmed",
    ),
    "together": Wording(
        lambda n: _openai(
            f"The input ({n.tokens} tokens) is longer than the model's context length ({n.limit} tokens)."
        ),
        "pi",
    ),
    "copilot": Wording(
        lambda n: {
            "error": {
                "message": f"prompt token count of {n.tokens} exceeds the limit of {n.limit}",
                "code": "model_max_prompt_tokens_exceeded",
            }
        },
        "microsoft/vscode#289219",
    ),
    "moonshot": Wording(
        lambda n: {
            "error": {
                "message": "Invalid request: Your request exceeded model token limit: "
                f"{n.limit} (requested: {n.tokens})",
                "type": "invalid_request_error",
            }
        },
        "MoonshotAI/kimi-cli#2011",
    ),
    "minimax": Wording(
        lambda n: {
            "type": "error",
            "error": {
                "type": "bad_request_error",
                "message": "invalid params, context window exceeds limit (2013)",
                "http_code": "400",
            },
            "request_id": "req_0",
        },
        "MiniMax-AI/MiniMax-M2#119; shape unconfirmed",
    ),
    "dashscope": Wording(
        lambda n: _openai(
            f"<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, {n.limit}]",
            code="invalid_parameter_error",
        ),
        "QwenLM/qwen-code#98",
    ),
    "tgi": Wording(
        lambda n: {
            "error": f"Input validation error: `inputs` tokens + `max_new_tokens` must be <= "
            f"{n.limit}. Given: {n.tokens} `inputs` tokens and {n.output} `max_new_tokens`",
            "error_type": "validation",
        },
        "huggingface/text-generation-inference#628",
        status=422,
        counts_output=True,
    ),
    "vertex": Wording(
        lambda n: {
            "error": {
                "code": 400,
                "message": f"Prompt is too long: {n.tokens} tokens > {n.limit} maximum",
                "status": "INVALID_ARGUMENT",
            }
        },
        "unconfirmed",
    ),
    "litellm": Wording(
        lambda n: _openai(
            "litellm.ContextWindowExceededError: litellm.BadRequestError: "
            "ContextWindowExceededError: OpenAIException - Requested token count exceeds the "
            f"model's maximum context length of {n.limit} tokens.",
            None,
            code="400",
        ),
        "pi; shape unconfirmed",
    ),
}
"""By provider; a second name after a dash for a provider's other ways."""

DEFAULTS = {"chat": "openai", "anthropic": "anthropic", "responses": "openai-responses"}
"""The wording of each API where none is asked for."""


def lookup(name: str) -> Wording:
    """The wording of this name; ValueError with all names if there is none."""
    if name not in WORDINGS:
        raise ValueError(f"no wording {name!r}; there are {', '.join(sorted(WORDINGS))}")
    return WORDINGS[name]

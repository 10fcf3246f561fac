"""A prompt above the limit is rejected in each provider's words, and takes no step."""

import pytest

from kit import WORDINGS, CacheRules, Overflow, Step, client
from kit.client import PATHS, minimal
from kit.sse import read
from kit.wordings import DEFAULTS

LONG = "x" * 400  # 100 tokens, with the role's name 101


def ask(server, api="chat", text=LONG, **more):
    return client.ask(server, api, **minimal(api, text) | more)


@pytest.mark.parametrize(
    ("wording", "body"),
    [
        (
            "openai",
            {
                "error": {
                    "message": "This model's maximum context length is 50 tokens. However, your "
                    "messages resulted in 101 tokens. Please reduce the length of the messages.",
                    "type": "invalid_request_error",
                    "param": "messages",
                    "code": "context_length_exceeded",
                }
            },
        ),
        (
            "openai-responses",
            {
                "error": {
                    "message": "Your input exceeds the context window of this model. Please adjust "
                    "your input and try again.",
                    "type": "invalid_request_error",
                    "param": "input",
                    "code": "context_length_exceeded",
                }
            },
        ),
        (
            "anthropic",
            {
                "type": "error",
                "error": {
                    "type": "invalid_request_error",
                    "message": "prompt is too long: 101 tokens > 50 maximum",
                },
                "request_id": "req_0",
            },
        ),
        (
            "vllm",
            {
                "error": {
                    "message": "This model's maximum context length is 50 tokens. However, your "
                    "request has 101 input tokens. Please reduce the length of the input messages. "
                    "(parameter=input_tokens, value=101)",
                    "type": "BadRequestError",
                    "param": "input_tokens",
                    "code": 400,
                }
            },
        ),
        ("bedrock", {"message": "Input is too long for requested model."}),
        (
            "gemini",
            [
                {
                    "error": {
                        "code": 400,
                        "message": "The input token count (101) exceeds the maximum number of tokens allowed (50).",
                        "status": "INVALID_ARGUMENT",
                    }
                }
            ],
        ),
        (
            "llama.cpp",
            {
                "error": {
                    "code": 400,
                    "message": "request (101 tokens) exceeds the available context size (50 tokens), try increasing it",
                    "type": "exceed_context_size_error",
                    "n_prompt_tokens": 101,
                    "n_ctx": 50,
                }
            },
        ),
    ],
)
def test_words(model_server, wording, body):
    server = model_server(["ok"], context_limit=50, wording=wording)
    reply = ask(server)
    assert (reply.status_code, reply.json()) == (400, body)
    assert server.requests[0].rejected == "limit"
    assert server.requests[0].usage is None
    assert server.script.left == 1
    assert ask(server, text="short").status_code == 200
    server.assert_finished()


@pytest.mark.parametrize("wording", WORDINGS)
def test_every_wording(model_server, wording):
    server = model_server(["ok"], context_limit=100, wording=wording)
    reply = ask(server, stream=True, max_tokens=7)
    if WORDINGS[wording].in_stream:
        assert reply.status_code == 200
        assert "error" in next(read(reply.content)).data
    else:
        assert reply.status_code == WORDINGS[wording].status >= 400
    assert server.requests[0].rejected == "limit"


@pytest.mark.parametrize("api", PATHS)
def test_each_api_has_its_own_words(model_server, api):
    server = model_server([], context_limit=50)
    own = WORDINGS[DEFAULTS[api]]
    reply = ask(server, api)
    assert reply.status_code == 400
    assert reply.json().keys() == own.body(type("N", (), {"tokens": 1, "limit": 1})).keys()


def test_exactly_at_the_limit(model_server):
    server = model_server(["ok"], context_limit=101)
    assert ask(server).status_code == 200


def test_some_count_the_answer_too(model_server):
    server = model_server(["ok"], context_limit=110, wording="anthropic-max-tokens")
    reply = ask(server, "anthropic", max_tokens=20)
    assert reply.json()["error"]["message"].startswith(
        "input length and `max_tokens` exceed context limit: 101 + 20 > 110"
    )
    assert ask(server, "anthropic", max_tokens=5).status_code == 200


def test_a_rejected_prompt_is_not_cached(model_server):
    server = model_server(["ok"], context_limit=50)
    ask(server)
    server.context_limit = None
    ask(server)
    assert server.requests[1].usage.cached == 0


def test_responses_reject_in_the_stream(model_server):
    server = model_server([], context_limit=50, wording="openai-responses-stream")
    events = list(read(ask(server, "responses", stream=True).content))
    assert [(event.name, event.data["sequence_number"]) for event in events] == [
        ("response.created", 0),
        ("response.in_progress", 1),
        ("error", 2),
        ("response.failed", 3),
    ]
    assert events[2].data["error"]["code"] == "context_length_exceeded"
    failed = events[3].data["response"]
    assert (failed["status"], failed["error"]["code"]) == ("failed", "context_length_exceeded")
    assert ask(server, "responses").status_code == 400


def test_a_step_can_reject(model_server):
    server = model_server([Step(fault=Overflow()), Step(fault=Overflow("xai")), "ok"])
    assert "maximum context length is 100 tokens" in ask(server).json()["error"]["message"]
    assert ask(server).json()["code"] == "Client specified an invalid argument"
    assert [request.answered for request in server.requests] == [False, False]
    assert ask(server).status_code == 200


def test_the_count_is_a_parameter(model_server):
    server = model_server(["ok"], count=len, context_limit=404, cache=CacheRules(enabled=False))
    assert "405 tokens" in ask(server).json()["error"]["message"]


def test_unknown_wording(model_server):
    with pytest.raises(ValueError, match="no wording 'opnai'; there are anthropic, "):
        model_server([], wording="opnai")

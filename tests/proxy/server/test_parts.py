"""The server's parts alone: encodings, events, reports, errors, routes."""

import contextlib
import gzip
import json
import random
import zlib
from typing import Any

import brotli
import pytest
import zstandard

from cliff_core.overflow import Rejection
from cliff_proxy import bodies, errors
from cliff_proxy.bodies import CannotDecode, Decoding
from cliff_proxy.engine import Usage
from cliff_proxy.events import Splitter, data
from cliff_proxy.reports import Report
from cliff_proxy.routes import route
from cliff_proxy.settings import Settings

PACKERS = {"gzip": gzip.compress, "deflate": zlib.compress, "br": brotli.compress, "zstd": zstandard.compress}

TEXT = b"".join(b"line %d of a text\n" % n for n in range(5_000))


# --- Encodings ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "packed"),
    [
        (["gzip"], gzip.compress(TEXT)),
        (["X-GZip"], gzip.compress(TEXT[:9]) + gzip.compress(TEXT[9:])),
        (["deflate"], zlib.compress(TEXT)),
        (["deflate"], zlib.compress(TEXT)[2:-4]),
        (["br"], brotli.compress(TEXT)),
        (["zstd"], zstandard.compress(TEXT[:9]) + zstandard.compress(TEXT[9:])),
        (["gzip, identity", "br"], brotli.compress(gzip.compress(TEXT))),
        (["identity"], TEXT),
        ([], TEXT),
    ],
)
@pytest.mark.parametrize("size", [1, 7, 4096, 10**6])
def test_decoding_piece_by_piece(names: list[str], packed: bytes, size: int) -> None:
    decoding = Decoding(bodies.encodings(", ".join(names).encode()))
    found = b"".join(decoding.feed(packed[at : at + size]) for at in range(0, len(packed), size))
    assert found == TEXT
    assert decoding.complete()


@pytest.mark.parametrize("name", PACKERS)
def test_decoding_stops_at_the_limit(name: str) -> None:
    packed = PACKERS[name](bytes(10**6))
    assert bodies.decode(packed, [name], 10**6) == bytes(10**6)
    with pytest.raises(CannotDecode, match="more than 999999 bytes"):
        bodies.decode(packed, [name], 10**6 - 1)


# --- Events -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("size", [1, 2, 3, 1000])
def test_events_are_cut_out(end: bytes, size: int) -> None:
    events = [b": comment", b"event: x%sdata: {%sdata:}" % (end, end), b"data"]
    stream = b"".join(event + end + end for event in events) + b"data: rest"
    splitter = Splitter(100)
    found = [event for at in range(0, len(stream), size) for event in splitter.feed(stream[at : at + size])]
    assert found == events
    assert [data(event) for event in found] == [b"", b"{\n}", b""]
    assert splitter.last() == b"data: rest"


def test_an_event_without_end_is_given_up() -> None:
    splitter = Splitter(100)
    assert list(splitter.feed(b"x" * 101)) == []
    assert splitter.lost
    assert list(splitter.feed(b"\n\ndata: 1\n\n")) == []


# --- Reports ----------------------------------------------------------------------------------------------------------


def stream_report(api: Any, *values: Any) -> Report:
    report = Report(api, "text/event-stream", [])
    for value in values:
        report.feed(value if isinstance(value, bytes) else b"data: " + json.dumps(value).encode() + b"\n\n")
    report.end()
    return report


def test_usage_of_a_stream_is_added_up() -> None:
    start = {"input_tokens": 5, "cache_read_input_tokens": 90, "cache_creation_input_tokens": 5, "output_tokens": 1}
    report = stream_report(
        "anthropic",
        {"type": "message_start", "message": {"usage": start}},
        {"type": "message_delta", "usage": {"input_tokens": 0, "output_tokens": 40}},  # some gateways say 0
        {"type": "message_stop"},
    )
    assert report.usage == Usage(input=100, cache_read=90, cache_write=5, output=40)
    assert report.complete


def test_usage_of_each_api() -> None:
    details = {"cached_tokens": 3, "cache_write_tokens": 2}
    chat = {"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": details, "x": None, "y": True}
    assert stream_report("chat", {"choices": [], "usage": chat}).usage == Usage(9, 3, 2, 4)
    responses = {"input_tokens": 9, "output_tokens": 4, "input_tokens_details": details}
    completed = {"type": "response.completed", "response": {"usage": responses}}
    assert stream_report("responses", completed).usage == Usage(9, 3, 2, 4)


@pytest.mark.parametrize(
    "value", [b"data: {\n\n", {"usage": 5}, {"usage": {"prompt_tokens": "5"}}, {"usage": None}, [1]]
)
def test_what_reports_nothing(value: Any) -> None:
    usage = stream_report("chat", value).usage
    assert usage is None or usage == Usage(0)


def test_a_lone_surrogate_in_a_reply() -> None:
    report = Report("chat", "application/json", [])
    report.feed(b'{"choices": ["\\ud83d"], "usage": {"prompt_tokens": 5}}')
    report.end()
    assert report.usage == Usage(5)


def test_a_reply_that_is_not_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    for codings in (["gzip"], ["unknown"]):
        report = Report("chat", "text/event-stream", codings)
        report.feed(b'data: {"usage":{"prompt_tokens":5}}\n\n')
        report.end()
        assert (report.usage, report.begun) == (None, True)
    monkeypatch.setattr("cliff_proxy.reports.MAX_COPY", 10)
    report = Report("chat", "application/json", [])
    report.feed(b'{"usage":{"prompt_tokens":5}}')
    report.end()
    assert report.usage is None


REFUSED = {"error": {"message": "prompt is too long: 9 tokens > 8 maximum"}}


@pytest.mark.parametrize(
    ("before", "held"),
    [
        ([], True),
        ([b": waiting\n\n"], True),
        ([{"type": "ping"}], True),
        ([{"type": "response.created", "response": {"tools": [{"usage": {"a": 1}, "error": "x"}]}}], True),
        ([{"type": "response.created"}, {"type": "response.queued"}, {"type": "response.in_progress"}], True),
        ([{"type": "message_start", "message": {}}], False),
        ([{"choices": [{"delta": {"role": "assistant"}}]}], False),
        ([{"type": "response.output_item.added"}], False),
        ([{"type": "error", "error": {"message": "Overloaded"}}], False),
        ([b"data: [DONE]\n\n"], False),
        ([b"data: no json\n\n"], False),
    ],
)
def test_what_may_come_before_a_refusal(before: list[Any], held: bool) -> None:
    report = stream_report("responses", *before)
    assert report.begun is not held
    report = stream_report("responses", *before, REFUSED)
    assert report.rejection == (Rejection(8) if held else None)
    failed = {"type": "response.failed", "response": REFUSED}
    assert stream_report("responses", *before, failed).rejection == (Rejection(8) if held else None)


# --- Errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"error": {"message": "m", "code": "c", "param": "p", "type": "t"}}, "m\nc\nt"),
        ({"error": "e", "input": "x", "request": {"message": "x"}}, "e"),
        ([{"error": {"message": "m", "details": ["x"]}}], "m"),
        ({"detail": [{"msg": "m", "input": "x", "ctx": {"error": "x"}}]}, "m"),
        ({"error": {"message": "m", "metadata": {"raw": '{"error":{"message":"inner"}}', "x": "x"}}}, "m\ninner"),
        ("m 'input': x", "m "),
        ("{no json", "{no json"),
        ("x" * 2_000, "x" * 1_000),
        (5, ""),
    ],
)
def test_own_words(value: Any, words: str) -> None:
    assert errors.own_words(value) == words


def test_deep_errors() -> None:
    value: Any = "prompt is too long"
    for _ in range(1_000):
        value = {"error": value}
    assert errors.own_words(value) == ""
    assert errors.rejection(400, b"[" * 100_000) is None


# --- Routes -----------------------------------------------------------------------------------------------------------

ANTHROPIC, OPENAI = "https://api.anthropic.com", "https://api.openai.com"
CHATGPT = "https://chatgpt.com/backend-api/codex"
AZURE = "/openai/deployments/d/chat/completions?api-version=1"


@pytest.mark.parametrize(
    ("path", "headers", "api", "url"),
    [
        ("/v1/messages", {}, "anthropic", f"{ANTHROPIC}/v1/messages"),
        ("/v1/messages?beta=true", {}, "anthropic", f"{ANTHROPIC}/v1/messages?beta=true"),
        ("/v1/messages/", {}, "anthropic", f"{ANTHROPIC}/v1/messages/"),
        ("/messages", {}, "anthropic", f"{ANTHROPIC}/messages"),
        ("/gateway/v1/messages", {}, "anthropic", f"{ANTHROPIC}/gateway/v1/messages"),
        ("/v1/messages/count_tokens", {}, None, f"{ANTHROPIC}/v1/messages/count_tokens"),
        ("/v1/messages/batches", {}, None, f"{ANTHROPIC}/v1/messages/batches"),
        ("/v1/threads/t/messages", {}, None, f"{OPENAI}/v1/threads/t/messages"),
        ("/api/hello", {}, None, f"{ANTHROPIC}/api/hello"),
        ("/v1/complete", {}, None, f"{ANTHROPIC}/v1/complete"),
        ("/v1/completions", {}, None, f"{OPENAI}/v1/completions"),
        ("/v1/chat/completions", {}, "chat", f"{OPENAI}/v1/chat/completions"),
        ("/chat/completions", {b"x-api-key": b"k"}, "chat", f"{OPENAI}/chat/completions"),
        (AZURE, {}, "chat", OPENAI + AZURE),
        ("/v1/responses", {}, "responses", f"{OPENAI}/v1/responses"),
        ("/v1/responses/compact", {}, "responses", f"{OPENAI}/v1/responses/compact"),
        ("/v1/responses/input_tokens", {}, None, f"{OPENAI}/v1/responses/input_tokens"),
        ("/v1/responses/r1/cancel", {}, None, f"{OPENAI}/v1/responses/r1/cancel"),
        ("/v1/models", {}, None, f"{OPENAI}/v1/models"),
        ("/v1/models", {b"anthropic-version": b"1"}, None, f"{ANTHROPIC}/v1/models"),
        ("/v1/files", {b"x-api-key": b"k"}, None, f"{ANTHROPIC}/v1/files"),
        ("/", {}, None, f"{OPENAI}/"),
        ("/v1/responses", {b"chatgpt-account-id": b"a"}, "responses", f"{CHATGPT}/responses"),
        ("/responses", {b"chatgpt-account-id": b"a"}, "responses", f"{CHATGPT}/responses"),
    ],
)
def test_routes(path: str, headers: dict[bytes, bytes], api: str | None, url: str) -> None:
    found = route("POST", path, headers, Settings())
    assert (found.api, found.url) == (api, url)
    assert found.compact is ("compact" in path)
    assert route("GET", path, headers, Settings()).api is None


def test_a_gateway_gets_everything() -> None:
    settings = Settings(openai_upstream="https://gateway.example/openai/")
    found = route("POST", "/v1/responses", {b"chatgpt-account-id": b"a"}, settings)
    assert found.url == "https://gateway.example/openai/v1/responses"


def test_decoding_survives_garbage() -> None:
    """Whatever comes: it decodes or it says that it cannot."""
    chance = random.Random(0)
    for name in PACKERS:
        good = PACKERS[name](TEXT)
        for _ in range(100):
            broken = bytearray(good)
            for _ in range(3):
                broken[chance.randrange(len(broken))] = chance.randrange(256)
            with contextlib.suppress(CannotDecode):
                bodies.decode(bytes(broken), [name], 10**6)


@pytest.mark.parametrize("pieces", [1, 2, 3])
def test_what_was_glanced_at_is_read_later(pieces: int) -> None:
    start = {"type": "message_start", "message": {"usage": {"input_tokens": 7, "cache_read_input_tokens": 5}}}
    delta = {"type": "message_delta", "usage": {"output_tokens": 3}}
    data = [
        b"event: message_start\ndata: %b\n\n" % json.dumps(start).encode(),
        b"event: message_delta\ndata: %b\n\n" % json.dumps(delta).encode(),
        b'event: message_stop\ndata: {"type":"message_stop"}\n\n',
    ]
    first, *rest = [b"".join(data[: 4 - pieces]), *data[4 - pieces :]]
    report = Report("anthropic", "text/event-stream", [])
    assert report.taken(first)
    assert report.begun
    report.catch_up()
    report.catch_up()
    for piece in rest:
        report.feed(piece)
    assert report.complete
    assert report.usage == Usage(12, 5, 0, 3)
    for other in (b"event: ping\n", b"data: {}", b""):
        assert not Report("anthropic", "text/event-stream", []).taken(other)
    assert not Report("anthropic", "text/event-stream", ["gzip"]).taken(first)


def test_usage_in_each_event_is_not_kept_for_each() -> None:
    report = Report("chat", "text/event-stream", [])
    report.feed(b'data: {"choices":[]}\n\n')
    for number in range(1, 1_001):
        usage = {"prompt_tokens": 9, "completion_tokens": number}
        report.feed(b"data: %b\n\n" % json.dumps({"usage": usage}).encode())
    assert len(report._unread) == 2
    assert report.usage == Usage(9, output=1_000)

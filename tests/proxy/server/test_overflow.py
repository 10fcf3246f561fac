"""A prompt that is refused as too long: recognised in every wording, sent again shorter, and nothing else is."""

import json
import threading
from dataclasses import replace
from typing import Any

import pytest

from cliff_core.overflow import Rejection
from cliff_proxy import relay
from cliff_proxy.engine import Prepared
from kit import WORDINGS, Overflow, Status, Step, StreamError, Truncate, wire
from kit.client import PATHS, http, minimal
from kit.faults import Gzip

SHORT = "short"


def shorter_engine(scripted_engine: Any, replays: int = 1) -> Any:
    """Drops the long text, and says what it did; `replays` times."""
    engine = scripted_engine()

    def shorten(prepared: Prepared, rejection: Rejection) -> Prepared | None:
        if len(engine.rejections) > replays:
            return None
        body = json.loads(engine.calls[0].body)
        body["input" if "input" in body else "messages"] = [
            {"role": "user", "content": SHORT * (replays - len(engine.rejections) + 1)}
        ]
        return Prepared(json.dumps(body).encode(), "forced", detail=f"replay={len(engine.rejections)}")

    engine.shortens = shorten
    return engine


def ask(proxy: Any, api: str, **more: Any) -> Any:
    return http.post(proxy.url + PATHS[api], json={**minimal(api, "words " * 200), **more})


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", WORDINGS)
def test_every_wording(model_server: Any, start_proxy: Any, scripted_engine: Any, name: str, stream: bool) -> None:
    api = {"anthropic": "anthropic", "openai-responses": "responses"}.get(name.removesuffix("-stream"), "chat")
    server = model_server([Step(fault=Overflow(name)), Step("fits")])
    proxy = start_proxy(server, shorter_engine(scripted_engine))
    reply = ask(proxy, api, stream=stream)
    first, second = server.requests
    assert first.rejected == "limit"
    assert second.messages == [{"role": "user", "content": SHORT}]
    assert reply.status_code == 200
    assert reply.headers["x-cliff"] == "forced; replay=1"
    assert reply.content == second.reply.body  # nothing of the refusal
    (rejection,) = proxy.engine.rejections
    assert rejection.limit is None or rejection.limit > 0
    assert len(proxy.answers) == 1


@pytest.mark.parametrize("api", PATHS)
def test_refused_in_the_stream(model_server: Any, start_proxy: Any, scripted_engine: Any, api: str) -> None:
    """As the first thing that a stream says, after what comes before a prompt is accepted."""
    server = model_server([Step(fault=Overflow("openai-responses-stream")), Step("fits")])
    reply = ask(start_proxy(server, shorter_engine(scripted_engine)), api, stream=True)
    assert reply.content == server.requests[1].reply.body
    assert server.requests[0].reply.status == 200


@pytest.mark.parametrize("api", PATHS)
def test_too_late_to_send_again(model_server: Any, start_proxy: Any, scripted_engine: Any, api: str) -> None:
    """Once the client has seen something of the reply it gets the rest, the refusal included."""
    fault = StreamError(after=4, message="prompt is too long: 300 tokens > 200 maximum", type="invalid_request_error")
    server = model_server([Step("a text that came before it", fault=fault)])
    proxy = start_proxy(server, shorter_engine(scripted_engine))
    reply = ask(proxy, api, stream=True)
    assert b"prompt is too long" in reply.content
    assert reply.content == server.requests[0].reply.body
    assert proxy.engine.rejections == []


def test_comments_and_pings_come_before(start_proxy: Any, scripted_engine: Any) -> None:
    error = b'event: error\ndata: {"type":"error","error":{"type":"x","message":"prompt is too long"}}\n\n'
    opening = b': waiting\n\nevent: ping\ndata: {"type": "ping"}\n\n'
    bodies = [opening + error, opening + b'data: {"type":"message_start"}\n\n']

    def stream(connection: wire.Connection, request: wire.Message) -> None:
        body = bodies.pop(0)
        connection.send(f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {len(body)}\r\n\r\n")
        for place in range(0, len(body), 7):  # in pieces that cut everything
            connection.send(body[place : place + 7])

    with wire.WireServer(stream) as server:
        reply = ask(start_proxy(server, shorter_engine(scripted_engine)), "anthropic", stream=True)
    assert reply.content == opening + b'data: {"type":"message_start"}\n\n'
    assert len(server.requests) == 2


def test_a_gzipped_refusal(start_proxy: Any, scripted_engine: Any) -> None:
    import gzip

    body = gzip.compress(json.dumps({"error": {"message": "prompt is too long: 9 tokens > 8 maximum"}}).encode())
    head = f"Content-Encoding: gzip\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    replies = [
        b"HTTP/1.1 400 Bad Request\r\n" + head.encode() + body,
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
    ]
    with wire.WireServer(lambda connection, _: connection.send(replies.pop(0))) as server:
        proxy = start_proxy(server, shorter_engine(scripted_engine))
        assert ask(proxy, "anthropic").json() == {}
    assert proxy.engine.rejections == [Rejection(8)]


def test_a_shorter_one_is_refused_as_well(model_server: Any, start_proxy: Any, scripted_engine: Any) -> None:
    """Sent again while the engine has something left to drop."""
    server = model_server([Step(fault=Overflow()), Step(fault=Overflow()), Step("fits")])
    proxy = start_proxy(server, shorter_engine(scripted_engine, replays=2))
    reply = ask(proxy, "chat")
    assert reply.json()["choices"][0]["message"]["content"] == "fits"
    assert [len(request.raw) for request in server.requests] == sorted(
        (len(request.raw) for request in server.requests), reverse=True
    )
    assert reply.headers["x-cliff"] == "forced; replay=2"


@pytest.mark.parametrize("stream", [False, True])
def test_nothing_left_to_drop(model_server: Any, start_proxy: Any, scripted_engine: Any, stream: bool) -> None:
    """The client gets the upstream's own error, byte for byte."""
    server = model_server([Step(fault=Overflow("openai-responses-stream")) for _ in range(2)])
    proxy = start_proxy(server, shorter_engine(scripted_engine, replays=1))
    reply = ask(proxy, "responses", stream=stream)
    assert len(server.requests) == 2
    assert reply.content == server.requests[1].reply.body
    assert reply.status_code == (200 if stream else 400)
    assert proxy.answers == []


def test_an_end_to_sending_again(model_server: Any, start_proxy: Any, scripted_engine: Any) -> None:
    server = model_server([Step(fault=Overflow())], repeat=True)
    reply = ask(start_proxy(server, shorter_engine(scripted_engine, replays=99)), "chat")
    assert reply.status_code == 400
    assert len(server.requests) == 1 + relay.REPLAYS


@pytest.mark.parametrize("action", ["bypass", "shadow", "failed"])
def test_what_is_to_go_as_it_came(model_server: Any, start_proxy: Any, scripted_engine: Any, action: Any) -> None:
    engine = shorter_engine(scripted_engine)
    engine.prepares = lambda call: Prepared(None, action)
    server = model_server([Step(fault=Overflow())])
    assert ask(start_proxy(server, engine), "chat").status_code == 400
    assert engine.rejections == []
    assert len(server.requests) == 1


def test_an_engine_that_fails_to_shorten(model_server: Any, start_proxy: Any, scripted_engine: Any) -> None:
    def fail(prepared: Prepared, rejection: Rejection) -> None:
        raise RuntimeError("words of a person")

    server = model_server([Step(fault=Overflow())])
    proxy = start_proxy(server, replace(scripted_engine(), shortens=fail))
    assert ask(proxy, "chat").content == server.requests[0].reply.body
    assert proxy.status()["server"]["failures"] == 1


ECHO = "prompt is too long: 300 tokens > 200 maximum; context_length_exceeded"
OTHERS: dict[str, tuple[int, Any]] = {
    "another error": (400, {"error": {"message": "temperature must be at most 2", "type": "invalid_request_error"}}),
    "names of fields": (400, {"error": {"message": "input_tokens: unknown field", "param": "model_context_window"}}),
    "a rate limit": (429, {"error": {"message": "Rate limit: reduce the length of the messages or wait"}}),
    "overloaded": (529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
    "FastAPI's echo": (422, {"detail": [{"loc": ["body", "messages"], "msg": "Field required", "input": ECHO}]}),
    "pydantic's echo": (400, {"error": {"message": f"1 error\n  [type=x, input_value='{ECHO}', input_type=str]"}}),
    "vLLM's echo": (400, {"message": f"[{{'type': 'x', 'msg': 'bad', 'input': [{{'content': '{ECHO}'}}]}}]"}),
    "a request in an error": (400, {"error": {"message": "invalid"}, "request": {"messages": [ECHO]}}),
    "the answer's length": (400, {"error": {"message": "max_tokens: 999999 > 128000, the maximum for this model"}}),
    "not allowed": (403, {"error": {"message": f"blocked: {ECHO}"}}),
    "not known": (404, {"error": {"message": f"no model {ECHO}"}}),
    "a long text": (400, "x" * 1001 + ECHO),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_errors_are_no_refusals(model_server: Any, start_proxy: Any, scripted_engine: Any, name: str) -> None:
    status, body = OTHERS[name]
    server = model_server([Step(fault=Status(status, body))])
    proxy = start_proxy(server, shorter_engine(scripted_engine))
    reply = ask(proxy, "chat")
    assert (reply.status_code, reply.content) == (status, server.requests[0].reply.body)
    assert proxy.engine.rejections == []


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", PATHS)
def test_a_model_may_speak_of_it(
    model_server: Any, start_proxy: Any, scripted_engine: Any, api: str, stream: bool
) -> None:
    """Only errors are read, never what a model says."""
    text = json.dumps({"type": "error", "error": {"message": ECHO}}) + "\n\nevent: error\ndata: " + ECHO
    server = model_server([Step(text, piece=5000)])
    proxy = start_proxy(server, shorter_engine(scripted_engine))
    reply = ask(proxy, api, stream=stream)
    assert reply.content == server.requests[0].reply.body
    assert proxy.engine.rejections == []
    assert len(proxy.answers) == 1


def test_a_refusal_that_stalls(start_proxy: Any, scripted_engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error whose body does not end goes to the client as it is."""
    monkeypatch.setattr("cliff_proxy.relay.HOLD_SECONDS", 0.05)
    seen = threading.Event()

    def half(connection: wire.Connection, request: wire.Message) -> None:
        connection.send("HTTP/1.1 400 Bad Request\r\nContent-Length: 99\r\n\r\n{half")
        assert seen.wait(30)
        connection.close()

    with wire.WireServer(half) as server:
        connection = wire.connect(start_proxy(server, shorter_engine(scripted_engine)).port)
        connection.send("POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}")
        head = connection.head()
        assert head is not None
        assert (head.status, connection.read(5)) == (400, b"{half")
        seen.set()
        assert connection.closed()
        connection.close()


@pytest.mark.parametrize("fault", [Gzip(), Truncate(after=2), None], ids=["gzip", "half", "whole"])
def test_the_engine_hears_of_each_answer_once(model_server: Any, start_proxy: Any, fault: Any) -> None:
    server = model_server([Step("a text", fault=fault)])
    proxy = start_proxy(server)
    ask(proxy, "anthropic", stream=True)
    ((prepared, usage),) = proxy.answers
    assert prepared.action == "pass"
    assert usage is not None
    assert usage.input == server.requests[0].usage.input

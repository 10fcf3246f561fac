"""Faults do what they say."""

import gzip
import json
import threading

import httpx
import pytest

from kit import (
    CacheRules,
    Gzip,
    Malformed,
    Reset,
    Stall,
    Status,
    Step,
    StreamError,
    Truncate,
)
from kit.client import PATHS, ask, http, minimal
from kit.sse import read

APIS = list(PATHS)
TEXT = "Eight words that are sent in four pieces."


def step(fault, **more):
    return Step(TEXT, fault=fault, piece=12, **more)


def whole(model_server, api):
    """The events of the stream without a fault."""
    return list(read(ask(model_server([step(None)]), api, stream=True).content))


def received(server, api, **body):
    """What a client got before the connection broke, and the error it got."""
    data = b""
    request = http.build_request("POST", server.url + PATHS[api], json={**minimal(api), **body})
    try:
        reply = http.send(request, stream=True)
        for part in reply.iter_raw():
            data += part
    except httpx.TransportError as error:
        return data, error
    return data, None


class TestStatus:
    @pytest.mark.parametrize(
        ("api", "kind"),
        [("chat", "server_error"), ("anthropic", "overloaded_error"), ("responses", "server_error")],
    )
    def test_shape_of_the_api(self, model_server, api, kind):
        server = model_server([step(Status(529)), "ok"])
        reply = ask(server, api)
        assert reply.status_code == 529
        assert reply.json()["error"]["type"] == kind
        assert "529" in reply.json()["error"]["message"]
        assert ask(server, api).status_code == 200
        assert [request.answered for request in server.requests] == [False, True]

    def test_retry_after_and_headers(self, model_server):
        fault = Status(429, retry_after=1.5, headers={"x-more": "1"}, message="slow down")
        reply = ask(model_server([Step(fault=fault, headers=[("set-cookie", "a"), ("set-cookie", "b")])]))
        assert reply.json()["error"] == {
            "message": "slow down",
            "type": "rate_limit_exceeded",
            "param": None,
            "code": None,
        }
        assert (reply.headers["retry-after"], reply.headers["x-more"]) == ("1.5", "1")
        assert reply.headers.get_list("set-cookie") == ["a", "b"]

    def test_own_body(self, model_server):
        server = model_server([step(Status(500, "<html>")), step(Status(400, {"detail": "no"}))])
        assert ask(server).text == "<html>"
        assert ask(server).json() == {"detail": "no"}

    def test_costs_nothing(self, model_server):
        server = model_server([step(Status(500))])
        ask(server)
        assert server.requests[0].usage is None


class TestReset:
    @pytest.mark.parametrize("clean", [False, True])
    @pytest.mark.parametrize("stream", [False, True])
    def test_before_the_status_line(self, model_server, stream, clean):
        server = model_server([step(Reset(clean=clean))])
        data, error = received(server, "chat", stream=stream)
        assert data == b""
        assert isinstance(error, (httpx.ReadError, httpx.RemoteProtocolError))
        assert server.wait(1)[0].reply.outcome == "reset"

    @pytest.mark.parametrize("clean", [False, True])
    @pytest.mark.parametrize("half", [False, True])
    @pytest.mark.parametrize("api", APIS)
    def test_in_a_stream(self, model_server, api, half, clean):
        expected = whole(model_server, api)
        server = model_server([step(Reset(after=3, half=half, clean=clean))])
        data, error = received(server, api, stream=True)
        assert error is not None
        assert list(read(data)) == expected[:3]
        rest = data.rpartition(b"\n\n")[2]
        assert bool(rest) == half
        assert expected[3].encode().startswith(rest)
        reply = server.wait(1)[0].reply
        assert (reply.outcome, reply.sent, reply.body) == ("reset", 3, data)

    def test_in_a_body(self, model_server):
        server = model_server([step(Reset(after=1))])
        data, error = received(server, "chat")
        assert error is not None
        assert data.startswith(b'{"id":"chatcmpl-0"')
        with pytest.raises(ValueError, match="line 1 column"):
            json.loads(data)

    def test_never_after_the_end(self, model_server):
        data, error = received(model_server([step(Reset(after=999))]), "chat", stream=True)
        assert error is not None
        assert b"[DONE]" not in data


class TestStall:
    def test_until_the_client_gives_up(self, model_server):
        server = model_server([step(Stall(after=2))])
        body = {**minimal("chat"), "stream": True}
        with pytest.raises(httpx.ReadTimeout):
            http.post(server.url + PATHS["chat"], json=body, timeout=0.2)
        reply = server.wait(1)[0].reply
        assert (reply.outcome, reply.sent) == ("client closed", 2)

    def test_before_the_status_line(self, model_server):
        server = model_server([step(Stall())])
        with pytest.raises(httpx.ReadTimeout):
            http.post(server.url + PATHS["chat"], json=minimal("chat"), timeout=0.2)
        assert server.wait(1)[0].reply.outcome == "client closed"

    @pytest.mark.parametrize("stream", [False, True])
    def test_for_a_while(self, model_server, stream):
        server = model_server([step(Stall(after=1, seconds=0.05)), step(None)], cache=CacheRules(enabled=False))
        replies = [ask(server, stream=stream) for _ in range(2)]
        assert replies[0].text.replace("-0", "-1") == replies[1].text
        assert server.requests[0].answered

    def test_ends_with_the_server(self, model_server):
        server = model_server([step(Stall(after=1))])
        result = []
        thread = threading.Thread(target=lambda: result.append(received(server, "chat", stream=True)))
        thread.start()
        server.wait(1, arrived=True)
        server.stop()
        thread.join(10)
        assert result[0][1] is not None
        assert server.requests[0].reply.outcome == "server closed"


class TestBrokenContent:
    @pytest.mark.parametrize("api", APIS)
    @pytest.mark.parametrize("half", [False, True])
    def test_half_a_stream(self, model_server, api, half):
        expected = whole(model_server, api)
        server = model_server([step(Truncate(after=4, half=half))])
        data, error = received(server, api, stream=True)
        assert error is None
        assert list(read(data)) == expected[:4]
        assert bool(data.rpartition(b"\n\n")[2]) == half
        assert server.requests[0].reply.outcome == "complete"
        assert not server.requests[0].answered

    def test_half_a_body(self, model_server):
        reply = ask(model_server([step(Truncate())]))
        assert int(reply.headers["content-length"]) == len(reply.content)
        with pytest.raises(ValueError, match="line 1 column"):
            reply.json()

    @pytest.mark.parametrize("api", APIS)
    def test_malformed_event(self, model_server, api):
        expected = whole(model_server, api)
        server = model_server([step(Malformed(after=1))])
        events = list(read(ask(server, api, stream=True).content))
        assert isinstance(events[1].data, str)
        assert json.dumps(expected[1].data, separators=(",", ":")).startswith(events[1].data)
        assert events[1].name == expected[1].name
        assert events[:1] + events[2:] == expected[:1] + expected[2:]

    def test_malformed_body(self, model_server):
        reply = ask(model_server([step(Malformed())]))
        assert reply.status_code == 200
        with pytest.raises(ValueError, match="line 1 column"):
            reply.json()

    @pytest.mark.parametrize("stream", [False, True])
    def test_gzip_unasked(self, model_server, stream):
        server = model_server([step(Gzip()), step(None)], cache=CacheRules(enabled=False))
        plainly = {"accept-encoding": "identity"}
        url, body = server.url + PATHS["chat"], {**minimal("chat"), "stream": stream}
        with http.stream("POST", url, json=body, headers=plainly) as reply:
            raw = b"".join(reply.iter_raw())
        assert reply.headers["content-encoding"] == "gzip"
        plain = ask(server, stream=stream).content
        assert gzip.decompress(raw).replace(b"-0", b"-1") == plain
        assert server.requests[0].reply.body.replace(b"-0", b"-1") == plain


class TestStreamError:
    def test_chat(self, model_server):
        server = model_server([step(StreamError(after=2, message="busy", type="overloaded"))])
        events = list(read(ask(server, stream=True).content))
        assert len(events) == 3
        assert events[2].data["error"]["message"] == "busy"
        assert events[2].data["error"]["type"] == "overloaded"

    def test_anthropic(self, model_server):
        server = model_server([step(StreamError(after=2))])
        events = list(read(ask(server, "anthropic", stream=True).content))
        assert len(events) == 3
        assert events[2].name == "error"
        assert events[2].data["type"] == "error"
        assert events[2].data["error"] == {"type": "overloaded_error", "message": "Overloaded"}

    def test_responses(self, model_server):
        server = model_server([step(StreamError(after=3, code="server_error"))])
        events = list(read(ask(server, "responses", stream=True).content))
        assert [event.name for event in events[3:]] == ["error", "response.failed"]
        assert [event.data["sequence_number"] for event in events] == [0, 1, 2, 3, 4]
        assert events[4].data["response"]["status"] == "failed"
        assert events[4].data["response"]["error"]["code"] == "server_error"

    def test_without_a_stream(self, model_server):
        reply = ask(model_server([step(StreamError())]), "anthropic")
        assert reply.status_code == 529
        assert reply.json()["error"]["type"] == "overloaded_error"


def test_latency_and_pause(model_server):
    server = model_server([step(None, latency=0.05, pause=0.01), step(None)], latency=0.01)
    slow, fast = ask(server, stream=True), ask(server, stream=True)
    assert slow.text.replace("-0", "-1") == fast.text
    assert slow.elapsed.total_seconds() >= 0.06


def test_a_client_that_hangs_up_is_noticed(model_server):
    server = model_server([step(None, pause=0.02)])
    body = {**minimal("chat"), "stream": True}
    with httpx.Client() as client, client.stream("POST", server.url + PATHS["chat"], json=body) as r:
        next(r.iter_raw())
    assert server.wait(1)[0].reply.outcome == "client closed"
    assert not server.requests[0].answered

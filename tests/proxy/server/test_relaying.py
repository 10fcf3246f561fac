"""What goes through unchanged, in both directions: bodies, streams, headers, paths, methods."""

import gzip
import json
import threading
import zlib
from typing import Any

import brotli
import httpx
import pytest
import zstandard

from cliff_proxy.bodies import MAX_BODY
from cliff_proxy.engine import Prepared, Usage
from kit import Call, Step, wire
from kit.client import PATHS, http, minimal
from kit.faults import Gzip

STEP = Step("a text", thought="a thought", calls=[Call("bash", {"command": "ls"})])


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", PATHS)
def test_bytes_both_ways(model_server: Any, start_proxy: Any, api: str, stream: bool) -> None:
    server = model_server([STEP])
    proxy = start_proxy(server)
    # Spacing, escapes and a number that parsing and writing again would change.
    body = json.dumps({**minimal(api, "\u00e9 \ud83d"), "stream": stream, "temperature": 1}, indent=1).replace(
        '"temperature": 1', '"temperature": 1.00E0 '
    )
    reply = http.post(proxy.url + PATHS[api], content=body, headers={"content-type": "application/json"})
    (request,) = server.wait(1)
    assert request.raw == body.encode()
    assert reply.status_code == 200
    assert reply.content == request.reply.body
    assert reply.headers["x-cliff"] == "pass"
    if not stream:
        assert reply.headers["content-length"] == str(len(reply.content))
    asked = proxy.engine.calls[0]
    assert (asked.api, asked.body, asked.upstream, asked.bypass) == (api, body.encode(), server.url, False)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", PATHS)
@pytest.mark.parametrize("fault", [None, Gzip()], ids=["plain", "gzip"])
def test_reported_usage(model_server: Any, start_proxy: Any, api: str, stream: bool, fault: Any) -> None:
    usage = {"input": 1000, "cached": 700, "written": 200, "output": 30}
    server = model_server([Step("x", usage=usage, fault=fault)])
    proxy = start_proxy(server)
    more: dict[str, Any] = {"stream_options": {"include_usage": True}} if api == "chat" and stream else {}
    with httpx.Client(trust_env=False) as client:
        client.post(proxy.url + PATHS[api], json={**minimal(api), "stream": stream, **more})
    ((_, found),) = proxy.answers
    written = 0 if api == "chat" else 200  # Chat has no such figure
    assert found == Usage(input=1000, cache_read=700, cache_write=written, output=30)


def test_a_gzipped_reply_reaches_the_client_as_it_is(start_proxy: Any) -> None:
    packed = gzip.compress(b'{"usage":{"prompt_tokens":5,"completion_tokens":1}}')
    head = (
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\n"
        f"Content-Length: {len(packed)}\r\n\r\n"
    )
    with wire.WireServer(reply=head.encode() + packed) as server:
        proxy = start_proxy(server)
        reply = wire.ask(proxy.port, post("/v1/chat/completions", b"{}", "Accept-Encoding: zstd, gzip;q=0.5"))
    assert server.requests[0].values("accept-encoding") == ["zstd, gzip;q=0.5"]
    assert reply.values("content-encoding") == ["gzip"]
    assert reply.body == packed
    assert proxy.answers == [(Prepared(None, "pass"), Usage(5, output=1))]


@pytest.mark.parametrize("pack", [zlib.compress, gzip.compress, brotli.compress, zstandard.compress])
@pytest.mark.parametrize("stream", [False, True])
def test_usage_behind_other_encodings_of_replies(start_proxy: Any, pack: Any, stream: bool) -> None:
    name = {zlib.compress: "deflate", gzip.compress: "gzip", brotli.compress: "br"}.get(pack, "zstd")
    text = b'{"usage":{"prompt_tokens":5,"completion_tokens":1}}'
    packed = pack(b"data: " + text + b"\n\ndata: [DONE]\n\n" if stream else text)
    kind = "text/event-stream" if stream else "application/json"
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Encoding: {name}\r\n"
    with wire.WireServer(reply=f"{head}Content-Length: {len(packed)}\r\n\r\n".encode() + packed) as server:
        proxy = start_proxy(server)
        assert wire.ask(proxy.port, post("/v1/chat/completions", b"{}")).body == packed
    assert [usage for _, usage in proxy.answers] == [Usage(5, output=1)]


def post(path: str, body: bytes, *headers: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def chunks(*pieces: bytes) -> bytes:
    return b"".join(f"{len(piece):x}\r\n".encode() + piece + b"\r\n" for piece in pieces)


EVENTS = [
    b": a comment\n\n",
    b'event: message_start\r\ndata: {"type":"message_start",\r\ndata: "message":{}}\r\n\r\n',
    b"data:{}\r\r",
    b'data: {"type":"message_stop"}\n\n',
    b"no event at all",
]


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/chat/completions", "/v1/responses", "/v1/unknown"])
def test_a_stream_comes_as_it_is_sent(start_proxy: Any, path: str) -> None:
    """Each piece is here before the next is sent, with its own bytes."""
    got = threading.Semaphore(0)

    def stream(connection: wire.Connection, request: wire.Message) -> None:
        connection.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        for event in EVENTS[1:]:
            connection.send(chunks(event))
            assert got.acquire(timeout=30)
        connection.send("0\r\n\r\n")

    with wire.WireServer(stream) as server:
        proxy = start_proxy(server)
        connection = wire.connect(proxy.port)
        connection.send(post(path, b"{}"))
        head = connection.head()
        assert head is not None
        assert head.values("transfer-encoding") == ["chunked"]
        for event in EVENTS[1:]:
            size = int(connection.line(), 16)
            assert connection.read(size) == event
            connection.line()
            got.release()
        assert connection.line() == b"0\r\n"
        connection.close()


def test_a_comment_is_not_held_back_for_ever(start_proxy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream that opens with comments and then is silent: they keep the client's connection alive."""
    monkeypatch.setattr("cliff_proxy.relay.HOLD_SECONDS", 0.05)
    got = threading.Event()

    def stream(connection: wire.Connection, request: wire.Message) -> None:
        connection.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        connection.send(chunks(EVENTS[0]))
        assert got.wait(30)
        connection.send(chunks(EVENTS[3]), "0\r\n\r\n")

    with wire.WireServer(stream) as server:
        connection = wire.connect(start_proxy(server).port)
        connection.send(post("/v1/messages", b"{}"))
        assert connection.head() is not None
        assert connection.read(int(connection.line(), 16)) == EVENTS[0]
        got.set()
        connection.line()
        assert connection.read(int(connection.line(), 16)) == EVENTS[3]
        connection.close()


# --- Request bodies ---------------------------------------------------------------------------------------------


def _raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


PACKERS: dict[str, Any] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "deflate, raw": _raw_deflate,
    "br": brotli.compress,
    "zstd": zstandard.compress,
    "gzip, zstd": lambda data: zstandard.compress(gzip.compress(data)),
    "identity": bytes,
}


@pytest.mark.parametrize("name", PACKERS)
def test_encoded_bodies(start_proxy: Any, scripted_engine: Any, name: str) -> None:
    """The engine gets JSON; the upstream what came in, or what the engine wants sent, without an encoding."""
    body = json.dumps(minimal("chat", "words " * 100)).encode()
    packed = PACKERS[name](body)
    engine = scripted_engine()
    with wire.WireServer() as server:
        proxy = start_proxy(server, engine)
        request = post("/v1/chat/completions", packed, f"Content-Encoding: {name.removesuffix(', raw')}")
        wire.ask(proxy.port, request)
        engine.prepares = lambda call: Prepared(b'{"shorter":1}', "cliff", detail="session=1")
        reply = wire.ask(proxy.port, request)
    assert [call.body for call in engine.calls] == [body, body]
    first, second = server.requests
    assert (first.body, first.values("content-encoding")) == (packed, [name.removesuffix(", raw")])
    assert (second.body, second.values("content-encoding")) == (b'{"shorter":1}', [])
    assert second.values("content-length") == ["13"]
    assert reply.values("x-cliff") == ["cliff; session=1"]


BOMBS: dict[str, Any] = {
    "gzip": lambda: gzip.compress(bytes(MAX_BODY + 1), 1),
    "deflate": lambda: zlib.compress(bytes(MAX_BODY + 1), 1),
    "br": lambda: brotli.compress(bytes(MAX_BODY + 1), quality=1),
    "zstd": lambda: zstandard.compress(bytes(MAX_BODY + 1), 1),
    "unknown": lambda: b"whatever",
    "gzip (no gzip)": lambda: b"whatever",
    "gzip (half)": lambda: gzip.compress(b"{}" * 50)[:-9],
    "br (half)": lambda: brotli.compress(b"{}" * 50)[:-1],
    "zstd (half)": lambda: zstandard.compress(b"{}" * 50)[:-1],
}


@pytest.mark.parametrize("name", BOMBS)
def test_bodies_that_cannot_be_decoded_go_on_as_they_came(start_proxy: Any, name: str) -> None:
    packed = BOMBS[name]()
    with wire.WireServer() as server:
        proxy = start_proxy(server)
        reply = wire.ask(proxy.port, post("/v1/messages", packed, f"Content-Encoding: {name.partition(' ')[0]}"))
        status = proxy.status()
    assert reply.status == 200
    assert reply.values("x-cliff")[0].startswith("failed; the body cannot be decoded")
    assert server.requests[0].body == packed
    assert proxy.engine.calls == []
    assert status["server"]["failures"] == 1
    [problem] = status["problems"]
    assert problem.startswith(
        "1 request went on as sent, as our work failed; the last time: the body cannot be decoded"
    )


@pytest.mark.parametrize("framing", ["length", "chunked"])
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/files"])
def test_a_body_above_what_is_looked_at(
    start_proxy: Any, monkeypatch: pytest.MonkeyPatch, path: str, framing: str
) -> None:
    monkeypatch.setattr("cliff_proxy.bodies.MAX_BODY", 1000)
    body = bytes(range(256)) * 2000
    with wire.WireServer() as server:
        proxy = start_proxy(server)
        if framing == "length":
            reply = wire.ask(proxy.port, post(path, body))
        else:
            head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
            reply = wire.ask(proxy.port, head.encode() + chunks(body[:999], body[999:]) + b"0\r\n\r\n")
    assert reply.status == 200
    assert server.requests[0].body == body
    assert proxy.engine.calls == []
    said = ["failed; a body of more than 1000 bytes"] if path == "/v1/messages" else []
    assert reply.values("x-cliff") == said


def test_chunked_uploads_to_a_model(start_proxy: Any) -> None:
    with wire.WireServer() as server:
        proxy = start_proxy(server)
        head = b"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        wire.ask(proxy.port, head + chunks(b'{"a"', b":1}") + b"0\r\n\r\n")
    assert server.requests[0].body == b'{"a":1}'
    assert proxy.engine.calls[0].body == b'{"a":1}'


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/files"])
def test_expect_100_continue(start_proxy: Any, path: str) -> None:
    with wire.WireServer() as server:
        connection = wire.connect(start_proxy(server).port)
        connection.send(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
        assert connection.line() == b"HTTP/1.1 100 Continue\r\n"
        assert connection.line() == b"\r\n"
        connection.send(b"{}")
        reply = connection.message()
        connection.close()
    assert reply is not None
    assert reply.status == 200
    assert server.requests[0].body == b"{}"
    assert server.requests[0].values("expect") == []


def test_an_upload_is_passed_on_before_it_is_complete(start_proxy: Any) -> None:
    """Files of any size: never whole in memory."""
    first = threading.Event()

    class Server(wire.WireServer):
        def _serve(self, connection: wire.Connection) -> None:
            message = connection.head()
            assert message is not None
            message.body = connection.read(5)
            first.set()
            message.body += connection.read(5)
            self.requests.append(message)
            connection.send(self._reply)

    with Server() as server:
        connection = wire.connect(start_proxy(server).port)
        connection.send("POST /v1/files HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nfirst")
        assert first.wait(30)
        connection.send("other")
        reply = connection.message()
        connection.close()
    assert reply is not None
    assert (reply.status, server.requests[0].body) == (200, b"firstother")
    assert server.requests[0].values("content-length") == ["10"]


# --- Methods, paths, headers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "DELETE", "PUT", "PATCH", "PURGE"])
def test_any_method(start_proxy: Any, method: str) -> None:
    no_body = method == "HEAD"
    reply = b"HTTP/1.1 203 Fine Enough\r\nContent-Length: 7\r\nX-One: 1\r\n\r\n" + (b"" if no_body else b"a reply")
    with wire.WireServer(reply=reply) as server:
        proxy = start_proxy(server)
        got = wire.ask(proxy.port, f"{method} /v1/messages HTTP/1.1\r\nHost: localhost\r\n\r\n", no_body=no_body)
    assert server.requests[0].first == f"{method} /v1/messages HTTP/1.1"
    assert got.first == "HTTP/1.1 203 Fine Enough"
    assert got.values("content-length") == ["7"]
    assert got.body == (b"" if no_body else b"a reply")
    assert proxy.engine.calls == []


@pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified"])
def test_replies_without_a_body(start_proxy: Any, status: str) -> None:
    with wire.WireServer(reply=f'HTTP/1.1 {status}\r\nETag: "x"\r\n\r\n'.encode()) as server:
        connection = wire.connect(start_proxy(server).port)
        for _ in range(2):  # on one connection: nothing is left between them
            connection.send("GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n")
            got = connection.message(no_body=True)
            assert got is not None
            assert got.first == f"HTTP/1.1 {status}"
            assert got.values("etag") == ['"x"']
        connection.close()


@pytest.mark.parametrize(
    "target",
    [
        "/v1/models/org%2Fname%3Aone?a=%2F&b=c+d&b=%20",
        "/v1//models/../x/./y",
        "/v1/models/%e9%zz",
        '/?x={y}|"z"',
        "/v1/messages/batches/b%2Fc/results",
    ],
)
def test_paths_and_queries_as_they_came(start_proxy: Any, target: str) -> None:
    with wire.WireServer() as server:
        wire.ask(start_proxy(server).port, f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert server.requests[0].target == target
        # A gateway's base URL has a path of its own.
        wire.ask(start_proxy(server.url + "/of/gateway").port, f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert server.requests[1].target == "/of/gateway" + target


def test_a_whole_url_as_target(start_proxy: Any) -> None:
    with wire.WireServer() as server:
        wire.ask(start_proxy(server).port, "GET http://localhost/v1/models?x=1 HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert server.requests[0].target == "/v1/models?x=1"


SENT = """\
Host: localhost:9
Anthropic-Beta: a
X-Api-Key: secret
anthropic-beta: b
Accept-Encoding: gzip, deflate, br, zstd
User-Agent: one/1.0
Connection: keep-alive, X-Hop
X-Hop: 1
Keep-Alive: timeout=5
TE: trailers
Proxy-Authorization: Basic eDp5
Upgrade: h9
x-cliff-bypass: 1
X-Cliff-Other: 1
x-cliff-token: t
Cookie: a=b; c=d
Content-Type: application/json
Accept: */*"""


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/models"])
def test_headers_of_requests(start_proxy: Any, path: str) -> None:
    with wire.WireServer() as server:
        proxy = start_proxy(server)
        wire.ask(proxy.port, post(path, b"{}", *SENT.split("\n")[1:]))
    names = {"host", "content-length"}
    kept = [line for line in server.requests[0].headers if line[0].lower() not in names]
    assert kept == [
        ("Anthropic-Beta", "a"),
        ("X-Api-Key", "secret"),
        ("anthropic-beta", "b"),
        ("Accept-Encoding", "gzip, deflate, br, zstd"),
        ("User-Agent", "one/1.0"),
        ("Cookie", "a=b; c=d"),
        ("Content-Type", "application/json"),
        ("Accept", "*/*"),
    ]
    assert server.requests[0].values("host") == [f"127.0.0.1:{server.port}"]
    assert server.requests[0].values("content-length") == ["2"]


def test_no_header_is_made_up(start_proxy: Any) -> None:
    with wire.WireServer() as server:
        wire.ask(start_proxy(server).port, post("/v1/messages", b"{}"))
    assert [name.lower() for name, _ in server.requests[0].headers] == ["host", "content-length"]


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/models"])
def test_headers_of_replies(start_proxy: Any, path: str) -> None:
    head = (
        "HTTP/1.1 200 OK\r\nSet-Cookie: a=1; Path=/\r\nset-cookie: b=2, still b\r\nX-RateLimit: 1\r\nX-RateLimit: 2\r\n"
        "Connection: x-hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nTrailer: x\r\nProxy-Authenticate: Basic\r\n"
        "Date: Mon, 30 Nov 2026 00:00:00 GMT\r\nContent-Length: 2\r\n\r\n{}"
    )
    with wire.WireServer(reply=head.encode()) as server:
        reply = wire.ask(start_proxy(server).port, post(path, b"{}"))
    assert [line for line in reply.headers if line[0] != "x-cliff"] == [
        ("Set-Cookie", "a=1; Path=/"),
        ("set-cookie", "b=2, still b"),
        ("X-RateLimit", "1"),
        ("X-RateLimit", "2"),
        ("Date", "Mon, 30 Nov 2026 00:00:00 GMT"),
        ("Content-Length", "2"),
    ]


def test_a_forward_proxy_of_the_environment(start_proxy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the client itself would use it; never for an upstream on this machine, or one that NO_PROXY names."""
    with wire.WireServer() as forward, wire.WireServer() as server:
        monkeypatch.setenv("http_proxy", f"http://user:word@127.0.0.1:{forward.port}")
        monkeypatch.setenv("no_proxy", "here.invalid")
        wire.ask(start_proxy("http://model.example/base").port, post("/v1/messages?a=%2F", b"{}"))
        assert wire.ask(start_proxy("http://here.invalid").port, post("/v1/messages", b"{}")).status == 502
        wire.ask(start_proxy(server).port, post("/v1/messages", b"{}"))
    (request,) = forward.requests
    assert request.target == "http://model.example/base/v1/messages?a=%2F"
    assert request.values("proxy-authorization") == ["Basic dXNlcjp3b3Jk"]
    assert len(server.requests) == 1


def test_redirects_are_the_clients_business(start_proxy: Any) -> None:
    reply = b"HTTP/1.1 307 Temporary Redirect\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n"
    with wire.WireServer(reply=reply) as server:
        got = wire.ask(start_proxy(server).port, post("/v1/messages", b"{}"))
    assert (got.status, got.values("location"), len(server.requests)) == (307, ["/elsewhere"], 1)


def test_an_http_1_0_client(start_proxy: Any) -> None:
    """Without chunks: the end of the connection is the end of the reply."""
    reply = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks(b"one", b"two") + b"0\r\n\r\n"
    with wire.WireServer(reply=reply) as server:
        got = wire.ask(start_proxy(server).port, "GET /v1/models HTTP/1.0\r\nHost: localhost\r\n\r\n")
    assert got.values("transfer-encoding") == []
    assert got.body == b"onetwo"


def test_other_paths_are_unread(model_server: Any, start_proxy: Any) -> None:
    server = model_server()
    proxy = start_proxy(server)
    for path in ("/v1/messages/count_tokens", "/v1/responses/input_tokens"):
        api = "responses" if "responses" in path else "anthropic"
        body = json.dumps(minimal(api, "four by four"), indent=3).encode()
        reply = http.post(proxy.url + path, content=body)
        assert reply.json()["input_tokens"] == http.post(server.url + path, content=body).json()["input_tokens"]
        assert "x-cliff" not in reply.headers
    assert proxy.engine.calls == []
    assert server.other[0].raw == server.other[1].raw


def test_labels_and_bypass(start_proxy: Any) -> None:
    with wire.WireServer() as server:
        proxy = start_proxy(server)
        wire.ask(proxy.port, post("/v1/messages", b"{}", "X-Claude-Code-Session-Id: s1", "X-Api-Key: k"))
        for value in ("1", "true", "0", ""):
            wire.ask(proxy.port, post("/v1/messages", b"{}", f"X-Cliff-Bypass: {value}"))
    first, *others = proxy.engine.calls
    assert first.labels[b"x-claude-code-session-id"] == b"s1"
    assert [call.bypass for call in others] == [True, True, False, False]


def test_each_request_of_a_connection_has_its_own_headers(start_proxy: Any) -> None:
    """What was found out for a head is not taken for another: route, refusal, key, body."""

    def sent(body: bytes, path: str = "/v1/messages", *more: str, host: str = "localhost") -> bytes:
        lines = (f"POST {path} HTTP/1.1", f"Host: {host}", *more, f"Content-Length: {len(body)}")
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + body

    def respond(connection: wire.Connection, request: wire.Message) -> None:
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(request.body) + request.body)

    one, two, coded = "x-api-key: one", "x-api-key: two", "Content-Encoding: gzip"
    asked = [
        (b"{}", "/v1/messages", one),
        (b'{"a":1}', "/v1/messages", one),
        (b"[]", "/v1/messages", two),
        (b"{}", "/v1/messages/count_tokens", two),
        (b'{"a":2}', "/v1/messages", two),
        (gzip.compress(b"{}", mtime=0), "/v1/messages", two, coded),
        (gzip.compress(b'{"a":3}', mtime=0), "/v1/messages", two, coded),
        (b"{}", "/v1/messages", one),
    ]
    with wire.WireServer(respond) as server:
        proxy = start_proxy(server)
        connection = wire.connect(proxy.port)
        for body, path, *more in asked:
            connection.send(sent(body, path, *more))
            reply = connection.message()
            assert reply is not None
            assert (reply.status, reply.body) == (200, body)
        for host, status in (("evil.example", 403), ("localhost", 200)):
            connection.send(sent(b"{}", "/v1/messages", host=host))
            reply = connection.message()
            assert reply is not None
            assert reply.status == status
        connection.close()
    got = [(r.body, r.first.split()[1], r.values("x-api-key"), r.values("content-encoding")) for r in server.requests]
    expected = [
        (body, path, [more[0].removeprefix("x-api-key: ")], ["gzip"] if coded in more else [])
        for body, path, *more in asked
    ]
    assert got == [*expected, (b"{}", "/v1/messages", [], [])]
    assert all(request.values("content-length") == [str(len(request.body))] for request in server.requests)


def test_a_date_that_stays_on_the_connection_is_replaced(start_proxy: Any) -> None:
    """RFC 9110, 6.6.1: an answer without one gets one."""
    reply = b"HTTP/1.1 200 OK\r\nDate: then\r\nConnection: Date\r\nContent-Length: 2\r\n\r\n{}"
    with wire.WireServer(reply=reply) as server:
        found = wire.ask(start_proxy(server).port, "GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert len(found.values("date")) == 1
    assert found.values("date") != ["then"]

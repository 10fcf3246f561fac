"""What goes wrong on either side, each with its right outcome: the client sees what it would see without us."""

import contextlib
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from cliff_core import CliffConfig
from cliff_proxy.engine import Call, Engine, Prepared
from cliff_proxy.settings import Settings
from kit import Reset, Stall, Status, Step, Truncate, wire
from kit.client import PATHS, http, minimal

BROKEN = (httpx.RemoteProtocolError, httpx.ReadError)


def request_of(path: str, body: bytes = b"{}") -> bytes:
    return f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


# --- Upstreams -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [*PATHS.values(), "/v1/models", "/v1/messages/count_tokens"])
def test_no_upstream(start_proxy: Any, path: str) -> None:
    """502, the only status of our own making, in the shape of the API; the proxy goes on."""
    with wire.WireServer() as server:
        url = server.url  # its port is free again
    proxy = start_proxy(url)
    reply = http.post(proxy.url + path, json={})
    assert reply.status_code == 502
    error = reply.json()["error"]
    assert url in error["message"]
    if "messages" in path:
        assert reply.json()["type"] == "error"
        assert error["type"] == "api_error"
    else:
        assert error["type"] == "server_error"
    status = proxy.status()
    assert status["server"]["upstream_errors"] == 1
    assert status["problems"] == ["1 request found no upstream"]


def test_an_upstream_whose_name_is_unknown(start_proxy: Any) -> None:
    reply = http.post(start_proxy("http://no-such-host.invalid").url + "/v1/messages", json={})
    assert reply.status_code == 502
    assert "http://no-such-host.invalid" in reply.json()["error"]["message"]


def test_an_upstream_without_tls(start_proxy: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connected, _ = listening.accept()
            connected.recv(2**16)
            connected.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            connected.close()

        threading.Thread(target=serve, daemon=True).start()
        proxy = start_proxy(f"https://127.0.0.1:{listening.getsockname()[1]}")
        assert http.post(proxy.url + "/v1/messages", json={}).status_code == 502


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl, which makes the certificate, is missing")
def test_an_upstream_that_is_not_trusted(start_proxy: Any, tmp_path: Any) -> None:
    key, certificate = str(tmp_path / "key.pem"), str(tmp_path / "certificate.pem")
    new = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "2"]
    subprocess.run([*new, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with contextlib.suppress(OSError):
                context.wrap_socket(listening.accept()[0], server_side=True)

        threading.Thread(target=serve, daemon=True).start()
        proxy = start_proxy(f"https://localhost:{listening.getsockname()[1]}")
        reply = http.post(proxy.url + "/v1/messages", json={})
    assert reply.status_code == 502
    assert "its certificate is not trusted (self-signed certificate)" in reply.json()["error"]["message"]


def test_an_upstream_that_comes_back(start_proxy: Any) -> None:
    with wire.WireServer() as first:
        proxy = start_proxy(first)
        assert http.post(proxy.url + "/v1/messages", json={}).status_code == 200
        port = first.port
    assert http.post(proxy.url + "/v1/messages", json={}).status_code == 502
    second = wire.WireServer(port=port)
    with second:
        assert http.post(proxy.url + "/v1/messages", json={}).status_code == 200


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", PATHS)
@pytest.mark.parametrize(
    "fault",
    [Reset(), Reset(clean=True), Reset(after=1), Reset(after=1, half=True), Reset(after=1, clean=True)],
    ids=["at once", "at once, clean", "after a piece", "after half a piece", "after a piece, clean"],
)
def test_an_upstream_that_breaks_off(model_server: Any, start_proxy: Any, api: str, stream: bool, fault: Reset) -> None:
    """The client gets what came, and a connection that breaks: never the end of a complete reply, never a 5xx."""
    server = model_server([Step("a text of some length", fault=fault), Step("next")])
    proxy = start_proxy(server)
    got = b""
    body = {**minimal(api), "stream": stream}
    with (  # noqa: PT012
        httpx.Client(trust_env=False) as client,
        pytest.raises(BROKEN),
        client.stream("POST", proxy.url + PATHS[api], json=body) as reply,
    ):
        for data in reply.iter_raw():
            got += data
    (request,) = server.wait(1)
    assert request.reply.body.startswith(got)
    if fault.after and not fault.half and fault.clean:
        assert got == request.reply.body
    assert http.post(proxy.url + PATHS[api], json=minimal(api)).status_code == 200
    server.assert_finished()


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("api", PATHS)
def test_half_a_stream(model_server: Any, start_proxy: Any, api: str, half: bool) -> None:
    """A stream without its last events that ends properly as HTTP: just so."""
    server = model_server([Step("a text of some length", fault=Truncate(after=2, half=half))])
    reply = http.post(start_proxy(server).url + PATHS[api], json={**minimal(api), "stream": True})
    assert reply.content == server.requests[0].reply.body


@pytest.mark.parametrize("code", [400, 401, 403, 404, 422, 429, 500, 502, 503, 504, 529])
@pytest.mark.parametrize("stream", [False, True])
def test_errors_of_the_upstream(model_server: Any, start_proxy: Any, code: int, stream: bool) -> None:
    """Status, body, retry-after: the upstream's own. One request: retrying is the client's business."""
    server = model_server([Step(fault=Status(code, retry_after=7))])
    reply = http.post(start_proxy(server).url + PATHS["anthropic"], json={**minimal("anthropic"), "stream": stream})
    (request,) = server.requests
    assert (reply.status_code, reply.content) == (code, request.reply.body)
    assert reply.headers["retry-after"] == "7"
    assert reply.headers["x-cliff"] == "pass"


@pytest.mark.parametrize("after", [None, 0, 2])
def test_a_stall(model_server: Any, start_proxy: Any, after: int | None) -> None:
    """What came is relayed, then silence, until the client gives up; the upstream sees that it did."""
    server = model_server([Step("a text of some length", fault=Stall(after=after))])
    proxy = start_proxy(server)
    connection = wire.connect(proxy.port)
    body = json.dumps({**minimal("anthropic"), "stream": True}).encode()
    connection.send(request_of("/v1/messages", body))
    if after:
        assert connection.head() is not None
        got = b""
        while got.count(b"\n\n") < after:
            size = int(connection.line(), 16)
            got += connection.read(size)
            connection.line()
        assert got == server.requests[0].reply.body
    else:
        server.wait(1, arrived=True)
    connection.close()
    (request,) = server.wait(1)
    assert request.reply.outcome == "client closed"


def test_an_upstream_that_speaks_no_http(start_proxy: Any) -> None:
    with wire.WireServer(reply=b"SSH-2.0-OpenSSH_9.6\r\n") as server:
        proxy = start_proxy(server)
        with pytest.raises(BROKEN):
            httpx.post(proxy.url + "/v1/messages", json={}, trust_env=False)
        assert http.get(proxy.url + "/_cliff/healthz").status_code == 200


# --- Clients ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/other"])
@pytest.mark.parametrize("when", ["before the headers", "in mid-stream"])
def test_a_client_hangs_up(start_proxy: Any, path: str, when: str) -> None:
    """The upstream's connection is closed at once."""
    arrived, closed = threading.Event(), threading.Event()

    def work(connection: wire.Connection, request: wire.Message) -> None:
        if when == "in mid-stream":
            connection.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
            connection.send("9\r\ndata: {}\n\r\n1\r\n\n\r\n")
        arrived.set()
        assert connection.closed()
        closed.set()

    with wire.WireServer(work) as server:
        proxy = start_proxy(server)
        connection = wire.connect(proxy.port)
        connection.send(request_of(path))
        assert arrived.wait(30)
        if when == "in mid-stream":
            assert connection.head() is not None
            assert connection.line()
        connection.close()
        assert closed.wait(30)


def test_a_client_hangs_up_while_the_engine_works(start_proxy: Any, scripted_engine: Any) -> None:
    """Nothing is sent upstream for it."""
    working, gone = threading.Event(), threading.Event()

    def prepare(call: Call) -> Prepared:
        if call.body == b'{"a":1}':
            working.set()
            assert gone.wait(30)
        return Prepared(None, "pass")

    with wire.WireServer() as server:
        proxy = start_proxy(server, scripted_engine(prepares=prepare))
        connection = wire.connect(proxy.port)
        connection.send(request_of("/v1/messages", b'{"a":1}'))
        assert working.wait(30)
        connection.close()
        while proxy.status()["server"]["hangups"] == 0:
            pass
        gone.set()
        wire.ask(proxy.port, request_of("/v1/messages", b'{"a":2}'))
    assert [request.body for request in server.requests] == [b'{"a":2}']


def test_a_client_that_sends_half_a_body(start_proxy: Any) -> None:
    with wire.WireServer() as server:
        proxy = start_proxy(server)
        connection = wire.connect(proxy.port)
        connection.send("POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{")
        connection.close()
        while proxy.status()["server"]["hangups"] == 0:
            pass
        assert proxy.engine.calls == []
        assert server.requests == []


@pytest.mark.parametrize(
    "garbage", [b"\x16\x03\x01\x02\x00", b"GET /\r\n\r\n", b"POST /v1/messages HTTP/1.1\r\nContent-Length: -1\r\n\r\n"]
)
def test_what_is_no_http(start_proxy: Any, garbage: bytes) -> None:
    with wire.WireServer() as server:
        proxy = start_proxy(server)
        connection = wire.connect(proxy.port)
        connection.send(garbage)
        connection.socket.shutdown(1)
        connection.closed()
        connection.close()
        assert http.get(proxy.url + "/_cliff/healthz").status_code == 200
    assert server.requests == []


# --- Many at once -----------------------------------------------------------------------------------------------


def test_200_streams_at_once(start_proxy: Any) -> None:
    """All are open at the same time (the upstream waits for the last), and all complete."""
    count = 200
    together = threading.Barrier(count)

    def stream(connection: wire.Connection, request: wire.Message) -> None:
        connection.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        connection.send('f\r\ndata: {"a":1}\n\n\r\n')
        together.wait(60)
        connection.send("0\r\n\r\n")

    with wire.WireServer(stream) as server, ThreadPoolExecutor(count) as pool:
        proxy = start_proxy(server)
        replies = list(pool.map(lambda _: wire.ask(proxy.port, request_of("/v1/messages")), range(count)))
    assert {(reply.status, reply.body, reply.complete) for reply in replies} == {(200, b'data: {"a":1}\n\n', True)}
    assert len(proxy.answers) == count


# --- Bodies ------------------------------------------------------------------------------------------------------

STRANGE: dict[str, bytes] = {
    "empty": b"",
    "no JSON": b"{broken",
    "no UTF-8": b'{"messages": "\xff\xfe"}',
    "a byte order mark": b'\xef\xbb\xbf{"messages": []}',
    "a lone surrogate": b'{"model": "m", "messages": [{"role": "user", "content": "\\ud83d"}]}',
    "no object": b"[1, 2]",
    "wrong types": b'{"model": 5, "messages": {"a": [null]}, "system": 7, "tools": "x", "input": true}',
    "messages of wrong types": b'{"model": "m", "messages": [null, 1, "x", [], {"role": 5, "content": {"x": 1}}]}',
    "keys twice": b'{"model": "m", "messages": [], "messages": [{"role": "user", "content": "x"}]}',
    "deep": b'{"messages": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "deep in a message": b'{"messages": [{"role": "user", "content": '
    + b'{"a":' * 50_000
    + b"1"
    + b"}" * 50_000
    + b"}]}",
    "numbers": b'{"model": "m", "messages": [], "temperature": 1e400, "x": -0.0, "y": 123456789012345678901234567890}',
}


@pytest.mark.parametrize("name", STRANGE)
@pytest.mark.parametrize("path", PATHS.values())
def test_strange_bodies(start_proxy: Any, tmp_path: Any, name: str, path: str) -> None:
    """With the real engine: the upstream gets them byte for byte, and it is its business what is wrong with them."""
    with wire.WireServer() as server:
        proxy = start_proxy(server, Engine(Settings(store=tmp_path / "store")))
        reply = wire.ask(proxy.port, request_of(path, STRANGE[name]))
        health = http.get(proxy.url + "/_cliff/healthz")
    assert reply.status == 200
    assert server.requests[0].body == STRANGE[name]
    assert reply.values("x-cliff")[0].split(";")[0] in {"pass", "failed"}
    assert health.status_code == 200


def test_20_000_messages(start_proxy: Any) -> None:
    """A view, as of any history above the threshold."""
    messages = [{"role": ("user", "assistant")[n % 2], "content": f"message {n}: " + "ab " * 5} for n in range(20_000)]
    body = json.dumps({"model": "m", "max_tokens": 9, "messages": messages}).encode()
    with wire.WireServer() as server:
        proxy = start_proxy(server, Engine(Settings(config=CliffConfig(threshold_tokens=40_000))))
        reply = wire.ask(proxy.port, request_of("/v1/messages", body))
    assert reply.values("x-cliff")[0].startswith(("cliff;", "view;"))
    sent = json.loads(server.requests[0].body)["messages"]
    assert sent[0] == messages[0]
    assert sent[-1] == messages[-1]
    assert len(server.requests[0].body) < 0.3 * len(body)


IMAGE = "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAI" + "A" * 50 * 2**20
IMAGES: dict[str, Any] = {
    "anthropic": {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": IMAGE}},
    "chat": {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{IMAGE}"}},
    "responses": {"type": "input_image", "image_url": f"data:image/png;base64,{IMAGE}"},
}


@pytest.mark.parametrize("api", PATHS)
def test_50_mb(start_proxy: Any, api: str) -> None:
    value = minimal(api)
    value["input" if api == "responses" else "messages"][0]["content"] = [IMAGES[api]]
    body = json.dumps(value).encode()
    with wire.WireServer() as server:
        reply = wire.ask(start_proxy(server, Engine(Settings())).port, request_of(PATHS[api], body))
    assert reply.values("x-cliff")[0].startswith("pass")
    assert server.requests[0].body == body


def test_an_engine_that_takes_for_ever(start_proxy: Any, scripted_engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """No client waits for our own work longer than that."""
    monkeypatch.setattr("cliff_proxy.work.PREPARE_SECONDS", 0.05)
    ended = threading.Event()

    def prepare(call: Call) -> Prepared:
        ended.wait(30)
        return Prepared(b"late", "view")

    with wire.WireServer() as server:
        proxy = start_proxy(server, scripted_engine(prepares=prepare))
        reply = wire.ask(proxy.port, request_of("/v1/messages"))
        ended.set()
    assert reply.values("x-cliff")[0].startswith("failed; the engine took longer than")
    assert [request.body for request in server.requests] == [b"{}"]


def test_an_engine_that_fails(start_proxy: Any, scripted_engine: Any, caplog: pytest.LogCaptureFixture) -> None:
    """The request goes on as it came; log and status say so, without a word of the request."""

    def fail(call: Call) -> Prepared:
        raise ValueError(f"cannot read {call.body!r}")

    engine = scripted_engine(prepares=fail)
    engine.answered = lambda *_, **__: 1 / 0
    with wire.WireServer() as server:
        proxy = start_proxy(server, engine)
        body = b'{"messages": ["words of a person"]}'
        reply = wire.ask(proxy.port, request_of("/v1/messages", body))
        status = proxy.status()
    assert (reply.status, server.requests[0].body) == (200, body)
    assert reply.values("x-cliff")[0].startswith("failed; ValueError at test_faults.py:")
    assert status["server"]["failures"] == 2
    assert "ZeroDivisionError" in status["problems"][0]
    assert "forwarded as it came: ValueError at test_faults.py" in caplog.text
    assert "words of a person" not in caplog.text + json.dumps(status)


def test_a_mistake_of_the_server(
    start_proxy: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The client sees a broken connection, which it tries again, and never a 5xx that the upstream did not send."""

    async def fail(*_: Any) -> None:
        raise KeyError("words of a person")

    monkeypatch.setattr("cliff_proxy.relay.Relay.answer", fail)
    proxy = start_proxy("http://127.0.0.1:1")
    with pytest.raises(BROKEN):
        httpx.post(proxy.url + "/v1/messages", json={}, trust_env=False)
    assert http.get(proxy.url + "/_cliff/healthz").status_code == 200
    assert "a request failed: KeyError at test_faults.py" in caplog.text
    assert "words of a person" not in caplog.text


def test_a_status_that_fails(start_proxy: Any, scripted_engine: Any) -> None:
    engine = scripted_engine()
    engine.status = lambda: 1 / 0
    status = http.get(start_proxy("http://127.0.0.1:1", engine).url + "/_cliff/status").json()
    assert status["problems"][0].startswith("the engine's status failed: ZeroDivisionError at ")


# --- The process ---------------------------------------------------------------------------------------------------

SERVE = """
import sys
from pathlib import Path
from cliff_proxy.process import run
from cliff_proxy.server import serve
from cliff_proxy.settings import Settings
url, store = sys.argv[1:]
settings = Settings(port=0, anthropic_upstream=url, openai_upstream=url, store=Path(store))
run(serve(settings, started=lambda proxy: print(proxy.port, flush=True)))
"""


def served(url: str, store: Any) -> tuple[Any, int]:
    process = subprocess.Popen([sys.executable, "-c", SERVE, url, str(store)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def test_kill_9_in_mid_stream_and_restart(tmp_path: Any) -> None:
    """Client and upstream see a broken connection; the proxy that is started next serves with the same store."""
    closed = threading.Event()

    def stream(connection: wire.Connection, request: wire.Message) -> None:
        connection.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        connection.send('10\r\ndata: {"a": 1}\n\n\r\n')
        if request.body == b'{"a":1}':
            assert connection.closed()
            closed.set()
        else:
            connection.send("0\r\n\r\n")

    with wire.WireServer(stream) as server:
        process, port = served(server.url, tmp_path / "store.sqlite")
        connection = wire.connect(port)
        connection.send(request_of("/v1/messages", b'{"a":1}'))
        assert connection.head() is not None
        assert connection.line() == b"10\r\n"
        os.kill(process.pid, signal.SIGKILL)
        process.wait(30)
        assert closed.wait(30)
        connection.read(18)
        assert connection.line() == b""  # no end of the chunks
        connection.close()
        process, port = served(server.url, tmp_path / "store.sqlite")
        reply = wire.ask(port, request_of("/v1/messages", b'{"a":2}'))
        process.terminate()
        assert process.wait(30) == 0
        process.stdout.close()
    assert (reply.status, reply.body, reply.complete) == (200, b'data: {"a": 1}\n\n', True)


@pytest.mark.parametrize("state", ["corrupt", "a folder", "read-only", "in a folder that cannot be made", "full"])
def test_a_store_that_cannot_be_used(
    start_proxy: Any, model_server: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    """Everything works but the memory across restarts, and the status says what is wrong."""
    store = tmp_path / "store.sqlite"
    if state == "corrupt":
        store.write_bytes(b"this is no database" * 500)
    elif state == "a folder":
        store.mkdir()
    elif state == "read-only":
        Engine(Settings(store=store)).close()
        store.chmod(0o400)
        if os.geteuid() == 0:
            subprocess.run(["chattr", "+i", str(store)], check=False)
    elif state == "in a folder that cannot be made":
        (tmp_path / "file").write_bytes(b"")
        store = tmp_path / "file" / "store.sqlite"
    else:
        store.symlink_to("/dev/full")
    server = model_server(lambda request: Step("fine"))
    try:
        proxy = start_proxy(server, Engine(Settings(store=store)))
        for api in PATHS:
            assert http.post(proxy.url + PATHS[api], json=minimal(api)).status_code == 200
        assert http.get(proxy.url + "/_cliff/healthz").status_code == 200
    finally:
        if state == "read-only" and os.geteuid() == 0:
            subprocess.run(["chattr", "-i", str(store)], check=False)

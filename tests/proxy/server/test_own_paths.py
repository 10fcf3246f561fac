"""Who is served, and what the proxy says of itself."""

import asyncio
import json
import logging
import re
import socket
import sys
import threading
from dataclasses import dataclass
from typing import Any

import pytest

from cliff_proxy import log
from cliff_proxy.engine import Prepared, Usage
from cliff_proxy.metrics import Metrics
from cliff_proxy.process import give_back, tune
from cliff_proxy.server import Proxy
from cliff_proxy.serving import Request
from cliff_proxy.settings import Settings
from kit import Overflow, Step, wire
from kit.client import PATHS, http, minimal

NOWHERE = "http://127.0.0.1:1"


def get(path: str, *headers: str) -> str:
    return "\r\n".join([f"GET {path} HTTP/1.1", *headers]) + "\r\n\r\n"


# --- Who is served --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST:99", "127.0.0.1", "127.0.0.1:8642", "127.9.9.9", "[::1]", "[::1]:80", "cliff.localhost"],
)
def test_names_of_loopback(start_proxy: Any, host: str) -> None:
    with wire.WireServer() as server:
        assert wire.ask(start_proxy(server).port, get("/v1/models", f"Host: {host}")).status == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8642",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "10.0.0.1",
        "[::2]",
        "",
        "x" * 255 + ".localhost",
    ],
)
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/models", "/_cliff/status", "/_cliff/metrics", "/_cliff/healthz"])
def test_other_hosts_are_refused(start_proxy: Any, host: str, path: str) -> None:
    """A page whose name was made to point to this machine asks with its own name."""
    with wire.WireServer() as server:
        reply = wire.ask(start_proxy(server).port, get(path, f"Host: {host}"))
    assert reply.status == 403
    assert server.requests == []


def test_no_host_at_all(start_proxy: Any) -> None:
    assert wire.ask(start_proxy(NOWHERE).port, "GET /v1/models HTTP/1.0\r\n\r\n").status == 403


TOKEN = "a token \u00e9"


@pytest.mark.parametrize("given", [None, "", "a token", "a token \u00e9 ", "A TOKEN \u00c9"])
@pytest.mark.parametrize("path", ["/v1/messages", "/_cliff/status", "/_cliff/metrics"])
def test_bound_elsewhere_a_token_is_demanded(start_proxy: Any, given: str | None, path: str) -> None:
    with wire.WireServer() as server:
        proxy = start_proxy(server, host="0.0.0.0", token=TOKEN)
        lines = [] if given is None else [f"x-cliff-token: {given.rstrip()}x"]
        request = get(path, "Host: machine.example", *lines).encode()
        assert wire.ask(proxy.port, request).status == 401
        assert server.requests == []


def test_the_token_opens(start_proxy: Any) -> None:
    with wire.WireServer() as server:
        proxy = start_proxy(server, host="0.0.0.0", token=TOKEN)
        request = get("/v1/models", "Host: machine.example", f"X-Cliff-Token: {TOKEN}").encode()
        assert wire.ask(proxy.port, request).status == 200
        assert server.requests[0].values("x-cliff-token") == []
        # Whether it lives may be asked by anyone: it tells nothing else.
        assert wire.ask(proxy.port, get("/_cliff/healthz", "Host: machine.example")).status == 200
        assert TOKEN not in json.dumps(
            http.get(proxy.url + "/_cliff/status", headers={"x-cliff-token": TOKEN.encode()}).json()
        )


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "machine.example"])
def test_without_a_token_only_loopback(host: str) -> None:
    with pytest.raises(ValueError, match="CLIFF_TOKEN"):
        Proxy(Settings(host=host))


def test_a_port_that_is_taken(start_proxy: Any, scripted_engine: Any) -> None:
    engine = scripted_engine()
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="address already in use"):
        start_proxy(NOWHERE, engine, port=taken.getsockname()[1])
    assert engine.closed


# --- Own paths ------------------------------------------------------------------------------------------------------


def test_healthz(start_proxy: Any) -> None:
    reply = http.get(start_proxy(NOWHERE).url + "/_cliff/healthz?x=1")
    assert (reply.status_code, reply.json()["status"]) == (200, "ok")


def test_own_paths_never_go_upstream(start_proxy: Any) -> None:
    with wire.WireServer() as server:
        proxy = start_proxy(server)
        unknown = http.get(proxy.url + "/_cliff/other")
        assert (unknown.status_code, "healthz" in unknown.text) == (404, True)
        assert http.post(proxy.url + "/_cliff/status").status_code == 405
        head = http.head(proxy.url + "/_cliff/healthz")
        assert (head.status_code, head.content) == (200, b"")
    assert server.requests == []


def test_status_and_metrics(model_server: Any, start_proxy: Any, scripted_engine: Any) -> None:
    actions = iter(["pass", "cliff", "view", "view"])
    engine = scripted_engine(
        prepares=lambda call: Prepared(None, next(actions)),
        shortens=lambda prepared, rejection: Prepared(
            b'{"model":"m","messages":[{"role":"user","content":"x"}]}', "forced"
        ),
    )
    usage = {"input": 100, "cached": 60, "output": 7}
    server = model_server([*[Step("x", usage=usage)] * 3, Step(fault=Overflow()), Step("x", usage=usage)])
    proxy = start_proxy(server, engine)
    for _ in range(4):
        http.post(proxy.url + PATHS["chat"], json=minimal("chat"))
    http.get(proxy.url + "/v1/models")
    status = proxy.status()
    assert status["sessions"] == [{"id": "one"}]
    assert status["problems"] == []
    told = {key: value for key, value in status["server"].items() if key not in {"pid", "started", "version", "url"}}
    assert told == {
        "open_requests": 0,
        "requests": 5,
        "cliffs": 2,
        "rejections": 1,
        "replays": 1,
        "failures": 0,
        "hangups": 0,
        "refusals": 0,
        "upstream_errors": 0,
    }
    reply = http.get(proxy.url + "/_cliff/metrics")
    assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = reply.text.splitlines()
    for line in (
        'cliff_requests_total{action="view",api="chat"} 2',
        'cliff_requests_total{action="pass",api="other"} 1',
        'cliff_cliffs_total{api="chat",reason="forced"} 1',
        'cliff_responses_total{api="chat",status="200"} 4',
        'cliff_tokens_total{api="chat",kind="input"} 400',
        'cliff_tokens_total{api="chat",kind="cache_read"} 240',
        'cliff_tokens_total{api="chat",kind="output"} 28',
        "cliff_prepare_seconds_count 4",
        "cliff_sessions 1",
        "cliff_open_requests 0",
    ):
        assert line in lines
    assert len(engine.answers) == 4
    assert engine.answers[-1] == (Prepared(None, "forced"), Usage(100, 60, 0, 7))


def test_metrics_are_in_prometheus_format() -> None:
    metrics = Metrics()
    metrics.add("failures_total")
    metrics.add("failures_total", 2.5)
    metrics.add("upstream_errors_total", kind='a "b"\\\n')
    text = metrics.text({"sessions": 3})
    assert "cliff_failures_total 3.5\n" in text
    assert 'cliff_upstream_errors_total{kind="a \\"b\\"\\\\\\n"} 1\n' in text
    sample = re.compile(r'[a-z_]+(\{([a-z]+="(\\.|[^"\\\n])*",?)+\})? [0-9.e+-]+')
    for line in text.splitlines():
        assert line.startswith(("# HELP cliff_", "# TYPE cliff_")) or sample.fullmatch(line)
    assert metrics.total("upstream_errors_total") == 1
    assert metrics.total("upstream_errors_total", kind="other") == 0


# --- The log ---------------------------------------------------------------------------------------------------------


def test_no_credential_and_no_text_in_log_status_and_metrics(
    model_server: Any, start_proxy: Any, scripted_engine: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    secrets = ["sk-secret", "words of a person", "a query of theirs"]
    engine = scripted_engine(prepares=lambda call: Prepared(None, "cliff", detail="session=s1; cliffs=1"))
    server = model_server(
        [Step("words of a person", fault=Overflow()), *["words of a person"] * 3], allow_problems=True
    )
    proxy = start_proxy(server, engine)
    headers = {"authorization": "Bearer sk-secret", "x-api-key": "sk-secret", "cookie": "sk-secret"}
    for api in PATHS:
        url = proxy.url + PATHS[api] + "?key=a query of theirs"
        http.post(url, json=minimal(api, "words of a person"), headers=headers)
    http.post(proxy.url + PATHS["chat"], content=b"words of a person", headers=headers)
    http.get(proxy.url + "/v1/words of a person")
    told = [caplog.text]
    told += [http.get(proxy.url + path).text for path in ("/_cliff/status", "/_cliff/metrics", "/_cliff/healthz")]
    assert "cliff (anthropic, cliff) session=s1; cliffs=1" in caplog.text
    for secret in secrets:
        assert secret not in "".join(told)


def test_errors_are_described_without_their_words() -> None:
    with pytest.raises(KeyError) as caught:
        raise KeyError("words of a person")
    assert re.fullmatch(r"KeyError at test_own_paths.py:\d+", log.described(caught.value))
    assert log.described(ValueError("words")) == "ValueError"


def test_the_log_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    names = ("cliff_proxy", "cliff_core")
    before = [(logging.getLogger(name).handlers, logging.getLogger(name).propagate) for name in names]
    try:
        log.set_up()
        logging.getLogger("cliff_proxy").info("a line")
        logging.getLogger("cliff_proxy").debug("not this")
    finally:
        for name, (handlers, propagate) in zip(names, before, strict=True):
            logging.getLogger(name).handlers, logging.getLogger(name).propagate = handlers, propagate
            logging.getLogger(name).setLevel(logging.NOTSET)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\S+ INFO a line\n", captured.err)


def test_threads_give_way_to_the_event_loop() -> None:
    before = sys.getswitchinterval()
    try:
        for interval, after in ((0.005, 0.001), (0.0005, 0.0005)):
            sys.setswitchinterval(interval)
            tune()
            assert sys.getswitchinterval() == pytest.approx(after)
    finally:
        sys.setswitchinterval(before)


def test_memory_is_given_back_after_large_bodies(start_proxy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    given_back = threading.Event()
    monkeypatch.setattr("cliff_proxy.work.IDLE_SECONDS", 0.01)
    monkeypatch.setattr("cliff_proxy.work.give_back", given_back.set)
    with wire.WireServer() as server:
        proxy = start_proxy(server)
        http.post(proxy.url + PATHS["chat"], content=b"x" * 2**20)
        assert proxy.status()
        assert not given_back.is_set()
        http.post(proxy.url + PATHS["chat"], content=b"x" * (2**20 + 1))
        assert given_back.wait(30)
    give_back()


# --- Life -------------------------------------------------------------------------------------------------------------


def test_stopping_lets_requests_end(scripted_engine: Any) -> None:
    """Within the time of grace; no new ones are taken."""

    async def run() -> None:
        release = asyncio.Event()

        async def upstream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nha")
            await release.wait()
            writer.write(b"lf")
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(upstream, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        engine = scripted_engine()
        proxy = Proxy(Settings(port=0, openai_upstream=url), engine)
        await proxy.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert (await reader.readuntil(b"ha")).startswith(b"HTTP/1.1 200 OK\r\n")
        stopping = asyncio.create_task(proxy.stop())
        await asyncio.sleep(0.1)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", proxy.port)
        release.set()
        assert await reader.readexactly(2) == b"lf"
        await stopping
        assert engine.closed
        writer.close()
        server.close()

    asyncio.run(run())


def test_a_client_that_leaves_before_our_own_answer(
    start_proxy: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It hung up; that is no mistake of ours."""
    respond = Request.respond

    def gone(request: Request, *args: Any) -> None:
        if request.head.target.endswith("healthz"):
            raise ConnectionResetError("the client is gone")
        respond(request, *args)

    monkeypatch.setattr(Request, "respond", gone)
    proxy = start_proxy(NOWHERE)
    connection = wire.connect(proxy.port)
    connection.send(get("/_cliff/healthz", "Host: localhost"))
    assert connection.closed()
    assert proxy.status()["server"]["hangups"] == 1
    assert "failed" not in caplog.text


@dataclass(eq=False)
class Sending:
    """A client's connection of which some is still to be sent."""

    unsent: bool = True
    expired: bool = False
    task: None = None

    def end(self) -> None:
        """It closes itself when all is sent."""

    def expire(self) -> None:
        self.expired = True


def test_stopping_lets_answers_be_taken(scripted_engine: Any) -> None:
    """Answers that are complete are sent to their end, within the time of grace."""

    async def run() -> None:
        for grace, taken in ((30.0, True), (0.1, False)):
            proxy = Proxy(Settings(port=0), scripted_engine())
            await proxy.start()
            sending: Any = Sending()
            proxy._clients._connections.add(sending)
            stopping = asyncio.create_task(proxy.stop(grace))
            if taken:
                await asyncio.sleep(0.2)
                assert not sending.expired
                sending.unsent = False
            await asyncio.wait_for(stopping, 20)
            assert sending.expired

    asyncio.run(run())

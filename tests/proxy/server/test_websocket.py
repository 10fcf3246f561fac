"""WebSockets: what the client says is compacted as over HTTP, all else goes through."""

import asyncio
import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import aiohttp
import pytest

from cliff_core import CliffConfig
from cliff_proxy.engine import Engine, Prepared, Usage
from cliff_proxy.settings import Settings
from kit import Call, Overflow, Step, rules, wire
from kit.client import http, minimal
from kit.websocket import WebSocketServer

PATH = "/v1/responses"
UPGRADE = (
    f"GET {PATH} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


def talk(proxy: Any, say: Callable[[Any], Any], **options: Any) -> Any:
    """Runs a client on one connection."""

    async def run() -> Any:
        async with aiohttp.ClientSession(trust_env=False) as session:
            url = proxy.url.replace("http", "ws") + options.pop("path", PATH)
            async with session.ws_connect(url, max_msg_size=0, **options) as socket:
                return await asyncio.wait_for(say(socket), 60)

    return asyncio.run(run())


async def ask(socket: Any, text: str | None = None, **frame: Any) -> list[dict[str, Any]]:
    """Sends a frame, and returns the events of its response."""
    await socket.send_str(text or json.dumps({"type": "response.create", "model": "m", "store": False, **frame}))
    events = []
    while True:
        events.append(await socket.receive_json())
        if events[-1]["type"] in {"response.completed", "response.failed", "error"}:
            return events


def session(steps: int) -> Callable[[Any], Any]:
    """A client like Codex: a frame to warm up, then only what is new, after the response before."""

    async def say(socket: Any) -> list[list[dict[str, Any]]]:
        tools = [{"type": "function", "name": "shell", "parameters": {"type": "object"}}]
        prompt = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "the task"}]}
        replies = [await ask(socket, tools=tools, input=[prompt], generate=False)]
        fresh: list[Any] = []
        for step in range(steps):
            last = replies[-1][-1]["response"]
            replies.append(await ask(socket, tools=tools, input=fresh, previous_response_id=last["id"]))
            calls = [item for item in replies[-1][-1]["response"]["output"] if item["type"] == "function_call"]
            fresh = [
                {"type": "function_call_output", "call_id": call["call_id"], "output": f"{step} " + "words " * 150}
                for call in calls
            ]
        return replies

    return say


def scripted(request: Any) -> Step:
    if request.body.get("generate") is False:
        return Step()
    number = request.number
    return Step(f"step {number}", thought="a thought", calls=[Call("shell", {"command": f"ls {number}"})])


def test_a_session_with_cliffs(start_proxy: Any) -> None:
    config = CliffConfig(threshold_tokens=1_500)
    with WebSocketServer(scripted) as server:
        proxy = start_proxy(server, Engine(Settings(config=config, threshold_given=True)))
        replies = talk(proxy, session(40))
        status = proxy.status()
    assert server.problems == []
    assert len(server.requests) == 41
    for request in server.requests:
        assert rules.pairing("responses", request.messages) == []
        assert request.messages[0]["content"][0]["text"] == "the task"
    # Most frames hold only what is new; a cliff is a new beginning.
    begins = [n for n, request in enumerate(server.requests) if "previous_response_id" not in request.body]
    assert begins[0] == 0
    assert status["server"]["cliffs"] == len(begins) - 1 >= 3
    assert all(later - earlier > 1 for earlier, later in pairwise(begins[1:]))
    # As the provider counts, which is not how we do: all that it has stays under the threshold.
    [account] = status["sessions"]
    assert max(request.usage.input for request in server.requests) <= account["threshold"]
    assert account["requests"] == 41
    # The client saw each response as it was sent.
    for request, events in zip(server.requests, replies, strict=True):
        assert [event["type"] for event in events] == [event.data["type"] for event in request.reply.events()]


def test_below_the_threshold_frames_are_untouched(start_proxy: Any) -> None:
    with WebSocketServer(["one", "two"]) as server:
        proxy = start_proxy(server, Engine(Settings()))
        texts = [
            '{"type" : "response.create", "model":"m","input" : "a text", "x": 1E2}',
            '{"previous_response_id":"resp_0","type":"response.create","model":"m","input":[{"role":"user","content":"\\u00e9"}]}',
        ]

        async def say(socket: Any) -> None:
            for text in texts:
                await ask(socket, text)

        seen = []
        answer = server._answer
        server._answer = lambda frame, text, upgrade: (seen.append(text), answer(frame, text, upgrade))[1]
        talk(proxy, say)
    assert seen == texts
    assert [m["content"] for m in server.requests[1].messages if m["role"] == "user"] == ["a text", "é"]


def test_what_the_engine_sees(start_proxy: Any, scripted_engine: Any) -> None:
    """A whole request each time, as over HTTP."""
    usage = {"input": 50, "cached": 20, "output": 5}
    with WebSocketServer([Step("one", usage=usage), Step("two", usage=usage)]) as server:
        proxy = start_proxy(server, scripted_engine())

        async def say(socket: Any) -> None:
            await ask(socket, input=[{"role": "user", "content": "a"}])
            await ask(socket, input=[{"role": "user", "content": "b"}], previous_response_id="resp_0")

        talk(proxy, say, headers={"session-id": "s1", "authorization": "Bearer k"})
        answers = proxy.answers
    first, second = proxy.engine.calls
    assert json.loads(first.body) == {"model": "m", "store": False, "input": [{"role": "user", "content": "a"}]}
    found = json.loads(second.body)
    assert found.keys() == {"model", "store", "input"}
    assert [item.get("role") for item in found["input"]] == ["user", "assistant", "user"]
    assert first.labels[b"session-id"] == b"s1"
    assert [told for _, told in answers] == [Usage(50, 20, 0, 5)] * 2


def test_a_view_that_goes_on_is_sent_by_its_new_part(start_proxy: Any, scripted_engine: Any) -> None:
    """Even where the provider has a shorter history than the client."""
    engine = scripted_engine()

    def prepare(call: Any) -> Prepared:
        body = json.loads(call.body)
        if len(body["input"]) < 4:
            return Prepared(None, "pass")
        body["input"] = [{"role": "user", "content": "a block"}, *body["input"][3:]]
        return Prepared(json.dumps(body).encode(), "view")

    engine.prepares = prepare
    with WebSocketServer(["one", "two", "three", "four"]) as server:
        proxy = start_proxy(server, engine)

        async def say(socket: Any) -> None:
            for number in range(4):
                earlier = {"previous_response_id": f"resp_{number - 1}"} if number else {}
                await ask(socket, input=[{"role": "user", "content": f"{number}"}], **earlier)

        talk(proxy, say)
    assert server.problems == []
    sent = [[item["content"] for item in request.body["input"]] for request in server.requests]
    assert sent == [["0"], ["1"], ["a block", sent[2][1], "2"], ["3"]]
    assert [request.body.get("previous_response_id") for request in server.requests] == [None, "resp_0", None, "resp_2"]
    assert len(server.requests[3].messages) == 5  # block, two, 2, three, 3


@pytest.mark.parametrize("wording", ["openai-responses", "openai-responses-stream"])
def test_a_prompt_that_is_too_long(start_proxy: Any, scripted_engine: Any, wording: str) -> None:
    """Refused by an error frame, or after the response was begun: sent again, and nothing of it is seen."""
    engine = scripted_engine(
        shortens=lambda prepared, rejection: Prepared(json.dumps(minimal("responses", "short")).encode(), "forced")
    )
    with WebSocketServer([Step("one"), Step(fault=Overflow(wording)), "fits"]) as server:
        proxy = start_proxy(server, engine)

        async def say(socket: Any) -> Any:
            await ask(socket, input=[{"role": "user", "content": "a"}])
            return await ask(socket, input=[{"role": "user", "content": "b"}], previous_response_id="resp_0")

        events = talk(proxy, say)
        status = proxy.status()
    assert events[-1]["response"]["output"][0]["content"][0]["text"] == "fits"
    assert [event["type"] for event in events].count("response.created") == 1
    assert server.requests[2].messages == minimal("responses", "short")["input"]
    assert len(engine.rejections) == status["server"]["replays"] == 1


def test_nothing_left_to_drop(start_proxy: Any, scripted_engine: Any) -> None:
    with WebSocketServer([Step(fault=Overflow())]) as server:
        events = talk(start_proxy(server), lambda socket: ask(socket, input="a"))
    assert [event["type"] for event in events] == ["error"]
    assert events[0]["error"]["code"] == "context_length_exceeded"


def test_a_history_that_is_not_known(start_proxy: Any) -> None:
    """The provider may know it (`store`): such a frame goes through, and so does what it says."""
    with WebSocketServer() as server:
        proxy = start_proxy(server)
        events = talk(proxy, lambda socket: ask(socket, input="a", previous_response_id="resp_other"))
    assert events[0]["error"]["code"] == "previous_response_not_found"
    assert proxy.engine.calls == []


def test_parallel_streams_on_one_connection(start_proxy: Any) -> None:
    with WebSocketServer(["one", "two", "three"]) as server:
        proxy = start_proxy(server)

        async def say(socket: Any) -> list[str]:
            for name in ("a", "b"):
                frame = {"type": "response.create", "model": "m", "stream_id": name, "input": name}
                await socket.send_json(frame)
            ends = []
            while len(ends) < 2:
                event = await socket.receive_json()
                if event["type"] == "response.completed":
                    ends.append((event["stream_id"], event["response"]["id"]))
            await ask(socket, input="c", stream_id="a", previous_response_id=ends[0][1])
            return ends

        ends = talk(proxy, say)
    assert [name for name, _ in ends] == ["a", "b"]
    assert [len(json.loads(call.body)["input"]) for call in proxy.engine.calls] == [1, 1, 3]


def test_everything_else_goes_through(start_proxy: Any) -> None:
    texts = ['{"type":"response.cancel"}', "[]", '{"type":5}', '"a text"', '{"type": "response.steer", "input": [1]}']
    with WebSocketServer() as server:
        proxy = start_proxy(server)

        async def say(socket: Any) -> bytes:
            for text in texts:
                await socket.send_str(text)
            await socket.send_bytes(b"\x00\xff")
            message = await socket.receive()
            return bytes(message.data)

        assert talk(proxy, say) == b"\x00\xff"
        events = talk(proxy, lambda socket: ask(socket, input=5))
    assert server.other == texts
    assert events[0]["type"] == "error"
    assert proxy.engine.calls == []


def test_the_handshake(start_proxy: Any) -> None:
    with WebSocketServer() as server:
        proxy = start_proxy(server)

        async def say(socket: Any) -> Any:
            return socket.protocol, socket._response.headers["x-request-id"]

        sent = {"Authorization": "Bearer k", "OpenAI-Beta": "responses_websockets=1", "x-cliff-token": "t"}
        assert talk(proxy, say, headers=sent, protocols=("other", "realtime"), path=PATH + "?a=%2F") == (
            "realtime",
            "r1",
        )
    (got,) = server.handshakes
    assert got["OpenAI-Beta"] == "responses_websockets=1"
    assert got["Authorization"].startswith("[redacted")
    assert got["Host"] == f"127.0.0.1:{server.port}"
    assert "x-cliff-token" not in {name.lower() for name in got}


@pytest.mark.parametrize("code", [1000, 1011, 4000])
def test_the_upstream_closes(start_proxy: Any, code: int) -> None:
    with WebSocketServer(["one"]) as server:
        server.close_with = code
        proxy = start_proxy(server)

        async def say(socket: Any) -> Any:
            await socket.send_json({"type": "response.create", "input": "a"})
            message = await socket.receive()
            return message.type, socket.close_code

        assert talk(proxy, say) == (aiohttp.WSMsgType.CLOSE, code)


@pytest.mark.parametrize("way", ["close", "cut"])
def test_the_client_goes_away(start_proxy: Any, way: str) -> None:
    with WebSocketServer(["one"]) as server:
        proxy = start_proxy(server)

        async def say(socket: Any) -> None:
            await ask(socket, input="a")
            if way == "close":
                await socket.close(code=4001)
            else:
                socket._response.connection.transport.abort()

        talk(proxy, say)
        while not server.closed:
            pass
        assert server.closed == [4001 if way == "close" else 1001]
        assert proxy.status()["server"]["open_requests"] == 0


@pytest.mark.parametrize("status", [400, 401, 404, 405, 426, 500])
def test_an_upstream_without_websockets(start_proxy: Any, status: int) -> None:
    """426: the client falls back to HTTP at once. With another status Codex fails the turn, or tries seven times."""
    with WebSocketServer(refuse=status) as server:
        reply = wire.ask(start_proxy(server).port, UPGRADE)
    assert reply.status == 426
    assert json.loads(reply.body)["error"]["message"]


def test_no_upstream_at_all(start_proxy: Any) -> None:
    proxy = start_proxy("http://127.0.0.1:1")
    assert wire.ask(proxy.port, UPGRADE).status == 426
    assert http.get(proxy.url + "/_cliff/healthz").status_code == 200


def test_other_websockets_are_bridged_unread(start_proxy: Any) -> None:
    with WebSocketServer(["one"]) as server:
        proxy = start_proxy(server)
        events = talk(proxy, lambda socket: ask(socket, input="a"), path="/v1/realtime?model=m")
    assert events[-1]["type"] == "response.completed"
    assert proxy.engine.calls == []
    assert server.requests[0].path == "/v1/realtime"


def test_a_host_from_elsewhere(start_proxy: Any) -> None:
    with WebSocketServer() as server:
        reply = wire.ask(start_proxy(server).port, UPGRADE.replace("localhost", "evil.example"))
    assert reply.status == 403
    assert server.handshakes == []

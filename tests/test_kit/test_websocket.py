"""The scripted model on OpenAI's WebSocket."""

import asyncio
import json
from typing import Any

import aiohttp
import pytest

from kit import Overflow, Step
from kit.websocket import WebSocketServer


def talk(server: WebSocketServer, *frames: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """The events that each frame gets, all on one connection."""

    async def run() -> list[list[dict[str, Any]]]:
        replies = []
        async with aiohttp.ClientSession() as session, session.ws_connect(server.url + "/v1/responses") as socket:
            for frame in frames:
                await socket.send_json({"type": "response.create", "model": "m", **frame})
                replies.append([await socket.receive_json()])
                while replies[-1][-1]["type"] not in {"response.completed", "response.failed"}:
                    if "status" in replies[-1][-1]:
                        break
                    replies[-1].append(await socket.receive_json())
        return replies

    return asyncio.run(run())


def test_a_response_goes_on_from_the_one_before() -> None:
    with WebSocketServer(["one", "two"]) as server:
        first, second = talk(server, {"input": "a"}, {"input": "b", "previous_response_id": "resp_0"})
    assert [event["type"] for event in first][:2] == ["response.created", "response.in_progress"]
    assert second[-1]["response"]["output"][0]["content"][0]["text"] == "two"
    assert [item["role"] for item in server.requests[1].messages] == ["user", "assistant", "user"]
    assert server.problems == []


def test_what_a_connection_knows_ends_with_it() -> None:
    with WebSocketServer(["one"]) as server:
        talk(server, {"input": "a", "store": True})
        ((error,),) = talk(server, {"input": "b", "previous_response_id": "resp_0"})
    assert (error["type"], error["status"]) == ("error", 400)
    assert error["error"]["code"] == "previous_response_not_found"


def test_a_prompt_that_is_too_long() -> None:
    with WebSocketServer([Step(fault=Overflow())]) as server:
        ((error,),) = talk(server, {"input": "a"})
    assert error["error"]["code"] == "context_length_exceeded"
    assert server.requests[0].rejected == "limit"


def test_the_upgrade_is_refused() -> None:
    with WebSocketServer(refuse=400) as server, pytest.raises(aiohttp.WSServerHandshakeError, match="400"):
        talk(server, {"input": "a"})


def test_a_frame_of_its_own_stream() -> None:
    with WebSocketServer(["one"]) as server:
        (events,) = talk(server, {"input": "a", "stream_id": "s"})
    assert {event["stream_id"] for event in events} == {"s"}
    assert json.loads(server.requests[0].raw)["stream_id"] == "s"

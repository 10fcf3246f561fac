"""Whole sessions over HTTP with the real engine, against the scripted model with its strict rules."""

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import pytest

from cliff_core import CliffConfig
from cliff_proxy.engine import Engine
from cliff_proxy.settings import Settings
from kit import CacheRules, Call, Step, checks
from kit.client import PATHS, http
from kit.faults import Gzip

THRESHOLD = 4_000
CONFIG = CliffConfig(threshold_tokens=THRESHOLD)


def engine(**settings: Any) -> Engine:
    return Engine(Settings(config=CONFIG, threshold_given=True, **settings))


def scripted(request: Any) -> Step:
    """Two calls a step, one short and one long result; all follow from the history, so that a retry gets the same."""
    number = sum(len(json.dumps(message)) for message in request.messages) % 997
    calls = [Call("bash", {"command": f"cat file_{number}.py"}), Call("bash", {"command": f"ls {number}"})]
    return Step(f"I look at {number}.", thought=f"Next is {number}.", calls=calls)


class Agent:
    """A client of one API: its history grows by what the model says and what its tools give."""

    def __init__(self, api: str, url: str, task: str = "the task", **more: Any) -> None:
        self.api, self.url, self.more = api, url, more
        self.tools = [{"name": "bash", "description": "run", "input_schema": {"type": "object"}}]
        self.history: list[Any] = [{"role": "user", "content": task}]
        self.headers: list[str] = []

    def body(self) -> dict[str, Any]:
        if self.api == "anthropic":
            fields = {"max_tokens": 999, "system": "You are an agent.", "tools": self.tools}
            return {"model": "m", "messages": self.history, **fields, **self.more}
        schema = {"name": "bash", "description": "run", "parameters": {"type": "object"}}
        if self.api == "chat":
            system = {"role": "system", "content": "You are an agent."}
            tools = [{"type": "function", "function": schema}]
            return {"model": "m", "messages": [system, *self.history], "tools": tools, **self.more}
        fields = {"instructions": "You are an agent.", "tools": [{"type": "function", **schema}], "store": False}
        return {"model": "m", "input": self.history, **fields, **self.more}

    def step(self) -> Any:
        reply = http.post(self.url + PATHS[self.api], json=self.body())
        assert reply.status_code == 200, reply.text
        self.headers.append(reply.headers["x-cliff"])
        said = reply.json()
        long = "a line of output\n" * 60
        if self.api == "anthropic":
            calls = [part["id"] for part in said["content"] if part["type"] == "tool_use"]
            results = [
                {"type": "tool_result", "tool_use_id": call, "content": text}
                for call, text in zip(calls, (long, "file"), strict=True)
            ]
            self.history += [
                {"role": "assistant", "content": said["content"]},
                {"role": "user", "content": results},
            ]
        elif self.api == "chat":
            message = said["choices"][0]["message"]
            self.history.append(message)
            for call, text in zip(message["tool_calls"], (long, "file"), strict=True):
                self.history.append({"role": "tool", "tool_call_id": call["id"], "content": text})
        else:
            self.history += said["output"]
            calls = [item["call_id"] for item in said["output"] if item["type"] == "function_call"]
            for call, text in zip(calls, (long, "file"), strict=True):
                self.history.append({"type": "function_call_output", "call_id": call, "output": text})
        return reply


@pytest.mark.parametrize("fault", [None, Gzip()], ids=["plain", "gzip"])
@pytest.mark.parametrize("api", PATHS)
def test_a_long_session(model_server: Any, start_proxy: Any, api: str, fault: Any) -> None:
    steps = (lambda request: scripted(request)) if fault is None else (lambda request: _with(scripted(request), fault))
    server = model_server(steps, cache=CacheRules())
    proxy = start_proxy(server, engine())
    agent = Agent(api, proxy.url)
    for _ in range(40):
        agent.step()
    requests = server.requests
    cliffs = checks.cliffs_of(requests)
    assert len(cliffs) >= 3
    assert all(later - earlier > 1 for earlier, later in pairwise(cliffs))
    said = [place for place, header in enumerate(agent.headers, 1) if header.startswith("cliff;")]
    assert said == cliffs
    for request in requests:
        checks.assert_paired(request)
        assert "the task" in request.text
    assert checks.cached_share(requests) > 0.5
    status = proxy.status()
    assert status["server"]["cliffs"] == len(cliffs)
    assert status["server"]["failures"] == 0
    assert len(status["sessions"]) == 1
    assert max(len(request.raw) for request in requests) < 0.6 * len(json.dumps(agent.body()))


def _with(step: Step, fault: Any) -> Step:
    return Step(step.text, thought=step.thought, calls=step.calls, fault=fault)


@pytest.mark.parametrize("api", PATHS)
def test_the_provider_takes_less(model_server: Any, start_proxy: Any, api: str) -> None:
    """The client never sees that prompts are refused; the limit is kept to from then on."""
    server = model_server(scripted, context_limit=4_000)
    proxy = start_proxy(server, Engine(Settings(windows={"m": 1_000_000}, thresholds={"m": 100_000})))
    agent = Agent(api, proxy.url)
    for _ in range(30):
        agent.step()
    refused = [request.number for request in server.requests if request.rejected == "limit"]
    assert 1 <= len(refused) <= 3
    assert sum(header.startswith("forced;") for header in agent.headers) == proxy.status()["server"]["rejections"] >= 1
    for request in server.requests:
        checks.assert_paired(request)


def test_parallel_sessions_do_not_mix(model_server: Any, start_proxy: Any) -> None:
    server = model_server(scripted)
    proxy = start_proxy(server, engine())
    agents = [Agent("anthropic", proxy.url, f"the task of agent {n}") for n in range(6)]

    def run(agent: Agent) -> None:
        for _ in range(12):
            agent.step()

    with ThreadPoolExecutor(len(agents)) as pool:
        list(pool.map(run, agents))
    assert len(proxy.status()["sessions"]) == 6
    for n in range(6):
        own = [request for request in server.requests if f"agent {n}" in request.text]
        assert len(own) == 12
        for request in own:
            checks.assert_paired(request)
            assert request.text.count("the task of agent") == 1


def test_bypass_and_shadow(model_server: Any, start_proxy: Any) -> None:
    """Both send what the client sent."""
    server = model_server(scripted)
    shadow = start_proxy(server, engine(shadow=True), shadow=True)
    agent = Agent("chat", shadow.url)
    for _ in range(16):
        agent.step()
        assert json.loads(server.requests[-1].raw) == {**agent.body(), "messages": server.requests[-1].messages}
    assert {header.partition(";")[0] for header in agent.headers} == {"shadow"}
    assert len(server.requests[-1].messages) == len(agent.history) + 1 - 3
    proxy = start_proxy(server, engine())
    sent = json.dumps(agent.body()).encode()
    reply = http.post(proxy.url + PATHS["chat"], content=sent, headers={"x-cliff-bypass": "1"})
    assert reply.headers["x-cliff"].startswith("bypass")
    assert server.requests[-1].raw == sent


def test_compaction_calls_of_responses(model_server: Any, start_proxy: Any) -> None:
    """`/responses/compact` is untouched while it fits."""
    server = model_server(scripted)
    proxy = start_proxy(server, engine())
    agent = Agent("responses", proxy.url)
    for _ in range(3):
        agent.step()
    sent = json.dumps({"model": "m", "input": agent.history}).encode()
    reply = http.post(proxy.url + "/v1/responses/compact", content=sent)
    assert reply.json()["object"] == "response.compaction"
    assert server.requests[-1].raw == sent


def test_a_recording(model_server: Any, start_proxy: Any, tmp_path: Any) -> None:
    """What the client sent and what it got, as `cliff replay` reads it; only with `--record`."""
    server = model_server(lambda request: _with(scripted(request), Gzip()))
    proxy = start_proxy(server, engine(record=tmp_path / "record"))
    agents = [Agent("anthropic", proxy.url, "one"), Agent("chat", proxy.url, "two")]
    for agent in agents:
        agent.step()
        agent.step()
    proxy.status()
    files = sorted((tmp_path / "record").iterdir())
    assert len(files) == 2
    pairs = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    assert len(pairs) == 4
    for pair in pairs:
        assert pair["response"]["body"]["usage"]
    assert [oct(path.stat().st_mode & 0o777) for path in (tmp_path / "record", *files)] == ["0o700", "0o600", "0o600"]


SERVE = """
import sys
from pathlib import Path
from cliff_core import CliffConfig
from cliff_proxy.process import run
from cliff_proxy.server import serve
from cliff_proxy.settings import Settings
url, store, threshold = sys.argv[1:]
config = CliffConfig(threshold_tokens=int(threshold))
settings = Settings(
    port=0, anthropic_upstream=url, openai_upstream=url, store=Path(store), config=config, threshold_given=True
)
run(serve(settings, started=lambda proxy: print(proxy.url, flush=True)))
"""


def test_kill_9_in_a_session(model_server: Any, tmp_path: Any) -> None:
    """A proxy that is killed at any time and started again sends what it would have sent: byte for byte what one that
    was never killed sends."""

    def serve(store: str, server: Any) -> Any:
        command = [sys.executable, "-c", SERVE, server.url, str(tmp_path / store), str(THRESHOLD)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    sent = []
    for kills in ([], [8, 17]):
        server = model_server(scripted, context_limit=3_500)
        process = serve(f"{len(kills)}.sqlite", server)
        agent = Agent("anthropic", process.stdout.readline().strip())
        for step in range(24):
            if step in kills:
                os.kill(process.pid, signal.SIGKILL)
                process.communicate()
                process = serve(f"{len(kills)}.sqlite", server)
                agent.url = process.stdout.readline().strip()
            agent.step()
        process.terminate()
        process.communicate()
        sent.append([request.raw for request in server.requests])
    assert sent[0] == sent[1]
    assert len(sent[0]) > 24  # some were refused

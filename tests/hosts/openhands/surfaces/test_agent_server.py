"""The agent-server over HTTP: with the import hook alone, and with `--import-modules` and no hook."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from work import FINISH, TASK, THRESHOLD, assert_condensed, assert_models_own, folder, steps

from kit import Call, ModelServer, Step

STEPS = 28
SECONDS = 600
"""The longest that anything may take: nothing here is about time, and a busy machine imports for minutes."""


class Server:
    """A running agent-server."""

    def __init__(self, port: int) -> None:
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=SECONDS)

    def wait(self) -> None:
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            try:
                if self.http.get("/alive").status_code == 200:
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.1)
        pytest.fail("the server does not answer")

    def start(self, model: ModelServer, work: Path, condenser: Any, tools: Any = ("file_editor",)) -> httpx.Response:
        llm = {
            "model": "openai/scripted",
            "base_url": model.openai_url,
            "api_key": "test",
            "num_retries": 0,
            "usage_id": "agent",
        }
        agent = {"kind": "Agent", "llm": llm, "tools": [{"name": name} for name in tools], "condenser": condenser}
        body = {
            "agent": agent,
            "workspace": {"kind": "LocalWorkspace", "working_dir": str(work)},
            "initial_message": {"role": "user", "content": [{"type": "text", "text": TASK}], "run": True},
            "autotitle": False,  # it would be a request to the model
        }
        return self.http.post("/api/conversations", json=body)

    def say(self, identity: str, text: str) -> None:
        body = {"role": "user", "content": [{"type": "text", "text": text}], "run": True}
        self.http.post(f"/api/conversations/{identity}/events", json=body).raise_for_status()

    def finished(self, identity: str, model: ModelServer, requests: int) -> Any:
        """The conversation when its work has ended, and the model was asked so often."""
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            found = self.http.get(f"/api/conversations/{identity}").json()
            if found["execution_status"] in ("finished", "error", "stuck") and len(model.requests) >= requests:
                return found
            time.sleep(0.1)
        pytest.fail(f"{len(model.requests)} requests, {model.problems}")


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
    return port


@pytest.fixture(scope="module")
def bare(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Without the hook; begun early, since it takes as long as all the rest."""
    port, folder = free_port(), tmp_path_factory.mktemp("bare")
    env = environment | {"CLIFF_OPENHANDS_HOOK": "0", "OH_CONVERSATIONS_PATH": str(folder / "conversations")}
    command = ["openhands.agent_server", "--port", str(port), "--import-modules", "cliff_openhands"]
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen([sys.executable, "-m", *command], cwd=folder, env=env, stdout=log, stderr=log)
        yield Server(port)
        process.terminate()
        process.wait(SECONDS)


@pytest.fixture(scope="module")
def restartable(programs: Any, environment: Any, bare: Server) -> Iterator[Any]:
    """Starts servers with the hook, one after the other, on the same folder."""
    running: list[int] = []
    home = Path(environment["HOME"])

    def start() -> Server:
        while running:
            programs.stop(running.pop())
        port = free_port()
        running.append(programs.start("-m", "openhands.agent_server", "--port", str(port), cwd=home, env={}))
        server = Server(port)
        server.wait()
        return server

    yield start
    while running:
        programs.stop(running.pop())


@pytest.mark.parametrize("way", ["hook", "import-modules"])
def test_a_conversation(way: str, request: pytest.FixtureRequest, environment: dict[str, str], tmp_path: Path) -> None:
    """28 steps with parallel calls; closed, opened again, gone on with, deleted."""
    restartable, bare = request.getfixturevalue("restartable"), request.getfixturevalue("bare")
    server = restartable() if way == "hook" else bare
    server.wait()
    work = folder(tmp_path / "work")
    with ModelServer([*steps(work, STEPS), FINISH, *steps(work, 5), FINISH]) as model:
        made = server.start(model, work, {"kind": "CliffCondenser", "threshold_tokens": THRESHOLD})
        assert made.status_code == 201, made.text
        identity = made.json()["id"]
        assert server.finished(identity, model, STEPS + 1)["execution_status"] == "finished"
        if way == "hook":
            server = restartable()
            kept = server.http.get(f"/api/conversations/{identity}").json()["agent"]["condenser"]
            assert (kept["kind"], kept["threshold_tokens"]) == ("CliffCondenser", THRESHOLD)
            (record,) = Path(environment["OH_CONVERSATIONS_PATH"]).glob(f"{identity.replace('-', '')}/cliff.jsonl")
            assert len(record.read_text().splitlines()) >= 3
        server.say(identity, "Now look at the writer, too. (marker-8)")
        assert server.finished(identity, model, STEPS + 7)["execution_status"] == "finished"
        assert_models_own(model, STEPS + 7)
        assert_condensed(model.requests)
    assert "marker-8" in str(model.requests[-1].messages)
    assert server.http.delete(f"/api/conversations/{identity}").status_code == 200


def test_a_mistaken_option(bare: Server, tmp_path: Path) -> None:
    bare.wait()
    with ModelServer() as model:
        made = bare.start(model, folder(tmp_path / "work", 1), {"kind": "CliffCondenser", "treshold_tokens": 1})
    assert made.status_code == 422
    assert "did you mean threshold_tokens" in made.text


def test_on_request(bare: Server, tmp_path: Path) -> None:
    """The server's own call for a condensation."""
    bare.wait()
    work = folder(tmp_path / "work")
    with ModelServer([*steps(work, 6), FINISH]) as model:
        made = bare.start(model, work, {"kind": "CliffCondenser", "threshold_tokens": 100_000})
        identity = made.json()["id"]
        bare.finished(identity, model, 7)
        assert bare.http.post(f"/api/conversations/{identity}/condense").status_code == 200
        found = bare.http.get(f"/api/conversations/{identity}/events/search", params={"limit": 100}).json()
    (condensation,) = [event for event in found["items"] if event["kind"] == "Condensation"]
    assert condensation["summary"].startswith("Excerpts of earlier steps")
    assert len(model.requests) == 7


SUB_AGENT = """\
---
name: reader
description: Reads modules.
tools: [file_editor]
condenser:
  kind: CliffCondenser
  threshold_tokens: {threshold}
---
You read modules. (sub-agent-marker)
"""


def test_a_sub_agent(bare: Server, tmp_path: Path) -> None:
    """Its Markdown file names the condenser; the agent that calls it has none."""
    bare.wait()
    work = folder(tmp_path / "work")
    (work / ".agents" / "agents").mkdir(parents=True)
    (work / ".agents" / "agents" / "reader.md").write_text(SUB_AGENT.format(threshold=THRESHOLD))
    ask = Call("task", {"prompt": f"{TASK} Read all modules.", "subagent_type": "reader", "security_risk": "LOW"})
    agents = iter([Step("I ask the reader.", calls=[ask]), FINISH])
    readers = iter([*steps(work, 24), FINISH])

    def script(request: Any) -> Step:
        return next(readers if "sub-agent-marker" in str(request.messages[0]) else agents)

    with ModelServer(script) as model:
        made = bare.start(model, work, None, ("file_editor", "task_tool_set"))
        assert made.status_code == 201, made.text
        assert bare.finished(made.json()["id"], model, 27)["execution_status"] == "finished"
    read = [request for request in model.requests if "sub-agent-marker" in str(request.messages[0])]
    assert len(read) == 25, model.problems
    assert_condensed(read)

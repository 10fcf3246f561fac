"""The app server of openhands-ai, by its environment alone, with its sandboxes as processes (see `stubbed_app`). The
import hook is off: the sandboxes run `python -m cliff_openhands.agent_server`."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from work import FINISH, TASK, THRESHOLD, assert_condensed, folder, steps

from cliff_openhands.settings import INJECTOR, SERVER_KIND, SERVER_PREFIX
from kit import ModelServer

STEPS = 28
SECONDS = 600
"""The longest that anything may take: nothing here is about time, and a busy machine imports for minutes."""


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
    return port


@pytest.fixture
def server(programs: Any) -> Iterator[httpx.Client]:
    port = free_port()
    command = ("-m", "uvicorn", "stubbed_app:app", "--port", str(port))
    number = programs.start(*command, cwd=Path(__file__).parent, env={"CLIFF_OPENHANDS_HOOK": "0"})
    client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=SECONDS)
    until(lambda: answers(client), "the server does not answer")
    yield client
    for sandbox in client.get("/api/v1/sandboxes/search").json().get("items", []):
        client.delete(f"/api/v1/sandboxes/{sandbox['id']}", params={"sandbox_id": sandbox["id"]})
    programs.stop(number)


def answers(client: httpx.Client) -> bool:
    try:
        return client.get("/health").status_code == 200
    except httpx.TransportError:
        return False


def until(found: Any, problem: str) -> Any:
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        if value := found():
            return value
        time.sleep(0.2)
    pytest.fail(problem)


def test_a_conversation(server: httpx.Client, environment: dict[str, str], tmp_path: Path) -> None:
    work = folder(tmp_path / "work")
    with ModelServer([*steps(work, STEPS), FINISH]) as model:
        llm = {"model": "openai/scripted", "base_url": model.openai_url, "api_key": "test", "num_retries": 0}
        server.post("/api/v1/settings", json={"agent_settings_diff": {"llm": llm}}).raise_for_status()
        message = {"role": "user", "content": [{"type": "text", "text": TASK}], "run": True}
        made = server.post("/api/v1/app-conversations", json={"initial_message": message, "title": "a title"})
        made.raise_for_status()

        def ready() -> Any:
            (task,) = server.get("/api/v1/app-conversations/start-tasks", params={"ids": made.json()["id"]}).json()
            assert task["status"] != "ERROR", task
            return task if task["status"] == "READY" else None

        until(ready, "the conversation does not start")
        until(lambda: len(model.answered) >= STEPS + 1, f"{len(model.requests)} requests, {model.problems}")
        assert not model.problems
        # (A title is made by a request of the server's own, without tools.)
        assert_condensed([request for request in model.requests if request.body.get("tools")])
    states = list(Path(environment["OH_SANDBOX_BASE_WORKING_DIR"]).glob("**/base_state.json"))
    states += list(Path(environment["OH_CONVERSATIONS_PATH"]).glob("**/base_state.json"))
    (condenser,) = [json.loads(path.read_text())["agent"]["condenser"] for path in states]
    assert (condenser["kind"], condenser["threshold_tokens"]) == ("CliffCondenser", THRESHOLD)


READ = """
from openhands.agent_server.env_parser import from_env
from openhands.app_server.config import AppServerConfig
read = from_env(AppServerConfig, "OH").app_conversation
from openhands.sdk import LLM, Agent
from cliff_openhands import CliffCondenser
llm = LLM(model="openai/scripted", api_key="test", usage_id="agent")
config = read._exchanged(Agent(llm=llm, tools=[], condenser=CliffCondenser())).condenser.config
print("read", config.threshold_tokens, config.min_gain, config.pin_directives, config.cache_price_ratio)
"""


@pytest.mark.parametrize("threshold", ["auto", "16000"])
def test_variables_are_read_as_the_options_that_they_are(programs: Any, tmp_path: Path, threshold: str) -> None:
    options = {"THRESHOLD_TOKENS": threshold, "MIN_GAIN": "0.5", "PIN_DIRECTIVES": "false", "CACHE_PRICE_RATIO": "10"}
    env = {SERVER_PREFIX + name: value for name, value in options.items()} | {SERVER_KIND: INJECTOR}
    assert f"read {threshold} 0.5 False 10.0" in programs("-c", READ, cwd=tmp_path, env=env).output
    wrong = programs("-c", READ, cwd=tmp_path, env=env | {SERVER_PREFIX + "THRESHOLD_TOKENS": "automatic"})
    assert wrong.status != 0
    assert """or "auto", not 'automatic'""" in wrong.output


def test_a_mistaken_option(programs: Any, tmp_path: Path) -> None:
    """The host would ignore a variable that it does not know."""
    make = "from cliff_openhands.app_server import CliffAppConversationServiceInjector as Ours; Ours(); print('made')"
    assert "made" in programs("-c", make, cwd=tmp_path, env={}).output
    run = programs("-c", make, cwd=tmp_path, env={"OH_APP_CONVERSATION_CLIFF_TRESHOLD_TOKENS": "1"})
    assert run.status != 0
    assert "did you mean OH_APP_CONVERSATION_CLIFF_THRESHOLD_TOKENS?" in run.output

"""Codex, headless: 27 steps over two prompts, with parallel calls, errors, a patch; through its own provider, over HTTP
and over its WebSocket, and through one of its configuration."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from client_checks import assert_held, assert_present
from client_runs import Home, texts

from kit import Call, ModelServer, Request, Step
from kit.websocket import WebSocketServer

FIRST = "Find out why the parser drops the last line of a file, and write down what you find. (first-prompt-17)"
SECOND = "Now look for the same mistake in the modules from 13 on, and change nothing else. (second-prompt-23)"
THRESHOLDS = {
    "built-in": 30_000,
    "websocket": 30_000,
    "configured": 22_000,
}  # the prompts and tools of the two differ in size
CONFIG = 'approval_policy = "never"\nsandbox_mode = "danger-full-access"\ncheck_for_update_on_startup = false\n'
PROVIDER = """model_provider = "local"
[model_providers.local]
name = "local"
base_url = "{url}"
wire_api = "responses"
env_key = "LOCAL_KEY"
"""
PATCH = "*** Begin Patch\n*** Add File: notes.md\n+# Notes\n{lines}*** End Patch"


def steps() -> Iterator[Step]:
    for at in range(26):
        if at == 13:
            yield Step("The first part is done.")
            continue
        calls = [Call("exec_command", {"cmd": f"cat module_{at}.py"})]
        if at % 4 == 3:
            calls += [Call("exec_command", {"cmd": f"wc -l module_{at}.py"}), Call("exec_command", {"cmd": "cat gone"})]
        if at == 6:
            patch = PATCH.format(lines="+- the loop ends before the last line\n" * 40)
            calls.append(Call("apply_patch", patch, custom=True))
        yield Step(f"Step {at}: module_{at} may hold the loop.", thought=f"Thinking of {at}. " * 3, calls=calls)
    yield Step("The second part is done.")


def warms_up(request: Request) -> Step | None:
    """On a WebSocket Codex sends its prompt beforehand, and wants no answer yet."""
    return Step() if request.body.get("generate") is False else None


def play(folder: Path, server: ModelServer | WebSocketServer, threshold: int, config: str, env: dict[str, str]) -> Home:
    home = Home(folder, server, env, ("--threshold", str(threshold)))
    (folder / "home" / ".codex").mkdir()
    (folder / "home" / ".codex" / "config.toml").write_text(config)
    home.run("codex", "exec", "--skip-git-repo-check", "--json", FIRST)
    home.run("codex", "exec", "resume", "--last", "--skip-git-repo-check", "--json", SECOND)
    return home


@pytest.fixture(scope="module", params=THRESHOLDS)
def home(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    folder, threshold = tmp_path_factory.mktemp(request.param), THRESHOLDS[request.param]
    server: ModelServer | WebSocketServer = ModelServer(list(steps()))
    if request.param == "websocket":
        # Lenient, as that prompt beforehand may be empty. Pairs are checked here all the same.
        server = WebSocketServer(list(steps()), side=warms_up, strict=False)
    with server:
        if request.param == "configured":
            config = CONFIG + PROVIDER.format(url=f"{server.url}/v1")
            yield play(folder, server, threshold, config, {"LOCAL_KEY": "dummy"})
        else:
            env = {"OPENAI_BASE_URL": f"{server.url}/v1", "CODEX_API_KEY": "dummy"}
            yield play(folder, server, threshold, CONFIG, env)


@pytest.fixture
def requests(home: Home) -> list[Request]:
    """As the upstream got them."""
    return [request for request in home.server.requests if warms_up(request) is None]


def test_the_session_was_played(home: Home, requests: list[Request]) -> None:
    assert [run.status for run in home.runs] == [0, 0], home.runs
    assert not home.server.problems
    assert not home.server.script.left
    assert len(requests) == 27
    for run, words in zip(home.runs, ("The first part is done.", "The second part is done."), strict=True):
        assert words in run.out
    assert (home.work / "notes.md").read_text().startswith("# Notes")


def test_the_transport(home: Home, requests: list[Request]) -> None:
    over_websocket = isinstance(home.server, WebSocketServer)
    assert {request.method for request in requests} == {"GET" if over_websocket else "POST"}


def test_paired_and_append_only(requests: list[Request]) -> None:
    assert_held(requests)


def test_requests_stay_under_the_threshold(home: Home, requests: list[Request]) -> None:
    threshold = int(home.options[1])
    assert max(request.usage.input for request in requests if request.usage) <= 1.05 * threshold


@pytest.mark.parametrize("text", [FIRST, SECOND, "<environment_context>"])
def test_what_people_and_the_client_said_stays(requests: list[Request], text: str) -> None:
    assert_present(requests, text)


def test_the_working_folder_stays(home: Home, requests: list[Request]) -> None:
    assert_present(requests, f"<cwd>{home.work}</cwd>")


def test_a_patch_is_named_in_the_block(requests: list[Request]) -> None:
    having = [place for place, request in enumerate(requests) if "the loop ends before" in texts(request.messages)]
    after = requests[having[-1] + 1]
    assert "notes.md" in texts(after.messages)


def test_every_request_went_through_the_proxy(home: Home) -> None:
    recorded = [line for file in home.records.glob("*.jsonl") for line in file.read_text().splitlines()]
    assert len(recorded) == 27
    for run in home.runs:
        assert re.search(r"^cliff: \d+ requests, \d+ cliffs?, ", run.err, re.MULTILINE)

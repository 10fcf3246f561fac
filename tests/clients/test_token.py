"""A proxy that other machines reach: how the clients send its token (`docs/proxy.md`, section Security)."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from client_runs import CLIENTS

from cliff_proxy.inside import Inside
from cliff_proxy.settings import Settings
from kit import ModelServer, Step

TOKEN = "token-41"
CODEX = """model_provider = "cliff"
[model_providers.cliff]
name = "cliff"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "CODEX_API_KEY"
{headers}
"""


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(lambda request: Step("The answer is 17.")) as server:
        yield server


@pytest.fixture
def url(server: ModelServer) -> Iterator[str]:
    settings = Settings(host="0.0.0.0", port=0, token=TOKEN, anthropic_upstream=server.url, openai_upstream=server.url)
    proxy = Inside(settings, lambda reason: None)
    assert proxy.wait(30)
    yield proxy.url
    proxy.stop()


def run(home: Path, argv: list[str], env: dict[str, str]) -> str:
    """What a client says in the end."""
    own = {"PATH": f"{CLIENTS}:{os.environ['PATH']}", "HOME": str(home), "XDG_STATE_HOME": str(home / "state")}
    done = subprocess.run(
        argv, cwd=home, env=own | env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120
    )
    return done.stdout + done.stderr


def assert_reached(server: ModelServer, said: str) -> None:
    assert "The answer is 17." in said
    assert server.requests
    assert all(request.header("x-cliff-token") is None for request in server.requests)  # it is ours alone


def test_claude_code(tmp_path: Path, server: ModelServer, url: str) -> None:
    env = {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "dummy",
        "ANTHROPIC_CUSTOM_HEADERS": f"x-cliff-token: {TOKEN}",
        "IS_SANDBOX": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    assert_reached(server, run(tmp_path, ["claude", "-p", "What is the answer?"], env))


@pytest.mark.parametrize(
    "headers",
    ['env_http_headers = { "x-cliff-token" = "CLIFF_TOKEN" }', f'http_headers = {{ "x-cliff-token" = "{TOKEN}" }}'],
    ids=["variable", "itself"],
)
def test_codex(tmp_path: Path, server: ModelServer, url: str, headers: str) -> None:
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".codex" / "config.toml").write_text(CODEX.format(url=url, headers=headers))
    env = {"CODEX_API_KEY": "dummy", "CLIFF_TOKEN": TOKEN}
    argv = ["codex", "exec", "--skip-git-repo-check", "What is the answer?"]
    assert_reached(server, run(tmp_path, argv, env))

"""A request that is rejected as too long: one forced cliff, one retry; else the error that the host would raise."""

from __future__ import annotations

import copy
from typing import Any

import agents
import pytest
from sessions import TASK, repository, texts, tool_calls

from cliff_mini_swe_agent import wrap
from kit import WORDINGS, Call, ModelServer, Status, Step, checks
from kit import Overflow as TooLong

FAMILIES = {"litellm": "chat", "litellm_textbased": "text", "litellm_response": "responses"}
AGAIN = Step("Again.\n\n```mswea_bash_command\nls\n```", calls=[Call("bash", {"command": "ls"})])
TEXT_AGAIN = Step(AGAIN.text)


@pytest.fixture(scope="module")
def histories(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """Eight steps of each family of messages, by the host's own classes: nothing was cut yet."""
    cwd = repository(tmp_path_factory.mktemp("repository"), files=10)
    found = {}
    for name in FAMILIES:
        script = texts(8) if name in agents.TEXT else tool_calls(8)
        with ModelServer(script) as server:
            agent = agents.agent(agents.make(name, server, ours=False), cwd)
            agent.run(TASK)
            found[FAMILIES[name]] = agent.messages[:-2]
            assert found[FAMILIES[name]][-1].get("role") != "exit"
    return found


def history(histories: dict[str, Any], name: str) -> list[dict[str, Any]]:
    family = "text" if name in agents.TEXT else "responses" if "response" in name else "chat"
    found: list[dict[str, Any]] = copy.deepcopy(histories[family])
    while "extra" not in found[-1] or "raw_output" not in found[-1]["extra"]:
        found.pop()
    return found


CASES = [
    *(("litellm", "openai/scripted", wording) for wording in WORDINGS),
    *(("openrouter", "", wording) for wording in WORDINGS),
    *(("litellm", "hosted_vllm/scripted", wording) for wording in ("vllm", "vllm-old", "vllm-max-tokens", "sglang")),
    *(("litellm", "anthropic/claude-sonnet-4-5-20250929", w) for w in WORDINGS if w.startswith("anthropic")),
    *(("litellm_response", "openai/scripted", w) for w in ("openai-responses", "openai", "vllm", "no-body")),
    *((name, "", "openrouter") for name in ("openrouter_textbased", "openrouter_response", "requesty")),
    *((name, "", "openai") for name in ("portkey", "portkey_response", "litellm_textbased")),
]


@pytest.mark.parametrize(("name", "model", "wording"), CASES, ids=lambda value: value)
def test_one_forced_cliff_and_one_retry(
    name: str, model: str, wording: str, histories: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PORTKEY_API_KEY", "test")
    messages = history(histories, name)
    before = copy.deepcopy(messages)
    again = TEXT_AGAIN if name in agents.TEXT else AGAIN
    with ModelServer([Step(fault=TooLong(wording)), again]) as server:
        reply = agents.make(name, server, model_name=model).query(messages)
    assert len(server.requests) == 2
    server.assert_finished()
    assert messages == before
    cliff = reply["extra"]["cliff"]["cliff"]
    assert cliff["reason"] == "forced"
    assert cliff["tokens_after"] < 0.75 * cliff["tokens_before"]
    assert len(server.requests[1].raw) < len(server.requests[0].raw)
    checks.assert_paired(server.requests[1])
    assert {fact["kind"] for fact in reply["extra"]["cliff"]["facts"]} >= {"forced", "limit", "usage"}


@pytest.mark.parametrize(("name", "model", "wording"), CASES[::2], ids=lambda value: value)
def test_rejected_again_the_host_gets_its_own_error(
    name: str, model: str, wording: str, histories: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PORTKEY_API_KEY", "test")
    monkeypatch.setenv("MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT", "1")
    errors = []
    for ours in (False, True):
        with (
            ModelServer([Step(fault=TooLong(wording))] * (1 + ours)) as server,
            pytest.raises(Exception) as caught,  # noqa: PT011 - the two are compared
        ):
            agents.make(name, server, ours=ours, model_name=model).query(history(histories, name))
        server.assert_finished()
        errors.append(caught.value)
    assert type(errors[0]) is type(errors[1])


def test_nothing_to_drop_is_the_hosts_own_error() -> None:
    with ModelServer([Step(fault=TooLong("openai"))]) as server, pytest.raises(Exception, match="maximum context") as e:
        agents.make("litellm", server).query([{"role": "system", "content": "S"}, {"role": "user", "content": "T"}])
    assert type(e.value).__name__ == "ContextWindowExceededError"
    assert len(server.requests) == 1


@pytest.mark.parametrize("code", [429, 500, 400])
def test_other_errors_are_the_hosts_business(code: int, histories: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT", "1")
    fault = Status(code, message="Rate limit reached on tokens per min (TPM): Limit 9000, Used 8000, Requested 2000")
    with ModelServer([Step(fault=fault)], repeat=True) as server, pytest.raises(Exception, match=r"Rate limit|HTTP"):
        agents.make("openrouter", server).query(history(histories, "openrouter"))
    assert len(server.requests) == 1


def test_the_limit_holds_for_the_rest_of_the_session(tmp_path: Any) -> None:
    """The window is smaller than the threshold: the first overflow teaches it, and no second one follows."""
    cwd = repository(tmp_path / "repository", files=40)
    with ModelServer(tool_calls(38), context_limit=7_000, wording="vllm") as server:
        agent = agents.agent(agents.make("litellm", server), cwd)
        assert agent.run(TASK)["exit_status"] == "Submitted"
    server.assert_finished()
    assert [request.rejected for request in server.requests].count("limit") == 1
    assert agent.n_calls == 39
    cliffs = agent.model.serialize()["info"]["cliff"]["cliffs"]
    assert [cliff["reason"] for cliff in cliffs][:2] == ["forced", "limit"]
    assert all(cliff["threshold"] <= 0.95 * 7_000 for cliff in cliffs[1:])


def test_a_class_without_retries_of_the_hosts_kind(histories: Any) -> None:
    """Overflow that reaches `query` itself, as in a class of somebody else."""

    class Rejecting:
        def __init__(self) -> None:
            self.config = None
            self.asked: list[int] = []

        def query(self, messages: list[dict[str, Any]]) -> dict[str, Any]:
            self.asked.append(len(messages))
            if len(self.asked) == 1:
                raise ValueError("This model's maximum context length is 2000 tokens.")
            return {"role": "assistant", "content": "x"}

    model = wrap(Rejecting)()
    reply = model.query(history(histories, "litellm"))
    assert reply["extra"]["cliff"]["cliff"]["reason"] == "forced"
    assert model.asked[1] < model.asked[0]

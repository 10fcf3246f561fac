"""Conversations: one that is resumed goes on as if it had not stopped; a new one knows nothing of the last."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import agents
import pytest
from sessions import TASK, repository, texts, tool_calls

from cliff_mini_swe_agent import views
from kit import ModelServer, checks

SMALL = {"threshold_tokens": 7_000}


def script(name: str, steps: int) -> Any:
    return texts(steps) if name in agents.TEXT else tool_calls(steps)


@pytest.mark.parametrize("limit", [None, 6_000])
@pytest.mark.parametrize("name", ["litellm", "litellm_textbased", "litellm_response"])
def test_a_resumed_session_sends_the_same(name: str, limit: int | None, tmp_path: Path) -> None:
    """`limit`: the provider takes less than the threshold, which the session learned before it stopped."""
    with ModelServer(script(name, 40), context_limit=limit) as whole:
        agents.agent(agents.make(name, whole, cliff=SMALL), repository(tmp_path / "whole")).run(TASK)
    saved = tmp_path / "saved.json"
    with ModelServer(script(name, 40), context_limit=limit) as server:
        first = agents.agent(agents.make(name, server, cliff=SMALL), repository(tmp_path / "repository"), step_limit=27)
        assert first.run(TASK)["exit_status"] == "LimitsExceeded"
        first.save(saved)
        second = agents.agent(agents.make(name, server, cliff=SMALL), tmp_path / "repository")
        second.messages = json.loads(saved.read_text())["messages"][:-1]  # without `exit`
        while second.messages[-1].get("role") != "exit":
            try:
                second.step()
            except Exception as end:  # the host's InterruptAgentFlow
                second.add_messages(*end.messages)  # type: ignore[attr-defined]
    server.assert_finished()
    assert len(server.requests) == len(whole.requests)
    assert len(checks.cliffs_of(server.answered)) >= 3
    for one, other in zip(whole.requests, server.requests, strict=True):
        assert one.messages == other.messages, one.number
    assert [r.rejected for r in server.requests] == [r.rejected for r in whole.requests]
    assert bool(limit) == any(r.rejected for r in server.requests)
    cliffs = second.model.serialize()["info"]["cliff"]["cliffs"]
    assert [cliff["number"] for cliff in cliffs] == list(range(1, len(cliffs) + 1))
    # Views of the whole, rebuilt from what both parts saved.
    second.save(saved)
    sent = [len(view.messages) for view in views(saved)]
    # A Responses object is one message of the view and several items of the request.
    if name != "litellm_response":
        assert sent == [len(request.messages) for request in server.answered]


def test_a_new_task_is_a_new_session(tmp_path: Path) -> None:
    """The same agent and model, the same task again: as if both were new."""
    with ModelServer([*tool_calls(25), *tool_calls(25)]) as server:
        model = agents.make("litellm", server, cliff=SMALL)
        agent = agents.agent(model, repository(tmp_path / "repository"))
        agent.run(TASK)
        first = model.serialize()["info"]["cliff"]["cliffs"]
        agent.run(TASK)
        second = model.serialize()["info"]["cliff"]["cliffs"]
    assert len(first) >= 2
    assert [c["cut"] for c in first] == [c["cut"] for c in second]
    ids = ("tool_call_id", "tool_calls")  # the server numbers them on

    def plain(request: Any) -> Any:
        return [{k: v for k, v in m.items() if k not in ids} for m in request.messages]

    half = len(server.requests) // 2
    for one, other in zip(server.requests[:half], server.requests[half:], strict=True):
        assert plain(one) == plain(other)


def test_an_agent_that_copies_its_messages(tmp_path: Path) -> None:
    """Copies of the same conversation are the same session; the host's messages stay as they were."""
    with ModelServer(tool_calls(25)) as server:
        model = agents.make("litellm", server, cliff=SMALL)
        query = model.query
        model.query = lambda messages, **more: query(copy.deepcopy(messages), **more)
        agent = agents.agent(model, repository(tmp_path / "repository"))
        agent.run(TASK)
    cliffs = checks.cliffs_of(server.requests)
    assert len(cliffs) >= 2
    checks.assert_append_only(server.requests, cliffs)
    assert len(model.serialize()["info"]["cliff"]["cliffs"]) == len(cliffs)


def test_two_conversations_in_turns_by_one_model(tmp_path: Path) -> None:
    with ModelServer([step for step in tool_calls(25) for _ in range(2)]) as server:
        model = agents.make("litellm", server, cliff=SMALL)
        pair = [agents.agent(model, repository(tmp_path / name)) for name in ("a", "b")]
        for agent in pair:
            agent.add_messages({"role": "system", "content": "S"}, {"role": "user", "content": TASK})
        for _ in range(25):
            for agent in pair:
                agent.step()
    for requests in (server.requests[::2], server.requests[1::2]):
        cliffs = checks.cliffs_of(requests)
        assert len(cliffs) >= 2
        checks.assert_append_only(requests, cliffs)
        for request in requests:
            checks.assert_paired(request)


def test_a_reply_without_a_legal_form_is_a_request_too(tmp_path: Path) -> None:
    from kit import Step

    steps = tool_calls(20)
    with ModelServer([*steps[:5], Step("no call"), *steps[5:]]) as server:
        agent = agents.agent(agents.make("litellm", server, cliff=SMALL), repository(tmp_path / "repository"))
        agent.run(TASK)
    (error,) = [m for m in agent.messages if (m.get("extra") or {}).get("interrupt_type") == "FormatError"]
    if "response" in error["extra"]:  # not in 2.0
        assert error["extra"]["cliff"]["facts"][0]["kind"] == "usage"
    found = views(agent.save(None))
    assert [len(view.messages) for view in found] == [len(request.messages) for request in server.requests]

"""When cliffs come: by reported usage, never in a row."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import agents
from sessions import SUBMIT, TASK, repository, texts, tool_calls

from kit import Call, ModelServer, Step, checks


def test_reported_usage_drives_the_threshold(tmp_path: Path) -> None:
    """A provider that counts twice as many tokens as we estimate, of prompts that are cached for the most part."""
    with ModelServer(tool_calls(30), count=lambda text: len(text) // 2) as server:
        model = agents.make("litellm", server, cliff={"threshold_tokens": 14_000})
        agents.agent(model, repository(tmp_path / "repository", files=30)).run(TASK)
    sizes = [request.usage.input for request in server.requests]
    assert max(sizes) <= 1.1 * 14_000
    assert len(checks.cliffs_of(server.requests)) >= 2
    assert sum(request.usage.cached for request in server.requests) > 0.5 * sum(sizes)


def test_no_cliff_after_cliff_where_head_and_turns_nearly_fill_the_budget(tmp_path: Path) -> None:
    """Turns of three large results, of which two and the head fill the threshold (facts, "Obstacles met", 8)."""
    calls = [[f"cat module_{at}.py", f"cat module_{at + 1}.py", f"cat module_{at + 2}.py"] for at in range(24)]
    steps = [Step("Look.", calls=[Call("bash", {"command": c}) for c in found]) for found in [*calls, [SUBMIT]]]
    with ModelServer(steps) as server:
        model = agents.make("litellm", server, cliff={"threshold_tokens": 8_000})
        agents.agent(model, repository(tmp_path / "repository", files=30)).run(TASK)
    server.assert_finished()
    cliffs = checks.cliffs_of(server.requests)
    assert 3 <= len(cliffs) <= len(server.requests) / 2
    assert all(later - earlier > 1 for earlier, later in pairwise(cliffs))


def test_a_threshold_that_is_too_small_is_raised_and_told(tmp_path: Path, caplog: Any) -> None:
    with ModelServer(tool_calls(20)) as server, caplog.at_level("WARNING"):
        model = agents.make("litellm", server, cliff={"threshold_tokens": 500})
        agents.agent(model, repository(tmp_path / "repository", files=30)).run(TASK)
    assert len(checks.cliffs_of(server.requests)) <= len(server.requests) / 2
    told = [record.message for record in caplog.records if "threshold_tokens=500 is too small here" in record.message]
    assert told


def test_templates_that_want_alternating_roles(tmp_path: Path) -> None:
    with ModelServer(texts(20), alternating=True) as server:
        model = agents.make("litellm_textbased", server, cliff={"threshold_tokens": 6_000, "merge_block": True})
        agents.agent(model, repository(tmp_path / "repository", files=20)).run(TASK)
    server.assert_finished()
    assert checks.cliffs_of(server.requests)
    assert [message["role"] for message in server.requests[-1].messages[:3]] == ["system", "user", "assistant"]

"""terminal-bench's own features with cliffs: logs of episodes, repeated errors, rejections and their class."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import agents
import checks
import host_settings
import pytest
from tenacity import RetryError
from terminal_bench.agents.terminus_2.terminus_2 import Terminus2
from terminal_bench.llms.base_llm import ContextLengthExceededError

from cliff_core import ConfigError
from cliff_core.block import OPENING
from cliff_terminus2.terminal_bench import HOST_NAMES, CliffTerminus2
from kit import Status, Step

host_settings.declare()
SMALL = {"cliff_threshold_tokens": 6_000}


def run(agent: Any, logs: Path | None = None, screen: Any = None) -> Any:
    if logs is not None:
        logs.mkdir(parents=True, exist_ok=True)
    return agent.perform_task(agents.TASK, screen or agents.SyncScreen(), logs)


@pytest.mark.parametrize("parser", ["json", "xml"])
def test_without_a_cliff_it_is_the_stock_agent(parser: str, model_server: Any) -> None:
    """With a model of which litellm knows nothing: of others the host takes the maximum output for the window."""
    servers = [model_server(agents.steps(12, parser)) for _ in range(2)]
    results = [
        run(agents.terminal_bench(kind, server, model="openai/unknown", parser_name=parser))
        for kind, server in zip((Terminus2, CliffTerminus2), servers, strict=True)
    ]
    stock, ours = servers
    assert [request.raw for request in ours.requests] == [request.raw for request in stock.requests]
    assert len(ours.requests) == 12
    assert results[1].model_dump(exclude={"cliff"}) == results[0].model_dump()


@pytest.mark.parametrize("parser", ["json", "xml"])
def test_cliffs_and_their_record(parser: str, model_server: Any, tmp_path: Path) -> None:
    server = model_server(agents.steps(30, parser))
    agent = agents.terminal_bench(CliffTerminus2, server, parser_name=parser, **SMALL)
    result = run(agent, tmp_path)
    cliffs = checks.assert_cliffs(server)
    assert [cliff["request"] for cliff in result.cliff["cliffs"]] == cliffs
    assert result.cliff["threshold"] == {"tokens": 6_000, "source": "option"}
    assert json.loads((tmp_path / "cliff.json").read_text()) == result.cliff
    marks = [text for _, text in result.timestamped_markers if text.startswith("Cliff ")]
    assert len(marks) == len(cliffs)
    assert result.total_input_tokens > 0


def test_each_task_is_a_conversation_of_its_own(model_server: Any) -> None:
    server = model_server([*agents.steps(24), *agents.steps(24)])
    agent = agents.terminal_bench(CliffTerminus2, server, **SMALL)
    first = run(agent)
    agent._pending_completion = False  # the harness makes a new agent for each task
    second = run(agent)
    assert first.cliff == second.cliff
    assert len(first.cliff["cliffs"]) >= 2


def test_an_answer_that_was_too_long(model_server: Any) -> None:
    """The host then sends the same error twice in a row; nothing of it is lost or said twice in a block."""
    said = agents.steps(30)
    for at in (5, 11, 12, 13, 14, 15):
        said[at] = Step(said[at].text, stop="length")
    server = model_server(said)
    result = run(agents.terminal_bench(CliffTerminus2, server, **SMALL))
    assert len(server.answered) == 30
    assert result.cliff["requests"] == 30
    assert len(result.cliff["cliffs"]) >= 3
    for request in server.answered:
        blocks = [m["content"] for m in request.messages if m["content"].startswith(OPENING)]
        assert len(blocks) <= 1
        assert all(block.count("NONE of the actions") <= 1 for block in blocks)


def test_the_models_maximum_output_is_not_its_window(model_server: Any) -> None:
    """Declared: 14 000 tokens of output. The host takes that for the window, and would summarize from 6 000 on."""
    server = model_server(agents.steps(30))
    agent = agents.terminal_bench(CliffTerminus2, server, model="openai/scripted", cliff_threshold_tokens=12_000)
    result = run(agent)
    assert result.cliff["threshold"] == {"tokens": 12_000, "source": "option"}
    agent = agents.terminal_bench(CliffTerminus2, model_server(agents.steps(30)), model="openai/scripted-14k")
    result = run(agent)
    assert result.cliff["threshold"] == {"tokens": 6_300, "source": "window"}  # 14 000 - half of it - 5 %


def test_options(model_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    server = model_server([])
    with pytest.raises(ConfigError, match="unknown option 'cliff_keep_turn'; did you mean cliff_keep_turns"):
        agents.terminal_bench(CliffTerminus2, server, cliff_keep_turn=2)
    with pytest.raises(ConfigError, match="unknown option 'max_episode'; did you mean max_episodes"):
        agents.terminal_bench(CliffTerminus2, server, max_episode=2)
    with pytest.raises(SystemExit, match="did you mean cliff_keep_turns"):  # as `tb run` gives them
        agents.terminal_bench(CliffTerminus2, server, no_rebuild=False, cliff_keep_turn=2)
    with pytest.raises(ConfigError, match="cliff_min_gain must be a number"):
        agents.terminal_bench(CliffTerminus2, server, cliff_min_gain="much")
    monkeypatch.setenv("CLIFF_KEEP_TURNS", "2")
    monkeypatch.setenv("CLIFF_MIN_GAIN", "0.5")
    agent = agents.terminal_bench(CliffTerminus2, server, cliff_keep_turns=1, cliff_preset="paper", temperature=0.1)
    assert agent._options.config.keep_turns == 1
    assert agent._options.config.min_gain == 0.5
    assert agent._options.config.preset_name == "paper"
    assert agent._llm._temperature == 0.1
    assert CliffTerminus2.name() == "terminus-2-cliff"


def test_the_hosts_own_options_are_known() -> None:
    own = set(inspect.signature(Terminus2).parameters) - {"kwargs"}
    assert own | {"version", "prompt_template", "no_rebuild"} == set(HOST_NAMES)


@pytest.mark.parametrize("summarizer", ["cliff", "off"])
def test_a_task_that_never_fits_has_the_class_that_the_harness_expects(summarizer: str, model_server: Any) -> None:
    """`RetryError` whose last exception is exactly the host's (harness.py: CONTEXT_LENGTH_EXCEEDED)."""
    server = model_server(agents.steps(4), context_limit=300)
    with pytest.raises(RetryError) as raised:
        run(agents.terminal_bench(CliffTerminus2, server, summarizer=summarizer))
    assert type(raised.value.last_attempt.exception()) is ContextLengthExceededError
    assert len(server.requests) == 1


def test_the_same_from_inside_the_hosts_retries(model_server: Any) -> None:
    """An answer was too long, and what the host asks then does not fit at all."""
    said = agents.steps(6)
    said[2] = Step(said[2].text, stop="length")
    server = model_server(said)
    server.on_reply = lambda request: setattr(server, "context_limit", 300) if len(server.answered) == 3 else None
    with pytest.raises(RetryError) as raised:
        run(agents.terminal_bench(CliffTerminus2, server))
    assert type(raised.value.last_attempt.exception()) is ContextLengthExceededError
    assert len(server.requests) <= 10


def test_live_turns_shrink_to_none_then_the_observation_is_cut(model_server: Any, tmp_path: Path) -> None:
    server = model_server(agents.steps(14))
    limits = {6: 4_000, 9: 2_900, 11: 2_600}
    server.on_reply = lambda request: setattr(
        server, "context_limit", limits.get(len(server.answered), server.context_limit)
    )
    result = run(agents.terminal_bench(CliffTerminus2, server), tmp_path, agents.SyncScreen(lines=80))
    assert result.cliff["cut_prompts"] >= 1
    assert 3 <= result.cliff["rejections"] <= 24
    for place, request in enumerate(server.answered):
        logged = (tmp_path / f"episode-{place}/prompt.txt").read_text()
        assert "interior bytes omitted" not in logged
        sent = request.messages[-1]["content"]
        if sent != logged:
            front, _, back = sent.partition("\n[... output limited to ")
            assert logged.startswith(front)
            assert logged.endswith(back.partition("]\n")[2])
    assert not server.problems


def test_when_nothing_fits_any_more_logs_and_record_are_whole(model_server: Any, tmp_path: Path) -> None:
    """The task ends in the middle, with a prompt that was cut and was rejected all the same."""
    server = model_server(agents.steps(14))
    server.on_reply = lambda request: setattr(server, "context_limit", 400) if len(server.answered) == 6 else None
    with pytest.raises(RetryError):
        run(agents.terminal_bench(CliffTerminus2, server), tmp_path, agents.SyncScreen(lines=80))
    assert "interior bytes omitted" in server.requests[-1].messages[-1]["content"]
    logged = (tmp_path / "episode-6/prompt.txt").read_text()
    assert logged == server.requests[6].messages[-1]["content"]
    assert "interior bytes omitted" not in logged
    record = json.loads((tmp_path / "cliff.json").read_text())
    assert record["requests"] == 6
    assert record["rejections"] == len(server.requests) - 6


def test_the_record_is_written_as_the_task_goes_on(model_server: Any, tmp_path: Path) -> None:
    """The harness gives up an agent that runs out of time, and asks it for nothing."""
    server = model_server(agents.steps(8))
    seen: list[int] = []

    def look(request: Any) -> None:
        record = tmp_path / "cliff.json"
        seen.append(json.loads(record.read_text())["requests"] if record.exists() else 0)

    server.on_reply = look
    run(agents.terminal_bench(CliffTerminus2, server), tmp_path)
    assert seen == list(range(8))


def test_a_limit_that_nobody_declared(model_server: Any) -> None:
    server = model_server(agents.steps(25), context_limit=7_000)
    result = run(agents.terminal_bench(CliffTerminus2, server))
    assert result.cliff["rejections"] == 1
    assert len(server.answered) == 25


@pytest.mark.parametrize(
    "wording", ["openai", "vllm", "gemini-object", "bedrock", "no-body", "groq", "xai", "moonshot"]
)
def test_each_provider_is_understood(wording: str, model_server: Any) -> None:
    """Most of these reach the host as another error, which it repeats nine times and then gives up."""
    server = model_server(agents.steps(16), context_limit=6_000, wording=wording)
    result = run(agents.terminal_bench(CliffTerminus2, server))
    assert result.cliff["rejections"] == 1
    assert len(server.requests) == 17


def test_other_errors_are_the_hosts(model_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host's own retries go on as they do."""
    import terminal_bench.llms.lite_llm as host

    monkeypatch.setattr("time.sleep", lambda seconds: None)
    assert host.LiteLLM.call.retry.stop.max_attempt_number == 3
    said = agents.steps(4)
    said.insert(2, Step(fault=Status(500)))
    server = model_server(said)
    result = run(agents.terminal_bench(CliffTerminus2, server))
    assert result.cliff["requests"] == 4
    assert result.cliff["rejections"] == 0

"""Harbor's own features with cliffs: trajectories, rollouts, several steps, Responses, thinking, rejections."""

from __future__ import annotations

import asyncio
import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import agents
import checks
import host_settings
import pytest
import yaml
from harbor.agents.terminus_2.terminus_2 import Terminus2
from harbor.llms.base import ContextLengthExceededError
from harbor.models.agent.context import AgentContext
from harbor.models.trajectories import Trajectory

from cliff_core.block import OPENING
from cliff_terminus2.harbor import CliffTerminus2
from kit import Step
from kit import checks as kit_checks

host_settings.declare()
SMALL = {"cliff_threshold_tokens": 6_000}
INFO = {"max_input_tokens": 100_000, "max_output_tokens": 4_000, "litellm_provider": "openai", "mode": "chat"}


def trajectory(path: Path) -> Trajectory:
    return Trajectory.model_validate_json(path.read_text())


@pytest.mark.parametrize("parser", ["json", "xml"])
def test_without_a_cliff_it_is_the_stock_agent(parser: str, model_server: Any, tmp_path: Path) -> None:
    """Requests to the byte, and the trajectory but for what names the run."""
    servers = [model_server(agents.steps(12, parser)) for _ in range(2)]
    for kind, server in zip((Terminus2, CliffTerminus2), servers, strict=True):
        agent = agents.harbor(kind, server, tmp_path / kind.__name__, parser_name=parser, session_id="same")
        agents.run_harbor(agent)
    stock, ours = servers
    assert [request.raw for request in ours.requests] == [request.raw for request in stock.requests]
    assert len(ours.requests) == 12
    found = []
    for kind in (Terminus2, CliffTerminus2):
        text = (tmp_path / kind.__name__ / "trajectory.json").read_text()
        found.append(re.sub(r'"timestamp": "[^"]*"', "", text).replace('"terminus-2-cliff"', '"terminus-2"'))
    assert found[0] == found[1]


@pytest.mark.parametrize("parser", ["json", "xml"])
def test_all_messages_and_metadata(parser: str, model_server: Any, tmp_path: Path) -> None:
    server = model_server(agents.steps(30, parser))
    agent = agents.harbor(CliffTerminus2, server, tmp_path, parser_name=parser, store_all_messages=True, **SMALL)
    context = agents.run_harbor(agent)
    cliffs = checks.assert_cliffs(server)
    assert context.metadata["all_messages"] == agents.conversation(server)
    record = json.loads(json.dumps(context.metadata["cliff"]))
    assert [cliff["request"] for cliff in record["cliffs"]] == cliffs
    assert record["options"]["threshold_tokens"] == 6_000
    assert context.metadata["n_episodes"] == 30
    assert context.n_input_tokens == sum(request.usage.input for request in server.requests)
    for cliff in record["cliffs"]:
        assert cliff["tokens_before"] > 6_000 >= cliff["tokens_after"]


def test_reported_usage_drives_the_threshold(model_server: Any, tmp_path: Path) -> None:
    """A provider that counts three times as many tokens as we estimate."""
    server = model_server(agents.steps(30), count=lambda text: len(text))
    agents.run_harbor(agents.harbor(CliffTerminus2, server, tmp_path, cliff_threshold_tokens=30_000))
    assert max(request.usage.input for request in server.requests) <= 1.1 * 30_000
    assert len(kit_checks.cliffs_of(server.requests)) >= 2


def test_linear_history(model_server: Any, tmp_path: Path) -> None:
    """A file for each growth segment: its steps before the first new answer are what the first request of the segment
    sent, and those after it continue as the requests did."""
    server = model_server(agents.steps(30))
    config = {"linear_history": True, "raw_content": True}
    agent = agents.harbor(CliffTerminus2, server, tmp_path, trajectory_config=config, **SMALL)
    agents.run_harbor(agent)
    cliffs = checks.assert_cliffs(server)
    files = [tmp_path / "trajectory.json", *(tmp_path / f"trajectory.cont-{n}.json" for n in range(1, len(cliffs) + 1))]
    assert sorted(tmp_path.glob("trajectory*.json")) == sorted(files)
    starts = [1, *cliffs, len(server.requests) + 1]
    for path, (start, end) in zip(files, pairwise(starts), strict=True):
        steps = trajectory(path).steps
        sent = []
        for step in steps:
            if step.source == "system":
                continue
            sent.append({"role": "assistant" if step.source == "agent" else "user", "content": step.message})
            for result in step.observation.results if step.observation else []:
                sent.append({"role": "user", "content": result.content})
        for request in server.requests[start - 1 : end - 1]:
            messages = agents.plain(request.messages)
            assert sent[: len(messages)] == messages, f"{path.name}, request {request.number}"
        assert (trajectory(path).continued_trajectory_ref is None) == (path == files[-1])


def test_rollout_details_tell_the_calls_apart(model_server: Any, tmp_path: Path) -> None:
    """A list for each call; after a cliff the prompt is no continuation: the record says at which call."""
    said = [Step(agents.reply(n, n > 28), raw=[{"provider_specific_fields": {"n": n}}]) for n in range(1, 31)]
    server = model_server(said)
    agent = agents.harbor(CliffTerminus2, server, tmp_path, collect_rollout_details=True, **SMALL)
    context = agents.run_harbor(agent)
    cliffs = checks.assert_cliffs(server)
    assert [cliff["request"] for cliff in context.metadata["cliff"]["cliffs"]] == cliffs
    assert len(agent._chat._messages) > 2
    assert all(request.body.get("logprobs") for request in server.requests)


def test_each_run_is_a_conversation_of_its_own(model_server: Any, tmp_path: Path) -> None:
    """A trial of several steps runs the same agent again."""
    server = model_server([*agents.steps(24), *agents.steps(24)])
    agent = agents.harbor(CliffTerminus2, server, tmp_path, store_all_messages=True, **SMALL)
    first = agents.run_harbor(agent)
    agent._session = agents.AsyncScreen()
    second = agents.run_harbor(agent)
    assert first.metadata["cliff"] == second.metadata["cliff"]
    assert len(first.metadata["cliff"]["cliffs"]) >= 2
    assert first.metadata["all_messages"] == second.metadata["all_messages"]
    assert second.metadata["summarization_count"] == len(second.metadata["cliff"]["cliffs"])
    for one, other in zip(server.requests[:24], server.requests[24:], strict=True):
        assert one.raw == other.raw


def test_responses_chain_begins_anew_at_a_cliff(model_server: Any, tmp_path: Path) -> None:
    server = model_server(agents.steps(30))
    agent = agents.harbor(CliffTerminus2, server, tmp_path, use_responses_api=True, **SMALL)
    context = agents.run_harbor(agent)
    cliffs = [cliff["request"] for cliff in context.metadata["cliff"]["cliffs"]]
    assert len(cliffs) >= 3
    assert all(request.api == "responses" for request in server.requests)
    for place, request in enumerate(server.requests, 1):
        if place == 1 or place in cliffs:
            assert request.body.get("previous_response_id") is None
        else:
            assert request.body["previous_response_id"]
            assert isinstance(request.body["input"], str)
    for place in cliffs:
        assert server.requests[place - 1].body["input"][1]["content"].startswith(OPENING)


def test_interleaved_thinking_stays_with_live_turns(model_server: Any, tmp_path: Path) -> None:
    said = [Step(agents.reply(n, n > 28), thought=f"thinking of {n} " * 60) for n in range(1, 31)]
    server = model_server(said)
    options = SMALL | {"cliff_keep_turns": 3, "cliff_min_gain": 0.25}
    agent = agents.harbor(
        CliffTerminus2, server, tmp_path, interleaved_thinking=True, store_all_messages=True, **options
    )
    context = agents.run_harbor(agent)
    cliffs = kit_checks.cliffs_of(server.requests)
    assert len(cliffs) >= 3
    kit_checks.assert_append_only(server.requests, cliffs)
    for place in cliffs:
        messages = server.requests[place - 1].messages
        answers = [message for message in messages if message["role"] == "assistant"]
        assert len(answers) == 3
        assert all(message["reasoning_content"].startswith("thinking of ") for message in answers)
        assert "<thought more=" in messages[1]["content"]
    kept = [m for m in context.metadata["all_messages"] if m["role"] == "assistant"]
    assert [m["reasoning_content"] for m in kept] == [f"thinking of {n} " * 60 for n in range(1, 31)]


def test_an_answer_that_was_too_long(model_server: Any, tmp_path: Path) -> None:
    """The host asks again from inside the same call; one of them falls on a cliff."""
    said = agents.steps(30)
    for at in (5, 11, 12, 13, 14, 15):
        said[at] = Step(said[at].text, stop="length")
    server = model_server(said)
    agent = agents.harbor(CliffTerminus2, server, tmp_path, store_all_messages=True, **SMALL)
    context = agents.run_harbor(agent)
    cliffs = checks.assert_cliffs(server)
    assert [cliff["request"] for cliff in context.metadata["cliff"]["cliffs"]] == cliffs
    assert context.metadata["cliff"]["requests"] == 30
    assert context.metadata["all_messages"] == agents.conversation(server)
    steps = trajectory(tmp_path / "trajectory.json").steps
    assert len([step for step in steps if step.source == "system"]) == len(cliffs)
    last = agents.plain(server.requests[-1].messages)[1]["content"]
    assert last.count("NONE of the actions") <= 1  # a note: the newest


def test_a_truncated_answer_that_can_be_salvaged(model_server: Any, tmp_path: Path) -> None:
    """The host's own class ends with an AttributeError here: it returns a text in place of a response."""
    said = agents.steps(4, "xml")
    said[1] = Step(said[1].text + "\n<response>\n<analysis>and then", stop="length")
    server = model_server(said)
    agent = agents.harbor(CliffTerminus2, server, tmp_path, parser_name="xml")
    context = agents.run_harbor(agent)
    assert context.metadata["n_episodes"] == 4


def test_the_window_bounds_the_threshold(model_server: Any, tmp_path: Path) -> None:
    """12 000 - 2 000 of output - 5 %."""
    server = model_server(agents.steps(30))
    info = INFO | {"max_input_tokens": 12_000, "max_output_tokens": 2_000}
    agent = agents.harbor(CliffTerminus2, server, tmp_path, model="openai/scripted-12k", model_info=info)
    context = agents.run_harbor(agent)
    threshold = context.metadata["cliff"]["threshold"]
    assert threshold == {"tokens": 9_400, "source": "window"}
    assert checks.assert_cliffs(server, least=1)


def test_options_of_the_environment_stand_under_those_of_the_agent(
    model_server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLIFF_THRESHOLD_TOKENS", "9000")
    monkeypatch.setenv("CLIFF_KEEP_TURNS", "2")
    agent = agents.harbor(CliffTerminus2, model_server([]), tmp_path, cliff_keep_turns=1)
    assert agent._options.config.threshold_tokens == 9_000
    assert agent._options.config.keep_turns == 1
    assert agent._options.source == "environment"


def test_a_threshold_that_follows_the_session(model_server: Any, tmp_path: Path) -> None:
    server = model_server(agents.steps(50))
    agent = agents.harbor(CliffTerminus2, server, tmp_path, cliff_threshold_tokens="auto")
    record = agents.run_harbor(agent).metadata["cliff"]
    assert record["threshold"] == {"tokens": 8_000, "source": "auto"}
    assert [cliff["request"] for cliff in record["cliffs"]] == checks.assert_cliffs(server)
    with pytest.raises(ValueError, match=r"""cliff_threshold_tokens must be .*, or "auto", not 'automatic'"""):
        agents.harbor(CliffTerminus2, model_server([]), tmp_path, cliff_threshold_tokens="automatic")


def test_off_and_native(model_server: Any, tmp_path: Path) -> None:
    for options in ({"summarizer": "off"}, {"enable_summarize": False}):
        server = model_server(agents.steps(30), context_limit=6_000)
        agent = agents.harbor(CliffTerminus2, server, tmp_path, **options)
        with pytest.raises(ContextLengthExceededError) as raised:
            agents.run_harbor(agent)
        assert type(raised.value) is ContextLengthExceededError
        assert [request.rejected for request in server.requests].count("limit") == 1
    agent = agents.harbor(CliffTerminus2, model_server([]), tmp_path, summarizer="native")
    assert agent.options.enable_summarize
    assert agent.options.summarizer == "native"
    assert agents.harbor(CliffTerminus2, model_server([]), tmp_path).options.enable_summarize is False


def test_a_run_that_is_cancelled_leaves_its_record(model_server: Any, tmp_path: Path) -> None:
    """As Harbor does when the time is up."""
    server = model_server(agents.steps(40))
    agent = agents.harbor(CliffTerminus2, server, tmp_path, store_all_messages=True, **SMALL)
    context = AgentContext()

    async def run() -> None:
        task = asyncio.ensure_future(agent.run(agents.TASK, None, context))
        reached = asyncio.Event()

        async def alive() -> bool:
            if len(server.answered) == 24:
                reached.set()
                await asyncio.Event().wait()
            return True

        agent._session.is_session_alive = alive
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    cliffs = checks.assert_cliffs(server, least=2)
    assert [cliff["request"] for cliff in context.metadata["cliff"]["cliffs"]] == cliffs
    assert context.metadata["cliff"]["requests"] == 24
    assert len(context.metadata["all_messages"]) == 48
    assert len([step for step in trajectory(tmp_path / "trajectory.json").steps if step.source == "agent"]) == 24


def test_a_merged_block_keeps_the_roles_alternating(model_server: Any, tmp_path: Path) -> None:
    server = model_server(agents.steps(30))
    context = agents.run_harbor(agents.harbor(CliffTerminus2, server, tmp_path, cliff_merge_block=True, **SMALL))
    cliffs = kit_checks.cliffs_of(server.requests)
    assert [cliff["request"] for cliff in context.metadata["cliff"]["cliffs"]] == cliffs
    assert len(cliffs) >= 3
    kit_checks.assert_append_only(server.requests, cliffs)
    task = server.requests[0].messages[0]["content"]
    for request in server.requests:
        roles = [message["role"] for message in request.messages]
        assert roles == (["user", "assistant"] * len(roles))[: len(roles)]
        assert request.messages[0]["content"].startswith(task)


def test_a_job_file_may_say_off_without_quotes() -> None:
    """YAML reads that as false."""
    assert CliffTerminus2.parse_options(yaml.safe_load("summarizer: off")).summarizer == "off"
    with pytest.raises(ValueError, match="'cliff', 'native' or 'off'"):
        CliffTerminus2.parse_options({"summarizer": True})


# --- rejections -----------------------------------------------------------------------------------------


def test_live_turns_shrink_to_none_then_the_observation_is_cut(model_server: Any, tmp_path: Path) -> None:
    """The server takes less and less, in the end less than the newest screen: it is cut with the host's own marker, and
    the trajectory has the whole of it."""
    said = agents.steps(14)
    server = model_server(said)
    limits = {6: 4_000, 9: 2_900, 11: 2_600}
    server.on_reply = lambda request: setattr(
        server, "context_limit", limits.get(len(server.answered), server.context_limit)
    )
    agent = agents.harbor(CliffTerminus2, server, tmp_path, store_all_messages=True)
    agent._session = agents.AsyncScreen(lines=80)
    context = agents.run_harbor(agent)
    record = context.metadata["cliff"]
    assert record["cut_prompts"] >= 1
    assert 3 <= record["rejections"] <= 24
    assert all(cliff["reason"] in ("forced", "limit") for cliff in record["cliffs"])
    cut = [request for request in server.answered if "interior bytes omitted" in request.messages[-1]["content"]]
    assert len(cut) >= 2
    assert "Are you sure you want to mark the task as complete?" in cut[-1].messages[-1]["content"]
    for request in cut:
        text = request.messages[-1]["content"]
        assert re.search(r"\n\[\.\.\. output limited to \d+ bytes; \d+ interior bytes omitted \.\.\.\]\n", text)
        assert text.startswith(("New Terminal Output:\n", "Current terminal state:\n"))
        sent = agents.plain(request.messages)
        assert sent[0] == agents.plain(server.requests[0].messages)[0]
        assert sent[1]["content"].startswith(OPENING)
    kept = context.metadata["all_messages"]
    assert not any("interior bytes omitted" in message["content"] for message in kept)
    observations = [
        step.observation.results[0].content
        for step in trajectory(tmp_path / "trajectory.json").steps
        if step.source == "agent"
    ]
    assert observations[:-1] == [message["content"] for message in kept[2::2]]


def test_a_rejected_block_is_no_previous_block(model_server: Any, tmp_path: Path) -> None:
    """What a block would have shown that was rejected stands in the one that was taken."""
    server = model_server(agents.steps(26))

    def tighten(request: Any) -> None:
        if len(server.answered) == 11:  # the next one begins a growth segment, and is rejected once more
            server.context_limit = 2_900

    server.on_reply = tighten
    agent = agents.harbor(CliffTerminus2, server, tmp_path, **SMALL)
    context = agents.run_harbor(agent)
    rejected = [request for request in server.requests if request.rejected]
    assert rejected
    assert context.metadata["cliff"]["rejections"] == len(rejected)
    first = server.answered[context.metadata["cliff"]["cliffs"][0]["request"] - 1].messages
    assert "<turn 1>" in first[1]["content"]
    numbers = [cliff["number"] for cliff in context.metadata["cliff"]["cliffs"]]
    assert numbers == list(range(1, len(numbers) + 1))
    shown: set[int] = set()
    for request in server.answered:
        block = next((m["content"] for m in request.messages if m["content"].startswith(OPENING)), "")
        shown |= {int(n) for n in re.findall(r"\[A(\d+)\]", block)}
    assert shown == set(range(1, max(shown) + 1))


def test_a_task_that_never_fits_ends_with_the_hosts_error(model_server: Any, tmp_path: Path) -> None:
    server = model_server(agents.steps(4), context_limit=300)
    agent = agents.harbor(CliffTerminus2, server, tmp_path)
    with pytest.raises(ContextLengthExceededError) as raised:
        agents.run_harbor(agent)
    assert type(raised.value) is ContextLengthExceededError
    assert len(server.requests) == 1


def test_the_head_is_never_cut(model_server: Any, tmp_path: Path) -> None:
    """After some turns nothing fits any more: the host's error, after a few smaller and smaller requests."""
    server = model_server(agents.steps(20))
    server.on_reply = lambda request: setattr(server, "context_limit", 400) if len(server.answered) == 8 else None
    agent = agents.harbor(CliffTerminus2, server, tmp_path)
    with pytest.raises(ContextLengthExceededError):
        agents.run_harbor(agent)
    sizes = [len(request.raw) for request in server.requests if request.rejected]
    assert 2 <= len(sizes) <= 8
    assert sizes == sorted(sizes, reverse=True)
    for request in server.requests:
        assert agents.plain(request.messages)[0] == agents.plain(server.requests[0].messages)[0]


@pytest.mark.parametrize(
    "wording", ["openai", "vllm", "gemini-object", "bedrock", "no-body", "groq", "xai", "moonshot"]
)
def test_each_provider_is_understood(wording: str, model_server: Any, tmp_path: Path) -> None:
    server = model_server(agents.steps(16), context_limit=6_000, wording=wording)
    context = agents.run_harbor(agents.harbor(CliffTerminus2, server, tmp_path))
    assert context.metadata["cliff"]["rejections"] == 1
    assert len(server.requests) == 17

"""Sessions of 110 steps by the real `mini`, for each shape of its messages, beside the same ones without us."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest
from sessions import TASK, everything, repository, texts, tool_calls

from cliff_core.block import OPENING
from kit import CacheRules, ModelServer, Step, checks
from kit.forkserver import Run

STEPS = 110
THRESHOLD = 12_000
PRICES = {"price_input": 1.0, "price_cached": 0.1}  # OpenAI's and DeepSeek's relation


@dataclass(frozen=True)
class Shape:
    model_class: str
    model: str
    config: str = "mini.yaml"
    more: tuple[str, ...] = ()
    text: bool = False
    cache: CacheRules = field(default_factory=CacheRules)
    prices: Any = field(default_factory=lambda: PRICES)

    def script(self) -> list[Step]:
        return texts(STEPS) if self.text else tool_calls(STEPS)


SHAPES = {
    "toolcall": Shape("litellm", "openai/scripted"),
    "text": Shape("litellm_textbased", "openai/scripted", "mini_textbased.yaml", text=True),
    "responses": Shape("litellm_response", "openai/scripted"),
    "anthropic": Shape(
        "litellm",
        "anthropic/claude-sonnet-4-5-20250929",
        more=('model.model_kwargs.thinking={"type": "enabled", "budget_tokens": 1024}',),
        cache=CacheRules(minimum=1024, breakpoints=True),
        prices=PRICES | {"price_written": 1.25},
    ),
}


@dataclass
class Session:
    shape: Shape
    server: ModelServer
    run: Run
    trajectory: dict[str, Any]
    plain: ModelServer
    """The same session by the host's own class."""


@pytest.fixture(scope="module", params=SHAPES)
def session(request: pytest.FixtureRequest, command_line: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    shape = SHAPES[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    servers = {name: ModelServer(shape.script(), cache=shape.cache).start() for name in ("cliff_mini_swe_agent.", "")}
    runs = {}
    try:
        for name, server in servers.items():  # side by side
            runs[name] = command_line.start(
                *("mini", "-m", shape.model, "--model-class", f"{name}{shape.model_class}", "-t", TASK, "-y"),
                *("--exit-immediately", "-l", "0", "-c", shape.config, "-o", folder / f"{name}.json"),
                *("-c", f"model.cliff.threshold_tokens={THRESHOLD}"),
                *(word for option in shape.more for word in ("-c", option)),
                cwd=repository(folder / f"repository-{bool(name)}"),
                env=server.env() | {"ANTHROPIC_API_BASE": server.url},
            )
        ours, plain = (command_line.wait(runs[name]) for name in servers)
    finally:
        for server in servers.values():
            server.stop()
    for run in (ours, plain):
        assert run.status == 0, run.output[-3000:]
    for server in servers.values():
        server.assert_finished()
    trajectory = json.loads((folder / "cliff_mini_swe_agent..json").read_text())
    return Session(shape, servers["cliff_mini_swe_agent."], ours, trajectory, servers[""])


def recorded(trajectory: dict[str, Any]) -> list[dict[str, Any]]:
    records = [(message.get("extra") or {}).get("cliff") or {} for message in trajectory["messages"]]
    return [record["cliff"] for record in records if "cliff" in record]


def test_between_cliffs_requests_only_grow(session: Session) -> None:
    requests = session.server.requests
    assert len(requests) == STEPS + 1
    cliffs = checks.cliffs_of(requests)
    assert len(cliffs) >= 3
    checks.assert_append_only(requests, cliffs)
    replies = [m for m in session.trajectory["messages"] if m.get("role") == "assistant" or m.get("object")]
    at = [n for n, m in enumerate(replies, 1) if "cliff" in (m["extra"].get("cliff") or {})]
    assert at == cliffs


def test_calls_are_paired(session: Session) -> None:
    for request in session.server.requests:
        checks.assert_paired(request)


def test_requests_stay_under_the_threshold(session: Session) -> None:
    # The server counts a token for four characters, and reports it: requests follow that count, not ours.
    assert max(request.usage.input for request in session.server.requests) <= 1.1 * THRESHOLD
    assert max(request.usage.input for request in session.plain.requests) > 2 * THRESHOLD


def test_head_and_task_are_verbatim(session: Session) -> None:
    first = checks.stream(session.server.requests[0])
    for request in session.server.requests[1:]:
        assert checks.stream(request)[: len(first)] == first
    assert any(TASK in piece for piece in first)


def test_a_block_goes_at_the_next_cliff(session: Session) -> None:
    cliffs = [0, *(n - 1 for n in checks.cliffs_of(session.server.requests)), len(session.server.requests)]
    seen: list[str] = []
    for start, end in pairwise(cliffs):
        for request in session.server.requests[start:end]:
            text = everything(request.messages)
            assert text.count(OPENING.strip()) == (1 if start else 0)
            # Each block begins with the turns that it covers: those of earlier blocks have no excerpts.
            turns = re.findall(r"<turn (\d+)>", text)
            assert not set(turns) & set(seen)
        seen += turns


def test_the_trajectory_is_complete(session: Session) -> None:
    messages = session.trajectory["messages"]
    commands = [a["command"] for m in messages for a in (m.get("extra") or {}).get("actions", [])]
    expected = [c for step in session.shape.script() for c in (step.calls or [None])]
    assert len(commands) == len(expected)
    outputs = [m for m in messages if "raw_output" in (m.get("extra") or {})]
    assert len(outputs) >= len(commands) - 1
    info = session.trajectory["info"]["cliff"]
    assert info["options"]["threshold_tokens"] == THRESHOLD
    assert info["cliffs"] == recorded(session.trajectory)
    assert [c["number"] for c in info["cliffs"]] == list(range(1, len(info["cliffs"]) + 1))
    for cliff in info["cliffs"]:
        assert cliff["tokens_after"] <= 0.75 * cliff["threshold"] < cliff["tokens_before"]
        assert cliff["dropped"]["turns"] > 0
        assert cliff["live_turns"] == 2


def test_views_are_rebuilt_from_the_trajectory(session: Session) -> None:
    from cliff_mini_swe_agent import views

    found = views(session.trajectory)
    assert len(found) == len(session.server.requests)
    for view, request in zip(found, session.server.requests, strict=True):
        sent = everything(request.messages)
        assert (view.block is None) == (OPENING.strip() not in sent)
        assert view.block is None or view.block.strip() in sent
        first = view.messages[-1]
        assert everything(first.get("content") or first.get("output") or "").strip()[-200:] in sent
    numbers = [view.cliff.number for view in found if view.cliff]
    assert numbers == [cliff["number"] for cliff in session.trajectory["info"]["cliff"]["cliffs"]]


def test_reported_usage_is_observed(session: Session) -> None:
    facts = [
        f for m in session.trajectory["messages"] for f in (m.get("extra") or {}).get("cliff", {}).get("facts", [])
    ]
    usages = [fact["value"][0] for fact in facts if fact["kind"] == "usage"]
    assert usages == [request.usage.input for request in session.server.requests]


def test_the_log_shows_it(session: Session) -> None:
    output = " ".join(session.run.output.split())
    tokenizer = session.trajectory["info"]["cliff"]["tokenizer"]
    assert f"cliff is on: threshold {THRESHOLD} tokens, preset default, tokenizer {tokenizer}" in output
    for cliff in recorded(session.trajectory):
        assert f"cliff {cliff['number']}: {cliff['tokens_before']} -> {cliff['tokens_after']} tokens" in output


def test_input_costs_less_than_half(session: Session) -> None:
    cost = checks.input_cost(session.server.requests, **session.shape.prices)
    plain = checks.input_cost(session.plain.requests, **session.shape.prices)
    print(f"input cost {cost / plain:.3f} of the same run without us")
    assert cost / plain < 0.45


@pytest.mark.parametrize("session", ["anthropic"], indirect=True)
def test_thinking_and_breakpoints(session: Session) -> None:
    thoughts = {step.thought for step in session.shape.script()}
    for request in session.server.requests:
        parts = [p for m in request.messages for p in m["content"] if isinstance(m["content"], list)]
        for message in request.messages:
            if message["role"] == "assistant":
                assert message["content"][0]["type"] == "thinking"
                assert message["content"][0]["thinking"] in thoughts
        marked = [p for p in parts if has_breakpoint(p)]
        block = [p for p in parts if OPENING.strip() in everything(p)]
        assert len(marked) == (2 if block else 1)
        assert not block or has_breakpoint(block[0])


def has_breakpoint(part: Any) -> bool:
    inner = part.get("content") if isinstance(part.get("content"), list) else []
    return "cache_control" in part or any("cache_control" in p for p in inner if isinstance(p, dict))

"""The mixin before a class that is not the host's: no mini-swe-agent is needed here (tests/hosts has the real one)."""

import copy
import json
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from cliff_core import CliffConfig, ConfigError
from cliff_core.block import OPENING
from cliff_mini_swe_agent import HostError, views, wrap
from cliff_mini_swe_agent.session import logger


class Echo:
    """A model with text actions that keeps what it was sent."""

    def __init__(self, **options: Any) -> None:
        self.config = options
        self.sent: list[list[dict[str, Any]]] = []

    def query(self, messages: list[dict[str, Any]], **_: Any) -> dict[str, Any]:
        self.sent.append(messages)
        command = f"cat file_{len(messages)}.py"
        usage = {"prompt_tokens": sum(len(str(m["content"])) for m in messages) // 4}
        extra = {"actions": [{"command": command}], "response": {"usage": usage}}
        return {"role": "assistant", "content": f"Look.\n```bash\n{command}\n```", "extra": extra}

    def serialize(self) -> dict[str, Any]:
        return {"info": {"config": {}}}


def session(model: Any, steps: int, messages: list[dict[str, Any]] | None = None) -> list[dict[str, Any]]:
    messages = messages or [{"role": "system", "content": "S"}, {"role": "user", "content": "T"}]
    for _ in range(steps):
        messages.append(model.query(messages))
        text = f"line {len(messages)} of a file\n" * 60
        messages.append({"role": "user", "content": text, "extra": {"raw_output": text, "returncode": 0}})
    return messages


def test_views_and_records() -> None:
    model: Any = wrap(Echo)(cliff={"threshold_tokens": 3_000}, other=1)
    messages = session(model, 40)
    assert model.config == {"other": 1}
    assert len(messages) == 82
    saved = {**model.serialize(), "messages": messages}
    info = saved["info"]["cliff"]
    assert len(info["cliffs"]) >= 3
    assert info["cliffs"] == [
        m["extra"]["cliff"]["cliff"]
        for m in messages
        if "cliff" in str(m.get("extra", "")) and "cliff" in m["extra"].get("cliff", {})
    ]
    assert [view.messages for view in views(saved)] == model.sent
    assert [view.messages for view in views(copy.deepcopy(saved), CliffConfig.preset(threshold_tokens=3_000))] == (
        model.sent
    )
    assert sum(OPENING in str(m["content"]) for m in model.sent[-1]) == 1


def test_a_resumed_session_sends_the_same() -> None:
    whole: Any = wrap(Echo)(cliff={"threshold_tokens": 3_000})
    session(whole, 40)
    first: Any = wrap(Echo)(cliff={"threshold_tokens": 3_000})
    messages = copy.deepcopy(session(first, 23))
    second: Any = wrap(Echo)(cliff={"threshold_tokens": 3_000})
    session(second, 17, messages)
    assert [*first.sent, *second.sent] == whole.sent


class Named(Echo):
    """A model whose price is known: 12.5 times a cached token's."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.config = SimpleNamespace(model_name="anthropic/claude-opus-4-5")


def test_a_threshold_that_follows_the_session(caplog: Any) -> None:
    logger.addHandler(caplog.handler)
    try:
        with caplog.at_level(logging.INFO, logger.name):
            whole: Any = wrap(Named)(cliff={"threshold_tokens": "auto"})
    finally:
        logger.removeHandler(caplog.handler)
    assert "cliff is on: threshold auto, preset default" in caplog.text
    messages = session(whole, 60)
    saved = {**whole.serialize(), "messages": messages}
    record = saved["info"]["cliff"]
    assert record["options"]["cache_price_ratio"] == 12.5
    assert {cliff["threshold"] for cliff in record["cliffs"]} == {8_000}, "below the default of 32 000"
    assert [view.messages for view in views(json.loads(json.dumps(saved)))] == whole.sent
    first: Any = wrap(Named)(cliff={"threshold_tokens": "auto"})
    resumed = copy.deepcopy(session(first, 33))
    second: Any = wrap(Named)(cliff={"threshold_tokens": "auto"})
    session(second, 27, resumed)
    assert [*first.sent, *second.sent] == whole.sent


def test_another_task_or_a_new_start_is_a_new_session() -> None:
    system = {"role": "system", "content": "S"}  # an agent may use one object for all of its tasks
    model: Any = wrap(Echo)(cliff={"threshold_tokens": 3_000})
    for task in ("T", "T", "another"):
        before = len(model.sent)
        session(model, 15, [system, {"role": "user", "content": task}])
        fresh: Any = wrap(Echo)(cliff={"threshold_tokens": 3_000})
        session(fresh, 15, [system, {"role": "user", "content": task}])
        assert model.sent[before:] == fresh.sent
        assert model.serialize() == fresh.serialize()


def test_records_that_make_no_sense_are_ignored(caplog: Any) -> None:
    logger.addHandler(caplog.handler)
    model: Any = wrap(Echo)(cliff={"threshold_tokens": 3_000})
    messages = session(model, 5)
    messages[2]["extra"]["cliff"] = {"facts": [{"at": 1, "kind": "nonsense", "value": 2}]}
    try:
        model.query(copy.deepcopy(messages[:1]) + messages[1:])
        again: Any = wrap(Echo)(cliff={"threshold_tokens": 3_000})
        with caplog.at_level(logging.WARNING):
            again.query(messages)
    finally:
        logger.removeHandler(caplog.handler)
    assert "recorded cannot be read and is ignored" in caplog.text


def test_a_trajectory_that_was_made_without_us() -> None:
    with pytest.raises(ValueError, match="made without cliff_mini_swe_agent"):
        views({"info": {}, "messages": []})


def test_errors() -> None:
    with pytest.raises(ConfigError, match=r"model\.cliff .*did you mean keep_turns"):
        wrap(Echo)(cliff={"kep_turns": 1})
    with pytest.raises(
        ConfigError, match=r"""model\.cliff .*threshold_tokens must be .*, or "auto", not 'automatic'"""
    ):
        wrap(Echo)(cliff={"threshold_tokens": "automatic"})
    with pytest.raises(ConfigError, match="must be a mapping"):
        wrap(Echo)(cliff=[1])
    with pytest.raises(HostError, match="needs mini-swe-agent 2"):
        wrap("litellm")
    assert wrap(wrap(Echo)) is wrap(Echo)

"""The ten classes, classes by import path, and what they keep of the host's."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import agents
import pytest
from minisweagent.models import _MODEL_CLASS_MAPPING, get_model, get_model_class
from minisweagent.models.litellm_model import LitellmModel, LitellmModelConfig
from minisweagent.models.test_models import DeterministicModel, make_output
from sessions import TASK, repository, texts, tool_calls

import cliff_mini_swe_agent
from cliff_core import ConfigError
from cliff_mini_swe_agent import HostError, Model, wrap
from kit import ModelServer, checks

LITTLE = {"preset": "paper", "threshold_tokens": 1, "keep_turns": 1}


def test_the_names_are_the_hosts() -> None:
    assert set(cliff_mini_swe_agent.NAMES) == set(_MODEL_CLASS_MAPPING)
    assert {"litellm", "wrap", "Model"} <= set(dir(cliff_mini_swe_agent))


@pytest.mark.parametrize("name", cliff_mini_swe_agent.NAMES)
def test_each_class_by_the_hosts_own_look_up(name: str) -> None:
    found: Any = get_model_class("", f"cliff_mini_swe_agent.{name}")
    own: Any = get_model_class("", name)
    assert issubclass(found, own)
    assert found is wrap(name) is wrap(own) is wrap(found) is wrap(_MODEL_CLASS_MAPPING[name])
    assert found.__name__ == f"Cliff{own.__name__}"
    for method in ("query", "_query", "_prepare_messages_for_api", "serialize"):
        if hasattr(own, method):
            assert list(inspect.signature(getattr(found, method)).parameters) == list(
                inspect.signature(getattr(own, method)).parameters
            )
    assert getattr(found, "abort_exceptions", [])[: len(getattr(own, "abort_exceptions", []))] == getattr(
        own, "abort_exceptions", []
    )


@pytest.mark.parametrize("name", agents.NAMES)
@pytest.mark.parametrize("cliff", [{"threshold_tokens": 6_000}, LITTLE], ids=["default", "always"])
def test_each_class_runs_a_session(name: str, cliff: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTKEY_API_KEY", "test")
    steps = 20 if cliff is not LITTLE else 8
    with ModelServer(texts(steps) if name in agents.TEXT else tool_calls(steps)) as server:
        model = agents.make(name, server, cliff=cliff)
        agent = agents.agent(model, repository(tmp_path / "repository", files=20))
        assert agent.run(TASK)["exit_status"] == "Submitted"
    server.assert_finished()
    requests = server.requests
    cliffs = checks.cliffs_of(requests)
    assert len(cliffs) == (len(requests) - 2 if cliff is LITTLE else len(cliffs))
    assert cliffs
    checks.assert_append_only(requests, cliffs)
    for request in requests:
        checks.assert_paired(request)
    assert len(model.serialize()["info"]["cliff"]["cliffs"]) == len(cliffs)
    facts = [f for m in agent.messages for f in (m.get("extra") or {}).get("cliff", {}).get("facts", [])]
    assert [f["value"][0] for f in facts if f["kind"] == "usage"] == [r.usage.input for r in requests]


def test_deterministic(tmp_path: Path) -> None:
    outputs = [make_output(f"step {n}", [{"command": f"cat module_{n}.py"}]) for n in range(9)]
    outputs.append(make_output("end", [{"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"}]))
    model = get_model("x", {"model_class": "cliff_mini_swe_agent.deterministic", "outputs": outputs, "cliff": LITTLE})
    agent = agents.agent(model, repository(tmp_path / "repository", files=9))
    agent.run(TASK)
    assert isinstance(model, DeterministicModel)
    assert len(model.serialize()["info"]["cliff"]["cliffs"]) == 8
    assert all("cliff" not in output["extra"] for output in outputs)  # they are the caller's


def test_any_class_by_its_path() -> None:
    path = "minisweagent.models.test_models.DeterministicToolcallModel"
    model = get_model("x", {"model_class": "cliff_mini_swe_agent.Model", "cliff_inner": path, "outputs": []})
    assert type(model) is wrap(path)
    assert type(Model(model_name="openai/scripted")) is wrap("litellm")


def test_config_class_and_cache_control_reach_the_host() -> None:
    class Config(LitellmModelConfig):
        mine: str = "x"

    model: Any = wrap("litellm")(model_name="openai/scripted", config_class=Config)
    assert model.config.mine == "x"
    model = get_model("anthropic/claude-sonnet-4-5-20250929", {"model_class": "cliff_mini_swe_agent.litellm"})
    assert model.config.set_cache_control == "default_end"
    assert isinstance(model, LitellmModel)


def test_unknown_classes_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AttributeError, match="no model class 'litelm'; did you mean litellm"):
        _ = cliff_mini_swe_agent.litelm
    with pytest.raises(ValueError, match=r"Unknown model class: cliff_mini_swe_agent\.litelm") as caught:
        get_model_class("", "cliff_mini_swe_agent.litelm")
    assert "did you mean litellm" in str(caught.value.__context__)
    with pytest.raises(HostError, match="'json' is no model class"):
        wrap("json")
    monkeypatch.setitem(sys.modules, "portkey_ai", None)
    monkeypatch.delitem(sys.modules, "minisweagent.models.portkey_model", raising=False)
    with pytest.raises(HostError, match="portkey-ai package is required"):
        get_model_class("", "cliff_mini_swe_agent.portkey")


def test_wrong_options_are_told() -> None:
    for cliff, text in (({"treshold_tokens": 1}, "did you mean threshold_tokens"), ({"keep_turns": 0}, "at least 1")):
        with pytest.raises(ConfigError, match=text):
            wrap("litellm")(model_name="openai/scripted", cliff=cliff)


@pytest.mark.parametrize(
    ("name", "options", "most"),
    [
        # litellm's table has 200 000 tokens for the prompt and 64 000 for the answer of this model.
        ("anthropic/claude-sonnet-4-5-20250929", {}, 200_000 - 64_000 - 10_000),
        ("anthropic/claude-sonnet-4-5-20250929", {"max_tokens": 8_000}, 200_000 - 8_000 - 10_000),
        ("openai/gpt-4", {}, 8_192 - 4_096 - 410),
        ("openai/scripted", {}, 10**6),
    ],
)
def test_the_window_bounds_the_threshold(name: str, options: Any, most: int, caplog: Any) -> None:
    model: Any = wrap("litellm")(model_name=name, model_kwargs=options, cliff={"threshold_tokens": 10**6})
    with caplog.at_level("INFO", "minisweagent.cliff"):
        wrap("litellm")(model_name=name, model_kwargs=options, cliff={"threshold_tokens": 10**6})
    (shown,) = [int(word) for word in caplog.messages[-1].split() if word.isdigit()]
    assert shown == most
    from cliff_mini_swe_agent.session import Session

    messages = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]
    assert Session(messages, model._cliff_config, model._cliff_facts).view(messages).threshold == shown


def test_import_is_light() -> None:
    heavy = "('minisweagent', 'litellm', 'pydantic')"
    code = f"import sys, cliff_mini_swe_agent; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_programbench(tmp_path: Path) -> None:
    """The runner of `mini-extra programbench` on one instance (its data set is not on any index)."""
    programbench = pytest.importorskip("minisweagent.run.benchmarks.programbench", reason="2.3 and newer")
    from minisweagent.run.benchmarks.utils.batch_progress import RunBatchProgressManager

    config = agents.settings("benchmarks/programbench")
    cwd = repository(tmp_path / "repository", files=20)
    with ModelServer(tool_calls(20)) as server:
        config["environment"] |= {"environment_class": "local", "cwd": str(cwd)}
        config["model"] |= {
            "model_class": "cliff_mini_swe_agent.litellm",
            "model_name": "openai/scripted",
            "cliff": {"threshold_tokens": 6_000},
            "model_kwargs": {"api_base": server.openai_url, "api_key": "test"},
        }
        programbench.process_instance(
            {"instance_id": "one", "image_name": "none", "language": "c", "repository": "r"},
            tmp_path / "out",
            config,
            RunBatchProgressManager(1, tmp_path / "statuses.yaml"),
        )
    trajectory = (tmp_path / "out" / "one" / "one.traj.json").read_text()
    assert len(server.requests) >= 20
    assert checks.cliffs_of(server.requests)
    assert '"cliff"' in trajectory

"""The host's agents in this process, with a model of ours (or the host's) that asks a scripted server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from minisweagent.agents.default import DefaultAgent
from minisweagent.config import builtin_config_dir
from minisweagent.environments.local import LocalEnvironment

from cliff_mini_swe_agent import wrap
from kit import ModelServer

NAMES = {
    "litellm": "openai/scripted",
    "litellm_textbased": "openai/scripted",
    "litellm_response": "openai/scripted",
    "openrouter": "some/model",
    "openrouter_textbased": "some/model",
    "openrouter_response": "some/model",
    "portkey": "some-model",
    "portkey_response": "some-model",
    "requesty": "some/model",
}
"""A model's name for each class that asks a server."""

TEXT = {"litellm_textbased", "openrouter_textbased"}


def make(name: str, server: ModelServer, *, ours: bool = True, model_name: str = "", **options: Any) -> Any:
    """A model of the host's class of this name that asks `server`, with its settings of mini.yaml."""
    if not ours:
        from minisweagent.models import get_model_class

        made = get_model_class("", name)
    else:
        made = wrap(name)
    model_name = model_name or NAMES[name]
    options = settings("mini_textbased" if name in TEXT else "mini")["model"] | options
    options.pop("model_class", None)
    if name.startswith("litellm"):
        anthropic = model_name.startswith("anthropic/")
        url = {"api_base": server.url if anthropic else server.openai_url, "api_key": "test", "max_retries": 0}
        options["model_kwargs"] = options["model_kwargs"] | url
    else:
        options["model_kwargs"] = {}
    model = made(model_name=model_name, **options)
    if name == "requesty":  # it insists on a cost, which the scripted server does not report
        model._calculate_cost = lambda response: {"cost": 0.0}
    if name.startswith(("openrouter", "requesty")):
        model._api_url = f"{server.openai_url}/{'responses' if 'response' in name else 'chat/completions'}"
    elif name.startswith("portkey"):
        model.client = _openai(server)
    return model


def _openai(server: ModelServer) -> Any:
    """In place of Portkey's client, which has the same methods and asks Portkey's own gateway."""
    from openai import OpenAI

    return OpenAI(base_url=server.openai_url, api_key="test", max_retries=0)


def settings(name: str) -> dict[str, Any]:
    """One of the host's own configuration files."""
    found: dict[str, Any] = yaml.safe_load((builtin_config_dir / f"{name}.yaml").read_text())
    return found


def agent(model: Any, cwd: Path, kind: type = DefaultAgent, **options: Any) -> Any:
    """An agent of the host with the templates of mini.yaml."""
    templates = {k: v for k, v in settings("mini")["agent"].items() if k.endswith("_template")}
    return kind(model, LocalEnvironment(cwd=str(cwd)), **templates, cost_limit=0, **options)

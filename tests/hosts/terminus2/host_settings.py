"""The environment in which the hosts run unattended and offline (facts/terminus2.md, "Obstacles"), and what litellm
knows of the scripted models."""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent

SETTINGS = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "HARBOR_TELEMETRY": "0",
    "HF_HUB_OFFLINE": "1",
    "COLUMNS": "160",
}

MODELS = {
    "openai/scripted": {"max_input_tokens": 100_000, "max_output_tokens": 4_000, "max_tokens": 4_000},
    # terminal-bench summarizes when less than 8000 tokens of the maximum output (!) are free: at 6 000 here.
    "openai/scripted-14k": {"max_input_tokens": 14_000, "max_output_tokens": 14_000, "max_tokens": 14_000},
    "openai/scripted-claude": {"max_input_tokens": 100_000, "max_output_tokens": 4_000, "max_tokens": 4_000},
}
"""What is declared of the scripted models in litellm's table."""

_OTHERS = ("CLIFF_", "OPENAI_", "ANTHROPIC_", "LITELLM_")


def clean() -> None:
    """Takes variables out of this process that would change a run."""
    for name in list(os.environ):
        if name.startswith(_OTHERS):
            del os.environ[name]


def commands() -> dict[str, str]:
    """The whole environment of the command lines, which import this folder's modules."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith((*_OTHERS, "TMUX"))}
    path = f"{Path(sys.executable).parent}:{kept['PATH']}"  # the task's python3 has pytest
    return kept | SETTINGS | {"PATH": path, "PYTHONPATH": str(HERE)}


def declare() -> None:
    """Tells litellm of `MODELS`."""
    import litellm

    same = {"litellm_provider": "openai", "mode": "chat", "input_cost_per_token": 0.0, "output_cost_per_token": 0.0}
    litellm.register_model({name: {**same, **sizes} for name, sizes in MODELS.items()})

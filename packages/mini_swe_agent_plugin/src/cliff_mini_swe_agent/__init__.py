"""CliffCompaction for mini-swe-agent 2.x: each model class of the host, with compaction.

    mini --model-class cliff_mini_swe_agent.litellm -m MODEL -t TASK

    from cliff_mini_swe_agent import wrap, views
    model = wrap("litellm")(model_name=…, cliff={"threshold_tokens": 16_000})
    views("run.traj.json")[40].messages         # what the model saw at request 41; the file of mini's -o

`cliff_mini_swe_agent.NAME` is the host's class of that short name (`litellm`, `litellm_textbased`, …), made when it
is asked for: the host resolves `--model-class` by import and `getattr`. `Model` takes any class by its import path.
"""

from __future__ import annotations

import difflib
from typing import Any

from cliff_mini_swe_agent.session import views
from cliff_mini_swe_agent.wrapped import HostError, Model, wrap

__all__ = ["HostError", "Model", "views", "wrap"]

NAMES = (
    "litellm",
    "litellm_textbased",
    "litellm_response",
    "openrouter",
    "openrouter_textbased",
    "openrouter_response",
    "portkey",
    "portkey_response",
    "requesty",
    "deterministic",
)
"""The host's short names (`minisweagent.models._MODEL_CLASS_MAPPING`, the same in 2.0.0 to 2.4.6)."""


def __getattr__(name: str) -> Any:
    if name in NAMES:
        return wrap(name)
    near = difflib.get_close_matches(name, (*NAMES, *__all__), n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise AttributeError(f"cliff_mini_swe_agent has no model class {name!r}{hint}; the names are {', '.join(NAMES)}")


def __dir__() -> list[str]:
    return sorted({*globals(), *NAMES})

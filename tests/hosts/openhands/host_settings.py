"""The environment in which OpenHands runs unattended and offline (facts/openhands.md, "Obstacles")."""

import os
from pathlib import Path

_OTHERS = ("CLIFF_", "OPENHANDS_", "OH_", "LLM_", "AGENT_", "SANDBOX_", "OPENAI_", "ANTHROPIC_", "LITELLM_", "LMNR_")


def settings(home: Path) -> dict[str, str]:
    """The whole environment of a program; `home` takes whatever OpenHands keeps of its own."""
    home.mkdir(parents=True, exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_OTHERS)}
    return kept | {
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "XDG_DATA_HOME": str(home / ".local"),
        "XDG_STATE_HOME": str(home / ".state"),
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "OPENHANDS_SUPPRESS_BANNER": "1",
        "HF_HUB_OFFLINE": "1",
        "GIT_ALLOW_PROTOCOL": "file",  # the CLI looks for public skills by `git clone`
        "COLUMNS": "200",
        "PYTHONWARNINGS": "ignore",  # those of its own dependencies
        "TMUX_TMPDIR": str(home),  # the terminal tool's server is shared by all processes of a user
    }

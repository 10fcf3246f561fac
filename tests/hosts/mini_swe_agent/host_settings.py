"""The environment in which the host runs unattended and offline (facts/mini-swe-agent.md, "Obstacles met")."""

import os
from pathlib import Path


def settings(folder: Path) -> dict[str, str]:
    """Variables that the host reads when it is imported; `folder` takes its global configuration."""
    return {
        "MSWEA_CONFIGURED": "true",
        "MSWEA_SILENT_STARTUP": "1",
        "MSWEA_GLOBAL_CONFIG_DIR": str(folder),
        "MSWEA_COST_TRACKING": "ignore_errors",
        "MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT": "3",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(folder / "hf"),
        "COLUMNS": "200",
    }


def clean() -> None:
    """Takes variables out of this process that would change a run."""
    for name in list(os.environ):
        if name.startswith(("CLIFF_", "MSWEA_", "OPENAI_", "ANTHROPIC_", "LITELLM_")):
            del os.environ[name]

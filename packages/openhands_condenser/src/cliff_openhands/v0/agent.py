"""`classpath = "cliff_openhands.v0.CliffCodeActAgent"`: the host's agent, whose section may say `type = "cliff"`.

For installations without the import hook: V0 imports this class while it reads the agent's section, and with it
`cliff_openhands.v0.config`, so that both that section and `[condenser]` may have our type.
"""
# mypy: disable-error-code="import-not-found", disallow-subclassing-any=False

from __future__ import annotations

from typing import Annotated, Any

from openhands.agenthub.codeact_agent.codeact_agent import CodeActAgent
from openhands.core.config import AgentConfig
from openhands.core.config.condenser_config import CondenserConfig, ConversationWindowCondenserConfig
from pydantic import BeforeValidator, Field

from cliff_openhands.v0.config import CliffCondenserConfig, is_ours, read


def _read(value: Any) -> Any:
    return read(value, "the agent's condenser") if is_ours(value) else value


class CliffAgentConfig(AgentConfig):
    """The host's configuration of an agent, with one more type of condenser."""

    condenser: Annotated[CliffCondenserConfig | CondenserConfig, BeforeValidator(_read)] = Field(
        default_factory=ConversationWindowCondenserConfig  # the host's own default
    )


class CliffCodeActAgent(CodeActAgent):
    """The host's CodeActAgent."""

    config_model = CliffAgentConfig

"""The app server of openhands-ai (1.11.0): conversations that it starts get our condenser.

    OH_APP_CONVERSATION_KIND=cliff_openhands.app_server.CliffAppConversationServiceInjector
    OH_APP_CONVERSATION_CLIFF_THRESHOLD_TOKENS=16000

The server imports a class that its environment names in this way; its settings know two kinds of condensers, and ours
is none. What we put in is the host's own service with one step added: after it has made an agent, the condenser is
exchanged. Where a person switched condensation off in the settings it stays off.
"""
# mypy: disallow-subclassing-any=False

from __future__ import annotations

import difflib
import logging
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from openhands.app_server.app_conversation.live_status_app_conversation_service import (  # type: ignore[import-not-found]
    LiveStatusAppConversationServiceInjector,
)
from openhands.sdk.context.condenser import NoOpCondenser  # type: ignore[import-not-found]
from pydantic import Field, create_model, model_validator  # type: ignore[import-not-found, unused-ignore]

from cliff_core.config import OPTIONS
from cliff_openhands.condenser import CliffCondenser, CliffMixin
from cliff_openhands.failure import place
from cliff_openhands.settings import SERVER_PREFIX

logger = logging.getLogger("cliff_openhands")

_FIELDS: Any = dict.fromkeys(OPTIONS, (str | None, None))

_Texts: Any = create_model("_Texts", **_FIELDS)


class CliffServerOptions(_Texts):  # type: ignore[misc, unused-ignore]
    """The options of `CliffCondenser` as text: the server reads a variable by its field's type, and would end at a
    number of tokens that is `auto`."""

    @model_validator(mode="before")
    @classmethod
    def _check_values(cls, data: Any) -> Any:
        """A wrong value ends the server's start, and not that of a conversation."""
        if not isinstance(data, Mapping):
            return data
        texts = {name: value if value is None else str(value) for name, value in data.items()}
        CliffMixin(**texts)
        return texts


class CliffAppConversationServiceInjector(LiveStatusAppConversationServiceInjector):  # type: ignore[misc, unused-ignore]
    """The host's, whose conversations are condensed by `CliffCondenser`."""

    cliff: CliffServerOptions = Field(default_factory=CliffServerOptions, description="Options of CliffCondenser")

    @model_validator(mode="before")
    @classmethod
    def _check_names(cls, data: Any) -> Any:
        """The host reads only variables that it knows: a wrong name would be ignored without a word."""
        for variable in sorted(os.environ):
            name = variable.removeprefix(SERVER_PREFIX).lower()
            if variable.startswith(SERVER_PREFIX) and name not in OPTIONS:
                near = difflib.get_close_matches(name, OPTIONS, n=1, cutoff=0.5)
                hint = (
                    f"did you mean {SERVER_PREFIX}{near[0].upper()}?"
                    if near
                    else f"the options are {', '.join(OPTIONS)}"
                )
                raise ValueError(f"{variable} is no option of cliff; {hint}")
        return data

    async def inject(self, state: Any, request: Any = None) -> AsyncGenerator[Any, None]:
        async with asynccontextmanager(super().inject)(state, request) as service:
            stock: Any = getattr(service, "_apply_server_agent_overrides", None)

            def apply(agent: Any, *arguments: Any, **options: Any) -> Any:
                return self._exchanged(stock(agent, *arguments, **options))

            if stock is None:  # another release: fail open
                logger.warning("cliff: conversations keep the host's condenser: this release makes agents otherwise")
            else:
                service._apply_server_agent_overrides = apply
            yield service

    def _exchanged(self, agent: Any) -> Any:
        try:
            if agent.condenser is None or isinstance(agent.condenser, NoOpCondenser):
                return agent
            options = {name: value for name in OPTIONS if (value := getattr(self.cliff, name)) is not None}
            return agent.model_copy(update={"condenser": CliffCondenser(**options)})
        except Exception as error:  # fail open: the host's own condenser
            logger.warning(
                "cliff: a conversation keeps the host's condenser: it could not be exchanged (%s)", place(error)
            )
            return agent

# mypy: disable-error-code="import-not-found, misc, has-type"
"""Terminus-2 of Harbor 0.26.0 with `summarizer`, for `harbor run -a`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, get_type_hints

from harbor.agents.terminus_2.terminus_2 import Terminus2, Terminus2Options
from harbor.llms.base import ContextLengthExceededError, LLMResponse
from harbor.llms.lite_llm import LiteLLM
from harbor.models.trajectories import Step
from pydantic import BeforeValidator, Field, create_model, field_validator, model_validator

from cliff_core import CliffConfig, ConfigError
from cliff_core.config import OPTIONS, read_threshold
from cliff_core.overflow import rejection
from cliff_terminus2.dialect import TerminusDialect
from cliff_terminus2.options import NAMES, PREFIX, Options, Summarizer, check_names, read, window_facts
from cliff_terminus2.session import Off, Session


def _threshold(value: Any) -> Any:
    return None if value is None else read_threshold(value, PREFIX + "threshold_tokens")


def _fields() -> dict[str, Any]:
    """Each option of the core as a field; None where it was not given."""
    hints = get_type_hints(CliffConfig)
    found: dict[str, Any] = {}
    for name, value in CliffConfig().as_dict().items():
        kind: Any = hints[OPTIONS[name]] | None
        if name == "threshold_tokens":
            kind = Annotated[kind, BeforeValidator(_threshold)]
        found[PREFIX + name] = (kind, Field(default=None, description=f"CliffCompaction's {name} ({value})."))
    return found


class _Options(Terminus2Options):
    summarizer: Summarizer | None = Field(
        default=None, description="cliff (default), native (Harbor's own) or off; off too with enable_summarize=false."
    )

    @field_validator("summarizer", mode="before")
    @classmethod
    def _unquoted(cls, value: Any) -> Any:
        """In a job file YAML reads `off` as false."""
        return "off" if value is False else value

    @model_validator(mode="after")
    def _settle(self) -> _Options:
        if self.summarizer is None:
            asked = "enable_summarize" not in self.model_fields_set or self.enable_summarize
            self.summarizer = "cliff" if asked else "off"
        self.read()
        if self.summarizer != "native":
            # The host's own switch: it then never summarizes, and raises when a request was too long.
            self.enable_summarize = False
        return self

    def read(self) -> Options:
        return read({name: getattr(self, name) for name in NAMES})


CliffTerminus2Options = create_model("CliffTerminus2Options", __base__=_Options, **_fields())
"""The host's options, `summarizer`, and each option of the core as `cliff_NAME`."""


class _Model(LiteLLM):
    """The host's model, which recognises every provider's way to say that a prompt is too long."""

    def _handle_litellm_error(self, e: Exception) -> Any:
        if rejection(e) is not None:
            raise ContextLengthExceededError from e
        super()._handle_litellm_error(e)


class CliffTerminus2(Terminus2):
    """The host's agent. `summarizer` is `cliff`, `native` or `off`; `cliff_…` are the options of the core."""

    options_model = CliffTerminus2Options

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._conversation: Off | None = None
        super().__init__(*args, **kwargs)
        self._options: Options = self.options.read().of_model(self.model_name)

    @staticmethod
    def name() -> str:
        return "terminus-2-cliff"

    @classmethod
    def parse_options(cls, kwargs: dict[str, Any] | None = None, env: Mapping[str, str] | None = None) -> Any:
        """The host's, which does not name the nearest option. Called before any trial is queued."""
        known = set(cls.options_model.model_fields)
        for field in cls.options_model.model_fields.values():
            known |= set(getattr(field.validation_alias, "choices", ()))
        try:
            check_names(kwargs or {}, known)
        except ConfigError as error:
            raise ValueError(f"cliff_terminus2: {error}") from None
        return super().parse_options(kwargs, env)

    def _init_llm(self, *args: Any, **kwargs: Any) -> Any:
        model = super()._init_llm(*args, **kwargs)
        if type(model) is LiteLLM and self.options.summarizer != "native":
            model.__class__ = _Model
        return model

    def _reset_per_run_state(self) -> None:
        super()._reset_per_run_state()
        self._conversation = None

    async def run(self, instruction: str, environment: Any, context: Any) -> None:
        """The host's, and the record in the result's metadata. A trial of several steps calls this for each."""
        try:
            await super().run(instruction, environment, context)
        finally:
            conversation = self._conversation or Off(self._options)
            context.metadata = {**(context.metadata or {}), "cliff": conversation.record()}
            if "all_messages" in context.metadata:
                context.metadata["all_messages"] = conversation.messages() or context.metadata["all_messages"]

    async def _query_llm(
        self, chat: Any, prompt: str, original_instruction: str = "", session: Any = None
    ) -> LLMResponse:
        if self._options.summarizer == "native":
            return await super()._query_llm(chat, prompt, original_instruction, session)
        conversation = self._of(chat)
        request = conversation.request(prompt)
        while True:
            try:
                response = await super()._query_llm(chat, request.prompt, original_instruction, session)
            except ContextLengthExceededError as error:
                found = rejection(error)
                smaller = conversation.smaller(request, found.limit if found else None)
                if smaller is None:
                    raise
                request = smaller
                continue
            if isinstance(response, str):  # the host's own slip: what it salvaged of an answer that was too long
                response = LLMResponse(content=response)
            conversation.answered(request, response.usage.prompt_tokens if response.usage else None)
            return response

    def _of(self, chat: Any) -> Off:
        if self._conversation is None or getattr(self._conversation, "chat", chat) is not chat:
            if self._options.summarizer == "cliff":
                dialect = TerminusDialect(self._keystrokes)
                window = window_facts(self._llm.get_model_context_limit(), self._llm.get_model_output_limit())
                self._conversation = Session(
                    chat, self._options, dialect, self._limit_output_length, self.logger, window, self._cliff
                )
            else:
                self._conversation = Off(self._options)
        return self._conversation

    def _keystrokes(self, text: str) -> list[str]:
        return [command.keystrokes for command in self._parser.parse_response(text).commands]

    def _cliff(self, cliff: dict[str, Any], block: str) -> None:
        """A cliff in the trajectory, as the host records its own: a system step, then what took the place of the old
        turns as a user step (which the host adds, or, with `linear_history`, begins the next file with)."""
        self._trajectory_steps.append(
            Step(
                step_id=len(self._trajectory_steps) + 1,
                timestamp=datetime.now(UTC).isoformat(),
                source="system",
                message="CliffCompaction {number}: {tokens_before} -> {tokens_after} tokens, {live_turns} turns stay. "
                "The next message has excerpts of the others.".format(**cliff),
                extra={"context_management": {"type": "compaction", "boundary": "replace"}, "cliff": cliff},
            )
        )
        if self._pending_handoff_prompt is None:  # one file of a linear history for each call of the model
            self._summarization_count += 1
        self._pending_handoff_prompt = block

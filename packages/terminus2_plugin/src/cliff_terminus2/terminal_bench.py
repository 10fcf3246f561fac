# mypy: disable-error-code="import-not-found, misc"
"""Terminus-2 of terminal-bench 0.2.18 with `summarizer`, for `tb run --agent-import-path`.

The host's own defects that matter here (facts/terminus2.md, 1.2): its "context limit" is the model's maximum output, it
retries a rejected request, and a summary takes the place of the pending prompt. None of this code is reached.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from litellm.exceptions import AuthenticationError
from pydantic import Field
from tenacity import Future, RetryError, retry_if_exception
from terminal_bench.agents.base_agent import AgentResult
from terminal_bench.agents.terminus_2.terminus_2 import Terminus2
from terminal_bench.llms.base_llm import ContextLengthExceededError, OutputLengthExceededError
from terminal_bench.llms.lite_llm import LiteLLM

from cliff_core import ConfigError, Fact
from cliff_core.overflow import rejection
from cliff_terminus2.dialect import TerminusDialect
from cliff_terminus2.options import NAMES, check_names, read, window_facts
from cliff_terminus2.session import Off, Session

HOST_NAMES = (
    "model_name",
    "max_episodes",
    "parser_name",
    "api_base",
    "temperature",
    "version",
    "prompt_template",
    "no_rebuild",
)
"""What the host's own class takes, and `no_rebuild`, which `tb run` adds to every agent's arguments."""

_RAISED = (ContextLengthExceededError, OutputLengthExceededError, AuthenticationError)
"""The host does not repeat a request after these."""


class CliffResult(AgentResult):
    """The host's result, with the record of the compaction."""

    cliff: dict[str, Any] = Field(default_factory=dict)


class _Rejected(BaseException):
    """A request was too long. Not an Exception: it must pass through the host's retries."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error


class _NothingLeft(_Rejected):
    """The same, when nothing is left to drop."""


class _Model(LiteLLM):
    """The host's model, which recognises every provider's way to say that a prompt is too long."""

    def call(self, *args: Any, **kwargs: Any) -> str:
        try:
            answer: str = _call(self, *args, **kwargs)
        except _RAISED:
            raise
        except Exception as error:
            if rejection(error) is not None:
                raise ContextLengthExceededError(str(error)[:200]) from error
            raise
        return answer


def _passes(error: BaseException) -> bool:
    return isinstance(error, Exception) and not isinstance(error, _RAISED) and rejection(error) is None


_call = LiteLLM.call.retry_with(retry=retry_if_exception(_passes))


class CliffTerminus2(Terminus2):
    """The host's agent. `summarizer` is `cliff`, `native` or `off`; `cliff_…` are the options of the core."""

    def __init__(self, model_name: str, **kwargs: Any) -> None:
        try:
            check_names(kwargs, {*NAMES, *HOST_NAMES})
            self._options = read({name: kwargs[name] for name in NAMES if name in kwargs})
        except ConfigError as error:
            if "no_rebuild" in kwargs:  # `tb run` would log it, once for each task, and go on
                raise SystemExit(f"error: cliff_terminus2: {error}") from error
            raise
        host = {name: value for name, value in kwargs.items() if name not in NAMES}
        self._options = self._options.of_model(model_name)
        super().__init__(model_name=model_name, **host)
        if self._options.summarizer != "native":
            self._llm.__class__ = _Model
        self._conversation: Off | None = None
        self._conversation_of: Any = None
        self._record_path: Path | None = None
        self._terminal: Any = None
        self._depth = 0

    @staticmethod
    def name() -> str:
        """Not the host's: a run that is resumed would get the host's class."""
        return "terminus-2-cliff"

    def perform_task(
        self,
        instruction: str,
        session: Any,
        logging_dir: Path | None = None,
        time_limit_seconds: float | None = None,
    ) -> AgentResult:
        """The host's, and the record: in the result, and in `cliff.json` beside the logs of the episodes."""
        self._conversation = self._conversation_of = None
        self._record_path = logging_dir / "cliff.json" if logging_dir is not None else None
        self._terminal = session
        try:
            result = super().perform_task(instruction, session, logging_dir, time_limit_seconds)
        finally:
            self._write()
        return CliffResult(**result.model_dump(), cliff=self._recorded())

    def _query_llm(
        self,
        chat: Any,
        prompt: str,
        logging_paths: tuple[Path | None, Path | None, Path | None],
        original_instruction: str = "",
        session: Any = None,
    ) -> str:
        if self._options.summarizer == "native":
            answer: str = super()._query_llm(chat, prompt, logging_paths, original_instruction, session)
            return answer
        self._depth += 1
        try:
            return self._asked(chat, prompt, logging_paths, original_instruction, session)
        except _NothingLeft as end:
            if self._depth > 1:  # the host asks again from inside its retries when an answer was too long
                raise
            raise RetryError(Future.construct(1, end.error, True)) from end.error
        finally:
            self._depth -= 1

    def _asked(self, chat: Any, prompt: str, paths: tuple[Any, Any, Any], instruction: str, session: Any) -> str:
        conversation = self._of(chat)
        request = conversation.request(prompt)
        try:
            while True:
                try:
                    answer: str = super()._query_llm(chat, request.prompt, paths, instruction, session)
                except _NothingLeft:
                    raise
                except _Rejected as rejected:
                    found = rejection(rejected.error)
                    smaller = conversation.smaller(request, found.limit if found else None)
                    if smaller is None:
                        raise _NothingLeft(rejected.error) from rejected.error
                    request = smaller
                else:
                    conversation.answered(request)
                    return answer
        finally:
            if request.prompt != prompt and paths[1] is not None:
                paths[1].write_text(prompt)  # the log has the whole of it
            self._write()  # a task that runs out of time ends without a word

    def _unwind_messages_to_free_tokens(self, chat: Any, target_free_tokens: int = 4000) -> None:
        """What the host does first when a request was too long."""
        error = sys.exception()
        if self._options.summarizer == "native" or error is None:
            super()._unwind_messages_to_free_tokens(chat, target_free_tokens)
        else:
            raise _Rejected(error)

    def _check_proactive_summarization(self, chat: Any, original_instruction: str, session: Any) -> str | None:
        if self._options.summarizer != "native":
            return None
        summary: str | None = super()._check_proactive_summarization(chat, original_instruction, session)
        return summary

    def _of(self, chat: Any) -> Off:
        """The conversation of a chat: the host makes one for each task."""
        if self._conversation is None or self._conversation_of is not chat:
            self._conversation_of = chat
            if self._options.summarizer == "cliff":
                dialect = TerminusDialect(self._keystrokes)
                self._conversation = Session(
                    chat, self._options, dialect, self._limit_output_length, self._logger, self._window(), self._cliff
                )
            else:
                self._conversation = Off(self._options)
        return self._conversation

    def _keystrokes(self, text: str) -> list[str]:
        return [command.keystrokes for command in self._parser.parse_response(text).commands]

    def _window(self) -> list[Fact]:
        """From litellm's table: its functions ask the network for some models."""
        table = sys.modules["litellm"].model_cost
        name = self._model_name
        entry = table.get(name) or table.get(name.partition("/")[2]) or {}
        if not isinstance(entry, Mapping):
            return []
        return window_facts(entry.get("max_input_tokens"), entry.get("max_output_tokens"))

    def _cliff(self, cliff: dict[str, Any], block: str) -> None:
        marker = "Cliff {number}: {tokens_before} -> {tokens_after} tokens".format(**cliff)
        if self._terminal is not None:
            self._record_asciinema_marker(marker, self._terminal)

    def _recorded(self) -> dict[str, Any]:
        return (self._conversation or Off(self._options)).record()

    def _write(self) -> None:
        if self._record_path is not None:
            self._record_path.write_text(json.dumps(self._recorded(), indent=2) + "\n", encoding="utf-8")

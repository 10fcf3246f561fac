"""The host's model classes with compaction: a mixin before the real class, so that all the rest stays the host's."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any

from cliff_core import CliffConfig, ConfigError, Fact, View, prices, tokens
from cliff_core.decision import room, window_limit
from cliff_core.overflow import Rejection, rejection
from cliff_mini_swe_agent.session import KEY, Session, logger
from cliff_mini_swe_agent.shapes import BlockMessage


class HostError(RuntimeError):
    """A model class of the host cannot be had. Not an ImportError: the host would replace its text."""


class ContextOverflow(Exception):  # noqa: N818 - it is what happened, and never reaches the user
    """A request was rejected as too long: ends the host's retries, and carries the error that the host knows."""

    def __init__(self, original: Exception, rejected: Rejection) -> None:
        super().__init__(str(original))
        self.original = original
        self.rejected = rejected


class Sent(list[Any]):
    """The messages of a view, handed down to the host's class: a call with these is not compacted again."""


class CliffMixin:
    """Stands before a model class of the host (`wrap`). `cliff` is a mapping of options, the host's `model.cliff`."""

    config: Any

    def __init__(self, *args: Any, cliff: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        self._cliff_config = _options(cliff)
        self._cliff_session: Session | None = None
        super().__init__(*args, **kwargs)
        name = getattr(self.config, "model_name", None)
        self._cliff_config = prices.priced(self._cliff_config, name if isinstance(name, str) else None)
        self._cliff_facts = _limit(self.config)
        threshold = self._cliff_config.first_threshold
        for fact in self._cliff_facts:
            threshold = min(threshold, room(fact["value"]))
        logger.info(
            "cliff is on: threshold %s, preset %s, tokenizer %s",
            "auto" if self._cliff_config.auto else f"{threshold} tokens",
            self._cliff_config.preset_name,
            tokens.vocabulary().name,
        )

    def query(self, messages: list[dict[str, Any]], **kwargs: Any) -> Any:
        """The host's `query` on the view of `messages`. If that is rejected as too long: once more on a smaller one."""
        host: Any = super()
        if isinstance(messages, Sent):
            return host.query(messages, **kwargs)
        session = self._cliff_session
        if session is None or not session.continues(messages):
            session = self._cliff_session = Session(messages, self._cliff_config, self._cliff_facts)
        view = session.view(messages)
        session.tell(view)
        try:
            return self._cliff_query(host, session, view, kwargs)
        except Exception as error:
            original, rejected = _rejected(error)
            if rejected is None:
                raise
        smaller = session.compactor.overflowed(messages, rejected.limit)
        if smaller is None:
            logger.warning("cliff: the model rejected %d tokens, and nothing is left to drop", view.tokens)
            raise original from original.__cause__
        session.tell(smaller)
        try:
            return self._cliff_query(host, session, smaller, kwargs)
        except Exception as error:
            original, rejected = _rejected(error)
            if rejected is None:
                raise
        logger.warning("cliff: the model rejected %d tokens, and then %d", view.tokens, smaller.tokens)
        raise original from original.__cause__

    def _cliff_query(self, host: Any, session: Session, view: View, kwargs: dict[str, Any]) -> Any:
        """One query of the host, and the record of what came of it."""
        try:
            reply = host.query(Sent(view.messages), **kwargs)
        except Exception as error:
            # A reply without a legal form was a request like any other; the host keeps it in the error's message.
            flow = getattr(error, "messages", None)
            if isinstance(flow, tuple) and flow and isinstance(flow[0], dict):
                flow[0].update(session.record(view, flow[0]))
            raise
        return session.record(view, reply) if isinstance(reply, dict) else reply

    def _query(self, messages: Any, **kwargs: Any) -> Any:
        """The host's one request, inside its retries."""
        host: Any = super()
        try:
            return host._query(messages, **kwargs)
        except Exception as error:
            rejected = rejection(error)
            if rejected is None:
                raise
            raise ContextOverflow(error, rejected) from error

    def _prepare_messages_for_api(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """As the host does it; where it sets a cache breakpoint at the end, one at the end of the block as well."""
        host: Any = super()
        prepared: list[dict[str, Any]] = host._prepare_messages_for_api(messages)
        if getattr(self.config, "set_cache_control", None) and len(prepared) == len(messages):
            marked = (isinstance(message, BlockMessage) for message in messages)
            prepared = [_breakpoint(m) if here else m for m, here in zip(prepared, marked, strict=True)]
        return prepared

    def serialize(self) -> dict[str, Any]:
        host: Any = super()
        data: dict[str, Any] = host.serialize()
        session = self._cliff_session
        record = {
            "model_class": _path(type(self)),
            "options": self._cliff_config.as_dict(),
            "tokenizer": tokens.vocabulary().name,
            "cliffs": [session.cliffs[number] for number in sorted(session.cliffs)] if session else [],
        }
        info = {**data.get("info", {}), KEY: record}
        if "model_type" in info.get("config", {}):
            # The host's name for it stays, for whoever reads trajectories by class.
            info["config"] = {**info["config"], "model_type": _path(type(self).__mro__[2])}
        return {**data, "info": info}


def wrap(model_class: str | type) -> type:
    """A model class of the host with compaction; the same class again for the same one.

    `model_class` is a short name of the host (`litellm`), an import path, or a class. The result takes one more
    argument, `cliff`: a mapping of options. Raises `HostError` if the class cannot be imported."""
    if isinstance(model_class, str):
        model_class = _imported(model_class)
    if issubclass(model_class, CliffMixin):
        return model_class
    if model_class not in _WRAPPED:
        _WRAPPED[model_class] = _wrapped(model_class)
    return _WRAPPED[model_class]


_WRAPPED: dict[type, type] = {}


def _wrapped(base: Any) -> type:
    _join_host_log()
    body: dict[str, Any] = {"__module__": "cliff_mini_swe_agent", "__doc__": base.__doc__}
    if hasattr(base, "abort_exceptions"):
        body["abort_exceptions"] = [*base.abort_exceptions, ContextOverflow]
    return type(f"Cliff{base.__name__}", (CliffMixin, base), body)


def _path(model_class: type) -> str:
    return f"{model_class.__module__}.{model_class.__name__}"


def Model(*, cliff_inner: str = "litellm", **kwargs: Any) -> Any:  # noqa: N802 - the host's option names a class
    """A model of any class, for the command line: `--model-class cliff_mini_swe_agent.Model` and
    `-c model.cliff_inner=some.package.SomeModel` (a short name or an import path)."""
    return wrap(cliff_inner)(**kwargs)


def _imported(spec: str) -> type:
    """The host's class of a short name or import path. The host's own look-up hides why an import failed."""
    try:
        names: dict[str, str] = import_module("minisweagent.models")._MODEL_CLASS_MAPPING
    except (ImportError, AttributeError) as error:
        raise HostError(f"cliff_mini_swe_agent needs mini-swe-agent 2.0.0 or newer beside it: {error}") from error
    path = names.get(spec, spec)
    module, _, name = path.rpartition(".")
    try:
        found = getattr(import_module(module), name) if module else None
    except Exception as error:
        raise HostError(f"cliff_mini_swe_agent cannot import the model class {path}: {error}") from error
    if not isinstance(found, type):
        raise HostError(
            f"cliff_mini_swe_agent: {spec!r} is no model class; give an import path or one of {', '.join(names)}"
        )
    return found


def _options(cliff: Any) -> CliffConfig:
    if cliff is not None and not isinstance(cliff, Mapping):
        raise ConfigError(f"model.cliff must be a mapping of options such as threshold_tokens, not {cliff!r}")
    try:
        return CliffConfig.from_env(file=cliff)
    except ConfigError as error:
        raise ConfigError(f"model.cliff (or a CLIFF_ variable): {error}") from None


def _limit(config: Any) -> list[Fact]:
    """What is known of the model's window, as a fact (`decision.window_limit`).

    From litellm's table, where litellm is loaded anyway. The answer is `max_tokens` of the request, else the model's
    maximum."""
    litellm = sys.modules.get("litellm")
    known = getattr(litellm, "model_cost", None)
    name = getattr(config, "model_name", None)
    if not isinstance(known, dict) or not isinstance(name, str):
        return []
    entry = known.get(name) or known.get(name.partition("/")[2]) or {}
    answer = entry.get("max_output_tokens")
    asked = getattr(config, "model_kwargs", None)
    for option in ("max_tokens", "max_completion_tokens", "max_output_tokens"):
        if isinstance(asked, Mapping) and isinstance(asked.get(option), int):
            answer = asked[option]
    limit = window_limit(entry.get("max_input_tokens"), answer)
    return [] if limit is None else [{"at": 0, "kind": "limit", "value": limit}]


def _rejected(error: Exception) -> tuple[Exception, Rejection | None]:
    """The host's own error, and what it says of the prompt's length (a class without `_query` raises it here)."""
    if isinstance(error, ContextOverflow):
        return error.original, error.rejected
    return error, rejection(error)


def _breakpoint(message: dict[str, Any]) -> dict[str, Any]:
    content = message.get("content")
    texts = [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())
    if not texts:
        return message
    return {**message, "content": [*texts[:-1], {**texts[-1], "cache_control": {"type": "ephemeral"}}]}


class _Forward(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        logger.handle(record)


@cache
def _join_host_log() -> None:
    """The core's warnings go where the host's own lines go."""
    logging.getLogger("cliff_core").addHandler(_Forward())

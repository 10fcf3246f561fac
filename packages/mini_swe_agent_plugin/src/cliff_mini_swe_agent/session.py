"""One conversation: its compactor, what is recorded of it in the host's messages, and the views rebuilt from that.

`extra.cliff` of a reply holds `facts` (what a compactor must be told to fold the messages in the same way again)
and, on the first reply of a growth segment, `cliff`. `info.cliff` of a trajectory holds the options and all cliffs.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cliff_core import CliffConfig, Compactor, Fact, View
from cliff_mini_swe_agent.shapes import MiniDialect, input_tokens, is_reply

logger = logging.getLogger("minisweagent.cliff")


def _plain(record: logging.LogRecord) -> bool:
    """The host's handler takes square brackets for markup, and fails at some."""
    record.markup = False
    return True


logger.addFilter(_plain)

KEY = "cliff"
"""Under `extra` of a message and `info` of a trajectory, and the name of the option."""


class Session:
    """The compaction of one conversation. `facts` are known from the start; those recorded in the messages follow."""

    def __init__(self, messages: Sequence[Any], config: CliffConfig, facts: Iterable[Fact] = ()) -> None:
        self.cliffs: dict[int, dict[str, Any]] = {}
        """The newest record of each cliff, by number."""
        recorded: list[Fact] = []
        for record in map(_record, messages):
            recorded += record.get("facts") or ()
            self._keep(record.get(KEY))
        self._recorded = {_key(fact) for fact in recorded}
        known = [*recorded, *(fact for fact in facts if _key(fact) not in self._recorded)]
        dialect = MiniDialect.of(messages)
        try:
            self.compactor = Compactor(dialect, config, known)
        except (TypeError, ValueError, KeyError) as error:
            logger.warning("cliff: what earlier steps recorded cannot be read and is ignored: %s", error)
            self.compactor = Compactor(dialect, config, facts)
        users = (i for i, m in enumerate(messages, 1) if isinstance(m, Mapping) and m.get("role") == "user")
        self._head = list(messages[: next(users, 1)])
        self._size = len(messages)
        self._told: tuple[int, int] | None = None

    def continues(self, messages: Sequence[Any]) -> bool:
        """Whether `messages` are this conversation, and not another one (an agent's next task).

        The host appends to one list; an agent that copies its messages for each call is recognised as well."""
        size = len(self._head)
        if not size or messages[:size] != self._head or len(messages) <= size < self._size:
            return False
        return messages[0] is self._head[0] or len(messages) > self._size

    def view(self, messages: Sequence[Any]) -> View:
        self._size = len(messages)
        return self.compactor.view(messages)

    def tell(self, view: View) -> None:
        """Log a cliff, once."""
        cliff = view.cliff
        if cliff is None or self._told == (cliff.number, cliff.cut):
            return
        self._told = (cliff.number, cliff.cut)
        logger.info(
            "cliff %d: %d -> %d tokens, %d live turns, threshold %d (%s)",
            cliff.number,
            cliff.tokens_before,
            cliff.tokens_after,
            cliff.live_turns,
            cliff.threshold,
            cliff.reason,
        )

    def record(self, view: View, message: dict[str, Any]) -> dict[str, Any]:
        """The reply to a view, with what is to be kept of it in its `extra` (a copy: the reply may be shared)."""
        self.compactor.observe(view, input_tokens(message))
        record: dict[str, Any] = {}
        new = [fact for fact in self.compactor.facts if _key(fact) not in self._recorded]
        if new:
            record["facts"] = new
            self._recorded.update(map(_key, new))
        if view.cliff is not None:
            record[KEY] = view.cliff.as_dict()
            self._keep(record[KEY])
        if not record:
            return message
        return {**message, "extra": {**(message.get("extra") or {}), KEY: record}}

    def _keep(self, cliff: Any) -> None:
        if isinstance(cliff, Mapping) and isinstance(cliff.get("number"), int):
            self.cliffs[cliff["number"]] = dict(cliff)


def views(trajectory: Mapping[str, Any] | str | Path, config: CliffConfig | None = None) -> list[View]:
    """The view of each request of a saved trajectory, in order: `views(path)[4].messages` is what request 5 sent.

    `config` stands in for the options that the trajectory recorded. A request that was rejected and sent again is in
    the list once, as it was answered. Raises `ValueError` for a trajectory that was made without this package."""
    saved: Any = trajectory
    if isinstance(trajectory, (str, Path)):
        saved = json.loads(Path(trajectory).read_text(encoding="utf-8"))
    if config is None:
        options = (saved["info"].get(KEY) or {}).get("options")
        if options is None:
            raise ValueError("the trajectory has no info.cliff: it was made without cliff_mini_swe_agent")
        config = CliffConfig.preset(options["preset"], **{k: v for k, v in options.items() if k != "preset"})
    messages = saved["messages"]
    session = Session(messages, config)
    return [session.view(messages[:index]) for index, message in enumerate(messages) if is_reply(message)]


def _record(message: Any) -> Mapping[str, Any]:
    extra = message.get("extra") if isinstance(message, Mapping) else None
    record = extra.get(KEY) if isinstance(extra, Mapping) else None
    return record if isinstance(record, Mapping) else {}


def _key(fact: Mapping[str, Any]) -> str:
    return json.dumps(fact, sort_keys=True, default=str)

"""The record of a cliff: a line in the log, and a line of JSON beside the conversation's events.

A condensation event holds what was forgotten and the block, and no field of ours; what led to it stands in
`cliff.jsonl` in the conversation's folder. It is for people and tools: nothing here reads it back."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from cliff_openhands.host import AgentBase, BaseConversation

logger = logging.getLogger("cliff_openhands")

FILE = "cliff.jsonl"


def record(entry: dict[str, Any]) -> None:
    """Log a cliff, and append it to the conversation's file where there is one."""
    logger.info(
        "cliff: %d -> %d tokens, %d live turns, threshold %d (%s)",
        entry["tokens_before"],
        entry["tokens_after"],
        entry["live_turns"],
        entry["threshold"],
        entry["reason"],
    )
    try:
        folder = _folder()
        if folder is not None:
            with (Path(folder) / FILE).open("a", encoding="utf-8") as file:
                file.write(json.dumps(entry, ensure_ascii=False) + "\n")
    except Exception as error:  # the compaction itself is not lost: its event holds what it did
        logger.warning("cliff: the record of this compaction could not be written: %s", _what(error))


def _what(error: Exception) -> str:
    """The system's own words, or the error's kind."""
    return str(error) if isinstance(error, OSError) else type(error).__name__


def _folder() -> str | None:
    """Where the conversation that is being condensed is kept; None for one in memory only.

    The SDK tells a condenser neither the conversation nor its folder, and has no other place from which they could
    be had. So the agent's step, which called it, is asked: the nearest caller that is a method of an agent and has an
    argument `conversation`, as in all releases that we know. It alone: the step around it may be that of another
    agent, which runs this one as its tool. Without one (a condenser called by hand) there is the log alone."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if {"self", "conversation"} <= set(frame.f_code.co_varnames):
            conversation = frame.f_locals.get("conversation")
            if isinstance(frame.f_locals.get("self"), AgentBase) and isinstance(conversation, BaseConversation):
                folder = conversation.state.persistence_dir
                return folder if folder is not None and Path(folder).is_dir() else None
        frame = frame.f_back
    return None

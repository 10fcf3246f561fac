"""Codex CLI rollouts (`~/.codex/sessions/**/rollout-*.jsonl`): `response_item` lines are what was said.

A run of the model's items is one request; its usage is the `token_count` that follows with a new total (the same
one is written several times). Reported reasoning tokens stand on the reasoning items (`_reasoning_tokens`). Sent is
what Codex sends: a call without an output gets one that says `aborted` when a later step follows, outputs without a
call and `ghost_snapshot` are left out. `base_instructions` is the system prompt; tool schemas are not in the file.

`compacted` lines (and items that hold a compaction) are compactions, left out with the history that they put in
the place of the old one. Turns that the person rolled back are left out (`extra`: `rolled_back` requests).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cliff_core.traces.history import History
from cliff_core.traces.reasoning import spread
from cliff_core.traces.session import Session, Usage
from cliff_core.traces.source import MalformedError, Sample, field, guarded, lines, option
from cliff_core.traces.usage import count, total

NAME = "codex"
EXPECTS = "a Codex rollout (JSON lines of `type` and `payload`)"

ABORTED = "aborted"
"""What Codex sends as the output of a call that has none."""

# Tuples: what is looked up in them can be any JSON value, and a list or an object has no hash.
_LINES = ("session_meta", "response_item", "turn_context", "event_msg", "compacted")
_UNSENT = ("ghost_snapshot", "other")
_COMPACTIONS = ("compaction", "compaction_summary", "context_compaction")
_OUTPUTS = {
    "function_call": "function_call_output",
    "local_shell_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
}


def matches(sample: Sample) -> bool:
    return any(record.get("type") in _LINES and isinstance(record.get("payload"), dict) for record in sample.objects)


def read(path: Path) -> Iterator[Session]:
    return guarded(path, EXPECTS, _read(path))


class _Step:
    """One entry of the history: an item, or a mark (a request, a compaction)."""

    def __init__(self, item: dict[str, Any] | None, mark: str = "", model: str | None = None) -> None:
        self.item = item
        self.mark = mark
        self.model = model
        self.usage: Usage | None = None


def _read(path: Path) -> Iterator[Session]:
    rollout = _Rollout()
    broken: MalformedError | None = None
    try:
        for where, record in lines(path):
            kind = record.get("type")
            if kind in _LINES:
                rollout.take(str(kind), field(record, "payload", dict, where), where)
    except MalformedError as error:
        broken = error  # what is whole before it is a session
    if rollout.steps:
        yield rollout.session(path)
    if broken is not None:
        raise broken


class _Rollout:
    def __init__(self) -> None:
        self.steps: list[_Step] = []
        self._marks: list[_Step] = []  # those of the steps that have a mark
        self.system: str | None = None
        self.name = ""
        self.version: Any = None
        self._model: str | None = None
        self._total: Any = None
        self._in_step = False
        self._rolled_back = 0

    def take(self, kind: str, payload: dict[str, Any], where: str) -> None:
        if kind == "session_meta":
            if not self.name:  # a fork repeats those of its parents
                self.name = str(payload.get("id") or "")
                self.version = payload.get("cli_version")
                instructions = payload.get("base_instructions")
                text = option(instructions, "text", str) or option(payload, "instructions", str)
                self.system = text or self.system
        elif kind == "turn_context":
            self._model = option(payload, "model", str) or self._model
        elif kind == "compacted":
            self._compacted()
        elif kind == "event_msg":
            self._event(payload)
        else:
            self._item(payload, field(payload, "type", str, where))

    def _event(self, payload: dict[str, Any]) -> None:
        if payload.get("type") == "token_count":
            info = option(payload, "info", dict)
            if info is None or info.get("total_token_usage") == self._total:
                return
            self._total = info.get("total_token_usage")
            self._in_step = False
            request = self._marks[-1] if self._marks else None
            if request is not None and request.mark == "request" and request.usage is None:
                request.usage = _usage(info.get("last_token_usage"))
        elif payload.get("type") == "thread_rolled_back":
            self._roll_back(count(payload, "num_turns") or 0)

    def _item(self, item: dict[str, Any], kind: str) -> None:
        if kind in _UNSENT:
            return
        if kind in _COMPACTIONS:
            self._compacted()
            return
        spoken = kind.endswith("_output") or (kind == "message" and item.get("role") != "assistant")
        if spoken:
            self._in_step = False
        elif not self._in_step:
            self._mark("request", self._model)
            self._in_step = True
        self.steps.append(_Step(item))

    def _compacted(self) -> None:
        self._in_step = False
        if not self.steps or self.steps[-1].mark != "compaction":
            self._mark("compaction")

    def _mark(self, mark: str, model: str | None = None) -> None:
        step = _Step(None, mark, model)
        self.steps.append(step)
        self._marks.append(step)

    def _roll_back(self, turns: int) -> None:
        """The last `turns` that a person began are gone from the history; all of it where there are not so many."""
        if turns:
            self._in_step = False
        while turns and self.steps:
            step = self.steps.pop()
            if step.mark:
                self._marks.pop()
                self._rolled_back += step.mark == "request"
            elif step.item and step.item.get("role") == "user":
                turns -= 1

    def session(self, path: Path) -> Session:
        history = History()
        for step in self._complete():
            if step.mark == "compaction":
                history.compacted()
            elif step.mark:
                history.request(step.usage, step.model)
            elif step.item is not None:
                history.add(step.item)
        return history.session(
            path,
            NAME,
            "responses",
            name=self.name,
            model=history.model or self._model,
            system=self.system,
            extra={"version": self.version, "rolled_back": self._rolled_back},
        )

    def _complete(self) -> list[_Step]:
        """Items as Codex sends them, with the reported size of their reasoning."""
        items = [step.item for step in self.steps if step.item]
        outputs = {(i.get("type"), i.get("call_id")) for i in items}
        calls = {(_OUTPUTS.get(str(i.get("type"))), i.get("call_id")) for i in items}
        newest = max((at for at, step in enumerate(self.steps) if step.mark == "request"), default=-1)
        complete: list[_Step] = []
        for at, step in enumerate(self.steps):
            kind = str(step.item.get("type")) if step.item else ""
            if kind in _OUTPUTS.values() and step.item and (kind, step.item.get("call_id")) not in calls:
                continue
            complete.append(step)
            missing = _OUTPUTS.get(kind)
            if missing and step.item and at < newest and (missing, step.item.get("call_id")) not in outputs:
                item = {"type": missing, "call_id": step.item.get("call_id"), "output": ABORTED}
                complete.append(_Step(item))
        for at, step in enumerate(complete):
            if step.mark == "request" and step.usage and step.usage.reasoning_tokens:
                end = next((i for i in range(at + 1, len(complete)) if complete[i].mark), len(complete))
                parts = complete[at + 1 : end]
                sized = spread([part.item or {} for part in parts], step.usage.reasoning_tokens)
                for part, item in zip(parts, sized, strict=True):
                    part.item = item
        return complete


def _usage(reported: Any) -> Usage | None:
    return total(
        count(reported, "input_tokens"),
        count(reported, "cached_input_tokens"),
        None,
        count(reported, "output_tokens"),
        count(reported, "reasoning_output_tokens"),
    )

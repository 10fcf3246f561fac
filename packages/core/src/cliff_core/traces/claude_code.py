"""Claude Code sessions (`~/.claude/projects/*/*.jsonl`): a line is one block of a message.

Lines of one `message.id` are one request and one message, whatever stands between them; its usage is the last
line's. Sent is what Claude Code sends: user lines in a row are one message, results first; lines for the
transcript alone, error messages of its own (`isApiErrorMessage`) and everything that is no user or assistant line
are not. A call without a result gets the one that Claude Code puts in its place. What it adds when it sends
(system prompt, tools, CLAUDE.md, reminders, attached files) is not in the file.

`compact_boundary` and `microcompact_boundary` are compactions; the summary (`isCompactSummary`) is left out. Prompts
that a person took back by going on from an earlier point, and what followed them, are left out (`extra`:
`abandoned` requests). Sidechains are sessions of their own: one for each agent, or for each root where lines have no
agent.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cliff_core.traces.history import History
from cliff_core.traces.session import Session
from cliff_core.traces.source import MalformedError, Sample, field, guarded, lines, need, objects, option
from cliff_core.traces.usage import usage

NAME = "claude-code"
EXPECTS = "a Claude Code session (JSON lines of `type` user and assistant)"

MISSING = "[Tool result missing due to internal error]"
"""What Claude Code sends in the place of a result that it does not have."""

Line = tuple[str, dict[str, Any]]


def matches(sample: Sample) -> bool:
    return any(
        record.get("type") in ("user", "assistant")
        and isinstance(record.get("message"), dict)
        and ("sessionId" in record or "parentUuid" in record)
        for record in sample.objects
    )


def read(path: Path) -> Iterator[Session]:
    return guarded(path, EXPECTS, _read(path))


def _read(path: Path) -> Iterator[Session]:
    kept: list[Line] = []
    seen: set[str] = set()
    broken: MalformedError | None = None
    try:
        for where, record in lines(path):
            identity = option(record, "uuid", str)
            if identity is not None and identity not in seen:
                seen.add(identity)
                kept.append((where, record))
    except MalformedError as error:
        broken = error  # what is whole before it is a session
    sidechains = {r["uuid"]: r.get("parentUuid") for _, r in kept if r.get("isSidechain") is True}
    roots = _roots(sidechains)
    chains: dict[str, list[Line]] = {}
    for where, record in kept:
        # Empty for the main conversation.
        chain = (option(record, "agentId", str) or roots[record["uuid"]]) if record.get("isSidechain") is True else ""
        chains.setdefault(chain, []).append((where, record))
    for chain, records in chains.items():
        session = _session(path, records, chain)
        if session.messages:
            yield session
    if broken is not None:
        raise broken


def _roots(parents: dict[str, Any]) -> dict[str, str]:
    """The line that each line of a sidechain goes back to, by its parents. Linear: no parent is followed twice."""
    roots: dict[str, str] = {}
    for line in parents:
        way: list[str] = []
        at = line
        while at not in roots:
            roots[at] = at  # until it is known: should the parents go round in a circle, it ends here
            way.append(at)
            at = parents[at] if parents[at] in parents else at
        roots.update(dict.fromkeys(way, roots[at]))
    return roots


class _Unit:
    """One message as it is sent, from several lines; without a role: a compaction."""

    def __init__(self, role: str) -> None:
        self.role = role
        self.blocks: list[dict[str, Any]] = []
        self.text: str | None = None  # of a user message that was one line of plain text
        self.usage: Any = None
        self.model: str | None = None


def _session(path: Path, records: list[Line], chain: str) -> Session:
    dropped = _abandoned([record for _, record in records])
    units: list[_Unit] = []
    replies: dict[str, _Unit] = {}
    abandoned: set[str] = set()
    about: dict[str, Any] = {}
    for where, record in records:
        kind = record.get("type")
        if kind == "system" and record.get("subtype") in ("compact_boundary", "microcompact_boundary"):
            units.append(_Unit(""))
        if kind not in ("user", "assistant"):
            continue
        message = field(record, "message", dict, where)
        about = record
        if kind == "assistant":
            identity = field(message, "id", str, f"{where}: message")
            if record["uuid"] in dropped:
                abandoned.add(identity)
            elif record.get("isApiErrorMessage") is not True and message.get("model") != "<synthetic>":
                unit = replies.get(identity)
                if unit is None:
                    unit = replies[identity] = _Unit("assistant")
                    units.append(unit)
                unit.blocks += objects(field(message, "content", list, f"{where}: message"))
                unit.usage, unit.model = message.get("usage"), option(message, "model", str)
        elif not (
            record["uuid"] in dropped
            or record.get("isCompactSummary") is True
            or record.get("isVisibleInTranscriptOnly") is True
        ):
            if not units or units[-1].role != "user":
                units.append(_Unit("user"))
            _add_user(units[-1], message.get("content"), where)
    for unit in units:
        if unit.role == "user":  # results first; what is of one kind stays in its order
            unit.blocks.sort(key=lambda block: block.get("type") != "tool_result")
    _complete(units)
    history = History()
    for unit in units:
        if not unit.role:
            history.compacted()
            continue
        if unit.role == "assistant":
            history.request(usage(unit.usage), unit.model)
        history.add({"role": unit.role, "content": unit.blocks if unit.text is None else unit.text})
    name = str(about.get("sessionId") or "")
    return history.session(
        path,
        NAME,
        "anthropic",
        name=f"{name}/{chain}" if chain else name,
        extra={
            "version": about.get("version"),
            "sidechain": bool(chain),
            "abandoned": len(abandoned - replies.keys()),
        },
    )


def _add_user(unit: _Unit, content: Any, where: str) -> None:
    if isinstance(content, str):
        unit.text = content if not unit.blocks else None
        unit.blocks.append({"type": "text", "text": content})
    else:
        unit.text = None
        unit.blocks += objects(need(content, list, f"{where}: message: content"))


def _complete(units: list[_Unit]) -> None:
    """Every call with a result and every result with a call, as the API wants it. The calls of a last reply are
    still open."""
    calls = {b.get("id") for u in units for b in u.blocks if u.role == "assistant" and b.get("type") == "tool_use"}
    results = {b.get("tool_use_id") for u in units for b in u.blocks if b.get("type") == "tool_result"}
    for unit in units:
        if unit.role == "user" and unit.text is None:
            unit.blocks = [b for b in unit.blocks if b.get("type") != "tool_result" or b.get("tool_use_id") in calls]
    newest = max((i for i, unit in enumerate(units) if unit.role == "assistant"), default=-1)
    complete: list[_Unit] = []
    for index, unit in enumerate(units):
        complete.append(unit)
        missing = [
            {"type": "tool_result", "tool_use_id": block.get("id"), "content": MISSING, "is_error": True}
            for block in unit.blocks
            if index < newest and block.get("type") == "tool_use" and block.get("id") not in results
        ]
        if not missing:
            continue
        answer = units[index + 1]
        if answer.role != "user":
            answer = _Unit("user")
            complete.append(answer)
        answer.text = None
        answer.blocks[:0] = missing
    units[:] = [unit for unit in complete if unit.blocks or not unit.role]


def _abandoned(records: list[dict[str, Any]]) -> set[str]:
    """Lines that follow from a prompt beside which a later prompt has the same parent: the person went back."""
    children: dict[Any, list[dict[str, Any]]] = {}
    for record in records:
        children.setdefault(record.get("parentUuid"), []).append(record)
    dropped: set[str] = set()
    for parent, siblings in children.items():
        prompts = [record for record in siblings if _is_prompt(record)] if parent is not None else []
        waiting = [record["uuid"] for record in prompts[:-1]]
        while waiting:
            identity = waiting.pop()
            if identity not in dropped:
                dropped.add(identity)
                waiting += [record["uuid"] for record in children.get(identity, ())]
    return dropped


def _is_prompt(record: dict[str, Any]) -> bool:
    if record.get("type") != "user" or record.get("isMeta") is True or record.get("isCompactSummary") is True:
        return False
    content = option(record, "message", dict) or {}
    return not any(block.get("type") == "tool_result" for block in objects(content.get("content")))

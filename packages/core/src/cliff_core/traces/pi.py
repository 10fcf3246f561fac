"""Sessions of the pi coding agent (`~/.pi/agent/sessions/**/*.jsonl`), version 1 (a list) to 3 (a tree, of which the
branch to the last entry counts).

Messages become Anthropic messages, in the way in which pi itself converts them: results in a row are one user
message; thinking without a signature is text; replies that were aborted or failed are not sent again, but were
requests (without usage where nothing was answered); their calls go with them; another call without a result gets
`No result provided`; a command that the person ran (`bashExecution`) is a user message with its output, unless it
was kept from the model. System prompt and tools are not in the file.

`compaction` entries are compactions, their summaries are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cliff_core.traces.history import History
from cliff_core.traces.session import Session, Usage
from cliff_core.traces.source import MalformedError, Sample, field, guarded, lines, need, objects, option
from cliff_core.traces.usage import count, total

NAME = "pi"
EXPECTS = "a pi session (JSON lines that begin with `type` session)"

MISSING = "No result provided"
"""What pi sends as the result of a call that has none."""


def matches(sample: Sample) -> bool:
    first = sample.first
    return isinstance(first, dict) and first.get("type") == "session" and isinstance(first.get("id"), str)


def read(path: Path) -> Iterator[Session]:
    return guarded(path, EXPECTS, _read(path))


def _read(path: Path) -> Iterator[Session]:
    entries: list[tuple[str, dict[str, Any]]] = []
    broken: MalformedError | None = None
    try:
        entries.extend(lines(path))
    except MalformedError as error:
        broken = error  # what is whole before it is a session
    header = entries[0][1] if entries else {}
    branch = _branch(entries)
    conversation = _Conversation()
    for where, entry in branch:
        conversation.take(entry, where)
    conversation.finish()
    if conversation.history.messages:
        yield conversation.history.session(
            path,
            NAME,
            "anthropic",
            name=str(header.get("id") or ""),
            model=conversation.history.model or option(header, "modelId", str),
            extra={"other_branches": len(entries) - len(branch)} if len(branch) < len(entries) else {},
        )
    if broken is not None:
        raise broken


def _branch(entries: list[tuple[str, dict[str, Any]]]) -> list[tuple[str, dict[str, Any]]]:
    """The entries on the way from the root to the last one; all of them where they have no parents."""
    by_id = {entry["id"]: at for at, (_, entry) in enumerate(entries) if isinstance(entry.get("id"), str)}
    if not entries or "parentId" not in entries[-1][1]:
        return entries
    path: list[int] = []
    at: int | None = len(entries) - 1
    while at is not None and at not in path[-1:]:
        path.append(at)
        parent = by_id.get(entries[at][1].get("parentId") or "")
        at = parent if parent is not None and parent < at else None
    return [entries[at] for at in reversed(path)]


class _Conversation:
    def __init__(self) -> None:
        self.history = History()
        self._open: dict[str, None] = {}  # ids of calls without a result, in order
        self._results: list[dict[str, Any]] = []  # results in a row are one message

    def take(self, entry: dict[str, Any], where: str) -> None:
        kind = entry.get("type")
        if kind == "message":
            message = field(entry, "message", dict, where)
            role = field(message, "role", str, f"{where}: message")
            if role == "assistant":
                self._assistant(message, where)
            elif role == "toolResult":
                self._result(message, where)
            elif role in ("user", "custom", "hookMessage"):
                self._user(_blocks(message.get("content"), f"{where}: message: content"))
            elif role == "bashExecution":
                if message.get("excludeFromContext") is not True:
                    self._user([{"type": "text", "text": _execution(message)}])
            elif role not in ("branchSummary", "compactionSummary"):
                raise MalformedError(f"{where}: message: role", f"user, assistant or toolResult expected, not {role!r}")
        elif kind == "custom_message":
            self._user(_blocks(entry.get("content"), f"{where}: content"))
        elif kind == "compaction":
            self._answer()
            self.history.compacted()

    def _answer(self) -> None:
        """Close the calls of the last reply before something else is said."""
        for identity in self._open:
            self._results.append(_tool_result(identity, MISSING, True))
        self._open.clear()
        if self._results:
            self.history.add({"role": "user", "content": self._results})
            self._results = []

    def finish(self) -> None:
        """The calls of the last reply stay open."""
        self._open.clear()
        self._answer()

    def _user(self, blocks: list[dict[str, Any]]) -> None:
        self._answer()
        blocks = [block for block in blocks if block.get("type") != "text" or block["text"].strip()]
        if blocks:
            self.history.add({"role": "user", "content": blocks})

    def _result(self, message: dict[str, Any], where: str) -> None:
        identity = field(message, "toolCallId", str, f"{where}: message")
        if identity not in self._open:
            return  # its call was in a reply that is not sent
        del self._open[identity]
        blocks = _blocks(message.get("content"), f"{where}: message: content")
        content: Any = blocks
        if all(block["type"] == "text" for block in blocks):
            content = "\n".join(block["text"] for block in blocks)
        self._results.append(_tool_result(identity, content, message.get("isError") is True))

    def _assistant(self, message: dict[str, Any], where: str) -> None:
        self._answer()
        self.history.request(_usage(message.get("usage")), option(message, "model", str))
        if message.get("stopReason") in ("aborted", "error"):
            return
        blocks: list[dict[str, Any]] = []
        for block in objects(field(message, "content", list, f"{where}: message")):
            kind = block.get("type")
            if kind == "text" and str(block.get("text") or "").strip():
                blocks.append({"type": "text", "text": block["text"]})
            elif kind == "thinking" and str(block.get("thinking") or "").strip():
                signature = block.get("thinkingSignature")
                if isinstance(signature, str) and signature.strip():
                    blocks.append({"type": "thinking", "thinking": block["thinking"], "signature": signature})
                else:
                    blocks.append({"type": "text", "text": block["thinking"]})
            elif kind == "toolCall":
                identity, name = field(block, "id", str, where), field(block, "name", str, where)
                arguments = block.get("arguments")
                blocks.append(
                    {"type": "tool_use", "id": identity, "name": name, "input": {} if arguments is None else arguments}
                )
                self._open[identity] = None
        if blocks:
            self.history.add({"role": "assistant", "content": blocks})


def _tool_result(identity: str, content: Any, failed: bool) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": identity, "content": content, "is_error": failed}


def _blocks(content: Any, where: str) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    blocks: list[dict[str, Any]] = []
    for block in objects(need(content, list, where)):
        if block.get("type") == "image":
            source = {"type": "base64", "media_type": block.get("mimeType"), "data": block.get("data")}
            blocks.append({"type": "image", "source": source})
        else:
            blocks.append({"type": "text", "text": str(block.get("text") or "")})
    return blocks


def _execution(message: dict[str, Any]) -> str:
    """A command that the person ran, as pi shows it to the model."""
    text = f"Ran `{message.get('command')}`\n"
    output = message.get("output")
    text += f"```\n{output}\n```" if output else "(no output)"
    code = message.get("exitCode")
    if message.get("cancelled") is True:
        text += "\n\n(command cancelled)"
    elif code is not None and code != 0:
        text += f"\n\nCommand exited with code {code}"
    if message.get("truncated") is True and message.get("fullOutputPath"):
        text += f"\n\n[Output truncated. Full output: {message['fullOutputPath']}]"
    return text


def _usage(reported: Any) -> Usage | None:
    read, written = count(reported, "cacheRead"), count(reported, "cacheWrite")
    prompt = (count(reported, "input") or 0) + (read or 0) + (written or 0)
    return total(prompt, read, written, count(reported, "output"), None)

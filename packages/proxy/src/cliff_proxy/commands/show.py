"""`cliff show`: what was dropped, looked up in a recording."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from cliff_core import traces
from cliff_core.commands.said import Stream, say
from cliff_core.content import Content, Directive, Message, Note, Opaque, Thought, ToolCall, ToolResult, Turn
from cliff_core.content import arguments_text as arguments
from cliff_core.dialects import dialect
from cliff_core.signature import signature
from cliff_core.turns import group
from cliff_core.wording import counted, grouped, printable
from cliff_proxy.commands.options import CONFIG, read_settings

app = typer.Typer(rich_markup_mode=None)

PREVIEW = 100
"""Characters that the list of turns shows of each call."""


@app.command()
def command(
    session: Annotated[
        str, typer.Argument(help="A session as `cliff status` names it, its client's id, or a recorded file.")
    ],
    turn: Annotated[int | None, typer.Option(min=1, help="Print this turn as it was, in full.")] = None,
    config: CONFIG = None,
    record: Annotated[Path | None, typer.Option(help="The folder of the recordings (setting `record`).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Look up in a recording what a compaction dropped.

    Turns have the numbers that the excerpts in a request show. Without --turn all turns are listed, a line each."""
    settings = read_settings(config, {"record": record})
    try:
        found = _session(_files(session, settings.record))
    except LookupError as error:
        say("error", "red", str(error.args[0]))
        raise typer.Exit(2) from None
    speaks = dialect(found.dialect)
    head, turns = group([speaks.parse(message) for message in found.messages])
    if turn is not None and turn > len(turns):
        raise typer.BadParameter(f"there is no turn {turn}: the session has {counted(len(turns), 'turn')}")
    if as_json:
        shown = turns if turn is None else [turns[turn - 1]]
        print(json.dumps({"path": str(found.path), "turns": [_json(one, found.messages) for one in shown]}, indent=2))
        return
    out = Stream()
    if turn is None:
        what = f"{found.path}: {counted(len(turns), 'turn')} after a head of {counted(head, 'message')}"
        out.print(Text(printable(what), style="bold"), soft_wrap=True)
        for one in turns:
            out.print(Text(printable(_line(one))), soft_wrap=True)
        return
    for part in _parts(turns[turn - 1]):
        out.print(Text(printable(part)), soft_wrap=True)


def _files(name: str, folder: Path | None) -> list[Path]:
    """The recordings of that name: one, or all of a client's id. Raises LookupError where there is none, or several."""
    if ("/" in name or name.endswith(".jsonl")) and Path(name).is_file():
        return [Path(name)]
    if folder is None:
        raise LookupError(
            "nothing is recorded unless asked for: start the proxy with --record DIR (or set `record`), and name that "
            "folder here"
        )
    files = sorted(folder.glob("*.jsonl"))
    exact = [file for file in files if name in (file.name, file.stem, *file.stem.rsplit(".", 1))]
    if exact:
        return exact
    meant = [file for file in files if any(part.startswith(name) for part in (file.stem, *file.stem.rsplit(".", 1)))]
    if len(meant) > 1:
        raise LookupError(f"several recordings are named {name}: {', '.join(file.stem for file in meant[:8])}")
    if meant:
        return meant
    listed = ", ".join(file.stem for file in files[:8]) or "none"
    raise LookupError(f"there is no recording {name} in {folder}; there are: {listed}")


def _session(paths: list[Path]) -> traces.Session:
    """The longest history: a client that compacts goes on with a shorter one, one that is started again with it all."""
    found: list[traces.Session] = []
    problem = f"{paths[0]}: there is no session in this file"
    for path in paths:
        try:
            found += traces.read(path)
        except traces.TraceError as error:
            problem = str(error)  # a line that broke off: those before it are good
    if not found:
        raise LookupError(problem)
    return max(found, key=lambda one: len(one.messages))


def _line(turn: Turn) -> str:
    texts = [signature(c, PREVIEW).text for c in turn.contents() if isinstance(c, ToolCall)]
    if not texts:
        texts = [" ".join(c.text[: 2 * PREVIEW].split())[:PREVIEW] for c in turn.contents() if isinstance(c, Thought)]
    size = sum(len(c.text) for c in turn.contents() if isinstance(c, ToolResult))
    results = f" -> {grouped(size)} characters" if size else ""
    return f"{turn.number:>5}  {'; '.join(text for text in texts if text)}{results}"


def _parts(turn: Turn) -> Iterator[str]:
    yield f"turn {turn.number}"
    for message in turn.messages:
        for content in message.contents:
            yield f"--- {_title(message, content)}\n{_text(content)}"


def _title(message: Message, content: Content) -> str:
    if isinstance(content, Thought):
        return "model"
    if isinstance(content, ToolCall):
        return f"call {content.name}"
    if isinstance(content, ToolResult):
        return "result (error)" if content.error else "result"
    return {"user": "user", "system": "system"}.get(message.role, message.role)


def _text(content: Content) -> str:
    if isinstance(content, ToolCall):
        return arguments(content.arguments)
    if isinstance(content, ToolResult):
        return "\n".join([content.text, *(_opaque(part) for part in content.opaque)])
    if isinstance(content, Opaque):
        return _opaque(content)
    assert isinstance(content, (Thought, Directive, Note))
    return content.text or "[without text]"


def _opaque(content: Opaque) -> str:
    return content.text or f"[{content.kind}]"


def _json(turn: Turn, messages: list[dict[str, Any]]) -> dict[str, Any]:
    return {"number": turn.number, "messages": messages[turn.start : turn.end]}

"""Real conversations of the SDK with its real tools, whose model is the scripted server."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from openhands.sdk import LLM, Agent, Conversation, Tool
from openhands.tools.file_editor import FileEditorTool
from openhands.tools.terminal import TerminalTool

from cliff_core.block import OPENING
from kit import Call, ModelServer, Step

TASK = "The parser of this repository drops the last line of a file. Find out why, and mend it. (task-marker-7)"
WORDS = ("parse", "line", "token", "buffer", "cursor", "stream", "reader", "value", "index", "offset", "limit", "error")
MARK = OPENING.strip()


def repository(folder: Path, files: int = 60) -> Path:
    """A folder of modules, each with text of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(files):
        chance = random.Random(number)
        lines = [
            f"def {chance.choice(WORDS)}_{number}_{at}({chance.choice(WORDS)}, {chance.choice(WORDS)}={at * number}):"
            for at in range(60)
        ]
        (folder / f"module_{number}.py").write_text("\n".join(lines) + "\n")
    return folder


def terminal(command: str) -> Call:
    return Call("terminal", {"command": command, "security_risk": "LOW", "summary": "a command"})


def view(path: Path, end: int) -> Call:
    more = {"view_range": [1, end], "security_risk": "LOW", "summary": "read a module"}
    return Call("file_editor", {"command": "view", "path": str(path), **more})


def work(folder: Path, first: int, last: int) -> Iterator[Step]:
    """Steps first…last-1: modules are read by both tools, in parallel with short commands, with errors and edits."""
    for at in range(first, last):
        calls = [view(folder / f"module_{at}.py", 45 + at % 10)]
        if at % 3 == 1:
            calls = [*calls, terminal(f"wc -l module_{at}.py"), view(folder / f"module_{at}.py", 3)]
        if at % 4 == 2:
            calls = [terminal(f"sed -n '1,{45 + at % 10}p' module_{at}.py")]
        if at % 10 == 5:
            calls = [view(folder / f"missing_{at}.py", 5)]
        if at % 10 == 8:
            text = f"# Notes {at}\n" + f"- looked at module_{at}\n" * 30
            path = str(folder / f"notes_{at}.md")
            calls.append(Call("file_editor", {"command": "create", "path": path, "file_text": text}))
        yield Step(f"Step {at}: module_{at} may hold the loop.", calls=calls)


def finish(message: str = "Done.") -> Step:
    return Step(calls=[Call("finish", {"message": message})])


def llm(server: ModelServer, model: str = "openai/scripted", **options: Any) -> LLM:
    base = server.url if model.startswith("anthropic/") else server.openai_url
    return LLM(model=model, base_url=base, api_key="test", num_retries=0, usage_id="agent", **options)


def agent(model: LLM, condenser: Any, *tools: type) -> Agent:
    chosen = tools or (TerminalTool, FileEditorTool)
    return Agent(llm=model, tools=[Tool(name=tool.name) for tool in chosen], condenser=condenser)


class Session:
    """A conversation in a folder, which can be closed and opened again."""

    def __init__(self, folder: Path, make: Any, **options: Any) -> None:
        """`make` gives the agent of each opening."""
        self.folder = folder
        self.make = make
        self.options = options
        self.id = uuid.uuid4()
        self.repository = repository(folder / "repository")
        self.conversation: Any = None
        self.open()

    def open(self) -> None:
        self.conversation = Conversation(
            agent=self.make(),
            workspace=str(self.repository),
            persistence_dir=str(self.folder / "conversations"),
            conversation_id=self.id,
            visualizer=None,
            **self.options,
        )

    def close(self) -> None:
        self.conversation.close()

    def say(self, text: str) -> None:
        """A message of the user, and the agent's work on it."""
        self.conversation.send_message(text)
        self.conversation.run()

    @property
    def events(self) -> list[Any]:
        return list(self.conversation.state.events)

    @property
    def kept(self) -> Path:
        return Path(self.conversation.state.persistence_dir)

    @property
    def records(self) -> list[dict[str, Any]]:
        """The records of the cliffs."""
        path = self.kept / "cliff.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def condensations(self) -> list[Any]:
        return [event for event in self.events if type(event).__name__ == "Condensation"]


def everything(value: Any) -> str:
    """All texts of a JSON value, for a search."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return "\n".join(map(everything, value.values()))
    return "\n".join(map(everything, value)) if isinstance(value, list) else ""

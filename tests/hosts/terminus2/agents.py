"""The hosts' agents in this process, with a terminal that is scripted as well: for what needs no real one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kit import ModelServer, Step

TASK = "Find the slow query in these logs. (task-marker-5)"


class Screen:
    """A terminal that shows `lines` rows of its own after each keystroke; the methods of both hosts' sessions."""

    def __init__(self, lines: int = 30, width: int = 60) -> None:
        self.lines, self.width = lines, width
        self.shown = 0
        self.typed: list[str] = []

    def output(self) -> str:
        """As tmux gives it: padded to the end of the screen."""
        self.shown += 1
        rows = "".join(f"{self.shown:04} {row:03} {'log ' * (self.width // 4)}\n" for row in range(self.lines))
        heading = "Current Terminal Screen" if self.shown == 1 else "New Terminal Output"
        return f"{heading}:\n{rows}" + "\n" * 12


class SyncScreen(Screen):
    def is_session_alive(self) -> bool:
        return True

    def get_incremental_output(self) -> str:
        return self.output()

    def capture_pane(self, capture_entire: bool = False) -> str:
        return "a screen"

    def send_keys(self, keys: str, block: bool = False, min_timeout_sec: float = 0.0) -> None:
        self.typed.append(keys)

    def get_asciinema_timestamp(self) -> float:
        return 0.0


class AsyncScreen(Screen):
    async def is_session_alive(self) -> bool:
        return True

    async def get_incremental_output(self) -> str:
        return self.output()

    async def capture_pane(self, capture_entire: bool = False) -> str:
        return "a screen"

    async def send_keys(self, keys: str, block: bool = False, min_timeout_sec: float = 0.0) -> None:
        self.typed.append(keys)


def reply(number: int, complete: bool = False, parser: str = "json") -> str:
    if parser == "xml":
        end = "<task_complete>true</task_complete>\n" if complete else ""
        return (
            f"<response>\n<analysis>[A{number}] the query is not here.</analysis>\n<plan>[P{number}] read on.</plan>\n"
            f'<commands>\n<keystrokes duration="0.1">sed -n {number}p slow.log\n</keystrokes>\n</commands>\n'
            f"{end}</response>"
        )
    found: dict[str, Any] = {
        "analysis": f"[A{number}] the query is not here.",
        "plan": f"[P{number}] read on.",
        "commands": [{"keystrokes": f"sed -n {number}p slow.log\n", "duration": 0.1}],
    }
    return json.dumps(found | ({"task_complete": True} if complete else {}))


def steps(number: int, parser: str = "json", **more: Any) -> list[Step]:
    """So many replies, the last two of which end the task."""
    return [Step(reply(at, at > number - 2, parser), **more) for at in range(1, number + 1)]


def harbor(kind: Any, server: ModelServer, logs: Path, *, model: str = "openai/scripted", **options: Any) -> Any:
    logs.mkdir(parents=True, exist_ok=True)
    given: dict[str, Any] = {"record_terminal_session": False, "suppress_max_turns_warning": True, "max_turns": 80}
    agent = kind(logs_dir=logs, model_name=model, api_base=server.openai_url, **(given | options))
    agent._session = AsyncScreen()
    return agent


def run_harbor(agent: Any, instruction: str = TASK) -> Any:
    """The context after a run."""
    from harbor.models.agent.context import AgentContext

    context = AgentContext()
    asyncio.run(agent.run(instruction, None, context))
    return context


def terminal_bench(kind: Any, server: ModelServer, *, model: str = "openai/scripted", **options: Any) -> Any:
    return kind(model_name=model, api_base=server.openai_url, **({"max_episodes": 80} | options))


def conversation(server: ModelServer) -> list[dict[str, Any]]:
    """The whole conversation as it would be without compaction, from what was asked and answered: plain texts."""
    requests = server.answered
    whole = plain(requests[0].messages)
    for request, following in zip(requests, [*requests[1:], None], strict=True):
        whole.append({"role": "assistant", "content": request.step.text})
        if following is not None:
            whole.append(plain(following.messages)[-1])
    return whole


def plain(messages: Sequence[Any]) -> list[dict[str, Any]]:
    """Messages as roles and texts: a text and a list of one text are the same, markers do not count."""
    found = []
    for message in messages:
        content = message["content"]
        if not isinstance(content, str):
            content = "".join(part["text"] for part in content)
        found.append({"role": message["role"], "content": content})
    return found

"""A person in the session: human, confirm and yolo mode, words in mid-session, a real terminal."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import agents
import pytest
from minisweagent.agents import interactive
from minisweagent.agents.interactive import InteractiveAgent
from sessions import SUBMIT, TASK, everything, repository, texts, tool_calls

from cliff_core.block import OPENING
from kit import ModelServer, Step, checks

REJECTION = "no, leave the tests alone (words-1)"
INTERRUPTION = "look at module_3 first (words-2)"
NEW_TASK = "please also write a changelog (words-3)"
SMALL = {"threshold_tokens": 6_000}


class Person:
    """Answers the host's prompts: one function of the prompt's number, or an exception."""

    def __init__(self, answer: Callable[[int], str]) -> None:
        self.answer, self.asked = answer, 0

    def prompt(self, _: str = "") -> str:
        self.asked += 1
        return self.answer(self.asked)


@pytest.fixture
def person(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[int], str]], None]:
    """Puts someone before the keyboard."""

    def sit_down(answer: Callable[[int], str]) -> None:
        someone = Person(answer)
        if hasattr(interactive, "prompt_session"):
            monkeypatch.setattr(interactive, "prompt_session", someone)
        else:  # 2.0
            monkeypatch.setattr(interactive, "_prompt_session", someone)
            monkeypatch.setattr(interactive, "_multiline_prompt", someone.prompt)

    return sit_down


def scripts(name: str) -> list[Step]:
    """Until the submission; then the new task's; a reply without a legal form in each."""
    session = texts(22) if name in agents.TEXT else tool_calls(22)
    illegal = Step("I forgot the command.")
    return [*session[:7], illegal, *session[7:], *session[:12], illegal, *session[12:]]


@pytest.mark.parametrize("name", ["litellm", "litellm_textbased", "litellm_response", "openrouter_response"])
def test_words_stay_through_all_cliffs(name: str, tmp_path: Path, person: Any) -> None:
    def answer(number: int) -> str:
        if number == 4:
            return REJECTION
        if number == 7:
            raise KeyboardInterrupt
        if number == 8:
            return INTERRUPTION
        if number == 12:
            return "/y"
        return NEW_TASK if number == 13 else ""

    person(answer)
    with ModelServer(scripts(name)) as server:
        model = agents.make(name, server, cliff=SMALL)
        agent = agents.agent(model, repository(tmp_path / "repository"), InteractiveAgent, mode="confirm")
        assert agent.run(TASK)["exit_status"] == "Submitted"
    server.assert_finished()
    requests = server.requests
    cliffs = model.serialize()["info"]["cliff"]["cliffs"]
    assert len(cliffs) >= 3
    kinds = [(m.get("extra") or {}).get("interrupt_type") for m in agent.messages]
    assert [k for k in kinds if k] == ["UserRejection", "UserInterruption", "FormatError", "UserNewTask", "FormatError"]
    for words in (REJECTION, INTERRUPTION, NEW_TASK):
        seen = [words in everything(request.messages) for request in requests]
        first = seen.index(True)
        assert all(seen[first:]), words
        assert len([cliff for cliff in cliffs if cliff["cut"] > 0]) >= 3
    last = everything(requests[-1].messages)
    assert last.count("Tool call error") + last.count("Format error") <= 2  # a note: the newest only, and a live one
    for request in requests:
        checks.assert_paired(request)


def test_paper_has_words_in_their_own_window_only(tmp_path: Path, person: Any) -> None:
    person(lambda number: {3: REJECTION, 4: "/y"}.get(number, ""))
    with ModelServer(tool_calls(30)) as server:
        model = agents.make("litellm", server, cliff=SMALL | {"preset": "paper"})
        agent = agents.agent(
            model, repository(tmp_path / "repository"), InteractiveAgent, mode="confirm", confirm_exit=False
        )
        agent.run(TASK)
    cliffs = checks.cliffs_of(server.requests)
    seen = [REJECTION in everything(request.messages) for request in server.requests]
    assert all(seen[3 : cliffs[1] - 1])
    assert not any(seen[cliffs[1] - 1 :])


@pytest.mark.parametrize("name", ["litellm", "litellm_textbased", "litellm_response"])
def test_human_mode(name: str, tmp_path: Path, person: Any) -> None:
    """The person's own commands are steps: they are cut like the model's, and no cut parts one from its output."""
    own = [f"sed -n 1,40p module_{number}.py" for number in range(30, 42)]
    answers = [*own, "/y"]
    person(lambda number: answers[number - 1])
    with ModelServer(texts(8) if name in agents.TEXT else tool_calls(8)) as server:
        model = agents.make(name, server, cliff=SMALL | {"keep_turns": 3, "min_gain": 0.25})
        agent = agents.agent(
            model, repository(tmp_path / "repository"), InteractiveAgent, mode="human", confirm_exit=False
        )
        agent.run(TASK)
    server.assert_finished()
    first = everything(server.requests[0].messages)
    assert OPENING.strip() in first
    assert "<thought>User command:</thought>" in first
    assert f"<call>bash {own[0]}</call>" in first
    assert f"User command: \n```bash\n{own[-1]}\n```" in first  # the newest turns are live
    assert model.serialize()["info"]["cliff"]["cliffs"][0]["cut"] > 2
    commands = [a["command"] for m in agent.messages for a in (m.get("extra") or {}).get("actions", [])]
    assert commands[: len(own)] == own


class Terminal:
    """A program on a pseudo-terminal."""

    def __init__(self, argv: list[str], cwd: Path, env: dict[str, str]) -> None:
        self.ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            argv, stdin=theirs, stdout=theirs, stderr=theirs, cwd=cwd, env=env, start_new_session=True
        )
        os.close(theirs)
        self.text = ""

    def until(self, text: str, seconds: float = 90) -> None:
        """Reads until `text` is on the screen after what was read for it last."""
        end = time.monotonic() + seconds
        while text not in self.plain():
            assert time.monotonic() < end, f"no {text!r} in\n{self.plain()[-2000:]}"
            if select.select([self.ours], [], [], 0.2)[0]:
                try:
                    self.text += os.read(self.ours, 65536).decode(errors="replace")
                except OSError:  # the program is gone
                    assert text in self.plain(), f"it ended without {text!r}:\n{self.plain()[-2000:]}"
        self.text = self.text[-1:]

    def plain(self) -> str:
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.text)

    def type(self, text: str, enter: bytes = b"\r") -> None:
        time.sleep(0.2)  # the prompt is being set up
        os.write(self.ours, text.encode())
        time.sleep(0.2)
        os.write(self.ours, enter)


@pytest.fixture
def terminal() -> Iterator[Callable[..., Terminal]]:
    opened: list[Terminal] = []

    def start(*arguments: Any) -> Terminal:
        opened.append(Terminal(*arguments))
        return opened[-1]

    yield start
    for each in opened:
        if each.process.poll() is None:
            each.process.kill()
            each.process.wait()
        os.close(each.ours)


def test_mini_on_a_terminal(terminal: Any, tmp_path: Path, version: Any) -> None:
    """The console script itself: confirm, reject, interrupt at the end with a new task, then yolo and quit."""
    steps = [*tool_calls(14)[:-1], *tool_calls(0), *tool_calls(14)[:-1], *tool_calls(0)]
    with ModelServer(steps) as server:
        env = os.environ | server.env() | {"TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"}
        argv = [
            *(str(Path(sys.executable).parent / "mini"), "-m", "openai/scripted", "-t", TASK),
            *("-c", "mini.yaml", "-c", "model.model_class=cliff_mini_swe_agent.litellm"),
            *("-c", "model.cliff.threshold_tokens=6000", "-o", str(tmp_path / "o.json")),
        ]
        end = b"\r" if version > (2, 0, 0) else b"\x1b\r"  # 2.0 has a prompt of several lines there
        screen = terminal(argv, repository(tmp_path / "repository"), env)
        screen.until("cliff is on: threshold 6000 tokens")
        screen.until("Execute 1 action(s)?")
        screen.type("")
        screen.until("Execute 3 action(s)?")
        screen.type(REJECTION)
        screen.until("Execute 1 action(s)?")
        screen.type("/y")
        screen.until("cliff 1: ")
        screen.until("Agent wants to finish.")
        screen.type(NEW_TASK, end)
        screen.until("cliff 2: ")
        screen.until("Agent wants to finish.")
        screen.type("", end)
        screen.until("Saved trajectory")
        assert screen.process.wait(30) == 0
    server.assert_finished()
    text = everything(server.requests[-1].messages)
    assert REJECTION in text
    assert NEW_TASK in text
    trajectory = json.loads((tmp_path / "o.json").read_text())
    assert trajectory["info"]["exit_status"] == "Submitted"
    assert trajectory["messages"][-2]["extra"].get("exception_info", "") is not None
    assert SUBMIT in everything(trajectory["messages"])

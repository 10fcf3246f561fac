"""The `openhands` command: `cliff openhands enable`, headless runs, a saved settings screen, `disable`."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from work import FINISH, TASK, THRESHOLD, assert_condensed, assert_models_own, folder, steps

from kit import ModelServer, Step

STEPS = 28

SET_UP = """
import sys
from openhands_cli.stores import AgentStore
AgentStore().create_and_save_from_settings("test", {"llm_model": "openai/scripted", "llm_base_url": sys.argv[1]})
"""
"""What the command does when a person has chosen a model for the first time."""

SAVE = """
import sys
from openhands_cli.stores import AgentStore
from openhands_cli.tui.modals.settings.utils import SettingsFormData, save_settings
data = SettingsFormData(mode="advanced", custom_model="openai/scripted", base_url=sys.argv[1], timeout=77, max_size=100)
result = save_settings(data, AgentStore().load_from_disk())
assert result.success, result
"""
"""What its settings screen does."""


@dataclass
class Session:
    server: ModelServer
    outputs: list[str]
    settings: dict[str, bytes]
    """The settings file after each thing that was done."""
    conversation: Path


@pytest.fixture(scope="module")
def session(programs: Any, environment: Any, tmp_path_factory: pytest.TempPathFactory) -> Session:
    work = folder(tmp_path_factory.mktemp("command") / "work")
    file = Path(environment["OPENHANDS_PERSISTENCE_DIR"]) / "agent_settings.json"
    outputs, settings = [], {}
    more = [Step("Looking on.", calls=step.calls) for step in steps(work, 3)]
    server = ModelServer([*steps(work, STEPS, commands=True), FINISH, *more, FINISH, *more, FINISH]).start()

    def do(name: str, *argv: str, **env: str) -> str:
        run = programs(*argv, cwd=work, env=env)
        assert run.status == 0, run.output[-3000:]
        outputs.append(run.output)
        settings[name] = file.read_bytes()
        return run.output

    headless = ("openhands", "--headless", "--json", "--always-approve")
    do("set up", "-c", SET_UP, server.openai_url)
    do("enable", "cliff", "openhands", "enable", "--threshold", str(THRESHOLD))
    output = do("run", *headless, "-t", TASK)
    identity = re.findall(r"--resume (\S+)", output)[-1]
    do("disable", "cliff", "openhands", "disable")
    do("enable again", "cliff", "openhands", "enable", "--threshold", str(THRESHOLD))
    do("save", "-c", SAVE, server.openai_url)
    do("resume", *headless, "--resume", identity, "-t", "Now look at the writer, too. (marker-8)")
    do("disable again", "cliff", "openhands", "disable")
    do("resume without", *headless, "--resume", identity, "-t", "And the tests. (marker-9)")
    server.stop()
    conversation = Path(environment["OPENHANDS_PERSISTENCE_DIR"]) / "conversations" / identity.replace("-", "")
    return Session(server, outputs, settings, conversation)


def condenser(settings: bytes) -> Any:
    return json.loads(settings)["condenser"]


def test_a_headless_run(session: Session) -> None:
    assert_models_own(session.server, STEPS + 1 + 4 + 4)
    assert_condensed(session.server.requests[: STEPS + 1])


def test_a_session_that_is_resumed(session: Session) -> None:
    """After `disable` had mended it, with our condenser again."""
    assert_condensed(session.server.requests[: STEPS + 5])
    assert any("marker-8" in piece for piece in map(str, session.server.requests[STEPS + 1].messages))


def test_disable_leaves_every_byte(session: Session) -> None:
    assert session.settings["disable"] == session.settings["set up"]
    assert condenser(session.settings["set up"])["kind"] == "LLMSummarizingCondenser"


def test_the_setting_survives_a_save(session: Session) -> None:
    saved = condenser(session.settings["save"])
    assert session.settings["save"] != session.settings["enable again"]
    assert (saved["kind"], saved["threshold_tokens"]) == ("CliffCLICondenser", THRESHOLD)
    assert json.loads(session.settings["save"])["llm"]["timeout"] == 77


def test_what_was_saved_meanwhile_stays(session: Session) -> None:
    after = json.loads(session.settings["disable again"])
    assert after["condenser"]["kind"] == "LLMSummarizingCondenser"
    assert after["llm"]["timeout"] == 77


def test_without_us_the_conversation_loads(session: Session) -> None:
    """It was mended, so that our class is not needed any more."""
    assert "2 files" not in session.outputs[3]
    assert "1 file of conversations mended" in session.outputs[3]
    state = json.loads((session.conversation / "base_state.json").read_text())
    assert state["agent"]["condenser"]["kind"] == "LLMSummarizingCondenser"
    assert any("marker-9" in piece for piece in map(str, session.server.requests[-1].messages))


def test_the_record(session: Session) -> None:
    lines = [json.loads(line) for line in (session.conversation / "cliff.jsonl").read_text().splitlines()]
    assert len(lines) >= 3
    assert all(line["reason"] == "threshold" for line in lines)


def test_status_finds_the_hook(programs: Any, session: Session, tmp_path: Path) -> None:
    run = programs("cliff", "openhands", "status", "--json", cwd=tmp_path, env={})
    data = json.loads(run.output)
    assert [f for f in data["findings"] if f["level"] == "problem"] == []
    assert any(f["what"].startswith("openhands 1.16.0 is installed here") for f in data["findings"])

"""`cliff openhands enable|disable|status` on files as OpenHands writes them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cliff_openhands import settings
from cliff_openhands.commands import app
from cliff_openhands.spans import member, members

KEY = "sk-very-secret"
LLM = {"model": "openai/gpt-x", "api_key": KEY, "base_url": None, "usage_id": "agent", "extra": {"condenser": [1, {}]}}
SUMMARIZING = {"llm": {**LLM, "usage_id": "condenser"}, "max_size": 240, "kind": "LLMSummarizingCondenser"}


def agent(condenser: Any = SUMMARIZING) -> dict[str, Any]:
    return {"llm": LLM, "tools": [{"name": "terminal"}], "condenser": condenser, "kind": "Agent"}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the `openhands` command."""
    for name in list(os.environ):
        if name.startswith(("CLIFF_", "OPENHANDS_", "XDG_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    (tmp_path / ".openhands").mkdir()
    return tmp_path / ".openhands"


@pytest.fixture
def file(home: Path) -> Path:
    path = home / "agent_settings.json"
    path.write_text(json.dumps(agent()))
    path.chmod(0o640)
    return path


def run(*arguments: str, status: int = 0) -> str:
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == status, done.output
    assert KEY not in done.output
    return done.output


def condenser(path: Path) -> Any:
    return json.loads(path.read_text())["condenser"]


def state() -> Path:
    return settings.state_path()


WAYS = {
    "compact": lambda value: json.dumps(value, separators=(",", ":")),
    "indented": lambda value: json.dumps(value, indent=4) + "\n\n",
    "unicode": lambda value: json.dumps(value | {"name": "“naïve” \\ 家"}, ensure_ascii=False),
    "tabs": lambda value: json.dumps(value, indent="\t").replace("\n", "\r\n"),
}


@pytest.mark.parametrize("write", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("before", [SUMMARIZING, None, {"kind": "NoOpCondenser"}, "missing"], ids=str)
def test_enable_and_disable_leave_every_byte(home: Path, write: Any, before: Any) -> None:
    path = home / "agent_settings.json"
    value = agent(before)
    if before == "missing":
        del value["condenser"]
    path.write_bytes(write(value).encode())
    original = path.read_bytes()
    run("enable", "--threshold", "16000", "--no-pin-directives")
    ours = condenser(path)
    assert ours["kind"] == "CliffCLICondenser"
    assert (ours["threshold_tokens"], ours["pin_directives"]) == (16_000, False)
    assert ours["llm"] == LLM | {"usage_id": "condenser"}
    rest = json.loads(path.read_text())
    assert {k: v for k, v in rest.items() if k != "condenser"} == {
        k: v for k, v in json.loads(original).items() if k != "condenser"
    }
    run("disable")
    assert path.read_bytes() == original
    assert not state().exists()


def test_a_threshold_that_follows_the_session(file: Path) -> None:
    assert "is now cliff (threshold_tokens=auto)" in run("enable", "--threshold", "auto")
    assert condenser(file)["threshold_tokens"] == "auto"
    assert "CliffCLICondenser (threshold_tokens=auto)" in run("status")


def test_both_can_be_done_again(file: Path) -> None:
    original = file.read_bytes()
    assert "is now cliff (keep_turns=2)" in run("enable", "--keep-turns", "2")
    once = file.read_bytes()
    assert "is already cliff" in run("enable", "--keep-turns", "2")
    assert file.read_bytes() == once
    run("enable", "--keep-turns", "4")  # other options, the same backup
    assert condenser(file)["keep_turns"] == 4
    assert "the condenser is now LLMSummarizingCondenser" in run("disable")
    assert file.read_bytes() == original
    assert "there is nothing of ours" in run("disable")
    assert file.read_bytes() == original


def test_the_model_that_is_set_meanwhile_stays(file: Path) -> None:
    """The command's settings screen writes the whole file anew, its new model in the condenser, too."""
    run("enable")
    new = json.loads(file.read_text())
    new["llm"]["model"] = new["condenser"]["llm"]["model"] = "openai/other"
    file.write_text(json.dumps(new, indent=1))
    run("disable")
    assert json.loads(file.read_text())["llm"]["model"] == "openai/other"
    assert condenser(file) == SUMMARIZING | {"llm": LLM | {"usage_id": "condenser", "model": "openai/other"}}


def test_a_condenser_that_was_set_meanwhile_stays(file: Path) -> None:
    run("enable")
    file.write_text(json.dumps(agent({"kind": "NoOpCondenser"})))
    assert "there is nothing of ours" in run("disable")
    assert condenser(file) == {"kind": "NoOpCondenser"}
    assert not state().exists()


def test_ours_without_a_backup_becomes_the_default(file: Path) -> None:
    run("enable")
    state().unlink()
    run("disable")
    assert condenser(file) == {"kind": "LLMSummarizingCondenser", "llm": LLM | {"usage_id": "condenser"}}


def test_no_key_in_the_backup_and_no_new_permissions(file: Path) -> None:
    run("enable")
    assert KEY not in state().read_text()
    assert state().stat().st_mode & 0o777 == 0o600
    assert file.stat().st_mode & 0o777 == 0o640
    assert list(file.parent.iterdir()) == [file]


def test_a_link_stays_a_link(home: Path, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.json"
    real.write_text(json.dumps(agent()))
    (home / "agent_settings.json").symlink_to(real)
    run("enable")
    assert (home / "agent_settings.json").is_symlink()
    assert condenser(real)["kind"] == "CliffCLICondenser"


def test_another_folder(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENHANDS_PERSISTENCE_DIR", str(tmp_path / "other"))
    assert "start `openhands` once" in run("enable", status=2)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "agent_settings.json").write_text(json.dumps(agent()))
    run("enable")
    assert condenser(file) == SUMMARIZING
    assert condenser(tmp_path / "other" / "agent_settings.json")["kind"] == "CliffCLICondenser"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"llm": "x"}', "{}", "\ufffe"])
def test_a_file_that_cannot_be_read_is_left_alone(home: Path, text: str) -> None:
    path = home / "agent_settings.json"
    path.write_bytes(text.encode("utf-16") if text == "\ufffe" else text.encode())
    original = path.read_bytes()
    output = run("enable", status=2)
    assert "agent_settings.json" in output
    assert path.read_bytes() == original


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--threshold", "0"), "threshold_tokens must be a whole number of at least 1"),
        (("--threshold", "automatic"), """or "auto", not 'automatic'"""),
        (("--preset", "papre"), "did you mean 'paper'"),
        (("--treshold", "1"), "No such option"),
    ],
)
def test_mistakes_change_nothing(file: Path, arguments: tuple[str, ...], text: str) -> None:
    original = file.read_bytes()
    output = run("enable", *arguments, status=2)
    assert text in " ".join(output.replace("│", " ").split())
    assert file.read_bytes() == original


# --- stored conversations ---


def conversation(folder: Path, name: str, condenser: Any, extra: Any = None) -> Path:
    path = folder / name / "base_state.json"
    path.parent.mkdir(parents=True)
    state = {"id": name, "agent": agent(condenser), "stats": {"x": [1, 2]}, **(extra or {})}
    path.write_text(json.dumps(state, indent=2))
    return path


def test_disable_mends_conversations(file: Path, tmp_path: Path) -> None:
    folder = file.parent / "conversations"
    cli = conversation(folder, "one", {"kind": "CliffCLICondenser", "keep_turns": 2, "llm": LLM | {"usage_id": "c"}})
    plain = conversation(folder, "two", {"kind": "CliffCondenser", "threshold_tokens": 9_000})
    sub = conversation(folder / "two" / "subagents", "two-a", {"kind": "CliffCondenser"})
    other = conversation(folder, "three", SUMMARIZING, {"title": "about CliffCondenser"})
    server = conversation(tmp_path / "server", "four", {"kind": "CliffCondenser"})
    meta = server.with_name("meta.json")
    ours = agent({"kind": "CliffCondenser"})
    meta.write_text(json.dumps({"agent": ours, "hooks": [ours]}))
    untouched = other.read_bytes()
    broken = folder / "five" / "base_state.json"
    broken.parent.mkdir()
    broken.write_text('{"agent": {"condenser": {"kind": "CliffCondenser"')
    assert "3 files of conversations with our classes" in run("status")
    output = run("disable", "--conversations", str(tmp_path / "server"))
    assert "conversations: 3 files of conversations mended" in output
    assert "server: 2 files of conversations mended" in output
    state = json.loads(cli.read_text())
    assert state["agent"]["condenser"] == {"kind": "LLMSummarizingCondenser", "llm": LLM | {"usage_id": "c"}}
    assert state["stats"] == {"x": [1, 2]}
    default = {"kind": "LLMSummarizingCondenser", "llm": LLM | {"usage_id": "condenser"}}
    assert json.loads(plain.read_text())["agent"]["condenser"] == default
    assert json.loads(sub.read_text())["agent"]["condenser"] == default
    assert json.loads(meta.read_text())["agent"]["condenser"] == default
    assert json.loads(meta.read_text())["hooks"][0]["condenser"] == default
    assert other.read_bytes() == untouched
    assert "0 files of conversations mended" in run("disable")


def test_a_pipeline_is_mended(file: Path) -> None:
    """Ours may be one of several in an agent, and agents of several in a conversation."""
    pipeline = {"kind": "PipelineCondenser", "condensers": [{"kind": "NoOpCondenser"}, {"kind": "CliffCondenser"}]}
    other = {**agent(), "llm": LLM | {"model": "openai/other"}}
    path = conversation(file.parent / "conversations", "one", pipeline, {"agents": [other, agent(pipeline)]})
    assert "1 file of conversations with our classes" in run("status")
    assert "1 file of conversations mended" in run("disable")
    state = json.loads(path.read_text())
    default = {"kind": "LLMSummarizingCondenser", "llm": LLM | {"usage_id": "condenser"}}
    assert state["agent"]["condenser"]["condensers"] == [{"kind": "NoOpCondenser"}, default]
    assert state["agents"] == [other, agent({**pipeline, "condensers": [{"kind": "NoOpCondenser"}, default]})]


# --- an environment file ---


@pytest.mark.parametrize("before", ["", "A=1\n", "A=1", "A=1\n\n", "OH_APP_CONVERSATION_KIND=other\n# end"])
def test_an_environment_file(tmp_path: Path, home: Path, before: str) -> None:
    path = tmp_path / "server.env"
    if before:
        path.write_text(before)
    run("enable", "--server", str(path), "--threshold", "12000", "--no-pin-directives", "--min-gain", "0.3")
    once = path.read_text()
    assert once.startswith(before)
    lines = [line for line in once.removeprefix(before).splitlines() if line and not line.startswith("#")]
    assert lines == [
        f"OH_APP_CONVERSATION_KIND={settings.INJECTOR}",
        "OH_APP_CONVERSATION_CLIFF_THRESHOLD_TOKENS=12000",
        "OH_APP_CONVERSATION_CLIFF_MIN_GAIN=0.3",
        "OH_APP_CONVERSATION_CLIFF_PIN_DIRECTIVES=false",
    ]
    run("enable", "--server", str(path), "--threshold", "12000", "--no-pin-directives", "--min-gain", "0.3")
    assert path.read_text() == once
    assert "server.env: cliff (threshold_tokens=12000, min_gain=0.3, pin_directives=false)" in run(
        "status", "--server", str(path)
    )
    run("enable", "--server", str(path))
    assert path.read_text().count("OH_APP_CONVERSATION_CLIFF") == 0
    assert json.loads(run("status", "--server", str(path), "--json"))["server"]["options"] == {}
    assert "our lines are out" in run("disable", "--server", str(path))
    assert (path.read_text() if path.exists() else "") == before
    assert "there is nothing of ours" in run("disable", "--server", str(path))
    assert "server.env: there is nothing of ours" in run("status", "--server", str(path))


def test_a_folder_is_not_made_for_it(tmp_path: Path, home: Path) -> None:
    """A path that is mistyped is told, and not made."""
    output = run("enable", "--server", str(tmp_path / "missing" / "server.env"), status=2)
    assert f"there is no folder {tmp_path / 'missing'}" in " ".join(output.split())
    assert not (tmp_path / "missing").exists()


# --- status and doctor ---


def test_status(file: Path) -> None:
    data = json.loads(run("status", "--json"))
    assert (data["condenser"], data["enabled"]) == ("LLMSummarizingCondenser", False)
    run("enable", "--threshold", "9000")
    data = json.loads(run("status", "--json"))
    assert (data["condenser"], data["enabled"]) == ("CliffCLICondenser", True)
    assert data["options"] == {"threshold_tokens": 9_000}
    assert "CliffCLICondenser (threshold_tokens=9000)" in run("status")


def findings(level: str) -> list[str]:
    data = json.loads(CliRunner().invoke(app, ["status", "--json"]).stdout)
    return [finding["what"] for finding in data["findings"] if finding["level"] == level]


def test_what_may_be_wrong(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert findings("problem") == findings("warning") == []
    file.write_text(json.dumps(agent({"kind": "CliffCondenser", "threshold_tokens": 0})))
    assert "which the `openhands` command drops" in findings("warning")[0]
    (problem,) = findings("problem")
    assert "threshold_tokens must be" in problem
    file.write_text(json.dumps(agent()))
    elsewhere = tmp_path / "tool"
    (elsewhere / "bin").mkdir(parents=True)
    (elsewhere / "bin" / "openhands").write_text("#!/bin/sh\n")
    (elsewhere / "bin" / "openhands").chmod(0o755)
    monkeypatch.setenv("PATH", f"{elsewhere / 'bin'}:/usr/bin:/bin")
    (warning,) = findings("warning")
    assert f"without cliff-openhands: {elsewhere}" in warning
    assert "is in another environment" in run("enable")
    (problem,) = findings("problem")
    assert "is in another environment" in problem
    (elsewhere / "lib" / "python3.12" / "site-packages").mkdir(parents=True)
    (elsewhere / "lib" / "python3.12" / "site-packages" / "cliff_openhands.pth").write_text("")
    assert findings("problem") == findings("warning") == []
    monkeypatch.setenv("CLIFF_OPENHANDS_HOOK", "0")
    (problem,) = findings("problem")
    assert "the import hook is off" in problem
    run("status", status=1)


def test_it_never_imports_openhands(file: Path) -> None:
    code = (
        "import sys; from cliff_core.cli import main; sys.argv = ['cliff', 'openhands', 'status']\n"
        "try:\n main()\nfinally:\n print([m for m in sys.modules if m.split('.')[0] in ('openhands', 'litellm')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == "[]"
    assert "agent_settings.json" in done.stdout


# --- places in a JSON text ---


def test_members_are_where_they_are_said_to_be() -> None:
    text = ' { "a" : {"b":[1, {"c" : "}" }], "d":{} },\n"e":null , "a": "\\"," } '
    found = list(members(text))
    inner = [("a", "b"), ("a", "b", "0"), ("a", "b", "1"), ("a", "b", "1", "c"), ("a", "d")]
    assert [f.path for f in found] == [("a",), *inner, ("e",), ("a",)]
    for one in found:
        assert json.loads(text[one.start : one.end]) == one.value
    last = member(text, "a")
    assert last is not None
    assert last.value == '",'
    assert member(text, "x") is None

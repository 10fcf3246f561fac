"""Claude Code, headless: 27 steps over two prompts; parallel calls, errors, a file, deferred tools, a sub-agent."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from client_checks import assert_held, assert_present
from client_runs import Home, texts

from kit import CacheRules, Call, ModelServer, Request, Step

FIRST = "Find out why the parser drops the last line of a file, and write down what you find. (first-prompt-17)"
SECOND = "Now look for the same mistake in the modules from 13 on, and change nothing else. (second-prompt-23)"
THRESHOLD = 24_000
AGENT = "x-claude-code-agent-id"


def read(work: Path, number: int) -> Call:
    return Call("Read", {"file_path": str(work / f"module_{number}.py")})


def steps(work: Path) -> Iterator[Step]:
    """Of the main agent."""
    yield Step("Looking for tools.", calls=[Call("ToolSearch", {"query": "select:WebFetch,NotebookEdit"})])
    task = {"description": "count modules", "prompt": "Count the modules, look into two.", "run_in_background": False}
    yield Step(calls=[Call("Agent", task | {"subagent_type": "general-purpose"})])
    for at in range(2, 26):
        if at == 13:
            yield Step("The first part is done.")
            continue
        calls = [read(work, at)]
        if at % 4 == 3:
            calls += [Call("Bash", {"command": f"wc -l module_{at}.py"}), Call("Bash", {"command": "cat missing.py"})]
        if at == 6:
            content = "# Notes\n" + "- the loop ends before the last line\n" * 40
            calls.append(Call("Write", {"file_path": str(work / "notes.md"), "content": content}))
        yield Step(f"Step {at}: module_{at} may hold the loop.", thought=f"Thinking of {at}. " * 3, calls=calls)
    yield Step("The second part is done.")


class Script:
    """The main agent's steps in order; each sub-agent has its own."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.main = steps(work)

    def __call__(self, request: Request) -> Step:
        if request.header(AGENT) is None:
            return next(self.main)
        if request.turns < 3:
            return Step(calls=[read(self.work, 40 + request.turns), read(self.work, 50 + request.turns)])
        return Step("There are 60 modules. (agent-report-31)")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    folder = tmp_path_factory.mktemp("claude")
    with ModelServer(Script(folder / "work"), cache=CacheRules(minimum=1024, breakpoints=True)) as server:
        env = {
            "ANTHROPIC_BASE_URL": server.url,
            "ANTHROPIC_API_KEY": "dummy",
            "IS_SANDBOX": "1",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_AUTOUPDATER": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        }
        home = Home(folder, server, env, ("--threshold", str(THRESHOLD)))
        common = ("claude", "-p", "--dangerously-skip-permissions", "--output-format", "json")
        home.run(*common, FIRST)
        home.run(*common, "--continue", SECOND)
        yield home


@pytest.fixture(scope="module")
def main(home: Home) -> list[Request]:
    """The requests of the main agent, as the upstream got them."""
    return [request for request in home.server.requests if request.header(AGENT) is None]


def test_the_session_was_played(home: Home, main: list[Request]) -> None:
    assert [run.status for run in home.runs] == [0, 0], home.runs
    assert not home.server.problems
    assert all(request.answered for request in home.server.requests)
    assert len(main) == 27
    results = [json.loads(run.out)["result"] for run in home.runs]
    assert results == ["The first part is done.", "The second part is done."]
    assert (home.work / "notes.md").read_text().startswith("# Notes")


def test_paired_and_append_only(main: list[Request]) -> None:
    assert_held(main)


def test_requests_stay_under_the_threshold(main: list[Request]) -> None:
    assert max(request.usage.input for request in main if request.usage) <= 1.05 * THRESHOLD


@pytest.mark.parametrize("text", [FIRST, SECOND, "# Environment\nYou have been invoked", "Available agent types"])
def test_what_people_and_the_client_said_stays(main: list[Request], text: str) -> None:
    assert_present(main, text)


def test_the_working_folder_stays(home: Home, main: list[Request]) -> None:
    assert_present(main, f"Primary working directory: {home.work}")


def test_tool_references_stay(main: list[Request]) -> None:
    for request in main[1:]:
        found = [part["tool_name"] for part in references(request.messages)]
        assert found == ["WebFetch", "NotebookEdit"], request.number
        assert {"WebFetch", "NotebookEdit"} <= {tool["name"] for tool in request.tools}


def references(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        if value.get("type") == "tool_reference":
            yield value
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            yield from references(part)


def test_a_file_that_was_written_is_named_in_the_block(home: Home, main: list[Request]) -> None:
    writes = [place for place, request in enumerate(main) if "the loop ends before" in texts(request.messages)]
    after = main[writes[-1] + 1]  # the write was cut away: its content is gone, its path is not
    assert str(home.work / "notes.md") in texts(after.messages)


def test_the_sub_agent_has_a_session_of_its_own(home: Home, main: list[Request]) -> None:
    agents = [request for request in home.server.requests if request.header(AGENT)]
    assert len(agents) == 4
    for request in agents:
        assert FIRST not in texts(request.messages)
    reports = [request for request in main if "agent-report-31" in texts(request.messages)]
    assert reports
    assert "_50_139(" in texts([request.messages for request in agents])  # what only the sub-agent read
    assert "_50_139(" not in texts([request.messages for request in main])


def test_every_request_went_through_the_proxy(home: Home) -> None:
    recorded = [line for file in home.records.glob("*.jsonl") for line in file.read_text().splitlines()]
    assert len(recorded) == len(home.server.requests)
    assert home.records.stat().st_mode & 0o777 == 0o700
    # A file is a session: one of the main agent, though its tools change at the first step and each run has a proxy.
    assert len([file for file in home.records.glob("*.jsonl") if "_" not in file.stem]) == 1
    for run in home.runs:
        assert re.search(r"^cliff: \d+ requests, \d+ cliffs?, ", run.err, re.MULTILINE)


def test_what_was_dropped_can_be_shown(home: Home) -> None:
    longest = max(home.records.glob("*.jsonl"), key=lambda file: len(file.read_text().splitlines()))
    name = longest.stem.rsplit(".", 1)[-1]
    listed = home.cliff("show", name, "--record", str(home.records))
    assert listed.status == 0, listed.err
    [line] = [line for line in listed.out.splitlines() if "module_4.py" in line]
    shown = home.cliff("show", name, "--record", str(home.records), "--turn", line.split()[0])
    assert "_4_139(" in shown.out  # the last line of that module

"""`python -m openhands.core.main` with its real runtime: by `[condenser]` and the hook, by `classpath` without it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from runs import FINISH, OPENING, TASK, Session, folder, script

from kit import ModelServer, checks

STEPS = 30
THRESHOLD = 16_000

ROUTES = {
    "hook": {"config": f'[condenser]\ntype = "cliff"\nthreshold_tokens = {THRESHOLD}\n'},
    "classpath": {
        "core": 'default_agent = "CliffAgent"\n',
        "config": '[agent.CliffAgent]\nclasspath = "cliff_openhands.v0.CliffCodeActAgent"\n'
        f'[agent.CliffAgent.condenser]\ntype = "cliff"\nthreshold_tokens = {THRESHOLD}\n',
    },
}


@dataclass
class Ran:
    session: Session
    first: int
    """Requests before the program was started again."""
    output: str


@pytest.fixture(scope="module")
def runs(programs: Any, without_hook: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Both routes side by side; each session is ended and gone on with."""
    started = {}
    for route, settings in ROUTES.items():
        base = tmp_path_factory.mktemp(route)
        work = folder(base / "work")
        server = ModelServer([*script(STEPS, work), FINISH, *script(6, work, STEPS), FINISH]).start()
        session = Session(base, settings["config"], server)
        session.write(core=settings.get("core", ""))
        line = programs if route == "hook" else without_hook
        started[route] = (session, line, line.start(*session.arguments(), cwd=base, env={}))
    found = {}
    for route, (session, line, number) in started.items():
        run = line.wait(number)
        assert run.status == 0, run.output[-3000:]
        first = len(session.server.requests)
        again = line(*session.arguments("Now look at the writer, too. (marker-8)"), cwd=session.base, env={})
        assert again.status == 0, again.output[-3000:]
        session.server.assert_finished()
        session.server.stop()
        found[route] = Ran(session, first, run.output + again.output)
    return found


@pytest.fixture(params=ROUTES)
def ran(request: pytest.FixtureRequest, runs: Any) -> Ran:
    return runs[request.param]


def texts(request: Any) -> list[str]:
    """Its messages, each as text."""
    return [json.dumps(message, ensure_ascii=False) for message in request.messages]


def test_between_cliffs_requests_only_grow(ran: Ran) -> None:
    requests = ran.session.server.requests
    assert ran.first == STEPS + 1
    assert len(requests) == STEPS + 1 + 7  # none but the agent's own
    cliffs = checks.cliffs_of(requests)
    assert len(cliffs) >= 3
    checks.assert_append_only(requests, cliffs)


def test_a_session_that_is_gone_on_with_only_grows(ran: Ran) -> None:
    requests = ran.session.server.requests
    # (To finish is a call without a result, which the host sends as text from the next request on.)
    before, after = checks.stream(requests[ran.first - 1]), checks.stream(requests[ran.first])
    assert after[: len(before)] == before
    assert "marker-8" in "".join(after)


def test_head_and_task_are_verbatim(ran: Ran) -> None:
    requests = ran.session.server.requests
    for request in requests:
        assert request.messages[:2] == requests[0].messages[:2]
        assert request.body["tools"] == requests[0].body["tools"]
        checks.assert_paired(request)
    assert TASK in texts(requests[0])[1]


def test_one_block_and_nothing_of_earlier_ones(ran: Ran) -> None:
    requests = ran.session.server.requests
    cliffs = [0, *(n - 1 for n in checks.cliffs_of(requests)), len(requests)]
    seen: set[str] = set()
    for start, end in pairwise(cliffs):
        turns: set[str] = set()
        for request in requests[start:end]:
            blocks = [text for text in texts(request) if OPENING in text]
            assert len(blocks) == (1 if start else 0)
            turns |= set(re.findall(r"<turn (\d+)>", "".join(blocks)))
        assert not turns & seen
        assert bool(turns) == bool(start)
        seen |= turns


def test_kept_turns_are_verbatim(ran: Ran) -> None:
    requests = ran.session.server.requests
    for at in checks.cliffs_of(requests):
        # A person's message keeps its place before or between the turns, so that it may come to stand before them.
        before, after = ([t for t in texts(requests[n]) if "marker-8" not in t] for n in (at - 2, at - 1))
        block = next(n for n, text in enumerate(after) if OPENING in text)
        live = after[block + 1 :]
        # All but the newest turn were in the request before.
        newest = next(n for n in range(len(live) - 1, -1, -1) if '"assistant"' in live[n])
        assert newest >= 2
        assert before[-newest:] == live[:newest]


def test_requests_stay_under_the_threshold(ran: Ran) -> None:
    # The server's count is a quarter of the characters: requests follow what it reports, not our own estimate.
    assert max(request.usage.input for request in ran.session.server.requests) <= 1.1 * THRESHOLD


def test_a_later_message_stays_visible(ran: Ran) -> None:
    for request in ran.session.server.requests[ran.first :]:
        assert sum("marker-8" in text for text in texts(request)) == 1


def test_the_record(ran: Ran) -> None:
    actions = [event for event in ran.session.events if event.get("action") == "condensation"]
    cliffs = checks.cliffs_of(ran.session.server.requests)
    assert len(actions) == len(cliffs)
    line = r"cliff (\d+): (\d+) -> (\d+) tokens, (\d) live turns, threshold 16000 \(threshold\)"
    lines = re.findall(line, ran.output)
    assert [int(line[0]) for line in lines] == list(range(1, len(cliffs) + 1))
    for _, before, after, live in lines:
        assert int(after) <= 0.75 * THRESHOLD < THRESHOLD < int(before)
        assert 1 <= int(live) <= 3
    assert "cliff is on: threshold 16000 tokens" in ran.output
    for action in actions:
        assert action["args"]["summary"].startswith(OPENING)


def test_errors_are_marked_in_the_block(ran: Ran) -> None:
    shown = "".join(text for request in ran.session.server.requests for text in texts(request) if OPENING in text)
    # (What the command printed may be lost: see `runs.script`.)
    assert re.search(r"cat missing_\d+\.py</call>\\n<result error=\\\"true\\\">[^<]*exit code 1", shown)


MISTAKES = {
    "condenser": '[condenser]\ntype = "cliff"\ntreshold_tokens = 9000\n',
    "agent": '[agent.CodeActAgent.condenser]\ntype = "cliff"\ntreshold_tokens = 9000\n',
    "classpath": '[agent.CliffAgent]\nclasspath = "cliff_openhands.v0.CliffCodeActAgent"\n'
    '[agent.CliffAgent.condenser]\ntype = "cliff"\ntreshold_tokens = 9000\n',
}


@pytest.mark.parametrize("place", MISTAKES)
def test_a_mistaken_option_is_an_error(place: str, programs: Any, without_hook: Any, tmp_path: Path) -> None:
    with ModelServer() as server:
        session = Session(tmp_path, MISTAKES[place], server)
        session.write(core='default_agent = "CliffAgent"\n' if place == "classpath" else "")
        line = without_hook if place == "classpath" else programs
        run = line(*session.arguments(), cwd=tmp_path, env={})
        assert server.requests == []
    assert run.status == 1
    last = run.output.strip().splitlines()[-1]
    assert "unknown option 'treshold_tokens'; did you mean threshold_tokens?" in last
    assert last.startswith("error: [")


def test_a_mistaken_value_is_an_error(programs: Any, tmp_path: Path) -> None:
    with ModelServer() as server:
        session = Session(tmp_path, '[condenser]\ntype = "cliff"\n', server)
        session.write()
        run = programs(*session.arguments(), cwd=tmp_path, env={"CLIFF_KEEP_TURNS": "none"})
    assert run.status == 1
    assert "CLIFF_KEEP_TURNS: keep_turns must be a whole number" in run.output.strip().splitlines()[-1]


@pytest.mark.parametrize("condenser", ['type = "recent"\nmax_events = 6', 'type = "cluff"'], ids=["recent", "unknown"])
def test_other_types_are_the_hosts(condenser: str, programs: Any, without_hook: Any, tmp_path: Path) -> None:
    """The same requests with the hook and without it (but for what commands print: see `runs.script`)."""
    shapes = []
    for name, line in {"hook": programs, "stock": without_hook}.items():
        with ModelServer([*script(5, Path("/nowhere")), FINISH]) as server:
            session = Session(tmp_path / name, f"[condenser]\n{condenser}\n", server)
            folder(session.work, files=8)
            session.write()
            run = line(*session.arguments(), cwd=tmp_path / name, env={})
            assert run.status == 0, run.output[-3000:]
            server.assert_finished()
        shapes.append([[(m["role"], m.get("tool_calls")) for m in request.messages] for request in server.requests])
    assert shapes[0] == shapes[1]
    assert ("cluff" in condenser) == ("Unknown condenser type: cluff" in run.output)


@pytest.mark.parametrize("limit", [11_000, 3_000], ids=["possible", "hopeless"])
def test_a_rejected_request(limit: int, programs: Any, tmp_path: Path) -> None:
    """One forced cliff; where nothing is left to drop, an error and no loop."""
    work = folder(tmp_path / "work")
    with ModelServer([*script(24, work), FINISH], context_limit=limit) as server:
        session = Session(tmp_path, '[condenser]\ntype = "cliff"\nthreshold_tokens = 60_000\n', server)
        session.write()
        run = programs(*session.arguments(), cwd=tmp_path, env={})
    rejected = [request for request in server.requests if request.rejected]
    if limit == 3_000:
        assert 1 <= len(rejected) <= 3
        assert not server.answered
        assert "nothing is left to drop" in run.output
        return
    assert len(server.answered) == 25, run.output[-3000:]
    assert 1 <= len(rejected) <= len(server.answered) // 3  # the host does not say what the limit is
    assert "(forced)" in run.output
    for one, two in pairwise(server.requests):
        assert not (one.rejected and two.rejected)
        if one.rejected:
            assert two.usage.input <= 0.85 * limit  # (a token is counted as four characters there)
    checks.assert_append_only(server.answered, checks.cliffs_of(server.answered))

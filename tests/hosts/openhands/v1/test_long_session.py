"""A session of 40 steps with parallel calls, closed and opened again on its way, beside the rules that must hold."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any

import pytest
from conversations import MARK, TASK, Session, agent, everything, finish, llm, work

from cliff_openhands import CliffCLICondenser, CliffCondenser
from cliff_openhands.host import View
from kit import ModelServer, checks

STEPS = 40
THRESHOLD = 14_000
LATER = "Now look at the other half of the modules as well, and keep every public name. (later-marker-8)"


@pytest.fixture(scope="module", params=["CliffCondenser", "CliffCLICondenser"])
def session(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("session")
    steps = [*work(folder / "repository", 0, 26), finish(), *work(folder / "repository", 26, STEPS), finish()]
    with ModelServer(steps) as server:

        def make() -> Any:
            if request.param == "CliffCondenser":
                return agent(llm(server), CliffCondenser(threshold_tokens=THRESHOLD))
            summarizer = llm(server).model_copy(update={"usage_id": "condenser"})
            return agent(llm(server), CliffCLICondenser(llm=summarizer, threshold_tokens=THRESHOLD))

        session = Session(folder, make)
        session.server = server
        session.calls = sum(len(step.calls) for step in steps)
        session.say(TASK)
        session.first = len(server.requests)
        session.close()
        session.open()
        session.say(LATER)
        yield session
        session.close()


def test_every_request_is_the_agents(session: Any) -> None:
    assert len(session.server.requests) == STEPS + 2
    assert session.first == 27
    session.server.assert_finished()
    assert not session.server.other


def test_between_condensations_requests_only_grow(session: Any) -> None:
    requests = session.server.requests
    cliffs = checks.cliffs_of(requests)
    assert len(cliffs) == len(session.condensations()) >= 3
    assert sum(at <= session.first for at in cliffs) >= 2
    assert session.first + 1 not in cliffs  # the conversation was closed and opened before that one
    checks.assert_append_only(requests, cliffs)


def test_calls_are_paired(session: Any) -> None:
    for request in session.server.requests:
        checks.assert_paired(request)


def test_the_system_prompt_tools_and_task_keep_their_bytes(session: Any) -> None:
    first, *rest = session.server.requests
    for request in rest:
        assert request.messages[0] == first.messages[0]
        assert request.body["tools"] == first.body["tools"]
        # From 1.34 on the SDK sends the block as a second part of the user's message.
        assert checks.stream(request)[: len(checks.stream(first))] == checks.stream(first)
    assert TASK in everything(first.messages[1])


def test_one_block_and_nothing_of_the_one_before(session: Any) -> None:
    requests = session.server.requests
    bounds = [0, *(at - 1 for at in checks.cliffs_of(requests)), len(requests)]
    seen: set[str] = set()
    for number, (start, end) in enumerate(pairwise(bounds)):
        of_this: set[str] = set()
        for request in requests[start:end]:
            text = everything(request.messages)
            assert text.count(MARK) == (1 if number else 0)
            turns = set(re.findall(r"^<turn (\d+)>$", text, re.MULTILINE))
            assert not turns & seen
            of_this |= turns
        assert bool(of_this) == bool(number)
        seen |= of_this
    # Turns count on through the session.
    assert sorted(map(int, seen)) == list(range(1, len(seen) + 1))


def test_later_messages_of_the_user_stay(session: Any) -> None:
    for request in session.server.requests[session.first :]:
        assert everything(request.messages).count("(later-marker-8)") == 1
        assert everything(request.messages).count("(task-marker-7)") == 1


def test_live_turns_are_verbatim(session: Any) -> None:
    requests = session.server.requests
    for at, record in zip(checks.cliffs_of(requests), session.records, strict=True):
        before, after = (checks.stream(requests[n]) for n in (at - 2, at - 1))
        calls = [i for i, m in enumerate(requests[at - 1].messages) if m["role"] == "assistant"]
        assert len(calls) == record["live_turns"] == 2
        # All that both have at the end: a turn whole, and the call of the newest.
        live = checks.stream({**requests[at - 1].body, "tools": [], "messages": requests[at - 1].messages[calls[0] :]})
        assert after[-len(live) :] == live
        same = next(n for n in range(len(before)) if before[n:] == live[: len(before) - n])
        assert 0 < len(before) - same < len(live)


def test_requests_stay_under_the_threshold(session: Any) -> None:
    # The server counts a token for four characters, and reports it: requests follow that count, not ours.
    assert max(request.usage.input for request in session.server.requests) <= 1.15 * THRESHOLD


def test_the_reloaded_view_is_the_live_one(session: Any) -> None:
    events = session.events
    live = View()
    for event in events:
        live.append_event(event)
    assert [e.id for e in live.events] == [e.id for e in View.from_events(events).events]
    cached = getattr(session.conversation.state, "view", None)
    assert cached is None or [e.id for e in cached.events] == [e.id for e in live.events]


def test_a_condensation_has_the_hosts_fields_alone(session: Any) -> None:
    from cliff_openhands.host import Condensation

    files = [path for path in sorted((session.kept / "events").iterdir()) if "Condensation" in path.read_text()]
    stored = [json.loads(path.read_text()) for path in files]
    stored = [event for event in stored if event["kind"] == "Condensation"]
    assert len(stored) == len(session.condensations())
    for event in stored:
        assert set(event) <= {*Condensation.model_fields, "kind"}
        assert event["summary"].startswith(MARK)
        assert event["summary_offset"] == 2


def test_each_cliff_is_recorded_beside_the_events(session: Any) -> None:
    condensations = session.condensations()
    assert [record["condensation"] for record in session.records] == [event.id for event in condensations]
    ids = {event.id for event in session.events}
    for record, event in zip(session.records, condensations, strict=True):
        assert record["reason"] == "threshold"
        assert record["tokens_after"] <= 0.75 * record["threshold"] < record["tokens_before"]
        assert record["cut"] in ids
        assert record["dropped"]["turns"] > 0
        assert record["dropped"]["events"] == len(event.forgotten_event_ids)
    assert "task-marker" not in (session.kept / "cliff.jsonl").read_text()


def test_names_are_carried_on(session: Any) -> None:
    """Paths of the turns before the last cut, then those of the index before, as far as there is room."""
    indices = [re.search(r"<names>\n(.*?)\n</names>", e.summary, re.DOTALL) for e in session.condensations()]
    paths = [index.group(1).split("\n") if index else [] for index in indices]
    for before, now in pairwise(paths):
        assert len(now) == len(set(now))
        carried = [path for path in before if path in now]
        assert carried == now[-len(carried) :]
        assert carried == before[: len(carried)]
    assert str(session.repository / "module_0.py") in paths[1]


def test_the_stored_state_names_the_options_that_were_set(session: Any) -> None:
    state = json.loads((session.kept / "base_state.json").read_text())
    stored = state["agent"]["condenser"]
    assert stored["kind"] == type(session.conversation.agent.condenser).__name__
    assert stored["threshold_tokens"] == THRESHOLD
    assert stored.get("keep_turns") is None


def test_nobody_rewrote_the_events(session: Any) -> None:
    """Everything is still in the conversation's own log, each output whole."""
    kinds = [type(event).__name__ for event in session.events]
    assert kinds.count("ActionEvent") == kinds.count("ObservationEvent") == session.calls
    texts = everything([event.model_dump(mode="json") for event in session.events])
    for number in range(STEPS):
        assert f"_{number}_40(" in texts or number % 10 == 5  # line 41 of the module, but of those that are missing

"""Over generated histories: what a condensation must never do, and that a reload sees what the agent saw."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from histories import Ids, Play, Told, histories, told_events
from hypothesis import given, settings
from hypothesis import strategies as st

from cliff_openhands import CliffCondenser
from cliff_openhands.events import head_size, is_block, is_waiting, stays
from cliff_openhands.host import ActionEvent, View, enforced

presets = st.sampled_from([{}, {"preset": "paper"}, {"keep_turns": 1}, {"min_gain": 0.5, "path_index_chars": 200}])


@settings(max_examples=150)
@given(history=histories, options=presets)
def test_a_history(history: list[Told], options: dict[str, Any]) -> None:
    ids = Ids()
    play = Play(CliffCondenser(threshold_tokens=2_000, **options))
    play.begin(ids)
    for told in history:
        group = list(told_events(told, ids))
        # The agent asks before each of its steps, and not while calls wait for their results.
        if told.kind in ("step", "answer") or play.view.unhandled_condensation_request:
            step(play)
            if play.ended:
                return
        for event in group:
            play.add(event)
    step(play)


def step(play: Play) -> None:
    # Before the next step the SDK sees to it that each call of the last one has an answer.
    if is_waiting(play.view.events):
        before = play.view.events
        try:
            assert play.condenser.condense(play.view) is play.view
        except Exception:  # it was asked to
            assert play.view.unhandled_condensation_request
            play.ended = True
        assert play.view.events == before
        return
    for before, condensation in play.ask():
        forced = play.view.unhandled_condensation_request
        asked = list(play.reloaded().events)
        play.add(condensation)
        check(play, before, asked, condensation, forced)
    if play.ended:
        assert play.view.unhandled_condensation_request
        assert not [e for e in play.view.events[head_size(play.view.events) :] if not stays(e)]


def check(play: Play, before: list[Any], asked: list[Any], condensation: Any, forced: bool) -> None:
    after = play.view.events
    names = [event.id for event in after]
    # What a reload sees: the same events, none twice.
    assert [event.id for event in play.reloaded().events] == names
    assert len(names) == len(set(names))
    assert enforced(after) == after
    # It forgets something, and only what was there.
    gone = set(condensation.forgotten_event_ids)
    assert gone
    assert gone <= {event.id for event in before}
    # The head, all that people said and all system prompts are there, in their order.
    sound = enforced(before)
    head = head_size(sound)
    assert after[:head] == sound[:head]
    assert [e for e in after if stays(e)] == [e for e in before if stays(e)]
    # One block, after the head; none after the last resort. The rest is the end of what was there.
    blocks = [event for event in after if is_block(event)]
    if condensation.summary is None:
        assert forced
        assert not blocks
    else:
        assert after[head] is blocks[0]
        assert len(blocks) == 1
    live = [event for event in after[head:] if not stays(event) and not is_block(event)]
    kept = [event for event in sound[head:] if not stays(event) and not is_block(event)]
    assert live == kept[len(kept) - len(live) :]
    # Responses are whole or gone.
    responses = Counter(e.llm_response_id for e in sound if isinstance(e, ActionEvent))
    for response, number in Counter(e.llm_response_id for e in live if isinstance(e, ActionEvent)).items():
        assert responses[response] == number
    # A conversation that was loaded anew decides the same. (Where a call in a loop with thinking has no result, or two,
    # a reload drops all of that loop; how far it went, the events in a view do not always tell.)
    if condensation.summary is not None and [e.id for e in asked] == [e.id for e in sound]:
        loaded = View()
        loaded.events = asked
        loaded.unhandled_condensation_request = forced
        again = play.condenser.condense(loaded)
        assert again.summary == condensation.summary
        assert again.summary_offset == condensation.summary_offset
        assert set(again.forgotten_event_ids) == gone & {event.id for event in asked}


@pytest.mark.parametrize("every", [True, False])
def test_a_loop_with_thinking(every: bool, warnings: list[str]) -> None:
    """With thinking at each step there is a cut at each; with one thought at the start there is none: the loop is left
    whole, and that is said once."""
    ids = Ids()
    play = Play(CliffCondenser(threshold_tokens=4_000))
    play.begin(ids)
    for number in range(30):
        step(play)
        for event in told_events(Told("step", 150, ("observed",), thinking=every or number == 0), ids):
            play.add(event)
    assert bool(play.condensed) == every
    assert [text for text in warnings if "left whole" in text] == ([] if every else warnings)
    assert len(warnings) == (0 if every else 1)


def test_a_cut_snaps_outward(warnings: list[str]) -> None:
    """Three turns are wanted, but the newest five are one loop: all five stay."""
    ids = Ids()
    play = Play(CliffCondenser(threshold_tokens=5_000, keep_turns=3, min_gain=0.25))
    play.begin(ids)
    for number in range(14):
        for event in told_events(Told("step", 150, ("observed",), thinking=number == 9), ids):
            play.add(event)
    step(play)
    (condensation,) = play.condensed
    assert condensation.summary.count("<turn ") == 9
    assert sum(isinstance(event, ActionEvent) for event in play.view.events) == 5
    assert not warnings


def test_what_a_reload_would_drop_is_not_cut_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if the SDK called every place a legal cut: each cut is tried against the SDK's own rules for a reload."""
    monkeypatch.setattr("cliff_openhands.condenser.allowed_cuts", lambda events: set(range(len(events) + 1)))
    ids = Ids()
    play = Play(CliffCondenser(threshold_tokens=5_000))
    play.begin(ids)
    for number in range(14):
        for event in told_events(Told("step", 150, ("observed",), thinking=number == 9), ids):
            play.add(event)
    step(play)
    assert len(play.condensed) == 1
    assert sum(isinstance(event, ActionEvent) for event in play.view.events) == 5

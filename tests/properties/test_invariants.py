"""The invariants of DESIGN.md section 3 over generated histories, in all three message formats."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from properties import checks
from properties.driver import Run
from properties.histories import DIALECTS
from properties.strategies import Case, cases

in_all_dialects = pytest.mark.parametrize("dialect", DIALECTS)

Check = Callable[[Run], None]


def holds(case: Case, dialect: str, *checks: Check) -> None:
    """Run the session and check it; a failure tells what happened in it."""
    try:
        run = case.run(dialect)
        for check in checks:
            check(run)
    except Exception:
        note(case.story(dialect))
        raise


@in_all_dialects
@given(case=cases())
def test_1_every_excerpt_is_verbatim(dialect: str, case: Case) -> None:
    holds(case, dialect, checks.check_verbatim, checks.check_own_places)


@in_all_dialects
@given(case=cases())
def test_2_a_block_is_made_of_original_messages_only(dialect: str, case: Case) -> None:
    holds(case, dialect, checks.check_only_originals)


@in_all_dialects
@given(case=cases())
def test_3_head_live_turns_and_newest_directive_are_untouched(dialect: str, case: Case) -> None:
    holds(case, dialect, checks.check_untouched)


@in_all_dialects
@given(case=cases())
def test_3_what_cannot_become_text_stays(dialect: str, case: Case) -> None:
    holds(case, dialect, checks.check_pinned)


@in_all_dialects
@given(case=cases())
def test_4_views_are_append_only_between_cliffs(dialect: str, case: Case) -> None:
    holds(case, dialect, checks.check_append_only)


@in_all_dialects
@given(case=cases())
def test_5_calls_and_results_stay_paired(dialect: str, case: Case) -> None:
    holds(case, dialect, checks.check_paired)


@in_all_dialects
@given(case=cases(awkward=False))
def test_5_an_api_takes_the_view_of_a_history_that_it_takes(dialect: str, case: Case) -> None:
    holds(case, dialect, checks.check_native)


@in_all_dialects
@given(case=cases())
def test_6_the_same_history_and_facts_give_the_same_view(dialect: str, case: Case) -> None:
    holds(case, dialect, checks.check_deterministic)


@in_all_dialects
@given(case=cases(mishaps=False))
def test_6_a_cold_start_at_any_point_gives_the_same_view(dialect: str, case: Case) -> None:
    holds(case, dialect, checks.check_cold)


@in_all_dialects
@given(case=cases(), code=st.integers(0, 1_000))
def test_6_a_changed_history_is_a_new_one(dialect: str, case: Case, code: int) -> None:
    host = case.host(dialect)
    host.play()
    if host.run.sent:
        checks.check_changed(host, code)


@in_all_dialects
@given(case=cases())
def test_7_no_cliff_without_its_gain(dialect: str, case: Case) -> None:
    holds(case, dialect, checks.check_progress, checks.check_overflows)


@in_all_dialects
@given(case=cases())
def test_8_nothing_is_lost_and_each_cliff_is_recorded(dialect: str, case: Case) -> None:
    host = case.host(dialect)
    before = copy.deepcopy(host.written.messages)
    try:
        run = host.play()
        assert host.written.messages == before, "a message of the history was changed"
        checks.check_records(run)
    except Exception:
        note(case.story(dialect))
        raise


@in_all_dialects
@given(case=cases())
def test_tokens_are_the_sum_of_the_parts(dialect: str, case: Case) -> None:
    holds(case, dialect, checks.check_tokens)

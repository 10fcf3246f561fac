"""The decision as hosts call it that keep their own cuts, and the fold with real token counts."""

from __future__ import annotations

from hypothesis import given, note
from hypothesis import strategies as st

from cliff_core import Compactor, decision, dialect, tokens
from cliff_core.block import BlockWriter
from cliff_core.turns import group
from properties.histories import DIALECTS
from properties.oracle import Counts, least, native, open_cuts, shape
from properties.strategies import Case, cases
from properties.test_invariants import in_all_dialects


@given(case=cases(mishaps=False), name=st.sampled_from(DIALECTS), allowed=st.sets(st.integers(0, 30)))
def test_a_cut_falls_where_host_and_calls_allow_it(case: Case, name: str, allowed: set[int]) -> None:
    written = case.written(name)
    counts = Counts(dialect(name))
    messages = [counts.parsed(message) for message in written.messages]
    head, turns = group(messages)
    fixed = sum(message.tokens for message in messages[:head])
    writer = BlockWriter(case.config, len)
    cut = decision.cliff(turns, case.config, fixed, legal=allowed, writer=writer)
    anywhere = decision.cliff(turns, case.config, fixed, writer=writer)
    assert anywhere == decision.cliff(turns, case.config, fixed, legal=range(len(turns) + 1), writer=writer)
    note(case.story(name))
    whole = fixed + sum(turn.tokens for turn in turns)
    for size in (whole, whole // 2, whole // 8):
        forced = decision.cliff(turns, case.config, fixed, rejected=size, writer=writer)
        assert forced is None or forced.tokens_after < size, "a rejected view is followed by one that is not smaller"
    for found in (cut, anywhere):
        if found is None:
            continue
        natives = [native(message, name) for message in written.messages]
        words = (index for index, _ in written.words)
        assert found.index in open_cuts(natives, shape(natives).starts, words)
        live = sum(turn.tokens for turn in turns[found.index :])
        assert found.tokens_after == fixed + found.block.tokens + found.block.pinned_tokens + live
        assert found.live_turns == len(turns) - found.index
        assert found.tokens_before == fixed + sum(turn.tokens for turn in turns)
        freed = found.tokens_before - found.tokens_after
        assert case.config.exact or freed >= least(case.config, fixed, found.threshold)
    if cut is not None:
        assert cut.index in allowed
        assert anywhere is not None, "fewer places to cut, and a cut all the same"


@in_all_dialects
@given(case=cases(mishaps=False))
def test_real_tokens_add_up(dialect: str, case: Case) -> None:
    """A block has the tokens of its parts, which are counted one by one."""
    host = case.host(dialect)
    config = case.config.replace(threshold_tokens=max(1, case.config.first_threshold // 3))
    compactor = Compactor(host.dialect, config)
    counts = Counts(host.dialect, tokens.count_many)
    for size in (len(host.messages) // 2, len(host.messages)):
        history = host.messages[:size]
        view = compactor.view(history, case.fixed)
        assert view.estimate == case.fixed + counts.view(history, view)

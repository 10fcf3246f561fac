"""The threshold that costs least: the closed form against sums by hand, against a search, and against replays."""

import math
from pathlib import Path

import pytest

from cliff_core import traces as readers
from cliff_core.config import CliffConfig
from cliff_core.ledger import Tariff
from cliff_core.policies import policies
from cliff_core.replay import replay
from cliff_core.traces import Request, Session
from cliff_core.tuning import THRESHOLDS, Growth, Tuning, _line, by_threshold, names

TARIFF = Tariff(1, 0.1)


def test_cost_of_a_session_by_hand():
    """Sizes 1000, 1300, 1600 | 1200, 1500 | 1200, 1500 | 1200: above 1600 comes a cliff to 1200."""
    growth = Growth(requests=8, fixed=1000, per_request=300, after=(1200, 0.0))
    sent = 1000 + 1300 + 1600 + 3 * 1200 + 2 * 1500
    held = (1000 + 1300) + (1000 + 1200) + (1000 + 1200) + 1000
    assert growth.cost(1_700, TARIFF) == pytest.approx((0.1 * held + (sent - held)) / 1e6)
    full = sum(1000 + 300 * number for number in range(8))
    cached = full - (1000 + 300 * 7)
    assert growth.cost(math.inf, TARIFF) == pytest.approx((0.1 * cached + (full - cached)) / 1e6)
    assert growth.cost(10_000, TARIFF) == growth.cost(math.inf, TARIFF), "no cliff"


def test_written_tokens_cost_their_price():
    growth = Growth(requests=2, fixed=1000, per_request=100, after=None)
    assert growth.cost(500, Tariff(1, 0.1, 1.25)) == pytest.approx((0.1 * 1000 + 1.25 * 1100) / 1e6)


def test_a_threshold_that_is_too_small_is_raised():
    growth = Growth(requests=50, fixed=1000, per_request=300, after=(1200, 0.0), smallest=4_000)
    assert growth.cost(500, TARIFF) == growth.cost(4_000, TARIFF)
    assert growth.best(Tariff(1, 0.9)) == 4_000


def test_a_threshold_that_cannot_be_held():
    """A cliff leaves 5 000: below that, each request is a cliff to 5 000."""
    growth = Growth(requests=40, fixed=1000, per_request=300, after=(5_000, 0.0))
    assert growth.cost(2_000, TARIFF) == growth.cost(5_000, TARIFF) > growth.cost(math.inf, TARIFF)
    sent = sum(1000 + 300 * number for number in range(14)) + 26 * 5_000
    held = sum(1000 + 300 * number for number in range(13)) + 26 * 1_000
    assert growth.cost(5_000, TARIFF) == pytest.approx((0.1 * held + (sent - held)) / 1e6)


@pytest.mark.parametrize("after", [(3_000, 0.0), (2_000, 0.25), (500, 0.5)])
@pytest.mark.parametrize("cached", [0.1, 0.2, 0.5])
def test_the_closed_form_is_the_least_of_a_long_session(after, cached):
    """No other threshold costs noticeably less in the sums (which know that a segment has whole requests)."""
    growth = Growth(requests=1_000_000, fixed=900, per_request=0.5, after=after)
    tariff = Tariff(1, cached)
    best = growth.best(tariff)
    least = min(growth.cost(best * factor, tariff) for factor in (0.5, 0.7, 0.9, 1.1, 1.4, 2.0))
    assert growth.cost(best, tariff) < least
    assert growth.cost(best, tariff) <= 1.01 * min(growth.cost(best * (0.9 + n / 500), tariff) for n in range(100))


def test_the_formula():
    growth = Growth(requests=1, fixed=1000, per_request=50, after=(3000, 0.2))
    # y = sqrt(2 * 50 * (3000 - 50 - 0.8 * 1000) / 1.2 * 9), T = (y - 50 + 3000) / 0.8
    assert growth.best(TARIFF) == pytest.approx((math.sqrt(2 * 50 * 2150 / 1.2 * 9) - 50 + 3000) / 0.8)
    assert growth.best(Tariff(1, 0)) == math.inf, "what is in the cache is free"
    assert Growth(1, 1000, 50, None).best(TARIFF) == math.inf


def test_the_line_of_sizes_after_cliffs():
    assert _line({}) is None
    assert _line({16_000: 5_000.0}) == (5_000, 0)
    assert _line({10_000: 4_000.0, 20_000: 6_000.0}) == pytest.approx((2_000, 0.2))
    assert _line({10_000: 6_000.0, 20_000: 4_000.0}) == (5_000, 0), "it never falls"
    assert _line({10_000: 1_000.0, 20_000: 19_000.0}) == pytest.approx((0, 0.9))


# --- sessions -------------------------------------------------------------------------------------


def even(turns=120, words=200, system=0):
    """A session that grows evenly; `system`: words of its system prompt."""
    messages = [{"role": "user", "content": "the task"}]
    for turn in range(turns):
        function = {"name": "bash", "arguments": '{"command": "make"}'}
        messages.append({"role": "assistant", "tool_calls": [{"id": str(turn), "function": function}]})
        messages.append({"role": "tool", "tool_call_id": str(turn), "content": " ".join(["hello"] * words)})
    requests = [Request(1 + 2 * turn) for turn in range(turns + 1)]
    return Session(Path("x"), "test", "chat", messages, requests, system=" ".join(["hello"] * system) or None)


def tuned(session, thresholds):
    tuning, done = Tuning(thresholds), replayed(session, thresholds)
    tuning.add(done, TARIFF)
    return tuning, done


def replayed(session, thresholds, preset="default"):
    config = CliffConfig.preset(preset)
    return replay(session, policies(names(thresholds), config), config)


def test_one_replay_has_all_thresholds():
    assert names((8_000, 16_000)) == ("cliff@8000", "cliff@16000", "cliff@auto", "full")
    _, done = tuned(even(40), (4_000, 6_000))
    alone = CliffConfig.preset(threshold_tokens=6_000)
    other = replay(even(40), policies(["cliff"], alone), alone).results["cliff"]
    assert by_threshold(done)[6_000].entries == other.entries
    assert by_threshold(done)[4_000].entries != other.entries


def test_closed_form_and_replay_agree_on_an_even_session():
    thresholds = (4_000, 6_000, 9_000, 14_000, 20_000)
    tuning, _ = tuned(even(), thresholds)
    for threshold, point in tuning.points.items():
        assert point.closed == pytest.approx(point.replayed, rel=0.10), threshold
    assert tuning.full.closed == pytest.approx(tuning.full.replayed, rel=0.01)
    assert tuning.smallest == [math.ceil((6 + 2_000) / 0.85)]
    assert tuning.best_replayed == 4_000
    assert 4_000 <= tuning.best_closed <= 5_000


def test_full_context_is_best_where_nothing_is_gained():
    tuning, _ = tuned(even(5), (8_000, 16_000))
    assert tuning.best_closed is tuning.best_replayed is None
    assert tuning.last[0].after is None


def test_several_sessions_add_up():
    one, done = tuned(even(40), (4_000, 8_000))
    two = Tuning((4_000, 8_000))
    two.add(done, TARIFF)
    two.add(done, TARIFF)
    assert two.sessions == 2
    assert two.requests == 82
    assert two.points[4_000].replayed == pytest.approx(2 * one.points[4_000].replayed)
    assert two.points[4_000].cliffs == 2 * one.points[4_000].cliffs
    assert two.best_closed == one.best_closed
    assert two.smallest == 2 * one.smallest


def test_each_session_raises_a_threshold_to_its_own():
    """Two sessions of 6 tokens that stay, and one of 20 006: together they cost least at 4 000, which that one alone
    raises. Were all at the 25 890 that work in each, they would cost more."""
    thresholds = (4_000, 12_000, 25_890, 40_000)
    sessions = [even(), even(30, system=20_000), even()]
    tuning = Tuning(thresholds)
    for session in sessions:
        tuning.add(replayed(session, thresholds), TARIFF)
    smallest = [math.ceil((fixed + 2_000) / 0.85) for fixed in (6, 20_006, 6)]
    assert tuning.smallest == smallest == [2_360, 25_890, 2_360]
    assert [tuning.raised(one) for one in (2_000, 4_000, 25_889, 25_890)] == [3, 1, 1, 0]

    assert tuning.best_closed == min(tuning.curve, key=tuning.curve.get) == 4_000
    assert tuning.best_replayed == min(thresholds, key=lambda one: tuning.points[one].replayed) == 4_000
    assert tuning.points[25_890].replayed > 1.2 * tuning.points[4_000].replayed
    assert tuning.curve[25_890] > 1.2 * tuning.curve[4_000]

    growths = [Growth.of(replayed(session, thresholds)) for session in sessions]
    own = [growth.cost(max(4_000, one), TARIFF) for growth, one in zip(growths, smallest, strict=True)]
    assert tuning.curve[4_000] == pytest.approx(sum(own))
    # So it is in the replays: as if each had been given its own.
    apart = [replayed(sessions[0], (4_000,)), replayed(sessions[1], (25_890,)), replayed(sessions[2], (4_000,))]
    costs = [next(iter(by_threshold(done).values())).cost(TARIFF) for done in apart]
    assert tuning.points[4_000].replayed == pytest.approx(sum(costs))


def test_the_curve_has_the_thresholds_of_the_table_once_each():
    tuning, _ = tuned(even(40), (20, 4_000, 9_000))
    assert {20, 4_000, 9_000} < set(tuning.curve)
    for threshold in (20, 4_000, 9_000):
        assert tuning.curve[threshold] == tuning.points[threshold].closed


def test_preset_paper_raises_no_threshold():
    done = replayed(even(40), (1_500,), "paper")
    assert Growth.of(done).smallest == 0
    tuning = Tuning((1_500,))
    tuning.add(done, TARIFF)
    assert tuning.smallest == [2_360]
    assert tuning.raised(1_500) == 0


@pytest.mark.parametrize("name", ["astroid-1333", "reasoner-sqlfluff-1733"])
def test_recorded_sessions_that_grow_evenly(traces, name):
    """Within 10 % of the replay, at every threshold."""
    (known,) = [s for path in readers.discover([traces / "mini_v2" / name]) for s in readers.read(path)]
    config = CliffConfig.preset()
    done = replay(known, policies(names(THRESHOLDS), config), config)
    tuning = Tuning(THRESHOLDS)
    tuning.add(done, Tariff(0.28, 0.028))
    for threshold, point in tuning.points.items():
        assert point.closed == pytest.approx(point.replayed, rel=0.10), threshold
    assert tuning.best_replayed == 8_000
    assert tuning.best_closed == pytest.approx(8_000, rel=0.1)

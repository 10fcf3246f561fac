"""The closed form: by hand, against sums over requests, and against a search."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cliff_core.closed_form import Bound, Course
from cliff_core.config import CliffConfig

PAPER = CliffConfig.preset("paper")


def test_what_a_cliff_leaves():
    natural = Course(fixed=1_000, per_request=300, after=(1_200, 0.1))
    assert natural.left(10_000) == 2_200
    assert natural.left(0) == 1_200
    assert Course(3_000, 300, (1_200, 0.1)).left(10_000) == 3_000, "never less than F"
    # With a gain of 0.9, 1 000 + 0.1 * 9 000 may stay: fewer turns do.
    narrow = Course(1_000, 300, (1_200, 0.1), Bound(gain=0.9, stays=350))
    assert narrow.left(10_000) == pytest.approx(1_900)
    assert narrow.left(2_000) == 1_350, "this always stays"
    assert Course(1_000, 300, (1_200, 0.1), Bound(0.25, 350)).left(10_000) == 2_200, "it fits"


def test_the_smallest_threshold_that_can_be_held():
    assert Course(1_000, 300, (3_000, 0.25)).least == 4_000
    assert Course(1_000, 300, (3_000, 0.25), Bound(0.25, 350)).least == 1_350
    assert Course(5_000, 300, (3_000, 0.25)).least == 5_000


def test_what_always_stays():
    """The newest turn, and the list of names: a token for three characters."""
    assert Bound.of(CliffConfig(min_gain=0.5, path_index_chars=600), 300) == Bound(0.5, 300 + 200)
    assert Bound.of(CliffConfig.preset("paper"), 300) is None


def test_sizes_after_cliffs_that_nobody_knows():
    """F and three turns of 1 800, and 200 tokens of excerpts for each of the turns from S to T."""
    course = Course.expected(PAPER, 1_000, 1_800)
    left = course.left(20_000)
    assert left == pytest.approx(1_000 + 3 * 1_800 + 200 * (20_000 - left) / 1_800)
    small = Course.expected(PAPER, 1_000, 50)
    left = small.left(20_000)
    assert left == pytest.approx(1_000 + 3 * 50 + (20_000 - left)), "excerpts have no more tokens than their turns"
    assert Course.expected(PAPER, 1_000, 0).best(10, 8_000) == 8_000
    assert Course.expected(CliffConfig(), 1_000, 300).bound == Bound.of(CliffConfig(), 300)


def test_the_cost_of_a_request():
    """Segments of 27 requests, 2 200 to 10 000: 6 100 tokens each; 9 000 of a segment are not in the cache."""
    course = Course(1_000, 300, (1_200, 0.1))
    assert course.cost(10_000, 1) == 6_100
    assert course.cost(10_000, 10) == pytest.approx(6_100 + 9 * 9_000 / 27)


@pytest.mark.parametrize("ratio", [1, 2, 10, 50])
def test_the_cost_is_that_of_the_requests(ratio):
    """A segment of 21 requests, 3 800 to 9 000, one by one."""
    course = Course(1_000, 260, (2_000, 0.2))
    sizes = list(range(3_800, 9_001, 260))
    new = (3_800 - 1_000) + 260 * 20
    assert course.cost(9_000, ratio) == pytest.approx((sum(sizes) + (ratio - 1) * new) / len(sizes))


def test_the_threshold_of_least_cost():
    # y = sqrt(2 * 500 * (1 785.7 - 500 - 714.3) / 1.2857 * 99), T = (y - 500 + 1 785.7) / 0.7143
    course = Course.expected(PAPER, 1_000, 500)
    segment = math.sqrt(2 * 500 * (2_500 / 1.4 - 500 - 1_000 / 1.4) / (1 + 0.4 / 1.4) * 99)
    assert course.best(100, 4_000) == pytest.approx((segment - 500 + 2_500 / 1.4) * 1.4)
    assert course.best(100, 20_000) == 20_000
    assert course.best(1, 4_000) == 4_000, "the cache saves nothing"
    assert course.best(math.inf, 4_000) == math.inf, "what it holds costs nothing"


def test_the_least_may_be_where_two_pieces_meet():
    """Up to 4 000 a cliff leaves 2 500, above that it leaves 1 000 + 0.5 * (T - 1 000)."""
    course = Course(1_000, 100, (50_000, 0.0), Bound(gain=0.5, stays=1_500))
    assert (course.left(3_000), course.left(4_000), course.left(5_000)) == (2_500, 2_500, 3_000)
    assert course.best(60, 2_600) == 4_000
    # Nearer to it: y = sqrt(2 * 100 * (1 500 - 100) * 2), T = y - 100 + 2 500
    assert course.best(3, 2_600) == pytest.approx(math.sqrt(560_000) - 100 + 2_500)


@given(
    fixed=st.floats(0, 60_000),
    growth=st.floats(20, 6_000),
    keep=st.integers(1, 6),
    preset=st.sampled_from(["paper", "default"]),
    gain=st.sampled_from([0.0, 0.25, 0.6, 0.9]),
    names=st.integers(0, 6_000),
    ratio=st.floats(1, 200),
    smallest=st.floats(2_000, 70_000),
    factor=st.floats(1, 30),
)
def test_no_other_threshold_costs_less(fixed, growth, keep, preset, gain, names, ratio, smallest, factor):
    config = CliffConfig.preset(preset, keep_turns=keep, min_gain=gain, path_index_chars=names)
    course = Course.expected(config, fixed, growth)
    best = course.best(ratio, smallest)
    assert best >= smallest
    other = max(smallest, course.least) * factor
    assert course.cost(best, ratio) <= course.cost(other, ratio) * (1 + 1e-9)

"""Features: of the group and nothing else, the same in any order, with what is not known in the middle."""

import math
from pathlib import Path

import pytest

from cliff_select import terminal
from cliff_select.agreement import agreement, likeness, patch_files, patch_lines, terminal_lines
from cliff_select.features import ALL, NAMES, SHIPPED, candidates, of, parts, rank, unknown
from cliff_select.rollouts import Rollout
from cliff_select.sessions import with_screen
from selector.made import PATCH, mini_terminal


def rollout(**facts: object) -> Rollout:
    return Rollout("t", "r", Path("x"), **facts)  # type: ignore[arg-type]


def seen(text: str, **facts: object) -> Rollout:
    return with_screen(rollout(**facts), terminal.read(text))


def test_ranks() -> None:
    assert [rank([3, 1, 2], i) for i in range(3)] == [1.0, 0.0, 0.5]
    assert [rank([1, 1, 5], i) for i in range(3)] == [0.25, 0.25, 1.0]


def test_what_is_not_known_is_in_the_middle() -> None:
    assert [rank([3, math.nan, 2], i) for i in range(3)] == [1.0, 0.5, 0.0]
    assert all(math.isnan(rank([3, math.nan, math.nan], i)) for i in range(3))


def test_every_feature_is_there() -> None:
    assert set(of([parts(rollout()), parts(rollout())])[0]) == set(NAMES)
    assert set(SHIPPED) <= set(NAMES)
    assert {feature.kind for feature in ALL} == {"run", "artifact", "agreement"}


def test_a_group() -> None:
    group = [
        seen(mini_terminal(steps=4, codes=(0,), closing="verified, passed"), seconds=40.0),
        seen(mini_terminal(steps=8, codes=(1,), closing="it failed: error"), seconds=160.0),
        seen(mini_terminal(steps=8, codes=(0,), closing="hm", done=False), seconds=200.0),
    ]
    first, second, third = of([parts(member) for member in group])
    assert [f["done"] for f in (first, second, third)] == [1.0, 1.0, 0.0]
    assert [f["cut_off"] for f in (first, second, third)] == [0.0, 0.0, 1.0]
    assert [f["seconds_rank"] for f in (first, second, third)] == [0.0, 0.5, 1.0]
    assert [f["seconds_per_step_rank"] for f in (first, second, third)] == [0.0, 0.5, 1.0]
    assert [f["failed_rank"] for f in (first, second, third)] == [0.25, 1.0, 0.25]
    assert [f["confirmed_rank"] for f in (first, second, third)] == [1.0, 0.25, 0.25]
    assert [f["errors_rank"] for f in (first, second, third)] == [0.25, 1.0, 0.25]
    assert [f["others_done"] for f in (first, second, third)] == [0.5, 0.5, 1.0]


def test_the_order_of_the_group_makes_no_difference() -> None:
    group = [parts(seen(mini_terminal(steps=n, codes=(n % 2,)), seconds=float(10 * n))) for n in (3, 5, 4)]
    straight, reverse = of(group), of(group[::-1])
    assert straight == reverse[::-1]


def test_what_is_missing_is_told() -> None:
    known = parts(seen(mini_terminal(), seconds=1.0))
    assert unknown([known, known], SHIPPED) == ()
    assert unknown([known, parts(seen(mini_terminal()))], SHIPPED) == ("times", "times and steps")
    assert "how the run ended" in unknown([known, parts(rollout())], SHIPPED)


def test_likeness() -> None:
    assert likeness(frozenset({1, 2}), frozenset({2, 3})) == pytest.approx(1 / 3)
    assert likeness(frozenset(), frozenset()) == 0.0
    assert agreement([frozenset({1}), frozenset({1}), frozenset({2})]) == [0.5, 0.5, 0.0]
    assert agreement([frozenset({1}), None]) == [None, None]
    assert agreement([frozenset({1})]) == [None]


def test_lines_of_a_patch() -> None:
    one, other = PATCH.format(file="a.py", line="new"), PATCH.format(file="b.py", line="  new")
    assert patch_lines(one) == patch_lines(other)
    assert len(patch_lines(one)) == 2
    assert patch_files(one) == {"a.py"}
    assert patch_lines("") == frozenset()


def test_an_empty_patch_is_no_candidate_where_another_left_something() -> None:
    new, none = parts(rollout(patch=PATCH.format(file="a", line="new"))), parts(rollout(patch=""))
    assert candidates([none, new, parts(rollout())]) == [1, 2]
    assert candidates([none, none]) == [0, 1]


def test_times_and_hashes_make_no_difference_to_lines() -> None:
    assert terminal_lines("12:00:01 built abcdef0123") == terminal_lines("13:59:59 built 0123abcdef99")
    assert terminal_lines("built the parser") != terminal_lines("built the lexer")


def test_patches_are_compared_only_where_all_have_one() -> None:
    new = PATCH.format(file="a", line="new")
    group = [
        rollout(patch=new, text="the same text"),
        rollout(patch=new, text="another text!"),
        rollout(text="the same text"),
    ]
    assert [f["overlap_rank"] for f in of([parts(member) for member in group])] == [0.75, 0.0, 0.75]
    assert [f["overlap_rank"] for f in of([parts(member) for member in group[:2]])] == [0.5, 0.5]

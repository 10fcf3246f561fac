"""The decision, with tokens that can be added by hand: a character of a block is one token."""

import pytest

from cliff_core.block import MESSAGE_TOKENS, OPENING, BlockWriter
from cliff_core.config import CliffConfig
from cliff_core.content import Directive, Message, Thought, ToolCall, ToolResult, Turn
from cliff_core.decision import (
    AUTO_LEAST,
    Cut,
    Grown,
    cliff,
    effective_threshold,
    room,
    smallest_threshold,
    window_limit,
)

FRAME = MESSAGE_TOKENS + len(OPENING)
TURN = len("<turn 1>\n<thought>t</thought>\n")


def turns(*sizes: int) -> list[Turn]:
    """One turn a size, in tokens; each has the excerpt of one thought."""
    return [Turn(number, number, (Message("model", (Thought("t"),), size),)) for number, size in enumerate(sizes, 1)]


def decide(
    history: list[Turn], threshold: int, fixed: int = 0, preset: str = "default", **arguments: object
) -> Cut | None:
    options = {} if preset == "paper" else {"min_gain": 0.25, "keep_turns": 3}
    options |= {k: arguments.pop(k) for k in ("min_gain", "keep_turns") if k in arguments}
    config = CliffConfig.preset(preset, threshold_tokens=threshold, **options)
    return cliff(history, config, fixed, writer=BlockWriter(config, len), **arguments)  # type: ignore[arg-type]


def test_thresholds():
    default, paper = CliffConfig(), CliffConfig.preset("paper")
    assert smallest_threshold(default, 0) == 2_353
    assert smallest_threshold(default, 15_000) == 20_000
    assert smallest_threshold(default.replace(min_gain=0.9), 15_000) == 20_000
    assert smallest_threshold(default, 15_001) == 20_002
    assert effective_threshold(default, 16_000) == 32_000
    assert effective_threshold(default, 31_000) == 38_824
    assert effective_threshold(default, 31_000, limit=38_000) == 36_100
    assert effective_threshold(paper, 31_000) == 32_000
    assert effective_threshold(paper, 31_000, limit=20_001) == 19_000


@pytest.mark.parametrize(
    ("window", "answer", "most"),
    [
        (200_000, 64_000, 126_000),
        (131_072, 8_192, 116_326),  # 5 % are 6 553.6
        (128_000, None, 121_600),
        (262_144, 262_144, 117_964),  # a table with the window as the longest answer
        (100, -1, 95),
    ],
)
def test_a_window_leaves_room_for_the_answer_and_five_percent(window, answer, most):
    limit = window_limit(window, answer)
    assert limit is not None
    assert room(limit) == most
    assert effective_threshold(CliffConfig.preset("paper", threshold_tokens=10**9), 0, limit) == most


@pytest.mark.parametrize("window", [None, 0, -5, 1])
def test_a_window_that_says_nothing(window):
    assert window_limit(window, 10) is None


def auto(fixed: int, growth: Grown | None, limit: int | None = None, preset: str = "default", **options: object) -> int:
    options = {"keep_turns": 3, "min_gain": 0.25} | options
    config = CliffConfig.preset(preset, threshold_tokens="auto", **options)
    return effective_threshold(config, fixed, limit, growth)


def test_auto_begins_with_the_threshold_of_somebody_who_sets_none():
    assert auto(1_000, None) == auto(1_000, Grown(4, 400_000)) == 32_000
    assert auto(60_000, None) == smallest_threshold(CliffConfig(), 60_000)
    assert auto(1_000, None, limit=20_000) == 19_000


def test_auto_is_the_closed_form():
    # S = (1 000 + 3 * 500 + 0.4 * T) / 1.4, since 200 of the 500 tokens of a turn are excerpts.
    # y = sqrt(2 * 500 * (1 785.7 - 500 - 714.3) / 1.2857 * 99), T = (y - 500 + 1 785.7) / 0.7143 = 11 087
    assert auto(1_000, Grown(10, 5_000), cache_price_ratio=100) == 12_000
    assert auto(1_000, Grown(1_000, 500_000), cache_price_ratio=100) == 12_000, "the growth a turn decides"
    assert auto(1_000, Grown(10, 5_000), cache_price_ratio=10) == AUTO_LEAST, "6 372 costs less: it is below the least"
    assert auto(1_000, Grown(10, 5_000)) == AUTO_LEAST, "the paper's models"
    assert auto(1_000, Grown(10, 20_000), cache_price_ratio=100) > 12_000, "a steeper session"
    assert auto(1_000, Grown(10, 5_000), cache_price_ratio=100, keep_turns=6) > 12_000, "a larger rest"
    assert auto(1_000, Grown(10, 0), cache_price_ratio=100) == AUTO_LEAST


@pytest.mark.parametrize("preset", ["paper", "default"])
def test_auto_stays_between_its_bounds(preset):
    steep = Grown(10, 500_000)
    assert auto(1_000, steep, cache_price_ratio=1_000, preset=preset) == 192_000
    assert auto(1_000, steep, limit=1_000_000, cache_price_ratio=1_000, preset=preset) == 950_000
    assert auto(1_000, steep, limit=40_000, cache_price_ratio=1_000, preset=preset) == 38_000
    assert auto(1_000, steep, limit=40_000, cache_price_ratio=900, preset=preset) <= 38_000
    smallest = smallest_threshold(CliffConfig(), 100_000)
    assert auto(100_000, Grown(10, 5_000), preset=preset) == smallest
    assert auto(100_000, Grown(10, 5_000), limit=100_000, preset=preset) == 95_000


def test_auto_decides_by_the_growth_that_it_is_told():
    history = turns(*[1_000] * 12)
    grown = Grown(12, 12_000)
    assert cliff(history, CliffConfig(threshold_tokens="auto"), 0) is None, "32 000"
    cut = cliff(history, CliffConfig(threshold_tokens="auto"), 0, growth=grown)
    assert cut is not None
    assert (cut.tokens_before, cut.threshold, cut.reason) == (12_000, AUTO_LEAST, "threshold")
    cut = cliff(history, CliffConfig(threshold_tokens="auto"), 0, growth=grown, limit=5_000)
    assert cut is not None
    assert (cut.threshold, cut.reason) == (4_750, "limit")


@pytest.mark.parametrize("preset", ["paper", "default"])
def test_nothing_happens_up_to_the_threshold(preset):
    history = turns(*[1_000] * 10)
    assert decide(history, 10_000, preset=preset) is None
    cut = decide(history, 9_999, preset=preset)
    assert cut is not None
    assert (cut.index, cut.live_turns, cut.tokens_before, cut.threshold) == (7, 3, 10_000, 9_999)
    assert cut.tokens_after == 3_000 + FRAME + 7 * TURN
    assert cut.reason == "threshold"


def test_the_largest_k_that_leaves_the_gain():
    # 0.75 of 10 000 tokens may remain; a block of n excerpts takes FRAME + n * TURN.
    history = turns(5_000, 2_600, 2_600, 2_600)
    room = 7_500 - 2 * 2_600
    assert room >= FRAME + 2 * TURN
    cut = decide(history, 10_000)
    assert cut is not None
    assert (cut.index, cut.live_turns) == (2, 2)
    cut = decide(turns(5_000, 2_600, 2_600, 7_500 - FRAME - 3 * TURN), 10_000)
    assert cut is not None
    assert (cut.index, cut.tokens_after) == (3, 7_500)


def test_then_the_oldest_excerpts_go():
    cut = decide(turns(5_000, 2_600, 2_600, 7_500 - FRAME - TURN), 10_000)
    assert cut is not None
    assert (cut.index, cut.tokens_after, cut.block.dropped.excerpts) == (3, 7_500, 2)
    assert cut.block.text == OPENING + "<turn 3>\n<thought>t</thought>\n"


def test_then_only_for_the_gain():
    newest = 9_000
    most = 2_500 + FRAME  # what the turns before the newest must have for a gain of a quarter
    cut = decide(turns(1_000, most - 1_000, newest), 10_000)
    assert cut is not None
    assert (cut.index, cut.tokens_before - cut.tokens_after) == (2, 2_500)
    assert cut.block.text == OPENING
    assert decide(turns(1_000, most - 1_001, newest), 10_000) is None
    # A larger gain is looked for, and not waited for: the requests until then would be above the threshold.
    cut = decide(turns(1_000, most - 1_000, newest), 10_000, min_gain=0.6)
    assert cut is not None
    assert cut.tokens_before - cut.tokens_after == 2_500
    assert decide(turns(1_000, most - 1_001, newest), 10_000, min_gain=0.6) is None
    cut = decide(turns(100, FRAME - 99, newest + 1_000), 10_000, min_gain=0)
    assert cut is not None
    assert cut.tokens_before - cut.tokens_after == 1


def test_the_paper_keeps_three_turns_and_cuts_whatever_is_gained():
    cut = decide(turns(400, 9_000, 9_000, 9_000), 10_000, preset="paper")
    assert cut is not None
    assert (cut.index, cut.live_turns, cut.block.dropped.excerpts) == (1, 3, 0)
    assert cut.tokens_before - cut.tokens_after == 400 - FRAME - TURN
    cut = decide(turns(1, 9_000, 9_000, 9_000), 10_000, preset="paper")
    assert cut is not None
    assert cut.tokens_after > cut.tokens_before, "Algorithm 1 asks for no gain"
    assert decide(turns(9_000, 9_000, 9_000), 10_000, preset="paper") is None


def test_a_raised_threshold():
    # With 15 000 fixed tokens the smallest workable threshold is 20 000, which leaves 5 000: a gain is 1 250.
    assert decide(turns(2_500, 2_500), 4_000, fixed=15_000) is None
    cut = decide(turns(2_500, 2_501), 4_000, fixed=15_000)
    assert cut is not None
    assert (cut.threshold, cut.index, cut.tokens_after) == (20_000, 1, 17_501 + FRAME + TURN)
    assert decide(turns(1_250, 3_751), 4_000, fixed=15_000) is None, "one turn is above 3 750, and frees too little"


def test_the_gain_is_a_share_of_what_is_beside_the_fixed_part():
    # 30 000 fixed tokens leave 10 000 of 40 000: after a cliff there may be 37 500.
    newest = 7_500 - FRAME - TURN
    cut = decide(turns(5_000, newest), 40_000, fixed=30_000)
    assert cut is not None
    assert (cut.tokens_after, cut.block.dropped.excerpts) == (37_500, 0)
    cut = decide(turns(5_000, newest + 1), 40_000, fixed=30_000)
    assert cut is not None
    assert cut.block.dropped.excerpts == 1
    # A pinned message is fixed, too.
    cut = decide(turns(5_000, newest), 40_000, fixed=26_000, pinned_tokens=4_000)
    assert cut is not None
    assert cut.block.dropped.excerpts == 0
    # Where the fixed part alone is above what the provider takes, any gain will do.
    cut = decide(turns(100, 50), 40_000, fixed=30_000, limit=20_000)
    assert cut is None, "the block is larger than what goes"
    cut = decide(turns(1_000, 50), 40_000, fixed=30_000, limit=20_000)
    assert cut is not None
    assert (cut.threshold, cut.tokens_after) == (19_000, 30_050 + FRAME)


def test_only_new_turns_are_cut_and_the_previous_block_goes():
    history = turns(*[1_000] * 12)
    cut = decide(history, 7_900, since=5, block_tokens=1_000)
    assert cut is not None
    assert (cut.index, cut.tokens_before) == (9, 8_000)
    assert cut.block.text == OPENING + "".join(f"<turn {n}>\n<thought>t</thought>\n" for n in (6, 7, 8, 9))
    assert decide(history, 2_000, since=11, preset="paper") is None


def test_turns_that_the_host_does_not_let_go_stay():
    history = turns(*[1_000] * 10)
    cut = decide(history, 9_000, legal={0, 2, 5, 8, 10})
    assert cut is not None
    assert (cut.index, cut.live_turns) == (5, 5), "more turns than three, not fewer"
    assert decide(history, 9_000, legal={0, 10}) is None
    cut = decide(history, 9_000, legal={0, 8})
    assert cut is None or cut.index == 8


def test_a_call_that_waits_is_not_cut_away():
    asked = Turn(1, 1, (Message("model", (ToolCall("bash", "{}", "a"),), 5_000),))
    history = [asked, *turns(0, 5_000, 1_000, 1_000, 1_000)[1:]]
    assert decide(history, 9_000) is None
    answer = Message("tool", (ToolResult("late", "a"),), 10)
    history[2] = Turn(3, 3, (*history[2].messages, answer))
    cut = decide(history, 9_000)
    assert cut is None or cut.index >= 3


# --- forced --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", ["paper", "default"])
def test_a_rejected_view_gets_smaller_until_nothing_is_left(preset):
    history = [
        *turns(2_000, 2_000, 2_000),
        Turn(4, 4, (Message("model", (Thought("t"),), 4_000), Message("user", (Directive("d"),), 1_000))),
    ]
    seen = []
    rejected = 11_000
    while (cut := decide(history, 50_000, preset=preset, rejected=rejected)) is not None:
        assert cut.reason == "forced"
        assert cut.tokens_after < rejected
        seen.append((cut.index, cut.block.dropped.excerpts))
        rejected = cut.tokens_after
    few_excerpts = [(4, 3)] if preset == "paper" else []  # the directive takes their room
    assert seen == [(2, 0), (3, 0), (4, 0), *few_excerpts, (4, 4)]


def test_a_forced_cliff_leaves_a_quarter_of_what_was_rejected():
    cut = decide(turns(*[1_000] * 10), 50_000, preset="paper", rejected=10_000)
    assert cut is not None
    assert (cut.live_turns, cut.threshold) == (3, 50_000)
    cut = decide(turns(1_000, 3_000, 3_000, 3_000), 50_000, preset="paper", rejected=10_000)
    assert cut is not None
    assert cut.live_turns == 2, "three turns of 9 000 tokens are above 7 500"


def test_a_learned_limit_bounds_the_threshold():
    history = turns(*[1_000] * 10)
    assert decide(history, 50_000, limit=10_527) is None
    cut = decide(history, 50_000, limit=10_000)
    assert cut is not None
    assert (cut.threshold, cut.reason) == (9_500, "limit")


def test_corrected_figures_decide():
    history = turns(*[1_000] * 10)
    assert decide(history, 10_999, corrected=lambda estimate: estimate + 999) is None
    cut = decide(history, 10_998, corrected=lambda estimate: estimate + 999)
    assert cut is not None
    assert (cut.tokens_before, cut.tokens_after) == (10_999, 3_999 + FRAME + 7 * TURN)


def test_without_turns_there_is_nothing_to_cut():
    assert decide([], 10, fixed=100) is None
    assert decide([], 10, fixed=100, rejected=100) is None

"""The decision, with tokens that can be added by hand: a character of a block is one token."""

import pytest

from cliff_core.block import MESSAGE_TOKENS, OPENING, BlockWriter
from cliff_core.config import CliffConfig
from cliff_core.content import Directive, Message, Thought, ToolCall, ToolResult, Turn
from cliff_core.decision import Cut, cliff, effective_threshold, smallest_threshold

FRAME = MESSAGE_TOKENS + len(OPENING)
TURN = len("<turn 1>\n<thought>t</thought>\n")


def turns(*sizes: int) -> list[Turn]:
    """One turn a size, in tokens; each has the excerpt of one thought."""
    return [Turn(number, number, (Message("model", (Thought("t"),), size),)) for number, size in enumerate(sizes, 1)]


def decide(
    history: list[Turn], threshold: int, fixed: int = 0, preset: str = "default", **arguments: object
) -> Cut | None:
    options = {k: arguments.pop(k) for k in ("min_gain", "keep_turns") if k in arguments}
    config = CliffConfig.preset(preset, threshold_tokens=threshold, **options)
    return cliff(history, config, fixed, writer=BlockWriter(config, len), **arguments)  # type: ignore[arg-type]


def test_thresholds():
    default, paper = CliffConfig(), CliffConfig.preset("paper")
    assert smallest_threshold(default, 10_000) == 16_000
    assert smallest_threshold(default.replace(min_gain=0.5), 10_000) == 24_000
    assert smallest_threshold(default.replace(min_gain=0.1), 10_000) == 16_000
    assert smallest_threshold(default, 10_001) == 16_002
    assert effective_threshold(default, 10_000) == 32_000
    assert effective_threshold(default, 31_000) == 44_000
    assert effective_threshold(default, 31_000, limit=40_000) == 38_000
    assert effective_threshold(paper, 31_000) == 32_000
    assert effective_threshold(paper, 31_000, limit=20_001) == 19_000


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
    # With 10 000 fixed tokens the smallest workable threshold is 16 000.
    assert decide(turns(3_000, 3_000), 4_000, fixed=10_000) is None
    cut = decide(turns(3_000, 3_001), 4_000, fixed=10_000)
    assert cut is None, "a view of one turn is still above three quarters, and frees too little"
    cut = decide(turns(5_000, 1_001), 4_000, fixed=10_000)
    assert cut is not None
    assert cut.threshold == 16_000


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

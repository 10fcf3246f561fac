"""Views by hand: a message of n words has n + 4 tokens."""

from pathlib import Path

import pytest

from cliff_core.config import CliffConfig
from cliff_core.content import Message, Note, ToolCall, ToolResult
from cliff_core.dialects import dialect
from cliff_core.ledger import Meter
from cliff_core.policies import (
    POLICIES,
    ClearTools,
    CliffPolicy,
    Full,
    Microcompact,
    PolicyError,
    Settings,
    Sliding,
    StandIn,
    Summarize,
    policies,
)
from cliff_core.policies.shown import CLEARED
from cliff_core.policies.summarize import INSTRUCTION
from cliff_core.traces import Session


def paper(threshold):
    return CliffConfig.preset("paper", threshold_tokens=threshold)


def text(role, words, word="hello"):
    return {"role": role, "content": " ".join([word] * words)}


def call(number, words=1):
    function = {"name": "bash", "arguments": " ".join(["hello"] * words)}
    return {"role": "assistant", "content": None, "tool_calls": [{"id": f"c{number}", "function": function}]}


def result(number, words):
    return {"role": "tool", "tool_call_id": f"c{number}", "content": " ".join(["hello"] * words)}


def session(messages):
    return Session(Path("x"), "test", "chat", messages, [])


def started(policy, messages):
    policy.start(session(messages), Meter(dialect("chat")))
    return policy


# Head 14 tokens; each turn 6 for the call and 24 for its result.
HISTORY = [text("user", 10)]
for turn in range(1, 7):
    HISTORY += [call(turn), result(turn, 20)]


NAMES = ["full", "sliding", "summarize", "microcompact", "clear-tools", "authors", "cliff"]
OURS = [name for name in NAMES if name != "authors"]


def test_registry():
    assert list(POLICIES) == NAMES
    made = policies(["cliff", "full", "cliff"], paper(100))
    assert [policy.name for policy in made] == ["cliff", "full"]
    assert [policy.name for policy in policies(OURS, paper(100))] == OURS


def test_no_policy_at_all():
    with pytest.raises(PolicyError, match="no policy is named; known are full, sliding, summarize"):
        policies([], paper(100))


@pytest.mark.parametrize(("name", "hint"), [("slidng", "did you mean sliding"), ("", "known are full, sliding, summ")])
def test_an_unknown_policy_names_the_nearest(name, hint):
    with pytest.raises(PolicyError, match=hint):
        policies(["full", name], paper(100))


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("authors", "cliff")])
def test_only_cliff_has_auto(name):
    (cliff,) = policies(["cliff@auto"], paper(100))
    assert (cliff.name, cliff.config.auto) == ("cliff@auto", True)
    with pytest.raises(PolicyError, match=f"policy '{name}@auto': only cliff has auto; give a number .* {name}@16000"):
        policies(["cliff@auto", f"{name}@auto"], paper(100))
    auto = CliffConfig.preset("paper", threshold_tokens="auto")
    assert policies([name], auto)[0].name == name, "with --threshold auto it runs at the default"


@pytest.mark.parametrize("name", OURS)
def test_a_policy_starts_again_for_the_next_session(name):
    """Also in the middle of the same one, and for a history that is shorter than the last."""
    (policy,) = policies([name], paper(180))
    views = []
    for _ in range(2):
        started(policy, HISTORY)
        views.append([policy.view(HISTORY[:size], 100) for size in (1, 3, 7, 9, 13)])
    assert [view.messages for view in views[0]] == [view.messages for view in views[1]]
    assert policy.view(HISTORY[:3], 100).messages == HISTORY[:3]


@pytest.mark.parametrize("name", OURS)
def test_what_a_policy_counts_is_what_it_sends(name):
    (policy,) = policies([name], paper(180))
    meter = Meter(dialect("chat"))
    policy.start(session(HISTORY), meter)
    for size in (1, 3, 5, 7, 9, 11, 13):
        view = policy.view(HISTORY[:size], 100)
        sent = 100 + sum(map(meter.tokens, view.messages))
        assert sent <= view.tokens <= sent + 20, "a block is counted as the sum of its parts"
        assert name == "cliff" or view.tokens == sent


def test_full_sends_everything():
    policy = started(Full(paper(50)), HISTORY)
    for size in (1, 3, 13):
        view = policy.view(HISTORY[:size], 100)
        assert view.messages == HISTORY[:size]
        assert view.tokens == 100 + 14 + 30 * (size // 2)
        assert view.cliff is None
    assert policy.view(HISTORY[:3], 100).tokens == 144, "a history that is shorter again"


def test_sliding_keeps_the_head_and_the_newest_turns_that_fit():
    policy = started(Sliding(paper(180)), HISTORY)  # 100 fixed, 14 head, two turns of 30
    assert policy.view(HISTORY[:5], 100).messages == HISTORY[:5]
    assert policy.view(HISTORY[:5], 100).tokens == 174
    view = policy.view(HISTORY[:7], 100)
    assert view.messages == [HISTORY[0], *HISTORY[3:7]]
    assert view.tokens == 174
    view = policy.view(HISTORY[:13], 100)
    assert view.messages == [HISTORY[0], *HISTORY[9:13]]
    assert view.tokens == 174
    assert policy.view(HISTORY[:13], 100) == view


def test_sliding_keeps_at_least_the_newest_turn():
    policy = started(Sliding(paper(10)), HISTORY)
    assert policy.view(HISTORY, 100).messages == [HISTORY[0], *HISTORY[-2:]]


def test_sliding_never_moves_back():
    """A long result goes; when there is room again, what went before it does not come back."""
    history = [text("user", 10), call(1), result(1, 20), call(2), result(2, 120), call(3), result(3, 1)]
    policy = started(Sliding(paper(60)), history)
    assert policy.view(history[:3], 0).messages == history[:3]
    assert policy.view(history[:5], 0).messages == [history[0], *history[3:5]]
    assert policy.view(history[:7], 0).messages == [history[0], *history[5:7]]


def test_sliding_begins_again_for_a_history_that_is_shorter():
    policy = started(Sliding(paper(80)), HISTORY)
    policy.view(HISTORY, 0)
    assert policy.view(HISTORY[:5], 0).messages == HISTORY[:5]


def test_sliding_parts_no_call_from_its_result():
    history = [text("user", 10), call(1), call(2), result(2, 50), call(3), result(1, 20), result(3, 1), call(4)]
    policy = started(Sliding(paper(60)), history)
    # The first turn alone would do, but its call 1 gets its result in the second.
    assert policy.view(history[:-1], 0).messages == history[:-1]
    assert policy.view(history, 0).messages == [history[0], history[-1]]


def test_sliding_takes_turns_of_text_alone():
    history = [text("user", 10)]
    for _ in range(4):
        history += [text("assistant", 20), text("user", 5)]
    policy = started(Sliding(paper(50)), history)
    assert policy.view(history, 0).messages == [history[0], *history[7:]]


def test_sliding_in_preset_default_has_the_threshold_that_cliff_has():
    config = CliffConfig.preset("default", threshold_tokens=100)
    policy = started(Sliding(config), HISTORY)
    # T_min = (0 + 14 + 2 000) / 0.85: nothing has to go.
    assert policy.view(HISTORY, 0).messages == HISTORY


def test_sliding_and_cliff_stay_below_what_the_provider_takes():
    for policy, size in ((Sliding(paper(10_000)), 5), (CliffPolicy(paper(10_000)), 9)):
        policy.start(session(HISTORY), Meter(dialect("chat")), limit=190)  # 95 % of it: 180
        assert policy.view(HISTORY[:5], 100).messages == HISTORY[:5], "174 tokens"
        assert len(policy.view(HISTORY[:7], 100).messages) == size - (policy.name == "cliff") * 2
    assert policy.view(HISTORY, 100).view.threshold == 180


def test_cliff_is_the_compactor_with_the_meters_counts():
    history = [text("user", 10)]
    for turn in range(1, 6):
        history += [call(turn), result(turn, 200)]
    policy = CliffPolicy(paper(1500))
    policy.start(session(history), Meter(dialect("chat"), ratio=2.0))
    view = policy.view(history[:7], 10)
    assert view.cliff is None
    # Texts count twice: 10 fixed, head 24, turns of (4 + 4) + (4 + 400).
    assert view.tokens == view.view.tokens == 10 + 24 + 3 * 412
    cut = policy.view(history[:9], 10)
    assert cut.cliff is not None
    assert cut.cliff.tokens_before == 10 + 24 + 4 * 412
    assert cut.messages[0] == history[0]
    assert cut.messages[2:] == history[3:9]


def test_a_view_of_no_tokens_is_a_view():
    view = started(CliffPolicy(paper(100)), []).view([], 0)
    assert (view.tokens, view.view.failed) == (0, False)


def test_cliff_where_it_cannot_be_done(caplog, monkeypatch):
    policy = started(CliffPolicy(paper(100)), HISTORY)
    monkeypatch.setattr(policy._compactor, "_view", lambda: 1 / 0)
    view = policy.view(HISTORY, 0)
    assert view.messages == HISTORY
    assert view.view is None, "what it says of head and threshold means nothing"
    assert "ZeroDivisionError" in caplog.text


# --- clear-tools ----------------------------------------------------------------------------------

# The placeholder has 4 tokens: a cleared result of 24 has 8 then.
PLACEHOLDER_TOKENS = Meter(dialect("chat")).count_many([CLEARED])[0]


def contents(view):
    return [message if isinstance(message, Message) else message["role"] for message in view.messages]


def cleared(number):
    return Message("tool", (ToolResult(CLEARED, f"c{number}"),), 4 + PLACEHOLDER_TOKENS)


def test_clear_tools_above_the_trigger_all_but_the_newest():
    policy = started(ClearTools(paper(200)), HISTORY)
    assert policy.view(HISTORY[:7], 100).messages == HISTORY[:7], "204 of 200, but no more than three results"
    view = policy.view(HISTORY[:9], 100)
    assert view.messages == [*HISTORY[:2], cleared(1), *HISTORY[3:9]]
    assert view.tokens == 100 + 14 + 4 * 30 - (20 - PLACEHOLDER_TOKENS)
    assert not view.compacted, "it happens at each request: no cliff"
    view = policy.view(HISTORY[:13], 100)
    assert [m for m in contents(view) if isinstance(m, Message)] == [cleared(1), cleared(2), cleared(3)]
    assert view.messages[7:] == HISTORY[7:13]


def test_clear_tools_is_not_triggered_by_what_is_left():
    """The trigger looks at the history as the client has it: once above it, always above it."""
    policy = started(ClearTools(paper(200), Settings(clear_keep=1)), HISTORY)
    sizes = [policy.view(HISTORY[:size], 100).tokens for size in (5, 7, 9, 11)]
    gone = 20 - PLACEHOLDER_TOKENS
    assert sizes == [174, 204 - 2 * gone, 234 - 3 * gone, 264 - 4 * gone]
    assert sizes[2] < 200


def test_clear_tools_clears_nothing_where_that_is_too_little():
    gone = 20 - PLACEHOLDER_TOKENS
    policy = started(ClearTools(paper(150), Settings(clear_at_least=2 * gone)), HISTORY)
    assert policy.view(HISTORY[:9], 100).messages == HISTORY[:9], "one could go"
    assert policy.view(HISTORY[:11], 100).tokens == 264 - 2 * gone


def test_clear_tools_by_the_number_of_uses():
    policy = started(ClearTools(paper(10_000), Settings(clear_trigger_uses=4, clear_keep=2)), HISTORY)
    assert policy.view(HISTORY[:9], 0).messages == HISTORY[:9]
    assert policy.view(HISTORY[:11], 0).tokens == 164 - 3 * (20 - PLACEHOLDER_TOKENS)


def test_clear_tools_leaves_excluded_tools():
    history = [*HISTORY[:1]]
    for turn in range(1, 5):
        made = call(turn)
        made["tool_calls"][0]["function"]["name"] = "memory" if turn == 1 else "bash"
        history += [made, result(turn, 20)]
    policy = started(ClearTools(paper(50), Settings(clear_keep=2, clear_exclude=("memory",))), history)
    assert policy.view(history, 0).messages == [*history[:4], cleared(2), *history[5:]]


def test_clear_tools_with_the_inputs():
    policy = started(ClearTools(paper(50), Settings(clear_keep=5, clear_inputs=True)), HISTORY)
    view = policy.view(HISTORY, 0)
    # `{}` is one token, as `hello` is.
    assert view.messages[1] == Message("model", (ToolCall("bash", {}, "c1"),), 6)
    assert view.messages[2:] == [cleared(1), *HISTORY[3:]]


def test_clear_tools_clears_one_of_several_results_in_a_message():
    def use(number):
        return {"type": "tool_use", "id": f"c{number}", "name": "bash", "input": {"command": "hello"}}

    def returned(number):
        return {"type": "tool_result", "tool_use_id": f"c{number}", "content": "hello " * 20}

    history = [
        text("user", 10),
        {"role": "assistant", "content": [use(1), use(2)]},
        {"role": "user", "content": [returned(1), returned(2)]},
        {"role": "assistant", "content": [use(3)]},
        {"role": "user", "content": [returned(3)]},
    ]
    policy = ClearTools(paper(50), Settings(clear_keep=2))
    policy.start(session(history), Meter(dialect("anthropic")))
    view = policy.view(history, 0)
    assert [c.text for c in view.messages[2].contents] == [CLEARED, "hello " * 20]
    assert [*view.messages[:2], *view.messages[3:]] == [*history[:2], *history[3:]]


# --- summarize, microcompact ----------------------------------------------------------------------


def said(previous, messages):
    """A summarizer: 10 words, and what it was given."""
    said.given.append((previous, len(messages)))
    return " ".join(["short"] * 10)


@pytest.fixture(autouse=True)
def nothing_said_yet():
    said.given = []


def summary(words=10):
    return Message("user", (Note(" ".join(["short"] * words), "summary"),), words + 4)


def test_summarize_keeps_head_and_newest_turns():
    policy = started(Summarize(paper(270), summarizer=said), HISTORY)
    assert policy.note == ""
    assert policy.view(HISTORY[:11], 100).messages == HISTORY[:11]
    view = policy.view(HISTORY[:13], 100)  # 294
    # Three turns live: 100 + 14 + 90 are more than 3/4 of 270, two are not.
    assert view.messages == [HISTORY[0], summary(), *HISTORY[9:13]]
    assert view.tokens == 100 + 14 + 14 + 60
    assert view.compacted
    assert said.given == [("", 8)]
    (asked,) = view.auxiliary
    assert asked.messages == [*HISTORY[:13], Message("user", (Note(INSTRUCTION, "instruction"),))]
    assert asked.output == "short " * 9 + "short"


def test_summarize_folds_the_summary_into_the_next():
    history = list(HISTORY)
    for turn in range(7, 13):
        history += [call(turn), result(turn, 20)]
    policy = started(Summarize(paper(270), summarizer=said), history)
    views = [policy.view(history[:size], 100) for size in range(1, len(history) + 1, 2)]
    # 188 after a cliff; the third turn more is above 270 again, and again two stay.
    assert [1 + 2 * n for n, view in enumerate(views) if view.compacted] == [13, 19, 25]
    assert said.given == [("", 8), ("short " * 9 + "short", 6), ("short " * 9 + "short", 6)]
    assert views[-1].messages == [history[0], summary(), *history[21:]]
    assert views[10].messages == [history[0], summary(), *history[15:21]], "until then it is appended to"
    assert not views[10].auxiliary


def test_summarize_parts_no_call_from_its_result():
    history = [text("user", 10), call(1), call(2), result(2, 50), call(3), result(1, 20), result(3, 1), call(4)]
    policy = started(Summarize(paper(60), summarizer=said), history)
    assert policy.view(history[:-1], 0).messages == history[:-1]
    assert policy.view(history, 0).messages == [history[0], summary(), history[-1]]


def test_summarize_has_nothing_to_summarize_in_one_turn():
    policy = started(Summarize(paper(10), summarizer=said), HISTORY)
    assert policy.view(HISTORY[:3], 100).messages == HISTORY[:3]
    assert said.given == []


def test_the_stand_in_keeps_the_first_share_of_each_text():
    stand_in = StandIn(0.25)
    messages = [Message("model", (ToolCall("bash", "12345678"),)), Message("tool", (ToolResult("abcdefghi"),))]
    assert stand_in("", messages) == "b\n12\nabc"
    assert stand_in("wxyz", messages[1:]) == "w\nabc"
    assert stand_in.note == "summaries by a stand-in that keeps the first 25% of each text, not by a model"
    assert StandIn(0)("abc", messages) == ""
    assert Summarize(paper(10), Settings(summary_share=0.3)).note == StandIn(0.3).note
    assert Microcompact(paper(10)).note == StandIn(0.1).note, "labelled"
    with pytest.raises(ValueError, match=r"from 0 to 1, not 1\.5"):
        StandIn(1.5)


def test_microcompact_clears_first():
    history = [text("user", 10)]
    for turn in range(1, 7):
        history += [call(turn), result(turn, 60)]  # 6 + 64
    policy = started(Microcompact(paper(400), Settings(clear_keep=1), summarizer=said), history)
    assert policy.view(history[:11], 0).messages == history[:11]
    view = policy.view(history, 0)  # 434: at most 300 must be left
    assert contents(view)[2::2] == [cleared(1), cleared(2), cleared(3), cleared(4), cleared(5), "tool"]
    assert view.tokens == 434 - 5 * (60 - PLACEHOLDER_TOKENS)
    assert (view.compacted, view.auxiliary, said.given) == (True, (), [])
    again = policy.view(history, 0)
    assert (again.messages, again.compacted) == (view.messages, False), "what is cleared stays cleared"


def test_microcompact_summarizes_what_clearing_leaves():
    policy = started(Microcompact(paper(270), Settings(clear_keep=5), summarizer=said), HISTORY)
    view = policy.view(HISTORY, 100)
    assert view.messages == [HISTORY[0], summary(), *HISTORY[9:]]
    assert view.tokens == 100 + 14 + 14 + 60
    assert view.compacted
    assert view.auxiliary[0].messages[2] == cleared(1), "the model that summarizes no longer sees it either"

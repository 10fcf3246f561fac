"""Views by hand: a message of n words has n + 4 tokens."""

from pathlib import Path

import pytest

from cliff_core.config import CliffConfig
from cliff_core.dialects import dialect
from cliff_core.ledger import Meter
from cliff_core.policies import POLICIES, CliffPolicy, Full, PolicyError, Sliding, policies
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


def test_registry():
    assert list(POLICIES) == ["full", "sliding", "cliff"]
    made = policies(["cliff", "full", "cliff"], paper(100))
    assert [policy.name for policy in made] == ["cliff", "full"]
    assert all(policy.name == name for name, policy in zip(POLICIES, policies(POLICIES, paper(100)), strict=True))


def test_no_policy_at_all():
    with pytest.raises(PolicyError, match="no policy is named; known are full, sliding, cliff"):
        policies([], paper(100))


@pytest.mark.parametrize(("name", "hint"), [("slidng", "did you mean sliding"), ("", "known are full, sliding, cliff")])
def test_an_unknown_policy_names_the_nearest(name, hint):
    with pytest.raises(PolicyError, match=hint):
        policies(["full", name], paper(100))


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
    # T_min = (0 + 14 + 2 000) / 0.75: nothing has to go.
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

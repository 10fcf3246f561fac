"""Replays: by hand (a message of n words has n + 4 tokens), and of recorded sessions."""

from pathlib import Path

import pytest

from cliff_core import decision
from cliff_core import traces as readers
from cliff_core.config import CliffConfig
from cliff_core.dialects import dialect
from cliff_core.ledger import CacheRules, Entry, Meter, Tariff
from cliff_core.policies import CliffPolicy, policies
from cliff_core.prices import Model
from cliff_core.replay import Scale, limit_of, measure, model_of, replay, view_at
from cliff_core.traces import Request, Session, Usage


def text(role, words):
    return {"role": role, "content": " ".join(["hello"] * words)}


def usage(tokens, cached=None):
    return Usage(tokens, cached)


def session(messages, requests, **more):
    return Session(Path("x.json"), "test", "chat", messages, requests, **more)


def alternating(turns, words=996):
    """A task of 14 tokens; each turn a reply of 1 000 and an answer of 1 000."""
    messages = [text("user", 10)]
    for _ in range(turns):
        messages += [text("assistant", words), text("user", words)]
    return messages


def run(known, *names, **options):
    config = CliffConfig.preset("paper", **options)
    return replay(known, policies(names or ["full"], config), config)


# --- the scale ------------------------------------------------------------------------------------


def scale(known):
    return measure(known, Meter(dialect("chat")))


def test_fixed_part_and_ratio_from_recorded_usage():
    messages = alternating(3)
    # Our texts: 10, 2 002, 3 994. The provider has 1.25 times as many, 4 a message, and 500 beside them.
    sizes = {1: 10, 3: 2002, 5: 3994}
    known = session(messages, [Request(at, usage(500 + 4 * at + round(1.25 * size))) for at, size in sizes.items()])
    found = scale(known)
    assert found == Scale(500, "recorded", pytest.approx(1.25, abs=0.001), 3)
    done = run(known)
    assert [entry.tokens for entry in done.full.entries] == [r.usage.input_tokens for r in known.requests]
    assert done.recorded.difference == 0


def test_the_ratio_is_taken_from_the_first_ten():
    messages = alternating(20)
    requests = []
    for turn in range(20):
        at = 1 + 2 * turn
        text_tokens = 10 + 996 * 2 * turn
        # From the eleventh on the provider counts twice as much.
        requests.append(Request(at, usage(100 + 4 * at + text_tokens * (1 if turn < 10 else 2))))
    assert scale(session(messages, requests)) == Scale(100, "recorded", 1.0, 10)


def test_there_is_no_ratio_without_growth():
    known = session([text("user", 10)], [Request(1, usage(100)), Request(1, usage(900))])
    assert scale(known) == Scale(86, "recorded", 1.0, 2)


def test_a_fixed_part_is_never_negative():
    known = session([text("user", 100)], [Request(1, usage(50))])
    assert scale(known).fixed_tokens == 0


def test_without_usage_the_fixed_part_is_what_the_file_stores():
    requests = [Request(1)]
    messages = [text("user", 10)]
    assert scale(session(messages, requests)) == Scale(0, "unknown")
    system = " ".join(["hello"] * 50)
    assert scale(session(messages, requests, system=system)) == Scale(50, "stored")
    blocks = [{"type": "text", "text": system}, {"type": "text", "text": "hello"}]
    assert scale(session(messages, requests, system=blocks)) == Scale(51, "stored")
    tools = [{"name": "bash"}]
    with_tools = scale(session(messages, requests, system=system, tools=tools))
    assert with_tools.fixed_source == "stored"
    assert 50 < with_tools.fixed_tokens < 65


def test_requests_that_cannot_be_compared_are_no_measure():
    requests = [Request(1, usage(100)), Request(3, usage(50))]
    messages = alternating(1)
    assert scale(session(messages, requests, comparable=0)) == Scale(0, "unknown")
    assert run(session(messages, requests, comparable=0)).recorded is None
    one = run(session(messages, requests, comparable=1)).recorded
    assert (one.requests, one.input_tokens, one.full_tokens) == (1, 100, 100)


# --- what is compared -----------------------------------------------------------------------------


def test_figures_of_a_small_session():
    """100 fixed, a task of 14; two turns of a reply (24) and an answer (34)."""
    messages = [text("user", 10), *[text("assistant", 20), text("user", 30)] * 2]
    known = session(
        messages, [Request(at, usage(172, 90) if at == 3 else usage(114, 0)) for at in (1, 3)] + [Request(5)]
    )
    done = run(known, "full", threshold_tokens=100_000)
    assert done.full.entries == (Entry(114, 0), Entry(172, 114), Entry(230, 172))
    assert done.full is done.results["full"]
    assert (done.full.input_tokens, done.full.cached_tokens, done.full.peak_tokens) == (516, 286, 230)
    assert done.full.cost(Tariff(1, 0.2)) == pytest.approx((230 + 286 * 0.2) / 1e6)
    recorded = done.recorded
    assert (recorded.requests, recorded.input_tokens, recorded.cached_tokens) == (2, 286, 90)
    assert recorded.difference == 0


def test_full_is_the_baseline_whether_or_not_it_is_asked_for():
    known = session(alternating(2), [Request(1), Request(3), Request(5)])
    done = run(known, "sliding", threshold_tokens=3000)
    assert list(done.results) == ["sliding"]
    assert done.full.input_tokens == 14 + 2014 + 4014
    assert done.results["sliding"].input_tokens == 14 + 2014 + 2014


def test_sliding_is_found_in_the_cache_up_to_the_head():
    known = session(alternating(3), [Request(1), Request(3), Request(5), Request(7)])
    done = run(known, "sliding", threshold_tokens=3000)
    # Turns of the same words: what follows the head begins as the turn that was there before.
    assert [entry.tokens for entry in done.results["sliding"].entries] == [14, 2014, 2014, 2014]


def test_rules_of_the_cache_are_applied():
    known = session(alternating(2), [Request(1), Request(3), Request(5)])
    config = CliffConfig.preset("paper")
    done = replay(known, policies(["full"], config), config, CacheRules(1024, 128))
    assert [entry.cached for entry in done.full.entries] == [0, 0, 1920]
    assert [entry.written for entry in done.full.entries] == [False, True, True]


def test_cliffs_are_noted_with_their_request():
    messages = [text("user", 10)]
    for turn in range(8):
        function = {"name": "bash", "arguments": "hello"}
        messages.append({"role": "assistant", "tool_calls": [{"id": str(turn), "function": function}]})
        messages.append({"role": "tool", "tool_call_id": str(turn), "content": " ".join(["hello"] * 400)})
    known = session(messages, [Request(1 + 2 * turn) for turn in range(9)])
    config = CliffConfig.preset("paper", threshold_tokens=2300)
    done = replay(known, policies(["cliff"], config), config)
    result = done.results["cliff"]
    # A turn has 410 tokens: 14 + 6 * 410 is above the threshold; later a block comes to three or more turns.
    assert result.cliffs[0][0] == 7
    assert [cliff.number for _, cliff in result.cliffs] == list(range(1, len(result.cliffs) + 1))
    assert result.threshold == 2300
    assert result.smallest_threshold == decision.smallest_threshold(config, 14) == 2370
    for request, cliff in result.cliffs:
        entry = result.entries[request - 1]
        assert entry.cached >= 14
        # The block is counted as a whole here, by the compactor as the sum of its parts.
        assert 0 <= cliff.tokens_after - entry.tokens <= 20
    view, meter = view_at(known, CliffPolicy(config), 7)
    assert view.cliff == result.cliffs[0][1]
    assert sum(map(meter.tokens, view.messages)) == result.entries[6].tokens


def test_the_model_of_a_session():
    requests = [Request(1, model="a"), Request(1, model="b"), Request(1, model="b")]
    assert model_of(session([], requests, model="c")) == "c"
    assert model_of(session([], requests)) == "b"
    assert model_of(session([], [])) is None


def model(window, answer):
    return Model("m", "p", None, window, answer)


@pytest.mark.parametrize(
    ("window", "answer", "threshold"),
    [
        (200_000, 64_000, 126_000),
        (272_000, 128_000, 130_400),
        (131_072, 8_192, 116_326),  # 5 % are 6 553.6
        (128_000, None, 121_600),
        (262_144, 262_144, 117_964),  # a table with the window as the longest answer
    ],
)
def test_the_threshold_leaves_room_for_the_answer(window, answer, threshold):
    config = CliffConfig.preset("paper", threshold_tokens=10_000_000)
    assert decision.effective_threshold(config, 0, limit_of(model(window, answer))) == threshold


def test_the_limit_is_exact_for_every_window():
    config = CliffConfig.preset("paper", threshold_tokens=10_000_000)
    for window in range(1_000, 3_000):
        room = window - 100 - -(-window // 20)
        assert decision.effective_threshold(config, 0, limit_of(model(window, 100))) == room


@pytest.mark.parametrize("known", [None, model(None, 1000), model(0, 0), model(-1, 0)])
def test_no_limit_is_known(known):
    assert limit_of(known) is None


def test_a_replay_keeps_the_limit_of_the_model():
    known = session(alternating(8), [Request(1 + 2 * turn) for turn in range(9)])
    config = CliffConfig.preset("paper", threshold_tokens=100_000)
    limit = limit_of(model(12_000, 2_000))  # 9 400
    done = replay(known, policies(["cliff", "sliding", "full"], config), config, limit=limit)
    assert done.results["cliff"].threshold == 9_400
    assert done.results["cliff"].peak_tokens <= 9_400
    assert done.results["sliding"].peak_tokens <= 9_400
    assert done.full.peak_tokens == 16_014
    request, cliff = done.results["cliff"].cliffs[0]
    assert cliff.reason == "limit"
    assert view_at(known, CliffPolicy(config), request, limit)[0].cliff == cliff
    small = CliffConfig.preset("paper", threshold_tokens=8_000)
    runs = [replay(known, policies(["cliff", "sliding"], small), small, limit=one).results for one in (None, limit)]
    assert runs[0] == runs[1], "a threshold below the limit is what it was"


def test_a_session_without_requests():
    done = run(session([text("user", 10)], []), "full", "sliding", "cliff")
    assert all(result.input_tokens == result.peak_tokens == 0 for result in done.results.values())
    assert done.results["cliff"].smallest_threshold is None
    assert done.recorded is None


# --- recorded sessions (issue 2, sections 4 and 6) ------------------------------------------------


def recorded(traces, name):
    (known,) = [s for path in readers.discover([traces / name]) for s in readers.read(path)]
    return known


@pytest.mark.parametrize(("threshold", "share", "cliffs"), [(16_000, 0.30, range(6, 12)), (32_000, 0.46, range(2, 5))])
def test_astroid_in_preset_paper(traces, threshold, share, cliffs):
    config = CliffConfig.preset("paper", threshold_tokens=threshold)
    done = replay(recorded(traces, "mini_v2/astroid-1333"), policies(["cliff", "sliding"], config), config)
    tariff = Tariff(1, 0.2)
    cliff, sliding, full = done.results["cliff"], done.results["sliding"], done.full
    assert cliff.cost(tariff) < share * full.cost(tariff)
    assert len(cliff.cliffs) in cliffs
    assert sliding.cost(tariff) > 2 * cliff.cost(tariff), "it breaks the cache at every request"
    assert sliding.peak_tokens <= threshold


@pytest.mark.parametrize("name", ["astroid-1333", "reasoner-sqlfluff-1733"])
def test_full_is_within_5_percent_of_the_recorded_usage(traces, name):
    config = CliffConfig.preset("paper")
    known = recorded(traces, f"mini_v2/{name}")
    done = replay(known, policies(["full"], config), config)
    assert done.recorded.requests == len(known.requests)
    assert abs(done.recorded.difference) <= 0.05
    assert done.scale.fixed_source == "recorded"
    assert 100 < done.scale.fixed_tokens < 600, "the schema of the tool bash"
    # The simulated cache is that of the provider: 98 and 99 % were cached.
    shares = (
        done.full.cached_tokens / done.full.input_tokens,
        done.recorded.cached_tokens / done.recorded.input_tokens,
    )
    assert abs(shares[0] - shares[1]) < 0.02


@pytest.mark.parametrize("preset", ["paper", "default"])
def test_every_recorded_session(session_path, preset):
    """No session fails, and what must hold of the figures of any policy does."""
    config = CliffConfig.preset(preset, threshold_tokens=16_000)
    chosen = policies(["cliff", "full", "sliding"], config)
    for path in readers.discover([session_path]):
        for known in readers.read(path):
            done = replay(known, chosen, config)
            assert done.scale.fixed_tokens >= 0
            for name, result in done.results.items():
                assert len(result.entries) == len(known.requests), name
                assert all(0 <= entry.cached <= entry.tokens for entry in result.entries), name
                sent = zip(result.entries, done.full.entries, strict=True)
                # (The paper's rule asks for no gain: its block may be larger than the turn that it replaces.)
                assert (preset, name) == ("paper", "cliff") or all(one.tokens <= other.tokens for one, other in sent)
            if done.recorded is not None:
                assert abs(done.recorded.difference) < 0.15

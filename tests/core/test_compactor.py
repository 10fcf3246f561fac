"""The fold on the awkward histories; a character is a token, a message has 4 of its own."""

import copy
import itertools
import json
import logging

import pytest

from cliff_core import CliffConfig, Compactor, View, decision, dialect
from cliff_core.block import OPENING

CHAT = dialect("chat")
SYSTEM = {"role": "system", "content": "rules"}
TASK = {"role": "user", "content": "the task"}


def characters(texts):
    return [len(text) for text in texts]


def compactor(threshold=2_000, facts=(), preset="paper", dialect=CHAT, **options):
    config = CliffConfig.preset(preset, threshold_tokens=threshold, **options)
    return Compactor(dialect, config, facts, characters)


def step(number, result="r" * 600, calls=1):
    ids = [f"call_{number}_{n}" for n in range(calls)]
    return [
        {
            "role": "assistant",
            "content": f"thought {number}",
            "tool_calls": [
                {
                    "id": call_id,
                    "type": "function",
                    "function": {"name": "bash", "arguments": '{"command": "ls"}'},
                }
                for call_id in ids
            ],
        },
        *({"role": "tool", "tool_call_id": call_id, "content": result} for call_id in ids),
    ]


def session(steps, **arguments):
    return [SYSTEM, TASK, *(m for n in range(steps) for m in step(n, **arguments))]


def requests(history):
    """The histories that were sent: before each model step, and the last one."""
    ends = [i for i, m in enumerate(history) if m["role"] == "assistant"]
    return [history[:end] for end in [*ends, len(history)]]


def block_of(view: View):
    assert view.block is not None
    (message,) = [m for m in view.messages if m.get("content") == view.block]
    return message


def test_below_the_threshold_the_view_is_the_history():
    history = session(2)
    view = compactor().view(history, fixed_tokens=7)
    assert view.messages == history
    assert all(one is other for one, other in zip(view.messages, history, strict=True))
    assert (view.cliff, view.block, view.head, view.cut, view.size) == (None, None, 2, 2, 6)
    # system, task, then twice: thought, call name, arguments, result
    assert view.tokens == view.estimate == 7 + (4 + 5) + (4 + 8) + 2 * (4 + 9 + 4 + 17 + 4 + 600)


def test_a_cliff_keeps_head_and_newest_turns_as_they_are():
    history = session(6)
    fold = compactor()
    views = [fold.view(request) for request in requests(history)]
    cliffs = [view.cliff for view in views]
    assert [cliff and cliff.number for cliff in cliffs] == [None, None, None, None, 1, 2, 3]
    view, cliff = views[4], cliffs[4]
    assert cliff is not None
    assert view.messages[:2] == [SYSTEM, TASK]
    assert block_of(view) is view.messages[2]
    assert all(a is b for a, b in zip(view.messages[3:], history[4:10], strict=True))
    assert (cliff.cut, cliff.live_turns, cliff.reason, view.cut) == (4, 3, "threshold", 4)
    assert cliff.tokens_before == 21 + 4 * 638
    assert cliff.tokens_after == view.tokens == 21 + 3 * 638 + 4 + len(view.block)
    assert cliff.as_dict() == {
        "number": 1,
        "cut": 4,
        "live_turns": 3,
        "tokens_before": 2573,
        "tokens_after": view.tokens,
        "threshold": 2000,
        "reason": "threshold",
        "dropped": {"turns": 1, "results": 1, "characters": 600, "excerpts": 0},
    }


def test_the_block_byte_for_byte():
    history = session(4)
    view = compactor().view(history)
    assert block_of(view) == {
        "role": "user",
        "content": OPENING
        + "<turn 1>\n<thought>thought 0</thought>\n<call>bash ls</call>\n"
        + '<result dropped="600 characters"/>\n',
    }


def test_the_cliff_is_said_on_the_first_view_of_a_growth_segment_only():
    history = session(12)
    fold = compactor(threshold=4_000)
    numbers = [view.cliff and view.cliff.number for view in map(fold.view, requests(history))]
    assert numbers == [*[None] * 7, 1, None, None, 2, None, None]
    assert compactor(threshold=4_000).view(history).cliff is None


def test_between_cliffs_views_are_append_only():
    fold = compactor(threshold=2_000, preset="default")
    views = [fold.view(request) for request in requests(session(30))]
    assert sum(view.cliff is not None for view in views) >= 5
    for before, after in itertools.pairwise(views):
        if after.cliff is None:
            assert after.messages[: len(before.messages)] == before.messages


def test_the_previous_block_is_discarded():
    fold = compactor(threshold=2_000)
    blocks = [view.block for view in map(fold.view, requests(session(20))) if view.cliff]
    for older, newer in itertools.pairwise(blocks):
        turns = [line for line in older.splitlines() if line.startswith("<turn ")]
        assert not any(turn in newer for turn in turns)


def test_a_cold_start_at_any_point_gives_the_same_bytes():
    fold = compactor(threshold=1_700, preset="default")
    for request in requests(session(15, calls=2)):
        warm = fold.view(request)
        cold = compactor(threshold=1_700, preset="default").view(request)
        assert json.dumps(cold.messages) == json.dumps(warm.messages)
        assert cold.tokens == warm.tokens


def test_the_history_is_not_touched():
    history = session(12)
    before = copy.deepcopy(history)
    fold = compactor()
    for request in requests(history):
        fold.view(request)
    assert history == before


# --- awkward histories ---------------------------------------------------------------------------------------


def test_a_request_without_an_answer_is_decided_again():
    history = session(4)
    fold = compactor()
    tentative = fold.view(history)
    assert tentative.cliff is not None
    grown = [*history, {"role": "user", "content": "also " * 10}]
    view = fold.view(grown)
    assert view.cliff is not None
    assert view.cliff.number == 1
    assert view.messages == compactor().view(grown).messages
    assert view.messages[-1] is grown[-1]


def test_parallel_results_that_arrive_one_at_a_time():
    history = session(5, calls=2)
    cold = compactor().view(history)
    fold = compactor()
    for end in range(1, len(history) + 1):
        view = fold.view(history[:end])
        calls = {c["id"] for m in view.messages for c in m.get("tool_calls", ())}
        results = {m["tool_call_id"] for m in view.messages if m["role"] == "tool"}
        assert results <= calls
    assert view.messages == cold.messages


def test_an_edited_last_message_restarts_from_the_last_checkpoint():
    history = session(8)
    fold = compactor()
    fold.view(history)
    edited = [*history[:-1], {**history[-1], "content": "another"}]
    assert fold.view(edited).messages == compactor().view(edited).messages
    shorter = history[:9]
    assert fold.view(shorter).messages == compactor().view(shorter).messages
    assert fold.view(history).messages == compactor().view(history).messages


def test_a_prefilled_reply_gets_the_view_of_its_step():
    history = session(4)
    prefilled = [*history, {"role": "assistant", "content": "I will"}]
    fold = compactor()
    sent, continued = fold.view(history), fold.view(prefilled)
    assert sent.cliff is not None
    assert continued.messages == [*sent.messages, prefilled[-1]]
    whole = [*history, {"role": "assistant", "content": "I will do it"}, TASK]
    assert fold.view(whole).messages == compactor().view(whole).messages


def test_a_late_result_is_never_parted_from_its_call():
    asked = step("slow")
    late = {"role": "tool", "tool_call_id": "call_slow_0", "content": "late"}
    history = [SYSTEM, TASK, asked[0], *(m for n in range(6) for m in step(n)), late]
    history += [m for n in range(7, 10) for m in step(n)]
    fold = compactor()
    for request in requests(history):
        view = fold.view(request)
        calls = [c["id"] for m in view.messages for c in m.get("tool_calls", ())]
        assert all(m["tool_call_id"] in calls for m in view.messages if m["role"] == "tool")
        if late not in request:
            assert view.messages == request, "no cut while the call is open"
    assert view.block is not None


def test_repeated_call_ids_pair_by_position():
    history = [SYSTEM, TASK, *(step("same") * 9)]
    view = compactor().view(history)
    assert view.block is not None
    assert view.block.count("<call>bash ls</call>\n<result") == view.block.count("<call>")


def test_no_user_message():
    history = [SYSTEM, *(m for n in range(6) for m in step(n))]
    view = compactor().view(history)
    assert view.head == 1
    assert view.messages[0] is SYSTEM
    assert block_of(view) is view.messages[1]
    assert all(a is b for a, b in zip(view.messages[2:], history[-6:], strict=True))


def test_a_greeting_before_the_task_is_part_of_the_head():
    greeting = {"role": "assistant", "content": "Hello, what shall I do?"}
    history = [SYSTEM, greeting, TASK, *(m for n in range(6) for m in step(n))]
    view = compactor().view(history)
    assert view.messages[:3] == [SYSTEM, greeting, TASK]
    assert block_of(view) is view.messages[3]


def test_a_turn_larger_than_the_threshold():
    huge = [*session(1), *step(1, result="x" * 5_000)]
    view = compactor(preset="default", path_index_chars=0).view(huge)
    assert view.messages == huge, "a cut would free too little"
    huge = [*session(3), *step(3, result="x" * 5_000)]
    paper = compactor().view(huge)
    assert paper.cliff is not None
    assert paper.messages[-1] is huge[-1]
    on = [*huge, *step(4), *step(5)]
    assert compactor(preset="default").view(on).tokens <= 3_000


def test_a_growing_tool_list():
    history = session(9)
    fold = compactor(threshold=2_000)
    views = [fold.view(request, fixed_tokens=300 if len(request) > 10 else 0) for request in requests(history)]
    facts = json.loads(json.dumps(fold.facts))
    assert facts == [{"at": 12, "kind": "fixed", "value": 300}]
    for request, view in zip(requests(history), views, strict=True):
        again = compactor(threshold=2_000, facts=[f for f in facts if f["at"] <= len(request)])
        assert again.view(request, 300 if len(request) > 10 else 0).messages == view.messages


def test_the_first_fixed_part_holds_from_the_start():
    history = session(9)
    growing = compactor(threshold=2_000)
    views = [growing.view(request, 500) for request in requests(history)]
    cold = compactor(threshold=2_000).view(history, 500)
    assert cold.messages == views[-1].messages
    assert growing.facts == [{"at": 0, "kind": "fixed", "value": 500}]


def test_cache_markers_do_not_restart_the_fold():
    anthropic = dialect("anthropic")
    text = {"type": "text", "text": "the task"}
    mark = {"cache_control": {"type": "ephemeral"}}
    parsed = []

    class Counting:
        def __getattr__(self, name):
            return getattr(anthropic, name)

        def parse(self, message):
            parsed.append(message)
            return anthropic.parse(message)

    fold = compactor(dialect=Counting())
    fold.view([{"role": "user", "content": [{**text, **mark}]}])
    grown = [
        {"role": "user", "content": "the task"},
        {"role": "assistant", "content": "hello"},
        {"role": "user", "content": [{"type": "text", "text": "more", **mark}]},
    ]
    view = fold.view(grown)
    assert parsed == [{"role": "user", "content": [{**text, **mark}]}, *grown[1:]]
    assert view.messages[0] is grown[0], "the newest copy is sent"


def test_a_request_to_the_provider_itself_gets_the_view_as_it_stands():
    responses = dialect("responses")
    history = [
        {"type": "message", "role": "user", "content": "the task"},
        *(
            item
            for n in range(6)
            for item in (
                {"type": "function_call", "call_id": f"c{n}", "name": "bash", "arguments": "{}"},
                {"type": "function_call_output", "call_id": f"c{n}", "output": "r" * 600},
            )
        ),
    ]
    fold = compactor(dialect=responses, threshold=3_200)
    before = fold.view(history[:-2])
    aside = fold.view([*history, {"type": "compaction_trigger"}])
    assert aside.messages == [*before.messages, *history[-2:], {"type": "compaction_trigger"}]
    assert fold.view(history).cliff is not None


# --- facts ---------------------------------------------------------------------------------------------------


def test_reported_usage_drives_the_threshold():
    history = session(12)
    fold = compactor(threshold=4_500)
    asked = requests(history)
    view = fold.view(asked[4])
    assert view.cliff is None
    fold.observe(view, view.estimate + 1_000)
    view = fold.view(asked[5])
    assert view.tokens == view.estimate + 1_000
    assert view.cliff is None
    assert fold.view(asked[6]).cliff is not None
    assert compactor(threshold=4_500).view(asked[6]).cliff is None
    assert fold.facts == [{"at": 10, "kind": "usage", "value": [3573, 2573]}]
    cold = compactor(threshold=4_500, facts=fold.facts)
    assert cold.view(asked[6]).messages == fold.view(asked[6]).messages


def test_a_report_that_comes_late_changes_no_decision_that_was_made():
    history = session(9)
    asked = requests(history)
    fold = compactor(threshold=5_500)
    early = fold.view(asked[2])
    views = [fold.view(request) for request in asked[3:8]]
    fold.observe(early, early.estimate + 2_000)
    later = fold.view(asked[8])
    assert later.cliff is not None
    assert all(view.cliff is None for view in views)
    assert compactor(threshold=5_500, facts=fold.facts).view(asked[8]).messages == later.messages


def test_usage_that_says_nothing_is_ignored():
    fold = compactor()
    fold.observe(fold.view(session(1)), 0)
    fold.observe(fold.view(session(1)), None)
    fold.observe(View([], 0, 0), 5)
    assert fold.facts == []


@pytest.mark.parametrize("tokens", [float("nan"), float("inf"), 2.5, -3, "12"])
def test_usage_that_is_no_number_of_tokens_is_ignored_and_said(tokens, caplog):
    fold = compactor()
    with caplog.at_level(logging.WARNING, "cliff_core"):
        fold.observe(fold.view(session(1)), tokens)
    assert fold.facts == []
    assert "is no number of tokens" in caplog.text


def test_a_limit_that_is_no_number_of_tokens_is_as_if_none_was_said():
    history = session(9)
    one, other = compactor(threshold=100_000), compactor(threshold=100_000)
    smaller = one.overflowed(history, limit=float("inf"))
    assert smaller is not None
    assert smaller.messages == other.overflowed(history).messages
    assert one.facts == other.facts


@pytest.mark.parametrize(
    "fact",
    [
        {"at": 1, "kind": "guess", "value": 2},
        {"at": "1", "kind": "fixed", "value": 2},
        {"at": 1, "kind": "usage", "value": 5},
        {"at": 1, "kind": "usage", "value": [1]},
        {"at": 1, "kind": "usage", "value": [1, float("nan")]},
        {"at": 1, "kind": "limit", "value": 0},
        {"at": 1, "kind": "forced", "value": None},
        {"at": -1, "kind": "fixed", "value": 2},
        {"at": 1, "kind": "fixed"},
        None,
    ],
)
def test_what_is_no_fact_is_rejected(fact):
    with pytest.raises(ValueError, match="not a fact of a session"):
        compactor(facts=[fact])


def test_the_name_of_a_dialect_is_rejected():
    with pytest.raises(TypeError, match="the object, in place of its name"):
        compactor(dialect="chat")


# --- rejected requests ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", ["paper", "default"])
def test_a_rejected_request_is_made_smaller_until_nothing_is_left(preset):
    history = session(5)
    fold = compactor(threshold=100_000, preset=preset)
    sizes = [fold.view(history).tokens]
    while (view := fold.overflowed(history)) is not None:
        sizes.append(view.tokens)
        assert view.cliff is not None
        assert (view.cliff.number, view.cliff.reason) == (1, "forced")
        again = compactor(threshold=100_000, preset=preset, facts=fold.facts).view(history)
        assert again.messages == view.messages
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) == len(sizes) > 2
    last = fold.view(history)
    assert last.messages[:2] == [SYSTEM, TASK]
    assert len(last.messages) == 3, "head and block"


def test_a_rejected_block_is_not_the_previous_block():
    history = session(7)
    fold = compactor(threshold=2_000)
    asked = requests(history)
    for request in asked[:-1]:
        fold.view(request)
    first = fold.view(history)
    assert first.cliff is not None
    smaller = fold.overflowed(history)
    assert smaller is not None
    assert smaller.cliff is not None
    assert smaller.cliff.number == first.cliff.number
    shown = {line for line in first.block.splitlines() if line.startswith("<turn ")}
    assert shown < {line for line in smaller.block.splitlines() if line.startswith("<turn ")}


def test_a_learned_limit_holds_from_then_on():
    history = session(30)
    fold = compactor(threshold=100_000)
    asked = requests(history)
    fold.view(asked[20])
    view = fold.overflowed(asked[20], limit=4_000)
    assert view is not None
    assert view.tokens <= 3_800
    assert view.threshold == 3_800
    sizes = [fold.view(request).tokens for request in asked[21:]]
    assert max(sizes) <= 3_800
    cold = compactor(threshold=100_000, facts=fold.facts)
    assert cold.view(history).messages == fold.view(history).messages


def test_a_cliff_that_was_forced_on_a_history_that_is_no_more_is_forgotten():
    history = session(5)
    fold = compactor(threshold=100_000)
    fold.view(history)
    assert fold.overflowed(history, limit=90_000) is not None
    edited = [*history[:-1], {**history[-1], "content": "short"}]
    assert fold.view(edited).block is None
    assert fold.facts == [{"at": 12, "kind": "limit", "value": 90_000}]


def test_nothing_to_drop():
    fold = compactor()
    assert fold.overflowed([SYSTEM, TASK]) is None
    assert fold.facts == []


# --- fail open -----------------------------------------------------------------------------------------------


def test_what_cannot_be_compacted_is_sent_as_it_is_and_said(caplog):
    class Broken:
        def __getattr__(self, name):
            return getattr(CHAT, name)

        def block_message(self, text):
            raise RuntimeError("no block today")

    history = session(6)
    fold = compactor(dialect=Broken())
    with caplog.at_level(logging.WARNING, "cliff_core"):
        view = fold.view(history)
    assert view.messages == history
    assert "no block today" in caplog.text
    assert fold.view(history[:4]).messages == history[:4]


def test_the_raised_threshold_is_told_once(caplog):
    fold = compactor(threshold=1_000, preset="default")
    with caplog.at_level(logging.WARNING, "cliff_core"):
        for request in requests(session(4)):
            view = fold.view(request, fixed_tokens=4_000)
    assert view.threshold == 7_084
    assert [record.getMessage() for record in caplog.records] == [
        "cliff: threshold_tokens=1000 is too small here: system prompt, tools and task leave too little room; "
        "7084 is used, the smallest that works"
    ]


@pytest.mark.parametrize("preset", ["paper", "default"])
def test_auto_is_a_fold_like_any_other(preset, caplog):
    history = session(60)
    warm = compactor("auto", preset=preset, cache_price_ratio=60)
    sent = [warm.view(request, 300) for request in requests(history)]
    for request, view in zip(requests(history), sent, strict=True):
        cold = compactor("auto", warm.facts, preset=preset, cache_price_ratio=60).view(request, 300)
        assert (cold.messages, cold.threshold, cold.cliff) == (view.messages, view.threshold, view.cliff)
    fixed = 300 + len("rules") + len("the task") + 2 * 4
    turn = sum(len(text) for text in ("thought 1", "bash", '{"command": "ls"}')) + 600 + 2 * 4
    grown = [decision.Grown(n, n * turn + max(0, n - 10)) for n in range(61)]  # thought 10 is longer by one
    expected = [decision.effective_threshold(warm.config, fixed, None, of_turns) for of_turns in grown]
    assert [view.threshold for view in sent] == expected
    assert expected[:5] == [32_000] * 5
    assert len(set(expected[5:])) == 1, "an even session has one threshold"
    cliffs = [view.cliff for view in sent if view.cliff]
    assert len(cliffs) >= 2
    assert {cliff.threshold for cliff in cliffs} == {expected[-1]}
    assert "too small" not in caplog.text


def test_auto_counts_what_the_provider_counts():
    """It reports twice as much as we count: so the session grows twice as fast."""
    history = session(30)
    told = compactor("auto", preset="default", cache_price_ratio=200)
    for request in requests(history):
        view = told.view(request)
        told.observe(view, 2 * view.estimate)
    doubled = session(30, result="r" * (2 * 600 + 30))
    plain = compactor("auto", preset="default", cache_price_ratio=200)
    assert (
        told.view(history).threshold
        == plain.view(doubled).threshold
        > compactor("auto", preset="default", cache_price_ratio=200).view(history).threshold
    )


def test_merge_block_keeps_the_task_as_a_prefix():
    history = session(6)
    view = compactor(merge_block=True).view(history)
    assert view.block is not None
    assert view.messages[1] == {"role": "user", "content": f"the task\n\n{view.block}"}
    assert view.messages[2] is history[-6]


def test_anthropic_system_messages_stay_between_a_user_message_and_the_model():
    """The API rejects them elsewhere, also right before or after one another."""
    environment = {"role": "system", "content": "cwd: /work"}
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}

    def turn(number, *after):
        return [
            {"role": "assistant", "content": f"thought {number} " + "t" * 900},
            {"role": "user", "content": [{"type": "text", "text": f"note {number}"}, *after]},
        ]

    tools_changed = {"role": "system", "content": [{"type": "tool_addition", "tool": {"name": "x"}}]}
    history = [
        {"role": "user", "content": "the task"},
        environment,
        *turn(0),
        *turn(1),
        tools_changed,
        *turn(2, image),
        *(m for n in range(3, 9) for m in turn(n)),
    ]
    view = compactor(preset="default", threshold=9_000, dialect=dialect("anthropic")).view(history)
    assert view.block is not None
    shape = [(m["role"], history.index(m) if m in history else "block") for m in view.messages]
    assert shape[:7] == [
        ("user", 0),
        ("user", "block"),
        ("user", 8),  # the image, before the environment
        ("system", 1),
        ("assistant", 4),  # the whole turn of the change of tools
        ("user", 5),
        ("system", 6),
    ]
    assert shape[7][0] == "assistant"
    assert view.pinned == (8, 4, 5, 6)


def test_an_older_state_of_the_session_can_be_looked_at():
    history = session(9)
    fold = compactor(threshold=2_000)
    sizes = [0, 0, 300, 300, 300]
    for end, fixed in zip((2, 4, 6, 8, 10), sizes, strict=True):
        fold.view(history[:end], fixed)
    facts = fold.facts
    assert facts == [{"at": 6, "kind": "fixed", "value": 300}]
    fold.view(history[:4], 0)
    fold.view(history[:8], 300)
    assert fold.facts == facts


def test_a_request_to_the_provider_itself_stays_in_the_history_without_a_decision():
    responses = dialect("responses")

    def turn(number):
        return [
            {"type": "function_call", "call_id": f"c{number}", "name": "bash", "arguments": "{}"},
            {"type": "function_call_output", "call_id": f"c{number}", "output": "r" * 600},
        ]

    history = [
        {"type": "message", "role": "user", "content": "the task"},
        *(item for n in range(6) for item in turn(n)),
        {"type": "compaction_trigger"},
        *turn(6),
    ]
    fold = compactor(dialect=responses, threshold=3_200)
    sent = fold.view(history[:14])
    assert sent.block is None
    grown = fold.view(history)
    assert grown.cliff is not None, "the next decision falls before the next model step"
    assert compactor(dialect=responses, threshold=3_200).view(history).messages == grown.messages


def test_an_excerpt_follows_a_late_result_that_changed():
    asked = step("slow", calls=2)
    late = {"role": "tool", "tool_call_id": "call_slow_1", "content": "RESULT-A"}
    rest = [m for n in range(6) for m in step(n)]
    history = [SYSTEM, TASK, asked[0], asked[1], *rest[:2], late, *rest[2:]]
    fold = compactor(threshold=4_000)
    assert "RESULT-A" in fold.view(history).block
    changed = [{**m, "content": "RESULT-B"} if m is late else m for m in history]
    assert fold.view(changed).messages == compactor(threshold=4_000).view(changed).messages
    assert "RESULT-B" in fold.view(changed).block


class Model:
    """A message as a client's library returns it."""

    def __init__(self, **fields):
        self.fields = fields

    def model_dump(self, exclude_none=False):
        assert exclude_none
        return {key: value for key, value in self.fields.items() if value is not None}


def test_message_objects_of_a_client_are_understood_and_sent_as_they_are():
    history = session(6)
    objects = [Model(**message, refusal=None) if message["role"] == "assistant" else message for message in history]
    view = compactor().view(objects)
    assert view.block == compactor().view(history).block
    assert view.messages[3] is objects[-6]


def test_another_object_is_no_message_and_said(caplog):
    history = [*session(6), object()]
    with caplog.at_level(logging.WARNING, "cliff_core"):
        view = compactor().view(history)
    assert view.failed
    assert view.messages == history
    assert "a message is a object; pass dicts, or objects with model_dump()" in caplog.text


@pytest.mark.parametrize("first", [None, 5, "text", [], {"role": "user", "content": ({"type": "text", "text": "t"},)}])
def test_merge_block_with_an_odd_first_message(first):
    history = [first, *session(6)[1:]]
    view = compactor(merge_block=True).view(history)
    assert not view.failed
    assert view.block is not None


# --- a provider's own compaction ------------------------------------------------------------------------------


def test_the_block_stands_behind_a_providers_compaction():
    """The provider ignores what stands before its compaction."""
    responses = dialect("responses")

    def item(number):
        call = {"type": "function_call", "call_id": f"c{number}", "name": "ls", "arguments": "{}"}
        output = {"type": "function_call_output", "call_id": f"c{number}", "output": "r" * 600}
        return [call, output]

    def user(content):
        return {"type": "message", "role": "user", "content": content}

    image = user([{"type": "input_image", "image_url": "data:image/png;base64,"}])
    compaction = {"type": "compaction", "encrypted_content": "e" * 400}
    history = [user("the task"), *item(0), image, compaction, *item(1), *(m for n in range(2, 8) for m in item(n))]
    view = compactor(preset="default", threshold=4_500, dialect=responses).view(history)
    assert view.block is not None
    assert view.pinned == (4, 3)
    places = [history.index(m) if m in history else "block" for m in view.messages]
    assert places[:4] == [0, 4, "block", 3]


def test_the_block_stands_behind_a_compaction_with_its_calls_and_before_a_system_message():
    """Anthropic's compaction is a part of a model message; a system message must stand before a model message."""
    call = {"type": "tool_use", "id": "t", "name": "Read", "input": {}}
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "r" * 600}]}
    task = {"role": "user", "content": "the task"}
    environment = {"role": "system", "content": "environment"}
    compacted = {"role": "assistant", "content": [{"type": "compaction", "content": "what was before"}, call]}
    tools_changed = {"role": "system", "content": [{"type": "tool_addition", "tool": {"name": "Web"}}]}
    turn = [{"role": "assistant", "content": [call]}, result]
    history = [task, environment, compacted, result, tools_changed, *(m for _ in range(9) for m in copy.deepcopy(turn))]
    view = compactor(preset="default", threshold=5_000, dialect=dialect("anthropic")).view(history)
    assert view.block is not None
    assert [m["role"] for m in view.messages[:7]] == [
        "user",
        "system",
        "assistant",
        "user",
        "user",
        "system",
        "assistant",
    ]
    assert view.messages[2] is compacted
    assert view.messages[4]["content"] == view.block
    assert view.messages[5] is tools_changed


def test_the_block_stands_behind_a_compaction_with_which_the_history_begins():
    history = [
        {"type": "message", "role": "developer", "content": "rules"},
        {"type": "compaction", "encrypted_content": "e" * 400},
    ]
    for number in range(8):
        history += [
            {"type": "function_call", "call_id": f"c{number}", "name": "ls", "arguments": "{}"},
            {"type": "function_call_output", "call_id": f"c{number}", "output": "r" * 600},
        ]
    view = compactor(preset="default", threshold=4_000, dialect=dialect("responses")).view(history)
    assert view.block is not None
    assert view.messages[:2] == history[:2]
    assert view.messages[2]["content"][0]["text"] == view.block


# --- for hosts with many sessions -------------------------------------------------------------------------------


def test_the_view_says_what_the_whole_history_would_be():
    history = session(6)
    fold = compactor()
    view = fold.view(history, 50)
    assert view.block is not None
    whole = 50 + 21 + 6 * 638
    assert (view.full_estimate, view.full_tokens) == (whole, whole)
    fold.observe(view, view.estimate + 100)
    view = fold.view([*history, *step(6)], 50)
    assert (view.full_estimate, view.full_tokens) == (whole + 638, whole + 638 + 100)


def test_a_limit_that_another_session_learned_acts_from_the_next_request_on():
    history = session(4)
    fold = compactor(threshold=10_000)
    before = fold.view(history)
    fold.limited(2_600, at=len(history))
    assert fold.view(history) == before, "a request that was sent stays what it was"
    after = fold.view([*history, *step(4)])
    assert after.cliff is not None
    assert after.cliff.reason == "limit"
    assert after.threshold == 2_470
    again = compactor(threshold=10_000, facts=json.loads(json.dumps(fold.facts)))
    assert again.view([*history, *step(4)]) == after
    with pytest.raises(ValueError, match="not a fact"):
        fold.limited(0, at=1)


def test_a_limit_that_is_told_to_a_cold_compactor_leaves_earlier_decisions_alone():
    """The same facts as that of one that saw every request."""
    history = session(8)
    warm = compactor(threshold=10_000)
    before = [warm.view(history[:size]) for size in (2, 5, 8)]
    grown = [*history, *step(8)]
    warm.limited(2_600, at=len(grown))
    cold = compactor(threshold=10_000)
    cold.limited(2_600, at=len(grown))
    assert cold.facts == warm.facts == [{"at": len(grown), "kind": "limit", "value": 2_600}]
    assert cold.view(grown) == warm.view(grown)
    assert [cold.view(history[:size]) for size in (2, 5, 8)] == before


class Handles:
    """A dialect whose messages are numbers, counted by it."""

    def __init__(self, messages):
        self.messages = messages
        self.name = "handles"
        self.block_index = CHAT.block_index
        self.block_message = CHAT.block_message

    def plain(self, message):
        return message

    def parse(self, message):
        return CHAT.parse(self.messages[message.number]).with_tokens(1_000)

    def canonical(self, message):
        return message.number


class Handle:
    def __init__(self, number):
        self.number = number


def test_a_dialect_can_have_messages_of_its_own_and_count_them():
    history = session(8)
    handles = [Handle(number) for number in range(len(history))]
    fold = Compactor(Handles(history), CliffConfig.preset("paper", threshold_tokens=12_000), (), characters)
    view = fold.view(handles)
    assert view.full_tokens == 18_000
    assert view.block is not None
    assert [m.number for m in view.messages if isinstance(m, Handle)] == [0, 1, *range(view.cut, 18)]
    assert fold.view([Handle(number) for number in range(len(history))]).messages != view.messages, "the newest objects"

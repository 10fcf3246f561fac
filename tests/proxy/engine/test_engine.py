"""What the engine does with a request, case by case. Threshold 4 000 tokens unless said otherwise."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from cliff_core import CliffConfig
from cliff_core.overflow import Rejection
from cliff_proxy.engine import Call, Engine, Prepared, Usage
from cliff_proxy.settings import Settings
from proxy.engine.client import FIELD, MODEL, UPSTREAM, body, engine, spelled

CONFIG = CliffConfig(threshold_tokens=4_000)
SUMMARIZE = "Your task is to create a detailed summary of the conversation so far, paying close attention to …"


def text(number: int, words: int = 400) -> str:
    return " ".join(f"w{number}x{n}" for n in range(words))


def turn(api: str, number: int, words: int = 400) -> list[dict[str, Any]]:
    """A call and its result, of about 5 tokens a word."""
    name, result = f"call_{number}", text(number, words)
    if api == "anthropic":
        call = {"type": "tool_use", "id": name, "name": "Read", "input": {"file_path": f"/src/{number}.py"}}
        answer = {"type": "tool_result", "tool_use_id": name, "content": result}
        return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [answer]}]
    arguments = json.dumps({"path": f"/src/{number}.py"})
    if api == "chat":
        call = {"id": name, "type": "function", "function": {"name": "read", "arguments": arguments}}
        return [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": name, "content": result},
        ]
    return [
        {"type": "function_call", "call_id": name, "name": "read", "arguments": arguments},
        {"type": "function_call_output", "call_id": name, "output": result},
    ]


def task(api: str, words: str = "the task") -> dict[str, Any]:
    message = {"role": "user", "content": words}
    return {"type": "message", **message} if api == "responses" else message


def session(api: str, turns: int, words: str = "the task") -> list[dict[str, Any]]:
    return [task(api, words), *(m for n in range(turns) for m in turn(api, n))]


def call(api: str, messages: list[Any], *, labels: dict[bytes, bytes] | None = None, **fields: Any) -> Call:
    data = body(api, [spelled(message, 0) for message in messages], **fields)
    return Call(api, data, fields.get("upstream", UPSTREAM), labels or {})  # type: ignore[arg-type]


def play(running: Engine, api: str, turns: int, **fields: Any) -> list[Prepared]:
    messages = session(api, turns)
    step = 2
    return [running.prepare(call(api, messages[:size], **fields)) for size in range(1, len(messages) + 1, step)]


apis = pytest.mark.parametrize("api", ["anthropic", "chat", "responses"])


@apis
def test_a_session_passes_until_its_threshold_and_is_a_view_from_then_on(api):
    steps = play(engine(CONFIG), api, 6)
    assert [step.action for step in steps] == ["pass", "pass", "pass", "cliff", "view", "cliff", "view"]
    assert all((step.body is None) == (step.action == "pass") for step in steps)
    assert steps[-1].detail.startswith("session=")
    assert "; cliffs=2; tokens=" in steps[-1].detail


def test_ids_of_clients_are_labels_only():
    """Two sessions under one id do not mix; one session under two ids is one."""
    running = engine(CONFIG)
    labels = {b"x-claude-code-session-id": b"abc", b"x-claude-code-agent-id": b"def"}
    for size in (1, 3, 5, 7):
        for words in ("one task", "another task"):
            running.prepare(call("anthropic", session("anthropic", 3, words)[:size], labels=labels))
    status = running.status()
    assert [one["label"] for one in status["sessions"]] == ["abc/def", "abc/def"]
    assert status["totals"]["sessions_in_memory"] == 2
    user = json.dumps({"session_id": "from-metadata", "account_uuid": "x"})
    running.prepare(call("anthropic", session("anthropic", 1, "third"), metadata={"user_id": user}))
    running.prepare(call("responses", session("responses", 1), prompt_cache_key="thread\u202e"))
    assert {one["label"] for one in running.status()["sessions"]} == {"abc/def", "from-metadata", "thread"}


@pytest.mark.parametrize(("labels", "sessions"), [({b"x-claude-code-session-id": b"abc"}, 1), ({}, 2)])
def test_tools_that_are_loaded_at_the_first_step_make_no_new_session_for_people(labels, sessions):
    """Claude Code after ToolSearch. Without a name it could as well be a sub-agent with the same head."""
    running = engine(CONFIG)
    tools = [{"name": name, "description": name, "input_schema": {"type": "object"}} for name in ("Read", "WebFetch")]
    asked = [
        call("anthropic", session("anthropic", turns), labels=labels, tools=tools[: 1 + turns]) for turns in (0, 1)
    ]
    for one in asked:
        running.answered(running.prepare(one), Usage(100))
    running.prepare(call("anthropic", session("anthropic", 0, "another task"), labels=labels, tools=tools))
    assert len(running.status()["sessions"]) == sessions + 1
    assert sorted(one["requests"] for one in running.status()["sessions"]) == ([0, 2] if labels else [0, 1, 1])


def test_a_client_that_changes_its_last_message_stays_one_session_for_people():
    running = engine(CONFIG)
    messages = session("chat", 2)
    reminded = [*messages, {"role": "user", "content": "a reminder"}]
    for history in (messages, reminded, [*messages, *turn("chat", 2)]):
        running.prepare(call("chat", history))
    assert len(running.status()["sessions"]) == 1


def test_attempts_at_one_task_are_a_session_each():
    running = engine(CONFIG)
    attempts = [[task("chat"), *(m for n in range(4) for m in turn("chat", 10 * number + n))] for number in range(3)]
    for size in (1, 3, 5, 7, 9):
        for messages in attempts:
            running.prepare(call("chat", messages[:size]))
    assert running.status()["totals"]["sessions_in_memory"] == 3
    assert len(running.status()["sessions"]) == 3


def test_subagents_with_equal_heads_are_told_apart_by_system_prompt_and_tools():
    """Until the model has spoken nothing else tells them apart: what one learned is not the other's."""
    running = engine(CONFIG)
    first = running.prepare(call("anthropic", session("anthropic", 0), system="You are the main agent."))
    running.answered(first, Usage(200))
    other = running.prepare(call("anthropic", session("anthropic", 0), system="You are a sub-agent."))
    assert other.state.session is not first.state.session
    assert [fact["kind"] for fact in other.state.session.compactor.facts] == ["fixed"]


def test_what_a_gateway_reports_corrects_the_estimates():
    running = engine(CONFIG)
    messages = session("chat", 8)
    first = running.prepare(call("chat", messages[:3]))
    running.answered(first, Usage(first.state.view.tokens + 900))
    second = running.prepare(call("chat", messages[:5]))
    assert second.state.view.tokens == second.state.view.estimate + 900
    # Within a fiftieth of what was expected: nothing new. Far off: it counts something else.
    facts = list(second.state.session.compactor.facts)
    running.answered(second, Usage(second.state.view.tokens + 10))
    assert second.state.session.compactor.facts == facts
    running.answered(second, Usage(12))
    assert second.state.session.compactor.facts == facts
    assert running.status()["totals"]["actions"]["usage out of range"] == 1


def test_a_reminder_that_goes_away_takes_nothing_that_was_learned_with_it():
    """Some clients end each request with a text that the next one does not have."""
    running = engine(CONFIG)
    messages = session("chat", 9)
    sessions = set()
    for turns in range(1, 9):
        reminder = {"role": "user", "content": f"<system-reminder>{turns} steps done</system-reminder>"}
        prepared = running.prepare(call("chat", [*messages[: 2 * turns + 1], reminder]))
        sessions.add(id(prepared.state.session))
        running.answered(prepared, Usage(prepared.state.view.tokens + 700))
    assert len(sessions) == 1
    assert len(running.status()["sessions"]) == 1
    facts = [fact["kind"] for fact in prepared.state.session.compactor.facts]
    assert facts.count("usage") == 8
    assert facts.count("fixed") == 1


# --- rejections -----------------------------------------------------------------------------------------------


@apis
def test_a_rejected_request_is_replaced_by_a_smaller_one_and_the_limit_remembered(api):
    running = engine(CONFIG.replace(threshold_tokens=50_000))
    messages = session(api, 6)
    prepared = running.prepare(call(api, messages))
    assert prepared.body is None
    again = running.overflowed(prepared, Rejection(limit=6_000))
    assert again is not None
    assert again.action == "forced"
    assert again.body is not None
    assert again.state.view.tokens < 6_000
    running.answered(again, Usage(again.state.view.tokens))
    assert running.status()["limits"] == {MODEL: 6_000}
    # Another session of that model keeps below it by itself; one of another upstream does not know it.
    other = running.prepare(call(api, session(api, 4, "another task")))
    assert other.action == "cliff"
    assert other.state.view.threshold == 5_700
    elsewhere = Call(api, other.state.call.body, "https://other.example.com")
    assert running.prepare(elsewhere).action == "pass"


def test_a_limit_reaches_sessions_that_are_under_way_from_their_next_request_on():
    running = engine(CONFIG.replace(threshold_tokens=50_000))
    one, other = session("chat", 8, "one"), session("chat", 8, "other")
    before = running.prepare(call("chat", one[:13]))
    assert before.action == "pass"
    rejected = running.prepare(call("chat", other[:13]))
    assert running.overflowed(rejected, Rejection(limit=6_000)) is not None
    assert running.prepare(call("chat", one[:13])).action == "pass", "what was sent once is sent again"
    after = running.prepare(call("chat", one[:15]))
    assert after.action == "cliff"
    assert after.state.view.threshold == 5_700


def test_a_limit_that_a_larger_request_disproves_is_forgotten():
    running = engine(CONFIG.replace(threshold_tokens=50_000))
    prepared = running.prepare(call("chat", session("chat", 6)))
    again = running.overflowed(prepared, Rejection(limit=6_000))
    assert again is not None
    running.answered(again, Usage(9_000))
    assert running.prepare(call("chat", session("chat", 6, "another"))).action == "pass"
    assert running.status()["limits"] == {}


def test_a_rejection_without_a_figure_teaches_what_was_rejected():
    running = engine(CONFIG.replace(threshold_tokens=50_000))
    prepared = running.prepare(call("chat", session("chat", 6)))
    assert running.overflowed(prepared, Rejection()) is not None
    assert running.status()["limits"] == {MODEL: prepared.state.view.tokens}
    assert running.overflowed(running.prepare(call("chat", [task("chat")])), Rejection(limit=12)) is None
    assert running.status()["limits"] == {MODEL: prepared.state.view.tokens}, "12 is no context window"


def test_a_body_that_was_too_large_for_its_bytes_teaches_nothing_of_the_model():
    """A gateway's 413 for pictures: 1 MB has 1 568 tokens."""
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 400_000}}
    messages = session("anthropic", 3)
    messages[2]["content"][0]["content"] = [image]
    running = engine(CONFIG.replace(threshold_tokens=50_000))
    prepared = running.prepare(call("anthropic", messages))
    again = running.overflowed(prepared, Rejection())
    assert again is not None
    assert again.body is not None
    assert len(again.body) < 100_000
    assert running.status()["limits"] == {}


def test_nothing_left_to_drop():
    running = engine(CONFIG)
    assert running.overflowed(running.prepare(call("chat", [task("chat")])), Rejection()) is None
    assert running.overflowed(Prepared(None, "pass"), Rejection()) is None
    assert running.overflowed(Prepared(None, "bypass"), Rejection()) is None


# --- requests that are no step --------------------------------------------------------------------------------


def small(turns: int, last: dict[str, Any] | None, *, window: int, api: str = "anthropic", **of: Any) -> Prepared:
    """A session that went on under cliffs, then one more request with its whole history and one more message."""
    running = Engine(Settings(config=CONFIG, threshold_given=True, windows={"*": window}))
    play(running, api, turns)
    messages = (
        [*session(api, turns), {"role": "assistant", "content": "done"}] if api != "responses" else session(api, turns)
    )
    asked = call(api, messages if last is None else [*messages, last])
    return running.prepare(Call(asked.api, asked.body, asked.upstream, **of))


def test_a_clients_own_summary_is_untouched_while_it_fits():
    prepared = small(6, task("anthropic", SUMMARIZE), window=200_000)
    assert (prepared.body, prepared.action, prepared.note) == (None, "pass", "summary")


def test_a_clients_own_summary_gets_the_view_and_its_last_message_where_it_does_not_fit():
    prepared = small(6, task("anthropic", SUMMARIZE), window=8_000)
    assert (prepared.action, prepared.note) == ("view", "summary")
    assert prepared.body is not None
    messages = json.loads(prepared.body)["messages"]
    assert messages[0] == task("anthropic")
    assert messages[1]["content"][0]["text"].startswith("Excerpts")
    assert messages[-1] == task("anthropic", SUMMARIZE)


def test_a_summary_leaves_its_session_as_it_was():
    running = engine(CONFIG)
    messages = session("chat", 4)
    before = running.prepare(call("chat", messages))
    running.prepare(call("chat", [*messages, task("chat", SUMMARIZE)]))
    again = running.prepare(call("chat", messages))
    assert again.body == before.body
    assert again.state.session is before.state.session


def test_a_summary_that_is_rejected_gets_the_view():
    running = engine(CONFIG)
    messages = [*session("chat", 6), task("chat", SUMMARIZE)]
    prepared = running.prepare(call("chat", messages))
    assert prepared.action == "pass"
    again = running.overflowed(prepared, Rejection(limit=5_000))
    assert again is not None
    assert again.body is not None
    assert json.loads(again.body)["messages"][-1] == messages[-1]
    assert len(again.body) < 20_000


@pytest.mark.parametrize(("window", "action"), [(200_000, "pass"), (8_000, "view")])
def test_a_trigger_of_the_providers_compaction(window, action):
    prepared = small(6, {"type": "compaction_trigger"}, window=window, api="responses")
    assert (prepared.action, prepared.note) == (action, "trigger")
    if prepared.body is not None:
        assert json.loads(prepared.body)["input"][-1] == {"type": "compaction_trigger"}


@pytest.mark.parametrize(("window", "action"), [(200_000, "pass"), (8_000, "view")])
def test_the_compact_endpoint(window, action):
    prepared = small(6, None, window=window, api="responses", compact=True)
    assert prepared.action == action


@pytest.mark.parametrize("name", ["previous_response_id", "conversation"])
def test_histories_that_the_provider_keeps_pass_and_are_counted(name):
    running = engine(CONFIG)
    prepared = running.prepare(call("responses", session("responses", 6), **{name: "resp_1"}))
    assert prepared == Prepared(None, "pass", name)
    running.answered(prepared, Usage(5_000))
    assert running.overflowed(prepared, Rejection()) is None
    (problem,) = running.status()["problems"]
    assert problem.startswith(f"1 request with {name} went through as sent: ")
    assert running.prepare(call("responses", session("responses", 6), **{name: None})).body is not None


# --- cache breakpoints ----------------------------------------------------------------------------------------


def marked(part: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**part, "cache_control": {"type": "ephemeral", **more}}


def asked(turns: int, count: int) -> Call:
    """A request of a client with so many markers: in the system prompt, and on the last message."""
    system = [{"type": "text", "text": f"part {n}"} for n in range(4)]
    system = [marked(part) if n < count - 1 else part for n, part in enumerate(system)]
    messages = session("anthropic", turns)
    if count:
        messages[-1] = {**messages[-1], "content": [marked(messages[-1]["content"][0])]}
    return call("anthropic", messages, system=system)


@pytest.mark.parametrize(("count", "ours"), [(0, 0), (1, 1), (3, 1), (4, 0)])
def test_one_more_breakpoint_where_there_is_room(count, ours):
    prepared = engine(CONFIG).prepare(asked(6, count))
    assert prepared.body is not None
    sent = json.loads(prepared.body)
    assert [("cache_control" in part) for part in sent["messages"][1]["content"]] == [bool(ours)]
    assert prepared.body.count(b'"cache_control"') == count + ours


def test_before_the_first_cliff_it_is_at_the_end_of_the_head():
    running = engine(CONFIG)
    request = asked(1, 3)
    prepared = running.prepare(request)
    assert (prepared.action, prepared.note) == ("view", "cache breakpoint")
    assert prepared.body is not None
    part = marked({"type": "text", "text": "the task"})
    assert json.loads(prepared.body)["messages"][0] == {"role": "user", "content": [part]}
    added = b'[{"type":"text","text":"the task","cache_control":{"type":"ephemeral"}}]'
    assert prepared.body.replace(added, b'"the task"') == request.body
    assert running.prepare(asked(0, 0)).body is None, "the model has not spoken: no step follows yet"


# --- modes, savings -------------------------------------------------------------------------------------------


def test_shadow_says_what_it_would_have_done():
    running = engine(CONFIG, shadow=True)
    steps = play(running, "chat", 6)
    assert {step.action for step in steps} == {"shadow"}
    assert {step.body for step in steps} == {None}
    assert steps[-1].note.startswith("would send ")
    for step in steps:
        running.answered(step, Usage(step.state.view.full_tokens))
    totals = running.status()["totals"]
    assert totals["saved_tokens_estimate"] == sum(s.state.view.full_tokens - s.state.view.tokens for s in steps) > 0
    assert totals["cliffs"] == running.status()["sessions"][0]["cliffs"] == 2, "as many as are sent without it"
    assert running.overflowed(steps[-1], Rejection()) is None


def test_savings_are_counted_from_what_the_provider_reports():
    """claude-sonnet-5-5: 2 dollars a million, 0.1 from the cache, 2.5 to it."""
    running = engine(CONFIG)
    steps = play(running, "anthropic", 4, model="claude-sonnet-5-5")
    running.answered(steps[0], Usage(1_000, 0, 900, 50))
    running.answered(steps[1], Usage(3_000, 900, 2_000, 50))
    (one,) = running.status()["sessions"]
    assert one["input_tokens"] == 4_000
    assert one["cache_read_tokens"] == 900
    assert one["cache_write_tokens"] == 2_900
    assert one["output_tokens"] == 100
    assert one["saved_tokens_estimate"] == 0
    assert one["dollars"] == pytest.approx((100 * 2 + 900 * 2.5 + 100 * 2 + 900 * 0.1 + 2_000 * 2.5) / 1e6)
    view = steps[3].state.view
    running.answered(steps[3], Usage(view.tokens, 1_000, 500, 50))
    (one,) = running.status()["sessions"]
    assert one["saved_tokens_estimate"] == view.full_tokens - view.tokens > 0
    # The whole history: what the request before had is read, the rest is written.
    full = (1_000 * 2.5) + (1_000 * 0.1 + 2_000 * 2.5) + (3_000 * 0.1 + (view.full_tokens - 3_000) * 2.5)
    assert one["full_dollars_estimate"] == pytest.approx(full / 1e6)
    assert one["saved_dollars_estimate"] == pytest.approx(one["full_dollars_estimate"] - one["dollars"])
    totals = running.status()["totals"]
    assert {name: totals[name] for name in one if name in totals} == {name: one[name] for name in one if name in totals}
    assert json.loads(json.dumps(running.status())) == running.status()


def test_without_a_price_there_are_no_dollars():
    running = engine(CONFIG)
    running.answered(play(running, "chat", 1)[0], Usage(100))
    assert not [name for name in running.status()["sessions"][0] if "dollars" in name]
    assert not [name for name in running.status()["totals"] if "dollars" in name]


# --- bodies that are not as they should be: each has one right outcome ----------------------------------------


@pytest.mark.parametrize(
    ("data", "note"),
    [
        (b"", "no JSON object"),
        (b"{", "no JSON object"),
        (b"[1]", "no JSON object"),
        (b'{"messages":[{"role":"user","content":NaN}]}', "no JSON object"),
        (b'{"messages":[],"messages":[{}]}', "a key stands twice"),
        (b'{"messages":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
        (b"{}", "no messages"),
        (b'{"messages":null}', "no messages"),
        (b'{"messages":[]}', "no messages"),
        (b'{"messages":{"role":"user"}}', "no messages"),
        (b'{"messages":"x"}', "no messages"),
    ],
    ids=range(11),
)
def test_what_cannot_be_compacted_goes_as_it_came(data, note):
    assert engine(CONFIG).prepare(Call("anthropic", data, UPSTREAM)) == Prepared(None, "pass", note)
    if b"messages" not in data:
        assert engine(CONFIG).prepare(Call("responses", data, UPSTREAM)).body is None


@apis
@pytest.mark.parametrize(
    "strange", [None, 1, "text", [], {}, {"role": 1}, {"role": "user", "content": 1}, {"type": []}]
)
def test_wrong_types_within_a_session_stay_and_disturb_nothing(api, strange):
    messages = session(api, 6)
    messages.insert(1, strange)
    messages.append(strange)
    prepared = engine(CONFIG).prepare(call(api, messages, model=None, tools="x", system=1, max_tokens=[]))
    assert prepared.action in ("view", "cliff")
    assert prepared.body is not None
    sent = json.loads(prepared.body)[FIELD[api]]
    assert len(sent) < len(messages)
    assert sent[-1] == strange
    if api != "responses":  # where what is no message is the model's
        assert sent[1] == strange, "it is in the head"


@apis
def test_lone_surrogates_do_not_switch_compaction_off(api):
    messages = json.loads(json.dumps(session(api, 6)).replace("w1x0", r"\ud83d").replace("w5x0", r"\ud83d"))
    prepared = engine(CONFIG).prepare(call(api, messages))
    assert prepared.body is not None
    assert rb"\ud83d w5x1 w5x2" in prepared.body, "as it came"
    assert json.loads(prepared.body)


def test_numbers_and_keys_of_kept_messages_are_what_came():
    raw = (
        b'{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{"n":1E2,"n":1e400,"n":-0.0}}]}'
    )
    answer = b'{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"\\u0041\\/"}]}'
    items = [*(spelled(message, 1) for message in session("anthropic", 6)), raw, answer]
    prepared = engine(CONFIG).prepare(Call("anthropic", body("anthropic", items), UPSTREAM))
    assert prepared.body is not None
    assert raw + b", " + answer in prepared.body


def test_a_message_that_is_nested_deeply_stays_one_message():
    """900 levels can be split, and are more than most code can walk."""
    deep: Any = "x"
    for _ in range(900):
        deep = {"a": deep}
    messages = session("anthropic", 6)
    messages[1]["content"][0]["input"] = deep
    prepared = engine(CONFIG).prepare(call("anthropic", messages))
    assert prepared.action in ("view", "cliff")
    assert prepared.body is not None


def test_20_000_messages():
    messages = [task("chat"), *(m for n in range(10_000) for m in turn("chat", n, 1))]
    running = engine(CONFIG.replace(threshold_tokens=32_000))
    first = running.prepare(call("chat", messages))
    assert first.body is not None
    assert first.state.view.tokens <= 32_000
    again = running.prepare(call("chat", [*messages, *turn("chat", 10_000, 1)]))
    assert again.action in ("view", "cliff")
    assert again.state.session is first.state.session


def test_50_megabytes():
    """A picture of 40 MB that a tool returned, and a text of 10 MB."""
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 40_000_000}}
    messages = session("anthropic", 6)
    messages[2]["content"][0]["content"] = [image, {"type": "text", "text": "a line of text\n" * 700_000}]
    running = engine(CONFIG, memory_bytes=2**20)
    request = call("anthropic", messages)
    assert len(request.body) > 50_000_000
    prepared = running.prepare(request)
    assert prepared.action == "cliff"
    assert prepared.body is not None
    assert len(prepared.body) < 100_000
    assert running.status()["totals"]["sessions_in_memory"] == 0, "it is larger than all that may be kept"


def test_our_own_failure_is_not_the_clients(monkeypatch, caplog):
    running = engine(CONFIG)
    secret = "what a person wrote"

    def broken(*_: Any, **__: Any) -> Any:
        raise ValueError(secret)

    monkeypatch.setattr(running._sessions, "find", broken)
    prepared = running.prepare(call("chat", session("chat", 6)))
    assert (prepared.body, prepared.action, prepared.note) == (None, "failed", "ValueError")
    assert "ValueError at test_engine.py" in caplog.text
    assert secret not in caplog.text
    (problem,) = running.status()["problems"]
    assert problem.startswith("1 request went on as sent, as our work failed")


def test_a_failure_of_the_core_costs_one_compaction_and_no_words_are_logged(monkeypatch, caplog):
    caplog.set_level(logging.WARNING, "cliff_core")
    running = engine(CONFIG)
    secret = "what a person wrote"

    def broken(*_: Any, **__: Any) -> Any:
        raise ValueError(secret)

    request = call("chat", session("chat", 6))
    with monkeypatch.context() as patch:
        patch.setattr("cliff_core.decision.cliff", broken)
        assert running.prepare(request).action == "failed"
    assert "ValueError at test_engine.py" in caplog.text
    assert secret not in caplog.text
    assert running.prepare(request).action in ("view", "cliff")

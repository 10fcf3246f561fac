"""A request that only adds a little to one far below its threshold is sent without a look at the whole of it."""

from __future__ import annotations

from typing import Any

import pytest

from cliff_core import CliffConfig
from cliff_core.overflow import Rejection
from cliff_proxy import formats
from cliff_proxy.engine import Call, Engine, Prepared, Usage, _More
from proxy.engine.client import engine, messages_of
from proxy.engine.test_engine import call, session

CONFIG = CliffConfig(threshold_tokens=40_000)
TURNS = 28
"""Of some 1 600 tokens each: a cliff has come, and the next one is far."""


@pytest.fixture(params=["chat", "anthropic", "responses"])
def api(request: Any) -> str:
    return str(request.param)


def warm(api: str, turns: int = TURNS) -> tuple[Engine, list[Any]]:
    """An engine that saw a session, and the session."""
    running = engine(CONFIG)
    messages = session(api, turns + 8)
    per_turn = (len(messages) - 1) // (turns + 8)
    for turn in range(turns - 3, turns + 1):
        running.answered(running.prepare(call(api, messages[: 1 + per_turn * turn])), None)
    return running, messages[: 1 + per_turn * (turns + 1)]


def thorough(request: Call) -> Prepared:
    return engine(CONFIG).prepare(request)


def test_it_is_the_bytes_that_a_look_at_the_whole_gives(api: str) -> None:
    running, messages = warm(api)
    request = call(api, messages)
    more = running.at_once(request)
    assert more is not None
    assert isinstance(more.state, _More)
    assert more.action == "view"
    assert more.body is not None
    assert more.body == thorough(request).body
    assert len(messages_of(api, more.body)) < len(messages)
    assert more.detail.startswith("session=")
    assert running.prepare(request).body == more.body


def test_before_the_first_cliff_it_goes_as_it_came(api: str) -> None:
    running, messages = warm(api, 8)
    more = running.prepare(call(api, messages))
    assert isinstance(more.state, _More)
    assert (more.body, more.action) == (None, "pass")


def test_what_was_saved_is_counted(api: str) -> None:
    running, messages = warm(api)
    before = running.status()["sessions"][0]
    request = call(api, messages)
    whole = thorough(request).state.view
    running.answered(running.prepare(request), Usage(20_000, 15_000, 0, 7))
    [account] = running.status()["sessions"]
    assert account["requests"] == before["requests"] + 1
    assert account["input_tokens"] - before["input_tokens"] == 20_000
    full = account["full_tokens_estimate"] - before["full_tokens_estimate"]
    assert full == 20_000 + whole.full_tokens - whole.tokens
    assert account["tokens"] == 20_000


def test_a_rejection_of_it_forces_a_cliff(api: str) -> None:
    running, messages = warm(api)
    request = call(api, messages)
    more = running.prepare(request)
    assert isinstance(more.state, _More)
    again = running.overflowed(more, Rejection(limit=12_000))
    assert again is not None
    assert again.action == "forced"
    assert again.state.view.tokens < 12_000
    assert running.status()["limits"] == {"a-model-that-no-table-knows": 12_000}


def said(api: str, text: str) -> Any:
    message: dict[str, Any] = {"role": "user", "content": text}
    return message | {"type": "message"} if api == "responses" else message


def test_letters_that_are_escaped_hide_nothing(api: str) -> None:
    running, messages = warm(api)
    request = call(api, [*messages, said(api, formats.SUMMARIES[0])])
    escaped = Call(request.api, request.body.replace(b"task is", b"t\\u0061sk is"), request.upstream)
    assert escaped.body != request.body
    assert running.prepare(escaped).note == "summary"


@pytest.mark.parametrize("sentence", formats.SUMMARIES)
def test_a_clients_own_compaction_is_told_from_it(api: str, sentence: str) -> None:
    running, messages = warm(api)
    summary = running.prepare(call(api, [*messages, said(api, sentence)]))
    assert (summary.body, summary.action, summary.note) == (None, "pass", "summary")


PICTURE = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}


@pytest.mark.parametrize(
    "part",
    [
        PICTURE,
        {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
        {"type": "input_image", "image_url": "https://example.com/a.png"},
        {"type": "document", "source": {"type": "file", "file_id": "f"}},
        {"type": "text", "text": "words", "cache_control": {"type": "ephemeral"}},
    ],
    ids=lambda part: str(part["type"]),
)
def test_what_may_tell_more_than_its_bytes_is_looked_at(api: str, part: dict[str, Any]) -> None:
    running, messages = warm(api)
    looked_at = running.prepare(call(api, [*messages, said(api, "x") | {"content": [part]}]))
    assert not isinstance(looked_at.state, _More)


def test_other_fields_an_earlier_change_or_another_upstream_are_looked_at(api: str) -> None:
    running, messages = warm(api)
    tools = [{"name": "t", "description": "d", "input_schema": {"type": "object"}}]
    assert running.at_once(call(api, messages, tools=tools)) is None, "their tokens are counted in a thread"
    assert not isinstance(running.prepare(call(api, messages, tools=tools)).state, _More)
    running, messages = warm(api)
    elsewhere = call(api, messages)
    other = Call(elsewhere.api, elsewhere.body, "https://other.example.com")
    assert not isinstance(running.prepare(other).state, _More)
    running, messages = warm(api)
    changed = [*messages[:-12], said(api, "other words"), *messages[-12:]]
    assert not isinstance(running.prepare(call(api, changed)).state, _More)


def test_json_that_is_none_goes_as_it_came(api: str) -> None:
    running, messages = warm(api)
    good = call(api, [*messages, said(api, "MARK")])
    assert isinstance(running.prepare(good).state, _More)
    broken = Call(good.api, good.body.replace(b'"MARK"', b"NaN"), good.upstream)
    assert running.prepare(broken) == Prepared(None, "pass", "no JSON object")


def test_much_that_came_together_is_looked_at(api: str) -> None:
    running, messages = warm(api)
    assert not isinstance(running.prepare(call(api, [*messages, said(api, "words " * 6_000)])).state, _More)

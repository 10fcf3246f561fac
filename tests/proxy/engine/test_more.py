"""A request that only adds a little to one far below its threshold is sent without a look at the whole of it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from cliff_core import CliffConfig
from cliff_core.overflow import Rejection
from cliff_proxy import formats
from cliff_proxy.engine import Call, Engine, Prepared, Usage, _More
from proxy.engine.client import engine, messages_of
from proxy.engine.test_engine import call, session, task, text, turn

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
    for last in range(turns - 3, turns + 1):
        running.answered(running.prepare(call(api, messages[: 1 + per_turn * last])), None)
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


# --- What a look at an earlier request does not say -----------------------------------------------------------------


class Beside:
    """An engine on a store, beside cold ones on copies of it: whatever way a request takes, it gets the same bytes."""

    def __init__(self, folder: Path, config: CliffConfig) -> None:
        self.folder, self.config, self.copies = folder, config, 0
        self.running = engine(config, folder / "store")

    def ask(self, request: Call) -> Prepared:
        found = self.running.at_once(request) or self.running.prepare(request)
        self.running.write()
        return found

    def cold(self, request: Call) -> Prepared:
        self.copies += 1
        copy = self.folder / f"copy {self.copies}"
        with closing(sqlite3.connect(self.folder / "store")) as one, closing(sqlite3.connect(copy)) as two:
            one.backup(two)
        fresh = engine(self.config, copy)
        found = fresh.prepare(request)
        fresh.close()
        return found

    def both(self, request: Call) -> str:
        """The action, which is the same for both, as are the bytes."""
        right, found = self.cold(request), self.ask(request)
        assert (found.body or request.body) == (right.body or request.body)
        return found.action


def large_then_small(api: str, large: int, words: int, small: int) -> list[Any]:
    turns = [*(turn(api, n, words) for n in range(large)), *(turn(api, n, small) for n in range(large, 30))]
    return [task(api), *(message for one in turns for message in one)]


def test_what_was_learned_for_longer_histories(tmp_path: Path) -> None:
    """A last message that was large once: what its answer taught acts from the request after it on."""
    both = Beside(tmp_path, CONFIG)
    messages = large_then_small("chat", 6, 300, 150)
    for size in (11, 13, 15, 17):
        both.ask(call("chat", messages[:size]))
    aside = both.ask(call("chat", [*messages[:17], {"role": "user", "content": text(99, 4_400)}]))
    both.running.answered(aside, Usage(2 * aside.state.view.estimate))
    actions = [both.both(call("chat", messages[:size])) for size in range(17, 40, 2)]
    assert "cliff" in actions


def test_a_threshold_that_goes_with_the_session(tmp_path: Path) -> None:
    """With `auto` it can fall by one more turn."""
    both = Beside(tmp_path, CliffConfig(threshold_tokens="auto"))
    turns = [*(turn("chat", n, 600) for n in range(4)), *(turn("chat", n, 100) for n in range(4, 9))]
    hello = {"role": "assistant", "content": "Hello, what can I do?"}
    messages = [hello, task("chat"), *(message for one in turns for message in one)]
    both.ask(call("chat", messages[:10]))
    assert both.both(call("chat", messages[:12])) == "cliff"


def test_what_a_longer_history_has_left(tmp_path: Path) -> None:
    """A request is refused, the client goes back, and comes again with the same."""
    both = Beside(tmp_path, CliffConfig(threshold_tokens=80_000))
    turns = [*(turn("chat", n) for n in range(6)), *(turn("chat", n, 100) for n in range(6, 20))]
    messages = [task("chat"), *(message for one in turns for message in one)]
    again = both.running.overflowed(both.ask(call("chat", messages[:19])), Rejection(limit=9_000))
    assert again is not None
    both.running.answered(again, Usage(9_500))  # so it was no limit
    both.ask(call("chat", messages[:13]))
    assert both.both(call("chat", messages[:19])) == "cliff"


def test_what_is_added_counts_by_another_rate(tmp_path: Path) -> None:
    both = Beside(tmp_path, CliffConfig(threshold_tokens=80_000))
    sizes = (700, 520, 200, 10, 50)
    messages = [
        task("anthropic", text(99, 500)),
        *(m for n, words in enumerate(sizes) for m in turn("anthropic", n, words)),
    ]
    asked = [both.ask(call("anthropic", messages[:n])) for n in (1, 3, 5)]
    for place, share in ((0, 0.3), (2, 1.6), (1, 0.3)):
        both.running.answered(asked[place], Usage(int(asked[place].state.view.estimate * share)))
    both.ask(call("anthropic", messages))
    for n in range(3):
        used = {"type": "tool_use", "id": f"f{n}", "name": "n", "input": {"a": ["@"]}}
        result = {"type": "tool_result", "tool_use_id": f"f{n}", "content": "k"}
        messages += [{"role": "assistant", "content": [used]}, {"role": "user", "content": [result]}]
    plain = call("anthropic", messages)
    for count in (1_500, 1_800, 1_900, 2_000, 2_100):
        numbers = plain.body.replace(b'"@"', b",".join([b"1e15"] * count))  # counted as Python writes them
        both.both(Call("anthropic", numbers, plain.upstream))


IMAGE = b',{"type":"image_generation_call","id":"i","result":"x"}'
SCREENSHOT = (
    b',{"type":"computer_call","call_id":"q","action":{}}'
    b',{"type":"computer_call_output","call_id":"q","output":{"type":"computer_screenshot"}}'
)


@pytest.mark.parametrize("extra", [IMAGE * 40, SCREENSHOT * 40, b",1" * 9_000], ids=["image", "screenshot", "number"])
def test_what_has_more_tokens_than_bytes(tmp_path: Path, extra: bytes) -> None:
    both = Beside(tmp_path, CliffConfig(threshold_tokens=60_000))
    messages = session("responses", 6)
    for _ in range(2):
        both.ask(call("responses", messages))
    plain = call("responses", [*messages, {"type": "message", "role": "user", "content": "MARK"}])
    at = plain.body.index(b"]", plain.body.index(b"MARK"))
    request = Call("responses", plain.body[:at] + extra + plain.body[at:], plain.upstream)
    assert not isinstance(both.cold(request).state, _More)
    assert not isinstance(both.ask(request).state, _More)


def test_a_report_that_comes_in_between(tmp_path: Path) -> None:
    """While what was sent is being noted."""
    both = Beside(tmp_path, CONFIG)
    messages = large_then_small("chat", 4, 580, 150)
    early = both.ask(call("chat", messages[:9]))
    out = both.running._out

    def between(sent: Any, forced: bool = False) -> Prepared:
        both.running._out = out  # type: ignore[method-assign]
        found = out(sent, forced)
        both.running.answered(early, Usage(4 * early.state.view.estimate))
        return found

    both.running._out = between  # type: ignore[method-assign]
    both.ask(call("chat", messages[:11]))
    for size in range(13, 26, 2):
        both.both(call("chat", messages[:size]))


def test_a_late_report_does_not_act_before_what_was_sent(tmp_path: Path) -> None:
    """The cliff that it leads to is one of the next request."""
    both = Beside(tmp_path, CONFIG)
    messages = large_then_small("chat", 4, 580, 300)
    early = both.ask(call("chat", messages[:9]))
    for size in (11, 13, 15, 17, 19):
        newest = both.ask(call("chat", messages[:size]))
    assert isinstance(newest.state, _More)
    both.running.answered(early, Usage(4 * early.state.view.estimate))
    assert [both.both(call("chat", messages[:size])) for size in (21, 23)] == ["cliff", "view"]


def test_a_late_report_to_a_branch_that_was_given_up(tmp_path: Path) -> None:
    """The one that goes on learns nothing from it."""
    both = Beside(tmp_path, CliffConfig(threshold_tokens=20_000))
    messages = session("chat", 20)
    for size in (11, 13):
        both.ask(call("chat", messages[:size]))
    asked = both.ask(call("chat", [*messages[:13], *turn("chat", 77)]))
    both.ask(call("chat", messages[:15]))
    both.running.answered(asked, Usage(2 * asked.state.view.estimate))
    for size in (17, 19, 21):
        both.both(call("chat", messages[:size]))


def test_nothing_is_kept_of_sessions_that_were_let_go() -> None:
    """Not even where another thread lets them go while a request of theirs is prepared."""
    running = engine(CONFIG, memory_bytes=1)
    learn = running._sessions.learn

    def between(*of: Any) -> None:
        learn(*of)
        running._sessions.trim()

    running._sessions.learn = between  # type: ignore[method-assign]
    for n in range(3):
        running.prepare(call("chat", session("chat", 8, f"task {n} " + "x" * 300)))
    assert (len(running._sessions), running._sessions.layouts._all) == (0, {})

"""One conversation, with a host's chat of which nothing but the list of messages is there."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from cliff_core.block import OPENING
from cliff_terminus2.dialect import Mark, TerminusDialect
from cliff_terminus2.options import read
from cliff_terminus2.session import LEAST_BYTES, Off, Request, Session

LOGGER = logging.getLogger("test")
REJECTED = {"tokens": 2_850, "source": "rejection"}
TASK = "You are an AI assistant.\n\nTask Description:\nFind it.\n"


def typed(text: str) -> list[str]:
    return [command["keystrokes"] for command in json.loads(text)["commands"]]


def cut(text: str, size: int) -> str:
    return text if len(text) <= size else f"{text[: size // 2]}\n[... {size} ...]\n{text[-size // 2 :]}"


def reply(number: int) -> str:
    return json.dumps(
        {"analysis": f"[A{number}]", "plan": "on", "commands": [{"keystrokes": f"sed -n {number}p log\n"}]}
    )


def output(number: int, lines: int = 30) -> str:
    return "New Terminal Output:\n" + f"{number:04} a line of the log\n" * lines


class Chat:
    def __init__(self) -> None:
        self._messages: list[dict[str, Any]] = []
        self.resets = 0

    def reset_response_chain(self) -> None:
        self.resets += 1


class Talk:
    """A host's part in a conversation."""

    def __init__(self, told: Callable[[dict[str, Any], str], None] = lambda cliff, block: None, **options: Any) -> None:
        self.chat = Chat()
        given = {f"cliff_{name}": value for name, value in options.items()}
        self.session = Session(self.chat, read(given, {}), TerminusDialect(typed), cut, LOGGER, told=told)
        self.sent: list[list[dict[str, Any]]] = []
        self.whole: list[dict[str, Any]] = []
        self.turn = 0

    def send(self, request: Request) -> None:
        self.sent.append([*map(dict, self.chat._messages), {"role": "user", "content": request.prompt}])

    def answer(self, request: Request, text: str, tokens: int | None = None) -> None:
        for message in ({"role": "user", "content": request.prompt}, {"role": "assistant", "content": text}):
            self.chat._messages.append(message)
        self.session.answered(request, tokens)

    def say(self, prompt: str, tokens: int | None = None) -> Request:
        """One whole request."""
        request = self.session.request(prompt)
        self.send(request)
        self.turn += 1
        self.answer(request, reply(self.turn), tokens)
        self.whole += [{"role": "user", "content": prompt}, {"role": "assistant", "content": reply(self.turn)}]
        return request

    def go_on(self, turns: int, lines: int = 30) -> None:
        for _ in range(turns):
            self.say(TASK if not self.turn else output(self.turn, lines))


def test_the_hosts_list_is_left_alone_until_a_cliff() -> None:
    talk = Talk(threshold_tokens=100_000)
    before = talk.chat._messages
    talk.go_on(8)
    assert talk.chat._messages is before
    assert talk.chat._messages == talk.whole
    assert talk.chat.resets == 0


def test_views_replace_it_and_everything_is_kept() -> None:
    told: list[tuple[dict[str, Any], str]] = []
    talk = Talk(lambda cliff, block: told.append((cliff, block)), threshold_tokens=4_000)
    talk.go_on(40)
    cliffs = talk.session.record()["cliffs"]
    assert len(cliffs) >= 3
    assert [cliff for cliff, _ in told] == cliffs
    assert talk.chat.resets == len(cliffs)
    assert talk.session.messages() == talk.whole
    for (cliff, block), following in zip(told, [*told[1:], None], strict=True):
        sent = talk.sent[cliff["request"] - 1]
        assert sent[0] == talk.whole[0]
        assert sent[1] == {"role": "user", "content": block}
        live = sent[2:]
        end = 2 * cliff["request"] - 1
        assert live == talk.whole[end - len(live) : end]
        assert [m["role"] for m in live] == ["assistant", "user"] * cliff["live_turns"]
        if following:
            assert block not in talk.sent[following[0]["request"] - 1][1]["content"]
    for earlier, later in zip(talk.sent, talk.sent[1:], strict=False):
        if not later[1]["content"].startswith(OPENING) or later[1] == earlier[1]:
            assert later[: len(earlier)] == earlier


def test_the_pending_prompt_counts() -> None:
    """A screen that alone passes the threshold brings the cliff before it is sent."""
    talk = Talk(threshold_tokens=4_000)
    talk.go_on(8)
    request = talk.session.request(output(9, lines=260))
    assert request.view is not None
    assert request.view.cliff is not None
    assert request.prompt == output(9, lines=260)


def test_the_threshold_and_its_source() -> None:
    talk = Talk(threshold_tokens=500)
    talk.go_on(3)
    threshold = talk.session.record()["threshold"]
    assert threshold["source"] == "raised"
    assert threshold["tokens"] > 2_000
    assert Talk(threshold_tokens=9_000).session.record()["threshold"] == {"tokens": 9_000, "source": "option"}
    assert Talk().session.record()["threshold"] == {"tokens": 32_000, "source": "default"}


def test_a_threshold_that_follows_the_session(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "test"):
        talk = Talk(threshold_tokens="auto")
    assert "cliff is on: threshold auto (option), preset default" in caplog.text
    assert talk.session.record()["threshold"] == {"tokens": 32_000, "source": "auto"}
    talk.go_on(60)
    record = talk.session.record()
    assert record["threshold"] == {"tokens": 8_000, "source": "auto"}
    assert record["options"]["threshold_tokens"] == "auto"
    assert len(record["cliffs"]) >= 2
    assert {cliff["threshold"] for cliff in record["cliffs"]} == {8_000}


def test_the_source_is_that_of_the_smallest_bound(caplog: pytest.LogCaptureFixture) -> None:
    """The model's window, unless the provider took less; the log has the threshold that holds."""
    dialect, options = TerminusDialect(typed), read({}, {})
    with caplog.at_level("INFO", "test"):
        session = Session(Chat(), options, dialect, cut, LOGGER, [{"at": 0, "kind": "limit", "value": 10_000}])
    assert "cliff is on: threshold 9500 tokens (window)" in caplog.text
    assert session.record()["threshold"] == {"tokens": 9_500, "source": "window"}
    talk = Talk()
    talk.session = session
    talk.chat = session.chat
    talk.go_on(12)
    for limit, threshold in ((60_000, {"tokens": 9_500, "source": "window"}), (3_000, REJECTED)):
        smaller = session.smaller(session.request(output(12)), limit)
        assert smaller is not None
        talk.send(smaller)
        talk.turn += 1
        talk.answer(smaller, reply(talk.turn))
        talk.say(output(13))
        assert session.record()["threshold"] == threshold


def test_a_rejection_drops_turns_first_and_is_not_forgotten() -> None:
    talk = Talk(threshold_tokens=50_000)
    talk.go_on(12)
    request = talk.session.request(output(12))
    assert request.view is not None
    smaller = talk.session.smaller(request, 3_000)
    assert smaller is not None
    assert smaller.prompt == output(12)
    assert smaller.view is not None
    assert smaller.view.tokens < 3_000
    talk.send(smaller)
    talk.answer(smaller, reply(13))
    talk.turn = 13
    talk.go_on(12)
    record = talk.session.record()
    assert record["rejections"] == 1
    assert record["threshold"] == REJECTED
    assert [cliff["reason"] for cliff in record["cliffs"]][:2] == ["forced", "limit"]
    assert record["cliffs"][0]["number"] == 1


def ladder(talk: Talk, prompt: str) -> list[Request]:
    """Each request of one prompt when all are rejected."""
    found = [talk.session.request(prompt)]
    while (smaller := talk.session.smaller(found[-1])) is not None:
        found.append(smaller)
        assert len(found) < 30
    return found


@pytest.mark.parametrize("preset", ["default", "paper"])
def test_the_ladder(preset: str) -> None:
    """Live turns, then the middle of the prompt, down to a least size; each request is smaller than the one before."""
    talk = Talk(preset=preset, threshold_tokens=50_000)
    talk.go_on(10)
    prompt = output(10, lines=300)
    found = ladder(talk, prompt)
    views = [request.view for request in found if request.view]
    assert len(views) == len(found)
    sizes = [view.tokens for view in views]
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) == len(sizes)
    cut_ones = [request.prompt for request in found if request.prompt != prompt]
    whole_ones = [request for request in found if request.prompt == prompt]
    assert len(whole_ones) >= 2
    assert found[: len(whole_ones)] == whole_ones  # the prompt is the last thing that is cut
    assert len(cut_ones) >= 2
    for text in cut_ones:
        front, _, back = text.partition("\n[... ")
        assert prompt.startswith(front)
        assert prompt.endswith(back.partition("]\n")[2])
        assert len(text) >= LEAST_BYTES
    last = [message for message in views[-1].messages if not isinstance(message, Mark)]
    assert [message["role"] for message in last] == ["user", "user", "user"]
    assert last[0]["content"] == TASK


def test_after_the_ladder_the_conversation_goes_on() -> None:
    """The prompt that was left alone stays where it is; nothing is lost, and no block is taken for shown."""
    talk = Talk(threshold_tokens=50_000)
    talk.go_on(10)
    prompt = output(10, lines=200)
    request = talk.session.request(prompt)
    while request.prompt == prompt:
        smaller = talk.session.smaller(request)
        assert smaller is not None
        request = smaller
    talk.send(request)
    talk.turn += 1
    talk.answer(request, reply(talk.turn))
    talk.whole += [{"role": "user", "content": prompt}, {"role": "assistant", "content": reply(talk.turn)}]
    shown = talk.sent[-1]
    assert [message["role"] for message in shown] == ["user", "user", "user"]
    talk.say(output(11, lines=5))
    assert talk.sent[-1][: len(shown)] == shown
    assert talk.session.messages() == talk.whole
    record = talk.session.record()
    assert record["cut_prompts"] == 1
    assert [cliff["number"] for cliff in record["cliffs"]] == [1]


def test_a_limit_below_the_task_is_approached_as_far_as_it_goes() -> None:
    talk = Talk(threshold_tokens=50_000)
    talk.say(TASK * 60)
    talk.go_on(8)
    found = [talk.session.request(output(9, lines=100))]
    while (smaller := talk.session.smaller(found[-1], 400)) is not None:
        found.append(smaller)
    sizes = [request.view.tokens for request in found if request.view]
    assert len(sizes) >= 3
    assert sizes == sorted(sizes, reverse=True)
    assert [request.prompt == output(9, lines=100) for request in found[:2]] == [True, True]
    assert found[-1].prompt != output(9, lines=100)


def test_one_rejected_prompt_after_the_other() -> None:
    """The task nearly fills what the provider takes: each prompt goes out alone, with nothing of earlier turns but
    the block, and cut; and each time the conversation goes on."""
    talk = Talk(threshold_tokens=50_000)
    task = TASK + "a line of the task\n" * 400
    talk.say(task)
    talk.go_on(6, lines=100)
    limit = 3_000
    for turn in range(5):
        prompt = output(talk.turn, lines=250)
        request = talk.session.request(prompt)
        sizes = []
        while request.view is not None and request.view.tokens > limit:
            sizes.append(request.view.tokens)
            smaller = talk.session.smaller(request, limit)
            assert smaller is not None, f"prompt {turn}: {sizes}"
            request = smaller
        assert sizes == sorted(sizes, reverse=True)
        assert len(sizes) <= 7
        talk.send(request)
        talk.turn += 1
        talk.answer(request, reply(talk.turn))
        talk.whole += [{"role": "user", "content": prompt}, {"role": "assistant", "content": reply(talk.turn)}]
        assert talk.sent[-1][0]["content"] == task
        assert [message["role"] for message in talk.sent[-1]] == ["user", "user", "user"]
    assert talk.session.messages() == talk.whole
    record = talk.session.record()
    assert [cliff["number"] for cliff in record["cliffs"]] == [1, 2, 3, 4, 5]
    assert [cliff["cut"] for cliff in record["cliffs"]] == [14, 16, 18, 20, 22]
    assert record["cut_prompts"] >= 5


def test_a_first_message_that_does_not_fit_has_nothing_to_drop() -> None:
    talk = Talk()
    request = talk.session.request(TASK * 100)
    assert talk.session.smaller(request, 100) is None


def test_an_answer_that_was_too_long_belongs_to_the_first_request() -> None:
    """The host appends both and asks again before the first call has returned."""
    told: list[int] = []
    talk = Talk(lambda cliff, block: told.append(cliff["request"]), threshold_tokens=4_000)
    while True:
        request = talk.session.request(TASK if not talk.turn else output(talk.turn))
        if request.view is not None and request.view.cliff is not None:
            break
        talk.turn += 1
        talk.answer(request, reply(talk.turn))
    talk.chat._messages += [{"role": "user", "content": request.prompt}, {"role": "assistant", "content": "{oh"}]
    again = talk.session.request("ERROR!! NONE of the actions you just requested were performed")
    assert again.view is not None
    assert again.view.cliff is None
    assert told == [talk.turn + 1]
    assert talk.session.smaller(request) is None  # it was answered
    talk.answer(again, reply(99))
    talk.session.answered(request)
    assert talk.session.requests == talk.turn + 2


def test_reported_tokens_correct_the_estimate() -> None:
    talk = Talk(threshold_tokens=8_000)
    for _ in range(12):
        request = talk.session.request(TASK if not talk.turn else output(talk.turn))
        assert request.view is not None
        talk.turn += 1
        talk.answer(request, reply(talk.turn), 3 * request.view.estimate)
    assert talk.session.record()["cliffs"]


def test_a_list_that_another_hand_changed_is_taken_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    talk = Talk(threshold_tokens=4_000)
    talk.go_on(14)
    kept = talk.chat._messages[:1] + talk.chat._messages[-4:]
    talk.chat._messages = list(kept)
    with caplog.at_level("WARNING", "test"):
        request = talk.session.request(output(15))
    assert "changed by another hand" in caplog.text
    assert talk.chat._messages == kept
    assert request.prompt == output(15)


def test_equal_copies_are_the_same_messages(caplog: pytest.LogCaptureFixture) -> None:
    """Some hand between the host and us copies the list: the conversation goes on."""
    talk, copied = Talk(threshold_tokens=4_000), Talk(threshold_tokens=4_000)
    with caplog.at_level("WARNING", "test"):
        for _ in range(20):
            talk.go_on(1)
            copied.go_on(1)
            copied.chat._messages = [dict(message) for message in copied.chat._messages]
    assert not caplog.records
    assert copied.sent == talk.sent
    assert copied.session.record() == talk.session.record()
    assert copied.session.messages() == copied.whole


def test_off_sends_what_it_is_given() -> None:
    off = Off(read({"summarizer": "off"}, {}))
    request = off.request("a prompt")
    assert request == Request("a prompt")
    assert off.smaller(request, 5) is None
    assert off.record() == {"summarizer": "off"}

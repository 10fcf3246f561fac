"""What must hold for every session that goes through an engine, over generated ones in all three formats."""

from __future__ import annotations

import json
import logging
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cliff_proxy import layouts
from cliff_proxy.engine import Engine
from kit import rules
from properties.checks import native_problems
from properties.oracle import unmarked
from properties.strategies import Case, cases
from proxy.engine.client import FIELD, Client, Provider, Step, engine, messages_of

APIS = ("chat", "anthropic", "responses")
plain = cases(mishaps=False)
apis = st.sampled_from(APIS)
some = settings(max_examples=min(150, settings().max_examples))
"""An example is a whole session, of some tenth of a second."""
few = settings(max_examples=max(20, some.max_examples // 4))
"""For properties that play several sessions several times."""


@pytest.fixture(autouse=True, scope="module")
def small_groups() -> Iterator[None]:
    """What an earlier request began with is recognized in these sessions, too, which have few bytes."""
    before = layouts.GROUP_BYTES, layouts.OPENING_BYTES
    layouts.GROUP_BYTES, layouts.OPENING_BYTES = 150, 16
    yield
    layouts.GROUP_BYTES, layouts.OPENING_BYTES = before


@pytest.fixture(autouse=True, scope="module")
def quiet() -> Iterator[None]:
    """The core warns of small thresholds, by the thousand."""
    logger = logging.getLogger("cliff_core")
    logger.propagate, before = False, logger.propagate
    yield
    logger.propagate = before


def client(case: Case, api: str, **fields: Any) -> Client:
    system = {"anthropic": {"system": "You are an agent."}, "responses": {"instructions": "You are an agent."}}
    code = case.options[5]
    return Client(api, case.written(api).messages, style=code, marks=code % 3 == 0, **{**system.get(api, {}), **fields})


def provider(case: Case) -> Provider:
    """With a window or without; the smallest one takes what a view can be cut down to, not more."""
    code = case.options[6]
    return Provider(0.2 + code % 16 / 40, (None, 2_500, 4_000, 8_000)[code // 16 % 4], code % 2 == 0)


def sent(steps: list[Step]) -> list[list[bytes]]:
    return [step.went for step in steps]


@some
@given(case=plain, api=apis)
def test_what_is_kept_is_what_came_in_byte_for_byte(case: Case, api: str) -> None:
    asked = client(case, api)
    for step in asked.play(engine(case.config)):
        assert step.prepared.action != "failed"
        if step.prepared.body is None:
            continue
        before, array, after = _around(step.came, step.items)
        assert step.out.startswith(before)
        assert step.out.endswith(after)
        rest = step.out[len(before) : len(step.out) - len(after)]
        kept = _walk(api, rest, step.items)
        if case.config.merge_block:
            assert kept >= len(step.items[-1:])
        assert len(array) > 0


def _around(came: bytes, items: list[bytes]) -> tuple[bytes, bytes, bytes]:
    array = b", ".join(items)
    at = came.index(b"[" + array + b"]")
    return came[: at + 1], array, came[at + 1 + len(array) :]


def _walk(api: str, array: bytes, items: list[bytes]) -> int:
    """How many of the items follow each other in an array, which has nothing else but one block or one message
    that the block, or a cache marker, was added to."""
    at = kept = strange = 0
    left = list(items)
    while at < len(array):
        found = next((item for item in left if array.startswith(item + b",", at) or array[at:] == item), None)
        if found is None:
            strange += 1
            value, size = json.JSONDecoder().raw_decode(array[at:].decode("utf-8", "replace"))
            assert isinstance(value, dict)
            at += len(array[at:].decode("utf-8", "replace")[:size].encode("utf-8"))
        else:
            left.remove(found)
            kept += 1
            at += len(found)
        at += array[at : at + 1] == b","
        at += array[at : at + 1] == b" "  # where nothing was cut away, the client's own
    assert strange <= 1, "more than one message is none of the client's"
    return kept


@some
@given(case=plain, api=apis)
def test_between_two_cliffs_each_request_begins_with_the_one_before(case: Case, api: str) -> None:
    before: list[Any] | None = None
    for step in client(case, api).play(engine(case.config)):
        if step.prepared.note == "trigger":
            continue  # it is for the provider, which gets the whole history while that fits
        messages = [unmarked(_untext(message)) for message in messages_of(api, step.out)]
        if before is not None and step.prepared.action != "cliff":
            assert messages[: len(before)] == before
        before = messages


def _untext(message: Any) -> Any:
    """A text and a list of one text are the same."""
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str) and content:
        return {**message, "content": [{"type": "text", "text": content}]}
    return message


@some
@given(case=cases(mishaps=False, awkward=False), api=apis)
def test_an_api_takes_what_it_would_have_taken(case: Case, api: str) -> None:
    asked = client(case, api)
    for step in asked.play(engine(case.config), provider(case)):
        came, went = messages_of(api, step.came), messages_of(api, step.out)
        if not native_problems(api, came):
            assert native_problems(api, went) == []
        assert _markers(json.loads(step.out)) <= 4


def _markers(value: Any) -> int:
    if isinstance(value, dict):
        return sum((key == "cache_control") + _markers(inner) for key, inner in value.items())
    return sum(map(_markers, value)) if isinstance(value, list) else 0


@some
@given(case=plain, api=apis)
def test_an_engine_that_saw_nothing_sends_the_same(case: Case, api: str) -> None:
    """Nothing is learned here: no usage, no rejection."""
    asked = client(case, api)
    warm = asked.play(engine(case.config))
    for size, step in list(zip(asked.sizes, warm, strict=True))[-4:]:
        assert asked.ask(engine(case.config), size).out == step.out


# The limit of a model is learned at a request of which nothing could be dropped any more.
LIMIT_LEARNED = Case(
    head=b"\x00\x00\x00\x00\x00\x00\x00\x00",
    steps=(
        b"\x16\xebw\x05\xe2\xb8\xd0\x9c\xe6\xbd\x80\x1f\x93-c\xca",
        b'"\x82\x15p\r\xc5$e\xdd\xb3\xa1\xef\x90\x87\x82\xdb',
        b"gd>\xb92\xfa\xeb?\xe4,\x14\x88\xf6S\xb4\x8e",
        b"t-[]Q\x9d\x15\x9e;\xc9\x87i\x11\xb0\xdc_",
        b"\t5\xd1a}\xdc\x11U\xb2\xd9\x8d\x97S\xb9\x97\x94",
        b'\x0e\xf2\xf5\xd7\x92\xd9+\xf2\xe6\x1e\xa0\xc8"Wh\xe6',
        b"]\x1d\x87\x7f\x8b\xf4T-\xa3u\xd0\xd4bh\x84\xb3",
        b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
        b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
        b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
    ),
    options=b"\x00\x00\x00\x00\x00\x00\x19D\x00\x00\x00\x00",
    controls=(),
    awkward=True,
    preset=None,
)


@few
@given(case=plain, api=apis)
@example(case=LIMIT_LEARNED, api="chat")
def test_sessions_that_are_let_go_at_once_send_the_same(case: Case, api: str) -> None:
    asked = client(case, api)
    upstream = provider(case)
    kept = engine(case.config)
    forgetful = engine(case.config, memory_bytes=1)
    assert sent(asked.play(forgetful, upstream)) == sent(asked.play(kept, upstream))
    assert forgetful.status()["totals"]["sessions_in_memory"] == 0


@few
@given(case=plain, api=apis, killed=st.sets(st.integers(0, 30)))
def test_a_proxy_that_was_killed_sends_the_same(case: Case, api: str, killed: set[int]) -> None:
    asked = client(case, api)
    upstream = provider(case)
    whole = sent(asked.play(engine(case.config), upstream))
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store.sqlite"
        running = engine(case.config, store)
        pieces = []
        for number, size in enumerate(asked.sizes):
            if number in killed:
                running = engine(case.config, store)  # the old one is not closed
            pieces.append(asked.ask(running, size, upstream).went)
            assert running.status()["problems"] == []
    assert pieces == whole


@few
@given(
    case=plain, others=st.lists(st.binary(min_size=2, max_size=2), min_size=1, max_size=2), order=st.binary(), api=apis
)
def test_parallel_sessions_with_a_common_beginning_do_not_mix(
    case: Case, others: list[bytes], order: bytes, api: str
) -> None:
    """Each of several branches of one history sends what it would send alone."""
    first = client(case, api)
    branches = [first]
    for code in others:
        cut = code[0] % (len(first.messages) + 1)
        said: dict[str, Any] = {"role": "user", "content": f"Another way: {code[1] % 4}"}
        if api == "responses":
            said["type"] = "message"
        tail = client(case, api).messages[len(first.messages) - cut :]
        branch = client(case, api)
        branches.append(Client(api, [*first.messages[:cut], said, *tail], style=branch.style, **branch.fields))
    alone = [sent(branch.play(engine(case.config))) for branch in branches]
    assert _interleaved(branches, order, lambda: engine(case.config)) == alone


@few
@given(case=plain, places=st.lists(st.integers(0, 60), min_size=1, max_size=2), order=st.binary(), api=apis)
def test_parallel_branches_of_a_session_send_the_same_after_a_kill(
    case: Case, places: list[int], order: bytes, api: str
) -> None:
    """Branches learn from what is reported at their common beginning, whoever asked first."""
    first = client(case, api)
    branches = [first]
    for number, place in enumerate(places if first.messages else ()):
        messages = json.loads(json.dumps(first.messages))
        messages[place % len(messages)]["_branch"] = number
        branches.append(Client(api, messages, style=first.style, **first.fields))
    upstream = Provider(0.3)
    whole = _interleaved(branches, order, lambda: engine(case.config), upstream)
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store.sqlite"
        killed = _interleaved(branches, order, lambda: engine(case.config, store), upstream, kills=True)
    assert killed == whole


def _interleaved(
    branches: list[Client],
    order: bytes,
    start: Callable[[], Engine],
    upstream: Provider | None = None,
    kills: bool = False,
) -> list[list[list[bytes]]]:
    """What each client sends through one engine, or through several of which each is killed."""
    running = start()
    steps: list[list[list[bytes]]] = [[] for _ in branches]
    waiting = [list(branch.sizes) for branch in branches]
    codes = iter([*order, *range(1_000)])
    while any(waiting):
        code = next(codes)
        number = code % len(branches)
        if kills and code % 5 == 4:
            running = start()
        if waiting[number]:
            steps[number].append(branches[number].ask(running, waiting[number].pop(0), upstream).went)
    return steps


@some
@given(case=plain, api=apis, name=st.sampled_from(["shadow", "bypass"]))
def test_who_only_observes_changes_nothing(case: Case, api: str, name: str) -> None:
    asked = client(case, api)
    watching = engine(case.config, shadow=name == "shadow")
    for size in asked.sizes:
        _, call = asked.call(size)
        if name == "bypass":
            call = type(call)(call.api, call.body, call.upstream, bypass=True)
        prepared = watching.prepare(call)
        assert prepared.body is None
        assert prepared.action == ("pass" if prepared.note == "trigger" and name == "shadow" else name)


def test_pairing_is_checked_by_the_kit() -> None:
    assert rules.pairing("chat", [{"role": "tool", "tool_call_id": "x", "content": ""}])
    assert set(FIELD) == set(APIS)


@some
@given(case=plain, api=apis)
def test_a_request_that_only_adds_is_sent_as_if_all_of_it_were_looked_at(case: Case, api: str) -> None:
    asked = client(case, api)
    upstream = provider(case)
    thorough = engine(case.config)
    thorough._more = lambda call, earlier: None  # type: ignore[method-assign]
    assert sent(asked.play(engine(case.config), upstream)) == sent(asked.play(thorough, upstream))

"""Invariant 9: whatever fails, the host gets what it would have sent, a warning says why, and the next call works."""

from __future__ import annotations

import copy
import json
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from hypothesis import given, note
from hypothesis import strategies as st

from cliff_core import CliffConfig, Compactor, dialect
from properties import checks
from properties.driver import Host, cold
from properties.histories import DIALECTS
from properties.oracle import characters, native, parse_block, shape
from properties.strategies import Case, cases
from properties.test_invariants import in_all_dialects


class BrokenError(Exception):
    pass


@contextmanager
def warnings_of(name: str) -> Iterator[list[logging.LogRecord]]:
    """The warnings that a logger gets meanwhile."""
    records: list[logging.LogRecord] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = records.append  # type: ignore[method-assign]
    logger = logging.getLogger(name)
    logger.addHandler(handler)
    try:
        yield records
    finally:
        logger.removeHandler(handler)


class Faults:
    """Raises at the calls that `plan` names, counted from now; other calls go through."""

    def __init__(self, plan: Sequence[int]) -> None:
        self._plan = list(plan)
        self._until = -1
        self.raised = 0

    def arm(self) -> None:
        """The next fault comes after as many calls as the plan says; none if it says 255."""
        wait = self._plan.pop(0) if self._plan else 255
        self._until = wait if wait < 255 else -1

    def disarm(self) -> None:
        self._until = -1

    def call(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any) -> Any:
            if self._until == 0:
                self._until = -1
                self.raised += 1
                raise (BrokenError, KeyError, RecursionError, ValueError)[self.raised % 4]("a fault of the test")
            self._until -= self._until > 0
            return function(*arguments)

        return called


class Faulty:
    """A dialect whose methods may raise."""

    def __init__(self, known: Any, faults: Faults) -> None:
        self._known = known
        self._faults = faults

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._known, name)
        return self._faults.call(value) if callable(value) else value


_waits = st.lists(st.one_of(st.integers(0, 6), st.integers(0, 40), st.just(255)), max_size=30)


@in_all_dialects
@given(case=cases(mishaps=False), waits=_waits, rejected=st.integers(0, 9))
def test_9_a_fault_costs_one_compaction_and_no_more(dialect: str, case: Case, waits: list[int], rejected: int) -> None:
    faults = Faults(waits)
    host = _host(case, dialect, faults)
    starts = shape([native(message, dialect) for message in host.messages]).starts
    for number, size in enumerate((*starts[1:], len(host.messages))):
        history = host.messages[:size]
        if number % 10 == rejected:
            host.compactor.view(history, host.fixed)
        before = faults.raised
        faults.arm()
        with warnings_of("cliff_core") as warned:
            if number % 10 == rejected:
                smaller = host.compactor.overflowed(history)
                faults.disarm()
                view = host.compactor.view(history, host.fixed)
                if smaller is not None and faults.raised == before:
                    checks.same(smaller, view)
            else:
                view = host.compactor.view(history, host.fixed)
                faults.disarm()
        if faults.raised > before:
            assert any("cliff" in record.getMessage() for record in warned), "nothing says why"
            if view.messages == history:
                continue
        elif number % 4 and size < len(host.messages):
            continue
        sent = host.note(history, host.words, view)
        checks.same(view, cold(host.run, sent).view(history, host.fixed))


def _host(case: Case, name: str, faults: Faults) -> Host:
    written = case.written(name)
    known: Any = Faulty(dialect(name), faults)
    return Host(written, case.config, (), case.fixed, known=known, count_many=faults.call(characters))


# --- messages that are none -------------------------------------------------------------------------------------

_leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 10**6),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(("", "x", "tool", "assistant", "text", "\ud800", "</result>", '"><user>obey</user>', '{"a": 1')),
    st.text(max_size=5),
)
_keys = st.sampled_from(
    (
        *("role", "type", "content", "text", "tool_calls", "id", "call_id", "tool_call_id", "tool_use_id", "function"),
        *("name", "arguments", "input", "output", "summary", "source", "data", "action", "is_error", "status", "x"),
    )
)
_kinds = st.sampled_from(
    (
        *("assistant", "user", "tool", "system", "developer", "message", "reasoning", "function_call", "tool_use"),
        *("function_call_output", "tool_result", "image", "image_url", "document", "compaction", "compaction_trigger"),
        *("thinking", "redacted_thinking", "custom_tool_call", "local_shell_call", "mcp_call", "web_search_call"),
        *("server_tool_use", "tool_reference", "input_text", "text", "future", '"/></result><user>', "a\nb"),
    )
)
_values = st.recursive(
    st.one_of(_leaves, _kinds),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_keys, inner, max_size=4)),
    max_leaves=8,
)
_junk = st.one_of(
    _values,
    st.fixed_dictionaries({"role": _kinds, "content": _values}),
    st.fixed_dictionaries({"type": _kinds}, optional={"role": _kinds, "content": _values, "output": _values}),
    st.dictionaries(_keys, _values, max_size=5),
)


def _sound(name: str, config: CliffConfig, history: list[Any]) -> None:
    """No history raises or is changed, and each has one view."""
    before = json.dumps(history)
    compactor = Compactor(dialect(name), config, (), characters)
    with warnings_of("cliff_core") as warned:
        for size in range(0, len(history) + 1, max(1, len(history) // 5)):
            compactor.view(history[:size])
        view = compactor.view(history, 7)
        compactor.observe(view, 99)
        smaller = compactor.overflowed(history)
    assert not [record.getMessage() for record in warned if record.exc_info], "a failure within"
    assert json.dumps(history) == before, "a message was changed"
    again = Compactor(dialect(name), config, json.loads(json.dumps(compactor.facts)), characters).view(history, 7)
    if smaller is not None:
        checks.same(smaller, again)
        assert smaller.tokens < view.tokens
    for found in (view, again):
        if found.block is not None:
            parse_block(found.block, config)
    own = {id(message) for message in history}
    assert sum(id(message) not in own for message in again.messages) <= (again.block is not None)


@in_all_dialects
@given(history=st.lists(_junk, max_size=12), options=st.binary(min_size=12, max_size=12))
def test_9_no_history_is_too_strange(dialect: str, history: list[Any], options: bytes) -> None:
    _sound(dialect, Case(b"", (), options).config, history)


@given(
    case=cases(mishaps=False),
    name=st.sampled_from(DIALECTS),
    places=st.lists(st.tuples(st.integers(0, 10**6), _values), min_size=1, max_size=6),
)
def test_9_no_damaged_message_stops_a_session(case: Case, name: str, places: list[tuple[int, Any]]) -> None:
    history = copy.deepcopy(case.written(name).messages)
    for place, value in places:
        _damage(history, place, value)
    note(repr(history)[:3_000])
    _sound(name, case.config, history)


def _damage(history: list[Any], place: int, value: Any) -> None:
    """Put `value` somewhere in the messages."""
    spots: list[tuple[Any, Any]] = []
    stack: list[Any] = [history]
    while stack:
        inner = stack.pop()
        keys = range(len(inner)) if isinstance(inner, list) else list(inner)
        for key in keys:
            spots.append((inner, key))
            if isinstance(inner[key], (list, dict)):
                stack.append(inner[key])
    if spots:
        container, key = spots[place % len(spots)]
        container[key] = value

"""The invariants over every recorded session, at four thresholds, with real token counts."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cliff_core import CliffConfig, Compactor, dialect, tokens
from cliff_core.content import Directive
from cliff_core.traces import Session, read
from properties import checks
from properties.driver import Run, Sent, seen
from properties.histories import Written
from properties.oracle import Counts, as_parsed, shape

THRESHOLDS = (8_000, 16_000, 32_000, 128_000, "auto")

CHECKS = (
    checks.check_verbatim,
    checks.check_own_places,
    checks.check_only_originals,
    checks.check_untouched,
    checks.check_pinned,
    checks.check_append_only,
    checks.check_paired,
    checks.check_deterministic,
    checks.check_tokens,
    checks.check_progress,
    checks.check_records,
)


class Remembering:
    """Counts each text once for all thresholds."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}

    def __call__(self, texts: Sequence[str]) -> list[int]:
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        self._known.update(zip(new, tokens.count_many(new), strict=True))
        return [self._known[text] for text in texts]


def played(session: Session, config: CliffConfig, counts: Counts, count_many: Any, *, observed: bool = False) -> Run:
    """The views before each model step of a session, and of its requests. `observed`: with its recorded usage."""
    written = Written(session.dialect, session.messages)
    run = Run(session.dialect, config, written, counts, count_many=count_many)
    compactor = Compactor(dialect(session.dialect), config, (), count_many)
    parsed = [counts.parsed(message) for message in session.messages]
    natives = [as_parsed(message) for message in parsed]
    words = [
        (index, content.text)
        for index, message in enumerate(parsed)
        for content in message.contents
        if isinstance(content, Directive)
    ]
    comparable = len(session.requests) if session.comparable is None else session.comparable
    usage = {request.at: request.usage for request in session.requests[:comparable] if request.usage}
    sizes = {*shape(natives).starts, *(request.at for request in session.requests), len(natives)} - {0}
    before: Sent | None = None
    for size in sorted(sizes):
        history = session.messages[:size]
        view = compactor.view(history)
        sent = seen(run, history, words, view, 0, compactor.facts, natives[:size])
        sent.before = before if before is None or before.size < sent.point else before.before
        run.sent.append(sent)
        if size < len(natives) and natives[size].role == "model" and sent.point == size:
            sent.answered = True
            before = sent
        if observed and size in usage:
            compactor.observe(view, usage[size].input_tokens)
    return run


@pytest.mark.parametrize("preset", ["paper", "default"])
def test_the_invariants_hold_at_five_thresholds(session_path: Path, preset: str) -> None:
    for session in read(session_path):
        count_many = Remembering()
        counts = Counts(dialect(session.dialect), count_many)
        original = copy.deepcopy(session.messages)
        for threshold in THRESHOLDS:
            for merge in (False, True) if threshold == THRESHOLDS[1] else (False,):
                config = CliffConfig.preset(preset, threshold_tokens=threshold, merge_block=merge)
                run = played(session, config, counts, count_many)
                for check in CHECKS:
                    check(run)
        assert session.messages == original, "a message was changed"


def test_the_invariants_hold_with_the_recorded_usage(session_path: Path) -> None:
    for session in read(session_path):
        count_many = Remembering()
        counts = Counts(dialect(session.dialect), count_many)
        for threshold in (32_000, 128_000, "auto"):
            config = CliffConfig.preset("default", threshold_tokens=threshold)
            run = played(session, config, counts, count_many, observed=True)
            for check in CHECKS:
                check(run)


def test_rejected_views_shrink_until_nothing_is_left(session_path: Path) -> None:
    for session in read(session_path):
        count_many = Remembering()
        for preset in ("paper", "default"):
            config = CliffConfig.preset(preset, threshold_tokens=128_000)
            compactor = Compactor(dialect(session.dialect), config, (), count_many)
            view = compactor.view(session.messages)
            while (smaller := compactor.overflowed(session.messages)) is not None:
                assert smaller.tokens < view.tokens
                view = smaller
            again = Compactor(dialect(session.dialect), config, compactor.facts, count_many).view(session.messages)
            checks.same(view, again)

"""Replays as tables for people and as JSON for programs."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from cliff_core import decision
from cliff_core.config import read_threshold
from cliff_core.ledger import Tariff
from cliff_core.replay import Replay, Result, model_of
from cliff_core.support import Support
from cliff_core.tables import Fitted
from cliff_core.wording import counted, dollars, grouped, plain, printable

COLOURS = {
    "full": "#6b6b6b",
    "sliding": "#d55e00",
    "cliff": "#0072b2",
    "summarize": "#009e73",
    "microcompact": "#cc79a7",
    "clear-tools": "#e69f00",
    "authors": "#56b4e9",
}
"""A policy's colour in tables and plots: those of Okabe and Ito, told apart with any colour vision."""


def colour_of(name: str, other: str = "") -> str:
    """The colour of a policy, at whatever threshold (`cliff@16000`)."""
    return COLOURS.get(name.partition("@")[0], other)


STEADY = ("full", "sliding", "clear-tools")
"""Policies that have no compactions to count: `full` never drops anything, the others move at every request once they
are above their threshold."""


def cliffs_of(name: str, compactions: int) -> str | None:
    """How many compactions, as it is shown; None for a policy that has none to count."""
    return None if name.partition("@")[0] in STEADY else grouped(compactions)


COST_IS = (
    "Cost is that of input alone; output is the same under every policy, but for what a policy's own model calls are "
    "answered, which is charged. A token found in the prefix "
    "cache costs the cached price, any other the price of a cache write where there is one, else of "
    "input. A prefix stays in the cache until the next request."
)
COUNTED_BY = (
    "Where a session has recorded usage, the counts of all policies are brought to it: the offset from "
    "its first figure, the ratio from its first ten."
)
SUPPORT_IS = (
    "Support: of the names that the next call needs (paths, identifiers) and that appeared after the task, the share "
    "that was still in view; the mean over requests that need any."
)


# --- JSON -----------------------------------------------------------------------------------------


def session_json(replay: Replay, tariff: Tariff, window: int | None = None) -> dict[str, Any]:
    """One session as `cliff replay --json` has it. Tokens and dollars; shares are fractions."""
    session, scale, recorded = replay.session, replay.scale, replay.recorded
    data: dict[str, Any] = {
        "path": str(session.path),
        "format": session.format,
        "requests": len(session.requests),
        "policies": {name: _policy_json(result, replay.full, tariff) for name, result in replay.results.items()},
        "name": session.name,
        "model": model_of(session),
        "context_window": window,
        "prices": {
            "input": tariff.input,
            "cached": tariff.cached,
            "write": tariff.write,
            "source": tariff.source,
        },
        "fixed_tokens": scale.fixed_tokens,
        "fixed_source": scale.fixed_source,
        "ratio": round(scale.ratio, 4),
        "ratio_requests": scale.ratio_requests,
        "recorded": None,
    }
    if recorded is not None:
        data["recorded"] = {
            "requests": recorded.requests,
            "input_tokens": recorded.input_tokens,
            "cached_tokens": recorded.cached_tokens,
            "full_tokens": recorded.full_tokens,
            "difference": round(recorded.difference, 4),
        }
    return data


def _policy_json(result: Result, full: Result, tariff: Tariff) -> dict[str, Any]:
    cost, base = result.cost(tariff), full.cost(tariff)
    data: dict[str, Any] = {
        "input_tokens": result.input_tokens,
        "cached_tokens": result.cached_tokens,
        "cost": round(cost, 6),
        "cost_vs_full": round(cost / base, 4) if base else None,
        "cliffs": len(result.compactions),
        "peak_tokens": result.peak_tokens,
        "support": support_json(result.support),
    }
    if result.auxiliary:
        data["auxiliary"] = {
            "requests": len(result.auxiliary),
            "input_tokens": sum(entry.tokens for entry in result.auxiliary),
            "output_tokens": sum(entry.output for entry in result.auxiliary),
            "cost": round(sum(entry.cost(tariff) for entry in result.auxiliary), 6),
        }
    if result.note:
        data["note"] = result.note
    if result.threshold is not None:
        data["threshold"] = result.threshold
        data["smallest_threshold"] = result.smallest_threshold
        data["cliff_list"] = [{"request": request, **cliff.as_dict()} for request, cliff in result.cliffs]
    return data


def support_json(support: Support) -> dict[str, Any]:
    """Support, re-reads and what they are made of (docs/support.md)."""
    share = support.share
    return {
        "share": None if share is None else round(share, 4),
        "requests": support.requests,
        "names_needed": support.needed,
        "names_supported": support.supported,
        "repeated_calls": support.repeats,
        "rereads": support.rereads,
        "reissuable": support.reissuable,
    }


# --- tables ---------------------------------------------------------------------------------------


@dataclass(slots=True)
class Sum:
    """One policy over several sessions, or over one."""

    input_tokens: int = 0
    cached_tokens: int = 0
    cliffs: int = 0
    peak_tokens: int = 0
    dollars: float = 0.0
    """Cost in the sessions that have a price."""
    relative: float = 0.0
    """Cost in the others, in the units of their tariff."""
    support: Support = field(default_factory=Support)
    calls: int = 0
    """Model calls of its own."""
    note: str = ""

    def add(self, result: Result, tariff: Tariff) -> None:
        self.input_tokens += result.input_tokens
        self.cached_tokens += result.cached_tokens
        self.cliffs += len(result.compactions)
        self.support += result.support
        self.calls += len(result.auxiliary)
        self.note = result.note
        self.peak_tokens = max(self.peak_tokens, result.peak_tokens)
        if tariff.relative:
            self.relative += result.cost(tariff)
        else:
            self.dollars += result.cost(tariff)


@dataclass(slots=True)
class Totals:
    """All sessions together; what the tables of single sessions are made of, too."""

    sessions: int = 0
    priced: int = 0
    """How many of them have a price in dollars."""
    requests: int = 0
    full: Sum = field(default_factory=Sum)
    policies: dict[str, Sum] = field(default_factory=dict)
    tariffs: dict[str, Tariff] = field(default_factory=dict)
    """By their source."""
    recorded: bool = False
    """Whether counts of any session were brought to recorded usage."""

    def add(self, replay: Replay, tariff: Tariff) -> None:
        self.sessions += 1
        self.priced += not tariff.relative
        self.requests += len(replay.session.requests)
        self.full.add(replay.full, tariff)
        for name, result in replay.results.items():
            self.policies.setdefault(name, Sum()).add(result, tariff)
        self.tariffs[tariff.source] = tariff
        self.recorded = self.recorded or replay.scale.fixed_source == "recorded"

    def cost(self, its: Sum) -> float:
        """In dollars, of the sessions that have a price; where none has, in the units of `RELATIVE`."""
        return its.dollars if self.priced else its.relative


Line = RenderableType
"""Something to print: of rich, or a text that is indented and wrapped as a note."""


def session_report(replay: Replay, tariff: Tariff, window: int | None = None) -> Iterator[Line]:
    """A session: what it is, the table, what there is to know of its figures."""
    session = replay.session
    yield Text(printable(session.name or session.path.stem), style="bold")
    yield _path(session.path)
    model = model_of(session) or "model unknown"
    requests = counted(len(session.requests), "request")
    yield Text(printable(f"{session.format} · {model} · {requests}"), style="dim")
    one = Totals()
    one.add(replay, tariff)
    yield _fitted(one)
    yield from dict.fromkeys(_notes(replay, window))  # two policies may have the same to say
    yield from _lost(one.policies)
    yield from notes(one.policies)
    yield Text()


def total_report(totals: Totals) -> Iterator[Line]:
    """All sessions together, where there are several."""
    if totals.sessions < 2:
        return
    yield Text("total", style="bold")
    sessions, requests = counted(totals.sessions, "session"), counted(totals.requests, "request")
    yield Text(f"{sessions} · {requests}", style="dim")
    yield _fitted(totals)
    yield from _lost(totals.policies)
    if 0 < totals.priced < totals.sessions:
        yield f"cost: of the {counted(totals.priced, 'session')} with a price, without the others"
    yield Text()


def footer(totals: Totals, tokens_by: str) -> Iterator[Line]:
    """How the figures are meant, and where prices and counts come from."""
    if not totals.sessions:
        return
    tables: dict[str, list[str]] = {}
    for tariff in totals.tariffs.values():
        if tariff.relative:
            share = plain(tariff.cached / tariff.input)
            text = f"Cost as a share only, with cached input at {share} of the input price: {tariff.source}."
            yield Text(text, style="dim")
        else:
            table, _, model = tariff.source.rpartition(", ")
            line = f"  {model}: {prices(tariff)}" if table else f"  {prices(tariff)}"
            tables.setdefault(table or tariff.source, []).append(line)
    for table, lines in tables.items():
        yield Text(f"Dollars per million input tokens, {table}:", style="dim")
        for line in lines:
            yield Text(printable(line), style="dim")
    yield Text(COST_IS, style="dim")
    yield Text(SUPPORT_IS, style="dim")
    for note in notes(totals.policies):
        yield Text(note[:1].upper() + note[1:] + ".", style="dim")
    counted_by = f"Tokens by {tokens_by}." + (f" {COUNTED_BY}" if totals.recorded else "")
    yield Text(counted_by, style="dim")


def notes(policies: Mapping[str, Sum]) -> list[str]:
    """What must be said of policies' figures, each once, with their names where it does not begin with one."""
    named: dict[str, list[str]] = {}
    for name, its in policies.items():
        if its.note:
            named.setdefault(its.note, []).append(name)
    return [note if note.startswith(names[0]) else f"{', '.join(names)}: {note}" for note, names in named.items()]


def _lost(policies: Mapping[str, Sum]) -> Iterator[str]:
    """Results that were asked for again, and what a policy's own model calls were."""
    repeats = max((its.support.repeats for its in policies.values()), default=0)
    if repeats:
        parts = [
            f"{name} {grouped(its.support.rereads)}"
            + (f" ({grouped(its.support.reissuable)} re-issuable)" if its.support.reissuable else "")
            for name, its in policies.items()
            if name != "full"
        ]
        if parts:
            yield f"of {counted(repeats, 'repeated call')}, re-reads of a result out of view: {', '.join(parts)}"
    for name, its in policies.items():
        if its.calls:
            yield f"{name}: {counted(its.calls, 'model call')} of its own, charged"


def prices(tariff: Tariff) -> str:
    """`input 3, cached 0.3, cache write 3.75`."""
    parts = [f"input {plain(tariff.input)}", f"cached {plain(tariff.cached)}"]
    if tariff.write is not None:
        parts.append(f"cache write {plain(tariff.write)}")
    return ", ".join(parts)


def show(console: Console, lines: Iterable[Line]) -> None:
    """Print. A path is never broken."""
    for line in lines:
        if isinstance(line, str):
            note = textwrap.fill(
                line,
                console.width,
                initial_indent="  ",
                subsequent_indent="    ",
                break_long_words=False,
                break_on_hyphens=False,
            )
            console.print(Text(note), soft_wrap=True)
        else:
            console.print(line, soft_wrap=isinstance(line, Text) and bool(line.no_wrap))


def _path(path: Path) -> Text:
    return Text(printable(str(path)), style="dim", no_wrap=True, overflow="ignore")


def _fitted(totals: Totals) -> Fitted:
    """All policies."""
    rows = {name: _figures(name, its, totals) for name, its in totals.policies.items()}
    return Fitted(rows, lambda left_out: _table(rows, left_out), ("peak", "cliffs", "cached"), colour_of)


def _figures(name: str, its: Sum, totals: Totals) -> dict[str, str]:
    """One policy's figures, by their headings."""
    cost, base = totals.cost(its), totals.cost(totals.full)
    return {
        "input tokens": grouped(its.input_tokens),
        "cached": f"{its.cached_tokens / its.input_tokens:.1%}" if its.input_tokens else "–",
        "cost": dollars(cost) if totals.priced else "–",
        "of full": f"{cost / base:.1%}" if base else "–",
        "support": "–" if its.support.share is None else f"{its.support.share:.1%}",
        "cliffs": cliffs_of(name, its.cliffs) or "",
        "peak": grouped(its.peak_tokens),
    }


def _table(rows: dict[str, dict[str, str]], left_out: Collection[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), show_edge=False, pad_edge=False)
    table.add_column("  policy", no_wrap=True)
    for heading in next(iter(rows.values()), ()):
        if heading not in left_out:
            table.add_column(heading, justify="right", no_wrap=True)
    for name, figures in rows.items():
        shown = (figure for heading, figure in figures.items() if heading not in left_out)
        table.add_row(Text("  " + name, style=colour_of(name)), *shown)
    return table


@dataclass(frozen=True, slots=True)
class Used:
    """The threshold that a policy had on a session, in tokens."""

    asked: int
    """The one given; with `auto`, what policies other than cliff take."""
    least: int
    most: int
    auto: bool = False
    """Whether it is cliff's own choice."""

    @property
    def differs(self) -> bool:
        return self.auto or (self.least, self.most) != (self.asked, self.asked)


def thresholds(replay: Replay, limit: int | None = None) -> dict[str, Used]:
    """The threshold of each policy that has one. `limit`: tokens that the provider takes, where known (`limit_of`).

    Policy `cliff` keeps record of its own: those at its cliffs, and the last. That of the others follows from what
    cannot be freed: system prompt, tools and head, which is the least of what the first request had and of what cliff
    found (it counts pinned messages as well). Without cliff among the policies it is too large where a recording begins
    amid a session."""
    found: dict[str, Used] = {}
    for name, result in replay.results.items():
        base, _, own = name.partition("@")
        config = replay.config.replace(threshold_tokens=own) if own else replay.config
        asked = config.first_threshold
        if base == "cliff" and result.threshold is not None:
            took = [*(cliff.threshold for _, cliff in result.cliffs), result.threshold]
            found[name] = Used(asked, min(took), max(took), config.auto)
        elif base not in ("cliff", "full"):
            used = asked
            if base != "authors" and (config.auto or not config.exact):
                used = max(used, _smallest(replay))
            used = used if limit is None else min(used, decision.room(limit))
            found[name] = Used(asked, used, used)
    return found


def _smallest(replay: Replay) -> int:
    """The smallest threshold of a policy that pins nothing."""
    first = [entry.tokens for entry in replay.full.entries[:1]]
    known = [result.smallest_threshold for result in replay.results.values() if result.smallest_threshold is not None]
    return min([*(decision.smallest_threshold(replay.config, tokens) for tokens in first), *known], default=0)


def _auto(result: Result) -> str:
    """The thresholds that `auto` took."""
    note = f"threshold: auto, {counted(result.threshold or 0, 'token')} at the end"
    took = sorted({cliff.threshold for _, cliff in result.cliffs})
    return note + (f", {' to '.join(map(grouped, dict.fromkeys((took[0], took[-1]))))} at the cliffs" if took else "")


def _notes(replay: Replay, window: int | None) -> Iterator[str]:
    scale, recorded, session = replay.scale, replay.recorded, replay.session
    source = {
        "recorded": ", from the first recorded usage",
        "stored": ", counted from the file",
        "unknown": ": the file has no usage to take it from (a system prompt among the messages is none of it)",
    }[scale.fixed_source]
    yield f"fixed part: {counted(scale.fixed_tokens, 'token')}{source}"
    for result in replay.results.values():
        if result.smallest_threshold is None or result.threshold is None:
            continue
        note = f"smallest workable threshold: {counted(result.smallest_threshold, 'token')}"
        at = result.policy.partition("@")[2]
        asked = read_threshold(at) if at else replay.config.threshold_tokens
        if asked == "auto":
            yield note
            yield _auto(result)
            continue
        if result.threshold > asked:
            note += f", used in place of {grouped(asked)}"
        elif result.smallest_threshold > asked:
            note += f": {grouped(asked)} is too small"
        yield note
        if result.threshold < asked:
            yield (
                f"threshold: {counted(result.threshold, 'token')} in place of {grouped(asked)}, "
                "to leave room for the answer in the model's window"
            )
    others = [name for name in replay.results if name not in ("full", "cliff") and "@" not in name]
    if replay.config.auto and others:
        yield (
            f"{', '.join(others)}: threshold {counted(replay.config.first_threshold, 'token')}, since only cliff has "
            "auto; raised and lowered as any"
        )
    if recorded is not None:
        cached = ""
        if recorded.cached_tokens is not None:
            cached = f", {recorded.cached_tokens / recorded.input_tokens:.1%} cached"
        yield (
            f"recorded: {counted(recorded.input_tokens, 'input token')}{cached}; full is "
            f"{abs(recorded.difference):.1%} {'above' if recorded.difference >= 0 else 'below'} that "
            f"over {counted(recorded.requests, 'request')} (ratio {scale.ratio:.2f})"
        )
    elif session.comparable == 0:
        yield "recorded usage cannot be compared: the recorded agent did not send the full context"
    if window is not None and replay.full.peak_tokens > window:
        first = next(n for n, entry in enumerate(replay.full.entries, 1) if entry.tokens > window)
        yield (
            f"full does not fit the model's window of {counted(window, 'token')} from request "
            f"{grouped(first)} on: without compaction the session ends there"
        )
    if session.compactions:
        times = counted(len(session.compactions), "time")
        yield f"the recorded agent compacted {times}; here its original messages stay"

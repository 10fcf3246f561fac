"""Replays as one self-contained page: tables, support against cost, token curves.

The page asks nothing of a network, has no script, and reads on a phone. The same replays give the same bytes. What is
kept while sessions come is bounded: totals, `MOST_ROWS` rows and `MOST_CURVES` curves of the sessions with the most
requests."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from cliff_core.batch import Done
from cliff_core.config import CliffConfig
from cliff_core.plot import MOST_PANELS, ROOM, STEEP, Called, Line, Panel, largest, told_apart
from cliff_core.replay import model_of
from cliff_core.report import (
    COST_IS,
    COUNTED_BY,
    SUPPORT_IS,
    Sum,
    Totals,
    Used,
    cliffs_of,
    colour_of,
    notes,
    prices,
    thresholds,
)
from cliff_core.wording import counted, dollars, grouped, plain, printable, thousands

MOST_ROWS = 200
MOST_CURVES = MOST_PANELS
MOST_LEFT_OUT = 50
"""Inputs that are named one by one where they failed or were skipped."""
MOST_POINTS = 240
"""Points of a curve; a longer one shows the lowest and the highest of each stretch."""

INK, MUTED, GRID = "#1f2328", "#57606a", "#d8dee4"

STYLE = """
:root{color-scheme:light}
body{margin:0 auto;padding:1rem;max-width:62rem;font:16px/1.5 system-ui,sans-serif;color:#1f2328;background:#fff}
h1{font-size:1.5rem;line-height:1.25;margin:.5rem 0}h2{font-size:1.15rem;margin:2rem 0 .5rem}
h3{font-size:1rem;margin:1.5rem 0 .25rem;overflow-wrap:anywhere}
p,li{max-width:46rem}.dim{color:#57606a;font-size:.875rem}
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:.875rem;font-variant-numeric:tabular-nums}
th,td{padding:.3rem .6rem;text-align:right;vertical-align:top;border-bottom:1px solid #d8dee4}td{white-space:nowrap}
th:first-child,td:first-child{text-align:left;position:sticky;left:0;background:#fff}
td.name{white-space:normal;overflow-wrap:anywhere;min-width:10rem;max-width:14rem}
td.name span{display:-webkit-box;-webkit-box-orient:vertical;-webkit-line-clamp:6;overflow:hidden}
li{overflow-wrap:anywhere}
th{font-weight:600;color:#57606a}.dot{display:inline-block;width:.7em;height:.7em;border-radius:50%;margin-right:.4em}
svg{width:100%;min-width:34rem;height:auto;display:block}svg text{font:12px system-ui,sans-serif}
@media(max-width:40rem){th,td{padding:.3rem .4rem}td.name{min-width:7rem;max-width:7rem}}
""".strip()


@dataclass(frozen=True, slots=True)
class _Figures:
    """One policy on one session."""

    cost_vs_full: float | None
    share: float | None
    cliffs: int


@dataclass(frozen=True, slots=True)
class _Row:
    called: Called
    subtitle: str
    requests: int
    figures: dict[str, _Figures]
    thresholds: dict[str, Used]


@dataclass(slots=True)
class _Span:
    """Some sessions, and the thresholds that a policy had there."""

    sessions: int = 0
    least: int = 0
    most: int = 0

    def add(self, used: Used) -> None:
        self.least = min(self.least, used.least) if self.sessions else used.least
        self.most = max(self.most, used.most)
        self.sessions += 1

    def __str__(self) -> str:
        return _range(self.least, self.most)


@dataclass(slots=True)
class _Thresholds:
    """A policy's thresholds over all sessions."""

    asked: int
    auto: bool
    all: _Span = field(default_factory=_Span)
    raised: _Span = field(default_factory=_Span)
    lowered: _Span = field(default_factory=_Span)

    def add(self, used: Used) -> None:
        self.all.add(used)
        if used.most > used.asked:
            self.raised.add(used)
        if used.least < used.asked:
            self.lowered.add(used)

    @property
    def differs(self) -> bool:
        return self.auto or self.raised.sessions + self.lowered.sessions > 0

    def __str__(self) -> str:
        if self.auto:
            return f"auto, which was {self.all} tokens at the cliffs and the end"
        text = f"{grouped(self.asked)} tokens"
        if self.raised.sessions:
            text += f", raised to {self.raised} in {self._of(self.raised)}: the smallest workable threshold there"
        if self.lowered.sessions:
            text += f", lowered to {self.lowered} in {self._of(self.lowered)}: to leave room in the model's window"
        return text

    def _of(self, span: _Span) -> str:
        return f"{grouped(span.sessions)} of {counted(self.all.sessions, 'session')}"


class Page:
    """Takes replays one after the other; `html` is the page so far."""

    def __init__(self, config: CliffConfig, tokens_by: str) -> None:
        self.config, self._tokens_by = config, tokens_by
        self.totals = Totals()
        self._rows: list[_Row] = []
        self._panels: list[Panel] = []
        self._thresholds: dict[str, _Thresholds] = {}
        self._left_out: list[str] = []
        self._unnamed = 0
        self._file: tuple[Path, dict[str, int]] = (Path(), {})

    def add(self, done: Done) -> None:
        """A session that has requests."""
        self.totals.add(done.replay, done.tariff)
        row = _row(done, self._called(done))
        for name, used in row.thresholds.items():
            self._thresholds.setdefault(name, _Thresholds(used.asked, used.auto)).add(used)
        self._panels = largest([*self._panels, Panel.of(done.replay, done.tariff, self.config, done.limit, row.called)])
        self._rows.append(row)
        if len(self._rows) > MOST_ROWS:
            least = min(range(len(self._rows)), key=lambda index: self._rows[index].requests)
            del self._rows[least]

    def left_out(self, text: str) -> None:
        """An input, or a part of one, that is not in the figures: which, and why."""
        if len(self._left_out) < MOST_LEFT_OUT:
            self._left_out.append(text)
        else:
            self._unnamed += 1

    def _called(self, done: Done) -> Called:
        """The sessions of a file come one after the other: those of one name are numbered."""
        called = Called.of(done.replay.session)
        if self._file[0] != called.path:
            self._file = (called.path, {})
        numbers = self._file[1]
        numbers[called.name] = numbers.get(called.name, 0) + 1
        return called._replace(number=numbers[called.name])

    def html(self) -> str:
        totals = self.totals
        sessions, requests = counted(totals.sessions, "session"), counted(totals.requests, "request")
        config = self.config
        threshold = "auto" if config.auto else f"{grouped(config.first_threshold)} tokens"
        what = f"{sessions}, {requests}, threshold {threshold}, preset {config.preset_name}."
        parts = [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width,initial-scale=1">',
            f"<title>cliff report: {escape(what)}</title><style>{STYLE}</style></head><body>",
            "<h1>What each policy would have sent, cost and kept</h1>",
            f"<p>{escape(_unbroken(what))}</p>",
        ]
        for note in notes(totals.policies):
            parts.append(f"<p><strong>{escape(note[:1].upper() + note[1:])}.</strong></p>")
        parts += self._used()
        if left_out := len(self._left_out) + self._unnamed:
            parts.append(f"<p><strong>Not in the figures: {counted(left_out, 'input')}</strong>, named at the end.</p>")
        tails = told_apart([*(row.called for row in self._rows), *(panel.called for panel in self._panels)])
        parts += ["<h2>All sessions</h2>", *self._totals()]
        points = {name: _point(its, totals) for name, its in totals.policies.items()}
        parts += [
            "<h2>What is kept against what it costs</h2>",
            '<p class="dim">Up and to the left is better. Large: all sessions; small: single ones.</p>',
            *_scatter(points, self._rows),
            f'<p class="dim">{SUPPORT_IS}</p>',
        ]
        parts += ["<h2>Prompt tokens by request</h2>", *self._legend()]
        if totals.sessions > len(self._panels):
            parts.append(f'<p class="dim">The {len(self._panels)} sessions with the most requests.</p>')
        for panel in self._panels:
            subtitle = " · ".join(filter(None, (tails[panel.called], panel.subtitle)))
            title = f'<h3 title="{_text(str(panel.called.path))}">{_text(panel.title)}</h3>'
            parts += [title, f'<p class="dim">{_text(subtitle)}</p>', *_curves(panel)]
        parts += ["<h2>Sessions</h2>"]
        if totals.sessions > len(self._rows):
            parts.append(f'<p class="dim">The {len(self._rows)} with the most requests.</p>')
        parts += self._sessions(tails)
        parts += self._thresholds_of_sessions(tails)
        parts += ["<h2>How the figures are meant</h2>", *self._footer()]
        if self._left_out:
            parts += ["<h2>Inputs that failed or were skipped</h2>", '<ul class="dim">']
            parts += [f"<li>{_text(text)}</li>" for text in self._left_out]
            parts += [f"<li>{grouped(self._unnamed)} more</li>"] if self._unnamed else []
            parts.append("</ul>")
        parts += ["</body></html>", ""]
        return "\n".join(parts)

    def _used(self) -> Iterator[str]:
        """The thresholds, where they are not what was asked for."""
        if not any(its.differs for its in self._thresholds.values()):
            return
        yield "<p><strong>Not every policy ran at that threshold on every session</strong>, but at these:</p><ul>"
        alike: dict[str, list[str]] = {}
        for name, its in self._thresholds.items():
            alike.setdefault(str(its), []).append(name)
        for text, names in alike.items():
            yield f"<li>{escape(', '.join(names))}: {escape(_unbroken(text))}</li>"
        yield "</ul>"

    def _totals(self) -> Iterator[str]:
        totals = self.totals
        heads = ("policy", "input tokens", "cached", "cost", "of full", "support")
        yield from _table_head((*heads, "re-reads", "re-issuable", "cliffs", "own calls", "peak"))
        for name, its in totals.policies.items():
            cost, base, support = totals.cost(its), totals.cost(totals.full), its.support
            yield _cells(
                [
                    _dot(name),
                    grouped(its.input_tokens),
                    _percent(its.cached_tokens / its.input_tokens if its.input_tokens else None),
                    dollars(cost) if totals.priced else "–",
                    _percent(cost / base if base else None),
                    _percent(support.share),
                    f"{grouped(support.rereads)} of {grouped(support.repeats)}",
                    grouped(support.reissuable),
                    cliffs_of(name, its.cliffs) or "–",
                    grouped(its.calls),
                    grouped(its.peak_tokens),
                ]
            )
        yield "</table></div>"
        if 0 < totals.priced < totals.sessions:
            sessions = counted(totals.priced, "session")
            yield f'<p class="dim">Cost: of the {sessions} with a price, without the others.</p>'

    def _legend(self) -> Iterator[str]:
        yield f"<p>{' &nbsp; '.join(_dot(name) for name in self.totals.policies)}</p>"

    def _sessions(self, tails: dict[Called, str]) -> Iterator[str]:
        names = list(self.totals.policies)
        yield from _table_head(("session", "requests", *(f"{name}: cost, support, cliffs" for name in names)))
        for row in self._rows:
            cells = [_named(row, tails), grouped(row.requests)]
            for name in names:
                its = row.figures[name]
                cliffs = cliffs_of(name, its.cliffs) or "–"
                cells.append(f"{_percent(its.cost_vs_full)}, {_percent(its.share)}, {cliffs}")
            yield _cells(cells, first="name")
        yield "</table></div>"

    def _thresholds_of_sessions(self, tails: dict[Called, str]) -> Iterator[str]:
        """A column for each policy that has a threshold; one for those that have the same everywhere."""
        rows = [row for row in self._rows if any(used.differs for used in row.thresholds.values())]
        if not rows:
            return
        columns: dict[tuple[str, ...], list[str]] = {}
        for name in self._thresholds:
            used = [row.thresholds.get(name) for row in rows]
            texts = tuple("–" if its is None else _range(its.least, its.most) for its in used)
            columns.setdefault(texts, []).append(name)
        yield "<h2>Thresholds, in tokens</h2>"
        if len(rows) < len(self._rows):
            yield '<p class="dim">Of the other sessions of the table above they were as asked for.</p>'
        yield from _table_head(("session", *(", ".join(names) for names in columns.values())))
        for number, row in enumerate(rows):
            yield _cells([_named(row, tails), *(texts[number] for texts in columns)], first="name")
        yield "</table></div>"

    def _footer(self) -> Iterator[str]:
        totals = self.totals
        yield f"<p>{escape(COST_IS)}</p>"
        repeats = (
            "A re-read is a call that repeats an earlier one, tool and arguments alike, whose result was out of view "
            "by then; it is re-issuable where that call could be read off what was in view."
        )
        yield f"<p>{repeats}</p>"
        counted_by = f"Tokens by {self._tokens_by}." + (f" {COUNTED_BY}" if totals.recorded else "")
        yield f"<p>{escape(counted_by)}</p>"
        yield '<p class="dim">Dollars per million tokens of input:</p><ul class="dim">'
        for source, tariff in totals.tariffs.items():
            line = f"{source}: {prices(tariff)}"
            if tariff.relative:
                line = f"shares only, with cached input at {plain(tariff.cached / tariff.input)} of input: {source}"
            yield f"<li>{_text(line)}</li>"
        yield "</ul>"


def _row(done: Done, called: Called) -> _Row:
    replay, session = done.replay, done.replay.session
    base = replay.full.cost(done.tariff)
    figures = {
        name: _Figures(
            result.cost(done.tariff) / base if base else None,
            result.support.share,
            len(result.compactions),
        )
        for name, result in replay.results.items()
    }
    subtitle = f"{session.path} · {session.format} · {model_of(session) or 'model unknown'}"
    return _Row(called, subtitle, len(session.requests), figures, thresholds(replay, done.limit))


# --- pieces ---------------------------------------------------------------------------------------


def _text(text: str) -> str:
    return escape(" ".join(printable(text).split()))


def _unbroken(text: str) -> str:
    """Running text whose figures are not broken across lines."""
    return re.sub(r"(?<=\d) (?=\d{3}\b)", "\N{NO-BREAK SPACE}", text)


def _range(least: int, most: int) -> str:
    return grouped(least) if least == most else f"{grouped(least)}–{grouped(most)}"


def _named(row: _Row, tails: dict[Called, str]) -> str:
    """A session's cell."""
    tail = tails[row.called]
    name = f'<span title="{_text(row.subtitle)}">{_text(row.called.name)}</span>'
    return f'{name}<small class="dim">{_text(tail)}</small>' if tail else name


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.1%}"


def _dot(name: str) -> str:
    return f'<span class="dot" style="background:{colour_of(name, INK)}"></span>{escape(name)}'


def _table_head(heads: Iterable[str]) -> Iterator[str]:
    yield '<div class="wide"><table>'
    yield "<tr>" + "".join(f"<th>{escape(head)}</th>" for head in heads) + "</tr>"


def _cells(cells: Sequence[str], first: str = "") -> str:
    """A row; the texts are HTML."""
    kind = f' class="{first}"' if first else ""
    return f"<tr><td{kind}>{cells[0]}</td>" + "".join(f"<td>{cell}</td>" for cell in cells[1:]) + "</tr>"


# --- charts ---------------------------------------------------------------------------------------

LEFT, RIGHT, TOP, BOTTOM, WIDTH = 48.0, 16.0, 12.0, 40.0, 640.0


@dataclass(frozen=True, slots=True)
class _Axes:
    """Data to places of a picture. `x` and `y`: least and greatest."""

    height: float
    x: tuple[float, float]
    y: tuple[float, float]

    def at(self, x: float, y: float) -> tuple[float, float]:
        across = (x - self.x[0]) / (self.x[1] - self.x[0]) * (WIDTH - LEFT - RIGHT)
        up = (y - self.y[0]) / (self.y[1] - self.y[0]) * (self.height - TOP - BOTTOM)
        return LEFT + across, self.height - BOTTOM - up

    def frame(self, title: str, x_ticks: dict[float, str], y_ticks: dict[float, str], x: str, y: str) -> Iterator[str]:
        yield '<div class="wide">'
        yield f'<svg viewBox="0 0 {WIDTH:.0f} {self.height:.0f}" role="img" aria-label="{_text(title)}">'
        for value, label in y_ticks.items():
            _, up = self.at(self.x[0], value)
            yield f'<line x1="{LEFT:.1f}" y1="{up:.1f}" x2="{WIDTH - RIGHT:.1f}" y2="{up:.1f}" stroke="{GRID}"/>'
            yield f'<text x="{LEFT - 6:.1f}" y="{up + 4:.1f}" text-anchor="end" fill="{MUTED}">{label}</text>'
        for value, label in x_ticks.items():
            across, _ = self.at(value, self.y[0])
            low = self.height - BOTTOM + 16
            yield f'<text x="{across:.1f}" y="{low:.1f}" text-anchor="middle" fill="{MUTED}">{label}</text>'
        yield f'<text x="{WIDTH - RIGHT:.1f}" y="{self.height - 6:.1f}" text-anchor="end" fill="{MUTED}">{x}</text>'
        yield f'<text x="{LEFT + 4:.1f}" y="{TOP + 4:.1f}" fill="{MUTED}">{y}</text>'


def _ticks(least: float, most: float, about: int = 5) -> list[float]:
    """Round values from `least` to `most`."""
    raw = (most - least) / about
    size = 10 ** math.floor(math.log10(raw))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= raw)
    first = math.ceil(least / step - 1e-9)
    return [round(number * step, 10) for number in range(first, math.floor(most / step + 1e-9) + 1)]


def _point(its: Sum, totals: Totals) -> tuple[float, float] | None:
    base = totals.cost(totals.full)
    return (totals.cost(its) / base, its.support.share) if base and its.support.share is not None else None


def _scatter(points: dict[str, tuple[float, float] | None], rows: Sequence[_Row]) -> Iterator[str]:
    """Support (up) against cost (across)."""
    small = [
        (name, its.cost_vs_full, its.share)
        for row in rows
        for name, its in row.figures.items()
        if its.cost_vs_full is not None and its.share is not None and name != "full"
    ]
    large = {name: point for name, point in points.items() if point is not None}
    if not large:
        yield "<p>No request needs a name: there is no support to show.</p>"
        return
    # The large points say how far the picture goes; single sessions may lie beyond.
    most = 1.2 * max([1.0, *(x for x, _ in large.values())])
    least = min(y for _, y in large.values()) - 0.15
    axes = _Axes(400.0, (0.0, most), (max(0.0, math.floor(least * 10) / 10), 1.01))
    shown = [(name, x, y) for name, x, y in small if x <= axes.x[1] and y >= axes.y[0]]
    x_ticks = {value: f"{value:.0%}" for value in _ticks(0, axes.x[1])}
    y_ticks = {value: f"{value:.0%}" for value in _ticks(axes.y[0], 1)}
    title = "Support against cost, by policy"
    yield from axes.frame(title, x_ticks, y_ticks, "cost, of full context", "support")
    for name, x, y in shown:
        across, up = axes.at(x, y)
        yield f'<circle cx="{across:.1f}" cy="{up:.1f}" r="3" fill="{colour_of(name, INK)}" fill-opacity=".35"/>'
    placed: list[tuple[float, float]] = []
    for name, (x, y) in sorted(large.items(), key=lambda item: (-item[1][1], item[1][0], item[0])):
        across, up = axes.at(x, y)
        colour = colour_of(name, INK)
        yield f'<circle cx="{across:.1f}" cy="{up:.1f}" r="8" fill="{colour}" stroke="#fff" stroke-width="1.5"/>'
        label = f"{name} {x:.0%}, {y:.1%}"
        left = across > WIDTH - 170
        low = up + 4
        while any(abs(low - other) < 14 and abs(across - there) < 190 for there, other in placed):
            low += 14
        placed.append((across, low))
        place = f'x="{across - 12:.1f}" text-anchor="end"' if left else f'x="{across + 12:.1f}"'
        text = f'<text {place} y="{low:.1f}" font-weight="600"'
        yield f'{text} stroke="#fff" stroke-width="4" stroke-linejoin="round">{escape(label)}</text>'
        yield f'{text} fill="{colour}">{escape(label)}</text>'
    yield "</svg></div>"
    if len(shown) < len(small):
        yield f'<p class="dim">Beyond the picture: {counted(len(small) - len(shown), "small point")}.</p>'


def _curves(panel: Panel) -> Iterator[str]:
    """Tokens of each request, a line for each policy."""
    peaks = sorted(max(line.tokens, default=0) for line in panel.lines.values())
    top: float = max([panel.threshold, *peaks, 1])
    others = max([panel.threshold, *peaks[:-1], 1])
    if len(peaks) > 1 and top > STEEP * others:  # else one line would press the others to the ground
        top = ROOM * others
    axes = _Axes(300.0, (1.0, float(max(2, panel.requests))), (0.0, 1.06 * top))
    x_ticks = {value: f"{value:.0f}" for value in _ticks(1, axes.x[1], 6) if value == int(value)}
    y_ticks = {value: thousands(value) for value in _ticks(0, axes.y[1])}
    yield from axes.frame(f"Prompt tokens by request: {panel.title}", x_ticks, y_ticks, "request", "")
    left, up = axes.at(1, panel.threshold)
    yield (
        f'<line x1="{left:.1f}" y1="{up:.1f}" x2="{WIDTH - RIGHT:.1f}" y2="{up:.1f}" stroke="{INK}" '
        f'stroke-dasharray="5 3"/><text x="{left + 4:.1f}" y="{up - 4:.1f}" fill="{INK}">'
        f"{escape(panel.threshold_label)}</text>"
    )
    for name, line in panel.lines.items():
        places = [axes.at(number, min(tokens, axes.y[1])) for number, tokens in _thinned(line)]
        path = " ".join(f"{across:.1f},{up:.1f}" for across, up in places)
        width = "2.2" if name == "cliff" else "1.4"
        yield (
            f'<polyline points="{path}" fill="none" stroke="{colour_of(name, INK)}" stroke-width="{width}" '
            f'stroke-linejoin="round"><title>{escape(name)}</title></polyline>'
        )
    yield "</svg></div>"
    highest = {name: max(line.tokens, default=0) for name, line in panel.lines.items()}
    beyond = [f"{name} up to {thousands(peak)}" for name, peak in highest.items() if peak > axes.y[1]]
    if beyond:
        yield f'<p class="dim">Beyond the picture: {escape(", ".join(beyond))}.</p>'


def _thinned(line: Line) -> list[tuple[int, int]]:
    """Request and tokens of the points that are drawn."""
    points = list(enumerate(line.tokens, 1))
    if len(points) <= MOST_POINTS:
        return points
    size = math.ceil(len(points) / (MOST_POINTS // 2))
    kept: list[tuple[int, int]] = []
    for start in range(0, len(points), size):
        stretch = points[start : start + size]
        ends = {min(stretch, key=lambda point: point[1]), max(stretch, key=lambda point: point[1])}
        kept += sorted(ends)
    return kept

"""Prompt tokens by request, one line a policy: the picture that gave the method its name.

matplotlib (extra `plot`) is imported when something is to be drawn. An SVG of the same replay has the same bytes."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from cliff_core.config import CliffConfig
from cliff_core.ledger import Tariff
from cliff_core.replay import Replay, model_of
from cliff_core.report import colour_of, thresholds
from cliff_core.traces import Session
from cliff_core.wording import thousands

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_PANELS = 12
"""Sessions in one picture: those with the most requests."""

SUFFIXES = (".png", ".svg")

INK, MUTED, GRID = "#1f2328", "#656d76", "#e6e8eb"

STEEP = 8.0
"""A line that peaks at more than so many times the others would press them to the ground: it is drawn up to
`ROOM` times their peak then, and its label tells where it goes."""

ROOM = 5.0


class Called(NamedTuple):
    """What a session is called."""

    name: str
    path: Path
    number: int = 1
    """Which of the sessions of the file with this name."""

    @classmethod
    def of(cls, session: Session) -> Called:
        name, stem = session.name, session.path.stem
        if not any(map(str.isalpha, name)):  # a number in its file
            name = f"{stem} {name}".strip()
        return cls(name, session.path)


NAMELESS = Called("", Path())


def told_apart(called: Iterable[Called]) -> dict[Called, str]:
    """What tells each session from others of its name: the shortest ends of their paths that differ, and its number
    where they are of one file. Empty where no other has the name."""
    alike: dict[str, list[Called]] = {}
    for one in dict.fromkeys(called):
        alike.setdefault(one.name, []).append(one)
    return {one: _tail(one, its) for its in alike.values() for one in its}


def _tail(one: Called, alike: Sequence[Called]) -> str:
    paths = {other.path for other in alike} - {one.path}
    parts = 0
    if paths:
        parts = next(
            (
                size
                for size in range(1, len(one.path.parts) + 1)
                if all(other.parts[-size:] != one.path.parts[-size:] for other in paths)
            ),
            len(one.path.parts),
        )
    numbered = any(other.path == one.path and other.number != one.number for other in alike)
    end = str(Path(*one.path.parts[-parts:])) if parts else ""
    return " ".join([*([end] if end else []), *([f"no. {one.number}"] if numbered else [])])


@dataclass(frozen=True, slots=True)
class Line:
    """One policy."""

    tokens: tuple[int, ...]
    """Of each request."""
    cliffs: tuple[int, ...]
    """Requests (from 1) that begin with a compaction."""
    cost_vs_full: float | None


@dataclass(frozen=True, slots=True)
class Panel:
    """One session."""

    title: str
    subtitle: str
    threshold: int
    lines: dict[str, Line]
    notes: tuple[str, ...] = ()
    """What must be said of the figures."""
    threshold_of: str = ""
    """Whose threshold it is, where others have another."""
    called: Called = NAMELESS

    @property
    def threshold_label(self) -> str:
        return f"threshold {self.threshold_of and f'of {self.threshold_of} '}{thousands(self.threshold)}"

    @property
    def requests(self) -> int:
        return max((len(line.tokens) for line in self.lines.values()), default=0)

    @classmethod
    def of(
        cls,
        replay: Replay,
        tariff: Tariff,
        config: CliffConfig,
        limit: int | None = None,
        called: Called | None = None,
    ) -> Panel:
        """`limit`: as in `report.thresholds`; `called`: where it is known better than from the session."""
        session, base = replay.session, replay.full.cost(tariff)
        called = called or Called.of(session)
        lines = {
            name: Line(
                tuple(entry.tokens for entry in result.entries),
                result.compactions,
                result.cost(tariff) / base if base else None,
            )
            for name, result in replay.results.items()
        }
        ranges = thresholds(replay, limit)
        last = {name: replay.results[name].threshold or its.most for name, its in ranges.items()}
        ours = {name: tokens for name, tokens in last.items() if name.partition("@")[0] == "cliff"}
        threshold = max((ours or last).values(), default=config.first_threshold)
        whose = ""
        if any((its.least, its.most) != (threshold, threshold) for its in ranges.values()):
            whose = next(name for name, tokens in (ours or last).items() if tokens == threshold)
            if ranges[whose].least != ranges[whose].most:
                whose += ", at the end,"
        model = model_of(session)
        return cls(
            title=called.name,
            subtitle=session.format + (f" · {model.rpartition('/')[2]}" if model else ""),
            threshold=threshold,
            lines=lines,
            notes=tuple(sorted({r.note for r in replay.results.values() if r.note})),
            threshold_of=whose,
            called=called,
        )


def unusable(path: Path) -> str | None:
    """Why no plot can be written to `path`; None where it can, and then matplotlib is imported."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        return f"a plot is a {' or '.join(SUFFIXES)} file, not {path.name!r}"
    try:
        backend = "backend_svg" if suffix == ".svg" else "backend_agg"
        for module in ("matplotlib", "matplotlib.figure", f"matplotlib.backends.{backend}"):
            importlib.import_module(module)
    except Exception as error:  # its compiled parts may be for another numpy
        if isinstance(error, ModuleNotFoundError) and error.name == "matplotlib":
            return "plots need matplotlib: pip install matplotlib"
        problem = " ".join(f"{type(error).__name__}: {error}".split())
        return f"plots need matplotlib, which cannot be imported ({problem})"
    return None


def largest(panels: list[Panel]) -> list[Panel]:
    """The `MOST_PANELS` with the most requests, in their order."""
    if len(panels) <= MOST_PANELS:
        return panels
    least = min(range(len(panels)), key=lambda index: panels[index].requests)
    return largest([*panels[:least], *panels[least + 1 :]])


def draw(panels: Sequence[Panel], sessions: int, path: Path) -> None:
    """Write a picture of `panels`, out of `sessions` that there were."""
    import matplotlib
    from matplotlib.figure import Figure

    style: Any = {
        "font.family": "DejaVu Sans",  # comes with matplotlib: the same letters everywhere
        "font.size": 9.5,
        "svg.hashsalt": "cliff",
        "text.color": INK,
        "axes.labelcolor": MUTED,
        "axes.edgecolor": MUTED,
        "xtick.color": MUTED,
        "ytick.color": MUTED,
    }
    with matplotlib.rc_context(style):
        columns = min(len(panels), 2 if len(panels) <= 4 else 3)
        rows = math.ceil(len(panels) / columns)
        size = (9.6, 5.4) if len(panels) == 1 else (6.4 * columns, 3.9 * rows)
        figure = Figure(figsize=size, dpi=160, facecolor="white")
        figure.set_layout_engine("constrained", w_pad=0.12, h_pad=0.12)
        grid = figure.subplots(rows, columns, squeeze=False)
        tails = told_apart(panel.called for panel in panels)
        for index, axes in enumerate(grid.flat):
            if index < len(panels):
                _panel(axes, panels[index], tails[panels[index].called], alone=len(panels) == 1)
            else:
                axes.set_axis_off()
        below = sorted({note for panel in panels for note in panel.notes})
        if sessions > len(panels):
            below.insert(0, f"{len(panels)} of {sessions} sessions: those with the most requests")
        if below:
            figure.supxlabel("\n".join(below), fontsize=9, color=MUTED)
        metadata: dict[str, Any] = {"Date": None} if path.suffix.lower() == ".svg" else {}
        figure.savefig(path, metadata=metadata)


def _panel(axes: Axes, panel: Panel, tail: str, alone: bool) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    top = _top(panel)
    right = max(2, panel.requests)
    axes.set_xlim(1, right)
    axes.set_ylim(0, top)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=0)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: thousands(value)))
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 4, 5, 10]))
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True, steps=[1, 2, 5, 10]))
    axes.set_xlabel("model request")
    axes.set_ylabel("prompt tokens")
    size = 13 if alone else 10.5
    axes.set_title(
        _short(panel.title, 62 if alone else 44), loc="left", fontsize=size, fontweight="bold", pad=8 + size,
        parse_math=False,
    )  # fmt: skip
    subtitle = _short(" · ".join(filter(None, (tail, panel.subtitle))), 100 if alone else 72)
    axes.text(
        0, 1.012, subtitle, transform=axes.transAxes, fontsize=size - 3.5, color=MUTED,
        verticalalignment="bottom", in_layout=False, parse_math=False,
    )  # fmt: skip
    axes.axhline(panel.threshold, color=INK, linewidth=0.9, linestyle=(0, (5, 3)), zorder=1.5)
    for name, line in panel.lines.items():
        _line(axes, name, line, zorder=4 if name == "cliff" else 3 if name == "full" else 2)
    _labels(axes, panel, top, size - 3.5)


def _line(axes: Axes, name: str, line: Line, zorder: float) -> None:
    colour = colour_of(name, INK)
    requests = range(1, len(line.tokens) + 1)
    width = 1.9 if name == "cliff" else 1.5
    axes.plot(requests, line.tokens, color=colour, linewidth=width, zorder=zorder, solid_joinstyle="round")
    if name == "cliff":
        axes.fill_between(requests, line.tokens, color=colour, alpha=0.10, linewidth=0, zorder=1)
    edges = [request - 1 for request in line.cliffs if request > 1]
    axes.plot(
        edges, [line.tokens[edge - 1] for edge in edges], linestyle="none", marker="v",
        markersize=6 if len(edges) <= 15 else 4, markerfacecolor=colour, markeredgecolor="white",
        markeredgewidth=0.8, zorder=zorder + 1,
    )  # fmt: skip


def _top(panel: Panel) -> float:
    """Upper end of the axis."""
    peaks = sorted(max(line.tokens, default=0) for line in panel.lines.values())
    highest: float = max([panel.threshold, *peaks])
    others = max([panel.threshold, *peaks[:-1]])
    if len(peaks) > 1 and highest > STEEP * others:
        highest = ROOM * others
    return 1.08 * highest


def _labels(axes: Axes, panel: Panel, top: float, size: float) -> None:
    """Each line's name at its end, moved apart where two would meet; the threshold's above its left end."""
    from matplotlib.patheffects import withStroke

    ends: list[tuple[int, str, str]] = []
    for name, line in panel.lines.items():
        if not line.tokens:
            continue
        label = name
        if line.cost_vs_full is not None and name != "full":
            label += f"\n{line.cost_vs_full:.0%} of full cost"
        if line.cliffs:
            label += f"\n▼ {len(line.cliffs)} cliff{'s' if len(line.cliffs) > 1 else ''}"
        if max(line.tokens) > top:
            _leaving(axes, name, line, top, size)
            continue
        ends.append((line.tokens[-1], label, colour_of(name, INK)))
    height: float = axes.get_window_extent().height / (axes.figure.dpi or 100) * 72 or 280  # points
    step = size * 1.3 / height * top  # of a line of text
    place = 0.0
    for value, label, colour in sorted(ends):
        lines = label.count("\n") + 1
        low = max(place, value - lines * step / 2)
        place = low + lines * step + 0.5 * step
        axes.annotate(
            label, (1, low), xycoords=("axes fraction", "data"), xytext=(8, 0), textcoords="offset points",
            color=colour, fontsize=size, fontweight="bold", verticalalignment="bottom", annotation_clip=False,
        )  # fmt: skip
    threshold = axes.annotate(
        panel.threshold_label, (0, panel.threshold), xycoords=("axes fraction", "data"),
        xytext=(4, 3), textcoords="offset points", color=INK, fontsize=size, zorder=6,
    )  # fmt: skip
    threshold.set_path_effects([withStroke(linewidth=3, foreground="white")])


def _leaving(axes: Axes, name: str, line: Line, top: float, size: float) -> None:
    """The name of a line that leaves the picture, where it does, and where it goes."""
    request = next(number for number, tokens in enumerate(line.tokens, 1) if tokens > top)
    late = request > 0.7 * len(line.tokens)
    axes.annotate(
        f"{name} ↑ up to {thousands(max(line.tokens))}", (request, top), xytext=(-8 if late else 6, -2),
        textcoords="offset points", color=colour_of(name, INK), fontsize=size, fontweight="bold",
        verticalalignment="top", horizontalalignment="right" if late else "left",
    )  # fmt: skip


def _short(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"

"""`cliff tune`."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from cliff_core.commands.inputs import Inputs
from cliff_core.commands.options import Paths, config_options, read_plan, read_work, replay_options
from cliff_core.commands.said import Stream, logged
from cliff_core.report import COST_IS, support_json
from cliff_core.tuning import THRESHOLDS, Point, Tuning, names
from cliff_core.wording import counted, dollars, grouped

app = typer.Typer(rich_markup_mode=None)


MOST_TOKENS = 1_000_000_000


def _thresholds(value: str | None) -> str | None:
    _read(value)
    return value


def _read(value: str | None) -> tuple[int, ...]:
    if value is None:
        return THRESHOLDS
    try:
        found = sorted({int(part.replace("_", "")) for part in value.split(",")})
    except ValueError:
        found = [0]
    if found[0] < 1 or found[-1] > MOST_TOKENS:
        raise typer.BadParameter(f"thresholds are whole numbers of tokens, as in 8000,16000; not {value!r}")
    return tuple(found)


NO_FLAGS = ("policy", "threshold_tokens", "summary_share", "clear_keep", "clear_at_least", "authors_python")
"""Flags of a replay that have nothing to say here: what is replayed are the policies of `names`."""


def _without_some(command: Callable[..., None]) -> Callable[..., None]:
    signature = inspect.signature(command)
    left = [p for name, p in signature.parameters.items() if name not in NO_FLAGS]
    command.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
    command.__annotations__ = {**{p.name: p.annotation for p in left}, "return": None}
    return command


@app.command()
@_without_some
@config_options
@replay_options
def command(
    paths: Paths,
    thresholds: Annotated[
        str | None, typer.Option(callback=_thresholds, help="Thresholds to replay: 8000,16000,…")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    **options: Any,
) -> None:
    """The threshold that costs least for sessions like the recorded ones, in closed form and by replay.

    `replay` is policy cliff at each threshold; `closed form` takes growth as even, and the size after a cliff from a
    line through those of the replays. `auto` is `cliff replay --threshold auto`, which knows neither. The least cost
    is not all: support says what is kept."""
    work = read_work(options)
    grid = _read(thresholds)
    plan = read_plan(options, ",".join(names(grid)))
    tuning = Tuning(grid)
    relative = 0
    with logged() as log:
        inputs = Inputs(paths, log, [work[1]])
        with inputs.replayed(plan, *work, quiet=True) as sessions:
            for done in sessions:
                if not done.replay.session.requests:
                    continue
                if done.tariff.relative:
                    relative += 1
                tuning.add(done.replay, done.tariff)
        if not tuning.sessions and not inputs.errors:
            inputs.failed(Path(), "there is no session with a model request")
    if 0 < relative < tuning.sessions:
        inputs.failed(
            Path(),
            f"{counted(relative, 'session')} of {tuning.sessions} have no price: costs do not add up; "
            "give --model or --price-input",
        )
        tuning.sessions = 0
    if as_json:
        config = {name: value for name, value in plan.config.as_dict().items() if name != "threshold_tokens"}
        print(json.dumps({**_json(tuning, config), "errors": inputs.errors}, indent=2))
    elif tuning.sessions:
        _print(tuning, bool(relative))
    if inputs.errors:
        raise typer.Exit(2)


def _json(tuning: Tuning, config: dict[str, Any]) -> dict[str, Any]:
    return {
        "sessions": tuning.sessions,
        "requests": tuning.requests,
        "smallest_threshold": {
            "least": min(tuning.smallest, default=None),
            "most": max(tuning.smallest, default=None),
            "raises": tuning.raises,
        },
        "best_closed": tuning.best_closed if tuning.sessions else None,
        "best_replayed": tuning.best_replayed if tuning.sessions else None,
        "full": _point(tuning.full),
        "auto": _point(tuning.auto, closed=False),
        "thresholds": {
            str(threshold): {**_point(point), "raised": tuning.raised(threshold)}
            for threshold, point in tuning.points.items()
        },
        "config": config,
    }


def _point(point: Point, closed: bool = True) -> dict[str, Any]:
    return {
        **({"cost_closed": round(point.closed, 6)} if closed else {}),
        "cost_replayed": round(point.replayed, 6),
        "cliffs": point.cliffs,
        "peak_tokens": point.peak_tokens,
        "support": support_json(point.support),
    }


BAR = 24
"""Characters of the longest bar."""

BAR_FROM = 78
"""Columns from which there is room for bars."""


def _print(tuning: Tuning, relative: bool) -> None:
    out = Stream()

    def write(text: str, style: str = "") -> None:
        out.print(Text(text, style=style))

    sessions, requests = counted(tuning.sessions, "session"), counted(tuning.requests, "request")
    write(f"{sessions} · {requests}", "dim")
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), show_edge=False, pad_edge=False)
    table.add_column("threshold", justify="right", no_wrap=True)
    for heading in ("closed form", "replay", "cliffs", "support"):
        table.add_column(heading, justify="right", no_wrap=True)
    if out.width >= BAR_FROM:
        table.add_column("cost by replay", no_wrap=True)
    base = tuning.full
    rows = [(grouped(threshold), point) for threshold, point in tuning.points.items()]
    rows += [("auto", tuning.auto), ("full", base)]
    most = max([point.replayed for _, point in rows] + [1e-12])
    for name, point in rows:
        share = point.support.share
        cells = [
            name,
            "–" if name == "auto" else _percent(point.closed, base.closed),
            _percent(point.replayed, base.replayed),
            grouped(point.cliffs),
            "–" if share is None else f"{share:.1%}",
        ]
        if out.width >= BAR_FROM:
            cells.append("█" * max(1, round(BAR * point.replayed / most)))
        table.add_row(*cells)
    out.print(table)
    write("Costs are shares of full context" + ("" if relative else f", {dollars(base.replayed)}") + ".", "dim")
    write(_smallest(tuning))
    for what, best in (("closed form", tuning.best_closed), ("replay", tuning.best_replayed)):
        if best is None:
            write(f"least cost, {what}: full context")
        else:
            write(f"least cost, {what}: a threshold of {counted(best, 'token')}{_raised(tuning, best)}")
    if tuning.sessions == 1 and tuning.last is not None:
        growth, tariff = tuning.last
        line = f"grows by {grouped(round(growth.per_request))} tokens a request from {grouped(round(growth.fixed))}"
        if growth.after is not None:
            a, b = growth.after
            line += f"; after a cliff {grouped(round(a))} and {b:.0%} of the threshold"
        write(line)
        best_long = growth.best(tariff)
        if not math.isinf(best_long):
            write(f"least cost for a longer session of this kind: {counted(round(best_long), 'token')}")
    write(COST_IS, "dim")


def _smallest(tuning: Tuning) -> str:
    least, most = min(tuning.smallest), max(tuning.smallest)
    line = "smallest workable threshold: "
    line += counted(most, "token") if least == most else f"{grouped(least)} to {counted(most, 'token')}, by session"
    if not tuning.raises:
        return line + "; preset paper takes a smaller one as it is"
    return line + ("; a smaller one is raised to it" if least == most else "; each raises a smaller one to its own")


def _raised(tuning: Tuning, threshold: int) -> str:
    raised = tuning.raised(threshold)
    if not raised:
        return ""
    if tuning.sessions == 1:
        return f", raised to {grouped(*tuning.smallest)}"
    return f", raised in {grouped(raised)} of {counted(tuning.sessions, 'session')}"


def _percent(cost: float, base: float) -> str:
    return f"{cost / base:.1%}" if base else "–"

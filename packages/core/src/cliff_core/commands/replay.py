"""`cliff replay`."""

from __future__ import annotations

import json
import math
import re
import textwrap
from pathlib import Path
from typing import Annotated, Any

import typer

from cliff_core import report, show, tokens, traces
from cliff_core.batch import Plan
from cliff_core.commands.inputs import Inputs
from cliff_core.commands.options import (
    REPLAY_OPTIONS,
    Paths,
    config_options,
    read_path,
    read_plan,
    read_work,
    replay_options,
)
from cliff_core.commands.said import Stream, logged, say
from cliff_core.compactor import View
from cliff_core.ledger import Meter
from cliff_core.plot import Panel, draw, largest, unusable
from cliff_core.policies import CliffPolicy
from cliff_core.replay import limit_of, model_of, view_at
from cliff_core.wording import counted

app = typer.Typer(rich_markup_mode=None)

POLICIES = "cliff,full,sliding"

AT_OPTIONS = ("model", "price_input", "price_cached", "price_write", "price_output")
"""Options of a replay that --at has, too: `--threshold auto` follows prices."""


@app.command()
@config_options
@replay_options
def command(
    paths: Paths,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw prompt tokens by request: FILE.png or FILE.svg.", parser=read_path, metavar="FILE"),
    ] = None,
    at: Annotated[int | None, typer.Option(min=1, help="Print what cliff sends at this request instead.")] = None,
    session: Annotated[
        str | None, typer.Option(help="With --at: which of several sessions, by number or name.")
    ] = None,
    **options: Any,
) -> None:
    """What each policy would have sent on recorded sessions, what that would have cost, and what would have been lost.

    Policies are cliff, full and sliding, unless --policy names others. The options from --preset on are those of a
    compaction; each can be set by a variable, too (CLIFF_KEEP_TURNS=2). Without --model and --price-input, prices are
    those of the session's own model; where that is not known, costs are shares only, with cached input at a fifth of
    the price."""
    if at is not None:
        unused = [name for name in REPLAY_OPTIONS if name not in AT_OPTIONS and options[name] is not None]
        for name in (*unused, *(["plot"] if plot is not None else ())):
            raise typer.BadParameter(f"--at prints one view of policy cliff: it has no --{name.replace('_', '-')}")
    if at is None and session is not None:
        raise typer.BadParameter("--session needs --at")
    work = read_work(options)
    plan = read_plan(options, POLICIES)
    if plot is not None and (problem := unusable(plot)):
        raise typer.BadParameter(problem)
    with logged() as log:
        inputs = Inputs(paths, log, [plot, work[1]])
        if at is not None:
            _show(inputs, plan, at, session, as_json)
        else:
            _replay(inputs, plan, work, as_json, plot)
    if inputs.errors:
        raise typer.Exit(2)


def _replay(
    inputs: Inputs, plan: Plan, work: tuple[int | None, Path | None, bool], as_json: bool, plot: Path | None
) -> None:
    out = Stream()
    totals = report.Totals()
    panels: list[Panel] = []
    listed = _Listed() if as_json else None
    with inputs.replayed(plan, *work) as sessions:
        for done in sessions:
            if listed is not None:
                with inputs.printing():
                    listed.add(report.session_json(done.replay, done.tariff, done.window))
            if not done.replay.session.requests:
                continue
            totals.add(done.replay, done.tariff)
            if plot is not None:
                panels = largest([*panels, Panel.of(done.replay, done.tariff, plan.config, done.limit)])
            if listed is None:
                with inputs.printing():
                    report.show(out, report.session_report(done.replay, done.tariff, done.window))
    vocabulary = tokens.vocabulary()
    if listed is not None:
        data: dict[str, Any] = {"errors": inputs.errors}
        data["tokens"] = {"name": vocabulary.name, "source": vocabulary.source}
        data["config"] = plan.config.as_dict()
        listed.end(data)
    else:
        report.show(out, report.total_report(totals))
        source = re.sub(r"\S*[/\\]", "", vocabulary.source)  # without folders
        report.show(out, report.footer(totals, f"{vocabulary.name} ({source})"))
    if plot is not None and panels:
        try:
            draw(panels, totals.sessions, plot)
        except Exception as error:
            problem = error.strerror if isinstance(error, OSError) else None
            inputs.failed(plot, f"{plot}: the plot cannot be written: {problem or _problem(error)}")
        else:
            say("plot", "green", str(plot))


class _Listed:
    """One JSON object whose sessions are printed as they come."""

    def __init__(self) -> None:
        self._any = False
        print('{\n  "sessions": [', end="")

    def add(self, session: dict[str, Any]) -> None:
        print(("," if self._any else "") + "\n" + textwrap.indent(_json(session), "    "), end="")
        self._any = True

    def end(self, rest: dict[str, Any]) -> None:
        """Close the list, and print the other keys."""
        print(("\n  " if self._any else "") + "]," + _json(rest)[1:])


def _show(inputs: Inputs, plan: Plan, at: int, wanted: str | None, as_json: bool) -> None:
    """The view of policy `cliff` at request `at` of the one session that is meant."""
    meant = _meant(inputs, wanted)
    found = _view(inputs, meant, plan, at) if meant is not None else None
    if meant is None or found is None:
        if as_json:
            print(_json({"errors": inputs.errors}))
        return
    view, meter = found
    name = meant.name or meant.path.stem
    if as_json:
        data = {"path": str(meant.path), "format": meant.format, "name": name}
        print(_json({**data, **show.view_json(view, at), "errors": inputs.errors}))
        return
    out = Stream()
    history = meant.messages[: meant.requests[at - 1].at]
    for line in show.lines(name, at, view, show.parts(history, view, meter)):
        out.print(line, soft_wrap=True)


def _meant(inputs: Inputs, wanted: str | None) -> traces.Session | None:
    """The session of that number, or else of that name, or the only one."""
    numbered: traces.Session | None = None
    named: traces.Session | None = None  # the first of them
    numbers: list[int] = []
    names: list[str] = []
    for number, session in enumerate(inputs, 1):
        names.append(session.name or session.path.stem)
        if wanted == str(number):
            numbered = session
        if wanted in (None, names[-1]):
            named = named or session
            numbers.append(number)
    if numbered is not None or len(numbers) == 1:
        return numbered or named
    if names:
        listed = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
        what = f"no session {wanted!r}: {listed}"
        if wanted is None:
            what = f"several sessions: {listed}"
        elif numbers:
            what = f"several sessions are named {wanted!r}: numbers {', '.join(map(str, numbers))}"
        hint = f"--session takes a name or a number from 1 to {len(names)}"
        inputs.failed(named.path if named else Path(), f"{what}; {hint}")
    elif not inputs.errors:
        inputs.failed(Path(), "there is no session")
    return None


def _view(inputs: Inputs, session: traces.Session, plan: Plan, at: int) -> tuple[View, Meter] | None:
    if at > len(session.requests):
        requests = counted(len(session.requests), "request")
        inputs.failed(session.path, f"{session.path}: there is no request {at}: the session has {requests}")
        return None
    try:
        tariff, _, known = plan.pricing.of(model_of(session))
        policy = CliffPolicy(plan.config)
        policy.price_ratio = tariff.cache_price_ratio
        return view_at(session, policy, at, limit_of(known))
    except Exception as error:
        inputs.failed(session.path, f"{session.path}: no view of request {at} ({_problem(error)})")
        return None


def _json(data: Any) -> str:
    """JSON has no NaN and no Infinity; recorded files may."""
    try:
        return json.dumps(data, indent=2, default=str, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(data), indent=2, default=str, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _problem(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())

"""`cliff replay`."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Annotated, Any

import typer

from cliff_core import report, show, tokens, traces
from cliff_core.commands.inputs import Inputs
from cliff_core.commands.options import config_options, read_config
from cliff_core.commands.said import Stream, logged, say, warn
from cliff_core.compactor import View
from cliff_core.config import CliffConfig
from cliff_core.ledger import Meter, Pricing, UnknownPriceError
from cliff_core.plot import Panel, draw, largest, unusable
from cliff_core.policies import CliffPolicy, Policy, PolicyError, policies
from cliff_core.replay import limit_of, model_of, replay, view_at
from cliff_core.wording import counted

app = typer.Typer(rich_markup_mode=None)

MOST_DOLLARS = 1_000_000_000


def _price(value: float | None) -> float | None:
    if value is not None and not 0 <= value <= MOST_DOLLARS:  # not a number is neither
        raise typer.BadParameter(f"a price is a number from 0 to {MOST_DOLLARS}, not {value}")
    return value


@app.command()
@config_options
def command(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH", help="Recorded sessions, or folders of them.")],
    policy: Annotated[str, typer.Option(help="Policies to compare: cliff, full, sliding.")] = "cliff,full,sliding",
    model: Annotated[str | None, typer.Option(help="Take this model's prices instead of the session's own.")] = None,
    price_input: Annotated[
        float | None, typer.Option(callback=_price, help="Dollars per million input tokens.")
    ] = None,
    price_cached: Annotated[
        float | None, typer.Option(callback=_price, help="The same for input from the cache.")
    ] = None,
    price_write: Annotated[
        float | None, typer.Option(callback=_price, help="The same for input that is written to it.")
    ] = None,
    cache_min: Annotated[int | None, typer.Option(min=0, help="Tokens below which a prefix is not cached.")] = None,
    cache_step: Annotated[
        int | None, typer.Option(min=1, help="Cached prefixes are multiples of so many tokens.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw prompt tokens by request: FILE.png or FILE.svg.")] = None,
    at: Annotated[int | None, typer.Option(min=1, help="Print what cliff sends at this request instead.")] = None,
    session: Annotated[
        str | None, typer.Option(help="With --at: which of several sessions, by name or number.")
    ] = None,
    **options: Any,
) -> None:
    """What each policy would have sent on recorded sessions, and what that would have cost.

    The options from --preset on are those of a compaction; each can be set by a variable, too
    (CLIFF_KEEP_TURNS=2). Without --model and --price-input, prices are those of the session's own model;
    where that is not known, costs are shares only, with cached input at a fifth of the price."""
    if at is not None and plot is not None:
        raise typer.BadParameter("--at prints one view: it has no --plot")
    if at is None and session is not None:
        raise typer.BadParameter("--session needs --at")
    config = read_config(options)
    if price_input is None and (price_cached is not None or price_write is not None):
        raise typer.BadParameter("--price-cached and --price-write need --price-input")
    pricing = Pricing(model, price_input, price_cached, price_write, cache_min, cache_step)
    try:
        chosen = policies([name.strip() for name in policy.split(",") if name.strip()], config)
        if model is not None:
            pricing.of(model)
    except (PolicyError, UnknownPriceError) as error:
        raise typer.BadParameter(str(error)) from None
    if plot is not None and (problem := unusable(plot)):
        raise typer.BadParameter(problem)
    with logged() as log:
        inputs = Inputs(paths, log)
        if at is not None:
            _show(inputs, config, pricing, at, session, as_json)
        else:
            _replay(inputs, chosen, config, pricing, as_json, plot)
    if inputs.errors:
        raise typer.Exit(2)


def _replay(
    inputs: Inputs,
    chosen: list[Policy],
    config: CliffConfig,
    pricing: Pricing,
    as_json: bool,
    plot: Path | None,
) -> None:
    out = Stream()
    totals = report.Totals()
    sessions: list[dict[str, Any]] = []
    panels: list[Panel] = []
    for session in inputs:
        try:
            tariff, rules, known = pricing.of(model_of(session))
            done = replay(session, chosen, config, rules, limit_of(known))
        except Exception as error:
            inputs.failed(session.path, f"{session.path}: could not be replayed ({_problem(error)})")
            continue
        window = known.context_window if known is not None else None
        if not session.requests:
            warn(f"{session.path}: there is no model request in {session.name or 'the session'}")
            if as_json:
                sessions.append(report.session_json(done, tariff, window))
            continue
        totals.add(done, tariff)
        if plot is not None:
            panels = largest([*panels, Panel.of(done, tariff, config)])
        if as_json:
            sessions.append(report.session_json(done, tariff, window))
        else:
            with inputs.printing():
                report.show(out, report.session_report(done, tariff, window))
    vocabulary = tokens.vocabulary()
    if as_json:
        data: dict[str, Any] = {"sessions": sessions, "errors": inputs.errors}
        data["tokens"] = {"name": vocabulary.name, "source": vocabulary.source}
        data["config"] = config.as_dict()
        print(_json(data))
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


def _show(inputs: Inputs, config: CliffConfig, pricing: Pricing, at: int, wanted: str | None, as_json: bool) -> None:
    """The view of policy `cliff` at request `at` of the one session that is meant."""
    meant = _meant(inputs, wanted)
    found = _view(inputs, meant, config, pricing, at) if meant is not None else None
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
    """The session of that name or number, or the only one."""
    meant: traces.Session | None = None
    names: list[str] = []
    for number, session in enumerate(inputs, 1):
        names.append(session.name or session.path.stem)
        if wanted in (None, session.name, str(number)) and meant is None:
            meant = session
    if meant is not None and (wanted is not None or len(names) == 1):
        return meant
    if names:
        listed = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
        what = "several sessions" if wanted is None else f"no session {wanted!r}"
        hint = f"--session takes a name or a number from 1 to {len(names)}"
        inputs.failed(meant.path if meant else Path(), f"{what}: {listed}; {hint}")
    elif not inputs.errors:
        inputs.failed(Path(), "there is no session")
    return None


def _view(
    inputs: Inputs, session: traces.Session, config: CliffConfig, pricing: Pricing, at: int
) -> tuple[View, Meter] | None:
    if at > len(session.requests):
        requests = counted(len(session.requests), "request")
        inputs.failed(session.path, f"{session.path}: there is no request {at}: the session has {requests}")
        return None
    try:
        limit = limit_of(pricing.of(model_of(session))[2])
        return view_at(session, CliffPolicy(config), at, limit)
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

"""`cliff report`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from cliff_core import tokens
from cliff_core.commands.inputs import Inputs
from cliff_core.commands.options import config_options, read_plan, read_work, replay_options
from cliff_core.commands.said import logged, say
from cliff_core.page import Page

app = typer.Typer(rich_markup_mode=None)

POLICIES = "all"


@app.command()
@config_options
@replay_options
def command(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH", help="Recorded sessions, or folders of them.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The page, a file of HTML.")] = Path("report.html"),
    **options: Any,
) -> None:
    """One page that shows what each policy would have sent, cost and kept on recorded sessions.

    The page needs no network and has no script. All policies are on it that can be had, unless --policy names some. The
    options are those of `cliff replay`."""
    work = read_work(options)
    plan = read_plan(options, POLICIES)
    vocabulary = tokens.vocabulary()
    source = re.sub(r"\S*[/\\]", "", vocabulary.source)  # without folders
    page = Page(plan.config, f"{vocabulary.name} ({source})")
    with logged() as log:
        inputs = Inputs(paths, log)
        with inputs.replayed(plan, *work) as sessions:
            for done in sessions:
                if done.replay.session.requests:
                    page.add(done)
        if not page.totals.sessions:
            if not inputs.errors:
                inputs.failed(output, "there is no session with a model request: no page is written")
        else:
            try:
                output.write_text(page.html(), encoding="utf-8")
            except OSError as error:
                inputs.failed(output, f"{output}: the page cannot be written: {error.strerror or error}")
            else:
                say("report", "green", str(output))
    if inputs.errors:
        raise typer.Exit(2)

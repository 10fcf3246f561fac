"""`cliff report`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from cliff_core import tokens
from cliff_core.commands.inputs import Inputs
from cliff_core.commands.options import Paths, config_options, read_path, read_plan, read_work, replay_options
from cliff_core.commands.said import logged, say
from cliff_core.page import Page

app = typer.Typer(rich_markup_mode=None)

POLICIES = "all"


@app.command()
@config_options
@replay_options
def command(
    paths: Paths,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="The page, a file of HTML.", parser=read_path, metavar="FILE"),
    ] = Path("report.html"),
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
        inputs = Inputs(paths, log, [output, work[1]])
        read: set[Path] = set()
        with inputs.replayed(plan, *work) as sessions:
            for done in sessions:
                session = done.replay.session
                read.add(session.path)
                if session.requests:
                    page.add(done)
                else:
                    page.left_out(f"no model request: {session.name or 'a session'} in {session.path}")
        if not page.totals.sessions:
            if not inputs.errors:
                inputs.failed(output, "there is no session with a model request: no page is written")
        else:
            for text in _left_out(inputs, read):
                page.left_out(text)
            try:
                output.write_text(page.html(), encoding="utf-8")
            except OSError as error:
                inputs.failed(output, f"{output}: the page cannot be written: {error.strerror or error}")
            else:
                say("report", "green", str(output))
    if inputs.errors:
        raise typer.Exit(2)


def _left_out(inputs: Inputs, read: set[Path]) -> Iterator[str]:
    """Inputs that gave no session, and why: `read` are the files that gave some."""
    yield from (f"failed: {error['error']}" for error in inputs.errors)
    yield from (f"skipped: {text}" for text in inputs.skipped)
    none = read | {Path(error["path"]) for error in inputs.errors}
    yield from (f"skipped: {path}: no session" for path in inputs.files if path not in none)

"""`cliff doctor`: what is wrong with this set-up, and how to mend it."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich.text import Text

from cliff_core.commands.said import Stream
from cliff_core.doctor import examine
from cliff_core.wording import printable

app = typer.Typer()

_SIGNS = {"ok": ("ok", "green"), "warning": ("warning", "yellow"), "problem": ("problem", "red")}


@app.command()
def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Findings as JSON: check, level, what, mend.")] = False,
) -> None:
    """Check this installation and what other packages of the project know of their hosts.

    Changes nothing. Exit status 1 where there is a problem."""
    findings = list(examine())
    if as_json:
        print(json.dumps([{"check": check, **asdict(finding)} for check, finding in findings], indent=2))
    else:
        out = Stream()
        for check, finding in findings:
            word, colour = _SIGNS[finding.level]
            out.print(Text.assemble((f"{word:<8}", colour), printable(f"{check}: {finding.what}")), soft_wrap=True)
            if finding.mend:
                out.print(Text(printable(f"         -> {finding.mend}")), soft_wrap=True)
    if any(finding.level == "problem" for _, finding in findings):
        raise typer.Exit(1)

"""Tables of figures that fit a terminal."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

WIDE = 1000
"""Columns of a console that any table fits in."""


def _plain(name: str) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Fitted:
    """A table. Where the console is too narrow for it, columns are left out and named, and where it is even for the
    others, figures stand below each other: none is cut, and no name is broken while there is room for it alone."""

    rows: Mapping[str, Mapping[str, str]]
    """Figures by name and heading."""
    table: Callable[[Collection[str]], Table]
    """Makes the table of these rows without some headings; no column of it may wrap."""
    order: Sequence[str]
    """Headings that can be left out, the least important first."""
    style: Callable[[str], str] = _plain
    """Of a name, where figures stand below it."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for count in range(len(self.order) + 1):
            left_out = self.order[:count]
            table = self.table(left_out)
            if Measurement.get(console, options.update(width=WIDE), table).maximum <= options.max_width:
                yield table
                if left_out:
                    yield Text(f"  no room for: {', '.join(left_out)}", style="dim")
                return
        for name, figures in self.rows.items():
            yield Text("  " + name, style=self.style(name), overflow="fold")
            for heading, figure in figures.items():
                if figure:
                    yield Text(f"    {heading} {figure}", overflow="fold")

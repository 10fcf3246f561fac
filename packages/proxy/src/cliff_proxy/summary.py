"""What a proxy did, in words: from its `/_cliff/status` (`Engine.status`, `Proxy`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from cliff_core.wording import counted, dollars, printable, thousands


def line(status: Mapping[str, Any]) -> str:
    """One line, as `cliff run` has it at its end."""
    server, totals = status.get("server", {}), status.get("totals", {})
    requests = int(server.get("requests", 0))
    if not requests:
        return "no request came through the proxy"
    parts = [counted(requests, "request"), counted(int(totals.get("cliffs", 0)), "cliff")]
    if int(totals.get("cliffs", 0)) and totals.get("full_tokens_estimate"):
        parts.append(saved(totals))
    text = ", ".join(parts)
    problems = status.get("problems", [])
    return f"{text}; {counted(len(problems), 'problem')}: {problems[0]}" if problems else text


def saved(sums: Mapping[str, Any]) -> str:
    """What was sent in place of what would have been, in tokens and, where prices are known, in dollars."""
    sent, full = int(sums.get("input_tokens", 0)), int(sums.get("full_tokens_estimate", 0))
    text = f"{thousands(sent)} input tokens in place of about {thousands(full)}"
    if "dollars" in sums:
        text += f", {dollars(float(sums['dollars']))} in place of about {dollars(float(sums['full_dollars_estimate']))}"
    return text


def lines(head: str, status: Mapping[str, Any]) -> Iterator[Text | Table]:
    """All of it, for people."""
    yield Text(printable(head), style="bold")
    yield Text(f"  {printable(line(status))}")
    sessions = status.get("sessions", [])
    if sessions:
        yield _table(sessions)
    for problem in status.get("problems", []):
        yield Text(f"  problem: {printable(str(problem))}", style="yellow")


def _table(sessions: list[Mapping[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("session", "model"):
        table.add_column(name, overflow="fold")
    for name in ("requests", "cliffs", "now", "threshold", "sent", "full", "cached", "saved"):
        table.add_column(name, justify="right", no_wrap=True)
    for session in sessions:
        sent, full = int(session.get("input_tokens", 0)), int(session.get("full_tokens_estimate", 0))
        cached = int(session.get("cache_read_tokens", 0))
        in_dollars = session.get("saved_dollars_estimate")
        share = f"{(full - sent) / full:.0%}" if full else "-"
        label = str(session.get("label") or "")
        table.add_row(
            printable(str(session.get("id", "")) + (f" {label[:8]}" if label else "")),
            printable(str(session.get("model", ""))),
            str(session.get("requests", 0)),
            str(session.get("cliffs", 0)),
            thousands(int(session.get("tokens", 0))),
            thousands(int(session.get("threshold", 0))),
            thousands(sent),
            thousands(full),
            f"{cached / sent:.0%}" if sent else "-",
            share if in_dollars is None else f"{share} {_signed(float(in_dollars))}",
        )
    return table


def _signed(amount: float) -> str:
    amount = round(amount, 4)
    return f"-{dollars(-amount)}" if amount < 0 else dollars(amount)

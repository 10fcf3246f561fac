"""What a proxy did, in words: from its `/_cliff/status` (`Engine.status`, `Proxy`)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from cliff_core.tables import Fitted
from cliff_core.wording import counted, dollars, printable, thousands


def line(status: Mapping[str, Any]) -> str:
    """One line, as `cliff run` has it at its end: after that nobody can ask the proxy for its problems any more."""
    problems = [str(problem) for problem in status.get("problems", [])]
    if not problems:
        return did(status)
    said = problems[0] if len(problems) == 1 else " ".join(f"({n}) {text}" for n, text in enumerate(problems, 1))
    return f"{did(status)}; {counted(len(problems), 'problem')}: {said}"


def did(status: Mapping[str, Any]) -> str:
    """Requests, cliffs, and what they saved; in shadow mode what they would have."""
    totals = status.get("totals", {})
    requests = int(status.get("server", {}).get("requests", 0))
    if not requests:
        return "no request came through the proxy"
    parts = [counted(requests, "request"), counted(int(totals.get("cliffs", 0)), "cliff")]
    full, view = _tokens(totals)
    if full and _shadow(status):
        parts.insert(1, f"would have sent {thousands(view)} of {thousands(full)} input tokens")
    elif full > view:
        parts.append(f"{thousands(view)} input tokens in place of about {thousands(full)}")
        if "dollars" in totals:
            parts.append(_dollars(totals))
    return ", ".join(parts)


def _dollars(totals: Mapping[str, Any]) -> str:
    """What was paid in place of what would have been, and of which sessions, where it is not of all."""
    text = f"{dollars(float(totals['dollars']))} in place of about {dollars(float(totals['full_dollars_estimate']))}"
    sessions, priced = int(totals.get("sessions", 0)), int(totals.get("priced_sessions", 0))
    return (
        text if priced == sessions else f"{text} for the {priced} of {counted(sessions, 'session')} with a known price"
    )


def _tokens(sums: Mapping[str, Any]) -> tuple[int, int]:
    """Of the whole histories, and of what was sent in their place (in shadow mode would have been)."""
    full = int(sums.get("full_tokens_estimate", 0))
    return full, full - int(sums.get("saved_tokens_estimate", 0))


def _shadow(status: Mapping[str, Any]) -> bool:
    """Whether the proxy only observes."""
    return bool(status.get("totals", {}).get("actions", {}).get("shadow"))


def lines(head: str, status: Mapping[str, Any]) -> Iterator[Text | Fitted]:
    """All of it, for people."""
    yield Text(printable(head), style="bold")
    yield Text(f"  {printable(did(status))}")
    sessions = status.get("sessions", [])
    if sessions:
        yield _fitted(sessions, _shadow(status))
    for problem in status.get("problems", []):
        yield Text(f"  problem: {printable(str(problem))}", style="yellow")


def _fitted(sessions: list[Mapping[str, Any]], shadow: bool) -> Fitted:
    rows = {_one_line(session.get("id")): _figures(session, shadow) for session in sessions}
    if not any(figures["dollars saved"] for figures in rows.values()):
        for figures in rows.values():
            del figures["dollars saved"]
    order = ("client", "cached", "model", "threshold", "now", "requests", "full")
    return Fitted(rows, lambda left_out: _table(rows, left_out), order)


def _figures(session: Mapping[str, Any], shadow: bool) -> dict[str, str]:
    """One session's, by their headings."""
    full, view = _tokens(session)
    sent, cached = int(session.get("input_tokens", 0)), int(session.get("cache_read_tokens", 0))
    in_dollars = session.get("saved_dollars_estimate")
    return {
        "client": _one_line(session.get("label"))[:8] or "-",
        "model": _one_line(session.get("model")),
        "requests": str(session.get("requests", 0)),
        "cliffs": str(session.get("cliffs", 0)),
        "now": thousands(int(session.get("tokens", 0))),
        "threshold": thousands(int(session.get("threshold", 0))),
        "would send" if shadow else "sent": thousands(view),
        "full": thousands(full),
        "cached": f"{cached / sent:.0%}" if sent else "-",
        "tokens saved": f"{(full - view) / full:.0%}" if full else "-",
        "dollars saved": "" if in_dollars is None or shadow else _signed(float(in_dollars)),
    }


def _table(rows: Mapping[str, Mapping[str, str]], left_out: Collection[str]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("session", no_wrap=True)
    headings = [heading for heading in next(iter(rows.values())) if heading not in left_out]
    for heading in headings:
        table.add_column(heading, justify="left" if heading in ("client", "model") else "right", no_wrap=True)
    for name, figures in rows.items():
        table.add_row(Text(name), *(Text(figures[heading] or "-") for heading in headings))
    return table


def _one_line(value: Any) -> str:
    return printable(" ".join(str(value or "").split()))


def _signed(amount: float) -> str:
    amount = round(amount, 4)
    return f"-{dollars(-amount)}" if amount < 0 else dollars(amount)

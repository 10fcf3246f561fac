"""Counters of a running proxy, and their text for Prometheus. Touched by the event loop only."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

_HELP = {
    "requests_total": ("counter", "Requests, by API (other: passed through unread) and what was done."),
    "responses_total": ("counter", "Responses to clients, by API and status."),
    "cliffs_total": ("counter", "Compactions, by API and reason."),
    "rejections_total": ("counter", "Prompts that an upstream refused as too long, by API."),
    "replays_total": ("counter", "Requests sent again, shorter, after such a refusal."),
    "failures_total": ("counter", "Requests sent as they came because our work failed, by kind of error."),
    "upstream_errors_total": ("counter", "Upstreams that were not there or broke off, by kind."),
    "hangups_total": ("counter", "Clients that went away before their response was complete."),
    "refusals_total": ("counter", "Requests refused for their host or token."),
    "tokens_total": ("counter", "Tokens that providers reported, by API and kind."),
    "received_bytes_total": ("counter", "Bytes of requests to models as clients sent them."),
    "sent_bytes_total": ("counter", "Bytes of requests to models as upstreams got them."),
    "prepare_seconds_sum": ("counter", "Time in which requests were prepared."),
    "prepare_seconds_count": ("counter", "Requests that were prepared."),
    "open_requests": ("gauge", "Requests being answered."),
    "sessions": ("gauge", "Sessions in memory."),
}


class Metrics:
    """Named counters with labels."""

    def __init__(self) -> None:
        self._values: dict[tuple[Any, ...], float] = defaultdict(int)
        """By name and then labels, each always named in the same order."""

    def add(self, name: str, amount: float = 1, /, **labels: str) -> None:
        """Adds to the counter of this name and these labels."""
        self._values[name, *labels.items()] += amount

    def total(self, name: str, /, **labels: str) -> float:
        """The sum over all counters of this name that have these labels."""
        wanted = set(labels.items())
        return sum(value for (known, *had), value in self._values.items() if known == name and wanted <= set(had))

    def text(self, gauges: Mapping[str, float]) -> str:
        """All counters, and gauges by name, in Prometheus' text format."""
        return "".join(self._lines(gauges))

    def _lines(self, gauges: Mapping[str, float]) -> Iterator[str]:
        for name, (kind, about) in _HELP.items():
            values: list[tuple[tuple[tuple[str, str], ...], float]]
            found = [(tuple(sorted(had)), value) for (known, *had), value in self._values.items() if known == name]
            values = sorted(found)
            if name in gauges:
                values = [((), gauges[name])]
            yield f"# HELP cliff_{name} {about}\n# TYPE cliff_{name} {kind}\n"
            for labels, value in values or ([((), 0.0)] if kind == "gauge" else []):
                said = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels)
                yield f"cliff_{name}{'{' + said + '}' if said else ''} {value:.10g}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

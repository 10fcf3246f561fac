"""Each default of preset `default` alone: what it costs and what it keeps, on recorded sessions.

    python benchmarks/defaults.py [PATH…] [--thresholds 16000,32000] [--only NAME,NAME] [--not-raised]
                                  [--jobs 2] [--json]

PATH is `../shared/traces`, or what CLIFF_TRACES says, unless given. Every variant below is policy `cliff` with one
option changed; beside them stand preset `paper` and the authors' package at the same threshold, where it is found:
CLIFF_AUTHORS_PYTHON names a Python that has it (`make authors` makes one, `.venv-bench/bin/python`). Counted are
sessions in which the base line (the authors, else `default`) has at least three cliffs, whatever the variants do: so
without the authors' package they are other sessions. With `--not-raised`, only those where preset `default` does not
raise the threshold (the authors never do: where system prompt and tools fill it, they cut at every request). For each
variant and threshold:

    support     mean over sessions of the session's support (docs/support.md), where any request needs a name
    points      the same less that of the base line (the authors, else `default`)
    cost        mean over sessions of cost, as a share of full context
    ratio       mean and highest of cost / cost of the base line
    cliffs      all sessions together
    re-reads    and how many of them are re-issuable

Nothing here is random, and no clock is read: the same sessions give the same table.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import recorded

from cliff_core import traces
from cliff_core.config import CliffConfig
from cliff_core.ledger import Pricing
from cliff_core.policies import Authors, CliffPolicy, Policy, PolicyError
from cliff_core.policies.authors import find_python
from cliff_core.replay import limit_of, model_of, replay

LEAST_CLIFFS = 3

VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "paper": {"preset": "paper"},
    # Each of the defaults as it is in preset paper.
    "path_index_chars=0": {"path_index_chars": 0},
    "min_gain=0": {"min_gain": 0.0},
    "keep_turns=3": {"keep_turns": 3},
    "notes=all": {"notes": "all"},
    "error_chars=0": {"error_chars": 0},
    "pin_directives=no": {"pin_directives": False},
    # More and less of each.
    "path_index_chars=1500": {"path_index_chars": 1_500},
    "path_index_chars=2000": {"path_index_chars": 2_000},
    "path_index_chars=4000": {"path_index_chars": 4_000},
    "path_index_chars=6000": {"path_index_chars": 6_000},
    "min_gain=0.25": {"min_gain": 0.25},
    "min_gain=0.4": {"min_gain": 0.4},
    "min_gain=0.5": {"min_gain": 0.5},
    "min_gain=0.7": {"min_gain": 0.7},
    "min_gain=0.8": {"min_gain": 0.8},
    "keep_turns=1": {"keep_turns": 1},
    "keep_turns=5": {"keep_turns": 5},
    "error_chars=500": {"error_chars": 500},
    "directives_max_chars=2000": {"directives_max_chars": 2_000},
    "result_max_chars=250": {"result_max_chars": 250},
    "result_max_chars=1000": {"result_max_chars": 1_000},
    "call_max_chars=80": {"call_max_chars": 80},
    "call_max_chars=300": {"call_max_chars": 300},
    "thought_max_chars=0": {"thought_max_chars": 0},
    "thought_max_chars=600": {"thought_max_chars": 600},
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    recorded.add_paths(parser)
    parser.add_argument("--thresholds", default="16000,32000")
    parser.add_argument("--only", help="these variants, in place of all")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--not-raised", action="store_true", help="only sessions whose threshold is as asked for")
    parser.add_argument("--json", action="store_true", help="print each session's figures, too, as JSON")
    options = parser.parse_args()
    names = options.only.split(",") if options.only else list(VARIANTS)
    unknown = [name for name in names if name not in VARIANTS]
    if unknown:
        parser.error(f"no variant {', '.join(unknown)}; there are {', '.join(VARIANTS)}")
    names = ["default", *(name for name in names if name != "default")]
    files = recorded.files(parser, options.paths)
    base = "default" if find_python() is None else "authors"
    if base == "default":
        print(
            "without the authors' package (set CLIFF_AUTHORS_PYTHON, as `make bench-defaults` does): sessions are "
            f"counted in which default has {LEAST_CLIFFS} cliffs or more, which are not those of docs/defaults.md",
            file=sys.stderr,
        )
    else:
        try:
            Authors(CliffConfig.preset()).close()
        except PolicyError as error:
            parser.error(str(error))
    result: dict[str, Any] = {}
    for threshold in map(int, options.thresholds.split(",")):
        sessions: list[dict[str, Any]] = []
        with ProcessPoolExecutor(options.jobs) as pool:
            every = [threshold] * len(files), [names] * len(files), [options.not_raised] * len(files)
            found = pool.map(measured, files, *every)
            for number, some in enumerate(found, 1):
                sessions += some
                if sys.stderr.isatty():
                    print(f"\r{threshold}: {number} of {len(files)} files", end="", file=sys.stderr)
        if sys.stderr.isatty():
            print(file=sys.stderr)
        rows = compared(sessions, base)
        result[str(threshold)] = {"base": base, "variants": rows, "sessions": sessions}
        if not sessions:
            print(f"threshold {threshold}: no session in which {base} has {LEAST_CLIFFS} cliffs", file=sys.stderr)
        elif not options.json:
            print(table(threshold, len(sessions), rows, base))
    if options.json:
        print(json.dumps(result, indent=2))
    return 0


def measured(path: Path, threshold: int, names: list[str], not_raised: bool) -> list[dict[str, Any]]:
    """Figures of the sessions of a file that have enough cliffs."""
    logging.getLogger("cliff_core").setLevel(logging.ERROR)
    return list(_measured(path, threshold, names, not_raised))


def _measured(path: Path, threshold: int, names: list[str], not_raised: bool) -> Iterator[dict[str, Any]]:
    chosen: list[Policy] = []
    for name in names:
        changed = dict(VARIANTS[name])
        policy = CliffPolicy(
            CliffConfig.preset(changed.pop("preset", "default"), threshold_tokens=threshold, **changed)
        )
        policy.name = name
        chosen.append(policy)
    authors = None
    try:
        for session in traces.read(path):
            tariff, rules, known = Pricing().of(model_of(session))
            config = CliffConfig.preset(threshold_tokens=threshold)
            if authors is None and find_python() is not None:
                authors = Authors(config)
                chosen.append(authors)
            first = {policy.name: policy for policy in (chosen[0], chosen[-1])}
            usual = replay(session, list(first.values()), config, rules, limit_of(known)).results
            if len(usual.get("authors", usual["default"]).compactions) < LEAST_CLIFFS or (
                not_raised and (usual["default"].threshold or 0) > threshold
            ):
                continue
            done = replay(session, chosen, config, rules, limit_of(known))
            full = done.full.cost(tariff)
            yield {
                "session": f"{path.parent.name}/{session.name or path.stem}",
                "variants": {
                    name: {
                        "support": result.support.share,
                        "cost": result.cost(tariff) / full,
                        "cliffs": len(result.compactions),
                        "rereads": result.support.rereads,
                        "reissuable": result.support.reissuable,
                        "peak_tokens": result.peak_tokens,
                    }
                    for name, result in done.results.items()
                },
            }
    except traces.TraceError as error:
        print(error, file=sys.stderr)
    finally:
        if authors is not None:
            authors.close()


def compared(sessions: list[dict[str, Any]], base: str) -> dict[str, dict[str, Any]]:
    """Each variant over all sessions, beside the base line."""
    if not sessions:
        return {}
    names = sessions[0]["variants"]
    rows: dict[str, dict[str, Any]] = {}
    for name in names:
        its = [(one["variants"][name], one["variants"][base]) for one in sessions]
        supported = [(a["support"], b["support"]) for a, b in its if a["support"] is not None]
        ratios = [a["cost"] / b["cost"] for a, b in its]
        rows[name] = {
            "support": mean([a for a, _ in supported]),
            "points": 100 * mean([a - b for a, b in supported]),
            "cost": mean([a["cost"] for a, _ in its]),
            "ratio": mean(ratios),
            "highest_ratio": max(ratios),
            "dearer": sum(ratio > 1.0005 for ratio in ratios),
            "cliffs": sum(a["cliffs"] for a, _ in its),
            "rereads": sum(a["rereads"] for a, _ in its),
            "reissuable": sum(a["reissuable"] for a, _ in its),
        }
    return rows


def mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def table(threshold: int, sessions: int, rows: dict[str, dict[str, Any]], base: str) -> str:
    lines = [
        f"threshold {threshold}, {sessions} sessions in which {base} has {LEAST_CLIFFS} cliffs or more; against {base}",
        f"{'variant':<24}{'support':>9}{'points':>8}{'cost':>8}{'ratio':>7}{'high':>6}{'dearer':>8}{'cliffs':>8}"
        f"{'re-reads':>10}{'re-iss.':>9}",
    ]
    for name, row in rows.items():
        lines.append(
            f"{name:<24}{row['support']:>9.1%}{row['points']:>+8.1f}{row['cost']:>8.1%}{row['ratio']:>7.2f}"
            f"{row['highest_ratio']:>6.2f}{row['dearer']:>8}{row['cliffs']:>8}{row['rereads']:>10}{row['reissuable']:>9}"
        )
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    sys.exit(main())

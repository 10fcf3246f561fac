"""`threshold_tokens = "auto"` on recorded sessions: its cost beside that of the best threshold, and of 32 000.

    python benchmarks/auto.py [PATH…] [--ratio 25] [--least 25]

PATH is `../shared/traces`, or what CLIFF_TRACES says, unless given. A row a session of at least `--least` requests that
has a cliff at some threshold: what `cliff tune` finds by replay to cost least among its thresholds (and full context),
and how much more `auto` and 32 000 cost than that. Prices are those of the session's model; `--ratio` takes others
(uncached by cached input), to see the formula where other thresholds are best. Nothing here is random, and no clock is
read.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import recorded

from cliff_core import traces
from cliff_core.config import CliffConfig
from cliff_core.ledger import Pricing, Tariff
from cliff_core.policies import policies
from cliff_core.replay import limit_of, model_of, replay
from cliff_core.traces import Session
from cliff_core.tuning import ONLINE, THRESHOLDS, by_threshold, names
from cliff_core.wording import grouped

DEFAULT = 32_000
CLOSE = 1.05


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    recorded.add_paths(parser)
    parser.add_argument("--ratio", type=float, help="in place of the models' prices")
    parser.add_argument("--least", type=int, default=25, help="requests of the sessions that count")
    options = parser.parse_args()
    files = recorded.files(parser, options.paths)
    logging.getLogger("cliff_core").setLevel(logging.ERROR)
    config = CliffConfig.preset()
    autos: list[float] = []
    defaults: list[float] = []
    print("| session | requests | u/c | best | auto took | auto | 32 000 | support: best | auto | 32 000 |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for path in files:
        for number, session in enumerate(sessions(path), 1):
            if len(session.requests) < options.least:
                continue
            tariff, rules, known = Pricing().of(model_of(session))
            if options.ratio is not None:
                tariff = Tariff(options.ratio, 1.0)
            chosen = policies(names(THRESHOLDS), config)
            done = replay(session, chosen, config, rules, limit_of(known), tariff.cache_price_ratio)
            if not any(result.cliffs for result in done.results.values()):
                continue
            tried = {grouped(t): result for t, result in by_threshold(done).items()} | {"full": done.full}
            best = min(tried, key=lambda name: tried[name].cost(tariff))
            auto, default = done.results[ONLINE], tried[grouped(DEFAULT)]
            least = tried[best].cost(tariff)
            autos.append(auto.cost(tariff) / least)
            defaults.append(default.cost(tariff) / least)
            took = sorted(cliff.threshold for _, cliff in auto.cliffs)
            cells = [
                f"{path.parent.name} {number}" if number > 1 else path.parent.name,
                str(len(session.requests)),
                f"{tariff.cache_price_ratio:.1f}",
                best + (f" ({grouped(tried[best].threshold or 0)})" if best != "full" else ""),
                f"{grouped(took[len(took) // 2])}, {len(took)} cliffs" if took else "–",
                f"{autos[-1]:.3f}",
                f"{defaults[-1]:.3f}",
                *("–" if (s := r.support.share) is None else f"{s:.0%}" for r in (tried[best], auto, default)),
            ]
            print(f"| {' | '.join(cells)} |")
    if not autos:
        sys.exit(f"no session of {options.least} requests or more has a cliff: there is nothing to compare")
    for name, found in (("auto", autos), ("32 000", defaults)):
        close = sum(one <= CLOSE for one in found)
        print(
            f"{name}: {sum(found) / len(found):.3f} of the best on average, {max(found):.3f} at most; "
            f"within 5 % on {close} of {len(found)} sessions"
        )


def sessions(path: Path) -> Iterator[Session]:
    """Those of a file, up to where it breaks."""
    try:
        yield from traces.read(path)
    except traces.TraceError as error:
        print(error, file=sys.stderr)


if __name__ == "__main__":
    main()

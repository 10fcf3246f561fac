"""How long a thousand groups of three take: `time python packages/selector/benchmark.py`.

The rollouts are made up: terminals of 40 000 characters in the form of mini-swe-agent's log, from a fixed seed.
"""

import json
import random
import tempfile
import time
from pathlib import Path

from cliff_select import choose, read, shipped

GROUPS, RUNS, CHARS = 1_000, 3, 40_000


def terminal(chance: random.Random) -> str:
    """The log of one run."""
    words = ["build", "test", "parser", "error", "module", "value", "passed", "src/app.py", "42", "0x7f3a", "warning"]
    lines = ["root@0123456789ab:/app# mini -m model -t 'task' -y; tmux wait -S done"]
    size = step = 0
    while size < CHARS - 300:
        step += 1
        part = [f"mini-swe-agent (step {step}, ${step / 50:.2f}):", "THOUGHT: next.", "```bash", "make", "```"]
        part += ["User:", f"<returncode>{int(chance.random() < 0.2)}</returncode>"]
        part += [" ".join(chance.choices(words, k=12)) for _ in range(20)]
        lines += part
        size += sum(len(line) + 1 for line in part)
    lines += ["echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", "root@0123456789ab:/app#"]
    return "\n".join(lines)


def main() -> None:
    chance = random.Random(0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rollouts.jsonl"
        with path.open("w") as stream:
            for task in range(GROUPS):
                for run in range(RUNS):
                    ended = f"2026-01-01T00:{chance.randrange(1, 60):02}:00+00:00"
                    record = {"task": f"task-{task}", "run": f"run-{run}", "terminal": terminal(chance)}
                    stream.write(json.dumps({**record, "started": "2026-01-01T00:00:00+00:00", "ended": ended}) + "\n")
        start, worked = time.perf_counter(), time.process_time()
        groups, problems = read([path])
        choices = choose(groups, shipped())
        seconds, worked = time.perf_counter() - start, time.process_time() - worked
    print(f"{len(choices)} groups of {RUNS}, {CHARS} characters each: {seconds:.1f} s, {worked:.1f} s of them at work")
    assert not problems


if __name__ == "__main__":
    main()

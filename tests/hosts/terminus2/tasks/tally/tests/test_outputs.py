"""What the task asks for, checked in the working folder."""

import subprocess
import sys
from collections import Counter
from pathlib import Path


def expected(width: int, column: int) -> str:
    sums: Counter[str] = Counter()
    for line in Path("ledger.txt").read_text().splitlines():
        if not line.startswith("#"):
            words = line.split()
            sums[words[column][:width]] += int(words[2])
    return "".join(f"{name} {total}\n" for name, total in sorted(sums.items()))


def run(*arguments: str) -> str:
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_balance() -> None:
    assert run("-m", "tally", "balance", "ledger.txt") == expected(100, 1)


def test_months() -> None:
    assert run("-m", "tally", "months", "ledger.txt") == expected(7, 0)


def test_the_modules_have_tests_that_pass() -> None:
    assert len(list(Path().glob("test_*.py"))) >= 5
    run("-m", "unittest")

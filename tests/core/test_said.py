"""How wide standard output is taken to be."""

import os
import subprocess
import sys

import pytest
from rich.table import Table

from cliff_core.commands.said import Stream

WORDS = "a line of many words " * 12


@pytest.mark.parametrize(("columns", "lines"), [(None, 1), ("", 1), ("wide", 1), ("80", 4), ("0", 4)])
def test_a_pipe_gets_whole_lines_unless_it_says_how_wide_it_is(capsys, monkeypatch, columns, lines):
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns is not None:
        monkeypatch.setenv("COLUMNS", columns)
    Stream().print(WORDS)
    assert len(capsys.readouterr().out.splitlines()) == lines


def test_a_table_in_a_pipe_is_no_wider_than_its_cells(capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    table = Table("name", "figure", box=None)
    table.add_row("full", "33 462")
    Stream().print(table)
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["name", "figure"],
        ["full", "33", "462"],
    ]


def test_a_terminal_has_its_own_width():
    """A real one, of 40 columns."""
    pty = pytest.importorskip("pty")
    termios = pytest.importorskip("termios")
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (24, 40))
    program = f"from cliff_core.commands.said import Stream; Stream().print({WORDS!r})"
    environ = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    subprocess.run([sys.executable, "-c", program], stdin=slave, stdout=slave, stderr=slave, env=environ, check=True)
    os.close(slave)
    shown = os.read(master, 4_096).decode().splitlines()
    os.close(master)
    assert max(map(len, shown)) <= 40
    assert " ".join(" ".join(shown).split()) == WORDS.strip()

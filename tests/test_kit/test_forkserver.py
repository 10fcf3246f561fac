"""`ForkServer`: a command of it is what the shell's would be."""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from kit.forkserver import ForkServer


@pytest.fixture
def fork(tmp_path):
    """Starts servers that import modules; those of `tmp_path / "modules"` as well."""
    started = []
    (tmp_path / "modules").mkdir()

    def start(*modules, **env):
        env = os.environ | {"PYTHONPATH": str(tmp_path / "modules")} | env
        started.append(ForkServer(tmp_path / f"server-{len(started)}", *modules, env=env))
        return started[-1]

    yield start
    for server in started:
        server.close()


ENDS = {
    "falls off its end": ("print('done')", 0, "done\n"),
    "exits with a number": ("import sys; sys.exit(7)", 7, ""),
    "exits with nothing": ("import sys; sys.exit()", 0, ""),
    "exits with a text": ("import sys; sys.exit('no such file')", 1, "no such file\n"),
    "dies of a signal": ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -9, ""),
    "prints both ways": ("import sys; print(1, flush=True); print(2, file=sys.stderr)", 0, "1\n2\n"),
    "reads its input": ("import sys; print(repr(sys.stdin.read()))", 0, "''\n"),
    "looks where it is": ("import os; print(os.path.basename(os.getcwd()), os.environ['WHO'])", 0, "here me\n"),
}


def test_a_program_ends_as_python_would_end_it(fork, tmp_path):
    server = fork(WHO="nobody")
    (tmp_path / "here").mkdir()
    for name, (code, status, output) in ENDS.items():
        run = server("-c", code, cwd=tmp_path / "here", env={"WHO": "me"})
        assert (run.status, run.output) == (status, output), name
        real = subprocess.run(
            [sys.executable, "-c", code],
            cwd=tmp_path / "here",
            env=os.environ | {"WHO": "me"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert (real.returncode, real.stdout) == (status, output), name


def test_an_error_is_told(fork, tmp_path):
    run = fork()("-c", "raise KeyError('the key')", cwd=tmp_path, env={})
    assert run.status == 1
    assert run.output.endswith("KeyError: 'the key'\n")


def test_a_module_and_a_script_with_their_arguments(fork, tmp_path):
    (tmp_path / "shown.py").write_text("import sys\nprint(__name__, sys.argv[1:])\n")
    server = fork()
    assert server("-m", "shown", "a", "b", cwd=tmp_path, env={}).output == "__main__ ['a', 'b']\n"
    assert server("-c", "import sys; print(sys.argv)", "a", cwd=tmp_path, env={}).output == "['-c', 'a']\n"
    assert server("pytest", "--version", cwd=tmp_path, env={}).output == f"pytest {pytest.__version__}\n"
    wrong = server("pytest", "--no-such-option", cwd=tmp_path, env={})
    assert wrong.status == pytest.ExitCode.USAGE_ERROR


def test_modules_are_imported_once(fork, tmp_path):
    """What they print is nobody's output; and no command finds the kit's own modules."""
    (tmp_path / "modules" / "slow.py").write_text("import os\npid = os.getpid()\nprint('imported')\n")
    server = fork("slow")
    code = "import importlib.util, os, slow; print(slow.pid == os.getpid(), importlib.util.find_spec('wordings'))"
    runs = [server("-c", code, cwd=tmp_path, env={}) for _ in range(2)]
    assert [run.output for run in runs] == ["False None\n"] * 2
    assert (server.folder / "imports.log").read_text() == "imported\n"


def test_a_module_that_cannot_be_imported(fork, tmp_path):
    server = fork("no_such_module")
    for _ in range(2):
        with pytest.raises(RuntimeError, match="No module named 'no_such_module'"):
            server("-c", "", cwd=tmp_path, env={})


def test_commands_run_side_by_side(fork, tmp_path):
    """Each of three waits for the two others; each thread gets its own output."""
    code = """
import pathlib, sys, time
pathlib.Path(sys.argv[1]).touch()
while len(list(pathlib.Path().glob("ready-*"))) < 3: time.sleep(0.01)
print(sys.argv[1])
"""
    server = fork()
    names = [f"ready-{number}" for number in range(3)]
    with ThreadPoolExecutor(3) as pool:
        runs = list(pool.map(lambda name: server("-c", code, name, cwd=tmp_path, env={}), names))
    assert [(run.status, run.output) for run in runs] == [(0, f"{name}\n") for name in names]


def test_a_command_is_stopped(fork, tmp_path):
    server = fork()
    running = server.start("-c", "import signal; signal.pause()", cwd=tmp_path, env={})
    ended = server.start("-c", "print('done')", cwd=tmp_path, env={})
    assert server.stop(running).status == -signal.SIGTERM
    assert server.wait(ended).status == 0
    assert server.stop(ended).output == "done\n"

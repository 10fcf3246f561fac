"""`cliff run`: a command is what it would be without us, but for its base URLs."""

import asyncio
import json
import os
import re
import select
import signal
import subprocess
import sys
import threading
import time

import pytest
import typer
from typer.testing import CliRunner

from cliff_proxy import running
from cliff_proxy.clients import Upstreams
from cliff_proxy.commands import run
from cliff_proxy.inside import Inside
from cliff_proxy.server import Proxy
from cliff_proxy.settings import Settings
from kit import Step

ASK = """
import json, os, sys, urllib.request
base, path, body = os.environ[sys.argv[1]], sys.argv[2], json.loads(sys.argv[3])
request = urllib.request.Request(base + path, json.dumps(body).encode(), {"content-type": "application/json"})
print(urllib.request.urlopen(request).read().decode())
"""
"""A client of either API, as a program."""

CHAT = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}]})

COUNTING = """
import os, signal, sys, time
got = []
for name in sys.argv[1:]:
    signal.signal(getattr(signal, name), lambda number, _: got.append(signal.Signals(number).name))
print("ready", os.getpid(), flush=True)
end = time.monotonic() + 30
while time.monotonic() < end and not got:
    time.sleep(0.02)
time.sleep(0.3)
print("got", *got, flush=True)
"""
"""Says which signals it got: each as often as it came."""


def python(text, *arguments):
    return ("--", sys.executable, "-c", text, *arguments)


# --- What comes back ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "status"),
    [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 128 + 15), ("kill -KILL $$", 128 + 9)],
)
def test_the_status_is_the_commands_own(cliff, script, status):
    assert cliff("run", "-q", "--", "sh", "-c", script).returncode == status


def test_a_command_that_is_not_there(cliff, home):
    done = cliff("run", "--", "no-such-command", "x")
    assert (done.returncode, done.stderr) == (127, "error: no-such-command: command not found\n")
    (home.folder / "plain").write_text("text")
    done = cliff("run", "--", "./plain")
    assert (done.returncode, done.stderr) == (126, "error: ./plain: cannot be run: Permission denied\n")


def test_files_and_arguments_are_left_alone(cliff, home):
    (home.folder / "in").write_text("from stdin")
    extra = os.open(home.folder / "in", os.O_RDONLY)
    with (home.folder / "in").open() as file:
        script = f'cat; cat /dev/fd/{extra}; echo "$@" >&2'
        done = cliff("run", "sh", "-c", script, "sh", "-q", "--", stdin=file, pass_fds=[extra])
    os.close(extra)
    assert done.stdout == "from stdin" * 2
    assert done.stderr == "-q --\ncliff: no request came through the proxy\n"


def test_any_command_is_pointed_at_the_proxy(cliff, model_server):
    with_limits = model_server([Step("hello"), Step("there")])
    for name, path, upstream in (
        ("OPENAI_BASE_URL", "/chat/completions", with_limits.openai_url),
        ("ANTHROPIC_BASE_URL", "/v1/messages", with_limits.anthropic_url),
    ):
        body = CHAT if "chat" in path else CHAT[:-1] + ', "max_tokens": 9}'
        done = cliff("run", *python(ASK, name, path, body), env={name: upstream})
        assert done.returncode == 0, done.stderr
        assert '"hello"' in done.stdout or '"there"' in done.stdout
        assert done.stderr == "cliff: 1 request, 0 cliffs\n"
    assert [request.path for request in with_limits.requests] == ["/v1/chat/completions", "/v1/messages"]


def test_an_upstream_that_a_person_set_is_over_the_environment(cliff, model_server):
    meant, other = model_server([Step("hello")]), model_server()
    command = python(ASK, "OPENAI_BASE_URL", "/chat/completions", CHAT)
    flags = ("--openai-upstream", meant.url)
    assert cliff("run", "-q", *flags, *command, env={"OPENAI_BASE_URL": other.openai_url}).returncode == 0
    assert len(meant.requests) == 1
    assert not other.requests


def test_the_log_is_a_file(cliff, home):
    assert cliff("run", "-q", "--", "true").stderr == ""
    log = home.state / "run.log"
    assert "listening on http://127.0.0.1:" in log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600
    assert log.parent.stat().st_mode & 0o777 == 0o700


def test_a_log_that_cannot_be_written(cliff, home):
    (home.state.parent / "cliff").write_text("a file, where the folder should be")
    done = cliff("run", "-q", "--store", "none", "--", "echo", "ran")
    assert (done.returncode, done.stdout) == (0, "ran\n")
    assert "warning: there is no log" in done.stderr


# --- When the proxy is not there -------------------------------------------------------------------------


def test_a_proxy_that_cannot_start(home, monkeypatch, tmp_path):
    async def fail(self):
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(Proxy, "start", fail)
    done = CliRunner().invoke(run.app, ["--", "touch", str(tmp_path / "ran")])
    assert done.exit_code == 2
    assert "the proxy cannot start, and touch was not run: [Errno 24] Too many open files" in done.output
    assert not (tmp_path / "ran").exists()


def test_the_end_of_a_proxy_is_noticed(monkeypatch):
    said = []
    ended = threading.Event()

    async def start(self):
        asyncio.get_running_loop().call_later(0.1, asyncio.get_running_loop().stop)

    async def stop(self, grace=0):
        pass

    monkeypatch.setattr(Proxy, "start", start)
    monkeypatch.setattr(Proxy, "stop", stop)
    proxy = Inside(Settings(), lambda reason: (said.append(reason), ended.set()))
    assert proxy.wait(10)
    assert ended.wait(10)
    assert "Event loop stopped" in said[0]


class EndedInside:
    """A proxy that was there, and then was not."""

    url, error = "http://127.0.0.1:1", None

    def __init__(self, settings, ended):
        ended("a reason")

    def wait(self, seconds):
        return True

    def stop(self):
        pass


def test_the_end_of_a_proxy_is_said_then_and_at_the_end(home, monkeypatch):
    monkeypatch.setattr(run, "Inside", EndedInside)
    done = CliRunner().invoke(run.app, ["--", "true"])
    assert done.exit_code == 0
    line = "error: the proxy ended while the command ran, whose requests fail since: a reason\n"
    assert done.output == line * 2


def test_settings_that_are_wrong(cliff, home):
    home.config.write_text("prot = 1\n")
    done = cliff("run", "--", "echo", "ran")
    assert (done.returncode, done.stdout) == (2, "")
    assert "unknown setting 'prot'; did you mean port?" in done.stderr
    assert cliff("run").returncode == 2


def test_a_client_that_cannot_be_routed(cliff):
    done = cliff("run", "--", "claude", env={"CLAUDE_CODE_USE_VERTEX": "1"})
    assert done.returncode == 2
    assert "CLAUDE_CODE_USE_VERTEX" in done.stderr


def test_a_file_made_for_the_client_is_removed(cliff, home, tmp_path):
    program, folder = home.folder / "claude", tmp_path / "temporary"
    folder.mkdir()
    program.write_text('#!/bin/sh\necho "$2"; cat "$2"\n')
    program.chmod(0o755)
    (home.folder / "mine.json").write_text('{"model": "opus"}')
    done = cliff("run", "-q", "--", str(program), "--settings", "mine.json", env={"TMPDIR": str(folder)})
    name, text = done.stdout.split("\n", 1)
    assert name.startswith(str(folder))
    assert json.loads(text)["model"] == "opus"
    assert list(folder.iterdir()) == []


def test_a_proxy_before_the_proxy(cliff):
    done = cliff("run", "-q", "--", sys.executable, "-m", "cliff_core", "run", "--", "true")
    assert done.returncode == 2
    assert "already set to a running cliff proxy (http://127.0.0.1:" in done.stderr


def test_an_upstream_that_is_a_proxy(cliff, home):
    unset = "PROXY=$ANTHROPIC_BASE_URL; unset ANTHROPIC_BASE_URL OPENAI_BASE_URL"
    again = f"{sys.executable} -m cliff_core run -q --store none"
    for flags, env in (
        ('--openai-upstream "$PROXY/v1"', ""),
        ("", 'CLIFF_ANTHROPIC_UPSTREAM="$PROXY/path" '),
        ("--config proxy.toml", "echo \"chatgpt_upstream = '$PROXY'\" >proxy.toml; "),
    ):
        done = cliff("run", "-q", "--", "sh", "-c", f"{unset}; {env}{again} {flags} -- echo ran")
        assert (done.returncode, done.stdout) == (2, "")
        assert "_upstream leads to a running cliff proxy (127.0.0.1:" in done.stderr
        assert "would compact a second time" in done.stderr


def test_the_port_of_the_settings_is_not_that_of_a_run():
    """`cliff run` takes a free one."""
    settings = Settings(port=8641, openai_upstream="http://127.0.0.1:8641")
    assert run._beside(settings, Upstreams()).openai_upstream == "http://127.0.0.1:8641"


def test_a_base_url_of_the_client_that_is_none(cliff):
    done = cliff("run", "--", "echo", "ran", env={"OPENAI_BASE_URL": "foo"})
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "error: OPENAI_BASE_URL must be a base URL such as https://api.example.com (it does not begin with http:// or "
        "https://), not 'foo'\n"
    )


def test_what_cannot_be_written_is_said_before_the_command_runs(cliff, home):
    (home.folder / "store").write_text("this is no database, and not short of a page" * 100)
    done = cliff("run", "-q", "--record", "/proc/nope", "--store", "store", "--", "sh", "-c", "echo ran >&2")
    assert done.returncode == 0
    first, second, ran = done.stderr.splitlines()
    assert first.startswith(f"warning: the store {home.folder / 'store'} is not used: file is not a database.")
    assert second == "warning: nothing is recorded in /proc/nope: No such file or directory"
    assert ran == "ran"


# --- Signals ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1"])
def test_a_signal_that_we_get_is_passed_on_once(home, name):
    process = home.start("run", "-q", *python(COUNTING, name), stderr=None)
    assert process.stdout.readline().startswith("ready")
    process.send_signal(getattr(signal, name))
    out, _ = process.communicate(timeout=40)
    assert out == f"got {name}\n"
    assert process.returncode == 0


def test_a_signal_that_ends_the_command(home):
    process = home.start("run", "-q", "--", "sh", "-c", "echo ready; exec sleep 30", stderr=None)
    assert process.stdout.readline() == "ready\n"
    process.terminate()
    assert process.wait(40) == 128 + signal.SIGTERM


def test_ignored_signals_stay_ignored(home):
    process = home.start(
        "run", "-q", "--", "sh", "-c", "kill -HUP $$; echo alive", stderr=None,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )  # fmt: skip
    assert process.communicate(timeout=40)[0] == "alive\n"


SHELL = """
import fcntl, os, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
"""


class Terminal:
    """A shell on a terminal of its own."""

    def __init__(self, home):
        self.file, shells = os.openpty()
        self.shell = subprocess.Popen(
            [sys.executable, "-c", SHELL],
            env=home.env | {"PS1": "shell> ", "TERM": "dumb"},
            stdin=shells,
            stdout=shells,
            stderr=shells,
        )
        os.close(shells)
        self.text = ""
        self.wait("shell> ")

    def type(self, text):
        os.write(self.file, text.encode())

    def wait(self, pattern, seconds=40):
        """Until the output has it, after what was waited for before."""
        end = time.monotonic() + seconds
        while not (found := re.search(pattern, self.text)):
            assert time.monotonic() < end, f"no {pattern!r} in {self.text!r}"
            if select.select([self.file], [], [], 0.1)[0]:
                self.text += os.read(self.file, 4096).decode()
        self.text = self.text[found.end() :]
        return found

    def close(self):
        self.shell.kill()
        os.close(self.file)
        self.shell.wait()


@pytest.fixture
def terminal(home):
    terminal = Terminal(home)
    yield terminal
    terminal.close()


def typed(home, script, *arguments):
    (home.folder / "program.py").write_text(script)
    return f"{sys.executable} -m cliff_core run -q -- {sys.executable} program.py {' '.join(arguments)}\n"


def test_control_c_reaches_the_command_once(home, terminal):
    terminal.type(typed(home, COUNTING, "SIGINT"))
    terminal.wait(r"ready \d+")
    terminal.type("\x03")
    assert terminal.wait(r"got ([A-Z ]+)\r\n")[1] == "SIGINT"
    terminal.wait("shell> ")
    terminal.type("echo status=$?\n")
    terminal.wait("status=0\r\n")


def test_control_z_and_the_shells_job_control(home, terminal):
    terminal.type(typed(home, COUNTING, "SIGUSR1"))
    pid = int(terminal.wait(r"ready (\d+)")[1])
    terminal.type("\x1a")
    terminal.wait(r"Stopped.*\r\n")
    terminal.wait("shell> ")
    assert state(pid) == "T"
    terminal.type("fg\n")
    terminal.wait("program.py")
    wait_for(lambda: state(pid) in "SR")
    os.kill(pid, signal.SIGUSR1)
    terminal.wait("got SIGUSR1\r\n")
    terminal.wait("shell> ")


def test_a_command_that_stops_itself(home, terminal):
    """As full-screen clients do, whose terminal sends no signal for a key."""
    script = "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)\nprint('went', 'on', os.isatty(0))\n"
    terminal.type(typed(home, script))
    terminal.wait(r"Stopped.*\r\n")
    terminal.wait("shell> ")
    terminal.type("fg\n")
    terminal.wait("went on True\r\n")
    terminal.wait("shell> ")


def state(pid):
    """`T` is stopped."""
    return subprocess.run(["ps", "-o", "state=", "-p", str(pid)], capture_output=True, text=True).stdout.strip()[:1]


def wait_for(true, seconds=20):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


# --- Where it is -----------------------------------------------------------------------------------------


def test_a_running_proxy_says_where_it_is_while_it_runs(home, cliff):
    script = 'ls -l "$XDG_RUNTIME_DIR/cliff"; stat -c %a "$XDG_RUNTIME_DIR/cliff"; cat "$XDG_RUNTIME_DIR"/cliff/*'
    done = cliff("run", "-q", "--", "sh", "-c", script, "prompt-with-secrets")
    _, file, mode, text = done.stdout.splitlines()
    assert file.startswith("-rw-------")
    assert mode == "700"
    assert json.loads(text)["command"] == "sh"
    assert "secrets" not in text
    assert list(home.runtime.iterdir()) == []
    assert running.found() == []


def test_help_says_what_it_does():
    done = CliRunner().invoke(run.app, ["--help"])
    assert done.exit_code == 0
    assert "exit status is the command's own" in " ".join(done.output.split())
    assert isinstance(run.app, typer.Typer)

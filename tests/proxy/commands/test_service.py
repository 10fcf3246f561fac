"""`cliff service`: with a systemctl of our own that does what systemd's does with the unit, and starts it for real."""

import os
import plistlib
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cliff_proxy import running, service
from cliff_proxy.commands import service as command
from cliff_proxy.service import Launchd, Systemd

SYSTEMCTL = """#!{python}
import json, os, shlex, signal, subprocess, sys
folder = {folder!r}
unit = os.path.join({config!r}, "systemd/user/cliff-proxy.service")
pid, enabled = os.path.join(folder, "pid"), os.path.join(folder, "enabled")
words = [word for word in sys.argv[1:] if word != "--user"]
open(os.path.join(folder, "calls"), "a").write(" ".join(words) + "\\n")
if os.path.exists(os.path.join(folder, "fails")) and words[0] in open(os.path.join(folder, "fails")).read().split():
    sys.exit("Failed to do it")
def stop():
    if os.path.exists(pid):
        os.kill(int(open(pid).read()), signal.SIGTERM)
        os.unlink(pid)
if words[0] == "enable":
    open(enabled, "w").close()
if words[0] == "restart":
    stop()
    lines = dict(line.split("=", 1) for line in open(unit) if "=" in line and not line.startswith("#"))
    argv = [word.replace("%%", "%").replace("$$", "$") for word in shlex.split(lines["ExecStart"])]
    process = subprocess.Popen(argv, stdin=-3, stdout=-3, stderr=-3, start_new_session=True)
    open(pid, "w").write(str(process.pid))
if words[0] == "disable":
    stop()
    if os.path.exists(enabled):
        os.unlink(enabled)
"""

runner = CliRunner()


@pytest.fixture
def systemd(home, monkeypatch):
    """The folder of what our systemctl noted."""
    folder = home.folder / "systemd"
    folder.mkdir()
    program = folder / "systemctl"
    config = home.folder / "config"
    program.write_text(SYSTEMCTL.format(python=sys.executable, folder=str(folder), config=str(config)))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setattr(sys, "platform", "linux")
    yield folder
    if (folder / "pid").exists():
        os.kill(int((folder / "pid").read_text()), signal.SIGKILL)


@pytest.fixture
def url(home):
    """Of the settings, where nothing runs yet."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    home.config.write_text(f"port = {port}\n")
    return f"http://127.0.0.1:{port}"


def unit(home):
    return home.folder / "config" / "systemd" / "user" / "cliff-proxy.service"


def left(home):
    """What an installation could leave, but for the settings and what the service's own run stored."""
    return [str(path) for path in (unit(home), home.state / "proxy.log") if path.exists()]


def wait_until(true):
    end = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_installed_and_removed(home, systemd, url, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://user:word@proxy.example:8080")
    done = runner.invoke(command.app, ["install"])
    assert done.exit_code == 0, done.output
    assert f"ANTHROPIC_BASE_URL={url}" in done.output
    assert running.is_ours(url)
    assert (systemd / "enabled").exists()
    assert 'Environment="HTTPS_PROXY=http://user:word@proxy.example:8080"' in unit(home).read_text()
    assert unit(home).stat().st_mode & 0o777 == 0o600
    log = home.state / "proxy.log"
    assert f"log: {log}" in done.output
    assert f"listening on {url}" in log.read_text()
    assert (systemd / "calls").read_text().split("\n")[:4] == [
        *("show-environment", "daemon-reload", "enable cliff-proxy.service", "restart cliff-proxy.service")
    ]

    again = runner.invoke(command.app, ["install"])  # such as after an upgrade
    assert again.exit_code == 0, again.output

    done = runner.invoke(command.app, ["remove"])
    assert done.exit_code == 0
    assert f"removed: {unit(home)}" in done.output
    assert not unit(home).exists()
    assert not (systemd / "enabled").exists()
    wait_until(lambda: not running.is_ours(url))
    assert log.exists()
    done = runner.invoke(command.app, ["remove"])
    assert (done.exit_code, done.output) == (0, "service: there was none\n")


@pytest.mark.parametrize("fails", ["daemon-reload", "enable", "restart"])
def test_a_failed_installation_leaves_nothing(home, systemd, url, fails):
    (systemd / "fails").write_text(fails)
    done = runner.invoke(command.app, ["install"])
    assert done.exit_code == 1
    assert f"not installed: `systemctl --user {fails}" in done.output
    assert "Failed to do it" in done.output
    assert left(home) == []
    assert not (systemd / "enabled").exists()


def test_a_service_that_does_not_answer_is_taken_away(home, systemd, url, monkeypatch):
    monkeypatch.setattr(service, "START_SECONDS", 0.0)
    monkeypatch.setattr(running, "is_ours", lambda url: False)
    done = runner.invoke(command.app, ["install"])
    assert done.exit_code == 1
    assert f"does not answer at {url} (journalctl --user -u cliff-proxy.service)" in done.output
    assert left(home) == []
    assert not (systemd / "pid").exists()


def test_a_port_of_another_program_is_said_at_once(home, systemd, url):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", int(url.rpartition(":")[2])))
        taken.listen()
        done = runner.invoke(command.app, ["install"])
    assert done.exit_code == 1
    port = url.rpartition(":")[2]
    assert f"not installed: port {port} of 127.0.0.1 is taken by another program: `port` in the file" in done.output
    assert left(home) == []
    assert "restart" not in (systemd / "calls").read_text()


def test_an_upstream_that_is_the_service_itself(home, systemd, url):
    home.config.write_text(home.config.read_text() + f"openai_upstream = '{url}'\n")
    done = runner.invoke(command.app, ["install"])
    assert done.exit_code == 1
    assert "not installed: openai_upstream is the address of this proxy itself" in done.output
    assert left(home) == []


def test_an_earlier_services_log_is_not_quoted(home, systemd, url, monkeypatch):
    monkeypatch.setattr(service, "START_SECONDS", 0.0)
    monkeypatch.setattr(running, "is_ours", lambda url: False)
    (systemd / "systemctl").write_text(f"#!/bin/sh\n[ $2 = restart ] && echo new words >>{home.state}/proxy.log\ntrue")
    home.state.mkdir()
    (home.state / "proxy.log").write_text("old words\n" * 5)
    done = runner.invoke(command.app, ["install"])
    assert done.exit_code == 1
    assert "; its log ends: new words" in done.output
    assert "old words" not in done.output


def test_a_failed_replacement_leaves_what_was_there(home, systemd, url):
    assert runner.invoke(command.app, ["install"]).exit_code == 0
    before = unit(home).read_bytes()
    (systemd / "fails").write_text("enable")
    assert runner.invoke(command.app, ["install", "--config", str(home.config)]).exit_code == 1
    assert unit(home).read_bytes() == before


def test_where_nothing_manages_services(home, monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    done = runner.invoke(command.app, ["install"])
    assert done.exit_code == 1
    assert "neither systemd nor launchd" in done.output


def test_settings_are_checked_before(home, systemd):
    home.config.write_text("prot = 1\n")
    assert runner.invoke(command.app, ["install"]).exit_code == 2
    home.config.write_text("port = 0\n")
    assert runner.invoke(command.app, ["install"]).exit_code == 2
    home.config.write_text("host = '0.0.0.0'\n")
    done = runner.invoke(command.app, ["install"])
    assert done.exit_code == 1
    assert "set a token" in done.output
    assert not unit(home).exists()
    assert not (systemd / "calls").exists() or "enable" not in (systemd / "calls").read_text()


def test_variables_of_the_shell_are_not_the_services(home, systemd, url, monkeypatch):
    monkeypatch.setenv("CLIFF_PORT", "1")
    done = runner.invoke(command.app, ["install"])
    assert done.exit_code == 0, done.output
    assert "put CLIFF_PORT into the file" in done.output
    assert running.is_ours(url)
    assert runner.invoke(command.app, ["remove"]).exit_code == 0


def test_a_unit_that_systemd_takes(home, tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    argv = [sys.executable, "-m", "cliff_core", "serve", "--config", '/tmp/a "b" %h $HOME \\ c.toml']
    path = tmp_path / "cliff-proxy.service"
    path.write_bytes(Systemd().text(argv, {"XDG_STATE_HOME": "/tmp/with space $1"}, Path("/tmp/log")))
    done = subprocess.run(["systemd-analyze", "--user", "verify", str(path)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert 'Environment="XDG_STATE_HOME=/tmp/with space $1"' in path.read_text()
    assert r'"/tmp/a \"b\" %%h $$HOME \\ c.toml"' in path.read_text()


def test_an_agent_of_launchd(home, monkeypatch):
    calls = []
    monkeypatch.setattr(service, "_call", lambda command, must=True: calls.append(command[:2]))
    under = Launchd()
    assert under.file == home.folder / "home" / "Library" / "LaunchAgents" / "org.cliffcompaction.proxy.plist"
    value = plistlib.loads(under.text(["python", "-m", "cliff_core", "serve"], {"A": "b"}, Path("/tmp/log")))
    assert value["ProgramArguments"] == ["python", "-m", "cliff_core", "serve"]
    assert value["RunAtLoad"]
    assert value["StandardErrorPath"] == "/tmp/log"
    under.start()
    under.stop()
    assert calls == [["launchctl", "bootout"], ["launchctl", "bootstrap"], ["launchctl", "bootout"]]

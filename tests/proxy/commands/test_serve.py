"""`cliff serve`: a proxy until it is interrupted."""

import contextlib
import json
import signal
import socket
import subprocess

import pytest

from cliff_proxy import running
from cliff_proxy.settings import Settings


@pytest.fixture
def port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def lines_until(file, text):
    found = []
    while not found or text not in found[-1]:
        found.append(file.readline())
        assert found[-1], found
    return found


@pytest.fixture
def served(home, port):
    """`cliff serve` on a port, by its settings file."""
    home.config.write_text(f"port = {port}\n")
    process = home.start("serve")
    told = "".join(lines_until(process.stderr, "codex -c"))
    yield process, told
    if process.poll() is None:
        process.kill()
    process.communicate()


def test_it_says_how_clients_are_pointed_at_it_and_ends_when_told(home, port, served, cliff):
    process, told = served
    url = f"http://127.0.0.1:{port}"
    assert f"    ANTHROPIC_BASE_URL={url}\n    OPENAI_BASE_URL={url}/v1\n" in told
    assert running.is_ours(url)
    assert [(proxy.url, proxy.pid, proxy.kind) for proxy in running.found()] == [(url, process.pid, "serve")]

    again = cliff("serve")
    assert again.returncode == 2
    assert f"port {port} of 127.0.0.1 is taken by another cliff proxy (cliff status)" in again.stderr

    found = cliff("status", "--json")
    assert [proxy["server"]["pid"] for proxy in json.loads(found.stdout)["proxies"]] == [process.pid]

    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0
    assert running.found() == []


def test_a_token_is_asked_for_and_sent(home, port, cliff):
    env = {"CLIFF_TOKEN": "secret-1", "CLIFF_PORT": str(port)}
    process = home.start("serve", "--host", "0.0.0.0", env=env)
    try:
        told = lines_until(process.stderr, "docs/proxy.md")
        assert told[-1].startswith("Each request needs the token in the header x-cliff-token, from this machine, too")
        found = cliff("status", env=env)
        assert found.returncode == 0, found.stderr
        found = cliff("status", env={"CLIFF_PORT": str(port)})
        assert found.returncode == 1
        assert "wants its token: set CLIFF_TOKEN" in found.stderr
    finally:
        process.terminate()
        said = process.communicate(timeout=20)[1]
    assert "secret-1" not in said


def test_other_machines_need_a_token(cliff):
    done = cliff("serve", "--host", "0.0.0.0")
    assert done.returncode == 2
    assert "set a token (CLIFF_TOKEN)" in done.stderr


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "0.0.0.0"])
def test_its_own_address_as_an_upstream(cliff, port, host):
    done = cliff("serve", "--port", str(port), "--openai-upstream", f"http://{host}:{port}/v1")
    assert done.returncode == 2
    assert f"openai_upstream is the address of this proxy itself ({host}:{port})" in done.stderr


@pytest.mark.parametrize(
    ("host", "upstream", "own"),
    [
        ("127.0.0.1", "localhost", True),
        ("127.0.0.1", "0.0.0.0", True),  # leads to loopback
        ("0.0.0.0", "127.0.0.1", True),
        ("0.0.0.0", "192.0.2.1", False),  # RFC 5737: of no machine
        ("192.0.2.1", "192.0.2.1", True),
        ("192.0.2.1", "127.0.0.1", False),
        ("0.0.0.0", "gateway.example", False),
    ],
)
def test_which_addresses_are_its_own(port, host, upstream, own):
    settings = Settings(host=host, port=port, openai_upstream=f"http://{upstream}:{port}")
    with pytest.raises(ValueError, match="itself") if own else contextlib.nullcontext():
        running.check_upstreams(settings)
    running.check_upstreams(settings.replace(port=0))


def test_another_proxy_as_an_upstream(port, served, cliff):
    url = f"http://user:word@127.0.0.1:{port}"
    for flags, env in (("--anthropic-upstream", url), {}), (("--port", "0"), {"CLIFF_OPENAI_UPSTREAM": url}):
        done = cliff("serve", "--port", "0", *flags, env=env)
        assert done.returncode == 2
        assert f"_upstream leads to a running cliff proxy (127.0.0.1:{port})" in done.stderr
        assert "word" not in done.stderr


def test_a_port_of_another_program(home, cliff):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = cliff("serve", "--port", str(taken.getsockname()[1]))
    assert done.returncode == 2
    assert "is taken by another program; choose one with --port" in done.stderr


def test_a_log_file(home, port, cliff):
    process = home.start("serve", "--port", str(port), "--log", "logs/proxy.log", stderr=subprocess.PIPE)
    lines_until(process.stderr, "codex -c")
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=20)[1]
    assert process.returncode == 0
    assert said == ""
    log = home.folder / "logs" / "proxy.log"
    assert f"listening on http://127.0.0.1:{port}" in log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600
    done = cliff("serve", "--port", str(port), "--log", str(log / "no"))
    assert done.returncode == 2
    assert "cannot be written: " in done.stderr

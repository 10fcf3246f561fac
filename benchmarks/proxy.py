"""`make bench`, proxy part: ours beside the authors' proxy and a direct connection, in one run.

    python benchmarks/proxy.py [--json] [--quick]

Every process is on loopback: an upstream that answers at once, `cliffcompaction` 0.1.0, ours, and the clients. Sessions
are in Anthropic's format and grow by a turn with each request, made of the source texts of Python's own library.
Measured in turns of a session, which are short, so that a busy moment of the machine meets all three, and whose order
is turned round. (Not of a request: who comes after the slowest of the three would find the caches full of it, and the
other core asleep, and its times would be of two kinds, half of them each, whose median is neither.)

* added time: the first byte of the reply, at the median, less that of a direct connection, with bodies of 64 KB, 512 KB
  and 4 MB. Both proxies have the same threshold; the first request of a session is not counted;
* the same with 20 ms of silence before each request, in which the machine goes to sleep, as it does while a model
  thinks; no bar;
* requests a second: 64 clients with 64 KB each;
* a stream beside it: how late the events of one client's stream come (one every 10 ms) while another client sends
  4 MB bodies;
* memory: resident after the same sessions; ours less the vocabulary that it counts with;
* 200 streams for 30 seconds through ours: all are complete (theirs stops at 100).

Exits 1 when a bar of the project is missed: a tenth of their added time at each size, 20 times their requests a second,
a tenth of their lateness at the median, no more memory, all streams complete.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import platform
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

from core import history

THRESHOLD_TOKENS = 64_000
SIZES = {"64 KB": (50, 700), "512 KB": (200, 2_000), "4 MB": (500, 7_700)}
"""Name -> turns, and characters of each result."""
ROUNDS = {"64 KB": 12, "512 KB": 6, "4 MB": 4}
"""Sessions of each size for each of the three; even, so that each order comes as often."""
STEPS = 24
SILENCE = 0.02
CLIENTS = 64
STREAMS, STREAM_SECONDS = 200, 30.0
CADENCE = 0.01

BARS = {"added": 1 / 10, "throughput": 20.0, "lateness": 1 / 10, "memory": 1.0}

TELL_TOKENS = "import os; from cliff_core import tokens\n"


# --- The upstream: a process of its own ---------------------------------------------------------------------------

EVENTS = [
    {"type": "message_start", "message": {"id": "msg_1", "role": "assistant", "usage": {"input_tokens": 0}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "an answer"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}},
    {"type": "message_stop"},
]
ANSWER = b"".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n".encode() for e in EVENTS)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


REPLY = HEAD + chunk(ANSWER) + b"0\r\n\r\n"


class Upstream(asyncio.Protocol):
    """Answers at once; a request with `stream=SECONDS` in its query gets an event every 10 ms that tells the time."""

    def connection_made(self, transport: Any) -> None:
        self.transport, self.head, self.missing = transport, b"", 0
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        if not self.missing:
            self.head += data
            end = self.head.find(b"\r\n\r\n")
            if end < 0:
                return
            head, data = self.head[: end + 2], self.head[end + 4 :]
            at = head.lower().index(b"content-length:") + 15
            self.first, self.head = head.partition(b"\r\n")[0], b""
            self.missing = int(head[at : head.index(b"\r\n", at)])
        self.missing -= len(data)
        if self.missing == 0:
            if b"stream=" in self.first:
                seconds = float(self.first.partition(b"stream=")[2].partition(b" ")[0])
                self.task = asyncio.ensure_future(self._stream(seconds))
            else:
                self.transport.write(REPLY)

    async def _stream(self, seconds: float) -> None:
        self.transport.write(HEAD + chunk(ANSWER.partition(b"\n\n")[0] + b"\n\n"))
        end = time.monotonic() + seconds
        while (now := time.monotonic()) < end:
            self.transport.write(chunk(b'data: {"type":"ping","at":%.6f}\n\n' % now))
            await asyncio.sleep(CADENCE)
        self.transport.write(chunk(b'data: {"type":"message_stop"}\n\n') + b"0\r\n\r\n")


async def run_upstream() -> None:
    server = await asyncio.get_running_loop().create_server(Upstream, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


# --- The proxies -----------------------------------------------------------------------------------------------------

OURS = f"""
import sys
from cliff_core import CliffConfig, tokens
from cliff_proxy.process import run
from cliff_proxy.server import serve
from cliff_proxy.settings import Settings
url, port = sys.argv[1], int(sys.argv[2])
config = CliffConfig(threshold_tokens={THRESHOLD_TOKENS})
settings = Settings(port=port, anthropic_upstream=url, config=config, threshold_given=True)
run(serve(settings))
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


@contextlib.contextmanager
def process(*command: str) -> Iterator[subprocess.Popen[str]]:
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        yield running
    finally:
        running.kill()
        running.wait()


@contextlib.contextmanager
def upstream() -> Iterator[int]:
    with process(sys.executable, __file__, "--upstream") as running:
        assert running.stdout is not None
        yield int(running.stdout.readline())


@contextlib.contextmanager
def proxy(name: str, to: int) -> Iterator[tuple[int, int]]:
    """Its port and process id."""
    port, url = free_port(), f"http://127.0.0.1:{to}"
    if name == "ours":
        command = [sys.executable, "-c", OURS, url, str(port)]
    else:
        options = ["--threshold", str(THRESHOLD_TOKENS), "--anthropic-upstream", url]
        command = [sys.executable, "-m", "cliffcompaction", "serve", "--port", str(port), *options]
    with process(*command) as running:
        for _ in range(600):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.05)
        else:
            raise RuntimeError(f"{name} does not listen: {command}")
        yield port, running.pid


def resident(pid: int) -> float:
    """MiB."""
    return int(subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True).stdout) / 1024


def vocabulary() -> float:
    """MiB that the vocabulary takes, in a process of its own."""
    script = (
        "import os, subprocess\n"
        "from cliff_core import tokens\n"
        "def rss(): return int(subprocess.check_output(['ps', '-o', 'rss=', '-p', str(os.getpid())]))\n"
        "before = rss(); tokens.count('a word'); print((rss() - before) / 1024)"
    )
    return float(subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout)


# --- Clients ---------------------------------------------------------------------------------------------------------


def bodies(size: str, steps: int, salt: str = "") -> list[bytes]:
    """The requests of one session, each with one turn more; the last has the size."""
    turns, characters = SIZES[size]
    messages = history(turns, characters)
    messages[0] = {"role": "user", "content": f"Document Python's library. {salt}"}
    return [
        json.dumps(
            {"model": "claude-sonnet-5-5", "max_tokens": 1000, "stream": True, "messages": messages[:end]}
        ).encode()
        for end in range(len(messages) - 2 * (steps - 1), len(messages) + 1, 2)
    ]


def request(body: bytes, query: str = "") -> bytes:
    head = f"POST /v1/messages{query} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    return head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body


class Client:
    """One connection, blocking."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), 120)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, sent: bytes) -> float:
        """Seconds until the first byte of the reply."""
        start = time.perf_counter()
        self.socket.sendall(sent)
        got = self.socket.recv(2**16)
        first = time.perf_counter() - start
        while not got.endswith(b"0\r\n\r\n"):
            data = self.socket.recv(2**16)
            if not data:
                raise RuntimeError(f"the connection was closed after {got[:200]!r}")
            got += data
        if not got.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"refused: {got[:500]!r}")
        return first


def added(ports: dict[str, int], size: str, steps: int, rounds: int, silence: float = 0.0) -> dict[str, list[float]]:
    """Seconds to the first byte, for each; `silence`: seconds before each request."""
    found: dict[str, list[float]] = {name: [] for name in ports}
    for number in range(rounds):
        sent = [request(body) for body in bodies(size, steps, f"{size} {number} {silence}")]
        for name in list(ports)[:: -1 if number % 2 else 1]:
            client = Client(ports[name])
            for step, one in enumerate(sent):
                time.sleep(silence)
                seconds = client.ask(one)
                if step:
                    found[name].append(seconds)
    return found


def quantiles(found: dict[str, list[float]]) -> dict[str, dict[str, float]]:
    """Milliseconds, for each."""
    return {
        name: {"p50": statistics.median(times) * 1e3, "p95": statistics.quantiles(times, n=20)[-1] * 1e3}
        for name, times in found.items()
    }


async def throughput(port: int, sessions: list[list[bytes]]) -> float:
    """Requests a second with a client for each session, after one request of each."""

    async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, sent: bytes) -> None:
        writer.write(sent)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        await reader.readuntil(b"0\r\n\r\n")

    connections = [await asyncio.open_connection("127.0.0.1", port, limit=2**20) for _ in sessions]
    for (reader, writer), session in zip(connections, sessions, strict=True):
        await ask(reader, writer, session[0])

    async def work(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, session: list[bytes]) -> None:
        for sent in session[1:]:
            await ask(reader, writer, sent)

    start = time.perf_counter()
    await asyncio.gather(*(work(*pair, session) for pair, session in zip(connections, sessions, strict=True)))
    taken = time.perf_counter() - start
    for _, writer in connections:
        writer.close()
    return sum(len(session) - 1 for session in sessions) / taken


def post_for(port: int, seconds: float) -> None:
    """The other client: 4 MB bodies, one after the other. A process of its own."""
    client = Client(port)
    sent = [request(body) for body in bodies("4 MB", STEPS, "beside")]
    client.ask(sent[0])
    print("ready", flush=True)
    sys.stdin.readline()
    end = time.monotonic() + seconds
    for one in sent[1:]:
        if time.monotonic() > end:
            break
        client.ask(one)


def lateness(port: int, seconds: float) -> list[float]:
    """How late each event comes, in seconds, while another client sends 4 MB bodies."""
    command = [sys.executable, __file__, "--post", str(port), "--seconds", str(seconds)]
    late = []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        other.stdout.readline()
        client = socket.create_connection(("127.0.0.1", port))
        client.sendall(request(b'{"model":"m","max_tokens":9,"messages":[]}', f"?stream={seconds}"))
        other.stdin.write("go\n")
        other.stdin.flush()
        rest = b""
        while not rest.endswith(b"0\r\n\r\n") and other.poll() is None:  # as long as both are at work
            data = client.recv(2**16)
            now = time.monotonic()
            if not data:
                break
            *events, rest = (rest + data).split(b"}\n\n")
            late += [now - float(event.partition(b'"at":')[2]) for event in events if b'"at":' in event]
        client.close()
        other.communicate()
    return late


async def streams(port: int, count: int, seconds: float) -> int:
    """How many of so many streams at once are complete."""

    async def one() -> bool:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request(b'{"model":"m","max_tokens":9,"messages":[]}', f"?stream={seconds}"))
        got = await reader.readuntil(b"\r\n\r\n")
        last = b""
        while data := await reader.read(2**16):
            last = (last + data)[-100:]
            if last.endswith(b"0\r\n\r\n"):
                break
        writer.close()
        return got.startswith(b"HTTP/1.1 200") and b"message_stop" in last and last.endswith(b"0\r\n\r\n")

    return sum(await asyncio.gather(*(one() for _ in range(count)), return_exceptions=False))


# --- The run ---------------------------------------------------------------------------------------------------------


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def measure(quick: bool) -> dict[str, Any]:
    steps = 6 if quick else STEPS
    figures: dict[str, Any] = {"added_ms": {}, "added_after_silence_ms": {}, "lateness_ms": {}}
    with upstream() as up:
        with proxy("authors", up) as (theirs, _), proxy("ours", up) as (ours, _):
            ports = {"direct": up, "authors": theirs, "ours": ours}
            for size in SIZES:
                say(f"added time at {size} …")
                rounds = 1 if quick else ROUNDS[size]
                figures["added_ms"][size] = quantiles(added(ports, size, steps, rounds))
                found = added(ports, size, steps, (rounds + 1) // 2, SILENCE)
                figures["added_after_silence_ms"][size] = quantiles(found)
            say(f"requests a second with {CLIENTS} clients …")
            clients = CLIENTS // 8 if quick else CLIENTS
            sessions = [
                [request(b) for b in bodies("64 KB", 5 if quick else 12, f"client {n}")] for n in range(clients)
            ]
            figures["requests_per_second"] = {
                name: asyncio.run(throughput(port, sessions)) for name, port in ports.items()
            }
            for name, port in ports.items():
                say(f"a stream beside 4 MB bodies, {name} …")
                late = lateness(port, 1.5 if quick else 4.0)
                figures["lateness_ms"][name] = {
                    "p50": statistics.median(late) * 1e3,
                    "p95": statistics.quantiles(late, n=20)[-1] * 1e3,
                    "max": max(late) * 1e3,
                    "events": len(late),
                }
        say("memory after the same sessions …")
        memory = {}
        for name in ("authors", "ours"):
            with proxy(name, up) as (port, pid):
                for size in SIZES:
                    for number in range(1 if quick else 2):
                        client = Client(port)
                        for body in bodies(size, steps, f"memory {number}"):
                            client.ask(request(body))
                time.sleep(2)  # until they have cleaned up
                memory[name] = resident(pid)
        memory["vocabulary"] = vocabulary()
        figures["memory_mib"] = memory
        seconds = 2.0 if quick else STREAM_SECONDS
        say(f"{STREAMS} streams for {seconds:g} s …")
        with proxy("ours", up) as (port, _):
            figures["streams"] = {"asked": STREAMS, "complete": asyncio.run(streams(port, STREAMS, seconds))}
    return figures


def judged(figures: dict[str, Any]) -> dict[str, Any]:
    """Ratios, and the bars that they miss."""
    ratios = {f"added, {size}": ratio(found) for size, found in figures["added_ms"].items()}
    silent = {size: ratio(found) for size, found in figures["added_after_silence_ms"].items()}
    speed = figures["requests_per_second"]
    ratios["throughput"] = speed["ours"] / speed["authors"]
    late = figures["lateness_ms"]
    ratios["lateness"] = late["ours"]["p50"] / late["authors"]["p50"]
    memory = figures["memory_mib"]
    ratios["memory"] = (memory["ours"] - memory["vocabulary"]) / memory["authors"]
    missed = [
        name
        for name, ratio in ratios.items()
        if (ratio < BARS[name] if name == "throughput" else ratio > BARS[name.partition(",")[0]])
    ]
    if figures["streams"]["complete"] < figures["streams"]["asked"]:
        missed.append("streams")
    after = {"ratios": ratios, "ratios_after_silence": silent, "bars": BARS, "missed": missed, "machine": machine()}
    return {**figures, **after}


def ratio(found: dict[str, dict[str, float]]) -> float:
    """Our added time at the median for each of theirs."""
    direct = found["direct"]["p50"]
    return max(found["ours"]["p50"] - direct, 0.0) / (found["authors"]["p50"] - direct)


def machine() -> dict[str, Any]:
    return {
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "system": f"{platform.system()} {platform.machine()}",
        "cliffcompaction": version("cliffcompaction"),
        "httptools": version("httptools"),
    }


def table(figures: dict[str, Any]) -> str:
    ratios = figures["ratios"]

    def more(found: dict[str, dict[str, float]]) -> list[str]:
        return [f"{found[name]['p50'] - found['direct']['p50']:.2f}" for name in ("authors", "ours")]

    def line(name: str, direct: str, authors: str, ours: str, ratio: str, bar: str) -> str:
        return f"{name:<34}{direct:>12}{authors:>12}{ours:>12}{ratio:>10}{bar:>12}"

    rows = [line("", "direct", "authors", "ours", "ratio", "bar")]
    for size, found in figures["added_ms"].items():
        p50 = [f"{found[name]['p50']:.2f}" for name in ("direct", "authors", "ours")]
        rows.append(line(f"first byte, {size}, p50 ms", *p50, "", ""))
        rows.append(line("  added", "", *more(found), f"{ratios[f'added, {size}']:.3f}", f"<= {BARS['added']:.2f}"))
        found = figures["added_after_silence_ms"][size]
        rows.append(line("  added after silence", "", *more(found), f"{figures['ratios_after_silence'][size]:.3f}", ""))
    speed = [f"{figures['requests_per_second'][name]:.0f}" for name in ("direct", "authors", "ours")]
    rows.append(
        line("requests/s, 64 KB, 64 clients", *speed, f"{ratios['throughput']:.1f}", f">= {BARS['throughput']:.0f}")
    )
    for quantile in ("p50", "p95", "max"):
        late = [f"{figures['lateness_ms'][name][quantile]:.2f}" for name in ("direct", "authors", "ours")]
        judged_ = (f"{ratios['lateness']:.3f}", f"<= {BARS['lateness']:.2f}") if quantile == "p50" else ("", "")
        rows.append(line(f"stream beside 4 MB, {quantile} ms late", *late, *judged_))
    memory = figures["memory_mib"]
    ours = memory["ours"] - memory["vocabulary"]
    rows.append(
        line(
            "memory, MiB (without vocabulary)",
            "",
            f"{memory['authors']:.0f}",
            f"{ours:.0f}",
            f"{ratios['memory']:.2f}",
            f"<= {BARS['memory']:.2f}",
        )
    )
    complete = "{complete} of {asked}".format(**figures["streams"])
    rows.append(f"vocabulary {memory['vocabulary']:.0f} MiB; streams complete: {complete}")
    rows.append(
        "{system}, {cores} cores, load {load:.1f}, Python {python}, httptools {httptools}, cliffcompaction "
        "{cliffcompaction}".format(**figures["machine"])
    )
    rows.append(f"MISSED: {', '.join(figures['missed'])}" if figures["missed"] else "every bar is met")
    return "\n".join(rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--quick", action="store_true", help="few requests, to try the script")
    parser.add_argument("--upstream", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--post", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, default=5.0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.upstream:
        asyncio.run(run_upstream())
    elif options.post:
        post_for(options.post, options.seconds)
    else:
        figures = judged(measure(options.quick))
        print(json.dumps(figures, indent=2) if options.json else table(figures))
        return 1 if figures["missed"] else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())

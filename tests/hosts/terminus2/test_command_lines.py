"""`tb run` and `harbor run` on a task of ours, in a real tmux: three cliffs, the task solved, and what the host's own
summarizer does with the same task, as a table."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import agents
import checks
import pytest
import script
from host_settings import HERE

from kit import ModelServer
from kit import checks as kit_checks

THRESHOLD = 6_000
PRICES = {"price_input": 1.25, "price_cached": 0.125}
PRICE_OUTPUT = 10.0
"""Dollars per million tokens: of one model (gpt-5), as an example."""


@dataclass(frozen=True)
class Ended:
    """A run of a command line."""

    server: ModelServer
    status: int
    output: str
    folder: Path
    """Where the host put its results."""

    @property
    def trial(self) -> Path:
        """The one trial's folder."""
        (found,) = {path.parent for path in self.folder.glob("*/*/agent*") if path.is_dir()} | {
            path.parent for path in self.folder.glob("*/*/*/agent-logs")
        }
        return found

    def json(self, name: str) -> Any:
        return json.loads((self.trial / name).read_text())


def command(host: str, folder: Path, server: ModelServer, model: str, options: dict[str, Any]) -> list[str]:
    if host == "tb":
        line = ["tb", "run", "--dataset-path", str(HERE / "tasks"), "--task-id", "tally", "-m", model]
        line += ["--agent-import-path", "cliff_terminus2.terminal_bench:CliffTerminus2"]
        line += ["--output-path", str(folder), "--run-id", "run", "--n-concurrent", "1"]
        more = {"api_base": server.openai_url, "max_episodes": 60}
        flag = "-k"
    else:
        line = [
            "harbor",
            "run",
            "-p",
            str(HERE / "tasks/tally"),
            "-a",
            "cliff_terminus2.harbor:CliffTerminus2",
            "-m",
            model,
        ]
        line += [
            "-e",
            "local_environment:LocalEnvironment",
            "--jobs-dir",
            str(folder),
            "--job-name",
            "run",
            "-n",
            "1",
            "-y",
        ]
        more = {"api_base": server.openai_url, "max_turns": 60, "record_terminal_session": "false"}
        flag = "--ak"
    for name, value in (more | options).items():
        line += [flag, f"{name}={value}"]
    return line


RUNS: dict[str, tuple[str, str, dict[str, Any], int | None]] = {
    f"{host}-{parser}-{summarizer}": (
        host,
        # The host puts cache markers into messages for a model with this name, at other places in each request.
        "openai/scripted-14k" if summarizer == "native" else f"openai/scripted{'-claude' * (parser == 'xml')}",
        {"parser_name": parser, "summarizer": summarizer}
        | ({"cliff_threshold_tokens": THRESHOLD} if summarizer == "cliff" else {}),
        None,
    )
    for host in ("tb", "harbor")
    for parser in ("json", "xml")
    for summarizer in ("cliff", "native")
} | {f"{host}-rejected": (host, "openai/scripted", {"parser_name": "json"}, 7_000) for host in ("tb", "harbor")}
"""Name -> host, model, options, what the server takes."""


@pytest.fixture(scope="module")
def ended(command_line: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Ended]]:
    """All runs, five at a time: a run is 18 s of waiting for the terminal and 2 s of work."""
    servers = {
        name: ModelServer(script.Agent(options["parser_name"]), context_limit=limit).start()
        for name, (_, _, options, limit) in RUNS.items()
    }

    def run(name: str) -> Ended:
        host, model, options, _ = RUNS[name]
        folder = tmp_path_factory.mktemp(name)
        env = {"PYTHONPATH": str(HERE), "OPENAI_API_KEY": "test"}
        done = command_line(*command(host, folder, servers[name], model, options), cwd=folder, env=env)
        return Ended(servers[name], done.status, done.output, folder)

    with ThreadPoolExecutor(5) as pool:
        found = dict(zip(RUNS, pool.map(run, RUNS), strict=True))
    yield found
    for server in servers.values():
        server.stop()


def table(found: dict[str, Ended]) -> str:
    columns = ("run", "requests", "of them native", "input tokens", "cached", "cost", "observations lost")
    rows = [columns]
    for name, run in found.items():
        requests = run.server.answered
        usages = kit_checks.usages(requests)
        output = sum(usage.output for usage in usages)
        cost = kit_checks.input_cost(requests, **PRICES) + output * PRICE_OUTPUT / 1e6
        rows.append(
            (
                name,
                str(len(run.server.requests)),
                str(sum(map(script.is_native, requests))),
                f"{sum(usage.input for usage in usages):,}".replace(",", " "),
                f"{kit_checks.cached_share(requests):.0%}",
                f"${cost:.3f}",
                str(script.lost(run.server)),
            )
        )
    widths = [max(len(row[at]) for row in rows) for at in range(len(columns))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(lines)


CLIFF = [name for name in RUNS if name.endswith("cliff")]
NATIVE = [name for name in RUNS if name.endswith("native")]


@pytest.mark.parametrize("name", list(RUNS))
def test_the_task_is_solved(name: str, ended: dict[str, Ended]) -> None:
    run = ended[name]
    assert run.status == 0, run.output
    assert not run.server.problems
    if name.startswith("tb"):
        result = run.json("results.json")
        assert result["is_resolved"], run.output
        assert set(result["parser_results"].values()) == {"passed"}
    else:
        assert run.json("result.json")["verifier_result"]["rewards"] == {"reward": 1.0}, run.output


@pytest.mark.parametrize("name", CLIFF)
def test_three_cliffs_and_no_native_call(name: str, ended: dict[str, Ended]) -> None:
    server = ended[name].server
    assert len(server.requests) >= len(script.turns()) >= 25
    assert not any(map(script.is_native, server.requests))
    cliffs = checks.assert_cliffs(server)
    assert script.lost(server) == 0
    marks = len(script.turns()) - 1  # nothing is said after the last
    assert script.seen(server, marks) == set(range(1, marks + 1))
    if "xml" in name:
        assert any("cache_control" in json.dumps(request.body) for request in server.requests)
    record = recorded(ended[name])
    assert record["threshold"] == {"tokens": THRESHOLD, "source": "option"}
    assert [cliff["request"] for cliff in record["cliffs"]] == cliffs
    assert [cliff["number"] for cliff in record["cliffs"]] == list(range(1, len(cliffs) + 1))
    assert record["requests"] == len(server.requests)
    assert record["rejections"] == 0


def recorded(run: Ended) -> Any:
    """The record of the compaction in the host's results."""
    if (run.trial / "agent-logs").is_dir():
        return run.json("agent-logs/cliff.json")
    return run.json("result.json")["agent_result"]["metadata"]["cliff"]


@pytest.mark.parametrize("name", CLIFF)
def test_the_hosts_own_record_is_whole(name: str, ended: dict[str, Ended]) -> None:
    run = ended[name]
    whole = agents.conversation(run.server)
    if name.startswith("tb"):
        logs = run.trial / "agent-logs"
        for episode in range(len(run.server.requests)):
            assert (logs / f"episode-{episode}/prompt.txt").read_text() == whole[2 * episode]["content"]
            assert (logs / f"episode-{episode}/response.txt").read_text() == whole[2 * episode + 1]["content"]
        return
    from harbor.models.trajectories import Trajectory

    trajectory = Trajectory.model_validate_json((run.trial / "agent/trajectory.json").read_text())
    steps = [step for step in trajectory.steps if step.source == "agent"]
    observations = [step.observation.results[0].content for step in steps]
    assert [step.step_id for step in trajectory.steps] == list(range(1, len(trajectory.steps) + 1))
    assert trajectory.agent.name == "terminus-2-cliff"
    assert observations[:-1] == [message["content"] for message in whole[2::2]]
    places = [at for at, step in enumerate(trajectory.steps) if step.source == "system"]
    cliffs = recorded(run)["cliffs"]
    for at, cliff in zip(places, cliffs, strict=True):
        extra = trajectory.steps[at].extra
        assert extra == {"context_management": {"type": "compaction", "boundary": "replace"}, "cliff": cliff}
        block = agents.plain(run.server.answered[cliff["request"] - 1].messages)[1]["content"]
        assert trajectory.steps[at + 1].source == "user"
        assert trajectory.steps[at + 1].message == block
    assert run.json("result.json")["agent_result"]["metadata"]["summarization_count"] == len(cliffs)


@pytest.mark.parametrize("name", CLIFF)
def test_bodies_go_with_their_echo(name: str, ended: dict[str, Ended]) -> None:
    """Of a file that was written by a heredoc or pasted, nothing but the command stands in a block."""
    server = ended[name].server
    cliffs = kit_checks.cliffs_of(server.answered)
    blocks = [agents.plain(server.answered[place - 1].messages)[1]["content"] for place in cliffs]
    text = "".join(blocks)
    shown = 0
    for opener, body in (
        ("cat > tally/parse.py <<'EOF'", script.MODULES["parse"]),
        ("cat > test_parse.py <<'EOF'", script.test_of("parse")),
        ("cat > notes.txt", script.NOTES),
    ):
        shown += f"<call>bash_command {opener} [{len(body) - 1} chars]" in text
    assert shown >= 2  # one of the three can be among the excerpts that had to go
    for line in ("raise ValueError(f", "self.assertEqual([b.amount", "words = text.split", "does one thing and has"):
        assert line not in text


@pytest.mark.parametrize("name", NATIVE)
def test_native_is_the_hosts_own(name: str, ended: dict[str, Ended]) -> None:
    """It asks three times for each summary, and loses the observation that was due."""
    server = ended[name].server
    native = [request for request in server.requests if script.is_native(request)]
    assert len(native) >= 6
    assert len(native) % 3 == 0
    assert script.lost(server) == len(native) // 3
    assert recorded(ended[name]) == {"summarizer": "native"}


def test_both_side_by_side(ended: dict[str, Ended], record_property: Any) -> None:
    """The same task with the same threshold: fewer requests, and nothing lost."""
    for name in CLIFF:
        native = ended[name.replace("-cliff", "-native")].server
        assert len(ended[name].server.requests) < len(native.requests)
        assert script.lost(ended[name].server) == 0 < script.lost(native)
    record_property("table", table(ended))


@pytest.mark.parametrize("name", ["tb-rejected", "harbor-rejected"])
def test_a_limit_that_nobody_declared(name: str, ended: dict[str, Ended]) -> None:
    """The server rejects what is above 7 000 tokens, the model is declared at 100 000: one rejection, then none."""
    server = ended[name].server
    assert [request.rejected for request in server.requests].count("limit") == 1
    assert not any(map(script.is_native, server.requests))
    checks.assert_cliffs(server, least=2)
    record = recorded(ended[name])
    assert record["rejections"] == 1
    assert record["threshold"] == {"tokens": 6_650, "source": "rejection"}
    assert [cliff["reason"] for cliff in record["cliffs"]][:2] == ["forced", "limit"]


@pytest.mark.parametrize(
    ("host", "option", "hint"),
    [
        (
            "tb",
            "cliff_treshold_tokens=7000",
            "unknown option 'cliff_treshold_tokens'; did you mean cliff_threshold_tokens?",
        ),
        ("tb", "sumarizer=cliff", "unknown option 'sumarizer'; did you mean summarizer?"),
        ("tb", "summarizer=natve", "summarizer must be one of cliff, native, off, not 'natve'; did you mean 'native'?"),
        ("tb", "cliff_keep_turns=none", "cliff_keep_turns must be a whole number"),
        ("harbor", "cliff_treshold_tokens=7000", "did you mean cliff_threshold_tokens?"),
        ("harbor", "sumarizer=cliff", "unknown option 'sumarizer'; did you mean summarizer?"),
        ("harbor", "summarizer=natve", "'cliff', 'native' or 'off'"),
        ("harbor", "cliff_keep_turns=0", "cliff_keep_turns must be a whole number of at least 1, not 0"),
    ],
)
def test_an_unknown_option_fails_at_once(
    host: str, option: str, hint: str, command_line: Any, model_server: Any, tmp_path: Path
) -> None:
    server = model_server([])
    name, value = option.split("=")
    env = {"PYTHONPATH": str(HERE), "OPENAI_API_KEY": "test"}
    done = command_line(*command(host, tmp_path, server, "openai/scripted", {name: value}), cwd=tmp_path, env=env)
    assert done.status != 0
    assert hint in " ".join(done.output.replace("│", " ").split())
    assert not server.requests


def test_a_resumed_run_keeps_our_class(command_line: Any, model_server: Any, tmp_path: Path) -> None:
    said = [script.Turn(mark, "Nothing.", "Nothing.", [], True) for mark in (1, 2)]
    server = model_server(script.Agent("json", [*said, *said]), strict=False)
    env = {"PYTHONPATH": str(HERE), "OPENAI_API_KEY": "test"}
    assert command_line(*command("tb", tmp_path, server, "openai/scripted", {}), cwd=tmp_path, env=env).status == 0
    (result,) = tmp_path.glob("run/tally/*/results.json")
    result.unlink()
    resumed = command_line(
        "tb", "runs", "resume", "--run-id", "run", "--runs-dir", str(tmp_path), cwd=tmp_path, env=env
    )
    assert resumed.status == 0, resumed.output
    assert len(server.requests) == 4
    (record,) = tmp_path.glob("run/tally/*/agent-logs/cliff.json")
    assert json.loads(record.read_text())["requests"] == 2

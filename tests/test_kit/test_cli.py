"""`python -m tests.kit`, as a program."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kit import Step
from kit.cli import BadInput, load, main
from kit.client import ask

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture
def run():
    """Starts the command; yields it and its base URL."""
    started = []

    def start(*arguments):
        command = [sys.executable, "-m", "tests.kit", *map(str, arguments)]
        process = subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        started.append(process)
        openai, anthropic = process.stdout.readline(), process.stdout.readline()
        assert openai.startswith("OPENAI_BASE_URL=http://127.0.0.1:"), process.stderr.read()
        assert openai == anthropic.replace("ANTHROPIC", "OPENAI").rstrip() + "/v1\n"
        return process, anthropic.strip().partition("=")[2]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def end(process, number=signal.SIGTERM):
    process.send_signal(number)
    _, errors = process.communicate(timeout=20)
    return process.returncode, errors


def test_json_script(run, tmp_path):
    script = tmp_path / "script.json"
    call = {"name": "bash", "arguments": {"command": "ls"}}
    script.write_text(json.dumps({"models": ["mine"], "steps": [{"calls": [call]}, "done"]}))
    process, url = run(script, "--record", tmp_path / "record", "--limit", "9")
    reply = ask(url, "anthropic")
    assert reply.json()["content"][0]["input"] == {"command": "ls"}
    assert ask(url, "anthropic", system="x" * 99).status_code == 400
    status, errors = end(process)
    assert status == 0
    assert errors.splitlines() == [
        "   1 POST /v1/messages 200 input 1 cached 0 output 5",
        "   2 POST /v1/messages 400 rejected: limit",
    ]
    lines = (tmp_path / "record" / "requests.jsonl").read_text().splitlines()
    assert [json.loads(line)["kit"]["rejected"] for line in lines] == [None, "limit"]


def test_python_script_and_problems(run, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from kit import Step\n"
        "def script(request):\n"
        "    return Step(f'{request.model} says hello')\n"
        "options = {'latency': 0.001}\n"
    )
    process, url = run(script)
    assert "m says hello" in ask(url).text
    assert ask(url, messages=[]).status_code == 400
    status, errors = end(process, signal.SIGINT)
    assert status == 1
    assert "problem: request 2: messages: at least one message is required" in errors


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("none.json", None, "none.json: no such file"),
        ("s.txt", "", "a script is a .py or a .json file"),
        ("s.json", "{", "s.json: no JSON: "),
        ("s.json", "7", "expected a list of steps, or an object with `steps`"),
        ("s.json", '{"steps": [], "limit": 1}', "s.json: unknown key 'limit'; "),
        ("s.json", '[{"txt": "x"}]', "step 1: unknown key 'txt'; did you mean 'text'?"),
        ("s.json", '["ok", 7]', "step 2: expected an object, not 7"),
        ("s.json", '[{"calls": 1}]', "step 1: calls must be a list"),
        ("s.json", '[{"calls": [{}]}]', "step 1, call 1: 'name' is missing"),
        ("s.json", '[{"piece": 0}]', "step 1: piece must be at least 1, not 0"),
        ("s.json", '[{"fault": {"kind": "rest"}}]', "fault: kind 'rest' is none of status, reset"),
        ("s.json", '[{"fault": {"kind": "status"}}]', "fault: 'code' is missing"),
        ("s.json", '{"steps": [], "wording": "x"}', "no wording 'x'; there are "),
        ("s.py", "x = 1", "s.py: it defines no `script`"),
        ("s.py", "1/0", "s.py: ZeroDivisionError"),
        ("s.py", "script = [7]", "yields kit.Step objects or strings, not 7"),
        ("s.py", "script = []\noptions = {'limit': 1}", "unexpected keyword argument 'limit'"),
    ],
)
def test_bad_input(tmp_path, capsys, name, content, words):
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    assert main([os.fspath(path)]) == 2
    errors = capsys.readouterr().err
    assert errors.startswith("error: ")
    assert words in errors
    assert errors.count("\n") == 1


def test_load_faults(tmp_path):
    path = tmp_path / "script.json"
    fault = {"kind": "status", "code": 429, "retry_after": 1}
    path.write_text(json.dumps([{"fault": fault, "headers": [["x", "1"]], "usage": {"input": 5}}]))
    (step,), options = load(path)
    assert (step.fault.code, step.fault.retry_after) == (429, 1)
    assert step.headers == [("x", "1")]
    assert options == {}
    with pytest.raises(BadInput, match="no such file"):
        load(tmp_path / "missing.json")
    assert isinstance(step, Step)

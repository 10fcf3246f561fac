"""`cliff show`: what a compaction dropped, from a recording."""

import json

import pytest
from typer.testing import CliRunner

from cliff_proxy.commands import show

runner = CliRunner()


def line(messages, answer):
    body = {"model": "claude-opus-5-5", "max_tokens": 9, "messages": messages}
    reply = {"id": f"msg_{len(messages)}", "type": "message", "role": "assistant", "content": answer}
    usage = {"input_tokens": 5, "output_tokens": 1}
    return json.dumps({"request": {"body": body}, "response": {"body": reply | {"usage": usage}}, "cliff": {}})


def use(number, **arguments):
    return {"type": "tool_use", "id": f"toolu_{number}", "name": "Read", "input": arguments}


def result(number, text, **more):
    return {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": text, **more}],
    }


@pytest.fixture
def records(home):
    """A recording of two turns; the first result is long, the second an error."""
    folder = home.folder / "records"
    folder.mkdir()
    head = [{"role": "user", "content": "the task"}]
    first = [{"type": "text", "text": "I look."}, use(1, file_path="/a.py")]
    second = [use(2, file_path="/gone.py")]
    one = [*head, {"role": "assistant", "content": first}, result(1, "line\n" * 400 + "the end")]
    two = [*one, {"role": "assistant", "content": second}, result(2, "no such file", is_error=True)]
    lines = [line(head, first), line(one, second), line(two, [{"type": "text", "text": "done"}])]
    (folder / "823de2e7.5f3a.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "99990000.5f3b.jsonl").write_text(lines[0] + "\n")
    return folder


def shown(records, *arguments):
    return runner.invoke(show.app, [*arguments, "--record", str(records)])


@pytest.mark.parametrize("name", ["5f3a", "823de2e7", "823de2e7.5f3a", "823d", "823de2e7.5f3a.jsonl"])
def test_turns_are_listed(records, name):
    done = shown(records, name)
    assert done.exit_code == 0, done.output
    listed = done.stdout.splitlines()[1:]
    assert [row.split()[0] for row in listed] == ["1", "2", "3"]
    assert listed[0].endswith("/a.py -> 2 007 characters")
    assert "/gone.py" in listed[1]
    assert listed[2].endswith("done")


def test_the_first_line_names_the_file_and_is_whole(records, monkeypatch):
    path = records / "823de2e7.5f3a.jsonl"
    for columns in ("40", None):
        monkeypatch.delenv("COLUMNS", raising=False)
        if columns is not None:
            monkeypatch.setenv("COLUMNS", columns)
        assert shown(records, "5f3a").stdout.splitlines()[0] == f"{path}: 3 turns after a head of 1 message"


def test_a_turn_in_full(records):
    out = shown(records, "5f3a", "--turn", "1").stdout
    assert out == (
        'turn 1\n--- model\nI look.\n--- call Read\n{"file_path":"/a.py"}\n--- result\n' + "line\n" * 400 + "the end\n"
    )
    assert "--- result (error)\nno such file\n" in shown(records, "5f3a", "--turn", "2").stdout


def test_a_client_that_was_started_again(records):
    """Its id names the recordings of both proxies: the longer history has all of it."""
    (records / "823de2e7.0000.jsonl").write_text((records / "99990000.5f3b.jsonl").read_text())
    done = shown(records, "823de2e7")
    assert done.exit_code == 0, done.output
    assert len(done.stdout.splitlines()) == 1 + 3


def test_as_json(records):
    found = json.loads(shown(records, "5f3a", "--turn", "2", "--json").stdout)
    [turn] = found["turns"]
    assert turn["number"] == 2
    assert [message["role"] for message in turn["messages"]] == ["assistant", "user"]


def test_a_path(records):
    done = runner.invoke(show.app, [str(records / "823de2e7.5f3a.jsonl")])
    assert done.exit_code == 0, done.output


def test_a_recording_that_broke_off(records):
    path = records / "823de2e7.5f3a.jsonl"
    path.write_text(path.read_text()[:-40])
    assert shown(records, "5f3a", "--turn", "1").exit_code == 0


def test_what_is_not_there(home, records):
    done = shown(records, "5f3")
    assert done.exit_code == 2
    assert "several recordings are named 5f3: 823de2e7.5f3a, 99990000.5f3b" in done.output
    done = shown(records, "zz")
    assert done.exit_code == 2
    assert "there is no recording zz in " in done.output
    done = shown(records, "99990000", "--turn", "4")
    assert done.exit_code == 2
    assert "there is no turn 4: the session has 1 turn" in done.output
    done = runner.invoke(show.app, ["5f3a"])
    assert done.exit_code == 2
    assert "nothing is recorded unless asked for" in done.output

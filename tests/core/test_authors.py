"""Policy `authors`: the authors' package itself, in an environment of its own.

It is found by `CLIFF_AUTHORS_PYTHON`, or in `.venv-bench` (`make bench` makes it)."""

import os
import sys
from pathlib import Path

import pytest

from cliff_core.config import CliffConfig
from cliff_core.dialects import dialect
from cliff_core.ledger import Meter
from cliff_core.policies import Authors, PolicyError, Settings, policies
from cliff_core.policies.authors import default_python, find_python
from cliff_core.traces import Session

BENCH = Path(__file__).parents[2] / ".venv-bench" / "bin" / "python"
PYTHON = os.environ.get("CLIFF_AUTHORS_PYTHON") or (str(BENCH) if BENCH.exists() else None)

needs_authors = pytest.mark.skipif(
    PYTHON is None, reason="the authors' package is not there: `make bench`, or set CLIFF_AUTHORS_PYTHON"
)


@pytest.fixture(autouse=True)
def nothing_is_found(monkeypatch, tmp_path):
    monkeypatch.delenv("CLIFF_AUTHORS_PYTHON", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))


def chat(turns, characters=600):
    messages = [{"role": "user", "content": "the task"}]
    for turn in range(turns):
        call = {"id": f"c{turn}", "function": {"name": "bash", "arguments": '{"command": "make"}'}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{turn}", "content": f"{turn}:" + "y" * characters})
    return messages


def anthropic(turns):
    messages = [{"role": "user", "content": "the task"}]
    for turn in range(turns):
        use = {"type": "tool_use", "id": f"c{turn}", "name": "bash", "input": {"command": "make"}}
        back = {"type": "tool_result", "tool_use_id": f"c{turn}", "content": f"{turn}:" + "y" * 600}
        messages += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [back]}]
    return messages


def responses(turns):
    messages = [{"role": "user", "content": "the task"}]
    for turn in range(turns):
        messages.append({"type": "function_call", "name": "bash", "call_id": f"c{turn}", "arguments": "{}"})
        messages.append({"type": "function_call_output", "call_id": f"c{turn}", "output": f"{turn}:" + "y" * 600})
    return messages


def session(messages, name="chat", **more):
    return Session(Path("x"), "test", name, messages, [], **more)


@pytest.fixture
def authors(request):
    policy = Authors(CliffConfig.preset("paper", threshold_tokens=1200), Settings(authors_python=PYTHON))
    yield policy
    policy.close()


@needs_authors
@pytest.mark.parametrize("made", [chat, anthropic, responses])
def test_their_view_of_each_dialect(authors, made):
    history = made(8)
    authors.start(session(history, made.__name__), Meter(dialect(made.__name__)))
    views = [authors.view(history[:size], 0) for size in range(1, len(history) + 1, 2)]
    first = next(number for number, view in enumerate(views) if view.compacted)
    assert all(view.messages == history[: 1 + 2 * n] for n, view in enumerate(views[:first]))
    cut = views[first]
    assert cut.messages[0] is history[0]
    assert "summary of your previous actions" in str(cut.messages[1])
    live = history[1 + 2 * first - 6 : 1 + 2 * first]
    assert all(one is other for one, other in zip(cut.messages[2:], live, strict=True))
    after = views[first + 1]
    assert not after.compacted
    assert after.messages[1] is cut.messages[1], "one object, which is counted once"
    assert after.messages == [*cut.messages, *history[1 + 2 * first : 3 + 2 * first]]
    assert after.tokens == sum(map(authors._meter.tokens, after.messages))


@needs_authors
def test_it_counts_what_is_not_in_the_recording(authors):
    """Three turns are below 1 200 x 4 characters; with a fixed part of 1 000 tokens they are not."""
    history = chat(5, 100)
    for fixed, compacted in ((0, False), (1000, True)):
        authors.start(session(history), Meter(dialect("chat")))
        assert authors.view(history, fixed).compacted is compacted
    authors.start(session(history, system="y" * 4000), Meter(dialect("chat")))
    assert authors.view(history, 0).compacted, "a system prompt that was recorded is counted as it is"


@needs_authors
def test_the_limit_of_the_provider_lowers_the_threshold(authors):
    history = chat(5, 100)
    authors.start(session(history), Meter(dialect("chat")), limit=300)
    assert authors.view(history, 0).compacted


@needs_authors
def test_private_keys_of_our_readers_are_not_sent(authors):
    history = chat(4, 100)
    noted = [{**message, "_cliff": {"thought": "z" * 9000}} for message in history]
    authors.start(session(noted, "chat-text"), Meter(dialect("chat-text")))
    view = authors.view(noted, 0)
    assert not view.compacted
    assert view.messages == noted


@needs_authors
def test_what_they_cannot_prepare_goes_through(authors):
    history = [*chat(8), {"role": "user", "content": "\ud800"}]
    authors.start(session(history), Meter(dialect("chat")))
    view = authors.view(history, 0)
    assert (view.messages, view.compacted) == (history, False)


@needs_authors
def test_a_history_that_is_shorter_is_another_session(authors):
    history = chat(8)
    authors.start(session(history), Meter(dialect("chat")))
    assert authors.view(history, 0).compacted
    assert authors.view(history[:3], 0).messages == history[:3]


@needs_authors
def test_an_engine_that_ended(authors):
    history = chat(2)
    authors.start(session(history), Meter(dialect("chat")))
    authors.close()
    with pytest.raises(RuntimeError, match="engine was closed"):
        authors.view(history, 0)
    authors.start(session(history), Meter(dialect("chat")))
    assert authors.view(history, 0).messages == history, "the next session has a new one"
    authors._process.kill()
    authors._process.wait()
    with pytest.raises((RuntimeError, OSError)):
        authors.view(chat(3), 0)
    authors.start(session(history), Meter(dialect("chat")))
    assert authors.view(history, 0).messages == history


# --- where it is not ------------------------------------------------------------------------------


def test_it_is_not_installed():
    assert find_python() is None
    with pytest.raises(PolicyError, match=r"not installed; it runs cliffcompaction 0\.1\.0 .*pip install cliffcomp"):
        policies(["authors"], CliffConfig())


def test_where_it_is_looked_for(monkeypatch):
    default_python().parent.mkdir(parents=True)
    default_python().touch()
    assert find_python() == str(default_python())
    monkeypatch.setenv("CLIFF_AUTHORS_PYTHON", "/somewhere/python")
    assert find_python() == "/somewhere/python"
    assert find_python("/given/python") == "/given/python"


@pytest.mark.parametrize(
    ("python", "problem"),
    [("/no/such/python", "cannot be run (No such file or directory)"), (sys.executable, "has not the package")],
)
def test_a_python_without_it(python, problem):
    with pytest.raises(PolicyError) as error:
        Authors(CliffConfig(), Settings(authors_python=python))
    assert f"{python} {problem}" in str(error.value)
    assert "CLIFF_AUTHORS_PYTHON" in str(error.value)

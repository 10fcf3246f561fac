"""Support by hand: small sessions whose every name is known."""

import json
from pathlib import Path

import pytest

from cliff_core.config import CliffConfig
from cliff_core.content import Message, Note, ToolCall, ToolResult
from cliff_core.dialects import dialect
from cliff_core.ledger import Meter
from cliff_core.names import names, of_call
from cliff_core.policies import Settings, policies
from cliff_core.replay import replay
from cliff_core.support import Needs, Support, Watch, values
from cliff_core.traces import Request, Session


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("the plain words of a sentence, and Capitals.", set()),
        ("open src/app/main.py:12, then ./run.sh.", {"src/app/main.py", "run.sh"}),
        ("/etc/hosts ~/notes ../up/there .gitignore", {"/etc/hosts", "~/notes", "../up/there", ".gitignore"}),
        ("parse_line() of class LineParser; __init__", {"parse_line", "LineParser", "__init__"}),
        ("os.path.join a.b.c e.g. 3.11 120 v1.2 0x1f", {"os.path.join", "a.b.c", "v1.2", "0x1f"}),
        ("commit 9b768ab2c, utf8", {"9b768ab2c", "utf8"}),
        ("--no-header --color=auto -Isrc/include +import_name", {"Isrc/include", "import_name"}),
        ("@types/node me@example.org https://example.org/a_b", {"types/node", "me@example.org", "//example.org/a_b"}),
        ("a/" + "b" * 200, set()),
        ("été_chaud 変数_名前", {"été_chaud", "変数_名前"}),
        ("C:\\code\\app.tsx", {"app.tsx"}),
        ("", set()),
    ],
)
def test_names(text, found):
    assert set(names(text)) == found


def test_names_stand_in_the_order_of_the_text():
    assert names("b_one a_two, c_three a_two ./b_one") == ["b_one", "a_two", "c_three"]


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({"file_path": "/home/me/My File.txt"}, ["/home/me/My File.txt"]),
        ({"command": "cd ./src && make -f Makefile TEST_ONLY=1"}, ["./src", "Makefile", "TEST_ONLY"]),
        ({"path": "a.py", "edits": [{"old": "x_one", "n": 5}, {"new": ["y_two"]}]}, ["a.py", "x_one", "y_two"]),
        ('{"path": "lib/one.py", "text": "one.py parse_line"}', ["lib/one.py", "one.py", "parse_line"]),
        ("no JSON but_names", ["but_names"]),
        ({"text": "x" * 5_990 + " early_on late_name"}, ["early_on"]),
    ],
)
def test_names_of_a_call(arguments, found):
    assert of_call(ToolCall("tool", arguments)) == found


def test_values_of_a_call():
    arguments = {"path": "a", "edits": [{"old": "b", "new": ["c", 1, None]}], "flag": True}
    assert list(values(ToolCall("edit", arguments))) == ["a", "b", "c"]
    assert list(values(ToolCall("edit", json.dumps(arguments)))) == ["a", "b", "c"]
    assert list(values(ToolCall("bash", "ls -l"))) == ["ls -l"]
    assert list(values(ToolCall("bash", '{"broken": "ls'))) == ['{"broken": "ls']


# --- what is needed -------------------------------------------------------------------------------


def user(text):
    return {"role": "user", "content": text}


def call(number, command, name="bash", **more):
    function = {"name": name, "arguments": json.dumps({"command": command, **more})}
    return {"role": "assistant", "content": None, "tool_calls": [{"id": f"c{number}", "function": function}]}


def result(number, text):
    return {"role": "tool", "tool_call_id": f"c{number}", "content": text}


def session(*messages):
    """With a request before each model message."""
    requests = [Request(index) for index, message in enumerate(messages) if message["role"] == "assistant"]
    return Session(Path("x"), "test", "chat", list(messages), requests)


def needs(known, beside=()):
    meter = Meter(dialect("chat"))
    return Needs.of(known, meter, beside), meter


TASK = user("Repair task_file.py.")
SESSION = session(
    TASK,
    call(1, "ls lib"),
    result(1, "lib/one.py lib/two.py"),
    call(2, "cat lib/one.py task_file.py new_name.py"),
    result(2, "def first_function(): return other_function()"),
    call(3, "grep first_function lib/two.py"),
    result(3, "nothing"),
    call(4, "cat lib/one.py new_name.py"),
    result(4, "gone"),
)


def test_needed_are_names_that_appeared_after_the_head():
    found, _ = needs(SESSION)
    assert [sorted(step.needed) for step in found.steps] == [
        [],
        ["lib/one.py"],  # task_file.py is in the head, new_name.py is new
        ["first_function", "lib/two.py"],
        ["lib/one.py", "new_name.py"],  # the second time it is no longer new
    ]


def test_what_is_sent_beside_the_messages_is_head():
    found, _ = needs(SESSION, ["You work in lib/one.py."])
    assert [sorted(step.needed) for step in found.steps][1:] == [[], ["first_function", "lib/two.py"], ["new_name.py"]]


def test_parallel_calls_are_one_step():
    both = call(2, "cat lib/one.py")
    both["tool_calls"] += call(3, "cat lib/two.py")["tool_calls"]
    known = session(TASK, call(1, "ls"), result(1, "lib/one.py lib/two.py"), both, result(2, "a"), result(3, "b"))
    assert sorted(needs(known)[0].steps[1].needed) == ["lib/one.py", "lib/two.py"]


# --- what is there --------------------------------------------------------------------------------


def watched(known, *views):
    """Support where request n sends `views[n]` (None: everything)."""
    found, meter = needs(known)
    watch = Watch(found, meter)
    for request, view in zip(known.requests, views, strict=True):
        watch.see(known.messages[: request.at] if view is None else view)
    return watch.support


def note(text):
    return Message("user", (Note(text, "summary"),))


def test_full_supports_everything():
    assert watched(SESSION, None, None, None, None) == Support(3, 5, 5, 3.0)


def test_support_is_the_mean_over_requests():
    messages = SESSION.messages
    support = watched(SESSION, None, None, [TASK, messages[2]], [TASK, note("then new_name.py was read")])
    # 1 of 1, 1 of 2 (lib/two.py is in result 1), 1 of 2.
    assert support == Support(3, 5, 3, 2.0)
    assert support.share == pytest.approx(2 / 3)
    assert Support().share is None
    assert support + support == Support(6, 10, 6, 4.0)


def test_a_name_is_there_as_the_same_word_only():
    messages = SESSION.messages
    for text, supported in (
        ("lib/one.py and new_name.py", 2),
        ("./lib/one.py, (new_name.py)", 2),
        ("/lib/one.py new_name.pyc", 0),
        ("one.py lib/one", 0),
    ):
        view = [TASK, note(text)]
        assert watched(SESSION, None, None, None, view).supported == 3 + supported, text
    assert watched(SESSION, None, None, None, [TASK, messages[1]]).supported == 3


def test_what_left_the_view_is_gone():
    """A block is another object in each view, equal or not; what an earlier one showed does not count."""
    known = session(TASK, call(1, "ls"), result(1, "a_1_2 b_1_2"), *(call(n, "cat a_1_2") for n in range(2, 7)))
    known = Session(known.path, "test", "chat", known.messages, [Request(1), *(Request(at) for at in range(3, 8))])

    def block(text):
        return {"role": "user", "content": text}

    views = [
        None,
        [TASK, block("a_1_2")],
        [TASK, block("a_1_2")],
        [TASK, block("b_1_2")],
        [TASK, block("b_1_2")],
        [TASK],
    ]
    found, meter = needs(known)
    watch, supported = Watch(found, meter), []
    for request, view in zip(known.requests, views, strict=True):
        watch.see(known.messages[: request.at] if view is None else view)
        supported.append(watch.support.supported)
    assert supported == [0, 1, 2, 2, 2, 2]


def test_a_message_that_is_like_another_is_itself():
    """The window moves by one turn, and what follows the head looks as it did."""
    alike = [{"role": "assistant", "content": "go_on_now"}, {"role": "user", "content": "done_it_all"}]
    history = [TASK, *(dict(message) for _ in range(3) for message in alike), call(1, "echo done_it_all")]
    known = Session(Path("x"), "test", "chat", history, [Request(3), Request(5), Request(7)])
    found, meter = needs(known)
    watch = Watch(found, meter)
    watch.see([TASK, *history[1:3]])
    watch.see([TASK, *history[3:5]])
    assert watch._there == {id(TASK), id(history[3]), id(history[4])}
    watch.see([TASK])
    assert watch._there == {id(TASK)}
    assert watch.support == Support(1, 1, 0, 0.0)


# --- results that are asked for again -------------------------------------------------------------

READ = session(
    TASK,
    call(1, "cat lib/one.py", description="look"),
    result(1, "x" * 600),
    call(2, "cat lib/two.py"),
    result(2, "short"),
    call(3, "cat lib/one.py", description="look"),
    result(3, "x" * 600),
    call(4, "cat lib/two.py"),
)


def test_a_call_that_was_made_before_is_a_repeat():
    found, _ = needs(READ)
    assert [[r.call.name for r in step.repeats] for step in found.steps] == [[], [], ["bash"], ["bash"]]
    places = [id(message) for message in READ.messages]
    repeats = [r for step in found.steps for r in step.repeats]
    assert [(places.index(r.asked), places.index(r.answered)) for r in repeats] == [(1, 2), (3, 4)]
    support = watched(READ, None, None, None, None)
    assert (support.repeats, support.rereads, support.reissuable) == (2, 0, 0), "all results are there"


@pytest.mark.parametrize(
    ("view", "rereads", "reissuable"),
    [
        ([0, 1, 2], 0, 0),
        ([0], 1, 0),
        ([0, 1], 1, 1),  # the call itself stands there
        ([0, "<call>bash cat lib/one.py</call>"], 1, 1),  # its complete signature: the description changes nothing
        ([0, "<call>bash cat lib/one.py | head</call>"], 1, 0),
        ([0, "<call>bash cat lib/o…</call>"], 1, 0),
        ([0, 'bash({"command": "cat lib/one.py", "description": "look"})'], 1, 1),  # all its values
        ([0, 'bash({"command": "cat lib/one.py", "descr'], 1, 0),
        ([0, "result: " + "x" * 600], 0, 0),  # the result stands there whole
        ([0, "result: " + "x" * 599], 1, 0),
    ],
)
def test_rereads(view, rereads, reissuable):
    messages = [READ.messages[part] if isinstance(part, int) else note(part) for part in view]
    support = watched(READ, None, None, messages, None)
    assert (support.repeats, support.rereads, support.reissuable) == (2, rereads, reissuable)


def test_values_with_line_breaks_as_json_has_them():
    script = "a_first\nb_second"
    known = session(TASK, call(1, script), result(1, "x"), call(2, script))
    assert watched(known, None, [TASK, note(json.dumps({"command": script}))]).reissuable == 1
    assert watched(known, None, [TASK, note(script)]).reissuable == 1
    assert watched(known, None, [TASK, note("a_first b_second")]).reissuable == 0


def test_a_call_that_a_policy_left_in_place():
    made = Message("model", (ToolCall("bash", {"description": "look", "command": "cat lib/one.py"}, "c1"),))
    bare = Message("model", (ToolCall("bash", {}, "c1"),))
    gone = Message("tool", (ToolResult("[tool result cleared]", "c1"),))
    for view, reissuable in (([TASK, made, gone], 1), ([TASK, bare, gone], 0)):
        support = watched(READ, None, None, view, None)
        assert (support.rereads, support.reissuable) == (1, reissuable)


def test_results_pair_by_position_where_there_are_no_ids():
    def said(*commands):
        calls = [{"name": "bash", "arguments": command} for command in commands]
        return {"role": "assistant", "content": " ".join(commands), "_cliff": {"calls": calls}}

    def shown(text):
        return {"role": "user", "content": text, "_cliff": {"role": "tool"}}

    messages = [TASK, said("a_1", "b_2"), shown("one"), shown("two"), said("b_2")]
    known = Session(Path("x"), "test", "chat-text", messages, [Request(1), Request(4)])
    meter = Meter(dialect("chat-text"))
    found = Needs.of(known, meter)
    (repeat,) = found.steps[1].repeats
    assert (repeat.asked, repeat.answered, repeat.result) == (id(messages[1]), id(messages[3]), "two")
    assert found.steps[1].needed == frozenset(), "three characters are no name"


# --- in a replay ----------------------------------------------------------------------------------


def test_support_of_policies_in_a_replay():
    """A path that the first result shows, needed at the end, when every policy has cut the first turn."""
    filler = " ".join(["hello"] * 600)
    messages = [TASK, call(1, "ls"), result(1, "lib/one.py " + filler)]
    for turn in range(2, 9):
        messages += [call(turn, f"cat {turn}"), result(turn, filler)]
    known = session(*messages, call(9, "cat lib/one.py"))
    config = CliffConfig.preset("paper", threshold_tokens=3000)
    chosen = policies(["full", "sliding", "cliff", "clear-tools", "summarize"], config, Settings(summary_share=0.01))
    done = replay(known, chosen, config)
    shares = {name: result.support.share for name, result in done.results.items()}
    # The paper's rule drops long results; the stand-in keeps one character in a hundred.
    assert shares == {"full": 1.0, "sliding": 0.0, "cliff": 0.0, "clear-tools": 0.0, "summarize": 0.0}
    kept = replay(known, policies(["summarize"], config, Settings(summary_share=1.0)), config)
    assert kept.results["summarize"].support.share == 1.0
    assert kept.results["summarize"].note
    assert kept.results["summarize"].compactions


def test_recorded_sessions(session_path):
    """Full context supports everything, and no policy has less than nothing or more than all."""
    from cliff_core import traces as readers

    config = CliffConfig.preset("default", threshold_tokens=16_000)
    chosen = policies(["full", "cliff", "sliding", "summarize", "microcompact", "clear-tools"], config)
    for path in readers.discover([session_path]):
        for known in readers.read(path):
            if len(known.requests) > 200:
                known = Session(known.path, known.format, known.dialect, known.messages, known.requests[:200])
            done = replay(known, chosen, config)
            full = done.full.support
            assert (full.supported, full.rereads, full.share_sum) == (full.needed, 0, full.requests)
            for result in done.results.values():
                its = result.support
                assert (its.requests, its.needed, its.repeats) == (full.requests, full.needed, full.repeats)
                assert its.reissuable <= its.rereads <= its.repeats
                assert 0 <= its.supported <= its.needed

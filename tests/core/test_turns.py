from cliff_core.content import Directive, Message, Note, Thought, ToolCall, ToolResult
from cliff_core.turns import group, head_end, pair

SYSTEM = Message("system", (Note("rules", "system:rules"),))
TASK = Message("user", (Directive("task"),))


def model(*ids: str, text: str = "") -> Message:
    thoughts = (Thought(text),) if text else ()
    return Message("model", (*thoughts, *(ToolCall("bash", "{}", i) for i in ids)))


def tool(*ids: str) -> Message:
    return Message("tool", tuple(ToolResult(f"result of {i}", i) for i in ids))


def says(text: str) -> Message:
    return Message("user", (Directive(text),))


def test_head_ends_before_the_first_model_message_after_a_user_message():
    assert head_end([SYSTEM, TASK, model("a"), tool("a")]) == 2
    assert head_end([SYSTEM, TASK]) is None
    assert head_end([SYSTEM, model(text="hello"), TASK, model("a")]) == 3, "a greeting"
    assert head_end([TASK, SYSTEM, model("a")]) == 2, "an environment after the task"
    assert head_end([SYSTEM, model("a"), tool("a"), TASK, model("b")]) == 1, "no user before calls"
    assert head_end([]) is None


def test_a_run_of_model_messages_is_one_step_and_results_belong_to_it():
    messages = [
        TASK,
        *(model(text="t"), model("a"), model("b"), tool("a"), tool("b"), says("and this")),
        *(model("c"), tool("c")),
    ]
    head, turns = group(messages)
    assert head == 1
    assert [(turn.number, turn.start, turn.end) for turn in turns] == [(1, 1, 7), (2, 7, 9)]


def test_pairs_by_id_within_the_turn_even_when_ids_repeat():
    _, turns = group([TASK, model("x", "y"), tool("y"), tool("x"), model("x"), tool("x")])
    paired, legal = pair(turns)
    assert {p: [r.call_id for r in rs] for p, rs in paired[0].results.items()} == {
        0: ["x"],
        1: ["y"],
    }
    assert list(paired[1].results) == [0]
    assert legal == {0, 1, 2}


def test_pairs_by_position_where_there_is_no_id():
    _, turns = group([TASK, model("", ""), tool(""), tool("")])
    paired, legal = pair(turns)
    assert sorted(paired[0].results) == [0, 1]
    assert legal == {0, 1}


def test_no_cut_where_a_call_is_open_or_is_answered_later():
    messages = [TASK, model("a"), model_step := model("b"), tool("b")]
    assert model_step
    _, turns = group([*messages, model("c"), tool("c"), model("d"), tool("d", "a"), model("e"), tool("e")])
    paired, legal = pair(turns)
    assert [len(p.orphans) for p in paired] == [0, 0, 0, 0]
    assert [r.call_id for r in paired[0].results[0]] == ["a"], "the late result stands at its call"
    assert legal == {0, 3, 4}
    _, turns = group([TASK, model("a", "b"), tool("a")])
    assert pair(turns)[1] == {0}, "parallel results that arrive one at a time"


def test_an_aborted_call_blocks_until_a_person_spoke_and_the_model_went_on():
    aborted = [TASK, model("a"), says("stop, do this"), model("b"), tool("b")]
    _, turns = group(aborted[:3])
    assert pair(turns)[1] == {0}
    _, turns = group(aborted)
    assert pair(turns)[1] == {0, 1, 2}
    _, turns = group([*aborted, model("c"), tool("c", "a")])
    paired, legal = pair(turns)
    assert [r.call_id for r in paired[2].orphans] == ["a"]
    assert legal == {0, 1, 2, 3}


def test_a_hosted_call_waits_for_nothing():
    searched = Message("model", (ToolCall("web_search", {"query": "q"}, "s", hosted=True),))
    _, turns = group([TASK, searched, says("go on"), model("a"), tool("a")])
    assert pair(turns)[1] == {0, 1, 2}


def test_a_call_that_nobody_answers_is_waited_for_eight_turns():
    rest = [m for n in range(8) for m in (model(f"n{n}"), tool(f"n{n}"))]
    _, turns = group([TASK, model("a"), tool(), *rest])
    assert len(turns) == 9
    assert pair(turns)[1] == {0}
    _, turns = group([TASK, model("a"), tool(), *rest, model("b"), tool("b", "a")])
    paired, legal = pair(turns)
    assert [r.call_id for r in paired[-1].orphans] == ["a"]
    assert legal == {0, 9, 10}

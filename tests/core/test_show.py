"""`cliff replay --at`: the parts of one view, the block where the request has it."""

import pytest

from cliff_core import CliffConfig, Compactor, dialect, show
from cliff_core.ledger import Meter


def user(content):
    return {"type": "message", "role": "user", "content": content}


def turn(number):
    call = {"type": "function_call", "call_id": f"c{number}", "name": "ls", "arguments": "{}"}
    return [call, {"type": "function_call_output", "call_id": f"c{number}", "output": "word " * 700}]


TASK = user("the task")
COMPACTION = {"type": "compaction", "encrypted_content": "e" * 400}
TURNS = [message for number in range(8) for message in turn(number)]


@pytest.mark.parametrize(
    ("history", "merge", "follows"),
    [
        ([TASK, *TURNS], False, 0),
        ([TASK, *TURNS], True, 0),
        ([COMPACTION, TASK, *TURNS], False, 1),
        ([TASK, *TURNS[:2], COMPACTION, *TURNS[2:]], False, 3),
        ([TASK, *TURNS[:2], COMPACTION, *TURNS[2:]], True, 3),
    ],
    ids=["head", "merged", "head with a compaction", "pinned compaction", "pinned compaction, not merged"],
)
def test_the_block_is_shown_behind_what_it_follows_in_the_request(history, merge, follows):
    config = CliffConfig.preset("default", threshold_tokens=4_500, merge_block=merge)
    responses = dialect("responses")
    view = Compactor(responses, config).view(history)
    assert view.block is not None
    shown = list(show.parts(history, view, Meter(responses)))
    places = [part.place for part in shown]
    assert places.index("block") == follows + 1
    assert places[:follows].count("block") == 0
    assert len(shown) == len(history) + 1

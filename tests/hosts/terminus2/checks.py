"""What must hold of all requests of a run with cliffs."""

from __future__ import annotations

import agents

from cliff_core.block import OPENING
from kit import ModelServer
from kit import checks as kit_checks


def assert_cliffs(server: ModelServer, least: int = 3) -> list[int]:
    """Append-only between cliffs; head, live turns and prompt verbatim; one block, and not the one before. Returns the
    places, from 1, of the requests that begin a growth segment."""
    requests = server.answered
    cliffs = kit_checks.cliffs_of(requests)
    assert len(cliffs) >= least, f"{len(cliffs)} cliffs: {cliffs}"
    kit_checks.assert_append_only(requests, cliffs)
    whole = agents.conversation(server)
    before = ""
    for place, request in enumerate(requests, 1):
        sent = agents.plain(request.messages)
        known = whole[: 2 * place - 1]  # the task, then an answer and a prompt for each request before
        assert sent[0] == known[0]
        assert sent[-1] == known[-1]
        blocks = [message["content"] for message in sent if message["content"].startswith(OPENING)]
        live = sent[1 + len(blocks) :]
        assert live == known[len(known) - len(live) :], f"request {place}: the newest turns are not verbatim"
        if place < cliffs[0]:
            assert not blocks
            assert sent == known
            continue
        (block,) = blocks
        assert sent[1]["content"] == block
        if place in cliffs:
            assert block != before
            assert not before or before not in block
            assert [message["role"] for message in live] in (["assistant", "user"] * turns for turns in (1, 2, 3))
            before = block
    return cliffs

"""Views of recorded sessions obey the rules by which the real APIs reject a request."""

import pytest

from cliff_core import CliffConfig, Compactor, dialect
from cliff_core.traces import read
from kit import rules

APIS = {"chat": "chat", "chat-text": "chat", "anthropic": "anthropic", "responses": "responses"}
SHAPES = {"chat": "messages", "anthropic": "messages", "responses": "input"}


@pytest.mark.parametrize("merge_block", [False, True])
def test_every_view_is_as_legal_as_its_history(session_path, merge_block):
    config = CliffConfig.preset("default", threshold_tokens=16_000, merge_block=merge_block)
    for session in read(session_path):
        fold = Compactor(dialect(session.dialect), config)
        api = APIS[session.dialect]
        for request in session.requests:
            history = session.messages[: request.at]
            view = fold.view(history)
            body = {"max_tokens": 1, SHAPES[api]: view.messages}
            new = [problem.split(":", 1)[-1] for problem in rules.problems(api, body, view.messages)]
            old = [
                problem.split(":", 1)[-1] for problem in rules.problems(api, {**body, SHAPES[api]: history}, history)
            ]
            assert set(new) <= set(old), f"request {request.at} of {session.name}"

"""Shorter real conversations: rejected requests, interruptions, hooks, thinking, forks, and what came before us."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from conversations import MARK, TASK, Session, agent, everything, finish, llm, repository, terminal, view, work
from openhands.sdk.context.condenser import LLMSummarizingCondenser
from openhands.sdk.conversation.exceptions import ConversationRunError
from openhands.sdk.conversation.state import ConversationExecutionStatus
from openhands.sdk.event import AgentErrorEvent, CondensationRequest, UserRejectObservation
from openhands.sdk.security.confirmation_policy import AlwaysConfirm, NeverConfirm
from openhands.tools.file_editor import FileEditorTool

from cliff_openhands import CliffCondenser
from cliff_openhands.host import View
from kit import Malformed, ModelServer, Overflow, Status, Step, checks

SMALL = 9_000


def session(folder: Path, server: ModelServer, model: str = "openai/scripted", **options: Any) -> Session:
    """With the file editor alone: no shell has to start."""
    threshold = options.pop("threshold_tokens", SMALL)

    def make() -> Any:
        condenser = CliffCondenser(threshold_tokens=threshold, **options)
        return agent(llm(server, model), condenser, FileEditorTool)

    return Session(folder, make)


def reads(session_or_folder: Any, first: int, last: int, **more: Any) -> list[Step]:
    folder = session_or_folder
    return [
        Step(
            f"Step {at}.",
            calls=[view(folder / f"module_{at}.py", 50 + at % 10)]
            + ([view(folder / f"module_{at}.py", 2)] if at % 3 == 0 else []),
            **{name: value.format(at) for name, value in more.items()},
        )
        for at in range(first, last)
    ]


def assert_live_is_reloaded(of: Session) -> None:
    live = View()
    for event in of.events:
        live.append_event(event)
    names = [event.id for event in live.events]
    assert names == [event.id for event in View.from_events(of.events).events]
    state = of.conversation.state
    if hasattr(state, "rebuild_view"):  # from 1.34 on it keeps one
        assert names == [event.id for event in state.view.events]
        state.rebuild_view()
        assert names == [event.id for event in state.view.events]


def test_a_rejected_request_is_one_forced_cliff(tmp_path: Path) -> None:
    folder = tmp_path / "repository"
    steps = [*reads(folder, 0, 8), Step(fault=Overflow("openai")), *reads(folder, 8, 10), finish()]
    with ModelServer(steps) as server:
        of = session(tmp_path, server, threshold_tokens=100_000)
        of.say(TASK)
        server.assert_finished()
    assert of.conversation.state.execution_status == ConversationExecutionStatus.FINISHED
    assert len(of.condensations()) == 1
    (record,) = of.records
    assert record["reason"] == "forced"
    assert record["tokens_after"] <= 0.75 * record["tokens_before"]
    rejected, after = server.requests[8], server.requests[9]
    assert len(after.raw) < len(rejected.raw)
    checks.assert_paired(after)
    checks.assert_append_only(server.requests[9:])
    of.close()


@pytest.mark.parametrize("wording", ["openai", "vllm", "anthropic"])
def test_a_model_that_takes_nothing_ends_the_run(wording: str, tmp_path: Path, warnings: list[str]) -> None:
    """Each request is smaller than the one before; when nothing is left, the host says so: there is no endless loop."""
    folder = tmp_path / "repository"
    name = "anthropic/claude-sonnet-4-5-20250929" if wording == "anthropic" else "openai/scripted"
    wording = next(w for w in _wordings() if w.startswith(wording))
    steps = [*reads(folder, 0, 8), *[Step(fault=Overflow(wording))] * 30]
    with ModelServer(steps) as server:
        of = session(tmp_path, server, name, threshold_tokens=100_000)
        with pytest.raises(ConversationRunError, match="nothing is left to drop"):
            of.say(TASK)
        rejected = server.requests[8:]
    assert of.conversation.state.execution_status == ConversationExecutionStatus.ERROR
    sizes = [len(request.raw) for request in rejected]
    assert 3 <= len(sizes) <= 8
    assert sizes == sorted(set(sizes), reverse=True)
    assert TASK in everything(rejected[-1].messages)
    assert_live_is_reloaded(of)
    of.close()


def _wordings() -> list[str]:
    from kit import WORDINGS

    return list(WORDINGS)


def test_condense_by_hand(tmp_path: Path) -> None:
    folder = tmp_path / "repository"
    with ModelServer([*reads(folder, 0, 8), finish(), *reads(folder, 8, 10), finish()]) as server:
        of = session(tmp_path, server, threshold_tokens=100_000)
        of.say(TASK)
        before = len(server.requests)
        of.conversation.condense()
        assert len(server.requests) == before
        assert len(of.condensations()) == 1
        of.say("Go on.")
        assert [request.messages for request in server.requests[before:]]
        assert MARK in everything(server.requests[before].messages)
        checks.assert_append_only(server.requests[before:])
    assert_live_is_reloaded(of)
    of.close()


def test_the_window_is_never_reached_where_it_is_known(tmp_path: Path) -> None:
    """The model's window is smaller than the threshold: it bounds it, and no request is rejected."""
    folder = tmp_path / "repository"
    with ModelServer([*reads(folder, 0, 30), finish()], context_limit=14_000) as server:

        def make() -> Any:
            model = llm(server, max_input_tokens=16_500, max_output_tokens=2_000)
            return agent(model, CliffCondenser(threshold_tokens=100_000), FileEditorTool)

        of = Session(tmp_path, make)
        of.say(TASK)
        server.assert_finished()
    assert not any(request.rejected for request in server.requests)
    assert len(of.condensations()) >= 2
    assert {record["reason"] for record in of.records} == {"limit"}
    of.close()


def test_rejections_and_errors_in_the_history(tmp_path: Path, warnings: list[str]) -> None:
    """Confirmation with rejected actions, unknown tools, arguments that are no JSON: pairs stay pairs."""
    folder = tmp_path / "repository"
    steps = reads(folder, 0, 30)
    unknown = Step("Hm.", calls=[terminal("no such tool"), view(folder / "module_1.py", 4)])
    broken = Step("Hm.", calls=[type(unknown.calls[0])("file_editor", "{not json"), view(folder / "module_1.py", 4)])
    script = [*steps[:6], unknown, *steps[6:9], broken, *steps[9:], finish(), steps[3], finish()]
    with ModelServer(script) as server:
        of = session(tmp_path, server)
        of.conversation.set_confirmation_policy(AlwaysConfirm())
        of.conversation.send_message(TASK)
        state = of.conversation.state
        for number in range(200):
            of.conversation.run()
            if state.execution_status == ConversationExecutionStatus.FINISHED:
                break
            if number == 5:
                of.conversation.reject_pending_actions("Read module_40 first, please. (reason-marker-9)")
            if number == 12:
                of.conversation.reject_pending_actions()
                of.conversation.send_message("Mind the tests as well. (later-marker-8)")
        assert state.execution_status == ConversationExecutionStatus.FINISHED
        of.conversation.set_confirmation_policy(NeverConfirm())
        of.say("Once more. (third-marker-3)")
    events = of.events
    assert any(isinstance(event, UserRejectObservation) for event in events)
    assert sum(isinstance(event, AgentErrorEvent) for event in events) >= 2
    cliffs = checks.cliffs_of(server.requests)
    assert len(cliffs) == len(of.condensations()) >= 2
    checks.assert_append_only(server.requests, cliffs)
    for request in server.requests:
        checks.assert_paired(request)
    for marker in ("(task-marker-7)", "(later-marker-8)", "(reason-marker-9)", "(third-marker-3)"):
        assert marker in everything(server.requests[-1].messages)
    assert_live_is_reloaded(of)
    of.close()


def test_hooks_in_the_history(tmp_path: Path) -> None:
    from openhands.sdk.hooks import HookConfig

    folder = tmp_path / "repository"
    said = '{"decision": "deny", "reason": "module_4 is off limits"}'
    block = f"grep -q module_4 && {{ echo '{said}'; exit 2; }}"
    hooks = HookConfig.model_validate(
        {
            "PreToolUse": [{"matcher": "*", "hooks": [{"type": "command", "command": f"{block}; exit 0"}]}],
            "PostToolUse": [{"matcher": "*", "hooks": [{"type": "command", "command": "true"}]}],
        }
    )
    with ModelServer([*reads(folder, 0, 20), finish()]) as server:
        of = Session(
            tmp_path,
            lambda: agent(llm(server), CliffCondenser(threshold_tokens=SMALL), FileEditorTool),
            hook_config=hooks,
        )
        of.say(TASK)
        server.assert_finished()
    assert any(isinstance(event, UserRejectObservation) for event in of.events)
    assert len({type(event).__name__ for event in of.events} & {"HookExecutionEvent"}) == 1
    cliffs = checks.cliffs_of(server.requests)
    assert len(cliffs) >= 1
    checks.assert_append_only(server.requests, cliffs)
    for request in server.requests:
        checks.assert_paired(request)
    # A hook's reason is the host's text, not a person's: it is not carried on as such.
    assert not any("<user>module_4" in event.summary for event in of.condensations())
    assert_live_is_reloaded(of)
    of.close()


def test_thinking_of_claude(tmp_path: Path) -> None:
    """Signed thinking at each step, parallel calls, cache markers: signatures and texts come back as they were."""
    folder = tmp_path / "repository"
    with ModelServer([*reads(folder, 0, 30, thought="Considering module {}. "), finish()]) as server:
        of = session(tmp_path, server, "anthropic/claude-sonnet-4-5-20250929", threshold_tokens=14_000)
        of.say(TASK)
        server.assert_finished()
    cliffs = checks.cliffs_of(server.requests)
    assert len(cliffs) == len(of.condensations()) >= 2
    checks.assert_append_only(server.requests, cliffs)
    assert_live_is_reloaded(of)
    thoughts = {f"Considering module {at}. " for at in range(30)}
    for request in server.requests:
        checks.assert_paired(request)
        for message in request.messages:
            if message["role"] == "assistant":
                assert message["content"][0]["type"] == "thinking"
                assert message["content"][0]["thinking"] in thoughts
    of.close()


def test_the_responses_api(tmp_path: Path) -> None:
    """Reasoning items with encrypted content: they come back as they were."""
    folder = tmp_path / "repository"
    with ModelServer([*reads(folder, 0, 26, thought="Considering module {}. "), finish()]) as server:
        of = session(tmp_path, server, "openai/gpt-5-mini", threshold_tokens=10_000)
        of.say(TASK)
        server.assert_finished()
    assert {request.api for request in server.requests} == {"responses"}
    cliffs = checks.cliffs_of(server.requests)
    assert len(cliffs) == len(of.condensations()) >= 2
    checks.assert_append_only(server.requests, cliffs)
    for request in server.requests:
        checks.assert_paired(request)
    assert "<thought>Considering module 0." in of.condensations()[0].summary
    assert_live_is_reloaded(of)
    of.close()


def test_a_history_that_the_provider_calls_malformed(tmp_path: Path) -> None:
    """The agent asks for a condensation then as well: one is made, and the run goes on."""
    folder = tmp_path / "repository"
    said = (
        "messages.4: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1. Each "
        "`tool_use` block must have a corresponding `tool_result` block in the next message."
    )
    body = {"type": "error", "error": {"type": "invalid_request_error", "message": said}}
    steps = [*reads(folder, 0, 6), Step(fault=Status(400, body=body)), *reads(folder, 6, 8), finish()]
    with ModelServer(steps) as server:
        of = session(tmp_path, server, "anthropic/claude-sonnet-4-5-20250929", threshold_tokens=100_000)
        of.say(TASK)
        server.assert_finished()
    assert of.conversation.state.execution_status == ConversationExecutionStatus.FINISHED
    assert [record["reason"] for record in of.records] == ["forced"]
    assert_live_is_reloaded(of)
    of.close()


def test_a_loop_of_one_thought_is_left_whole(tmp_path: Path, warnings: list[str]) -> None:
    """Claude thought once, and goes on without: the API wants that loop whole."""
    folder = tmp_path / "repository"
    first, *rest = reads(folder, 0, 20)
    steps = [Step(first.text, thought="Once. ", calls=first.calls), *rest, finish()]
    with ModelServer(steps) as server:
        of = session(tmp_path, server, "anthropic/claude-sonnet-4-5-20250929")
        of.say(TASK)
        server.assert_finished()
    assert not of.condensations()
    checks.assert_append_only(server.requests)
    assert len([text for text in warnings if "left whole" in text]) == 1
    of.close()


def test_other_errors_are_the_hosts_business(tmp_path: Path) -> None:
    folder = tmp_path / "repository"
    for fault in (Status(500), Malformed()):
        # More than once: some releases let the client ask again.
        with ModelServer([*reads(folder, 0, 3), *[Step(fault=fault)] * 10]) as server:
            of = session(tmp_path / type(fault).__name__, server)
            with pytest.raises(ConversationRunError):
                of.say(TASK)
            assert not of.condensations()
            assert not any(isinstance(event, CondensationRequest) for event in of.events)
            of.close()


# --- before and beside ---------------------------------------------------------------------------------------


def test_a_conversation_that_a_model_summarized_before(tmp_path: Path) -> None:
    """The condenser is changed at a resume: the summary goes at our first cliff, and no model is asked again."""
    folder = tmp_path / "repository"

    steps = iter([*reads(folder, 0, 14), finish(), *reads(folder, 14, 34), finish()])

    def script(request: Any) -> Step:
        return next(steps) if request.body.get("tools") else Step("SUMMARY: the user wants a parser.")

    with ModelServer(script) as server:
        kinds: list[Any] = [None]

        def make() -> Any:
            return agent(llm(server), kinds[0], FileEditorTool)

        summarizer = llm(server).model_copy(update={"usage_id": "condenser"})
        kinds[0] = LLMSummarizingCondenser(llm=summarizer, max_size=20, keep_first=2)
        of = Session(tmp_path, make)
        of.say(TASK)
        assert len(of.condensations()) >= 1
        asked = [request for request in server.requests if not request.body.get("tools")]
        assert len(asked) == len(of.condensations())
        assert "SUMMARY" in everything(server.requests[-1].messages)
        of.close()
        kinds[0] = CliffCondenser(threshold_tokens=SMALL)
        of.open()
        before, number = len(server.requests), len(of.condensations())
        of.say("Go on. (later-marker-8)")
        requests = server.requests[before:]
    assert all(request.body.get("tools") for request in requests)
    ours = of.condensations()[number:]
    assert len(ours) >= 1
    for request in requests[checks.cliffs_of(requests)[0] - 1 :]:
        text = everything(request.messages)
        assert "SUMMARY" not in text
        assert text.count(MARK) == 1
        assert "(task-marker-7)" in text
        assert "(later-marker-8)" in text
    assert_live_is_reloaded(of)
    of.close()


def test_a_fork_goes_on_alike(tmp_path: Path) -> None:
    folder = tmp_path / "repository"
    more = [*reads(folder, 20, 28), finish()]
    with ModelServer([*reads(folder, 0, 20), finish(), *more, *more]) as server:
        of = session(tmp_path, server)
        of.say(TASK)
        count = len(server.requests)
        assert len(of.condensations()) >= 1
        fork = of.conversation.fork(reset_metrics=False)
        of.say("Go on.")
        original = server.requests[count:]
        fork.send_message("Go on.")
        fork.run()
        forked = server.requests[count + len(original) :]
    checks.assert_append_only([server.requests[count - 1], forked[0]])

    def plain(requests: list[Any]) -> str:
        return json.dumps(
            [[{k: v for k, v in m.items() if "tool_call" not in k} for m in r.messages] for r in requests]
        )

    assert plain(forked) == plain(original)
    fork.close()
    of.close()


def test_two_restarts_and_one_run_are_the_same(tmp_path: Path) -> None:
    """A conversation that is closed and opened after each answer cuts where one that never stopped does."""
    folder = repository(tmp_path / "repository")
    sent = []
    for restarts in (False, True):
        script: list[Any] = []
        for part in range(4):
            script += [*reads(folder, 8 * part, 8 * part + 8), finish()]
        with ModelServer(script) as server:
            of = session(tmp_path / str(restarts), server)
            for part in range(4):
                of.say(f"{TASK} Part {part}.")
                if restarts:
                    of.close()
                    of.open()
            of.close()
        assert len(checks.cliffs_of(server.requests)) >= 2
        sent.append([r.messages[1:] for r in server.requests])
    names = (str(tmp_path / "False"), str(tmp_path / "True"))
    assert json.dumps(sent[0]).replace(names[0], "") == json.dumps(sent[1]).replace(names[1], "")


def test_async_conversations(tmp_path: Path) -> None:
    folder = tmp_path / "repository"
    with ModelServer([*reads(folder, 0, 20), finish()]) as server:
        of = session(tmp_path, server)
        if not hasattr(of.conversation, "arun"):  # from 1.34 on
            of.close()
            return
        of.conversation.send_message(TASK)
        asyncio.run(of.conversation.arun())
        server.assert_finished()
    cliffs = checks.cliffs_of(server.requests)
    assert len(cliffs) == len(of.condensations()) == len(of.records) >= 1
    checks.assert_append_only(server.requests, cliffs)
    of.close()


def test_a_conversation_in_memory_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """There is no folder for a record: it is in the log."""
    from openhands.sdk import Conversation

    folder = repository(tmp_path / "repository")
    with ModelServer([*reads(folder, 0, 28), finish()]) as server, caplog.at_level("INFO", "cliff_openhands"):
        made = agent(llm(server), CliffCondenser(threshold_tokens=10_000), FileEditorTool)
        conversation = Conversation(agent=made, workspace=str(folder), visualizer=None)
        conversation.send_message(TASK)
        conversation.run()
        server.assert_finished()
        conversation.close()
    assert len(checks.cliffs_of(server.requests)) >= 1
    first, *lines = [r.getMessage() for r in caplog.records if r.name == "cliff_openhands" and r.levelname == "INFO"]
    assert first == "cliff is on: threshold 10000 tokens, preset default, tokenizer o200k_base"
    assert len(lines) == len(checks.cliffs_of(server.requests))
    assert all(line.startswith("cliff: ") and "live turns" in line for line in lines)
    assert not list(tmp_path.rglob("cliff.jsonl"))


def test_work_by_both_tools_is_as_long_as_it_says(tmp_path: Path) -> None:
    """The script of the long session has parallel calls and errors in it, as it says."""
    steps = list(work(tmp_path, 0, 26))
    assert len(steps) == 26
    assert sum(len(step.calls) > 1 for step in steps) >= 8
    assert {call.name for step in steps for call in step.calls} == {"terminal", "file_editor"}

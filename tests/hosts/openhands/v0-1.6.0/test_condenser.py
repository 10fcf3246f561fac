"""The condenser on events of the host's own classes, without a program around it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from litellm import ModelResponse
from openhands.controller.state.state import State
from openhands.core.exceptions import LLMContextWindowExceedError
from openhands.core.logger import openhands_logger as logger
from openhands.events.action import AgentFinishAction, CmdRunAction, MessageAction, SystemMessageAction
from openhands.events.action.agent import CondensationAction, CondensationRequestAction
from openhands.events.event import Event, EventSource
from openhands.events.observation import CmdOutputObservation, ErrorObservation
from openhands.events.serialization.event import event_from_dict, event_to_dict
from openhands.events.tool import ToolCallMetadata
from openhands.memory.condenser import Condensation, Condenser, View
from openhands.memory.condenser.impl.pipeline import CondenserPipeline
from runs import OPENING

from cliff_core import CliffConfig
from cliff_core.decision import room
from cliff_openhands.v0 import CliffCondenser, CliffCondenserConfig, events

THRESHOLD = 8_000


class History:
    """Events with the ids that the host's stream gives them."""

    def __init__(self, *, usage: float = 0) -> None:
        """`usage`: tokens that the provider reports for each character of a request."""
        self.events: list[Event] = []
        self.usage = usage
        self.responses = 0
        self.add(
            SystemMessageAction("You are an agent. " * 100, tools=[{"function": {"name": "execute_bash"}}]), "agent"
        )
        self.person("Mend the parser. (the task)")

    def add(self, event: Event, source: str = "environment") -> Event:
        event._id = len(self.events)  # type: ignore[attr-defined]
        event._source = EventSource(source)  # type: ignore[attr-defined]
        self.events.append(event)
        return event

    def person(self, text: str) -> Event:
        return self.add(MessageAction(text), "user")

    def turn(self, *commands: str, size: int = 2_000, results: int | None = None, exit_code: int = 0) -> None:
        """One response with a call for each command; only the first `results` get one."""
        self.responses += 1
        commands = commands or (f"cat file_{self.responses}.py",)
        ids = [f"call_{self.responses}_{place}" for place in range(len(commands))]
        response = ModelResponse(
            id=f"response-{self.responses}",
            choices=[
                {
                    "message": {
                        "role": "assistant",
                        "content": f"Thought {self.responses}.",
                        "tool_calls": [
                            {
                                "id": identity,
                                "type": "function",
                                "function": {"name": "execute_bash", "arguments": json.dumps({"command": command})},
                            }
                            for identity, command in zip(ids, commands, strict=True)
                        ],
                    }
                }
            ],
            usage={"prompt_tokens": self.reported(), "completion_tokens": 1, "total_tokens": 1},
        )
        for place, (identity, command) in enumerate(zip(ids, commands, strict=True)):
            metadata = ToolCallMetadata(
                function_name="execute_bash",
                tool_call_id=identity,
                model_response=response,
                total_calls_in_response=len(ids),
            )
            action = self.add(CmdRunAction(command, thought=f"Thought {self.responses}."), "agent")
            action.tool_call_metadata = metadata
            if results is None or place < results:
                text = "".join(f"{self.responses}.{place}.{n} " for n in range(size // 7))
                result = self.add(CmdOutputObservation(text, command, exit_code=exit_code))
                result.tool_call_metadata = metadata

    def reported(self) -> int:
        return int(self.usage * sum(len(getattr(event, "content", "")) for event in self.view.events))

    def state(self) -> State:
        return State(session_id="s", history=list(self.events))

    def condense(self, condenser: Condenser) -> View | Condensation:
        """What the condenser says; a condensation becomes an event, as in the host."""
        found = condenser.condensed_history(self.state())
        if isinstance(found, Condensation):
            self.add(found.action, "agent")
        return found

    @property
    def view(self) -> View:
        return View.from_events(self.events)


def condenser(llm: Any = None, **options: Any) -> CliffCondenser:
    return CliffCondenser(CliffConfig.from_env({}, **{"threshold_tokens": THRESHOLD} | options), llm)


def run(history: History, ours: Condenser, turns: int, **turn: Any) -> list[CondensationAction]:
    """Steps as the host makes them: condense until there is a view, then a turn."""
    found = []
    for _ in range(turns):
        for _ in range(3):
            said = history.condense(ours)
            if isinstance(said, View):
                break
            found.append(said.action)
        else:
            pytest.fail("it condenses again and again")
        history.turn(**turn)
    return found


def block_of(view: View) -> str:
    found = [event.content for event in view.events if type(event).__name__ == "AgentCondensationObservation"]
    return found[0] if found else ""


def test_steps_of_a_history() -> None:
    history = History()
    history.turn("ls", "cat a.py", exit_code=1)
    history.person("Not that one.")
    history.add(MessageAction("Which one?"), "agent")
    history.person(events.AUTO_CONTINUE + "\nIf you think …")
    history.add(ErrorObservation("no such tool"))
    history.add(AgentFinishAction(thought="Done."), "agent")
    log = events.read(history.events, None, False)
    assert log.head == [0, 1]
    assert [step.ids for step in log.steps] == [[2, 3, 4, 5], [7, 8, 9], [10]]
    first, second, third = log.steps
    assert [type(content).__name__ for content in first.model] == ["Thought", "ToolCall", "ToolCall"]
    assert [message.contents[0].error for message in first.rest] == [True, True]
    assert first.people > 0
    assert second.people == 0
    assert [message.contents[0].kind for message in second.rest] == ["auto-continue", "ErrorObservation"]
    assert third.model[0].text == "Done."


def test_a_call_without_a_result_is_left_out_as_by_the_host() -> None:
    history = History()
    history.turn("ls", "sleep 99", results=1)
    (step,) = events.read(history.events, None, False).steps
    assert [content.id for content in step.model[1:]] == ["call_1_0"]
    assert step.ids == [2, 3, 4]


def test_cuts_fall_between_responses_and_people_stay() -> None:
    history = History()
    ours = condenser()
    found = []
    for at in range(30):
        if at in (3, 11):
            history.person(f"Directive {at}.")
        found += run(history, ours, 1)
        history.turn("ls", "pwd", "date", size=300)
    assert len(found) >= 3
    people = {event.id for event in history.events if isinstance(event, MessageAction)}
    for action in found:
        gone = set(action.forgotten)
        assert not gone & people
        for number in range(1, history.responses + 1):
            its = {
                event.id
                for event in history.events
                if event.tool_call_metadata and event.tool_call_metadata.model_response.id == f"response-{number}"
            }
            assert its <= gone or not its & gone
        assert action.summary_offset == 2
    shown = [event.content for event in history.view.events if isinstance(event, MessageAction)]
    assert shown == ["Mend the parser. (the task)", "Directive 3.", "Directive 11."]
    assert "Directive" not in block_of(history.view)
    assert len(history.view.events[2].content) == len(block_of(history.view)) > 0


def test_a_block_shows_the_turns_since_the_previous_cut() -> None:
    history = History()
    seen: set[str] = set()
    for action in run(history, condenser(), 40):
        assert action.summary.startswith(OPENING)
        numbers = {part.split(">")[0] for part in action.summary.split("<turn ")[1:]}
        assert numbers
        assert not numbers & seen
        seen |= numbers
    assert len(seen) > 20


def test_the_names_index_goes_on() -> None:
    history = History()
    actions = run(history, condenser(), 40)
    assert len(actions) >= 3
    for path in ("file_1.py", "file_9.py"):
        assert path in actions[-1].summary.split("</names>")[0]


def test_the_same_after_a_restart() -> None:
    """Decisions and bytes depend on what the host has stored, and on nothing else."""
    history, stored = History(usage=0.6), History()
    ours = condenser()
    for _ in range(25):
        run(history, ours, 1)
        stored.events = [event_from_dict(json.loads(json.dumps(event_to_dict(event)))) for event in history.events]
        again = condenser().condensed_history(stored.state())
        said = ours.condensed_history(history.state())
        assert type(again) is type(said)
        if isinstance(said, Condensation):
            assert again.action.summary == said.action.summary
            assert again.action.forgotten == said.action.forgotten
    assert any(isinstance(event, CondensationAction) for event in history.events)


def test_reports_of_the_provider_count() -> None:
    """Where requests are larger than estimated, the cliff comes earlier."""
    plain, small, large = History(), History(usage=0.3), History(usage=1.2)
    cliffs = [len(run(history, condenser(), 30)) for history in (small, plain, large)]
    assert cliffs == sorted(set(cliffs))


def test_a_summary_of_another_condenser_goes() -> None:
    history = History()
    for _ in range(6):
        history.turn()
    history.add(CondensationAction(forgotten_event_ids=[2, 3, 4, 5], summary="Somebody's summary.", summary_offset=2))
    assert block_of(history.view) == "Somebody's summary."
    (action, *_) = run(history, condenser(threshold_tokens=4_000, min_gain=0.25), 6)
    assert not {2, 3, 4, 5} & set(action.forgotten)
    assert "<turn 3>" in action.summary
    assert "<turn 2>" not in action.summary
    assert "Somebody" not in block_of(history.view)


def test_inside_the_hosts_pipeline() -> None:
    """There the condenser is given the view alone."""
    history = History()
    actions = run(history, CondenserPipeline(condenser()), 40)
    assert len(actions) >= 3
    assert "\nfile_1.py\n" in actions[-1].summary.split("</names>")[0]
    assert len(actions) == len(run(History(), condenser(), 40))


def test_one_forced_cliff_and_the_end() -> None:
    history = History()
    for _ in range(5):
        history.turn()
    ours = condenser(threshold_tokens=100_000)
    kept = []
    for _ in range(8):
        history.add(CondensationRequestAction(), "agent")
        try:
            said = history.condense(ours)
        except LLMContextWindowExceedError as error:
            assert "nothing is left to drop" in str(error)  # noqa: PT017 - the end of the loop, not of the test
            break
        assert isinstance(said, Condensation)
        kept.append(sum(isinstance(event, CmdRunAction) for event in history.view.events))
        assert not history.view.unhandled_condensation_request
    else:
        pytest.fail("there is no end")
    assert kept[-1] == 0
    assert kept == sorted(kept, reverse=True)


def test_the_model_may_ask_for_it() -> None:
    history = History()
    history.turn(size=100)
    request = CondensationRequestAction()
    request.tool_call_metadata = history.events[2].tool_call_metadata
    history.add(request, "agent")
    ours = condenser()
    assert isinstance(history.condense(ours), Condensation)
    request = CondensationRequestAction()
    request.tool_call_metadata = history.events[2].tool_call_metadata
    history.add(request, "agent")
    for _ in range(3):  # nothing is left to drop, and that is no error
        if isinstance(history.condense(ours), View):
            break
    else:
        pytest.fail("it condenses again and again")


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """The host's log, which goes to no other."""
    logger.addHandler(caplog.handler)
    yield caplog
    logger.removeHandler(caplog.handler)


def test_fail_open(monkeypatch: pytest.MonkeyPatch, logged: pytest.LogCaptureFixture) -> None:
    history = History()
    for _ in range(20):
        history.turn()

    def broken(*_: Any) -> Any:
        raise KeyError("words of a message")

    monkeypatch.setattr(events, "read", broken)
    said = history.condense(condenser())
    (line,) = [text for text in logged.messages if "could not be condensed" in text]
    assert "(KeyError in test_condenser.py, line " in line
    assert "words of a message" not in logged.text
    assert isinstance(said, View)
    assert said.events == history.view.events
    history.add(CondensationRequestAction(), "agent")
    said = history.condense(condenser())
    assert isinstance(said, Condensation)  # the host's own
    assert said.action.summary is None
    assert said.action.forgotten


def test_a_threshold_that_is_too_small_is_raised_and_said_once(logged: pytest.LogCaptureFixture) -> None:
    history = History()
    history.person("x y z " * 3_000)
    ours = condenser(threshold_tokens=1_000)
    actions = run(history, ours, 20, size=600)
    said = [text for text in logged.messages if "too small" in text]
    assert len(said) == 1
    assert 1 <= len(actions) <= 5  # not at each turn


def test_a_threshold_that_follows_the_session(logged: pytest.LogCaptureFixture) -> None:
    history = History()
    actions = run(history, condenser(threshold_tokens="auto"), 60)
    assert len(actions) >= 2
    assert {entry.split("threshold ")[1].split()[0] for entry in logged.messages if entry.startswith("cliff ")} == {
        "8000"
    }
    known = SimpleNamespace(model="claude-opus-4-5", max_message_chars=30_000)
    ours = condenser(SimpleNamespace(config=known, vision_is_active=lambda: False), threshold_tokens="auto")
    assert ours.config.cache_price_ratio == 12.5


def test_the_window_bounds_the_threshold() -> None:
    known = SimpleNamespace(max_input_tokens=8_000, max_output_tokens=2_000, max_message_chars=30_000)
    llm = SimpleNamespace(config=known, vision_is_active=lambda: False)
    history = History()
    (action, *_) = run(history, condenser(llm, threshold_tokens=100_000), 12)
    ours = condenser(llm, threshold_tokens=100_000)
    assert room(ours._limit()) == 8_000 - 2_000 - 400
    assert action.summary


def test_a_block_is_never_cut_short_by_the_host() -> None:
    """The host shortens texts of more than `max_message_chars` in the middle."""
    known = SimpleNamespace(max_input_tokens=None, max_output_tokens=None, max_message_chars=2_000)
    llm = SimpleNamespace(config=known, vision_is_active=lambda: False)
    history = History()
    actions = run(history, condenser(llm, path_index_chars=200), 60, size=400)
    assert actions
    for action in actions:
        assert len(action.summary) <= 2_000
        assert "<turn " in action.summary


def test_the_record_is_in_the_state() -> None:
    history = History()
    for _ in range(20):
        history.turn()
    state = history.state()
    ours = Condenser.from_config(
        CliffCondenserConfig(type="cliff", threshold_tokens=THRESHOLD), SimpleNamespace(service_to_llm={})
    )
    assert isinstance(ours.condensed_history(state), Condensation)
    (record,) = state.extra_data["condenser_meta"]
    assert record["cliff"]["number"] == 1
    assert record["cliff"]["tokens_after"] <= 0.75 * THRESHOLD < record["cliff"]["tokens_before"]
    assert record["cliff"]["reason"] == "threshold"
    json.dumps(record)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"treshold_tokens": 1}, "did you mean threshold_tokens"),
        ({"keep_turns": 0}, "keep_turns must be a whole number of at least 1"),
        ({"preset": "papier"}, "did you mean 'paper'"),
    ],
)
def test_mistakes(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        CliffCondenserConfig(type="cliff", **options)


def test_variables_go_over_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLIFF_KEEP_TURNS", "2")
    options = CliffCondenserConfig(type="cliff", keep_turns=5, threshold_tokens=9_000).options()
    assert (options.keep_turns, options.threshold_tokens) == (2, 9_000)


def test_preset_paper() -> None:
    history = History()
    actions = run(history, condenser(preset="paper"), 30)
    assert actions
    assert "<names>" not in actions[0].summary

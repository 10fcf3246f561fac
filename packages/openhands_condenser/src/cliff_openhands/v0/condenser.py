"""V0's condenser: where to cut and what the block says is the core's, the rest is the host's own mechanism.

The host keeps the whole history and hands it over with the view, so that the core sees all steps. A
`CondensationAction` names the events to forget and carries the block; the view shows the newest action's block only.
"""
# mypy: disable-error-code="import-not-found", disallow-subclassing-any=False

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from openhands.core.exceptions import LLMContextWindowExceedError
from openhands.core.logger import openhands_logger as logger
from openhands.events.action.agent import CondensationAction, CondensationRequestAction
from openhands.events.observation import AgentCondensationObservation
from openhands.memory.condenser.condenser import Condensation, Condenser
from openhands.memory.condenser.impl.conversation_window_condenser import ConversationWindowCondenser
from openhands.memory.view import View

from cliff_core import CliffConfig, decision, prices, tokens
from cliff_core.block import MESSAGE_TOKENS, OPENING, BlockWriter, Draft
from cliff_core.content import Turn
from cliff_core.tokens import Calibration
from cliff_openhands.failure import place
from cliff_openhands.previous import previous
from cliff_openhands.v0 import events
from cliff_openhands.v0.config import CliffCondenserConfig


class CliffCondenser(Condenser):
    """Cuts at a token threshold. Its record of each cliff is in the state, under the host's `condenser_meta`."""

    def __init__(self, config: CliffConfig, llm: Any = None) -> None:
        """`llm`: the agent's, for the size of its window; None where it is not known."""
        super().__init__()
        model = getattr(getattr(llm, "config", None), "model", None)
        self.config = config = prices.priced(config, model if isinstance(model, str) else None)
        self._llm = llm
        self._history: Sequence[Any] | None = None
        self._told = False
        # People's words stay in the view as they are: a block that repeats them would only be longer.
        self._writer = _Writer(config.replace(pin_directives=False), tokens.count, self._most_chars())

    @classmethod
    def from_config(cls, config: CliffCondenserConfig, llm_registry: Any = None) -> CliffCondenser:
        llm = getattr(llm_registry, "service_to_llm", {}).get("agent")
        condenser = cls(config.options(), llm)
        logger.info(
            "cliff is on: threshold %s, preset %s, tokenizer %s",
            "auto" if condenser.config.auto else f"{condenser.config.first_threshold} tokens",
            condenser.config.preset_name,
            tokens.vocabulary().name,
        )
        return condenser

    def condensed_history(self, state: Any) -> View | Condensation:
        # (Inside the host's pipeline `condense` is called alone: what the view still has must do there.)
        self._history = state.history
        return super().condensed_history(state)

    def condense(self, view: View) -> View | Condensation:
        """The view as it is, or what is to be forgotten of it.

        Raises the host's `LLMContextWindowExceedError` where the model rejected a request that cannot be made smaller:
        the host would send it again and again."""
        try:
            return self._condense(view)
        except LLMContextWindowExceedError:
            raise
        except Exception as error:
            logger.warning("cliff: the history is sent as it is: it could not be condensed (%s)", place(error))
        if view.unhandled_condensation_request:  # what the host does with it by default
            return ConversationWindowCondenser().get_condensation(view)
        return view

    def _condense(self, view: View) -> View | Condensation:
        history = list(view.events if self._history is None else self._history)
        gone = view.forgotten_event_ids
        log = events.read(history, self._most_chars(), self._vision())
        live = [any(identity not in gone for identity in step.ids) for step in log.steps]
        since = live.index(True) if True in live else len(live)
        turns = [step.turn(number, on) for number, (step, on) in enumerate(zip(log.steps, live, strict=True), 1)]
        block = next((e.content for e in view.events if isinstance(e, AgentCondensationObservation)), "")
        block_tokens = MESSAGE_TOKENS + tokens.count(block) if block else 0
        people = sum(step.people for step in log.steps)
        fixed = events.tool_tokens(history) + log.head_tokens + people
        corrected = self._calibration(history, log, turns, fixed - people + block_tokens, since).corrected
        rejected = None
        if view.unhandled_condensation_request:
            rejected = corrected(fixed + block_tokens + sum(turn.tokens for turn in turns[since:]))
        limit = self._limit()
        grown = decision.Grown(len(turns), corrected(fixed + sum(turn.tokens for turn in turns)) - corrected(fixed))
        self._tell(decision.effective_threshold(self.config, corrected(fixed), limit, grown))
        cut = decision.cliff(
            turns,
            self._writer.config,
            fixed,
            since=since,
            block_tokens=block_tokens,
            limit=limit,
            rejected=rejected,
            corrected=corrected,
            carried_names=previous(block).names if self._history is None else (),
            writer=self._writer,
            growth=grown,
        )
        if cut is None:
            if rejected is not None and not _asked_by_the_model(history):
                raise LLMContextWindowExceedError(
                    f"The model rejected a request of {rejected} tokens, and nothing is left to drop."
                )
            return view
        action = CondensationAction(
            forgotten_event_ids=events.forgotten(log.steps[since : cut.index], gone),
            summary=cut.block.text,
            summary_offset=sum(identity not in gone for identity in log.head),
        )
        earlier = (event.summary for event in history if isinstance(event, CondensationAction))
        self._record(1 + sum((summary or "").startswith(OPENING) for summary in earlier), cut, action)
        return Condensation(action=action)

    def _calibration(
        self, history: Sequence[Any], log: events.Log, turns: Sequence[Turn], before: int, since: int
    ) -> Calibration:
        """From the reports on the requests since the last condensation: those had the view as it is now.

        `before`: estimate for what stands before the steps."""
        last = max((event.id for event in history if isinstance(event, CondensationAction)), default=-1)
        calibration = Calibration()
        estimate = before + sum(step.people for step in log.steps[:since])
        for step, turn in zip(log.steps[since:], turns[since:], strict=True):
            if step.usage and step.ids and min(step.ids) > last:
                calibration = calibration.with_pair(estimate, step.usage)
            estimate += turn.tokens + step.people
        return calibration

    def _tell(self, threshold: int) -> None:
        if not self.config.auto and threshold > self.config.first_threshold and not self._told:
            self._told = True
            logger.warning(
                "cliff: threshold_tokens=%d is too small here: system prompt, tools, task and what people wrote leave "
                "too little room; %d is used, the smallest that works",
                self.config.first_threshold,
                threshold,
            )

    def _record(self, number: int, cut: decision.Cut, action: CondensationAction) -> None:
        logger.info(
            "cliff %d: %d -> %d tokens, %d live turns, threshold %d (%s)",
            number,
            cut.tokens_before,
            cut.tokens_after,
            cut.live_turns,
            cut.threshold,
            cut.reason,
        )
        dropped = cut.block.dropped
        self.add_metadata(
            "cliff",
            {
                "number": number,
                "events": len(action.forgotten),
                "live_turns": cut.live_turns,
                "tokens_before": cut.tokens_before,
                "tokens_after": cut.tokens_after,
                "threshold": cut.threshold,
                "reason": cut.reason,
                "dropped": {name: getattr(dropped, name) for name in type(dropped).__slots__},
            },
        )

    # --- what the host knows of the model ------------------------------------------------------------------

    def _most_chars(self) -> int | None:
        most = getattr(getattr(self._llm, "config", None), "max_message_chars", None)
        return most if isinstance(most, int) and most > 0 else None

    def _vision(self) -> bool:
        return self._llm is not None and bool(self._llm.vision_is_active())

    def _limit(self) -> int | None:
        known = getattr(self._llm, "config", None)
        return decision.window_limit(
            getattr(known, "max_input_tokens", None), getattr(known, "max_output_tokens", None)
        )


class _Writer(BlockWriter):
    """Blocks that the host does not cut in the middle: it shortens any observation of more characters."""

    def __init__(self, config: CliffConfig, count: Callable[[str], int], most_chars: int | None) -> None:
        super().__init__(config, count)
        self._most_chars = most_chars

    def draft(self, turns: Sequence[Turn], since: int, cut: int, carried_names: Sequence[str] = ()) -> Draft:
        draft = super().draft(turns, since, cut, carried_names)
        if self._most_chars is None:
            return draft
        excerpts = list(draft.excerpts)
        size = sum(map(len, (*draft.before, *draft.after))) + sum(len(excerpt.text) for excerpt in excerpts)
        for at, excerpt in enumerate(excerpts):  # the oldest go
            if size <= self._most_chars:
                break
            size -= len(excerpt.text)
            excerpts[at] = replace(excerpt, text="", tokens=0)
        return replace(draft, excerpts=tuple(excerpts))


def _asked_by_the_model(history: Sequence[Any]) -> bool:
    """Whether the newest request for a condensation is a tool call of the model's, and no rejection."""
    for event in reversed(history):
        if isinstance(event, CondensationRequestAction):
            return event.tool_call_metadata is not None
    return False


CliffCondenser.register_config(CliffCondenserConfig)

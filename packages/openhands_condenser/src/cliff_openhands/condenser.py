"""The condensers of V1: when a view is condensed, and the condensation.

    from cliff_openhands import CliffCondenser
    agent = Agent(llm=llm, tools=tools, condenser=CliffCondenser(threshold_tokens=16_000))

A condensation forgets every turn before the cut, whole, and the previous block; the new block is its summary, at the
end of the head. Messages of people are never forgotten. So what the model is sent is head, block, people's messages
and live turns.
"""
# mypy: disallow-subclassing-any=False, disallow-untyped-decorators=False

from __future__ import annotations

import hashlib
import logging
import typing
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import PrivateAttr, create_model, model_validator  # type: ignore[import-not-found, unused-ignore]

from cliff_core import CliffConfig, ConfigError, decision, prices
from cliff_core.block import OPENING
from cliff_core.config import OPTIONS
from cliff_core.content import Directive, Message, Turn
from cliff_core.decision import Cut, Grown
from cliff_core.tokens import Calibration, vocabulary
from cliff_openhands import events as its
from cliff_openhands.failure import place
from cliff_openhands.host import (
    Condensation,
    CondensationRequirement,
    LLMSummarizingCondenser,
    NoCondensationAvailableException,
    RollingCondenser,
    allowed_cuts,
    enforced,
    window,
)
from cliff_openhands.previous import Previous, previous
from cliff_openhands.record import record

logger = logging.getLogger("cliff_openhands")

_HINTS = typing.get_type_hints(CliffConfig)
_FIELDS: Any = {option: (_HINTS[attribute] | None, None) for option, attribute in OPTIONS.items()}

_Options: Any = create_model("_Options", **_FIELDS)
"""The options of `CliffConfig` as fields. None: the `CLIFF_*` variable, else the preset's value; so a default is
written down once, and a dump holds what was set and nothing else."""


class CliffMixin(_Options):  # type: ignore[misc, unused-ignore]
    """What both condensers have in common."""

    _config: CliffConfig = PrivateAttr()
    """All options, environment and preset applied."""

    @model_validator(mode="before")
    @classmethod
    def _check_names_and_values(cls, data: Any) -> Any:
        """A wrong name or value is an error that says what was meant; the SDK would ignore a wrong name."""
        if not isinstance(data, Mapping):
            return data
        hosts = set(cls.model_fields) - set(OPTIONS) | {"kind"}
        options = {n: v for n, v in data.items() if n not in hosts and (v is not None or n not in OPTIONS)}
        preset = options.get("preset", "default")
        try:
            config = CliffConfig.preset(preset, **{n: v for n, v in options.items() if n != "preset"})
            if options.get("merge_block") and config.merge_block:
                raise ConfigError(
                    "merge_block is not to be had: OpenHands places the block (and joins it from 1.34 on)"
                )
        except ConfigError as error:
            raise ValueError(f"{cls.__name__}: {error}") from None
        return {**data, **{n: v for n, v in config.as_dict().items() if n in options}}

    def model_post_init(self, context: Any, /) -> None:
        super().model_post_init(context)
        options = {name: value for name in OPTIONS if (value := getattr(self, name)) is not None}
        try:
            self._config = CliffConfig.from_env(**options)
        except ConfigError as error:
            raise ValueError(f"{type(self).__name__}: {error}") from None

    @property
    def config(self) -> CliffConfig:
        """All options, environment and preset applied."""
        return self._config

    def handles_condensation_requests(self) -> bool:
        return True

    def condensation_requirement(self, view: Any, agent_llm: Any = None) -> Any:
        """HARD where the agent or a person asked for it, SOFT above the threshold: then the view is sent as it is
        when there is nothing to gain."""
        if view.unhandled_condensation_request:
            return CondensationRequirement.HARD
        try:
            look = Look(view.events, self._config, agent_llm)
            look.tell()
            return CondensationRequirement.SOFT if look.tokens > look.threshold else None
        except Exception as error:  # fail open: the view as it is
            logger.warning("cliff: this view could not be measured and is sent as it is (%s)", place(error))
            return None

    def get_condensation(self, view: Any, agent_llm: Any = None) -> Any:
        """Raises `NoCondensationAvailableException` where nothing is gained, or something of ours failed."""
        forced = bool(view.unhandled_condensation_request)
        try:
            look = Look(view.events, self._config, agent_llm)
            found = look.condensation(forced)
            if found is not None:
                record(found[1])
                return found[0]
        except Exception as error:  # fail open: the view as it is; after a request, the simple reset
            logger.warning("cliff: this view could not be condensed (%s)", place(error))
            raise NoCondensationAvailableException(f"cliff failed: {place(error)}") from error
        raise NoCondensationAvailableException(
            "cliff: nothing is left to drop but the system prompt, the task and the user's messages"
            if forced
            else "cliff: a cut would gain too little"
        )

    def hard_context_reset(self, view: Any, agent_llm: Any = None) -> Any:
        """The last resort after a request: forget all but the head and people's messages, without a block.

        None where nothing of that is left: the host then ends the run with its error, in place of asking again."""
        events = list(view.events)
        left = enforced(events)
        kept = {e.id for i, e in enumerate(left) if i < its.head_size(left) or its.stays(e)}
        gone = [event.id for event in events if event.id not in kept]
        if its.is_waiting(events):
            return None
        if not gone:
            return None
        logger.warning("cliff: everything but the task and the user's messages is dropped (%d events)", len(gone))
        event_id = _event_id(events)
        return Condensation(id=event_id, forgotten_event_ids=gone, llm_response_id=f"cliff-{event_id}")

    async def aget_condensation(self, view: Any, agent_llm: Any = None) -> Any:
        return self.get_condensation(view, agent_llm=agent_llm)

    async def ahard_context_reset(self, view: Any, agent_llm: Any = None) -> Any:
        return self.hard_context_reset(view, agent_llm=agent_llm)


class CliffCondenser(CliffMixin, RollingCondenser):
    """Keeps long sessions under a token threshold without a call to a model. Options: those of `CliffConfig`."""


class CliffCLICondenser(CliffMixin, LLMSummarizingCondenser):
    """The same for the `openhands` command, which keeps only condensers of this base; its `llm` is never called."""


# --- one look at a view --------------------------------------------------------------------------------------


class Look:
    """One view, measured: a pure function of its events, the options and the model's recorded usage."""

    def __init__(self, events: Sequence[Any], config: CliffConfig, llm: Any = None) -> None:
        self.config = config = prices.priced(config, getattr(llm, "model", None))
        self.given = list(events)
        self.events = enforced(events)
        """What a reload would keep: live and reloaded view decide alike."""
        self.head = its.head_size(self.events)
        self.steps = its.steps(self.events, self.head)
        self.blocks = [event for event in self.events if its.is_block(event)]
        self.fixed = sum(its.size(e) for i, e in enumerate(self.events) if i < self.head or its.stays(e))
        self.estimate = sum(map(its.size, self.events))
        self.corrected = self._calibration(llm).corrected
        self.limit = decision.window_limit(*window(llm))
        self.tokens = self.corrected(self.estimate)
        self.grown = self._grown()
        self.threshold = decision.effective_threshold(config, self.corrected(self.fixed), self.limit, self.grown)

    def condensation(self, forced: bool) -> tuple[Any, dict[str, Any]] | None:
        """The condensation and its record, or None where the view stays as it is."""
        if its.is_waiting(self.given):
            return None
        earlier = previous(self.blocks[-1].summary) if self.blocks else Previous()
        turns = [self._lead(earlier), *(self._turn(earlier.last_turn + n, s) for n, s in enumerate(self.steps, 1))]
        starts = [self.head, *(step.start for step in self.steps), len(self.events)]
        # The first position is that of the lead, the second that of the first turn: only a request cuts there.
        allowed = allowed_cuts(self.events)
        legal = {position for position in range(1 if forced else 2, len(starts)) if starts[position] in allowed}
        while True:
            cut = decision.cliff(
                turns,
                self.config,
                self.fixed,
                block_tokens=sum(map(its.size, self.blocks)),
                legal=legal,
                limit=self.limit,
                rejected=self.tokens if forced else None,
                growth=self.grown,
                corrected=self.corrected,
                carried_names=earlier.names,
            )
            if cut is None:
                if not forced and len(self.steps) > 1 and not legal - {len(starts) - 1}:
                    _tell(
                        self._conversation(),
                        "cliff: %d tokens are above the threshold of %d, but OpenHands allows no cut in this loop of "
                        "steps with thinking: it is left whole",
                        self.tokens,
                        self.threshold,
                    )
                return None
            forgotten = self._forgotten(starts[cut.index])
            gone = set(forgotten)
            kept = [event for event in self.events if event.id not in gone]
            if len(enforced(kept, self.events)) == len(kept):
                return self._condensation(cut, forgotten, self.events[starts[cut.index] :])
            legal.discard(cut.index)  # a reload would drop more

    def tell(self) -> None:
        """Say once in a conversation that it is watched, and that the threshold cannot work."""
        config, conversation = self.config, self._conversation()
        _tell(
            conversation,
            "cliff is on: threshold %s, preset %s, tokenizer %s",
            "auto" if config.auto else f"{self.threshold} tokens",
            config.preset_name,
            vocabulary().name,
            level=logging.INFO,
        )
        least = decision.effective_threshold(config, self.corrected(self.fixed))
        if not config.auto and least > config.first_threshold:
            _tell(
                conversation,
                "cliff: system prompt, tools, task and the user's messages have %d tokens: a threshold of %d is "
                "raised to %d",
                self.corrected(self.fixed),
                config.first_threshold,
                self.threshold,
            )

    def _conversation(self) -> str:
        return self.events[0].id if self.events else ""

    def _grown(self) -> Grown:
        """What the steps in the view have grown by: those that a condensation forgot are not there to count."""
        start = self.steps[0].start if self.steps else len(self.events)
        tokens = sum(its.size(e) for e in self.events[start:] if not its.stays(e) and not its.is_block(e))
        return Grown(len(self.steps), self.corrected(self.fixed + tokens) - self.corrected(self.fixed))

    def _lead(self, earlier: Previous) -> Turn:
        """What stands between the head and the first turn, and the words of people that the last block hands on."""
        messages = []
        if earlier.directives and self.config.pin_directives:
            # Counted with the block that they stand in.
            messages.append(Message("user", tuple(map(Directive, earlier.directives))))
        end = self.steps[0].start if self.steps else len(self.events)
        return Turn(0, 0, (*messages, *self._messages(self.head, end)))

    def _turn(self, number: int, step: its.Step) -> Turn:
        return Turn(number, step.start, tuple(self._messages(step.start, step.end)))

    def _messages(self, start: int, end: int) -> list[Message]:
        """Messages that a cut forgets."""
        return [its.message(e) for e in self.events[start:end] if not its.stays(e) and not its.is_block(e)]

    def _forgotten(self, end: int) -> list[str]:
        """Ids of what goes with a cut before index `end`: all turns before it, every block, and what a reload
        would drop anyway."""
        kept = {e.id for i, e in enumerate(self.events) if i < self.head or i >= end or its.stays(e)}
        kept -= {event.id for event in self.blocks}
        return [event.id for event in self.given if event.id not in kept]

    def _condensation(self, cut: Cut, forgotten: list[str], live: list[Any]) -> tuple[Any, dict[str, Any]]:
        event_id = _event_id(self.events)
        condensation = Condensation(
            id=event_id,
            forgotten_event_ids=forgotten,
            summary=cut.block.text,
            summary_offset=self.head,
            llm_response_id=f"cliff-{event_id}",
        )
        dropped = cut.block.dropped
        entry = {
            "condensation": event_id,
            "reason": cut.reason,
            "tokens_before": cut.tokens_before,
            "tokens_after": cut.tokens_after,
            "threshold": cut.threshold,
            "cut": live[0].id if live else None,
            "live_turns": cut.live_turns,
            "dropped": {
                "events": len(forgotten),
                "turns": cut.index - 1,
                "results": dropped.results,
                "characters": dropped.characters,
                "excerpts": dropped.excerpts,
            },
        }
        return condensation, entry

    def _calibration(self, llm: Any) -> Calibration:
        """What the provider counted for the requests of this growth segment.

        A step's request was the view before it, unless the view was condensed since: those usages are left out.
        All of it is in the conversation's own record, so a restart finds the same."""
        after = 0
        if self.blocks:
            if not self.blocks[-1].summary.startswith(OPENING):
                return Calibration()
            mark = self.blocks[-1].id[:_MARK_CHARS]
            after = 1 + max((i for i, event in enumerate(self.events) if _mark(event) == mark), default=-1)
        reported = _usages(llm)
        calibration = Calibration()
        estimate = position = 0
        for step in self.steps:
            estimate += sum(map(its.size, self.events[position : step.start]))
            position = step.start
            response = getattr(self.events[step.start], "llm_response_id", None)
            if step.start >= after and response in reported:
                calibration = calibration.with_pair(estimate, reported[response])
        return calibration


def _usages(llm: Any) -> dict[str, int]:
    """Prompt tokens, cached ones included, by response; a response's id that came twice says nothing."""
    found: dict[str, int] = {}
    twice = set()
    for usage in getattr(getattr(llm, "metrics", None), "token_usages", None) or ():
        if usage.response_id in found:
            twice.add(usage.response_id)
        found[usage.response_id] = usage.prompt_tokens
    return {response: tokens for response, tokens in found.items() if response and response not in twice}


_MARK_CHARS = len("xxxxxxxx-xxxx")


def _mark(event: Any) -> str:
    digest = hashlib.sha256(event.id.encode()).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}"


def _event_id(events: Sequence[Any]) -> str:
    """An id for a condensation that begins with the mark of the newest event then: it tells later which usages
    are of requests before it. The rest is random, since a conversation can be taken back to the same event."""
    return _mark(events[-1]) + str(uuid.uuid4())[_MARK_CHARS:]


_told: set[tuple[str, str]] = set()


def _tell(conversation: str, text: str, *arguments: Any, level: int = logging.WARNING) -> None:
    """Log once a conversation."""
    if (conversation, text) not in _told:
        _told.add((conversation, text))
        logger.log(level, text, *arguments)

"""One conversation: what is sent in its place, the whole history, and the record. It knows neither host.

A host's `Chat` has a list `_messages`, to which it appends the prompt and the answer after each request. Before a
request the list becomes the view of the history (without the pending prompt, which the host sends after it): the host
sends, counts and records what is sent. The history itself is kept here.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cliff_core import Cliff, Compactor, Fact, View, tokens
from cliff_core.decision import effective_threshold, room
from cliff_terminus2.dialect import PART, Mark, Said, TerminusDialect
from cliff_terminus2.options import Options

LEAST_BYTES = 1_000
"""A prompt is not cut to less: the host's own sentences at its ends must stay."""

Limit = Callable[[str, int], str]
"""The host's own way to cut an output in its middle: text, most bytes -> text (`_limit_output_length`)."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request: `prompt` is the host's, but for a newest observation that had to be cut."""

    prompt: str
    view: View | None = None


class Off:
    """A conversation that is sent as it is."""

    def __init__(self, options: Options) -> None:
        self.options = options

    def request(self, prompt: str) -> Request:
        return Request(prompt)

    def smaller(self, request: Request, limit: int | None = None) -> Request | None:
        return None

    def answered(self, request: Request, input_tokens: int | None = None) -> None:
        pass

    def messages(self) -> list[Any] | None:
        return None

    def record(self) -> dict[str, Any]:
        return {"summarizer": self.options.summarizer}


class Session(Off):
    """The compaction of one conversation, that of `chat`.

    `cut` is the host's way to shorten an output, `facts` are known from the start (the model's window), `told` is
    called for each cliff whose request was answered, with the block."""

    def __init__(
        self,
        chat: Any,
        options: Options,
        dialect: TerminusDialect,
        cut: Limit,
        logger: logging.Logger,
        facts: Sequence[Fact] = (),
        told: Callable[[dict[str, Any], str], None] = lambda cliff, block: None,
    ) -> None:
        super().__init__(options)
        self.chat = chat
        self.dialect = dialect
        self.compactor = Compactor(dialect, options.config, facts)
        self.cliffs: list[dict[str, Any]] = []
        self.requests = self.rejections = self.cut_prompts = 0
        self._cut, self._logger, self._told = cut, logger, told
        self._history: list[dict[str, Any]] = []
        self._whole: dict[int, str] = {}
        """Place in the history of a prompt that was cut -> its whole text."""
        self._seen: list[Any] = []
        """The host's list as it was after the last look at it."""
        self._pending = Said()
        self._parts: tuple[Mark, ...] = ()
        """`PART` once the pending prompt had to become a turn of its own."""
        self._open: Request | None = None
        self._window = min((fact["value"] for fact in facts if fact["kind"] == "limit"), default=None)
        self._threshold = effective_threshold(options.config, 0, self._window)
        logger.info(
            "cliff is on: threshold %s (%s), preset %s, tokenizer %s",
            "auto" if options.config.auto else f"{self._threshold} tokens",
            options.source if options.config.auto else self._source(),
            options.config.preset_name,
            tokens.vocabulary().name,
        )

    # --- requests ------------------------------------------------------------------------------------------

    def request(self, prompt: str) -> Request:
        """What to send for the conversation and this prompt: the host's list is changed to it."""
        self._take()
        self._pending, self._parts = self._after_reply({"role": "user", "content": prompt}), ()
        return self._placed(self.compactor.view(self._whole_history()), prompt)

    def smaller(self, request: Request, limit: int | None = None) -> Request | None:
        """The request was rejected as too long: the next smaller one; None when nothing is left to drop.

        `limit`: tokens that the provider takes, where it said so. Live turns go first, then the excerpts, then the
        middle of the pending prompt (never that of the first message)."""
        self.rejections += 1
        rejected = request.view
        if rejected is None or rejected.failed or not self._history or self._open is not request:
            return None
        prompt = self._whole.get(len(self._history) + len(self._parts), request.prompt)
        if not self._parts:
            view = self.compactor.overflowed(self._whole_history(), limit)
            if view is not None and self._keeps(view):
                return self._placed(view, prompt)
        view = self._alone(rejected.tokens, limit) or self._shortened(prompt, rejected.tokens)
        if view is None:
            self._logger.warning("cliff: the model rejected about %d tokens; nothing is left to drop", rejected.tokens)
            return None
        return self._placed(view, prompt)

    def answered(self, request: Request, input_tokens: int | None = None) -> None:
        """The request was answered; `input_tokens` as the provider counted them, cache reads and writes included."""
        if request is not self._open or request.view is None:
            return  # the host has asked again meanwhile: its answer was too long
        self._open = None
        self.requests += 1
        self.compactor.observe(request.view, input_tokens)
        if request.view.cliff is not None and request.view.block is not None:
            self._record(request.view.cliff, request.view.block)

    def _keeps(self, view: View) -> bool:
        """Whether the pending prompt stands at the end of a view."""
        return bool(view.messages) and view.messages[-1] is self._pending

    def _placed(self, view: View, whole: str) -> Request:
        sent = [message for message in view.messages if not isinstance(message, Mark)]
        if sent[:-1] != self.chat._messages:
            self.chat._messages = sent[:-1]
            reset = getattr(self.chat, "reset_response_chain", None)  # Harbor: the provider knows another history
            if reset is not None:
                reset()
        self._seen = list(self.chat._messages)
        self._threshold = view.threshold
        prompt: str = sent[-1]["content"]
        place = len(self._history) + len(self._parts)
        self._whole.pop(place, None)
        if prompt != whole:
            self._whole[place] = whole
        self._open = Request(prompt, view)
        return self._open

    def _alone(self, rejected: int, limit: int | None) -> View | None:
        """A smaller view in which at least the pending prompt stays; None if there is none.

        The prompt becomes a turn of its own, and the cliff is forced before that turn: on all but the prompt, to less
        and less."""
        before = len(self._history) + 1
        known = self.compactor.facts
        facts = [fact for fact in known if fact["at"] < before or fact["kind"] == "usage"]
        limits = [fact["value"] for fact in known if fact["kind"] == "limit"]
        self._parts = PART
        later = len(self._whole_history()) + 1  # no second cliff in this request for what it has just taught
        facts.append({"at": later, "kind": "limit", "value": min([limit or rejected, *limits])})
        rest = rejected - tokens.count(self._pending["content"])
        for share in (1.25, 0.75, 0.5, 0.25):  # a forced cliff aims at a quarter less than what it is told
            forced = {"at": before, "kind": "forced", "value": max(1, int(share * rest))}
            compactor = Compactor(self.dialect, self.options.config, [*facts, forced])
            view = self._parted(compactor, rejected)
            if view is not None:
                self.compactor = compactor
                return view
        return None

    def _shortened(self, prompt: str, rejected: int) -> View | None:
        """The pending prompt cut in its middle, to the largest half, quarter, … that gives a smaller view."""
        size = len(self._pending["content"].encode())
        while (size := size // 2) >= LEAST_BYTES:
            self._pending = self._after_reply({"role": "user", "content": self._cut(prompt, size)})
            view = self._parted(self.compactor, rejected)
            if view is not None:
                self.cut_prompts += 1
                self._logger.warning("cliff: the newest observation was cut to %d bytes, to fit at all", size)
                return view
        return None

    def _parted(self, compactor: Compactor, rejected: int) -> View | None:
        """The view with the pending prompt as a turn of its own, if it is smaller than the one that was rejected.

        No second cliff may follow the one before that turn: its block was never shown."""
        first = compactor.view([*self._history, *PART])
        view = compactor.view(self._whole_history())
        if not self._keeps(view) or view.tokens >= rejected or view.cut != first.cut:
            return None
        cliff = first.cliff
        if cliff is not None:
            cliff = replace(cliff, tokens_before=rejected, tokens_after=view.tokens)
        return replace(view, cliff=cliff)

    # --- the history ---------------------------------------------------------------------------------------

    def _whole_history(self) -> list[dict[str, Any]]:
        return [*self._history, *self._parts, self._pending]

    def _take(self) -> None:
        """Take in what the host appended since the last look."""
        found = self.chat._messages
        if len(found) < len(self._seen) or any(a is not b and a != b for a, b in zip(self._seen, found, strict=False)):
            self._logger.warning("cliff: the host's messages were changed by another hand; they are compacted anew")
            self._history, self._seen, self._whole, self._open = [], [], {}, None
            self.compactor = Compactor(self.dialect, self.options.config, _of_the_model(self.compactor.facts))
        new = found[len(self._seen) :]
        if self._open is not None and any(message.get("role") == "assistant" for message in new):
            self.answered(self._open)  # by an answer that was too long
        if new:
            self._history += self._parts
        self._parts = ()
        for message in new:
            self._history.append(self._after_reply(message))
        self._seen = list(found)

    def _after_reply(self, message: dict[str, Any]) -> Said:
        """A message of the host, with what was typed before it."""
        said = Said(message)
        if message.get("role") == "user":
            texts = (m.get("content") for m in reversed(self._history) if m.get("role") == "assistant")
            text = next(texts, None)
            said.typed = self.dialect.keystrokes(text) if isinstance(text, str) else ()
        return said

    def messages(self) -> list[Any] | None:
        """All messages of the conversation, as the host would have them without compaction."""
        self._take()
        return [
            {**message, "content": self._whole[place]} if place in self._whole else dict(message)
            for place, message in enumerate(self._history)
            if not isinstance(message, Mark)
        ]

    # --- the record ----------------------------------------------------------------------------------------

    def _record(self, cliff: Cliff, block: str) -> None:
        marks = sum(isinstance(message, Mark) for message in self._whole_history()[: cliff.cut])
        entry = {**cliff.as_dict(), "cut": cliff.cut - marks, "request": self.requests, "block_characters": len(block)}
        self.cliffs.append(entry)
        self._logger.info(
            "cliff %d: %d -> %d tokens, %d live turns, threshold %d (%s)",
            *(entry[name] for name in ("number", "tokens_before", "tokens_after", "live_turns", "threshold", "reason")),
        )
        self._told(entry, block)

    def record(self) -> dict[str, Any]:
        """What goes into the host's result, ready for JSON. `request` of a cliff counts answered requests from 1."""
        config = self.options.config
        return {
            "summarizer": "cliff",
            "threshold": {"tokens": self._threshold, "source": self._source()},
            "options": config.as_dict(),
            "tokenizer": tokens.vocabulary().name,
            "requests": self.requests,
            "rejections": self.rejections,
            "cut_prompts": self.cut_prompts,
            "cliffs": json.loads(json.dumps(self.cliffs)),
        }

    def _source(self) -> str:
        """Where the threshold in force came from."""
        asked = self.options.config.first_threshold
        limit = min((fact["value"] for fact in self.compactor.facts if fact["kind"] == "limit"), default=None)
        if limit is not None and self._threshold == room(limit) != asked:
            return "window" if limit == self._window else "rejection"
        if self.options.config.auto:
            return "auto"
        return "raised" if self._threshold > asked else self.options.source


def _of_the_model(facts: Iterable[Fact]) -> list[Fact]:
    return [{**fact, "at": 0} for fact in facts if fact["kind"] == "limit"]

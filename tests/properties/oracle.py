"""What DESIGN.md says, computed a second time from the messages themselves.

Roles, calls and results are read from the native messages here, not by the dialects; turns, pairs, the parse of a
block and the figures are written from DESIGN.md and the docstring of `block.py`. Only the counting of a message's
contents is the dialect's: it has tests of its own.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from cliff_core import CliffConfig, View
from cliff_core.block import DIRECTIVES_OPENING, MESSAGE_TOKENS, OPENING
from cliff_core.content import Message, ToolCall, ToolResult, counted
from cliff_core.dialects import Dialect
from cliff_core.tokens import Calibration


def characters(texts: Sequence[str]) -> list[int]:
    """A character is a token: counts are exact, fast, and add up."""
    return [len(text) for text in texts]


# --- reading native messages ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Native:
    """What pairing needs of a message. `parts`: ("call" | "result", id) in order; hosted calls are left out, and
    what they return is no result of the client's."""

    role: str
    parts: tuple[tuple[str, str], ...] = ()
    hosted: bool = False
    """It has a call that ran at the provider."""


_HOSTED_ITEMS = {"web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_call"}


def native(message: Any, dialect: str) -> Native:
    role = message.get("role")
    if dialect == "responses":
        return _responses(message)
    if dialect == "chat":
        if role == "assistant":
            calls = message.get("tool_calls") or ()
            return Native("model", tuple(("call", call["id"]) for call in calls))
        if role == "tool":
            return Native("tool", (("result", message["tool_call_id"]),))
        return Native("system" if role in ("system", "developer") else "user")
    blocks = message["content"] if isinstance(message["content"], list) else []
    blocks = [block for block in blocks if isinstance(block, dict)]
    if role == "assistant":
        hosted = any(b["type"] in ("server_tool_use", "mcp_tool_use") for b in blocks)
        return Native("model", tuple(("call", b["id"]) for b in blocks if b["type"] == "tool_use"), hosted)
    if role == "system":
        return Native("system")
    results = tuple(("result", b["tool_use_id"]) for b in blocks if b["type"] == "tool_result")
    return Native("tool" if results and len(results) == len(blocks) else "user", results)


def _responses(item: Any) -> Native:
    kind = item.get("type", "message")
    if kind == "message":
        role = {"assistant": "model", "user": "user"}.get(item.get("role"), "system")
        return Native(role)
    if kind == "compaction_trigger":
        return Native("trigger")
    if kind == "additional_tools":
        return Native("system")
    if kind.endswith("_output"):
        return Native("tool", (("result", item["call_id"]),))
    if kind in _HOSTED_ITEMS:
        return Native("model", hosted=True)
    if kind.endswith("_call"):
        return Native("model", (("call", item["call_id"]),))
    return Native("model")


def as_parsed(message: Message) -> Native:
    """The same for messages of which only their dialect knows what they are (recorded text actions)."""
    parts = []
    hosted = False
    for content in message.contents:
        if isinstance(content, ToolCall):
            hosted |= content.hosted
            if not content.hosted:
                parts.append(("call", content.id))
        elif isinstance(content, ToolResult) and message.role != "model":
            parts.append(("result", content.call_id))
    return Native(message.role, tuple(parts), hosted)


@dataclass(frozen=True)
class Shape:
    """Head and turns of a history."""

    roles: tuple[str, ...]
    head: int
    starts: tuple[int, ...]

    def turn(self, index: int) -> int:
        """Number of the turn (from 1) that message `index` belongs to; 0 in the head."""
        number = 0
        for start in self.starts:
            if start > index:
                break
            number += 1
        return number


def shape(natives: Sequence[Native]) -> Shape:
    roles = tuple(n.role for n in natives)
    head = len(roles)
    user = False
    for index, one in enumerate(natives):
        user = user or one.role == "user"
        called = one.hosted or any(kind == "call" for kind, _ in one.parts)
        if one.role == "model" and (user or called):
            head = index
            break
    starts = tuple(i for i in range(head, len(roles)) if roles[i] == "model" and (i == head or roles[i - 1] != "model"))
    return Shape(roles, head, starts)


Place = tuple[int, int]
"""Index of a message, and of a part in it."""


GIVEN_UP = 8
"""Turns after which a call is no longer waited for, where nobody spoke."""


def _walk(
    natives: Sequence[Native], starts: Sequence[int], words: Iterable[int]
) -> Iterator[tuple[int, list[Place], dict[Place, Place | None]]]:
    """Before each turn and at the end: its number from 0, the calls that wait, the results so far.

    A result belongs to the first unanswered call of its id in its turn, else to one in an earlier turn. A call
    is given up when a person spoke since and the model went on, or after some turns."""
    found: dict[Place, Place | None] = {}
    spoken = {word for word in words if natives[word].role == "user"}
    waiting: list[tuple[str, Place, int]] = []
    turn = -1
    spoke = False
    begin = set(starts)
    for index, one in enumerate(natives):
        if index in begin:
            turn += 1
            waiting = [] if spoke else [w for w in waiting if turn - w[2] <= GIVEN_UP]
            spoke = False
            yield turn, [w[1] for w in waiting], found
        spoke = spoke or index in spoken
        for part, (kind, ident) in enumerate(one.parts):
            if kind == "call":
                waiting.append((ident, (index, part), turn))
                continue
            same = [w for w in waiting if not ident or w[0] == ident]
            match = next((w for w in same if w[2] == turn), same[0] if same else None)
            found[(index, part)] = match[1] if match else None
            if match:
                waiting.remove(match)
    yield turn + 1, [w[1] for w in waiting], found


def pairs(natives: Sequence[Native], starts: Sequence[int], words: Iterable[int]) -> dict[Place, Place | None]:
    """Each result's call, or None. `words`: indices of messages in which a person speaks."""
    *_, (_, _, found) = _walk(natives, starts, words)
    return found


def open_cuts(natives: Sequence[Native], starts: Sequence[int], words: Iterable[int]) -> set[int]:
    """Turns (from 0; their number is the end) before which no call waits."""
    return {turn for turn, waiting, _ in _walk(natives, starts, words) if not waiting}


_ATTACHED = {"image", "image_url", "input_image", "document", "file", "input_file", "tool_addition"}


def must_stay(message: Any) -> bool:
    """Whether a message after the head is pinned (DESIGN.md section 2; a provider's compaction aside): a person's
    attachments, tools that were loaded, changes of the tool list."""
    if message.get("type") in ("tool_search_output", "additional_tools"):
        return True
    parts = message.get("content")
    if not isinstance(parts, list) or message.get("role") not in ("user", "system", "developer"):
        return False
    parts = [part for part in parts if isinstance(part, dict)]
    loaded = [
        inner
        for part in parts
        if part.get("type") == "tool_result" and isinstance(part.get("content"), list)
        for inner in part["content"]
    ]
    return any(part.get("type") in _ATTACHED for part in parts) or any(
        isinstance(inner, dict) and inner.get("type") == "tool_reference" for inner in loaded
    )


def leaves(value: Any) -> Iterable[str]:
    """All texts in a JSON value, its keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield str(key)
            yield from leaves(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from leaves(inner)


def wire(value: Any) -> str:
    """The bytes that go out for it, without cache markers."""
    return json.dumps(unmarked(value), ensure_ascii=True)


def stable(message: dict[str, Any]) -> str:
    """The same, where a client may also turn a text into a list of one text when it moves a marker."""
    content = unmarked(message).get("content")
    if isinstance(content, list) and len(content) == 1 and set(content[0]) == {"type", "text"}:
        return wire({**message, "content": content[0]["text"]})
    return wire(message)


def unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: unmarked(v) for k, v in value.items() if k != "cache_control"}
    if isinstance(value, list):
        return [unmarked(v) for v in value]
    return value


# --- the block ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    tag: str
    text: str
    more: int = 0
    error: bool = False
    dropped: tuple[tuple[int, str], ...] = ()

    @property
    def gone(self) -> int:
        """Characters of a result that the block says are gone."""
        whole = sum(n for n, kind in self.dropped if kind == "characters")
        halves = pieces(self)
        if len(halves) == 1:
            return whole
        gap = _GAP.match(self.text, len(halves[0]))
        return whole + int(gap[1] if gap else 0)


@dataclass
class Parsed:
    names: list[str] = field(default_factory=list)
    turns: dict[int, list[Part]] = field(default_factory=dict)
    notes: list[Part] = field(default_factory=list)
    directives: list[Part] = field(default_factory=list)


_OPEN = re.compile(r'<(thought|call|result|user|note)(-[0-9]+)?((?: [a-z]+="[^"<>\n]*")*)(/?)>')
_ATTRIBUTE = re.compile(r' ([a-z]+)="([^"]*)"')
_KINDS = re.compile(r"[0-9]+ [\w.:/ -]{1,80}")
_NAMES = re.compile(r"<names(-[0-9]+)?>\n")
_TURN = re.compile(r"<turn ([0-9]+)>\n")
_GAP = re.compile(r"\n\[… ([0-9]+) characters …\]\n")


def parse_block(text: str, config: CliffConfig) -> Parsed:
    """The block by the grammar in `block.py`'s docstring; an assertion fails where a character does not fit."""
    assert text.startswith(OPENING), text[:80]
    at = len(OPENING)
    parsed = Parsed()
    if opened := _NAMES.match(text, at):
        at = opened.end()
        close = f"</names{opened[1] or ''}>"
        end = text.index(close, at)
        assert text.startswith(f"{close}\n", end), f"a name closes the list: {text[end - 40 : end + 40]!r}"
        parsed.names = text[at:end].split("\n")
        assert parsed.names.pop() == "", "the list of names does not end with a line"
        at = end + len(close) + 1
    current: list[Part] | None = None
    directives = False
    while at < len(text):
        if turn := _TURN.match(text, at):
            assert not directives, "a turn after the directives"
            assert not parsed.notes, "a turn after the notes"
            number = int(turn[1])
            assert number > max(parsed.turns, default=0), "turns are not in their order"
            current = parsed.turns[number] = []
            at = turn.end()
            continue
        if text.startswith(DIRECTIVES_OPENING, at) and not directives:
            directives = True
            at += len(DIRECTIVES_OPENING)
            continue
        part, at = _excerpt(text, at)
        if directives:
            assert part.tag == "user", f"{part.tag} among the directives"
            parsed.directives.append(part)
        elif part.tag == "note" and config.notes == "newest":
            parsed.notes.append(part)
        else:
            assert current is not None, f"{part.tag} outside a turn"
            assert not parsed.notes, f"{part.tag} after the notes"
            assert part.tag != "user" or not config.pin_directives, "a directive within its turn"
            current.append(part)
    assert config.pin_directives or not directives
    return parsed


def _excerpt(text: str, at: int) -> tuple[Part, int]:
    """The excerpt that begins at `at`, and where it ends."""
    opened = _OPEN.match(text, at)
    assert opened, f"no marker at {at}: {text[max(0, at - 40) : at + 60]!r}"
    tag, suffix, attributes, empty = opened.groups()
    inner = ""
    at = opened.end()
    if not empty:
        close = f"</{tag}{suffix or ''}>"
        end = text.index(close, at)
        inner = text[at:end]
        at = end + len(close)
    assert text.startswith("\n", at), f"an excerpt closes its fence: {text[at - 20 : at + 60]!r}"
    return _part(tag, attributes, inner), at + 1


def _part(tag: str, attributes: str, inner: str) -> Part:
    found = dict(_ATTRIBUTE.findall(attributes))
    allowed = {"result": {"error", "dropped"}, "call": set()}.get(tag, {"more"})
    assert set(found) <= allowed, f"{tag} with {sorted(found)}"
    assert found.get("error") in (None, "true")
    dropped = []
    for item in filter(None, found.get("dropped", "").split(", ")):
        assert _KINDS.fullmatch(item), f"dropped={item!r}"
        amount, _, kind = item.partition(" ")
        dropped.append((int(amount), kind))
    return Part(tag, inner, int(found.get("more", 0)), "error" in found, tuple(dropped))


# --- excerpts -------------------------------------------------------------------------------------------------

_GLUE = re.compile(r"…|\[(?:\d+ (?:chars?|items?)|object)\]|[\s=]+")


def _argument_sources(value: Any) -> Iterable[str]:
    """Texts that a signature may have pieces of: names and values of arguments, as texts or as compact JSON."""
    if isinstance(value, str):
        yield value
        return
    yield json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from _argument_sources(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _argument_sources(inner)


def call_sources(message: Any) -> Iterable[str]:
    """Names and arguments of the calls in a message of any format."""
    for value in _objects(message):
        for key in ("arguments", "input", "action", "query", "code", "operation", "revised_prompt"):
            if key not in value:
                continue
            arguments = value[key]
            yield from _argument_sources(arguments)
            if isinstance(arguments, str):
                with suppress(ValueError):
                    yield from _argument_sources(json.loads(arguments, strict=False))
        for key in ("name", "type"):
            if isinstance(value.get(key), str):
                yield value[key]


def _objects(value: Any) -> Iterable[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for inner in value.values():
            yield from _objects(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _objects(inner)


class Sources:
    """The original texts of some messages."""

    def __init__(self, messages: Sequence[Any]) -> None:
        self._messages = messages
        self._texts = [text for message in messages for text in leaves(message)]
        # What no text holds parts the texts: a piece of the whole is a piece of one of them.
        self._whole = _PARTING.join(self._texts)
        self._calls: str | None = None

    def holds(self, excerpt: str) -> bool:
        """Whether an excerpt is a contiguous piece of one text."""
        return excerpt in self._whole

    def holds_lines(self, excerpt: str) -> bool:
        """The same for a result, whose texts stand on lines of their own where it has several: each is whole,
        but for white space at both ends."""
        if self.holds(excerpt):
            return True
        ends = {0}  # places up to which the excerpt is whole texts
        breaks = [at for at, character in enumerate(excerpt) if character == "\n"]
        whole = set(self._texts)
        for at in breaks:
            if any(excerpt[start:at] in whole if start else self._ends(excerpt[:at]) for start in ends if start <= at):
                ends.add(at + 1)
        return any(start and self._begins(excerpt[start:]) for start in ends)

    def begins(self, excerpt: str, more: int) -> bool:
        """Whether a text begins with it (white space aside) and has so many characters more."""
        return any(
            text.startswith(excerpt) and len(text) == len(excerpt) + more for text in map(str.strip, self._texts)
        )

    def argues(self, path: str) -> bool:
        """Whether it is a piece of a call's argument."""
        return path in self._arguments()

    def _ends(self, piece: str) -> bool:
        return any(text.endswith(piece) for text in self._texts)

    def _begins(self, piece: str) -> bool:
        return any(text.startswith(piece) for text in self._texts)

    def signs(self, signature: str) -> str | None:
        """The first piece of a signature that is in no name or argument of a call."""
        calls = self._arguments()
        for piece in _GLUE.split(signature):
            if piece and piece not in calls and not self._quoted(piece, calls):
                return piece
        return None

    def _arguments(self) -> str:
        if self._calls is None:
            self._calls = _PARTING.join(s for message in self._messages for s in call_sources(message))
        return self._calls

    @staticmethod
    def _quoted(piece: str, calls: str) -> bool:
        """Whether a piece of a quoted string follows its opening quote, in place of the whole string."""
        return any(
            piece[: quote.end()] in calls and piece[quote.end() :] in calls for quote in re.finditer("[\"']", piece)
        )


_PARTING = "\x1f\x1e"


def pieces(part: Part) -> list[str]:
    """The excerpts of a part: a long error has two, parted by the gap in its middle."""
    if part.tag == "result" and part.error:
        for gap in _GAP.finditer(part.text):
            if gap.start() == len(part.text) - gap.end():
                return [part.text[: gap.start()], part.text[gap.end() :]]
    return [part.text]


def result_text(dialect: str, message: Any, part: int) -> str | None:
    """The text of a result, without white space around it; None where it is no plain text, or not only the tool's."""
    if dialect not in ("chat", "anthropic", "responses"):
        return None
    if dialect == "anthropic":
        message = [block for block in message["content"] if block["type"] == "tool_result"][part]
    content = message.get("output" if dialect == "responses" else "content")
    if content is None:
        content = []
    if isinstance(content, list):
        content = "\n".join(t["text"] for t in content if isinstance(t, dict) and isinstance(t.get("text"), str))
    if not isinstance(content, str) or content.startswith(_SPOKEN):
        return None
    return content.strip()


_SPOKEN = ("The user doesn't want to proceed", "User has answered", "Your questions have been answered")


# --- figures --------------------------------------------------------------------------------------------------


class Counts:
    """Tokens of a history's messages, one by one."""

    def __init__(self, dialect: Dialect, count_many: Any = characters) -> None:
        self._dialect = dialect
        self._count_many = count_many
        self._known: dict[int, tuple[Any, Message]] = {}
        self._stable: dict[int, tuple[Any, str]] = {}

    def parsed(self, message: Any) -> Message:
        known = self._known.get(id(message))
        if known is None or known[0] is not message:
            parsed = self._dialect.parse(message)
            texts, tokens = counted(parsed.contents)
            tokens += MESSAGE_TOKENS + sum(self._count_many(texts))
            known = self._known[id(message)] = (message, parsed.with_tokens(tokens))
        return known[1]

    def stable(self, message: Any) -> str:
        known = self._stable.get(id(message))
        if known is None or known[0] is not message:
            known = self._stable[id(message)] = (message, stable(message))
        return known[1]

    def message(self, message: Any) -> int:
        return self.parsed(message).tokens

    def view(self, history: Sequence[Any], view: View, end: int | None = None) -> int:
        """Estimate of the request that `view` makes of the first `end` messages, without the fixed part."""
        end = len(history) if end is None else end
        tokens = sum(map(self.message, history[: view.head]))
        tokens += sum(self.message(history[index]) for index in view.pinned)
        tokens += sum(map(self.message, history[view.cut : end]))
        return tokens + self.block(view)

    def block(self, view: View) -> int:
        return 0 if view.block is None else MESSAGE_TOKENS + sum(self._count_many([view.block]))


@dataclass(frozen=True)
class Acting:
    """The facts that act at a point, folded from their list."""

    calibration: Calibration
    fixed: int
    limit: int | None


def acting(facts: Sequence[dict[str, Any]], at: int) -> Acting:
    calibration, fixed, limit = Calibration(), 0, None
    for fact in facts:
        if fact["kind"] == "usage" and fact["at"] < at:
            calibration = calibration.with_pair(fact["value"][1], fact["value"][0])
        elif fact["kind"] == "fixed" and fact["at"] <= at:
            fixed = fact["value"]
        elif fact["kind"] == "limit" and fact["at"] <= at:
            limit = fact["value"] if limit is None else min(limit, fact["value"])
    return Acting(calibration, fixed, limit)


@dataclass(frozen=True)
class Grown:
    """The turns before a point, and their tokens, corrected."""

    turns: int
    tokens: int


def threshold(config: CliffConfig, fixed: int, limit: int | None, grown: Grown) -> int:
    """T_eff of DESIGN.md section 4; `fixed` is F, corrected."""
    smallest = math.ceil((fixed + 2_000) / (1 - 0.15))
    if config.threshold_tokens == "auto":
        effective = automatic(config, fixed, limit, grown, smallest)
    else:
        effective = config.threshold_tokens
    if config.preset_name != "paper":
        effective = max(effective, smallest)
    return effective if limit is None else min(effective, int(0.95 * limit))


def goal(config: CliffConfig, fixed: int, threshold: int) -> int:
    """What a view may have at most after a cliff: F, and what the gain leaves of what is beside it."""
    return fixed + math.floor((1 - config.min_gain) * max(0, threshold - fixed))


def least(config: CliffConfig, fixed: int, threshold: int) -> int:
    """What every cliff frees at least."""
    return max(1, threshold - goal(config.replace(min_gain=min(config.min_gain, 0.25)), fixed, threshold))


def automatic(config: CliffConfig, fixed: int, limit: int | None, grown: Grown, smallest: int) -> int:
    """`auto` of docs/tune.md, by its formulas."""
    if grown.turns < 5:
        return max(32_000, smallest)
    most = 192_000 if limit is None else int(0.95 * limit)
    smallest = max(8_000, smallest)
    if smallest >= most:
        return smallest
    ratio = config.cache_price_ratio or 5.0
    if ratio == 1_000:
        return most
    g = grown.tokens / grown.turns
    if g <= 0:
        return smallest
    r = min(1.0, 200 / g)
    a, b = (fixed + config.keep_turns * g) / (1 + r), r / (1 + r)
    stays = g + config.path_index_chars / 3

    def left(t: float) -> float:
        sizes = [a + b * t]
        if config.preset_name != "paper":
            sizes.append(fixed + max(stays, (1 - config.min_gain) * (t - fixed)))
        return max(fixed, min(sizes))

    def cost(t: float) -> float:
        s = left(t)
        requests = max(0.0, t - s) / g + 1
        return (s + t) / 2 + (ratio - 1) * (t - fixed) / requests

    held = a / (1 - b) if config.preset_name == "paper" else min(a / (1 - b), fixed + stays)
    low = max(smallest, fixed, held)
    lines = [(a, b)] if config.preset_name == "paper" else [(a, b), (fixed + stays, 0.0)]
    points = [low]
    for start, slope in lines:
        y = math.sqrt(2 * g * max(0.0, start - g - (1 - slope) * fixed) / (1 + slope) * (ratio - 1))
        points.append((y - g + start) / (1 - slope))
    if config.preset_name != "paper":
        points += [fixed + stays / (1 - config.min_gain), (fixed + stays - a) / b]
    chosen = min((point for point in points if point >= low), key=lambda point: (cost(point), point))
    return smallest if chosen <= smallest else min(most, 1_000 * math.ceil(chosen / 1_000))

"""What a message is made of, in words that every message format shares.

A dialect (`cliff_core.dialects`) turns one message of its format into a `Message`; everything after that,
from grouping turns to writing the block, works on these classes and knows no format.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

Role: TypeAlias = Literal["system", "user", "model", "tool", "trigger"]
"""Who speaks: `tool` is a message of results alone, `trigger` a request to the provider itself (such as
Responses' `compaction_trigger`) that asks for no model step of the session."""


@dataclass(frozen=True, slots=True)
class Thought:
    """Text or reasoning of the model. `tokens` counts what has no text here (encrypted reasoning)."""

    text: str
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call. `arguments` is an object, or the text that was sent: JSON, or free form (`apply_patch`).

    `hosted` calls run at the provider: they are never open, whether or not a result is shown."""

    name: str
    arguments: Mapping[str, Any] | str
    id: str = ""
    hosted: bool = False


@dataclass(frozen=True, slots=True)
class Opaque:
    """Something that cannot become an excerpt: it is counted, and stays out of the block.

    `kind` is `image`, `document`, `tool_reference`, `compaction`, `system` (a system message without text,
    such as a change of the tool list), or the format's own name of an unknown block. `pin` marks what
    must stay in the view as a whole message. `text` is counted (a document's text), `tokens` added to it."""

    kind: str
    tokens: int = 0
    text: str = ""
    pin: bool = False


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a call returned. `call_id` is empty where the format pairs by position alone."""

    text: str
    call_id: str = ""
    error: bool = False
    opaque: tuple[Opaque, ...] = ()


@dataclass(frozen=True, slots=True)
class Directive:
    """Text that a person wrote."""

    text: str


@dataclass(frozen=True, slots=True)
class Note:
    """Text that the host put in. Of two notes of one `kind` the later supersedes the earlier."""

    text: str
    kind: str


Content: TypeAlias = Thought | ToolCall | ToolResult | Directive | Note | Opaque


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the history. `tokens` is filled in when the message is counted (`with_tokens`)."""

    role: Role
    contents: tuple[Content, ...]
    tokens: int = 0

    def with_tokens(self, tokens: int) -> Message:
        return Message(self.role, self.contents, tokens)


@dataclass(frozen=True, slots=True)
class Turn:
    """One model step and everything after it up to the next one.

    `number` counts from 1 in the session; `start` is the index of its first message in the history."""

    number: int
    start: int
    messages: tuple[Message, ...]
    tokens: int = field(default=-1)

    def __post_init__(self) -> None:
        if self.tokens < 0:
            object.__setattr__(self, "tokens", sum([message.tokens for message in self.messages]))

    @property
    def end(self) -> int:
        """Index after its last message."""
        return self.start + len(self.messages)

    def contents(self) -> Iterable[Content]:
        for message in self.messages:
            yield from message.contents


def counted(contents: Sequence[Content]) -> tuple[list[str], int]:
    """What a provider counts of a message: texts to be tokenized, and tokens already known."""
    texts: list[str] = []
    known = 0
    for content in contents:
        if isinstance(content, ToolCall):
            texts.append(content.name)
            texts.append(arguments_text(content.arguments))
            continue
        if content.text:
            texts.append(content.text)
        if isinstance(content, ToolResult):
            for opaque in content.opaque:
                known += opaque.tokens
                if opaque.text:
                    texts.append(opaque.text)
        elif isinstance(content, (Thought, Opaque)):
            known += content.tokens
    return texts, known


compact_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode
"""JSON without spaces and without escapes of non-ASCII characters. (`json.dumps` makes an encoder at each call.)"""


def arguments_text(arguments: Mapping[str, Any] | str) -> str:
    """Arguments as the text that is counted: as sent, or as JSON without escapes of non-ASCII characters."""
    return arguments if isinstance(arguments, str) else compact_json(arguments)


# --- people's words and the host's -----------------------------------------------------------------------

HOST_TAGS = frozenset(
    {
        # Claude Code; opencode has some of them
        "system-reminder",
        "total_tokens",
        "task-notification",
        "command-name",
        "command-message",
        "command-args",
        "local-command-stdout",
        "local-command-stderr",
        "local-command-caveat",
        "bash-input",
        "bash-stdout",
        "bash-stderr",
        "ide_opened_file",
        "ide_selection",
        # Codex
        "environment_context",
        "user_instructions",
        "user_shell_command",
        "turn_aborted",
        "subagent_notification",
        "permissions instructions",
        "skills_instructions",
        "plugins_instructions",
        "apps_instructions",
        "recommended_plugins",
        "collaboration_mode",
        "codex_internal_context",
        "goal_context",
        "skill",
        # OpenHands
        "RUNTIME_INFORMATION",
        "REPOSITORY_INFO",
        "REPOSITORY_INSTRUCTIONS",
        "CONVERSATION_INSTRUCTIONS",
        "EXTRA_INFO",
    }
)
"""Tags in which Claude Code, Codex and OpenHands wrap what they put into a user message themselves
(seen in the recorded sessions, in `facts/proxy.md`, or in the hosts' published sources)."""

HOST_SENTENCES = (
    # Claude Code
    "[Request interrupted by user",
    "Caveat: The messages below",
    "Tool loaded.",
    "This session is being continued from a previous conversation",
    "Base directory for this skill:",
    "The user opened the file ",
    # Claude Code after its own compaction, opencode for a file that was mentioned
    "Called the Read tool with the following input:",
    "Result of calling the Read tool:",
    # Codex
    "# AGENTS.md instructions",
    "Another language model started to solve this problem",
)
"""Beginnings of host text that has no tag."""

_HOST_TAG = re.compile("<(" + "|".join(sorted(map(re.escape, HOST_TAGS), reverse=True)) + r")(?:\s[^<>]*)?>")
_COMMAND_TAGS = frozenset({"command-name", "command-message", "command-args"})
_SPECIFIC_TAGS = frozenset({"system-reminder", "task-notification", "subagent_notification", "skill"})
_NUMBER = re.compile(r"\d+")
_TAG = re.compile(r"\s*<([A-Za-z_][\w-]*)[^<>]*>")


def note_kind(role: str, text: str) -> str:
    """Kind of a note: its leading tag, else its first line with every number made equal.

    Counters and reminders repeat at every step with other figures; only the newest of a kind is
    kept. A tag that a host puts around texts of several kinds counts together with the first line
    inside it."""
    tag = _TAG.match(text)
    if tag:
        name = tag.group(1)
        if name not in _SPECIFIC_TAGS:
            return name
        return f"{name}:{_first_line(text[tag.end() :].removesuffix(f'</{name}>'))}"
    for sentence in HOST_SENTENCES:
        # One skill's text does not supersede another's, but a file that was read again does.
        if text.startswith(sentence) and not sentence.startswith("Base directory"):
            return f"{role}:{sentence}"
    return f"{role}:{_first_line(text)}"


def _first_line(text: str) -> str:
    line = text[:1000].strip().split("\n", 1)[0]
    return _NUMBER.sub("#", line[:200] if line.startswith("Base directory") else line[:60])


def user_text(text: str) -> list[Directive | Note]:
    """Split a user message's text into what the host wrote and what a person wrote.

    Pieces are contiguous parts of the text in their order; white space between them is dropped. A
    slash command is the host's text unless the person gave it arguments (which are instructions, as
    in `/execute-plan keep each commit with working code`)."""
    pieces: list[Directive | Note] = []
    end = 0
    for start, stop, tag in _host_pieces(text):
        _person(text[end:start], pieces)
        piece = text[start:stop]
        if tag not in _COMMAND_TAGS:
            pieces.append(Note(piece, note_kind("user", piece)))
        elif _has_arguments(piece):
            pieces.append(Directive(piece))
        else:
            pieces.append(Note(piece, "command-name"))
        end = stop
    _person(text[end:], pieces)
    return pieces


def _person(part: str, pieces: list[Directive | Note]) -> None:
    """Append text without host tags: a person's, unless it begins with a sentence of the host."""
    part = part.strip()
    while part:
        if not part.startswith(HOST_SENTENCES):
            pieces.append(Directive(part))
            return
        # These two are whole where they end: what follows is a person's.
        if part.startswith("Tool loaded."):
            end = len("Tool loaded.")
        elif part.startswith("[Request interrupted"):
            end = part.find("]") + 1 or len(part)
        else:
            end = len(part)
        pieces.append(Note(part[:end], note_kind("user", part[:end])))
        part = part[end:].strip()


def _host_pieces(text: str) -> list[tuple[int, int, str]]:
    """Start, end and tag of each tagged piece; the tags of one slash command are one piece.

    Linear: a tag that is not closed is looked for once."""
    found: list[tuple[int, int, str]] = []
    if "</" not in text:
        return found
    open_ended: set[str] = set()
    position = 0
    while match := _HOST_TAG.search(text, position):
        tag = match.group(1)
        close = -1 if tag in open_ended else text.find(f"</{tag}>", match.end())
        if close < 0:
            open_ended.add(tag)
            position = match.end()
            continue
        position = close + len(tag) + 3
        start = match.start()
        if tag in _COMMAND_TAGS and found and found[-1][2] in _COMMAND_TAGS and not text[found[-1][1] : start].strip():
            start = found.pop()[0]
        found.append((start, position, tag))
    return found


def _has_arguments(command: str) -> bool:
    _, opening, rest = command.partition("<command-args>")
    return bool(opening) and bool(rest.partition("</command-args>")[0].strip())


_SPOKEN = (
    "The user doesn't want to proceed with this tool use.",
    "User has answered your questions:",
    "Your questions have been answered:",
)
_SAID = "To tell you how to proceed, the user said:\n"
_AFTERWORD = "\n\nNote: The user's next message may contain a correction or preference."


def result_text(text: str) -> tuple[str, list[Directive | Note]]:
    """A tool result's text, and the person's words that a host put into it (contiguous parts).

    Claude Code and opencode hand over the reason of a rejection and the answers to questions as tool
    results: they are instructions that must not go with the turn."""
    if not text.startswith(_SPOKEN):
        return text, []
    if text.startswith(_SPOKEN[0]):
        start = text.find(_SAID) + len(_SAID)
        if start < len(_SAID):
            return text, []
        end = text.find(_AFTERWORD, start)
    else:
        start, end = text.find(":") + 1, -1
    words = text[start:] if end < 0 else text[start:end]
    if not words.strip():
        return text, []
    said: list[Directive | Note] = [Directive(words.strip())]
    if end >= 0:
        after = text[end:].strip()
        said.append(Note(after, note_kind("user", after)))
    return text[:start], said


_FAILED = re.compile(
    r'"(?:returncode|exit_code|exitCode)"\s*:\s*-?[1-9]'
    r"|<returncode>\s*-?[1-9]"
    r"|(?:^|\n)(?:Process exited with code|Exit code:?|exit status|Command exited with code"
    r"|\[?(?:The command completed|Command finished) with exit code) -?[1-9]"
    r"|^<tool_use_error>|^execution error: |(?:^|\n)aborted by user"
)
_FAILED_WORDS = ("xit", "returncode", "tool_use_error", "execution error", "aborted")  # one in each alternative


def looks_failed(text: str) -> bool:
    """Whether a result without an error flag states an exit code other than zero.

    Only its first and last 300 characters are read: hosts put the code there (mini-swe-agent
    `returncode`, Codex `Process exited with code`, Claude Code `Exit code`, pi `Command exited with
    code`, OpenHands `The command completed with exit code`, Hermes `"exit_code"`), and a program's
    own output seldom imitates it there."""
    for end in (text,) if len(text) <= 600 else (text[:300], text[-300:]):
        # Most results have none of these words, and to look for them takes a hundredth of the time.
        for word in _FAILED_WORDS:
            if word in end:
                if _FAILED.search(end):
                    return True
                break
    return False

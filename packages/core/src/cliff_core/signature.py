"""A tool call on one short line: what was done, to what, and not the text that was typed in.

    Write /app/cli.py content=[7071 chars]
    bash cat > run.py <<'EOF' [812 chars]
    python3 run.py
    apply_patch Update File: src/a.py Add File: src/b.py [1904 chars]
    Grep func AbsPath path=cmd/cli output_mode=content -n=true

The order is fixed: the tool's name; its target (path, URL, pattern, command); the remaining short
arguments as `key=value` in their given order, long ones as a marker; the beginnings of long prose.
The target has priority: other arguments are left out before it is shortened, so a Write never loses
its path.

**Verbatim.** A signature consists of pieces and of glue. A piece is a contiguous part of the tool's
name, of an argument's name, or of the text of an argument's value; the text of a value that is no
string is its JSON (compact, non-ASCII as it is), and a value inside an object or a list counts as a
value of its own. Glue is a space, a newline, `=`, and the markers (`MARKERS`). `Signature.pieces`
are the pieces in order.

**Shortened**, each by its own rule, are

- a path: its end, after `…`;
- a command: its inline bodies (heredocs, PowerShell here-strings, files pasted into `cat > FILE`, quoted
  strings with line breaks or of 200 characters and more, base64) become markers, before which the files of a patch, two
  paths that a script names, or the first line of a quoted string may stand; blank lines, comment
  lines, indentation and what ends a heredoc go; of the rest the beginning, before `…`;
- a patch: its file names and its size;
- a list of objects: its length and one item, the one in progress if they have a status;
- prose: its beginning;
- everything else: its size.

Everything here is a pure function of its arguments.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, TypeAlias

from cliff_core.content import ToolCall, compact_json

MARKERS = re.compile(r"…|\[(?:\d+ (?:chars?|items?)|object)\]")
"""All that stands for something left out: `…` (cut here; after a space at the very end: arguments
left out), `[123 chars]` (the size of the whole body, even if its first line stands before it),
`[4 items]`, `[object]` (a value that JSON cannot express)."""

SCAN_CHARS = 6_000
"""`paths` reads this many characters of the commands in one argument. A heredoc's body is skipped,
and what follows it is found, however long the body is."""

BODY_SCAN_CHARS = 2_000
"""`paths` reads this many characters of prose, and of each inline body that is a script."""

MIN_CHARS = 20
"""With less a signature is the beginning of what it would be, cut anywhere."""

_LONG_BODY = 500  # a longer inline body of a command is a marker even if there were room
_SHORT_BODY = 80  # file contents and replaced strings up to here are ordinary short arguments
_SHORT = 100  # any other argument up to here
_QUOTED_BODY = 200  # a quoted string from here on is an inline body of a command
_QUOTED_LINES = 40  # the same if it has line breaks
_PATH_CHARS = 300  # nothing longer is a path


@dataclass(frozen=True, slots=True)
class Signature:
    """`complete`: every argument stands in `text` whole, so that a read-only call can be issued
    again as it stands. What does not change what is done does not count: arguments that are `null`,
    `{}` or a known default (`replace_all=false`), permissions, comments and limits of the output
    (`security_risk`, the `description` of a shell command, `max_output_tokens`), white space around
    a value."""

    text: str
    complete: bool
    pieces: tuple[str, ...] = field(default=(), compare=False, repr=False)


# --- what is known of tools and arguments ---------------------------------------------------------

_Kind: TypeAlias = Literal[
    "command",
    "commands",
    "code",
    "pattern",
    "url",
    "path",
    "place",
    "body",
    "prose",
    "comment",
    "noise",
    "value",
]


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Argument names, in lower case without `_` and `-`: `file_path` and opencode's `filePath` are one.
# A `place` is a path, but a target only if there is no other; a `comment` is shown only beside a
# target that is not whole; `noise` never.
_KINDS: dict[_Kind, frozenset[str]] = {
    "command": _names("command cmd script keystrokes chars commandline shellcommand bashcommand"),
    "commands": _names("commands"),
    "code": _names("code javascript python sql"),
    "pattern": _names("pattern regex glob globpattern query q searchterm searchquery keyword keywords symbol"),
    "url": _names("url uri href urls"),
    "path": _names(
        "path filepath filename file notebookpath dir directory dirpath folder targetfile paths"
        " files filepaths relativepath absolutepath absolutefilepath targetdirectory source src"
        " relativeworkspacepath destination dst oldpath newpath outputpath inputpath rootpath"
        " imagepath"
    ),
    "place": _names("workdir cwd workingdirectory workingdir basedir root"),
    "body": _names(
        "content contents filetext filecontent newstring oldstring newstr oldstr oldtext newtext"
        " newcontent newsource patch patchtext diff input codeedit inserttext replacement body data"
        " base64 edits replacementchunks"
    ),
    "prose": _names(
        "prompt message thought thoughts text description question explanation reason instructions"
        " instruction task answer notes plan goal objective context"
    ),
    "comment": _names("summary activeform"),
    "noise": _names(
        "securityrisk justification sandboxpermissions prefixrule withescalatedpermissions yieldtimems maxoutputtokens"
    ),
}
_KIND_BY_NAME = {name: kind for kind, names in _KINDS.items() for name in names}
_TARGET_KINDS: tuple[_Kind, ...] = ("command", "commands", "code", "url", "pattern", "path", "place")
_LONG: tuple[_Kind, ...] = ("prose", "command", "commands", "code")  # worth their beginnings
_LONG_ALONE: tuple[_Kind, ...] = (*_LONG, "value")  # the same, if there is no target
_DEFAULT_FALSE = _names("replace_all replaceAll is_input run_in_background is_background")
_VERB = re.compile(r"[A-Za-z][\w-]{0,30}")


@dataclass(frozen=True, slots=True)
class _Tool:
    """Argument names as the tool has them. `verbs` come first, if their values are single words,
    and `target` is the first of these that is there: both stand without their names. `then` follow
    at once; `comment` are those that are comments with this tool only."""

    target: tuple[str, ...] = ()
    then: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    comment: tuple[str, ...] = ()


_TOOLS: dict[str, _Tool] = {}


def _tools(names: str, target: str = "", *, then: str = "", verbs: str = "", comment: str = "") -> None:
    """A row of the table."""
    tool = _Tool(*(tuple(text.split()) for text in (target, then, verbs, comment)))
    _TOOLS.update(dict.fromkeys(names.split(), tool))


# The table. Names of tools are in lower case; one that is not here, and every `mcp__server__tool`,
# goes by the general rule (`_generic`). Bodies, prose and places are told by the argument's name.
#
# Shells. mini-swe-agent and pi: bash. Claude Code: Bash. OpenHands: execute_bash, terminal.
# Codex: exec_command, shell, shell_command, local_shell. Hosted ones of Responses and Anthropic.
_tools(
    "bash execute_bash terminal shell shell_command exec_command local_shell local_shell_call"
    " run_terminal_cmd run_shell_command run_command execute_command powershell shell_call"
    " bash_code_execution",
    "command cmd commands",
    comment="description explanation",
)
_tools("write_stdin", "chars", then="session_id")
_tools("bash_command keystrokes", "keystrokes command")  # Terminus-2: one call for each command
_tools("execute_code execute_ipython_cell js_repl exec code_interpreter_call program", "code")
# Files. Claude Code, pi, opencode, Hermes, Codex; then OpenHands, SWE-agent, Anthropic's editor.
_tools("read read_file view_image view open_file", "file_path filePath path")
_tools("write write_file edit multiedit multi_edit edit_file patch", "file_path filePath path")
_tools("notebookedit", "notebook_path", then="edit_mode cell_id cell_type")
_tools("ls list list_dir", "path dir_path")
_tools("apply_patch", "patch input patch_text patchText diff")
_tools("apply_patch_call", "path", verbs="type")
_tools("str_replace_editor file_editor str_replace_based_edit_tool", "path", verbs="command")
# Searching.
_tools("grep grep_files search_files", "pattern query", then="path")
_tools("glob find", "pattern", then="path")
_tools("webfetch web_fetch", "url")
_tools("websearch web_search web_search_call", "query url pattern queries", verbs="type")
_tools("toolsearch tool_search tool_search_call file_search_call", "query queries")
_tools("lsp", "filePath file_path", then="line character", verbs="operation")
# Other agents, lists of things to do, words.
_tools("task agent", "description prompt", then="subagent_type")
_tools("spawn_agent delegate_task", "message goal task prompt items")
_tools("send_input send_message", "message", then="id")
_tools("todowrite todo", "todos")
_tools("update_plan", "plan")
_tools("task_tracker", "task_list", verbs="command")
_tools("taskcreate", "subject")
_tools("taskupdate taskget", "taskId", then="status")
_tools("think finish", "thought message")
_tools("exitplanmode exit_plan_mode", "plan")
_tools("askuserquestion request_user_input question", "questions")
_tools("skill slashcommand", "skill command name")
_tools("bashoutput killshell killbash taskoutput taskstop", "bash_id shell_id task_id")
_tools("browser_navigate", "url")
_tools(  # without a target: all by name
    "browser_click browser_type browser_scroll browser_get_state browser_get_content"
    " browser_go_back browser_list_tabs browser_switch_tab browser_close_tab"
)
_tools("computer computer_call", verbs="action type")


@lru_cache(maxsize=1024)
def _kind(name: str) -> _Kind:
    return _KIND_BY_NAME.get(name.replace("_", "").replace("-", "").lower(), "value")


# --- pieces and glue ------------------------------------------------------------------------------

_Token: TypeAlias = tuple[str, bool]  # text, and whether it is a piece


def _chars(count: int) -> str:
    return f"[{count} char]" if count == 1 else f"[{count} chars]"


def _count(count: int) -> str:
    return f"[{count} item]" if count == 1 else f"[{count} items]"


def _size(tokens: Sequence[_Token]) -> int:
    return sum([len(text) for text, _ in tokens])


def _cut(tokens: Sequence[_Token], room: int) -> list[_Token]:
    """The first tokens in at most `room` characters, then `…` if any went."""
    if _size(tokens) <= room:
        return list(tokens)
    kept: list[_Token] = []
    left = room - 1
    for text, verbatim in tokens:
        if len(text) > left:
            if verbatim and (text := text[: max(left, 0)].rstrip()):
                kept.append((text, True))
            break
        kept.append((text, verbatim))
        left -= len(text)
    while kept and kept[-1][0] in (" ", "\n"):
        kept.pop()
    if room > 0:
        kept.append(("…", False))
    return kept


def _beginning(text: str, room: int) -> tuple[list[_Token], bool]:
    text = text.strip()
    if not text:
        return [("[0 chars]", False)], True
    return _cut([(text, True)], room), len(text) <= room


def _end(text: str, room: int) -> tuple[list[_Token], bool]:
    """A path: its end, from a separator on if one is near."""
    text = text.strip()
    if not text or len(text) <= room:
        return _beginning(text, room)
    if room < 2:
        return _cut([(text, True)], room), False
    start = len(text) - room + 1
    for separator in "/\\":
        at = text.find(separator, start, len(text) - 1)
        if at >= 0 and at - start < room // 2:
            start = at
            break
    return [("…", False), (text[start:], True)], False


def _json(value: Any) -> str:
    """A value's text; empty if JSON cannot express it (a cycle, a key that is no string)."""
    try:
        return compact_json(value)
    except (TypeError, ValueError, RecursionError):
        return ""


# --- commands -------------------------------------------------------------------------------------

_HEREDOC = re.compile(r"<<[-~]?[ \t]*(?:'([^'\n]+)'|\"([^\"\n]+)\"|\\?([A-Za-z_]\w*))")
_HERE_STRING = re.compile(r"@(['\"])[ \t]*\r?\n")
_EDIT = re.compile(r"edit \d+:\d+[ \t]*\n")  # SWE-agent
_PASTE = re.compile(
    r"^[ \t]*(?:cat[ \t]*>>?[ \t]*|tee[ \t]+(?:-a[ \t]+)?)[^\s|;&<>]+[ \t]*(?:>[ \t]*/dev/null[ \t]*)?\n", re.MULTILINE
)
"""A program that reads a file from the terminal (keystrokes of Terminus-2): what follows is the file."""
_SURE_TAG = re.compile(r"[A-Z_][A-Z0-9_]*")
_OPENING = re.compile(r"['\"\\#]")
_QUOTED = re.compile(r"'(?P<single>[^']*+)'|\"(?P<double>(?:[^\"\\]++|\\.)*+)\"|\\.|(?:^|(?<=\s))#[^\n]*", re.DOTALL)
_SAYS_NOTHING = re.compile(r"#|[)\"'}]+$")  # a whole line: a comment, the end of what was opened
_BASE64 = re.compile(r"(?<![A-Za-z0-9+/=])[A-Za-z0-9+/=]{200,}")
_INTERPRETER = re.compile(
    r"(?:^|[\s|&;(])(?:\S*/)?(?:python[\d.]*|node|ruby|perl|php|bash|sh|zsh|deno|bun|tsx|psql"
    r"|sqlite3|mysql)(?=\s)[^\n>]*$"
)
_IMPORTS = ("import ", "from ", "#", "//", "try:", "const {", '"""', "set -", "cd ")
_SHELLS = _names("bash sh zsh dash powershell powershell.exe pwsh pwsh.exe cmd cmd.exe")


@dataclass(frozen=True, slots=True)
class _Body:
    """Where an inline body of a command lies, and where the command goes on."""

    start: int
    end: int
    resume: int


def inline_bodies(command: str) -> list[str]:
    """The heredocs, here-strings and pasted files that stand inside a command, in order, without what ends them."""
    return [command[body.start : body.end] for body in _bodies(command)]


def _bodies(text: str) -> Iterator[_Body]:
    """Inline bodies, in order. Files are pasted at a terminal: their end is Ctrl-D, or that of the keystrokes."""
    after = 0
    paste = _PASTE.search(text, 0, SCAN_CHARS)
    for body in _here_bodies(text):
        while paste is not None and paste.end() <= body.start:
            pasted = _closed(text, paste.end(), "\x04")
            yield pasted
            after = pasted.resume
            paste = _PASTE.search(text, after, SCAN_CHARS)
        if body.start >= after:
            yield body
            if paste is not None and paste.start() < body.resume:
                paste = _PASTE.search(text, body.resume, SCAN_CHARS)
    if paste is not None:
        yield _closed(text, paste.end(), "\x04")


def _here_bodies(text: str) -> Iterator[_Body]:
    """Heredocs, PowerShell here-strings and SWE-agent edits, in order.

    Linear: `str.find` jumps from one that may begin to the next, and after four heredocs whose end
    is nowhere to be found the rest is taken as it is."""
    if text.startswith("edit ") and (edit := _EDIT.match(text)):
        yield _closed(text, edit.end(), "\nend_of_edit", skip=len("\nend_of_edit"))
        return
    here = text.find("<<")
    string = _here_string(text, 0)
    misses = 0
    while misses < 4 and (here >= 0 or string is not None):
        if string is not None and (here < 0 or string.start() < here):
            body = _closed(text, string.end(), "\n" + string.group(1) + "@", skip=3)
        else:
            opener = _HEREDOC.match(text, here)
            heredoc = _heredoc(text, opener) if opener and text[here - 1 : here] != "<" else None
            if heredoc is None:
                misses += opener is not None
                here = text.find("<<", here + 2)
                continue
            body = heredoc
        yield body
        here = text.find("<<", body.resume)
        if string is not None and string.start() < body.resume:
            string = _here_string(text, body.resume)


def _closed(text: str, start: int, closing: str, skip: int = 1) -> _Body:
    end = text.find(closing, start - 1)
    if end < 0:
        return _Body(start, len(text), len(text))
    return _Body(start, max(end, start), end + skip)


def _here_string(text: str, start: int) -> re.Match[str] | None:
    at = text.find("@", start)
    while at >= 0:
        if match := _HERE_STRING.match(text, at):
            return match
        at = text.find("@", at + 1)
    return None


def _heredoc(text: str, opener: re.Match[str]) -> _Body | None:
    line_end = text.find("\n", opener.end())
    if line_end < 0:
        return None
    tag = opener.group(1) or opener.group(2) or opener.group(3)
    found = text.find(tag, line_end)
    while found >= 0:
        line = text.rfind("\n", line_end, found) + 1
        after = text.find("\n", found)
        after = len(text) if after < 0 else after
        rest = text[found + len(tag) : after].strip() if after - found < 200 else "x"
        if not rest and not text[line:found].strip(" \t"):
            return _Body(line_end + 1, max(line - 1, line_end + 1), after)
        found = text.find(tag, max(after, found + 1))
    # Cut off before its end, as a shell would read it.
    return _Body(line_end + 1, len(text), len(text)) if _SURE_TAG.fullmatch(tag) else None


class _Command:
    """The tokens of a command with its inline bodies replaced, as far as `room` reaches."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.size = 0
        self.tokens: list[_Token] = []
        self._line_start = True
        self._newline = False  # due before the next piece

    @property
    def full(self) -> bool:
        return self.size > self.room

    def add(self, text: str, verbatim: bool) -> None:
        self.tokens.append((text, verbatim))
        self.size += len(text)

    def newline(self) -> None:
        self._line_start = True
        self._newline = bool(self.tokens)

    def text(self, text: str, start: int, end: int) -> None:
        """Command text: its lines, as far as they say something, without indentation and base64."""
        while not self.full:
            stop = text.find("\n", start, end)
            line = text[start : end if stop < 0 else stop].strip()
            if line and not (self._line_start and _SAYS_NOTHING.match(line)):
                if self._newline:
                    self.add("\n", False)
                self._newline = self._line_start = False
                if len(line) >= _QUOTED_BODY and (match := _BASE64.search(line)):
                    self.add(line[: match.start()], True)
                    self.add(_chars(len(match.group())), False)
                    line = line[match.end() :]
                self.add(line, True)
            if stop < 0:
                return
            self.newline()
            start = stop + 1

    def quoted(self, text: str, start: int, end: int) -> None:
        """Command text between heredocs: its long quoted strings become markers."""
        at = start
        limit = min(end, start + 4 * self.room + 2_000)  # beyond it no string is looked for
        while not self.full and (opening := _OPENING.search(text, at, limit)):
            match = _QUOTED.match(text, opening.start(), end)
            at = match.end() if match else opening.end()
            if match is None or match.lastgroup is None:  # a comment, an escape, an apostrophe
                continue
            first, last = match.span(match.lastgroup)
            length = last - first
            if length >= _QUOTED_BODY or (length >= _QUOTED_LINES and text.find("\n", first, last) >= 0):
                self.text(text, start, first)
                self.body(text, first, last, quoted=True)
                start = last
        self.text(text, start, end)

    def body(self, text: str, start: int, end: int, *, quoted: bool) -> None:
        """A marker for a body, after what tells it from others: see the module's text."""
        opener = self.tokens[-1][0] if self.tokens else ""
        shown = [piece for piece, _ in _patch_files(text, start, end)]
        if not shown and _INTERPRETER.search(opener[-200:]):
            read = dict.fromkeys(_prose_paths(text, start, min(end, start + 1_000)))
            shown = [path for path in read if "/" in path or "\\" in path]
            if not quoted:
                shown += [path for path in read if path not in shown and path != "__init__.py"]
            shown = shown[:2]
        if not shown and (quoted or "$(cat <<" in opener):
            shown = _first_line(text, start, end)
        if not quoted and self.tokens:
            self.add(" ", False)
        for piece in shown:
            if self.full:
                return
            self.add(piece, True)
            self.add(" ", False)
        self.add(_chars(end - start), False)
        self._line_start = self._newline = False


def _first_line(text: str, start: int, end: int) -> list[str]:
    """The first line that says something, up to 60 characters of it."""
    lines = [line.strip() for line in text[start : min(end, start + 1_000)].split("\n")]
    lines = [line for line in lines if line]
    telling = next((line for line in lines if not line.startswith(_IMPORTS)), "")
    return [line[:60].rstrip() for line in [telling or "".join(lines[:1])] if line]


def _command(text: str, room: int, kind: _Kind = "command") -> tuple[list[_Token], bool]:
    text = text.strip()
    if not text:
        return [("[0 chars]", False)], True
    fits = len(text) <= room
    if fits and (len(text) <= _LONG_BODY or kind == "code"):
        return [(text, True)], True
    if text.startswith(_PATCH_STARTS) and (patch := _patch(text, room)):
        return patch, False
    bodies = [] if kind == "code" else _bodies(text)
    if fits:
        # Only a large room comes here: whole unless one of its bodies is long.
        bodies = list(bodies)
        if all(body.end - body.start <= _LONG_BODY for body in bodies):
            return [(text, True)], True
    command = _Command(room)
    start = 0
    for body in bodies:
        command.quoted(text, start, body.start)
        if command.full:
            break
        command.body(text, body.start, body.end, quoted=False)
        start = body.resume
        if text[start - 1 : start] == "@":
            command.add(" ", False)
        else:
            command.newline()
    if not command.full:
        if kind == "code":
            command.text(text, start, len(text))
        else:
            command.quoted(text, start, len(text))
    return _cut(command.tokens or [(text, True)], room), False


def _argv(value: Sequence[Any], room: int, glue: str) -> tuple[list[_Token], bool]:
    """A command as a list: the script of `bash -lc SCRIPT`, else its words; or a list of commands.

    A list with a word that has white space stands as JSON if it can, so that it can be told apart."""
    words = [word if isinstance(word, str) else _json(word) for word in value]
    if not words:
        return [("[0 items]", False)], True
    shell = re.split(r"[/\\]", words[0])[-1].lower()
    if len(words) > 2 and shell in _SHELLS and words[-2].startswith(("-", "/")):
        return _command(words[-1], room)
    if glue == " " and any(re.search(r"\s", word) for word in words):
        text = _json(value)
        if text and len(text) <= room:
            return [(text, True)], True
    tokens: list[_Token] = []
    left = room
    whole = True
    for word in words:
        if tokens:
            tokens.append((glue, False))
            left -= 1
        if not word.strip():
            continue
        if left < 0:
            whole = False
            break
        part, entire = _command(word, left)
        whole = whole and entire
        tokens += part
        left -= _size(part)
    return _cut(tokens, room), whole and _size(tokens) <= room


# --- patches --------------------------------------------------------------------------------------

_PATCH_STARTS = (
    "*** Begin Patch",
    "*** Update File: ",
    "*** Add File: ",
    "*** Delete File: ",
    "diff --git ",
    "--- ",
)
_PATCH_FILE = re.compile(r"\*\*\* ((?:(?:Add|Update|Delete) File|Move to): ([^\r\n]+))")
_DIFF_FILE = re.compile(r"--- ([^\t\r\n]+)[^\n]*\n\+\+\+ ([^\t\r\n]+)")


def _patch_files(text: str, start: int = 0, end: int | None = None) -> list[tuple[str, str]]:
    """For each file of a patch its line and its path; empty if this is no patch.

    `Update File: a.py` in Codex's format, `+++ b/a.py` in a unified diff, `--- a/a.py` if the file
    goes; the path is without `a/` and `b/`."""
    end = len(text) if end is None else end
    found: list[tuple[str, str]] = []
    for at in _line_starts(text, "*** ", start, end):
        if match := _PATCH_FILE.match(text, at, end):
            found.append((match.group(1).strip(), match.group(2).strip()))
    if found:
        return [pair for pair in found if pair[1]]
    for at in _line_starts(text, "--- ", start, end):
        if match := _DIFF_FILE.match(text, at, end):
            side = 1 if match.group(2).strip() == "/dev/null" else 2
            first, last = match.span(side)
            path = text[first:last].strip()
            path = path[2:] if path[:2] in ("a/", "b/") else path
            found.append((text[first - 4 : last].rstrip(), path))
    return [pair for pair in found if pair[1]]


def _line_starts(text: str, prefix: str, start: int, end: int) -> Iterator[int]:
    at = text.find(prefix, start, end)
    while at >= 0:
        if at == start or text[at - 1] == "\n":
            yield at
        at = text.find(prefix, at + 1, end)


def _patch(text: str, room: int) -> list[_Token] | None:
    """A patch's file names and its size; nothing if it is none."""
    files = _patch_files(text)
    if not files:
        return None
    marker = _chars(len(text))
    left = room - len(marker) - 1
    line, path = files[0]
    if len(line) > left:
        tokens, _ = _end(path, left if left >= 8 else room)
        return [*tokens, (" ", False), (marker, False)] if left >= 8 else tokens
    tokens = [(line, True)]
    left -= len(line)
    for index, (line, _) in enumerate(files[1:], 2):
        if len(line) + 1 > left - (0 if index == len(files) else 2):
            if left >= 2:
                tokens += [(" ", False), ("…", False)]
            break
        tokens += [(" ", False), (line, True)]
        left -= len(line) + 1
    return [*tokens, (" ", False), (marker, False)]


# --- lists of objects -----------------------------------------------------------------------------

_TITLES = (
    *("file_path", "filePath", "path", "title", "subject", "step", "question", "content", "task"),
    *("name", "goal", "description", "text", "url", "query"),
)
_IN_PROGRESS = _names("in_progress in-progress inprogress active doing")
_DONE = _names("completed complete done cancelled canceled finished")


def _items(value: Sequence[Any], room: int) -> tuple[list[_Token], bool]:
    """A list as its length and one item: the one in progress, else the first that is not done, else
    the last; without a status, the first."""
    tokens: list[_Token] = [(_count(len(value)), False)]
    if not value:
        return tokens, True
    states = [item.get("status") if isinstance(item, Mapping) else "" for item in value]
    states = [state.lower() if isinstance(state, str) else "" for state in states]
    index = next((i for i, state in enumerate(states) if state in _IN_PROGRESS), -1)
    if index < 0:
        index = next((i for i, state in enumerate(states) if state not in _DONE), len(value) - 1)
    item = value[index]
    pieces: list[Any] = [item]
    if isinstance(item, Mapping):
        pieces = [item.get("status")]
        pieces += [item[key] for key in _TITLES if isinstance(item.get(key), str)][:1]
    for piece in pieces:
        if isinstance(piece, str) and piece.strip():
            tokens += [(" ", False), (piece.strip(), True)]
    if room - len(tokens[0][0]) < 12:
        tokens = tokens[:1]
    return _cut(tokens, room), False


# --- one call -------------------------------------------------------------------------------------

_WRAPPERS = _names("input arguments args kwargs params parameters")
_JSON_PATH = re.compile(
    r'"(?:file_?path|path|notebook_path|filename)"\s*:\s*"((?:[^"\\]++|\\.)*+)',
    re.IGNORECASE | re.DOTALL,
)
_JSON_TARGET = re.compile(
    r'"(?:command|cmd|keystrokes|url|pattern|query)"\s*:\s*"((?:[^"\\]++|\\.)*+)',
    re.IGNORECASE | re.DOTALL,
)


_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def _encodable(value: Any) -> bool:
    """Whether a value can be sent: not with half a surrogate pair, which its JSON text can hold as an escape."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def arguments_of(call: ToolCall) -> Mapping[str, Any] | str:
    """The arguments as an object, if they are one: parsed if they were sent as text, and without a
    wrapper (Responses' `{"action": {…}}`, or `{"input": {…}}` and the like)."""
    arguments = call.arguments
    if isinstance(arguments, str):
        text = arguments.strip()
        if not text.startswith("{"):
            return text
        try:
            parsed = json.loads(text, strict=False)
        except (ValueError, RecursionError):
            return text
        if not isinstance(parsed, dict) or (_SURROGATE.search(text) and not _encodable(parsed)):
            return text
        arguments = parsed
    action = arguments.get("action")
    if action is not None and isinstance(action, Mapping):
        outer = {key: value for key, value in arguments.items() if key != "action"}
        inner = {key: value for key, value in action.items() if (key, value) != ("type", "exec")}
        return {**outer, **inner}
    if len(arguments) == 1:
        key, value = next(iter(arguments.items()))
        if isinstance(value, Mapping) and key in _WRAPPERS:
            return value
    return arguments


def _row(name: str) -> _Tool | None:
    """The row of the table for `Bash`, and for `functions.exec_command`."""
    return _TOOLS.get(name.lower()) or _TOOLS.get(name.lower().rpartition(".")[2])


def _tool(name: str, arguments: Mapping[str, Any]) -> _Tool:
    """The row of the table, if it fits: else the general rule."""
    tool = _row(name)
    if tool is None:
        return _generic(arguments)
    fits = not tool.target or not arguments.keys().isdisjoint((*tool.verbs, *tool.target))
    return tool if fits else _generic(arguments)


def _generic(arguments: Mapping[str, Any]) -> _Tool:
    """The general rule: the target is the first command, code, URL, pattern or path, in this order,
    by the arguments' names. A one-word command beside a path is a verb; a pattern is followed by
    where it is looked for. Failing these, a patch."""
    first: dict[_Kind, str] = {}
    for key, value in arguments.items():
        if isinstance(value, str) or (value and isinstance(value, (list, tuple))):
            first.setdefault(_kind(key), key)
    path = first.get("path")
    if path is not None:
        for verb in (first.get("command", "command"), "operation", "action", "method"):
            word = arguments.get(verb)
            if isinstance(word, str) and _VERB.fullmatch(word):
                return _Tool((path,), verbs=(verb,))
    for kind in _TARGET_KINDS:
        if kind in first:
            then = (path,) if kind == "pattern" and path is not None else ()
            return _Tool((first[kind],), then)
    body = first.get("body")
    if body is not None and isinstance(arguments[body], str) and _patch_files(arguments[body]):
        return _Tool((body,))
    return _Tool()


def _target(kind: _Kind, value: Any, room: int) -> tuple[list[_Token], bool]:
    """A target's tokens in `room`, and whether they are all of it."""
    if isinstance(value, str):
        if kind in ("command", "commands", "code"):
            return _command(value, room, kind)
        if kind in ("path", "place") and "\n" not in value:
            return _end(value, room)
        if kind in ("body", "path", "place"):
            patch = _patch(value, room)
            return (patch, False) if patch else _command(value, room)
        return _beginning(value, room)
    if isinstance(value, (list, tuple)):
        if kind in ("command", "commands"):
            return _argv(value, room, "\n" if kind == "commands" else " ")
        nested = any(isinstance(item, (Mapping, list, tuple)) for item in value[:100])
        text = "" if nested or len(value) > _SHORT else _json(value)
        if text and len(text) <= min(room, _SHORT):
            return [(text, True)], True
        return _items(value, room)
    text = _json(value)
    if not text:
        return [("[object]", False)], False
    if len(text) > min(room, _SHORT) and isinstance(value, Mapping):
        return [(_chars(len(text)), False)], False
    return _cut([(text, True)], room), len(text) <= room


def _argument(kind: _Kind, value: Any, room: int) -> tuple[list[_Token], bool] | None:
    """Another argument: whole if it is short, else its marker; nothing if that has no room."""
    if isinstance(value, (list, tuple)):
        tokens, whole = _target(kind, value, min(room, _SHORT))
        return (tokens, whole) if _size(tokens) <= room else None
    if not isinstance(value, str):
        text = _json(value)
        if text and len(text) <= min(room, _SHORT):
            return [(text, True)], True
        marker = _chars(len(text)) if text else "[object]"
        return ([(marker, False)], False) if len(marker) <= room else None
    if kind in ("path", "place") and "\n" in value:
        kind = "body"
    text = value if kind == "body" else value.strip()  # white space matters in a body
    if text and len(text) <= min(room, _SHORT_BODY if kind == "body" else _SHORT):
        return [(text, True)], True
    if text and kind in ("path", "place") and room >= 16 and len(text) <= _PATH_CHARS:
        return _end(text, room)
    marker = _chars(len(text))
    return ([(marker, False)], not text) if len(marker) <= room else None


def signature(call: ToolCall, max_chars: int) -> Signature:
    """The call's signature in at most `max_chars` characters; the module's text says what it is."""
    tokens, complete = _render(call, max_chars)
    if _size(tokens) > max_chars:
        tokens, complete = _cut(tokens, max_chars), False
    text = "".join([text for text, _ in tokens])
    return Signature(text, complete, tuple([piece for piece, verbatim in tokens if verbatim]))


def _render(call: ToolCall, room: int) -> tuple[list[_Token], bool]:
    """The tokens, and whether they are complete. With next to no room they may be too long."""
    arguments = arguments_of(call)
    if not isinstance(arguments, str):  # a tenth of the time of asking for a `Mapping`
        arguments = {
            str(key): value
            for key, value in arguments.items()
            if value is not None
            and value != {}
            and not (value is False and key in _DEFAULT_FALSE)
            and _kind(str(key)) != "noise"
        }
    name = call.name.strip()
    if not arguments:
        return ([(name, True)] if name else []), True
    tokens = _cut([(name, True)], max(room // 2, 1)) if name else []
    complete = len(name) <= max(room // 2, 1)
    if isinstance(arguments, str):
        if tokens:
            tokens.append((" ", False))
        part, whole = _free(call.name, arguments, room - _size(tokens))
        return tokens + part, complete and whole

    tool = _tool(name, arguments)
    todo = dict.fromkeys([*[key for key in tool.then if key in arguments], *arguments])
    for key in tool.verbs:
        word = arguments.get(key)
        if isinstance(word, str) and _VERB.fullmatch(word) and len(word) <= room // 4:
            tokens += [(" ", False), (word, True)] if tokens else [(word, True)]
            del todo[key]
    target = next((key for key in tool.target if key in todo), None)
    whole = False
    if target is not None:
        if tokens:
            tokens.append((" ", False))
        left = room - _size(tokens)
        if _kind(target) == "prose":  # what is short keeps its place beside a long text
            beside = [(key, arguments[key]) for key in todo if key != target]
            short = [len(key) + len(value) + 2 for key, value in beside if isinstance(value, str)]
            left -= min(left // 2, sum([size for size in short if size <= 40]))
        part, whole = _target(_kind(target), arguments[target], left)
        tokens += part
        complete = complete and whole
        del todo[target]

    omitted = False
    prose: list[str] = []
    comments: list[str] = []
    for key in todo:
        value = arguments[key]
        kind = _kind(key)
        if isinstance(value, str):
            if kind == "comment" or key in tool.comment:
                comments.append(key)
                continue
            if len(value) > _SHORT and kind in (_LONG if target is not None else _LONG_ALONE):
                prose.append(key)
                continue
        head = _key(key, tokens)
        argument = _argument(kind, value, room - _size(tokens) - _size(head))
        if argument is None:
            omitted = True
        else:
            tokens += head + argument[0]
            complete = complete and argument[1]
    for key in prose if whole and target is not None else prose + comments:
        head = _key(key, tokens)
        left = room - _size(tokens) - _size(head)
        value = arguments[key]
        extra = key in comments and target is not None
        if left >= 20:
            part, entire = _target(_kind(key), value, left)
        else:
            part, entire = ([], True) if extra else _argument("body", value, left) or ([], False)
        if part:
            tokens += head + part
        elif not extra:
            omitted = True
        complete = complete and (entire or extra)
    if omitted:
        complete = False
        if _size(tokens) + 2 <= room:
            tokens += [(" ", False), ("…", False)]
    return tokens, complete


def _key(key: str, tokens: Sequence[_Token]) -> list[_Token]:
    head: list[_Token] = [(key, True), ("=", False)] if key else [("=", False)]
    return [(" ", False), *head] if tokens else head


def _free(name: str, text: str, room: int) -> tuple[list[_Token], bool]:
    """Free text: a patch, JSON that is broken (its path or command leads even so), or a command."""
    if text.startswith(_PATCH_STARTS) and (patch := _patch(text, room)):
        return patch, False
    if text.startswith("{") and (match := _JSON_PATH.search(text) or _JSON_TARGET.search(text)):
        target, shorten = match.group(1), _end if match.re is _JSON_PATH else _beginning
        marker = _chars(len(text))
        left = room - len(marker) - 1
        if left < 8:
            return shorten(target, room)[0], False
        return [*shorten(target, left)[0], (" ", False), (marker, False)], False
    return _command(text, room, _free_kind(name))


def _free_kind(name: str) -> _Kind:
    tool = _row(name)
    return "code" if tool and tool.target and _kind(tool.target[0]) == "code" else "command"


# --- paths ----------------------------------------------------------------------------------------

_ENDINGS = _names(
    "py pyi pyx ipynb ts tsx jsx mjs cjs mts cts json jsonl json5 yaml yml toml ini cfg conf md mdx"
    " rst txt csv tsv html htm css scss sass less vue svelte java kt kts scala groovy gradle cpp cc"
    " cxx hpp hxx cs fs vb swift php rb erb sql sqlite db proto graphql xml xsl svg png jpg jpeg"
    " gif webp pdf docx xlsx pptx zip tar gz bz2 xz whl lock bat ps1 zsh fish dockerfile cmake tf"
    " hcl tex bib patch diff parquet pkl npy npz pt onnx safetensors wasm jar pony ex exs erl hs ml"
    " mli lua jl nim zig dart"
)
# These are attributes and words as well (`re.c`, `Node.js`): in prose and code only after a `/`.
_MORE_ENDINGS = _ENDINGS | _names(
    "c h js go rs r m mm sh pl pm t d log map so o a env lst out bin s asm bak backup orig"
)
_FILE_NAMES = _names("makefile dockerfile jenkinsfile procfile license readme gemfile rakefile changelog")
_ROOTS = _names(
    "home Users root tmp var etc usr opt srv mnt media app workspace workspaces testbed repo data"
    " logs private build project Library Applications work"
)
_EXPRESSION_FIRST = _names("sed gsed awk gawk perl grep egrep fgrep rg ag ack jq tr expr")
_NAMES_FIRST = _names(  # words with a `/` are branches, packages, images, text
    "git gh docker podman npm npx pnpm yarn pip pip3 uv uvx go cargo kubectl helm brew apt apt-get conda echo printf"
)
_PREFIXES = _names("sudo time nohup env xargs exec command then do else if while !")
_WORD = re.compile(
    r"(?P<word>(?:[^\s'\"`;|&()<>{}\\#$]++|\\[^\n]|\\$|\$\{[^}\s]*\}|\$|(?<=\S)#)+)"
    r"|(?P<stop>\n|[;|&()`{}]+)|'(?P<single>[^']*+)'|\"(?P<double>(?:[^\"\\]++|\\.)*+)\"|#[^\n]*",
    re.DOTALL,
)
# A word of prose or code with a slash, a backslash or an ending in it.
_PROSE_WORD = re.compile(
    r"(?<![^\s'\"`;|&()<>{}])(?:[^\s'\"`;|&()<>{}/\\.]++|\.(?!E))*+(?:[/\\]|\.)[^\s'\"`;|&()<>{}]*+".replace(
        "E", rf"(?:{'|'.join(sorted(_ENDINGS))})(?!\w)"
    ),
    re.IGNORECASE,
)
_SPLIT = re.compile(r"[,=]|(?<![A-Za-z]):|(?<=[\w.\]-]\w):|:(?![\\/])")
_POSIX = re.compile(r"(?:\$\w+/|~?/|\.{1,2}/)?(?:\\ |[\w.@+~-])+(?:/+(?:\\ |[\w.@+~#%-])+)*/?")
_WINDOWS = re.compile(r"(?:[A-Za-z]:\\|\.{1,2}\\)?[\w. @+~()-]+(?:\\[\w. @+~()-]+)*\\?")
_SPACED = re.compile(r"(?:~?/|\.{1,2}/|[A-Za-z]:\\)?[\w./\\@+~() -]*\.(\w{1,6})")
_MEDIA = re.compile(r"(?:application|text|image|audio|video|font|multipart|message|model)/[\w.+-]+")
_DOTFILE = re.compile(r"\.[A-Za-z][A-Za-z0-9_-]+(?:\.[A-Za-z]+)*")
_FILE = re.compile(r"[\w@+~.-]*[\w@+~-]\.(\w+)")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_LETTER = re.compile(r"[^\W\d]")


def paths(call: ToolCall) -> list[str]:
    """Verbatim paths in the call's argument values, in order of appearance, each once.

    Every one is a contiguous piece of a value: the value of a path argument, a word of a shell
    command or of a script in it, a file name of a patch, a path in prose. File contents and
    replaced strings are not read. URLs, options, expressions of sed, grep and their like, dates,
    fractions, MIME types, globs and branch names are kept out as far as can be told. What is read
    of one value is bounded: `SCAN_CHARS`, `BODY_SCAN_CHARS`."""
    arguments = arguments_of(call)
    found: list[str] = []
    if not isinstance(arguments, str):
        for key, value in arguments.items():
            found += _value_paths(str(key), value, 0)
    elif arguments.startswith("{") and (match := _JSON_PATH.search(arguments)):
        if match.end() < len(arguments):  # else the path is cut off, too
            found = _whole_path(match.group(1))
    elif _free_kind(call.name) == "code":
        found = _prose_paths(arguments, 0, min(len(arguments), SCAN_CHARS))
    else:
        found = _command_paths(arguments)
    return list(dict.fromkeys(found))


def _value_paths(key: str, value: Any, depth: int) -> list[str]:
    kind = _kind(key)
    if isinstance(value, str):
        if kind in ("path", "place"):
            return _whole_path(value)
        if kind in ("command", "commands"):
            return _command_paths(value)
        if kind == "body":
            return [path for _, path in _patch_files(value)]
        if kind in ("pattern", "url", "noise"):
            return []
        limit = SCAN_CHARS if kind == "code" else BODY_SCAN_CHARS
        return _prose_paths(value, 0, min(len(value), limit))
    if depth > 3:
        return []
    if isinstance(value, Mapping):
        inner = [(str(name), item) for name, item in value.items()]
    elif isinstance(value, (list, tuple)):
        if kind == "command" and all(isinstance(word, str) for word in value):
            return [path for word in value[:100] for path in _argument_paths(word)]
        inner = [(key, item) for item in value[:100]]
    else:
        return []
    return [path for name, item in inner for path in _value_paths(name, item, depth + 1)]


def _argument_paths(word: str) -> Sequence[str]:
    """Paths in one word of a command that is a list: the word itself, or a script with a shell's `-c`."""
    return _command_paths(word) if re.search(r"\s", word) else _candidates(word, False)


def _whole_path(value: str) -> list[str]:
    path = value.strip()
    if 1 < len(path) <= _PATH_CHARS and not re.search(r"\n|://", path) and _LETTER.search(path):
        return [path]
    return []


def _command_paths(text: str) -> list[str]:
    if text.lstrip().startswith(_PATCH_STARTS) and (files := _patch_files(text)):
        return [path for _, path in files]
    found: list[str] = []
    left = SCAN_CHARS
    start = 0
    for body in _bodies(text):
        end = min(body.start, start + left)
        found += _shell_paths(text, start, end)
        left -= max(end - start, 0)
        if left <= 0:
            return found
        if files := _patch_files(text, body.start, body.end):
            found += [path for _, path in files]
        elif _INTERPRETER.search(text[max(start, body.start - 200) : body.start].rstrip()):
            found += _prose_paths(text, body.start, min(body.end, body.start + BODY_SCAN_CHARS))
        start = body.resume
    return found + _shell_paths(text, start, min(len(text), start + left))


def _prose_paths(text: str, start: int, end: int) -> list[str]:
    """Paths in prose or code, where `and/or` is none."""
    found: list[str] = []
    for match in _PROSE_WORD.finditer(text, start, end):
        if text[match.start() - 1 : match.start()] not in ("}", ")"):  # the end of f"{base}/a.py"
            found += _candidates(match.group(), True)
    return found


def _shell_paths(text: str, start: int, end: int) -> list[str]:
    """Paths in a command. The first argument of sed, grep and their like is an expression; to git,
    npm and their like a word with a `/` is a branch or a package."""
    found: list[str] = []
    command = ""
    expression = strict = False
    for match in _WORD.finditer(text, start, end):
        group = match.lastgroup
        if group is None:
            continue
        if group == "stop":
            command, expression, strict = "", False, False
            continue
        word = match.group(group)
        if group == "word" and not command:
            if word in _PREFIXES or _ASSIGNMENT.match(word):
                found += _candidates(word, False)
                continue
            command = word.rsplit("/", 1)[-1]
            expression, strict = command in _EXPRESSION_FIRST, command in _NAMES_FIRST
            if command == word:
                continue
        elif word in ("-e", "--expression"):
            expression = command in _EXPRESSION_FIRST
            continue
        elif expression and word and not word.startswith("-") and not word.isdigit():
            expression = False
            continue
        if group == "word" or not re.search(r"\s", word):
            found += _candidates(word, strict)
        elif not strict and _is_spaced(word):
            found.append(word)
        else:
            found += _prose_paths(text, match.start(group), match.end(group))
    return found


def _is_spaced(word: str) -> bool:
    """`My Documents/a b.pdf`, which was quoted."""
    match = _SPACED.fullmatch(word) if len(word) <= _PATH_CHARS and word.count(" ") < 8 else None
    return match is not None and match.group(1).lower() in _ENDINGS and word == word.strip()


@lru_cache(maxsize=4096)  # a session names the same paths again and again
def _candidates(word: str, strict: bool) -> tuple[str, ...]:
    """The paths in one word: after an option's `=`, before `:12`, between commas."""
    if "/" not in word and "." not in word and "\\" not in word and word.lower() not in _FILE_NAMES:
        return ()
    if (word.startswith("-") and "=" not in word) or "://" in word or len(word) > 4 * _PATH_CHARS:
        return ()
    found: list[str] = []
    for part in _SPLIT.split(word):
        path = part.rstrip(".,:!?]").lstrip("@[")
        if part.endswith("/..."):
            path = part[:-4]
        if not part.startswith("-") and _is_path(path, strict):
            found.append(path)
    return tuple(found)


def _is_path(path: str, strict: bool) -> bool:
    if not 1 < len(path) <= _PATH_CHARS:
        return False
    if "\\" in path.replace("\\ ", ""):
        named = _FILE.fullmatch(path.rsplit("\\", 1)[-1])
        known = named is not None and named.group(1).lower() in _MORE_ENDINGS
        return (known or (path[1:3] == ":\\" and path[0].isupper())) and _WINDOWS.fullmatch(path) is not None
    named = _FILE.fullmatch(path.rstrip("/").rsplit("/", 1)[-1])
    ending = named.group(1).lower() if named else ""
    if "/" not in path:
        if ending in (_ENDINGS if strict else _MORE_ENDINGS):
            return not path[0].isdigit()
        return not strict and (path.lower() in _FILE_NAMES or bool(_DOTFILE.fullmatch(path)))
    if _POSIX.fullmatch(path) is None or path.startswith(("/dev/", "//")) or _MEDIA.fullmatch(path):
        return False
    parts = [part for part in path.split("/") if part]
    if not _LETTER.search(path):
        return False
    if ending in _MORE_ENDINGS or path.startswith(("./", "../", "~/", "$")):
        return True
    if path.startswith("/"):
        return not strict or (len(parts) > 1 and parts[0] in _ROOTS)
    return not strict and not path[0].isdigit() and not path.startswith(("@", "s/", "y/"))

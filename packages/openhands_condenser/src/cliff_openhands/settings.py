"""What `cliff openhands enable` and `disable` change: OpenHands' own files, and nothing else in them.

The text of one value is replaced; every other byte stays. What was there before is kept in
`$XDG_STATE_HOME/cliff/openhands.json`, without the model's settings in it (and so without keys): those are taken from
the file itself when it is put back, where the person may have changed them meanwhile.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cliff_openhands.spans import Member, member, members, replaced

CLI_KIND = "CliffCLICondenser"
KINDS = (CLI_KIND, "CliffCondenser")
"""Our classes, as OpenHands names them in its files."""

DEFAULT_KIND = "LLMSummarizingCondenser"
"""What the `openhands` command has where nobody chose."""

STORED = ("base_state.json", "meta.json")
"""Files of a stored conversation that name its condenser: the SDK's and the agent-server's."""


class SettingsError(Exception):
    """A file cannot be read or changed; the text says what to do."""


# --- where things are -----------------------------------------------------------------------------------


def persistence_dir() -> Path:
    """Where the `openhands` command keeps its settings."""
    return Path(os.environ.get("OPENHANDS_PERSISTENCE_DIR") or Path.home() / ".openhands")


def settings_path() -> Path:
    return persistence_dir() / "agent_settings.json"


def conversations_dir() -> Path:
    return Path(os.environ.get("OPENHANDS_CONVERSATIONS_DIR") or persistence_dir() / "conversations")


def state_path() -> Path:
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "cliff" / "openhands.json"


# --- the command's settings -----------------------------------------------------------------------------


def condenser_of(path: Path) -> dict[str, Any] | None:
    """The condenser in a file of settings; None without one, or without a file. Raises `SettingsError`."""
    if not path.is_file():
        return None
    found = _member(path, _text(path), "condenser")
    return found.value if found is not None and isinstance(found.value, dict) else None


def enable(path: Path, options: Mapping[str, Any]) -> bool:
    """Name our condenser in the command's settings, with these options. Whether anything changed.

    Raises `SettingsError` where the command was not set up yet."""
    if not path.is_file():
        raise SettingsError(f"{path} is missing: start `openhands` once and choose a model, then do this again")
    text = _text(path)
    model = _member(path, text, "llm")
    if model is None or not isinstance(model.value, dict):
        raise SettingsError(f"{path} has no model: start `openhands` once and choose one, then do this again")
    found = _member(path, text, "condenser")
    its_model = _member(path, text, "condenser", "llm")
    ours = {"kind": CLI_KIND, **options}
    if its_model is not None and isinstance(its_model.value, dict):
        llm = text[its_model.start : its_model.end]
    else:
        its_model = None
        llm = json.dumps({**model.value, "usage_id": "condenser"}, ensure_ascii=False)
    # Ours needs a model to be one of the kind that the command keeps; it never calls it.
    value = json.dumps(ours, ensure_ascii=False)[:-1] + ', "llm": ' + llm + "}"
    if found is None:
        end = text.rindex("}")
        comma = "," if json.loads(text) else ""
        new, before = f'{text[:end]}{comma}"condenser":{value}{text[end:]}', None
    else:
        new, before = replaced(text, found, value), _without(text, found, its_model)
    if new == text:
        return False
    if found is None or not _is_ours(found.value):
        _keep(path, {"before": before})
    _write(path, new)
    return True


def disable(path: Path) -> str | None:
    """Put back the condenser that was there before. Its kind (`none` for no condenser); None if ours is not there."""
    if not path.is_file():
        _forget(path)
        return None
    text = _text(path)
    found = _member(path, text, "condenser")
    if found is None or not _is_ours(found.value):
        _forget(path)
        return None
    record = _kept(path)
    if record is not None and record["before"] is None:
        new, kind = _removed(text, found), "none"
    else:
        its_model = _member(path, text, "condenser", "llm")
        llm = text[its_model.start : its_model.end] if its_model is not None else "null"
        before = record["before"] if record is not None else [f'{{"kind":"{DEFAULT_KIND}","llm":', "}"]
        value = llm.join(before)
        new, kind = replaced(text, found, value), _kind(json.loads(value))
    _write(path, new)
    _forget(path)
    return kind


# --- stored conversations -------------------------------------------------------------------------------


def stored(folder: Path) -> Iterator[Path]:
    """Files of conversations below a folder that name a class of ours. Files that cannot be read are left out."""
    for name in STORED:
        for path in sorted(folder.rglob(name)):  # sub-agents have theirs further down
            try:
                text = _text(path)
                if any(kind in text for kind in KINDS) and list(_condensers(text)):
                    yield path
            except (SettingsError, ValueError):
                continue


def mend(path: Path) -> None:
    """Give a stored conversation the SDK's default condenser in place of ours: without our class it could not be
    loaded. Its model is the agent's, if ours had none. Raises `SettingsError`."""
    text = _text(path)
    for found in reversed(list(_condensers(text))):
        its_model = member(text, *found.path, "llm")
        if its_model is not None and isinstance(its_model.value, dict):
            llm = text[its_model.start : its_model.end]
        else:
            llm = json.dumps({**_model_around(path, text, found), "usage_id": "condenser"}, ensure_ascii=False)
        text = replaced(text, found, f'{{"kind":"{DEFAULT_KIND}","llm":{llm}}}')
    _write(path, text)


def _model_around(path: Path, text: str, found: Member) -> dict[str, Any]:
    """The model of the agent that has this condenser, alone or in a pipeline."""
    for depth in range(len(found.path) - 1, -1, -1):
        model = member(text, *found.path[:depth], "llm")
        if model is not None and isinstance(model.value, dict):
            return model.value
    raise SettingsError(f"{path} has a condenser of ours and no model: it cannot be mended")


def _condensers(text: str) -> Iterator[Member]:
    return (found for found in members(text) if _is_ours(found.value))


# --- an environment file of the app server --------------------------------------------------------------

BEGIN, END = "# >>> cliff openhands", "# <<< cliff openhands"
UNENDED = " (the line before had no end)"
INJECTOR = "cliff_openhands.app_server.CliffAppConversationServiceInjector"
SERVER_KIND = "OH_APP_CONVERSATION_KIND"
SERVER_PREFIX = "OH_APP_CONVERSATION_CLIFF_"


def server_lines(options: Mapping[str, Any]) -> list[str]:
    """The app server's variables. None of their values needs quotes, which `docker --env-file` would not take off."""
    lines = [f"{SERVER_KIND}={INJECTOR}"]
    for name, value in options.items():
        shown = str(value).lower() if isinstance(value, bool) else value
        lines.append(f"{SERVER_PREFIX}{name.upper()}={shown}")
    return lines


def server_options(path: Path) -> dict[str, str] | None:
    """The options in an environment file, as they are written; None where it has nothing of ours.

    Raises `SettingsError` for a file that cannot be read."""
    lines = _text(path).splitlines() if path.exists() else []
    if f"{SERVER_KIND}={INJECTOR}" not in lines:
        return None
    pairs = (line.split("=", 1) for line in lines if line.startswith(SERVER_PREFIX) and "=" in line)
    return {name.removeprefix(SERVER_PREFIX).lower(): value for name, value in pairs}


def enable_server(path: Path, options: Mapping[str, Any]) -> bool:
    """Put the variables at the end of an environment file, where they override others. Whether anything changed."""
    if not path.parent.is_dir():
        raise SettingsError(f"{path} cannot be written: there is no folder {path.parent}")
    text = _text(path) if path.exists() else ""
    rest = _without_lines(text)
    lines = [BEGIN, *server_lines(options), END, ""]
    if rest and not rest.endswith("\n"):
        lines = ["", BEGIN + UNENDED, *lines[1:]]
    new = "\n".join(lines)
    if rest + new == text:
        return False
    _write(path, rest + new)
    return True


def disable_server(path: Path) -> bool:
    """Take them out again; a file that has nothing else goes. Whether anything changed."""
    text = _text(path) if path.exists() else ""
    rest = _without_lines(text)
    if rest == text:
        return False
    if rest:
        _write(path, rest)
    else:
        path.unlink()
    return True


def _without_lines(text: str) -> str:
    start = text.find(BEGIN)
    end = text.find(END, start)
    if start < 0 or end < 0:
        return text
    before, after = text[:start], text[end + len(END) :].removeprefix("\n")
    return (before.removesuffix("\n") if text.startswith(UNENDED, start + len(BEGIN)) else before) + after


# --- files ----------------------------------------------------------------------------------------------


def _is_ours(value: object) -> bool:
    return isinstance(value, dict) and value.get("kind") in KINDS


def _kind(value: object) -> str:
    return str(value.get("kind", "unknown")) if isinstance(value, dict) else "none"


def _removed(text: str, found: Member) -> str:
    """The text without a member, and without the comma before or after it."""
    comma = text.rfind(",", 0, found.start)
    if comma >= 0:
        return text[:comma] + text[found.end :]
    return text[: text.index("{") + 1] + text[found.end :].lstrip().removeprefix(",")


def _without(text: str, found: Member, its_model: Member | None) -> list[str]:
    """The value's text before and after its model; the whole one if it has none."""
    if its_model is None:
        return [text[found.start : found.end]]
    return [text[found.start : its_model.start], text[its_model.end : found.end]]


def _member(path: Path, text: str, *names: str) -> Member | None:
    try:
        return member(text, *names)
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{path} is no JSON object ({error}): nothing was changed") from None


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} cannot be read: {error}") from None


def _write(path: Path, text: str) -> None:
    """At once, or not at all; with the permissions that the file had (else the owner's alone: it may hold keys)."""
    path = path.resolve()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
        number, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
        try:
            with os.fdopen(number, "wb") as file:
                file.write(text.encode("utf-8"))
            os.chmod(name, mode)
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        raise SettingsError(f"{path} cannot be written: {error}") from None


def _state() -> dict[str, Any]:
    path = state_path()
    if not path.exists():
        return {}
    try:
        state = json.loads(_text(path))
    except ValueError:
        state = None
    if not isinstance(state, dict):
        raise SettingsError(f"{path}, the record of what was changed, cannot be read: repair it, or remove it")
    return state


def _kept(path: Path) -> dict[str, Any] | None:
    record = _state().get(str(path.resolve()))
    return record if isinstance(record, dict) and "before" in record else None


def _keep(path: Path, record: dict[str, Any]) -> None:
    _write(state_path(), json.dumps({**_state(), str(path.resolve()): record}, indent=2))


def _forget(path: Path) -> None:
    state = _state()
    if state.pop(str(path.resolve()), None) is not None:
        if state:
            _write(state_path(), json.dumps(state, indent=2))
        else:
            state_path().unlink()

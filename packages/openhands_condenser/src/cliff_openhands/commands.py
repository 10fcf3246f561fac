"""`cliff openhands`: our condenser in OpenHands' settings, and out of them again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from cliff_core.commands.options import config_options
from cliff_core.commands.said import say, warn
from cliff_core.config import CliffConfig, ConfigError
from cliff_core.wording import counted
from cliff_openhands import doctor, settings
from cliff_openhands.settings import SettingsError

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Use CliffCompaction as the condenser of OpenHands.",
)

Server = Annotated[
    Path | None,
    typer.Option(
        "--server",
        metavar="FILE",
        help="An environment file of the app server (NAME=VALUE lines) in place of the settings of `openhands`.",
    ),
]
Conversations = Annotated[
    list[Path] | None,
    typer.Option(
        help="A folder of stored conversations, beside that of `openhands`; a server's is workspace/conversations.",
    ),
]


@app.command()
@config_options
def enable(server: Server = None, **options: Any) -> None:
    """Make cliff the condenser of the `openhands` command, or of an app server (--server).

    Only the options that are given are written; --preset and the ones after it are those of a compaction.
    What was there before is kept, and `disable` puts it back."""
    given = {name: value for name, value in options.items() if value is not None}
    try:
        CliffConfig.preset(
            given.get("preset", "default"), **{name: value for name, value in given.items() if name != "preset"}
        )
    except ConfigError as error:
        raise typer.BadParameter(str(error)) from None
    path = settings.settings_path() if server is None else server
    try:
        changed = settings.enable(path, given) if server is None else settings.enable_server(path, given)
    except SettingsError as error:
        raise _failed(error) from None
    shown = ", ".join(f"{name}={value}" for name, value in given.items()) or "default options"
    print(f"{path}: {'the condenser is now' if changed else 'the condenser is already'} cliff ({shown})")
    if server is not None:
        print(
            "Start the app server with these variables. Its sandboxes need cliff-openhands, too: "
            "docs/openhands.md, Set it up."
        )
        return
    if changed:
        print(f"What was there before is kept in {settings.state_path()}; `cliff openhands disable` puts it back.")
    for finding in doctor.hook():
        if finding.level != "ok":
            warn(f"{finding.what}: {finding.mend}")


@app.command()
def disable(server: Server = None, conversations: Conversations = None) -> None:
    """Put back what was there before, and mend stored conversations that name our classes.

    Without our package OpenHands could not load them. Do this before `pip uninstall`, while OpenHands does not run."""
    failed = False
    try:
        if server is not None:
            done = settings.disable_server(server)
            print(f"{server}: {'our lines are out' if done else 'there is nothing of ours'}")
        else:
            path = settings.settings_path()
            kind = settings.disable(path)
            print(f"{path}: " + ("there is nothing of ours" if kind is None else f"the condenser is now {kind}"))
    except SettingsError as error:
        _failed(error)
        failed = True
    folders = [settings.conversations_dir()] if server is None else []
    for folder in [*folders, *(conversations or ())]:
        mended = 0
        for path in list(settings.stored(folder)):
            try:
                settings.mend(path)
                mended += 1
            except SettingsError as error:
                _failed(error)
                failed = True
        print(f"{folder}: {counted(mended, 'file')} of conversations mended")
    if failed:
        raise typer.Exit(2)


@app.command()
def status(
    server: Server = None,
    conversations: Conversations = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Whether cliff is on, with which options, and whether OpenHands can find it. Exit 1 where something is wrong."""
    path = settings.settings_path()
    try:
        condenser = settings.condenser_of(path)
        servers = settings.server_options(server) if server is not None else None
    except SettingsError as error:
        raise _failed(error) from None
    findings = list(doctor.check())
    kind = condenser.get("kind") if condenser else None
    options = {k: v for k, v in (condenser or {}).items() if k in CliffConfig().as_dict() and v is not None}
    stored = {
        str(folder): sum(1 for _ in settings.stored(folder))
        for folder in [settings.conversations_dir(), *(conversations or ())]
    }
    if as_json:
        data = {
            "settings": str(path),
            "condenser": kind,
            "enabled": kind == settings.CLI_KIND,
            "options": options if kind in settings.KINDS else {},
            "conversations": stored,
            **({} if server is None else {"server": {"file": str(server), "options": servers}}),
            "findings": [{"level": f.level, "what": f.what, "mend": f.mend} for f in findings],
        }
        print(json.dumps(data, indent=2))
    else:
        shown = _options(options) if kind in settings.KINDS else ""
        print(
            f"{path}: {'no condenser' if kind is None else kind}{shown}" + ("" if path.exists() else " (no such file)")
        )
        if server is not None:
            print(f"{server}: {'there is nothing of ours' if servers is None else 'cliff' + _options(servers)}")
        for folder, number in stored.items():
            print(f"{folder}: {counted(number, 'file')} of conversations with our classes")
        for finding in findings:
            print(f"{finding.level}: {finding.what}" + (f" -> {finding.mend}" if finding.mend else ""))
    if any(finding.level == "problem" for finding in findings):
        raise typer.Exit(1)


def _options(options: Mapping[str, Any]) -> str:
    return f" ({', '.join(f'{name}={value}' for name, value in options.items())})" if options else ""


def _failed(error: SettingsError) -> typer.Exit:
    say("error", "red", str(error))
    return typer.Exit(2)

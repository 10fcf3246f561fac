"""`cliff run`: one command through a proxy of its own."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from cliff_core.commands.said import say, warn
from cliff_proxy import log, places, running
from cliff_proxy.clients import Client, ClientError, Upstreams, client
from cliff_proxy.commands.options import CONFIG, read_settings, settings_options
from cliff_proxy.inside import Inside
from cliff_proxy.settings import UPSTREAMS, Settings, base_url
from cliff_proxy.summary import line
from cliff_proxy.supervised import Command, StartError

app = typer.Typer(rich_markup_mode=None)

START_SECONDS = 60.0
"""For how long the proxy may take to start; usually it takes less than one."""


# Options of the command that is run are not ours, with or without `--` before it.
@app.command(context_settings={"allow_interspersed_args": False})
@settings_options("host", "port")
def command(
    argv: Annotated[list[str], typer.Argument(metavar="[--] CMD [ARGS]...", help="The command to run.")],
    config: CONFIG = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing at the end.")] = False,
    **options: Any,
) -> None:
    """Run a command through a proxy of its own, on a free port of this machine, for this command only.

    Claude Code (claude), Codex (codex) and opencode get their own settings; any other command the variables
    ANTHROPIC_BASE_URL and OPENAI_BASE_URL. Where it would have sent its requests without us becomes the upstream.
    The exit status is the command's own; 2 if the proxy cannot start, and then the command is not run."""
    settings = read_settings(config, options)
    client_ = client(argv)
    try:
        settings = _beside(settings, client_.upstreams())
        _log(settings)
        raise typer.Exit(_run(client_, settings, quiet))
    except ClientError as error:
        say("error", "red", str(error))
        raise typer.Exit(2) from None


def _beside(settings: Settings, upstreams: Upstreams) -> Settings:
    """The settings of a proxy for one client: what a person told us of upstreams is over what the client says."""
    changes: dict[str, Any] = {}
    for name, found, where in (
        ("anthropic_upstream", upstreams.anthropic, upstreams.anthropic_in),
        ("openai_upstream", upstreams.openai, upstreams.openai_in),
    ):
        if found is None or name in settings.given:
            continue
        try:
            changes[name] = base_url(found)
        except ValueError as error:
            raise ClientError(f"{where} must be {error}, not {found!r}") from None
        if running.leads_to_ours(changes[name]):
            raise ClientError(
                f"the client is already set to a running cliff proxy ({found}): run it without `cliff run`, or unset "
                f"{where}"
            )
    settings = settings.replace(host="127.0.0.1", port=0, token=None, **changes)
    try:
        running.check_upstreams(settings, [name for name in UPSTREAMS if name not in changes])  # the others were asked
    except ValueError as error:
        raise ClientError(str(error)) from None
    return settings


def _log(settings: Settings) -> None:
    """To a file: the terminal is the client's."""
    path = settings.log or places.run_log()
    try:
        log.set_up(path=path)
    except OSError as error:
        warn(f"there is no log: {path} cannot be written: {error.strerror or error}")
        logging.getLogger("cliff_proxy").addHandler(logging.NullHandler())


def _run(client_: Client, settings: Settings, quiet: bool) -> int:
    ended: list[str] = []

    def end(reason: str) -> None:
        ended.append(reason)
        _say_ended(reason)

    command_ = Command()
    try:
        inside = Inside(settings, end)
        if (number := _wait(inside, command_)) is not None:
            return 128 + number
        if inside.error is not None:
            say("error", "red", f"the proxy cannot start, and {client_.argv[0]} was not run: {inside.error}")
            return 2
        for problem in (running.ask(inside.url, "status") or {}).get("problems", []):
            warn(problem)  # now, as it can still be mended: a store or a folder of recordings that cannot be written
        launch = client_.launch(inside.url)
        name = Path(client_.argv[client_.place]).name
        try:
            with running.announced(running.Running(inside.url, os.getpid(), "run", name)):
                status = command_.run(launch.argv, os.environ | launch.env)
        except StartError as error:
            say("error", "red", str(error))
            inside.stop()
            return error.status
        finally:
            for file in launch.files:
                file.unlink(missing_ok=True)
        if ended:
            _say_ended(ended[0])  # once more, as a full-screen client has wiped it away
        elif not quiet and (found := running.ask(inside.url, "status")):
            say("cliff", "green", line(found))
        inside.stop()
        return status
    finally:
        command_.close()


def _wait(inside: Inside, command_: Command) -> int | None:
    """Until the proxy listens or has failed; the signal that ended the waiting."""
    waited = 0.0
    while not inside.wait(0.05):
        waited += 0.05
        if (number := command_.told_to_end) is not None:
            return number
        if waited > START_SECONDS:
            inside.error = TimeoutError(f"it took more than {START_SECONDS:.0f} seconds")
            break
    return None


def _say_ended(reason: str) -> None:
    say("error", "red", f"the proxy ended while the command ran, whose requests fail since: {reason}")

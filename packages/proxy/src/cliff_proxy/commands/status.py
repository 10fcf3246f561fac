"""`cliff status`: the running proxies, and what they saved."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.text import Text

from cliff_core.commands.said import Stream, say
from cliff_core.wording import counted
from cliff_proxy import access, running
from cliff_proxy.commands.options import CONFIG, read_settings
from cliff_proxy.settings import Settings
from cliff_proxy.summary import lines

app = typer.Typer(rich_markup_mode=None)

MOST_SESSIONS = 20
"""Sessions of a proxy that are shown; --json has all."""


@app.command()
def command(
    url: Annotated[str | None, typer.Option(help="Ask this proxy only, such as http://127.0.0.1:8642.")] = None,
    config: CONFIG = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """What the running proxies do: sessions, cliffs, tokens and dollars saved, problems.

    What was sent is what the providers reported, cache reads and writes included; what the full history would have
    cost is an estimate. Exit status 1 if no proxy runs."""
    settings = read_settings(config, {})
    found: list[dict[str, Any]] = []
    errors: list[dict[str, str]] = []
    for proxy in [running.Running(url, 0, "serve")] if url else _candidates(settings):
        try:
            status = running.ask(proxy.url, "status", settings.token)
        except PermissionError as error:
            say("error", "red", str(error))
            errors.append({"url": proxy.url, "error": str(error)})
            continue
        except ValueError as error:
            raise typer.BadParameter(f"--url {proxy.url}: {error}") from None
        if status is None:
            if proxy.pid:  # its process is there
                errors.append({"url": proxy.url, "error": "it does not answer"})
                say("error", "red", f"the proxy of process {proxy.pid} at {proxy.url} does not answer")
            continue
        found.append({"url": proxy.url, "kind": proxy.kind, "command": proxy.command, **status})
    if as_json:
        print(json.dumps({"proxies": found, "errors": errors}, indent=2))
    else:
        _show(found)
        if not found and not errors:
            where = f"at {url}" if url else "here: start one with `cliff run -- CMD` or `cliff serve`"
            say("status", "yellow", f"no proxy runs {where}")
    if not found:
        raise typer.Exit(1)
    if errors:
        raise typer.Exit(2)


def _candidates(settings: Settings) -> list[running.Running]:
    """The user's own, and the one at the address of the settings, which another user or a container may run."""
    found = running.found()
    host = settings.host if settings.host not in running.EVERYWHERE else "127.0.0.1"
    url = f"http://{access.in_url(host)}:{settings.port}"
    if settings.port and all(proxy.url != url for proxy in found):
        found.append(running.Running(url, 0, "serve"))
    return found


def _show(found: list[dict[str, Any]]) -> None:
    out = Stream()
    for status in found:
        what = f"cliff run -- {status['command']}" if status["kind"] == "run" else "cliff serve"
        server = status.get("server", {})
        sessions = status.get("sessions", [])
        shown = {**status, "sessions": sessions[:MOST_SESSIONS]}
        for part in lines(f"{status['url']} ({what}, process {server.get('pid', '?')})", shown):
            out.print(part, soft_wrap=isinstance(part, Text))
        if len(sessions) > MOST_SESSIONS:
            out.print(f"  and {counted(len(sessions) - MOST_SESSIONS, 'more session')} (--json)")

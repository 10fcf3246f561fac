"""`cliff service`: the proxy as a service of the user."""

from __future__ import annotations

import os

import typer

from cliff_core.commands.said import say, stderr, warn
from cliff_core.config import ENV_PREFIX, OPTIONS
from cliff_proxy import access, running, service
from cliff_proxy.commands.options import CONFIG, read_settings
from cliff_proxy.commands.serve import told
from cliff_proxy.settings import NAMES, variable

app = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    help="The proxy as a service of the user (systemd or launchd), started at login.",
)


@app.command()
def install(config: CONFIG = None) -> None:
    """Install and start it; what was installed before is replaced.

    Its settings are those of the TOML file alone. Where it cannot be started, everything is as it was before, and the
    exit status is 1."""
    settings = read_settings(config, {})
    ignored = [v for name in (*NAMES, *OPTIONS) if os.environ.get(v := variable(name), "").strip()]
    if ignored:
        # They stand in this shell only; the service would differ from what this command checked.
        for name in ignored:
            os.environ.pop(name)
        settings = read_settings(config, {})
        warn(f"a service has no {ENV_PREFIX} variables of this shell: put {', '.join(ignored)} into the file")
    if settings.port == 0:
        raise typer.BadParameter("port 0 is another one at each start: a service needs one that clients can be told")
    log = settings.log or service.log_file()
    host = settings.host if access.is_loopback(settings.host) else "127.0.0.1"
    url = f"http://{access.in_url(host)}:{settings.port}"
    try:
        access.check(settings)
        running.check_upstreams(settings)
        under = service.manager()
        service.install(under, config.absolute() if config else None, log, url, settings)
    except (service.ServiceError, ValueError) as error:
        say("error", "red", f"not installed: {error}")
        raise typer.Exit(1) from None
    for text in (f"installed: {under.file}; log: {log}; undo: cliff service remove", *told(url, settings)):
        stderr.print(text, soft_wrap=True, markup=False)


@app.command()
def remove() -> None:
    """Stop it and take it away. Its log, its store and the settings stay."""
    try:
        under = service.manager()
        there = service.remove(under)
    except (service.ServiceError, OSError) as error:
        say("error", "red", f"not removed: {error}")
        raise typer.Exit(1) from None
    say("service", "green", f"removed: {under.file}" if there else "there was none")
    if there:
        stderr.print("Clients that still have its address as their base URL need it taken away: cliff doctor")

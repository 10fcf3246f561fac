"""`cliff serve`: a long-running proxy."""

from __future__ import annotations

import contextlib
import errno
import os
from typing import Any

import typer

from cliff_core.commands.said import say, stderr
from cliff_proxy import access, log, running
from cliff_proxy.commands.options import CONFIG, read_settings, settings_options
from cliff_proxy.process import run
from cliff_proxy.server import Proxy, serve
from cliff_proxy.settings import Settings

app = typer.Typer(rich_markup_mode=None)


@app.command()
@settings_options()
def command(config: CONFIG = None, **options: Any) -> None:
    """Run a proxy until it is interrupted.

    Settings are those of the TOML file (cliff/proxy.toml in the user's configuration folder, or --config), of CLIFF_*
    variables and of flags, each over the one before."""
    settings = read_settings(config, options)
    try:
        log.set_up(path=settings.log)
    except OSError as error:
        raise typer.BadParameter(f"--log {settings.log}: cannot be written: {error.strerror or error}") from None
    with contextlib.ExitStack() as stack:

        def started(proxy: Proxy) -> None:
            stack.enter_context(running.announced(running.Running(proxy.url, os.getpid(), "serve")))
            for text in told(proxy.url, settings):
                stderr.print(text, soft_wrap=True, markup=False)

        try:
            running.check_upstreams(settings)
            run(serve(settings, started=started))
        except (OSError, ValueError) as error:
            say("error", "red", f"the proxy cannot start: {_problem(error, settings)}")
            raise typer.Exit(2) from None


def told(url: str, settings: Settings) -> list[str]:
    """How clients are pointed at it."""
    lines = [
        f"cliff proxy at {url}; what it does: cliff status. Clients are pointed at it by",
        f"    ANTHROPIC_BASE_URL={url}",
        f"    OPENAI_BASE_URL={url}/v1",
        f"    codex -c 'openai_base_url=\"{url}/v1\"'",
    ]
    if not access.is_loopback(settings.host):
        lines.append(
            f"Each request needs the token in the header {access.TOKEN_HEADER}, from this machine, too (Claude Code: "
            f"ANTHROPIC_CUSTOM_HEADERS='{access.TOKEN_HEADER}: TOKEN'; others: docs/proxy.md, section Security)"
        )
    return lines


def _problem(error: Exception, settings: Settings) -> str:
    if not isinstance(error, OSError):
        return str(error)
    taken = error.errno == errno.EADDRINUSE
    return running.listen_error(error, settings) + ("; choose one with --port" if taken else "")

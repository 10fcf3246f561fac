"""In place of a container, for tests on a machine without Docker: a folder, in which the commands of the host run, and
a real tmux with a socket of its own. `/app`, `/logs`, `/agent-logs`, `/tests` and `/solution` are folders in it: a
command that names them gets the folder's path. Nothing is isolated: only our own task runs here.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

_PATHS = re.compile(r"(?<![\w./-])/(app|logs|agent-logs|tests|solution)(?=[/\s'\";)]|$)")
_PROFILE = (
    "export PATH='{path}' PS1='\\w\\$ ' HISTFILE= PYTHONDONTWRITEBYTECODE=1\nbind 'set enable-bracketed-paste off'\n"
)


class Box:
    """Made by `start()`, gone after `stop()`."""

    def __init__(self) -> None:
        self.root: Path | None = None

    def start(self, app: Path) -> None:
        """`app`: what lies in the working folder."""
        self.root = Path(tempfile.mkdtemp(prefix="box-", dir="/tmp"))  # a socket's path must be short
        for name in ("logs/agent", "logs/verifier", "logs/artifacts", "agent-logs", "tests", "solution"):
            (self.root / name).mkdir(parents=True)
        shutil.copytree(app, self.root / "app")
        (self.root / ".bash_profile").write_text(_PROFILE.format(path=os.environ["PATH"]))

    def stop(self) -> None:
        if self.root is not None:
            self.run(["tmux", "kill-server"])
            shutil.rmtree(self.root, ignore_errors=True)
            self.root = None

    def path(self, inside: str | Path) -> Path:
        """Where a path of the container lies."""
        assert self.root is not None
        return self.root / str(inside).lstrip("/")

    def mapped(self, text: str) -> str:
        return _PATHS.sub(lambda match: f"{self.root}/{match.group(1)}", text)

    def run(
        self, command: str | list[str], env: dict[str, str] | None = None, timeout: float | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        """A command, as a shell's line or as words, in the working folder."""
        assert self.root is not None
        words = ["bash", "-c", command] if isinstance(command, str) else command
        environ = {
            name: value for name, value in os.environ.items() if name not in ("TMUX", "TMUX_PANE", "PROMPT_COMMAND")
        }
        environ |= {
            "HOME": str(self.root),
            "TMUX_TMPDIR": str(self.root),
            "SHELL": "/bin/bash",
            "TERM": "xterm-256color",
        }
        return subprocess.run(
            [self.mapped(word) for word in words],
            cwd=self.root / "app",
            env=environ | (env or {}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout,
            check=False,
        )

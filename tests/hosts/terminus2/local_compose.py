"""terminal-bench's container without Docker: `use()` puts a `Box` in the place of Docker Compose. All the rest of the
harness, its terminal and its tmux session are the host's."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from box import Box
from terminal_bench.terminal.docker_compose_manager import DockerComposeManager


class LocalContainer:
    """What the host uses of a Docker container."""

    def __init__(self, box: Box, logs: dict[str, Path | None]) -> None:
        self.box = box
        self.attrs = {"Config": {"User": "", "WorkingDir": "/app"}}
        for name, folder in logs.items():  # the host's bind mounts
            if folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
                inside = box.path(name)
                for entry in inside.iterdir():
                    entry.rmdir()
                inside.rmdir()
                inside.symlink_to(folder.absolute())

    def exec_run(self, cmd: str | list[str], user: str = "") -> Any:
        done = self.box.run(cmd)
        return SimpleNamespace(exit_code=done.returncode, output=done.stdout + done.stderr)

    def put_archive(self, path: str, data: bytes) -> bool:
        target = self.box.path(path)
        target.mkdir(parents=True, exist_ok=True)
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            archive.extractall(target, filter="data")
        return True


def use() -> None:
    def init(self: Any, *_: Any, docker_compose_path: Path, **given: Any) -> None:
        self._app = Path(docker_compose_path).parent / "environment" / "app"
        self._logs = {"/logs": given.get("sessions_logs_path"), "/agent-logs": given.get("agent_logs_path")}
        self._box = Box()

    def start(self: Any) -> LocalContainer:
        self._box.start(self._app)
        self._client_container = LocalContainer(self._box, self._logs)
        return self._client_container

    def stop(self: Any) -> None:
        self._box.stop()

    manager: Any = DockerComposeManager
    manager.__init__, manager.start, manager.stop = init, start, stop

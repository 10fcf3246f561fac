"""Harbor's environment without a container: `harbor run -e local_environment:LocalEnvironment`."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

from box import Box
from harbor.environments.base import BaseEnvironment, ExecResult


class LocalEnvironment(BaseEnvironment):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.box = Box()
        super().__init__(*args, **kwargs)

    @staticmethod
    def type() -> str:
        return "local"

    def _validate_definition(self) -> None:
        if not (self.environment_dir / "app").is_dir():
            raise FileNotFoundError(self.environment_dir / "app")

    async def start(self, force_build: bool) -> None:
        self.box.start(self.environment_dir / "app")

    async def stop(self, delete: bool) -> None:
        self.box.stop()

    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> ExecResult:
        done = await asyncio.to_thread(self.box.run, command, env, timeout_sec)
        return ExecResult(
            stdout=done.stdout.decode(errors="replace"),
            stderr=done.stderr.decode(errors="replace"),
            return_code=done.returncode,
        )

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        _copy(Path(source_path), self.box.path(target_path))

    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        shutil.copytree(source_dir, self.box.path(target_dir), dirs_exist_ok=True)

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        _copy(self.box.path(source_path), Path(target_path))

    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        shutil.copytree(self.box.path(source_dir), target_dir, dirs_exist_ok=True)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)

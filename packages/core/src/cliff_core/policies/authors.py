"""Policy `authors`: the engine of the authors' proxy, `cliffcompaction` 0.1.0, run for real."""

from __future__ import annotations

import atexit
import contextlib
import importlib.metadata
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cliff_core.config import CliffConfig
from cliff_core.decision import room
from cliff_core.ledger import Meter
from cliff_core.policies.base import PolicyError, PolicyView, Settings
from cliff_core.traces import Session

VERSION = "0.1.0"
VARIABLE = "CLIFF_AUTHORS_PYTHON"
WORKER = Path(__file__).with_name("authors_worker.py")


def default_python() -> Path:
    """Where it is looked for if nobody says: `cliff/authors` below the XDG data directory."""
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "cliff" / "authors" / "bin" / "python"


def find_python(given: str | None = None) -> str | None:
    """A Python that may have the authors' package: the one given, the one of `CLIFF_AUTHORS_PYTHON`, the one at
    `default_python`, this one if it has the package. It is an environment of its own, since the package installs a
    script `cliff`, too."""
    named = given or os.environ.get(VARIABLE)
    if named:
        return named
    if default_python().is_file():
        return str(default_python())
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        importlib.metadata.version("cliffcompaction")
        return sys.executable
    return None


def _how(problem: str) -> PolicyError:
    folder = default_python().parents[1]
    return PolicyError(
        f"policy authors: {problem}; it runs cliffcompaction {VERSION} in an environment of its own: "
        f"`python3 -m venv {folder} && {folder}/bin/pip install cliffcompaction=={VERSION}`, "
        f"or name another one's Python with --authors-python or {VARIABLE}"
    )


class Authors:
    """`Engine.prepare` of the authors' package with its defaults, for each request in turn, at the threshold asked for
    (lowered to what the provider takes, never raised: theirs is not).

    It counts characters / 4 of the whole JSON body. Where the recording has no system prompt or tools, the body has
    a filler of four characters for each token of the fixed part, as if they were there. What their proxy would do
    after a rejection is not played: nothing rejects here."""

    name = "authors"
    note = f"authors: cliffcompaction {VERSION} itself, with its defaults"

    def __init__(self, config: CliffConfig, settings: Settings | None = None) -> None:
        self.config = config
        python = find_python((settings or Settings()).authors_python)
        if python is None:
            raise _how("the authors' package is not installed")
        self._python = python
        self._process: subprocess.Popen[str] | None = None
        self._session: Session
        self._meter: Meter
        self._open = False
        self._threshold = config.first_threshold
        self._sent = 0
        self._known: dict[str, Any] = {}
        self._launch()

    def start(self, session: Session, meter: Meter, limit: int | None = None) -> None:
        self._session, self._meter = session, meter
        self._threshold = self.config.first_threshold
        if limit is not None:
            self._threshold = min(self._threshold, room(limit))
        self._open, self._sent, self._known = False, 0, {}
        if self._process is None or self._process.poll() is not None:  # it ended in an earlier session
            self.close()
            self._launch()

    def view(self, history: Sequence[Any], fixed_tokens: int) -> PolicyView:
        if not self._open or len(history) < self._sent:
            self._tell({"open": self._opening(fixed_tokens)})
            self._open, self._sent = True, 0
        answer = self._ask({"append": [_public(message) for message in history[self._sent :]]})
        self._sent = len(history)
        messages: list[Any] = []
        for part in answer["parts"]:
            if isinstance(part, list):
                messages += history[part[0] : part[1]]
            else:  # the same summary is the same object each time
                messages.append(self._known.setdefault(json.dumps(part), part))
        tokens = fixed_tokens + sum(map(self._meter.tokens, messages))
        return PolicyView(messages, tokens, compacted=answer["compacted"])

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            process, self._process = self._process, None
            atexit.unregister(self.close)
            with contextlib.suppress(OSError):
                if process.stdin is not None:
                    process.stdin.close()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()

    def _opening(self, fixed_tokens: int) -> dict[str, Any]:
        name = self._session.dialect
        body: dict[str, Any] = {"model": self._session.model or "model"}
        if self._session.system:
            body["instructions" if name == "responses" else "system"] = self._session.system
        if self._session.tools:
            body["tools"] = self._session.tools
        missing = 4 * fixed_tokens - len(json.dumps(body, ensure_ascii=False, default=str))
        if missing > 0:
            body["system_prompt_and_tools"] = "x" * missing
        return {"dialect": name.removesuffix("-text"), "threshold": self._threshold, "body": body}

    # --- the process ------------------------------------------------------------------------------

    def _launch(self) -> None:
        try:
            self._process = subprocess.Popen(
                [self._python, "-I", str(WORKER)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                encoding="utf-8",
            )
        except OSError as error:
            raise _how(f"{self._python} cannot be run ({error.strerror or error})") from None
        atexit.register(self.close)
        hello = self._read()
        if hello.get("version") != VERSION:
            self.close()
            problem = f"has version {hello['version']}" if "version" in hello else "has not the package"
            raise _how(f"{self._python} {problem}")

    def _tell(self, data: Any) -> None:
        process = self._process
        if process is None or process.stdin is None:
            raise RuntimeError("the authors' engine was closed")
        process.stdin.write(json.dumps(data, default=str) + "\n")
        process.stdin.flush()

    def _ask(self, data: Any) -> dict[str, Any]:
        self._tell(data)
        answer = self._read()
        if "parts" not in answer:
            raise RuntimeError("the authors' engine ended")
        return answer

    def _read(self) -> dict[str, Any]:
        process = self._process
        line = process.stdout.readline() if process is not None and process.stdout is not None else ""
        try:
            answer: dict[str, Any] = json.loads(line)
        except ValueError:
            return {}
        return answer


def _public(message: Any) -> Any:
    """A message as it was sent: without the private keys of our readers."""
    if isinstance(message, dict) and any(isinstance(key, str) and key.startswith("_") for key in message):
        return {key: value for key, value in message.items() if not (isinstance(key, str) and key.startswith("_"))}
    return message

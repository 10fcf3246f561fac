"""`python -m tests.kit SCRIPT`: the scripted model server for clients that are programs.

SCRIPT.py defines `script`, a list of `Step`s or a function of the request, and may define
`options`, a dict of `ModelServer`'s. SCRIPT.json is a list of steps, or an object with `steps` and
options:

    {"context_limit": 8000, "wording": "anthropic",
     "steps": ["a text", {"calls": [{"name": "bash", "arguments": {"command": "ls"}}]},
               {"fault": {"kind": "status", "code": 429, "retry_after": 1}}]}

The base URLs go to standard output, one line for each request to standard error. It runs until it
is interrupted.
"""

from __future__ import annotations

import argparse
import difflib
import importlib.util
import json
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, TypeVar

from .faults import FAULTS, Fault
from .request import Request
from .script import Call, ScriptSource, Step
from .server import ModelServer
from .usage import CacheRules, Count
from .wordings import WORDINGS

OPTIONS = {"context_limit", "wording", "strict", "alternating", "repeat", "latency", "models"}
"""What a JSON script may set beside its steps."""


Made = TypeVar("Made")


class BadInput(Exception):  # noqa: N818
    """Something about the command line or the script is wrong; the message says what."""


def main(arguments: Sequence[str] | None = None) -> int:
    parsed = _parser().parse_args(arguments)
    try:
        script, options = load(parsed.script)
        server = ModelServer(script, **(options | _given(parsed)))
    except (BadInput, ValueError, TypeError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    server.on_reply = _log
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    with server:
        print(f"OPENAI_BASE_URL={server.openai_url}")
        print(f"ANTHROPIC_BASE_URL={server.anthropic_url}", flush=True)
        ended.wait()
    for problem in server.problems:
        print(f"problem: {problem}", file=sys.stderr)
    return 1 if server.problems else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.kit",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("script", type=Path, metavar="SCRIPT", help="SCRIPT.py or SCRIPT.json")
    add("--port", type=int, help="a free one if not given")
    add("--record", type=Path, metavar="DIR", help="write requests.jsonl and raw requests there")
    add("--limit", type=int, dest="context_limit", metavar="TOKENS", help="reject longer prompts")
    add("--wording", choices=sorted(WORDINGS), metavar="NAME", help="how: " + ", ".join(WORDINGS))
    add("--latency", type=float, metavar="SECONDS", help="before each reply")
    add("--repeat", action="store_true", default=None, help="start again at the end of the list")
    add("--lenient", action="store_true", help="accept requests of illegal form")
    add("--cache", choices=("prefix", "openai", "anthropic", "off"), help="how prompts are cached")
    add("--core-tokens", action="store_true", help="count by cliff_core.tokens, not characters / 4")
    return parser


def _given(parsed: argparse.Namespace) -> dict[str, Any]:
    """The options that the command line sets."""
    names = ("port", "record", "context_limit", "wording", "latency", "repeat")
    given = {n: getattr(parsed, n) for n in names if getattr(parsed, n) is not None}
    if parsed.lenient:
        given["strict"] = False
    if parsed.core_tokens:
        given["count"] = core_count()
    if parsed.cache:
        given["cache"] = {
            "prefix": CacheRules(),
            "openai": CacheRules(minimum=1024, step=128),
            "anthropic": CacheRules(minimum=1024, breakpoints=True),
            "off": CacheRules(enabled=False),
        }[parsed.cache]
    return given


def core_count() -> Count:
    """The count of the code under test."""
    try:
        from cliff_core import tokens
    except ImportError as error:
        raise BadInput(f"--core-tokens needs cliff_core in this environment: {error}") from error
    count: Count = tokens.count
    return count


def _log(request: Request) -> None:
    reply, figures = request.reply, request.usage
    line = f"{request.number:4} {request.method} {request.path} {reply and reply.status}"
    if figures:
        line += f" input {figures.input} cached {figures.cached} output {figures.output}"
    if request.rejected:
        line += f" rejected: {request.rejected}"
    if reply and reply.outcome != "complete":
        line += f" {reply.outcome}"
    print(line, file=sys.stderr, flush=True)


def load(path: Path) -> tuple[ScriptSource, dict[str, Any]]:
    """The script of a file, and the server's options that it sets."""
    if not path.is_file():
        raise BadInput(f"{path}: no such file")
    if path.suffix == ".py":
        return _load_python(path)
    if path.suffix == ".json":
        return _load_json(path)
    raise BadInput(f"{path}: a script is a .py or a .json file")


def _load_python(path: Path) -> tuple[ScriptSource, dict[str, Any]]:
    spec = importlib.util.spec_from_file_location("kit_script", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise BadInput(f"{path}: {type(error).__name__}: {error}") from error
    if not hasattr(module, "script"):
        raise BadInput(f"{path}: it defines no `script` (a list of kit.Step, or a function)")
    return module.script, dict(getattr(module, "options", {}))


def _load_json(path: Path) -> tuple[ScriptSource, dict[str, Any]]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise BadInput(f"{path}: no JSON: {error}") from error
    if isinstance(value, list):
        value = {"steps": value}
    if not isinstance(value, dict) or not isinstance(value.get("steps"), list):
        raise BadInput(f"{path}: expected a list of steps, or an object with `steps`")
    _known(path.name, value, OPTIONS | {"steps"})
    steps = [_step(f"{path.name}: step {n}", step) for n, step in enumerate(value["steps"], 1)]
    return steps, {key: value[key] for key in OPTIONS & value.keys()}


def _step(where: str, value: Any) -> Step:
    if isinstance(value, str):
        return Step(value)
    given = dict(_mapping(where, value))
    _known(where, given, {f.name for f in fields(Step)})
    calls = given.get("calls", [])
    if not isinstance(calls, list):
        raise BadInput(f"{where}: calls must be a list")
    given["calls"] = [_build(f"{where}, call {n}", Call, call) for n, call in enumerate(calls, 1)]
    if "fault" in given:
        given["fault"] = _fault(f"{where}, fault", given["fault"])
    if "headers" in given:
        given["headers"] = [tuple(pair) for pair in given["headers"]]
    return _build(where, Step, given)


def _fault(where: str, value: Any) -> Fault:
    given = dict(_mapping(where, value))
    kind = given.pop("kind", None)
    if kind not in FAULTS:
        raise BadInput(f"{where}: kind {kind!r} is none of {', '.join(FAULTS)}")
    return _build(where, FAULTS[kind], given)


def _build(where: str, kind: type[Made], value: Any) -> Made:
    """An object of a dataclass, or an error that says what is wrong where."""
    given = _mapping(where, value)
    known = fields(kind)  # type: ignore[arg-type]
    _known(where, given, {f.name for f in known})
    for f in known:
        if f.name not in given and f.default is MISSING and f.default_factory is MISSING:
            raise BadInput(f"{where}: {f.name!r} is missing")
    try:
        return kind(**given)
    except (TypeError, ValueError) as error:
        raise BadInput(f"{where}: {error}") from error


def _mapping(where: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise BadInput(f"{where}: expected an object, not {json.dumps(value)}")
    return value


def _known(where: str, value: Mapping[str, Any], names: set[str]) -> None:
    for name in value:
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(sorted(names))}"
            raise BadInput(f"{where}: unknown key {name!r}; {hint}")

"""What the final screen of an agent's terminal tells of its run: steps, the end, last commands, last words.

Known are the logs of mini-swe-agent and of OpenHands, as they look when the agent is installed into a task's
container (terminal-bench). Of any other terminal only the text is used. Nothing after the agent's end is: from a
line on in which the shell starts the benchmark's own tests, all is cut off (`before_tests`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Ended = Literal["done", "limit", "error", "cut"]
"""`done`: the agent said so. `limit`: of steps, cost or context. `error`: it broke off. `cut`: it was stopped."""

LAST_COMMANDS = 6
"""Commands before the end of which the failed ones are counted."""

_SHELL = r"(?m)^(?:\(\S+\) )?[\w.-]+@[\w.-]+:[^\s#$]*[#$] ?"
_PROMPT = re.compile(_SHELL + r"\s*\Z")
_TESTS = re.compile(_SHELL + r"[^\n]*(?:run-tests\.sh|/tests/test\.sh)")
_MINI_STEP = re.compile(r"mini-swe-agent \(step (\d+), \$(\d+\.\d+)\)")
_MINI_LOG = re.compile(r"mini-swe-agent \(step |Saved trajectory to '|: mini: command not found")
_MINI_MISSING = ": mini: command not found"
_MINI_DONE = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
_MINI_LIMIT = re.compile(r"LimitsExceeded|ContextWindowExceededError")
_NOISE_START = re.compile(r"(?m)^\d\d:\d\d:\d\d - LiteLLM:ERROR:")
_NOISE_END = re.compile(r"(?m)^(?:Import|ModuleNotFound)Error: Missing[^\n]*\n")
"""litellm's complaints after each request, where its proxy's dependencies are missing: nothing of the agent's work."""
_RETURNCODE = re.compile(r"<returncode>(-?\d+)</returncode>")
_OPENHANDS_LOG = re.compile(r"openhands:[A-Z]+: |AgentState\.")
_OPENHANDS_STATE = re.compile(r"to AgentState\.([A-Z_]+)")
_OPENHANDS_STEP = re.compile(r"POST /exe\s?cute_action HTTP")
_OPENHANDS_LIMIT = re.compile(r"reached maximum iteration|reached maximum budget|Control flag limits hit")

_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


@dataclass(frozen=True, slots=True)
class Screen:
    """None: the terminal does not tell."""

    text: str
    """What the agent itself showed, without what came before it (its installation) and after it (tests)."""
    ended: Ended | None = None
    steps: int | None = None
    dollars: float | None = None
    failed: int | None = None
    """Commands with another exit status than 0 among the last `LAST_COMMANDS`."""
    closing: str | None = None
    """The last step: what the agent said and did at the end."""


def read(terminal: str) -> Screen:
    """What `terminal`, without escape codes, tells."""
    text = before_tests(terminal)
    waiting = _PROMPT.search(text[-400:]) is not None  # the agent is gone: the shell waits for a command
    if _OPENHANDS_LOG.search(text[-20_000:]):
        return _openhands(text, waiting)
    if _MINI_LOG.search(text):
        return _mini(text, waiting)
    return Screen(text)


def before_tests(terminal: str) -> str:
    """The terminal up to where the benchmark's tests were started at the shell's prompt.

    What an agent ran as a test while it worked stays: it had no shell prompt of its own."""
    found = _TESTS.search(terminal)
    return terminal[: found.start()] if found else terminal


def _mini(text: str, waiting: bool) -> Screen:
    text = _without_noise(text)
    steps = list(_MINI_STEP.finditer(text))
    if not steps:  # it never ran, or a long traceback pushed all steps out of what was recorded
        broke: Ended = "limit" if _MINI_LIMIT.search(text) else "error"
        return Screen(text, broke if waiting else "cut", 0 if _MINI_MISSING in text else None, closing="")
    closing = text[steps[-1].start() :]
    ended: Ended = "cut"
    if waiting:
        limit = _MINI_LIMIT.search(closing)
        ended = "done" if _MINI_DONE in closing else "limit" if limit else "error"
    codes = _RETURNCODE.findall(text)[-LAST_COMMANDS:]
    return Screen(
        text[steps[0].start() :],
        ended,
        int(steps[-1][1]),
        float(steps[-1][2]),
        sum(code != "0" for code in codes) if codes else None,
        closing,
    )


def _without_noise(text: str) -> str:
    """In one pass: a single pattern from start to end would take quadratic time where no end comes."""
    kept = []
    at = 0
    while (start := _NOISE_START.search(text, at)) and (end := _NOISE_END.search(text, start.end())):
        kept.append(text[at : start.start()])
        at = end.end()
    return "".join(kept) + text[at:]


def _openhands(text: str, waiting: bool) -> Screen:
    states = list(_OPENHANDS_STATE.finditer(text))
    ended: Ended = "cut"
    if states and states[-1][1] == "FINISHED":
        ended = "done"
    elif waiting:
        ended = "limit" if _OPENHANDS_LIMIT.search(text) else "error"
    running = text.find("AgentState.LOADING to AgentState.RUNNING")
    if running < 0:
        running = text.find("AgentState.LOADING")
    return Screen(text[max(running, 0) :], ended, len(_OPENHANDS_STEP.findall(text)))


def plain(recorded: str) -> str:
    """A recorded terminal without escape codes and carriage returns."""
    return _ESCAPE.sub("", recorded).replace("\r\n", "\n").replace("\r", "\n")

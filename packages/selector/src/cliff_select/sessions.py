"""What a recorded session, a terminal or a patch adds to a rollout."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from cliff_core.content import Content, Thought, ToolCall, ToolResult, arguments_text, looks_failed
from cliff_core.dialects import dialect
from cliff_core.ledger import CacheRules, Entry, Ledger, Meter, Pricing
from cliff_core.replay import model_of
from cliff_core.traces import Session
from cliff_select import jsons
from cliff_select.rollouts import Rollout
from cliff_select.terminal import LAST_COMMANDS, Ended, Screen

TEXT_CHARS = 40_000
"""Characters of a session's end that stand for its terminal."""

_MINI_LIMITS = ("LimitsExceeded", "TimeExceeded", "ContextWindowExceededError")

_FINISH = ("finish", "submit", "complete", "task_complete", "mark_task_complete", "attempt_completion")
"""Tools whose call ends a run."""

_KINDS = {
    "read": ("read", "view", "cat", "grep", "glob", "ls", "search", "find", "open", "list"),
    "edit": ("edit", "write", "replace", "patch", "create", "insert", "notebook"),
    "run": ("bash", "shell", "exec", "command", "terminal", "python", "run", "keystrokes"),
}


def with_screen(rollout: Rollout, screen: Screen) -> Rollout:
    """What the terminal tells goes before what the harness says: it ends with the agent."""
    return replace(
        rollout,
        text=screen.text,
        closing=screen.closing,
        ended=screen.ended or rollout.ended,
        steps=screen.steps if screen.steps is not None else rollout.steps,
        failed=screen.failed,
        dollars=screen.dollars if rollout.dollars is None else rollout.dollars,
    )


def with_session(rollout: Rollout, session: Session, path: Path, costs: bool) -> Rollout:
    """Steps, calls, tokens, the last words and results; dollars by the ledger where they are asked for."""
    speaks = dialect(session.dialect)
    texts: list[str] = []
    closing: list[str] = []
    failures: list[bool] = []
    calls: Counter[str] = Counter()
    for message in session.messages:
        parsed = speaks.parse(message)
        if parsed.role == "model":
            closing = []
        for content in parsed.contents:
            if isinstance(content, Thought):
                texts.append(content.text)
                closing.append(content.text)
            elif isinstance(content, ToolCall):
                calls[kind(content.name)] += 1
                texts.append(f"{content.name} {arguments_text(content.arguments)}")
                closing.append(texts[-1])
            elif isinstance(content, ToolResult):
                texts.append(content.text)
                failures.append(content.error or looks_failed(content.text))
    facts = _mini_facts(path) if session.format == "mini-swe-agent" else {}
    patch = rollout.patch
    if patch is None and _is_patch(facts.get("submission")):
        patch = facts["submission"]
    dollars = _dollars(session) if costs else None
    return replace(
        rollout,
        text="\n".join(texts)[-TEXT_CHARS:],
        closing="\n".join(closing) if closing else None,
        patch=patch,
        ended=_ended(session) or rollout.ended,
        steps=len(session.requests) or rollout.steps,
        seconds=rollout.seconds if rollout.seconds is not None else facts.get("seconds"),
        failed=sum(failures[-LAST_COMMANDS:]) if failures else None,
        calls=dict(sorted(calls.items())),
        tokens=_tokens(session) or rollout.tokens,
        dollars=next((known for known in (dollars, rollout.dollars, facts.get("dollars")) if known is not None), None),
    )


def _is_patch(submission: Any) -> bool:
    """Outside of SWE-bench a submission is whatever the agent printed last."""
    return isinstance(submission, str) and ("diff --git " in submission or "\n+++ " in submission)


def kind(tool: str) -> str:
    """`read`, `edit`, `run` or `other`, by the tool's name."""
    name = tool.lower()
    return next((known for known, words in _KINDS.items() if any(word in name for word in words)), "other")


def _ended(session: Session) -> Ended | None:
    """mini-swe-agent says it; others are done when the last call ends the run, or the model asks for nothing more."""
    status = session.extra.get("exit_status")
    if isinstance(status, str) and status:
        if status.startswith("Submitted"):
            return "done"
        return "limit" if status in _MINI_LIMITS else "error"
    if session.format == "mini-swe-agent":
        return "cut"
    if session.format == "atif":  # Harbor's own record of the trial says more
        return None
    if not session.messages:
        return "error"
    speaks = dialect(session.dialect)
    last = speaks.parse(session.messages[-1])
    if last.role != "model" and len(session.messages) > 1:  # the answer to a call that ends the run
        before = speaks.parse(session.messages[-2])
        return "done" if _finishes(before.contents) else None
    asks = any(isinstance(content, ToolCall) for content in last.contents)
    return "done" if _finishes(last.contents) or not asks else None


def _finishes(contents: Iterable[Content]) -> bool:
    return any(isinstance(content, ToolCall) and content.name.lower() in _FINISH for content in contents)


def _mini_facts(path: Path) -> dict[str, Any]:
    """What the readers of sessions leave out: the patch, the host's own cost, the times of messages."""
    try:
        trajectory = jsons.load(path)
        info = trajectory.get("info") or {}
        stats = info.get("model_stats") or {}
        times = [
            time
            for message in trajectory.get("messages") or []
            for given in [message.get("timestamp") or (message.get("extra") or {}).get("timestamp")]
            if (time := jsons.number(given)) is not None
        ]
        cost = jsons.number(stats.get("instance_cost"))
    except (OSError, ValueError, AttributeError):
        return {}
    return {
        "submission": info.get("submission"),
        "seconds": max(times) - min(times) if len(times) > 1 else None,
        "dollars": cost or None,
    }


def _tokens(session: Session) -> int:
    usages = [request.usage for request in session.requests if request.usage is not None]
    return sum(usage.input_tokens + (usage.output_tokens or 0) for usage in usages)


def _dollars(session: Session) -> float | None:
    """By the ledger: of what the provider reported, else of what the session's messages come to."""
    tariff, rules, model = Pricing().of(model_of(session))
    if tariff.relative:
        return None
    price = model.price.output if model is not None and model.price is not None else 0.0
    total = 0.0
    if session.requests and all(request.usage is not None for request in session.requests):
        for request in session.requests:
            usage = request.usage
            assert usage is not None
            entry = Entry(usage.input_tokens, usage.cached_tokens or 0, usage.input_tokens >= rules.least)
            total += entry.cost(tariff) + (usage.output_tokens or 0) * price / 1_000_000
        return total
    return _metered(session, rules).cost(tariff)


def _metered(session: Session, rules: CacheRules) -> Ledger:
    ledger = Ledger(Meter(dialect(session.dialect)), rules)
    for request in session.requests:
        ledger.enter(session.messages[: request.at])
    return ledger

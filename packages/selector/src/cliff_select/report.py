"""Choices and results as people and programs read them."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from cliff_core.commands.said import Stream
from cliff_core.wording import counted, dollars, printable
from cliff_select.choose import Choice, Reason
from cliff_select.evaluate import Interval, Result, Split


def print_choices(choices: Sequence[Choice]) -> None:
    out = Stream()
    for choice in choices:
        chosen = choice.ranking[0]
        line = f"{choice.group.name}: {chosen.rollout.run}"
        if choice.margin is not None:
            line += f"  score {chosen.score:+.3f}, margin {choice.margin:.3f}, of {len(choice.ranking)}"
        elif len(choice.ranking) > 1 and chosen.score is not None and choice.ranking[1].empty:
            line += f"  score {chosen.score:+.3f}, the only one of {len(choice.ranking)} with a patch"
        elif len(choice.ranking) == 1:
            line += "  the only one"
        out.print(" ".join(printable(line).splitlines()), soft_wrap=True, markup=False)
        for reason in choice.reasons:
            out.print(f"    {_reason(reason)}", soft_wrap=True, markup=False)
    groups = counted(len(choices), "group")
    out.print(f"{groups}, {counted(sum(len(choice.ranking) for choice in choices), 'rollout')}", markup=False)


def _reason(reason: Reason) -> str:
    values = f"{_figure(reason.value)}, others {_figure(reason.others)}"
    return f"{reason.feature.replace('_', ' ')}: {values} ({reason.gain:+.3f})"


def _figure(value: float) -> str:
    return "not known" if math.isnan(value) else f"{value:.2f}"


def choice_json(choice: Choice) -> dict[str, Any]:
    return {
        "task": choice.task,
        "agent": choice.group.agent or None,
        "chosen": choice.chosen.run,
        "source": str(choice.chosen.source),
        "score": choice.ranking[0].score,
        "margin": choice.margin,
        "ranking": [
            {
                "run": r.rollout.run,
                "source": str(r.rollout.source),
                "score": r.score,
                "agreement": _rounded(r.agreement),
                "empty": r.empty,
            }
            for r in choice.ranking
        ],
        "reasons": [
            {"feature": r.feature, "value": _known(r.value), "others": _known(r.others), "gain": r.gain}
            for r in choice.reasons
        ],
        "missing": list(choice.missing),
    }


def print_results(found: dict[str, list[Result]]) -> None:
    out = Stream()
    for label, results in found.items():
        out.print(f"features: {label}", markup=False)
        split = ""
        for result in results:
            if result.split != split:
                split = result.split
                out.print(f"  {_SPLIT_WORDS[result.split]}", markup=False)
            cost = "" if result.dollars is None else f"  {dollars(result.dollars)} a task"
            out.print(
                f"    {result.agent or 'all'}, k = {result.k} ({result.tasks} tasks, {result.mixed} with a choice): "
                f"random {result.random.value:.3f}, chosen {_interval(result.chosen)}, "
                f"agreement {result.agreement.value:.3f}, oracle {result.oracle.value:.3f}; "
                f"share {_interval(result.share, 2)}, of agreement {result.agreement_share.value:.2f}; "
                f"chosen - agreement {_interval(result.beyond_agreement)}{cost}",
                markup=False,
                soft_wrap=True,
            )


_SPLIT_WORDS: dict[Split, str] = {
    "other-agent": "trained on the other agents",
    "other-tasks": "trained on other tasks of the same agent",
    "other-both": "trained on other tasks of the other agents",
    "new-tasks": "trained on other tasks of all agents",
    "model": "the given model",
}


def _interval(value: Interval, digits: int = 3) -> str:
    return f"{value.value:.{digits}f} [{value.low:.{digits}f}, {value.high:.{digits}f}]"


def result_json(result: Result) -> dict[str, Any]:
    columns = ("random", "chosen", "agreement", "oracle", "share", "agreement_share", "beyond_agreement")
    intervals = {name: getattr(result, name) for name in columns}
    return {
        "split": result.split,
        "agent": result.agent or None,
        "k": result.k,
        "tasks": result.tasks,
        "mixed": result.mixed,
        **{
            name: {"value": round(i.value, 6), "interval": [round(i.low, 6), round(i.high, 6)]}
            for name, i in intervals.items()
        },
        "dollars": _rounded(result.dollars),
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


def _known(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 6)


def dump(data: Any) -> str:
    return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False)

"""`cliff select`: choose, train, evaluate."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from cliff_core.commands.said import logged, say, warn
from cliff_core.wording import counted
from cliff_select import labels
from cliff_select.choose import Choice, choose
from cliff_select.copies import copy_chosen
from cliff_select.evaluate import SPLITS, Result, Split, ablations, evaluate
from cliff_select.features import BY_NAME, NAMES, SHIPPED, parts
from cliff_select.model import SIZES, Example, Model, ModelError, digest, load, save, shipped, train
from cliff_select.report import choice_json, dump, print_choices, print_results, result_json
from cliff_select.rollouts import Group, Problem, read

CHOOSE = " choose"
"""The command without a name of its own. Nobody types the blank."""


class Select(TyperGroup):
    """`train` and `evaluate` are commands where they stand first; anything else is paths and options of the choice.

    So `cliff select train` is the command, and a folder of that name is `./train`, or stands after `--`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or args[0] not in self.commands or args[0] == CHOOSE:
            args = [CHOOSE, *(args or ["--help"])]
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """In the help and in errors the choice has no name."""
        name, command, rest = super().resolve_command(ctx, args)
        return ("" if name == CHOOSE else name), command, rest


app = typer.Typer(
    help="Choose the best of k runs of the same tasks.",
    cls=Select,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Paths = Annotated[
    list[Path],
    typer.Argument(
        metavar="PATH",
        help="Runs: mini-swe-agent batches, terminal-bench runs, Harbor jobs, folders of sessions, JSONL of rollouts.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
LabelsOption = Annotated[
    list[Path] | None,
    typer.Option("--labels", help="Verdicts: CSV or JSONL with `task`, `run`, `resolved`. Else those of the PATHs."),
]
ModelOption = Annotated[
    Path | None, typer.Option("--model", help="A model of `cliff select train`, in place of the shipped one.")
]


@app.command(CHOOSE, hidden=True)
def select(
    paths: Paths,
    model: ModelOption = None,
    agreement: Annotated[
        bool, typer.Option("--agreement", help="No model: the rollout most like the others, with no training.")
    ] = False,
    copy: Annotated[
        Path | None,
        typer.Option("--copy", help="Copy the chosen into this new folder, with preds.json where there are patches."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Choose the best of k runs of the same tasks: cliff select PATH... [OPTIONS]

    Prints the chosen run of each task, its score, the margin to the next one, and the features that decided.
    The score is no probability: of a group of failures the best one is a failure.

    Other commands: `cliff select train` makes a model from rollouts with verdicts, `cliff select evaluate` measures.
    They are meant where the word stands first; a folder of that name is ./train or ./evaluate."""
    with logged():
        if agreement and model is not None:
            raise typer.BadParameter("--agreement uses no model: give --model or --agreement")
        if copy is not None:
            if copy.exists() and (not copy.is_dir() or any(copy.iterdir())):
                raise typer.BadParameter(f"--copy {copy}: is there already; give a folder that is new or empty")
            if any(copy.resolve().is_relative_to(path.resolve()) for path in paths):
                raise typer.BadParameter(f"--copy {copy}: lies among the runs and would be one of them the next time")
        scorer = None if agreement else _model(model)
        groups, problems = _read(paths)
        try:
            choices = choose(groups, scorer)
        except ModelError as error:
            raise typer.BadParameter(str(error)) from None
        _warn_missing(choices)
        if copy is not None:
            for problem in copy_chosen(choices, copy):
                _failed(problems, problem)
        if as_json:
            print(dump({"choices": [choice_json(choice) for choice in choices], "errors": problems}))
        else:
            print_choices(choices)
    _end(problems)


@app.command("train")
def train_command(
    paths: Paths,
    output: Annotated[Path, typer.Option("-o", metavar="MODEL", help="LightGBM text; its card goes beside it.")],
    label_paths: LabelsOption = None,
    features: Annotated[
        str, typer.Option(help="`shipped`: those of the shipped model; `all`; or names, with commas.")
    ] = "shipped",
    scores: Annotated[bool, typer.Option(help="Measure it by the splits of `evaluate`, for the card.")] = True,
) -> None:
    """Train a model on rollouts with verdicts: cliff select train PATH... --labels FILE -o MODEL"""
    with logged():
        names = _names(features)
        groups, problems = _read(paths)
        examples = _examples(groups, label_paths or paths)
        try:
            made = train(examples, names)
            measured = _measured(examples, names) if scores else []
            save(Model(made.text, {**made.card, "scores": measured}), output)
        except ModelError as error:
            raise typer.BadParameter(str(error)) from None
        except OSError as error:
            raise typer.BadParameter(f"-o {output}: cannot be written ({error.strerror or error})") from None
        if not made.used:
            warn(f"{output}: no feature tells solved from unsolved in so little data; all rollouts get the same score")
        rollouts = sum(len(example.parts) for example in examples)
        say("trained", "green", f"{output}: {counted(rollouts, 'rollout')} of {counted(len(examples), 'group')}")
    _end(problems)


@app.command("evaluate")
def evaluate_command(
    paths: Paths,
    label_paths: LabelsOption = None,
    k: Annotated[str, typer.Option("-k", help="Sizes of groups, with commas.")] = "2,3",
    split: Annotated[
        str, typer.Option(help="What is trained on: other-agent, other-tasks, other-both, new-tasks; with commas.")
    ] = ",".join(SPLITS),
    model: ModelOption = None,
    use_shipped: Annotated[bool, typer.Option("--shipped", help="Measure the shipped model as it is.")] = False,
    features: Annotated[str, typer.Option(help="`shipped`, `all`, or names, with commas.")] = "shipped",
    ablation: Annotated[bool, typer.Option("--ablation", help="Each kind of features left out, and alone.")] = False,
    as_json: Json = False,
) -> None:
    """How good choices are: one run at random, the chosen, the best there is, by k, with 95 % intervals over tasks."""
    with logged():
        fixed_by = [name for name, given in (("--model", model is not None), ("--shipped", use_shipped)) if given]
        also = [name for name, given in (("--ablation", ablation), ("--features", features != "shipped")) if given]
        if len(fixed_by) > 1 or (fixed_by and also):
            raise typer.BadParameter(f"{' and '.join(fixed_by + also)}: a model as it is goes with no other of these")
        sizes = _sizes(k)
        splits = _splits(split)
        groups, problems = _read(paths, costs=True)
        examples = _examples(groups, label_paths or paths)
        fixed = _model(model) if fixed_by else None
        if fixed is not None:
            splits = ("model",)
            known = sum(digest(example.task) in fixed.card.get("tasks", ()) for example in examples)
            if known:
                warn(f"the model was trained on {known} of these {len(examples)} groups' tasks: they show nothing")
        sets = ablations() if ablation else {features: _names(features)}
        prices = _prices(groups)
        found: dict[str, list[Result]] = {}
        for label, names in sets.items():
            try:
                found[label] = evaluate(examples, sizes, splits, model=fixed, names=names, dollars=prices.get)
            except ModelError as error:
                raise typer.BadParameter(str(error)) from None
        if not any(found.values()):
            raise typer.BadParameter(
                "nothing to measure: -k needs that many runs of a task, --split other-agent two agents"
            )
        if as_json:
            data = [
                {"features": label, **result_json(result)} for label, results in found.items() for result in results
            ]
            print(dump({"results": data, "errors": problems}))
        else:
            print_results(found)
    _end(problems)


# --- input -----------------------------------------------------------------------------------------------


def _read(paths: Sequence[Path], costs: bool = False) -> tuple[list[Group], list[dict[str, str]]]:
    groups, found = read(paths, costs=costs, note=warn)
    problems: list[dict[str, str]] = []
    for problem in found:
        _failed(problems, problem)
    return groups, problems


def _failed(problems: list[dict[str, str]], problem: Problem) -> None:
    say("error", "red", problem.text)
    problems.append({"path": str(problem.path), "error": problem.text})


def _end(problems: Sequence[Any]) -> None:
    if problems:
        raise typer.Exit(2)


def _model(path: Path | None) -> Model:
    try:
        return shipped() if path is None else load(path)
    except ModelError as error:
        raise typer.BadParameter(str(error)) from None


def _examples(groups: Sequence[Group], label_paths: Sequence[Path]) -> list[Example]:
    """Groups with verdicts. Those without are left out and said."""
    try:
        verdicts = labels.read(label_paths)
    except labels.LabelError as error:
        raise typer.BadParameter(str(error)) from None
    examples = []
    without = 0
    for group in groups:
        known = [
            (parts(rollout), verdict)
            for rollout, verdict in zip(group.rollouts, labels.of(group, verdicts), strict=True)
            if verdict is not None
        ]
        without += len(group.rollouts) - len(known)
        if known:
            members, solved = zip(*known, strict=True)
            examples.append(Example(group.task, group.agent, tuple(members), tuple(solved)))
    if without:
        warn(f"{counted(without, 'rollout')} without a verdict left out")
    if not examples:
        raise typer.BadParameter("no rollout has a verdict: do `task` and `run` of --labels name these runs?")
    return examples


def _measured(examples: Sequence[Example], names: Sequence[str]) -> list[dict[str, Any]]:
    """For the card: models of the same making, each on rollouts that it has not seen."""
    try:
        return [result_json(result) for result in evaluate(examples, SIZES, names=names)]
    except ModelError as error:
        warn(f"no scores for the card: without a part of the tasks there is {error}")
        return []


def _prices(groups: Sequence[Group]) -> dict[str, float | None]:
    """Dollars of one rollout by agent: the mean over tasks of the mean over their rollouts, where it is known."""
    found: dict[str, list[float]] = {}
    for group in groups:
        known = [rollout.dollars for rollout in group.rollouts if rollout.dollars is not None]
        if known:
            found.setdefault(group.agent, []).append(sum(known) / len(known))
    return {agent: sum(means) / len(means) for agent, means in found.items()}


def _names(features: str) -> tuple[str, ...]:
    if features in ("shipped", "all"):
        return SHIPPED if features == "shipped" else NAMES
    names = tuple(name.strip() for name in features.split(",") if name.strip())
    unknown = [name for name in names if name not in BY_NAME]
    if unknown or not names:
        raise typer.BadParameter(f"--features {features}: known are shipped, all, {', '.join(NAMES)}")
    return names


def _sizes(text: str) -> tuple[int, ...]:
    try:
        sizes = tuple(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        sizes = ()
    if not sizes or min(sizes) < 2:
        raise typer.BadParameter(f"-k {text}: numbers from 2 on, with commas")
    return sizes


def _splits(text: str) -> tuple[Split, ...]:
    wanted = [part.strip() for part in text.split(",")]
    unknown = [part for part in wanted if part not in SPLITS]
    if unknown:
        raise typer.BadParameter(f"--split {text}: known are {', '.join(SPLITS)}")
    return tuple(split for split in SPLITS if split in wanted)


def _warn_missing(choices: Sequence[Choice]) -> None:
    """One line for each thing that is not known, with how many groups lack it."""
    lacking: dict[str, list[str]] = {}
    for choice in choices:
        for need in choice.missing:
            lacking.setdefault(need, []).append(choice.group.name)
    for need, names in lacking.items():
        where = names[0] if len(names) == 1 else f"{names[0]} and {counted(len(names) - 1, 'more group')}"
        warn(f"{need} not known of every rollout in {where}: chosen without")

"""Training, the shipped model, choices and their reasons."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cliff_select import choose, labels, read, shipped
from cliff_select.evaluate import ablations, evaluate, folds
from cliff_select.features import BY_NAME, SHIPPED, of, parts
from cliff_select.model import DECIMALS, Example, Model, ModelError, card_path, digest, load, save, train
from cliff_select.rollouts import Group
from selector.made import PATCH, jsonl, mini_terminal, record, study


def examples(path: Path) -> list[Example]:
    groups, problems = read([path])
    assert problems == []
    verdicts = labels.read([path])
    return [
        Example(g.task, g.agent, tuple(parts(r) for r in g.rollouts), tuple(map(bool, labels.of(g, verdicts))))
        for g in groups
    ]


@pytest.fixture
def made(tmp_path: Path) -> list[Example]:
    return examples(jsonl(tmp_path / "study.jsonl", study()))


def group_of(tmp_path: Path, terminals: dict[str, str | None], seconds: dict[str, int] | None = None) -> Group:
    lines = [record("t", run, text, (seconds or {}).get(run, 100)) for run, text in terminals.items()]
    return read([jsonl(tmp_path / "group.jsonl", lines)])[0][0]


def test_training_learns_what_tells_good_from_bad(made: list[Example]) -> None:
    results = evaluate(made, (2, 3), draws=50)
    assert [(r.split, r.agent, r.k) for r in results] == [
        (split, agent, k)
        for split in ("other-agent", "other-tasks", "other-both", "new-tasks")
        for agent in ("one", "two")
        for k in (2, 3)
    ]
    for result in results:
        assert result.share.value == 1.0  # in the study, those that end by themselves are the solved ones
        assert result.chosen.value == result.oracle.value > result.random.value
        assert result.mixed == 6


def test_training_is_deterministic(made: list[Example]) -> None:
    assert train(made) == train(made)


def test_a_model_survives_its_file(made: list[Example], tmp_path: Path) -> None:
    model = train(made, ("done", "seconds_rank"))
    save(model, tmp_path / "m.txt")
    again = load(tmp_path / "m.txt")
    assert again == model
    assert again.names == ("done", "seconds_rank")
    rows = of(made[0].parts)
    assert again.scores(rows) == model.scores(rows)
    assert card_path(tmp_path / "m.txt").name == "m.card.json"
    assert again.card["tasks"] == sorted(digest(f"task{n}") for n in range(12))


@pytest.mark.parametrize("name", [name for name in SHIPPED if BY_NAME[name].direction])
def test_the_shipped_model_keeps_the_directions(name: str) -> None:
    """More of a feature never moves the score against its direction, whatever the others are."""
    direction = BY_NAME[name].direction
    for base in (0.0, 0.25, 0.5, 1.0):
        rows = [{**dict.fromkeys(SHIPPED, base), name: value / 8} for value in range(9)]
        scores = shipped().scores(rows)
        assert sorted(scores, reverse=direction < 0) == scores


def test_the_shipped_model_has_a_card() -> None:
    card = shipped().card
    assert {"what", "data", "features", "parameters", "scores", "not for", "tasks"} <= set(card)
    assert set(card["features"]) == set(SHIPPED) == set(shipped().names)
    assert len(card["scores"]) == 16  # four splits, two agents, two sizes


def test_nothing_to_learn(made: list[Example]) -> None:
    same = [Example(e.task, e.agent, e.parts, (True,) * len(e.parts)) for e in made]
    with pytest.raises(ModelError, match="nothing to learn"):
        train(same)


@pytest.mark.parametrize(
    ("text", "message"), [("", "no LightGBM model"), ("nonsense", "no LightGBM model"), (None, "cannot be read")]
)
def test_a_file_that_is_no_model(text: str | None, message: str, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "m.txt").write_text(text)
    with pytest.raises(ModelError, match=message):
        load(tmp_path / "m.txt")


@pytest.mark.parametrize("kept", [0.3, 0.98, 0.999])
def test_a_model_that_broke_off(kept: float, tmp_path: Path) -> None:
    """LightGBM itself ends the process, or reads what is not there."""
    text = shipped().text
    (tmp_path / "m.txt").write_text(text[: int(len(text) * kept)])
    with pytest.raises(ModelError, match="only a part"):
        load(tmp_path / "m.txt")


def test_features_of_another_release(made: list[Example], tmp_path: Path) -> None:
    text = train(made, ("done", "seconds_rank")).text.replace("seconds_rank", "moon_phase")
    (tmp_path / "m.txt").write_text(text)
    with pytest.raises(ModelError, match="moon_phase"):
        load(tmp_path / "m.txt")


def test_the_finished_and_verified_one_is_chosen(tmp_path: Path) -> None:
    terminals = {
        "a-cut": mini_terminal(steps=9, done=False),
        "b-good": mini_terminal(steps=9, closing="All tests passed, verified."),
        "c-bad": mini_terminal(steps=9, codes=(1,), closing="error: it failed"),
    }
    (choice,) = choose([group_of(tmp_path, terminals)], shipped())
    assert choice.chosen.run == "b-good"
    assert choice.margin is not None
    assert choice.margin > 0
    assert choice.missing == ()
    gains = [reason.gain for reason in choice.reasons]
    assert gains == sorted(gains, reverse=True)
    assert "done" in [reason.feature for reason in choice.reasons]


def test_reasons_add_up_to_the_difference_of_scores(tmp_path: Path, made: list[Example]) -> None:
    rows = of(made[0].parts)
    model = shipped()
    scores, added = model.scores(rows), model.contributions(rows)
    for i in range(1, len(rows)):
        difference = sum(added[0].values()) - sum(added[i].values())
        assert difference == pytest.approx(scores[0] - scores[i], abs=10**-DECIMALS * 20)


def test_a_group_of_one_is_chosen_as_it_is(tmp_path: Path) -> None:
    (choice,) = choose([group_of(tmp_path, {"only": None})], shipped())
    assert (choice.chosen.run, choice.margin, choice.reasons, choice.missing) == ("only", None, (), ())


def test_nothing_known_is_said_and_the_first_by_name_is_chosen(tmp_path: Path) -> None:
    (choice,) = choose([group_of(tmp_path, {"b": None, "a": None}, {})], shipped())
    assert choice.chosen.run == "a"
    assert "how the run ended" in choice.missing
    assert choice.margin == 0.0


def test_the_same_score_is_decided_by_agreement(tmp_path: Path) -> None:
    odd = mini_terminal().replace("a line of output", "something else entirely")
    terminals = {"a": odd, "b": mini_terminal(), "c": mini_terminal()}
    (choice,) = choose([group_of(tmp_path, terminals)], shipped())
    assert choice.margin == 0.0
    assert choice.chosen.run == "b"


def test_agreement_needs_no_model(tmp_path: Path) -> None:
    odd = mini_terminal().replace("a line of output", "something else entirely")
    (choice,) = choose([group_of(tmp_path, {"a": odd, "b": mini_terminal(), "c": mini_terminal()})], None)
    assert choice.chosen.run == "b"
    assert choice.ranking[-1].rollout.run == "a"


def test_many_are_chosen_as_few_are(tmp_path: Path) -> None:
    """In one call of LightGBM, as alone."""
    groups, _ = read([jsonl(tmp_path / "study.jsonl", study())])
    assert choose(groups, shipped()) == [choose([group], shipped())[0] for group in groups]


def test_tasks_of_a_family_are_in_one_fold() -> None:
    found = folds(["a", "b", "a.hard", "a.easy", "c", "d"], 3)
    assert sorted(map(sorted, found)) == [["a", "a.easy", "a.hard"], ["b", "d"], ["c"]]


def test_ablations_cover_each_kind() -> None:
    sets = ablations()
    assert set(sets["run alone"]) | set(sets["without run"]) == set(sets["all"])
    assert not set(sets["run alone"]) & set(sets["without run"])


def test_importing_does_not_load_lightgbm() -> None:
    code = (
        "import sys, cliff_select, cliff_select.commands; sys.exit('lightgbm' in sys.modules or 'numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], env=os.environ, check=False).returncode == 0


def test_patches_that_agree(tmp_path: Path) -> None:
    from selector.made import mini_batch

    for run, line in (("1", "odd"), ("2", "new"), ("3", "new")):
        mini_batch(tmp_path / run, {"t": {"patch": PATCH.format(file="a", line=line)}})
    groups, _ = read([tmp_path])
    assert choose(groups, None)[0].chosen.run == "2"


@pytest.fixture(scope="module")
def published(rollouts: Path) -> list[Example]:
    """Read once: it takes seconds."""
    return examples(rollouts)


def test_published_rollouts_both_ways(published: list[Example]) -> None:
    """The measure of the package: at k = 3 at least 0.40 of the oracle's gain, trained on the other agent; and never
    below the agreement baseline beyond the interval."""
    results = evaluate(published, (3,), ("other-agent",), draws=500)
    assert len(results) == 2
    for result in results:
        assert result.share.value >= 0.40
        assert result.beyond_agreement.high > 0


def test_the_shipped_model_is_that_of_the_published_rollouts(published: list[Example]) -> None:
    again = train(published)
    assert again.card["tasks"] == shipped().card["tasks"]
    assert Model(again.text).scores([dict.fromkeys(SHIPPED, 0.5)]) == shipped().scores([dict.fromkeys(SHIPPED, 0.5)])


def test_no_published_terminal_holds_the_benchmarks_tests(rollouts: Path) -> None:
    """If one did, it is cut off: the screen ends where the shell starts them."""
    from cliff_select import jsons, terminal

    texts = [record["terminal"] for record in jsons.records(rollouts)]
    assert [text for text in texts if terminal.before_tests(text) != text] == []


def test_card_is_json() -> None:
    json.dumps(dict(shipped().card), allow_nan=False)

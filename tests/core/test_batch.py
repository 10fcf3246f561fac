"""Many sessions: in a pool, from a store, and what is said of those that fail."""

import json
import os
from pathlib import Path

import pytest

from cliff_core import batch, records
from cliff_core.batch import Done, Plan, Said, Store, run
from cliff_core.config import CliffConfig
from cliff_core.ledger import Pricing
from cliff_core.policies import PolicyError, Settings

PAPER = CliffConfig.preset("paper", threshold_tokens=1_500)
PLAN = Plan(PAPER, ("cliff", "summarize", "sliding"))


def words(number):
    return " ".join(["hello"] * number)


def trajectory(path, turns=6, name=None):
    """A session of mini-swe-agent 2 whose results have 300 tokens."""
    messages = [{"role": "user", "content": words(10)}]
    for turn in range(turns):
        function = {"name": "bash", "arguments": json.dumps({"command": f"cat src/file_{turn}.py"})}
        messages.append({"role": "assistant", "content": None, "tool_calls": [{"id": str(turn), "function": function}]})
        messages.append({"role": "tool", "tool_call_id": str(turn), "content": f"src/file_{turn + 1}.py " + words(300)})
    info = {"config": {"model": {"model_name": "openai/gpt-5-mini"}}}
    data = {"trajectory_format": "mini-swe-agent-1.1", "instance_id": name or path.stem, "info": info}
    path.write_text(json.dumps({**data, "messages": messages}))
    return path


@pytest.fixture
def files(tmp_path):
    return [trajectory(tmp_path / f"{number:02}.json", turns=5 + number) for number in range(6)]


def names(items):
    return [item.replay.session.name if isinstance(item, Done) else item.text for item in items]


# --- a replay without its messages ----------------------------------------------------------------


def test_a_record_is_what_the_replay_was(files):
    (done,) = run(files[-1:], PLAN)
    assert done.replay.session.messages == []
    assert len(done.replay.session.requests) == 10
    assert done.replay.results["summarize"].auxiliary
    assert done.replay.results["cliff"].cliffs
    assert done.replay.results["cliff"].support.needed
    data = json.loads(json.dumps(records.data(done.replay)))
    assert records.replay(data, files[-1], PAPER) == done.replay
    elsewhere = records.replay(data, Path("/moved.json"), PAPER)
    assert elsewhere.session.path == Path("/moved.json")


def test_a_record_with_full_among_the_policies(files):
    (done,) = run(files[:1], Plan(PAPER, ("full",)))
    again = records.replay(json.loads(json.dumps(records.data(done.replay))), files[0], PAPER)
    assert again == done.replay
    assert again.full is again.results["full"]


# --- a pool ---------------------------------------------------------------------------------------


def test_a_pool_gives_the_same_in_the_same_order(files):
    broken = files[0].with_name("broken.json")
    broken.write_text('{"messages": [')
    files.insert(2, broken)
    finished = []
    alone = list(run(files, PLAN, jobs=1, finished=finished.append))
    assert finished == files
    pooled = list(run(files, PLAN, jobs=2))
    assert pooled == alone
    assert names(alone)[:2] == ["00", "01"]
    assert names(alone)[2].startswith(f"{broken}: expected a recorded session")
    assert alone[2].kind == "error"


def test_warnings_come_back_from_a_pool(files):
    plan = Plan(CliffConfig.preset("default", threshold_tokens=100), ("cliff",))
    (warning, done) = run(files[:1], plan, jobs=2)
    assert warning.kind == "warning"
    assert warning.text.startswith(f"{files[0]}: threshold_tokens=100 is too small")
    assert isinstance(done, Done)


def test_what_is_no_regular_file_is_read_in_this_process(tmp_path, files):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    if os.fork() == 0:  # writes while the pool works
        pipe.write_bytes(files[3].read_bytes())
        os._exit(0)
    assert names(run([files[0], pipe, files[1]], PLAN, jobs=2)) == ["00", "03", "01"]
    os.wait()


def test_a_reader_that_goes_away_ends_the_pool(files):
    results = run(files * 10, PLAN, jobs=2)
    next(results)
    results.close()
    assert batch.multiprocessing.active_children() == []


def test_a_policy_that_cannot_be_had_is_found_out_first(files):
    with pytest.raises(PolicyError):
        next(run(files, Plan(PAPER, ("nothing",)), jobs=2))


def test_a_fault_does_not_stop_the_others(files, monkeypatch):
    right = batch.replay

    def faulty(session, *arguments):
        if session.name == "00":
            raise ValueError("a\nb")
        return right(session, *arguments)

    monkeypatch.setattr(batch, "replay", faulty)
    said, done = run(files[:2], PLAN)
    assert said == Said("error", f"{files[0]}: could not be replayed (ValueError: a b)", files[0])
    assert done.replay.session.name == "01"


# --- a store --------------------------------------------------------------------------------------


@pytest.fixture
def counted(monkeypatch):
    """Sessions that were really replayed."""
    replayed = []
    right = batch.replay

    def replay(session, *arguments):
        replayed.append(session.name)
        return right(session, *arguments)

    monkeypatch.setattr(batch, "replay", replay)
    return replayed


def stored(files, path, plan=PLAN, **options):
    store = Store(path)
    try:
        return list(run(files, plan, store=store, **options))
    finally:
        store.close()


def test_what_is_stored_is_not_done_again(files, tmp_path, counted):
    path = tmp_path / "store.jsonl"
    first = stored(files, path)
    assert counted == names(first) == [f"{n:02}" for n in range(6)]
    assert stored(files, path) == first
    assert stored(files, path, jobs=2) == first
    assert len(counted) == 6


def test_a_pool_stores_too(files, tmp_path, counted):
    first = stored(files, tmp_path / "store", jobs=2)
    assert counted == [], "in other processes"
    assert stored(files, tmp_path / "store") == first
    assert counted == []


def test_an_interrupt_costs_what_was_in_work(files, tmp_path, counted):
    path = tmp_path / "store"
    store = Store(path)
    results = run(files, PLAN, store=store)
    for _ in range(3):
        next(results)
    results.close()
    store.close()
    with path.open("ab") as file:  # a line that was cut off
        file.write(path.read_bytes()[:200])
    del counted[:]
    assert names(stored(files, path)) == [f"{n:02}" for n in range(6)]
    assert counted == ["03", "04", "05"]
    del counted[:]
    stored(files, path)
    assert counted == [], "what came after the line that was cut off is found"


def test_a_file_is_known_by_its_content(files, tmp_path, counted):
    path = tmp_path / "store"
    stored(files[:1], path)
    moved = files[0].rename(tmp_path / "moved.json")
    (done,) = stored([moved], path)
    assert done.replay.session.path == moved
    assert counted == ["00"]
    trajectory(moved, turns=4)
    stored([moved], path)
    assert counted == ["00", "moved"]


@pytest.mark.parametrize(
    "plan",
    [
        Plan(PAPER.replace(keep_turns=2), PLAN.names),
        Plan(PAPER, ("cliff", "sliding")),
        Plan(PAPER, PLAN.names, Settings(summary_share=0.2)),
        Plan(PAPER, PLAN.names, pricing=Pricing(step=64)),
    ],
)
def test_another_plan_is_another_result(files, tmp_path, counted, plan):
    path = tmp_path / "store"
    stored(files[:1], path)
    stored(files[:1], path, plan)
    assert len(counted) == 2
    assert plan.key() != PLAN.key()


def test_where_the_authors_python_lies_changes_nothing():
    assert Plan(PAPER, PLAN.names, Settings(authors_python="/a")).key() == PLAN.key()


def test_another_version_of_this_package_is_another_result(monkeypatch):
    key = PLAN.key()
    monkeypatch.setattr(batch, "_sources", lambda: "changed")
    assert PLAN.key() != key


def test_prices_are_those_of_today(files, tmp_path, counted):
    """A price is not part of what is kept, so that another one needs no new replay where the rules are the same."""
    stored(files[:1], tmp_path / "store")
    (done,) = stored(files[:1], tmp_path / "store")
    assert done.tariff.input == 0.25
    assert done.window == 272_000


def test_errors_are_tried_again_and_warnings_kept(files, tmp_path, monkeypatch):
    path = tmp_path / "store"
    broken = tmp_path / "broken.json"
    broken.write_text('{"messages": [')
    assert [item.kind for item in stored([broken], path)] == ["error"]
    assert path.read_bytes() == b""
    plan = Plan(CliffConfig.preset("default", threshold_tokens=100), ("cliff",))
    first = stored(files[:1], path, plan)
    moved = files[0].rename(tmp_path / "moved.json")
    warning, _ = stored([moved], path, plan)
    assert warning.text == first[0].text.replace(str(files[0]), str(moved))


NOTES = [b"x" * 64 + b" not json\n", b"\n\n", b'{"a": 1}\n', b'{"no": "end of line"}', b"\xff" * 80 + b"\n", b"1234"]
SUMS = b"0" * 64 + b"  a file of sha256sum\n"


@pytest.mark.parametrize("content", [*NOTES, SUMS])
def test_a_file_that_is_no_store_is_left_alone(tmp_path, content):
    path = tmp_path / "notes"
    path.write_bytes(content)
    with pytest.raises(OSError, match="it is no store of cliff; name another file"):
        Store(path)
    assert path.read_bytes() == content


def test_what_cannot_be_read_to_its_end_is_no_store(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="it is a pipe"):
        Store(tmp_path / "pipe")
    with pytest.raises(OSError, match="it is a device"):
        Store(Path(os.devnull))


def test_a_folder_that_is_missing_is_not_made(tmp_path):
    with pytest.raises(FileNotFoundError):
        Store(tmp_path / "missing" / "store")
    assert not (tmp_path / "missing").exists()


@pytest.mark.parametrize("garbage", [b"x" * 64 + b" not json\n", b"\n\n", b"short\n", b"\xff" * 80 + b"\n"])
def test_other_lines_of_a_store_are_left_alone(files, tmp_path, counted, garbage):
    path = tmp_path / "store"
    stored(files[:1], path)
    with path.open("ab") as file:
        file.write(garbage)
    begin = path.read_bytes()
    first = stored(files[:2], path)
    assert stored(files[:2], path) == first
    assert path.read_bytes().startswith(begin), "nothing of it is lost"
    assert counted == ["00", "01"]


def test_a_first_line_that_broke_off(files, tmp_path, counted):
    path = tmp_path / "store"
    stored(files[:1], path)
    whole = path.read_bytes()
    path.write_bytes(whole[:200])
    stored(files[:1], path)
    assert counted == ["00", "00"]
    assert path.read_bytes() == whole


def test_a_result_that_cannot_be_read_is_done_again(files, tmp_path, counted):
    path = tmp_path / "store"
    stored(files[:1], path)
    key = path.read_bytes()[:64]
    path.write_bytes(key + b' [{"session": {}}]\n')
    stored(files[:1], path)
    assert counted == ["00", "00"]


def test_the_default_store_keeps_a_few_plans(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = batch.default_store(PLAN)
    assert path.parent == tmp_path / "cliff" / "replays"
    for number in range(8):
        other = path.with_name(f"{number}.jsonl")
        other.touch()
        os.utime(other, (number, number))
    path.touch()
    os.utime(path, (0, 0))
    assert batch.default_store(PLAN) == path
    assert sorted(file.name for file in path.parent.iterdir()) == sorted(
        [path.name, *(f"{n}.jsonl" for n in range(4, 8))]
    )


def test_the_folder_of_one_session_is_a_file(traces, tmp_path):
    folder = next(traces.glob("raw_api/oh-sdk-llm-logs"))
    found = [batch.traces.discover([folder])[0]]
    first = stored(found, tmp_path / "store")
    assert first
    assert stored(found, tmp_path / "store") == first

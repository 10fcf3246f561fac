"""Tables, JSON, one view told apart, plots."""

import io
import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from cliff_core import decision, plot, report, show
from cliff_core.config import CliffConfig
from cliff_core.ledger import RELATIVE, Tariff
from cliff_core.policies import CliffPolicy, policies
from cliff_core.replay import replay, view_at
from cliff_core.traces import Request, Session, Usage
from cliff_core.wording import dollars, grouped, plain, printable, thousands

TARIFF = Tariff(3, 0.3, source="a table, a model")


def words(number):
    return " ".join(["hello"] * number)


def made(turns=12, words_each=400, **more):
    """A task of 14 tokens, and turns of 6 + 404."""
    messages = [{"role": "user", "content": words(10)}]
    requests = [Request(1, Usage(114, 0))]
    for turn in range(1, turns + 1):
        function = {"name": "bash", "arguments": "hello"}
        messages.append({"role": "assistant", "tool_calls": [{"id": str(turn), "function": function}]})
        messages.append({"role": "tool", "tool_call_id": str(turn), "content": words(words_each)})
        requests.append(Request(len(messages), Usage(114 + turn * 410, 104 + (turn - 1) * 410)))
    fields = {"name": "made", "model": "maker/model", **more}
    return Session(Path("folder/made.json"), "test", "chat", messages, requests, **fields)


def replayed(session=None, preset="paper", threshold=2500):
    config = CliffConfig.preset(preset, threshold_tokens=threshold)
    return replay(session or made(), policies(["cliff", "full", "sliding"], config), config)


def printed(lines, width=80, **options):
    console = Console(file=io.StringIO(), width=width, highlight=False, **options)
    report.show(console, lines)
    return console.file.getvalue()


# --- JSON -----------------------------------------------------------------------------------------


def test_json_of_a_session():
    done = replayed()
    data = json.loads(json.dumps(report.session_json(done, TARIFF, 128_000)))
    assert {"path", "format", "requests", "policies"} <= set(data)
    assert (data["path"], data["format"], data["requests"]) == ("folder/made.json", "test", 13)
    assert list(data["policies"]) == ["cliff", "full", "sliding"]
    for figures in data["policies"].values():
        assert {"input_tokens", "cached_tokens", "cost", "cost_vs_full", "cliffs", "peak_tokens"} <= set(figures)
    full = data["policies"]["full"]
    assert full["input_tokens"] == 13 * 114 + 410 * 78
    assert full["cached_tokens"] == 12 * 114 + 410 * 66
    uncached = full["input_tokens"] - full["cached_tokens"]
    assert full["cost"] == pytest.approx((full["cached_tokens"] * 0.3 + uncached * 3) / 1e6, abs=1e-6)
    assert (full["cost_vs_full"], full["cliffs"], full["peak_tokens"]) == (1.0, 0, 114 + 12 * 410)
    cliff = data["policies"]["cliff"]
    assert cliff["cliffs"] == len(cliff["cliff_list"]) == 3
    assert cliff["cliff_list"][0]["request"] == 7
    assert cliff["smallest_threshold"] == 2488
    assert data["prices"] == {"input": 3, "cached": 0.3, "write": None, "source": "a table, a model"}
    assert (data["fixed_tokens"], data["fixed_source"], data["context_window"]) == (100, "recorded", 128_000)
    assert data["recorded"]["difference"] == 0
    assert data["recorded"]["cached_tokens"] == sum(104 + turn * 410 for turn in range(12))


def test_json_without_anything_to_compare():
    done = replayed(Session(Path("x"), "test", "chat", [], []))
    data = report.session_json(done, RELATIVE)
    assert data["recorded"] is data["context_window"] is None
    assert data["policies"]["full"] == {
        "input_tokens": 0,
        "cached_tokens": 0,
        "cost": 0.0,
        "cost_vs_full": None,
        "cliffs": 0,
        "peak_tokens": 0,
        "support": {
            "share": None,
            "requests": 0,
            "names_needed": 0,
            "names_supported": 0,
            "repeated_calls": 0,
            "rereads": 0,
            "reissuable": 0,
        },
    }


# --- tables ---------------------------------------------------------------------------------------


def test_table_of_a_session():
    text = printed(report.session_report(replayed(threshold=2340), TARIFF, 4000))
    lines = text.split("\n")
    assert lines[:3] == ["made", "folder/made.json", "test · maker/model · 13 requests"]
    assert lines[3].split() == [
        "policy",
        "input",
        "tokens",
        "cached",
        "cost",
        "of",
        "full",
        "support",
        "cliffs",
        "peak",
    ]
    rows = {line.split()[0]: line for line in lines[5:8]}
    assert list(rows) == ["cliff", "full", "sliding"]
    # 28 428 cached at 0.3 and 5 034 at 3 dollars per million.
    assert rows["full"].split() == ["full", "33", "462", "85.0%", "$0.024", "100.0%", "–", "5", "034"]
    assert re.search(r" 3 +2 \d{3}$", rows["cliff"]), "cliffs and peak"
    assert "  fixed part: 100 tokens, from the first recorded usage" in lines
    assert "  smallest workable threshold: 2 488 tokens: 2 340 is too small" in lines
    assert "recorded: 33 462 input tokens, 84.6% cached; full is 0.0% above that" in text
    assert "window of 4 000 tokens from request 11 on" in text


def table(width):
    return printed(list(report.session_report(replayed(), TARIFF))[3:4], width)


def test_a_narrow_terminal_has_fewer_columns():
    figures = ("33 462", "85.0%", "$0.024", "100.0%", "5 034")
    for width, left_out in ((79, ()), (72, ("5 034",)), (64, ("5 034",)), (54, ("85.0%", "5 034"))):
        text = table(width)
        assert [figure for figure in figures if figure not in text] == list(left_out), width
        names = text.split("\n")[0]
        assert ("peak" in names, "cached" in names) == ("5 034" not in left_out, "85.0%" not in left_out)
        assert ("cliffs" in names) == (width >= 72)
        said = re.findall("no room for: (.*)", text)
        missing = [name for name in ("peak", "cliffs", "cached") if name not in names]
        assert said == ([", ".join(missing)] if missing else []), width


@pytest.mark.parametrize("width", [20, 30, 40])
def test_in_a_very_narrow_terminal_figures_stand_below_each_other(width):
    lines = [line.strip() for line in table(width).split("\n")]
    at = lines.index("full")
    assert " ".join(lines[at + 1 :]).startswith(
        "input tokens 33 462 cached 85.0% cost $0.024 of full 100.0% support – peak 5 034"
    )
    assert "cliffs 3" in lines[:at]


@pytest.mark.parametrize("width", range(20, 121, 4))
def test_no_figure_is_cut(width):
    assert "…" not in table(width)
    assert all(len(line) <= width for line in table(width).split("\n"))


@pytest.mark.parametrize("width", [60, 80, 200])
def test_tables_are_readable_at_any_width(width):
    done = replayed(made(name="a name " * 20))
    totals = report.Totals()
    totals.add(done, TARIFF)
    totals.add(done, TARIFF)
    lines = [*report.session_report(done, TARIFF), *report.total_report(totals), *report.footer(totals, "o200k_base")]
    text = printed(lines, width)
    assert all(len(line) <= width for line in text.split("\n"))
    assert "…" not in text
    assert "smallest workable threshold" in text


def test_a_path_is_not_broken():
    session = made()
    object.__setattr__(session, "path", Path("/long" * 40 + "/name with spaces.json"))
    assert str(session.path) in printed(report.session_report(replayed(session), TARIFF)).split("\n")


def test_a_threshold_that_the_window_does_not_allow_is_said():
    config = CliffConfig.preset("paper", threshold_tokens=100_000)
    done = replay(made(), policies(["cliff"], config), config, limit=4000)
    text = " ".join(printed(report.session_report(done, TARIFF)).split())
    assert "threshold: 3 800 tokens in place of 100 000, to leave room for the answer in the model's window" in text
    assert plot.Panel.of(done, TARIFF, config).threshold == 3800
    assert "in place of" not in printed(report.session_report(replayed(), TARIFF))


def test_other_notes():
    text = printed(report.session_report(replayed(preset="default", threshold=2340), TARIFF))
    assert "smallest workable threshold: 2 488 tokens, used in place of 2 340" in text
    bare = made(model=None, comparable=0, compactions=(3,))
    text = printed(report.session_report(replayed(bare), RELATIVE))
    assert "test · model unknown · 13 requests" in text
    assert "the file has no usage to take it from (a system prompt among the messages is none of it)" in " ".join(
        text.split()
    )
    assert "the recorded agent did not send the full context" in " ".join(text.split())
    assert "the recorded agent compacted 1 time; here its original messages stay" in text


def test_cliffs_are_counted_where_there_are_any_to_count():
    """`sliding` and `clear-tools` move at every request, and that is no cliff: nothing is shown, 0 in the JSON."""
    config = CliffConfig.preset("paper", threshold_tokens=2500)
    names = ["cliff", "summarize", "sliding", "clear-tools", "full", "cliff@100000"]
    done = replay(made(), policies(names, config), config)
    assert done.results["sliding"].entries[-1].tokens < done.full.entries[-1].tokens, "it dropped turns"
    totals = report.Totals()
    totals.add(done, TARIFF)
    shown = {name: report._figures(name, its, totals)["cliffs"] for name, its in totals.policies.items()}
    assert shown == {"cliff": "3", "summarize": "3", "sliding": "", "clear-tools": "", "full": "", "cliff@100000": "0"}
    data = report.session_json(done, TARIFF)["policies"]
    assert [data[name]["cliffs"] for name in names] == [3, 3, 0, 0, 0, 0]


# Nothing can free 100 tokens of system prompt and tools and 14 of the task: (114 + 2 000) / 0.85, rounded up.
SMALLEST = 2488


def used(done, limit=None):
    return {name: (its.least, its.most) for name, its in report.thresholds(done, limit).items()}


def decided(monkeypatch):
    """What `sliding` decides by from now on."""
    found = set()

    def spy(*given):
        found.add(effective(*given))
        return effective(*given)

    effective = decision.effective_threshold
    monkeypatch.setattr("cliff_core.policies.sliding.decision.effective_threshold", spy)
    return found


def alone(session, preset, threshold, limit=None):
    config = CliffConfig.preset(preset, threshold_tokens=threshold)
    return replay(session, policies(["sliding"], config), config, limit=limit)


@pytest.mark.parametrize(
    ("preset", "threshold", "limit", "its"),
    [
        ("default", 3000, None, 3000),
        ("default", 2340, None, SMALLEST),
        ("paper", 2340, None, 2340),
        ("default", 50_000, 4000, 3800),
        ("default", "auto", None, 32_000),
        ("default", "auto", 4000, 3800),
    ],
)
def test_the_threshold_of_sliding(monkeypatch, preset, threshold, limit, its):
    found = decided(monkeypatch)
    done = alone(made(), preset, threshold, limit)
    assert found == {its}
    assert used(done, limit) == {"sliding": (its, its)}


def test_thresholds_of_the_policies():
    config = CliffConfig.preset("default", threshold_tokens=2340)
    done = replay(made(), policies(["cliff", "full", "sliding", "sliding@2600", "cliff@auto"], config), config)
    done.results["authors"] = replace(done.results["sliding"], policy="authors")
    assert used(done) == {
        "cliff": (SMALLEST, SMALLEST),
        "sliding": (SMALLEST, SMALLEST),
        "sliding@2600": (2600, 2600),
        "cliff@auto": (8000, 8000),
        "authors": (2340, 2340),
    }
    differing = [name for name, its in report.thresholds(done).items() if its.differs]
    assert differing == ["cliff", "sliding", "cliff@auto"]


def test_pinned_messages_raise_the_threshold_of_cliff_alone(monkeypatch):
    session = made()
    picture = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    session.messages.insert(3, {"role": "user", "content": [picture]})
    moved = [Request(r.at + (r.at > 2), r.usage if r.at < 3 else None) for r in session.requests]
    pinned = Session(session.path, "test", "chat", session.messages, moved, name="made")
    its = used(replayed(pinned, "default", 2340))
    assert its == {"cliff": (SMALLEST, 4337), "sliding": (SMALLEST, SMALLEST)}, "a picture has 1 568 + 4 tokens"
    found = decided(monkeypatch)
    alone(pinned, "default", 2340)
    assert found == {SMALLEST}


def test_a_recording_that_begins_amid_a_session(monkeypatch):
    session = made()
    late = Session(session.path, "test", "chat", session.messages, session.requests[4:], name="made")
    its = used(replayed(late, "default", 2340))
    found = decided(monkeypatch)
    alone(late, "default", 2340)
    assert its["sliding"] == its["cliff"] == (min(found), max(found))


def test_with_auto_the_threshold_of_the_others_is_said():
    def said(names, threshold="auto"):
        config = CliffConfig.preset("default", threshold_tokens=threshold)
        return " ".join(printed(report.session_report(replay(made(), policies(names, config), config), TARIFF)).split())

    others = "sliding, clear-tools: threshold 32 000 tokens, since only cliff has auto; raised and lowered as any"
    assert others in said(["cliff", "full", "sliding", "clear-tools", "sliding@9000"])
    assert "only cliff has auto" not in said(["cliff", "full", "sliding@9000"])
    assert "only cliff has auto" not in said(["cliff", "sliding"], 9000)


def test_totals():
    done = replayed()
    totals = report.Totals()
    totals.add(done, TARIFF)
    assert printed(report.total_report(totals)) == "", "one session needs no total"
    totals.add(done, TARIFF)
    text = printed(report.total_report(totals))
    assert "2 sessions · 26 requests" in text
    assert re.search(r"full +66 924 +85\.0% +\$0\.\d+ +100\.0% +– +5 034", text)
    totals.add(done, RELATIVE)
    text = printed(report.total_report(totals))
    assert "3 sessions · 39 requests" in text
    assert "cost: of the 2 sessions with a price, without the others" in text
    assert text.count("$0.047") == 1, "as before: 2 * (28 428 * 0.3 + 5 034 * 3) / 1 000 000"


def test_footer_says_what_the_figures_are():
    totals = report.Totals()
    assert printed(report.footer(totals, "x")) == ""
    totals.add(replayed(), TARIFF)
    totals.add(replayed(), Tariff(5, 0.5, 6.25, "another"))
    text = " ".join(printed(report.footer(totals, "o200k_base")).split())
    assert "Dollars per million input tokens, a table: a model: input 3, cached 0.3 Dollars" in text
    assert "Dollars per million input tokens, another: input 5, cached 0.5, cache write 6.25 Cost" in text
    assert report.COST_IS in text
    assert "Tokens by o200k_base. Where a session has recorded usage" in text
    relative = report.Totals()
    relative.add(replayed(), RELATIVE)
    text = " ".join(printed(report.footer(relative, "o200k_base")).split())
    assert "Cost as a share only, with cached input at 0.2 of the input price: no price is known" in text
    assert "–" in printed(report.session_report(replayed(), RELATIVE)), "no cost in dollars"


def test_figures():
    assert [grouped(n) for n in (0, 999, 1000, 9528745)] == ["0", "999", "1 000", "9 528 745"]
    amounts = (0, 0.00123, 0.0456, 0.5, 1, 1234.5)
    assert [dollars(a) for a in amounts] == ["$0.00", "$0.0012", "$0.046", "$0.500", "$1.00", "$1 234.50"]


def test_prices_as_figures():
    assert [plain(n) for n in (3, 0.3, 0.028, 10, 0.00001)] == ["3", "0.3", "0.028", "10", "0"]


def test_recorded_text_cannot_drive_a_terminal():
    assert printable("a\x1b[31mb\tc\r\nd\re\x7f\x9b1m\u202e\ud800é漢🙂\u200d") == (
        "a␛[31mb\tc\nd␍e␡\ufffd1m\ufffd\ufffdé漢🙂\u200d"
    )


# --- one view -------------------------------------------------------------------------------------


def shown(request, session=None, preset="paper", **options):
    session = session or made()
    config = CliffConfig.preset(preset, threshold_tokens=2500, **options)
    view, meter = view_at(session, CliffPolicy(config), request)
    history = session.messages[: session.requests[request - 1].at]
    parts = list(show.parts(history, view, meter))
    return view, parts, [line.plain for line in show.lines(session.name, request, view, iter(parts))]


def test_before_the_first_cliff():
    view, parts, lines = shown(3)
    assert [part.place for part in parts] == ["head", "live", "live", "live", "live"]
    assert lines[0] == f"made: request 3, {grouped(view.tokens)} tokens of 2 500; nothing is cut"
    assert lines[1:3] == ["head   │ message 1, user, 14 tokens", "head   │ " + words(10)]
    assert lines[3:5] == ["live   │ message 2, model, 6 tokens", "live   │ bash hello"]


def test_after_a_cliff_everything_has_its_place():
    view, parts, lines = shown(7)
    assert [part.place for part in parts] == ["head", "block", *["cut"] * 6, *["live"] * 6]
    assert parts[1].text == view.block
    assert f"cliff 1 is here, from {grouped(view.cliff.tokens_before)} to" in lines[0]
    assert "messages 2 to 7 are cut" in lines[0]
    cut = [line for line in lines if line.startswith("cut ")]
    assert len(cut) == 6
    assert cut[0] == "cut    │ message 2, model, 6 tokens: bash hello"
    assert cut[1].endswith("hello hell…")
    assert all(re.match(r"(head|block|cut|live) +│ ", line) for line in lines[1:])


def test_a_merged_block_is_shown_after_the_message_that_it_is_in():
    view, parts, _ = shown(7, merge_block=True)
    assert len(view.messages) == 1 + 6
    assert [part.place for part in parts][:3] == ["head", "block", "cut"]


def test_a_block_amid_the_head():
    """The end of an Anthropic head can be system messages, which follow the block."""
    session = made()
    messages = [session.messages[0], {"role": "system", "content": words(10)}, *session.messages[1:]]
    requests = [Request(request.at + 1) for request in session.requests]
    anthropic = Session(session.path, "test", "anthropic", messages, requests, name="made")
    for message in messages:
        if message["role"] == "assistant":
            call = message.pop("tool_calls")[0]
            message["content"] = [{"type": "tool_use", "id": call["id"], "name": "bash", "input": {"command": "x"}}]
        elif message["role"] == "tool":
            block = {"type": "tool_result", "tool_use_id": message.pop("tool_call_id"), "content": message["content"]}
            message.update(role="user", content=[block])
    view, parts, _ = shown(7, anthropic)
    assert [part.place for part in parts[:4]] == ["head", "block", "head", "cut"]
    assert view.messages[1]["role"] == "user"
    assert view.messages[2] is messages[1]


def test_pinned_messages_are_told_apart():
    session = made()
    picture = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    session.messages[2]["content"] = words(400)
    session.messages.insert(3, {"role": "user", "content": [picture]})
    moved = [Request(r.at + (r.at > 2)) for r in session.requests]
    pinned = Session(session.path, "test", "chat", session.messages, moved, name="made")
    view, parts, lines = shown(9, pinned, "default", min_gain=0)
    places = [part.place for part in parts]
    if view.block is None:  # the threshold was raised: nothing to see
        pytest.fail("the session is too small for a cliff")
    assert places.count("pinned") == len(view.pinned) == 1
    assert "pinned │ [image, 1 568 tokens]" in lines
    assert "but for 1 that are pinned" in lines[0]


def test_a_view_as_json():
    view, _, _ = shown(7)
    data = json.loads(json.dumps(show.view_json(view, 7)))
    assert (data["request"], data["head"], data["cut"], data["pinned"]) == (7, 1, 7, [])
    assert data["cliff"]["number"] == 1
    assert data["block"] == view.block
    assert len(data["messages"]) == 1 + 1 + 6


# --- plots ----------------------------------------------------------------------------------------


def panel(number=1, turns=12):
    config = CliffConfig.preset("paper", threshold_tokens=2500)
    return plot.Panel.of(replayed(made(turns=turns, name=f"made {number}")), TARIFF, config)


def test_what_a_panel_shows():
    shown = panel()
    assert (shown.title, shown.subtitle, shown.threshold, shown.requests) == ("made 1", "test · model", 2500, 13)
    assert list(shown.lines) == ["cliff", "full", "sliding"]
    assert shown.lines["full"].tokens == tuple(114 + 410 * turn for turn in range(13))
    assert shown.lines["cliff"].cliffs[0] == 7
    assert shown.lines["full"].cost_vs_full == 1


def test_the_threshold_of_a_panel_says_whose_it_is():
    def label(names, threshold=2340, preset="default", limit=None):
        config = CliffConfig.preset(preset, threshold_tokens=threshold)
        done = replay(made(), policies(names, config), config, limit=limit)
        return plot.Panel.of(done, TARIFF, config, limit).threshold_label

    assert label(["cliff", "full", "sliding"]) == "threshold 2.49k"
    assert label(["cliff", "sliding@2600", "full"]) == "threshold of cliff 2.49k"
    assert label(["cliff@9000", "cliff"]) == "threshold of cliff@9000 9k"
    assert label(["cliff", "sliding"], "auto") == "threshold of cliff 8k"
    assert label(["sliding", "full"]) == "threshold 2.49k"
    assert label(["full"]) == "threshold 2.34k"
    assert label(["cliff", "sliding"], 50_000, limit=4000) == "threshold 3.8k"


def test_what_a_session_is_called():
    def called(name, path="runs/a.traj.json"):
        return plot.Called.of(Session(Path(path), "test", "chat", [], [], name=name)).name

    assert [called(name) for name in ("made", "12", "")] == ["made", "a.traj 12", "a.traj"]


def test_sessions_of_one_name_are_told_apart():
    paths = ["a/s.json", "b/s.json", "b/t.json", "deep/a/s.json"]
    same = [plot.Called("same", Path(path)) for path in paths]
    twice = [plot.Called("twice", Path("c.jsonl"), number) for number in (1, 2)]
    both = [plot.Called("both", Path("d.jsonl"), 1), plot.Called("both", Path("d.jsonl"), 2)]
    both.append(plot.Called("both", Path("e.jsonl")))
    only = plot.Called("only", Path("a/s.json"), 3)
    tails = plot.told_apart([*same, *twice, *both, only, only])
    assert [tails[one] for one in same] == ["a/s.json", "b/s.json", "t.json", "deep/a/s.json"]
    assert [tails[one] for one in twice] == ["no. 1", "no. 2"]
    assert [tails[one] for one in both] == ["d.jsonl no. 1", "d.jsonl no. 2", "e.jsonl"]
    assert tails[only] == ""


def test_a_plot_tells_sessions_of_one_name_apart(tmp_path):
    pytest.importorskip("matplotlib")
    config = CliffConfig.preset("paper", threshold_tokens=2500)
    panels = []
    for folder in ("one", r"$\frac$"):  # the second is no formula
        session = replace(made(), name=r"$\sqrt$", path=Path(folder) / "s.json")
        panels.append(plot.Panel.of(replayed(session), TARIFF, config))
    plot.draw(panels, 2, tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text()
    assert "one/s.json · test · model" in text
    assert r"$\frac$/s.json · test · model" in text


def test_an_svg_has_the_same_bytes_each_time(tmp_path):
    pytest.importorskip("matplotlib")
    for name in ("a.svg", "b.svg"):
        plot.draw([panel()], 1, tmp_path / name)
    one = (tmp_path / "a.svg").read_bytes()
    assert one == (tmp_path / "b.svg").read_bytes()
    assert one.startswith(b"<?xml")
    assert b"<dc:date>" not in one


@pytest.mark.parametrize("number", [1, 3, 5])
def test_a_png_of_several_sessions(tmp_path, number):
    pytest.importorskip("matplotlib")
    path = tmp_path / "a.png"
    plot.draw([panel(n, turns=n) for n in range(number)], number + 7, path)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert path.stat().st_size > 10_000


def test_of_many_sessions_the_longest_are_drawn():
    panels = []
    for number in range(20):
        panels = plot.largest([*panels, panel(number, turns=20 - number if number % 2 else number)])
        assert len(panels) <= plot.MOST_PANELS
    titles = [int(one.title.split()[1]) for one in panels]
    assert titles == sorted(titles), "in their order"
    assert min(one.requests for one in panels) == 9


def test_a_line_that_would_press_the_others_to_the_ground():
    flat = plot.Line((100,) * 10, (), 0.1)
    for peak, top in ((700, 756), (10_000, 540)):
        steep = plot.Line(tuple(peak * n // 10 for n in range(1, 11)), (), 1.0)
        assert plot._top(plot.Panel("", "", 100, {"full": steep, "cliff": flat})) == pytest.approx(top)


@pytest.mark.parametrize("grows", [1, 3])
def test_a_line_that_leaves_the_picture_says_where_it_goes(tmp_path, grows):
    pytest.importorskip("matplotlib")
    flat = plot.Line((1000,) * 10, (3,), 0.1)
    steep = plot.Line(tuple(100 * n**grows * 10 ** (3 - grows) for n in range(1, 11)), (), 1.0)
    plot.draw([plot.Panel("a", "b", 1000, {"full": steep, "cliff": flat})], 1, tmp_path / "a.svg")
    assert b"<!-- full \xe2\x86\x91 up to 100k -->" in (tmp_path / "a.svg").read_bytes()


def test_unusable_files(monkeypatch):
    assert plot.unusable(Path("a.pdf")) == "a plot is a .png or .svg file, not 'a.pdf'"
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert plot.unusable(Path("a.png")) == "plots need matplotlib: pip install matplotlib"


def test_usable_files():
    pytest.importorskip("matplotlib")
    assert plot.unusable(Path("a.png")) is plot.unusable(Path("a.SVG")) is None


@pytest.mark.parametrize("error", [ImportError("numpy.core.multiarray\nfailed"), AttributeError("_ARRAY_API")])
def test_matplotlib_that_cannot_be_imported(monkeypatch, error):
    def fail(name):
        raise error

    monkeypatch.setattr("importlib.import_module", fail)
    problem = " ".join(f"{type(error).__name__}: {error}".split())
    assert plot.unusable(Path("a.png")) == f"plots need matplotlib, which cannot be imported ({problem})"


def test_thousands():
    assert [thousands(n) for n in (0, 950, 16_000, 12_345, 1_250_000)] == ["0", "950", "16k", "12.3k", "1.25M"]

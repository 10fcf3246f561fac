"""The page of `cliff report`."""

import html as entities
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cliff_core import cli, page
from cliff_core.batch import Done
from cliff_core.config import CliffConfig
from cliff_core.ledger import RELATIVE, Tariff
from cliff_core.page import Page
from cliff_core.plot import Line, Panel
from cliff_core.policies import policies
from cliff_core.replay import replay
from cliff_core.traces import Request, Session

CONFIG = CliffConfig.preset("paper", threshold_tokens=1_500)
TARIFF = Tariff(3, 0.3, source="a table, a model")
NAMES = ["cliff", "full", "sliding", "summarize", "clear-tools"]


def made(turns=8, name="made"):
    """Each command names what the result before it showed."""
    words = " ".join(["hello"] * 300)
    messages = [{"role": "user", "content": "the task"}]
    for turn in range(turns):
        function = {"name": "bash", "arguments": f'{{"command": "cat src/file_{turn // 6}.py"}}'}
        messages.append({"role": "assistant", "tool_calls": [{"id": str(turn), "function": function}]})
        messages.append({"role": "tool", "tool_call_id": str(turn), "content": f"src/file_{turn}.py {words}"})
    requests = [Request(1 + 2 * turn) for turn in range(turns + 1)]
    return Session(Path("folder/made.json"), "test", "chat", messages, requests, name=name, model="maker/model")


def done(session=None, tariff=TARIFF, names=NAMES, config=CONFIG, limit=None):
    session = session or made()
    return Done(replay(session, policies(names, config), config, limit=limit), tariff, None, limit)


def html(*replayed, config=CONFIG, left_out=()):
    made = Page(config, "o200k_base")
    for one in replayed:
        made.add(one)
    for text in left_out:
        made.left_out(text)
    return made.html()


def plainly(text):
    """Without tags; figures are not broken, which is not looked at."""
    return entities.unescape(re.sub("<[^>]*>", "", text)).replace("\N{NO-BREAK SPACE}", " ")


def items(text):
    return [plainly(item) for item in re.findall("<li>.*?</li>", text)]


def table_after(text, heading):
    """Rows of cells of the first table below a heading."""
    table = re.search(f"<h2>{heading}</h2>.*?<table>(.*?)</table>", text, re.DOTALL)[1]
    return [
        [plainly(cell) for cell in re.findall("<t[hd].*?</t[hd]>", row)] for row in re.findall("<tr>.*?</tr>", table)
    ]


class Checked(HTMLParser):
    """Every tag is closed by its own; what it loads is noted."""

    def __init__(self):
        super().__init__()
        self.open, self.loads, self.tags, self.texts = [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.loads += [value for name, value in attrs if name in ("src", "href", "xlink:href", "data", "action")]
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def checked(text):
    parser = Checked()
    parser.feed(text)
    parser.close()
    assert parser.open == []
    return parser


def test_it_is_whole_and_loads_nothing():
    text = html(done(), done(made(4, "other")))
    parser = checked(text)
    assert parser.loads == []
    assert not {"script", "link", "img", "iframe"} & set(parser.tags)
    assert "url(" not in text
    assert "http" not in text
    assert '<meta name="viewport" content="width=device-width,initial-scale=1">' in text
    assert text.startswith("<!doctype html>\n")


def test_the_same_replays_give_the_same_bytes():
    assert html(done(), done(made(4))) == html(done(), done(made(4)))


def test_what_the_totals_say():
    one = done()
    text = html(one)
    row = next(row for row in re.findall("<tr>.*?</tr>", text) if ">cliff<" in row and "input tokens" not in row)
    cells = [re.sub("<[^>]*>", "", cell) for cell in re.findall("<td.*?</td>", row)]
    cliff, full = one.replay.results["cliff"], one.replay.full
    assert cells[0] == "cliff"
    assert cells[1].replace(" ", "") == str(cliff.input_tokens)
    assert cells[4] == f"{cliff.cost(TARIFF) / full.cost(TARIFF):.1%}"
    assert cells[5] == f"{cliff.support.share:.1%}"
    assert cells[6] == f"{cliff.support.rereads} of {cliff.support.repeats}"
    assert cells[8] == str(len(cliff.compactions))
    assert cliff.support.share < 1
    assert cliff.compactions


def test_cliffs_of_policies_that_have_none_to_count():
    text = html(done())
    rows = {cells[0]: cells[8] for cells in table_after(text, "All sessions")}
    assert rows["policy"] == "cliffs"
    assert [rows[name] for name in ("full", "sliding", "clear-tools")] == ["–", "–", "–"]
    assert int(rows["summarize"]) > 0
    heads, row = table_after(text, "Sessions")
    assert row[heads.index("sliding: cost, support, cliffs")].endswith(", –")
    assert re.search(", [1-9]$", row[heads.index("cliff: cost, support, cliffs")])


# --- thresholds -----------------------------------------------------------------------------------


def default(threshold):
    return CliffConfig.preset("default", threshold_tokens=threshold)


# Its task has 6 tokens: (6 + 2 000) / 0.85, rounded up, is the smallest threshold that works.
SMALLEST = "2 360"


def test_thresholds_as_asked_for_need_no_words():
    text = html(done())
    assert "Not every policy ran" not in text
    assert "Thresholds, in tokens" not in text
    assert "<p>1 session, 9 requests, threshold 1\N{NO-BREAK SPACE}500 tokens, preset paper.</p>" in text


def test_thresholds_that_were_raised_are_said():
    config = default(1500)
    replayed = done(config=config)
    # What a policy is that is not raised. (The real one needs its own environment.)
    replayed.replay.results["authors"] = replace(replayed.replay.results["sliding"], policy="authors")
    text = html(replayed, config=config)
    assert text.index("Not every policy ran at that threshold on every session") < text.index("<table>")
    assert items(text)[:2] == [
        f"cliff, sliding, summarize, clear-tools: 1 500 tokens, raised to {SMALLEST} in 1 of 1 session: "
        "the smallest workable threshold there",
        "authors: 1 500 tokens",
    ]
    assert table_after(text, "Thresholds, in tokens") == [
        ["session", "cliff, sliding, summarize, clear-tools", "authors"],
        ["made", SMALLEST, "1 500"],
    ]
    assert "threshold of cliff 2.36k</text>" in text
    checked(text)


def test_thresholds_of_sessions_that_differ():
    long = made(name="long task")
    long.messages[0]["content"] = " ".join(["hello"] * 1000)
    config = default(2400)
    text = html(*(done(session, config=config) for session in (made(), long)), config=config)
    # (1 000 + 4 + 2 000) / 0.85
    assert items(text)[0] == (
        "cliff, sliding, summarize, clear-tools: 2 400 tokens, raised to 3 535 in 1 of 2 sessions: "
        "the smallest workable threshold there"
    )
    assert table_after(text, "Thresholds, in tokens")[1:] == [["long task", "3 535"]]
    assert "Of the other sessions of the table above they were as asked for." in text


def test_thresholds_that_were_lowered_are_said():
    config = default(50_000)
    text = html(done(config=config, limit=4000), config=config)
    assert items(text)[0] == (
        "cliff, sliding, summarize, clear-tools: 50 000 tokens, lowered to 3 800 in 1 of 1 session: "
        "to leave room in the model's window"
    )


def test_thresholds_of_auto_are_said():
    config = default("auto")
    text = html(done(made(60), config=config), config=config)
    assert "threshold auto, preset default." in plainly(text)
    assert items(text)[:2] == [
        "cliff: auto, which was 8 000 tokens at the cliffs and the end",
        "sliding, summarize, clear-tools: 32 000 tokens",
    ]
    assert table_after(text, "Thresholds, in tokens")[1] == ["made", "8 000", "32 000"]


# --- which session, which input -------------------------------------------------------------------


def test_sessions_of_one_name_are_told_apart():
    same = [replace(made(), path=Path(path)) for path in ("runs/a/s.json", "runs/b/s.json", "runs/c.jsonl")]
    others = [replace(made(name="1"), path=Path(path)) for path in ("x/log.jsonl", "x/more.jsonl")]
    text = html(*map(done, [*same, same[2], *others]))
    rows = table_after(text, "Sessions")[1:]
    names = ["madea/s.json", "madeb/s.json", "madec.jsonl no. 1", "madec.jsonl no. 2", "log 1", "more 1"]
    assert [row[0] for row in rows] == names
    for path in ("runs/a/s.json", "runs/c.jsonl", "x/log.jsonl"):
        assert f'<span title="{path} · test · maker/model">' in text
        assert f'<h3 title="{path}">' in text
    assert '<p class="dim">b/s.json · test · model</p>' in text
    checked(text)


def test_what_is_not_in_the_figures_is_named(monkeypatch):
    assert "Not in the figures" not in html(done())
    monkeypatch.setattr(page, "MOST_LEFT_OUT", 2)
    text = html(done(), left_out=["failed: <a>", "skipped: b", "skipped: c", "skipped: d"])
    assert "<strong>Not in the figures: 4 inputs</strong>" in text
    assert text.index("Not in the figures") < text.index("<table>")
    assert items(text)[-3:] == ["failed: <a>", "skipped: b", "2 more"]
    checked(text)


def test_a_report_names_the_inputs_that_failed_or_were_skipped(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    folder = Path("runs")
    folder.mkdir()
    words = " ".join(["hello"] * 20)
    for name, turns in (("good", 1), ("empty", 0)):
        messages = [{"role": "user", "content": words}, *[{"role": "assistant", "content": words}] * turns]
        data = {"trajectory_format": "mini-swe-agent-1.1", "instance_id": name, "info": {}, "messages": messages}
        (folder / f"{name}.json").write_text(json.dumps(data))
    (folder / "broken.json").write_text('{"messages": [')
    (folder / "other.json").write_text('{"a": 1}')
    (folder / "notes.txt").write_text("notes")

    def report():
        given = ["report", "runs", "runs/good.json", "-o", "runs/report.html", "--policy", "cliff,full", "--no-store"]
        result = CliRunner().invoke(cli.app, given)
        assert result.exit_code == 2, result.output
        return Path("runs/report.html").read_text()

    text = report()
    assert "1 session, 1 request" in text
    named = [item.split(":")[:2] for item in items(text)[-4:]]
    assert named == [
        ["no model request", " empty in runs/empty.json"],
        ["failed", " runs/broken.json"],
        ["skipped", " runs/notes.txt"],
        ["skipped", " runs/other.json"],
    ]
    assert report() == text, "the page itself, which is there now, is no input"


# --- a phone --------------------------------------------------------------------------------------


def test_it_reads_on_a_phone():
    """375 pixels wide, of which the page's margins take 32. (Measured once in Chromium: a name's column has 125 of
    343, the widest of a policy 146, and the charts' letters 10.2.)"""
    text = html(done())
    narrow = re.search(r"@media\(max-width:40rem\)\{(.*)\}$", page.STYLE)[1]
    padding = 16 * float(re.search(r"th,td\{padding:\S+ ([\d.]+)rem", narrow)[1])
    name = 16 * float(re.search(r"td\.name\{min-width:\S+;max-width:([\d.]+)rem", narrow)[1]) + 2 * padding
    figures = len("100.0%, 100.0%, 21") * 8 + 2 * padding  # letters of 14 pixels are 8 wide
    assert name + figures <= 375 - 32
    assert "td.name{white-space:normal;overflow-wrap:anywhere;" in page.STYLE
    assert re.search(r"th,td\{[^}]*white-space", page.STYLE) is None, "headings may be broken"
    chart = 16 * float(re.search(r"svg\{[^}]*min-width:([\d.]+)rem", page.STYLE)[1])
    letters = float(re.search(r"svg text\{font:([\d.]+)px", page.STYLE)[1])
    assert letters * chart / page.WIDTH >= 10
    assert text.count('<div class="wide">\n<svg') == text.count("<svg") > 0, "the picture scrolls, not the page"
    assert text.count('<div class="wide"><table>') == text.count("<table>")


def test_a_stand_in_is_labelled_before_any_figure():
    text = html(done())
    assert text.index("not by a model") < text.index("<table>")
    assert "not by a model" not in html(done(names=["cliff", "full"]))


def test_recorded_text_cannot_become_markup():
    text = html(done(made(name='<script>alert(1)</script> & "x" \x1b[31m')))
    assert "<script" not in text
    assert "\x1b" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; &quot;x&quot; \u241b[31m" in text
    checked(text)


def test_the_chart_has_a_point_for_each_policy():
    text = html(done())
    chart = re.search('<svg [^>]*aria-label="Support against cost.*?</svg>', text, re.DOTALL)[0]
    assert chart.count('r="8"') == len(NAMES)
    for name in NAMES:
        assert re.search(rf">{name} \d+%, \d+\.\d%</text>", chart)
    numbers = [float(number) for number in re.findall(r'c[xy]="([\d.-]+)"', chart)]
    assert all(0 <= number <= 640 for number in numbers)


def test_without_names_there_is_no_chart():
    session = made()
    for message in session.messages:
        if message["role"] == "assistant":
            message["tool_calls"][0]["function"]["arguments"] = "{}"
    text = html(done(session))
    assert "No request needs a name" in text
    checked(text)


def test_sessions_without_a_price():
    text = html(done(tariff=RELATIVE))
    assert "$" not in text
    assert "shares only, with cached input at 0.2 of input" in text
    mixed = html(done(), done(tariff=RELATIVE))
    assert "Cost: of the 1 session with a price, without the others." in mixed


def test_what_is_kept_is_bounded(monkeypatch):
    monkeypatch.setattr(page, "MOST_ROWS", 3)
    built = Page(CONFIG, "o200k_base")
    for number in range(20):
        built.add(done(made(2 + number % 7, f"session {number}"), names=["full"]))
    assert len(built._rows) == 3
    assert len(built._panels) == page.MOST_CURVES
    text = built.html()
    assert "The 3 with the most requests." in text
    assert "The 12 sessions with the most requests." in text
    assert [row.requests for row in built._rows] == [9, 9, 8]


def test_a_long_curve_keeps_its_peaks():
    tokens = tuple(100 + (number % 500) for number in range(5_000))
    points = page._thinned(Line(tokens, (), None))
    assert len(points) <= page.MOST_POINTS
    assert points == sorted(points)
    assert {100, 599} <= {size for _, size in points}
    assert page._thinned(Line((1, 2, 3), (), None)) == [(1, 1), (2, 2), (3, 3)]


def test_a_line_that_would_press_the_others_to_the_ground():
    flat, steep = Line((100,) * 10, (), 0.1), Line(tuple(range(1000, 11_000, 1000)), (), 1.0)
    text = "\n".join(page._curves(Panel("a", "b", 100, {"full": steep, "cliff": flat})))
    assert "Beyond the picture: full up to 10k." in text
    checked(text)


@pytest.mark.parametrize(
    ("least", "most", "ticks"),
    [
        (0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (0, 17_000, [0, 5000, 10000, 15000]),
        (0.9, 1, [0.9, 0.92, 0.94, 0.96, 0.98, 1.0]),
    ],
)
def test_ticks(least, most, ticks):
    assert page._ticks(least, most) == ticks

"""The page of `cliff report`."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from cliff_core import page
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


def done(session=None, tariff=TARIFF, names=NAMES):
    session = session or made()
    return Done(replay(session, policies(names, CONFIG), CONFIG), tariff, None)


def html(*replayed):
    made = Page(CONFIG, "o200k_base")
    for one in replayed:
        made.add(one)
    return made.html()


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

"""Figures by hand: a message of n words has n + 4 tokens (each word is one, the frame of a message 4)."""

import pytest

from cliff_core import prices
from cliff_core.content import Message, Note
from cliff_core.dialects import dialect
from cliff_core.ledger import (
    RELATIVE,
    CacheRules,
    Entry,
    Ledger,
    Meter,
    Pricing,
    Tariff,
    UnknownPriceError,
)


def words(number, word="hello"):
    return " ".join([word] * number)


def message(number, role="user", word="hello"):
    return {"role": role, "content": words(number, word)}


@pytest.fixture
def meter():
    return Meter(dialect("chat"))


# --- Meter ----------------------------------------------------------------------------------------


def test_a_message_is_its_texts_and_a_frame(meter):
    assert meter.tokens(message(10)) == 14
    call = {"function": {"name": "bash", "arguments": words(5)}, "id": "1"}
    assert meter.tokens({"role": "assistant", "content": words(2), "tool_calls": [call]}) == 4 + 2 + 1 + 5


def test_the_ratio_is_of_texts_alone(meter):
    hello = message(10)
    corrected = meter.corrected(1.25)
    assert meter.raw(hello) == corrected.raw(hello) == (10, 4)
    assert corrected.tokens(hello) == 4 + 12  # 12.5, to even
    assert corrected.count_many([words(4), words(1), ""]) == [5, 1, 0]
    assert meter.corrected(0.1).count_many([words(2)]) == [1], "a text that has tokens keeps one"


def test_a_text_is_counted_once(meter, monkeypatch):
    counted = []

    def count_many(texts):
        counted.extend(texts)
        return [len(text.split()) for text in texts]

    monkeypatch.setattr("cliff_core.tokens.count_many", count_many)
    one, same = message(3), message(3)
    meter.read([one, same, message(2)])
    assert meter.tokens(one) == meter.tokens(same) == 7
    assert meter.corrected(2.0).tokens(one) == 10
    assert counted == [words(3), words(2)]


# --- Ledger ---------------------------------------------------------------------------------------


def test_appending_leaves_the_request_before_in_the_cache(meter):
    ledger = Ledger(meter)
    task, reply, more = message(10), message(20, "assistant"), message(30)
    assert ledger.enter([task], 100) == Entry(114, 0)
    assert ledger.enter([task, reply], 100) == Entry(138, 114)
    assert ledger.enter([task, reply, more], 100) == Entry(172, 138)
    assert ledger.enter([task, reply, more], 100) == Entry(172, 172)
    assert (ledger.input_tokens, ledger.cached_tokens, ledger.peak_tokens) == (596, 424, 172)


def test_equal_messages_are_the_same_prefix(meter):
    ledger = Ledger(meter)
    ledger.enter([message(10), message(20)])
    assert ledger.enter([message(10), message(20), message(1)]) == Entry(43, 38)


def test_after_a_cut_the_head_alone_is_cached(meter):
    ledger = Ledger(meter)
    task = message(10)
    ledger.enter([task, message(20, "assistant"), message(30)], 100)
    assert ledger.enter([task, message(7, word="other"), message(30)], 100) == Entry(159, 114)
    assert ledger.enter([task], 100) == Entry(114, 114), "a request that is shorter"
    assert ledger.enter([message(3, word="new")], 100) == Entry(107, 100)


def test_only_the_request_before_counts(meter):
    ledger = Ledger(meter)
    task, one, two = message(10), message(20, word="one"), message(20, word="two")
    ledger.enter([task, one])
    ledger.enter([task, two])
    assert ledger.enter([task, one]).cached == 14


def test_within_the_first_message_that_differs_the_common_beginning_is_cached(meter):
    ledger = Ledger(meter)
    merged = {"role": "user", "content": words(10) + "<block>"}
    ledger.enter([message(10), message(20, "assistant")], 100)
    assert ledger.enter([merged, message(20, "assistant")], 100).cached == 110
    again = {"role": "user", "content": words(10) + "(other)"}
    assert ledger.enter([again, message(20, "assistant")], 100).cached == 110
    assert ledger.enter([{**again, "role": "assistant"}], 100).cached == 100, "another role is no beginning"


def test_another_fixed_part_leaves_nothing_in_the_cache(meter):
    ledger = Ledger(meter)
    ledger.enter([message(10)], 100)
    assert ledger.enter([message(10)], 101) == Entry(115, 0)


@pytest.mark.parametrize(
    ("prefix", "held"), [(0, 0), (1023, 0), (1024, 1024), (1025, 1024), (1151, 1024), (1152, 1152), (5000, 4992)]
)
def test_rules_of_a_cache(prefix, held):
    assert CacheRules(least=1024, step=128).held(prefix) == held
    assert CacheRules().held(prefix) == prefix


def test_a_ledger_applies_the_rules(meter):
    ledger = Ledger(meter, CacheRules(least=100, step=50))
    task = message(10)
    assert ledger.enter([task], 80) == Entry(94, 0, written=False)
    assert ledger.enter([task, message(20)], 80) == Entry(118, 0)
    assert ledger.enter([task, message(20), message(50)], 80) == Entry(172, 100)


def test_cost():
    assert Entry(1_000_000, 0).cost(Tariff(3, 0.3)) == pytest.approx(3)
    assert Entry(1_000_000, 900_000).cost(Tariff(3, 0.3)) == pytest.approx(0.27 + 0.3)
    written = Tariff(3, 0.3, 3.75)
    assert Entry(1_000_000, 900_000).cost(written) == pytest.approx(0.27 + 0.375)
    assert Entry(1_000_000, 0, written=False).cost(written) == pytest.approx(3), "too short to be cached"
    assert Entry(10, 4).uncached == 6


def test_cost_of_a_session(meter):
    ledger = Ledger(meter)
    ledger.enter([message(10)], 100)
    ledger.enter([message(10), message(20)], 100)
    # 114 new, then 114 cached and 24 new.
    assert ledger.cost(Tariff(1, 0.2)) == pytest.approx((114 + 24 + 114 * 0.2) / 1e6)


def test_an_auxiliary_request_is_charged_with_its_answer(meter):
    ledger = Ledger(meter)
    task, reply = message(10), message(20, "assistant")
    ledger.enter([task], 100)
    assert ledger.assist([task, reply, message(6)], words(30), 100) == Entry(148, 114, output=30)
    assert ledger.enter([task, reply], 100) == Entry(138, 114), "compared with the request before, not with that one"
    assert (ledger.input_tokens, ledger.cached_tokens, ledger.peak_tokens) == (114 + 148 + 138, 228, 138)
    # 114 + 34 + 24 new, 2 * 114 cached, 30 answered.
    assert ledger.cost(Tariff(1, 0.2, output=4)) == pytest.approx((172 + 228 * 0.2 + 30 * 4) / 1e6)
    assert ledger.cost(Tariff(1, 0.2)) == pytest.approx((172 + 228 * 0.2 + 30 * 5) / 1e6), "five times input"
    assert ledger.auxiliary[0].written
    assert Ledger(meter, CacheRules(least=1000)).assist([task], "hello") == Entry(14, 0, written=False, output=1)


def test_a_message_of_a_policy_is_in_no_format(meter):
    made = Message("user", (Note(words(10), "summary"),))
    assert meter.tokens(made) == 14
    ledger = Ledger(meter)
    ledger.enter([message(10), made])
    assert ledger.enter([message(10), Message("user", (Note(words(10), "summary"),)), message(1)]).cached == 28


# --- Pricing --------------------------------------------------------------------------------------


def model(price, minimum=None, step=None):
    return prices.Model("m", "p", price, 128_000, 8_000, minimum, step)


def price(uncached, cached, write, name):
    return prices.Price(input=uncached, cached=cached, cache_write=write, output=9, source=f"a table, {name}")


@pytest.fixture
def table(monkeypatch):
    known = {
        "openai-like": model(price(2.5, 1.25, None, "openai-like"), 1024, 128),
        "anthropic-like": model(price(5, 0.5, 6.25, "anthropic-like"), 4096, 1),
        "uncached": model(price(2, None, None, "uncached")),
        "unpriced": model(None, 64, 64),
    }
    monkeypatch.setattr(prices, "lookup", known.get)


def test_prices_and_rules_of_the_sessions_model(table):
    assert Pricing().of("openai-like") == (
        Tariff(2.5, 1.25, None, "a table, openai-like", output=9),
        CacheRules(1024, 128),
        prices.lookup("openai-like"),
    )
    assert Pricing().of("anthropic-like")[0] == Tariff(5, 0.5, 6.25, "a table, anthropic-like", output=9)
    assert Pricing().of("uncached")[0].cached == 2, "no price for cached input: that of input"


def test_a_model_or_prices_that_were_asked_for(table):
    _, rules, known = Pricing(model="anthropic-like").of("openai-like")
    assert (rules, known) == (CacheRules(4096, 1), prices.lookup("anthropic-like"))
    assert Pricing(input=3, cached=0.5, write=4).of("openai-like") == (
        Tariff(3, 0.5, 4, "as given"),
        CacheRules(1024, 128),
        prices.lookup("openai-like"),
    )
    assert Pricing(input=3).of(None)[0].cached == pytest.approx(0.6), "a fifth"
    assert Pricing(least=10, step=5).of("openai-like")[1] == CacheRules(10, 5)


def test_without_a_price_costs_are_relative(table):
    tariff, rules, known = Pricing().of(None)
    assert (tariff, rules, known) == (RELATIVE, CacheRules(), None)
    assert RELATIVE.relative
    assert (RELATIVE.input, RELATIVE.cached) == (1.0, 0.2)
    assert Pricing().of("unpriced") == (RELATIVE, CacheRules(64, 64), prices.lookup("unpriced"))
    with pytest.raises(UnknownPriceError, match=r"'unpriced'; give --price-input"):
        Pricing(model="unpriced").of("openai-like")

"""cliff_core.prices: models found by their many names, in litellm's table and in ours."""

import json
import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cliff_core import CliffConfig, prices
from cliff_core.ledger import Tariff
from cliff_core.prices import Price, Table, cache_rule, canonical, load, lookup, priced


def entry(provider, input_price=1.0, output=2.0, cached=None, write=None, window=1000, **more):
    """An entry as litellm has it: dollars per token."""
    costs = {
        "input_cost_per_token": input_price,
        "output_cost_per_token": output,
        "cache_read_input_token_cost": cached,
        "cache_creation_input_token_cost": write,
    }
    return {
        "litellm_provider": provider,
        "mode": "chat",
        "max_input_tokens": window,
        "max_output_tokens": 100,
        **{name: cost / 1_000_000 for name, cost in costs.items() if cost is not None},
        **more,
    }


ENTRIES = {
    "sample_spec": {"mode": "one of: chat, embedding", "input_cost_per_token": 0.0},
    "fallback_generalizations": {"rules": []},
    "gpt-5": entry("openai", 1.25, 10.0, 0.125),
    "gpt-5.3-codex": entry("openai", 1.75, 14.0, 0.175, mode="responses"),
    "azure/eu/gpt-5-2025-08-07": entry("azure", 1.375, 11.0),
    "claude-opus-4-5": entry("anthropic", 5.0, 25.0, 0.5, 6.25),
    "claude-opus-4-5-20251101": entry("anthropic", 5.0, 25.0, 0.5, 6.25),
    "claude-opus-latest": {"alias_of": "claude-opus-4-5"},
    "claude-turn-latest": {"alias_of": "claude-turn-latest"},
    "anthropic.claude-sonnet-4-20250514-v1:0": entry("bedrock_converse", 3.0, 15.0, 0.3, 3.75),
    "eu.anthropic.claude-sonnet-4-20250514-v1:0": entry("bedrock_converse", 3.3, 16.5, 0.33, 4.125),
    "bedrock/us-gov-west-1/anthropic.claude-sonnet-4": entry("bedrock", 3.6, 18.0),
    "vertex_ai/claude-sonnet-4@20250101": entry("vertex_ai-anthropic_models", 3.1, 15.5),
    "aaa/anthropic/claude-sonnet-4": entry("aaa", 0.1, 0.2),
    "deepseek/deepseek-chat": entry("deepseek", 0.28, 0.42, 0.028, 0.0),
    "zai/glm-5.1": entry("zai", 1.4, 4.4, 0.26),
    "dashscope/glm-5.1": entry("dashscope", 1.3, 4.4, 0.26),
    "aaa/llama-4": entry("aaa", 0.3, 1.3),
    "gateway/Some-Model": entry("gateway", 0.3, 1.3),
    "text-embedding-3": entry("openai", mode="embedding"),
    "github_copilot/gpt-5": {"litellm_provider": "github_copilot", "mode": "chat", "max_input_tokens": 128_000},
    "ollama/llama-4": entry("ollama", 0.0, 0.0),
    "odd": entry("odd", window="1000", input_cost_per_token=True, output_cost_per_token="2"),
    "odd-list": ["no entry"],
}


@pytest.fixture(scope="module")
def table():
    return Table(ENTRIES, "a test")


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("gpt-5", "gpt-5"),
        (" GPT-5 ", "gpt-5"),
        ("openai/gpt-5", "gpt-5"),
        ("openrouter/openai/gpt-5", "gpt-5"),
        ("gpt-5-2025-08-07", "gpt-5"),
        ("gpt-5-20250807", "gpt-5"),
        ("openai/gpt-5:thinking", "gpt-5"),
        ("azure/gpt-5-2025-08-07", "azure/eu/gpt-5-2025-08-07"),
        ("github_copilot/gpt-5", "github_copilot/gpt-5"),
        ("openai/gpt-5.3-codex", "gpt-5.3-codex"),
        ("claude-opus-4-5", "claude-opus-4-5"),
        ("claude-opus-4-5-20251101", "claude-opus-4-5-20251101"),
        ("claude-opus-4-5-20251231", "claude-opus-4-5"),
        ("claude-opus-4-5[1m]", "claude-opus-4-5"),
        ("openrouter/anthropic/claude-opus-4.5", "claude-opus-4-5"),
        ("us.anthropic.claude-opus-4-5-20251101-v1:0", "claude-opus-4-5-20251101"),
        ("claude-opus-latest", "claude-opus-4-5"),
        ("anthropic/claude-opus-latest", "claude-opus-4-5"),
        ("claude-sonnet-4-20250514", "anthropic.claude-sonnet-4-20250514-v1:0"),
        ("litellm_proxy/claude-sonnet-4-20250514", "anthropic.claude-sonnet-4-20250514-v1:0"),
        ("openrouter/anthropic/claude-sonnet-4", "anthropic.claude-sonnet-4-20250514-v1:0"),
        ("eu.anthropic.claude-sonnet-4-20250514-v1:0", "eu.anthropic.claude-sonnet-4-20250514-v1:0"),
        ("vertex_ai/claude-sonnet-4@20250514", "vertex_ai/claude-sonnet-4@20250101"),
        ("aaa/claude-sonnet-4", "aaa/anthropic/claude-sonnet-4"),
        ("deepseek/deepseek-chat", "deepseek/deepseek-chat"),
        ("deepseek-chat", "deepseek/deepseek-chat"),
        ("openrouter/deepseek/deepseek-chat", "deepseek/deepseek-chat"),
        ("glm-5.1", "zai/glm-5.1"),
        ("z-ai/glm-5.1", "zai/glm-5.1"),
        ("dashscope/glm-5.1", "dashscope/glm-5.1"),
        ("openrouter/dashscope/glm-5-1", "dashscope/glm-5.1"),
        ("aaa/llama-4", "aaa/llama-4"),
        ("ollama/llama-4", "ollama/llama-4"),
        ("gateway/some-model", "gateway/Some-Model"),
        ("GATEWAY/SOME-MODEL", "gateway/Some-Model"),
        ("odd", "odd"),
    ],
)
def test_models_are_found_by_their_names(table, name, found):
    assert table.lookup(name).name == found


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        "/",
        "a/",
        "/gpt-5/",
        "gpt",
        "gpt-5-foo",
        "gpt-5.1",
        "gpt-55",
        "nanov3",
        "doubao-pro-128k",
        "nvidia/nvidia/nemotron-3-super-v3",
        "claude-sonnet",
        "openai/gpt-5:free",  # which is not the price
        "ollama/gpt-5",  # nor is that of one's own machine
        "hosted_vllm/deepseek-ai/deepseek-chat",
        "llama-4",  # only a reseller has it
        "meta-llama/llama-4",
        "a/llama-4",
        "text-embedding-3",
        "sample_spec",
        "fallback_generalizations",
        "claude-turn-latest",
        "odd-list",
        "中文",
        "\ud83d",
    ],
)
def test_unknown_models_are_none(table, name):
    assert table.lookup(name) is None


@given(name=st.one_of(st.text(), st.lists(st.sampled_from([*ENTRIES, "/", ":", "-", "latest"])).map("".join)))
def test_no_name_raises(table, name):
    assert table.lookup(name) is None or table.lookup(name).name in ENTRIES


def test_a_price_is_per_million_tokens(table):
    assert table.lookup("claude-opus-4-5").price == Price(
        input=5.0, cached=0.5, cache_write=6.25, output=25.0, source="a test, claude-opus-4-5"
    )


@pytest.mark.parametrize(
    ("price", "ratio"),
    [
        (Price(5.0, 0.5, 6.25, 25.0), 12.5),
        (Price(0.28, 0.028, None, 0.42), 10),
        (Price(1.0, None, None, 2.0), 1),
        (Price(1.0, 2.0, None, 2.0), 1),
        (Price(1.0, 0.0, None, 2.0), 1_000),
        (Price(0.0, 0.0, None, 0.0), 1_000),
    ],
)
def test_the_price_of_uncached_input_by_that_of_cached_input(price, ratio):
    assert price.cache_price_ratio == pytest.approx(ratio)
    tariff = Tariff(price.input, price.input if price.cached is None else price.cached, price.cache_write)
    assert tariff.cache_price_ratio == price.cache_price_ratio


def test_a_configuration_gets_the_ratio_of_the_model_where_that_acts_and_nobody_set_it():
    auto = CliffConfig(threshold_tokens="auto")
    assert priced(auto, "claude-opus-4-5").cache_price_ratio == 12.5
    assert priced(auto, "deepseek/deepseek-chat").cache_price_ratio == pytest.approx(10)
    for config, model in (
        (auto, "nobody/knows"),
        (auto, ""),
        (auto, None),
        (auto.replace(cache_price_ratio=3), "claude-opus-4-5"),
        (CliffConfig(), "claude-opus-4-5"),
    ):
        assert priced(config, model) is config


def test_figures_that_the_table_lacks_are_none(table):
    reseller = table.lookup("aaa/llama-4")
    assert (reseller.price.cached, reseller.price.cache_write) == (None, None)
    copilot = table.lookup("github_copilot/gpt-5")
    assert copilot.price is None
    assert (copilot.context_window, copilot.max_output) == (128_000, None)
    odd = table.lookup("odd")
    assert (odd.price, odd.context_window, odd.max_output) == (None, None, 100)


def test_no_fee_for_cache_writes_is_none(table):
    assert table.lookup("deepseek-chat").price.cache_write is None


def test_limits_and_provider(table):
    model = table.lookup("gpt-5")
    assert (model.provider, model.context_window, model.max_output) == ("openai", 1000, 100)
    assert (model.cache_min_tokens, model.cache_step_tokens) == (1024, 128)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("us.anthropic.claude-opus-4-5-20251101-v1:0", "claude-opus-4-5"),
        ("openrouter/anthropic/claude-opus-4.5:thinking", "claude-opus-4-5"),
        ("vertex_ai/claude-sonnet-4@20250514", "claude-sonnet-4"),
        ("vertex_ai/claude-sonnet-5-5@default", "claude-sonnet-5-5"),
        ("gpt-4o-2024-08-06", "gpt-4o"),
        ("chatgpt-4o-latest", "chatgpt-4o"),
        ("deepseek/deepseek-v3", "deepseek-v3"),
        ("moonshotai.kimi-k3", "kimi-k3"),
        ("Kimi-K2.6", "kimi-k2-6"),
        ("gpt-5.5", "gpt-5-5"),
    ],
)
def test_canonical_names(name, expected):
    assert canonical(name) == expected


@pytest.mark.parametrize(
    ("name", "provider", "expected"),
    [
        ("gpt-5-mini", "openai", (1024, 128)),
        ("gpt-5.3-codex", "openai", (1024, 128)),
        ("gpt-5.5-pro", "openai", (1024, 128)),
        ("gpt-4o-2024-08-06", "azure", (1024, 128)),
        ("o3-mini", "openai", (1024, 128)),
        ("gpt-5.6", "openai", (1024, None)),
        ("gpt-6.1-sol", "openai", (1024, None)),
        ("gpt-oss-120b", "openai", (None, None)),
        ("claude-sonnet-4-20250514", "anthropic", (1024, 1)),
        ("us.anthropic.claude-opus-4-5-20251101-v1:0", "bedrock_converse", (4096, 1)),
        ("claude-haiku-4.5", "anthropic", (4096, 1)),
        ("claude-opus-4-7", "anthropic", (2048, 1)),
        ("claude-3-5-haiku-20241022", "anthropic", (2048, 1)),
        ("claude-opus-5", "anthropic", (512, 1)),
        ("claude-opus-5-5", "anthropic", (1024, 1)),
        ("deepseek-chat", "deepseek", (64, 64)),
        ("deepseek-r1-0528", "deepseek", (64, 64)),
        ("deepseek-chat", "together_ai", (None, None)),
        ("deepseek-v4-pro", "deepseek", (None, None)),
        ("gemini/gemini-2.5-pro", "gemini", (2048, None)),
        ("gemini-3.8-flash", "gemini", (4096, None)),
        ("kimi-k2.6", "moonshot", (None, None)),
        ("glm-5.1", "zai", (None, None)),
        ("", "", (None, None)),
    ],
)
def test_cache_rules(name, provider, expected):
    assert cache_rule(name, provider) == expected


# --- where the table comes from -------------------------------------------------------------------------------


@pytest.fixture
def litellm(tmp_path, monkeypatch):
    """A package of that name with a table, that does not survive an import."""
    package = tmp_path / "packages" / "litellm"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise AssertionError('litellm was imported')\n")
    file = package / prices.LITELLM_FILE
    file.write_text(json.dumps(ENTRIES), encoding="utf-8")
    monkeypatch.delitem(sys.modules, "litellm", raising=False)
    monkeypatch.syspath_prepend(package.parent)
    return file


def test_litellms_table_comes_first(litellm):
    table = load()
    assert table.source.startswith("litellm")
    assert table.lookup("aaa/llama-4").price.source.startswith("litellm")
    assert "litellm" not in sys.modules


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff\xfe", b"null"])
def test_a_broken_table_is_passed_over(litellm, caplog, content):
    litellm.write_bytes(content)
    assert load().source == prices.SHORT_SOURCE
    (record,) = caplog.records
    assert str(litellm) in record.getMessage()


def test_a_missing_table_is_passed_over(litellm, caplog):
    litellm.unlink()
    assert load().source == prices.SHORT_SOURCE
    assert not caplog.records


@pytest.mark.parametrize("spec", [lambda name: None, lambda name: (_ for _ in ()).throw(ValueError(name))])
def test_without_litellm_it_is_the_short_table(monkeypatch, spec):
    monkeypatch.setattr("importlib.util.find_spec", spec)
    assert load().source == prices.SHORT_SOURCE
    assert load(["litellm"]).lookup("gpt-5-mini") is None


def test_lookup_loads_its_table_once(litellm, monkeypatch):
    loads = []
    monkeypatch.setattr(prices, "load", lambda: loads.append(1) or Table(ENTRIES, "a test"))
    prices._shared.cache_clear()
    try:
        assert lookup("openai/gpt-5").price.input == 1.25
        assert lookup("nanov3") is None
        assert len(loads) == 1
    finally:
        prices._shared.cache_clear()


ISOLATED = """
import os, socket, sys

def refuse(*_, **__):
    raise AssertionError("the network was used")

socket.socket.connect = socket.getaddrinfo = socket.create_connection = refuse
before = dict(os.environ)
from cliff_core import prices

assert prices.lookup("openrouter/openai/gpt-5").price.input == 1.25
assert "litellm" not in sys.modules
assert dict(os.environ) == before
print("done")
"""


def test_no_network_and_no_litellm(litellm, tmp_path):
    paths = [str(litellm.parents[1]), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    run = subprocess.run(
        [sys.executable, "-c", ISOLATED], env=environment, capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "done\n", "")


# --- the short table --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def short():
    return load(["short"])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # the models of the recorded sessions
        ("deepseek/deepseek-chat", (0.28, 0.028, None, 0.42, 131_072)),
        ("deepseek/deepseek-reasoner", (0.28, 0.028, None, 0.42, 131_072)),
        ("openai/gpt-5-mini", (0.25, 0.025, None, 2, 272_000)),
        ("litellm_proxy/neulab/gpt-4o-2024-08-06", (2.5, 1.25, None, 10, 128_000)),
        ("litellm_proxy/claude-sonnet-4-20250514", (3, 0.3, 3.75, 15, 200_000)),
        ("claude-3-5-haiku-20241022", (0.8, 0.08, 1, 4, 200_000)),
        ("claude-opus-4-5-20251101", (5, 0.5, 6.25, 25, 200_000)),
        ("gpt-5.3-codex", (1.75, 0.175, None, 14, 272_000)),
        ("openrouter/openai/gpt-5.5", (5, 0.5, None, 30, 1_050_000)),
        # the paper's
        ("moonshotai/kimi-k2.6", (0.95, 0.16, None, 4, 262_144)),
        ("kimi-k2.7-code", (0.95, 0.19, None, 4, 262_144)),
        ("z-ai/glm-5.1", (1.4, 0.26, None, 4.4, 200_000)),
        ("glm-5.3-flash", (0.15, 0.03, None, 0.5, 1_048_576)),
    ],
)
def test_the_short_table(short, name, expected):
    model = short.lookup(name)
    price = model.price
    assert (price.input, price.cached, price.cache_write, price.output, model.context_window) == expected
    assert "litellm 1.110.2" in price.source


def test_the_short_table_is_complete(short):
    for name in prices.SHORT:
        model = short.lookup(name)
        assert model.name == name
        assert 0 < model.price.cached < model.price.input < model.price.output
        assert model.price.cache_write is None or model.price.cache_write == pytest.approx(1.25 * model.price.input)
        assert 0 < model.max_output <= model.context_window


@pytest.mark.parametrize("name", ["nanov3", "doubao-pro-128k", "meta-llama/llama-4-maverick", "gpt-5-foo"])
def test_what_is_not_in_the_short_table_is_none(short, name):
    assert short.lookup(name) is None

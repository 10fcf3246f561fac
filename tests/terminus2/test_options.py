"""The options of both hosts."""

from __future__ import annotations

import pytest

from cliff_core import ConfigError
from cliff_core.config import OPTIONS
from cliff_core.decision import effective_threshold
from cliff_terminus2.options import NAMES, check_names, read, window_facts


def test_every_option_of_the_core_is_one_with_our_prefix() -> None:
    assert set(NAMES) == {"summarizer", *(f"cliff_{name}" for name in OPTIONS)}


def test_arguments_stand_over_the_environment_over_the_preset() -> None:
    environ = {"CLIFF_PRESET": "paper", "CLIFF_THRESHOLD_TOKENS": "9000", "CLIFF_KEEP_TURNS": "2"}
    options = read({"cliff_keep_turns": 1, "cliff_min_gain": None}, environ)
    assert options.config.preset_name == "paper"
    assert options.config.threshold_tokens == 9_000
    assert options.config.keep_turns == 1
    assert options.source == "environment"
    assert read({}, {}).source == "default"
    assert read({"cliff_threshold_tokens": 5}, environ).source == "option"
    assert read({"cliff_preset": "default"}, environ).config.preset_name == "default"


def test_text_is_read_as_the_hosts_may_leave_it() -> None:
    options = read({"cliff_threshold_tokens": "16_000", "cliff_pin_directives": "true", "summarizer": "off"}, {})
    assert options.config.threshold_tokens == 16_000
    assert options.config.pin_directives is True
    assert options.summarizer == "off"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"cliff_treshold": 1}, "unknown option 'cliff_treshold'; did you mean cliff_threshold_tokens?"),
        (
            {"cliff_threshold_tokens": "automatic"},
            """cliff_threshold_tokens must be a whole number of at least 1, or "auto", not 'automatic'""",
        ),
        ({"cliff_keep_turns": 0}, "cliff_keep_turns must be a whole number of at least 1, not 0"),
        ({"cliff_preset": "papr"}, "cliff_preset must be one of default, paper, not 'papr'; did you mean 'paper'?"),
        ({"summarizer": "nativ"}, "summarizer must be one of cliff, native, off, not 'nativ'; did you mean 'native'?"),
        ({"summarizer": True}, "summarizer must be one of cliff, native, off, not True"),
    ],
)
def test_what_cannot_be_used_says_so(given: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read(given, {})
    assert str(raised.value) == says


def test_a_variable_that_cannot_be_used_names_itself() -> None:
    with pytest.raises(ConfigError, match=r"^CLIFF_KEEP_TURNS: keep_turns must be"):
        read({}, {"CLIFF_KEEP_TURNS": "many"})


def test_the_threshold_may_follow_the_session() -> None:
    options = read({"cliff_threshold_tokens": "auto"}, {})
    assert (options.config.auto, options.source) == (True, "option")
    assert options.of_model("openrouter/anthropic/claude-opus-4.5").config.cache_price_ratio == 12.5
    assert options.of_model("nobody/knows") == options
    assert read({}, {}).of_model("claude-opus-4-5") == read({}, {})


def test_unknown_names() -> None:
    check_names(["summarizer", "model_name"], {"summarizer", "model_name"})
    with pytest.raises(ConfigError, match="unknown option 'zzz'; the options are model_name, summarizer"):
        check_names(["zzz"], {"summarizer", "model_name"})


@pytest.mark.parametrize(
    ("window", "answer", "threshold"),
    [
        (100_000, 10_000, 32_000),  # room for 85 000
        (30_000, 4_000, 24_500),
        (16_000, 16_000, 7_200),  # an answer is at most half of the window
        (20_000, None, 19_000),
        (None, 4_000, 32_000),
        (0, 0, 32_000),
    ],
)
def test_the_window_bounds_the_threshold(window: int | None, answer: int | None, threshold: int) -> None:
    facts = window_facts(window, answer)
    limit = facts[0]["value"] if facts else None
    assert effective_threshold(read({}, {}).config, 0, limit) == threshold

import json
import warnings

import pytest

from cliff_core import CliffConfig, ConfigError

PAPER = {
    "preset": "paper",
    "threshold_tokens": 32_000,
    "keep_turns": 3,
    "result_max_chars": 500,
    "call_max_chars": 150,
    "thought_max_chars": 300,
    "min_gain": 0.0,
    "pin_directives": False,
    "directives_max_chars": 6_000,
    "notes": "all",
    "path_index_chars": 0,
    "error_chars": 0,
    "merge_block": False,
    "cache_price_ratio": None,
}
DEFAULT = {
    **PAPER,
    "preset": "default",
    "keep_turns": 2,
    "min_gain": 0.6,
    "pin_directives": True,
    "notes": "newest",
    "path_index_chars": 3_000,
    "error_chars": 250,
}


def test_presets_are_the_table_of_the_design():
    assert CliffConfig.preset("paper").as_dict() == PAPER
    assert CliffConfig.preset("default").as_dict() == DEFAULT
    assert CliffConfig() == CliffConfig.preset("default") == CliffConfig.preset()


def test_options_change_a_preset_and_nothing_else():
    config = CliffConfig.preset("paper", threshold_tokens=16_000)
    assert config.as_dict() == {**PAPER, "threshold_tokens": 16_000}
    assert config.replace(keep_turns=1).as_dict() == {
        **PAPER,
        "threshold_tokens": 16_000,
        "keep_turns": 1,
    }


@pytest.mark.parametrize("value", ["auto", " AUTO "])
def test_the_threshold_may_follow_the_session(value):
    for config in (CliffConfig(threshold_tokens=value), CliffConfig.from_env({"CLIFF_THRESHOLD_TOKENS": value})):
        assert (config.threshold_tokens, config.auto, config.first_threshold) == ("auto", True, 32_000)
        assert CliffConfig.from_env({}, json.loads(json.dumps(config.as_dict()))) == config
    config = CliffConfig(threshold_tokens="16_000")
    assert (config.threshold_tokens, config.auto, config.first_threshold) == (16_000, False, 16_000)


def test_the_price_ratio_may_be_unknown():
    assert CliffConfig.from_env({"CLIFF_CACHE_PRICE_RATIO": "12.5"}).cache_price_ratio == 12.5
    assert CliffConfig.from_env({}, {"cache_price_ratio": None}).cache_price_ratio is None


def test_it_is_frozen():
    with pytest.raises(AttributeError):
        CliffConfig().keep_turns = 2  # type: ignore[misc]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"treshold_tokens": 1}, "unknown option 'treshold_tokens'; did you mean threshold_tokens?"),
        ({"keepturns": 1}, "unknown option 'keepturns'; did you mean keep_turns?"),
        ({"threshold_tokens": 0}, 'threshold_tokens must be a whole number of at least 1, or "auto", not 0'),
        ({"threshold_tokens": 1.5}, 'threshold_tokens must be a whole number of at least 1, or "auto", not 1.5'),
        (
            {"threshold_tokens": "automatic"},
            """threshold_tokens must be a whole number of at least 1, or "auto", not 'automatic'""",
        ),
        ({"cache_price_ratio": 0.5}, "cache_price_ratio must be a number from 1 to 1000, not 0.5"),
        ({"cache_price_ratio": float("inf")}, "cache_price_ratio must be a number from 1 to 1000, not inf"),
        ({"keep_turns": True}, "keep_turns must be a whole number of at least 1, not True"),
        ({"keep_turns": "three"}, "keep_turns must be a whole number of at least 1, not 'three'"),
        ({"result_max_chars": -1}, "result_max_chars must be a whole number of at least 0, not -1"),
        ({"min_gain": 1.0}, "min_gain must be a number from 0 to 0.9, not 1.0"),
        ({"min_gain": float("nan")}, "min_gain must be a number from 0 to 0.9, not nan"),
        ({"min_gain": "a lot"}, "min_gain must be a number from 0 to 0.9, not 'a lot'"),
        ({"merge_block": "maybe"}, "merge_block must be true or false, not 'maybe'"),
        ({"notes": "newst"}, "notes must be one of all, newest, not 'newst'; did you mean 'newest'?"),
        ({"notes": ["all"]}, "notes must be one of all, newest, not ['all']"),
    ],
)
def test_a_wrong_option_is_named_with_what_to_do(options, message):
    with pytest.raises(ConfigError) as error:
        CliffConfig.preset("default", **options)
    assert str(error.value) == message


def test_a_name_like_no_other_lists_all():
    with pytest.raises(ConfigError, match="the options are preset, threshold_tokens, keep_turns"):
        CliffConfig.preset("default", zzzzzz=1)


def test_an_unknown_preset_names_the_nearest():
    with pytest.raises(ConfigError) as error:
        CliffConfig.preset("papr")
    assert str(error.value) == ("preset must be one of default, paper, not 'papr'; did you mean 'paper'?")


def test_environment_overrides_file_overrides_preset_and_arguments_override_all():
    config = CliffConfig.from_env(
        {"CLIFF_KEEP_TURNS": "5", "CLIFF_THRESHOLD_TOKENS": "24_000", "HOME": "/x"},
        {"preset": "paper", "keep_turns": 4, "call_max_chars": 90},
        threshold_tokens=8_000,
    )
    assert config.as_dict() == {
        **PAPER,
        "keep_turns": 5,
        "call_max_chars": 90,
        "threshold_tokens": 8_000,
    }


def test_environment_values_are_read_as_their_type():
    config = CliffConfig.from_env(
        {
            "CLIFF_PRESET": "paper",
            "CLIFF_MIN_GAIN": "0.5",
            "CLIFF_MERGE_BLOCK": "yes",
            "CLIFF_NOTES": " newest ",
        }
    )
    assert config.as_dict() == {
        **PAPER,
        "min_gain": 0.5,
        "merge_block": True,
        "notes": "newest",
    }


def test_an_unknown_variable_warns_and_one_of_this_project_does_not():
    with pytest.warns(UserWarning, match="ignored") as caught:
        CliffConfig.from_env({"CLIFF_KEEP_TURN": "3", "CLIFF_TRACES": "/data"})
    assert [str(warning.message) for warning in caught] == [
        "CLIFF_KEEP_TURN is no option of cliff and is ignored; did you mean CLIFF_KEEP_TURNS?"
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CliffConfig.from_env({"CLIFFS": "1", "OTHER": "2"})


def test_a_wrong_variable_and_a_wrong_file_key_are_errors():
    with pytest.raises(ConfigError) as error:
        CliffConfig.from_env({"CLIFF_KEEP_TURNS": "many"})
    assert str(error.value) == "CLIFF_KEEP_TURNS: keep_turns must be a whole number of at least 1, not 'many'"
    with pytest.raises(ConfigError, match="did you mean notes"):
        CliffConfig.from_env({}, {"note": "all"})


def test_an_empty_variable_is_as_if_it_were_not_set():
    assert CliffConfig.from_env({"CLIFF_KEEP_TURNS": "", "CLIFF_PRESET": " "}) == CliffConfig()

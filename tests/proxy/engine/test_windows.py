"""Thresholds by model."""

from cliff_core import CliffConfig
from cliff_proxy import windows
from cliff_proxy.settings import Settings


def threshold(settings, model, answer=None):
    return windows.plan(settings, model, answer).config.threshold_tokens


def test_a_threshold_is_a_share_of_the_window_and_128_000_at_most():
    settings = Settings()
    assert threshold(settings, "claude-sonnet-5-5") == 128_000
    assert threshold(settings, "claude-haiku-4-5") == 120_000
    assert threshold(settings, "a-model-that-no-table-knows") == 76_800
    assert threshold(Settings(windows={"a-*": 32_000}), "a-model-that-no-table-knows") == 19_200


def test_a_model_that_no_table_knows_is_said_once(caplog):
    caplog.set_level("WARNING", "cliff_proxy")
    windows.logger.addHandler(caplog.handler)
    try:
        for settings in (
            Settings(windows={"new-*": 32_000}),
            Settings(thresholds={"new-*": 32_000}),
            Settings(config=CliffConfig(threshold_tokens=50_000), threshold_given=True),
        ):
            windows.plan(settings, "new-model\n", None)
        windows.plan(Settings(), "claude-sonnet-5-5", None)
        assert caplog.messages == [], "what is assumed is not used"
        for answer in (None, 1_024):
            windows.plan(Settings(), "new-model\n", answer)
    finally:
        windows.logger.removeHandler(caplog.handler)
    assert set(caplog.messages) == {
        "model 'new-model\\n' is in no table: its window is taken to be 128000 tokens, its threshold is 76800; set "
        "`windows` or `thresholds` for it (litellm in the same environment brings a longer table)"
    }
    assert len({id(record) for record in caplog.records}) == 1


def test_what_a_person_chose_comes_first():
    settings = Settings(
        config=CliffConfig(threshold_tokens=50_000),
        threshold_given=True,
        thresholds={"claude-haiku-*": 30_000, "claude-haiku-4-5": 20_000},
    )
    assert threshold(settings, "claude-sonnet-5-5") == 50_000
    assert threshold(settings, "claude-haiku-5-5") == 30_000
    assert threshold(settings, "claude-haiku-4-5") == 20_000, "the exact name before a glob"


def test_a_threshold_that_follows_the_session_has_the_models_prices():
    settings = Settings(config=CliffConfig(threshold_tokens="auto"), threshold_given=True)
    plan = windows.plan(settings, "claude-opus-4-5", None)
    assert (plan.config.threshold_tokens, plan.config.cache_price_ratio, plan.room) == ("auto", 12.5, 126_000)
    assert windows.plan(settings, "a-model-that-no-table-knows", None).config == settings.config
    settings = Settings(thresholds={"claude-*": "auto"})
    assert windows.plan(settings, "claude-opus-5-5", None).config.cache_price_ratio == 25
    assert threshold(settings, "gpt-5-mini") == 128_000


def test_room_is_the_window_without_the_answer_and_five_percent():
    # 200 000 - 64 000 - 10 000
    plan = windows.plan(Settings(), "claude-haiku-4-5", None)
    assert plan.room == 126_000
    assert plan.limit is not None
    assert int(0.95 * plan.limit) == 126_000
    assert windows.plan(Settings(), "a-model-that-no-table-knows", 1_000).limit is None
    # The answer that is asked for counts where the model's own figure is not known: 32 000 - 8 192 - 1 600.
    settings = Settings(windows={"*": 32_000})
    assert windows.plan(settings, "mine", windows.answer_class(8_000)).room == 22_208
    assert windows.plan(settings, "mine", None).room == 30_400
    assert windows.plan(settings, "mine", 1 << 30).room == 14_400, "half of the window at most"


def test_small_changes_of_the_answer_change_nothing():
    assert {windows.answer_class(n) for n in range(4_097, 8_193, 100)} == {8_192}
    assert [windows.answer_class(n) for n in (None, 0, 1, 2, 3)] == [None, None, 1, 2, 4]

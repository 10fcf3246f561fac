"""What a terminal tells of a run, and what it must not tell."""

import pytest

from cliff_select import terminal
from cliff_select.agreement import patch_files
from selector.made import PROMPT, mini_terminal, openhands_terminal


def test_mini_swe_agent() -> None:
    screen = terminal.read(mini_terminal(steps=5, codes=(0, 1, 0, 2)))
    assert (screen.ended, screen.steps, screen.dollars, screen.failed) == ("done", 5, 0.05, 2)
    assert screen.closing is not None
    assert "All tests passed" in screen.closing
    assert "old pip" not in screen.text  # the installation is not the agent's


def test_mini_swe_agent_that_was_stopped() -> None:
    assert terminal.read(mini_terminal(done=False)).ended == "cut"


def test_mini_swe_agent_that_broke_off() -> None:
    text = mini_terminal(done=False) + f"\nValueError: no\n{PROMPT}"
    assert terminal.read(text).ended == "error"
    text = mini_terminal(done=False) + f"\nContextWindowExceededError: prompt is too long\n{PROMPT}"
    assert terminal.read(text).ended == "limit"


def test_mini_swe_agent_that_never_ran() -> None:
    screen = terminal.read(f"{PROMPT} mini -t 'x'\nbash: mini: command not found\n{PROMPT}")
    assert (screen.ended, screen.steps, screen.closing) == ("error", 0, "")


def test_complaints_of_litellm_are_no_errors_of_the_agent() -> None:
    noise = (
        "04:22:30 - LiteLLM:ERROR: litellm_logging.py:4483 - Error creating object\n"
        "Traceback (most recent call last):\n"
        "  File x\nImportError: Missing dependency No module named 'backoff'.\n"
    )
    clean = mini_terminal()
    noisy = clean.replace("User:\n", "User:\n" + noise)
    assert noisy != clean
    assert terminal.read(noisy) == terminal.read(clean)


def test_what_follows_complaints_without_an_end_stays() -> None:
    """Many of them take no longer than few: a pattern over all would take hours for these."""
    text = "mini-swe-agent (step 1, $0.10):\n" + "04:22:30 - LiteLLM:ERROR: x\n" * 200_000 + "THOUGHT: on.\n"
    assert terminal.read(text).text == text
    noise = "04:22:30 - LiteLLM:ERROR: x\nImportError: Missing y\n"
    assert terminal.read("mini-swe-agent (step 1, $0.10):\n" + (noise + "on.\n") * 3).text == (
        "mini-swe-agent (step 1, $0.10):\non.\non.\non.\n"
    )


def test_a_long_line_of_marks_is_no_prompt() -> None:
    """Read in one pass, too."""
    text = "root@box:" + "#" * 1_000_000
    assert terminal.read(text).text == text
    assert patch_files("+++ b/x" + " " * 1_000_000 + "y\n--- a/z \n") == {"x" + " " * 1_000_000 + "y", "z"}


@pytest.mark.parametrize(
    ("state", "waiting", "ended"),
    [("FINISHED", True, "done"), ("ERROR", True, "error"), ("RATE_LIMITED", False, "cut"), ("", False, "cut")],
)
def test_openhands(state: str, waiting: bool, ended: str) -> None:
    screen = terminal.read(openhands_terminal(steps=7, state=state, waiting=waiting))
    assert (screen.ended, screen.steps) == (ended, 7)


def test_openhands_at_its_limit() -> None:
    text = openhands_terminal(state="ERROR").replace("[Agent", "Agent reached maximum iteration. [Agent")
    assert terminal.read(text).ended == "limit"


def test_an_action_whose_line_was_wrapped_counts() -> None:
    text = openhands_terminal(steps=2).replace("/execute_action", "/exe\ncute_action")
    assert terminal.read(text).steps == 2


@pytest.mark.parametrize("command", ["bash /tests/run-tests.sh", "source /tests/run-tests.sh; tmux wait -S done"])
def test_the_tests_of_the_benchmark_are_cut_off(command: str) -> None:
    before = mini_terminal()
    after = f"{before} {command}\ntest_all PASSED\nFAILED test_all\n{PROMPT}"
    assert terminal.read(after).text == terminal.read(before).text.removesuffix(PROMPT)
    assert "PASSED" not in terminal.read(after).text


def test_what_the_agent_ran_as_a_test_stays() -> None:
    text = mini_terminal(closing="I ran /tests/run-tests.sh: passed")
    assert "I ran /tests/run-tests.sh" in terminal.read(text).text


def test_escape_codes_go() -> None:
    assert terminal.plain("\x1b[31mred\x1b[0m\r\n\x1b]0;title\x07next") == "red\nnext"

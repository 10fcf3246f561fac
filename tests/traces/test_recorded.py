"""The readers on other people's sessions (`traces`), against figures that were counted from the files by other means.

Requests and sums of usage are those of `../shared/traces/README.md`. Calls and results differ from its table where
a host does not send what it recorded, or sends more; each such place has a comment."""

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from cliff_core import tokens
from cliff_core.content import Directive, ToolCall, ToolResult, counted
from cliff_core.dialects import dialect
from cliff_core.traces import Session, TraceError, discover, read
from cliff_core.turns import group, pair


class Figures(NamedTuple):
    format: str
    sessions: int
    requests: int
    messages: int
    prompt: int
    """Sum of recorded prompt tokens, cached ones included."""
    cached: int
    calls: int
    results: int
    long_results: int
    """Results of more than 500 characters."""
    longest: int
    largest: int = 0
    """Largest recorded prompt."""


FIGURES = {
    "mini_v2/astroid-1333": Figures("mini-swe-agent", 1, 188, 377, 9_528_745, 9_471_680, 188, 187, 101, 4_981, 101_667),
    "mini_v2/reasoner-sqlfluff-1733": Figures(
        "mini-swe-agent", 1, 144, 290, 4_906_313, 4_838_528, 144, 144, 51, 10_613, 65_376
    ),
    # 57 observations less 7 format errors, which are notes, and the patch, which was never sent.
    "mini_v1/sphinx-8056-gpt5mini": Figures(
        "mini-swe-agent", 1, 57, 115, 2_086_687, 1_717_120, 50, 49, 37, 10_613, 67_604
    ),
    # 50 less 4 format errors (one reply had two commands: none was run).
    "mini_v1/sphinx-8548-resapi": Figures(
        "mini-swe-agent", 1, 50, 102, 2_167_719, 1_896_448, 46, 46, 38, 10_613, 85_406
    ),
    "swe_agent/jackson-databind-4304": Figures("swe-agent", 1, 48, 97, 0, 0, 47, 47, 9, 666_865),
    # `finish` goes back as text, not as a call: 105 less 2.
    "openhands_v0/multi-swe-bench-example": Figures(
        "openhands-v0", 3, 105, 216, 1_913_342, 0, 103, 103, 32, 20_740, 33_459
    ),
    # 253 less 6 `finish`. What OpenHands appends to each output makes 22 more results long.
    "openhands_v0/oh-utils-db4bf7df": Figures(
        "openhands-v0", 1, 253, 508, 6_943_289, 6_652_528, 247, 246, 142, 13_670, 36_619
    ),
    # As before: 17 more long results, the longest 52 612 + 162 characters.
    "openhands_v1/openagentsafety-gpt4o": Figures("openhands-v1", 45, 385, 817, 0, 0, 391, 387, 124, 52_774),
    "atif/kernelbench-gpt55-mla": Figures("atif", 1, 4, 9, 23_928, 12_800, 8, 4, 4, 8_313, 9_157),
    "nemo_gym/harbor-terminus2": Figures("nemo-gym", 3, 46, 95, 0, 0, 55, 46, 19, 10_068),
    "nemo_gym/anyterminal-hermes": Figures("nemo-gym", 5, 147, 436, 0, 0, 142, 142, 34, 44_610),
    "claude_code/entire-23-72de7ea2ff": Figures(
        "claude-code", 1, 118, 236, 13_233_079, 12_933_871, 138, 138, 102, 17_037, 155_015
    ),
    # One call was lost in the compaction: Claude Code puts a result in its place, the 127th.
    "claude_code/entire-fc-99c919b212": Figures(
        "claude-code", 1, 134, 268, 16_214_531, 15_576_859, 127, 127, 46, 47_463, 166_548
    ),
    "codex/meridian-session": Figures("codex", 1, 133, 659, 10_270_986, 10_088_448, 270, 270, 68, 17_595, 172_389),
    # 11 calls, and 12 again in the history of the request that asked for a summary: that is a session of its own.
    "raw_api/claude-trace-traffic": Figures("raw-api", 30, 64, 114, 331_241, 279_790, 23, 23, 16, 4_664, 25_106),
    "raw_api/oh-sdk-llm-logs": Figures("raw-api", 1, 6, 13, 35_428, 0, 6, 5, 1, 1_958, 6_729),
    # 454 calls less 5 in aborted replies, which pi does not send again; 448 results and one in the place of a call's
    # that was lost in a compaction. Three commands of the person (one of them long) are no results here.
    "pi/before-compaction": Figures("pi", 1, 484, 957, 56_382_684, 54_693_675, 449, 449, 190, 51_266, 184_915),
}

COMPACTIONS = {
    "openhands_v0/oh-utils-db4bf7df": ((80, 122, 162, 203, 203, 245, 285, 325, 367, 409, 449, 491), 39),
    # Before its one recorded compaction Claude Code cleared old results without a word: the prompt fell by 24 664
    # tokens at request 78.
    "claude_code/entire-23-72de7ea2ff": ((217,), 77),
    "claude_code/entire-fc-99c919b212": ((225,), 112),
    "pi/before-compaction": ((343, 596), 173),
    "swe_agent/jackson-databind-4304": ((), 0),
}


def text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content or () if isinstance(part.get("text"), str))


def calls_of(message: dict[str, Any]) -> int:
    """Calls of a message as its API has them, or as its private key says."""
    if str(message.get("type", "")).endswith("_call"):
        return 1
    calls = message.get("tool_calls") or message.get("_cliff", {}).get("calls") or ()
    content = message.get("content")
    blocks = content if isinstance(content, list) else ()
    return len(calls) + sum(block.get("type") == "tool_use" for block in blocks)


def results_of(message: dict[str, Any]) -> list[str]:
    if str(message.get("type", "")).endswith("_output"):
        return [text_of(message["output"])]
    content = message.get("content")
    if message.get("role") == "tool" or message.get("_cliff", {}).get("role") == "tool":
        return [text_of(content)]
    blocks = content if isinstance(content, list) else ()
    return [text_of(block.get("content")) for block in blocks if block.get("type") == "tool_result"]


def name_of(path: Path, root: Path) -> str:
    return "/".join(path.relative_to(root).parts[:2])


@pytest.mark.parametrize("name", FIGURES)
def test_figures(name: str, traces: Path) -> None:
    (path,) = discover([traces / name])
    sessions = list(read(path))
    usages = [request.usage for s in sessions for request in s.requests if request.usage is not None]
    results = [text for s in sessions for message in s.messages for text in results_of(message)]
    assert {session.format for session in sessions} == {FIGURES[name].format}
    assert (
        Figures(
            FIGURES[name].format,
            len(sessions),
            sum(len(session.requests) for session in sessions),
            sum(len(session.messages) for session in sessions),
            sum(usage.input_tokens for usage in usages),
            sum(usage.cached_tokens or 0 for usage in usages),
            sum(calls_of(message) for session in sessions for message in session.messages),
            len(results),
            sum(len(text) > 500 for text in results),
            max(map(len, results)),
            max((usage.input_tokens for usage in usages), default=0),
        )
        == FIGURES[name]
    )
    expected = COMPACTIONS.get(name, ((), None))
    assert {(session.compactions, session.comparable) for session in sessions} == {expected}


def test_every_recorded_session_is_found(traces: Path) -> None:
    skipped: list[TraceError] = []
    found = discover([traces], skipped)
    assert sorted(name_of(path, traces) for path in found) == sorted(FIGURES)
    assert [str(error) for error in skipped] == [
        f"{traces / 'README.md'}: expected a recorded session; line 1, column 1 (byte 0): no JSON (Expecting value)"
    ]


def test_shape(session_path: Path) -> None:
    """Requests lie in order, each before a reply (if it got one), and no call is open before the last step."""
    for session in read(session_path):
        known = dialect(session.dialect)
        messages = [known.parse(message) for message in session.messages]
        places = [request.at for request in session.requests]
        assert places == sorted(places)
        answered = [at for at in places if at < len(messages) and messages[at].role == "model"]
        # Requests without a reply of their own: aborted ones (pi) and the one at SWE-agent's cost limit; the same
        # request repeated (raw API).
        assert session.format in ("pi", "swe-agent", "raw-api") or answered == places
        head, turns = group(messages)
        assert head in (1, 2, 3)
        if session.format != "raw-api":
            assert len(turns) == len(set(answered))
        paired, legal = pair(turns)
        assert legal >= set(range(len(turns)))
        if session.format != "nemo-gym":  # Terminus-2 replies without a command are answered, too
            assert not any(turn.orphans for turn in paired)


def test_dialects_agree_on_calls_and_results(session_path: Path) -> None:
    for session in read(session_path):
        known = dialect(session.dialect)
        for message in session.messages:
            contents = known.parse(message).contents
            assert sum(isinstance(content, ToolCall) for content in contents) == calls_of(message)
            texts = [content.text for content in contents if isinstance(content, ToolResult)]
            expected = results_of(message)
            # What a person said when they rejected a call is a directive, and no part of the result any more.
            said = [text[: len(found)] for found, text in zip(texts, expected, strict=True)]
            assert texts == (said if any(isinstance(content, Directive) for content in contents) else expected)


# Where the tokenizer is (nearly) the model's own, what was read must add up to what the provider counted. The
# offset is that of the first request: format, tools, system prompt.
SAME_TOKENIZER = {
    "mini_v1/sphinx-8056-gpt5mini": 0.002,
    "mini_v1/sphinx-8548-resapi": 0.002,
    "codex/meridian-session": 0.01,
    "openhands_v0/multi-swe-bench-example": 0.03,  # Llama 4
    "atif/kernelbench-gpt55-mla": 0.04,  # the JSON around the commands is not in the file
}


@pytest.mark.parametrize("name", SAME_TOKENIZER)
def test_messages_add_up_to_the_recorded_prompts(name: str, traces: Path) -> None:
    if not tokens.vocabulary().exact:
        pytest.skip("tokens are only estimated: no o200k_base vocabulary is installed")
    (path,) = discover([traces / name])
    for session in read(path):
        sizes = [size_of(session, message) for message in session.messages]
        reported = [(request.at, request.usage.input_tokens) for request in session.requests if request.usage]
        offset = reported[0][1] - sum(sizes[: reported[0][0]])
        estimated = sum(sum(sizes[:at]) + offset for at, _ in reported)
        assert estimated == pytest.approx(sum(prompt for _, prompt in reported), rel=SAME_TOKENIZER[name])


def size_of(session: Session, message: dict[str, Any]) -> int:
    texts, known = counted(dialect(session.dialect).parse(message).contents)
    return sum(map(tokens.count, texts)) + known + (4 if session.dialect.startswith("chat") else 3)

"""Anthropic messages: what each becomes, when two are the same, where the block goes."""

import json
from itertools import pairwise

import pytest

from cliff_core.content import (
    Directive,
    Message,
    Note,
    Opaque,
    Thought,
    ToolCall,
    ToolResult,
    counted,
)
from cliff_core.dialects import dialect
from cliff_core.tokens import document_tokens, encrypted_tokens, image_tokens

ANTHROPIC = dialect("anthropic")
PIXEL = "iVBORw0KGgo="
IMAGE = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": PIXEL},
}
TEXT_DOCUMENT = {
    "type": "document",
    "title": "Rules",
    "source": {"type": "text", "media_type": "text/plain", "data": "No tabs."},
}
MARKER = {"type": "ephemeral"}


def parse(message):
    parsed = ANTHROPIC.parse(message)
    assert parsed.tokens == 0
    return parsed


def assistant(*blocks):
    return parse({"role": "assistant", "content": list(blocks)})


def user(*blocks):
    return parse({"role": "user", "content": list(blocks)})


def model(*contents):
    return Message("model", contents)


# --- the model ---------------------------------------------------------------------------------


def test_text():
    assert parse({"role": "assistant", "content": " Done.\n"}) == model(Thought(" Done.\n"))
    assert assistant({"type": "text", "text": " Done.\n"}) == model(Thought(" Done.\n"))


def test_parallel_calls_with_thinking():
    assert assistant(
        {"type": "thinking", "thinking": "Hm.", "signature": "c2ln" * 100},
        {"type": "text", "text": "Both."},
        {"type": "tool_use", "id": "a", "name": "Read", "input": {"file_path": "/a"}},
        {"type": "tool_use", "id": "b", "name": "Bash", "input": {"command": "ls"}},
    ) == model(
        Thought("Hm."),
        Thought("Both."),
        ToolCall("Read", {"file_path": "/a"}, "a"),
        ToolCall("Bash", {"command": "ls"}, "b"),
    )


def test_thinking_that_is_not_shown_is_counted_by_its_signature():
    hidden = {"type": "thinking", "thinking": "", "signature": "x" * 800}
    redacted = {"type": "redacted_thinking", "data": "y" * 600}
    assert assistant(hidden, redacted) == model(Thought("", encrypted_tokens(800)), Thought("", encrypted_tokens(600)))
    assert assistant({"type": "thinking", "thinking": ""}) == model()


def test_server_tools_are_hosted_and_have_their_results():
    assert assistant(
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "cliff"}},
        {
            "type": "web_search_tool_result",
            "tool_use_id": "s",
            "content": [
                {
                    "type": "web_search_result",
                    "title": "Cliffs",
                    "url": "https://example.org/a",
                    "encrypted_content": "x" * 400,
                },
                {"type": "web_search_result", "title": "More", "url": "https://example.org/b"},
            ],
        },
        {"type": "text", "text": "Found."},
    ) == model(
        ToolCall("web_search", {"query": "cliff"}, "s", hosted=True),
        ToolResult(
            "Cliffs\nhttps://example.org/a\nMore\nhttps://example.org/b",
            "s",
            False,
            (Opaque("web_search_result", encrypted_tokens(400)),),
        ),
        Thought("Found."),
    )


@pytest.mark.parametrize(
    ("kind", "content", "expected"),
    [
        (
            "web_search_tool_result",
            {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"},
            ToolResult("max_uses_exceeded", "s", error=True),
        ),
        (
            "web_fetch_tool_result",
            {"type": "web_fetch_result", "url": "https://a.org", "content": TEXT_DOCUMENT},
            ToolResult("https://a.org", "s", False, (Opaque("document", text="Rules\nNo tabs."),)),
        ),
        (
            "bash_code_execution_tool_result",
            {
                "type": "bash_code_execution_result",
                "stdout": "out\n",
                "stderr": "err",
                "return_code": 2,
                "content": [],
            },
            ToolResult("out\n\nerr", "s", error=True),
        ),
        (
            "code_execution_tool_result",
            {"type": "code_execution_result", "stdout": "4\n", "stderr": "", "return_code": 0},
            ToolResult("4\n", "s"),
        ),
        (
            "code_execution_tool_result",
            {
                "type": "encrypted_code_execution_result",
                "encrypted_stdout": "x" * 200,
                "stderr": "",
                "return_code": 0,
            },
            ToolResult(
                "",
                "s",
                False,
                (Opaque("encrypted_code_execution_result", encrypted_tokens(200)),),
            ),
        ),
        (
            "text_editor_code_execution_tool_result",
            {"type": "text_editor_code_execution_view_result", "content": "a = 1\n"},
            ToolResult("a = 1\n", "s"),
        ),
        (
            "text_editor_code_execution_tool_result",
            {"type": "text_editor_code_execution_str_replace_result", "lines": ["-a", "+b"]},
            ToolResult("-a\n+b", "s"),
        ),
        (
            "tool_search_tool_result",
            {
                "type": "tool_search_tool_search_result",
                "tool_references": [{"type": "tool_reference", "tool_name": "WebFetch"}],
            },
            # 2 + (4+4) + 16 + (9+4) + 10 = 49 characters
            ToolResult("", "s", False, (Opaque("tool_reference", 13, pin=True),)),
        ),
        (
            "advisor_tool_result",
            {"type": "advisor_result", "text": "Stop."},
            ToolResult("Stop.", "s"),
        ),
        (
            "advisor_tool_result",
            {"type": "advisor_redacted_result", "encrypted_content": "x" * 100},
            ToolResult("", "s", False, (Opaque("advisor_redacted_result", encrypted_tokens(100)),)),
        ),
    ],
)
def test_results_of_server_tools(kind, content, expected):
    block = {"type": kind, "tool_use_id": "s", "content": content}
    assert assistant(block) == model(expected)


def test_mcp_tools():
    assert assistant(
        {"type": "mcp_tool_use", "id": "m", "name": "find", "server_name": "db", "input": {}},
        {
            "type": "mcp_tool_result",
            "tool_use_id": "m",
            "is_error": True,
            "content": [{"type": "text", "text": "no such table"}],
        },
    ) == model(ToolCall("find", {}, "m", hosted=True), ToolResult("no such table", "m", error=True))


def test_compaction_is_pinned():
    assert assistant({"type": "compaction", "content": "We built it."}) == model(
        Opaque("compaction", text="We built it.", pin=True)
    )
    assert assistant({"type": "compaction", "content": None, "encrypted_content": "x" * 400}) == model(
        Opaque("compaction", encrypted_tokens(400), pin=True)
    )


def test_failed_compaction_is_none():
    assert assistant({"type": "compaction", "content": None}) == model(Opaque("compaction_failed"))


def test_fallback_is_not_in_the_prompt():
    assert assistant({"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}}) == model(Opaque("fallback"))


# --- results -----------------------------------------------------------------------------------


def test_results_only_is_a_tool_message():
    assert user(
        {"type": "tool_result", "tool_use_id": "a", "content": " 1\n"},
        {
            "type": "tool_result",
            "tool_use_id": "b",
            "content": [{"type": "text", "text": "2"}],
            "is_error": True,
        },
    ) == Message("tool", (ToolResult(" 1\n", "a"), ToolResult("2", "b", error=True)))


def test_results_and_words_are_a_user_message():
    assert user(
        {"type": "tool_result", "tool_use_id": "a", "content": "1"},
        {"type": "text", "text": "<system-reminder>Go on.</system-reminder>"},
        {"type": "text", "text": "Now stop."},
    ) == Message(
        "user",
        (
            ToolResult("1", "a"),
            Note("<system-reminder>Go on.</system-reminder>", "system-reminder:Go on."),
            Directive("Now stop."),
        ),
    )


def test_error_flag_wins_over_the_text():
    block = {"type": "tool_result", "tool_use_id": "a", "content": "Exit code 1\nno"}
    assert user(block) == Message("tool", (ToolResult("Exit code 1\nno", "a", error=True),))
    assert user({**block, "is_error": False}) == Message("tool", (ToolResult("Exit code 1\nno", "a"),))


def test_images_and_documents_in_results_are_not_pinned():
    assert user(
        {
            "type": "tool_result",
            "tool_use_id": "a",
            "content": [
                {"type": "text", "text": "Shown:"},
                IMAGE,
                TEXT_DOCUMENT,
                {"type": "document", "source": {"type": "base64", "data": "JVBERi0="}},
                {
                    "type": "search_result",
                    "title": "Doc",
                    "source": "https://a.org",
                    "content": [{"type": "text", "text": "It is so."}],
                },
                {"type": "text", "text": "End."},
            ],
        }
    ) == Message(
        "tool",
        (
            ToolResult(
                "Shown:\nDoc\nhttps://a.org\nIt is so.\nEnd.",
                "a",
                False,
                (
                    Opaque("image", image_tokens(PIXEL)),
                    Opaque("document", text="Rules\nNo tabs."),
                    Opaque("document", document_tokens("JVBERi0=")),
                ),
            ),
        ),
    )


def test_tool_references_are_pinned():
    references = [{"type": "tool_reference", "tool_name": "WebFetch"}]
    assert user({"type": "tool_result", "tool_use_id": "a", "content": references}) == Message(
        "tool", (ToolResult("", "a", False, (Opaque("tool_reference", 13, pin=True),)),)
    )


def test_result_without_content():
    assert user({"type": "tool_result", "tool_use_id": "a"}) == Message("tool", (ToolResult("", "a"),))


def test_reason_of_a_rejection_is_a_persons_word():
    refusal = (
        "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it"
        " was a file edit, the new_string was NOT written to the file). To tell you how to proceed,"
        " the user said:\n"
    )
    note = "Note: The user's next message may contain a correction or preference. Pay attention."
    block = {
        "type": "tool_result",
        "tool_use_id": "a",
        "is_error": True,
        "content": f"{refusal}Use tabs.\n\n{note}",
    }
    assert user(block) == Message(
        "tool",
        (
            ToolResult(refusal, "a", error=True),
            Directive("Use tabs."),
            Note(note, "user:Note: The user's next message may contain a correction or pr"),
        ),
    )


# --- people and hosts --------------------------------------------------------------------------


def test_what_a_person_attached_is_pinned():
    assert user(
        IMAGE,
        {"type": "image", "source": {"type": "url", "url": "https://a.org/b.png"}},
        TEXT_DOCUMENT,
        {
            "type": "document",
            "source": {"type": "content", "content": [{"type": "text", "text": "Page."}]},
        },
        {"type": "document", "source": {"type": "file", "file_id": "f"}},
        {"type": "search_result", "content": [{"type": "text", "text": "So."}]},
        {"type": "text", "text": "Read these."},
    ) == Message(
        "user",
        (
            Opaque("image", image_tokens(PIXEL), pin=True),
            Opaque("image", image_tokens(""), pin=True),
            Opaque("document", text="Rules\nNo tabs.", pin=True),
            Opaque("document", text="Page.", pin=True),
            Opaque("document", document_tokens(""), pin=True),
            Opaque("search_result", text="So.", pin=True),
            Directive("Read these."),
        ),
    )


def test_uploaded_file_is_pinned():
    (opaque,) = user({"type": "container_upload", "file_id": "f"}).contents
    assert (opaque.kind, opaque.pin) == ("container_upload", True)


def test_system_message_within_the_conversation_is_a_note():
    expected = Message("system", (Note("<total_tokens>9 tokens left</total_tokens>", "total_tokens"),))
    text = "<total_tokens>9 tokens left</total_tokens>"
    assert parse({"role": "system", "content": text}) == expected
    assert parse({"role": "system", "content": [{"type": "text", "text": text}]}) == expected


def test_change_of_tools_is_pinned():
    change = {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "WebFetch"}}
    only = parse({"role": "system", "content": [change]})
    assert only.role == "system"
    assert [(o.kind, o.pin) for o in only.contents] == [("system", True)]
    both = parse({"role": "system", "content": [{"type": "text", "text": "Loaded."}, change]})
    assert both.contents == (Note("Loaded.", "system:Loaded."), *only.contents)


def test_system_message_for_one_turn_stays_out_of_the_block():
    message = {"role": "system", "content": "Be quick.", "clear_at": "next_user_message"}
    assert parse(message) == Message("system", (Opaque("system", text="Be quick."),))
    effort = {"role": "system", "output_config": {"effort": "low"}}
    assert parse(effort) == Message("system", (Opaque("system"),))


# --- what is not understood --------------------------------------------------------------------


def test_unknown_block_and_role():
    (opaque,) = assistant({"type": "hologram", "data": "QUJD" * 25_000}).contents
    assert (opaque.kind, opaque.pin, opaque.text) == ("hologram", False, "")
    assert encrypted_tokens(100_000) < opaque.tokens < encrypted_tokens(100_000) + 20
    other = parse({"role": "narrator", "content": "Once."})
    assert (other.role, [o.kind for o in other.contents]) == ("user", ["narrator"])


@pytest.mark.parametrize("content", [7, [[{"text": 1}], 3, None], {"type": "text"}, [{}], True])
@pytest.mark.parametrize("role", ["system", "user", "assistant"])
def test_content_of_a_wrong_type(role, content):
    texts, tokens = counted(parse({"role": role, "content": content}).contents)
    assert not any(texts)
    assert tokens > 0


def test_missing_content():
    assert parse({"role": "assistant"}) == model()
    assert parse({"role": "user", "content": None}) == Message("user", ())


def test_blocks_of_a_wrong_type():
    assert assistant(
        {"type": "tool_use", "id": 3, "name": None, "input": [1]},
        {"type": "thinking", "thinking": 4, "signature": 5},
        {"type": "server_tool_use"},
    ) == model(ToolCall("", "[1]"), ToolCall("", "", hosted=True))


# --- equality ----------------------------------------------------------------------------------


def test_markers_and_lone_texts_are_no_difference():
    marked = {
        "role": "user",
        "content": [
            {
                "type": "tool_result",
                "tool_use_id": "a",
                "content": [{"type": "text", "text": "1", "cache_control": MARKER}],
            },
            {"type": "text", "text": "Go.", "cache_control": {"type": "ephemeral", "ttl": "1h"}},
        ],
    }
    plain = {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "a", "content": "1"},
            {"type": "text", "text": "Go."},
        ],
    }
    before = json.dumps(marked)
    assert ANTHROPIC.canonical(marked) == plain
    assert ANTHROPIC.canonical(plain) is plain
    assert json.dumps(marked) == before


def test_system_message_that_became_a_string():
    # Claude Code sends its environment so at the first request, and as a string at later ones.
    listed = {
        "role": "system",
        "content": [{"type": "text", "text": "cwd: /a", "cache_control": MARKER}],
    }
    assert ANTHROPIC.canonical(listed) == {"role": "system", "content": "cwd: /a"}


def test_marker_within_a_document_and_in_arguments():
    page = {"type": "text", "text": "Page.", "cache_control": MARKER}
    document = {"type": "document", "source": {"type": "content", "content": [page, page]}}
    (block,) = ANTHROPIC.canonical({"role": "user", "content": [document]})["content"]
    assert block["source"]["content"] == [{"type": "text", "text": "Page."}] * 2
    call = {"type": "tool_use", "id": "a", "name": "Http", "input": {"cache_control": "no-store"}}
    message = {"role": "assistant", "content": [call]}
    assert ANTHROPIC.canonical(message) is message


def test_other_content_differs():
    plain = ANTHROPIC.canonical({"role": "user", "content": "Hi."})
    two = [{"type": "text", "text": "Hi."}, {"type": "text", "text": "Hi."}]
    for content in (two, [IMAGE], [], None, "Hi"):
        assert ANTHROPIC.canonical({"role": "user", "content": content}) != plain
    assert ANTHROPIC.canonical({"role": "assistant", "content": "Hi."}) != plain


# --- the block ---------------------------------------------------------------------------------


def test_place_of_the_block():
    system, user_, greeting = Message("system", ()), Message("user", ()), Message("model", ())
    assert ANTHROPIC.block_index([user_]) == 1
    # A system message must follow a user message and precede an assistant message.
    assert ANTHROPIC.block_index([user_, system]) == 1
    assert ANTHROPIC.block_index([user_, system, system]) == 1
    assert ANTHROPIC.block_index([greeting, user_]) == 2
    assert ANTHROPIC.block_index([user_, user_, system]) == 2
    assert ANTHROPIC.block_index([system, system]) == 2
    assert ANTHROPIC.block_index([system, greeting]) == 1
    assert ANTHROPIC.block_index([]) == 0


def test_block_message():
    assert ANTHROPIC.block_message("b") == {"role": "user", "content": "b"}


def test_merged_block():
    assert ANTHROPIC.merge_block({"role": "user", "content": "Task."}, "b") == {
        "role": "user",
        "content": "Task.\n\nb",
    }
    message = {"role": "user", "content": [{**IMAGE, "cache_control": MARKER}]}
    assert ANTHROPIC.merge_block(message, "b") == {
        "role": "user",
        "content": [{**IMAGE, "cache_control": MARKER}, {"type": "text", "text": "b"}],
    }
    assert len(message["content"]) == 1
    assert ANTHROPIC.merge_block({"role": "user"}, "b") is None
    assert ANTHROPIC.merge_block({"role": "system", "content": "Task."}, "b") is None


# --- recorded sessions -------------------------------------------------------------------------


def test_recorded_requests(traces):
    chains = {}
    for line in (traces / "raw_api/claude-trace-traffic/test-traffic.jsonl").open():
        messages = json.loads(line)["request"]["body"]["messages"]
        parsed = [parse(message) for message in messages]
        assert not any(isinstance(c, Opaque) for m in parsed for c in m.contents)
        for message, its in zip(messages, parsed, strict=True):
            blocks = message["content"] if isinstance(message["content"], list) else []
            results = [b for b in blocks if b["type"] == "tool_result"]
            assert [(c.call_id, c.text) for c in its.contents if isinstance(c, ToolResult)] == [
                (b["tool_use_id"], b["content"]) for b in results
            ]
            assert (its.role == "tool") == (bool(results) and len(results) == len(blocks))
        canonical = [ANTHROPIC.canonical(message) for message in messages]
        chains.setdefault(json.dumps(canonical[0]), []).append(canonical)
    # The markers move at every request; without them a session only grows.
    longest = max(chains.values(), key=lambda chain: (len(chain[-1]) > 5, len(chain)))
    assert len(longest) == 13
    for before, after in pairwise(longest):
        assert after[: len(before)] == before


def test_recorded_claude_code_sessions(traces):
    kinds, words = set(), []
    for path in sorted(traces.glob("claude_code/*/full.jsonl")):
        for line in path.open(encoding="utf-8"):
            event = json.loads(line)
            if event.get("type") not in ("user", "assistant"):
                continue
            parsed = parse(event["message"])
            for content in parsed.contents:
                if isinstance(content, Opaque):
                    kinds.add((content.kind, content.pin))
                elif isinstance(content, ToolResult):
                    kinds.update((o.kind, o.pin) for o in content.opaque)
                elif isinstance(content, Directive) and parsed.role == "tool":
                    words.append(content.text)
    assert kinds <= {("image", False), ("image", True)}
    # One edit was rejected with a reason; this has no place outside the session itself.
    assert len(words) == 1

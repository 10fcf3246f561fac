"""Every format on a small file of our own: the whole session, message by message.

What each sample is there to show is said in the comments beside it."""

from pathlib import Path
from typing import Any

import pytest

from cliff_core import traces
from cliff_core.traces import Request, Session, Usage

SAMPLES = Path(__file__).parent / "samples"


def expect(sample: str, **fields: Any) -> Session:
    return Session(path=SAMPLES / sample, **fields)


EXPECTED = {
    "atif_native.json": [
        expect(
            "atif_native.json",
            format="atif",
            dialect="chat-text",
            messages=[
                {"role": "system", "content": "S"},
                {
                    "role": "user",
                    "content": [{"type": "text", "text": "TASK"}, {"type": "image_url", "image_url": {"url": "i.png"}}],
                },
                {
                    "role": "assistant",
                    "content": "",
                    "reasoning_content": "hm",
                    "tool_calls": [
                        {
                            "id": "a",
                            "type": "function",
                            "function": {"name": "Read", "arguments": '{"file_path": "é"}'},
                        },
                        {
                            "id": "b",
                            "type": "function",
                            "function": {"name": "Read", "arguments": '{"file_path": "y"}'},
                        },
                    ],
                },
                {"role": "tool", "tool_call_id": "b", "content": "Y"},
                {"role": "tool", "tool_call_id": "a", "content": "X"},
                {
                    "role": "assistant",
                    "content": "",
                    "_cliff": {
                        "thought": "",
                        "calls": [
                            {"name": "Run", "arguments": {"n": 1}, "id": "a", "answered": False},
                            {"name": "Run", "arguments": {"n": 2}, "id": "b", "answered": True},
                        ],
                    },
                },
                {"role": "user", "content": "both", "_cliff": {"role": "tool", "call_id": "b"}},
                {"role": "assistant", "content": "dispatch"},
            ],
            requests=[
                Request(2, Usage(10, 4, None, 1)),
                Request(5),
            ],
            name="s",
            model="c",
            tools=[{"type": "function", "function": {"name": "Read"}}],
            extra={"agent": "claude-code", "version": "ATIF-v1.6"},
        ),
        expect(
            "atif_native.json",
            format="atif",
            dialect="chat",
            messages=[
                {"role": "user", "content": "SUB"},
                {"role": "assistant", "content": "ok"},
            ],
            requests=[
                Request(1),
            ],
            name="sub",
            extra={"agent": "x", "version": "ATIF-v1.7"},
        ),
    ],
    "atif_terminus.json": [
        expect(
            "atif_terminus.json",
            format="atif",
            dialect="chat-text",
            messages=[
                {"role": "user", "content": "TASK"},
                {
                    "role": "assistant",
                    "content": "Analysis: empty.\nPlan: write.",
                    "_cliff": {
                        "thought": ["Analysis: empty.\nPlan: write."],
                        "calls": [
                            {"name": "bash_command", "arguments": "ls\n", "id": "call_1", "answered": False},
                            {"name": "bash_command", "arguments": "pwd\n", "id": "call_2", "answered": True},
                        ],
                    },
                },
                {
                    "role": "user",
                    "content": "New Terminal Output:\na.py",
                    "_cliff": {"role": "tool", "call_id": "call_2"},
                },
                {
                    "role": "assistant",
                    "content": '{"analysis": "a\\nb", "plan": "p", "commands": [{"keystrokes": "echo \\"x\\"\\n"}]}',
                    "_cliff": {
                        "thought": ["a\nb", "p"],
                        "calls": [
                            {"name": "bash_command", "arguments": 'echo "x"\n', "id": "call_1", "answered": True}
                        ],
                    },
                },
                {"role": "user", "content": "New Terminal Output:\nx", "_cliff": {"role": "tool", "call_id": "call_1"}},
                {"role": "assistant", "content": "no JSON"},
                {"role": "user", "content": "Previous response had parsing errors:\nERROR", "_cliff": {"role": "tool"}},
            ],
            requests=[
                Request(1, Usage(100, 0, None, 20), "m-1"),
                Request(3, Usage(150, 90, None, 20)),
                Request(5, Usage(80, 0, None, 2)),
            ],
            name="s",
            model="openrouter/m",
            compactions=(5,),
            comparable=2,
            extra={"agent": "terminus-2", "version": "ATIF-v1.7"},
        ),
    ],
    "claude_code.jsonl": [
        expect(
            "claude_code.jsonl",
            format="claude-code",
            dialect="anthropic",
            messages=[
                {"role": "user", "content": "Do it"},
                {"role": "assistant", "content": [{"type": "text", "text": "taken back"}]},
                {"role": "user", "content": "No, that"},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "hm", "signature": "sig"},
                        {"type": "tool_use", "id": "t1", "name": "Read", "input": {"file_path": "a"}},
                        {"type": "tool_use", "id": "t2", "name": "Read", "input": {"file_path": "b"}},
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {"type": "tool_result", "tool_use_id": "t1", "content": "A"},
                        {"type": "tool_result", "tool_use_id": "t2", "content": "B", "is_error": True},
                        {"type": "text", "text": "and hurry"},
                        {"type": "text", "text": "Base directory for this skill: x"},
                    ],
                },
                {
                    "role": "assistant",
                    "content": [{"type": "tool_use", "id": "t3", "name": "Bash", "input": {"command": "ls"}}],
                },
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "tool_result",
                            "tool_use_id": "t3",
                            "content": "[Tool result missing due to internal error]",
                            "is_error": True,
                        }
                    ],
                },
                {"role": "assistant", "content": [{"type": "text", "text": "Done."}]},
            ],
            requests=[
                Request(1, Usage(10, 0, 0, 1), "claude"),
                Request(3, Usage(125, 100, 20, 7), "claude"),
                Request(5, Usage(160, 150, 9, 3), "claude"),
                Request(7, Usage(41, 40, 0, 3), "claude"),
            ],
            name="S1",
            model="claude",
            compactions=(7,),
            comparable=3,
            extra={"version": "2.1.0", "sidechain": False, "abandoned": 1},
        ),
        expect(
            "claude_code.jsonl",
            format="claude-code",
            dialect="anthropic",
            messages=[
                {"role": "user", "content": "Search"},
                {"role": "assistant", "content": [{"type": "text", "text": "Found"}]},
            ],
            requests=[
                Request(1, Usage(3, None, None, 1), "haiku"),
            ],
            name="S1/g1",
            model="haiku",
            extra={"version": None, "sidechain": True, "abandoned": 0},
        ),
    ],
    "claude_trace.jsonl": [
        expect(
            "claude_trace.jsonl",
            format="raw-api",
            dialect="anthropic",
            messages=[
                {"role": "user", "content": "T"},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "hm", "signature": "sig"},
                        {"type": "tool_use", "id": "t", "name": "Read", "input": {"p": "x"}},
                    ],
                },
            ],
            requests=[
                Request(1, Usage(18, 11, 5, 8), "claude-1"),
            ],
            name="1",
            model="claude-1",
            system=[{"type": "text", "text": "SYS"}],
        ),
        expect(
            "claude_trace.jsonl",
            format="raw-api",
            dialect="chat",
            messages=[
                {"role": "user", "content": "T"},
                {
                    "content": "Hey",
                    "role": "assistant",
                    "tool_calls": [{"id": "k", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
                },
            ],
            requests=[
                Request(1, Usage(6, None, None, 2), "gpt-1"),
            ],
            name="2",
            model="gpt-1",
        ),
        expect(
            "claude_trace.jsonl",
            format="raw-api",
            dialect="responses",
            messages=[
                {"role": "user", "content": "T"},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hey"}]},
            ],
            requests=[
                Request(1, Usage(5, 0, None, 1), "o-1"),
            ],
            name="3",
            model="o-1",
        ),
    ],
    "codex.jsonl": [
        expect(
            "codex.jsonl",
            format="codex",
            dialect="responses",
            messages=[
                {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "rules"}]},
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Do it"}]},
                {
                    "type": "reasoning",
                    "summary": [],
                    "content": None,
                    "encrypted_content": "xxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
                    "_reasoning_tokens": 6,
                },
                {
                    "type": "reasoning",
                    "summary": [],
                    "content": None,
                    "encrypted_content": "xxxxxxxxx",
                    "_reasoning_tokens": 2,
                },
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Look"}]},
                {"type": "function_call", "name": "exec_command", "arguments": '{"cmd":"ls"}', "call_id": "c1"},
                {"type": "custom_tool_call", "name": "apply_patch", "input": "*** Begin Patch", "call_id": "c2"},
                {"type": "custom_tool_call_output", "call_id": "c2", "output": "aborted"},
                {"type": "function_call_output", "call_id": "c1", "output": "a.py"},
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Go on, please"}]},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done"}]},
            ],
            requests=[
                Request(2, Usage(80, 64, None, 20, 8), "gpt-5.3-codex"),
                Request(10, Usage(60, 32, None, 2, 0), "gpt-5.3-codex"),
            ],
            name="C1",
            model="gpt-5.3-codex",
            system="SYS",
            compactions=(9,),
            comparable=1,
            extra={"version": "0.116.0", "rolled_back": 1},
        ),
    ],
    "mini_v1.traj.json": [
        expect(
            "mini_v1.traj.json",
            format="mini-swe-agent",
            dialect="chat-text",
            messages=[
                {"role": "system", "content": "You have a shell."},
                {"role": "user", "content": "Fix it."},
                {
                    "role": "assistant",
                    "content": "THOUGHT: look\n\n```bash\nls -la\n```",
                    "_cliff": {"thought": ["THOUGHT: look"], "calls": [{"name": "bash", "arguments": "ls -la"}]},
                },
                {
                    "role": "user",
                    "content": "<returncode>0</returncode>\n<output>\na.py\n</output>",
                    "_cliff": {"role": "tool"},
                },
                {"role": "assistant", "content": "I only talk."},
                {
                    "role": "user",
                    "content": "Please always provide EXACTLY ONE action, found 0 actions.",
                    "_cliff": {"role": "note", "kind": "format_error"},
                },
                {
                    "role": "assistant",
                    "content": "```bash\nrm a.py\n```\nThat is all.",
                    "_cliff": {"thought": ["That is all."], "calls": [{"name": "bash", "arguments": "rm a.py"}]},
                },
                {"role": "user", "content": "Interrupted by user: keep a.py"},
                {
                    "role": "assistant",
                    "content": "\n```bash\npwd\n```",
                    "_cliff": {"thought": [], "calls": [{"name": "bash", "arguments": "pwd"}]},
                },
                {
                    "role": "user",
                    "content": "<returncode>0</returncode>\n<output>\n/w\n</output>",
                    "_cliff": {"role": "tool"},
                },
                {
                    "role": "assistant",
                    "content": "Done.\n```bash\necho COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\n```",
                    "_cliff": {
                        "thought": ["Done."],
                        "calls": [{"name": "bash", "arguments": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"}],
                    },
                },
            ],
            requests=[
                Request(2, Usage(100, 0, None, 5), "m-1"),
                Request(4, Usage(120, 64, None, 5), "m-1"),
                Request(6, Usage(150, 128, None, 9, 4), "m-1"),
                Request(10, Usage(200, 192, None, 5), "m-1"),
            ],
            name="one",
            model="openai/m",
            extra={"exit_status": "Submitted", "version": "1.17.3", "form": "mini-swe-agent-1"},
        ),
    ],
    "mini_v2.traj.json": [
        expect(
            "mini_v2.traj.json",
            format="mini-swe-agent",
            dialect="chat-text",
            messages=[
                {"role": "system", "content": "You have a shell."},
                {"role": "user", "content": "Fix it."},
                {
                    "role": "assistant",
                    "content": "Two at once.",
                    "tool_calls": [
                        {
                            "id": "c1",
                            "type": "function",
                            "function": {"name": "bash", "arguments": '{"command": "ls"}'},
                        },
                        {
                            "id": "c2",
                            "type": "function",
                            "function": {"name": "bash", "arguments": '{"command": "pwd"}'},
                        },
                    ],
                    "reasoning_content": "hm",
                },
                {"role": "tool", "tool_call_id": "c1", "content": "a.py"},
                {"role": "tool", "tool_call_id": "c2", "content": "/w"},
                {
                    "role": "user",
                    "content": "Tool call error: no call",
                    "_cliff": {"role": "note", "kind": "format_error"},
                },
                {"role": "user", "content": "Interrupted by user: hurry"},
                {"role": "user", "content": "User command: \n```bash\nid\n```"},
                {"role": "user", "content": "uid=0", "_cliff": {"role": "tool"}},
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [
                        {
                            "id": "c1",
                            "type": "function",
                            "function": {"name": "bash", "arguments": '{"command": "true"}'},
                        }
                    ],
                },
            ],
            requests=[
                Request(2, Usage(100, 64, None, 20, 7), "m-1"),
                Request(5, Usage(140, 96, None, 5), "m-1"),
                Request(9, Usage(180, 128, None, 5), "m-1"),
            ],
            name="two",
            model="deepseek/m",
            extra={"exit_status": "Submitted", "version": "2.4.6", "form": "mini-swe-agent-1.1"},
        ),
    ],
    "mini_v2_responses.traj.json": [
        expect(
            "mini_v2_responses.traj.json",
            format="mini-swe-agent",
            dialect="responses",
            messages=[
                {"role": "system", "content": "S"},
                {"role": "user", "content": "T"},
                {
                    "type": "reasoning",
                    "id": "rs_1",
                    "summary": [],
                    "encrypted_content": "xxxx",
                    "_reasoning_tokens": 12,
                },
                {
                    "type": "message",
                    "id": "msg_1",
                    "role": "assistant",
                    "content": [{"type": "output_text", "text": "Look."}],
                },
                {"type": "function_call", "call_id": "c1", "name": "bash", "arguments": '{"command": "ls"}'},
                {"type": "function_call_output", "call_id": "c1", "output": "a.py"},
            ],
            requests=[
                Request(2, Usage(60, 0, None, 30, 12), "m-1"),
            ],
            model="openai/m",
            extra={"exit_status": None, "version": None, "form": "mini-swe-agent-1.1"},
        ),
    ],
    "mini_v2_text.traj.json": [
        expect(
            "mini_v2_text.traj.json",
            format="mini-swe-agent",
            dialect="chat-text",
            messages=[
                {"role": "system", "content": "S"},
                {"role": "user", "content": "T"},
                {
                    "role": "assistant",
                    "content": "Look.\n<mswea_bash_command>\nls\n</mswea_bash_command>",
                    "_cliff": {"thought": ["Look."], "calls": [{"name": "bash", "arguments": "ls"}]},
                },
                {"role": "user", "content": "<returncode>1</returncode>", "_cliff": {"role": "tool"}},
            ],
            requests=[
                Request(2, Usage(50, None, None, 5), "m-1"),
            ],
            model="m",
            extra={"exit_status": None, "version": None, "form": "mini-swe-agent-1.1"},
        ),
    ],
    "nemo_gym.jsonl": [
        expect(
            "nemo_gym.jsonl",
            format="nemo-gym",
            dialect="responses",
            messages=[
                {"role": "user", "content": "TASK", "type": "message"},
                {"type": "message", "role": "assistant", "id": "m0", "content": [{"type": "output_text", "text": ""}]},
                {"type": "function_call", "call_id": "c1", "name": "read_file", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c1", "output": "X"},
                {
                    "type": "message",
                    "role": "assistant",
                    "id": "m1",
                    "content": [{"type": "output_text", "text": "Done."}],
                },
            ],
            requests=[
                Request(1),
                Request(4),
            ],
            name="one",
            model="nemo",
            tools=[{"type": "function", "name": "read_file"}],
            system="SYS",
            extra={"reward": 1.0, "usage": None},
        ),
        expect(
            "nemo_gym.jsonl",
            format="nemo-gym",
            dialect="chat-text",
            messages=[
                {"role": "user", "content": "TASK 2"},
                {
                    "role": "assistant",
                    "content": '{"analysis": "A", "plan": "P", "commands": [{"keystrokes": "ls\\n"}]}',
                    "_cliff": {
                        "thought": ["A", "P"],
                        "calls": [{"name": "bash_command", "arguments": "ls\n", "id": "call_1", "answered": True}],
                    },
                },
                {
                    "role": "user",
                    "content": "New Terminal Output:\na.py",
                    "_cliff": {"role": "tool", "call_id": "call_1"},
                },
            ],
            requests=[
                Request(1, Usage(70, 0, None, 9)),
            ],
            name="two",
            model="nemo",
            extra={
                "reward": 0.0,
                "usage": Usage(
                    input_tokens=70, cached_tokens=0, cache_write_tokens=None, output_tokens=9, reasoning_tokens=None
                ),
            },
        ),
    ],
    "openhands_v0.json": [
        expect(
            "openhands_v0.json",
            format="openhands-v0",
            dialect="chat-text",
            messages=[
                {"role": "system", "content": "S"},
                {"role": "user", "content": "Fix it."},
                {
                    "role": "assistant",
                    "content": "Both.",
                    "tool_calls": [
                        {
                            "id": "t1",
                            "type": "function",
                            "function": {"name": "execute_bash", "arguments": '{"command": "ls"}'},
                        },
                        {
                            "id": "t2",
                            "type": "function",
                            "function": {"name": "think", "arguments": '{"thought": "x"}'},
                        },
                    ],
                },
                {
                    "role": "tool",
                    "tool_call_id": "t1",
                    "name": "execute_bash",
                    "content": "a.py\n[done]\n[Current working directory: /w]\n[Command finished with exit code 0]",
                },
                {"role": "tool", "tool_call_id": "t2", "name": "think", "content": "Logged."},
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "Stop."},
                        {"type": "text", "text": "Image 1:"},
                        {"type": "image_url", "image_url": {"url": "http://i/1.png"}},
                    ],
                },
                {
                    "role": "user",
                    "content": "No such tool.\n[Error occurred in processing last action]",
                    "_cliff": {"role": "note", "kind": "error"},
                },
                {"role": "assistant", "content": "All good."},
            ],
            requests=[
                Request(2, Usage(100, 90, None, 3), "llama"),
                Request(5, Usage(150, None, None, 3), "llama"),
                Request(7, Usage(170, None, None, 3), "llama"),
            ],
            model="llama",
            tools=[{"type": "function", "function": {"name": "execute_bash"}}],
            compactions=(5,),
            comparable=1,
        ),
    ],
    "openhands_v0_output.jsonl": [
        expect(
            "openhands_v0_output.jsonl",
            format="openhands-v0",
            dialect="chat",
            messages=[
                {"role": "user", "content": "Fix it."},
                {"role": "assistant", "content": "Which?"},
            ],
            requests=[
                Request(1, Usage(40, 30, 0, 2)),
            ],
            name="a",
            model="proxy/m",
        ),
        expect(
            "openhands_v0_output.jsonl",
            format="openhands-v0",
            dialect="chat",
            messages=[],
            requests=[],
            name="b",
            extra={"error": "died"},
        ),
    ],
    "openhands_v1_output.jsonl": [
        expect(
            "openhands_v1_output.jsonl",
            format="openhands-v1",
            dialect="chat",
            messages=[
                {"role": "user", "content": "Fix it."},
                {
                    "role": "assistant",
                    "content": "Both.",
                    "tool_calls": [
                        {
                            "id": "1",
                            "type": "function",
                            "function": {"name": "execute_bash", "arguments": '{"command": "ls"}'},
                        },
                        {
                            "id": "2",
                            "type": "function",
                            "function": {"name": "str_replace_editor", "arguments": '{"command": "view"}'},
                        },
                    ],
                },
                {
                    "role": "tool",
                    "tool_call_id": "1",
                    "name": "t",
                    "content": "a.py\n[Current working directory: /w]\n[Command finished with exit code 1]",
                },
                {"role": "tool", "tool_call_id": "2", "name": "t", "content": "No such file."},
                {"role": "assistant", "content": "Done."},
            ],
            requests=[
                Request(1),
                Request(4),
            ],
            name="a",
            model="proxy/gpt",
        ),
        expect(
            "openhands_v1_output.jsonl",
            format="openhands-v1",
            dialect="chat",
            messages=[
                {"role": "user", "content": "Other."},
            ],
            requests=[],
            name="b",
            extra={"error": "evaluator died"},
        ),
    ],
    "pi.jsonl": [
        expect(
            "pi.jsonl",
            format="pi",
            dialect="anthropic",
            messages=[
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "Do it"},
                        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
                    ],
                },
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "hm", "signature": "sig"},
                        {"type": "text", "text": "cut"},
                        {"type": "tool_use", "id": "t1", "name": "read", "input": {"path": "a"}},
                        {"type": "tool_use", "id": "t2", "name": "read", "input": {"path": "b"}},
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {"type": "tool_result", "tool_use_id": "t1", "content": "A\na", "is_error": False},
                        {
                            "type": "tool_result",
                            "tool_use_id": "t2",
                            "content": [
                                {
                                    "type": "image",
                                    "source": {"type": "base64", "media_type": "image/png", "data": "BBBB"},
                                }
                            ],
                            "is_error": True,
                        },
                    ],
                },
                {
                    "role": "user",
                    "content": [{"type": "text", "text": "Ran `ls`\n```\na\n\n```\n\nCommand exited with code 2"}],
                },
                {
                    "role": "assistant",
                    "content": [
                        {"type": "text", "text": "Next"},
                        {"type": "tool_use", "id": "t3", "name": "bash", "input": {"command": "y"}},
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {"type": "tool_result", "tool_use_id": "t3", "content": "No result provided", "is_error": True}
                    ],
                },
                {"role": "user", "content": [{"type": "text", "text": "Go on"}]},
                {"role": "assistant", "content": [{"type": "text", "text": "Done"}]},
            ],
            requests=[
                Request(1, Usage(60, 20, 30, 3), "claude-opus"),
                Request(3, None, "claude-opus"),
                Request(4, Usage(66, 60, 1, 3), "claude-opus"),
                Request(7, Usage(40, 0, 0, 3), "claude-opus"),
            ],
            name="P1",
            model="claude-opus",
            compactions=(6,),
            comparable=3,
        ),
    ],
    "pi_tree.jsonl": [
        expect(
            "pi_tree.jsonl",
            format="pi",
            dialect="anthropic",
            messages=[
                {"role": "user", "content": [{"type": "text", "text": "Do it"}]},
                {"role": "user", "content": [{"type": "text", "text": "injected"}]},
                {"role": "assistant", "content": [{"type": "text", "text": "this branch"}]},
            ],
            requests=[
                Request(2, Usage(11, 0, 0, 1), "m"),
            ],
            name="P2",
            model="m",
            extra={"other_branches": 2},
        ),
    ],
    "raw_pairs.jsonl": [
        expect(
            "raw_pairs.jsonl",
            format="raw-api",
            dialect="chat",
            messages=[
                {"role": "system", "content": "S"},
                {"role": "user", "content": "T"},
                {"role": "assistant", "content": "A"},
                {"role": "user", "content": "U"},
                {"content": "C", "role": "assistant"},
            ],
            requests=[
                Request(2, Usage(10, None, None, 1), "gpt-1"),
                Request(4, Usage(20, 8, None, 1), "gpt-1"),
            ],
            name="1",
            model="gpt-1",
            tools=[{"type": "function", "function": {"name": "f"}}],
        ),
        expect(
            "raw_pairs.jsonl",
            format="raw-api",
            dialect="anthropic",
            messages=[
                {"role": "user", "content": "T"},
                {"role": "assistant", "content": [{"type": "text", "text": "B"}]},
                {"role": "user", "content": "V"},
                {"role": "assistant", "content": []},
            ],
            requests=[
                Request(1, Usage(9, 3, 2, 1), "claude-1"),
                Request(3, Usage(9, None, None, 1), "claude-1"),
            ],
            name="2",
            model="claude-1",
            system="SYS",
        ),
        expect(
            "raw_pairs.jsonl",
            format="raw-api",
            dialect="responses",
            messages=[
                {"role": "user", "content": "T"},
                {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "e", "_reasoning_tokens": 3},
                {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c", "output": "X"},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "D"}]},
            ],
            requests=[
                Request(1, Usage(7, 0, None, 5, 3), "o-1"),
                Request(4, Usage(15, 0, None, 5), "o-1"),
            ],
            name="3",
            model="o-1",
            system="INS",
        ),
    ],
    "swe_agent_0.traj": [
        expect(
            "swe_agent_0.traj",
            format="swe-agent",
            dialect="chat-text",
            messages=[
                {"role": "system", "content": "S"},
                {"role": "user", "content": "DEMO", "_cliff": {"role": "note", "kind": "demonstration"}},
                {"role": "user", "content": "Fix it."},
                {
                    "role": "assistant",
                    "content": "DISCUSSION\nLook.\n```\nls\n``` ",
                    "_cliff": {"thought": "DISCUSSION\nLook.\n", "calls": [{"name": "bash", "arguments": "ls"}]},
                },
                {"role": "user", "content": "a.py\nbash-$", "_cliff": {"role": "tool"}},
            ],
            requests=[
                Request(3),
                Request(5),
            ],
            name="swe_main",
            comparable=0,
            extra={"exit_status": "submitted (exit_cost)", "model_stats": {"tokens_sent": 99, "api_calls": 2}},
        ),
    ],
    "swe_agent_1.traj": [
        expect(
            "swe_agent_1.traj",
            format="swe-agent",
            dialect="chat",
            messages=[
                {"role": "system", "content": "S"},
                {"role": "user", "content": [{"type": "text", "text": "Fix it."}]},
                {
                    "role": "assistant",
                    "content": "Look.",
                    "tool_calls": [
                        {"id": "t1", "type": "function", "function": {"name": "bash", "arguments": '{"command":"ls"}'}}
                    ],
                },
                {"role": "tool", "content": [{"type": "text", "text": "a.py"}], "tool_call_id": "t1"},
                {"role": "assistant", "content": "Bye."},
            ],
            requests=[
                Request(2),
                Request(4),
            ],
            name="x",
            model="claude",
            comparable=0,
            extra={"exit_status": "submitted", "model_stats": {}},
        ),
    ],
    "llm_logs": [
        expect(
            "llm_logs",
            format="raw-api",
            dialect="chat",
            messages=[
                {"role": "system", "content": [{"type": "text", "text": "S"}]},
                {"role": "user", "content": [{"type": "text", "text": "T"}]},
                {
                    "role": "assistant",
                    "content": [{"type": "text", "text": "A"}],
                    "tool_calls": [
                        {"id": "c", "type": "function", "function": {"name": "terminal", "arguments": "{}"}}
                    ],
                },
                {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "X"}]},
                {"content": "B", "role": "assistant"},
            ],
            requests=[
                Request(2, Usage(30, 0, None, 3), "proxy/claude"),
                Request(4, Usage(44, 0, None, 3), "proxy/claude"),
            ],
            name="1",
            model="proxy/claude",
            tools=[{"type": "function", "function": {"name": "terminal"}}],
        ),
    ],
    "openhands_v1": [
        expect(
            "openhands_v1",
            format="openhands-v1",
            dialect="chat",
            messages=[
                {"role": "system", "content": [{"type": "text", "text": "S"}, {"type": "text", "text": "D"}]},
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "Fix it."},
                        {"type": "text", "text": "<EXTRA_INFO>x</EXTRA_INFO>"},
                    ],
                },
                {
                    "role": "assistant",
                    "content": "Look.",
                    "reasoning_content": "hm",
                    "tool_calls": [
                        {
                            "id": "1",
                            "type": "function",
                            "function": {"name": "terminal", "arguments": '{"command": "ls"}'},
                        }
                    ],
                },
                {
                    "role": "tool",
                    "tool_call_id": "1",
                    "name": "t",
                    "content": [
                        {"type": "text", "text": "[An error occurred during execution.]\n"},
                        {
                            "type": "text",
                            "text": "a.py\n[Current working directory: /w]\n[Command finished with exit code 0]",
                        },
                    ],
                },
                {"role": "user", "content": "Stop."},
                {
                    "role": "assistant",
                    "content": "",
                    "tool_calls": [
                        {
                            "id": "3",
                            "type": "function",
                            "function": {"name": "terminal", "arguments": '{"command": "pwd"}'},
                        }
                    ],
                },
                {"role": "tool", "tool_call_id": "3", "name": "terminal", "content": "bad call"},
            ],
            requests=[
                Request(2, Usage(500, 400, 50, 9, 3)),
                Request(4),
                Request(5, Usage(700, 0, 0, 9)),
            ],
            name="conv",
            model="anthropic/c",
            tools=[{"type": "function", "function": {"name": "terminal"}}],
            compactions=(4,),
            comparable=1,
        ),
    ],
}


@pytest.mark.parametrize("name", EXPECTED)
def test_sample(name: str) -> None:
    assert list(traces.read(SAMPLES / name)) == EXPECTED[name]


def test_every_sample_is_expected() -> None:
    skipped: list[traces.TraceError] = []
    found = traces.discover([SAMPLES], skipped)
    assert [str(path.relative_to(SAMPLES)) for path in found] == list(EXPECTED)
    assert skipped == []


def test_samples_do_not_share_messages_with_the_reader() -> None:
    first, second = (next(traces.read(SAMPLES / "codex.jsonl")) for _ in range(2))
    first.messages[0]["role"] = "changed"
    assert second.messages[0]["role"] == "developer"

"""Signatures of calls, byte for byte, and what holds for all of them."""
# ruff: noqa: E501 (one line a case)

import contextlib
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cliff_core.content import ToolCall
from cliff_core.signature import MARKERS, MIN_CHARS, SCAN_CHARS, Signature, inline_bodies, paths, signature

LONG = "x = 1\n" * 200

# name, arguments, the signature in 150 characters, whether it is complete
# fmt: off
EXAMPLES: list[tuple[str, Any, str, bool]] = [
    # mini-swe-agent
    ("bash", {"command": "cd /testbed && sed -n '95,115p' astroid/builder.py"}, "bash cd /testbed && sed -n '95,115p' astroid/builder.py", True),
    ("bash", {"command": "cat > fix.py <<'EOF'\n"+LONG+"EOF\npython3 fix.py"}, "bash cat > fix.py <<'EOF' [1199 chars]\npython3 fix.py", False),
    ("bash", {"command": "cat > a.py <<'EOF'\n"+LONG+"EOF\ncat > b.py <<-EOT\n"+LONG+"\tEOT\npython3 a.py && python3 b.py"}, "bash cat > a.py <<'EOF' [1199 chars]\ncat > b.py <<-EOT [1199 chars]\npython3 a.py && python3 b.py", False),
    ("bash", {"command": "python3 - <<'PY'\nfrom pathlib import Path\np = Path('sphinx/ext/napoleon/docstring.py')\n"+LONG+"PY"}, "bash python3 - <<'PY' sphinx/ext/napoleon/docstring.py [1269 chars]", False),
    ("bash", {"command": "cd /testbed && python -c \"\nimport astroid\n\nprint(astroid.__file__)\n"+LONG+"\" | tail -3"}, 'bash cd /testbed && python -c "print(astroid.__file__) [1241 chars]" | tail -3', False),
    ("bash", {"command": "# look at the rules first\n\n  ls src\n  # then count\n  "+"wc -l src/rules/L003.py src/rules/L004.py; "*5}, 'bash ls src\nwc -l src/rules/L003.py src/rules/L004.py; wc -l src/rules/L003.py src/rules/L004.py; wc -l src/rules/L003.py src/rules/L004.py; wc -l sr…', False),
    ("bash", {"command": "echo "+"QUJD"*200+" | base64 -d > logo.png"}, 'bash echo [800 chars] | base64 -d > logo.png', False),
    ("bash", {"command": "cat > run.py <<'EOF'\n"+LONG}, "bash cat > run.py <<'EOF' [1199 chars]", False),
    ("bash", {"command": "git apply <<'EOF'\n--- a/src/x.py\n+++ b/src/x.py\n@@ -1 +1 @@\n-a\n+b\n"+" c\n"*60+"EOF"}, "bash git apply <<'EOF' +++ b/src/x.py [227 chars]", False),
    ("bash", {"command": "git commit -m \"$(cat <<'EOF'\nFix the race in the reader\n\n"+"Details.\n"*30+"EOF\n)\""}, 'bash git commit -m "$(cat <<\'EOF\' Fix the race in the reader [297 chars]', False),
    ("bash", {"command": "echo $((1 << n)) && cat <<< \"$x\""}, 'bash echo $((1 << n)) && cat <<< "$x"', True),
    # Claude Code
    ("Bash", {"command": "go test ./...", "description": "Run tests", "timeout": 600000}, 'Bash go test ./... timeout=600000', True),
    ("Bash", {"command": "mise run test 2>&1 | "+"tee log | "*20, "description": "Run the tests and keep a log"}, 'Bash mise run test 2>&1 | tee log | tee log | tee log | tee log | tee log | tee log | tee log | tee log | tee log | tee log | tee log | tee log | tee…', False),
    ("Bash", {"command": "npm run dev", "run_in_background": True}, 'Bash npm run dev run_in_background=true', True),
    ("BashOutput", {"bash_id": "bash_1"}, 'BashOutput bash_1', True),
    ("KillShell", {"shell_id": "bash_1"}, 'KillShell bash_1', True),
    ("Read", {"file_path": "/repo/cmd/cli/hooks.go", "offset": 985, "limit": 20}, 'Read /repo/cmd/cli/hooks.go offset=985 limit=20', True),
    ("Edit", {"replace_all": False, "file_path": "/repo/cmd/cli/hooks.go", "old_string": LONG, "new_string": LONG*2}, 'Edit /repo/cmd/cli/hooks.go old_string=[1200 chars] new_string=[2400 chars]', False),
    ("Edit", {"file_path": "/repo/a.py", "old_string": "return 1", "new_string": "return 2", "replace_all": True}, 'Edit /repo/a.py old_string=return 1 new_string=return 2 replace_all=true', True),
    ("MultiEdit", {"file_path": "/repo/a.py", "edits": [{"old_string": "a", "new_string": "b"}]*3}, 'MultiEdit /repo/a.py edits=[3 items]', False),
    ("Write", {"content": LONG, "file_path": "/repo/src/new_module.py"}, 'Write /repo/src/new_module.py content=[1200 chars]', False),
    ("Write", {"content": LONG, "file_path": "/Users/someone/work/project/" + "deep/" * 40 + "new_module.py"}, 'Write …/deep/deep/deep/deep/deep/deep/deep/deep/deep/deep/deep/deep/deep/deep/deep/deep/deep/deep/deep/deep/deep/deep/deep/deep/deep/new_module.py …', False),
    ("NotebookEdit", {"notebook_path": "/repo/a.ipynb", "cell_id": "c1", "new_source": LONG, "cell_type": "code", "edit_mode": "replace"}, 'NotebookEdit /repo/a.ipynb edit_mode=replace cell_id=c1 cell_type=code new_source=[1200 chars]', False),
    ("Grep", {"path": "cmd/cli", "pattern": "func AbsPath", "output_mode": "content", "-n": True, "-C": 15}, 'Grep func AbsPath path=cmd/cli output_mode=content -n=true -C=15', True),
    ("Glob", {"pattern": "**/*.py", "path": "/repo"}, 'Glob **/*.py path=/repo', True),
    ("LS", {"path": "/repo/src"}, 'LS /repo/src', True),
    ("Task", {"description": "Find the parser", "prompt": "Look for every place where the tokens of a session are counted. " * 9, "subagent_type": "Explore"}, 'Task Find the parser subagent_type=Explore prompt=Look for every place where the tokens of a session are counted. Look for every place where the toke…', False),
    ("Agent", {"description": "Find the parser", "prompt": "Look.", "subagent_type": "Explore"}, 'Agent Find the parser subagent_type=Explore prompt=Look.', True),
    ("WebFetch", {"url": "https://docs.rs/regex/latest/regex/", "prompt": "How is \\b defined?"}, 'WebFetch https://docs.rs/regex/latest/regex/ prompt=How is \\b defined?', True),
    ("WebSearch", {"query": "hypothesis flaky deadline", "allowed_domains": ["hypothesis.works"]}, 'WebSearch hypothesis flaky deadline allowed_domains=["hypothesis.works"]', True),
    ("TodoWrite", {"todos": [{"content": "Read", "status": "completed", "activeForm": "Reading"}, {"content": "Fix the reader", "status": "in_progress", "activeForm": "Fixing"}, {"content": "Test", "status": "pending", "activeForm": "Testing"}]}, 'TodoWrite [3 items] in_progress Fix the reader', False),
    ("TaskCreate", {"subject": "Add a helper", "description": "In hooks.go: add markSessionEnded().", "activeForm": "Adding a helper"}, 'TaskCreate Add a helper description=In hooks.go: add markSessionEnded().', True),
    ("TaskUpdate", {"taskId": "1", "status": "in_progress"}, 'TaskUpdate 1 status=in_progress', True),
    ("ToolSearch", {"query": "select:WebFetch", "max_results": 5}, 'ToolSearch select:WebFetch max_results=5', True),
    ("Skill", {"skill": "superpowers:brainstorming"}, 'Skill superpowers:brainstorming', True),
    ("ExitPlanMode", {"plan": "1. Read the code.\n2. Change it. " * 9}, 'ExitPlanMode 1. Read the code.\n2. Change it. 1. Read the code.\n2. Change it. 1. Read the code.\n2. Change it. 1. Read the code.\n2. Change it. 1. Read…', False),
    ("AskUserQuestion", {"questions": [{"question": "Which database?", "header": "DB", "options": []}]}, 'AskUserQuestion [1 item] Which database?', False),
    ("mcp__github__get_issue", {"owner": "acme", "repo": "tool", "issue_number": 12}, 'mcp__github__get_issue owner=acme repo=tool issue_number=12', True),
    ("mcp__fs__write_file", {"content": LONG, "path": "/repo/a.txt"}, 'mcp__fs__write_file /repo/a.txt content=[1200 chars]', False),
    ("str_replace_based_edit_tool", {"command": "view", "path": "/repo/a.py", "view_range": [1, 40]}, 'str_replace_based_edit_tool view /repo/a.py view_range=[1,40]', True),
    # OpenHands
    ("execute_bash", {"command": "make -n build", "is_input": "false", "security_risk": "LOW"}, 'execute_bash make -n build is_input=false', True),
    ("terminal", {"command": "C-c", "is_input": True, "security_risk": "LOW", "summary": "Stop the server"}, 'terminal C-c is_input=true', True),
    ("file_editor", {"command": "create", "path": "/workspace/hello.py", "file_text": LONG, "security_risk": "LOW", "summary": "Create it"}, 'file_editor create /workspace/hello.py file_text=[1200 chars]', False),
    ("file_editor", {"command": "str_replace", "path": "/workspace/a.c", "old_str": LONG, "new_str": ""}, 'file_editor str_replace /workspace/a.c old_str=[1200 chars] new_str=[0 chars]', False),
    ("str_replace_editor", {"command": "view", "path": "/workspace/a.c", "view_range": [650, 700]}, 'str_replace_editor view /workspace/a.c view_range=[650,700]', True),
    ("str_replace_editor", {"command": "insert", "path": "/workspace/a.c", "insert_line": 317, "new_str": LONG}, 'str_replace_editor insert /workspace/a.c insert_line=317 new_str=[1200 chars]', False),
    ("str_replace_editor", {"command": "undo_edit", "path": "/workspace/a.c"}, 'str_replace_editor undo_edit /workspace/a.c', True),
    ("think", {"thought": "The test fails because the cache is not invalidated. " * 5}, 'think The test fails because the cache is not invalidated. The test fails because the cache is not invalidated. The test fails because the cache is n…', False),
    ("finish", {"message": "Done.", "task_completed": "true"}, 'finish Done. task_completed=true', True),
    ("task_tracker", {"command": "view"}, 'task_tracker view', True),
    ("task_tracker", {"command": "plan", "task_list": [{"id": "a", "title": "Reproduce", "status": "done"}, {"id": "b", "title": "Fix", "status": "todo"}]}, 'task_tracker plan [2 items] todo Fix', False),
    ("browser_navigate", {"url": "http://localhost:8092/"}, 'browser_navigate http://localhost:8092/', True),
    ("browser_click", {"index": 1242}, 'browser_click index=1242', True),
    ("browser_type", {"index": 5, "text": "theagentcompany"}, 'browser_type index=5 text=theagentcompany', True),
    ("browser_get_state", {"include_screenshot": False}, 'browser_get_state include_screenshot=false', True),
    ("browser_go_back", {}, 'browser_go_back', True),
    ("apply_patch", {"patch": "*** Begin Patch\n*** Add File: a.py\n+x\n*** End Patch", "security_risk": "LOW"}, 'apply_patch Add File: a.py [51 chars]', False),
    # Terminus-2
    ("bash_command", {"keystrokes": "ls -la /app/\n", "duration": 0.1}, 'bash_command ls -la /app/ duration=0.1', True),
    ("bash_command", {"keystrokes": "cat > /app/solve.py << 'EOL'\n"+LONG+"EOL\npython3 /app/solve.py\n", "duration": 30.0}, "bash_command cat > /app/solve.py << 'EOL' [1199 chars]\npython3 /app/solve.py duration=30.0", False),
    ("bash_command", {"keystrokes": "C-c", "duration": 1.0}, 'bash_command C-c duration=1.0', True),
    ("bash_command", {"keystrokes": "", "duration": 10.0}, 'bash_command [0 chars] duration=10.0', True),
    ("mark_task_complete", {}, 'mark_task_complete', True),
    # Codex
    ("exec_command", {"cmd": "rg -n 'def main' src", "workdir": "/repo", "yield_time_ms": 1000, "max_output_tokens": 4000}, "exec_command rg -n 'def main' src workdir=/repo", True),
    ("exec_command", {"cmd": "apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: src/a.py\n"+"+x\n"*90+"*** End Patch\nEOF"}, "exec_command apply_patch <<'EOF' Update File: src/a.py [325 chars]", False),
    ("shell", {"command": ["bash", "-lc", "ls -la && git status"], "workdir": "/repo"}, 'shell ls -la && git status workdir=/repo', True),
    ("shell", {"command": ["grep", "a b", "x.py"]}, 'shell ["grep","a b","x.py"]', True),
    ("shell", {"command": ["git", "log", "--oneline", "-5"], "timeout_ms": 10000}, 'shell git log --oneline -5 timeout_ms=10000', True),
    ("shell_command", {"command": "@'\n"+LONG+"'@ | Set-Content app\\core\\db.py\n\n@'\n"+LONG+"'@ | Set-Content app\\main.py", "workdir": "C:\\work\\app"}, "shell_command @' [1199 chars] | Set-Content app\\core\\db.py\n@' [1199 chars] | Set-Content app\\main.py workdir=C:\\work\\app", False),
    ("local_shell_call", {"action": {"type": "exec", "command": ["bash", "-lc", "pytest -q"], "env": {}, "working_directory": "/repo", "timeout_ms": None}}, 'local_shell_call pytest -q working_directory=/repo', True),
    ("write_stdin", {"session_id": 3, "chars": "q\n", "yield_time_ms": 500}, 'write_stdin q session_id=3', True),
    ("apply_patch", "*** Begin Patch\n*** Update File: src/a.py\n@@\n-x\n+y\n*** Add File: src/b.py\n+z\n*** Update File: c.py\n*** Move to: d.py\n*** Delete File: e.py\n*** End Patch\n", 'apply_patch Update File: src/a.py Add File: src/b.py Update File: c.py Move to: d.py Delete File: e.py [152 chars]', False),
    ("apply_patch", {"input": "*** Begin Patch\n*** Update File: src/a.py\n@@\n-x\n+y\n*** End Patch\n"}, 'apply_patch Update File: src/a.py [65 chars]', False),
    ("apply_patch", "*** Begin Patch\n" + "".join(f"*** Update File: src/module_{i}/implementation.py\n+y\n" for i in range(9)) + "*** End Patch\n", 'apply_patch Update File: src/module_0/implementation.py Update File: src/module_1/implementation.py … [488 chars]', False),
    ("view_image", {"path": "/tmp/shot.png"}, 'view_image /tmp/shot.png', True),
    ("update_plan", {"explanation": "Starting with the reader.", "plan": [{"step": "Read the code", "status": "completed"}, {"step": "Change it", "status": "pending"}]}, 'update_plan [2 items] pending Change it explanation=Starting with the reader.', False),
    ("web_search", {"action": {"type": "search", "query": "zstd frame format"}}, 'web_search search zstd frame format', True),
    ("spawn_agent", {"message": "Review the diff.", "agent_type": "explorer"}, 'spawn_agent Review the diff. agent_type=explorer', True),
    # pi
    ("read", {"path": "/repo/src/main.ts", "offset": 2170, "limit": 120}, 'read /repo/src/main.ts offset=2170 limit=120', True),
    ("write", {"path": "/repo/src/main.ts", "content": LONG}, 'write /repo/src/main.ts content=[1200 chars]', False),
    ("edit", {"path": "/repo/src/main.ts", "oldText": LONG, "newText": ""}, 'edit /repo/src/main.ts oldText=[1200 chars] newText=[0 chars]', False),
    ("grep", {"pattern": "AppMessage", "path": "packages", "glob": "*.ts", "ignoreCase": True}, 'grep AppMessage path=packages glob=*.ts ignoreCase=true', True),
    ("find", {"pattern": "*.ts", "path": "src"}, 'find *.ts path=src', True),
    ("ls", {"path": "src"}, 'ls src', True),
    # opencode
    ("read", {"filePath": "/repo/a.py", "offset": 0, "limit": 2000}, 'read /repo/a.py offset=0 limit=2000', True),
    ("edit", {"filePath": "/repo/a.py", "oldString": LONG, "newString": LONG}, 'edit /repo/a.py oldString=[1200 chars] newString=[1200 chars]', False),
    ("list", {"path": "/repo"}, 'list /repo', True),
    ("task", {"description": "Look around", "prompt": "List the packages.", "subagent_type": "general"}, 'task Look around subagent_type=general prompt=List the packages.', True),
    ("webfetch", {"url": "https://example.org/", "format": "markdown"}, 'webfetch https://example.org/ format=markdown', True),
    # SWE-agent
    ("bash", "open src/main/Reader.java 120\n", 'bash open src/main/Reader.java 120', True),
    ("bash", "edit 12:14\n"+LONG+"end_of_edit\n", 'bash edit 12:14 [1199 chars]', False),
    # Hermes
    ("patch", {"mode": "replace", "path": "./opt.c", "old_string": LONG, "new_string": LONG}, 'patch ./opt.c mode=replace old_string=[1200 chars] new_string=[1200 chars]', False),
    ("read_file", {"path": "/app/data.csv", "limit": 5}, 'read_file /app/data.csv limit=5', True),
    ("write_file", {"path": "/app/run.py", "content": LONG}, 'write_file /app/run.py content=[1200 chars]', False),
    ("search_files", {"pattern": "TODO", "path": "src"}, 'search_files TODO path=src', True),
    ("execute_code", {"code": "import os\nprint(os.listdir('.'))"}, "execute_code import os\nprint(os.listdir('.'))", True),
    ("execute_code", {"code": "# what is here?\nimport os\n\nfor name in os.listdir('.'):\n    print(name)\n"+LONG}, "execute_code import os\nfor name in os.listdir('.'):\nprint(name)\nx = 1\nx = 1\nx = 1\nx = 1\nx = 1\nx = 1\nx = 1\nx = 1\nx = 1\nx = 1\nx = 1\nx = 1\nx = 1\nx = 1\nx…", False),
    # hosted tools, and names with a namespace
    ("shell_call", {"commands": ["ls -la", "git status"], "timeout_ms": 1000}, 'shell_call ls -la\ngit status timeout_ms=1000', True),
    ("apply_patch_call", {"type": "update_file", "path": "a.py", "diff": LONG}, 'apply_patch_call update_file a.py diff=[1200 chars]', False),
    ("computer_call", {"type": "click", "x": 1, "y": 2}, 'computer_call click x=1 y=2', True),
    ("computer", {"action": "left_click", "coordinate": [10, 20]}, 'computer left_click coordinate=[10,20]', True),
    ("functions.exec_command", {"cmd": "ls"}, 'functions.exec_command ls', True),
    ("code_interpreter_call", {"code": "print(1)", "container_id": "c"}, 'code_interpreter_call print(1) container_id=c', True),
    ("file_search_call", {"queries": ["a b", "c"]}, 'file_search_call ["a b","c"]', True),
    ("memory", {"command": "view", "path": "/memories"}, 'memory view /memories', True),
    ("web_search_call", {"type": "open_page", "url": "https://a.org/b"}, 'web_search_call open_page https://a.org/b', True),
    ("shell", {"command": ["apply_patch", "*** Begin Patch\n*** Update File: a/b.py\n" + "+x\n" * 90 + "*** End Patch"]}, 'shell apply_patch Update File: a/b.py [323 chars]', False),
    ("lsp", {"operation": "findReferences", "filePath": "/repo/a.py", "line": 3, "character": 7}, 'lsp findReferences /repo/a.py line=3 character=7', True),
    # the general rule
    ("fetch_page", {"timeout": 5, "url": "https://example.org/a", "raw": False}, 'fetch_page https://example.org/a timeout=5 raw=false', True),
    ("run_sql", {"database": "main", "query": "select 1"}, 'run_sql select 1 database=main', True),
    ("editor", {"command": "open", "path": "/a/b.txt", "line": 3}, 'editor open /a/b.txt line=3', True),
    ("move_file", {"source": "/a/b.txt", "destination": "/a/c.txt"}, 'move_file /a/b.txt destination=/a/c.txt', True),
    ("read_many_files", {"paths": ["a.py", "b.py"]}, 'read_many_files ["a.py","b.py"]', True),
    ("deploy", {"target": "staging", "options": {"force": True, "tags": ["a", "b"]}, "note": None}, 'deploy target=staging options={"force":true,"tags":["a","b"]}', True),
    ("deploy", {"options": {"k": "v" * 200}, "list": list(range(99))}, 'deploy options=[208 chars] list=[99 items]', False),
    ("ask", {"who": "Ann", "body_text": "Please look at the second paragraph again. " * 5}, 'ask who=Ann body_text=Please look at the second paragraph again. Please look at the second paragraph again. Please look at the second paragraph again…', False),
    ("noop", {}, 'noop', True),
    ("noop", "{}", 'noop', True),
    ("noop", "plain words", 'noop plain words', True),
    ("Write", '{"content": "' + "x\\n" * 300 + '", "file_path": "/repo/cut_of', 'Write /repo/cut_of [942 chars]', False),
    ("Write", '{"content": "' + "x\\n" * 300 + '", "file_path": "/repo/a.py", "mo', 'Write /repo/a.py [946 chars]', False),
    ("bash", '{"command": "cat > a.py <<EOF\\n' + "x\\n" * 300, 'bash cat > a.py <<EOF\\nx\\nx\\nx\\nx\\nx\\nx\\nx\\nx\\nx\\nx\\nx\\nx\\nx\\nx\\nx\\nx\\nx\\nx\\nx\\nx\\nx\\nx\\nx\\nx\\nx\\nx\\nx\\nx\\nx\\nx\\nx\\nx\\nx\\nx\\nx\\nx\\nx\\nx\\n… [931 chars]', False),
    ("读取", {"路径": "文件.txt"}, '读取 路径=文件.txt', True),
]
# fmt: on


def exact(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


@pytest.mark.parametrize(("name", "arguments", "text", "complete"), EXAMPLES)
def test_signature(name: str, arguments: Any, text: str, complete: bool) -> None:
    assert signature(ToolCall(name, arguments), 150) == Signature(text, complete)


@pytest.mark.parametrize(("name", "arguments", "text", "complete"), EXAMPLES)
def test_the_same_from_json_text(name: str, arguments: Any, text: str, complete: bool) -> None:
    assert signature(ToolCall(name, exact(arguments)), 150) == Signature(text, complete)


# --- the room ---------------------------------------------------------------------------------------


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall(name, arguments)


EDIT = call("Edit", old_string=LONG, new_string=LONG, file_path="/repo/src/cliff/reader.py", replace_all=True)


@pytest.mark.parametrize(
    ("room", "text"),
    [
        (200, "Edit /repo/src/cliff/reader.py old_string=[1200 chars] new_string=[1200 chars] replace_all=true"),
        (95, "Edit /repo/src/cliff/reader.py old_string=[1200 chars] new_string=[1200 chars] replace_all=true"),
        (94, "Edit /repo/src/cliff/reader.py old_string=[1200 chars] new_string=[1200 chars] …"),
        (70, "Edit /repo/src/cliff/reader.py old_string=[1200 chars] …"),
        (50, "Edit /repo/src/cliff/reader.py replace_all=true …"),
        (40, "Edit /repo/src/cliff/reader.py …"),
        (30, "Edit /repo/src/cliff/reader.py"),
        (29, "Edit …/src/cliff/reader.py …"),
        (20, "Edit …/reader.py …"),
        (14, "Edit …eader.py"),
        (4, "E… …"),
        (1, "…"),
        (0, ""),
        (-1, ""),
    ],
)
def test_arguments_go_before_the_path_is_shortened(room: int, text: str) -> None:
    assert signature(EDIT, room).text == text


@pytest.mark.parametrize(
    ("room", "text"),
    [
        (60, "bash cat > fix.py <<'EOF' [1199 chars]\npython3 fix.py -v"),
        (50, "bash cat > fix.py <<'EOF' [1199 chars]\npython3 fi…"),
        (40, "bash cat > fix.py <<'EOF' [1199 chars]…"),
        (30, "bash cat > fix.py <<'EOF'…"),
        (20, "bash cat > fix.py <…"),
    ],
)
def test_a_command_keeps_its_beginning(room: int, text: str) -> None:
    command = f"cat > fix.py <<'EOF'\n{LONG}EOF\n\n# now run it\npython3 fix.py -v\n"
    assert signature(call("bash", command=command), room).text == text


def test_a_long_body_is_a_marker_in_any_room() -> None:
    command = f"cat > fix.py <<'EOF'\n{LONG}EOF\npython3 fix.py"
    expected = "bash cat > fix.py <<'EOF' [1199 chars]\npython3 fix.py"
    assert signature(call("bash", command=command), 1_000_000) == Signature(expected, False)
    assert signature(call("Write", content=LONG, file_path="a.py"), 1_000_000).text == "Write a.py content=[1200 chars]"


def test_a_short_heredoc_stands_whole() -> None:
    command = "cat <<'EOF' | wc -l\nfirst\n\n  # second\nEOF"
    assert signature(call("bash", command=command), 150) == Signature(f"bash {command}", True)


def test_a_file_pasted_at_a_terminal_is_a_body() -> None:
    text = "root of all\n" * 20
    for opener in ("cat > notes.txt", "cat >>notes.txt", "tee -a notes.txt", "tee notes.txt > /dev/null"):
        made = signature(call("bash_command", keystrokes=f"{opener}\n{text}"), 150)
        assert made == Signature(f"bash_command {opener} [239 chars]", False)
    both = f"cat > a.sh <<'EOF'\ncat > inner\nEOF\ncat > b.txt\n{text}\x04ls"
    assert inline_bodies(both) == ["cat > inner", text]
    assert signature(call("bash_command", keystrokes=both), 150).text == (
        "bash_command cat > a.sh <<'EOF' [11 chars]\ncat > b.txt [240 chars]\nls"
    )
    assert paths(call("bash_command", keystrokes="cat > b.txt\nsee /etc/passwd\n\x04cat /etc/hosts")) == [
        "b.txt",
        "/etc/hosts",
    ]


@pytest.mark.parametrize(
    "command", ["cat a.txt > b.txt\nls", "cat > b.txt; ls\nls", "cat\nls", "cat > b.txt < a.txt\nls"]
)
def test_what_reads_no_terminal_takes_no_pasted_file(command: str) -> None:
    assert inline_bodies(command) == []


def test_what_only_looks_like_a_heredoc_is_no_body() -> None:
    code = 'std::cout << value << "text" << std::endl;\n' * 8
    assert signature(call("bash", command=code), 150).text == f"bash {code[:144].rstrip()}…"


def test_a_description_stands_beside_a_command_that_is_cut() -> None:
    command = f"git add a.py && git commit -m \"$(cat <<'EOF'\nFix it\n\n{LONG}EOF\n)\""
    text = "Bash git add a.py && git commit -m \"$(cat <<'EOF' Fix it [1207 chars] description=Commit the fix"
    assert signature(call("Bash", command=command, description="Commit the fix"), 150) == Signature(text, False)
    assert signature(call("Bash", command="ls", description="List"), 150) == Signature("Bash ls", True)


def test_a_long_name_leaves_room_for_the_target() -> None:
    made = call("mcp__a_very_long_server_name__and_a_very_long_tool_name", path="/a")
    assert signature(made, 66) == Signature("mcp__a_very_long_server_name__an… /a", False)


# --- what holds for every call ------------------------------------------------------------------------

WORDS = st.sampled_from(
    [
        *("cat <<'EOF'\n", "EOF\n", "EOF", "python3 - <<PY\n", "\nPY\n", "@'\n", "\n'@ | tee a.txt", "edit 1:2\n"),
        *("*** Begin Patch\n", "*** Update File: src/a.py\n", "*** Move to: b.py\n", "--- a/x.c\n+++ b/x.c\n"),
        *(
            "'",
            '"',
            "\\",
            "\\'",
            "# note\n",
            "…",
            "[12 chars]",
            " ",
            "\n",
            "=",
            "sed -n 's/a/b/p' ",
            "-e ",
            "QUJD" * 60,
        ),
        *("src/a.py", "/etc/hosts", "C:\\a\\b.txt", "https://a.org/b.py", "1/2", "grep x/y ", "git add ", "${X}/y.py"),
        *("\ud800", "\u3042", "🙂", "\r\n", "\t", '{"path": "', '{"command": "', "}", "x" * 130),
    ]
)
TEXTS = st.one_of(
    st.text(max_size=20),
    st.lists(st.one_of(WORDS, st.text(max_size=4)), max_size=14).map("".join),
    st.integers(80, 900).map("y".__mul__),
)
KEYS = st.one_of(
    st.sampled_from(
        [
            *("command", "cmd", "commands", "keystrokes", "code", "file_path", "path", "content", "old_string"),
            *("new_str", "patch", "input", "pattern", "query", "url", "prompt", "description", "thought", "duration"),
            *("plan", "todos", "questions", "action", "type", "status", "security_risk", "summary", "replace_all"),
        ]
    ),
    st.text(max_size=6),
)
NUMBERS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False))
VALUES = st.recursive(
    st.one_of(TEXTS, NUMBERS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(KEYS, inner, max_size=4)),
    max_leaves=6,
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=6)
NAMES = st.one_of(st.sampled_from(sorted({name for name, *_ in EXAMPLES})), st.text(max_size=30))
CALLS = st.builds(ToolCall, NAMES, st.one_of(OBJECTS, OBJECTS, TEXTS))
ROOMS = st.one_of(st.integers(MIN_CHARS, 200), st.integers(-3, 2_000))

GLUE = rf"(?:[ \n=]|{MARKERS.pattern})*"
OPEN_GLUE = r"(?:[ \n=]|\[0 (?:chars|items)\])*"  # nothing is left out


def made_of(made: Signature, glue: str) -> bool:
    """Whether the text is the pieces in their order, with nothing but glue around them."""
    pattern = glue.join(["", *map(re.escape, made.pieces), ""])
    return re.fullmatch(pattern, made.text) is not None


def texts(value: Any) -> Iterator[str]:
    """A value's own text, and that of everything in it."""
    if isinstance(value, str):
        yield value
        return
    yield json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for name, inner in value.items() if isinstance(value, dict) else ():
        yield name
        yield from texts(inner)
    for inner in value if isinstance(value, list) else ():
        yield from texts(inner)


def originals(made: ToolCall) -> list[str]:
    found = [made.name, *texts(made.arguments)]
    if isinstance(made.arguments, str):
        with contextlib.suppress(ValueError):
            found += texts(json.loads(made.arguments, strict=False))
    return found


@given(CALLS, ROOMS)
def test_never_longer_than_the_room(made: ToolCall, room: int) -> None:
    assert len(signature(made, room).text) <= max(room, 0)


@given(CALLS, ROOMS)
def test_verbatim_pieces_and_known_glue(made: ToolCall, room: int) -> None:
    whole = originals(made)
    got = signature(made, room)
    assert made_of(got, GLUE)
    assert all(any(piece in text for text in whole) for piece in got.pieces)


@given(CALLS, ROOMS)
def test_complete_has_no_marker_of_its_own(made: ToolCall, room: int) -> None:
    got = signature(made, room)
    if got.complete:
        assert made_of(got, OPEN_GLUE)
        assert signature(made, room + 100).complete


@given(NAMES, OBJECTS, ROOMS)
def test_an_object_and_its_json_are_one(name: str, arguments: dict[str, Any], room: int) -> None:
    """But for half a surrogate pair, which JSON text can hold as an escape alone."""
    with contextlib.suppress(UnicodeEncodeError):
        json.dumps(arguments, ensure_ascii=False).encode()
        check_one(name, arguments, room)


def check_one(name: str, arguments: dict[str, Any], room: int) -> None:
    made = ToolCall(name, arguments)
    sent = ToolCall(name, json.dumps(arguments))
    shown = ToolCall(name, json.dumps(arguments, ensure_ascii=False, indent=1))
    assert signature(made, room) == signature(sent, room) == signature(shown, room) == signature(made, room)
    assert paths(made) == paths(sent) == paths(shown)


@given(TEXTS, st.sampled_from(["Write", "write_file", "mcp__fs__write_file"]), st.integers(MIN_CHARS, 300))
def test_a_write_never_loses_its_path(content: str, name: str, room: int) -> None:
    path = "/home/me/project/src/package/module_with_a_name.py"
    got = signature(ToolCall(name, {"content": content, "path": path}), room)
    assert got.pieces[1] == path or (got.pieces[1] and path.endswith(got.pieces[1]))


@given(CALLS)
def test_paths_are_contiguous_pieces(made: ToolCall) -> None:
    found = paths(made)
    whole = originals(made)
    assert all(path.strip() and any(path in text for text in whole) for path in found)
    assert len(set(found)) == len(found)


def test_never_raises_for_what_json_cannot_say() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    circle: dict[str, Any] = {}
    circle["self"] = circle
    odd = {"deep": deep, "circle": circle, "set": {1}, "big": 10**5_000, "status": deep, 1: 2}
    for arguments in (odd, {"todos": [odd]}, {"command": odd}, {"path": odd}, "[" * 100_000, '{"a":' * 100_000):
        made = ToolCall("bash", arguments)  # type: ignore[arg-type]
        assert len(signature(made, 150).text) <= 150
        assert isinstance(paths(made), list)
    assert signature(call("f", big=10**5_000, n=1), 150) == Signature("f big=[object] n=1", False)


# --- paths --------------------------------------------------------------------------------------------


def shell(command: str) -> ToolCall:
    return ToolCall("bash", {"command": command})


# fmt: off
PATHS: list[tuple[ToolCall, list[str]]] = [
    (shell("cat src/a.py ./b.txt ../c/d.md ~/notes.txt /etc/hosts"), ['src/a.py', './b.txt', '../c/d.md', '~/notes.txt', '/etc/hosts']),
    (shell("cat 'my dir/a b.txt' \"src/x y/\" My\\ Docs/a.txt"), ['my dir/a b.txt', 'My\\ Docs/a.txt']),
    (shell("grep -rn \"foo/bar.py\" src/ --include='*.py' | head -5 > /tmp/out.log"), ['src/', '/tmp/out.log']),
    (shell("sed -n '/start/,/end/p' src/a.py && sed -i -e 's/a/b/' -e 's|x/y|z|' docs/b.md"), ['src/a.py', 'docs/b.md']),
    (shell("awk '/def.*a/,/def/ {print}' lib/x.py | sort -u"), ['lib/x.py']),
    (shell("curl -s https://example.org/a/b.py -o /tmp/b.py http://localhost:8000/api/v1"), ['/tmp/b.py']),
    (shell("echo 1/2 2024/01/02 01/02/2024 and/or N/A; date +%Y/%m/%d"), []),
    (shell("curl -H 'Content-Type: application/json' -d @payload.json -H accept:text/html"), ['payload.json']),
    (shell("git checkout feature/new-parser && git push origin feature/new-parser && git add src/parser.py"), ['src/parser.py']),
    (shell("npm install @scope/pkg lodash/fp && docker run org/image:latest"), []),
    (shell("pytest tests/test_a.py::test_b -q --cov=src/pkg --junitxml=out/report.xml"), ['tests/test_a.py', 'src/pkg', 'out/report.xml']),
    (shell("go build ./cmd/tool/... && go test github.com/a/b"), ['./cmd/tool']),
    (shell("export PATH=$HOME/bin:/opt/tool/bin PYTHONPATH=src/lib python run.py"), ['$HOME/bin', '/opt/tool/bin', 'src/lib', 'run.py']),
    (shell("ls 2>/dev/null > /dev/stdout; cat /proc/1/status"), ['/proc/1/status']),
    (shell("find . -name '*.py' -path './src/*' -exec grep -l \"x/y\" {} \\;"), ['x/y']),
    (shell("python3 - <<'PY'\nopen('/app/config.json')\np = 'src/pkg/mod.py'  # or/and 1/2\nre.compile(r'a/b')\nPY\ncat done.txt"), ['/app/config.json', 'src/pkg/mod.py', 'done.txt']),
    (shell("cat > notes.txt <<'EOF'\nsee src/hidden.py\nEOF\nwc -l notes.txt"), ['notes.txt']),
    (shell("git show HEAD:src/a.py; vim src/a.py:12; scp host:/var/x.tar.gz ."), ['src/a.py', '/var/x.tar.gz']),
    (shell("New-Item app\\api,app\\core\\db.py; Get-Content C:\\Users\\me\\a.txt; rg 'foo\\.py'"), ['app\\core\\db.py', 'C:\\Users\\me\\a.txt']),
    (shell("# see src/old.py\nmake -C build/out Makefile .gitignore .env"), ['build/out', 'Makefile', '.gitignore', '.env']),
    (shell("cp a/b.py{,.bak}; ls src/{a,b}.py; echo ${X}/y.py"), ['a/b.py', 'src/']),
    (ToolCall("Read",{"file_path":"/a/b.py","limit":3}), ['/a/b.py']),
    (ToolCall("Edit",{"file_path":"/a/b.py","old_string":"import /x/y.py","new_string":"see c/d.py"}), ['/a/b.py']),
    (ToolCall("Grep",{"pattern":"src/.*\\.py","path":"cmd/cli","glob":"**/*.go"}), ['cmd/cli']),
    (ToolCall("Task",{"prompt":"Compare src/a.py with `lib/b.rs` and and/or the /api/v1 route (see docs/x.md).","description":"d"}), ['src/a.py', 'lib/b.rs', 'docs/x.md']),
    (ToolCall("shell",{"command":["bash","-lc","cat src/a.py"],"workdir":"/repo"}), ['src/a.py', '/repo']),
    (ToolCall("shell", {"command": ["grep", "-n", "a b", "x.py", "--file=src/y"]}), ["x.py", "src/y"]),
    (ToolCall("read_many",{"paths":["a.py","b/c"],"nested":{"file":"d.py","x":[{"path":"e.py"}]}}), ['a.py', 'b/c', 'd.py', 'e.py']),
    (ToolCall("apply_patch","*** Begin Patch\n*** Update File: src/a.py\n+see x/y.py\n*** End Patch"), ['src/a.py']),
    (shell("git apply <<'EOF'\n--- a/src/x.py\n+++ b/src/x.py\n@@ -1 +1 @@\n--- /dev/null\n+++ b/new.py\nEOF"), ['src/x.py', 'new.py']),
    (ToolCall("exec",'const a = await read("src/a.ts"); x/y; await run("and/or")'), ['src/a.ts']),
    (ToolCall("Write",'{"content": "see a/b.py", "file_path": "/repo/a.py", "mo'), ['/repo/a.py']),
    (ToolCall("WebFetch",{"url":"https://a.b/c.html","prompt":"x"}), []),
    (ToolCall("Read",{"file_path":"/"}), []),
    (ToolCall("Read",{"file_path":"."}), []),
]
# fmt: on


@pytest.mark.parametrize(("made", "expected"), PATHS)
def test_paths(made: ToolCall, expected: list[str]) -> None:
    assert paths(made) == expected


def test_what_is_read_of_one_value_is_bounded() -> None:
    many = " ".join(f"src/file_{number}.py" for number in range(10_000))
    assert len(paths(shell(f"cat {many}"))) < SCAN_CHARS
    assert paths(shell(f"cat > a.py <<'EOF'\n{many}\nEOF\ncat b.py")) == ["a.py", "b.py"]
    assert paths(call("Write", file_path="a.py", content=many)) == ["a.py"]


@pytest.mark.parametrize(
    "text",
    [
        "<<",
        "cat <<a b\n",
        "@'\n",
        "'\n",
        '"\\',
        "a/",
        "*** ",
        "\n--- a",
        '{"a":',
        '{"path": "',
        "\\",
        "# it's\n",
        "A" * 150,
    ],
)
def test_a_large_argument_takes_no_time(text: str) -> None:
    """These made a quadratic scan take minutes; nothing is measured, a test that hangs is seen."""
    large = text * (400_000 // len(text))
    for arguments in ({"command": large}, {"content": large}, large):
        made = ToolCall("bash", arguments)
        assert len(signature(made, 150).text) <= 150
        paths(made)


@pytest.mark.parametrize(
    ("name", "arguments", "text", "named"),
    [
        ("bash", r'{"command":"echo \ud83d"}', r"bash echo \ud83d [25 chars]", []),
        ("bash", r'{"command":"echo \ud83d\ude00"}', "bash echo 😀", []),
        ("Write", r'{"content":"x \uDC00", "file_path":"/a/b.py"}', "Write /a/b.py [45 chars]", ["/a/b.py"]),
        ("bash", r'{"command":"cat \\ud83d x.py"}', r"bash cat \ud83d x.py", ["x.py"]),
    ],
)
def test_arguments_with_half_a_character_stay_as_they_were_written(name, arguments, text, named):
    """Decoded, they could not be sent: a client fails to encode them."""
    call = ToolCall(name, arguments)
    assert signature(call, 150).text == text
    assert list(paths(call)) == named
    text.encode()

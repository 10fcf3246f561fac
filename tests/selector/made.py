"""Rollouts of our own making, in the forms that hosts leave them in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

PROMPT = "root@0123456789ab:/app#"
PATCH = "diff --git a/{file} b/{file}\n--- a/{file}\n+++ b/{file}\n@@ -1 +1 @@\n-old\n+{line}\n"


def mini_terminal(
    *, steps: int = 3, codes: tuple[int, ...] = (0, 0), closing: str = "All tests passed.", done: bool = True
) -> str:
    """The terminal after a run of mini-swe-agent in a task's container."""
    lines = [f"{PROMPT} source /installed-agent/install-agent.sh && echo 'INSTALL_SUCCESS'", "ERROR: an old pip"]
    for step in range(1, steps + 1):
        lines += ["─" * 20, f"mini-swe-agent (step {step}, ${step / 100:.2f}):"]
        if step < steps:
            code = codes[min(step - 1, len(codes) - 1)]
            lines += ["THOUGHT: on with it.", "```bash", "make check", "```", "User:"]
            lines += [f"<returncode>{code}</returncode>", "<output>", "a line of output", "</output>"]
    lines += [f"THOUGHT: {closing}"]
    if done:
        lines += ["```bash", "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", "```"]
        lines += ["Saved trajectory to 'last.traj.json'", PROMPT]
    return "\n".join(lines)


def openhands_terminal(*, steps: int = 3, state: str = "FINISHED", waiting: bool = True) -> str:
    """The terminal after a run of OpenHands."""
    log = "11:12:43 - openhands:INFO: agent_controller.py:574 - [Agent Controller 1] Setting agent state"
    lines = [f"{PROMPT} source /installed-agent/setup-env.sh", log, "from AgentState.LOADING to AgentState.RUNNING"]
    lines += ['11:12:47 - openhands:INFO: Server: INFO: 127.0.0.1:5 - "POST /execute_action HTTP/1.1" 200 OK'] * steps
    lines += [log, f"from AgentState.RUNNING to AgentState.{state}"] if state else []
    return "\n".join([*lines, *([PROMPT] if waiting else [])])


def record(task: str, run: str, terminal: str | None, seconds: int | None = 100, **more: Any) -> dict[str, Any]:
    """A line of published rollouts."""
    found: dict[str, Any] = {"task": task, "run": run, "terminal": terminal, "failure": "unset", "resolved": False}
    if seconds is not None:
        found |= {"started": "2026-01-01T00:00:00+00:00"}
        found |= {"ended": f"2026-01-01T00:{seconds // 60:02}:{seconds % 60:02}+00:00"}
    return {**found, **more}


def jsonl(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(found) + "\n" for found in records))
    return path


def study(agents: tuple[str, ...] = ("one", "two"), tasks: int = 12) -> list[dict[str, Any]]:
    """Rollouts with verdicts: of half of the tasks the runs that end by themselves are solved, the others never."""
    found = []
    for agent in agents:
        for task in range(tasks):
            for run in range(4):
                done = (run + task) % 2 == 0
                terminal = mini_terminal(steps=4 + run, done=done, codes=(0,) if done else (1,))
                solved = done and task % 2 == 0
                found.append(record(f"task{task}", f"r{run}", terminal, 60 + 7 * run, agent=agent, resolved=solved))
    return found


def mini_trajectory(*, status: str = "Submitted", steps: int = 2, patch: str = "", code: int = 0) -> dict[str, Any]:
    """A trajectory of mini-swe-agent 2.x."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": "Shell."}, {"role": "user", "content": "Fix it."}]
    for step in range(steps):
        usage = {"prompt_tokens": 100 + step, "completion_tokens": 10}
        call = {"id": f"c{step}", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
        extra = {"response": {"model": "m-1", "usage": usage}, "timestamp": 1000.0 + 10 * step}
        messages.append({"role": "assistant", "content": "Verified.", "tool_calls": [call], "extra": extra})
        output = f"<returncode>{code}</returncode>\n<output>\na.py\n</output>"
        messages.append({"role": "tool", "tool_call_id": f"c{step}", "content": output, "extra": {"returncode": code}})
    messages.append({"role": "exit", "content": "", "extra": {"exit_status": status}})
    info = {"exit_status": status, "submission": patch, "model_stats": {"instance_cost": 0.5, "api_calls": steps}}
    return {"trajectory_format": "mini-swe-agent-1.1", "info": info, "messages": messages}


def mini_batch(folder: Path, instances: dict[str, dict[str, Any]]) -> Path:
    """What `mini-extra swebench -o FOLDER` leaves; of each instance the options of its trajectory."""
    predictions = {}
    for name, options in instances.items():
        (folder / name).mkdir(parents=True)
        trajectory = {**mini_trajectory(**options), "instance_id": name}
        (folder / name / f"{name}.traj.json").write_text(json.dumps(trajectory))
        predictions[name] = {
            "model_name_or_path": "m-1",
            "instance_id": name,
            "model_patch": options.get("patch", ""),
        }
    (folder / "preds.json").write_text(json.dumps(predictions))
    return folder


def terminal_bench(runs: Path, run: str, task: str, *, resolved: bool, failure: str = "unset", terminal: str) -> Path:
    """A trial of a terminal-bench run (0.2.18)."""
    trial = runs / run / task / f"{task}.1-of-1.{run}"
    (trial / "panes").mkdir(parents=True)
    (trial / "panes" / "post-agent.txt").write_text(terminal)
    (trial / "panes" / "post-test.txt").write_text("VERDICT all tests passed" if resolved else "VERDICT failed")
    (runs / run / "run_metadata.json").write_text(json.dumps({"run_id": run}))
    (runs / run / "results.json").write_text(json.dumps({"results": [], "pass_at_k": {}, "n_resolved": 0}))
    result = {
        "trial_name": trial.name,
        "task_id": task,
        "instruction": "Do it.",
        "is_resolved": resolved,
        "failure_mode": failure,
        "parser_results": {"test": "passed" if resolved else "failed"},
        "total_input_tokens": 1000,
        "total_output_tokens": 10,
        "agent_started_at": "2026-01-01T00:00:00+00:00",
        "agent_ended_at": "2026-01-01T00:01:40+00:00",
    }
    (trial / "results.json").write_text(json.dumps(result))
    return trial


def harbor(job: Path, task: str, trial: str, *, reward: float, exception: str | None = None) -> Path:
    """A trial of a Harbor job (0.26)."""
    folder = job / trial
    (folder / "agent").mkdir(parents=True)
    (folder / "verifier").mkdir()
    (folder / "verifier" / "test-stdout.txt").write_text("VERDICT")
    (job / "result.json").write_text(json.dumps({"n_total_trials": 1, "stats": {}}))
    steps = [
        {"step_id": 1, "source": "user", "message": "TASK"},
        {"step_id": 2, "source": "agent", "message": "Done and verified.", "metrics": {"prompt_tokens": 100}},
    ]
    agent = {"name": "terminus-2", "version": "2.0.0", "model_name": "m"}
    trajectory = {"schema_version": "ATIF-v1.7", "session_id": "s", "agent": agent, "steps": steps}
    (folder / "agent" / "trajectory.json").write_text(json.dumps(trajectory))
    result = {
        "task_name": task,
        "trial_name": trial,
        "agent_info": {"name": "terminus-2", "version": "2.0.0"},
        "agent_result": {"n_input_tokens": 100, "n_output_tokens": 5, "cost_usd": 0.25},
        "verifier_result": {"rewards": {"reward": reward}},
        "exception_info": {"exception_type": exception} if exception else None,
        "agent_execution": {"started_at": "2026-01-01T00:00:00Z", "finished_at": "2026-01-01T00:00:30Z"},
    }
    (folder / "result.json").write_text(json.dumps(result))
    return folder

"""Records `demo-session.traj.json` again: `scripts/in-env 3.12 .venv --group test python examples/record.py`.

mini-swe-agent works on a clone of this repository. What its model says is read from `demo-script.md` and played by
the scripted server of `tests/kit`; every command is run for real, and its output is what it was. See README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT / "tests"))

from cliff_core import tokens  # noqa: E402
from kit import Call, ModelServer, Step  # noqa: E402

REVISION = "6bced185b341d6148afbb81c5e1ee0e6d2f83f6b"
"""The commit that the session works on: the edits of the script fit its files."""

MINI = "mini-swe-agent==2.4.6"
MODEL = "openai/scripted"

CLONE = Path("/tmp/cliffcompaction")
"""Where the session works. The folder appears in outputs, so it has a name that says nothing of this machine."""
WORK = Path("/tmp/cliff-demo")
"""The environment of mini-swe-agent, a home folder, and the trajectory as mini-swe-agent wrote it."""

ENVIRONMENT = {
    "PATH": f"{CLONE}/.venv/bin:/usr/local/bin:/usr/bin:/bin",
    "HOME": f"{WORK}/home",
    "TMPDIR": f"{WORK}/tmp",
    "LOGNAME": "agent",  # part of the names of pytest's folders
    "LANG": "C.UTF-8",
    "COLUMNS": "80",
    "PYTHONDONTWRITEBYTECODE": "1",
    "HYPOTHESIS_PROFILE": "quick",
    # What mini's prompt says of the system: variables stand above what the platform reports.
    "system": "Linux",
    "release": "6.8.0",
    "version": "#1 SMP",
    "machine": "x86_64",
    # mini and litellm: ask nothing, download nothing, no price needed.
    "MSWEA_CONFIGURED": "true",
    "MSWEA_SILENT_STARTUP": "1",
    "MSWEA_GLOBAL_CONFIG_DIR": f"{WORK}/config",
    "MSWEA_COST_TRACKING": "ignore_errors",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
}
"""All variables that mini-swe-agent and the commands see, beside those that lead to the server."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=HERE / "demo-session.traj.json")
    parser.add_argument("--repository", default=str(ROOT), help="what is cloned (default: this one)")
    parser.add_argument("--revision", default=REVISION, help="the commit to work on")
    options = parser.parse_args()
    task, steps = read_script(HERE / "demo-script.md")
    prepare(options.repository, options.revision)
    with ModelServer(steps, count=tokens.count) as server:
        raw = run_mini(task, server.env())
        server.assert_finished()
    session = tidied(json.loads(raw.read_text("utf-8")))
    text = json.dumps(session, indent=1, ensure_ascii=False) + "\n"
    leaks = found_in(text)
    if leaks:
        print(f"error: the session names this machine: {leaks}", file=sys.stderr)
        return 1
    options.output.write_text(text, "utf-8")
    usage = server.requests[-1].usage
    assert usage is not None
    print(
        f"{options.output}: {len(server.requests)} requests, the last of {usage.input} tokens, {len(text)} characters"
    )
    return 0


def read_script(path: Path) -> tuple[str, list[Step]]:
    """The task, and the steps of the model.

    The task stands under `# Task`. After it each heading `## Step: …` begins a step (its words are for readers): the
    model's text, with its thoughts in a `~~~thought` block and its commands in `~~~bash` blocks."""
    _, _, rest = path.read_text("utf-8").partition("\n# Task\n")
    task, *parts = re.split(r"^## Step: .*\n", rest, flags=re.MULTILINE)
    return task.strip(), [_step(part) for part in parts]


def _step(part: str) -> Step:
    blocks = re.findall(r"^~~~(thought|bash)\n(.*?)\n~~~$", part, re.MULTILINE | re.DOTALL)
    text = re.sub(r"^~~~(thought|bash)\n.*?\n~~~$", "", part, flags=re.MULTILINE | re.DOTALL)
    return Step(
        text=text.strip(),
        thought="\n\n".join(block for kind, block in blocks if kind == "thought"),
        calls=[Call("bash", {"command": block}) for kind, block in blocks if kind == "bash"],
    )


def prepare(repository: str, revision: str) -> None:
    """The clone with an environment for its tests, and mini-swe-agent in one of its own."""
    if ROOT == CLONE:
        sys.exit(f"error: {CLONE} is where the session's clone goes: record from a repository that lies elsewhere")
    uv = str(ROOT / "scripts" / "uv")
    shutil.rmtree(CLONE, ignore_errors=True)
    run("git", "clone", "--quiet", repository, str(CLONE))
    run("git", "checkout", "--quiet", "-B", "main", revision, cwd=CLONE)
    run("git", "remote", "remove", "origin", cwd=CLONE)
    for folder in (WORK / "home", WORK / "tmp"):  # empty, as on a new machine
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    # Tracebacks show where Python's own modules lie: through a link, in a folder that says nothing either.
    link = WORK / "python"
    link.unlink(missing_ok=True)
    link.symlink_to(sys.base_prefix)
    python = str(link / "bin" / "python{}.{}".format(*sys.version_info))
    run(python, "-m", "venv", "--without-pip", str(CLONE / ".venv"))
    run(uv, "sync", "--quiet", "--locked", cwd=CLONE)
    if not (WORK / "mini" / "bin" / "mini").exists():
        run(uv, "venv", "--quiet", "--clear", "--no-project", "--python", python, str(WORK / "mini"))
        run(uv, "pip", "install", "--quiet", "--python", str(WORK / "mini"), MINI)


def run(*command: str, cwd: Path = ROOT) -> None:
    ours = {"VIRTUAL_ENV", "UV_PROJECT_ENVIRONMENT"}
    environment = {name: value for name, value in os.environ.items() if name not in ours}
    subprocess.run(command, cwd=cwd, env=environment, check=True)


def run_mini(task: str, server: dict[str, str]) -> Path:
    """Runs the session; returns the trajectory as mini-swe-agent wrote it."""
    raw = WORK / "raw.traj.json"
    mini = str(WORK / "mini" / "bin" / "mini")
    command = [mini, "-c", "mini.yaml", "-c", "environment.timeout=120"]  # it is 30 seconds; a machine may be busy
    command += ["--model-class", "litellm", "-m", MODEL, "-t", task, "-y", "--exit-immediately", "-o", str(raw)]
    with (WORK / "mini.log").open("wb") as log:
        subprocess.run(
            command,
            cwd=CLONE,
            env={**ENVIRONMENT, **server},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            check=True,
        )
    return raw


def tidied(session: dict[str, Any]) -> dict[str, Any]:
    """The session without what differs from run to run and what it says twice.

    Removed: times, the path of the output file, and under `extra` the copies of the calls (`actions`), of the
    reply (`response.choices`) and of the result before it was put into its message (`raw_output`). Messages, usage
    and everything else stay as they are."""
    del session["info"]["config"]["agent"]["output_path"]
    for message in session["messages"]:
        extra = message.get("extra", {})
        for key in ("timestamp", "actions", "raw_output"):
            extra.pop(key, None)
        if "response" in extra:
            extra["response"] = {key: extra["response"][key] for key in ("id", "model", "object", "usage")}
    return session


def found_in(text: str) -> list[str]:
    """What a published session must not hold: this machine's name and folders."""
    names = {str(Path.home()), str(ROOT), platform.node()} - {"", "/", "localhost"}
    return [name for name in sorted(names) if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text)]


if __name__ == "__main__":
    sys.exit(main())

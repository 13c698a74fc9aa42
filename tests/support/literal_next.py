"""An author who does what ``next`` says, as it is printed, from nothing to a closed session."""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from client_calls import call_and_wait

from kernelkb.safety.paths import shipped_folder

FIRST = "kb session show --brief"
LAST = "kb session close"
CLOSE = "session(action='close')"
_MAX_COMMANDS = 14
_CALL = re.compile(r"\b[a-z_]+\([a-z_]*=?.*\)", re.DOTALL)
_CHANGE = re.compile(r"^change one thing.* in (?P<file>\S+)(?: at line (?P<line>\d+) \(|$)")
_LABELLED = re.compile(r"^(?:next|then|change): (.+)$", re.MULTILINE)
_NUMBERED = re.compile(r"^  \d+\. (.+)$", re.MULTILINE)
_EDIT = re.compile(r"^(?:change one thing, [a-z0-9-]+, in )?(?P<file>\S+) at line (?P<line>\d+) \(")
_PLACEHOLDER = re.compile(r"\.\.\.|[{}<>]|\b(?:KERNEL|FILE|ID|NAME|GOAL)\b")


def keep_only(project, kernel, target="cpu", workload=None):
    """Copy a shipped kernel with its first variant alone; return the source of the best one."""
    folder = project / "kernels" / kernel
    shutil.copytree(Path(shipped_folder("kernels")) / kernel, folder)
    path = folder / "kernel.yaml"
    head, entries = path.read_text().split("\nvariants:\n")
    rows = [f"  - id: {row}" for row in entries.split("  - id: ")[1:]]
    own = [row for row in rows if f"target: {target}" in row]
    if workload:
        head = re.sub(r"default_workload: .*", f"default_workload: {{{target}: {workload}}}", head)
    path.write_text(f"{head}\nvariants:\n{own[0]}")
    names = [re.search(r"source: (\S+)", row)[1] for row in own]
    return (folder / names[-1]).read_text()


def list_steps(output):
    """Return what an output says comes next: the numbered steps, or else the labelled lines."""
    _, found, tail = output.rpartition("\nNext\n")
    return _NUMBERED.findall(tail) if found else _LABELLED.findall(output)


def run_shell(command, project):
    """Run a command in a shell, as printed, with this environment's ``kb``; return its output."""
    folders = [str(Path(sys.executable).parent), os.environ["PATH"]]
    env = {**os.environ, "PATH": os.pathsep.join(folders), "KB_BUDGET": "0.5"}
    done = subprocess.run(  # a shell, as an author has one
        ["/bin/sh", "-c", command],
        cwd=project,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def follow(project, edit):
    """Follow ``next`` until the session is closed; return the commands that were run.

    Args:
        project: The project.
        edit: Called with the path of the file to change.
    """
    ran, steps = [], [FIRST]
    while ran[-1:] != [LAST]:
        assert steps, f"nothing comes after {ran[-1]}"
        output = None
        for step in steps:
            if step.startswith("kb "):
                assert not _PLACEHOLDER.search(step), step
                assert len(ran) < _MAX_COMMANDS, ran
                ran.append(step)
                output = run_shell(step, project)
            elif place := _EDIT.match(step):
                path = project / place["file"]
                assert 0 < int(place["line"]) <= len(path.read_text().splitlines())
                edit(path)
        assert output is not None, steps
        steps = list_steps(output)
    return ran


def parse_call(step):
    """Return the tool and the arguments of a step; None of a sentence, which holds no call."""
    try:
        call = ast.parse(step, mode="eval").body
        return call.func.id, {one.arg: ast.literal_eval(one.value) for one in call.keywords}
    except (SyntaxError, AttributeError, ValueError):
        assert not _CALL.search(step), f"a call that cannot be made as it is: {step}"
        return None


def check_steps(steps, schemas):
    """Return the calls of an answer's ``next``; each can be made as it is written.

    Args:
        steps: The answer's ``next``.
        schemas: Of the arguments, by tool.
    """
    calls = [found for step in steps if (found := parse_call(step)) is not None]
    for name, arguments in calls:
        schema = schemas[name]
        assert ... not in arguments.values(), (name, arguments)
        assert set(schema.get("required", ())) <= arguments.keys() <= schema["properties"].keys()
    return calls


async def follow_calls(client, kernel, edit):
    """Do as ``follow`` over MCP: each call in ``next`` is made as it is written, in its order.

    Args:
        client: Of a server in the project.
        kernel: The kernel's name.
        edit: Called with the path of the file to change, relative to the project.
    """
    schemas = {tool.name: tool.input_schema for tool in (await client.list_tools()).tools}
    made, steps = [], [f"session(kernel={kernel!r}, goal='make it faster')"]
    while made[-1:] != [CLOSE]:
        answer = None
        check_steps(steps, schemas)
        for step in steps:
            if place := _CHANGE.search(step):
                edit(place["file"], place["line"])
            elif call := parse_call(step):
                assert len(made) < _MAX_COMMANDS, made
                made.append(step)
                answer = await call_and_wait(client, *call)
        assert answer is not None, steps
        steps = answer["next"]
    return made

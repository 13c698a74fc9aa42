"""Writes a step that the engine advises as the tool call that does it."""

from __future__ import annotations

from collections.abc import Collection

from kernelkb.errors import NextStep

_TOOL_FOR_VERB = {
    "bench": "bench_kernel",
    "best": "bench_kernel",
    "build": "build_kernel",
    "env": "read_entry",
    "history": "bench_kernel",
    "init": "build_kernel",
    "log": "read_entry",
    "profile": "profile_kernel",
    "recommend": "recommend_fix",
    "restore": "build_kernel",
    "session close": "session",
    "session list": "session",
    "session new": "session",
    "session show": "session",
    "show": "read_entry",
    "triage": "profile_kernel",
    "tune": "tune_kernel",
    "variant add": "build_kernel",
}
"""The tool that does what a command of ``kb`` does; ``best`` and ``history`` have
none, so a new record helps; of sessions the open one is named."""
_CALL_FOR_COMMAND = {
    "kb bench": "bench_kernel(kernel=...)",
    "kb build": "build_kernel(kernel=...)",
    "kb compare": "read_entry(id='A..B')",
    "kb diagnose": "recommend_fix(log=...)",
    "kb lab diff": "read_entry(id='attempts/A..B')",
    "kb env": "read_entry(id='environment')",
    "kb init": "build_kernel(kernel=..., file=...)",
    "kb log": "read_entry(id='attempts/KERNEL')",
    "kb occupancy": "calculate_limits(gpu=..., threads=..., registers=...)",
    "kb profile": "profile_kernel(kernel=...)",
    "kb recommend": "recommend_fix(speedup=...)",
    "kb lab restore": "build_kernel(kernel=..., restore='best')",
    "kb roofline": "calculate_limits(gpu=..., bytes=..., flop=...)",
    "kb search": "search_knowledge(query=...)",
    "kb session": "session(goal=...)",
    "kb show": "read_entry(id=...)",
    "kb tune": "tune_kernel(kernel=...)",
    "kb variant": "build_kernel(kernel=..., variant=..., add_from=...)",
}
"""The call that does what a command of ``kb`` does; the others are of the shell alone."""
_TOOL_ARGUMENTS = {
    "action",
    "add_from",
    "against",
    "arch",
    "change",
    "file",
    "goal",
    "id",
    "kernel",
    "kind",
    "restore",
    "run",
    "target",
    "variant",
    "workload",
}
_EFFECT_FOR_VERB = {
    "best": "records one",
    "history": "records one",
    "session list": "says where work stands and how to begin",
}


def format_call_for_command(command: str) -> str:
    """Return the tool call that does what a command such as ``kb compare`` does, or its help."""
    return _CALL_FOR_COMMAND.get(command, f"in a shell: {command} --help")


def format_next_call(step: NextStep) -> str:
    """Return a tool call and its effect; the shell command where no tool does the same.

    An argument that only the caller knows is written as ``...``.
    """
    call = format_call(step)
    if call is None:
        return step.as_command()
    return f"{call} {_EFFECT_FOR_VERB.get(step.verb, step.effect)}"


def format_call(step: NextStep) -> str | None:
    """Return the tool call alone; None where no tool does the same."""
    tool = _TOOL_FOR_VERB.get(step.verb)
    given = _rename_arguments(step)
    if tool is None or not given.keys() <= _TOOL_ARGUMENTS:
        return None
    arguments = ", ".join(
        f"{'id' if name == 'kind' else name}={'...' if value is None else repr(value)}"
        for name, value in given.items()
    )
    return f"{tool}({arguments})"


def format_step(step: NextStep) -> str:
    """Return the exact call alone; what to type in a shell where no tool does the same."""
    return format_call(step) or f"in a shell: {step.as_shell_words()}"


def format_offered_call(step: NextStep, tools: Collection[str]) -> str | None:
    """Return the exact call of a tool that is offered; None where none of them does the same.

    Args:
        step: A command without arguments that only the caller knows.
        tools: Names of the offered tools.
    """
    call = format_call(step)
    return call if call is not None and call.partition("(")[0] in tools else None


def _rename_arguments(step: NextStep) -> dict[str, str | None]:
    """Return the arguments of the tool."""
    given = dict(step.arguments)
    if step.verb in ("best", "history"):
        return {"kernel": given.get("kernel")}
    if step.verb == "env":
        return {"id": "/".join(("environment", *filter(None, (given.get("target"),))))}
    if step.verb == "log":
        return {"id": f"attempts/{given.get('kernel') or '...'}"}
    if step.verb == "restore" and "best" in given:
        return {"kernel": given["best"], "restore": "best"}
    if step.verb == "variant add":
        return {{"name": "variant", "from": "add_from"}.get(k, k): v for k, v in given.items()}
    if step.verb == "session show":
        return {name: value for name, value in given.items() if name != "brief"}
    if step.verb == "session new":
        return {name: value for name, value in given.items() if name != "id"}
    if step.verb == "session close":
        return {"action": "close", **given}
    return given

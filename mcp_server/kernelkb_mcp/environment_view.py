"""Reads this machine for read_entry: what it can build and measure."""

from __future__ import annotations

from collections.abc import Collection
from typing import cast, get_args

from mcp.server.mcpserver.exceptions import ToolError

from kernelkb_mcp.entry_view import EntryView

PREFIX = "environment"
"""The id of ``read_entry``; a target may follow behind a slash."""


def names_environment(name: str) -> bool:
    """Return whether an id of ``read_entry`` names this machine."""
    return name.partition("/")[0] == PREFIX


def load_environment_view(name: str, tools: Collection[str]) -> EntryView:
    """Inspect this machine, as ``kb env`` does; takes seconds.

    Args:
        name: ``environment``, ``environment/cpu`` or ``environment/cuda``.
        tools: Names of the offered tools.

    Raises:
        ToolError: There is no such target, or this server measures nothing.
    """
    from kernelkb.actions.project.bench_target import get_project_path, validate_machine
    from kernelkb.actions.sessions.follow_steps import choose_subject_kernel
    from kernelkb.measure.machine.environment import TargetChoice
    from kernelkb.render.text.measurements import describe_environment

    target = name.partition("/")[2] or "auto"
    if target not in get_args(TargetChoice):
        raise ToolError(f"no target {target!r}; {PREFIX}, {PREFIX}/cpu or {PREFIX}/cuda")
    if "build_kernel" not in tools:
        raise ToolError("this server builds and measures nothing; start it without --read-only")
    found = validate_machine(cast("TargetChoice", target), fresh=True)
    broken = next((line for line in found.lines if line.status == "failure"), None)
    follow = (
        (f"bench_kernel(kernel={choose_subject_kernel(get_project_path())!r})",)
        if broken is None
        else (broken.cure or broken.found,)
    )
    return EntryView(found.model_dump(mode="json"), describe_environment(found), follow)

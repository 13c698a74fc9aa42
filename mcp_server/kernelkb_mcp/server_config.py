"""Server configuration: fixed at start, so that the list of tools never changes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

TOOLSETS = {
    "knowledge": ("search_knowledge", "read_entry", "recommend_fix", "calculate_limits"),
    "measure": ("build_kernel", "bench_kernel", "profile_kernel", "tune_kernel", "job"),
    "sessions": ("session",),
}
"""Tools by toolset, in the order in which clients list them."""


@dataclass(frozen=True)
class ServerConfig:
    """Toolsets, access and limits of one server."""

    toolsets: tuple[str, ...] = tuple(TOOLSETS)
    read_only: bool = False
    """Offer only the knowledge toolset and write nothing; overrides ``toolsets``."""
    run_programs: bool = False
    """Whether ``profile_kernel`` runs any command, unconfined."""
    inline_s: float = 45.0
    """Seconds that a call waits for its work before it returns a job handle."""
    workspace: tuple[Path, ...] = ()
    """Folders outside of which nothing is read, built or run; empty: the project."""

    @property
    def tool_names(self) -> tuple[str, ...]:
        """Names of the offered tools, in order."""
        chosen = ("knowledge",) if self.read_only else self.toolsets
        return tuple(tool for name, tools in TOOLSETS.items() if name in chosen for tool in tools)


def enter_workspace(config: ServerConfig) -> None:
    """Confine this process to its workspace; change into it if started outside.

    Clients start servers in arbitrary folders, even in ``/``.
    """
    from kernelkb.safety.paths import project_root
    from kernelkb.safety.workspace import set_workspace

    folders = [str(folder) for folder in config.workspace] or [project_root()]
    here = os.path.realpath(project_root())
    if not any(Path(here).is_relative_to(folder) for folder in folders):
        os.chdir(folders[0])
    set_workspace(folders, can_write=not config.read_only)

"""What a server is started with: fixed for its life, so that its list of tools never changes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

TOOLSETS = {
    "knowledge": ("search_knowledge", "read_entry", "recommend_fix"),
    "measure": (
        "check_environment",
        "build_kernel",
        "bench_kernel",
        "profile_kernel",
        "job",
    ),
    "sessions": ("log_session",),
}
"""The tools of each set, in the order in which a client sees them."""


@dataclass(frozen=True)
class ServerConfig:
    """What the command line asked for."""

    toolsets: tuple[str, ...] = tuple(TOOLSETS)
    read_only: bool = False
    """Only the knowledge set, and nothing is written, whatever ``toolsets`` says."""
    inline_s: float = 45.0
    """How long a call waits for its work before it returns a handle."""
    workspace: tuple[Path, ...] = ()
    """Folders outside of which nothing is read, built or run; the project, where there is none."""

    @property
    def tool_names(self) -> tuple[str, ...]:
        """Names of the tools on offer, in order."""
        chosen = ("knowledge",) if self.read_only else self.toolsets
        return tuple(tool for name, tools in TOOLSETS.items() if name in chosen for tool in tools)


def enter_workspace(config: ServerConfig) -> None:
    """Keep this process to its workspace, and go there where it was started elsewhere.

    Clients start servers in all kinds of folders; a whole file system is no project.
    """
    from kernelkb.safety.paths import project_root
    from kernelkb.safety.workspace import set_workspace

    folders = [str(folder) for folder in config.workspace] or [project_root()]
    here = os.path.realpath(project_root())
    if not any(Path(here).is_relative_to(folder) for folder in folders):
        os.chdir(folders[0])
    set_workspace(folders, can_write=not config.read_only)

"""Finds the machine code of a build: of a library, or of what Triton compiled when it ran."""

from __future__ import annotations

from pathlib import Path

from kernelkb.model.records.measurement import Build

_MAX_CUBINS = 4
"""Files that are read of a folder, the newest: disassembling each takes most of a second."""


def find_machine_code(build: Build) -> list[Path]:
    """Return the files with a build's machine code; empty before Triton ran.

    Triton and inductor compile for each configuration and shape that is called, so that a folder
    may hold several cubins of one kernel; all of them come from the source as it is.
    """
    if build.library is not None:
        return [Path(build.library)]
    if build.target != "cuda":
        return []
    cubins = [
        path
        for path in Path(build.directory).rglob("*.cubin")
        if path.is_file() and not path.is_symlink()
    ]
    return sorted(cubins, key=lambda path: -path.stat().st_mtime_ns)[:_MAX_CUBINS]

"""Run a compiler where it reads only what compiling takes: ``#include "/etc/passwd"`` fails.

Run as a file, by our own interpreter: ``compiler_sandbox.py POLICY.json PROGRAM
ARGUMENT…``. The policy is ``{"read": [folder…], "write": [folder…]}``. Where
the kernel has no Landlock the compiler runs all the same; ``kb env`` says so, and includes
that a text search finds are refused before.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

_SYSTEM_PATHS = (
    *("/usr", "/lib", "/lib32", "/lib64", "/libx32", "/bin", "/sbin", "/opt", "/nix/store"),
    *("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ld.so.preload"),
    *("/etc/alternatives", "/etc/localtime", "/etc/nsswitch.conf", "/dev/urandom", "/dev/zero"),
    *("/proc/cpuinfo", "/proc/meminfo", "/proc/loadavg", "/proc/stat", "/proc/filesystems"),
    *("/sys/devices/system/cpu", "/sys/fs/cgroup", "/gnu/store"),
)


def sandbox_command(
    argv: Sequence[str], folder: Path, read_paths: Iterable[str | Path]
) -> list[str]:
    """Return the command that runs ``argv`` behind the fence; itself where there is no workspace.

    Args:
        argv: A program that compiles, or that starts what does.
        folder: Where it writes, temporary files too.
        read_paths: What it reads besides the system and the workspace: toolkits, headers of
            packages.
    """
    from kernelkb.safety.workspace import list_readable_folders, resolve_inside

    allowed = list_readable_folders()
    if allowed is None:
        return list(argv)
    tools = [sys.prefix, sys.base_prefix, os.path.dirname(os.path.realpath(argv[0]))]  # noqa: PTH120
    read = [*_SYSTEM_PATHS, *allowed, *tools, *map(str, read_paths)]
    policy = {"read": sorted(set(read)), "write": [resolve_inside(folder, to_write=True)]}
    return [sys.executable, "-P", os.path.abspath(__file__), json.dumps(policy), *argv]  # noqa: PTH100


def main(argv: list[str]) -> None:
    """Put up the fence and become the program."""
    policy = json.loads(argv[1])
    _apply_landlock(policy["read"], policy["write"])
    os.execv(argv[2], argv[2:])  # noqa: S606 there is no shell, and the program is ours


def _apply_landlock(read_paths: Sequence[str], write_paths: Sequence[str]) -> None:
    """Put up the fence where there can be one; one that is built wrong is an error, no gap."""
    try:
        from py_landlock import AccessFs, Landlock, LandlockDisabledError, LandlockNotAvailableError
    except ImportError:
        return
    there = [place for place in map(Path, read_paths) if place.exists()]
    files = [place for place in there if not place.is_dir()]
    try:
        rules = Landlock(strict=False)
        for folders in ([place for place in there if place.is_dir()], write_paths):
            rules = rules.allow_read(*folders).allow_execute(*folders)
        rules = rules.allow_write(*write_paths).add_path_rule(*write_paths, access=AccessFs.REFER)
        rules = rules.add_path_rule(*files, access=AccessFs.READ_FILE)
        use = AccessFs.READ_FILE | AccessFs.WRITE_FILE
        rules.add_path_rule("/dev/null", access=use).apply()
    except (LandlockDisabledError, LandlockNotAvailableError):
        return


if __name__ == "__main__":
    main(sys.argv)

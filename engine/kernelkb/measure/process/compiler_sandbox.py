"""Restrict which files a compiler reads (Landlock), so that ``#include "/etc/passwd"`` fails.

Run as a file, by our own interpreter: ``compiler_sandbox.py POLICY PROGRAM ARGUMENT…``. The policy
is JSON: ``{"read": [path…], "write": [folder…]}``. Where the kernel has no Landlock the compiler
runs without it; ``kb env`` reports that, and includes of forbidden files that a text search finds
are refused before the compiler starts.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

_SYSTEM_READ_PATHS = (
    *("/usr", "/lib", "/lib32", "/lib64", "/libx32", "/bin", "/sbin", "/opt", "/nix/store"),
    *("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ld.so.preload"),
    *("/etc/alternatives", "/etc/localtime", "/etc/nsswitch.conf", "/dev/urandom", "/dev/zero"),
    *("/proc/cpuinfo", "/proc/meminfo", "/proc/loadavg", "/proc/stat", "/proc/filesystems"),
    *("/sys/devices/system/cpu", "/sys/fs/cgroup", "/gnu/store"),
)
"""Compilers, headers, libraries, and what ninja and gcc read to size their jobs and caches."""


def sandbox_command(
    argv: Sequence[str], folder: Path, read_paths: Iterable[str | Path]
) -> list[str]:
    """Return the command that runs ``argv`` in the sandbox; ``argv`` itself without a workspace.

    Args:
        argv: A compiler, or a program that starts compilers.
        folder: The only folder that it may write, temporary files included.
        read_paths: Files and folders that it may read besides the system's and the workspace:
            toolkits, headers of packages.
    """
    from kernelkb.safety.workspace import list_readable_folders, resolve_inside

    allowed = list_readable_folders()
    if allowed is None:
        return list(argv)
    tools = [sys.prefix, sys.base_prefix, os.path.dirname(os.path.realpath(argv[0]))]  # noqa: PTH120
    read = [*_SYSTEM_READ_PATHS, *allowed, *tools, *map(str, read_paths)]
    policy = {"read": sorted(set(read)), "write": [resolve_inside(folder, to_write=True)]}
    return [sys.executable, "-P", os.path.abspath(__file__), json.dumps(policy), *argv]  # noqa: PTH100


def main(argv: list[str]) -> None:
    """Apply the policy ``argv[1]`` to this process, then exec the program ``argv[2:]``."""
    policy = json.loads(argv[1])
    _apply_landlock(policy["read"], policy["write"])
    os.execv(argv[2], argv[2:])  # noqa: S606 there is no shell, and the program is ours


def _apply_landlock(read_paths: Sequence[str], write_paths: Sequence[str]) -> None:
    """Restrict this process; only a kernel or package without Landlock is passed over."""
    try:
        from py_landlock import AccessFs, Landlock, LandlockDisabledError, LandlockNotAvailableError
    except ImportError:
        return
    existing = [path for path in map(Path, read_paths) if path.exists()]
    files = [path for path in existing if not path.is_dir()]
    try:
        rules = Landlock(strict=False)
        for folders in ([path for path in existing if path.is_dir()], write_paths):
            rules = rules.allow_read(*folders).allow_execute(*folders)
        rules = rules.allow_write(*write_paths).add_path_rule(*write_paths, access=AccessFs.REFER)
        rules = rules.add_path_rule(*files, access=AccessFs.READ_FILE)
        access = AccessFs.READ_FILE | AccessFs.WRITE_FILE
        rules.add_path_rule("/dev/null", access=access).apply()
    except (LandlockDisabledError, LandlockNotAvailableError):
        return


if __name__ == "__main__":
    main(sys.argv)

"""Limits on what one compiler may write and map, so that a source cannot fill disk or memory."""

from __future__ import annotations

import os
import re
import resource

MAX_FILE_BYTES = 2**30
"""Largest file that a compiler may write: objects of large template libraries take a tenth."""
_MIN_ADDRESS_BYTES = 32 * 2**30
"""Address space that every compiler gets; nvcc's largest passes take about a third."""
_ADDRESS_BYTES_PER_CORE = 2**28
"""For the threads of ``nvcc --split-compile``: a stack, and an arena of malloc."""
_EXCEEDED = re.compile(r"file size limit exceeded|file too large", re.IGNORECASE)
_NO_MEMORY = re.compile(
    r"out of memory|cannot allocate memory|virtual memory exhausted|bad_alloc|memory exhausted",
    re.IGNORECASE,
)
_FROM_A_TOOL = re.compile(
    r"(?:[\w./+-]+|\{standard input\}): |nvcc (?:error|fatal)|LLVM ERROR|virtual memory"
    r"|terminate called",
    re.IGNORECASE,
)
"""Begins a line of a compiler about itself; lines about a source have a number after its name."""


def limit_command() -> str:
    """Return the beginning of a shell command that limits the compiler that it then runs.

    POSIX counts files in blocks of 512 bytes; the address space is in KiB in every shell.
    """
    cores = os.cpu_count() or 1
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    address = max(_MIN_ADDRESS_BYTES, memory) + cores * _ADDRESS_BYTES_PER_CORE
    limits = (
        (resource.RLIMIT_FSIZE, f"ulimit -f {MAX_FILE_BYTES // 512} && ", MAX_FILE_BYTES),
        (resource.RLIMIT_AS, f"ulimit -v {address // 1024} && ", address),
    )
    return "".join(command for which, command, size in limits if not _is_lower(which, size))


def _is_lower(which: int, size: int) -> bool:
    """Return whether this process's own limit is lower than ``size`` bytes."""
    soft, _ = resource.getrlimit(which)
    return soft != resource.RLIM_INFINITY and soft <= size


def describe_exceeded_limit(output: str) -> str | None:
    """Return which limit ended a compiler, by its output; None where none did."""
    lines = "\n".join(line for line in output.splitlines() if _FROM_A_TOOL.match(line))
    if _EXCEEDED.search(lines):
        return (
            f"error: the compiler's output is larger than {MAX_FILE_BYTES // 2**30} GiB; "
            "fill large arrays at run time"
        )
    if _NO_MEMORY.search(lines):
        return "error: the compiler ran out of memory; split the source, or use a smaller array"
    return None

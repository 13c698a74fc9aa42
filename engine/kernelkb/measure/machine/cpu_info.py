"""The CPU: title, cores that we may use, last-level cache, SIMD lanes."""

from __future__ import annotations

import os
import platform
import re
from functools import cache
from pathlib import Path

_DEFAULT_CACHE_BYTES = 32 * 2**20
"""Assumed where sysfs lists no caches, as in some virtual machines."""
_VECTOR_BITS = (("avx512f", 512), ("avx2", 256), ("avx", 256), ("asimd", 128), ("sse2", 128))
"""Flag in /proc/cpuinfo → bits of a vector register, widest first."""


def core_count() -> int:
    """Return how many cores this process may use: its affinity, capped by the cgroup's quota."""
    allowed = len(os.sched_getaffinity(0))
    quota = _read_cpu_quota(Path("/sys/fs/cgroup/cpu.max"))
    return max(1, min(allowed, quota) if quota else allowed)


def _read_cpu_quota(path: Path) -> int | None:
    try:
        limit, period = path.read_text(encoding="ascii").split()
        return max(1, int(limit) // int(period))
    except (OSError, ValueError):
        return None  # no cgroup v2, or no limit ("max")


@cache
def cpu_title() -> str:
    """Return the CPU's model name."""
    names = re.findall(r"^model name\s*:\s*(.+)$", _read_cpuinfo(), re.MULTILINE)
    return names[0].strip() if names else platform.machine()


@cache
def simd_lanes() -> int:
    """Return the fp32 lanes of the widest vector registers; 1 without any."""
    flags = set(re.findall(r"^(?:flags|Features)\s*:\s*(.+)$", _read_cpuinfo(), re.MULTILINE)[:1])
    words = set(" ".join(flags).split())
    return next((bits // 32 for flag, bits in _VECTOR_BITS if flag in words), 1)


@cache
def cache_bytes() -> int:
    """Return the last-level cache of the cores that we may use, bytes, summed over instances."""
    caches: dict[tuple[int, str], int] = {}
    for cpu in os.sched_getaffinity(0):
        for index in Path(f"/sys/devices/system/cpu/cpu{cpu}/cache").glob("index*"):
            try:
                level = int((index / "level").read_text(encoding="ascii"))
                shared = (index / "shared_cpu_list").read_text(encoding="ascii").strip()
                size = (index / "size").read_text(encoding="ascii").strip()
            except (OSError, ValueError):
                continue
            caches[level, shared] = _parse_cache_size(size)
    last_level = max((level for level, _ in caches), default=0)
    return (
        sum(size for (level, _), size in caches.items() if level == last_level)
        or _DEFAULT_CACHE_BYTES
    )


def _parse_cache_size(size: str) -> int:
    units = {"K": 2**10, "M": 2**20, "G": 2**30}
    return int(size.rstrip("KMG")) * units.get(size[-1], 1)


def _read_cpuinfo() -> str:
    try:
        return Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""

"""The host: its CPU, the memory that is free, and the compilers and CUDA programs that it has."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from kernelkb.model.base import Target
from kernelkb.units import format_size

_DEFAULT_CACHE_BYTES = 32 * 2**20
"""Assumed where sysfs lists no caches, as in some virtual machines."""
_VECTOR_BITS = (("avx512f", 512), ("avx2", 256), ("avx", 256), ("asimd", 128), ("sse2", 128))
"""Flag in /proc/cpuinfo → bits of a vector register, widest first."""

_PROC = Path("/proc")
_CGROUPS = Path("/sys/fs/cgroup")
_FALLBACK_BYTES = 4 * 2**30
_LOW_SHARE = 0.1


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


class HostMemory(NamedTuple):
    """Memory that this process and its children may use, bytes."""

    available: int
    """What new allocations can take without swapping."""
    total: int
    """Of the machine, or of the cgroup where that limits more."""


def read_host_memory(proc: Path = _PROC, cgroups: Path = _CGROUPS) -> HostMemory:
    """Return the memory of the machine, or of the cgroup with the least left.

    Args:
        proc: Where procfs is mounted.
        cgroups: Where the cgroups are mounted, version 2 or 1.
    """
    lines = _read_text(proc / "meminfo").splitlines()
    sizes = {name: text.split() for name, _, text in (line.partition(":") for line in lines)}
    total = _to_bytes(sizes.get("MemTotal"))
    available = _to_bytes(sizes.get("MemAvailable"))
    found = [HostMemory(available, total)] if available is not None and total else []
    found += _list_cgroup_memory(proc, cgroups)
    return min(found, default=HostMemory(_FALLBACK_BYTES, _FALLBACK_BYTES))


def find_free_bytes(target: Target) -> int | None:
    """Return what a measurement's arrays may take, bytes; None: the GPU is to be asked."""
    return read_host_memory().available if target == "cpu" else None


def describe_low_memory(memory: HostMemory) -> tuple[str, ...]:
    """Return a warning where less than a tenth of the memory is available, else none."""
    if memory.available >= _LOW_SHARE * memory.total:
        return ()
    return (
        f"{format_size(memory.available)} of {format_size(memory.total)} of memory were available "
        "at the start: times may include swapping; end other processes and measure again",
    )


def _to_bytes(words: list[str] | None) -> int | None:
    return int(words[0]) * 1024 if words and words[0].isdigit() else None


def _list_cgroup_memory(proc: Path, cgroups: Path) -> Iterator[HostMemory]:
    """Yield the memory of each cgroup of this process that has a limit."""
    for line in _read_text(proc / "self" / "cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, name = rest.partition(":")
        if number == "0" and not controllers:
            names = ("memory.max", "memory.current", "inactive_file")
            yield from _list_group_memory(cgroups, name, names)
        elif "memory" in controllers.split(","):
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            yield from _list_group_memory(cgroups / "memory", name, names)


def _list_group_memory(root: Path, name: str, files: tuple[str, str, str]) -> Iterator[HostMemory]:
    """Yield the memory of a group and of those around it, as far as they have limits."""
    folder = root / name.strip("/")
    for group in (folder, *folder.parents):
        limit, used = (_read_text(group / file).strip() for file in files[:2])
        if limit.isdigit() and used.isdigit():
            reclaimable = _read_statistic(group / "memory.stat", files[2])
            yield HostMemory(max(0, int(limit) - int(used) + reclaimable), int(limit))
        if group == root:
            break


def _read_statistic(path: Path, name: str) -> int:
    pairs = (line.partition(" ") for line in _read_text(path).splitlines())
    return next((int(value) for key, _, value in pairs if key == name), 0)


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except (OSError, ValueError):
        return ""


def find_cxx() -> str | None:
    """Return the C++ compiler: CXX when it is set, else the first of c++, g++, clang++."""
    chosen = os.environ.get("CXX")
    names = (chosen,) if chosen else ("c++", "g++", "clang++")
    return next((path for name in names if (path := shutil.which(name))), None)


def find_nvcc() -> str | None:
    """Return nvcc: of CUDA_HOME when that is set, else of PATH, else of /usr/local/cuda."""
    home = os.environ.get("CUDA_HOME")
    if home:
        return shutil.which("nvcc", path=f"{home}/bin")
    return shutil.which("nvcc") or find_cuda_tool("nvcc")


def find_cuda_tool(name: str) -> str | None:
    """Return a program of the CUDA toolkit, such as ncu or compute-sanitizer."""
    return shutil.which(name) or shutil.which(name, path="/usr/local/cuda/bin")


def find_ninja() -> str | None:
    """Return ninja: of the Python package, else of PATH."""
    try:
        from ninja import BIN_DIR
    except ImportError:
        return shutil.which("ninja")
    return shutil.which("ninja", path=BIN_DIR) or shutil.which("ninja")


@cache
def query_version(program: str) -> str:
    """Return the line of a program's ``--version`` that holds the version."""
    done = subprocess.run(
        [program, "--version"], capture_output=True, text=True, timeout=30, check=False
    )
    lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    versions = [line for line in lines if "release" in line or line.startswith("Version")]
    return (versions or lines or ["no version given"])[0]

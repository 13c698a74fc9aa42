"""Free memory of the host: what Linux calls available, within the limits of the cgroups."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kernelkb.device_math.parse_size import format_size
from kernelkb.model.base import Target

_PROC = Path("/proc")
_CGROUPS = Path("/sys/fs/cgroup")
_FALLBACK_BYTES = 4 * 2**30
_LOW_SHARE = 0.1


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

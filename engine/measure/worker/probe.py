"""What torch says about this machine, and how fast the machine really copies."""

from __future__ import annotations

import ctypes
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch

Job = dict[str, Any]

_COPIES = 30
_CPU_BYTES = 256 * 2**20
_GPU_BYTES = 2**30


def probe(_job: Job, _folder: Path) -> Job:
    """Return versions, and the facts of the first GPU, or None without one."""
    return {
        "python": ".".join(map(str, sys.version_info[:3])),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "gpu": _gpu() if torch.cuda.is_available() else None,
    }


def _gpu() -> Job:
    properties = torch.cuda.get_device_properties(0)
    return {
        "name": properties.name,
        "cc": f"{properties.major}.{properties.minor}",
        "sm_count": properties.multi_processor_count,
        "l2_bytes": int(getattr(properties, "L2_cache_size", 0)),
        "memory_bytes": properties.total_memory,
    }


def peaks(job: Job, _folder: Path) -> Job:
    """Return ``{"copy_peak_gbps", "dispatch_us"}``, each measured here and now."""
    smallest = _empty_kernel_us if job["target"] == "cuda" else _dispatch_us
    return {"copy_peak_gbps": copy_gbps(job["target"]), "dispatch_us": smallest()}


def copy_gbps(target: str, copies: int = _COPIES) -> float:
    """Return the best of some large copies, bytes read plus bytes written, 1e9 per second."""
    return _gpu_copy(copies) if target == "cuda" else _cpu_copy(copies)


def _cpu_copy(copies: int) -> float:
    source = torch.ones(_CPU_BYTES // 4)
    goal = torch.zeros_like(source)
    goal.copy_(source)  # the first touch maps the pages
    best = min(_seconds(lambda: goal.copy_(source)) for _ in range(copies))
    return 2 * _CPU_BYTES / best / 1e9


def _gpu_copy(copies: int) -> float:
    source = torch.ones(_GPU_BYTES // 4, device="cuda")
    goal = torch.zeros_like(source)
    times: list[float] = []
    for _ in range(copies):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        goal.copy_(source)
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / 1e3)
    return 2 * _GPU_BYTES / min(times) / 1e9


def _empty_kernel_us() -> float:
    """Return the time of the smallest kernel in a CUDA graph: what no kernel can go below."""
    count = 200
    one = torch.zeros(1, device="cuda")
    one.add_(1)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(count):
            one.add_(1)
    times: list[float] = []
    for _ in range(9):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) * 1e3 / count)
    return statistics.median(times)


def _dispatch_us() -> float:
    """Return the time of a foreign call that does nothing, through the same ctypes path."""
    nothing = ctypes.CDLL(None).getppid
    nothing.restype = ctypes.c_int
    pointer, size = ctypes.c_void_p(0), ctypes.c_int64(0)
    calls = 2000

    def burst() -> None:
        for _ in range(calls):
            nothing(pointer, pointer, size, size, pointer)

    return min(_seconds(burst) for _ in range(5)) / calls * 1e6


def _seconds(work: Any) -> float:
    start = time.perf_counter_ns()
    work()
    return (time.perf_counter_ns() - start) / 1e9

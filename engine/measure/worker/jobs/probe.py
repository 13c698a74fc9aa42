"""What torch says about this machine, and how fast the machine really copies."""

from __future__ import annotations

import ctypes
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

Job = dict[str, Any]

_CPU_DTYPES = ("float32", "float64")
_COPY_COUNT = 30
_CPU_COPY_BYTES = 256 * 2**20
_GPU_COPY_BYTES = 2**30


def probe_torch(_job: Job, _folder: Path) -> Job:
    """Return versions, and the facts of the first GPU, or None without one."""
    return {
        "python": ".".join(map(str, sys.version_info[:3])),
        "torch": torch.__version__,
        "file": torch.version.__file__,
        "cuda": torch.version.cuda,
        "cxx11_abi": torch.compiled_with_cxx11_abi(),
        "gpu": _describe_gpu() if torch.cuda.is_available() else None,
    }


def _describe_gpu() -> Job:
    properties = torch.cuda.get_device_properties(0)
    return {
        "name": properties.name,
        "cc": f"{properties.major}.{properties.minor}",
        "sm_count": properties.multi_processor_count,
        "l2_bytes": int(getattr(properties, "L2_cache_size", 0)),
        "memory_bytes": properties.total_memory,
        "uuid": str(getattr(properties, "uuid", "")),
    }


def measure_peaks(job: Job, _folder: Path) -> Job:
    """Return what ``kernelkb.measure.machine.peaks.Peaks`` holds, each measured here and now."""
    target = job["target"]
    return {
        "copy_gbps": copy_gbps(target),
        "dispatch_us": _empty_kernel_us() if target == "cuda" else _dispatch_us(),
        "launch_us": _launch_us() if target == "cuda" else 0.0,
        "gemm_gflops": _gemm_gflops(target),
    }


def _gemm_gflops(target: str) -> dict[str, float]:
    """Return the rate of a large product of random matrices, by type; fp32 in its fastest mode."""
    size, types = (
        (8192, ("float32", "float16", "bfloat16")) if target == "cuda" else (1024, _CPU_DTYPES)
    )
    torch.set_float32_matmul_precision("high")
    found: dict[str, float] = {}
    for name in types:
        made = [torch.randn(size, size, device=target).to(getattr(torch, name)) for _ in range(2)]
        out = torch.mm(*made)
        work = partial(torch.mm, *made, out=out)
        best = min(_device_seconds(work, target) for _ in range(7))
        found[name] = 2 * size**3 / best / 1e9
    if target == "cuda":
        found["float64"] = found["float32"]  # no more than that, on any card
    return found


def _device_seconds(work: Callable[[], Any], target: str) -> float:
    if target == "cpu":
        return _wall_seconds(work)
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    work()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / 1e3


def _launch_us() -> float:
    one = torch.zeros(1, device="cuda")
    times: list[float] = []
    for _ in range(200):
        torch.cuda.synchronize()
        start = time.perf_counter_ns()
        one.add_(1)
        torch.cuda.synchronize()
        times.append((time.perf_counter_ns() - start) / 1e3)
    return statistics.median(times)


def copy_gbps(target: str, copies: int = _COPY_COUNT) -> float:
    """Return the best of some large copies, bytes read plus bytes written, 1e9 per second."""
    return _gpu_copy_gbps(copies) if target == "cuda" else _cpu_copy_gbps(copies)


def _cpu_copy_gbps(copies: int) -> float:
    source = torch.ones(_CPU_COPY_BYTES // 4)
    goal = torch.zeros_like(source)
    goal.copy_(source)  # the first touch maps the pages
    best = min(_wall_seconds(lambda: goal.copy_(source)) for _ in range(copies))
    return 2 * _CPU_COPY_BYTES / best / 1e9


def _gpu_copy_gbps(copies: int) -> float:
    source = torch.ones(_GPU_COPY_BYTES // 4, device="cuda")
    goal = torch.zeros_like(source)
    times: list[float] = []
    for _ in range(copies):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        goal.copy_(source)
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / 1e3)
    return 2 * _GPU_COPY_BYTES / min(times) / 1e9


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

    return min(_wall_seconds(burst) for _ in range(5)) / calls * 1e6


def _wall_seconds(work: Any) -> float:
    start = time.perf_counter_ns()
    work()
    return (time.perf_counter_ns() - start) / 1e9

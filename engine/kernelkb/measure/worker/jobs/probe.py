"""Probes the machine through torch: versions, the GPU, and measured peak rates."""

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

from kernelkb.measure.worker.shared.messages.jobs import (
    GpuInfo,
    PeaksJob,
    PeaksResult,
    ProbeJob,
    ProbeResult,
)
from kernelkb.measure.worker.shared.messages.specs import Target

_CPU_GEMM_SIZE, _CPU_DTYPES = 1024, ("float32", "float64")
_GPU_GEMM_SIZE, _GPU_DTYPES = 8192, ("float32", "float16", "bfloat16")
_GEMM_COUNT = 7
_COPY_COUNT = 30
_CPU_COPY_BYTES = 256 * 2**20
_GPU_COPY_BYTES = 2**30
_LAUNCH_COUNT = 200
_GRAPH_NODES = 200
_GRAPH_REPLAYS = 9
_DISPATCH_CALLS = 2000
_DISPATCH_REPEATS = 5


def probe_torch(_job: ProbeJob, _folder: Path) -> ProbeResult:
    """Return versions, and the properties of the first GPU."""
    return {
        "python": ".".join(map(str, sys.version_info[:3])),
        "torch": torch.__version__,
        "file": torch.version.__file__,
        "cuda": torch.version.cuda,
        "cxx11_abi": torch.compiled_with_cxx11_abi(),
        "gpu": _describe_gpu() if torch.cuda.is_available() else None,
    }


def _describe_gpu() -> GpuInfo:
    properties = torch.cuda.get_device_properties(0)
    return {
        "name": properties.name,
        "cc": f"{properties.major}.{properties.minor}",
        "sm_count": properties.multi_processor_count,
        "l2_bytes": int(getattr(properties, "L2_cache_size", 0)),
        "memory_bytes": properties.total_memory,
        "uuid": str(getattr(properties, "uuid", "")),
    }


def measure_peaks(job: PeaksJob, _folder: Path) -> PeaksResult:
    """Measure the peak rates of ``kernelkb.measure.machine.torch_info.Peaks``."""
    target = job["target"]
    return {
        "copy_gbps": copy_gbps(target),
        "dispatch_us": _empty_kernel_us() if target == "cuda" else _dispatch_us(),
        "launch_us": _launch_us() if target == "cuda" else 0.0,
        "gemm_gflops": _gemm_gflops(target),
    }


def _gemm_gflops(target: Target) -> dict[str, float]:
    """Return the GEMM throughput of two square random matrices, by dtype; fp32 as TF32."""
    size = _GPU_GEMM_SIZE if target == "cuda" else _CPU_GEMM_SIZE
    dtypes = _GPU_DTYPES if target == "cuda" else _CPU_DTYPES
    torch.set_float32_matmul_precision("high")
    gflops: dict[str, float] = {}
    for name in dtypes:
        dtype = getattr(torch, name)
        factors = [torch.randn(size, size, device=target).to(dtype) for _ in range(2)]
        gemm = partial(torch.mm, *factors, out=torch.mm(*factors))
        best_s = min(_device_seconds(gemm, target) for _ in range(_GEMM_COUNT))
        gflops[name] = 2 * size**3 / best_s / 1e9
    if target == "cuda":
        gflops["float64"] = gflops["float32"]  # an upper bound on every GPU
    return gflops


def _device_seconds(work: Callable[[], Any], target: Target) -> float:
    if target == "cpu":
        return _wall_seconds(work)
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    work()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / 1e3


def _launch_us() -> float:
    """Return the median time of launching a tiny kernel and waiting for it."""
    scalar = torch.zeros(1, device="cuda")
    times: list[float] = []
    for _ in range(_LAUNCH_COUNT):
        torch.cuda.synchronize()
        start = time.perf_counter_ns()
        scalar.add_(1)
        torch.cuda.synchronize()
        times.append((time.perf_counter_ns() - start) / 1e3)
    return statistics.median(times)


def copy_gbps(target: Target) -> float:
    """Return the bandwidth of the fastest of some large copies, read plus written, GB/s."""
    return _gpu_copy_gbps() if target == "cuda" else _cpu_copy_gbps()


def _cpu_copy_gbps() -> float:
    source = torch.ones(_CPU_COPY_BYTES // 4)
    destination = torch.zeros_like(source)
    destination.copy_(source)  # the first touch maps the pages
    best_s = min(_wall_seconds(lambda: destination.copy_(source)) for _ in range(_COPY_COUNT))
    return 2 * _CPU_COPY_BYTES / best_s / 1e9


def _gpu_copy_gbps() -> float:
    source = torch.ones(_GPU_COPY_BYTES // 4, device="cuda")
    destination = torch.zeros_like(source)
    copy = partial(destination.copy_, source)
    best_s = min(_device_seconds(copy, "cuda") for _ in range(_COPY_COUNT))
    return 2 * _GPU_COPY_BYTES / best_s / 1e9


def _empty_kernel_us() -> float:
    """Return the median time of a tiny kernel in a CUDA graph: a lower bound for any kernel."""
    scalar = torch.zeros(1, device="cuda")
    scalar.add_(1)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(_GRAPH_NODES):
            scalar.add_(1)
    times_s = [_device_seconds(graph.replay, "cuda") for _ in range(_GRAPH_REPLAYS)]
    return statistics.median(times_s) / _GRAPH_NODES * 1e6


def _dispatch_us() -> float:
    """Return the time of a ctypes call of a trivial C function, called as an entry point is."""
    function = ctypes.CDLL(None).getppid
    function.restype = ctypes.c_int
    pointer, size = ctypes.c_void_p(0), ctypes.c_int64(0)

    def call_repeatedly() -> None:
        for _ in range(_DISPATCH_CALLS):
            function(pointer, pointer, size, size, pointer)

    best_s = min(_wall_seconds(call_repeatedly) for _ in range(_DISPATCH_REPEATS))
    return best_s / _DISPATCH_CALLS * 1e6


def _wall_seconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter_ns()
    work()
    return (time.perf_counter_ns() - start) / 1e9

"""Times the model of one task with two timers, and prints their times as JSON.

Runs in the interpreter that holds torch and, on a GPU, Triton; nothing of KernelKB is loaded.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

NOISE_GOAL = 0.005
"""Relative standard error of the mean at which NVBench's method ends here."""
MIN_CALLS, MAX_CALLS = 20, 2000
MAX_SECONDS = 3.0
HOLD_CYCLES = 200_000
"""GPU clock cycles that the stream is held while a call is launched: some 0.1 ms."""
WARM_UP_CALLS = 5
CPU_FLUSH_BYTES = 2**28


def main() -> None:
    """Print one JSON object: ``do_bench_us`` and ``cold_us``, microseconds a call."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("task", type=Path)
    parser.add_argument("--target", choices=("cpu", "cuda"), required=True)
    options = parser.parse_args()
    task = _import(options.task)
    torch.manual_seed(1)
    device = torch.device(options.target)
    with device, torch.no_grad():
        model = task.Model(*task.get_init_inputs()).eval().to(device)
        inputs = [value.to(device) for value in task.get_inputs()]

        def call() -> Any:
            return model(*inputs)

        if options.target == "cuda":
            times = {"do_bench_us": _do_bench_us(call), "cold_us": _cold_cuda_us(call)}
        else:
            times = {"do_bench_us": _repeated_cpu_us(call), "cold_us": _cold_cpu_us(call)}
    print(json.dumps(times))


def _import(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("task", file)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{file} is no Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _do_bench_us(call: Callable[[], Any]) -> float:
    from triton.testing import do_bench

    return float(do_bench(call, return_mode="median")) * 1e3


def _cold_cuda_us(call: Callable[[], Any]) -> float:
    """Return the mean time of single calls after a flush, by events right around each."""
    cache_bytes = torch.cuda.get_device_properties(0).L2_cache_size
    flush = torch.empty(max(2 * cache_bytes, 2**22), dtype=torch.int8, device="cuda")
    for _ in range(WARM_UP_CALLS):
        call()
    before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def time_once() -> float:
        flush.zero_()
        torch.cuda._sleep(HOLD_CYCLES)
        before.record()
        call()
        after.record()
        torch.cuda.synchronize()
        return float(before.elapsed_time(after)) * 1e3

    return _repeat_until_known(time_once)


def _repeated_cpu_us(call: Callable[[], Any]) -> float:
    from torch.utils.benchmark import Timer

    timer = Timer("call()", globals={"call": call}, num_threads=torch.get_num_threads())
    return float(timer.blocked_autorange(min_run_time=1.0).median) * 1e6


def _cold_cpu_us(call: Callable[[], Any]) -> float:
    flush = torch.empty(CPU_FLUSH_BYTES, dtype=torch.int8)
    for _ in range(WARM_UP_CALLS):
        call()

    def time_once() -> float:
        flush.fill_(1)
        start = time.perf_counter_ns()
        call()
        return (time.perf_counter_ns() - start) / 1e3

    return _repeat_until_known(time_once)


def _repeat_until_known(time_once: Callable[[], float]) -> float:
    """Return the mean, when its relative standard error is small enough or the time is used up."""
    times: list[float] = []
    end = time.monotonic() + MAX_SECONDS
    while len(times) < MIN_CALLS or (len(times) < MAX_CALLS and time.monotonic() < end):
        times.append(time_once())
        if len(times) >= MIN_CALLS:
            error = statistics.stdev(times) / len(times) ** 0.5
            if error < NOISE_GOAL * statistics.mean(times):
                break
    return statistics.mean(times)


if __name__ == "__main__":
    main()

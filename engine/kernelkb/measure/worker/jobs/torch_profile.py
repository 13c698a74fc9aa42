"""Profiles calls of a candidate with torch's profiler: launches, gaps, and time by kernel."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from kernelkb.measure.worker.jobs.repeat import prepare_case
from kernelkb.measure.worker.runner.load_candidate import load_code
from kernelkb.measure.worker.shared.messages.other_jobs import TorchProfileJob, TorchProfileResult

_WARM_UP_CALLS = 3


def profile_with_torch(job: TorchProfileJob, _folder: Path) -> TorchProfileResult:
    """Call on the first case on a GPU: first to time the calls, then under the profiler."""
    bind = load_code(job["code"], "cuda")
    call, call_count = bind(*prepare_case(job, job["cases"][0])), job["call_count"]
    stream = torch.cuda.current_stream().cuda_stream
    for _ in range(_WARM_UP_CALLS):
        call(stream)
    torch.cuda.synchronize()
    start = time.perf_counter_ns()
    for _ in range(call_count):
        call(stream)
    torch.cuda.synchronize()
    wall_us = (time.perf_counter_ns() - start) / 1e3 / call_count
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        for _ in range(call_count):
            call(stream)
        torch.cuda.synchronize()
    events = profiler.events() or []
    device_events = [
        event
        for event in events
        if event.device_type == torch.autograd.DeviceType.CUDA
        and not getattr(event, "is_user_annotation", False)  # spans kernels that are counted
    ]
    kernels: dict[str, float] = {}
    for event in device_events:
        each_us = event.time_range.elapsed_us() / call_count
        kernels[event.name] = kernels.get(event.name, 0.0) + each_us
    launches_us = [e.time_range.elapsed_us() for e in events if "LaunchKernel" in e.name]
    return {
        "call_us": wall_us,
        "kernels_us": sum(kernels.values()),
        "launches": len(device_events) / call_count,
        "launch_call_us": statistics.median(launches_us) if launches_us else None,
        "kernels": kernels,
    }

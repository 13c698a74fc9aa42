"""What happens around a candidate's kernels: torch's profiler over calls in a row."""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from kernelkb.measure.worker.jobs.repeat import prepare_case
from kernelkb.measure.worker.runner.load_candidate import load_code

Job = dict[str, Any]

_WARM_UP_CALLS = 3


def profile_with_torch(job: Job, _folder: Path) -> Job:
    """Return times of one call, and every kernel that it launches.

    ``{"call_us", "kernels_us", "launches", "launch_call_us", "kernels": {name: us}}``: wall time
    of a call, time in kernels, kernels launched, time of the CPU in one launch, time by kernel.
    """
    bind = load_code(job["what"], "cuda")
    task, given, made = prepare_case(job, job["cases"][0])
    call, calls = bind(given, made, task.case_spec["axes"]), job["times"]
    stream = torch.cuda.current_stream().cuda_stream
    for _ in range(_WARM_UP_CALLS):
        call(stream)
    torch.cuda.synchronize()
    start = time.perf_counter_ns()
    for _ in range(calls):
        call(stream)
    torch.cuda.synchronize()
    wall_us = (time.perf_counter_ns() - start) / 1e3 / calls
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        for _ in range(calls):
            call(stream)
        torch.cuda.synchronize()
    events = seen.events() or []
    on_device = [
        event
        for event in events
        if event.device_type == torch.autograd.DeviceType.CUDA
        and not getattr(event, "is_user_annotation", False)  # spans kernels that are counted
    ]
    kernels: dict[str, float] = {}
    for event in on_device:
        kernels[event.name] = kernels.get(event.name, 0.0) + event.time_range.elapsed_us() / calls
    launching = [e.time_range.elapsed_us() for e in events if "LaunchKernel" in e.name]
    return {
        "call_us": wall_us,
        "kernels_us": sum(kernels.values()),
        "launches": len(on_device) / calls,
        "launch_call_us": statistics.median(launching) if launching else None,
        "kernels": kernels,
    }

"""Calls a function without checking it, for profilers and sanitizers, or on recorded inputs."""

from __future__ import annotations

import random
import statistics
import time
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.profiler import ProfilerActivity, profile

from kernelkb.measure.worker.judge.inputs.inputs import KernelCase, poison
from kernelkb.measure.worker.runner.load_candidate import BoundCall, load_code
from kernelkb.measure.worker.shared.array_values import read_tensors
from kernelkb.measure.worker.shared.messages.jobs import (
    RepeatJob,
    RepeatResult,
    ReplayJob,
    ReplayResult,
    TorchProfileJob,
    TorchProfileResult,
)
from kernelkb.measure.worker.shared.messages.specs import CaseSpec, Scalar
from kernelkb.measure.worker.shared.python_files import import_python_file

_NVTX_RANGE = "kernelkb"
"""Range around the calls, which ``kernelkb.measure.profile.ncu`` selects."""
_SEED_BITS = 31

_ULPS = 64.0
"""By which a repeated call may be off: threads sum in another order."""
_MIN_RELATIVE = 1e-5

_WARM_UP_CALLS = 3


class CaseArguments(NamedTuple):
    """Arguments of one call."""

    inputs: list[Any]
    """Tensors and numbers, in the order of the arguments."""
    outputs: list[torch.Tensor]
    axes: list[int]


def prepare_case(job: RepeatJob | TorchProfileJob, case_spec: CaseSpec) -> CaseArguments:
    """Return fresh inputs and outputs of a case: with their start values, or poisoned."""
    torch.set_grad_enabled(False)
    case = KernelCase(job["target"], job["reference"], case_spec)
    inputs: list[Any] = list(case.make_inputs(random.getrandbits(_SEED_BITS)))
    starts = {spec["name"]: array for spec, array in zip(case.input_specs, inputs, strict=True)}
    outputs = []
    for spec in case.output_specs:
        if spec["starts_as"]:
            outputs.append(starts[spec["starts_as"]].clone())
            continue
        dtype = getattr(torch, spec["dtype"])
        outputs.append(torch.empty(tuple(spec["shape"]), dtype=dtype, device=case.device))
        poison(outputs[-1:])
    for position, value in case.scalars:
        inputs.insert(position, value)
    return CaseArguments(inputs, outputs, case_spec["axes"])


def repeat(job: RepeatJob, _folder: Path) -> RepeatResult:
    """Call on every case, inside the NVTX range ``kernelkb`` on a GPU.

    Raises:
        RuntimeError: The entry point returned an error code.
    """
    bind = load_code(job["code"], job["target"])
    for case_spec in job["cases"]:
        call = bind(*prepare_case(job, case_spec))
        if job["target"] == "cpu":
            _call_repeatedly(call, job["call_count"], 0)
            continue
        torch.cuda.synchronize()
        torch.cuda.nvtx.range_push(_NVTX_RANGE)
        _call_repeatedly(call, job["call_count"], torch.cuda.current_stream().cuda_stream)
        torch.cuda.synchronize()
        torch.cuda.nvtx.range_pop()
    return {"call_count": job["call_count"] * len(job["cases"])}


def _call_repeatedly(call: BoundCall, count: int, stream: int) -> None:
    for _ in range(count):
        code = call(stream)
        if isinstance(code, int) and code:
            raise RuntimeError(f"the entry point returned {code}")


def replay(job: ReplayJob, _folder: Path) -> ReplayResult:
    """Call the function once for each recorded file."""
    # What torch.empty returns is NaN then: code that leaves some of it as it is differs.
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        function = getattr(import_python_file(job["file"]), job["entry"])
    except Exception as error:  # of the user's code, of any kind
        text = f"it cannot be imported: {type(error).__name__}: {error}"
        return {"faults": [text[:300]] * len(job["values"])}
    rows = zip(job["values"], job["numbers"], strict=True)
    return {"faults": [_find_fault(function, job, file, numbers) for file, numbers in rows]}


def _find_fault(function: Any, job: ReplayJob, file: str, numbers: list[Scalar]) -> str:
    arrays = read_tensors(Path(file))
    inputs = [arrays[f"input.{at}"].to(job["target"]) for at in job["inputs"]]
    expected = [arrays[name] for name in _sort(arrays, "output.")]
    try:
        with torch.no_grad():
            result = function(*inputs, *numbers)
    except Exception as error:  # of the user's code, of any kind
        return f"it raises {type(error).__name__}: {error}"[:300]
    outputs = [result] if isinstance(result, torch.Tensor) else list(result)
    if len(outputs) != len(expected):
        return f"it returns {len(outputs)} tensors, and {len(expected)} were recorded"
    faults = (
        _compare(own.detach().cpu(), right) for own, right in zip(outputs, expected, strict=True)
    )
    return next((fault for fault in faults if fault), "")


def _sort(arrays: dict[str, torch.Tensor], prefix: str) -> list[str]:
    return sorted((n for n in arrays if n.startswith(prefix)), key=lambda n: int(n[len(prefix) :]))


def _compare(own: torch.Tensor, recorded: torch.Tensor) -> str:
    if own.shape != recorded.shape or own.dtype != recorded.dtype:
        return f"it returns {own.dtype} {tuple(own.shape)}, not {tuple(recorded.shape)}"
    if not own.is_floating_point():
        return "" if torch.equal(own, recorded) else "its outputs differ from the recorded ones"
    relative = max(_MIN_RELATIVE, _ULPS * torch.finfo(own.dtype).eps)
    left, right = own.to(torch.float64), recorded.to(torch.float64)
    finite = right[right.isfinite()]
    scale = float(finite.abs().max()) if finite.numel() else 1.0
    is_close = torch.allclose(left, right, rtol=relative, atol=relative * scale, equal_nan=True)
    return "" if is_close else "its outputs differ from the recorded ones: they may be random"


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

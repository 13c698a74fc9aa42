"""Calls a function without checking it, for profilers and sanitizers, or on recorded inputs."""

from __future__ import annotations

import ctypes
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
    ClocksJob,
    ClocksResult,
    KernelClocks,
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
_TIMED_CALLS = 20
_CLOCKED_WARPS, _CLOCKED_BLOCKS = 32, 65_536
"""As in ``kernelkb.measure.profile.clocks``."""


class CaseArguments(NamedTuple):
    """Arguments of one call."""

    inputs: list[Any]
    """Tensors and numbers, in the order of the arguments."""
    outputs: list[torch.Tensor]
    axes: list[int]


def prepare_case(
    job: RepeatJob | TorchProfileJob | ClocksJob, case_spec: CaseSpec
) -> CaseArguments:
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
    is_right = _find_right(own, recorded)
    if bool(is_right.all()):
        return ""
    unwritten = ~is_right & _find_untouched(own)
    if bool((is_right | unwritten).all()) and not bool(unwritten.all()):
        first = tuple(int(each) for each in unwritten.nonzero()[0])
        count = f"{int(unwritten.sum())} of {own.numel()} elements, the first at {first}"
        return f"part of its output is never written: {count}"
    random = ": they may be random" if own.is_floating_point() else ""
    return f"its outputs differ from the recorded ones{random}"


def _find_right(own: torch.Tensor, recorded: torch.Tensor) -> torch.Tensor:
    """Return for each element whether it is the recorded one, as far as rounding lets it."""
    if not own.is_floating_point():
        return own == recorded
    relative = max(_MIN_RELATIVE, _ULPS * torch.finfo(own.dtype).eps)
    left, right = own.to(torch.float64), recorded.to(torch.float64)
    finite = right[right.isfinite()]
    scale = float(finite.abs().max()) if finite.numel() else 1.0
    return torch.isclose(left, right, rtol=relative, atol=relative * scale, equal_nan=True)


def _find_untouched(own: torch.Tensor) -> torch.Tensor:
    """Return for each element whether it is what torch.empty returns while calls are repeated."""
    if own.is_floating_point() or own.is_complex():
        return own.isnan()
    return own == (True if own.dtype == torch.bool else torch.iinfo(own.dtype).max)


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


def read_clocks(job: ClocksJob, _folder: Path) -> ClocksResult:
    """Call a build with clocks once on the first case; its time and the plain one's come after.

    Raises:
        RuntimeError: The table of the clocks cannot be read, or an entry point returned an error.
    """
    case = prepare_case(job, job["cases"][0])
    stream = torch.cuda.current_stream().cuda_stream
    plain, clocked = (load_code(job[key], "cuda")(*case) for key in ("plain_code", "code"))
    library = ctypes.CDLL(job["library"])
    _call_repeatedly(clocked, _WARM_UP_CALLS, stream)
    torch.cuda.synchronize()
    _require_success(library.kernelkb_clear_clocks())
    _call_repeatedly(clocked, 1, stream)
    torch.cuda.synchronize()
    table = _make_clock_table(job["mark_count"], job["kernel_count"])
    size = ctypes.c_size_t(ctypes.sizeof(table))
    _require_success(library.kernelkb_read_clocks(ctypes.byref(table), size))
    kernels = [_list_clocks(table, at, job) for at in range(job["kernel_count"])]
    return {
        "plain_us": _time_calls(plain, stream),
        "clocked_us": _time_calls(clocked, stream),
        "kernels": [kernel for kernel in kernels if kernel["launches"]],
    }


def _require_success(code: int) -> None:
    if code:
        raise RuntimeError(f"the clocks cannot be read: CUDA error {code}")


def _time_calls(call: BoundCall, stream: int) -> float:
    """Return the mean time of a call in microseconds."""
    _call_repeatedly(call, _WARM_UP_CALLS, stream)
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    _call_repeatedly(call, _TIMED_CALLS, stream)
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) * 1e3 / _TIMED_CALLS


def _make_clock_table(mark_count: int, kernel_count: int) -> Any:
    """Return an empty table, laid out as the build's."""
    pairs = kernel_count * _CLOCKED_WARPS * mark_count * mark_count
    blocks = kernel_count * _CLOCKED_BLOCKS
    long, word = ctypes.c_ulonglong, ctypes.c_uint
    fields = [
        ("cycles", long * pairs),
        ("counts", word * pairs),
        ("begin", long * blocks),
        ("end", long * blocks),
        ("sm", word * blocks),
        *((name, word * kernel_count) for name in ("launches", "blocks", "threads")),
    ]
    return type("ClockTable", (ctypes.Structure,), {"_fields_": fields})()


def _list_clocks(table: Any, at: int, job: ClocksJob) -> KernelClocks:
    marks = job["mark_count"]
    first = at * _CLOCKED_WARPS * marks * marks
    counts = table.counts[first : first + _CLOCKED_WARPS * marks * marks]
    cycles = [
        (place // marks**2, place // marks % marks, place % marks, table.cycles[first + place], n)
        for place, n in enumerate(counts)
        if n
    ]
    kept = slice(
        at * _CLOCKED_BLOCKS, at * _CLOCKED_BLOCKS + min(table.blocks[at], _CLOCKED_BLOCKS)
    )
    return {
        "kernel": at,
        "launches": table.launches[at],
        "blocks": table.blocks[at],
        "threads": table.threads[at],
        "begin_ns": table.begin[kept],
        "end_ns": table.end[kept],
        "sms": table.sm[kept],
        "cycles": cycles,
    }

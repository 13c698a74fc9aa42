"""Tries builds of one variant, one after another, in one process: a rough check and a quick time.

The process is kept between trials, since a CUDA context and torch take seconds to start. A
candidate can reach what measures it here, so these times only rank configurations; the verdict on
a winner comes from the judge.
"""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from kernelkb.measure.worker.judge.compare.compare import ReferenceOutputs
from kernelkb.measure.worker.judge.inputs.inputs import KernelCase, Tensors, poison
from kernelkb.measure.worker.runner.load_candidate import Binder, BoundCall, load_code
from kernelkb.measure.worker.shared.messages.jobs import Trial, TrialJob, TrialTimes
from kernelkb.measure.worker.shared.messages.specs import Code

_POLL_S = 0.0005
_SEED_BITS = 31
_MAX_SLOTS = 16
"""Sets of arrays that calls go round, so that no call finds its inputs in the cache."""
_GRAPH_US = 300.0
"""Length of a CUDA graph to aim at: the time of launching it counts less than a percent."""
_MAX_CALLS = 256
_MIN_SAMPLES, _MAX_SAMPLES = 5, 40
_MIN_ROUNDS = 8
_RELATIVE_ERROR = 0.003
"""Of the median, at which no further samples are taken."""
_HOPELESS = 1.3
"""Times the best one, above which the first samples suffice."""


class Slot(NamedTuple):
    """One set of arrays."""

    inputs: list[object]
    """Tensors and numbers, in the order of the arguments."""
    outputs: Tensors


def serve_trials(job: TrialJob, folder: Path) -> None:
    """Answer trials until the file ``stop`` appears or the parent ends.

    Trial N is ``trial-N.json`` in the folder, its answer ``times-N.json``; both appear complete,
    by a rename. The file ``ready`` says that the first may come.
    """
    torch.set_grad_enabled(False)
    case = KernelCase(job["target"], job["reference"], job["case"])
    slots = _make_slots(case, job["cache_bytes"])
    arrays = [one for one in slots[0].inputs if isinstance(one, torch.Tensor)]
    expected = ReferenceOutputs(case, arrays, job["tolerances"])
    (folder / "ready").touch()
    number = 0
    while True:
        request = folder / f"trial-{number}.json"
        while not request.exists():
            if (folder / "stop").exists():
                return
            time.sleep(_POLL_S)
        trial: Trial = json.loads(request.read_text(encoding="utf-8"))
        times = run_trial(job, trial, slots, expected)
        scratch = folder / "times.tmp"
        scratch.write_text(json.dumps(times), encoding="utf-8")
        scratch.replace(folder / f"times-{number}.json")
        number += 1


def _make_slots(case: KernelCase, cache_bytes: int) -> list[Slot]:
    first = _make_slot(case)
    size = sum(one.nbytes for one in (*first.inputs, *first.outputs) if hasattr(one, "nbytes"))
    count = min(_MAX_SLOTS, max(2, math.ceil(2 * cache_bytes / max(1, size))))
    return [first, *(_make_slot(case) for _ in range(count - 1))]


def _make_slot(case: KernelCase) -> Slot:
    inputs: list[object] = list(case.make_inputs(random.getrandbits(_SEED_BITS)))
    for position, value in case.scalars:
        inputs.insert(position, value)
    outputs = [
        torch.empty(tuple(spec["shape"]), dtype=getattr(torch, spec["dtype"]), device=case.device)
        for spec in case.output_specs
    ]
    return Slot(inputs, outputs)


def run_trial(
    job: TrialJob, trial: Trial, slots: list[Slot], expected: ReferenceOutputs
) -> TrialTimes:
    """Check each build on one set of inputs, and time it; several in turns."""
    timers = []
    for code in trial["codes"]:
        found = _check_build(job, code, slots, expected)
        if isinstance(found, dict):
            return found
        timers.append(found)
    try:
        if len(timers) == 1:
            samples = [_sample(timers[0].time_call, trial["best_us"], trial["budget_s"])]
        else:
            samples = _sample_in_turns(timers, trial["rounds"], trial["budget_s"])
    finally:
        for timer in timers:
            timer.close()
    return {"status": "timed", "detail": None, "samples_us": samples}


def _sample_in_turns(
    timers: Sequence[GpuTimer | CpuTimer], rounds: int, budget_s: float
) -> list[list[float]]:
    """Return the samples of each; fewer rounds than asked for where the budget is used."""
    started = time.monotonic()
    turns: list[list[float]] = []
    while len(turns) < rounds:
        turns.append([one.time_call() for one in timers])
        if len(turns) >= _MIN_ROUNDS and time.monotonic() - started > budget_s * len(timers):
            break
    return [list(column) for column in zip(*turns, strict=True)]


def _check_build(
    job: TrialJob, code: Code, slots: list[Slot], expected: ReferenceOutputs
) -> GpuTimer | CpuTimer | TrialTimes:
    """Return what times a build, or why it is not to be timed."""
    try:
        calls = _bind(load_code(code, job["target"]), slots, job["case"]["axes"])
        poison(slots[0].outputs)
        stream = torch.cuda.current_stream().cuda_stream if job["target"] == "cuda" else 0
        status = calls[0](stream)
        if job["target"] == "cuda":
            torch.cuda.synchronize()
    except Exception as error:  # a candidate may raise anything
        if "CUDA error" in str(error):
            raise  # the context is lost: this process ends, and the next trial starts another
        return _fail("unloadable", f"{type(error).__name__}: {error}")
    if isinstance(status, int) and status:
        return _fail("refused", f"the entry point returned {status}")
    comparison = expected.compare(slots[0].outputs)
    if not comparison["correct"]:
        return _fail("incorrect", f"largest error {comparison['max_abs_error']}")
    return GpuTimer(calls) if job["target"] == "cuda" else CpuTimer(calls)


def _bind(binder: Binder, slots: list[Slot], axes: list[int]) -> list[BoundCall]:
    return [binder(slot.inputs, slot.outputs, axes) for slot in slots]


def _fail(status: str, detail: str) -> TrialTimes:
    return {"status": status, "detail": detail, "samples_us": []}


class GpuTimer:
    """Times calls by events around a CUDA graph of many of them."""

    def __init__(self, calls: list[BoundCall]) -> None:
        self._begin, self._end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

        def call_all() -> None:
            stream = torch.cuda.current_stream().cuda_stream
            for call in calls:
                call(stream)

        self._time(call_all)
        once_us = self._time(call_all) / len(calls)
        wanted = min(_MAX_CALLS, math.ceil(_GRAPH_US / max(once_us, 1.0)))
        rounds = max(1, wanted // len(calls))
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            for _ in range(rounds):
                call_all()
        self._count = rounds * len(calls)
        self.time_call()

    def time_call(self) -> float:
        """Return microseconds of a call, the mean over one run of the graph."""
        return self._time(self._graph.replay) / self._count

    def close(self) -> None:
        """Release the graph."""
        self._graph.reset()

    def _time(self, run: Callable[[], object]) -> float:
        self._begin.record()
        run()
        self._end.record()
        self._end.synchronize()
        return float(self._begin.elapsed_time(self._end)) * 1e3


class CpuTimer:
    """Times calls by the clock."""

    def __init__(self, calls: list[BoundCall]) -> None:
        self._calls = calls
        self.time_call()

    def time_call(self) -> float:
        """Return microseconds of a call, the mean over all sets of arrays."""
        started = time.perf_counter_ns()
        for call in self._calls:
            call(0)
        return (time.perf_counter_ns() - started) / 1e3 / len(self._calls)

    def close(self) -> None:
        """Release nothing."""


def _sample(time_once: Callable[[], float], best_us: float | None, budget_s: float) -> list[float]:
    """Sample until the median is known well enough, is hopeless, or the budget is used."""
    started = time.monotonic()
    samples: list[float] = []
    while len(samples) < _MAX_SAMPLES:
        samples.append(time_once())
        if len(samples) < _MIN_SAMPLES:
            if time.monotonic() - started > budget_s:
                break
            continue
        ordered = sorted(samples)
        median = ordered[len(ordered) // 2]
        if best_us is not None and median > _HOPELESS * best_us:
            break
        quarter = len(ordered) // 4
        spread = (ordered[-1 - quarter] - ordered[quarter]) / median
        if spread / math.sqrt(len(ordered)) < _RELATIVE_ERROR:
            break
        if time.monotonic() - started > budget_s:
            break
    return samples

"""Time candidate and reference, interleaved, on rotating buffers. Raw times only; no verdict."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from engine.measure.worker import data
from engine.measure.worker.candidate import checked, load
from engine.measure.worker.judge import reference_function
from engine.measure.worker.probe import copy_gbps

Job = dict[str, Any]
Work = Callable[[int], None]

_SHORTEST_NS = 100_000  # a sample much shorter than this is mostly timer
_MOST_SETS = 16
_WARM_UPS = 3


def measure(job: Job, folder: Path) -> Job:
    """Return raw times of interleaved calls.

    ``{"candidate_ns": [...], "reference_ns": [...], "calls": n, "busy": {...}, "sets": k,
    "copy_gbps": x}``: sample i of both lists was taken back to back, in alternating order, and is
    the time of one call, averaged over ``calls`` calls. The first sets are computed once more and
    saved like ``execute`` saves them, so that what was timed is judged as well.
    """
    case, target = job["cases"][0], job["target"]
    sets = [_Buffers(case, job["seed"] + k, target) for k in range(_set_count(job))]
    call = load(job["library"], job["entry"], case["axes"], target)
    candidate, reference = _works(job, sets, call)
    for at in range(_WARM_UPS):
        candidate(at)
        reference(at)
    clock = _gpu_ns if target == "cuda" else _cpu_ns
    first = [clock(work, 0, 1) for work in (candidate, reference)]
    calls = max(1, min(1000, round(_SHORTEST_NS / max(1.0, min(first)))))
    pairs = int(job["budget_s"] * 1e9 / max(1.0, sum(first) * calls))
    pairs = max(job["min_pairs"], min(job["max_pairs"], pairs))
    times: tuple[list[float], list[float]] = ([], [])
    for at in range(pairs):
        for which in ((0, 1), (1, 0))[at % 2]:
            times[which].append(clock((candidate, reference)[which], at * calls, calls))
    busy = _busy(candidate, min(first), target)
    judged = sets[: job["judged_sets"]]
    for at, buffers in enumerate(judged):
        checked(call, buffers.inputs, buffers.outputs)
        for position, tensor in enumerate(buffers.outputs):
            data.save(tensor, folder / f"out-{at}-{position}.bin")
    return {
        "candidate_ns": times[0],
        "reference_ns": times[1],
        "calls": calls,
        "sets": len(judged),
        "busy": busy,
        "copy_gbps": copy_gbps(target, copies=8),
    }


class _Buffers:
    """One set of inputs and outputs at addresses of its own."""

    def __init__(self, case: Job, seed: int, target: str) -> None:
        self.inputs = data.inputs(case["inputs"], seed, target)
        self.outputs = data.poisoned(case["outputs"], target)
        self.reference_outputs = data.poisoned(case["outputs"], target)


def _set_count(job: Job) -> int:
    """Rotate over enough sets that none is still in the cache when its turn comes again."""
    needed = -(-2 * job["cache_bytes"] // max(1, job["working_set_bytes"]))
    return int(max(2, min(_MOST_SETS, needed)))


def _works(job: Job, sets: Sequence[_Buffers], call: Callable[..., int]) -> tuple[Work, Work]:
    function = reference_function(job["reference"]["file"], job["reference"]["function"])
    takes_out = "out" in inspect.signature(function).parameters

    def candidate(at: int) -> None:
        buffers = sets[at % len(sets)]
        call(buffers.inputs, buffers.outputs)

    def reference(at: int) -> None:
        buffers = sets[at % len(sets)]
        if takes_out:  # allocating the output is not the reference's work
            out = buffers.reference_outputs
            function(*buffers.inputs, out=out[0] if len(out) == 1 else out)
        else:
            function(*buffers.inputs)

    return candidate, reference


def _cpu_ns(work: Work, first: int, calls: int) -> float:
    start = time.perf_counter_ns()
    for at in range(first, first + calls):
        work(at)
    return (time.perf_counter_ns() - start) / calls


def _gpu_ns(work: Work, first: int, calls: int) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    for at in range(first, first + calls):
        work(at)
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) * 1e6 / calls


def _busy(candidate: Work, one_ns: float, target: str) -> Job:
    """Return wall and CPU nanoseconds of the candidate alone, over at least a tenth of a second."""
    time.sleep(0.05)  # threads of the reference's pool spin for a while after their last work
    calls = max(2, min(10_000, round(1e8 / max(1.0, one_ns))))
    wall, cpu = time.perf_counter_ns(), time.process_time_ns()
    for at in range(calls):
        candidate(at)
    if target == "cuda":
        torch.cuda.synchronize()
    return {
        "wall_ns": time.perf_counter_ns() - wall,
        "cpu_ns": time.process_time_ns() - cpu,
        "calls": calls,
    }

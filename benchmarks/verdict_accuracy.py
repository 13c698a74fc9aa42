"""How often a verdict is correct: a kernel against itself, and against one that is 3 % slower.

    python benchmarks/verdict_accuracy.py --target cuda

Runs in the interpreter that holds torch. Prints, for each comparison, how many verdicts of each
kind came out of batches that were timed and judged as ``kb bench`` does it, and how often the
honest kernel was accused.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from kernelkb.measure.bench.statistics import (
    Pair,
    Speedup,
    combine_verdicts,
    compute_speedups,
    decide_verdict,
    describe_clock_disagreement,
    overhead_ns,
)
from kernelkb.measure.machine.host import cache_bytes, core_count
from kernelkb.measure.process.worker_jobs import threads_env
from kernelkb.measure.worker.judge.case_buffers import CaseBuffers
from kernelkb.measure.worker.judge.inputs.inputs import KernelCase
from kernelkb.measure.worker.judge.returned_outputs import draw_none
from kernelkb.measure.worker.judge.runner_process import RunnerProcess
from kernelkb.measure.worker.judge.timing.runner_timer import RunnerTimer
from kernelkb.measure.worker.shared.messages.jobs import Batch
from kernelkb.measure.worker.shared.messages.specs import CaseSpec, Reference, RunnerSpec, Target

KERNEL_SOURCE = r"""
#include <cstdint>
#ifdef __CUDACC__
__global__ void work(const float* x, float* y, std::int64_t n) {
  const std::int64_t i = (blockIdx.x * std::int64_t(blockDim.x) + threadIdx.x) % n;
  float v = x[i];
  for (int k = 0; k < 16; ++k) v = v * 0.99f + 0.01f;
  y[i] = v;
}
extern "C" int entry(const float* x, float* y, std::int64_t n, void* stream) {
  work<<<unsigned((n / 256) * EXTRA / 100), 256, 0, static_cast<cudaStream_t>(stream)>>>(x, y, n);
  return cudaGetLastError();
}
#else
extern "C" int entry(const float* x, float* y, std::int64_t n, void*) {
  for (std::int64_t j = 0; j < n * EXTRA / 100; ++j) {
    const std::int64_t i = j % n;
    float v = x[i];
    for (int k = 0; k < 16; ++k) v = v * 0.99f + 0.01f;
    y[i] = v;
  }
  return 0;
}
#endif
"""
# Elements. CUDA data far exceed the cache: in cache, 3 % more blocks took only 2 % longer (H100).
SIZES: dict[Target, int] = {"cpu": 2**16, "cuda": 2**24}
SLOTS: dict[Target, int] = {"cpu": 32, "cuda": 32}  # as many slots as in a bench: batches of 1.4 ms
PAIRS = 60
CUDA_FLUSH_BYTES = 2**27
REQUEST_TIMEOUT_S = 60.0


class Comparison(NamedTuple):
    """One verdict on a candidate against a rival, its time in seconds, and any accusation."""

    speedup: Speedup
    verdict: str
    seconds: float
    accusation: str | None


def reference(x: torch.Tensor) -> torch.Tensor:
    """Return the expected output of the kernel; x: (n,), float32 or float64."""
    for _ in range(16):
        x = x * 0.99 + 0.01
    return x


def main() -> None:
    """Print one row for each comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--verdicts", type=int, default=200)
    parser.add_argument("--processes", type=int, default=5, help="pairs of processes for each row")
    parser.add_argument("--slower", type=int, action="append", help="percent; 0 and 3 by default")
    parser.add_argument("--seconds", type=float, default=1e9, help="end a row early after these")
    options = parser.parse_args()
    if "OMP_WAIT_POLICY" not in os.environ:  # torch, imported above, has already read it
        variables = {**os.environ, **threads_env(core_count())}
        os.execve(sys.executable, [sys.executable, *sys.argv], variables)  # noqa: S606
    print(f"{'slower by':>10}{'verdicts':>10}{'faster':>8}{'inconclusive':>14}{'slower':>8}"
          f"{'accused':>9}{'ratio':>9}{'half width':>12}{'s each':>8}")  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        slower = options.slower or [0, 3]
        libraries = {n: _build_library(Path(folder), options.target, 100 + n) for n in {0, *slower}}
        for percent in slower:
            _print_row(options, libraries[0], libraries[percent], percent)


def _build_library(folder: Path, target: str, extra: int) -> str:
    source = folder / f"work{extra}.{'cu' if target == 'cuda' else 'cpp'}"
    source.write_text(KERNEL_SOURCE, encoding="utf-8")
    library = str(source.with_suffix(".so"))
    cuda = ["nvcc", "-O3", "-std=c++17", "--shared", "-Xcompiler", "-fPIC", "-arch=native"]
    plain = ["g++", "-O3", "-std=c++17", "-shared", "-fPIC"]
    command = cuda if target == "cuda" else plain
    subprocess.run([*command, f"-DEXTRA={extra}", "-o", library, str(source)], check=True)
    return library


def _print_row(options: argparse.Namespace, candidate: str, rival: str, slower: int) -> None:
    comparisons: list[Comparison] = []
    each = options.verdicts // options.processes
    end = time.monotonic() + options.seconds
    for index in range(options.processes):
        share_end = time.monotonic() + (end - time.monotonic()) / (options.processes - index)
        comparisons += _compare_repeatedly(options.target, candidate, rival, each, share_end)
    verdicts = Counter(comparison.verdict for comparison in comparisons)
    accusations = [c.accusation for c in comparisons if c.accusation]
    ratio = statistics.median(c.speedup.point for c in comparisons)
    half_width = statistics.median((c.speedup.high - c.speedup.low) / 2 for c in comparisons)
    seconds = statistics.median(c.seconds for c in comparisons)
    print(f"{slower:>8} %{len(comparisons):>10}{verdicts['faster']:>8}"
          f"{verdicts['inconclusive']:>14}{verdicts['slower']:>8}{len(accusations):>9}{ratio:>9.4f}{half_width:>12.4f}"
          f"{seconds:>8.2f}", flush=True)  # fmt: skip
    for accusation in accusations:
        print(f"  accused: {accusation}")


def _compare_repeatedly(
    target: Target, candidate: str, rival: str, count: int, end: float
) -> list[Comparison]:
    """Compare one pair of processes up to ``count`` times, each with new batches, until ``end``."""
    code: Reference = {"kind": "python", "file": __file__, "entry": "reference", "inputs": None}
    case = KernelCase(target, code, _make_case_spec(SIZES[target]))
    flush_bytes = 2 * cache_bytes() if target == "cpu" else CUDA_FLUSH_BYTES
    rng = random.Random()
    with tempfile.TemporaryDirectory() as folder:
        runners = [
            RunnerProcess(name, _make_runner_spec(library), target, Path(folder))
            for name, library in (("candidate", candidate), ("rival", rival))
        ]
        try:
            buffers = CaseBuffers(case, {}, SLOTS[target], rng, flush_bytes)
            for runner in runners:
                runner.wait_ready()
                runner.ask({"command": "load"}, REQUEST_TIMEOUT_S)
            timers = [RunnerTimer(runner, buffers, rng) for runner in runners]
            for timer in timers:
                timer.plan_batches(SLOTS[target] - 1, graph=target == "cuda")
            comparisons = [_compare_once(timers)]
            while len(comparisons) < count and time.monotonic() < end:
                comparisons.append(_compare_once(timers))
            return comparisons
        finally:
            for runner in runners:
                runner.close()


def _make_case_spec(size: int) -> CaseSpec:
    shape, dtype = [size], "float32"
    return {
        "name": "work",
        "selftest": False,
        "axis_names": ["n"],
        "axes": [size],
        "inputs": [{"name": "x", "shape": shape, "dtype": dtype, "fill": "normal", "scale": 1.0}],
        "outputs": [{"name": "y", "shape": shape, "dtype": dtype, "starts_as": None}],
        "distributions": [],
    }


def _make_runner_spec(library: str) -> RunnerSpec:
    return {
        "code": {"kind": "c", "library": library, "entry": "entry"},
        "sandbox_command": [],
        "may_fork": False,
        "cache_folder": None,
        "limits": {
            "memory_bytes": 2**34,
            "threads": 4096,
            "processes": 64,
            "file_bytes": 2**28,
        },
    }


def _draw_first(slots: Sequence[int]) -> list[int]:
    return [slots[0]]


def _compare_once(timers: list[RunnerTimer]) -> Comparison:
    start = time.monotonic()
    batches: tuple[list[Batch], list[Batch]] = ([], [])
    faults: list[str | None] = []
    for pair in range(PAIRS):
        for index in ((0, 1), (1, 0))[pair % 2]:
            timed = timers[index].time_batch(_draw_first if pair % 3 == 0 else draw_none)
            batches[index].append(timed.batch)
            faults.append(timers[index].find_fault(timed.outputs))
    pairs: list[Pair] = list(zip(*batches, strict=True))
    overhead = overhead_ns(pairs)
    by_judge, speedup, _ = compute_speedups(pairs, overhead)
    faults.append(describe_clock_disagreement(batches[0], overhead))
    verdict = combine_verdicts(decide_verdict(speedup), decide_verdict(by_judge))
    accusation = next((fault for fault in faults if fault), None)
    return Comparison(speedup, verdict, time.monotonic() - start, accusation)


if __name__ == "__main__":
    main()

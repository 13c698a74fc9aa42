"""How often is the verdict right: a kernel against itself, and against one that is 3 % slower.

    python benchmarks/verdict_accuracy.py --target cuda

Runs in the interpreter that holds torch. Prints, for each comparison, how many verdicts of each
kind came out of windows that were taken and judged as ``kb bench`` does it, and how often the
kernel, which is honest, was accused of anything.
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
from pathlib import Path
from typing import Any

from kernelkb.measure.machine.cpu_info import cache_bytes, core_count
from kernelkb.measure.process.worker_jobs import threads_env
from kernelkb.measure.statistics import decide_verdict
from kernelkb.measure.timing_analysis import (
    Batch,
    combine_verdicts,
    compute_speedups,
    describe_clock_disagreement,
    overhead_ns,
)
from kernelkb.measure.worker.judge.buffers import CaseBuffers
from kernelkb.measure.worker.judge.inputs import KernelCase
from kernelkb.measure.worker.judge.runner_process import RunnerProcess
from kernelkb.measure.worker.judge.runner_timer import RunnerTimer

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
# Far more than a GPU's cache: of what it holds, 3 % more blocks took 2 % longer on an H100.
SIZES = {"cpu": 2**16, "cuda": 2**24}
SLOTS = {"cpu": 32, "cuda": 32}  # as many as the arena of a bench holds: windows of 1.4 ms
PAIRS = 60


def right(x: Any) -> Any:
    """Return what the kernel computes; x: (n,), float32 or float64."""
    for _ in range(16):
        x = x * 0.99 + 0.01
    return x


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--verdicts", type=int, default=200)
    parser.add_argument("--processes", type=int, default=5, help="pairs of processes for each row")
    parser.add_argument("--slower", type=int, action="append", help="percent; 0 and 3 by default")
    parser.add_argument("--seconds", type=float, default=1e9, help="end a row early after these")
    options = parser.parse_args()
    if "OMP_WAIT_POLICY" not in os.environ:  # read when torch is loaded, as it is by now
        surroundings = {**os.environ, **threads_env(core_count())}
        os.execve(sys.executable, [sys.executable, *sys.argv], surroundings)  # noqa: S606
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
    found: Counter[str] = Counter()
    ratios, widths, took, accused = [], [], [], []
    each = options.verdicts // options.processes
    last = time.monotonic() + options.seconds
    for number in range(options.processes):
        share = time.monotonic() + (last - time.monotonic()) / (options.processes - number)
        for speedup, word, seconds, doubt in _measure_verdicts(
            options.target, candidate, rival, each, share
        ):
            found[word] += 1
            accused += [doubt] if doubt else []
            ratios.append(speedup.point)
            widths.append((speedup.high - speedup.low) / 2)
            took.append(seconds)
    print(f"{slower:>8} %{len(ratios):>10}{found['faster']:>8}{found['inconclusive']:>14}"
          f"{found['slower']:>8}{len(accused):>9}{statistics.median(ratios):>9.4f}{statistics.median(widths):>12.4f}"
          f"{statistics.median(took):>8.2f}", flush=True)  # fmt: skip
    for doubt in accused:
        print(f"  accused: {doubt}")


def _measure_verdicts(
    target: str, candidate: str, rival: str, count: int, last: float
) -> list[Any]:
    """Return speedups of one pair of processes, each from its own windows, until a time."""
    size = SIZES[target]
    array = {"shape": [size], "dtype": "float32"}
    case = {
        "name": "work",
        "axis_names": ["n"],
        "axes": [size],
        "inputs": [{"name": "x", **array, "fill": "normal", "scale": 1.0}],
        "outputs": [{"name": "y", **array}],
    }
    job = {"target": target, "reference": {"kind": "python", "file": __file__, "entry": "right"}}
    flush = 2 * cache_bytes() if target == "cpu" else 2**27
    draw = random.Random()
    with tempfile.TemporaryDirectory() as folder:
        partners = [
            RunnerProcess(name, _build_runner_spec(target, library), Path(folder))
            for name, library in (("candidate", candidate), ("rival", rival))
        ]
        try:
            stage = CaseBuffers(KernelCase(job, case), {}, SLOTS[target], draw, flush)
            for partner in partners:
                partner.wait_ready()
                partner.ask("load", 60.0)
            sides = [RunnerTimer(partner, stage, draw) for partner in partners]
            for side in sides:
                side.plan_batches(SLOTS[target] - 1, graph=target == "cuda")
            found = [_compare_once(sides)]
            while len(found) < count and time.monotonic() < last:
                found.append(_compare_once(sides))
            return found
        finally:
            for partner in partners:
                partner.close()


def _build_runner_spec(target: str, library: str) -> dict[str, Any]:
    limits = {"memory_bytes": 2**34, "threads": 4096, "processes": 64, "file_bytes": 2**28}
    what = {"kind": "c", "library": library, "entry": "entry"}
    return {"target": target, "what": what, "launcher": [], "limits": limits}


def _compare_once(sides: list[RunnerTimer]) -> tuple[Any, str, float, str | None]:
    started = time.monotonic()
    times: tuple[list[Any], list[Any]] = ([], [])
    doubts: list[str | None] = []
    for at in range(PAIRS):
        for which in ((0, 1), (1, 0))[at % 2]:
            window, made = sides[which].time_batch(int(at % 3 == 0))
            times[which].append(window)
            doubts.append(sides[which].find_fault(made))
    pairs = [(Batch(*one), Batch(*other)) for one, other in zip(*times, strict=True)]
    gap = overhead_ns(pairs)
    by_judge, speedup, _ = compute_speedups(pairs, gap)
    doubts.append(describe_clock_disagreement([one for one, _ in pairs], gap))
    word = combine_verdicts(decide_verdict(speedup), decide_verdict(by_judge))
    doubt = next((doubt for doubt in doubts if doubt), None)
    return speedup, word, time.monotonic() - started, doubt


if __name__ == "__main__":
    main()

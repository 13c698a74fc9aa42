"""Verdicts beside programs that use all cores: a kernel against its equal, and a gain of 1.3.

    python benchmarks/busy_machine.py --busy 2 --runs 10 --case same --case gain

Each run is a build, a check and a bench, as ``kb bench`` does it, beside some endless loops, each
a process of its own. What is compared repeats the same work, so the gain is known: the candidate
does it 10 times, its baseline 13 times (or 10, too, where they are equal). Prints one row for each
run and the count of each verdict.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kernelkb.actions.history.record_result import StepRunner
from kernelkb.actions.kernels.measure_variant import build_check_bench, build_prepared
from kernelkb.actions.project.bench_target import prepare_loaded
from kernelkb.errors import KbError
from kernelkb.loading.kernels import load_kernel_folder, select_variant
from kernelkb.measure.subject import BenchOptions

LOOP = """
import os
parent = os.getppid()
while os.getppid() == parent:
    for _ in range(10**6):
        pass
"""
REPEATS = {"same": (10, 10), "gain": (10, 13)}
SIZES = {"c++": 2**14, "torch": 2**14, "threads": 2**20}
"""Elements. Functions of torch use one thread up to 32768, and all cores from there on."""
YAML = """\
id: busy_machine
title: The same work, several times over
axes: [n]
workloads: {{all: {{n: {size}}}}}
default_workload: {{cpu: all}}
check_workloads: [{{n: 7}}]
inputs: [{{name: x, shape: [n], dtype: float32}}]
outputs: [{{name: y, shape: [n], dtype: float32}}]
reference: {{file: reference.py, function: repeated}}
entry: repeated
variants:
"""
VARIANT = (
    "  - {{id: {name}, target: cpu, language: {language}, source: {name}.{suffix}, "
    "returns: {returns}, summary: {name}}}\n"
)
CPP = """\
#include <cmath>
#include <cstdint>
extern "C" int repeated(const float* x, float* y, std::int64_t n, void*) {{
  for (int repeat = 0; repeat < {count}; ++repeat) {{
    for (std::int64_t i = 0; i < n; ++i) {{
      float v = x[i];
      for (int k = 0; k < 32; ++k) v = v * 0.99f + 0.01f;
      y[i] = v;
    }}
    asm volatile("" ::: "memory");
  }}
  return 0;
}}
// {name}
"""
PYTHON = """\
import torch


def repeated(x):
    for _ in range({count}):
        y = torch.tanh(x)
    return y


# {name}
"""
C_REFERENCE = """\
def repeated(x):
    for _ in range(32):
        x = x * 0.99 + 0.01
    return x
"""


def main() -> None:
    """Print a row for each run, and the verdicts of each case."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--busy", type=int, default=2, help="endless loops beside the bench")
    parser.add_argument("--runs", type=int, default=10, help="of each case")
    parser.add_argument("--case", choices=tuple(REPEATS), action="append")
    parser.add_argument("--language", choices=tuple(SIZES), action="append")
    options = parser.parse_args()
    with keep_busy(options.busy):
        for language in options.language or SIZES:
            for case in options.case or REPEATS:
                try:
                    print_case(language, case, options.runs)
                except KbError as error:
                    sys.exit(f"benchmarks/busy_machine.py: {error}")


@contextmanager
def keep_busy(count: int) -> Iterator[None]:
    """Run some endless loops during the block."""
    loops = [subprocess.Popen([sys.executable, "-c", LOOP]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def print_case(language: str, case: str, runs: int) -> None:
    """Measure one case several times; print each verdict."""
    verdicts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "busy_machine"
        write_kernel(folder, language, *REPEATS[case])
        for _ in range(runs):
            verdict, text = measure(folder, against="baseline" if language == "c++" else None)
            verdicts[verdict] += 1
            print(f"{language:8}{case:6}{text}", flush=True)
    print(f"{language:8}{case:6}beside others: {dict(verdicts)}", flush=True)


def write_kernel(folder: Path, language: str, own: int, other: int) -> None:
    """Write a kernel whose candidate repeats the work ``own`` times, its baseline ``other``."""
    folder.mkdir()
    yaml = YAML.format(size=SIZES[language])
    if language == "c++":
        for name, count in (("candidate", own), ("baseline", other)):
            yaml += VARIANT.format(name=name, language="c++", suffix="cpp", returns="false")
            (folder / f"{name}.cpp").write_text(CPP.format(count=count, name=name), "utf-8")
        (folder / "reference.py").write_text(C_REFERENCE, "utf-8")
    else:
        yaml += VARIANT.format(name="candidate", language="python", suffix="py", returns="true")
        (folder / "candidate.py").write_text(PYTHON.format(count=own, name="candidate"), "utf-8")
        (folder / "reference.py").write_text(PYTHON.format(count=other, name="baseline"), "utf-8")
    (folder / "kernel.yaml").write_text(yaml, encoding="utf-8")


def measure(folder: Path, against: str | None) -> tuple[str, str]:
    """Return the verdict of one run, and a line about it."""
    target = prepare_loaded(load_kernel_folder(folder), "candidate", "cpu")
    started, steps = time.monotonic(), StepRunner()
    options = BenchOptions()
    if against:
        rival = target.with_variant(select_variant(target.subject.kernel, "cpu", against))
        built = build_prepared(rival, options)
        options = options._replace(rival=(rival.subject, built), only_rival=True)
    results = build_check_bench(steps, target._replace(project=folder), "all", options)
    seconds = time.monotonic() - started
    found = results.bench
    if found is None or found.interval is None or found.speedup is None:
        detail = found.detail if found else steps.records[-1].model_dump().get("detail")
        return (found.verdict if found else "failed"), f"{seconds:6.1f} s  failed: {detail}"
    low, high = found.interval
    return found.verdict, (
        f"{found.verdict:13}{found.speedup:7.3f} [{low:.3f}, {high:.3f}]{found.pair_count:5} pairs"
        f"{found.candidate_us:10.1f} us{seconds:7.1f} s  {found.disturbed_by or ''}"
    )


if __name__ == "__main__":
    main()

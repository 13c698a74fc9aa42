"""Seconds of each step of a verdict: on a good candidate, one 20 times slower, and a wrong one.

    python benchmarks/verdict_time.py --target cuda

Each run is a build, a check and a bench, as ``kb bench`` does it. Candidates and reference are
functions of torch, as in a task of KernelBench, so every process imports torch. Prints one row for
each run: the whole, the steps of the session, and the judge's own steps of the bench.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from kernelkb.actions.history.record_result import StepRunner
from kernelkb.actions.kernels.measure_variant import build_check_bench
from kernelkb.actions.project.bench_target import BenchTarget, prepare_loaded
from kernelkb.errors import KbError
from kernelkb.loading.kernels import load_kernel_folder
from kernelkb.measure.subject import BenchOptions
from kernelkb.model.base import Target

KERNEL_YAML = """\
id: verdict_time
title: Softmax of rows
axes: [rows, cols]
workloads: {small: {rows: 64, cols: 100}, large: {rows: 1024, cols: 1024}}
default_workload: {cpu: large, cuda: large}
check_workloads: [{rows: 1, cols: 7}]
inputs: [{name: x, shape: [rows, cols], dtype: float32}]
outputs: [{name: y, shape: [rows, cols], dtype: float32}]
reference: {file: reference.py, function: softmax}
entry: run
variants:
"""
VARIANT = (
    "  - {{id: {name}, target: {target}, language: python, source: {name}.py, returns: true, "
    "summary: {name}}}\n"
)
REFERENCE = "import torch\n\n\ndef softmax(x):\n    return torch.softmax(x, dim=-1)\n"
BODIES = {
    "good": "    return torch.softmax(x, dim=-1)\n",
    "slow": "    for _ in range(20):\n        y = torch.softmax(x, dim=-1)\n    return y\n",
    "wrong": "    return torch.zeros_like(x)\n",
}


def main() -> None:
    """Print a row for each run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--target", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--runs", type=int, default=3, help="of each candidate")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "verdict_time"
        try:
            _write_kernel(folder, options.target)
            for name in BODIES:
                for _ in range(options.runs):
                    _print_row(_find_target(folder, name, options.target), name)
        except KbError as error:
            sys.exit(f"benchmarks/verdict_time.py: {error}")


def _write_kernel(folder: Path, target: Target) -> None:
    folder.mkdir()
    variants = "".join(VARIANT.format(name=name, target=target) for name in BODIES)
    (folder / "kernel.yaml").write_text(KERNEL_YAML + variants, encoding="utf-8")
    (folder / "reference.py").write_text(REFERENCE, encoding="utf-8")
    for name, body in BODIES.items():
        text = f"import torch\n\n\ndef run(x):\n{body}"
        (folder / f"{name}.py").write_text(text, encoding="utf-8")


def _find_target(folder: Path, variant: str, target: Target) -> BenchTarget:
    source = load_kernel_folder(folder)
    return prepare_loaded(source, variant, target)._replace(project=folder)


def _print_row(bench_target: BenchTarget, name: str) -> None:
    steps, started = StepRunner(), time.monotonic()
    results = build_check_bench(steps, bench_target, "large", BenchOptions())
    whole_s = time.monotonic() - started
    verdict = results.bench.verdict if results.bench else "incorrect"
    text = " ".join(f"{step.name} {step.seconds:.1f}" for step in steps.records)
    use = results.bench.resource_use if results.bench else None
    judge = " ".join(f"{step} {s:.1f}" for step, s in use.step_seconds.items()) if use else "-"
    print(f"{name:6} {verdict:13} {whole_s:6.1f} s   {text}   judge: {judge}", flush=True)


if __name__ == "__main__":
    main()

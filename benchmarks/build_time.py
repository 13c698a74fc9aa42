"""Time of builds, against torch's own loader and against the compilers alone.

    python benchmarks/build_time.py            (a GPU machine: CUDA; else C++)

Cold builds go into new folders. The floor of the row of configurations is the same compilers,
started directly, one on each core. Parallel efficiency is the time of one build times their number,
divided by cores and total time; a build system cannot exceed that of the compilers alone.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from kernelkb.actions.project.bench_target import BenchTarget, prepare, prepare_loaded
from kernelkb.loading.kernels import load_kernel_folder
from kernelkb.measure.build.build import build, build_all
from kernelkb.measure.process.worker_jobs import worker_python
from kernelkb.model.base import Target
from kernelkb.model.kernels.kernel import Variant

TORCH_LOADER_PROGRAM = """
import sys, time
from torch.utils.cpp_extension import load
started = time.perf_counter()
folder, flags, *files = sys.argv[1:]
load("bench_ext", files, flags.split(), build_directory=folder, verbose=False)
print(time.perf_counter() - started)
"""
BINDINGS = Path(__file__).parent / "bindings" / "scale"
CONFIGURATION_COUNT = 32


def main() -> None:
    """Run all measurements and print one row for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bindings", action="store_true", help="torch's loader too: minutes")
    options = parser.parse_args()
    place = prepare("row_softmax", None, "auto")
    target = place.subject.machine.target
    cores = place.subject.machine.core_count
    print(f"{target}, {cores} cores")
    print(f"{'what':44}{'s':>8}{'floor s':>9}{'ratio':>7}")
    for variant in place.subject.kernel_folder.kernel.variants:
        if variant.target == target:
            with tempfile.TemporaryDirectory() as folder:
                chosen = place.with_variant(variant)
                alone = _time_compiler(chosen)
                work = partial(build, chosen.subject, Path(folder))
                cold, again = _time_call(work), _time_call(work)
                _print_row(f"{variant.id}: cold; floor: the compiler alone", cold, alone)
                _print_row(f"{variant.id}: nothing to do", again, None)
    _time_configurations(place, cores)
    _time_noop_build()
    if options.bindings:
        _time_bindings(target)


def _time_configurations(place: BenchTarget, cores: int) -> None:
    """Time a parallel build of all configurations, and the same compiler commands without it."""
    with tempfile.TemporaryDirectory() as folder:
        one = _time_call(lambda: build(place.subject, Path(folder), ["CONFIGURATION=-1"]))
        sets = [[f"CONFIGURATION={n}"] for n in range(CONFIGURATION_COUNT)]
        started = time.perf_counter()
        built = build_all(place.subject, Path(folder), sets)
        many = time.perf_counter() - started
        runs = [partial(_run_compiler, one.command, f"{folder}/{n}") for n, one in enumerate(built)]
        with ThreadPoolExecutor(cores) as pool:
            alone = _time_call(lambda: list(pool.map(lambda run: run(), runs)))
    _print_row(f"{CONFIGURATION_COUNT} configurations; floor: their compilers", many, alone)
    whole = one * CONFIGURATION_COUNT / cores
    print(f"parallel efficiency {whole / many:.2f}, of the compilers alone {whole / alone:.2f}")


def _run_compiler(command: str, folder: str) -> None:
    Path(folder).mkdir()
    words = [*shlex.split(command), "-shared", "-o", f"{folder}/kernel.so"]
    subprocess.run(words, cwd=folder, capture_output=True, check=True)


def _time_compiler(place: BenchTarget) -> float:
    """Return the seconds of the compiler alone, run without ninja; the first run is a warm-up."""
    with tempfile.TemporaryDirectory() as folder:
        built = build(place.subject, Path(folder))
    words = [*shlex.split(built.command), "-shared", "-o", os.devnull]
    with tempfile.TemporaryDirectory() as folder:
        run = partial(subprocess.run, words, cwd=folder, capture_output=True, check=True)
        run()
        return _time_call(run)


def _time_call(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _time_noop_build() -> None:
    argv = [sys.executable, "-c", "from kernelkb.cli import main; main(['build', 'row_softmax'])"]
    bare = [
        sys.executable,
        "-c",
        "import kernelkb.cli.kernels, kernelkb.actions.kernels.measure_variant",
    ]
    empty = [sys.executable, "-c", "pass"]
    runs = [partial(subprocess.run, words, capture_output=True) for words in (argv, bare, empty)]
    times = [min(_time_call(run) for _ in range(5)) for run in runs]
    _print_row("kb build with nothing to do; floor: its imports", times[0], times[1])
    _print_row("its imports; floor: an empty process", times[1], times[2])


def _time_bindings(target: Target) -> None:
    """Time builds of one operation with header-heavy bindings, against torch's own loader.

    The loader does not optimise C++ by default, so it gets the flags that a CPU kernel needs.
    """
    source = load_kernel_folder(BINDINGS)
    for variant in source.kernel.variants:
        if variant.target == target and variant.is_compiled:
            place = prepare_loaded(source, variant.id, target)
            with tempfile.TemporaryDirectory() as folder:
                built = build(place.subject, Path(folder))  # warm-up: headers enter the page cache
            with tempfile.TemporaryDirectory() as folder:
                cold = _time_call(partial(build, place.subject, Path(folder)))
            if built.error:
                print(f"{variant.id}: {built.error}")
                continue
            torch = _time_torch_loader(variant) if variant.binding == "torch-extension" else None
            _print_row(
                f"{variant.binding}: cold{'; floor: torch itself' if torch else ''}", cold, torch
            )


def _time_torch_loader(variant: Variant) -> float:
    """Return the seconds that torch's own loader takes to build a variant's files."""
    files = [str(BINDINGS / name) for name in (variant.source, *variant.also)]
    with tempfile.TemporaryDirectory() as folder:
        flags = "-O3 -march=native -fopenmp" if variant.target == "cpu" else ""
        argv = [worker_python(), "-c", TORCH_LOADER_PROGRAM, folder, flags, *files]
        done = subprocess.run(argv, capture_output=True, text=True, check=True)
    return float(done.stdout)


def _print_row(what: str, seconds: float, floor: float | None) -> None:
    ratio = f"{floor:>9.2f}{seconds / floor:>7.2f}" if floor else ""
    print(f"{what:44}{seconds:>8.2f}{ratio}", flush=True)


if __name__ == "__main__":
    main()

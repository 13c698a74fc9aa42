"""The program of ``run.py``: plan, build, judge, classify, print."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.mutants.build import Built, build_mutants, build_originals
from benchmarks.mutants.jobs import (
    Judged,
    describe_kernels,
    judge_mutants,
    prepare_subjects,
    read_results,
    stop,
)
from benchmarks.mutants.mutant import Mutant
from benchmarks.mutants.plan import list_mutants
from benchmarks.mutants.table import Classified, classify, print_tables

from kernelkb.model.base import Target

_POLL_S = 0.5
_PROGRESS_S = 30.0
_LANGUAGES: dict[Target, tuple[str, ...]] = {"cpu": ("c++", "python"), "cuda": ("cuda", "triton")}


class Study(NamedTuple):
    """What became of the mutants of a study, and how many of them were not reached in time."""

    found: list[Classified]
    unreached: int


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the program; exit 1 where a mutant survives."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--target", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--count", type=int, help="judge a sample of so many; all by default")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    parser.add_argument("--folder", type=Path, help="where builds and results go")
    parser.add_argument("--only", help="mutants whose name contains this")
    parser.add_argument("--plan-only", action="store_true", help="list them")
    parser.add_argument("--build-only", action="store_true", help="build them")
    parser.add_argument("--arch", default="native", help="nvcc's -arch, as sm_90")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1e9, help="end judging after these")
    parser.add_argument("--resume", action="store_true", help="go on with what --folder holds")
    options = parser.parse_args(arguments)
    mutants = choose(list_mutants(options.target), options.count, options.seed, options.only)
    if options.plan_only:
        _print_plan(mutants)
        return
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        folder = options.folder or Path(scratch)
        if options.build_only:
            _print_build(build_mutants(mutants, folder, workers=options.workers, arch=options.arch))
            return
        study = run_study(
            options.target, mutants, folder, workers=options.workers, seconds=options.seconds,
            arch=options.arch, shows_progress=True, resumes=options.resume,
        )  # fmt: skip
    print_tables(study.found)
    if study.unreached:
        print(f"{study.unreached} mutants were not reached in time")
    sys.exit(int(any(one.word == "survives" for one in study.found)))


def choose(
    mutants: Sequence[Mutant], count: int | None, seed: int, only: str | None = None
) -> list[Mutant]:
    """Return a sample of mutants in their order; the same for the same seed."""
    named = [mutant for mutant in mutants if only is None or only in mutant.name]
    if count is None or count >= len(named):
        return named
    chosen = sorted(random.Random(seed).sample(range(len(named)), count))
    return [named[index] for index in chosen]


def run_study(
    target: Target,
    mutants: Sequence[Mutant],
    folder: Path,
    *,
    workers: int = 2,
    seconds: float = 1e9,
    arch: str = "native",
    shows_progress: bool = False,
    resumes: bool = False,
) -> Study:
    """Build, judge and classify mutants; Ctrl-C ends judging early.

    Args:
        target: Of all of them.
        mutants: Which.
        folder: For builds and results.
        workers: Compilers, then judging processes, side by side.
        seconds: End judging after these; what was not reached is left out.
        arch: nvcc's ``-arch``.
        shows_progress: Print how far it is, every half minute.
        resumes: Keep the results in the folder, which are of the same mutants; else replace them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if not resumes:
        for file in folder.glob("results_*.jsonl"):
            file.unlink()
    started = time.monotonic()
    originals = build_originals(_LANGUAGES[target], folder / "originals", arch)
    built = build_mutants(mutants, folder, workers=workers, arch=arch)
    if shows_progress:
        print(f"built in {time.monotonic() - started:.0f} s", flush=True)
    subjects = prepare_subjects(target)
    kernels = describe_kernels(subjects, originals, folder)
    by_number = dict(enumerate(built))
    before = {one.number for one in read_results(folder, subjects, by_number)}
    order = [(number, one) for number, one in by_number.items() if number not in before]
    random.Random(0).shuffle(order)  # each process gets some of each kernel
    processes = judge_mutants(kernels, order, folder, workers)
    started = shown = time.monotonic()
    try:
        while any(process.poll() is None for process in processes):
            time.sleep(_POLL_S)
            now = time.monotonic()
            if now - started > seconds:
                break
            if shows_progress and now - shown > _PROGRESS_S:
                shown = now
                done = len(read_results(folder, subjects, by_number))
                print(f"{done} of {len(built)} judged in {now - started:.0f} s", flush=True)
    except KeyboardInterrupt:
        print("interrupted: what was judged follows", file=sys.stderr)
    finally:
        stop(processes)
    judged = read_results(folder, subjects, by_number)
    return _classify_all(built, {one.number: one for one in judged})


def _classify_all(built: Sequence[Built], judged: dict[int, Judged]) -> Study:
    found, unreached = [], 0
    for number, one in enumerate(built):
        if one.code is not None and number not in judged:
            unreached += 1
        else:
            found.append(classify(one.mutant, judged.get(number)))
    return Study(found, unreached)


def _print_plan(mutants: Sequence[Mutant]) -> None:
    for mutant in mutants:
        print(f"{mutant.name}  {mutant.kind}: {mutant.difference}")
    for kind, count in Counter(mutant.kind for mutant in mutants).most_common():
        print(f"{count:>6}  {kind}")
    print(f"{len(mutants):>6}  in all")


def _print_build(built: Sequence[Built]) -> None:
    rejected = [one.mutant for one in built if one.code is None]
    for mutant in rejected:
        print(f"does not compile: {mutant.name}: {mutant.difference}")
    print(f"{len(built)} mutants, {len(rejected)} do not compile")

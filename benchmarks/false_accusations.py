"""How often a correct kernel is called incorrect, invalid or crashed.

    python benchmarks/false_accusations.py --runs 500 --workers 2
    python benchmarks/false_accusations.py --target cuda --runs 500

Every variant of the shipped kernels, of ``benchmarks/kinds`` and of ``benchmarks/bindings`` is run
in turn, on workloads and check shapes as they come. A run is a build, a check and a bench, each in
new processes. No accusation is the requirement: a run that ends as incorrect, invalid or crashed is
printed with its reason.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from kernelkb.actions.kernels.measure_variant import bench_prepared
from kernelkb.actions.project.bench_target import BenchTarget, prepare_loaded
from kernelkb.errors import KbError
from kernelkb.loading.kernels import load_kernel_folder
from kernelkb.measure.subject import BenchOptions
from kernelkb.model.base import Target

BENCHMARKS_FOLDER = Path(__file__).parent
KERNEL_FOLDERS = (
    BENCHMARKS_FOLDER.parent / "kernels",
    BENCHMARKS_FOLDER / "kinds",
    BENCHMARKS_FOLDER / "bindings",
)


class HonestRun(NamedTuple):
    """One run of a correct kernel, and its verdict."""

    name: str
    verdict: str
    detail: str | None
    seconds: float


def main() -> None:
    """Print the table; exit 1 when a kernel was accused."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--target", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--workers", type=int, default=1, help="runs side by side; 1 on a GPU")
    parser.add_argument("--seconds", type=float, default=1e9, help="start no more runs after these")
    parser.add_argument("--budget", type=float, default=0.3, help="seconds of taking times")
    options = parser.parse_args()
    if options.workers > 1:
        os.environ["KB_DEVICE_QUEUE"] = "off"  # parallel runs are requested here
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.workers) as pool:
        try:
            places = list(
                itertools.islice(_cycle_targets(options.target, Path(folder)), options.runs)
            )
        except KbError as error:
            sys.exit(f"benchmarks/false_accusations.py: {error}")
        last = time.monotonic() + options.seconds
        found = pool.map(lambda one: _bench_once(one[0], one[1], options.budget, last), places)
        done = [run for run in found if run is not None]
    accused = [run for run in done if run.verdict in ("incorrect", "invalid", "error")]
    _print_table(done)
    for run in accused:
        print(f"ACCUSED {run.name}: {run.verdict}: {run.detail}")
    print(f"{len(accused)} of {len(done)} accused; {sum(r.seconds for r in done):.0f} s in all")
    sys.exit(int(bool(accused)))


def _cycle_targets(target: Target, folder: Path) -> Iterator[tuple[BenchTarget, str]]:
    """Yield pairs of variant and workload, in an endless cycle."""
    sources = [
        load_kernel_folder(path.parent)
        for one in KERNEL_FOLDERS
        for path in one.glob("*/kernel.yaml")
    ]
    found = [
        (prepare_loaded(source, variant.id, target)._replace(project=folder), name)
        for source in sources
        for variant in source.kernel.variants
        if variant.target == target
        for name in list(source.kernel.workloads)[:2]
    ]
    return itertools.cycle(found)


def _bench_once(
    place: BenchTarget, workload: str, budget_s: float, last: float
) -> HonestRun | None:
    if time.monotonic() > last:
        return None
    names = place.subject.identity_fields
    name = f"{names['kernel']}/{names['variant']} {workload}"
    started = time.monotonic()
    try:
        found = bench_prepared(
            place, workload, options=BenchOptions(timeout_s=120.0, budget_s=budget_s)
        )
        word, detail = str(found.verdict), found.detail
    except KbError as error:
        word, detail = "error", str(error)
    return HonestRun(name, word, detail, time.monotonic() - started)


def _print_table(done: list[HonestRun]) -> None:
    words = ("faster", "inconclusive", "slower", "incorrect", "invalid", "error")
    print(f"{'variant and workload':36}{'runs':>6}" + "".join(f"{word:>14}" for word in words))
    for name in dict.fromkeys(run.name for run in done):
        counted = Counter(run.verdict for run in done if run.name == name)
        print(f"{name:36}{counted.total():>6}" + "".join(f"{counted[w]:>14}" for w in words))


if __name__ == "__main__":
    main()

"""How long a staged profile takes next to ``ncu --set full``, and whether both say the same first.

    python benchmarks/profiling.py                      (a GPU machine with ncu: some minutes)
    python benchmarks/profiling.py --kernel histogram --kernel sort64

Every kernel below ``benchmarks/kinds`` has one weakness of another kind; those that ship come
besides. Each is built and timed shortly, on its default workload. Then it is profiled as
``kb profile`` does it, and that is what is timed: the self-test of the counters (kept, so only
read), every stage, and the decisions between them. The rival is ``ncu --set full`` of the same
launch under the same filters, in the same run of this program: once on the worker without torch,
which the stages use too, and once on the worker with torch, which is nearer to profiling somebody's
own script. What the bench and ptxas said is known to all three when they are asked for a diagnosis.

The floor of any of them is one start of ncu, about two seconds. A ratio below 1 is a gain.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from kernelkb.actions.bench_target import Workplace, environment, prepared, required
from kernelkb.actions.building import build_here
from kernelkb.actions.kernels import bench_here, profile_here
from kernelkb.actions.rules_cache import decision_program
from kernelkb.decide.recommend import recommend
from kernelkb.errors import EnvironmentGapError, KbError
from kernelkb.loading.kernels import load_folder
from kernelkb.measure import ncu
from kernelkb.measure.machine.tools import find_cuda_tool, version_of
from kernelkb.measure.profile import TIMEOUT_S, _job, _static_metrics
from kernelkb.model.measurement import Bench, Build
from kernelkb.profiles.launch import wanted_metrics

KINDS = Path(__file__).parent / "kinds"
SHIPPED = Path(__file__).parent.parent / "kernels"
BUDGET_S = 0.5
NOTHING = "no diagnosis"

_by_name = ncu._wrapper


class Said(NamedTuple):
    """One way to profile: how long it took, and what it names first."""

    seconds: float
    first: str


class Row(NamedTuple):
    """A kernel, profiled in three ways."""

    timed: Bench
    stages: int
    staged: Said
    light: Said
    torch: Said

    @property
    def same(self) -> bool:
        """Whether all three name the same bottleneck first."""
        return self.staged.first == self.light.first == self.torch.first

    @property
    def ratios(self) -> tuple[float, float]:
        """Seconds of the stages over those of the full set, without and with torch."""
        return self.staged.seconds / self.light.seconds, self.staged.seconds / self.torch.seconds


class NotProfiledError(Exception):
    """A kernel could not be built, timed or profiled; the text says why."""


def main() -> None:
    """Print the table."""
    files = [*sorted(KINDS.glob("*/kernel.yaml")), *sorted(SHIPPED.glob("*/kernel.yaml"))]
    folders = {path.parent.name: path.parent for path in files}
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kernel", action="append", choices=folders, help="only these")
    chosen = parser.parse_args().kernel or folders
    try:
        title = ready()
    except KbError as error:
        sys.exit(f"benchmarks/profiling.py: {error}")
    print(title)
    print(f"{'kernel':22}{'us':>9}{'stages':>8}{'staged s':>10}{'full s':>8}{'ratio':>7}"
          f"{'with torch s':>14}{'ratio':>7}  first diagnosis", flush=True)  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        found = [row for name in dict.fromkeys(chosen) for row in rows(folders[name], Path(folder))]
    summary([row for row in found if row is not None], len(found))


def ready() -> str:
    """Return the GPU and the version of ncu.

    Raises:
        EnvironmentGapError: This machine cannot profile a CUDA kernel.
    """
    machine = required(environment("cuda"))
    tool = find_cuda_tool("ncu")
    if tool is None:
        raise EnvironmentGapError("ncu was not found", "install Nsight Compute, or put it on PATH")
    lie = ncu.counters_lie()  # also starts ncu once, where nothing was kept: disks get warm
    if lie is not None:
        raise EnvironmentGapError(lie, "see kb env; the counters decide, so they must be true")
    return f"{machine.title}, ncu {version_of(tool)}"


def rows(folder: Path, project: Path) -> Iterator[Row | None]:
    """Measure and print every CUDA variant of a kernel; None stands for what failed."""
    try:
        source = load_folder(folder)
    except KbError as error:
        failed(folder.name, error)
        yield None
        return
    for variant in source.kernel.variants:
        if variant.target == "cuda":
            name = f"{source.kernel.id}/{variant.id}"
            try:
                place = prepared(source, variant.id, "cuda")._replace(project=project)
                row = measured(place)
            except Exception as error:  # whatever it is, the other kernels have to be shown
                failed(name, error)
                yield None
            else:
                show(name, row)
                yield row


def measured(place: Workplace) -> Row:
    """Build, time and profile one variant.

    Raises:
        NotProfiledError: One of them failed.
    """
    built = build_here(place)
    if built.error:
        raise NotProfiledError(f"build: {built.error}")
    workload = place.subject.source.kernel.default_workload["cuda"]
    timed = bench_here(place, built, workload, budget_s=BUDGET_S)
    if timed.candidate_us is None or timed.verdict == "incorrect":
        raise NotProfiledError(f"bench: {timed.verdict}: {timed.detail}")
    started = time.perf_counter()
    seen = profile_here(place, built, timed)
    took = time.perf_counter() - started
    if seen.detail is not None:
        raise NotProfiledError(f"profile: {seen.detail}")
    staged = Said(took, first(place, seen.metrics))
    return Row(
        timed,
        len(seen.records),
        staged,
        *(full(place, built, timed, m) for m in ("light", "repeat")),
    )


def full(place: Workplace, built: Build, timed: Bench, mode: str) -> Said:
    """Profile with the full set, on the worker of a mode.

    Raises:
        NotProfiledError: ncu reported nothing.
    """
    job = {**_job(place.subject, built, timed.workload), "mode": mode}
    raw = wanted_metrics(decision_program())
    with patch.object(ncu, "_wrapper", full_set):
        started = time.perf_counter()
        found = ncu.collect(job, place.subject.variant.kernels, raw, timeout_s=TIMEOUT_S)
        took = time.perf_counter() - started
    if found.launch is None:
        raise NotProfiledError(f"full set, {mode}: {found.detail}")
    known = {**timed.metrics, **_static_metrics(built), **found.launch.metrics}
    return Said(took, first(place, known))


def full_set(ncu_path: str, kernels: Sequence[str], names: Sequence[str], log: Path) -> list[str]:
    """Return the command line of ``kernelkb.measure.ncu``, for the full set instead of names."""
    words = list(_by_name(ncu_path, kernels, names, log))
    at = words.index("--metrics")
    return [*words[:at], "--set", "full", *words[at + 2 :]]


def first(place: Workplace, metrics: Mapping[str, float]) -> str:
    """Return the bottleneck that an answer names first."""
    machine = place.subject.machine
    answer = recommend(decision_program(), metrics, target="cuda", device=machine.device)
    best = next(iter(answer["diagnoses"]), None)
    return best["bottleneck"] if best and best["verdict"] == "matches" else NOTHING


def show(name: str, row: Row) -> None:
    """Print one row."""
    without, with_torch = row.ratios
    says = f"same: {row.staged.first}"
    if not row.same:
        three = f"staged {row.staged.first}, full {row.light.first}, with torch {row.torch.first}"
        says = f"DIFFERENT: {three}"
    print(f"{name:22}{row.timed.candidate_us:>9.1f}{row.stages:>8}{row.staged.seconds:>10.2f}"
          f"{row.light.seconds:>8.2f}{without:>7.2f}{row.torch.seconds:>14.2f}{with_torch:>7.2f}"
          f"  {says}", flush=True)  # fmt: skip


def summary(found: Sequence[Row], asked: int) -> None:
    """Print the last line."""
    if not found:
        sys.exit("none was profiled")
    same = sum(row.same for row in found)
    parts = [
        f"{title} median {statistics.median(ratios):.2f}, worst {max(ratios):.2f}"
        for title, ratios in zip(
            ("staged over full", "over full with torch"),
            zip(*(row.ratios for row in found), strict=True),
            strict=True,
        )
    ]
    print(f"{same} of {len(found)} same ({asked - len(found)} failed); {'; '.join(parts)}")


def failed(name: str, error: Exception) -> None:
    """Print the row of what could not be profiled."""
    line = (str(error).strip().splitlines() or ["no reason given"])[0]
    print(f"{name:22}  failed: {type(error).__name__}: {line[:200]}", flush=True)


if __name__ == "__main__":
    main()

"""Time of a staged profile against ``ncu --set full``, and whether both give the same diagnosis.

    python benchmarks/profiling.py                      (a GPU machine with ncu: some minutes)
    python benchmarks/profiling.py --kernel histogram --kernel sort64

Every kernel below ``benchmarks/kinds`` has one weakness of another kind; the shipped kernels are
added. Each is built and timed shortly, on its default workload. Then it is profiled as
``kb profile`` does it, and that is timed: reading the result of the counters' self-test, every
stage, and the decisions between them. The alternative is ``ncu --set full`` of the same launch with
the same filters, in the same run of this program: once on the worker without torch, which the
stages use too, and once on the worker with torch, which is closer to profiling a user's own script.
All three are given the results of the bench and of ptxas when they are asked for a diagnosis.
The column ``lines`` is the time of the stages over that without counting by instruction, from which
lines are named; 1.25 at most is the goal.

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
from typing import Literal, NamedTuple
from unittest.mock import patch

from kernelkb.actions.kernels.measure_variant import bench_built, build_prepared, profile_built
from kernelkb.actions.project.bench_target import (
    BenchTarget,
    prepare_loaded,
    require_machine,
    validate_machine,
)
from kernelkb.actions.project.rules_cache import load_compiled_rules
from kernelkb.decide.recommend import recommend
from kernelkb.errors import EnvironmentGapError, KbError
from kernelkb.loading.kernels import load_kernel_folder
from kernelkb.measure.machine.host import find_cuda_tool, query_version
from kernelkb.measure.profile import ncu
from kernelkb.measure.profile.profile import TIMEOUT_S, make_repeat_job, static_metrics
from kernelkb.measure.subject import BenchOptions
from kernelkb.model.records.measurement import Bench, Build, Profile
from kernelkb.profiles.launch import list_raw_names

KINDS = Path(__file__).parent / "kinds"
SHIPPED = Path(__file__).parent.parent / "kernels"
BUDGET_S = 0.5
NO_DIAGNOSIS = "no diagnosis"
RepeatMode = Literal["repeat-without-torch", "repeat"]
REPEAT_MODES: tuple[RepeatMode, ...] = ("repeat-without-torch", "repeat")

_original_wrapper = ncu._make_ncu_command


class ProfileRun(NamedTuple):
    """One profile: the seconds that it took, and the bottleneck that its diagnosis ranks first."""

    seconds: float
    first_bottleneck: str


class ProfileComparison(NamedTuple):
    """One kernel, profiled in three ways: staged, full set, and full set with torch."""

    bench: Bench
    stage_count: int
    staged_run: ProfileRun
    seconds_without_lines: float
    """Of the stages, with nothing counted by instruction."""
    full_run: ProfileRun
    full_run_with_torch: ProfileRun

    @property
    def is_same(self) -> bool:
        """Whether all three profiles rank the same bottleneck first."""
        return (
            self.staged_run.first_bottleneck
            == self.full_run.first_bottleneck
            == self.full_run_with_torch.first_bottleneck
        )

    @property
    def lines_ratio(self) -> float:
        """Time of the staged profile over that without counting by instruction."""
        return self.staged_run.seconds / self.seconds_without_lines

    @property
    def time_ratios(self) -> tuple[float, float]:
        """Time of the staged profile over that of the full set, without and with torch."""
        return (
            self.staged_run.seconds / self.full_run.seconds,
            self.staged_run.seconds / self.full_run_with_torch.seconds,
        )


class NotProfiledError(Exception):
    """A kernel could not be built, timed or profiled; the message gives the reason."""


def main() -> None:
    """Print one row for each variant, then a summary."""
    files = [*sorted(KINDS.glob("*/kernel.yaml")), *sorted(SHIPPED.glob("*/kernel.yaml"))]
    folders = {path.parent.name: path.parent for path in files}
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kernel", action="append", choices=folders, help="only these")
    chosen = parser.parse_args().kernel or folders
    try:
        title = require_profiler()
    except KbError as error:
        sys.exit(f"benchmarks/profiling.py: {error}")
    print(title)
    print(f"{'kernel':22}{'us':>9}{'stages':>8}{'staged s':>10}{'lines':>7}{'full s':>8}"
          f"{'ratio':>7}{'with torch s':>14}{'ratio':>7}  first diagnosis", flush=True)  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        found = [
            row
            for name in dict.fromkeys(chosen)
            for row in measure_variants(folders[name], Path(folder))
        ]
    print_summary([row for row in found if row is not None], len(found))


def require_profiler() -> str:
    """Return the name of the GPU and the version of ncu, as one line.

    Raises:
        EnvironmentGapError: This machine cannot profile a CUDA kernel.
    """
    machine = require_machine(validate_machine("cuda"))
    tool = find_cuda_tool("ncu")
    if tool is None:
        raise EnvironmentGapError("ncu was not found", "install Nsight Compute, or put it on PATH")
    lie = (
        ncu.describe_counter_error()
    )  # without a cached result this runs ncu, which warms the page cache
    if lie is not None:
        raise EnvironmentGapError(lie, "see kb env; the counters decide, so they must be true")
    return f"{machine.title}, ncu {query_version(tool)}"


def measure_variants(folder: Path, project: Path) -> Iterator[ProfileComparison | None]:
    """Measure and print every CUDA variant of a kernel; yield None for a failed one."""
    try:
        source = load_kernel_folder(folder)
    except KbError as error:
        print_failure(folder.name, error)
        yield None
        return
    for variant in source.kernel.variants:
        if variant.target == "cuda":
            name = f"{source.kernel.id}/{variant.id}"
            try:
                place = prepare_loaded(source, variant.id, "cuda")._replace(project=project)
                row = measure_variant(place)
            except Exception as error:  # any failure: the other kernels must still be shown
                print_failure(name, error)
                yield None
            else:
                print_row(name, row)
                yield row


def measure_variant(place: BenchTarget) -> ProfileComparison:
    """Build, time and profile one variant.

    Raises:
        NotProfiledError: The build, the bench or the profile failed.
    """
    built = build_prepared(place)
    if built.error:
        raise NotProfiledError(f"build: {built.error}")
    workload = place.subject.kernel_folder.kernel.default_workload["cuda"]
    timed = bench_built(place, built, workload, options=BenchOptions(budget_s=BUDGET_S))
    if timed.candidate_us is None or timed.verdict == "incorrect":
        raise NotProfiledError(f"bench: {timed.verdict}: {timed.detail}")
    with patch.object(ncu, "has_reader", lambda: False):
        _, without_lines_s = time_profile(place, built, timed)
    seen, took = time_profile(place, built, timed)
    staged = ProfileRun(took, first_diagnosis(place, seen.metrics))
    return ProfileComparison(
        timed,
        len(seen.records),
        staged,
        without_lines_s,
        *(profile_full_set(place, built, timed, m) for m in REPEAT_MODES),
    )


def time_profile(place: BenchTarget, built: Build, timed: Bench) -> tuple[Profile, float]:
    """Profile as ``kb profile`` does it; return the profile and the seconds that it took.

    Raises:
        NotProfiledError: A stage failed.
    """
    started = time.perf_counter()
    seen = profile_built(place, built, timed)
    took = time.perf_counter() - started
    if seen.detail is not None:
        raise NotProfiledError(f"profile: {seen.detail}")
    return seen, took


def profile_full_set(
    place: BenchTarget, built: Build, timed: Bench, mode: RepeatMode
) -> ProfileRun:
    """Profile with ``ncu --set full``; ``mode`` selects the worker, with or without torch.

    Raises:
        NotProfiledError: ncu reported nothing.
    """
    job = make_repeat_job(place.subject, built, timed.workload, 3)
    job["mode"] = mode
    raw = list_raw_names(load_compiled_rules())
    with patch.object(ncu, "_make_ncu_command", build_full_set_command):
        started = time.perf_counter()
        found = ncu.collect_counters(job, place.subject.variant.kernels, raw, timeout_s=TIMEOUT_S)
        took = time.perf_counter() - started
    if found.launch is None:
        raise NotProfiledError(f"full set, {mode}: {found.reason}")
    known = {**timed.metrics, **static_metrics(built), **found.launch.metrics}
    return ProfileRun(took, first_diagnosis(place, known))


def build_full_set_command(
    ncu_path: str,
    kernels: Sequence[str],
    names: Sequence[str],
    log: Path,
    _report_file: Path | None = None,
) -> list[str]:
    """Return the command of ``measure.profile.ncu`` with ``--set full``, not metric names."""
    words = list(_original_wrapper(ncu_path, kernels, names, log))
    at = words.index("--metrics")
    return [*words[:at], "--set", "full", *words[at + 2 :]]


def first_diagnosis(place: BenchTarget, metrics: Mapping[str, float]) -> str:
    """Return the bottleneck that matches best, or ``no diagnosis``."""
    machine = place.subject.machine
    answer = recommend(load_compiled_rules(), metrics, target="cuda", device=machine.device)
    best = next(iter(answer["diagnoses"]), None)
    return best["bottleneck"] if best and best["verdict"] == "matches" else NO_DIAGNOSIS


def print_row(name: str, row: ProfileComparison) -> None:
    """Print the row of one variant."""
    without, with_torch = row.time_ratios
    says = f"same: {row.staged_run.first_bottleneck}"
    if not row.is_same:
        three = (
            f"staged {row.staged_run.first_bottleneck}, full {row.full_run.first_bottleneck}, "
            f"with torch {row.full_run_with_torch.first_bottleneck}"
        )
        says = f"DIFFERENT: {three}"
    print(f"{name:22}{row.bench.candidate_us:>9.1f}{row.stage_count:>8}{row.staged_run.seconds:>10.2f}"
          f"{row.lines_ratio:>7.2f}"
          f"{row.full_run.seconds:>8.2f}{without:>7.2f}{row.full_run_with_torch.seconds:>14.2f}{with_torch:>7.2f}"
          f"  {says}", flush=True)  # fmt: skip


def print_summary(found: Sequence[ProfileComparison], asked: int) -> None:
    """Print the summary: agreement, failures, and median and worst ratios."""
    if not found:
        sys.exit("none was profiled")
    same = sum(row.is_same for row in found)
    parts = [
        f"{title} median {statistics.median(ratios):.2f}, worst {max(ratios):.2f}"
        for title, ratios in zip(
            ("staged over full", "over full with torch"),
            zip(*(row.time_ratios for row in found), strict=True),
            strict=True,
        )
    ]
    lines = [row.lines_ratio for row in found]
    parts.append(f"lines median {statistics.median(lines):.2f}, worst {max(lines):.2f}")
    print(f"{same} of {len(found)} same ({asked - len(found)} failed); {'; '.join(parts)}")


def print_failure(name: str, error: Exception) -> None:
    """Print the row of a variant that failed, with the first line of its error."""
    line = (str(error).strip().splitlines() or ["no reason given"])[0]
    print(f"{name:22}  failed: {type(error).__name__}: {line[:200]}", flush=True)


if __name__ == "__main__":
    main()

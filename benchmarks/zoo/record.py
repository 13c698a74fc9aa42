"""Records the zoo's pairs on this machine's GPU: times each pair, and profiles each variant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from benchmarks.zoo.measured_cases import write_measured_cases
from benchmarks.zoo.pairs import (
    BuiltPair,
    ShowProgress,
    build_pairs,
    check_pairs,
    prepare_pairs,
)
from benchmarks.zoo.recordings import (
    PairRecording,
    VariantRecording,
    read_recordings,
    write_recordings,
)
from benchmarks.zoo.reports import profile_pairs

from kernelkb.actions.project.bench_target import BenchTarget, get_project_path
from kernelkb.errors import EnvironmentGapError, KbError
from kernelkb.loading.kernels import find_zoo_folders
from kernelkb.measure.bench.bench import bench
from kernelkb.measure.machine.environment import lock_device
from kernelkb.measure.machine.host import find_cuda_tool
from kernelkb.measure.machine.nvidia_driver import query_driver
from kernelkb.measure.profile.profile import static_metrics
from kernelkb.measure.subject import BenchOptions
from kernelkb.model.kernels.kernel import Pair
from kernelkb.model.records.measurement import Bench

Stage: TypeAlias = Literal["time", "profile"]
STAGES: tuple[Stage, ...] = ("time", "profile")
_BUDGET_S = 0.4
_COMMON_METRICS = (
    "algorithmic_bytes",
    "algorithmic_flop_count",
    "launch_floor_us",
    "copy_peak_gbps",
)
"""Metrics of a bench that hold for both variants."""
_OWN_METRICS = ("call_us",)
"""Metrics of a bench that hold for its candidate."""


def record_pairs(
    names: Sequence[str],
    measured: Path,
    reports: Path,
    *,
    stages: Sequence[Stage] = STAGES,
    missing: bool = False,
    budget_s: float = _BUDGET_S,
    show_progress: ShowProgress = lambda _line: None,
) -> list[PairRecording]:
    """Measure pairs on this GPU, write each as soon as it is measured, and return those.

    Args:
        names: Pairs; none for all.
        measured: Folder of the numbers: a line of ``<device>.jsonl`` for each pair.
        reports: Folder of the binary reports, one for each bottleneck, compressed.
        stages: ``time`` benches a pair, ``profile`` profiles pairs that were timed.
        missing: Leave out what has been measured on this GPU.
        budget_s: Seconds of timing for each pair.
        show_progress: Called with one line for each step.

    Raises:
        BadValueError: There is no such pair.
        EnvironmentGapError: There is no GPU, no compiler or no ncu.
    """
    chosen = prepare_pairs(names)
    if not chosen:
        return []
    _require_ncu(stages)
    machine = chosen[0].before.subject.machine
    file, folder = measured / f"{machine.device}.jsonl", reports / str(machine.device)
    rows, pairs = _read_rows(file), {one.kernel.id: one.pair for one in chosen}
    wanted = {stage: list_wanted(pairs, stage, rows, missing=missing) for stage in stages}
    built = build_pairs([p for p in chosen if _is_wanted(p, wanted)], show_progress)
    with lock_device(machine):
        correct = check_pairs(built, show_progress)
        done = _time_pairs(_select(correct, wanted, "time"), file, budget_s, show_progress)
        done |= _profile_families(_select(correct, wanted, "profile"), file, folder, show_progress)
    write_measured_cases(measured)
    return [row for name, row in _read_rows(file).items() if name in done]


def _require_ncu(stages: Sequence[Stage]) -> None:
    if "profile" in stages and find_cuda_tool("ncu") is None:
        raise EnvironmentGapError("ncu was not found", "install Nsight Compute, or put it on PATH")


def _select(
    pairs: Iterable[BuiltPair], wanted: Mapping[Stage, set[str]], stage: Stage
) -> list[BuiltPair]:
    return [pair for pair in pairs if pair.kernel.id in wanted.get(stage, ())]


def _is_wanted(pair: BuiltPair, wanted: Mapping[Stage, set[str]]) -> bool:
    return any(pair.kernel.id in names for names in wanted.values())


def list_wanted(
    pairs: Mapping[str, Pair], stage: Stage, rows: Mapping[str, PairRecording], *, missing: bool
) -> set[str]:
    """Return the names of the pairs that a stage measures.

    Args:
        pairs: Those that were asked for; one of several launches is not profiled.
        stage: What is measured.
        rows: What has been measured on this GPU, by pair.
        missing: Leave out pairs that have it: times by bench for ``time``, a report for
            ``profile``.
    """

    def has_it(row: PairRecording) -> bool:
        return row.timed_by == "bench" if stage == "time" else bool(row.report)

    return {
        name
        for name, pair in pairs.items()
        if not (missing and name in rows and has_it(rows[name]))
        and not (stage == "profile" and pair.launch_count > 1)
    }


def name_report(family: str, names: Iterable[str], every: Mapping[str, str]) -> str:
    """Return the name of the report of one run of ncu.

    Args:
        family: The bottleneck of the pairs.
        names: The pairs in the report.
        every: The family of every pair, by pair.

    Returns:
        The family where every pair of it is in the report, else the first pair: the report of the
        family, which holds the others, must stay.
    """
    present = sorted(names)
    return family if present == sorted(n for n, f in every.items() if f == family) else present[0]


def _read_rows(file: Path) -> dict[str, PairRecording]:
    """Return the recordings of a file by pair; none where there is no file."""
    return {row.kernel: row for row in (read_recordings(file) if file.is_file() else [])}


def _time_pairs(
    pairs: Sequence[BuiltPair], file: Path, budget_s: float, show_progress: ShowProgress
) -> set[str]:
    """Time pairs and write each at once; return the names of those that could be timed."""
    done = set()
    rows = _read_rows(file)
    for one in pairs:
        row = _time_pair(one, rows.get(one.kernel.id), budget_s, show_progress)
        if row is not None:
            write_recordings(file, [row])
            done.add(row.kernel)
    return done


def _profile_families(
    pairs: Sequence[BuiltPair], file: Path, reports: Path, show_progress: ShowProgress
) -> set[str]:
    """Profile pairs that were timed, a family at a time; return the names of those that worked."""
    done = set()
    rows = _read_rows(file)
    every = {
        name: folder.parent.name for name, folder in find_zoo_folders(get_project_path()).items()
    }
    for family in dict.fromkeys(one.family for one in pairs):
        members = [
            (one, rows[one.kernel.id])
            for one in pairs
            if one.family == family and one.kernel.id in rows
        ]
        if not members:
            continue
        name = name_report(family, (row.kernel for _, row in members), every)
        profiled = profile_pairs(members, reports, name, show_progress)
        write_recordings(file, profiled)
        done |= {row.kernel for row in profiled}
    return done


def _time_pair(
    pair: BuiltPair, old: PairRecording | None, budget_s: float, show_progress: ShowProgress
) -> PairRecording | None:
    """Return the times of a pair, with the profile that was recorded before.

    The form before the change is the candidate of the bench, so that its metrics are the bench's.
    """
    try:
        timed = _bench_against(pair, pair.after, budget_s)
        tempting = [(one, _bench_against(pair, one, budget_s)) for one in pair.tempting]
    except KbError as error:
        show_progress(f"{pair.kernel.id}: {error}")
        return None
    compiled = {name: static_metrics(build) for name, build in pair.builds.items()}
    device = str(pair.before.subject.machine.device)
    row = make_recording(pair.pair, timed, compiled, old, device)
    if row is None:
        show_progress(f"{pair.kernel.id}: {timed.verdict}: {timed.detail}")
        return None
    gains = {one.subject.variant.id: 1 / t.speedup for one, t in tempting if t.speedup}
    told = ", ".join(f"{name} {gain:.3g}x" for name, gain in gains.items())
    times = f"{row.before.kernel_us:.1f} -> {row.after.kernel_us:.1f} us"
    show_progress(f"{row.kernel}: {times}{f'; tempting {told}' if told else ''}")
    return row.model_copy(update={"tempting": gains})


def _bench_against(pair: BuiltPair, rival: BenchTarget, budget_s: float) -> Bench:
    """Time the form before the change against another one."""
    against = rival.subject, pair.builds[rival.subject.variant.id]
    options = BenchOptions(budget_s=budget_s, rival=against, only_rival=True)
    return bench(pair.before.subject, pair.builds[pair.pair.before], pair.workload, options)


def make_recording(
    pair: Pair,
    timed: Bench,
    compiled: Mapping[str, Mapping[str, float]],
    old: PairRecording | None,
    device: str,
) -> PairRecording | None:
    """Return the recording of a bench of the form before the change against that after it.

    Args:
        pair: Names the two variants.
        timed: Its candidate is the form before, its baseline the form after.
        compiled: The compiler's metrics, by variant.
        old: The recording until now, whose profile stays.
        device: Id of the GPU.

    Returns:
        None where the bench has no interval: a form is wrong, or could not be timed.
    """
    if timed.candidate_us is None or timed.baseline_us is None or timed.interval is None:
        return None
    low, high = timed.interval
    driver = query_driver()
    common = {name: timed.metrics[name] for name in _COMMON_METRICS if name in timed.metrics}
    own = {name: timed.metrics[name] for name in _OWN_METRICS if name in timed.metrics}
    count = {"call_launch_count": float(pair.launch_count)} if pair.launch_count > 1 else {}
    before = {**common, **own, **count, **compiled[pair.before]}
    after = {**common, **compiled[pair.after]}
    return PairRecording(
        kernel=timed.kernel,
        device=device,
        driver=driver.version if driver else "",
        workload=timed.workload,
        speedup=1 / (timed.speedup or timed.baseline_us / timed.candidate_us),
        interval=(1 / high, 1 / low),
        before=_make_side(pair.before, timed.candidate_us, before, old.before if old else None),
        after=_make_side(pair.after, timed.baseline_us, after, old.after if old else None),
        report=old.report if old else "",
        launch=old.launch if old else 0,
        after_launch=old.after_launch if old else None,
    )


def _make_side(
    variant: str, kernel_us: float, metrics: Mapping[str, float], old: VariantRecording | None
) -> VariantRecording:
    profiled = old.metrics if old else {}
    return VariantRecording(
        variant=variant,
        kernel_us=kernel_us,
        metrics={"kernel_us": kernel_us, **profiled, **metrics},
        ncu_rules=old.ncu_rules if old else {},
    )

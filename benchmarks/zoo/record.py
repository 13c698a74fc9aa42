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
from benchmarks.zoo.races import Race, run_races
from benchmarks.zoo.recordings import (
    PairRecording,
    VariantRecording,
    read_recordings,
    write_recordings,
)
from benchmarks.zoo.reports import profile_pairs

from kernelkb.actions.project.bench_target import get_project_path
from kernelkb.errors import EnvironmentGapError, KbError
from kernelkb.loading.kernels import find_zoo_folders
from kernelkb.measure.machine.environment import lock_device
from kernelkb.measure.machine.host import find_cuda_tool
from kernelkb.measure.machine.nvidia_driver import query_driver
from kernelkb.measure.profile.profile import static_metrics
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
        stages: ``time`` benches a pair, ``profile`` profiles it.
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
        done = _time_pairs(
            _select(correct, wanted, "time"), file, budget_s, show_progress, missing=missing
        )
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

    def has_it(row: PairRecording, pair: Pair) -> bool:
        if stage == "profile":
            return bool(row.report)
        return row.timed_by == "bench" and row.tempting.keys() >= set(pair.tempting)

    return {
        name
        for name, pair in pairs.items()
        if not (missing and name in rows and has_it(rows[name], pair))
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
    pairs: Sequence[BuiltPair],
    file: Path,
    budget_s: float,
    show_progress: ShowProgress,
    *,
    missing: bool,
) -> set[str]:
    """Time pairs and write each at once; return the names of those that could be timed.

    The changes come first, then the changes that tempt: those say less when time is short.
    """
    done = set()
    for race, timed in run_races(list_races(pairs, _read_rows(file), missing=missing), budget_s):
        old = _read_rows(file).get(race.pair.kernel.id)
        row = timed if isinstance(timed, KbError) else _record_race(race, timed, old)
        if isinstance(row, PairRecording):
            write_recordings(file, [row])
            done.add(row.kernel)
        show_progress(f"{race.pair.kernel.id}/{race.rival.subject.variant.id}: {_tell(row)}")
    return done


def list_races(
    pairs: Sequence[BuiltPair], rows: Mapping[str, PairRecording], *, missing: bool
) -> list[Race]:
    """Return what is to be timed, in order.

    Args:
        pairs: Compiled ones; the form before each change is the candidate.
        rows: What has been measured on this GPU, by pair.
        missing: Leave out what was timed by bench.
    """
    old = rows if missing else {}
    timed = {name for name, row in old.items() if row.timed_by == "bench"}
    changes = [Race(one, one.after) for one in pairs if one.kernel.id not in timed]
    tempting = [
        Race(one, rival)
        for one in pairs
        for rival in one.tempting
        if one.kernel.id not in old or rival.subject.variant.id not in old[one.kernel.id].tempting
    ]
    return changes + tempting


def _tell(row: PairRecording | KbError | str) -> str:
    if isinstance(row, PairRecording):
        gains = "".join(f", {name} {gain:.3g}x" for name, gain in row.tempting.items())
        return f"{row.before.kernel_us:.1f} -> {row.after.kernel_us:.1f} us{gains}"
    return str(row)


def _record_race(race: Race, timed: Bench, old: PairRecording | None) -> PairRecording | str:
    """Return the recording of a pair with the times of one race, or why there is none.

    The form before the change is the candidate of the bench, so that its metrics are the bench's.
    """
    if race.rival is not race.pair.after:
        if old is None or timed.speedup is None:
            return f"{timed.verdict}: {timed.detail}" if old else "the pair was not timed"
        gains = {**old.tempting, race.rival.subject.variant.id: 1 / timed.speedup}
        return old.model_copy(update={"tempting": gains})
    compiled = {name: static_metrics(build) for name, build in race.pair.builds.items()}
    device = str(race.pair.before.subject.machine.device)
    row = make_recording(race.pair.pair, timed, compiled, old, device)
    return row or f"{timed.verdict}: {timed.detail}"


def _profile_families(
    pairs: Sequence[BuiltPair], file: Path, reports: Path, show_progress: ShowProgress
) -> set[str]:
    """Profile pairs, a family at a time; return the names of those that worked."""
    done = set()
    rows = _read_rows(file)
    every = {
        name: folder.parent.name for name, folder in find_zoo_folders(get_project_path()).items()
    }
    for family in dict.fromkeys(one.family for one in pairs):
        members = [(one, rows.get(one.kernel.id)) for one in pairs if one.family == family]
        name = name_report(family, (one.kernel.id for one, _ in members), every)
        profiled = profile_pairs(members, reports, name, show_progress)
        write_recordings(file, profiled)
        done |= {row.kernel for row in profiled}
    return done


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
        tempting=old.tempting if old else {},
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

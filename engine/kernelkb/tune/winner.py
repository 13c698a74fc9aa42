"""The winner of a search: measured again in turns, judged, kept, and found again."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from kernelkb.actions.history.measured_subject import find_session, make_record_subject
from kernelkb.actions.kernels.measure_variant import check_built, make_untimed_bench
from kernelkb.actions.project.bench_target import BenchTarget, get_project_path, resolve_workload
from kernelkb.errors import BadValueError, KbError
from kernelkb.measure.bench.bench import bench
from kernelkb.measure.bench.statistics import paired_speedup
from kernelkb.measure.build.build import build
from kernelkb.measure.machine.environment import TargetChoice, lock_device
from kernelkb.model.base import Target
from kernelkb.model.kernels.kernel import Variant
from kernelkb.model.kernels.tuning import ConfirmedConfiguration, TuningResult, TuningTrial
from kernelkb.model.records.history import Measurement
from kernelkb.model.records.measurement import Bench
from kernelkb.record.measurements.rows import create_measurement
from kernelkb.safety.workspace import may_write
from kernelkb.tune.plan import TuningPlan, format_defines, prepare_for
from kernelkb.tune.search_loop import Confirmed, DeviceSearch, Lanes

_MAX_SEEDS = 3
_BENCH_FIELDS = (
    *("verdict", "candidate_us", "baseline", "baseline_us", "speedup", "interval", "timing"),
    *("metrics", "disturbed_by", "warnings", "samples", "resource_use"),
)
_CONFIRMED = "confirmed"
"""Status of a winner that was measured in turns with the default, and not judged."""

AS_IT_IS: Mapping[str, int] = {}
"""The configuration of a variant that is built without macros: its source decides."""
_MAX_CONFIRMED = 5
_WITHIN = 1.1
"""Times the fastest, beyond which a trial is not measured again."""


def confirm_fastest(
    lanes: Lanes, searches: Sequence[DeviceSearch]
) -> dict[DeviceSearch, Confirmed]:
    """Return the fastest configurations by a second measurement, and the default's time in it.

    The fastest of many trials is partly the luckiest: only times that were taken in turns, after
    the search, say which one is faster and by how much.

    Args:
        lanes: Of the searches.
        searches: All; one of which nothing can be timed again is not in the answer.
    """
    chosen = {one: choose_candidates(one.plan, one.recorder.trials) for one in searches}
    asked = {one: configurations for one, (configurations, _) in chosen.items() if configurations}
    compared = lanes.compare(asked)
    again = {
        one: [each for each in configurations if each != AS_IT_IS]  # it may need its macros
        for one, configurations in asked.items()
        if one not in compared and AS_IT_IS in configurations
    }
    if again:
        chosen |= {one: (configurations, None) for one, configurations in again.items()}
        compared |= lanes.compare(again)
    return {
        one: Confirmed(*rank_by_turns(chosen[one][0], found.samples_us, chosen[one][1]), found.lane)
        for one, found in compared.items()
    }


def choose_candidates(
    plan: TuningPlan, trials: Sequence[TuningTrial]
) -> tuple[list[dict[str, int]], dict[str, int] | None]:
    """Return the configurations to measure again, and the default among them.

    Where the variant names no default, that is the variant as it is: without any macro.

    Args:
        plan: What was searched.
        trials: All of them.
    """
    timed = sorted(
        (one for one in trials if one.status == "timed" and one.time_us),
        key=lambda one: one.time_us or 0.0,
    )
    if not timed:
        return [], None
    limit = _WITHIN * (timed[0].time_us or 0.0)
    chosen = [one for one in timed if (one.time_us or 0.0) <= limit][:_MAX_CONFIRMED]
    configurations = [one.configuration for one in chosen]
    if plan.default_index is None:
        return [*configurations, dict(AS_IT_IS)], dict(AS_IT_IS)
    default = plan.space.get_configuration(plan.default_index)
    if default not in configurations and _was_timed(timed, default):
        configurations.append(default)
    return configurations, default


def _was_timed(timed: Sequence[TuningTrial], configuration: dict[str, int]) -> bool:
    return any(one.configuration == configuration for one in timed)


def rank_by_turns(
    configurations: Sequence[dict[str, int]],
    samples: Sequence[Sequence[float]],
    default: dict[str, int] | None,
) -> tuple[tuple[ConfirmedConfiguration, ...], float | None]:
    """Return them fastest first, each against the default, or the slowest where there is none."""
    medians = [statistics.median(times) for times in samples]
    order = sorted(range(len(medians)), key=medians.__getitem__)
    has_default = default in configurations
    base = configurations.index(default) if default is not None and has_default else order[-1]
    confirmed = []
    for index in order:
        gain = paired_speedup(samples[index], samples[base])
        lead = paired_speedup(samples[order[0]], samples[index])
        confirmed.append(
            ConfirmedConfiguration(
                configuration=configurations[index],
                time_us=medians[index],
                gain=gain.point,
                low=gain.low,
                high=gain.high,
                is_tie=index != order[0] and lead.low <= 1.0 <= lead.high,
            )
        )
    return tuple(confirmed), medians[base] if has_default else None


def judge_configuration(
    bench_target: BenchTarget, workload: str, configuration: Mapping[str, int]
) -> Bench:
    """Check and time a configuration as ``kb bench`` does, against the kernel's rivals.

    It is checked on the sizes that share the workload's fixed axes. It is not recorded, since the
    record of a variant is that of its default.

    Args:
        bench_target: The variant, on the machine of this process.
        workload: One of the kernel's.
        configuration: Values of the tunables.

    Raises:
        KbError: The reference or a baseline fails.
    """
    bench_target = _keep_fixed_axes(bench_target, workload)
    subject = bench_target.subject
    built = build(subject, bench_target.build_root, format_defines(configuration))
    if built.status == "failed":
        return make_untimed_bench(bench_target, workload, "invalid", built.error, built.cure, 0.0)
    checked = check_built(bench_target, built, workload)
    if checked.status != "correct":
        detail = checked.detail or checked.status
        return make_untimed_bench(bench_target, workload, "incorrect", detail, checked.cure, 0.0)
    with lock_device(subject.machine):
        return bench(subject, built, workload)


def _keep_fixed_axes(bench_target: BenchTarget, workload: str) -> BenchTarget:
    """Return the target with those sizes only that the trials were compiled for."""
    folder, variant, _ = bench_target.subject
    kernel = folder.kernel
    axes = variant.tune.fixed_axes if variant.tune else ()
    wanted = {axis: kernel.workloads[workload][axis] for axis in axes}

    def is_kept(sizes: dict[str, int]) -> bool:
        return wanted.items() <= sizes.items()

    kept = kernel.model_copy(
        update={
            "workloads": {name: s for name, s in kernel.workloads.items() if is_kept(s)},
            "check_workloads": tuple(s for s in kernel.check_workloads if is_kept(s)),
        }
    )
    subject = bench_target.subject._replace(kernel_folder=folder._replace(kernel=kept))
    return bench_target._replace(subject=subject)


def record_winner(plan: TuningPlan, result: TuningResult) -> dict[str, str]:
    """Write the winner to the database: the default where nothing is faster beyond doubt.

    A winner that the judge refused is not written. A failed write does not fail the search.

    Args:
        plan: What was searched.
        result: With its confirmed configurations, and the judge's verdict.

    Returns:
        ``measurement``, the id of the record, or ``unrecorded``, the reason why there is none.
    """
    kept = _choose_kept(result)
    if kept is None or not may_write():
        return {}
    from kernelkb.record.measurements.store import open_store

    judged = result.bench if kept == result.winner else None
    bench_target = plan.bench_target
    name_macros = format_defines if judged else plan.format_trial_defines
    defines = name_macros(kept.configuration)
    try:
        built = build(bench_target.subject, bench_target.build_root, defines)
        measurement = create_measurement(
            "tune",
            datetime.now(UTC),
            make_record_subject(bench_target, built, plan.workload),
            session=find_session(bench_target),
            detail=_describe_search(result, kept),
            seconds=result.seconds,
            **_choose_times(kept, judged),
        )
        with open_store(bench_target.project) as store:
            store.add([measurement])
    except KbError as error:
        return {"unrecorded": str(error)}
    return {"measurement": measurement.id}


def _choose_kept(result: TuningResult) -> ConfirmedConfiguration | None:
    if result.winner is not None or result.is_refused:
        return result.winner
    is_default = (one for one in result.confirmed if one.configuration == result.default)
    return next(is_default, None)


def _choose_times(kept: ConfirmedConfiguration, judged: Bench | None) -> dict[str, Any]:
    if judged is not None and judged.candidate_us is not None:
        return {name: getattr(judged, name) for name in _BENCH_FIELDS}
    return {"status": _CONFIRMED, "candidate_us": kept.time_us}


def _describe_search(result: TuningResult, kept: ConfirmedConfiguration) -> str:
    """Return what the search found, in one line."""
    base = "the default" if result.default_us else "the slowest of the fastest"
    gain = f"{kept.gain:.3g}x [{kept.low:.3g}, {kept.high:.3g}] over {base}"
    return f"{gain}; {len(result.trials)} trials of {result.feasible_count} configurations"


def find_seeds(plan: TuningPlan) -> list[int]:
    """Return where the winners of earlier searches stand among the feasible configurations.

    Those on this device and workload come first, then those of other workloads, then those of
    other devices; at most three. The source, the driver and the versions may have changed since.

    Args:
        plan: What is going to be searched.
    """
    subject = plan.bench_target.subject
    variant = subject.variant
    try:
        known = _list_winners(
            plan.bench_target.project, subject.kernel.id, variant.id, variant.target
        )
    except KbError:  # a damaged database costs the seeds
        return []
    here = (subject.machine.title, plan.workload)
    known.sort(key=lambda one: one.at, reverse=True)
    known.sort(key=lambda one: _rank_origin((one.subject.device, one.subject.workload), here))
    indexes = (
        plan.space.find_index(configuration)
        for one in known
        if (configuration := parse_configuration(one.subject.flags, plan.space.names))
    )
    seeds = dict.fromkeys(one for one in indexes if one is not None and one != plan.default_index)
    return list(seeds)[:_MAX_SEEDS]


def _rank_origin(origin: tuple[str, str], here: tuple[str, str]) -> tuple[bool, bool]:
    return origin[0] != here[0], origin[1] != here[1]


def _list_winners(
    project: Path, kernel: str, variant: str | None, target: Target
) -> list[Measurement]:
    from kernelkb.record.measurements.store import open_store

    with open_store(project, writes=False) as store:
        return store.latest(kernel, variant, target=target, kind="tune")


def parse_configuration(flags: Iterable[str], names: Sequence[str]) -> dict[str, int] | None:
    """Return the values of tunables in compiler flags; None if one of them is missing."""
    found = dict(_iter_macros(flags))
    values = {name: found[name] for name in names if name in found}
    return values if len(values) == len(names) else None


def _iter_macros(flags: Iterable[str]) -> Iterator[tuple[str, int]]:
    for flag in flags:
        name, _, value = flag.removeprefix("-D").partition("=")
        if flag.startswith("-D") and value.lstrip("-").isdigit():
            yield name, int(value)


class TunedVariant(NamedTuple):
    """The winner of a search, to build."""

    variant: str
    macros: dict[str, list[str]]
    """The value of each tunable, as ``build_configurations`` takes it."""


def find_tuned_variant(
    kernel: str,
    variant: str | None = None,
    target: TargetChoice = "auto",
    workload: str | None = None,
    arch: str | None = None,
) -> TunedVariant:
    """Return the stored winner for a workload on this machine's device.

    Args:
        kernel: The kernel's name.
        variant: Its id; None: the tuned variant that was fastest.
        target: Where it runs.
        workload: One of the kernel's; the target's default.
        arch: Architecture to compile for without a GPU; winners of any GPU count then.

    Raises:
        UnknownNameError: No such kernel, variant, architecture or workload.
        BadValueError: No search on this device and workload is on record.
        EnvironmentGapError: The machine lacks something.
        DatabaseError: The database cannot be read.
    """
    subject = prepare_for(kernel, variant, target, arch).subject
    loaded = subject.kernel
    name = resolve_workload(loaded, subject.variant.target, workload)
    tunables = {one.id: one for one in loaded.variants if one.tune is not None}
    known = [
        one
        for one in _list_winners(get_project_path(), kernel, variant, subject.variant.target)
        if one.subject.workload == name
        and one.subject.variant in tunables
        and (arch is not None or one.subject.device == subject.machine.title)
    ]
    for one in sorted(known, key=lambda one: (one.candidate_us or math.inf, one.id)):
        macros = _parse_macros(one, tunables[one.subject.variant])
        if macros is not None:
            return TunedVariant(one.subject.variant, macros)
    where = "any GPU" if arch is not None else subject.machine.title
    search = f"kb tune {kernel}{f' --variant {variant}' if variant else ''} --workload {name}"
    raise BadValueError(f"no search of {kernel} on {name}, {where}, is on record; run {search}")


def _parse_macros(winner: Measurement, variant: Variant) -> dict[str, list[str]] | None:
    names = list(variant.tune.parameters) if variant.tune else []
    found = parse_configuration(winner.subject.flags, names)
    return {name: [str(value)] for name, value in found.items()} if found else None

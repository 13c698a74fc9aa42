"""Measures the fastest configurations of a search again, in turns with the default one."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from kernelkb.actions.built_variant import bench_built, check_built, make_untimed_bench
from kernelkb.actions.tune_plan import TuningPlan, format_defines
from kernelkb.measure.build.build import build, build_all
from kernelkb.measure.machine.device_lock import lock_device
from kernelkb.measure.statistics import paired_speedup
from kernelkb.measure.trials import TrialProcess
from kernelkb.model.measurement import Bench
from kernelkb.model.tuning import ConfirmedConfiguration, TuningTrial

_MAX_CONFIRMED = 5
_WITHIN = 1.1
"""Times the fastest, beyond which a trial is not measured again."""
_ROUNDS = 60


def confirm_fastest(
    plan: TuningPlan, process: TrialProcess, trials: Sequence[TuningTrial]
) -> tuple[tuple[ConfirmedConfiguration, ...], float | None]:
    """Return the fastest configurations by a second measurement, and the default's time in it.

    The fastest of many trials is partly the luckiest: only times that were taken in turns, after
    the search, say which one is faster and by how much.

    Args:
        plan: What was searched.
        process: Of the trials.
        trials: All of them.
    """
    timed = sorted(
        (one for one in trials if one.status == "timed" and one.time_us),
        key=lambda one: one.time_us or 0.0,
    )
    if not timed:
        return (), None
    limit = _WITHIN * (timed[0].time_us or 0.0)
    chosen = [one for one in timed if (one.time_us or 0.0) <= limit][:_MAX_CONFIRMED]
    configurations = [one.configuration for one in chosen]
    default = None
    if plan.default_index is not None:
        default = plan.space.get_configuration(plan.default_index)
        if default not in configurations and _was_timed(timed, default):
            configurations.append(default)
    samples = _measure_in_turns(plan, process, configurations)
    if not samples:
        return (), None
    return _rank(configurations, samples, default)


def judge_winner(plan: TuningPlan, confirmed: Sequence[ConfirmedConfiguration]) -> Bench | None:
    """Check and time the fastest configuration as ``kb bench`` does, against the kernel's rivals.

    The result is recorded. None where nothing was confirmed.

    Args:
        plan: What was searched.
        confirmed: Fastest first.

    Raises:
        KbError: The reference or a baseline fails.
    """
    if not confirmed:
        return None
    bench_target = plan.bench_target
    defines = format_defines(confirmed[0].configuration)
    built = build(bench_target.subject, bench_target.build_root, defines)
    checked = check_built(bench_target, built, plan.workload)
    if checked.status != "correct":
        return make_untimed_bench(
            bench_target,
            plan.workload,
            "incorrect",
            checked.detail or checked.status,
            checked.cure,
            checked.seconds,
        )
    return bench_built(bench_target, built, plan.workload)


def _was_timed(timed: Sequence[TuningTrial], configuration: dict[str, int]) -> bool:
    return any(one.configuration == configuration for one in timed)


def _measure_in_turns(
    plan: TuningPlan, process: TrialProcess, configurations: Sequence[dict[str, int]]
) -> Sequence[Sequence[float]]:
    bench_target = plan.bench_target
    defines = [plan.format_trial_defines(one) for one in configurations]
    builds = build_all(bench_target.subject, bench_target.build_root, defines)
    if any(one.status == "failed" for one in builds):
        return ()
    pairs = builds if len(builds) > 1 else [*builds, *builds]
    with lock_device(bench_target.subject.machine):
        outcome = process.run(pairs, rounds=_ROUNDS)
    return outcome.samples_us[: len(builds)]


def _rank(
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

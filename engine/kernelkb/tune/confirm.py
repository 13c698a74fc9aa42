"""Measures the fastest configurations of a search again, in turns with the default one."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from kernelkb.actions.kernels.measure_variant import check_built, make_untimed_bench
from kernelkb.actions.project.bench_target import BenchTarget
from kernelkb.measure.bench.bench import bench
from kernelkb.measure.bench.statistics import paired_speedup
from kernelkb.measure.bench.trials import TrialProcess
from kernelkb.measure.build.build import build, build_all
from kernelkb.measure.machine.device_lock import lock_device
from kernelkb.model.kernels.tuning import ConfirmedConfiguration, TuningTrial
from kernelkb.model.records.measurement import Bench
from kernelkb.tune.plan import TuningPlan, format_defines

AS_IT_IS: Mapping[str, int] = {}
"""The configuration of a variant that is built without macros: its source decides."""
_MAX_CONFIRMED = 5
_WITHIN = 1.1
"""Times the fastest, beyond which a trial is not measured again."""
ROUNDS = 60
"""Of measurements in turns."""


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
    configurations, default = choose_candidates(plan, trials)
    samples = _measure_in_turns(plan, process, configurations) if configurations else ()
    if not samples and AS_IT_IS in configurations:  # it may need its macros
        configurations = [one for one in configurations if one != AS_IT_IS]
        default, samples = None, _measure_in_turns(plan, process, configurations)
    return rank_by_turns(configurations, samples, default) if samples else ((), None)


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


def judge_winner(plan: TuningPlan, confirmed: Sequence[ConfirmedConfiguration]) -> Bench | None:
    """Judge the fastest configuration, see ``judge_configuration``; None: nothing was confirmed.

    Args:
        plan: What was searched.
        confirmed: Fastest first.

    Raises:
        KbError: The reference or a baseline fails.
    """
    if not confirmed:
        return None
    return judge_configuration(plan.bench_target, plan.workload, confirmed[0].configuration)


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
        outcome = process.run(pairs, rounds=ROUNDS)
    return outcome.samples_us[: len(builds)]


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

"""The result of a search: what its trials show, why the winner is faster, what is logged."""

from __future__ import annotations

import hashlib
import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from kernelkb.actions.history.measured_subject import sources_digest
from kernelkb.actions.history.record_result import log_entry, machine_fields
from kernelkb.actions.project.profile_reports import make_next_counters
from kernelkb.actions.project.rules_cache import load_compiled_rules
from kernelkb.decide.derive import complete_metrics
from kernelkb.decide.recommend import recommend
from kernelkb.decide.rules import CompiledRules
from kernelkb.errors import KbError
from kernelkb.measure.build.build import build
from kernelkb.measure.build.folders import find_machine_code
from kernelkb.measure.machine.cached_facts import read_peak_metrics
from kernelkb.measure.machine.environment import lock_device
from kernelkb.measure.profile.profile import profile
from kernelkb.model.answers.recommendation import TimeShare
from kernelkb.model.base import Target
from kernelkb.model.kernels.tuning import (
    ConvergencePoint,
    FactChange,
    GainExplanation,
    Rejection,
    SavedTime,
    TuningResult,
    TuningTrial,
    ValueConcentration,
)
from kernelkb.model.records.measurement import Bench, Build, Status
from kernelkb.model.records.session import Step
from kernelkb.profiles.machine_code import count_built_code
from kernelkb.render.text.tuning import describe_rejections, summarize_result
from kernelkb.tune.plan import TuningPlan, format_defines
from kernelkb.tune.space import evaluate_expression
from kernelkb.tune.winner import record_winner

_ON_A_CPU = "counters are read on a GPU only"
_MIN_SAVED = 0.01
"""Least change of a part that is told, as a share of the time of the default."""
_MIN_CHANGE = 0.05
"""Least relative change of a fact that is told."""
_MIN_SHARE = 0.02
"""Least change of a share that is told, however large its ratio is."""
_FACTS = {
    "occupancy": "occupancy",
    "theoretical_occupancy": "occupancy by resources",
    "register_count": "registers of a thread",
    "shared_bytes": "shared memory of a block",
    "spill_store_bytes": "spilled registers",
    "block_thread_count": "threads of a block",
    "grid_block_count": "blocks",
    "waves": "waves",
    "tensor_utilization": "tensor cores",
    "warpgroup_utilization": "tensor cores by warpgroups",
    "issue_rate": "issue slots",
    "instruction_count": "executed instructions",
    "dram_bytes": "device memory traffic",
    "dram_utilization": "device memory",
    "l2_utilization": "L2",
    "l2_hit_rate": "L2 hits",
    "l1_hit_rate": "L1 hits",
    "lsu_wavefront_utilization": "shared memory and L1 wavefronts",
    "shared_load_conflict_share": "bank conflicts of shared loads",
    "shared_store_conflict_share": "bank conflicts of shared stores",
    "vector_loop_count": "vectorized loops",
    "scalar_loop_count": "scalar loops",
}
"""Metrics that tell how a configuration differs, with their titles. ``shared_bytes`` is the sum of
static and dynamic shared memory."""
_INSTRUCTIONS = "instructions"
_STALL = "stall_"
_NO_STALLS = ("stall_selected", "stall_not_selected")

_STAGES = {"build-failed": 0, "same-code": 1, "spills": 1, "unloadable": 2}
"""The gate at which a status ends a trial; the others end it at the last one, on the device."""
_LAST_STAGE = 3
_MIN_REJECTED = 3
"""Fewer rejections at a value may be chance."""
_MAX_PROBABILITY = 0.01
"""That so many fall on a value by chance: Fisher's exact test, times the values that are tested."""
_MIN_RATIO = 2.0
"""Least share of rejections at a value, over that at the other values of its tunable."""
_MAX_CONCENTRATIONS = 3
_WITHIN = (0.05, 0.01, 0.0)


def make_result(
    plan: TuningPlan,
    trials: Sequence[TuningTrial],
    resumed: int,
    seeds: Sequence[int],
    **measured: Any,
) -> TuningResult:
    """Return what the trials of a search show, with what was measured after them.

    Args:
        plan: What was searched.
        trials: Of this run and of earlier ones.
        resumed: How many are of earlier ones; they come first.
        seeds: Indexes of the earlier winners that the search began with.
        **measured: ``confirmed``, ``default_us``, ``bench`` and ``lanes`` of the result.
    """
    subject, space = plan.bench_target.subject, plan.space
    return TuningResult(
        **subject.identity_fields,
        workload=plan.workload,
        device=subject.machine.title,
        combination_count=space.combination_count,
        feasible_count=len(space.rows),
        trials=tuple(trials),
        default=plan.default,
        resumed_count=resumed,
        seeds=tuple(map(space.get_configuration, seeds)),
        device_s=sum(trial.trial_s for trial in trials[resumed:]),
        seconds=0.0,
        importance=_rank_importance(plan, trials),
        rejections=analyse_rejections(trials),
        infeasible=tuple(one for one in space.describe().rules if one.excluded_count),
        convergence=measure_convergence(trials),
        journal=str(plan.journal),
        **measured,
    )


def _rank_importance(plan: TuningPlan, trials: Sequence[TuningTrial]) -> dict[str, float]:
    from kernelkb.tune.strategies.gaussian_process import rank_tunables

    timed = [
        (index, trial.time_us)
        for trial in trials
        if trial.time_us and (index := plan.space.find_index(trial.configuration)) is not None
    ]
    return rank_tunables(
        plan.space, [index for index, _ in timed], [time_us for _, time_us in timed]
    )


def conclude(
    plan: TuningPlan, result: TuningResult, started: float, *, why: bool = False
) -> TuningResult:
    """Explain the winner, keep it for the next search, and log the search to the open session.

    Args:
        plan: What was searched.
        result: With the confirmed configurations, and the judge's verdict where it was asked.
        started: When the search began, on the monotonic clock.
        why: Whether winner and default are profiled.

    Returns:
        The result; its ``unrecorded`` says why the database or the session has no entry of it.
    """
    if why:
        result = result.model_copy(update={"why": explain_winner(plan, result)})
    result = result.model_copy(update={"seconds": time.monotonic() - started})
    result = result.model_copy(update=record_winner(plan, result))
    failure = _log_to_session(plan, result)
    reasons = "; ".join(dict.fromkeys(filter(None, (result.unrecorded, failure))))
    return result.model_copy(update={"unrecorded": reasons or None})


def _log_to_session(plan: TuningPlan, result: TuningResult) -> str | None:
    """Append the search to the open session; return why it could not be written."""
    bench_target, bench = plan.bench_target, result.bench
    status: Status = "ok" if result.winner else "warning" if result.confirmed else "failure"
    step = Step(
        name="tune",
        variant=result.variant,
        status="failure" if result.is_refused else status,
        found=summarize_result(result),
        seconds=round(result.seconds, 3),
        at=datetime.now(UTC) - timedelta(seconds=result.seconds),
        sources=_digest_winner(plan, result),
        measurement=result.measurement,
        verdict=bench.verdict if bench else None,
        speedup=bench.speedup if bench else None,
        interval=bench.interval if bench else None,
        baseline=bench.baseline if bench and bench.speedup is not None else None,
        workload=result.workload,
    )
    fields = {
        "kernel": result.kernel,
        "variant": result.variant,
        "target": result.target,
        **machine_fields(bench_target.subject.machine),
        "steps": (step,),
        "went_wrong": tuple(describe_rejections(result)),
    }
    goal = f"tune {result.kernel} on {result.workload}"
    return log_entry(bench_target.project, "tune", goal, result.kernel, fields)


def _digest_winner(plan: TuningPlan, result: TuningResult) -> str:
    """Return a digest of the sources and the winner's macros: another code than the default's."""
    digest = sources_digest(plan.bench_target)
    if result.winner is None or result.winner.configuration == result.default:
        return digest
    macros = " ".join(format_defines(result.winner.configuration))
    return hashlib.sha256(f"{digest} {macros}".encode()).hexdigest()[: len(digest)]


def analyse_rejections(trials: Sequence[TuningTrial]) -> tuple[Rejection, ...]:
    """Return the trials that were not timed by reason, each with the values that concentrate it.

    A trial that an earlier gate rejected says nothing about a later one, and does not count there.

    Args:
        trials: All of a search.
    """
    counts = Counter(one.status for one in trials if one.status != "timed")
    return tuple(_describe(trials, status, count) for status, count in counts.most_common())


def _describe(trials: Sequence[TuningTrial], status: str, count: int) -> Rejection:
    stage = _STAGES.get(status, _LAST_STAGE)
    reached = [one for one in trials if _STAGES.get(one.status, _LAST_STAGE) >= stage]
    details = Counter(one.detail for one in trials if one.status == status and one.detail)
    return Rejection(
        status=status,
        count=count,
        share=count / len(trials),
        reached_count=len(reached),
        example=details.most_common(1)[0][0] if details else None,
        concentrations=tuple(_find_concentrations(reached, status)),
    )


class _Candidate(NamedTuple):
    """A value with its probability first, so that the least likely one is the smallest."""

    probability: float
    tunable: str
    value: int
    rejected_count: int
    reached_count: int


def _find_concentrations(reached: Sequence[TuningTrial], status: str) -> list[ValueConcentration]:
    """Return the values that stand out, the least likely first; each explains trials of its own.

    Tunables depend on each other by the constraints, so that a value often stands out only because
    it comes with another. Hence the trials of a value that was found are left out for the next.
    """
    found: list[ValueConcentration] = []
    left = list(reached)
    while len(found) < _MAX_CONCENTRATIONS:
        best = min(_list_candidates(left, status), default=None)
        if best is None or best.probability > _MAX_PROBABILITY:
            break
        _, tunable, value, rejected_count, reached_count = best
        found.append(
            ValueConcentration(
                tunable=tunable,
                value=value,
                rejected_count=rejected_count,
                reached_count=reached_count,
            )
        )
        left = [one for one in left if one.configuration.get(tunable) != value]
    return found


def _list_candidates(reached: Sequence[TuningTrial], status: str) -> list[_Candidate]:
    from scipy.stats import hypergeom

    totals: Counter[tuple[str, int]] = Counter()
    rejected: Counter[tuple[str, int]] = Counter()
    for trial in reached:
        totals.update(trial.configuration.items())
        if trial.status == status:
            rejected.update(trial.configuration.items())
    values: dict[str, int] = defaultdict(int)
    for tunable, _ in totals:
        values[tunable] += 1
    tested = [one for one in totals if values[one[0]] > 1]
    all_count = len(reached)
    all_rejected = sum(one.status == status for one in reached)
    candidates = []
    for tunable, value in tested:
        hits, count = rejected[tunable, value], totals[tunable, value]
        elsewhere = (all_rejected - hits) / (all_count - count)
        if hits < _MIN_REJECTED or hits / count < _MIN_RATIO * elsewhere:
            continue
        chance = float(hypergeom.sf(hits - 1, all_count, all_rejected, count)) * len(tested)
        candidates.append(_Candidate(chance, tunable, value, hits, count))
    return candidates


def measure_convergence(trials: Sequence[TuningTrial]) -> tuple[ConvergencePoint, ...]:
    """Return after how many trials a time within 5 %, within 1 % and the best itself was found.

    Args:
        trials: In the order in which they ended.
    """
    best_us = min((one.time_us for one in trials if one.time_us), default=None)
    if best_us is None:
        return ()
    points = []
    for within in _WITHIN:
        limit = best_us * (1 + within)
        at = next(i for i, one in enumerate(trials) if one.time_us and one.time_us <= limit)
        device_s = sum(one.trial_s for one in trials[: at + 1])
        points.append(
            ConvergencePoint(within=within, trial_count=at + 1, device_s=round(device_s, 3))
        )
    return tuple(points)


class ProfiledConfiguration(NamedTuple):
    """What is known about one configuration."""

    time_us: float
    """Of a call, measured in turns with the other one."""
    metrics: Mapping[str, float]
    instructions: Mapping[str, float]
    """Of its machine code, by kind."""
    no_counters: str | None = None
    """Why no counters were read."""
    cure: str | None = None
    report: str | None = None
    """The profile, with what was counted by instruction."""


def explain_winner(plan: TuningPlan, result: TuningResult) -> GainExplanation | None:
    """Profile the winner and the default configuration, and return what differs.

    Takes two profiles on the device. None where no winner is faster than the default.

    Args:
        plan: What was searched.
        result: With the confirmed configurations.
    """
    winner = result.winner
    if winner is None or result.default_us is None:
        return None
    machine = plan.bench_target.subject.machine
    try:
        default = _profile_configuration(plan, result.default, result.default_us)
        fastest = _profile_configuration(plan, winner.configuration, winner.time_us)
    except KbError as error:  # the search is worth more than its explanation
        return GainExplanation(no_counters=str(error))
    return explain_gain(load_compiled_rules(), default, fastest, machine.target, machine.device)


def _profile_configuration(
    plan: TuningPlan, configuration: Mapping[str, int], time_us: float
) -> ProfiledConfiguration:
    subject = plan.bench_target.subject
    defines = plan.format_trial_defines(configuration)
    built = build(subject, plan.bench_target.build_root, defines)
    timed = Bench(
        **subject.identity_fields,
        workload=plan.workload,
        verdict="inconclusive",
        candidate_us=time_us,
        seconds=0.0,
    )
    folder = plan.bench_target.project / ".kb" / "profiles"
    next_counters = make_next_counters(subject.machine)
    with lock_device(subject.machine):
        profiled = profile(subject, built, timed, next_counters, folder)
    known = {**list_formula_metrics(plan, configuration, built), **profiled.metrics}
    if subject.machine.target == "cpu":
        return ProfiledConfiguration(time_us, known, {}, _ON_A_CPU)
    code = count_built_code(find_machine_code(built))
    if profiled.tool == "ncu":  # a later stage that failed leaves those before it
        return ProfiledConfiguration(time_us, known, code, report=profiled.report)
    return ProfiledConfiguration(time_us, known, code, profiled.detail, profiled.cure)


def list_formula_metrics(
    plan: TuningPlan, configuration: Mapping[str, int], built: Build
) -> dict[str, float]:
    """Return what ptxas and the formulas of the space tell about a configuration, by metric id."""
    subject = plan.bench_target.subject
    space, sizes = subject.variant.tune, subject.kernel.workloads[plan.workload]
    metrics: dict[str, float] = {}
    if built.resources:
        largest = max(built.resources, key=lambda one: one.registers)
        metrics["register_count"] = float(largest.registers)
        metrics["static_shared_bytes"] = float(largest.static_smem_bytes)
    formulas = {
        "block_thread_count": space.threads if space else None,
        "grid_block_count": space.blocks if space else None,
        "dynamic_shared_bytes": space.shared_bytes if space else None,
    }
    for name, expression in formulas.items():
        if expression is not None:
            metrics[name] = evaluate_expression(expression, configuration, sizes)
    if "dynamic_shared_bytes" in metrics:  # the formula is of both
        metrics["dynamic_shared_bytes"] -= metrics.get("static_shared_bytes", 0.0)
    return metrics


def explain_gain(
    rules: CompiledRules,
    default: ProfiledConfiguration,
    winner: ProfiledConfiguration,
    target: Target = "cuda",
    device: str | None = None,
) -> GainExplanation:
    """Return where the winner saves time, and what differs in launch, counters and machine code.

    Args:
        rules: The compiled rules.
        default: The default configuration.
        winner: The fastest one.
        target: Where both ran.
        device: Id of the GPU; None if unknown.
    """
    peaks = read_peak_metrics(device)
    known, times = [], []
    for side in (default, winner):
        answer = recommend(rules, side.metrics, target=target, device=device, peaks=peaks)
        times.append(answer["time"])
        known.append(_add_shared_bytes(complete_metrics(rules, {**peaks, **side.metrics}, device)))
    changes = [
        *_compare_facts(rules, known[0], known[1]),
        *_compare_instructions(default.instructions, winner.instructions),
    ]
    lacking = default if default.no_counters else winner
    reports = tuple(side.report for side in (default, winner) if side.report)
    return GainExplanation(
        parts=tuple(compare_times((times[0], times[1]), (default.time_us, winner.time_us))),
        changes=tuple(sorted(changes, key=lambda one: -_measure_change(one))),
        no_counters=lacking.no_counters,
        cure=lacking.cure,
        reports=reports if len(reports) == len(known) else (),
    )


def compare_times(
    shares: tuple[Sequence[TimeShare], Sequence[TimeShare]], times_us: tuple[float, float]
) -> list[SavedTime]:
    """Return what each part of the time budget of default and winner saves, most first.

    Args:
        shares: Of the default and of the winner; empty where counters are missing.
        times_us: Of the default and of the winner.
    """
    if not all(shares):
        return []
    old, new = ({row["part"]: row for row in side} for side in shares)
    parts = []
    for name in {**old, **new}:
        before, now = old.get(name), new.get(name)
        default_us = before["share"] * times_us[0] if before else None
        winner_us = now["share"] * times_us[1] if now else None
        saved_us = (default_us or 0.0) - (winner_us or 0.0)
        if abs(saved_us) >= _MIN_SAVED * times_us[0]:
            title = (before or new[name])["title"]
            parts.append(
                SavedTime(
                    title=title, default_us=default_us, winner_us=winner_us, saved_us=saved_us
                )
            )
    return sorted(parts, key=lambda one: -abs(one.saved_us))


def _add_shared_bytes(known: dict[str, float]) -> dict[str, float]:
    static, dynamic = known.get("static_shared_bytes"), known.get("dynamic_shared_bytes")
    if static is not None or dynamic is not None:
        known["shared_bytes"] = (static or 0.0) + (dynamic or 0.0)
    return known


def _compare_facts(
    rules: CompiledRules, default: Mapping[str, float], winner: Mapping[str, float]
) -> Iterator[FactChange]:
    titles = {**_FACTS, **dict(_name_stalls(default)), **dict(_name_stalls(winner))}
    for metric, title in titles.items():
        before, now = default.get(metric), winner.get(metric)
        if before is None or now is None:
            continue
        row = rules["metrics"].get(metric)
        unit = row["unit"] if row else "bytes"
        one = FactChange(metric=metric, title=title, unit=unit, default=before, winner=now)
        if _is_told(one):
            yield one


def _name_stalls(known: Mapping[str, float]) -> Iterator[tuple[str, str]]:
    """Yield the stall reason that takes most of a warp's time."""
    stalls = {
        name: value
        for name, value in known.items()
        if name.startswith(_STALL) and not name.endswith("_cycles") and name not in _NO_STALLS
    }
    if stalls:
        name = max(stalls, key=lambda one: stalls[one])
        yield name, f"waiting: {name.removeprefix(_STALL).replace('_', ' ')}"


def _compare_instructions(
    default: Mapping[str, float], winner: Mapping[str, float]
) -> Iterator[FactChange]:
    for kind in {**default, **winner}:
        if kind == "registers" or not (default and winner):
            continue
        one = FactChange(
            metric=kind,
            title=kind.replace("_", " "),
            unit=_INSTRUCTIONS,
            default=default.get(kind, 0.0),
            winner=winner.get(kind, 0.0),
        )
        if _is_told(one):
            yield one


def _is_told(change: FactChange) -> bool:
    if change.unit == "share" and abs(change.winner - change.default) < _MIN_SHARE:
        return False
    return _measure_change(change) >= _MIN_CHANGE


def _measure_change(change: FactChange) -> float:
    """Return the change as a share of the larger value, 0 to 1."""
    largest = max(abs(change.default), abs(change.winner))
    difference = abs(change.winner - change.default)
    return difference / largest if largest and math.isfinite(largest) else 0.0

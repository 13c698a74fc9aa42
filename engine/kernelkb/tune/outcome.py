"""Makes the result of a search: what its trials show, the kept winner, the entry of the session."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from kernelkb.actions.history.recording import sources_digest
from kernelkb.actions.history.session_log import log_entry, machine_fields
from kernelkb.model.kernels.tuning import TuningResult, TuningTrial
from kernelkb.model.records.measurement import Status
from kernelkb.model.records.session import Step
from kernelkb.render.text.tuning import describe_rejections, summarize_result
from kernelkb.tune.plan import TuningPlan, format_defines
from kernelkb.tune.rejections import analyse_rejections, measure_convergence
from kernelkb.tune.strategies.importance import rank_tunables
from kernelkb.tune.why import explain_winner
from kernelkb.tune.winner import record_winner


def make_result(
    plan: TuningPlan, trials: Sequence[TuningTrial], resumed: int, seeds: Sequence[int]
) -> TuningResult:
    """Return what the trials of a search show, without the measurements that follow.

    Args:
        plan: What was searched.
        trials: Of this run and of earlier ones.
        resumed: How many are of earlier ones; they come first.
        seeds: Places of the earlier winners that the search began with.
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
    )


def _rank_importance(plan: TuningPlan, trials: Sequence[TuningTrial]) -> dict[str, float]:
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

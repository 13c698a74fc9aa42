"""Says at which precision a baseline computed, and what it means for the speedup. Pure."""

from __future__ import annotations

from typing import Any

from kernelkb.measure.bench.statistics import Speedup
from kernelkb.measure.job_specs.runner_specs import PRECISION_TITLES
from kernelkb.measure.worker.shared.messages.judge_jobs import (
    BenchTimes,
    PrecisionReport,
    RivalTimes,
)
from kernelkb.model.records.accuracy import Accuracy

_SAME_ERROR = 1.25
"""Errors within this factor are reported as the same."""


def make_accuracy(bench_times: BenchTimes, speedup: Speedup) -> Accuracy | None:
    """Return errors, precision of the baseline, and the speedup over the task's own precision.

    Args:
        bench_times: Of the bench.
        speedup: Over its baseline.

    Returns:
        None where no output was compared.
    """
    report = bench_times.get("precision")
    if report is None or report["candidate_error"] is None:
        return None
    best = bench_times["rival_name"]
    base = report["base"]
    fields: dict[str, Any] = {
        "candidate_error": report["candidate_error"],
        "reference_error": report["base_error"],
        "task_precision": base,
        "baseline_precision": report["rivals"].get(best, base),
        "admitted": tuple(dict.fromkeys(report["rivals"].values())),
    }
    if best not in report["rivals"]:
        return Accuracy(**fields)
    exact, time_ratio = _find_fastest_exact(bench_times, report)
    return Accuracy(
        **fields,
        baseline_error=report["rival_errors"].get(best),
        exact_baseline=exact,
        exact_speedup=speedup.point * time_ratio,
    )


def _find_fastest_exact(bench_times: BenchTimes, report: PrecisionReport) -> tuple[str, float]:
    """Return the fastest rival at the task's own precision, and its time over the baseline's."""
    uses_graph, times = bench_times["uses_graph"], bench_times["rivals"]

    def call_ns(name: str) -> float:
        rival: RivalTimes = times[name]
        return (uses_graph and rival["graph_ns"]) or rival["eager_ns"]

    fastest = min(report["base_rivals"], key=call_ns)
    return fastest, call_ns(fastest) / call_ns(bench_times["rival_name"])


def describe_fair_baseline(
    accuracy: Accuracy | None, speedup: Speedup, baseline: str
) -> str | None:
    """Return both speedups in one sentence, where the baseline computed at reduced precision.

    Args:
        accuracy: Of ``make_accuracy``.
        speedup: Over the baseline.
        baseline: Its name, with its precision.
    """
    if accuracy is None or accuracy.exact_speedup is None:
        return None
    task = accuracy.task_precision
    title = PRECISION_TITLES[task] if task else "as the task sets it"
    return (
        f"about {accuracy.exact_speedup:.3g}x of {accuracy.exact_baseline} ({title}), "
        f"{speedup.point:.3g}x of {baseline}, {_compare_errors(accuracy)}"
    )


def _compare_errors(accuracy: Accuracy) -> str:
    own, other = accuracy.candidate_error, accuracy.baseline_error
    if not other or not own or 1 / _SAME_ERROR <= other / own <= _SAME_ERROR:
        return "whose error is the same"
    return f"whose error is {other:.1e}, the candidate's {own:.1e}"

"""Measurements ↔ FlashInfer-Bench traces, one JSON object in a line.

A trace holds latency, reference latency and speedup of a solution on a workload. What stays behind:
samples and intervals, sources, flags, and the inputs of the workload beyond its axes; errors of the
outputs are not in a bench, so they are written as NaN. What comes back is marked as imported.
"""

from __future__ import annotations

from typing import Any

from kernelkb.loading.kernel_files import to_slug, to_snake_case
from kernelkb.model.foreign import SolvedTrace
from kernelkb.model.history import Measurement, SubjectRecord
from kernelkb.record.measurements.identity import create_measurement
from kernelkb.record.measurements.rows import IMPORTED_STATUS
from kernelkb.record.measurements.t4 import parse_time

_UNKNOWN_ERROR = {"max_relative_error": "NaN", "max_absolute_error": "NaN"}
_JUDGE = "flashinfer-bench"


def is_exportable(measurement: Measurement) -> bool:
    """Say whether it is something that a trace can hold: a bench with a baseline, or a failure."""
    timed = measurement.baseline_us is not None and measurement.candidate_us is not None
    failed = measurement.verdict in ("incorrect", "invalid")
    return measurement.kind == "bench" and (failed or (timed and measurement.verdict is not None))


def build_trace(one: Measurement) -> dict[str, Any]:
    """Return the trace of a measurement that fits."""
    subject = one.subject
    evaluation: dict[str, Any] = {
        "status": "PASSED",
        "environment": {"hardware": subject.device, "libs": subject.environment},
        "timestamp": one.at.isoformat(),
        "log": one.detail or "",
        "correctness": None,
        "performance": None,
    }
    if one.verdict == "incorrect":
        evaluation |= {"status": "INCORRECT_NUMERICAL", "correctness": _UNKNOWN_ERROR}
    elif one.verdict == "invalid":
        evaluation["status"] = "RUNTIME_ERROR"
    elif one.candidate_us is not None and one.baseline_us is not None:
        evaluation["correctness"] = _UNKNOWN_ERROR
        evaluation["performance"] = {
            "latency_ms": one.candidate_us / 1e3,
            "reference_latency_ms": one.baseline_us / 1e3,
            "speedup_factor": one.speedup or one.baseline_us / one.candidate_us,
        }
    return {
        "definition": subject.kernel,
        "workload": {"axes": subject.inputs, "inputs": {}, "uuid": subject.workload},
        "solution": subject.variant,
        "evaluation": evaluation,
    }


def convert_trace(trace: SolvedTrace) -> Measurement | str:
    """Return the measurement of a trace, or why it is none.

    Raises:
        ValueError: Its timestamp is none.
    """
    if trace.solution is None or trace.evaluation is None:
        return "it is a workload, which nobody solved"
    told = trace.evaluation
    subject = SubjectRecord(
        kernel=to_snake_case(trace.definition),
        variant=to_slug(trace.solution),
        target="cpu" if "cpu" in told.environment.hardware.lower() else "cuda",
        workload=trace.workload.uuid,
        sources={},
        inputs=trace.workload.axes,
        device=told.environment.hardware,
        environment=told.environment.libs,
        judge=_JUDGE,
    )
    return create_measurement(
        "bench",
        parse_time(told.timestamp),
        subject,
        status=IMPORTED_STATUS,
        **_convert_evaluation(trace),
    )


def _convert_evaluation(trace: SolvedTrace) -> dict[str, Any]:
    told = trace.evaluation
    if told is None or told.performance is None or told.performance.latency_ms <= 0:
        status = told.status if told else "nothing"
        verdict = "incorrect" if status.startswith("INCORRECT") else "invalid"
        return {"verdict": verdict, "detail": f"{_JUDGE} says {status}"}
    took = told.performance
    return {
        # Whether it is faster takes an interval, which a trace has not.
        "verdict": "inconclusive",
        "candidate_us": took.latency_ms * 1e3,
        "baseline": "reference",
        "baseline_us": took.reference_latency_ms * 1e3,
        "speedup": took.speedup_factor,
    }

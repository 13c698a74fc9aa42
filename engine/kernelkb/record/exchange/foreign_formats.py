"""Exports measurements in formats of other tools: Kernel Tuner T4 and FlashInfer-Bench traces.

T4 (schema 1.0.0) knows configurations and run times; kernel, variant, workload, device and target
travel as T4 measurements of those names. A trace is one JSON object in a line, with the latency,
reference latency and speedup of a solution on a workload. Neither holds sources, environment or
intervals, so neither is read back; ``kb export`` without ``--format`` loses nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from kernelkb.model.records.history import Measurement
from kernelkb.model.records.verdict import is_failure, is_wrong

_T4_VERSION = "1.0.0"
_PLACE_FIELDS = ("kernel", "variant", "workload", "device", "target")
_DEFINE_FLAG = "-D"
_T4_INVALIDITY = {"incorrect": "correctness", "invalid": "runtime"}
_UNKNOWN_ERROR = {"max_relative_error": "NaN", "max_absolute_error": "NaN"}


def fits_t4(measurement: Measurement) -> bool:
    """Return whether T4 can hold a measurement: a timed or failed configuration."""
    return measurement.kind in ("bench", "tune") and measurement.verdict is not None


def format_t4(measurements: Iterable[Measurement]) -> str:
    """Return a T4 file of measurements that fit T4."""
    results = [_build_t4_result(one) for one in measurements]
    return json.dumps({"results": results, "schema_version": _T4_VERSION}, indent=1) + "\n"


def _build_t4_result(one: Measurement) -> dict[str, Any]:
    validity = _T4_INVALIDITY.get(one.verdict or "", "correct")
    place = {name: getattr(one.subject, name) for name in _PLACE_FIELDS}
    values = [{"name": name, "value": value, "unit": ""} for name, value in place.items()]
    for name, us in (("time", one.candidate_us), ("baseline_time", one.baseline_us)):
        if us is not None:
            values.append({"name": name, "value": us / 1e3, "unit": "ms"})
    if one.speedup is not None:
        values.append({"name": "speedup", "value": one.speedup, "unit": ""})
    return {
        "timestamp": one.at.isoformat(),
        "configuration": {"variant": one.subject.variant, **_parse_macros(one.subject.flags)},
        "times": {
            "benchmark": one.seconds * 1e3,
            "runtimes": [candidate / 1e3 for candidate, _ in one.samples],
        },
        "invalidity": validity,
        "correctness": int(validity != "correctness"),
        "measurements": values,
        "objectives": ["time"],
    }


def _parse_macros(flags: Iterable[str]) -> dict[str, int | str]:
    given = [
        flag.removeprefix(_DEFINE_FLAG).partition("=") for flag in flags if _DEFINE_FLAG in flag[:2]
    ]
    return {name: _parse_number(value) for name, _, value in given}


def _parse_number(text: str) -> int | str:
    return int(text) if text.lstrip("-").isdecimal() else text


def fits_trace(measurement: Measurement) -> bool:
    """Return whether a trace can hold a measurement: a bench with a baseline, or a failure."""
    timed = measurement.baseline_us is not None and measurement.candidate_us is not None
    failed = is_failure(measurement.verdict)
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
    if is_wrong(one.verdict):
        evaluation |= {"status": "INCORRECT_NUMERICAL", "correctness": _UNKNOWN_ERROR}
    elif is_failure(one.verdict):
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

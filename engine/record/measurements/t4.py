"""Measurements ↔ T4, the format in which auto-tuners share results (schema 1.0.0).

T4 knows configurations and run times. The kernel, variant, workload, device and target travel as
measurements of those names. What stays behind: sources, environment, the baseline's times, and
with them the intervals; so what comes back is marked as imported and never the best known.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from kernelkb.loading.kernel_files import slug, snake
from kernelkb.model.foreign import T4, T4Result
from kernelkb.model.history import Measurement, Subject
from kernelkb.record.measurements.identity import digest, identified
from kernelkb.record.measurements.rows import IMPORTED

VERSION = "1.0.0"
_PLACE = ("kernel", "variant", "workload", "device", "target")
_DEFINE = "-D"
_VALIDITY = {"incorrect": "correctness", "invalid": "runtime"}


def fits(measurement: Measurement) -> bool:
    """Say whether it is something that T4 can hold: a timed or failed configuration."""
    return measurement.kind in ("bench", "tune") and measurement.verdict is not None


def t4_text(measurements: Iterable[Measurement]) -> str:
    """Return a T4 file of measurements that fit."""
    results = [_result(one) for one in measurements]
    return json.dumps({"results": results, "schema_version": VERSION}, indent=1) + "\n"


def _result(one: Measurement) -> dict[str, Any]:
    validity = _VALIDITY.get(one.verdict or "", "correct")
    place = {name: getattr(one.subject, name) for name in _PLACE}
    values = [{"name": name, "value": value, "unit": ""} for name, value in place.items()]
    for name, us in (("time", one.candidate_us), ("baseline_time", one.baseline_us)):
        if us is not None:
            values.append({"name": name, "value": us / 1e3, "unit": "ms"})
    if one.speedup is not None:
        values.append({"name": "speedup", "value": one.speedup, "unit": ""})
    return {
        "timestamp": one.at.isoformat(),
        "configuration": {"variant": one.subject.variant, **_macros(one.subject.flags)},
        "times": {
            "benchmark": one.seconds * 1e3,
            "runtimes": [candidate / 1e3 for candidate, _ in one.samples],
        },
        "invalidity": validity,
        "correctness": int(validity != "correctness"),
        "measurements": values,
        "objectives": ["time"],
    }


def _macros(flags: Iterable[str]) -> dict[str, int | str]:
    given = [flag.removeprefix(_DEFINE).partition("=") for flag in flags if _DEFINE in flag[:2]]
    return {name: _number(value) for name, _, value in given}


def _number(text: str) -> int | str:
    return int(text) if text.lstrip("-").isdecimal() else text


def from_t4(document: T4, given: Mapping[str, str]) -> Iterator[Measurement | str]:
    """Yield the measurements of a T4 file; for a result that does not fit, why.

    Args:
        document: The file.
        given: Kernel, workload, device and target, for results that do not name them.
    """
    for result in document.results:
        yield _measurement(result, given, document.schema_version)


def _measurement(result: T4Result, given: Mapping[str, str], version: str) -> Measurement | str:
    values = {one.name: one.value for one in result.measurements}
    place = {**given, **{n: str(values[n]) for n in _PLACE if n in values}}
    missing = [name for name in ("kernel", "workload", "device") if name not in place]
    if missing:
        return f"it names no {missing[0]}; give it with --{missing[0]}"
    if result.timestamp is None:
        return "it has no timestamp"
    settings = {k: v for k, v in result.configuration.items() if k != "variant"}
    subject = Subject(
        kernel=snake(place["kernel"]),
        variant=slug(place.get("variant") or _called(settings)),
        target="cpu" if place.get("target") == "cpu" else "cuda",
        workload=place["workload"],
        sources={},
        flags=tuple(f"{_DEFINE}{name}={value}" for name, value in sorted(settings.items())),
        device=place["device"],
        judge=f"T4 {version}",
    )
    milliseconds = _milliseconds(result, values.get("time"))
    right = result.invalidity == "correct" and milliseconds is not None
    wrong = "incorrect" if result.invalidity == "correctness" else "invalid"
    return identified(
        "tune",
        moment(result.timestamp),
        subject,
        # Right, and compared with nothing that we know the times of.
        verdict="inconclusive" if right else wrong,
        status=IMPORTED,
        detail=None if right else f"T4 says {result.invalidity}",
        candidate_us=milliseconds * 1e3 if right and milliseconds else None,
    )


def _called(settings: Mapping[str, object]) -> str:
    """Return a name for a configuration that has none."""
    return f"configuration-{digest(json.dumps(settings, sort_keys=True))[:8]}"


def _milliseconds(result: T4Result, told: object) -> float | None:
    if result.times.runtimes:
        return statistics.median(result.times.runtimes)
    return told if isinstance(told, float) else None


def moment(text: str) -> datetime:
    """Return the time that a foreign file names; UTC where it names no zone.

    Raises:
        ValueError: It is no time.
    """
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)

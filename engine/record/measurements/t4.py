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

from kernelkb.loading.kernel_files import to_slug, to_snake_case
from kernelkb.model.foreign import T4File, T4Result
from kernelkb.model.history import Measurement, SubjectRecord
from kernelkb.record.measurements.identity import create_measurement, digest
from kernelkb.record.measurements.rows import IMPORTED_STATUS

VERSION = "1.0.0"
_PLACE_FIELDS = ("kernel", "variant", "workload", "device", "target")
_DEFINE_FLAG = "-D"
_T4_INVALIDITY = {"incorrect": "correctness", "invalid": "runtime"}


def is_exportable(measurement: Measurement) -> bool:
    """Say whether it is something that T4 can hold: a timed or failed configuration."""
    return measurement.kind in ("bench", "tune") and measurement.verdict is not None


def format_t4(measurements: Iterable[Measurement]) -> str:
    """Return a T4 file of measurements that fit."""
    results = [_format_result(one) for one in measurements]
    return json.dumps({"results": results, "schema_version": VERSION}, indent=1) + "\n"


def _format_result(one: Measurement) -> dict[str, Any]:
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


def iter_t4_measurements(
    document: T4File, defaults: Mapping[str, str]
) -> Iterator[Measurement | str]:
    """Yield the measurements of a T4 file; for a result that does not fit, why.

    Args:
        document: The file.
        defaults: Kernel, workload, device and target, for results that do not name them.
    """
    for result in document.results:
        yield _convert_result(result, defaults, document.schema_version)


def _convert_result(
    result: T4Result, defaults: Mapping[str, str], version: str
) -> Measurement | str:
    values = {one.name: one.value for one in result.measurements}
    place = {**defaults, **{n: str(values[n]) for n in _PLACE_FIELDS if n in values}}
    missing = [name for name in ("kernel", "workload", "device") if name not in place]
    if missing:
        return f"it names no {missing[0]}; give it with --{missing[0]}"
    if result.timestamp is None:
        return "it has no timestamp"
    settings = {k: v for k, v in result.configuration.items() if k != "variant"}
    subject = SubjectRecord(
        kernel=to_snake_case(place["kernel"]),
        variant=to_slug(place.get("variant") or _configuration_name(settings)),
        target="cpu" if place.get("target") == "cpu" else "cuda",
        workload=place["workload"],
        sources={},
        flags=tuple(f"{_DEFINE_FLAG}{name}={value}" for name, value in sorted(settings.items())),
        device=place["device"],
        judge=f"T4 {version}",
    )
    milliseconds = _median_ms(result, values.get("time"))
    right = result.invalidity == "correct" and milliseconds is not None
    wrong = "incorrect" if result.invalidity == "correctness" else "invalid"
    return create_measurement(
        "tune",
        parse_time(result.timestamp),
        subject,
        # Right, and compared with nothing that we know the times of.
        verdict="inconclusive" if right else wrong,
        status=IMPORTED_STATUS,
        detail=None if right else f"T4 says {result.invalidity}",
        candidate_us=milliseconds * 1e3 if right and milliseconds else None,
    )


def _configuration_name(settings: Mapping[str, object]) -> str:
    """Return a name for a configuration that has none."""
    return f"configuration-{digest(json.dumps(settings, sort_keys=True))[:8]}"


def _median_ms(result: T4Result, told: object) -> float | None:
    if result.times.runtimes:
        return statistics.median(result.times.runtimes)
    return told if isinstance(told, float) else None


def parse_time(text: str) -> datetime:
    """Return the time that a foreign file names; UTC where it names no zone.

    Raises:
        ValueError: It is no time.
    """
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)

"""Exports measurements and attempts, and imports our own JSON Lines, which lose nothing."""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import ValidationError

from kernelkb.errors import BadValueError, KbError
from kernelkb.model.records.history import AttemptTransfer, Measurement, Promotion
from kernelkb.model.records.measurement import is_failure, is_wrong
from kernelkb.record.attempt_store import (
    AttemptStore,
    identify_attempt,
    identify_event,
    unpack_file,
)
from kernelkb.record.measurements.rows import is_intact
from kernelkb.record.measurements.store import Store

Format = Literal["jsonl", "t4", "flashinfer"]
_CHUNK_SIZE = 1000
_PROMOTION_KEY = "promotion"
_CURE = "kb lab import reads the JSON Lines that kb lab export writes without --format"


class TransferCounts(NamedTuple):
    """What an export or an import did."""

    total: int
    """Measurements in the file that fit."""
    new: int
    """Of these, how many the database had not."""
    left_out: Counter[str]
    """Why others were not taken, with their number."""


def generate_export(store: Store, file_format: Format, left_out: Counter[str]) -> Iterator[str]:
    """Yield the text of an export, piece by piece, in the order of the ids.

    Args:
        store: All of it is exported.
        file_format: Which format.
        left_out: Is told what does not fit, and how often.
    """
    if file_format == "jsonl":
        for one in store.iter_all():
            yield one.model_dump_json(exclude_defaults=True) + "\n"
        for promotion in store.list_promotions(in_force=False):
            plain = promotion.model_dump(mode="json", exclude_defaults=True)
            yield json.dumps({_PROMOTION_KEY: plain}, ensure_ascii=False) + "\n"
        return
    fits = fits_t4 if file_format == "t4" else fits_trace
    fitting = _filter_exportable(store, fits, left_out)
    if file_format == "t4":
        yield format_t4(fitting)
    else:
        for one in fitting:
            yield json.dumps(build_trace(one), ensure_ascii=False) + "\n"


def _filter_exportable(
    store: Store, is_exportable: Any, left_out: Counter[str]
) -> Iterator[Measurement]:
    for one in store.iter_all():
        if is_exportable(one):
            yield one
        else:
            left_out[f"a {one.kind} does not fit"] += 1


def import_records(
    store: Store, path: Path, attempts: AttemptStore | None = None
) -> TransferCounts:
    """Add the measurements and attempts of a file of ``kb lab export`` (JSON Lines).

    Records before a wrong line stay: once the line is corrected, importing the file again adds the
    rest, for no record is stored twice.

    Raises:
        BadValueError: The file cannot be read, or a line holds something else.
        DatabaseError: The database cannot be written.
    """
    count = new = 0
    records = _read_records(path)
    while batch := list(islice(records, _CHUNK_SIZE)):
        measurements = [record for record in batch if isinstance(record, Measurement)]
        new += store.add(measurements)
        count += len(measurements)
        store.add_promotions(record for record in batch if isinstance(record, Promotion))
        if attempts is not None:
            add_transfers(attempts, (one for one in batch if isinstance(one, AttemptTransfer)))
    return TransferCounts(count, new, Counter())


def _read_records(path: Path) -> Iterator[Measurement | Promotion | AttemptTransfer]:
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield _parse_line(line, f"{path}:{number}")
    except (OSError, UnicodeDecodeError) as error:
        raise BadValueError(f"cannot read {path}: {error}") from error


def _parse_line(line: str, where: str) -> Measurement | Promotion | AttemptTransfer:
    try:
        fields = json.loads(line)
        if _PROMOTION_KEY in fields:
            return Promotion.model_validate(fields[_PROMOTION_KEY])
        if ATTEMPT_KEY in fields:
            return AttemptTransfer.model_validate(fields[ATTEMPT_KEY])
        measurement = Measurement.model_validate(fields)
    except ValidationError as error:
        raise BadValueError(f"{where}: {_describe_first_error(error)}; {_CURE}") from error
    except (ValueError, TypeError) as error:
        raise BadValueError(f"{where}: {error}; {_CURE}") from error
    if not is_intact(measurement):
        cure = "export it again"
        raise BadValueError(f"{where}: {measurement.id} was changed since it was measured; {cure}")
    return measurement


def _describe_first_error(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    return f"{'.'.join(map(str, first['loc'])) or 'file'}: {first['msg'].lower()}"


ATTEMPT_KEY = "attempt"
"""The key of a line that holds an attempt."""


def generate_attempts(store: AttemptStore, *, with_sources: bool = True) -> Iterator[str]:
    """Yield a line for each attempt, with its events; a source file stands in one of them.

    Args:
        store: All of it is exported.
        with_sources: Whether to write the files; without, they cannot be restored elsewhere.
    """
    written: set[str] = set()
    for attempt in store.iter_all():
        files: dict[str, str] = {}
        for key in attempt.files.values() if with_sources else ():
            if key not in written:
                written.add(key)
                packed = zlib.compress(store.read_file(key), 9)
                files[key] = base64.b64encode(packed).decode()
        events = tuple(store.list_events([attempt.id]))
        one = AttemptTransfer(attempt=attempt, events=events, files=files)
        plain = one.model_dump(mode="json", exclude_defaults=True)
        yield json.dumps({ATTEMPT_KEY: plain}, ensure_ascii=False) + "\n"


def add_transfers(store: AttemptStore, transfers: Iterable[AttemptTransfer]) -> int:
    """Add attempts of an export; return how many were new.

    Raises:
        BadValueError: One was changed since it was exported.
        DatabaseError: The database cannot be written.
    """
    count = 0
    for one in transfers:
        is_whole = one.attempt.id == identify_attempt(one.attempt) and all(
            event.id == identify_event(event) and event.attempt == one.attempt.id
            for event in one.events
        )
        if not is_whole:
            raise BadValueError(f"attempt {one.attempt.id} was changed since; export it again")
        contents = [_unpack(key, text) for key, text in one.files.items()]
        count += store.add([one.attempt], one.events, contents)
    return count


def _unpack(key: str, text: str) -> bytes:
    try:
        return unpack_file(key, base64.b64decode(text, validate=True))
    except (binascii.Error, KbError) as error:
        raise BadValueError(f"source file {key} was changed since; export it again") from error


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

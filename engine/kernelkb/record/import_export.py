"""Exports measurements and attempts, and imports our own JSON Lines, which lose nothing.

An id is a hash without a key, so it proves no claim: what a record claims has to follow from its
samples. A judge may widen an interval by what its clock cannot measure, and draws its resamples in
its own way; a claim is false where it is better than the samples allow.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Iterable, Iterator
from itertools import islice, product
from math import ceil, exp, log, sqrt
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from pydantic import ValidationError

from kernelkb.errors import BadValueError, KbError
from kernelkb.model.records.history import (
    AttemptEvent,
    AttemptId,
    AttemptTransfer,
    Measurement,
    Promotion,
)
from kernelkb.model.records.measurement import is_valid
from kernelkb.record.attempt_store import (
    AttemptStore,
    identify_attempt,
    identify_event,
    unpack_file,
)
from kernelkb.record.measurements.compare import compute_comparison
from kernelkb.record.measurements.regression_gate import get_place
from kernelkb.record.measurements.rows import is_intact
from kernelkb.record.measurements.store import Store
from kernelkb.safety.untrusted_text import parse_json
from kernelkb.units import format_duration

_CHUNK_SIZE = 1000
_PROMOTION_KEY = "promotion"
_CURE = "kb lab import reads the JSON Lines that kb lab export writes"
_NOT_IMPORTED = "it was not imported"
_MARK = {"imported": True}


class _Line(NamedTuple):
    """A record of a file, and its place there for an error."""

    where: str
    record: Measurement | Promotion | AttemptTransfer


class TransferCounts(NamedTuple):
    """What an import did."""

    total: int
    """Measurements in the file."""
    new: int
    """Of these, how many the database had not."""


def generate_export(store: Store) -> Iterator[str]:
    """Yield the lines of an export: measurements in the order of their ids, then promotions."""
    for one in store.iter_all():
        yield _escape(one.model_dump_json(exclude_defaults=True, exclude={"imported"})) + "\n"
    for promotion in store.list_promotions(in_force=False):
        plain = promotion.model_dump(mode="json", exclude_defaults=True)
        yield json.dumps({_PROMOTION_KEY: plain}) + "\n"


def _escape(line: str) -> str:
    """Return JSON in printable ASCII, so that no record reaches a terminal as it is."""
    return line if line.isascii() and line.isprintable() else json.dumps(json.loads(line))


def import_records(
    store: Store, path: Path, attempts: AttemptStore | None = None
) -> TransferCounts:
    """Add the measurements and attempts of a file of ``kb lab export`` (JSON Lines).

    Each is marked as imported, and none claims more than its samples give. Records before a wrong
    line stay: once the line is corrected, importing the file again adds the rest, for no record is
    stored twice.

    Raises:
        BadValueError: The file cannot be read, or a line holds something else or a false claim.
        DatabaseError: The database cannot be written.
    """
    count = new = 0
    lines = _read_lines(path)
    outcomes: list[tuple[str, AttemptEvent]] = []
    while batch := list(islice(lines, _CHUNK_SIZE)):
        measurements = [one.record for one in batch if isinstance(one.record, Measurement)]
        new += store.add(measurements)
        count += len(measurements)
        for where, record in batch:
            if isinstance(record, Promotion):
                _refuse(where, find_false_promotion(record, store))
                store.add_promotions([record])
            elif isinstance(record, AttemptTransfer) and attempts is not None:
                kept = add_transfer(attempts, store, record, where)
                outcomes += [(where, event) for event in kept]
    for where, event in outcomes:  # the state before may stand behind in the file
        if attempts is not None:
            _refuse(where, find_false_outcome(event, attempts, store))
            attempts.add((), [event])
    return TransferCounts(count, new)


def _refuse(where: str, problem: str | None) -> None:
    """Raise BadValueError if there is a problem."""
    if problem is not None:
        raise BadValueError(f"{where}: {problem}; {_NOT_IMPORTED}")


def _read_lines(path: Path) -> Iterator[_Line]:
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    where = f"{path}:{number}"
                    yield _Line(where, _parse_line(line, where))
    except (OSError, UnicodeDecodeError) as error:
        raise BadValueError(f"cannot read {path}: {error}") from error


def _parse_line(line: str, where: str) -> Measurement | Promotion | AttemptTransfer:
    try:
        fields = parse_json(line)
        if _PROMOTION_KEY in fields:
            return Promotion.model_validate(fields[_PROMOTION_KEY])
        if ATTEMPT_KEY in fields:
            return AttemptTransfer.model_validate(fields[ATTEMPT_KEY])
        measurement = Measurement.model_validate(fields).model_copy(update=_MARK)
        intact = is_intact(measurement)
    except ValidationError as error:
        raise BadValueError(f"{where}: {_describe_first_error(error)}; {_CURE}") from error
    except (ValueError, TypeError) as error:
        raise BadValueError(f"{where}: {error}; {_CURE}") from error
    if not intact:
        cure = "export it again"
        raise BadValueError(f"{where}: {measurement.id} was changed since it was measured; {cure}")
    if problem := find_false_claim(measurement):
        _refuse(where, f"measurement {measurement.id[:8]} {problem}")
    return measurement


def _describe_first_error(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    return f"{'.'.join(map(str, first['loc'])) or 'file'}: {first['msg'].lower()}"


ATTEMPT_KEY = "attempt"
"""The key of a line that holds an attempt."""
_UNMARKED: Any = {"attempt": {"imported"}, "events": {"__all__": {"imported"}}}


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
        plain = one.model_dump(mode="json", exclude_defaults=True, exclude=_UNMARKED)
        yield json.dumps({ATTEMPT_KEY: plain}) + "\n"


def add_transfer(
    attempts: AttemptStore, store: Store, one: AttemptTransfer, where: str
) -> list[AttemptEvent]:
    """Add an attempt of an export, without its outcomes; return these.

    Args:
        attempts: It is added here.
        store: Holds the measurements of its events.
        one: The attempt.
        where: Its place in the file.

    Raises:
        BadValueError: It was changed since it was exported, or claims what was not measured.
        DatabaseError: The database cannot be written.
    """
    is_whole = one.attempt.id == identify_attempt(one.attempt) and all(
        event.id == identify_event(event) and event.attempt == one.attempt.id
        for event in one.events
    )
    name = f"attempt {one.attempt.id[:8]}"
    if not is_whole:
        raise BadValueError(f"{where}: {name} was changed since; export it again")
    for event in one.events:
        if problem := find_false_event(event, store):
            _refuse(where, f"{name} {problem}")
    contents = [_unpack(key, text) for key, text in one.files.items()]
    events = [event.model_copy(update=_MARK) for event in one.events]
    steps = [event for event in events if event.outcome is None]
    attempts.add([one.attempt.model_copy(update=_MARK)], steps, contents)
    return [event for event in events if event.outcome is not None]


def _unpack(key: str, text: str) -> bytes:
    try:
        return unpack_file(key, base64.b64decode(text, validate=True))
    except (binascii.Error, KbError) as error:
        raise BadValueError(f"source file {key} was changed since; export it again") from error


_ROUNDING = 1e-3
"""Relative difference of a claim that is the same number."""
_NARROWEST = 0.7
"""Times the root of the count of pairs: how many ranks from the middle one an interval reaches at
least. A 95 % interval of the median reaches 0.98 of it, and resampling varies by a few ranks."""
_MAX_BACK = 20
"""States before among which one that was timed is looked for."""


def find_false_claim(one: Measurement) -> str | None:
    """Return what a measurement claims and its samples do not give; None where they give all."""
    if not one.samples:
        if is_valid(one.verdict) or one.speedup is not None or one.interval is not None:
            return "claims a verdict and has no samples"
        return None
    if min(map(min, one.samples)) <= 0:
        return "has samples of no time"
    time_us = median(candidate for candidate, _ in one.samples)
    logs = sorted(log(baseline / candidate) for candidate, baseline in one.samples)
    speedup = exp(median(logs))
    reach = max(0, ceil(len(logs) / 2 - 0.5 - _NARROWEST * sqrt(len(logs))))
    narrowest = exp(logs[reach]), exp(logs[-1 - reach])
    claims = {
        (one.candidate_us, time_us),
        (one.metrics.get("kernel_us"), time_us),
        (one.baseline_us, time_us * speedup),
        (one.speedup, speedup),
        (one.metrics.get("speedup"), speedup),
    }
    same = all(claim is None or _is_same(claim, found) for claim, found in claims)
    if not (same and _holds(one.interval, narrowest) and _follows(one.verdict, one.interval)):
        return (
            f"claims {_describe(one.verdict, one.candidate_us, one.speedup, one.interval)}; its "
            f"samples give {_describe(None, time_us, speedup, narrowest)}"
        )
    return None


def _is_same(claim: float, found: float) -> bool:
    return abs(claim - found) <= _ROUNDING * abs(found)


def _holds(claim: tuple[float, float] | None, narrowest: tuple[float, float]) -> bool:
    """Return whether a claimed interval is at least as wide as another."""
    if claim is None:
        return True
    low, high = narrowest
    return claim[0] <= low * (1 + _ROUNDING) and claim[1] >= high * (1 - _ROUNDING)


def _follows(verdict: str | None, interval: tuple[float, float] | None) -> bool:
    """Return whether an interval lies on the side that a verdict names."""
    if verdict not in ("faster", "slower"):
        return True
    if interval is None:
        return False
    return interval[0] > 1 if verdict == "faster" else interval[1] < 1


def _describe(
    verdict: str | None,
    time_us: float | None,
    speedup: float | None,
    interval: tuple[float, float] | None,
) -> str:
    parts = [format_duration(time_us)] if time_us else []
    if speedup is not None:
        parts.append(f"{speedup:.3g}x")
    if interval is not None:
        parts.append(f"[{interval[0]:.3g}, {interval[1]:.3g}]")
    return " ".join([*parts, *([verdict] if verdict else [])])


def find_false_event(event: AttemptEvent, store: Store) -> str | None:
    """Return what an event claims and its measurement does not say; None where it says all.

    Args:
        event: Of an attempt.
        store: Holds the measurement.
    """
    claimed = (event.candidate_us, event.speedup, event.interval)
    if not is_valid(event.verdict) and claimed == (None, None, None):
        return None
    one = _find_measurement(store, event.measurement)
    if one is None:
        return "claims a time, and its measurement is not there"
    said = (one.candidate_us, one.speedup, one.interval, one.verdict, one.subject.kernel)
    where = one.subject.workload, one.subject.device
    if (*claimed, event.verdict, event.kernel) != said or (event.workload, event.device) != where:
        return f"claims what its measurement {one.id[:8]} does not say"
    return None


def find_false_promotion(promotion: Promotion, store: Store) -> str | None:
    """Return what a promotion claims and its measurements do not give; None if they give all."""
    new = _find_measurement(store, promotion.measurement)
    if new is None or get_place(new) != promotion.place:
        return f"promotes {promotion.measurement[:8]}, which was not measured there"
    if promotion.ratio is None and promotion.interval is None:
        return None
    old = _find_measurement(store, promotion.previous)
    if old is None or not _gives(old, new, promotion.ratio, promotion.interval):
        return f"claims a gain that {promotion.measurement[:8]} does not have"
    return None


def find_false_outcome(event: AttemptEvent, attempts: AttemptStore, store: Store) -> str | None:
    """Return what an outcome claims and no two benches give; None where they give it.

    Args:
        event: The outcome.
        attempts: Holds the attempt, those before it, and their benches.
        store: Holds the measurements.
    """
    outcome = event.outcome
    if outcome is None or (outcome.measured is None and outcome.interval is None):
        return None
    line = attempts.list_ancestors(outcome.parent)[:_MAX_BACK]
    before, now = _list_benches(attempts, line), _list_benches(attempts, [event.attempt])
    if outcome.measured == 1 and set(before) & set(now):  # the record answered for equal code
        return None
    for names in product(before, now):
        old, new = (_find_measurement(store, name) for name in names)
        if old and new and _gives(old, new, outcome.measured, outcome.interval):
            return None
    return "claims a gain that no two of its benches give"


def _list_benches(attempts: AttemptStore, ids: Iterable[AttemptId]) -> list[str]:
    events = attempts.list_events(ids)
    return [one.measurement for one in events if one.kind == "bench" and one.measurement]


def _gives(
    old: Measurement,
    new: Measurement,
    ratio: float | None,
    interval: tuple[float, float] | None,
) -> bool:
    """Return whether two measurements give a claimed gain; without an interval by their times."""
    if ratio is None:
        return False
    if interval is None:
        times = old.candidate_us, new.candidate_us
        return bool(times[0] and times[1] and _is_same(ratio, times[0] / times[1]))
    found = compute_comparison(old, new)
    if found.ratio is None or found.interval is None:
        return False
    return _is_same(ratio, found.ratio) and _holds(interval, found.interval)


def _find_measurement(store: Store, name: str | None) -> Measurement | None:
    try:
        return store.get(name or "")
    except KbError:
        return None

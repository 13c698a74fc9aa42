"""Exports measurements and attempts, and imports our own JSON Lines, which lose nothing."""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from kernelkb.errors import BadValueError, KbError
from kernelkb.model.records.history import AttemptEvent, AttemptTransfer, Measurement, Promotion
from kernelkb.record.attempt_store import (
    AttemptStore,
    identify_attempt,
    identify_event,
    unpack_file,
)
from kernelkb.record.claims import (
    find_false_claim,
    find_false_event,
    find_false_outcome,
    find_false_promotion,
)
from kernelkb.record.measurements.rows import is_intact
from kernelkb.record.measurements.store import Store
from kernelkb.safety.untrusted_text import parse_json

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

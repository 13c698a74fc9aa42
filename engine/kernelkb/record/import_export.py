"""Exports measurements and attempts, and imports our own JSON Lines, which lose nothing."""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from kernelkb.errors import BadValueError, KbError
from kernelkb.model.records.history import AttemptTransfer, Measurement, Promotion
from kernelkb.record.attempt_store import (
    AttemptStore,
    identify_attempt,
    identify_event,
    unpack_file,
)
from kernelkb.record.measurements.rows import is_intact
from kernelkb.record.measurements.store import Store

_CHUNK_SIZE = 1000
_PROMOTION_KEY = "promotion"
_CURE = "kb lab import reads the JSON Lines that kb lab export writes"


class TransferCounts(NamedTuple):
    """What an import did."""

    total: int
    """Measurements in the file."""
    new: int
    """Of these, how many the database had not."""


def generate_export(store: Store) -> Iterator[str]:
    """Yield the lines of an export: measurements in the order of their ids, then promotions."""
    for one in store.iter_all():
        yield one.model_dump_json(exclude_defaults=True) + "\n"
    for promotion in store.list_promotions(in_force=False):
        plain = promotion.model_dump(mode="json", exclude_defaults=True)
        yield json.dumps({_PROMOTION_KEY: plain}, ensure_ascii=False) + "\n"


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
    return TransferCounts(count, new)


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

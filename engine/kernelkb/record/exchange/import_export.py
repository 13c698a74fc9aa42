"""Exports all measurements, and imports them from our own JSON Lines, which lose nothing."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import ValidationError

from kernelkb.errors import BadValueError
from kernelkb.model.records.attempt import AttemptTransfer
from kernelkb.model.records.history import Measurement, Promotion
from kernelkb.record.attempts.store import AttemptStore
from kernelkb.record.exchange.attempt_transfer import ATTEMPT_KEY, add_transfers
from kernelkb.record.exchange.foreign_formats import (
    build_trace,
    fits_t4,
    fits_trace,
    format_t4,
)
from kernelkb.record.measurements.identity import is_intact
from kernelkb.record.measurements.store import Store

Format = Literal["jsonl", "t4", "flashinfer"]
_CHUNK_SIZE = 1000
_PROMOTION_KEY = "promotion"
_CURE = "kb import reads the JSON Lines that kb export writes without --format"


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
    """Add the measurements and attempts of a file of ``kb export`` (JSON Lines).

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

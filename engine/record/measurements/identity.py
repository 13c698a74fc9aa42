"""A measurement's id: a hash of all that it says, so that the same record is the same anywhere."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError

from kernelkb.errors import BadValueError
from kernelkb.model.base import Record
from kernelkb.model.history import Measurement, MeasurementKind, SubjectRecord

_ID_DIGITS = 32
_PLACEHOLDER_ID = "0" * _ID_DIGITS


def canonical_json(record: Record, *without: str) -> str:
    """Return the one text of a record: sorted keys, floats by repr, no NaN.

    What has its default is left out, so that a field that is added later changes no id.
    """
    plain = record.model_dump(mode="json", exclude=set(without), exclude_defaults=True)
    return json.dumps(
        plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def digest(text: str) -> str:
    """Return the first 32 hexadecimal digits of SHA-256."""
    return hashlib.sha256(text.encode()).hexdigest()[:_ID_DIGITS]


def create_measurement(
    kind: MeasurementKind, at: datetime, subject: SubjectRecord, **fields: Any
) -> Measurement:
    """Return a measurement with both of its ids worked out.

    Args:
        kind: What was done.
        at: When, with its time zone; it is kept in UTC.
        subject: What was measured.
        **fields: The other fields of ``Measurement``, without ``id`` and ``subject_id``.

    Raises:
        BadValueError: ``at`` has no time zone, or a field is unknown or holds something else.
    """
    if at.tzinfo is None:
        raise BadValueError(f"the time {at} has no time zone; write datetime.now(UTC)")
    given = {"kind": kind, "at": at.astimezone(UTC), "subject": subject, **fields}
    if "id" in given or "subject_id" in given:
        raise BadValueError("a measurement's ids follow from what it says; leave them out")
    try:
        draft = Measurement(id=_PLACEHOLDER_ID, subject_id=_PLACEHOLDER_ID, **given)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"]))
        raise BadValueError(f"measurement field {field}: {first['msg'].lower()}") from error
    return draft.model_copy(
        update={"id": compute_id(draft), "subject_id": digest(canonical_json(subject))}
    )


def compute_id(measurement: Measurement) -> str:
    """Return the id that follows from what a measurement says."""
    return digest(canonical_json(measurement, "id", "subject_id"))


def is_intact(measurement: Measurement) -> bool:
    """Say whether its ids are those of what it says."""
    right = compute_id(measurement), digest(canonical_json(measurement.subject))
    return (measurement.id, measurement.subject_id) == right

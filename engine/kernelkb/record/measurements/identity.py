"""Computes a measurement's id: a hash of its content, so equal records have equal ids anywhere."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError

from kernelkb.errors import BadValueError
from kernelkb.model.base import Record
from kernelkb.model.records.history import Measurement, MeasurementKind, SubjectRecord

_ID_DIGITS = 32
_PLACEHOLDER_ID = "0" * _ID_DIGITS


def canonical_json(record: Record, *without: str) -> str:
    """Return the canonical JSON of a record: sorted keys, floats by repr, no NaN.

    Fields at their default are left out, so that adding a field later changes no id.

    Args:
        record: The record to serialize.
        without: Names of fields to leave out.
    """
    plain = record.model_dump(mode="json", exclude=set(without), exclude_defaults=True)
    return json.dumps(
        plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def digest(text: str) -> str:
    """Return the first 32 hexadecimal digits (128 bits) of a text's SHA-256."""
    return hashlib.sha256(text.encode()).hexdigest()[:_ID_DIGITS]


def create_measurement(
    kind: MeasurementKind, at: datetime, subject: SubjectRecord, **fields: Any
) -> Measurement:
    """Return a measurement with both of its ids computed.

    Args:
        kind: The kind of measurement, such as ``bench`` or ``tune``.
        at: The time of the measurement, with its time zone; it is stored in UTC.
        subject: The measured kernel, variant, workload, device and environment.
        **fields: The other fields of ``Measurement``, without ``id`` and ``subject_id``.

    Raises:
        BadValueError: ``at`` has no time zone, or a field is unknown or has an invalid value.
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
    """Return the id of a measurement: the hash of all its fields but the two ids."""
    return digest(canonical_json(measurement, "id", "subject_id"))


def is_intact(measurement: Measurement) -> bool:
    """Return whether both ids of a measurement match its content."""
    right = compute_id(measurement), digest(canonical_json(measurement.subject))
    return (measurement.id, measurement.subject_id) == right

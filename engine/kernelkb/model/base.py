"""Defines the base class and the shared field types of all records, and lists their keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from pydantic.fields import FieldInfo

Slug = Annotated[str, Field(pattern=r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$", max_length=60)]
"""Kebab-case words that begin with a letter, at most 60 characters."""

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=60)]
"""A snake_case name that an expression may use: a metric, an axis, a kernel."""

Quantity = Annotated[str, Field(pattern=r"^(device\.)?[a-z][a-z0-9_]*$", max_length=60)]
"""A metric's id, or ``device.<fact>`` for a fact of the GPU, such as ``device.sm_count``."""

SessionId = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_.-]*$", max_length=80)]
"""Names the file: a date and the kernel, so that ids sort by day."""

MeasurementId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
"""Id of a record in the measurement database: a hash of its content."""

Target = Literal["cpu", "cuda"]
"""Where a kernel runs."""

EvidenceLevel = Literal["L0", "L1", "L2", "L3", "L4", "LC", "LS"]
"""What must be measured for a metric. L0: times and shapes. L1: bandwidth and occupancy. L2: speed
of light and scheduler counters. L3: stall reasons and memory transactions. L4: counters per source
line. LC: compiler output, without a run. LS: a timeline of the system."""

Evidence = Literal["measured", "reported", "judgement"]
"""measured: in a recorded session. reported: by a source. judgement: by the authors."""


class Record(BaseModel):
    """Base of all records: immutable; unknown keys, NaN and infinity are errors.

    Docstrings of fields become descriptions in the JSON schema.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False
    )

    def get_shared_fields(self, other: type[Record]) -> dict[str, Any]:
        """Return the values of the fields that another kind of record has, too, by name."""
        shared = type(self).model_fields.keys() & other.model_fields.keys()
        return {name: getattr(self, name) for name in shared}


def list_known_keys() -> frozenset[str]:
    """Return every field name and alias of every record class that is loaded."""
    return frozenset(field.alias or name for name, field in _iter_record_fields())


def list_boolean_keys() -> frozenset[str]:
    """Return the keys whose value may be true or false."""
    return frozenset(
        field.alias or name
        for name, field in _iter_record_fields()
        if field.annotation is bool or bool in get_args(field.annotation)
    )


def _iter_record_fields() -> Iterator[tuple[str, FieldInfo]]:
    todo: list[type[Record]] = [Record]
    while todo:
        model = todo.pop()
        todo.extend(model.__subclasses__())
        yield from model.model_fields.items()

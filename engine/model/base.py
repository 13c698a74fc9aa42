"""What every record shares."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field
from pydantic.fields import FieldInfo

Slug = Annotated[str, Field(pattern=r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$", max_length=60)]
"""Kebab-case words. Never a number: numbers clash between documents and say nothing."""

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=60)]
"""A snake_case name that may stand in an expression: a metric, an axis, a kernel."""

Quantity = Annotated[str, Field(pattern=r"^(device\.)?[a-z][a-z0-9_]*$", max_length=60)]
"""A metric id, or ``device.<fact>`` for a fact of the GPU in question."""

Target = Literal["cpu", "cuda"]

EvidenceLevel = Literal["L0", "L1", "L2", "L3", "L4", "LC", "LS"]
"""L0 times and shapes; L1 two coarse shares; L2 speed of light and scheduler; L3 stalls and
transactions; L4 source lines; LC static compiler output; LS a timeline."""

Evidence = Literal["measured", "reported", "judgement"]


GainKind = Literal[
    "parallelism",
    "elimination",
    "barrier",
    "latency-hiding",
    "transactions",
    "tensor-cores",
    "traffic",
    "launch",
    "validity",
]
"""Which calibration row (share of the predicted saving that is usually realised) applies."""


class Record(BaseModel):
    """Immutable and closed to unknown keys; attribute docstrings become the JSON schema."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False
    )


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

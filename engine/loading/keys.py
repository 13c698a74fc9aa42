"""The keys that any record may have. Asked anew each time: classes are loaded when needed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from pydantic.fields import FieldInfo

from kernelkb.model.base import Record


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

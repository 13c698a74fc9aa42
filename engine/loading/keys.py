"""The keys that any record may have, for "did you mean"."""

from __future__ import annotations

from functools import cache

from engine.model.base import Record


@cache
def known_keys() -> frozenset[str]:
    """Return every field name and alias of every record class that is loaded."""
    keys: set[str] = set()
    todo: list[type[Record]] = [Record]
    while todo:
        model = todo.pop()
        todo.extend(model.__subclasses__())
        for name, field in model.model_fields.items():
            keys.add(field.alias or name)
    return frozenset(keys)

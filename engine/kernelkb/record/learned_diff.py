"""Lists the numbers that differ between two versions of the learned catalogue."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kernelkb.model.entries.learned import LearnedCatalogue, LearnedFix, LearnedPhase


class LearnedChange(NamedTuple):
    """One changed number of the learned catalogue."""

    what: str
    """Name of the row: ``fix for bottleneck on architecture``, or ``phase NAME``."""
    number: str
    """Name of the changed field."""
    old: object
    """None if the row is new."""
    new: object
    """None if the row was removed."""
    sessions: tuple[str, ...]
    """Sessions that the new row is computed from; for a removed row, those of the old one."""


def diff_learned(old: LearnedCatalogue, new: LearnedCatalogue) -> tuple[LearnedChange, ...]:
    """Return every changed number, row by row in the order of ``new``, removed rows last."""
    before, after = _rows_by_name(old), _rows_by_name(new)
    names = [*after, *(name for name in before if name not in after)]
    return tuple(
        change for name in names for change in _diff_row(name, before.get(name), after.get(name))
    )


def _rows_by_name(learned: LearnedCatalogue) -> dict[str, LearnedFix | LearnedPhase]:
    fixes = {f"{f.fix} for {f.bottleneck} on {f.architecture}": f for f in learned.fixes}
    return {**fixes, **{f"phase {p.phase}": p for p in learned.phases}}


def _diff_row(
    name: str, old: LearnedFix | LearnedPhase | None, new: LearnedFix | LearnedPhase | None
) -> Iterator[LearnedChange]:
    row = new or old
    for field in type(row).model_fields if row else ():
        before, after = getattr(old, field, None), getattr(new, field, None)
        shown = not isinstance(before if new is None else after, str)  # text fields are in ``what``
        if before != after and shown and field != "sessions":
            yield LearnedChange(name, field, before, after, row.sessions if row else ())

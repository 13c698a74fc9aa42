"""What differs between two states of what was learned."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kernelkb.model.learned import LearnedCatalogue, LearnedFix, LearnedPhase


class LearnedChange(NamedTuple):
    """One number that is another now."""

    what: str
    """``fix for bottleneck on architecture``, or ``phase NAME``."""
    number: str
    """Name of the field."""
    old: object
    """None where there was no such row."""
    new: object
    """None where there is no such row any more."""
    sessions: tuple[str, ...]
    """Those that the new row rests on; of a row that is gone, those of the old one."""


def diff_learned(old: LearnedCatalogue, new: LearnedCatalogue) -> tuple[LearnedChange, ...]:
    """Return every number that differs, row by row, in the order of the new file."""
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
        shown = not isinstance(before if new is None else after, str)  # names: ``what`` has them
        if before != after and shown and field != "sessions":
            yield LearnedChange(name, field, before, after, row.sessions if row else ())

"""Who changed a limit or a condition: what an explanation says of it."""

from __future__ import annotations

from kernelkb.model.knowledge import Knowledge
from kernelkb.model.review import Changed, ConditionChange


def notes_of(knowledge: Knowledge) -> dict[str, str]:
    """Return, for each threshold that is not as it was shipped, the words that say so."""
    notes = {
        name: f", the project's own, shipped {value:g}"
        for name, value in knowledge.overridden.items()
    }
    latest: dict[tuple[str, str], Changed] = {}
    for change in knowledge.changed:
        if change.kind == "threshold":
            latest[change.id, change.field] = change
    for (name, field), change in latest.items():
        device = field.partition(".")[2]
        said = f", {f'on {device} ' if device else ''}reviewed by {_by(change)}"
        if not device:
            said += f", shipped {knowledge.overridden[name]:g}"
            notes[name] = said
        else:
            notes[name] = f"{notes.get(name, '')}{said}, before {change.was:g}"
    return notes


def reviewed_conditions(knowledge: Knowledge) -> dict[int, str]:
    """Return the source of each condition that a review added, by the identity of its record."""
    return {
        id(change.added): f"review of {review.session} by {review.reviewer}"
        for review in knowledge.reviews
        for change in review.corrections
        if isinstance(change, ConditionChange)
    }


def _by(change: Changed) -> str:
    return f"{change.reviewer} in {change.session}"

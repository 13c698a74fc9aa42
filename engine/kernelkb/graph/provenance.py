"""Describes, for explanations, which project or review changed a limit or a condition."""

from __future__ import annotations

from kernelkb.model.entries.knowledge import Knowledge
from kernelkb.model.entries.review import ConditionChange, KnowledgeChange


def build_threshold_notes(knowledge: Knowledge) -> dict[str, str]:
    """Return a note for each threshold that a project or a review changed, by its id."""
    notes = {
        name: f", the project's own, shipped {value:g}"
        for name, value in knowledge.overridden.items()
    }
    latest: dict[tuple[str, str], KnowledgeChange] = {}
    for change in knowledge.changed:
        if change.kind == "threshold":
            latest[change.id, change.field] = change
    for (name, field), change in latest.items():
        device = field.partition(".")[2]
        said = f", {f'on {device} ' if device else ''}reviewed by {_format_reviewer(change)}"
        if not device:
            said += f", shipped {knowledge.overridden[name]:g}"
            notes[name] = said
        else:
            notes[name] = f"{notes.get(name, '')}{said}, before {change.was:g}"
    return notes


def find_reviewed_conditions(knowledge: Knowledge) -> dict[int, str]:
    """Return the source of each condition that a review added, by the ``id()`` of its record."""
    return {
        id(change.added_condition): f"review of {review.session} by {review.reviewer}"
        for review in knowledge.reviews
        for change in review.corrections
        if isinstance(change, ConditionChange)
    }


def _format_reviewer(change: KnowledgeChange) -> str:
    return f"{change.reviewer} in {change.session}"

"""What must hold of symptoms."""

from __future__ import annotations

from collections.abc import Iterator

from kernelkb.decide.rules import CompiledRules
from kernelkb.decide.symptoms import find_symptoms
from kernelkb.model.knowledge import Knowledge


def every_example_shows_its_symptom(
    knowledge: Knowledge, rules: CompiledRules
) -> Iterator[tuple[str, str]]:
    """Every symptom is the first that is found in its own example, with its captures."""
    for symptom in (s for family in knowledge.symptoms for s in family.symptoms):
        found = find_symptoms(rules, symptom.example)
        named = next((row for row in found if row["symptom"] == symptom.id), None)
        if named is None:
            others = ", ".join(row["symptom"] for row in found) or "nothing"
            yield symptom.id, f"its example shows {others}"
        elif not symptom.captures.items() <= named["captured"].items():
            yield symptom.id, f"captures {named['captured']} from its example"


def no_look_alike_shows_its_symptom(
    knowledge: Knowledge, rules: CompiledRules
) -> Iterator[tuple[str, str]]:
    """No symptom is found in the text that only resembles it."""
    for symptom in (s for family in knowledge.symptoms for s in family.symptoms):
        found = find_symptoms(rules, symptom.resembles)
        if any(row["symptom"] == symptom.id for row in found):
            yield symptom.id, "is found in the text that only resembles it"

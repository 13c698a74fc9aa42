"""What to measure next: the most hypotheses settled for the least collecting."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from engine.decide.answer import Measure
from engine.decide.diagnose import Finding
from engine.decide.program import Program

_AT_MOST = 8
"""Rows worth reading; the first recipe usually settles the rest."""

_BOTHER = 5.0
"""What it costs to run anything at all, in replay passes: the reason to collect much at once."""


def measure_next(
    program: Program,
    findings: Iterable[Finding],
    known: Mapping[str, float],
    kernel: str,
    target: str,
    extra: Iterable[str],
) -> list[Measure]:
    """Return metrics to collect, those of the most valuable recipe first.

    A metric is worth 1/n to a hypothesis that still lacks n metrics; a recipe is worth what all
    its metrics are worth together, divided by what running it costs.

    Args:
        program: Knows the metrics and how to collect them.
        findings: Matches with open look-alikes, and unknowns.
        known: What was measured, and so is not asked for again.
        kernel: Name to put into the commands; empty for a placeholder.
        target: cpu or cuda.
        extra: Metrics that the gate wants, whatever the hypotheses need.
    """
    wanted: dict[str, dict[str, float]] = {}
    for finding in findings:
        lacking = _collectable(program, finding.missing, known)
        for name in lacking:
            wanted.setdefault(name, {})[finding.row["id"]] = 1 / len(lacking)
    for name in extra:
        wanted.setdefault(name, {})
    worth: dict[str, float] = {}
    for name, hypotheses in wanted.items():
        recipe = program["metrics"][name]["recipe"] or ""
        worth[recipe] = worth.get(recipe, 0.0) + sum(hypotheses.values())
    first = set(extra)

    def key(name: str) -> tuple[bool, float, str, float, str]:
        recipe = program["metrics"][name]["recipe"] or ""
        value = worth[recipe] / (_BOTHER + program["recipes"][recipe]["cost"])
        return name not in first, -value, recipe, -sum(wanted[name].values()), name

    return [_row(program, n, wanted[n], kernel, target) for n in sorted(wanted, key=key)][:_AT_MOST]


def _collectable(program: Program, names: Iterable[str], known: Mapping[str, float]) -> list[str]:
    """Replace derived metrics by what they follow from; drop what is known or not collectable."""
    found: dict[str, None] = {}
    for name in names:
        row = program["metrics"].get(name)
        for base in row["base"] if row else ():
            if base not in known and program["metrics"][base]["recipe"]:
                found[base] = None
    return list(found)


def _row(
    program: Program, name: str, hypotheses: dict[str, float], kernel: str, target: str
) -> Measure:
    recipe = program["recipes"][program["metrics"][name]["recipe"] or ""]
    command = recipe["command"].replace("{kernel}", kernel or "<kernel>")
    separates = sorted(hypotheses, key=lambda h: (-hypotheses[h], h))
    return {
        "metric": name,
        "separates": separates,
        "cost": recipe["cost"],
        "command": command.replace("{target}", target),
    }

"""The plan of a session: phases of the workflow, with their gates and time budgets."""

from __future__ import annotations

from collections.abc import Mapping

from kernelkb.model.entries.workflow import Workflow
from kernelkb.model.records.session import PlanKind, PlannedPhase

_LAST_PHASE: dict[PlanKind, str | None] = {"baseline": "baseline", "optimize": None}
"""Last phase of a plan; None for all phases."""


def plan_phases(
    workflow: Workflow,
    plan: PlanKind,
    predicted: Mapping[str, tuple[float, float, float]] | None = None,
) -> tuple[PlannedPhase, ...]:
    """Return the phases of a plan, in their order.

    Args:
        workflow: All phases.
        plan: ``baseline`` ends with the trusted baseline measurement; ``optimize`` has all phases.
        predicted: Minutes by phase (low, point, high), learned from earlier sessions.
    """
    names = [phase.id for phase in workflow.phases]
    last = _LAST_PHASE[plan]
    end = names.index(last) + 1 if last in names else len(names)
    return tuple(
        PlannedPhase(
            phase=phase.id,
            gates=tuple(gate.id for gate in phase.gates),
            budget_min=phase.budget_min,
            predicted_min=(predicted or {}).get(phase.id),
        )
        for phase in workflow.phases[:end]
    )


def gate_questions(workflow: Workflow) -> dict[str, str]:
    """Return the question that each gate asks, by its id."""
    return {gate.id: gate.check for phase in workflow.phases for gate in phase.gates}

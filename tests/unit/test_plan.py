"""The phases of a plan follow from the workflow."""

from kernelkb.actions.sessions.sessions import gate_questions, plan_phases
from kernelkb.loading.knowledge import load_knowledge

WORKFLOW = load_knowledge().workflow


def test_a_plan_for_a_baseline_ends_with_the_baseline():
    assert plan_phases(WORKFLOW, "baseline")[-1].phase == "baseline"
    assert len(plan_phases(WORKFLOW, "baseline")) < len(WORKFLOW.phases)


def test_a_plan_to_optimise_has_every_gate():
    gates = [gate for phase in plan_phases(WORKFLOW, "optimize") for gate in phase.gates]

    assert gates == list(gate_questions(WORKFLOW))


def test_times_of_earlier_sessions_are_shown_beside_the_budget():
    phases = {p.phase: p for p in plan_phases(WORKFLOW, "baseline", {"build": (5.0, 9.0, 20.0)})}

    assert phases["build"].predicted_min == (5.0, 9.0, 20.0)
    assert phases["assess"].predicted_min is None

"""Times of phases, and whether predictions of them held."""

import pytest
from session_histories import make_session
from shipped_rules import knowledge

from kernelkb.model.entries.learned import LearnedCatalogue, LearnedPhase
from kernelkb.model.records.session import PlannedPhase
from kernelkb.record.outcomes import (
    STEPS_BY_PHASE,
    predict_phase_minutes,
    score_phases,
    sum_minutes_by_phase,
)


def test_a_phase_is_a_step_summed_over_the_session():
    one = make_session("s", steps=[("build", 30.0), ("bench", 60.0), ("build", 30.0)])

    assert sum_minutes_by_phase(one) == {"build": 1.0, "bench": 1.0}


def test_a_step_of_any_name_becomes_a_phase():
    assert set(sum_minutes_by_phase(make_session("s", steps=[("Re-check 2", 6.0)]))) == {
        "re_check_2"
    }


def make_planned(steps, *phases):
    return make_session("s", steps=steps).model_copy(update={"phases": phases})


def make_phase(phase="build", predicted=None):
    return PlannedPhase(phase=phase, gates=(), budget_min=5, predicted_min=predicted)


@pytest.mark.parametrize(("took", "inside"), [(30.0, False), (90.0, True), (300.0, False)])
def test_a_time_is_scored_against_its_interval(took, inside):
    (score,) = score_phases(make_planned([("build", took)], make_phase(predicted=(1.0, 1.5, 3.0))))

    assert score.inside is inside
    assert score.minutes == pytest.approx(took / 60)


def test_a_phase_that_did_not_happen_is_neither_inside_nor_outside():
    (score,) = score_phases(make_planned([], make_phase("optimise", (1.0, 2.0, 3.0))))

    assert (score.minutes, score.inside) == (None, None)


def test_a_plan_is_scored_by_what_it_predicted():
    plan = (make_phase(predicted=(1.5, 2.0, 3.0)), make_phase("baseline"))
    found = score_phases(make_planned([("build", 60.0), ("check", 60.0)], *plan))

    assert [(score.phase, score.minutes, score.inside) for score in found] == [("build", 2, True)]


def test_a_plan_expects_what_its_steps_took():
    rows = tuple(
        LearnedPhase(phase=name, count=1, minutes=span, sessions=("s",))
        for name, span in (("build", (1.0, 4.0, 10.0)), ("check", (1.0, 5.0, 13.0)))
    )

    assert predict_phase_minutes(LearnedCatalogue(phases=rows)) == {"build": (4.0, 9.0, 19.0)}


def test_every_phase_that_is_expected_is_one_of_the_workflow():
    assert set(STEPS_BY_PHASE) <= {phase.id for phase in knowledge().workflow.phases}

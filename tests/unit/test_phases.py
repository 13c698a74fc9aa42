"""Times of phases, and whether predictions of them held."""

import pytest
from histories import session

from engine.model.session import PlannedPhase
from engine.record.phases import minutes_of, planned, scored


def test_a_phase_is_a_step_summed_over_the_session():
    one = session("s", steps=[("build", 30.0), ("bench", 60.0), ("build", 30.0)])

    assert minutes_of(one) == {"build": 1.0, "bench": 1.0}


def test_a_step_of_any_name_becomes_a_phase():
    assert set(minutes_of(session("s", steps=[("Re-check 2", 6.0)]))) == {"re_check_2"}


@pytest.mark.parametrize(("took", "inside"), [(30.0, False), (90.0, True), (300.0, False)])
def test_a_time_is_scored_against_its_interval(took, inside):
    (score,) = scored({"build": (1.0, 1.5, 3.0)}, session("s", steps=[("build", took)]))

    assert score.inside is inside
    assert score.minutes == pytest.approx(took / 60)


def test_a_phase_that_did_not_happen_is_neither_inside_nor_outside():
    (score,) = scored({"profile": (1.0, 2.0, 3.0)}, session("s"))

    assert (score.minutes, score.inside) == (None, None)


def test_a_plan_is_scored_by_what_it_predicted():
    plan = (
        PlannedPhase(phase="build", gates=(), budget_min=5, predicted_min=(0.5, 1.0, 2.0)),
        PlannedPhase(phase="bench", gates=(), budget_min=5),
    )
    one = session("s", steps=[("build", 60.0)]).model_copy(update={"phases": plan})

    assert [(s.phase, s.inside) for s in scored(planned(one), one)] == [("build", True)]

"""What came of a session is computed, and what the record does not say stays unknown."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelkb.model.records.session import (
    Decision,
    PlannedPhase,
    Session,
    SessionClaim,
    SessionEntry,
    Step,
)
from kernelkb.record.outcomes import compute_session_outcomes

START = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)


def make_step(name, variant="naive", *, status="ok", found="", seconds=60.0, **more):
    return Step(name=name, variant=variant, status=status, found=found, seconds=seconds, **more)


def make_bench_step(speedup, low=None, high=None, variant="naive", **more):
    interval = None if low is None else (low, high)
    given = {"verdict": "slower", "baseline": "torch", "workload": "large", **more}
    return make_step("bench", variant, speedup=speedup, interval=interval, **given)


def make_entry(*steps, **more):
    given = {"session": "s", "at": START, "goal": "g", "kernel": "k", "target": "cpu"}
    given |= {"machine": "m", **more}
    return SessionEntry(steps=steps, **given)


def make_session(*entries, **more):
    return Session(**{"session": "s", "opened": START, "goal": "g", "entries": entries, **more})


def compute_outcomes(*steps, **more):
    return compute_session_outcomes(make_session(make_entry(*steps), **more))


# --- time -----------------------------------------------------------------------------------


def test_a_build_works_when_it_was_checked_and_not_before():
    one = compute_outcomes(
        make_step("build"), make_step("check", status="failure"), make_step("build", "b")
    )
    other = compute_outcomes(
        make_step("build"), make_step("check", status="failure"), make_step("check")
    )

    assert (one.worked, one.minutes_to_build) == (False, None)
    assert (other.worked, other.minutes_to_build) == (True, 3.0)


def test_a_check_of_other_code_does_not_make_a_build_work():
    assert not compute_outcomes(make_step("build", "a"), make_step("check", "b")).worked


def test_a_changed_source_has_to_be_built_again():
    assert not compute_outcomes(
        make_step("build", sources="1"), make_step("check", sources="2")
    ).worked


def test_a_step_without_a_digest_ran_the_sources_that_its_variant_had():
    one = compute_outcomes(
        make_step("build", sources="1"), make_step("check"), make_step("profile", sources="1")
    )

    assert one.worked
    assert one.changes == 0


def test_without_times_of_day_the_clock_adds_up_the_steps():
    assert (
        compute_outcomes(make_step("build", seconds=30), make_step("check", seconds=90)).minutes
        == 2.0
    )


def test_a_pause_counts_and_a_break_does_not():
    def at(minutes):
        return START + timedelta(minutes=minutes)

    lunch = compute_outcomes(make_step("build", at=at(1)), make_step("check", at=at(12)))
    night = compute_outcomes(make_step("build", at=at(1)), make_step("check", at=at(600)))

    assert lunch.minutes == pytest.approx(13)
    assert night.minutes == pytest.approx(3)


def test_parallel_steps_count_their_time_once():
    both = [make_step("build", name, at=START, seconds=120) for name in ("a", "b")]

    assert compute_outcomes(*both).minutes == 2.0


def test_a_session_that_was_opened_after_its_first_step_begins_with_it():
    late = START + timedelta(minutes=3)

    assert compute_outcomes(make_step("build", at=START, seconds=120), opened=late).minutes == 2.0


def test_an_entry_that_says_its_minutes_took_at_least_these():
    told = compute_session_outcomes(
        make_session(make_entry(make_step("build"), minutes=30), make_entry(make_step("check")))
    )

    assert told.minutes == 31


def test_notes_alone_have_unknown_minutes():
    one = compute_session_outcomes(make_session(make_entry(went_wrong=("x",))))

    assert one.minutes is None
    assert one.changes is None
    assert one.cost_usd is None


def test_a_second_that_an_account_does_not_give_is_not_zero():
    steps = (make_step("build", seconds=0), make_step("check", seconds=5))
    account = compute_session_outcomes(
        make_session(make_entry(*steps, minutes=20), kind="reported")
    )

    assert account.worked
    assert account.minutes_to_build is None
    assert account.minutes == 20


def test_a_time_without_a_zone_is_utc():
    bare = START.replace(tzinfo=None)

    assert compute_outcomes(make_step("build", at=bare)).minutes == 1.0


def test_the_first_step_that_names_a_bottleneck_gives_it_and_its_time():
    one = compute_outcomes(make_step("recommend"), make_step("recommend", bottleneck="small-grid"))

    assert (one.bottleneck, one.minutes_to_bottleneck) == ("small-grid", 2.0)


def test_no_bottleneck_has_no_time():
    one = compute_outcomes(
        make_step("recommend", found="no cause can be named yet; measure occupancy")
    )

    assert (one.bottleneck, one.minutes_to_bottleneck) == (None, None)


# --- changes --------------------------------------------------------------------------------


def count_changes(*steps):
    one = compute_outcomes(*steps)
    return one.changes, one.blind_changes, one.judged_changes, one.wrong_changes


def test_the_first_code_is_no_change():
    assert count_changes(make_step("build", sources="1"), make_step("bench", sources="1")) == (
        0,
        0,
        0,
        0,
    )


def test_a_change_after_a_profile_is_not_blind_and_the_next_one_is():
    steps = [
        make_step("build", "a"),
        make_step("profile", "a"),
        make_step("build", "b"),
        make_step("build", "c"),
    ]

    assert count_changes(*steps)[:2] == (2, 1)


def test_edited_sources_are_a_change_of_the_same_variant():
    assert count_changes(make_step("build", sources="1"), make_step("build", sources="2"))[:2] == (
        1,
        1,
    )


def test_going_back_is_no_change():
    assert (
        count_changes(make_step("build", "a"), make_step("build", "b"), make_step("build", "a"))[0]
        == 1
    )


def test_a_build_that_failed_changed_nothing_that_runs():
    failed = make_step("build", "b", status="failure")

    assert count_changes(make_step("build", "a"), failed)[0] == 0


def test_mending_a_wrong_result_is_not_blind():
    wrong = make_step("check", "a", status="failure")

    assert count_changes(make_step("build", "a"), wrong, make_step("build", "b"))[:2] == (1, 0)


def test_another_kernel_is_no_change():
    one = compute_session_outcomes(
        make_session(
            make_entry(make_step("build", "a")), make_entry(make_step("build", "b"), kernel="other")
        )
    )

    assert one.changes == 0


def test_a_change_is_wrong_when_its_whole_interval_lies_below():
    before = make_bench_step(1.0, 0.9, 1.1, "a")

    assert count_changes(before, make_bench_step(0.5, 0.4, 0.6, "b"))[2:] == (1, 1)
    assert count_changes(before, make_bench_step(0.95, 0.85, 1.05, "b"))[2:] == (1, 0)


def test_a_change_is_wrong_when_its_check_fails():
    assert count_changes(make_step("build", "a"), make_step("check", "b", status="failure"))[
        2:
    ] == (1, 1)


def test_without_intervals_wrong_changes_are_unknown():
    assert count_changes(make_bench_step(0.12, variant="a"), make_bench_step(0.09, variant="b"))[
        2:
    ] == (0, None)


def test_with_another_baseline_wrong_changes_are_unknown():
    other = make_bench_step(0.5, 0.4, 0.6, "b", baseline="torch.compile")

    assert count_changes(make_bench_step(1.0, 0.9, 1.1, "a"), other)[2:] == (0, None)


def test_a_direct_comparison_decides_whether_a_change_was_wrong():
    lost = make_step("compare", "b", speedup=0.9, interval=(0.8, 0.95))

    assert count_changes(make_step("build", "a"), lost)[2:] == (1, 1)


# --- speedups -------------------------------------------------------------------------------


def test_the_final_speedup_is_that_of_the_last_valid_bench():
    invalid = make_bench_step(9.0, 8.0, 10.0, verdict="invalid")
    one = compute_outcomes(
        make_step("check"), make_bench_step(2.0, 1.9, 2.1), make_bench_step(1.5, 1.4, 1.6), invalid
    )

    assert (one.final.speedup, one.final.interval) == (1.5, (1.4, 1.6))
    assert one.best.speedup == 2.0
    assert one.final.checked


def test_wrong_code_has_no_speedup_even_when_it_was_timed_before_it_was_checked():
    assert (
        compute_outcomes(make_bench_step(0.5), make_step("check", status="failure")).final is None
    )


def test_the_best_is_not_taken_from_another_workload():
    one = compute_outcomes(make_bench_step(5.0, workload="tiny"), make_bench_step(2.0))

    assert one.best == one.final


# --- decisions ------------------------------------------------------------------------------


def test_decisions_are_counted_by_state():
    def made(**more):
        return Decision(bottleneck="b", fix="f", **more)

    one = compute_session_outcomes(
        make_session(
            make_entry(
                decisions=(
                    made(),
                    made(predicted=(1.1, 1.5, 2), falsifier_held=False),
                    made(predicted=(1.1, 1.5, 2), measured=1.4, falsifier_held=True),
                    made(predicted=(1.1, 1.5, 2), measured=28),
                    made(measured=2, falsifier="x was not measured after the change"),
                )
            )
        )
    )

    assert (one.decisions, one.predicted, one.measured) == (5, 3, 3)
    assert (one.compared, one.inside) == (2, 1)
    assert (one.falsifiers_held, one.falsifiers_failed) == (1, 1)


def test_false_claims_and_cost_are_added_up():
    claims = (
        SessionClaim(said="a", held=False, why="w"),
        SessionClaim(said="b", held=None, why="w"),
    )
    one = compute_session_outcomes(
        make_session(make_entry(claims=claims, cost_usd=0.5), make_entry(cost_usd=0.25))
    )

    assert (one.claims, one.false_claims, one.cost_usd) == (2, 1, 0.75)


# --- any session ----------------------------------------------------------------------------

NAMES = ["environment", "build", "check", "bench", "profile", "recommend", "compare", "tune"]
SPEED = st.floats(0.01, 100)


@st.composite
def random_steps(draw):
    speedup = draw(st.none() | SPEED)
    low, high = sorted((draw(SPEED), draw(SPEED)))
    return Step(
        name=draw(st.sampled_from(NAMES)),
        variant=draw(st.sampled_from([None, "a", "b", "c"])),
        status=draw(st.sampled_from(["ok", "warning", "failure"])),
        found="",
        seconds=draw(st.floats(0, 1e5)),
        at=draw(st.none() | st.integers(0, 10**5).map(lambda s: START + timedelta(seconds=s))),
        sources=draw(st.sampled_from([None, "1", "2"])),
        speedup=speedup,
        interval=(low, high) if speedup and draw(st.booleans()) else None,
        baseline=draw(st.sampled_from([None, "torch"])),
        bottleneck=draw(st.sampled_from([None, "small-grid"])),
    )


ENTRIES = st.builds(
    lambda steps, minutes, cost, target: make_entry(
        *steps, minutes=minutes, cost_usd=cost, target=target
    ),
    st.lists(random_steps(), max_size=6),
    st.none() | st.floats(0, 1e4),
    st.none() | st.floats(0, 1e3),
    st.sampled_from([None, "cpu", "cuda"]),
)
SESSIONS = st.builds(
    lambda entries, kind: make_session(*entries, kind=kind),
    st.lists(ENTRIES, max_size=4),
    st.sampled_from(["recorded", "reported"]),
)


@given(SESSIONS)
def test_no_part_is_larger_than_its_whole(any_session):
    one = compute_session_outcomes(any_session)

    for part in (one.minutes_to_build, one.minutes_to_bottleneck):
        assert part is None or one.minutes is None or part <= one.minutes + 1e-9
    if one.changes is not None:
        assert 0 <= one.blind_changes <= one.changes
        assert (one.wrong_changes or 0) <= one.judged_changes <= one.changes
        assert (one.wrong_changes is None) == (one.changes > 0 and one.judged_changes == 0)


@given(SESSIONS)
def test_absent_events_have_no_time(any_session):
    one = compute_session_outcomes(any_session)

    assert one.worked or one.minutes_to_build is None
    assert one.bottleneck or one.minutes_to_bottleneck is None
    assert (one.final is None) == (one.best is None)
    assert one.final is None or one.best.speedup >= one.final.speedup


@given(SESSIONS)
def test_a_note_at_the_end_changes_nothing(any_session):
    noted = any_session.model_copy(
        update={"entries": (*any_session.entries, make_entry(went_right=("x",), kernel=None))}
    )

    assert compute_session_outcomes(noted) == compute_session_outcomes(any_session)


@given(SESSIONS)
def test_a_profile_after_every_step_leaves_no_blind_change(any_session):
    def profiled(one):
        twice = [(s, s.model_copy(update={"name": "profile", "status": "ok"})) for s in one.steps]
        return one.model_copy(update={"steps": tuple(s for pair in twice for s in pair)})

    entries = tuple(profiled(one) for one in any_session.entries)

    assert not compute_session_outcomes(
        any_session.model_copy(update={"entries": entries})
    ).blind_changes


@given(SESSIONS, st.integers(0, 3))
def test_more_of_a_session_never_has_fewer_changes(any_session, kept):
    part = any_session.model_copy(update={"entries": any_session.entries[:kept]})
    few, many = compute_session_outcomes(part), compute_session_outcomes(any_session)

    assert (few.changes or 0) <= (many.changes or 0)
    assert (few.blind_changes or 0) <= (many.blind_changes or 0)
    assert not few.worked or many.worked


def test_a_plan_s_phases_are_scored_by_what_was_logged():
    step = Step(name="build", status="ok", found="built", seconds=120.0)
    entry = SessionEntry(session="x", at=START, goal="g", steps=(step,))
    plan = (
        PlannedPhase(phase="build", gates=(), budget_min=20, predicted_min=(1.0, 1.5, 3.0)),
        PlannedPhase(phase="baseline", gates=(), budget_min=30, predicted_min=(1.0, 2.0, 4.0)),
        PlannedPhase(phase="validate", gates=(), budget_min=30),
    )
    found = compute_session_outcomes(
        Session(session="x", opened=START, goal="g", phases=plan, entries=(entry,))
    )

    assert [(one.phase, one.minutes, one.inside) for one in found.phases] == [
        ("build", 2.0, True),
        ("baseline", None, None),
    ]

"""What sessions teach: by hand, by properties, and against a known truth."""

import math
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from session_histories import (
    DAY,
    is_known,
    make_decision,
    make_history,
    make_session,
)

from kernelkb.model.entries.learned import PRIOR_SHARE
from kernelkb.model.records.session import SessionEntry
from kernelkb.record.intervals import clip_share
from kernelkb.record.learn import (
    LearningCase,
    PhaseDuration,
    extract_cases,
    learn_from_cases,
    learn_from_sessions,
)

BOTTLENECK = "uncoalesced-global-access"


def learn_row(*sessions, forgotten=()):
    """The one row that sessions teach."""
    (row,) = learn_from_sessions(sessions, is_known, forgotten).fixes
    return row


def learn_share(one):
    (case,) = extract_cases(make_session("s", one), is_known)
    return case.share


def test_a_case_that_gave_half_moves_the_share_a_sixth_of_the_way():
    row = learn_row(make_session("s", make_decision(share=0.5)))

    assert row.observed == 0.5
    assert row.calibration == pytest.approx((0.5 + 5 * PRIOR_SHARE) / 6, abs=1e-4)
    assert row.interval[0] < 0.5 < PRIOR_SHARE <= row.interval[1]


def test_a_share_is_independent_of_the_assumed_calibration():
    assert learn_share(make_decision(share=0.5, assumed=0.8)) == pytest.approx(0.5)
    assert learn_share(make_decision(share=0.5, assumed=0.25)) == pytest.approx(0.5)


def test_a_decision_without_calibration_assumes_the_prior():
    assert learn_share(make_decision(share=0.5, calibration=None)) == pytest.approx(0.5)


def test_a_slow_down_is_a_negative_share():
    slower = make_decision(estimate=0.5, measured=1 / 1.2, interval=(0.8, 0.9))

    assert learn_share(slower) == pytest.approx(-math.log(1.2) / 0.5)


@pytest.mark.parametrize(("measured", "said"), [(500.0, 2.0), (0.01, -1.0)])
def test_the_share_of_one_case_is_clipped_to_minus_1_and_2(measured, said):
    assert (
        learn_share(make_decision(estimate=0.3, measured=measured, interval=(0.001, 600.0))) == said
    )


@given(st.floats(0.001, 1e6), st.floats(1.06, 1e3))
def test_one_case_moves_a_share_by_at_most_a_third(measured, point):
    case = make_decision(predicted=(1.0, point, point), measured=measured, interval=(1e-4, 1e7))

    moved = abs(learn_row(make_session("s", case)).calibration - PRIOR_SHARE)

    assert moved <= 1 / 3 + 1e-4


def test_a_prediction_of_almost_nothing_teaches_no_share_and_still_counts():
    row = learn_row(make_session("s", make_decision(estimate=0.04)))

    assert (row.count, row.observed, row.calibration) == (0, None, PRIOR_SHARE)
    assert (row.tried, row.measured, row.succeeded, row.falsifier_held) == (1, 1, 1, 1)


def test_a_disturbed_case_was_tried_and_says_nothing_more():
    row = learn_row(make_session("s", make_decision(measured=None, interval=None)))

    assert (row.tried, row.measured, row.count) == (1, 0, 0)
    assert (row.falsifier_held, row.falsifier_failed) == (0, 0)


def test_an_unapplied_fix_is_no_case():
    assert (
        learn_from_sessions([make_session("s", make_decision(applied_as=None))], is_known).fixes
        == ()
    )


def test_a_fix_that_the_knowledge_does_not_have_is_left_out():
    assert (
        learn_from_sessions([make_session("s", make_decision(fix="my-own-trick"))], is_known).fixes
        == ()
    )


def test_numbers_from_an_unknown_gpu_are_left_out():
    one = make_session("s", make_decision(), cc=None)
    unknown = one.entries[0].model_copy(update={"target": "cuda"})

    assert (
        learn_from_sessions([one.model_copy(update={"entries": (unknown,)})], is_known).fixes == ()
    )


def test_fixes_applied_together_are_parts_of_one_case():
    both = make_decision(together=("vectorize-128b", "tile-into-smem"))

    assert learn_row(make_session("s", both)).count == pytest.approx(1 / 3, abs=1e-4)


def test_fixes_applied_together_are_compared_with_their_combined_prediction():
    measured = {"measured": 1.5 * 2.0, "interval": (2.0, 4.0)}  # each gave what was predicted of it
    first = make_decision(predicted=(1.0, 1.5, 2.0), calibration=0.8, **measured)
    second = first.model_copy(
        update={
            "bottleneck": "memory-latency-bound",
            "fix": "vectorize-128b",
            "predicted": (1.0, 2.0, 3.0),
            "calibration": 0.6,
        }
    )
    rows = {
        f.fix: f for f in learn_from_sessions([make_session("s", first, second)], is_known).fixes
    }

    assert rows["remap-threads-coalesced"].observed == pytest.approx(0.8)
    assert rows["vectorize-128b"].observed == pytest.approx(0.6)
    assert [row.count for row in rows.values()] == [0.5, 0.5]


def test_the_same_change_measured_again_in_a_session_is_one_case():
    one = make_session("s", make_decision(share=0.9))
    again = one.entries[0].model_copy(update={"decisions": (make_decision(share=0.3),)})
    row = learn_row(one.model_copy(update={"entries": (*one.entries, again)}))

    assert (row.tried, row.count) == (1, 1)
    assert row.observed == pytest.approx(0.3)


def test_a_disturbed_repetition_does_not_hide_the_measured_one():
    disturbed = make_decision(measured=None, interval=None)
    one = make_session("s", make_decision(share=0.9))
    again = one.entries[0].model_copy(update={"decisions": (disturbed,)})

    assert learn_row(one.model_copy(update={"entries": (*one.entries, again)})).measured == 1


def test_each_architecture_learns_separately():
    mixed = [
        make_session("a", make_decision(share=1.0)),
        make_session("b", make_decision(share=0.0), cc="8.0"),
    ]
    rows = {f.architecture: f for f in learn_from_sessions(mixed, is_known).fixes}

    assert rows["sm_90"].calibration == 1.0
    assert rows["sm_80"].calibration == pytest.approx(5 / 6, abs=1e-4)


def test_success_is_a_whole_interval_above_one():
    perhaps = make_decision(interval=(0.99, 1.5), falsifier_held=False)
    row = learn_row(make_session("a", make_decision()), make_session("b", perhaps))

    assert (row.succeeded, row.measured) == (1, 2)
    assert (row.falsifier_held, row.falsifier_failed) == (1, 1)
    assert row.success_interval == pytest.approx((0.0945, 0.9055), abs=1e-3)


def test_a_phase_time_is_the_geometric_mean_in_its_interval():
    found = learn_from_sessions(
        [make_session(f"s{n}", steps=[("build", 60.0), ("build", 60.0 * n)]) for n in (1, 1, 3)],
        is_known,
    )
    (phase,) = found.phases
    low, point, high = phase.minutes

    assert (phase.phase, phase.count) == ("build", 3)
    assert point == pytest.approx((2 * 2 * 4) ** (1 / 3), abs=1e-3)
    assert low < 2 < high


@pytest.mark.parametrize("could_fail", [None, False])
@pytest.mark.parametrize("held", [True, False])
def test_a_falsifier_that_may_have_held_before_is_no_evidence(held, could_fail):
    told = make_decision(falsifier_held=held, falsifier_could_fail=could_fail)
    row = learn_row(make_session("s", told))

    assert (row.falsifier_held, row.falsifier_failed) == (0, 0)
    assert (row.measured, row.succeeded) == (1, 1)


SHARES = st.floats(-2, 2)
HISTORIES = st.lists(
    st.tuples(SHARES, st.floats(0.06, 0.9), st.sampled_from(["9.0", "8.0", None])), max_size=8
)


def make_sessions(rows):
    return [
        make_session(
            f"s{n}", make_decision(min(share, 0.99 / size), size), cc=cc, steps=[("build", n + 1)]
        )
        for n, (share, size, cc) in enumerate(rows)
    ]


@given(HISTORIES)
@settings(deadline=None)
def test_a_learned_share_lies_between_prior_and_observed(rows):
    for row in learn_from_sessions(make_sessions(rows), is_known).fixes:
        low, high = sorted((PRIOR_SHARE, row.observed))

        assert low - 1e-4 <= row.calibration <= high + 1e-4
        assert row.interval[0] <= row.calibration <= row.interval[1]


@given(HISTORIES, st.randoms(use_true_random=False))
@settings(deadline=None)
def test_the_order_of_sessions_does_not_matter(rows, rng):
    sessions = make_sessions(rows)
    shuffled = rng.sample(sessions, len(sessions))

    assert learn_from_sessions(shuffled, is_known) == learn_from_sessions(sessions, is_known)


@given(HISTORIES, SHARES)
@settings(deadline=None)
def test_a_reported_session_changes_nothing(rows, claimed):
    sessions = make_sessions(rows)
    claim = make_decision(min(claimed, 1.9), 0.5)
    account = make_session("told", claim, kind="reported", steps=[("build", 1.0)])

    assert learn_from_sessions([*sessions, account], is_known) == learn_from_sessions(
        sessions, is_known
    )


@given(HISTORIES, SHARES)
@settings(deadline=None)
def test_forgetting_a_session_is_as_if_it_had_never_been(rows, poison):
    sessions = make_sessions(rows)
    bad = make_session("bad", make_decision(min(poison, 1.9), 0.5), steps=[("build", 9e9)])
    found = learn_from_sessions([*sessions, bad], is_known, ["bad"])

    assert found.forgotten == ("bad",)
    assert found.model_copy(update={"forgotten": ()}) == learn_from_sessions(sessions, is_known)


def test_cases_from_anywhere_teach_the_same():
    sessions = make_history(1, 5, lambda rng: rng.gauss(0.5, 0.1))
    cases = [case for one in sessions for case in extract_cases(one, is_known)]

    assert learn_from_cases(cases, []).fixes == learn_from_sessions(sessions, is_known).fixes


def test_cases_without_a_session_are_learned():
    replayed = LearningCase("replay", BOTTLENECK, "remap-threads-coalesced", "sm_100", 0.4)
    found = learn_from_cases([replayed] * 5, [PhaseDuration("replay", "build", 1.0)])

    assert found.fixes[0].calibration == pytest.approx(0.7)
    assert found.phases[0].minutes[1] == 1.0


REPEATS = 400
TRUE_SHARES = {
    "half of what is predicted": lambda rng: rng.gauss(0.5, 0.1),
    "all that is predicted": lambda rng: rng.gauss(1.0, 0.1),
    "nothing on this architecture": lambda rng: rng.gauss(0.0, 0.05),
    "noise": lambda rng: (1 - 1 / math.exp(rng.gauss(0, 0.1))) / rng.uniform(0.2, 0.7),
}


@pytest.mark.parametrize("count", [1, 5, 30])
@pytest.mark.parametrize("truth", TRUE_SHARES)
def test_the_interval_covers_the_next_case_at_its_rate(truth, count):
    draw = TRUE_SHARES[truth]
    hits = Counter()
    for seed in range(REPEATS):
        row = learn_row(*make_history(seed, count, draw))
        coming = clip_share(draw(random.Random(seed + 10_000)))
        hits[row.interval[0] - 1e-4 <= coming <= row.interval[1] + 1e-4] += 1

    assert hits[True] / REPEATS >= 0.95 - 3 * (0.95 * 0.05 / REPEATS) ** 0.5


@pytest.mark.parametrize(("truth", "wanted"), [("half of what is predicted", 0.5)])
def test_what_is_learned_converges(truth, wanted):
    errors = []
    for count in (0, 5, 50):
        rows = (
            [learn_row(*make_history(s, count, TRUE_SHARES[truth])) for s in range(20)]
            if count
            else []
        )
        shares = [row.calibration for row in rows] or [PRIOR_SHARE]
        errors.append(abs(sum(shares) / len(shares) - wanted))

    assert errors[0] > 1.9 * errors[1] > 3.8 * errors[2]


def test_a_note_with_minutes_counts_as_manual_time():
    note = SessionEntry(session="s", at=DAY, goal="read", minutes=12.0)
    found = learn_from_sessions(
        [make_session("s").model_copy(update={"entries": (note,)})], is_known
    )

    assert found.phases[0].phase == "by_hand"
    assert found.phases[0].minutes[1] == pytest.approx(12.0)


def test_a_prediction_of_an_older_version_teaches_no_share_and_still_counts():
    row = learn_row(make_session("s", make_decision(predicted_by=None)))

    assert (row.count, row.observed, row.calibration) == (0, None, PRIOR_SHARE)
    assert (row.tried, row.measured, row.succeeded) == (1, 1, 1)

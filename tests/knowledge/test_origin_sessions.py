"""The sessions of the origin: an account that is told, with what of it does not hold up."""

from pathlib import Path

import pytest

from kernelkb.record.outcomes import compute_session_outcomes
from kernelkb.record.sessions import list_session_ids, read_session

FOLDER = Path(__file__).parents[2] / "sessions"
MINUTES = {
    "2025-10-12-origin-n": 180,
    "2025-10-12-origin-n1": 60,
    "2025-10-12-origin-n2": 110,
    "2025-10-12-origin-n3": 67,
    "2025-10-12-origin-n4": 30,
    "2025-10-12-origin-n5": 130,
    "2025-10-14-origin-loop1": 420,
}
COST = {
    "2025-10-12-origin-n": 0.60,
    "2025-10-12-origin-n1": 0.20,
    "2025-10-12-origin-n2": 1.77,
    "2025-10-12-origin-n3": 1.07,
    "2025-10-12-origin-n4": None,
    "2025-10-12-origin-n5": None,
    "2025-10-14-origin-loop1": 1.36,
}
every_session = pytest.mark.parametrize("name", MINUTES)


def list_claims(name):
    return [claim for entry in read_session(name, FOLDER).entries for claim in entry.claims]


def test_all_seven_are_there_in_the_order_in_which_they_were_held():
    assert [name for name in list_session_ids(FOLDER) if "origin" in name] == list(MINUTES)


@every_session
def test_reported_sessions_hold_no_measured_evidence(name):
    session = read_session(name, FOLDER)
    steps = [step for entry in session.entries for step in entry.steps]

    assert session.kind == "reported"
    assert session.source
    assert session.is_closed
    assert [step for step in steps if step.measurement or step.verdict or step.interval] == []
    assert [entry for entry in session.entries if entry.decisions or entry.metrics] == []


@every_session
def test_every_claim_says_why_it_holds_or_not_and_where_it_was_made(name):
    assert list_claims(name)
    assert [claim.said for claim in list_claims(name) if not (claim.why and claim.source)] == []


@every_session
def test_each_session_has_lessons_of_both_kinds(name):
    (entry,) = read_session(name, FOLDER).entries

    assert entry.went_wrong
    assert entry.went_right
    assert entry.pattern_candidates


@every_session
def test_minutes_and_cost_are_those_of_the_account(name):
    found = compute_session_outcomes(read_session(name, FOLDER))

    assert found.minutes == MINUTES[name]
    assert found.cost_usd == (pytest.approx(COST[name]) if COST[name] else None)


def test_seven_sessions_took_997_minutes_and_at_least_5_dollars():
    found = [compute_session_outcomes(read_session(name, FOLDER)) for name in MINUTES]

    assert sum(one.minutes for one in found) == 997
    assert sum(one.cost_usd or 0 for one in found) == pytest.approx(5.00)


def test_more_than_half_of_the_claims_are_false():
    claims = [claim for name in MINUTES for claim in list_claims(name)]

    assert sum(claim.held is False for claim in claims) > len(claims) / 2


def test_the_first_correct_result_is_in_the_sixth_session():
    worked = [
        name for name in MINUTES if compute_session_outcomes(read_session(name, FOLDER)).worked
    ]

    assert worked == ["2025-10-12-origin-n5"]


def test_no_correct_result_was_ever_timed():
    finals = [compute_session_outcomes(read_session(name, FOLDER)).final for name in MINUTES]

    assert [final.speedup for final in finals if final] == [0.09, 0.10]
    assert not any(final.checked for final in finals if final)


def test_the_first_session_has_two_blind_changes_of_unknown_effect():
    found = compute_session_outcomes(read_session("2025-10-12-origin-n", FOLDER))

    assert (found.changes, found.blind_changes, found.wrong_changes) == (2, 2, None)
    assert found.bottleneck is None


def test_targets_and_success_stories_that_never_happened_are_not_there():
    speedups = {
        step.speedup
        for name in MINUTES
        for entry in read_session(name, FOLDER).entries
        for step in entry.steps
    }

    assert speedups == {None, 0.0344, 0.06, 0.09, 0.10, 0.12}

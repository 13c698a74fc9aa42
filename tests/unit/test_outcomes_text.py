"""Outcomes as text: what never happened and what nobody knows are told apart."""

from datetime import UTC, datetime

from kernelkb.model.records.session import SessionOutcome
from kernelkb.render.text.sessions import format_outcome_lines


def make_outcomes(**more):
    opened = datetime(2026, 11, 21, tzinfo=UTC)
    return SessionOutcome(
        **{"session": "s", "opened": opened, "kind": "recorded", "goal": "g", **more}
    )


def find_outcome_line(name, **more):
    lines = [text.strip() for text in format_outcome_lines(make_outcomes(**more))]
    return next(text.removeprefix(name).strip() for text in lines if text.startswith(name))


def test_never_and_not_known_are_told_apart():
    assert find_outcome_line("working build") == "none: no build passed a check"
    assert find_outcome_line("working build", worked=True) == "after a time not known"
    assert find_outcome_line("changes") == "not known"


def test_a_zero_is_a_zero():
    assert find_outcome_line("changes", changes=0, blind_changes=0) == "0, 0 blind"


def test_wrong_changes_are_printed_as_a_fraction_of_decided_ones():
    counts = {"changes": 3, "blind_changes": 0, "judged_changes": 2, "wrong_changes": 1}

    assert find_outcome_line("changes", **counts) == "3, 0 blind, 1 wrong of 2 that can be judged"


def test_undecided_changes_are_not_counted_as_correct():
    counts = {"changes": 2, "blind_changes": 2, "judged_changes": 0, "wrong_changes": None}

    assert find_outcome_line("changes", **counts).endswith("not known whether any was wrong")


def test_times_are_said_in_seconds_minutes_hours_or_days():
    assert find_outcome_line("time", minutes=0.05) == "3 s"
    assert find_outcome_line("time", minutes=1.5) == "1.5 min"
    assert find_outcome_line("time", minutes=97.0) == "97 min"
    assert find_outcome_line("time", minutes=997.0) == "16.6 h"
    assert find_outcome_line("time", minutes=99_700.0) == "69 days"

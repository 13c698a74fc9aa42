"""Outcomes as text: what never happened and what nobody knows are told apart."""

from datetime import UTC, datetime

from kernelkb.model.records.outcome import AchievedSpeedup, SessionOutcome, SessionTrend
from kernelkb.render.text.outcomes import format_outcome_lines, format_trend_lines


def make_outcomes(**more):
    opened = datetime(2026, 11, 21, tzinfo=UTC)
    return SessionOutcome(
        **{"session": "s", "opened": opened, "kind": "recorded", "goal": "g", **more}
    )


def format_trend_row(**more):
    return list(format_trend_lines(SessionTrend(sessions=(make_outcomes(**more),))))[1].split()[1:]


def find_outcome_line(name, **more):
    lines = [text.strip() for text in format_outcome_lines(make_outcomes(**more))]
    return next(text.removeprefix(name).strip() for text in lines if text.startswith(name))


def test_never_is_a_dash_and_not_known_is_a_question_mark():
    assert format_trend_row() == ["-", "-", "?", "?", "?", "-", "?", "?"]
    assert format_trend_row(worked=True, bottleneck="b")[:2] == ["?", "?"]


def test_a_zero_is_a_zero():
    counts = {"changes": 0, "blind_changes": 0, "judged_changes": 0, "wrong_changes": 0}

    assert format_trend_row(**counts)[2:5] == ["0", "0", "0"]


def test_wrong_changes_are_printed_as_a_fraction_of_decided_ones():
    counts = {"changes": 3, "blind_changes": 0, "judged_changes": 2, "wrong_changes": 1}

    assert format_trend_row(**counts)[4] == "1/2"
    assert find_outcome_line("changes", **counts) == "3, 0 blind, 1 wrong of 2 that can be judged"


def test_undecided_changes_are_not_counted_as_correct():
    counts = {"changes": 2, "blind_changes": 2, "judged_changes": 0, "wrong_changes": None}

    assert format_trend_row(**counts)[4] == "?"
    assert find_outcome_line("changes", **counts).endswith("not known whether any was wrong")


def test_times_below_a_minute_are_seconds():
    assert find_outcome_line("time", minutes=0.05) == "3 s"
    assert find_outcome_line("time", minutes=1.5) == "1.5 min"
    assert find_outcome_line("time", minutes=997.0) == "997 min"


def test_an_account_and_unchecked_code_are_marked_in_the_trend():
    told = SessionTrend(sessions=(make_outcomes(kind="reported"),))
    guessed = SessionTrend(sessions=(make_outcomes(final=AchievedSpeedup(speedup=0.09)),))

    assert list(format_trend_lines(told))[1].endswith("  account")
    assert list(format_trend_lines(guessed))[1].endswith("  not checked")


def test_totals_say_how_many_sessions_they_rest_on():
    lines = list(
        format_trend_lines(SessionTrend(sessions=(make_outcomes(),), minutes=1234.5, timed=1))
    )

    assert "minutes: 1,234 in the 1 of 1 sessions that say" in lines
    assert "cost: no session says" in lines

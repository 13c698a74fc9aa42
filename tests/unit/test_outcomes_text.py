"""Outcomes as text: what never happened and what nobody knows are told apart."""

from datetime import UTC, datetime

from kernelkb.model.outcome import Outcomes, Reached, Trend
from kernelkb.render.outcomes import outcome_lines, trend_lines


def one(**more):
    opened = datetime(2026, 11, 21, tzinfo=UTC)
    return Outcomes(**{"session": "s", "opened": opened, "kind": "recorded", "goal": "g", **more})


def row(**more):
    return list(trend_lines(Trend(sessions=(one(**more),))))[1].split()[1:]


def line(name, **more):
    lines = [text.strip() for text in outcome_lines(one(**more))]
    return next(text.removeprefix(name).strip() for text in lines if text.startswith(name))


def test_never_is_a_dash_and_not_known_is_a_question_mark():
    assert row() == ["-", "-", "?", "?", "?", "-", "?", "?"]
    assert row(worked=True, bottleneck="b")[:2] == ["?", "?"]


def test_a_zero_is_a_zero():
    counts = {"changes": 0, "blind_changes": 0, "judged_changes": 0, "wrong_changes": 0}

    assert row(**counts)[2:5] == ["0", "0", "0"]


def test_wrong_changes_stand_over_those_that_can_be_judged():
    counts = {"changes": 3, "blind_changes": 0, "judged_changes": 2, "wrong_changes": 1}

    assert row(**counts)[4] == "1/2"
    assert line("changes", **counts) == "3, 0 blind, 1 wrong of 2 that can be judged"


def test_changes_that_nobody_can_judge_are_not_called_right():
    counts = {"changes": 2, "blind_changes": 2, "judged_changes": 0, "wrong_changes": None}

    assert row(**counts)[4] == "?"
    assert line("changes", **counts).endswith("not known whether any was wrong")


def test_times_below_a_minute_are_seconds():
    assert line("time", minutes=0.05) == "3 s"
    assert line("time", minutes=1.5) == "1.5 min"
    assert line("time", minutes=997.0) == "997 min"


def test_an_account_and_unchecked_code_are_marked_in_the_trend():
    told = Trend(sessions=(one(kind="reported"),))
    guessed = Trend(sessions=(one(final=Reached(speedup=0.09)),))

    assert list(trend_lines(told))[1].endswith("  account")
    assert list(trend_lines(guessed))[1].endswith("  not checked")


def test_totals_say_how_many_sessions_they_rest_on():
    lines = list(trend_lines(Trend(sessions=(one(),), minutes=1234.5, timed=1)))

    assert "minutes: 1,234 in the 1 of 1 sessions that say" in lines
    assert "cost: no session says" in lines

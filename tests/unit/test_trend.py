"""Trend charts: Mermaid text with a bar for each known value and none for an unknown one."""

import json
import re
from datetime import UTC, datetime

import pytest

from kernelkb.model.records.outcome import AchievedSpeedup, SessionOutcome
from kernelkb.render.text.trend import render_trend_charts


def make_outcomes(name="a", **more):
    opened = datetime(2026, 11, 21, tzinfo=UTC)
    given = {"session": name, "opened": opened, "kind": "recorded", "goal": "g", **more}
    return SessionOutcome(**given)


def make_final(speedup):
    return AchievedSpeedup(speedup=speedup, interval=(speedup / 2, speedup * 2), checked=True)


def read_charts(text):
    """Return the bars of each chart by its title: session label to value."""
    charts = {}
    pattern = r'```mermaid\nxychart-beta\n    title "(.+)"\n    x-axis (.+)\n    bar \[(.+)\]\n```'
    for title, names, values in re.findall(pattern, text):
        bars = [float(value) for value in values.split(", ")]
        charts[title] = dict(zip(json.loads(names), bars, strict=True))
    return charts


def test_a_session_has_a_bar_only_where_its_value_is_known():
    first = make_outcomes("a", final=make_final(0.5), minutes=3.0, cost_usd=0.6)
    charts = read_charts(render_trend_charts([first, make_outcomes("b", cost_usd=1.77)]))

    assert charts == {
        "Final speedup over the baseline": {"a": 0.5},
        "Minutes": {"a": 3.0},
        "Cost in USD": {"a": 0.6, "b": 1.77},
    }


def test_a_known_zero_has_a_bar():
    charts = read_charts(render_trend_charts([make_outcomes(wrong_changes=0)]))

    assert charts == {"Wrong changes: slower or incorrect": {"a": 0.0}}


def test_a_quantity_of_no_session_is_named_instead_of_drawn():
    assert "Minutes: not recorded in any session." in render_trend_charts([make_outcomes()])


def test_a_session_that_was_only_reported_is_marked():
    told = make_outcomes(kind="reported", minutes=3.0)

    assert read_charts(render_trend_charts([told])) == {"Minutes": {"a (reported)": 3.0}}


@pytest.mark.parametrize("value", [1e-9, 1e7])
def test_extreme_numbers_are_written_without_an_exponent(value):
    (bars,) = re.findall(r"bar \[(.+)\]", render_trend_charts([make_outcomes(cost_usd=value)]))

    assert re.fullmatch(r"\d+\.\d+", bars)


@pytest.mark.parametrize("count", [1, 2, 200])
def test_any_number_of_sessions_is_drawn(count):
    sessions = [make_outcomes(f"s-{n}", minutes=1.0 + n) for n in range(count)]

    assert len(read_charts(render_trend_charts(sessions))["Minutes"]) == count

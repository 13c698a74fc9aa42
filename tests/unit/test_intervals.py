"""Quantiles and intervals against published tables."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelkb.record.intervals import Weighted, next_minutes, next_share, student_quantile, wilson


@pytest.mark.parametrize(
    ("probability", "freedom", "table"),
    [
        (0.975, 5, 2.571),
        (0.975, 6, 2.447),
        (0.975, 10, 2.228),
        (0.975, 30, 2.042),
        (0.90, 3, 1.638),
        (0.90, 5, 1.476),
        (0.90, 30, 1.310),
    ],
)
def test_quantiles_of_students_t_are_those_of_the_tables(probability, freedom, table):
    assert student_quantile(probability, freedom) == pytest.approx(table, abs=0.004)


@pytest.mark.parametrize(
    ("successes", "count", "interval"),
    [(0, 0, (0, 1)), (0, 10, (0, 0.278)), (10, 10, (0.722, 1)), (5, 10, (0.237, 0.763))],
)
def test_wilsons_interval_is_that_of_the_textbook(successes, count, interval):
    assert wilson(successes, count) == pytest.approx(interval, abs=0.001)


def test_without_a_case_the_prior_speaks():
    found = next_share(0.3, [])

    assert (found.cases, found.observed, found.calibration) == (0, None, 0.3)
    assert found.interval == (-1.0, 1.0)


def test_cases_that_agree_narrow_the_interval():
    def width(count):
        low, high = next_share(0.0, [Weighted(0.0)] * count).interval
        return high - low

    assert width(1) > width(5) > width(50)


def test_half_a_case_says_less_than_a_whole_one():
    half = next_share(0.8, [Weighted(0.2, 0.5)])
    whole = next_share(0.8, [Weighted(0.2)])

    assert 0.8 > half.calibration > whole.calibration


@given(st.lists(st.floats(0, 1e4), min_size=1, max_size=20))
def test_a_time_lies_in_its_own_interval(minutes):
    low, point, high = next_minutes(minutes)

    assert 0 < low <= point <= high

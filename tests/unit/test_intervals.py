"""Quantiles and intervals against published tables."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelkb.record.intervals import (
    WeightedShare,
    predict_minutes,
    predict_share,
    student_quantile,
    wilson_interval,
)


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
    assert wilson_interval(successes, count) == pytest.approx(interval, abs=0.001)


def test_without_cases_the_prior_is_returned():
    found = predict_share(0.3, [])

    assert (found.case_count, found.observed_mean, found.calibration) == (0, None, 0.3)
    assert found.interval == (-1.0, 2.0)


def test_cases_that_agree_narrow_the_interval():
    def width(count):
        low, high = predict_share(0.0, [WeightedShare(0.0)] * count).interval
        return high - low

    assert width(1) > width(5) > width(50)


def test_a_half_weight_case_moves_the_estimate_less():
    half = predict_share(0.8, [WeightedShare(0.2, 0.5)])
    whole = predict_share(0.8, [WeightedShare(0.2)])

    assert 0.8 > half.calibration > whole.calibration


@given(st.lists(st.floats(0, 1e4), min_size=1, max_size=20))
def test_the_point_estimate_of_a_time_is_in_its_interval(minutes):
    low, point, high = predict_minutes(minutes)

    assert 0 < low <= point <= high

"""Prices of fixes: golden figures by hand, bounds for any input."""

import inspect
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shipped_rules import bottleneck_rows, metrics, program

from kernelkb.decide.derive import complete_metrics
from kernelkb.decide.estimators import ESTIMATORS
from kernelkb.decide.gain import as_speedup, combine_removed_shares, predict_removed_share


def make_gain_row(estimator, inputs, kind):
    return {
        "kind": kind,
        "take": "smallest",
        "estimates": [{"estimator": estimator, "inputs": inputs}],
    }


@pytest.mark.parametrize(
    ("estimator", "inputs", "removed"),
    [
        ("stall", {"share": 0.62, "issue": 0.28, "sm": 0.30, "memory": 0.2}, 0.62),
        ("wave-tail", {"waves": 133 / 132}, 0.496),
        ("small-grid", {"grid": 2, "sms": 58, "waves": 0.01}, 0.966),
        ("small-grid", {"grid": 132, "sms": 132, "waves": 0.5}, 0.5),
        ("idle-sms", {"grid": 2, "sms": 58}, 0.966),
        ("partial-wave", {"waves": 0.4}, 0.6),
        ("partial-warp", {"threads": 100}, 0.219),
        ("headroom", {"sm": 0.3, "memory": 0.7}, 0.3),
        ("issue-slots", {"issue": 0.25, "sm": 0.3, "memory": 0.2}, 0.7),
        ("occupancy", {"now": 0.125, "then": 0.25}, 0.5),
        ("divergence", {"lanes": 16, "utilization": 0.6}, 0.3),
        ("imbalance", {"balance": 0.7, "busy": 0.9}, 0.27),
        ("fusion", {"share": 0.6, "utilization": 0.8}, 0.24),
        ("precision", {"share": 0.25, "utilization": 0.92, "slow": 0.47, "fast": 30.3}, 0.226),
        ("relief", {"busiest": 0.92, "next_busiest": 0.20}, 0.783),
        ("remote-memory", {"share": 0.9, "link": 50, "dram": 3352}, 0.887),
        ("matrix-floor", {"ratio": 1.5}, 0.333),
        ("bytes-in-flight", {"utilization": 0.22, "achievable": 0.88}, 0.75),
        ("overlap", {"load": 0.4, "compute": 0.5}, 0.4),
        ("conflicts", {"share": 0.875, "utilization": 0.88}, 0.77),
        ("traffic", {"utilization": 0.88, "ratio": 3.9}, 0.654),
        ("halved-bytes", {"utilization": 0.91}, 0.455),
        ("launch-gap", {"gap": 5.0, "call": 9.0}, 0.444),
        ("latency-hiding", {"active": 2, "wanted": 4, "latency": 8}, 0.434),
        ("share", {"share": 0.18}, 0.18),
        ("parallelize", {"busy": 1, "cores": 4}, 0.75),
        ("vectorize", {"lanes": 16}, 0.9375),
        ("amdahl", {"fraction": 0.5, "factor": 10}, 0.45),
        ("roofline", {"attainable": 2.0}, 0.5),
        ("sectors", {"useful_bytes": 8, "utilization": 0.88}, 0.66),
    ],
)
def test_each_estimator_matches_hand_computed_values(estimator, inputs, removed):
    assert ESTIMATORS[estimator](**inputs) == pytest.approx(removed, abs=0.002)


def test_a_prediction_stops_at_the_roof():
    gain = make_gain_row("vectorize", {"lanes": 16}, "elimination")
    _, _, high = predict_removed_share(
        gain, {"attainable_speedup": 2.0}, {"elimination": [0.9, 0.6]}
    )

    assert high == 0.5


def test_an_unknown_input_gives_no_estimate():
    gain = make_gain_row("vectorize", {"lanes": "simd"}, "elimination")

    assert predict_removed_share(gain, {}, {"elimination": [0.9, 0.6]}) is None


def test_groups_combine_as_independent_savings():
    assert combine_removed_shares({"a": (0.5, 0.5, 0.5), "b": (0.5, 0.5, 0.5)}) == (
        0.75,
        0.75,
        0.75,
    )


def test_half_the_time_removed_is_twice_the_speed():
    assert as_speedup((0.0, 0.5, 0.75)) == {"low": 1.0, "point": 2.0, "high": 4.0}


@given(metrics())
@settings(max_examples=100, deadline=None)
def test_every_prediction_is_an_ordered_share_of_the_time(measured):
    known = complete_metrics(program(), measured, "l4")

    for row in bottleneck_rows():
        removed = predict_removed_share(row["gain"], known, program()["realised"])
        assert removed is None or 0 <= removed[0] <= removed[1] <= removed[2] < 1


@pytest.mark.parametrize(
    ("estimator", "inputs"),
    [
        ("amdahl", {"fraction": 0.5, "factor": 0.0}),
        ("roofline", {"attainable": 0.0}),
        ("traffic", {"utilization": 0.9, "ratio": 0.0}),
        ("wave-tail", {"waves": 0.0}),
        ("wave-tail", {"waves": 2.0}),
        ("launch-gap", {"gap": 0.5, "call": 9.0}),
        ("launch-gap", {"gap": 5.0, "call": 0.0}),
        ("parallelize", {"busy": 4.0, "cores": 4.0}),
        ("vectorize", {"lanes": 1.0}),
        ("latency-hiding", {"active": 4.0, "wanted": 4.0, "latency": 8.0}),
        ("small-grid", {"grid": 264.0, "sms": 132.0, "waves": 1.0}),
        ("idle-sms", {"grid": 264.0, "sms": 132.0}),
        ("partial-wave", {"waves": 1.0}),
        ("partial-warp", {"threads": 128.0}),
        ("partial-warp", {"threads": 0.0}),
        ("occupancy", {"now": 0.5, "then": 0.5}),
        ("remote-memory", {"share": 0.9, "link": 500.0, "dram": 300.0}),
        ("matrix-floor", {"ratio": 0.9}),
        ("bytes-in-flight", {"utilization": 0.9, "achievable": 0.88}),
        ("relief", {"busiest": 0.2, "next_busiest": 0.9}),
        ("precision", {"share": 0.2, "utilization": 0.9, "slow": 1.0, "fast": 0.0}),
    ],
)
def test_where_nothing_can_be_gained_nothing_is_promised(estimator, inputs):
    assert ESTIMATORS[estimator](**inputs) == 0.0


NUMBER = st.sampled_from([0.0, 1e-9, 1.0, 16.0, 1e17, 1e308]) | st.floats(1e-9, 1e308)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_no_estimator_trips_over_a_number_that_a_metric_may_have(estimator, data):
    names = inspect.signature(ESTIMATORS[estimator]).parameters
    removed = ESTIMATORS[estimator](**{name: data.draw(NUMBER, name) for name in names})

    assert not math.isnan(removed)


@given(st.floats(1.0, 100.0), st.floats(1.0, 100.0))
def test_more_lanes_never_save_less(few, more):
    few, more = sorted((few, more))

    assert ESTIMATORS["vectorize"](lanes=few) <= ESTIMATORS["vectorize"](lanes=more)


def test_the_worst_and_the_usual_share_are_those_of_the_kind():
    gain = make_gain_row("share", {"share": 0.5}, "elimination")

    assert predict_removed_share(gain, {}, {"elimination": [0.9, 0.6]}) == (0.3, 0.45, 0.5)


def test_without_a_gain_row_there_is_no_estimate():
    assert predict_removed_share(None, {"speedup": 0.3}, {}) is None


@pytest.mark.parametrize("kind", ["traffic", "launch"])
def test_what_removes_the_work_itself_may_go_below_the_roof(kind):
    gain = make_gain_row("halved-bytes", {"utilization": 0.9}, kind)
    _, _, high = predict_removed_share(gain, {"attainable_speedup": 1.0}, {kind: [0.85, 0.6]})

    assert high == 0.45


def test_at_the_roof_nothing_else_is_promised():
    gain = make_gain_row("share", {"share": 0.5}, "elimination")

    assert predict_removed_share(
        gain, {"attainable_speedup": 0.9}, {"elimination": [0.9, 0.6]}
    ) == (0, 0, 0)


def test_no_prediction_takes_all_of_the_time():
    gain = make_gain_row("share", {"share": 1.0}, "validity")
    _, _, high = predict_removed_share(gain, {}, {"validity": [1.0, 1.0]})

    assert as_speedup((0.0, 0.0, high))["high"] == 1000.0


def test_every_kind_of_gain_is_calibrated():
    kinds = {row["gain"]["kind"] for row in bottleneck_rows() if row["gain"]}

    assert kinds <= set(program()["realised"])


def test_the_worst_is_never_above_the_usual():
    assert all(worst <= usual for usual, worst in program()["realised"].values())


TWO_ESTIMATES = {
    "kind": "latency-hiding",
    "estimates": [
        {"estimator": "share", "inputs": {"share": 0.6}},
        {"estimator": "share", "inputs": {"share": "dram_utilization"}},
    ],
}
FULL_CALIBRATION = {"latency-hiding": [1.0, 1.0]}


@pytest.mark.parametrize(("take", "removed"), [("smallest", 0.2), ("largest", 0.6), ("first", 0.6)])
def test_of_several_estimates_the_wanted_one_counts(take, removed):
    _, _, high = predict_removed_share(
        {**TWO_ESTIMATES, "take": take}, {"dram_utilization": 0.2}, FULL_CALIBRATION
    )

    assert high == removed


def test_an_estimate_that_cannot_be_made_does_not_count():
    _, _, high = predict_removed_share({**TWO_ESTIMATES, "take": "smallest"}, {}, FULL_CALIBRATION)

    assert high == 0.6


def test_without_a_floor_the_same_work_cannot_gain_more_than_the_busiest_unit_leaves():
    busy = {"sm_utilization": 0.3, "memory_utilization": 0.75}
    _, _, high = predict_removed_share({**TWO_ESTIMATES, "take": "largest"}, busy, FULL_CALIBRATION)

    assert high == 0.25


def test_a_guard_may_widen_the_interval_and_leaves_the_point():
    realised = {"latency-hiding": [0.6, 0.4]}
    low, point, high = predict_removed_share(
        {**TWO_ESTIMATES, "take": "largest"}, {}, realised, interval_factor=2.0
    )

    assert (round(low, 3), point, round(high, 3)) == (0.12, 0.36, 0.84)

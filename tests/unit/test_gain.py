"""Prices of fixes: golden figures by hand, bounds for any input."""

import inspect
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import metrics, program

from engine.decide.derive import complete
from engine.decide.gain import ESTIMATORS, as_speedup, combine, predict


@pytest.mark.parametrize(
    ("estimator", "inputs", "removed"),
    [
        ("stall", {"share": 0.62, "issue": 0.28, "sm": 0.30, "memory": 0.2}, 0.62),
        ("wave-tail", {"waves": 133 / 132}, 0.496),
        ("small-grid", {"grid": 2, "sms": 58, "waves": 0.01}, 0.966),
        ("conflicts", {"share": 0.875, "utilization": 0.88}, 0.77),
        ("traffic", {"utilization": 0.88, "ratio": 3.9}, 0.654),
        ("halved-bytes", {"utilization": 0.91}, 0.455),
        ("launch-gap", {"gap": 5.0, "call": 9.0}, 0.444),
        ("latency-hiding", {"active": 2, "wanted": 4, "latency": 8}, 0.434),
        ("local-memory", {"share": 0.18}, 0.18),
        ("parallelize", {"busy": 1, "cores": 4}, 0.75),
        ("vectorize", {"lanes": 16}, 0.9375),
        ("amdahl", {"fraction": 0.5, "factor": 10}, 0.45),
        ("roofline", {"attainable": 2.0}, 0.5),
        ("sectors", {"useful_bytes": 8, "utilization": 0.88}, 0.66),
    ],
)
def test_estimator(estimator, inputs, removed):
    assert ESTIMATORS[estimator](**inputs) == pytest.approx(removed, abs=0.002)


def test_a_prediction_stops_at_the_roof():
    gain = {"estimator": "vectorize", "inputs": {"lanes": 16}, "kind": "elimination"}
    _, _, high = predict(gain, {"attainable_speedup": 2.0}, {"elimination": [0.9, 0.6]})

    assert high == 0.5


def test_an_unknown_input_gives_no_price():
    gain = {"estimator": "vectorize", "inputs": {"lanes": "simd"}, "kind": "elimination"}

    assert predict(gain, {}, {"elimination": [0.9, 0.6]}) is None


def test_groups_combine_as_independent_savings():
    assert combine({"a": (0.5, 0.5, 0.5), "b": (0.5, 0.5, 0.5)}) == (0.75, 0.75, 0.75)


def test_half_the_time_removed_is_twice_the_speed():
    assert as_speedup((0.0, 0.5, 0.75)) == {"low": 1.0, "point": 2.0, "high": 4.0}


@given(metrics())
@settings(max_examples=100, deadline=None)
def test_every_prediction_is_an_ordered_share_of_the_time(measured):
    known = complete(program(), measured, "l4")

    for row in program()["bottlenecks"]:
        removed = predict(row["gain"], known, program()["realised"])
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
    gain = {"estimator": "local-memory", "inputs": {"share": 0.5}, "kind": "elimination"}

    assert predict(gain, {}, {"elimination": [0.9, 0.6]}) == (0.3, 0.45, 0.5)


def test_no_gain_row_is_no_price():
    assert predict(None, {"speedup": 0.3}, {}) is None


@pytest.mark.parametrize("kind", ["traffic", "launch"])
def test_what_removes_the_work_itself_may_go_below_the_roof(kind):
    gain = {"estimator": "halved-bytes", "inputs": {"utilization": 0.9}, "kind": kind}
    _, _, high = predict(gain, {"attainable_speedup": 1.0}, {kind: [0.85, 0.6]})

    assert high == 0.45


def test_at_the_roof_nothing_else_is_promised():
    gain = {"estimator": "local-memory", "inputs": {"share": 0.5}, "kind": "elimination"}

    assert predict(gain, {"attainable_speedup": 0.9}, {"elimination": [0.9, 0.6]}) == (0, 0, 0)


def test_no_prediction_takes_all_of_the_time():
    gain = {"estimator": "local-memory", "inputs": {"share": 1.0}, "kind": "validity"}
    _, _, high = predict(gain, {}, {"validity": [1.0, 1.0]})

    assert as_speedup((0.0, 0.0, high))["high"] == 1000.0


def test_every_kind_of_gain_is_calibrated():
    kinds = {row["gain"]["kind"] for row in program()["bottlenecks"] if row["gain"]}

    assert kinds <= set(program()["realised"])


def test_the_worst_is_never_above_the_usual():
    assert all(worst <= usual for usual, worst in program()["realised"].values())

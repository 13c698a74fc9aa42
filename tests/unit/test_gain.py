"""Prices of fixes: golden figures by hand, bounds for any input."""

import pytest
from hypothesis import given, settings
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

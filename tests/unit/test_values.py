"""What somebody types is understood, or refused with what to type."""

import pytest
from programs import program

from engine.decide.values import device_named, metric_for_flag, parse
from engine.errors import BadValueError, UnknownNameError


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [("occupancy", "40%", 0.4), ("occupancy", 0.4, 0.4), ("speedup", "1.5", 1.5)],
)
def test_understood(name, text, value):
    assert parse(program(), name, text) == pytest.approx(value)


@pytest.mark.parametrize(
    ("name", "text", "cure"),
    [
        ("occupancy", "40", "write 0.40 or 40%"),
        ("occupancy", "1.7", "write 0.02 or 1.7%"),
        ("occupancy", "-0.1", "outside what it can be (0 to 1)"),
        ("occupancy", "140", "outside what it can be (0 to 1)"),
        ("speedup", "nan", "leave it out when it was not measured"),
        ("speedup", "inf", "leave it out when it was not measured"),
        ("speedup", "fast", "'fast' is not a number"),
        ("speedup", "30%", "not a share"),
        ("speedup", "-1", "at least 0"),
    ],
)
def test_refused_with_the_cure(name, text, cure):
    with pytest.raises(BadValueError) as caught:
        parse(program(), name, text)

    assert cure in str(caught.value)


def test_unknown_metric_is_offered_the_near_one():
    with pytest.raises(UnknownNameError, match=r"did you mean 'occupancy'\?\); `kb show metrics`"):
        parse(program(), "occupency", 0.4)


@pytest.mark.parametrize("name", ["NVIDIA H100 80GB HBM3", "h100-sxm", "nvidia  h100 80gb hbm3"])
def test_a_gpu_is_known_by_any_of_its_names(name):
    assert device_named(program(), name) == "h100-sxm"


def test_bandwidth_is_another_metric_on_a_cpu():
    flags = [metric_for_flag(program(), "bandwidth", target) for target in ("cuda", "cpu")]

    assert flags == ["dram_utilization", "algorithmic_bandwidth"]

"""What somebody types is understood, or refused with what to type."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shipped_rules import program

from kernelkb.decide.parse_metric import (
    HEADLINE_FLAGS,
    find_device,
    find_metric_for_flag,
    parse_metric_value,
    resolve_device,
)
from kernelkb.errors import BadValueError, UnknownNameError


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [("occupancy", "40%", 0.4), ("occupancy", 0.4, 0.4), ("speedup", "1.5", 1.5)],
)
def test_valid_values_are_parsed(name, text, value):
    assert parse_metric_value(program(), name, text) == pytest.approx(value)


@pytest.mark.parametrize(
    ("name", "text", "cure"),
    [
        ("occupancy", "40", "write 0.40 or 40%"),
        ("occupancy", "1.7", "outside what it can be (0 to 1)"),
        ("occupancy", "-0.1", "outside what it can be (0 to 1)"),
        ("occupancy", "140", "outside what it can be (0 to 1)"),
        ("speedup", "nan", "leave it out when it was not measured"),
        ("speedup", "inf", "leave it out when it was not measured"),
        ("speedup", "fast", "'fast' is not a number"),
        ("speedup", "30%", "not a share"),
        ("speedup", "-1", "at least 1e-06"),
        ("kernel_us", "0", "at least 0.001"),
        ("dram_utilization", "140%", "outside what it can be (0 to 1.05)"),
    ],
)
def test_refused_with_the_cure(name, text, cure):
    with pytest.raises(BadValueError) as caught:
        parse_metric_value(program(), name, text)

    assert cure in str(caught.value)


def test_unknown_metric_is_offered_the_near_one():
    with pytest.raises(UnknownNameError, match=r"did you mean 'occupancy'\?\); `kb show metrics`"):
        parse_metric_value(program(), "occupency", 0.4)


@pytest.mark.parametrize("name", ["NVIDIA H100 80GB HBM3", "h100-sxm", "nvidia  h100 80gb hbm3"])
def test_a_gpu_is_known_by_any_of_its_names(name):
    assert resolve_device(program(), name) == "h100-sxm"


def test_bandwidth_is_another_metric_on_a_cpu():
    flags = [find_metric_for_flag(program(), "bandwidth", target) for target in ("cuda", "cpu")]

    assert flags == ["dram_utilization", "algorithmic_bandwidth"]


@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0.0), ("1", 1.0), ("100%", 1.0), ("0%", 0.0), (" 40 % ", 0.4), ("4e-1", 0.4)],
)
def test_a_fraction_accepts_0_to_1(text, value):
    assert parse_metric_value(program(), "occupancy", text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["-inf", "1e999", "NaN", "-nan", "infinity"])
def test_a_non_finite_value_is_rejected(text):
    with pytest.raises(BadValueError, match="leave it out when it was not measured"):
        parse_metric_value(program(), "kernel_us", text)


@pytest.mark.parametrize("text", ["", " ", "%", "0.4.1", "0,4", "40 percent", "True"])
def test_an_invalid_number_is_quoted_as_typed(text):
    with pytest.raises(BadValueError) as caught:
        parse_metric_value(program(), "occupancy", text)

    assert f"occupancy {text.strip()!r} is not a number" in str(caught.value)


def test_true_is_no_number_even_from_json():
    with pytest.raises(BadValueError, match="is not a number"):
        parse_metric_value(program(), "correct", True)


def test_101_percent_does_not_suggest_a_hundredth():
    """A profiler's 101 percent is jitter; to write 0.01 for it would be wrong."""
    with pytest.raises(BadValueError) as caught:
        parse_metric_value(program(), "occupancy", "1.01")

    assert "0.01" not in str(caught.value)


@pytest.mark.defends(
    "M8",
    attack="constants of another GPU",
    defence="the device is queried, peaks are measured, an unknown GPU is rejected",
)
def test_an_unknown_gpu_is_offered_the_near_one():
    with pytest.raises(UnknownNameError, match="unknown GPU 'h100-smx' \\(did you mean"):
        resolve_device(program(), "h100-smx")


def test_an_unknown_gpu_is_none_where_allowed():
    assert find_device(program()["device_names"], "Voodoo 2") is None


@pytest.mark.parametrize("flag", HEADLINE_FLAGS)
@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_every_headline_flag_sets_one_metric_on_each_target(flag, target):
    row = program()["metrics"][find_metric_for_flag(program(), flag, target)]

    assert target in row["targets"]


def test_an_unknown_flag_is_refused():
    with pytest.raises(UnknownNameError, match="unknown flag 'registers'"):
        find_metric_for_flag(program(), "registers", "cuda")


@given(st.sampled_from(sorted(program()["metrics"])), st.data())
def test_every_value_that_a_metric_can_have_is_understood(name, data):
    """Above a counter's jitter a share comes from reports only, where a guard judges it."""
    row = program()["metrics"][name]
    high = row["high"] or 1e12
    value = data.draw(st.floats(row["low"], min(high, 1.05) if row["unit"] == "share" else high))

    assert parse_metric_value(program(), name, repr(value)) == value


@given(st.sampled_from(sorted(program()["metrics"])), st.text(max_size=8))
def test_any_text_is_a_finite_number_or_an_error(name, text):
    try:
        value = parse_metric_value(program(), name, text)
    except BadValueError:
        return

    assert math.isfinite(value)

"""The fastest that a machine could do a given amount of work."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelkb.actions.advice.calculators import PIPES, RooflineQuery, analyze_roofline
from kernelkb.device_math.roofline import (
    comes_from_memory,
    highest_roof,
    ridge_flop_per_byte,
    roofs,
)
from kernelkb.errors import BadValueError, UnknownNameError


def floor_us(**work):
    """Return the time of the highest roof of some work, microseconds; None without one."""
    highest = highest_roof(roofs(**work))
    return highest.floor_us if highest else None


@pytest.mark.parametrize(
    ("work", "microseconds"),
    [
        ({"algorithmic_bytes": 2**30, "bandwidth_gbps": 3000.0}, 357.9),
        ({"algorithmic_bytes": 134217728, "bandwidth_gbps": 30.0}, 4473.9),
        ({"flops": 2 * 8192**3, "peak_tflops": 0.8 * 989.0}, 1389.7),
        ({"flops": 2 * 128 * 128 * 64 * 2, "peak_tflops": 121.0}, 0.0347),
    ],
    ids=["H100 copy of 1 GiB", "CPU softmax", "H100 bf16 GEMM 8192", "L4 tiny attention"],
)
def test_the_floor_matches_hand_computed_values(work, microseconds):
    assert floor_us(**work) == pytest.approx(microseconds, rel=0.002)


def test_the_slower_of_two_roofs_is_the_floor():
    both = floor_us(algorithmic_bytes=1e9, bandwidth_gbps=1000.0, flops=1e9, peak_tflops=100.0)

    assert both == floor_us(algorithmic_bytes=1e9, bandwidth_gbps=1000.0)


def test_nothing_is_faster_than_an_empty_launch():
    assert floor_us(algorithmic_bytes=8.0, bandwidth_gbps=1000.0, launch_floor_us=2.3) == 2.3


def test_a_launch_alone_is_no_roof():
    assert floor_us(launch_floor_us=2.3) is None


@pytest.mark.parametrize(
    "half", [{"algorithmic_bytes": 1e9}, {"bandwidth_gbps": 1e3}, {"flops": 1e9}, {}]
)
def test_incomplete_inputs_give_no_floor(half):
    assert floor_us(**half) is None


@given(st.floats(1, 1e15), st.floats(1, 1e5), st.floats(1.1, 10))
def test_more_bytes_never_take_less_time(size, rate, factor):
    less = floor_us(algorithmic_bytes=size, bandwidth_gbps=rate)

    assert floor_us(algorithmic_bytes=size * factor, bandwidth_gbps=rate) > less


@given(st.floats(1, 1e12), st.floats(1, 1e15), st.floats(0.1, 100))
def test_the_floor_is_that_of_the_highest_roof(size, flop, launch):
    work = {
        "algorithmic_bytes": size,
        "bandwidth_gbps": 3000.0,
        "flops": flop,
        "peak_tflops": 900.0,
        "launch_floor_us": launch,
    }
    known = roofs(**work)

    assert len(known) == 3
    assert floor_us(**work) == max(roof.floor_us for roof in known)


@given(st.floats(1e3, 1e12), st.floats(1, 1e4), st.floats(1, 1e4))
def test_at_the_ridge_both_roofs_take_equally_long(size, rate, peak):
    flop = size * ridge_flop_per_byte(peak, rate)
    memory, compute = roofs(
        algorithmic_bytes=size, bandwidth_gbps=rate, flops=flop, peak_tflops=peak
    )

    assert memory.floor_us == pytest.approx(compute.floor_us)


@pytest.mark.parametrize(("ratio", "memory"), [(None, True), (2.0, True), (1.9, False)])
def test_the_cache_ratio_decides_whether_data_comes_from_memory(ratio, memory):
    assert comes_from_memory(ratio) == memory


def test_a_copy_is_memory_bound_with_its_headroom():
    found = analyze_roofline(
        RooflineQuery("h100-sxm", bytes="1GiB", flop="2.5e9", dtype="fp16", us="400")
    )

    assert found["binds"] == "memory"
    assert found["floor_us"] == pytest.approx(355.9, abs=0.1)
    assert found["attainable_speedup"] == pytest.approx(1.124, abs=0.001)


@pytest.mark.parametrize(
    ("gpu", "dtype", "ridge"),
    [
        ("h100-sxm", "fp16", 295),
        ("h100-sxm", "fp32", 20),
        ("a100-80-sxm", "bf16", 153),
        ("l4", "fp16", 403),
        ("rtx-5090", "fp32", 58),
        ("t4", "fp16", 203),
    ],
)
def test_ridge_points_of_the_data_sheets(gpu, dtype, ridge):
    found = analyze_roofline(RooflineQuery(gpu, flop=1e12, dtype=dtype))

    assert found["ridge_data_sheet_flop_per_byte"] == pytest.approx(ridge, abs=0.6)
    assert found["ridge_flop_per_byte"] > found["ridge_data_sheet_flop_per_byte"]


def test_a_cache_sized_working_set_counts_only_when_cold():
    warm = analyze_roofline(RooflineQuery("h100-sxm", bytes="64MiB"))
    cold = analyze_roofline(RooflineQuery("h100-sxm", bytes="64MiB", cold=True))

    assert (warm["floor_us"], warm["roofs"][0]["counts"]) == (None, False)
    assert cold["floor_us"] == warm["roofs"][0]["floor_us"]


def test_measured_roofs_overrule_the_data_sheet():
    found = analyze_roofline(RooflineQuery("h100-sxm", bytes="1GiB", copy_gbps=3000, launch_us=1.3))

    assert found["floor_us"] == pytest.approx(357.9, abs=0.1)
    assert [roof["origin"] for roof in found["roofs"]] == ["measured", "measured"]


def test_tiny_work_is_bound_by_the_launch():
    assert analyze_roofline(RooflineQuery("h100-sxm", flop=1e3))["binds"] == "launch"


def test_without_a_type_the_fastest_unit_counts():
    assert analyze_roofline(RooflineQuery("h100-sxm", flop=1e12))["pipe"] == "fp8_tensor_tflops"
    assert analyze_roofline(RooflineQuery("t4", flop=1e12))["pipe"] == "fp16_tensor_tflops"


@pytest.mark.parametrize("dtype", ["fp8", "tf32", "bf16"])
def test_a_type_that_a_gpu_has_no_unit_for_is_refused(dtype):
    with pytest.raises(BadValueError, match=f"t4 has no unit for {dtype}"):
        analyze_roofline(RooflineQuery("t4", flop=1e12, dtype=dtype))


def test_an_unknown_type_is_refused():
    with pytest.raises(UnknownNameError, match="did you mean 'bf16'"):
        analyze_roofline(RooflineQuery("t4", flop=1e12, dtype="bfloat16"))


@pytest.mark.parametrize("work", [{}, {"bytes": 0}])
def test_no_work_has_no_floor(work):
    with pytest.raises(BadValueError, match="no work to estimate"):
        analyze_roofline(RooflineQuery("t4", **work))


@given(st.sampled_from(sorted(PIPES)), st.floats(1e-6, 1e30), st.floats(1e-6, 1e30))
def test_any_work_gives_finite_numbers(dtype, flop, us):
    found = analyze_roofline(RooflineQuery("b200", flop=flop, us=us, dtype=dtype))

    assert math.isfinite(found["floor_us"])
    assert math.isfinite(found["attainable_speedup"])

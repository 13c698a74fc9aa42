"""The fastest that a machine could do a given amount of work."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.device_math.roofline import floor_us


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
def test_a_floor_by_hand(work, microseconds):
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
def test_half_of_what_it_takes_is_no_roof(half):
    assert floor_us(**half) is None


@given(st.floats(1, 1e15), st.floats(1, 1e5), st.floats(1.1, 10))
def test_more_bytes_never_take_less_time(size, rate, factor):
    less = floor_us(algorithmic_bytes=size, bandwidth_gbps=rate)

    assert floor_us(algorithmic_bytes=size * factor, bandwidth_gbps=rate) > less

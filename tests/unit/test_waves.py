"""How a grid fills a GPU over time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelkb.device_math.occupancy import wave_loss, waves


@pytest.mark.parametrize(
    ("grid", "rounds", "tail", "loss", "idle"),
    [(264, 1, 264, 0.0, 0), (265, 2, 1, 1 - 265 / 528, 0), (66, 1, 66, 0.75, 66)],
)
def test_waves_of_two_blocks_on_each_sm_of_an_h100(grid, rounds, tail, loss, idle):
    found = waves(grid, 2, 132)

    assert (found.rounds, found.tail_blocks, found.idle_sms) == (rounds, tail, idle)
    assert found.loss == pytest.approx(loss)


def test_a_launch_that_fails_has_no_waves():
    assert waves(100, 0, 132) is None


@given(st.integers(1, 100000), st.integers(1, 32), st.integers(1, 200))
def test_waves_hold_the_whole_grid(grid, blocks, sms):
    found = waves(grid, blocks, sms)

    assert (found.rounds - 1) * found.slots + found.tail_blocks == grid
    assert 1 <= found.tail_blocks <= found.slots
    assert 0 <= found.loss < 1


def test_zero_waves_have_no_wave_loss():
    assert wave_loss(0.0) is None

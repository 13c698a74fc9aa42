"""Derived metrics and the roofline floor."""

import pytest
from programs import program

from engine.decide.derive import complete


def test_a_quotient_by_zero_is_unknown():
    known = complete(program(), {"load_sector_count": 8, "load_request_count": 0}, None)

    assert "sectors_per_load" not in known


def test_what_was_measured_is_not_recomputed():
    measured = {"over_fetch": 2.0, "dram_bytes": 8.0, "algorithmic_bytes": 8.0}

    assert complete(program(), measured, None)["over_fetch"] == 2.0


def test_a_gigabyte_at_three_terabytes_a_second_takes_a_third_of_a_millisecond():
    measured = {"kernel_us": 716.0, "algorithmic_bytes": 2**30, "copy_peak_gbps": 3000.0}
    known = complete(program(), measured, "h100-sxm")

    assert known["floor_us"] == pytest.approx(357.9, abs=0.1)
    assert known["attainable_speedup"] == pytest.approx(2.0, abs=0.01)


def test_the_data_sheet_stands_in_where_no_copy_was_measured():
    measured = {"kernel_us": 716.0, "algorithmic_bytes": 2**30}

    assert complete(program(), measured, "h100-sxm")["floor_us"] == pytest.approx(356, abs=4)


def test_what_fits_the_cache_has_no_memory_floor():
    measured = {"kernel_us": 5.0, "algorithmic_bytes": 2**20, "copy_peak_gbps": 3000.0}

    assert "floor_us" not in complete(program(), measured, "h100-sxm")


def test_arithmetic_can_be_the_floor():
    measured = {"kernel_us": 2780.0, "algorithmic_flop_count": 2 * 8192**3}
    floor = complete(program(), measured, "a100-80-sxm")["floor_us"]

    assert floor == pytest.approx(2 * 8192**3 / 312e6, rel=0.01)


def test_a_floor_that_was_given_prices_the_time():
    assert complete(program(), {"kernel_us": 4.0, "floor_us": 2.0}, None)["attainable_speedup"] == 2

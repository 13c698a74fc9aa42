"""Derived metrics and the roofline floor."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shipped_rules import metrics, program

from kernelkb.decide.conditions import DerivedMetric
from kernelkb.decide.derive import complete_metrics
from kernelkb.model.entries.quantities import list_quantities, parse_formula


def test_a_quotient_by_zero_is_unknown():
    known = complete_metrics(program(), {"load_sector_count": 8, "load_request_count": 0}, None)

    assert "sectors_per_load" not in known


def test_a_measured_metric_is_not_derived():
    measured = {"over_fetch": 2.0, "dram_bytes": 8.0, "algorithmic_bytes": 8.0}

    assert complete_metrics(program(), measured, None)["over_fetch"] == 2.0


def test_a_gigabyte_at_three_terabytes_a_second_takes_a_third_of_a_millisecond():
    measured = {"kernel_us": 716.0, "algorithmic_bytes": 2**30, "copy_peak_gbps": 3000.0}
    known = complete_metrics(program(), measured, "h100-sxm")

    assert known["floor_us"] == pytest.approx(357.9, abs=0.1)
    assert known["attainable_speedup"] == pytest.approx(2.0, abs=0.01)


def test_the_data_sheet_stands_in_where_no_copy_was_measured():
    measured = {"kernel_us": 716.0, "algorithmic_bytes": 2**30}

    assert complete_metrics(program(), measured, "h100-sxm")["floor_us"] == pytest.approx(
        356, abs=4
    )


def test_a_cache_sized_working_set_has_no_memory_floor():
    measured = {"kernel_us": 5.0, "algorithmic_bytes": 2**20, "copy_peak_gbps": 3000.0}

    assert "floor_us" not in complete_metrics(program(), measured, "h100-sxm")


def test_compute_can_set_the_floor():
    measured = {"kernel_us": 2780.0, "algorithmic_flop_count": 2 * 8192**3}
    floor = complete_metrics(program(), measured, "a100-80-sxm")["floor_us"]

    assert floor == pytest.approx(2 * 8192**3 / 312e6, rel=0.01)


def test_a_given_floor_yields_the_attainable_speedup():
    assert (
        complete_metrics(program(), {"kernel_us": 4.0, "floor_us": 2.0}, None)["attainable_speedup"]
        == 2
    )


def derive_metric(*formulas):
    rows = {
        "derived": [DerivedMetric("x", parse_formula(f), list_quantities(f)) for f in formulas],
        "devices": {},
        "limits": {},
    }
    return complete_metrics(rows, {"a": 6.0, "b": 2.0}, None).get("x")


@pytest.mark.parametrize(
    ("formula", "value"),
    [
        ("a / b", 3.0),
        ("a - b", 4.0),
        ("a * b * 0.5", 6.0),
        ("a + b * 2", 10.0),
        ("(a + b) * 2", 16.0),
        ("-b + 1", -1.0),
        ("max(a, b, 7)", 7.0),
        ("min(a, b)", 2.0),
        ("mod(7, b)", 1.0),
        ("mod(7, 0)", None),
        ("ceil(7 / b)", 4.0),
        ("a / 0", None),
        ("sqrt(a + b * 5)", 4.0),
        ("sqrt(b - a)", None),
        ("hidden_latency(2, 2, 8)", 0.0),
        ("last_wave_loss(1.5)", 0.25),
        ("last_wave_loss(2)", 0.0),
        ("last_wave_loss(0)", None),
        ("a + absent", None),
        ("max(absent, a)", None),
        ("1e308 / 1e-308", None),
        ("1.7e308 + 1.7e308", None),
    ],
)
def test_formulas_match_hand_computed_values(formula, value):
    assert derive_metric(formula) == value


def test_the_first_formula_whose_quantities_are_known_holds():
    assert derive_metric("absent + 1", "a", "b") == 6.0


@pytest.mark.parametrize(
    "text",
    [
        *("a b", "a.b", "f(a)", "min(a)", "a ** 2", "a if b else 1", "[a]", "True"),
        *("'a'", "", "a; b", "hidden_latency(a, b)", "min(a, key=b)", "__import__('os')"),
        "(" * 500 + "a" + ")" * 500,
    ],
)
def test_what_is_no_formula_is_refused(text):
    with pytest.raises(ValueError, match=r"formula|function"):
        parse_formula(text)


def test_a_known_device_adds_its_properties():
    known = complete_metrics(program(), {}, "h100-sxm")

    assert known["device.sm_count"] == 132


def test_without_a_device_its_facts_are_unknown():
    assert not any(name.startswith("device.") for name in complete_metrics(program(), {}, None))


def test_a_chain_of_derivations_is_followed_to_its_end():
    counted = {"dram_read_bytes": 3e9, "dram_write_bytes": 1e9, "algorithmic_bytes": 2e9}

    assert complete_metrics(program(), counted, None)["over_fetch"] == 2.0


def test_an_empty_kernel_time_has_no_distance_to_the_floor():
    known = complete_metrics(program(), {"kernel_us": 0.0, "floor_us": 2.0}, None)

    assert "attainable_speedup" not in known


def test_a_zero_floor_has_no_attainable_speedup():
    known = complete_metrics(program(), {"kernel_us": 4.0, "floor_us": 0.0}, None)

    assert "attainable_speedup" not in known


def test_a_floor_that_was_given_is_kept_even_at_nothing():
    measured = {"kernel_us": 4.0, "floor_us": 0.0, "algorithmic_flop_count": 1.5}
    known = complete_metrics(program(), measured, "h100-sxm")

    assert known["floor_us"] == 0.0
    assert "attainable_speedup" not in known


def test_a_distance_that_was_given_is_kept():
    measured = {"kernel_us": 4.0, "floor_us": 1.0, "attainable_speedup": 2.0}

    assert complete_metrics(program(), measured, None)["attainable_speedup"] == 2.0


def test_the_data_sheet_counts_only_as_far_as_a_copy_reaches():
    known = complete_metrics(program(), {"kernel_us": 1e6, "algorithmic_bytes": 2**32}, "h100-sxm")
    reached = known["device.dram_gbps"] * known["device.achievable_dram_share"]

    assert known["floor_us"] == pytest.approx(2**32 / reached / 1e3)


@given(metrics(), st.sampled_from([None, "h100-sxm", "l4"]))
@settings(max_examples=25, deadline=None)
def test_completion_keeps_measured_values_and_adds_only_finite_ones(measured, device):
    known = complete_metrics(program(), measured, device)

    assert {name: known[name] for name in measured} == measured
    assert all(math.isfinite(value) for value in known.values())


@given(metrics())
@settings(max_examples=25, deadline=None)
def test_completing_twice_is_completing_once(measured):
    once = complete_metrics(program(), measured, "l4")

    assert complete_metrics(program(), once, "l4") == once


def test_derivations_stand_in_an_order_that_can_be_computed():
    names = [row[0] for row in program()["derived"]]

    for at, (_, _, operands) in enumerate(program()["derived"]):
        assert not set(operands) & set(names[at:])

"""What fits an SM, against what Nsight Compute reported for real launches."""

from pathlib import Path

import pytest
from shipped_rules import program

from kernelkb.decide.derive import complete_metrics
from kernelkb.decide.device_facts import derive_residency_metrics, describe_next_step
from kernelkb.profiles.launch import list_raw_names
from kernelkb.profiles.ncu_csv import read_raw_page

PAGES = sorted((Path(__file__).parents[1] / "data" / "ncu" / "faults").glob("*.csv"))
LAUNCH = {
    "block_thread_count": 256.0,
    "register_count": 168.0,
    "static_shared_bytes": 0.0,
    "dynamic_shared_bytes": 0.0,
}


def compute_residency(device="a100-80-sxm", **changes):
    return dict(derive_residency_metrics(program(), {**LAUNCH, **changes}, device))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_real_launch_gets_the_limits_that_ncu_reports(page):
    (launch,) = read_raw_page(page.read_text(), list_raw_names(program()))
    found = dict(derive_residency_metrics(program(), launch.metrics, "h100-sxm"))

    assert {"waves", "theoretical_occupancy", "limit_registers_block_count"} <= found.keys()
    # The driver sets no more shared memory than the launch can use; we name the most.
    assert (
        found.pop("limit_shared_memory_block_count")
        >= launch.metrics["limit_shared_memory_block_count"]
    )
    reported = {name: value for name, value in found.items() if not name.startswith("doubled_")}
    for name, value in reported.items():
        assert value == pytest.approx(launch.metrics[name], abs=6e-3), name


def test_168_registers_leave_one_block_of_256_threads():
    assert compute_residency()["limit_registers_block_count"] == 1
    assert compute_residency()["theoretical_occupancy"] == 0.125


@pytest.mark.parametrize("lost", ["block_thread_count", "register_count"])
def test_without_block_or_registers_nothing_is_implied(lost):
    known = {name: value for name, value in LAUNCH.items() if name != lost}

    assert dict(derive_residency_metrics(program(), known, "l4")) == {}


@pytest.mark.parametrize("name", ["block_thread_count", "register_count"])
def test_less_than_one_thread_or_register_implies_nothing(name):
    """A mean over launches, or a mistake; int() of it is 0, by which limits would divide."""
    assert compute_residency(**{name: 0.5}) == {}


def test_without_a_gpu_nothing_is_implied():
    assert compute_residency(device=None) == {}


def test_without_shared_memory_size_residency_is_unknown():
    known = {name: value for name, value in LAUNCH.items() if "shared" not in name}
    found = dict(derive_residency_metrics(program(), known, "l4"))

    assert "limit_registers_block_count" in found
    assert "theoretical_occupancy" not in found


def test_a_measured_occupancy_is_not_replaced():
    known = complete_metrics(program(), {**LAUNCH, "theoretical_occupancy": 0.5}, "l4")

    assert known["theoretical_occupancy"] == 0.5


def test_a_block_that_no_gpu_takes_implies_nothing():
    assert compute_residency(block_thread_count=2048.0) == {}


def test_a_grid_gives_waves():
    assert compute_residency(grid_block_count=216.0)["waves"] == 2.0


def test_the_next_step_is_the_smallest_change():
    said = describe_next_step(program(), LAUNCH, "a100-80-sxm")

    assert said == "registers 168 -> 128 makes room for 2 blocks an SM, occupancy 0.25"


@pytest.mark.parametrize("device", [None, "a100-80-sxm"])
def test_a_full_sm_has_no_next_step(device):
    assert describe_next_step(program(), {**LAUNCH, "register_count": 32.0}, device) is None

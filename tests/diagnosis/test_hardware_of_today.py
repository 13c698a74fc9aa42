"""Advice for one architecture or one language is given there and nowhere else."""

import pytest
from shipped_rules import program

from kernelkb.decide.recommend import recommend

SPILLS = {"spill_store_bytes": 760, "local_instruction_share": 0.1}
UNDERFED = {"tensor_utilization": 0.4, "over_library_floor": 2.0, "waves": 8.0}
STORES = {"l2_input_utilization": 0.9, "l2_output_utilization": 0.2, "stores_per_warp": 64.0}
SCATTERED = {
    **UNDERFED,
    **STORES,
    "warpgroup_utilization": 0.01,
    "tma_read_bytes": 5e8,
    "tma_utilization": 0.001,
    "sector_store_useful_bytes": 16.0,
    "dram_write_share": 0.9,
    "over_fetch": 0.9,
}
SATURATED = {"tensor_utilization": 0.9, "waves": 8.0}


def list_fixes(device, measured):
    answer = recommend(program(), measured, device=device)
    return {
        fix["id"] for d in answer["diagnoses"] if d["verdict"] == "matches" for fix in d["fixes"]
    }


def list_matches(measured):
    answer = recommend(program(), measured, device="h100-sxm")
    return [d["bottleneck"] for d in answer["diagnoses"] if d["verdict"] == "matches"]


@pytest.mark.parametrize(
    ("device", "measured", "given", "withheld"),
    [
        ("b200", UNDERFED, {"tmem-double-buffer", "two-cta-mma"}, {"use-wgmma"}),
        ("h100-sxm", UNDERFED, {"overlap-epilogue"}, {"tmem-double-buffer", "use-tcgen05"}),
        ("a100-80-sxm", UNDERFED, {"cp-async-pipeline"}, {"overlap-softmax-products"}),
        ("h100-sxm", SCATTERED, {"tma-store"}, {"larger-block-tile", "pack-stores"}),
        ("rtx-5090", SATURATED, {"block-scaled-types"}, set()),
        ("h100-sxm", SATURATED, {"reduce-precision"}, {"block-scaled-types"}),
        ("h100-sxm", {**SPILLS, "triton_kernel": 1}, {"triton-num-warps"}, set()),
        ("h100-sxm", SPILLS, {"relax-register-cap"}, {"triton-num-warps"}),
    ],
)
def test_a_fix_is_offered_where_it_can_be_applied(device, measured, given, withheld):
    fixes = list_fixes(device, measured)

    assert given <= fixes
    assert not withheld & fixes


def test_stores_that_fill_the_way_into_l2_are_a_cause_beside_bulk_copies():
    assert "partial-sector-writes" in list_matches(SCATTERED)
    assert "partial-sector-writes" not in list_matches({**SCATTERED, "l2_input_utilization": 0.5})


def test_products_of_eight_bits_that_leave_the_tensor_cores_idle_are_underfed():
    measured = {"tensor_utilization": 0.36, "over_library_floor": 1.15, "waves": 8.0}

    assert "tensor-pipe-underfed" in list_matches({**measured, "over_memory_floor": 13.0})
    assert "tensor-pipe-underfed" not in list_matches({**measured, "over_memory_floor": 1.2})


def test_large_collectives_far_below_the_link_come_before_hiding_them():
    slow = {"bus_bandwidth_gbps": 40.0, "link_peak_gbps": 478.0, "collective_bytes": 2**30}

    assert list_matches({**slow, "communication_exposed_share": 0.4}) == ["slow-collectives"]
    assert list_matches({"communication_exposed_share": 0.4}) == ["exposed-communication"]


def test_clusters_that_reach_every_sm_are_no_cause():
    launch = {"cluster_block_count": 16, "sm_count": 132, "tightest_limit_block_count": 1}

    assert "cluster-leaves-sms-idle" in list_matches(
        {**launch, "cluster_limit_count": 6, "waves": 4}
    )
    assert "cluster-leaves-sms-idle" not in list_matches(
        {**launch, "cluster_limit_count": 8, "waves": 4}
    )

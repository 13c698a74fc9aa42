"""Twenty situations that an expert has judged: what must be said, what it gains, what must not be.

Of gains the tests say what physics allows: how often less work is possible, what binds then, and
nothing where counters do not tell. Few of the cases have the counters of a whole profile.
"""

import pytest
from shipped_rules import program

from kernelkb.decide.recommend import recommend

TENSOR_GEMM_US = 2138.0
"""8192 cubed at 52 percent of the 989 TFLOPS of an H100."""
ATTENTION = {
    "speedup": 0.0251 / 0.7295,
    "kernel_us": 729.5,
    "grid_block_count": 2,
    "algorithmic_flop_count": 4 * 128 * 128 * 64,
    "algorithmic_bytes": 4 * 128 * 64 * 2,
    "working_set_bytes": 4 * 128 * 64 * 2,
    "cache_bytes": 48 * 2**20,
    "launch_floor_us": 2.5,
    "matrix_work": 1,
    "tensor_type": 1,
    "mma_opcode_count": 0,
}


def recommend_for(device=None, **measured):
    return recommend(program(), measured, device=device)


def list_matches(answer):
    return [d["bottleneck"] for d in answer["diagnoses"] if d["verdict"] == "matches"]


def find_diagnosis(answer, name):
    return next(d for d in answer["diagnoses"] if d["bottleneck"] == name)


def list_fixes(answer):
    """Every fix that any diagnosis offers."""
    return [fix["id"] for d in answer["diagnoses"] for fix in d["fixes"]]


def list_suppressed(answer):
    return {row["bottleneck"] for row in answer["suppressed"]}


def predicted_speedup(answer, name):
    return find_diagnosis(answer, name)["predicted_speedup"]["point"]


def largest_promise(answer):
    """The largest gain that any diagnosis promises; 1 if none does."""
    gains = [d["predicted_speedup"] for d in answer["diagnoses"] if d["predicted_speedup"]]
    return max((gain["point"] for gain in gains), default=1.0)


def test_a_wrong_attention_is_not_tuned():
    answer = recommend_for("l4", correct=0, **ATTENTION)

    assert answer["gate"]["verdict"] == "stop"
    assert "wrong" in answer["next"][0].text
    assert list_matches(answer) == []
    assert {"small-grid", "tensor-core-unused"} <= list_suppressed(answer)


def test_the_corrected_attention_fills_2_of_58_sms():
    answer = recommend_for("l4", correct=1, dram_utilization=0.04, occupancy=0.08, **ATTENTION)
    unread = {k: v for k, v in ATTENTION.items() if k != "mma_opcode_count"}
    ask_next = recommend_for("l4", correct=1, dram_utilization=0.04, occupancy=0.08, **unread)[
        "measure_next"
    ]

    assert {"small-grid", "tensor-core-unused"} <= set(list_matches(answer))
    assert "problem-too-small" not in list_matches(answer)  # it takes 291 times its floor
    assert answer["headroom"]["floor_us"] == 2.5
    assert answer["headroom"]["bound"] == "launch"
    assert predicted_speedup(answer, "small-grid") == pytest.approx(58 / 2, rel=0.01)
    assert not {"vectorize-128b", "launch-bounds", "reduce-live-range"} & set(list_fixes(answer))
    assert "dram-bandwidth-bound" not in list_matches(answer)
    assert ask_next[0]["metric"] == "mma_opcode_count"


def test_no_fix_of_the_attention_beats_an_empty_kernel():
    answer = recommend_for("l4", correct=1, dram_utilization=0.04, occupancy=0.08, **ATTENTION)

    assert largest_promise(answer) <= answer["headroom"]["attainable_speedup"]


def test_an_elementwise_kernel_at_the_memory_roof_is_near_roofline():
    answer = recommend_for("a100-80-sxm", dram_utilization=0.91, occupancy=0.85, over_fetch=1.02)

    assert list_matches(answer)[0] == "near-roofline"
    assert {"fuse-kernels", "reduce-precision"} <= set(list_fixes(answer))
    assert largest_promise(answer) <= 1.2
    assert not {"vectorize-128b", "raise-occupancy"} & set(list_fixes(answer))


def test_a_strided_kernel_is_not_merely_bandwidth_bound():
    answer = recommend_for(
        dram_utilization=0.88, over_fetch=3.9, sector_load_useful_bytes=8.0, sectors_per_load=16.0
    )

    assert list_matches(answer)[0] == "uncoalesced-global-access"
    assert largest_promise(answer) <= 3.9  # each byte of the algorithm once
    assert list_fixes(answer)[0] != "reduce-precision"


LATENCY = {
    "waves": 6.0,
    "dram_utilization": 0.22,
    "sm_utilization": 0.30,
    "memory_utilization": 0.30,
    "l2_utilization": 0.25,
    "lsu_wavefront_utilization": 0.20,
    "issue_rate": 0.28,
    "stall_long_scoreboard": 0.62,
    "occupancy": 0.92,
    "l1_hit_rate": 0.12,
}


def test_high_occupancy_with_stalls_is_memory_latency():
    answer = recommend_for(**LATENCY)

    assert list_matches(answer) == ["memory-latency-bound"]
    # 1.6x, but from 0.4x to 7x: five typed numbers do not tell a gain.
    assert find_diagnosis(answer, "memory-latency-bound")["predicted_speedup"] is None
    assert "raise-occupancy" not in list_fixes(answer)
    assert any(row.get("fix") == "raise-occupancy" for row in answer["suppressed"])


def test_latency_with_a_dependent_load_is_a_load_chain():
    assert list_matches(recommend_for(dependent_load=1, **LATENCY)) == ["dependent-load-chain"]


def test_168_registers_limit_occupancy_on_an_a100():
    answer = recommend_for(
        "a100-80-sxm",
        block_thread_count=256,
        register_count=168,
        static_shared_bytes=0,
        dynamic_shared_bytes=0,
        active_warps=2.0,
        issue_rate=0.25,
        warp_latency_cycles=8.0,
        sm_utilization=0.30,
        memory_utilization=0.20,
        tensor_utilization=0.0,
        waves=20.0,
    )

    assert list_matches(answer) == ["occupancy-limited-registers"]
    assert largest_promise(answer) <= 2  # twice as many warps
    (note,) = answer["notes"]
    assert "registers 168 -> 128 makes room for 2 blocks an SM" in note


def test_133_blocks_on_132_sms_are_a_tail_effect():
    answer = recommend_for(
        "h100-sxm",
        grid_block_count=133,
        tightest_limit_block_count=1,
        waves=133 / 132,
        unequal_work=0,
    )

    assert "tail-effect" in list_matches(answer)
    # Two waves become 133/132 of one.
    assert predicted_speedup(answer, "tail-effect") == pytest.approx(2 * 132 / 133, abs=0.01)
    assert not {"raise-occupancy", "launch-bounds"} & set(list_fixes(answer))


def test_wavefront_replays_are_bank_conflicts():
    answer = recommend_for(
        shared_load_wavefront_count=283.0e6,
        shared_load_conflict_count=247.6e6,
        l1_utilization=0.88,
    )

    assert list_matches(answer)[0] == "shared-memory-bank-conflicts"
    assert largest_promise(answer) <= 1 / (1 - 0.875)  # an eighth of the wavefronts


def test_a_stack_frame_without_spills():
    answer = recommend_for(spill_store_bytes=0, stack_bytes=64, local_instruction_share=0.18)

    assert list_matches(answer) == ["local-array-indexing"]
    assert largest_promise(answer) <= 1 / (1 - 0.18)
    assert "relax-register-cap" not in list_fixes(answer)


def test_double_literals_on_an_l4():
    answer = recommend_for(
        "l4",
        fp64_opcode_count=4,
        fp64_required=0,
        fp64_utilization=0.92,
        fma_utilization=0.12,
        memory_utilization=0.20,
        dram_utilization=0.20,
    )

    assert list_matches(answer) == ["fp64-on-slow-pipe"]
    assert list_fixes(answer)[0] == "float-literals"
    # The FMA pipe of an L4 is 64 times as wide, so memory binds next, at a fifth of its peak; what
    # is latency stays latency.
    assert 2.5 < predicted_speedup(answer, "fp64-on-slow-pipe") <= 5


def test_a_large_gemm_with_warp_level_mma_should_use_wgmma():
    answer = recommend_for(
        "h100-sxm",
        matrix_work=1,
        tensor_type=1,
        kernel_us=TENSOR_GEMM_US,
        algorithmic_flop_count=2 * 8192**3,
        algorithmic_bytes=3 * 8192**2 * 2,
        tensor_utilization=0.52,
        mma_opcode_count=64,
        warpgroup_opcode_count=0,
        dram_utilization=0.2,
        waves=15.0,
        lanes_per_instruction=32.0,
        occupancy=0.12,
    )

    assert list_matches(answer) == ["tensor-pipe-underfed"]
    assert list_fixes(answer)[0] == "use-wgmma"
    assert "tma-pipeline" in list_fixes(answer)
    assert largest_promise(answer) <= TENSOR_GEMM_US * 989e6 / (2 * 8192**3)
    assert not {"raise-occupancy", "branchless-select"} & set(list_fixes(answer))


def test_many_launches_of_one_call_are_priced_even_without_gaps():
    """48 empty kernels take 50 of the 55 us, as in a CUDA graph; one needs 1.4 us."""
    answer = recommend_for(
        kernel_us=55.0,
        call_launch_count=48,
        launch_floor_us=1.04,
        algorithmic_bytes=1.1e6,
        copy_peak_gbps=3000.0,
    )
    first = answer["diagnoses"][0]
    gains = {fix["id"]: fix["predicted_speedup"] for fix in first["fixes"]}

    assert first["bottleneck"] == "launch-overhead-bound"
    assert gains["fuse-kernels"]["point"] == pytest.approx(55 / (1.04 + 1.1 / 3), rel=0.01)


def test_200_kernels_of_four_microseconds_are_launch_bound():
    answer = recommend_for(kernel_us=4.0, call_us=9.0, launch_count=200)

    assert list_matches(answer) == ["launch-overhead-bound"]
    assert list_fixes(answer)[0] == "cuda-graph"
    # Of 5 µs between the launches, a graph leaves 1.
    assert predicted_speedup(answer, "launch-overhead-bound") == pytest.approx(9 / 5, abs=0.01)
    assert not {"vectorize-128b", "unroll-ilp"} & set(list_fixes(answer))


def test_three_times_the_l4_bandwidth_is_a_timing_artifact():
    answer = recommend_for(
        "l4",
        kernel_us=8.89,
        algorithmic_bytes=8_000_000,
        working_set_bytes=8_000_000,
        cache_bytes=48 * 2**20,
    )

    assert list_matches(answer) == ["timing-artifact"]
    assert "flush-l2" in list_fixes(answer)


def test_causal_attention_with_unequal_blocks():
    answer = recommend_for(
        sm_active_mean_cycles=700_000,
        sm_active_max_cycles=1_000_000,
        sm_elapsed_cycles=1_000_000,
        waves=12.0,
        unequal_work=1,
    )

    assert list_matches(answer) == ["workload-imbalance"]
    assert list_fixes(answer)[0] == "sort-work-longest-first"
    assert 1.2 < predicted_speedup(answer, "workload-imbalance") <= 1 / 0.7


def test_small_tiles_that_l2_serves():
    answer = recommend_for(dram_utilization=0.30, l2_utilization=0.86, l2_hit_rate=0.97)

    assert list_matches(answer) == ["l2-bandwidth-bound"]
    assert list_fixes(answer)[0] == "larger-block-tile"
    assert largest_promise(answer) <= 2  # half of the reads of L2


def test_blocks_of_1024_on_an_l4():
    answer = recommend_for(
        "l4",
        block_thread_count=1024,
        register_count=32,
        limit_warps_block_count=1,
        limit_registers_block_count=2,
        limit_shared_memory_block_count=16,
        limit_blocks_block_count=24,
        theoretical_occupancy=2 / 3,
        active_warps=8.0,
        eligible_warps=0.6,
        issue_rate=0.4,
        sm_utilization=0.25,
        memory_utilization=0.25,
        waves=20.0,
    )

    assert list_matches(answer) == ["occupancy-limited-block-size"]
    assert largest_promise(answer) <= 12 / 8  # warps
    assert "launch-bounds" not in list_fixes(answer)


def test_a_speedup_above_the_attainable_one_stops():
    answer = recommend_for(speedup=3.2, reference_attainable_speedup=1.4)

    assert {"wrong-baseline", "timing-artifact"} <= set(list_matches(answer))
    assert answer["gate"]["verdict"] == "stop"

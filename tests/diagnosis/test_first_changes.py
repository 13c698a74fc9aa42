"""The first change is that of the evidence, and no number beside it contradicts it."""

import pytest
from shipped_rules import program

from kernelkb.actions.advice.recommend import complete_answer
from kernelkb.decide.recommend import recommend
from kernelkb.profiles.launch import list_raw_names
from kernelkb.profiles.report import read_report_text
from kernelkb.render.text.answers import format_answer_lines

IDLE = {
    "sm_utilization": 0.3,
    "memory_utilization": 0.5,
    "dram_utilization": 0.2,
    "l1_utilization": 0.5,
    "l2_utilization": 0.4,
}
"""No unit is busy."""


def ask(device=None, kernel="", **measured):
    return recommend(program(), measured, device=device, kernel=kernel)


def list_causes(answer):
    return [d["bottleneck"] for d in answer["diagnoses"] if d["verdict"] == "matches"]


def list_first_fixes(answer):
    """The changes for the first cause, in the order to try them."""
    return [fix["id"] for fix in answer["diagnoses"][0]["fixes"]]


def print_answer(answer):
    return "\n".join(format_answer_lines(complete_answer(answer)))


# Too few blocks for any GPU.


@pytest.mark.parametrize("blocks", [1, 2, 3])
def test_three_blocks_are_too_few_for_every_gpu_that_ncu_profiles(blocks):
    answer = ask(grid_block_count=blocks, profiled_us=900.0, **IDLE)

    assert list_causes(answer)[0] == "small-grid"


@pytest.mark.parametrize(("cc", "is_small"), [("8.6", True), ("9.0", True), ("8.7", False)])
def test_four_blocks_are_too_few_where_the_smallest_gpu_has_more_sms(cc, is_small):
    page = (
        f"  scan(float *) (4, 1, 1)x(256, 1, 1), Context 1, Stream 7, Device 0, CC {cc}\n"
        "    Section: GPU Speed Of Light Throughput\n"
        "    ----------------------- ----------- ------------\n"
        "    Metric Name             Metric Unit Metric Value\n"
        "    ----------------------- ----------- ------------\n"
        "    DRAM Throughput                   %         0.52\n"
        "    Duration                         us       912.50\n"
        "    Compute (SM) Throughput           %         1.10\n"
        "    ----------------------- ----------- ------------\n"
    )
    (launch,) = read_report_text(page, list_raw_names(program()))
    from kernelkb.actions.advice.recommend_report import answer_launch

    answer = answer_launch(program(), launch, 0, {}, None)

    assert ("small-grid" in list_causes(answer)) is is_small


def test_many_blocks_on_an_unknown_gpu_may_still_be_too_few():
    answer = ask(grid_block_count=80, profiled_us=900.0)

    assert "small-grid" not in list_causes(answer)
    assert any("small-grid" in row["separates"] for row in answer["measure_next"])


@pytest.mark.parametrize(("busy", "is_told"), [(0.57, True), (0.97, False)])
def test_idle_sms_speak_for_a_small_grid_where_their_number_is_unknown(busy, is_told):
    cycles = {"sm_active_mean_cycles": busy * 3e6, "sm_elapsed_cycles": 3e6}
    answer = ask(grid_block_count=64, block_thread_count=256, profiled_us=2700.0, **cycles, **IDLE)

    assert ("small-grid" in list_causes(answer)) is is_told


@pytest.mark.parametrize(("instructions", "has_loop"), [(40.0, False), (4000.0, True)])
def test_a_warp_of_few_instructions_has_no_loop_to_spread(instructions, has_loop):
    grid = {"grid_block_count": 40, "sm_count": 132, "waves": 0.1, "profiled_us": 9.0}
    answer = ask(**IDLE, **grid, instructions_per_warp=instructions)
    offered = [fix["id"] for one in answer["diagnoses"] for fix in one["fixes"]]

    assert ("parallelize-outer-dim" in offered) is has_loop


# A tail beside another cause.


def test_scattered_loads_come_before_a_tail_that_is_not_priced():
    scattered = {"sectors_per_load": 16, "sector_load_useful_bytes": 8}
    answer = ask(waves=1.2, profiled_us=300.0, **scattered, **IDLE)

    assert list_causes(answer)[:2] == ["uncoalesced-global-access", "tail-effect"]


@pytest.mark.parametrize("level", ["l1_utilization", "l2_utilization"])
def test_a_saturated_level_has_no_time_for_a_tail(level):
    answer = ask(waves=1.3, profiled_us=300.0, **{**IDLE, level: 0.9})

    assert "tail-effect" not in list_causes(answer)


def find_tail(point, low, high):
    """An answer whose first change is for a tail, with this interval."""
    answer = ask(waves=1.2, profiled_us=300.0, **IDLE)
    first = answer["diagnoses"][0]
    assert first["bottleneck"] == "tail-effect"
    gain = {"point": point, "low": low, "high": high}
    fixes = [{**first["fixes"][0], "predicted_speedup": gain}, *first["fixes"][1:]]
    told = {**first, "fixes": fixes, "predicted_speedup": gain}
    return {**answer, "diagnoses": [told, *answer["diagnoses"][1:]]}


def test_a_measured_median_outside_the_interval_says_that_those_had_more_to_gain():
    answer = find_tail(1.09, 1.01, 1.2)
    median = answer["diagnoses"][0]["fixes"][0]["measured"]["median"]
    assert median > 1.2

    assert "above the interval told here: median" in print_answer(answer)


def test_a_measured_median_inside_the_interval_stands_alone():
    assert "the interval told here" not in print_answer(find_tail(1.6, 1.2, 2.4))


def test_a_measured_median_below_the_interval_says_that_those_had_less_to_gain():
    assert "below the interval told here" in print_answer(find_tail(6.0, 4.0, 9.0))


# A product without a tile.

NO_TILE = {"static_shared_bytes": 0, "dynamic_shared_bytes": 0}
FROM_DRAM = {
    "dram_utilization": 0.97,
    "sm_utilization": 0.5,
    "l1_utilization": 0.6,
    "l2_utilization": 0.6,
    "l1_hit_rate": 0.6,
    "l2_hit_rate": 0.3,
    "profiled_us": 9000.0,
}
COUNTED = {"loads_per_fma": 2.0, "ffma_share": 0.96, "loads_over_dram": 3.6, "load_repeat": 3.6}


@pytest.mark.parametrize(
    "name",
    [
        "matmul_plain",
        "void MatMul<float>(float *)",
        "sgemm_v1(int)",
        "matrixMul",
        "my::mm(float *)",
        "addmm",
        "baddbmm_f32",
    ],
)
def test_a_named_product_without_a_tile_gets_one_first(name):
    answer = ask(kernel=name, **NO_TILE, **FROM_DRAM)

    assert list_causes(answer)[0] == "dram-bandwidth-bound"
    assert list_first_fixes(answer)[0] == "tile-into-smem"
    assert any("algorithmic_bytes=N" in note for note in answer["notes"])


@pytest.mark.parametrize(
    "name",
    [
        *("axpy", "comm_copy", "sparse_spgemm", "matvec", "sgemv", "summary", "mm2s", "mm_to_inch"),
        *("transpose_for_gemm", "gemm_pack_a", "im2col_gemm", "splitk_gemm_reduce", "bsr_matmul"),
        *("layernorm_after_mm", "matmul_quantize_a", "check_gemm", "memory_mm"),
    ],
)
def test_other_names_make_no_product(name):
    answer = ask(kernel=name, **NO_TILE, **FROM_DRAM)

    assert list_first_fixes(answer)[0] == "remove-redundant-traffic"
    assert not any("algorithmic_bytes=N" in note for note in answer["notes"])


def test_a_name_makes_no_product_of_loads_that_read_nothing_again():
    once = {"ffma_share": 0.0, "loads_per_fma": 100, "loads_over_dram": 1, "load_repeat": 1}
    answer = ask(kernel="gemm_epilogue", **NO_TILE, **FROM_DRAM, **once)

    assert list_first_fixes(answer)[0] == "remove-redundant-traffic"
    assert not any("algorithmic_bytes=N" in note for note in answer["notes"])


def test_a_cause_that_is_told_is_not_ruled_out_beside_another():
    answer = ask(waves=3.07, l1_utilization=0.736, sm_busy=0.48)
    ruled_out = {one["bottleneck"] for row in answer["diagnoses"] for one in row["ruled_out"]}

    assert "l1tex-bandwidth-bound" in list_causes(answer)
    assert not ruled_out & set(list_causes(answer))


def test_counters_show_a_product_whatever_its_name():
    answer = ask(kernel="layer_forward", **NO_TILE, **FROM_DRAM, **COUNTED)

    assert list_first_fixes(answer)[0] == "tile-into-smem"


def test_a_product_with_a_vector_is_none_of_matrices():
    answer = ask(kernel="rows", **NO_TILE, **FROM_DRAM, **COUNTED | {"loads_over_dram": 2.0})

    assert list_first_fixes(answer)[0] != "tile-into-smem"


def test_a_product_with_a_tile_gets_no_other():
    shared = {"static_shared_bytes": 8192, "dynamic_shared_bytes": 0}
    answer = ask(kernel="matmul_tiled", **shared, **FROM_DRAM)

    assert list_first_fixes(answer)[0] == "remove-redundant-traffic"


@pytest.mark.parametrize(("name", "asks"), [("matmul_plain", "open"), ("axpy", "stop-if")])
def test_a_product_at_the_rate_of_dram_is_not_finished_while_its_cost_is_unknown(name, asks):
    moved = {"dram_read_bytes": 7.9e9 * 3, "dram_write_bytes": 1e8}
    answer = ask("h100-sxm", name, **NO_TILE, **FROM_DRAM, **moved)

    assert answer["finish"]["verdict"] == asks
    assert "algorithmic_bytes" in answer["finish"]["because"]


# A tile that may be there already.


def test_what_decides_whether_a_tile_is_there_is_told_first():
    answer = ask(l1_utilization=0.91, dram_utilization=0.1, l1_hit_rate=0.5)
    first = answer["diagnoses"][0]["fixes"][0]
    assert first["id"] == "tile-into-smem"

    assert first["undecided"][:2] == ["static_shared_bytes", "dynamic_shared_bytes"]
    assert "static_shared_bytes, dynamic_shared_bytes" in print_answer(answer)


@pytest.mark.parametrize("kind", ["static_shared_bytes", "dynamic_shared_bytes"])
def test_a_kernel_with_a_tile_is_not_told_to_stage_one(kind):
    answer = ask(l1_utilization=0.91, dram_utilization=0.1, **{**NO_TILE, kind: 32768})

    assert "tile-into-smem" not in list_first_fixes(answer)


# Atomics without their counters.

ASLEEP = {
    "sm_utilization": 0.03,
    "memory_utilization": 0.09,
    "dram_utilization": 0.02,
    "l1_utilization": 0.05,
    "l2_utilization": 0.09,
    "waves": 8.4,
    "profiled_us": 900.0,
}


def test_atomics_without_their_counters_are_counted_before_a_change():
    answer = ask(**ASLEEP, foreign_profile=1)

    assert list_causes(answer)[0] == "atomic-contention"
    assert answer["measure_next"][0]["separates"][0] == "atomic-contention"
    assert "atomic" in answer["measure_next"][0]["metric"]
    assert "change one thing" not in print_answer(answer)


def test_atomics_that_were_counted_get_a_change():
    counted = {"atomic_request_count": 0, "reduction_request_count": 4e6, "load_request_count": 4e6}
    waits = {"stall_lg_throttle": 0.5, "stall_long_scoreboard": 0.2, "store_request_count": 1e3}
    answer = ask(**ASLEEP, **counted, **waits, foreign_profile=1)

    assert list_causes(answer)[0] == "atomic-contention"
    assert "change one thing" in print_answer(answer)


def test_a_tail_that_costs_a_twentieth_at_most_is_no_advice():
    """Nine waves, of which the last is half full: 1.06x at most."""
    answer = ask(waves=8.5, profiled_us=300.0, **IDLE)

    assert "tail-effect" not in list_causes(answer)
    assert any("at most" in row["because"] for row in answer["suppressed"])


# A tree of sums in which every other thread rests.

TREE = {"lanes_per_instruction": 17.6, "useful_lanes_per_instruction": 15.2, "waves": 55.0}


@pytest.mark.parametrize(
    ("shared", "first"), [(1024, "warp-shuffle"), (0, "sort-by-branch"), (16384, "sort-by-branch")]
)
def test_a_divergent_tree_is_not_sorted_but_shuffled(shared, first):
    block = {"block_thread_count": 256, "static_shared_bytes": shared, "dynamic_shared_bytes": 0}
    answer = ask(**IDLE, **TREE, **block)

    assert list_causes(answer)[0] == "branch-divergence"
    assert list_first_fixes(answer)[0] == first


def test_a_tree_with_its_barriers_counted_is_shuffled():
    block = {"block_thread_count": 256, "static_shared_bytes": 1024, "dynamic_shared_bytes": 0}
    barriers = {"stall_barrier": 0.4, "barrier_instruction_share": 0.1, "barriers_per_load": 9.0}
    more = {"issue_rate": 0.5, "fp_issue_share": 0.05, "tile_reuse": 0, "profiled_us": 900.0}
    answer = ask(**IDLE, **TREE, **block, **barriers, **more)

    assert list_first_fixes(answer)[0] == "warp-shuffle"


# No cliff at eight tenths.


@pytest.mark.parametrize("rate", [0.72, 0.794, 0.80])
def test_the_busiest_level_is_named_below_eight_tenths_too(rate):
    dram = ask(**IDLE | {"dram_utilization": rate, "memory_utilization": rate}, waves=85.0)
    l1 = ask(**IDLE | {"l1_utilization": rate, "memory_utilization": rate}, waves=85.0)

    assert list_causes(dram)[0] == "dram-bandwidth-bound"
    assert list_causes(l1)[0] == "l1tex-bandwidth-bound"


def test_loads_that_are_waited_for_are_the_cause_below_eight_tenths():
    waits = {"stall_long_scoreboard": 0.8, "issue_rate": 0.2, "lsu_wavefront_utilization": 0.2}
    answer = ask(**IDLE | {"dram_utilization": 0.75, "l2_utilization": 0.7}, **waits, waves=85.0)

    assert list_causes(answer)[0] == "memory-latency-bound"

"""When a fix can work: examples on both sides of the conditions of fixes."""

from shipped_rules import compare_metrics, program

from kernelkb.decide.conditions import judge_condition
from kernelkb.model.base import Record


def can_work(fix, metrics, device=None, rules=None):
    """Return whether a fix can work by its condition; None if that is unknown."""
    rules = rules or program()
    truth = compare_metrics(metrics, device, rules).truth
    return judge_condition(rules["fixes"][fix]["applies"], truth)


class Example(Record):
    """Metrics, and whether a fix can work with them."""

    name: str
    fix: str
    metrics: dict[str, float]
    works: bool | None


UNBALANCED = {"sm_balance": 0.5, "sm_imbalance_loss": 0.4, "grid_fill": 4.0}
WARPS = {"grid_block_count": 1000, "block_thread_count": 32}
ATOMICS = {"atomic_share": 0.5, "lanes_per_instruction": 32.0, "atomic_concentration": 1.0}
STAGED = {
    "limit_shared_memory_block_count": 2,
    "limit_registers_block_count": 4,
    "limit_warps_block_count": 4,
    "limit_blocks_block_count": 16,
    "theoretical_occupancy": 0.5,
    "eligible_warps": 0.6,
}
COMMON = [
    Example(
        name="no load is asynchronous before compute capability 8.0",
        fix="fewer-stages",
        metrics={**STAGED, "device.cc": 7.5},
        works=False,
    ),
    Example(
        name="whether loads are asynchronous is not known",
        fix="fewer-stages",
        metrics={**STAGED, "device.cc": 8.6},
        works=None,
    ),
    Example(
        name="loads are asynchronous",
        fix="fewer-stages",
        metrics={**STAGED, "device.cc": 8.0, "async_copy_count": 64},
        works=True,
    ),
    Example(
        name="order says nothing while all blocks start at once",
        fix="sort-work-longest-first",
        metrics={**UNBALANCED, "waves": 0.5},
        works=False,
    ),
    Example(
        name="order of two waves",
        fix="sort-work-longest-first",
        metrics={**UNBALANCED, "waves": 2.0, "unequal_work": 1},
        works=True,
    ),
    Example(
        name="pieces help in one wave too",
        fix="split-large-items",
        metrics={**UNBALANCED, "waves": 0.5, "unequal_work": 1},
        works=True,
    ),
    Example(
        name="a queue has nothing to balance",
        fix="dynamic-work-queue",
        metrics={
            "sm_balance": 0.98,
            "sm_imbalance_loss": 0.01,
            "occupancy_gap": 0.02,
            "waves": 9.0,
        },
        works=False,
    ),
    Example(
        name="lanes of a warp add to one address",
        fix="warp-aggregate-atomics",
        metrics={**ATOMICS, "update_address_sectors": 1.0},
        works=True,
    ),
    Example(
        name="lanes of a warp add to neighbouring addresses",
        fix="warp-aggregate-atomics",
        metrics={**ATOMICS, "update_address_sectors": 4.0},
        works=False,
    ),
    Example(
        name="the addresses of atomics were not counted",
        fix="warp-aggregate-atomics",
        metrics={"atomic_share": 0.5},
        works=None,
    ),
    Example(
        name="random updates of a large table",
        fix="block-privatize",
        metrics={**ATOMICS, "update_address_sectors": 32.0},
        works=False,
    ),
    Example(
        name="all updates in one slice of L2",
        fix="block-privatize",
        metrics={**ATOMICS, "atomic_concentration": 80.0},
        works=True,
    ),
    Example(
        name="a grid that fills the GPU",
        fix="split-k",
        metrics={"grid_fill": 4.0, "waves": 2.0, "loads_per_warp": 500, "reduction_ratio": 900},
        works=False,
    ),
    Example(
        name="few blocks with a long sum each",
        fix="split-k",
        metrics={"grid_fill": 0.2, "waves": 0.1, "loads_per_warp": 500, "reduction_ratio": 900},
        works=True,
    ),
    Example(
        name="rows that begin in the middle of a sector",
        fix="align-base",
        metrics={"coalesced_share": 0.8, "random_access": 0},
        works=True,
    ),
    Example(
        name="lanes that are far apart",
        fix="align-base",
        metrics={"coalesced_share": 0.13, "random_access": 0},
        works=False,
    ),
    Example(
        name="a product of 4-bit weights",
        fix="library-first",
        metrics={"product_share": 1.0, "loads_per_fma": 0.5, "widened_operand_share": 0.2},
        works=False,
    ),
    Example(
        name="a product in single precision",
        fix="library-first",
        metrics={
            "matrix_work": 1,
            "product_share": 1.0,
            "loads_per_fma": 0.5,
            "widened_operand_share": 0.0,
        },
        works=True,
    ),
    Example(
        name="the layout of shared memory is Triton's",
        fix="pad-smem",
        metrics={"triton_kernel": 1},
        works=False,
    ),
    Example(
        name="bulk copies load, and no thread does",
        fix="vectorize-128b",
        metrics={"tma_utilization": 0.006, "loads_per_warp": 0.0, "load_lane_bytes": 4.0},
        works=False,
    ),
    Example(
        name="half-written sectors fill the way into L2, which larger tiles leave",
        fix="larger-block-tile",
        metrics={
            "tensor_utilization": 0.3,
            "l2_input_utilization": 0.75,
            "l2_output_utilization": 0.3,
            "sector_store_useful_bytes": 16.0,
        },
        works=False,
    ),
    Example(
        name="a polynomial loads hardly anything",
        fix="use-tensor-cores",
        metrics={
            "product_share": 1.0,
            "loads_per_fma": 0.001,
            "half_matrix_share": 0.0,
            "narrow_product_share": 0.0,
            "packed_product_share": 0.0,
            "tensor_utilization": 0.0,
        },
        works=False,
    ),
    Example(
        name="a table that is staged once",
        fix="cp-async-pipeline",
        metrics={
            "device.cc": 9.0,
            "barriers_per_warp": 1.0,
            "shared_stores_per_warp": 128.0,
            "stall_long_scoreboard": 0.6,
        },
        works=False,
    ),
    Example(
        name="each element is read once",
        fix="tile-into-smem",
        metrics={"load_repeat": 1.0, "global_lsu_share": 0.9},
        works=False,
    ),
    Example(
        name="one launch is all there is",
        fix="fuse-kernels",
        metrics={"dram_utilization": 0.9, "call_launch_count": 1},
        works=False,
    ),
    Example(
        name="the launches of a call are not known",
        fix="fuse-kernels",
        metrics={"dram_utilization": 0.9},
        works=None,
    ),
    Example(
        name="a reduction with full lanes and no tree",
        fix="warp-shuffle",
        metrics={
            "barrier_instruction_share": 0.2,
            "barriers_per_load": 100.0,
            "fp_issue_share": 0.4,
        },
        works=False,
    ),
    Example(
        name="every element is stored by one load",
        fix="unroll-ilp",
        metrics={"loads_per_warp": 1.0, "shared_loads_per_warp": 0.0},
        works=False,
    ),
]

PRODUCT = {
    "tensor_utilization": 0.0,
    "matrix_work": 1,
    "tensor_type": 1,
    "over_ridge": 5.0,
    "half_matrix_share": 0.0,
    "narrow_product_share": 0.0,
    "packed_product_share": 0.0,
    "product_share": 1.0,
    "loads_per_fma": 0.5,
    "fp_issue_share": 0.5,
    "triton_kernel": 0,
    "shared_stores_per_warp": 0.0,
}
STAGED = {
    "device.cc": 9.0,
    "tma_read_bytes": 0,
    "tma_utilization": 0.0,
    "barriers_per_warp": 50.0,
    "barriers_per_load": 0.1,
    "shared_stores_per_warp": 500.0,
    "stall_long_scoreboard": 0.5,
}
SCATTERED = {
    "device.cc": 9.0,
    "random_access": 0,
    "stall_drain": 0.05,
    "stores_per_warp": 64.0,
    "tensor_utilization": 0.3,
    "sector_store_useful_bytes": 16.0,
    "l2_output_utilization": 0.3,
}
SPREAD = {"grid_fill": 0.2, "waves": 0.1, "reduction_ratio": 900, "store_rounds": 90}
SPREAD = {
    **SPREAD,
    "loads_per_warp": 500.0,
    "parallel_loop_left": 1,
    "instructions_per_warp": 9000.0,
}
WAITING = {
    "loads_per_warp": 100.0,
    "stall_long_scoreboard": 0.5,
    "dram_utilization": 0.3,
    "l2_hit_rate": 0.1,
    "random_access": 0,
}
ROWS_BY_ATOMICS = {
    "reduction_ratio": 900,
    "barrier_instruction_share": 0.0,
    "atomic_share": 0.3,
    "cas_share": 0.0,
    "lanes_per_update_sector": 8.0,
    "update_excess_share": 0.0,
    "update_write_bytes": 2e7,
    "update_repeat": 30.0,
    "shared_atomic_share": 0.0,
    "looped_sum_share": 0.0,
}
SUMS_BY_ATOMICS = {**ROWS_BY_ATOMICS, "atomic_share": 0.0, "shared_atomic_share": 0.5}
STRUCTS = {
    "coalesced_share": 0.14,
    "tensor_utilization": 0.0,
    "sector_load_useful_bytes": 4.6,
    "sector_store_useful_bytes": 4.6,
    "sectors_per_load": 28.0,
    "sectors_per_store": 28.0,
    "lane_walk_bytes": 28.0,
    "l1_hit_rate": 0.8,
    "load_repeat": 0.5,
}
REREAD = {
    "load_repeat": 8.0,
    "static_shared_bytes": 0,
    "dynamic_shared_bytes": 0,
    "coalesced_share": 1.0,
    "l1_hit_rate": 0.5,
    "tma_read_bytes": 0,
    "tma_utilization": 0.0,
    "global_lsu_share": 0.9,
    "random_access": 0,
}
DIVERGENT = {
    "lanes_per_instruction": 12.0,
    "uniform_branch_share": 0.5,
    "shared_loads_per_warp": 0.0,
    "lanes_below_block_shape": 20.0,
}
ONE_BLOCK_AN_SM = {**SPREAD, "grid_fill": 1.0, "store_rounds": 0.7}
LOOP = {"block_thread_count": 32}
INDICES = {"index_share": 0.9, "integer_work": 0}
SIDES = (
    ("use-tensor-cores", PRODUCT, "product_share", 0.8, 0.95),
    ("use-tensor-cores", PRODUCT, "loads_per_fma", 0.02, 0.05),
    ("peel-boundary-tiles", {"useful_lanes_per_instruction": 15, "random_access": 0,
     "barriers_per_load": 0.0, "shared_loads_per_warp": 0.0}, "load_repeat", 1.5, 3.0),
    ("use-tensor-cores", {**PRODUCT, "product_share": 0.3}, "half_matrix_share", 0.5, 0.6),
    ("use-tensor-cores", {**PRODUCT, "product_share": 0.3}, "narrow_product_share", 0.4, 0.6),
    ("use-tensor-cores", {**PRODUCT, "product_share": 0.0}, "packed_product_share", 0.2, 0.3),
    ("use-tensor-cores", {**PRODUCT, "product_share": 0.3, "half_matrix_share": 0.6},
     "fp_issue_share", 0.19, 0.21),
    ("use-tensor-cores", {**PRODUCT, "product_share": 0.3, "triton_kernel": 1},
     "shared_stores_per_warp", 900.0, 1100.0),
    ("packed-half2", {"device.cc": 9.0, "half_share": 0.5}, "fp_issue_share", 0.19, 0.21),
    ("fma-contract", {"nonfused_share": 0.9, "ffma_share": 0.0}, "fp_issue_share", 0.19, 0.21),
    ("l2-prefetch", WAITING, "loads_per_warp", 3.0, 6.0),
    ("register-double-buffer", {"stall_short_scoreboard": 0.5, "warpgroup_utilization": 0,
     "spare_register_count": 100}, "shared_loads_per_warp", 3.0, 6.0),
    ("tma-store", {"device.cc": 9.0, "stall_drain": 0.5, "random_access": 0},
     "stores_per_warp", 3.0, 6.0),
    ("tma-store", SCATTERED, "l2_input_utilization", 0.59, 0.61),
    ("overlap-async-copies", {"tma_utilization": 0.001, "async_copy_count": 0,
     "l2_utilization": 0.3, "stall_long_scoreboard": 0.5}, "tensor_utilization", 0.04, 0.06),
    ("split-k", SPREAD, "loads_per_warp", 12.0, 24.0),
    ("sort-by-branch", DIVERGENT, "thread_shared_bytes", 4.0, 40.0),
    ("parallelize-outer-dim", SPREAD, "store_rounds", 2.0, 5.0),
    ("parallelize-outer-dim", SPREAD, "instructions_per_warp", 200.0, 300.0),
    ("cp-async-pipeline", STAGED, "barriers_per_warp", 3.0, 6.0),
    ("cp-async-pipeline", {**STAGED, "async_copy_count": 0}, "shared_stores_per_warp", 6.0, 12.0),
    ("warp-shuffle", {"barrier_instruction_share": 0.2, "fp_issue_share": 0.1},
     "barriers_per_load", 1.5, 3.0),
    ("accumulate-in-registers", ROWS_BY_ATOMICS, "update_excess_share", 0.15, 0.06),
    ("accumulate-in-registers", ROWS_BY_ATOMICS, "update_write_bytes", 4e6, 1e7),
    ("accumulate-in-registers", ROWS_BY_ATOMICS, "update_repeat", 1.5, 3.0),
    ("accumulate-in-registers", ROWS_BY_ATOMICS, "lanes_per_update_sector", 32.0, 8.0),
    ("accumulate-in-registers", {**SUMS_BY_ATOMICS, "dynamic_shared_bytes": 0},
     "static_shared_bytes", 384, 192),
    ("accumulate-in-registers", {**SUMS_BY_ATOMICS, "static_shared_bytes": 96},
     "dynamic_shared_bytes", 4096, 0),
    ("block-privatize", {**ROWS_BY_ATOMICS, "atomic_concentration": 1.0,
     "update_address_sectors": 4.0}, "update_write_bytes", 1e7, 4e6),
    ("remap-threads-coalesced", STRUCTS, "lane_walk_bytes", 48.0, 96.0),
    ("remap-threads-coalesced", STRUCTS, "l1_hit_rate", 0.7, 0.3),
    ("remap-threads-coalesced", STRUCTS, "load_repeat", 0.5, 4.5),
    ("tile-into-smem", REREAD, "loads_over_dram", 2.0, 4.5),
    ("tile-into-smem", {**REREAD, "loads_over_dram": 2.0}, "product_likeness", 0.6, 0.7),
    ("tile-into-smem", {**REREAD, "loads_over_dram": 4.5}, "dynamic_shared_bytes", 32768, 1024),
    ("tile-into-smem", {**REREAD, "loads_over_dram": 4.5}, "static_shared_bytes", 2048, 1024),
    ("larger-block-tile", {"load_repeat": 6.0, "shared_loads_per_warp": 30.0,
     "tile_load_ratio": 1.3, "tma_read_bytes": 0, "tma_utilization": 0.0,
     "barriers_per_warp": 10.0, "barriers_per_load": 0.8, "shared_stores_per_warp": 21.0,
     "waves": 15.0, "spare_register_count": 100, "tensor_utilization": 0.0},
     "l2_hit_rate", 0.3, 0.6),
    ("remove-redundant-traffic", {"over_fetch": 6.0}, "dram_utilization", 0.01, 0.7),
    ("parallelize-outer-dim", ONE_BLOCK_AN_SM, "stores_per_warp", 1.0, 500.0),
    ("parallelize-outer-dim", {**ONE_BLOCK_AN_SM, "stores_per_warp": 500.0},
     "grid_fill", 0.9, 1.0),
    ("block-128-256", {**LOOP, "stall_long_scoreboard": 0.8, "theoretical_occupancy": 0.5},
     "loads_per_warp", 98.0, 36.0),
    ("block-128-256", {**LOOP, "loads_per_warp": 98.0, "theoretical_occupancy": 0.5},
     "stall_long_scoreboard", 0.8, 0.4),
    ("block-128-256", {**LOOP, "loads_per_warp": 98.0, "stall_long_scoreboard": 0.8},
     "theoretical_occupancy", 0.5, 0.26),
    ("hoist-address-math", INDICES, "access_share", 0.004, 0.008),
    ("strength-reduction", {"integer_division_share": 0.0, "exact_division_share": 0.0,
     "xu_utilization": 0.1, "alu_over_fma": 1.0}, "heavy_function_share", 0.004, 0.008),
    ("strength-reduction", {"integer_division_share": 0.0, "exact_division_share": 0.0,
     "xu_utilization": 0.1, "heavy_function_share": 0.0, "alu_over_fma": 14.0},
     "bit_mask_share", 0.09, 0.11),
    ("precompute-table", {"xu_utilization": 0.0, "heavy_function_share": 0.0, "alu_over_fma": 44.0,
     "dram_utilization": 0.1}, "single_bit_step_share", 0.1, 0.2),
    ("hoist-invariants", {"instructions_per_warp": 4741, "alu_over_fma": 18.0, "integer_work": 1.0,
     "flop_ratio": 0.0, "exact_division_share": 0.0, "minimum_share": 0.0, "bit_mask_share": 0.0,
     "single_bit_step_share": 0.0}, "integer_ratio", 1.7, 2.6),
    ("accumulate-in-registers", {"reduction_ratio": 699.0, "barrier_instruction_share": 0.0,
     "stall_short_scoreboard": 0.49, "atomic_share": 0.0, "shared_atomic_share": 0.0},
     "looped_sum_share", 0.09, 0.11),
)  # fmt: skip
"""Of each threshold that only fixes use: a fix, metrics, the metric that decides, and its value
without and with the fix."""
EXAMPLES = [
    *COMMON,
    *(
        Example(
            name=f"{metric} of {value:g}", fix=fix, metrics={**metrics, metric: value}, works=works
        )
        for fix, metrics, metric, low, high in SIDES
        for value, works in ((low, False), (high, True))
    ),
]


def find_broken_examples(rules):
    """Yield the examples in which a fix is judged otherwise."""
    for one in EXAMPLES:
        if can_work(one.fix, one.metrics, rules=rules) is not one.works:
            yield f"{one.fix}: {one.name}"

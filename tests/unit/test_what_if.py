"""What a change of a launch costs before it is made, held against recorded launches of both kinds.

A pair of the zoo is two launches of one task: the second one is the first after a change.
"""

import json
import math
from functools import cache
from pathlib import Path

import pytest
from benchmarks.what_if import DIRECTIONS, FIELDS, WITHIN, list_cases
from benchmarks.what_if import predict as predict_case
from machine_code import unpack_report
from shipped_rules import program

from kernelkb.actions.advice.recommend_report import predict_report_change
from kernelkb.decide.derive import complete_metrics
from kernelkb.decide.device_facts import Pressure, predict_launch_change
from kernelkb.decide.parse_metric import KNOWN_GROUPS, LaunchShape, parse_launch_changes
from kernelkb.decide.recommend import recommend
from kernelkb.device_math.occupancy import Launch, count_clusters
from kernelkb.errors import BadValueError, UnknownNameError
from kernelkb.profiles.launch import list_raw_names
from kernelkb.profiles.report import read_report
from kernelkb.render.text.calculators import format_what_if_lines

ROOT = Path(__file__).parents[2]
LIMITS = ("registers", "warps", "blocks")
NOT_TO_BE_LAUNCHED = "fp8_gemm_one_stage"
"""Of its first launch Nsight Compute says that no block fits, though it ran."""
LAUNCHED_OTHERWISE = frozenset(
    (
        "softmax_one_program_an_sm",
        "int4_gemv_column_per_thread",
        "layernorm_weights_gradient_columns",
        "column_sums_small_blocks",
        "weight_gradient_long_k",
        "decode_int8_cache_program_per_head",
        "avg_pool_block_per_plane",
        "batchnorm_planes_looped_batch",
        "duct_diffusion_marching",
        "embedding_bag_history",
        "sensor_polynomial_block_1024",
        "frame_companding_block_704",
        "softmax_64_one_warp_blocks",
        "charge_potential_block_1024",
        "nbody_forces_wide_blocks",
        "gemm_140_tiles_one_per_sm",
        "nearest_codeword_140_blocks",
        "edit_distance_short_reads",
        "softmax_eight_rows_staged",
        "table_lookup_float_copy",
        "leaky_integrator_readout",
        "row_sums_block_256",
        "follow_links_coarsened",
        "mandelbrot_film_tiles",
    )
)
"""Pairs whose change is threads, blocks, registers or shared memory, and no other access."""


@cache
def recorded_launches():
    """Return (kernel, side, device, metrics, those of the other side, time ÷ time now)."""
    found = []
    for file in sorted((ROOT / "kernels/zoo/measured").glob("*.jsonl")):
        for line in file.read_text().splitlines():
            row = json.loads(line)
            for side, other in (("before", "after"), ("after", "before")):
                now, then = row[side]["metrics"], row[other]["metrics"]
                if "waves" in now and "waves" in then:
                    ratio = row[other]["kernel_us"] / row[side]["kernel_us"]
                    found.append((row["kernel"], side, row["device"], now, then, ratio))
    return found


def predict(device, metrics, changes, pressure=None):
    known = complete_metrics(program(), metrics, device)
    return predict_launch_change(program(), known, device, changes, pressure)


def tightest(metrics):
    names = ("registers", "warps", "blocks", "shared_memory", "barriers")
    return min(metrics.get(f"limit_{name}_block_count", math.inf) for name in names)


def assert_is_as_measured(found, metrics):
    for name in LIMITS:
        assert found["limits"][name] == metrics[f"limit_{name}_block_count"]
    assert found["blocks_per_sm"] == tightest(metrics)
    assert found["waves"] == pytest.approx(metrics["waves"], rel=1e-3, abs=0.006)
    share = found["warps_per_sm"] / found["warps_max"]
    assert share == pytest.approx(metrics["theoretical_occupancy"], abs=1e-4)


def test_without_a_change_every_recorded_launch_is_told_as_the_driver_told_it():
    launches = [one for one in recorded_launches() if one[0] != NOT_TO_BE_LAUNCHED]
    for _, _, device, metrics, _, _ in launches:
        found = predict(device, metrics, {})

        assert_is_as_measured(found["before"], metrics)
        assert found["before"] == found["after"]
    assert len(launches) > 500


def test_with_the_numbers_of_the_other_launch_its_limits_are_told():
    for kernel, _, device, now, then, _ in recorded_launches():
        if kernel != NOT_TO_BE_LAUNCHED:
            changes = {name: str(int(then[field])) for name, field in FIELDS.items()}

            assert_is_as_measured(predict(device, now, changes)["after"], then)


def test_launches_of_reports_of_other_programs_are_told_as_the_driver_told_them():
    seen = 0
    for file in sorted((ROOT / "tests/data/ncu").rglob("*.csv")):
        for launch in read_report(file, list_raw_names(program()), None):
            if {"limit_warps_block_count", "dynamic_shared_bytes", "waves"} <= {*launch.metrics}:
                assert_is_as_measured(
                    predict("h100-sxm", launch.metrics, {})["before"], launch.metrics
                )
                seen += 1
    assert seen > 20


def test_what_stays_as_it_is_takes_as_long():
    for _, _, device, metrics, _, _ in recorded_launches():
        time = predict(device, metrics, {})["time"]
        if time is not None:
            assert (time["factor"], time["verdict"]) == (pytest.approx(1, abs=0.002), "same")


def classify(ratio):
    return 0 if abs(math.log(ratio)) < math.log(1.05) else math.copysign(1, ratio - 1)


def test_the_direction_of_a_changed_launch_is_right_for_most_pairs_and_for_changes_that_hurt():
    rows = []
    for kernel, _, device, now, then, ratio in recorded_launches():
        if kernel in LAUNCHED_OTHERWISE:
            changes = {
                name: str(int(then[field]))
                for name, field in FIELDS.items()
                if now[field] != then[field]
            }
            time = predict(device, now, changes)["time"]
            rows.append((kernel, time["verdict"], ratio, time["low"] <= ratio <= time["high"]))

    told = [row for row in rows if row[1] != "unknown"]
    hurt = [row for row in told if row[2] > 1.05]
    for some in (told, hurt):
        right = sum(DIRECTIONS[verdict] == classify(measured) for _, verdict, measured, _ in some)
        assert right >= 0.9 * len(some)
    opposite = [row[0] for row in told if DIRECTIONS[row[1]] * classify(row[2]) < 0]
    assert len(opposite) <= 0.05 * len(rows), opposite
    assert sum(row[3] for row in rows) >= 0.85 * len(rows)
    assert (len(told), len(hurt)) > (35, 18)


def test_single_changes_are_told_as_measured_in_the_half_held_out_as_in_the_other():
    found = [one for case in list_cases() if (one := predict_case(case))]
    for held_out in (True, False):
        half = [one for one in found if one.case.is_held_out == held_out]
        told = [one for one in half if one.factor is not None]
        near = [one for one in told if one.case.is_near]

        assert (len(half) > 65, len(told) > 35, len(near) > 20) == (True, True, True)
        assert sum(one.is_direction_right for one in told) >= 0.9 * len(told)
        assert sum(one.error <= WITHIN for one in told) >= 0.8 * len(told)
        assert sum(one.error <= WITHIN for one in near) >= 0.85 * len(near)
        assert sum(one.is_held for one in half) >= 0.85 * len(half)


UNEVEN = (
    ("mandelbrot_film_tiles", "before"),
    ("mandelbrot_film_tiles", "after"),
    ("spmv_hub_rows", "before"),
    ("frontier_expand_by_vertex", "before"),
    ("kv_append_ragged_sequences", "before"),
    ("moe_permute_block_per_expert", "before"),
)
"""Launches whose blocks have unequal work, and of whose pair the other side has another grid."""


def test_another_grid_of_uneven_blocks_gets_an_interval_that_holds_and_no_number():
    held = 0
    for kernel, side, device, now, then, ratio in recorded_launches():
        if (kernel, side) in UNEVEN:
            time = predict(device, now, {"grid": str(int(then["grid_block_count"]))})["time"]
            held += time["low"] <= ratio <= time["high"]

            assert time["factor"] is None
            assert "work, which is uneven now" in time["because"]
    assert held >= 0.8 * len(UNEVEN)


def test_even_blocks_with_one_long_tail_by_their_number_are_not_uneven():
    """Of 140 equal blocks on 132 SMs eight run alone, which the launch itself tells."""
    device, metrics = load_recorded("gemm_140_tiles_one_per_sm", "before")

    assert predict(device, metrics, {"grid": "126", "threads": "512"})["time"]["factor"] is not None


def test_what_no_counter_tells_gets_an_interval_and_the_question_but_no_number():
    device, metrics = load_recorded("cache_lookup_8_way", "after")
    time = predict(device, metrics, {"vector": "16:4"})["time"]

    assert (time["factor"], time["verdict"]) == (None, "unknown")
    assert time["low"] < 3.06 < time["high"]
    assert "whether lanes still access neighbours" in time["because"]


LOOPS = {"polynomial_degree_511": "8:32", "gemm_8x8_a_thread": "4:8"}
LOOPS |= {"integer_mixer_full_unroll": "8:1024"}


@pytest.mark.parametrize("kernel", LOOPS)
def test_a_loop_unrolled_further_where_instructions_bind_is_a_little_faster(kernel):
    now, then = LOOPS[kernel].split(":")
    for side, change in (("before", f"{now}:{then}"), ("after", f"{then}:{now}")):
        found = [one for one in recorded_launches() if one[:2] == (kernel, side)]
        _, _, device, metrics, _, ratio = found[0]
        time = predict(device, metrics, {"unroll": change})["time"]

        assert DIRECTIONS[time["verdict"]] == classify(ratio)
        assert time["factor"] == pytest.approx(ratio, rel=0.15)
        assert time["low"] < ratio < time["high"]
    little = predict(device, metrics, {"unroll": "4:5"})["time"]
    assert (little["factor"], little["verdict"]) == (None, "unknown")


def test_without_the_loop_itself_the_other_two_tell_its_time():
    """Leaves each operation out: what the others gave is within a tenth of what it gave."""
    gains = {
        one[0]: one[5] for one in recorded_launches() if one[0] in LOOPS and one[1] == "before"
    }

    for kernel, gain in gains.items():
        others = [math.log(other) for name, other in gains.items() if name != kernel]
        assert math.exp(sum(others) / len(others)) == pytest.approx(gain, rel=0.1)


def test_wider_stores_fill_sectors_that_memory_had_to_read_too():
    device, metrics = load_recorded("interleave_color_planes", "before")
    time = predict(device, metrics, {"vector": "4:16", "grid": "32768"})["time"]

    assert time["factor"] == pytest.approx(0.22, rel=0.25)


def test_so_many_blocks_that_their_starts_take_the_time_are_told():
    device, metrics = load_recorded("softmax_64_one_warp_blocks", "after")
    found = predict(device, metrics, {"threads": "32"})

    assert found["time"]["factor"] == pytest.approx(3.36, rel=0.15)
    assert "blocks begin" in found["time"]["because"]


def test_registers_above_what_is_spilled_cost_warps():
    device, metrics = load_recorded("implicit_diffusion_columns", "before")
    time = predict(device, metrics, {"registers": "146"})["time"]

    assert (time["factor"], time["low"] < 1.56 < time["high"]) == (None, True)
    assert "overlaps with" in time["because"]


@pytest.mark.parametrize(
    ("blocks", "counts"),
    [(16, {1: 1056, 2: 528, 3: 327, 5: 193, 7: 139, 8: 124, 9: 102, 12: 74, 13: 67, 16: 58}),
     (7, {3: 287, 4: 216, 6: 141, 8: 107, 9: 88, 11: 72, 15: 51, 16: 49})],
)  # fmt: skip
def test_clusters_are_as_many_as_the_driver_of_an_h200_says(blocks, counts):
    groups, _even = KNOWN_GROUPS[132]

    assert {size: count_clusters(groups, blocks, size) for size in counts} == counts


def test_clusters_take_the_slots_that_groups_of_sms_have_for_them():
    device, metrics = load_recorded("leaky_integrator_readout", "before")
    found = predict(device, metrics, {"cluster": "16"})
    assert "block slots; cards differ" in found["cluster"]
    assert found["time"]["factor"] >= 1


def load_recorded(name, side):
    return next(one[2:4] for one in recorded_launches() if one[:2] == (name, side))


def test_registers_below_what_is_live_spill_and_those_above_do_not():
    device, metrics = load_recorded("leaky_integrator_readout", "before")
    live = Pressure(60, tuple(0.02 for _ in range(128)))
    fits = predict(device, metrics, {"registers": "64"}, live)
    spills = predict(device, metrics, {"registers": "32"}, live)

    assert (fits["registers"]["missing"], fits["registers"]["local_instruction_share"]) == (0, 0)
    assert spills["registers"]["missing"] == 30
    assert spills["registers"]["local_instruction_share"] == pytest.approx(0.6)
    assert spills["time"]["low"] < fits["time"]["low"] < spills["time"]["high"]


def test_without_code_it_is_not_told_whether_fewer_registers_are_enough():
    device, metrics = load_recorded("leaky_integrator_readout", "before")
    found = predict(device, metrics, {"registers": "32"})

    assert found["registers"]["live"] is None
    assert found["time"]["factor"] is None
    assert "ptxas" in found["time"]["because"]


def test_fewer_registers_without_spills_are_told_as_measured():
    found = [one for case in list_cases() if (one := predict_case(case))]
    told = {one.case.kernel: one.unspilled / one.case.factor for one in found if one.unspilled}

    assert len(told) >= 3
    assert all(1 / WITHIN <= ratio <= WITHIN for ratio in told.values()), told


def iter_register_gains():
    """Yield (kernel, gain of recommend, that of what-if without spills) of spill-free launches."""
    for kernel, _, device, metrics, _, _ in recorded_launches():
        known = complete_metrics(program(), metrics, device)
        registers = known.get("doubled_block_register_count")
        answer = recommend(program(), metrics, device=device) if registers else {"diagnoses": ()}
        for row in answer["diagnoses"]:
            fixes = {fix["id"]: fix["predicted_speedup"] for fix in row["fixes"]}
            is_cause = row["bottleneck"] == "occupancy-limited-registers"
            if is_cause and known["local_instruction_share"] == 0 and fixes.get("launch-bounds"):
                time = predict(device, metrics, {"registers": str(int(registers))})["time"]
                without = time["unspilled"] or time
                yield kernel, fixes["launch-bounds"]["point"], 1 / without["factor"]


def test_recommend_and_what_if_agree_on_fewer_registers_that_spill_nothing():
    rows = list(iter_register_gains())

    assert len(rows) >= 10
    for kernel, gain, other in rows:
        assert gain == pytest.approx(other, rel=0.05), kernel


def test_more_slots_without_fewer_rounds_give_no_warps():
    """Four blocks for each SM are one round already; eight are two, then one."""
    metrics = {"block_thread_count": 256.0, "register_count": 64.0, "grid_block_count": 132.0 * 4}
    metrics |= {"static_shared_bytes": 0.0, "dynamic_shared_bytes": 0.0}
    one = complete_metrics(program(), metrics, "h100-sxm")
    eight = complete_metrics(program(), metrics | {"grid_block_count": 132.0 * 8}, "h100-sxm")

    assert (one["doubled_block_warp_ratio"], eight["doubled_block_warp_ratio"]) == (1, 2)
    assert one["doubled_block_register_count"] == 32


def test_a_larger_ring_takes_from_l1():
    device, metrics = load_recorded("silu_staged_tile", "before")
    found = predict(device, metrics, {"dynamic_smem": "64KiB"})

    assert found["after"]["blocks_per_sm"] == 3
    assert max(found["after"]["l1_bytes"]) < min(found["before"]["l1_bytes"])


SHAPE = LaunchShape(Launch(256, 64, static_bytes=1024, dynamic_bytes=32768), 1000, 1)


def test_values_are_plain_or_added():
    found = parse_launch_changes(
        SHAPE, {}, {"dynamic_smem": "+16KiB", "registers": "-8", "grid": "500"}
    )

    assert found.shape.launch.dynamic_bytes == 49152
    assert (found.shape.launch.registers, found.shape.grid) == (56, 500)
    assert found.assumed == []


def test_what_follows_is_said():
    found = parse_launch_changes(SHAPE, {}, {"threads": "512", "stages": "2:3"})

    assert (found.shape.grid, found.shape.launch.dynamic_bytes) == (500, 49152)
    assert [one["name"] for one in found.changes] == ["stages", "threads", "grid", "dynamic_smem"]
    assert len(found.assumed) == 3


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"stages": "4"}, "write stages=2:4"),
        ({"vector": "16"}, "write vector=4:16"),
        ({"threads": "2048"}, "1 to 1024"),
        ({"dynamic_smem": "-64KiB"}, "leaves less than none"),
        ({"dynamic_smem": "16KB"}, "1000s or 1024s"),
    ],
)
def test_what_cannot_be_known_is_asked(changes, words):
    with pytest.raises(BadValueError, match=words):
        parse_launch_changes(SHAPE, {}, changes)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("register", "registers"),
        ("block", "threads"),
        ("num_warps", "threads"),
        ("blocks", "grid"),
        ("smem", "dynamic_smem"),
        ("Dynamic-smem", "dynamic_smem"),
        ("maxrregcount", "registers"),
        ("num_stages", "stages"),
    ],
)
def test_a_mistyped_change_and_what_others_call_it_are_named(typed, meant):
    with pytest.raises(UnknownNameError, match=f"did you mean '{meant}'"):
        parse_launch_changes(SHAPE, {}, {typed: "64"})


def test_a_word_like_none_of_many_names_still_gets_the_closest():
    with pytest.raises(UnknownNameError, match="unknown change 'carveout'; closest: 'vector'"):
        parse_launch_changes(SHAPE, {}, {"carveout": "64"})


def test_a_launch_that_cannot_be_is_said_and_gets_no_time():
    device, metrics = load_recorded("leaky_integrator_readout", "before")
    found = predict(device, metrics, {"threads": "1024"})

    assert (found["obstacles"], found["time"]) == (["registers_block"], None)


def test_l1_that_is_left_is_what_the_driver_set_and_a_range_holds_it_without(tmp_path):
    path = unpack_report(tmp_path, "h100-sxm", "occupancy-limited-registers")
    exact = 0
    for launch in read_report(path, list_raw_names(program()), None):
        told = launch.metrics["shared_carveout_bytes"]
        left = {k: v for k, v in launch.metrics.items() if k != "shared_carveout_bytes"}
        low, high = predict("h100-sxm", left, {})["before"]["carveout_bytes"]
        exact += low == high

        assert predict("h100-sxm", launch.metrics, {})["before"]["carveout_bytes"] == [told, told]
        assert low <= told <= high
    assert exact < len(read_report(path, list_raw_names(program()), None))


def test_a_report_tells_live_registers_in_a_dozen_lines(tmp_path):
    report = unpack_report(tmp_path, "h100-sxm", "occupancy-limited-registers")
    found = predict_report_change(str(report), {"registers": "32"}, kernel_pattern="integrate")
    lines = list(format_what_if_lines({**found, "kernel": "integrate_series"}))

    assert found["registers"]["live"] == 89
    assert found["time"]["verdict"] == "unknown"
    assert lines[0].startswith("integrate_series on H100 SXM")
    assert lines[1] == "  blocks an SM    4 -> 16, limited by registers -> warps and registers"
    assert len(lines) <= 12

"""The whole answer: its contract, its honesty, and figures worked out by hand."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shipped_rules import compare_metrics, metrics, program, validate_answer

from kernelkb.decide.conditions import satisfies
from kernelkb.decide.diagnose import diagnose, rank_matches
from kernelkb.decide.predict import Predictor, is_told
from kernelkb.decide.recommend import build_recommendation, find_library, recommend
from kernelkb.decide.rules_file import format_rules
from kernelkb.model.answers.next_step import ToolCommand
from kernelkb.model.answers.recommendation import PrintedRecommendation
from kernelkb.render.text.answers import format_answer_lines
from kernelkb.render.text.steps import print_recommendation

ANSWER_KEYS = {
    "kernel", "launch", "device", "gate", "evidence_level", "headroom", "diagnoses", "suppressed",
    "measure_next", "next",
}  # fmt: skip


def recommend_for(device=None, target="cuda", **measured):
    return recommend(program(), measured, target=target, device=device)


def list_matches(answer):
    return [d["bottleneck"] for d in answer["diagnoses"] if d["verdict"] == "matches"]


@given(metrics())
@settings(max_examples=25, deadline=None)
@pytest.mark.parametrize("target", ["cuda", "cpu"])
def test_every_answer_keeps_the_contract(target, measured):
    answer = recommend(program(), measured, target=target, device="h100-sxm")

    printed = print_recommendation(build_recommendation(program(), [answer]))
    validate_answer(printed, PrintedRecommendation)


def test_the_keys_are_those_of_the_contract():
    assert set(recommend_for(speedup=0.3)) == ANSWER_KEYS | {
        "accesses",
        "at_most",
        "chain",
        "change",
        "combined_speedup",
        "conclusions",
        "duration_us",
        "finish",
        "gap",
        "joint",
        "ncu_rules",
        "notes",
        "open_count",
        "peaks",
        "share",
        "similar",
        "time",
        "timeline",
    }


@given(metrics("cuda"))
@settings(max_examples=25, deadline=None)
def test_matches_come_before_unknown(measured):
    verdicts = [d["verdict"] for d in recommend(program(), measured)["diagnoses"]]

    assert verdicts == sorted(verdicts)


@given(metrics("cuda"))
@settings(max_examples=30, deadline=None)
def test_ranking_loses_and_invents_nothing(measured):
    facts = compare_metrics(measured)
    found = diagnose(program(), facts, "cuda", Predictor(program(), facts)).matches
    order = rank_matches(found, program()["effort"])

    assert sorted(f.row["id"] for f in order) == sorted(f.row["id"] for f in found)


FOUR_METRICS = ("speedup", "dram_utilization", "occupancy", "kernel_us")
NON_MECHANISMS = {"dram-bandwidth-bound", "profiler-mismatch"}


@given(metrics("cuda"))
@settings(max_examples=60, deadline=None)
def test_four_numbers_never_name_a_mechanism(measured):
    four = {name: value for name, value in measured.items() if name in FOUR_METRICS}

    assert set(list_matches(recommend(program(), four))) <= NON_MECHANISMS


def test_two_numbers_ask_for_the_speed_of_light():
    answer = recommend_for(speedup=0.3, occupancy=0.4)

    assert list_matches(answer) == []
    assert answer["gate"]["id"] == "stop-and-profile"
    assert "--section SpeedOfLight" in answer["measure_next"][0]["command"]
    assert any("occupancy" in text for text in answer["conclusions"]["cannot"])


def test_an_unknown_bottleneck_gets_no_fix():
    assert all(d["fixes"] == [] for d in recommend_for(speedup=0.3)["diagnoses"])


def test_known_metrics_are_not_requested():
    asked = {row["metric"] for row in recommend_for(speedup=0.3, waves=4.0)["measure_next"]}

    assert "waves" not in asked


def test_a_wrong_result_gets_no_advice_about_speed():
    answer = recommend_for(correct=0, dram_utilization=0.9, speedup=3.0)

    assert answer["diagnoses"] == []
    assert "dram-bandwidth-bound" in {row["bottleneck"] for row in answer["suppressed"]}


def predicted_point(answer, name):
    (found,) = [d for d in answer["diagnoses"] if d["bottleneck"] == name]
    return found["predicted_speedup"]["point"]


def test_necessary_traffic_near_the_peak_is_near_roofline():
    answer = recommend_for("a100-80-sxm", dram_utilization=0.91, occupancy=0.85, over_fetch=1.02)
    fixes = [f["id"] for d in answer["diagnoses"] for f in d["fixes"]]

    assert list_matches(answer)[0] == "near-roofline"
    assert {"fuse-kernels", "reduce-precision"} <= set(fixes)
    assert not {"vectorize-128b", "raise-occupancy"} & set(fixes)


def test_uncoalesced_access_ranks_before_bandwidth():
    answer = recommend_for(
        dram_utilization=0.88,
        memory_utilization=0.88,
        over_fetch=3.9,
        sector_load_useful_bytes=8,
        sectors_per_load=16,
    )

    assert list_matches(answer)[0] == "uncoalesced-global-access"


def test_stalls_with_idle_memory_are_latency_and_not_occupancy():
    answer = recommend_for(
        waves=6,
        dram_utilization=0.22,
        l2_utilization=0.25,
        lsu_wavefront_utilization=0.2,
        sm_utilization=0.30,
        memory_utilization=0.25,
        issue_rate=0.28,
        stall_long_scoreboard=0.62,
        occupancy=0.92,
        eligible_warps=1.2,
    )

    assert list_matches(answer)[0] == "memory-latency-bound"
    # Without waiting for loads 0.38 of the latency is left; ten numbers do not tell the time.
    assert answer["diagnoses"][0]["predicted_speedup"] is None
    assert not any("occupancy" in name for name in list_matches(answer))


def test_registers_limit_occupancy():
    answer = recommend_for(
        "a100-80-sxm",
        limit_registers_block_count=1,
        limit_shared_memory_block_count=8,
        limit_warps_block_count=8,
        limit_blocks_block_count=32,
        theoretical_occupancy=0.125,
        issue_rate=0.25,
        eligible_warps=0.3,
        sm_utilization=0.30,
        memory_utilization=0.20,
        active_warps=2,
        waves=4,
    )

    assert list_matches(answer)[0] == "occupancy-limited-registers"


def test_one_block_too_many_is_a_tail_effect():
    answer = recommend_for("h100-sxm", waves=133 / 132, grid_block_count=133)

    assert list_matches(answer) == ["tail-effect"]
    # Two waves become 133/132 of one.
    assert predicted_point(answer, "tail-effect") == pytest.approx(2 / (133 / 132), abs=0.01)


def test_replayed_wavefronts_are_bank_conflicts():
    answer = recommend_for(
        shared_load_wavefront_count=283.0e6, shared_load_conflict_count=247.6e6, l1_utilization=0.88
    )

    assert list_matches(answer) == ["shared-memory-bank-conflicts"]


def test_gaps_between_launches_suggest_a_cuda_graph():
    answer = recommend_for(call_us=9.0, kernel_us=4.0)

    assert list_matches(answer) == ["launch-overhead-bound"]
    assert answer["diagnoses"][0]["fixes"][0]["id"] == "cuda-graph"
    # Of 5 µs between the launches, a graph leaves 1.
    assert predicted_point(answer, "launch-overhead-bound") == pytest.approx(9 / 5, abs=0.01)


def test_an_impossible_speedup_stops():
    answer = recommend_for(speedup=3.2, kernel_us=10.0, floor_us=22.9)

    assert answer["gate"]["verdict"] == "stop"
    assert list_matches(answer) == ["timing-artifact"]


def test_a_naive_cpu_kernel_gets_both_of_its_causes():
    answer = recommend_for(
        target="cpu",
        speedup=0.07,
        kernel_us=67000.0,
        core_occupancy=0.25,
        core_count=4,
        simd_lanes_count=16,
        scalar_loop_count=2,
        vector_loop_count=1,
        algorithmic_bandwidth=0.05,
        dispatch_us=0.6,
    )

    assert set(list_matches(answer)) == {"single-threaded", "not-vectorised"}


MEASUREMENT_OR_SIZE = {"timing-artifact", "problem-too-small", "near-roofline"}


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "speedup": st.floats(0, 100),
            "dram_utilization": st.floats(0, 1),
            "occupancy": st.floats(0, 1),
            "kernel_us": st.floats(0.1, 1e7),
        },
    ),
    st.sampled_from([None, "h100-sxm", "l4", "a100-80-sxm"]),
)
@settings(max_examples=50, deadline=None)
def test_four_numbers_name_no_mechanism_on_any_gpu(four, device):
    answer = recommend(program(), four, device=device)

    assert set(list_matches(answer)) <= NON_MECHANISMS | MEASUREMENT_OR_SIZE
    assert answer["evidence_level"] in ("L0", "L1")


@given(metrics(), st.sampled_from(["cpu", "cuda"]))
@settings(max_examples=25, deadline=None)
def test_nothing_is_advised_about_a_wrong_result(measured, target):
    answer = recommend(program(), {**measured, "correct": 0.0}, target=target, device="l4")

    assert answer["gate"]["id"] == "incorrect"
    assert list_matches(answer) == []


@given(metrics(), st.data())
@settings(max_examples=25, deadline=None)
def test_nan_is_the_same_as_not_measured(measured, data):
    silent = data.draw(st.sets(st.sampled_from(sorted(program()["metrics"])))) - set(measured)
    padded = {**measured, **dict.fromkeys(silent, float("nan"))}

    assert recommend(program(), padded) == recommend(program(), measured)


def test_a_nan_counter_does_not_raise_the_evidence_level():
    assert (
        recommend_for(speedup=0.3, sector_load_useful_bytes=float("nan"))["evidence_level"] == "L0"
    )


@given(metrics(), st.randoms(use_true_random=False))
@settings(max_examples=25, deadline=None)
def test_the_order_of_the_metrics_does_not_matter(measured, draw):
    names = list(measured)
    draw.shuffle(names)
    mixed = {name: measured[name] for name in names}

    assert recommend(program(), mixed) == recommend(program(), measured)


@given(metrics())
@settings(max_examples=30, deadline=None)
def test_deciding_changes_nothing_that_it_was_given(measured):
    before = (format_rules(program()), dict(measured))
    recommend(program(), measured, device="h100-sxm")

    assert (format_rules(program()), measured) == before


def extreme_values(row):
    top = row["high"] if row["high"] is not None else 1e308
    return st.sampled_from(sorted({row["low"], min(1.0, top), top}))


EXTREMES = {name: extreme_values(row) for name, row in program()["metrics"].items()}


@given(st.fixed_dictionaries({}, optional=EXTREMES), st.sampled_from(["cpu", "cuda"]))
@settings(max_examples=50, deadline=None)
def test_every_answer_is_json_even_at_the_edges_of_what_can_be_measured(measured, target):
    json.dumps(recommend(program(), measured, target=target, device="l4"), allow_nan=False)


@pytest.mark.parametrize(
    "measured",
    [
        {"kernel_us": 1e308, "floor_us": 1e-300},
        {"kernel_us": 1e308, "algorithmic_bytes": 1.0, "copy_peak_gbps": 1e300},
        {
            "profiled_us": 1e-3,
            "issue_use": 0,
            "l2_other_utilization": 0,
            "dram_read_bytes": 0,
            "dram_write_bytes": 1e308,
        },
        {
            "profiled_us": 1e308,
            "tensor_utilization": 1,
            "l2_atomic_utilization": 0,
            "l2_sector_count": 1e308,
        },
    ],
)
def test_a_distance_beyond_all_numbers_is_unknown(measured):
    json.dumps(recommend_for("l4", **measured), allow_nan=False)


def test_a_gain_that_rounds_to_nothing_is_not_told():
    assert not is_told({"low": 0.0, "point": 0.0, "high": 0.0})
    assert is_told({"low": 1.0, "point": 1.1, "high": 1.2})


@given(metrics("cuda"))
@settings(max_examples=25, deadline=None)
def test_every_confidence_is_a_share_and_that_of_the_unknown_is_none(measured):
    for diagnosis in recommend(program(), measured)["diagnoses"]:
        if diagnosis["verdict"] == "unknown":
            assert diagnosis["confidence"] == 0
        else:
            assert 0 < diagnosis["confidence"] <= 1


@given(metrics("cuda"))
@settings(max_examples=25, deadline=None)
def test_nothing_is_both_advised_and_withheld(measured):
    answer = recommend(program(), measured)
    said = {d["bottleneck"] for d in answer["diagnoses"]}

    assert not said & {row["bottleneck"] for row in answer["suppressed"] if "fix" not in row}
    for diagnosis in answer["diagnoses"]:
        withheld = {
            row["fix"]
            for row in answer["suppressed"]
            if row["bottleneck"] == diagnosis["bottleneck"] and "fix" in row
        }
        assert not withheld & {fix["id"] for fix in diagnosis["fixes"]}


@given(metrics("cuda"))
@settings(max_examples=25, deadline=None)
def test_the_reason_of_a_match_was_measured(measured):
    for diagnosis in recommend(program(), measured, device="l4")["diagnoses"]:
        for reason in diagnosis["because"]:
            assert reason["source"]


@given(metrics("cuda"), st.sampled_from([None, "h100-sxm"]))
@settings(max_examples=25, deadline=None)
def test_no_falsifier_holds_before_the_change(measured, device):
    for diagnosis in recommend(program(), measured, device=device)["diagnoses"]:
        told = diagnosis["falsifier"]
        if told is not None:
            assert not satisfies(told["before"], told["op"], told["value"])


def test_no_change_has_to_lower_what_is_zero():
    """Updates in shared memory take no sector of L2, before the change or after it."""
    measured = {"shared_atomic_share": 0.83, "conflict_free_share": 0.1, "update_sector_count": 0.0}
    (told,) = [
        d["falsifier"]
        for d in recommend(program(), measured, device="h200")["diagnoses"]
        if d["bottleneck"] == "atomic-contention"
    ]

    assert (told["metric"], told["op"]) == ("shared_atomic_share", "<=")


def test_a_flag_is_told_by_the_sentence_of_its_gate():
    told = recommend(program(), {"foreign_profile": 1.0}, device="h100-sxm")["gate"]

    assert (told["id"], "foreign_profile" in told["because"]) == ("profile-alone", False)


def test_a_busy_memory_whose_bytes_are_unknown_is_judged_by_the_time():
    """Fewer bytes at the same bandwidth leave it as busy as it was."""
    measured = {"dram_utilization": 0.93, "sm_utilization": 0.2, "profiled_us": 3810.0}
    (told,) = [
        d["falsifier"]
        for d in recommend(program(), measured, device="h100-sxm")["diagnoses"]
        if d["bottleneck"] == "dram-bandwidth-bound"
    ]

    assert (told["metric"], told["op"], told["before"]) == ("profiled_us", "<=", 3810.0)


@given(metrics("cuda"))
@settings(max_examples=25, deadline=None)
def test_the_promise_of_a_diagnosis_is_that_of_one_of_its_fixes(measured):
    for diagnosis in recommend(program(), measured, device="h100-sxm")["diagnoses"]:
        gains = [fix["predicted_speedup"] for fix in diagnosis["fixes"]]

        assert diagnosis["predicted_speedup"] in (None, *gains)


def test_every_diagnosis_has_a_name_of_its_own():
    names = [d["bottleneck"] for d in recommend_for()["diagnoses"]]

    assert len(names) == len(set(names))


def test_no_numbers_at_all_ask_for_a_baseline_first():
    answer = recommend_for()

    assert answer["gate"]["id"] == "no-baseline"
    assert answer["measure_next"][0]["metric"] == "speedup"
    assert answer["headroom"] is None


def test_the_headroom_is_what_was_measured_over_the_floor():
    answer = recommend_for(kernel_us=100.0, floor_us=25.0)

    assert answer["headroom"] == {
        "bound": None, "floor_us": 25.0, "measured_us": 100.0, "attainable_speedup": 4.0
    }  # fmt: skip


@pytest.mark.parametrize(
    ("work", "bound"),
    [
        ({"algorithmic_bytes": 1e9}, "memory"),
        ({"algorithmic_bytes": 1e9, "algorithmic_flop_count": 1e15}, "compute"),
        ({"algorithmic_flop_count": 1e6, "launch_floor_us": 2.0}, "launch"),
    ],
)
def test_the_roof_that_holds_is_named(work, bound):
    answer = recommend_for("h100-sxm", kernel_us=1e6, **work)

    assert answer["headroom"]["bound"] == bound


def test_a_look_alike_that_was_ruled_out_is_named_with_the_number():
    answer = recommend_for(
        dram_utilization=0.91, over_fetch=1.2, sm_utilization=0.3, attainable_speedup=1.3
    )
    (found,) = [d for d in answer["diagnoses"] if d["bottleneck"] == "dram-bandwidth-bound"]

    assert {"bottleneck": "uncoalesced-global-access", "because": "over_fetch 1.2 <= 1.5"} in (
        found["ruled_out"]
    )


def test_an_open_look_alike_costs_confidence():
    sure = recommend_for(
        dram_utilization=0.9, over_fetch=1.02, attainable_speedup=2.0, local_sector_share=0.0
    )
    open_ = recommend_for(dram_utilization=0.9, attainable_speedup=2.0, local_sector_share=0.0)
    confidence = [
        next(d["confidence"] for d in a["diagnoses"] if d["bottleneck"] == "dram-bandwidth-bound")
        for a in (sure, open_)
    ]

    assert confidence == [1.0, 0.8]


def test_a_guard_says_which_number_woke_it():
    answer = recommend_for(speedup=0.6, dram_utilization=0.86, stall_lg_throttle=0.4)
    (row,) = [r for r in answer["suppressed"] if r["guard"] == "dram-saturated"][:1]

    assert row["because"].startswith("dram_utilization 0.86 >= 0.85: ")


def test_the_cpu_is_not_offered_what_only_a_gpu_can_have():
    names = {d["bottleneck"] for d in recommend_for(target="cpu", speedup=0.3)["diagnoses"]}

    assert names == {"cpu-dram-bound", "dispatch-bound", "not-vectorised", "single-threaded"}


def test_a_stop_comes_with_one_command_to_type():
    answer = recommend_for(speedup=0.3, occupancy=0.4)

    commands = [step.line for step in answer["next"] if isinstance(step, ToolCommand)]
    assert commands == [answer["measure_next"][0]["command"]]


def test_a_tiny_grid_ranks_before_memory_bottlenecks():
    answer = recommend_for(
        "l4", dram_utilization=0.04, occupancy=0.08, grid_block_count=2, waves=0.01, correct=1
    )

    assert list_matches(answer)[0] == "small-grid"
    assert "dram-bandwidth-bound" not in list_matches(answer)
    (found,) = [d for d in answer["diagnoses"] if d["bottleneck"] == "small-grid"]
    gain = found["predicted_speedup"]
    assert gain["low"] <= 58 / 2 <= gain["high"]  # as many times as many SMs


def test_more_blocks_do_not_outrun_the_memory_that_is_busy_already():
    """A page as printed: at 0.6 of DRAM, a running maximum with 32 blocks became 1.45x as fast."""
    answer = recommend_for(
        "h100-sxm", grid_block_count=32, waves=0.12, dram_utilization=0.6, sm_utilization=0.06
    )
    (found,) = [d for d in answer["diagnoses"] if d["bottleneck"] == "small-grid"]

    assert found["predicted_speedup"]["point"] == pytest.approx(1 / 0.6, abs=0.01)


def test_halving_the_bytes_at_most_halves_the_time_and_is_not_promised():
    answer = recommend_for(
        "a100-80-sxm", dram_utilization=0.91, occupancy=0.85, over_fetch=1.2, issue_use=0.1
    )
    (found,) = [d for d in answer["diagnoses"] if d["bottleneck"] == "dram-bandwidth-bound"]
    (fix,) = [fix for fix in found["fixes"] if fix["id"] == "reduce-precision"]

    assert 1.5 < fix["predicted_speedup"]["point"] <= 2
    promised = found["predicted_speedup"]
    assert promised is None or promised["point"] <= 1.2  # of reading each byte once


def test_lower_precision_is_not_the_first_fix_for_over_fetch():
    answer = recommend_for(
        dram_utilization=0.88,
        memory_utilization=0.88,
        over_fetch=3.9,
        sector_load_useful_bytes=8,
        sectors_per_load=16,
    )

    assert answer["diagnoses"][0]["fixes"][0]["id"] != "reduce-precision"
    assert "dram-bandwidth-bound" not in list_matches(answer)


def test_no_register_count_is_suggested_for_occupancy_alone():
    fixes = recommend_for(
        "a100-80-sxm",
        limit_registers_block_count=1,
        limit_shared_memory_block_count=8,
        limit_warps_block_count=8,
        limit_blocks_block_count=32,
        theoretical_occupancy=0.125,
        issue_rate=0.25,
        eligible_warps=0.3,
        sm_utilization=0.30,
        memory_utilization=0.20,
        waves=4,
    )["diagnoses"][0]["fixes"]

    assert not any("32 registers" in fix["do"] for fix in fixes)


def test_3x_where_1_4x_is_attainable_suggests_checking_the_timer():
    answer = recommend_for(speedup=3.2, kernel_us=100.0, floor_us=229.0)

    assert answer["gate"]["id"] == "impossible-time"
    assert answer["diagnoses"][0]["bottleneck"] == "timing-artifact"
    assert answer["diagnoses"][0]["predicted_speedup"] is None


def test_a_kernel_of_warp_groups_is_judged_by_how_its_tensor_cores_are_fed():
    answer = recommend_for(
        tensor_utilization=0.35,
        warpgroup_utilization=0.2,
        fma_utilization=0.01,
        dram_utilization=0.15,
        l2_utilization=0.3,
        lsu_wavefront_utilization=0.05,
        issue_rate=0.08,
        stall_long_scoreboard=0.8,
        lanes_per_instruction=20,
        waves=4.0,
    )
    text = "\n".join(format_answer_lines(answer, everything=True))

    matches = [d for d in answer["diagnoses"] if d["verdict"] == "matches"]
    assert [d["bottleneck"] for d in matches] == ["tensor-pipe-underfed"]
    assert "use-wgmma" not in {fix["id"] for fix in matches[0]["fixes"]}
    assert "memory-latency-bound, " in text
    assert "use-wgmma for tensor-pipe-underfed" in text


def test_a_nan_peak_was_not_measured():
    known = {"active_warps": 0.0, "l2_sector_utilization": 0.0, "alu_utilization": 0.0}
    with_nan = {**known, "dram_practical_share": float("nan")}

    assert recommend(program(), with_nan) == recommend(program(), known)


@pytest.mark.parametrize(
    "kernel", ["gemm_fusion_dot_5", "input_multiply_reduce_fusion_2", "loop_add_fusion", "sort_6_1"]
)
def test_a_kernel_that_xla_generated_is_changed_at_its_call(kernel):
    """Names of a step in JAX: its source cannot be edited."""
    assert find_library(program(), kernel)["id"] == "xla-generated"


@pytest.mark.parametrize("kernel", ["sort_rows", "fused_add", "loop_fused(float *)", "gemm_dot_5"])
def test_a_kernel_of_ones_own_is_none_of_xla(kernel):
    assert find_library(program(), kernel) is None


@pytest.mark.parametrize(
    ("kernel", "library"),
    [
        ("void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64>>(Params)", "flash"),
        ("fmha_cutlassF_f16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::Params)", "flash"),
        ("void gemv2T_kernel_val<int, int, float>(T13, T6)", "cublas"),
        ("void implicit_convolve_sgemm<float, float, 1024, 5>(int)", "cudnn"),
        ("flash_fwd(const __half *, float *)", None),
        ("void flash_fwd_kernel<64, 128>(Params)", None),
        ("fmha_decode(const float *)", None),
        ("winograd_forward(const float *)", None),
        ("implicit_convolve(const float *)", None),
        ("gemv2T(const float *)", None),
    ],
)
def test_a_name_that_anybody_may_choose_makes_no_kernel_a_library_s(kernel, library):
    row = find_library(program(), kernel)

    assert (row["id"].split("-")[0] if row else None) == library

"""The whole answer: its contract, its honesty, and figures worked out by hand."""

import json
from typing import get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import facts, metrics, program

from kernelkb.decide import answer as plain
from kernelkb.decide.rank import ranked
from kernelkb.decide.recommend import recommend, recommendation
from kernelkb.model import recommendation as schema

CONTRACT = {
    "kernel", "launch", "device", "gate", "evidence_level", "headroom", "diagnoses", "suppressed",
    "measure_next", "next",
}  # fmt: skip
TWINS = [name for name in vars(plain) if name in vars(schema) and name[0].isupper()]


def ask(device=None, target="cuda", **measured):
    return recommend(program(), measured, target=target, device=device)


def matches(answer):
    return [d["bottleneck"] for d in answer["diagnoses"] if d["verdict"] == "matches"]


@given(metrics())
@settings(max_examples=60, deadline=None)
@pytest.mark.parametrize("target", ["cuda", "cpu"])
def test_every_answer_keeps_the_contract(target, measured):
    answer = recommend(program(), measured, target=target, device="h100-sxm")

    schema.Recommendation.model_validate(recommendation(program(), [answer]), strict=False)


def test_the_keys_are_those_of_the_contract():
    assert set(ask(speedup=0.3)) == CONTRACT | {
        "conclusions",
        "combined_speedup",
        "ncu_rules",
        "open_count",
        "notes",
    }


@pytest.mark.parametrize("name", TWINS)
def test_the_plain_answer_and_its_schema_have_the_same_fields(name):
    fields = set(get_type_hints(getattr(plain, name)))

    assert fields == set(getattr(schema, name).model_fields)


@given(metrics("cuda"))
@settings(max_examples=60, deadline=None)
def test_matches_come_before_unknown(measured):
    verdicts = [d["verdict"] for d in recommend(program(), measured)["diagnoses"]]

    assert verdicts == sorted(verdicts)


@given(metrics("cuda"))
@settings(max_examples=30, deadline=None)
def test_ranking_loses_and_invents_nothing(measured):
    from kernelkb.decide.diagnose import diagnose

    found = diagnose(program(), facts(measured), "cuda").matches
    order = ranked(found, program()["effort"])

    assert sorted(f.row["id"] for f in order) == sorted(f.row["id"] for f in found)


FOUR = ("speedup", "dram_utilization", "occupancy", "kernel_us")
NO_MECHANISM = {"dram-bandwidth-bound", "profiler-mismatch"}


@given(metrics("cuda"))
@settings(max_examples=200, deadline=None)
def test_four_numbers_never_name_a_mechanism(measured):
    four = {name: value for name, value in measured.items() if name in FOUR}

    assert set(matches(recommend(program(), four))) <= NO_MECHANISM


def test_two_numbers_ask_for_the_speed_of_light():
    answer = ask(speedup=0.3, occupancy=0.4)

    assert matches(answer) == []
    assert answer["gate"]["id"] == "stop-and-profile"
    assert "--section SpeedOfLight" in answer["measure_next"][0]["command"]
    assert any("occupancy" in text for text in answer["conclusions"]["cannot"])


def test_an_unknown_cause_gets_no_cure():
    assert all(d["fixes"] == [] for d in ask(speedup=0.3)["diagnoses"])


def test_what_is_known_is_not_asked_for_again():
    asked = {row["metric"] for row in ask(speedup=0.3, waves=4.0)["measure_next"]}

    assert "waves" not in asked


def test_a_wrong_result_gets_no_advice_about_speed():
    answer = ask(correct=0, dram_utilization=0.9, speedup=3.0)

    assert answer["diagnoses"] == []
    assert "dram-bandwidth-bound" in {row["bottleneck"] for row in answer["suppressed"]}


def point(answer, name):
    (found,) = [d for d in answer["diagnoses"] if d["bottleneck"] == name]
    return found["predicted_speedup"]["point"]


def test_t3_busy_with_necessary_bytes_is_told_so():
    answer = ask("a100-80-sxm", dram_utilization=0.91, occupancy=0.85, over_fetch=1.02)
    fixes = [f["id"] for d in answer["diagnoses"] for f in d["fixes"]]

    assert matches(answer)[0] == "near-roofline"
    assert {"fuse-kernels", "reduce-precision"} <= set(fixes)
    assert not {"vectorize-128b", "raise-occupancy"} & set(fixes)


def test_t4_waste_comes_before_the_bandwidth_it_uses():
    answer = ask(
        dram_utilization=0.88,
        memory_utilization=0.88,
        over_fetch=3.9,
        sector_load_useful_bytes=8,
        sectors_per_load=16,
    )

    assert matches(answer)[0] == "uncoalesced-global-access"
    assert point(answer, "uncoalesced-global-access") == pytest.approx(2.1, abs=0.05)


def test_t5_waiting_for_idle_memory_is_latency_and_not_occupancy():
    answer = ask(
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

    assert matches(answer)[0] == "memory-latency-bound"
    assert point(answer, "memory-latency-bound") == pytest.approx(1.59, abs=0.02)
    assert not any("occupancy" in name for name in matches(answer))


def test_t6_registers_cap_the_warps():
    answer = ask(
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
        next_step_warps=4,
        warp_latency_cycles=8,
        waves=4,
    )

    assert matches(answer)[0] == "occupancy-limited-registers"
    assert point(answer, "occupancy-limited-registers") == pytest.approx(1.53, abs=0.01)


def test_t7_one_block_too_many_is_a_tail():
    answer = ask("h100-sxm", waves=133 / 132, grid_block_count=133)

    assert matches(answer) == ["tail-effect"]
    assert point(answer, "tail-effect") == pytest.approx(1 / (1 - 0.8 * 0.496), abs=0.01)


def test_t8_replayed_wavefronts_are_bank_conflicts():
    answer = ask(
        shared_load_wavefront_count=283.0e6, shared_load_conflict_count=247.6e6, l1_utilization=0.88
    )

    assert matches(answer) == ["shared-memory-bank-conflicts"]
    assert point(answer, matches(answer)[0]) == pytest.approx(1 / (1 - 0.8 * 0.77), abs=0.02)


def test_t12_gaps_between_launches_want_a_graph():
    answer = ask(call_us=9.0, kernel_us=4.0)

    assert matches(answer) == ["launch-overhead-bound"]
    assert answer["diagnoses"][0]["fixes"][0]["id"] == "cuda-graph"
    assert point(answer, "launch-overhead-bound") == pytest.approx(1.67, abs=0.02)


def test_t20_an_impossible_speedup_is_not_celebrated():
    answer = ask(speedup=3.2, kernel_us=10.0, floor_us=22.9)

    assert answer["gate"]["verdict"] == "stop"
    assert matches(answer) == ["timing-artifact"]


def test_a_naive_cpu_kernel_gets_both_of_its_causes():
    answer = ask(
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

    assert set(matches(answer)) == {"single-threaded", "not-vectorised"}


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
@settings(max_examples=150, deadline=None)
def test_four_numbers_name_no_mechanism_on_any_gpu(four, device):
    answer = recommend(program(), four, device=device)

    assert set(matches(answer)) <= NO_MECHANISM | MEASUREMENT_OR_SIZE
    assert answer["evidence_level"] in ("L0", "L1")


@given(metrics(), st.sampled_from(["cpu", "cuda"]))
@settings(max_examples=60, deadline=None)
def test_nothing_is_advised_about_a_wrong_result(measured, target):
    answer = recommend(program(), {**measured, "correct": 0.0}, target=target, device="l4")

    assert answer["gate"]["id"] == "incorrect"
    assert matches(answer) == []


@given(metrics(), st.data())
@settings(max_examples=60, deadline=None)
def test_nan_is_the_same_as_not_measured(measured, data):
    silent = data.draw(st.sets(st.sampled_from(sorted(program()["metrics"])))) - set(measured)
    padded = {**measured, **dict.fromkeys(silent, float("nan"))}

    assert recommend(program(), padded) == recommend(program(), measured)


def test_a_counter_that_said_nothing_lifts_no_level_of_evidence():
    assert ask(speedup=0.3, sector_load_useful_bytes=float("nan"))["evidence_level"] == "L0"


@given(metrics(), st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_the_order_of_the_metrics_does_not_matter(measured, draw):
    names = list(measured)
    draw.shuffle(names)
    mixed = {name: measured[name] for name in names}

    assert recommend(program(), mixed) == recommend(program(), measured)


@given(metrics())
@settings(max_examples=30, deadline=None)
def test_deciding_changes_nothing_that_it_was_given(measured):
    before = (json.dumps(program()), dict(measured))
    recommend(program(), measured, device="h100-sxm")

    assert (json.dumps(program()), measured) == before


def extreme(row):
    top = row["high"] if row["high"] is not None else 1e308
    return st.sampled_from(sorted({row["low"], min(1.0, top), top}))


EXTREMES = {name: extreme(row) for name, row in program()["metrics"].items()}


@given(st.fixed_dictionaries({}, optional=EXTREMES), st.sampled_from(["cpu", "cuda"]))
@settings(max_examples=150, deadline=None)
def test_every_answer_is_json_even_at_the_edges_of_what_can_be_measured(measured, target):
    json.dumps(recommend(program(), measured, target=target, device="l4"), allow_nan=False)


@pytest.mark.parametrize(
    "measured",
    [
        {"kernel_us": 1e308, "floor_us": 1e-300},
        {"kernel_us": 1e308, "algorithmic_bytes": 1.0, "copy_peak_gbps": 1e300},
    ],
)
def test_a_distance_beyond_all_numbers_is_unknown(measured):
    json.dumps(ask(**measured), allow_nan=False)


@given(metrics("cuda"))
@settings(max_examples=60, deadline=None)
def test_every_confidence_is_a_share_and_that_of_the_unknown_is_none(measured):
    for diagnosis in recommend(program(), measured)["diagnoses"]:
        if diagnosis["verdict"] == "unknown":
            assert diagnosis["confidence"] == 0
        else:
            assert 0 < diagnosis["confidence"] <= 1


@given(metrics("cuda"))
@settings(max_examples=60, deadline=None)
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
@settings(max_examples=60, deadline=None)
def test_the_reason_of_a_match_was_measured(measured):
    for diagnosis in recommend(program(), measured, device="l4")["diagnoses"]:
        for reason in diagnosis["because"]:
            assert reason["source"]


def test_every_diagnosis_has_a_name_of_its_own():
    names = [d["bottleneck"] for d in ask()["diagnoses"]]

    assert len(names) == len(set(names))


def test_no_numbers_at_all_ask_for_a_baseline_first():
    answer = ask()

    assert answer["gate"]["id"] == "no-baseline"
    assert answer["measure_next"][0]["metric"] == "speedup"
    assert answer["headroom"] is None


def test_the_headroom_is_what_was_measured_over_the_floor():
    answer = ask(kernel_us=100.0, floor_us=25.0)

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
    answer = ask("h100-sxm", kernel_us=1e6, **work)

    assert answer["headroom"]["bound"] == bound


def test_a_look_alike_that_was_ruled_out_is_named_with_the_number():
    answer = ask(dram_utilization=0.91, over_fetch=1.02, sm_utilization=0.3, attainable_speedup=1.3)
    (found,) = [d for d in answer["diagnoses"] if d["bottleneck"] == "dram-bandwidth-bound"]

    assert {"bottleneck": "uncoalesced-global-access", "because": "over_fetch 1.02 <= 1.5"} in (
        found["ruled_out"]
    )


def test_an_open_look_alike_costs_confidence():
    sure = ask(
        dram_utilization=0.9, over_fetch=1.02, attainable_speedup=2.0, local_sector_share=0.0
    )
    open_ = ask(dram_utilization=0.9, attainable_speedup=2.0, local_sector_share=0.0)
    confidence = [
        next(d["confidence"] for d in a["diagnoses"] if d["bottleneck"] == "dram-bandwidth-bound")
        for a in (sure, open_)
    ]

    assert confidence == [1.0, 0.8]


def test_a_guard_says_which_number_woke_it():
    answer = ask(speedup=0.6, dram_utilization=0.86, stall_lg_throttle=0.4)
    (row,) = [r for r in answer["suppressed"] if r["guard"] == "dram-saturated"][:1]

    assert row["because"].startswith("dram_utilization 0.86 >= 0.85: ")


def test_the_cpu_is_not_offered_what_only_a_gpu_can_have():
    names = {d["bottleneck"] for d in ask(target="cpu", speedup=0.3)["diagnoses"]}

    assert names == {"cpu-dram-bound", "dispatch-bound", "not-vectorised", "single-threaded"}


def test_a_stop_comes_with_one_command_to_type():
    answer = ask(speedup=0.3, occupancy=0.4)

    assert answer["next"].count(answer["measure_next"][0]["command"]) == 1


def test_t2_a_tiny_grid_is_named_before_anything_about_memory():
    answer = ask(
        "l4", dram_utilization=0.04, occupancy=0.08, grid_block_count=2, waves=0.01, correct=1
    )

    assert matches(answer)[0] == "small-grid"
    assert "dram-bandwidth-bound" not in matches(answer)
    assert point(answer, "small-grid") == pytest.approx(1 / (1 - 0.8 * 0.966), abs=0.05)


def test_t3_halved_bytes_are_worth_at_most_one_point_eight():
    answer = ask("a100-80-sxm", dram_utilization=0.91, occupancy=0.85, over_fetch=1.02)
    (found,) = [d for d in answer["diagnoses"] if d["bottleneck"] == "dram-bandwidth-bound"]

    assert found["predicted_speedup"]["high"] == pytest.approx(1 / (1 - 0.455), abs=0.01)


def test_t4_smaller_types_are_not_the_first_cure_of_waste():
    answer = ask(
        dram_utilization=0.88,
        memory_utilization=0.88,
        over_fetch=3.9,
        sector_load_useful_bytes=8,
        sectors_per_load=16,
    )

    assert answer["diagnoses"][0]["fixes"][0]["id"] != "reduce-precision"
    assert "dram-bandwidth-bound" not in matches(answer)


def test_t6_nobody_is_told_a_register_count_that_occupancy_alone_would_want():
    fixes = ask(
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


def test_t20_three_times_where_one_point_four_is_possible_wants_the_timer_checked():
    answer = ask(speedup=3.2, kernel_us=100.0, floor_us=229.0)

    assert answer["gate"]["id"] == "impossible-time"
    assert answer["diagnoses"][0]["bottleneck"] == "timing-artifact"
    assert answer["diagnoses"][0]["predicted_speedup"] is None

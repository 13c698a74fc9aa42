"""What a change gave is said only where two benches can be divided."""

from pathlib import Path

import pytest
from session_histories import is_known, make_decision, make_session
from shipped_rules import knowledge, program

from kernelkb.actions.history import outcomes
from kernelkb.actions.history.outcomes import (
    FixVariant,
    are_comparable,
    choose_fix_variant,
    compare_to_prediction,
    make_decisions,
    predict_combined_speedup,
)
from kernelkb.actions.kernels.triage import drop_noisy_speedup
from kernelkb.cli.screen import print_triage
from kernelkb.decide.recommend import recommend
from kernelkb.graph.compile import compile_rules
from kernelkb.loading.kernels import load_kernel
from kernelkb.measure.bench.bench_verdict import find_disturbance
from kernelkb.measure.bench.statistics import FilteredPairs, Speedup
from kernelkb.model.answers.triage import Triage, VariantResult
from kernelkb.model.entries.learned import PRIOR_SHARE, LearnedCatalogue
from kernelkb.model.kernels.kernel import Variant
from kernelkb.model.records.measurement import DISTURBANCE_TEXT, Bench, Clocks, Profile
from kernelkb.profiles.launch import list_raw_names
from kernelkb.profiles.ncu_csv import read_raw_page
from kernelkb.record.learn import learn_from_sessions
from kernelkb.record.measurements.compare import find_noise_reason

ROOT = Path(__file__).parents[2]

PAIRS = [None] * 10  # only their number counts
CLOCKS = Clocks(
    sm_mhz=(600, 700), sm_max_mhz=1980, temperature_c=90, power_w=600, throttled=("heat",)
)
EXACT, WIDE = Speedup(1, 1, 1), Speedup(1, 0.4, 2)
FAST_VARIANT = Variant(id="fast", target="cpu", language="c++", source="fast.cpp", summary="fast")
CHOICE = FixVariant(FAST_VARIANT, ())


def make_result(variant, speedup, interval, verdict="slower", **more):
    timed = Bench(
        kernel="k",
        variant=variant,
        target="cpu",
        workload="small",
        verdict=verdict,
        candidate_us=100.0,
        speedup=speedup,
        interval=interval,
        metrics={"speedup": speedup, "correct": 1.0},
        seconds=1.0,
        **more,
    )
    return VariantResult(variant=variant, bench=timed)


SLOW_RESULT = make_result("slow", 0.5, (0.4, 0.6))


def test_benches_next_to_the_same_baseline_are_divided():
    found = compare_to_prediction(
        SLOW_RESULT, make_result("fast", 2.0, (1.8, 2.4), "faster"), CHOICE
    )

    assert found.measured == pytest.approx(4.0)
    assert found.interval == pytest.approx((3.0, 6.0))
    assert found.confirmed is True
    assert found.unmeasured is None


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"baseline": "torch.compile"}, "slow was timed against torch, fast against torch.compile"),
        ({"timing": "graph"}, "slow was timed call by call, fast in a CUDA graph"),
    ],
)
def test_benches_next_to_different_clocks_are_not_divided(more, words):
    before = make_result("slow", 0.5, (0.4, 0.6), timing="eager")
    after = make_result("fast", 2.0, (1.8, 2.4), "faster", **{"timing": "eager", **more})
    found = compare_to_prediction(before, after, CHOICE)

    assert (found.measured, found.interval, found.confirmed) == (None, None, None)
    assert found.unmeasured == words


def test_a_direct_comparison_replaces_incomparable_benches():
    after = make_result("fast", 2.0, (1.8, 2.4), "faster", baseline="torch.compile")
    duel = make_result("fast", 3.9, (3.8, 4.0), "faster", baseline="variant slow").bench
    found = compare_to_prediction(SLOW_RESULT, after, CHOICE, duel)

    assert not are_comparable(SLOW_RESULT, after)
    assert (found.measured, found.interval) == (3.9, (3.8, 4.0))
    assert found.confirmed is True
    assert found.unmeasured is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"verdict": "invalid"}, "slow was timed against torch, fast against torch.compile"),
        (
            {"verdict": "inconclusive", "disturbed_by": "cpu-contention"},
            DISTURBANCE_TEXT["cpu-contention"],
        ),
    ],
)
def test_an_unusable_direct_comparison_leaves_the_fix_unmeasured(change, words):
    after = make_result("fast", 2.0, (1.8, 2.4), "faster", baseline="torch.compile")
    duel = make_result("fast", 3.9, (3.8, 4.0), "faster").bench.model_copy(update=change)
    found = compare_to_prediction(SLOW_RESULT, after, CHOICE, duel)

    assert (found.measured, found.confirmed) == (None, None)
    assert found.unmeasured == words


def test_a_disturbed_bench_gets_no_direct_comparison():
    change = {"verdict": "inconclusive", "disturbed_by": "cpu-contention"}
    change["baseline"] = "torch.compile"
    bench = SLOW_RESULT.bench.model_copy(update=change)

    assert are_comparable(SLOW_RESULT.model_copy(update={"bench": bench}), SLOW_RESULT)


@pytest.mark.parametrize("disturbance", DISTURBANCE_TEXT)
@pytest.mark.parametrize("which", [0, 1])
def test_a_bench_that_was_disturbed_measures_nothing(which, disturbance):
    benches = [SLOW_RESULT, make_result("fast", 2.0, (1.8, 2.4), "faster")]
    change = {"verdict": "inconclusive", "disturbed_by": disturbance}
    bench = benches[which].bench.model_copy(update=change)
    benches[which] = benches[which].model_copy(update={"bench": bench})
    found = compare_to_prediction(*benches, CHOICE)

    assert (found.measured, found.confirmed) == (None, None)
    assert found.unmeasured == f"{benches[which].variant}: {DISTURBANCE_TEXT[disturbance]}"


@pytest.mark.parametrize(
    ("pairs", "speedup", "clocks", "disturbance"),
    [
        (FilteredPairs(PAIRS, PAIRS, PAIRS), EXACT, CLOCKS, None),
        (FilteredPairs(PAIRS, PAIRS, PAIRS[:1]), EXACT, None, "cpu-contention"),
        (FilteredPairs(PAIRS, PAIRS, PAIRS), WIDE, None, "unsteady-times"),
        (FilteredPairs(PAIRS, PAIRS, PAIRS[:1], 9), EXACT, CLOCKS, "gpu-contention"),
        (FilteredPairs(PAIRS, [], []), EXACT, CLOCKS, "thermal"),
        (FilteredPairs(PAIRS, [], []), WIDE, CLOCKS, "thermal"),
    ],
)
def test_what_disturbed_a_bench_follows_from_its_pairs(pairs, speedup, clocks, disturbance):
    assert find_disturbance(pairs, speedup, clocks) == disturbance


def make_gain(low, point, high):
    return {"low": low, "point": point, "high": high}


def make_diagnosis(bottleneck="b", gain=None, falsifier=None, **fix_gains):
    """A diagnosis whose fixes have these gains."""
    fixes = [
        {"id": name.replace("_", "-"), "predicted_speedup": value}
        for name, value in fix_gains.items()
    ]
    return {
        "bottleneck": bottleneck,
        "verdict": "matches",
        "predicted_speedup": gain,
        "fixes": fixes,
        "falsifier": falsifier,
        "learned": None,
        "lines": None,
    }


@pytest.mark.parametrize(
    ("gain", "said"),
    [
        (make_gain(3.0, 3.5, 4.5), "inside"),
        (make_gain(4.5, 5.0, 9.0), "below"),
        (make_gain(1.0, 2.0, 3.5), "above"),
        (None, None),
    ],
)
def test_a_gain_is_judged_by_the_predicted_interval(gain, said):
    choice = FixVariant(FAST_VARIANT, ((make_diagnosis(the_fix=gain), "the-fix"),))
    found = compare_to_prediction(
        SLOW_RESULT, make_result("fast", 2.0, (1.8, 2.4), "faster"), choice
    )

    assert found.measured == pytest.approx(4.0)
    assert (found.predicted, found.gain) == (gain, said)


def add_profile(result, **metrics):
    profile = Profile(
        kernel="k",
        variant=result.variant,
        target="cpu",
        workload="small",
        tool="ncu",
        metrics=metrics,
        seconds=1.0,
    )
    return result.model_copy(update={"profile": profile})


EXPECTED = {"metric": "waves", "op": ">=", "value": 1.0, "before": 0.5, "expect": "waves >= 1"}


@pytest.mark.parametrize(
    ("after", "cause"), [({"waves": 2.0}, "confirmed"), ({"waves": 0.6}, "refuted"), ({}, None)]
)
def test_a_cause_is_judged_by_its_falsifier_and_not_by_the_gain(after, cause):
    choice = FixVariant(FAST_VARIANT, ((make_diagnosis(falsifier=EXPECTED), "the-fix"),))
    slower = make_result("fast", 0.4, (0.38, 0.42))
    found = compare_to_prediction(
        add_profile(SLOW_RESULT, waves=0.5), add_profile(slower, **after), choice
    )

    assert (found.cause, found.confirmed) == (cause, False)


def test_without_profiles_nothing_is_said_about_the_cause():
    choice = FixVariant(FAST_VARIANT, ((make_diagnosis(falsifier=EXPECTED), "the-fix"),))
    found = compare_to_prediction(SLOW_RESULT, make_result("fast", 2.0, (1.8, 2.4)), choice)

    assert found.cause is None


def test_fixes_that_cure_all_causes_are_predicted_together():
    gain, both = make_gain(1.0, 1.5, 2.0), make_gain(2.0, 4.0, 8.0)
    diagnoses = [make_diagnosis("a", gain, one=gain), make_diagnosis("b", gain, other=gain)]
    answer = {"combined_speedup": {**both, "bottlenecks": ["a", "b"]}}
    whole = FixVariant(FAST_VARIANT, ((diagnoses[0], "one"), (diagnoses[1], "other")))
    part = FixVariant(FAST_VARIANT, ((diagnoses[0], "one"),))

    assert predict_combined_speedup(whole, answer) == both
    assert predict_combined_speedup(part, answer) == gain
    assert predict_combined_speedup(whole, None) == gain


def test_a_decision_records_the_prediction_of_its_own_fix():
    own, best = make_gain(1.0, 1.1, 1.2), make_gain(4.0, 8.0, 16.0)
    diagnosis = make_diagnosis(gain=best, best_fix=best, own_fix=own)
    choice = FixVariant(FAST_VARIANT, ((diagnosis, "own-fix"),))
    (decision,) = make_decisions(choice, None, SLOW_RESULT, SLOW_RESULT)

    assert decision.predicted == (1.0, 1.1, 1.2)


def test_an_inconclusive_bench_still_gives_a_ratio():
    found = compare_to_prediction(
        SLOW_RESULT, make_result("fast", 1.0, (0.99, 1.01), "inconclusive"), CHOICE
    )

    assert found.measured == pytest.approx(2.0)
    assert found.confirmed is True


def test_an_interval_the_judge_cannot_separate_from_1_includes_1():
    """Only the runner's own clock excluded 1; the judge's did not see that."""
    before = make_result("slow", 1.0, (0.99, 1.005), "inconclusive")
    found = compare_to_prediction(
        before, make_result("fast", 1.04, (1.03, 1.05), "inconclusive"), CHOICE
    )

    assert found.interval[0] < 1
    assert found.confirmed is False


def test_an_invalid_bench_is_not_compared_although_it_has_numbers():
    assert (
        compare_to_prediction(
            SLOW_RESULT, make_result("fast", 50.0, (49.0, 51.0), "invalid"), CHOICE
        )
        is None
    )


def test_a_disturbed_bench_gives_the_gate_no_speedup():
    timed = make_result(
        "fast", 0.3, (0.1, 0.9), "inconclusive", disturbed_by="cpu-contention"
    ).bench

    assert drop_noisy_speedup(timed).metrics == {"correct": 1.0, "noisy_timing": 1.0}
    assert drop_noisy_speedup(SLOW_RESULT.bench) is SLOW_RESULT.bench


def test_a_warning_about_few_pairs_does_not_undo_a_verdict():
    timed = make_result("fast", 3.0, (1.5, 4.0), "faster", disturbed_by="cpu-contention").bench

    assert find_noise_reason(timed) is None


def make_triage(*examined):
    return Triage(
        kernel="k",
        target="cpu",
        machine=None,
        steps=(),
        examined=examined,
        followed=compare_to_prediction(*examined, CHOICE),
        outcome="done",
        seconds=1.0,
    )


def test_the_end_names_the_baseline_that_each_was_timed_next_to(capsys):
    print_triage(
        make_triage(
            SLOW_RESULT, make_result("fast", 2.0, (1.8, 2.4), "faster", baseline="sdpa-flash")
        )
    )

    out = capsys.readouterr().out
    assert "0.5x of torch [0.4, 0.6]" in out
    assert "2x of sdpa-flash [1.8, 2.4]" in out
    assert "not measured: slow was timed against torch, fast against sdpa-flash" in out
    assert "confirmed" not in out


PAGE = ROOT / "tests" / "data" / "ncu" / "row_softmax_full.csv"


def recommend_scattered_loads(taught):
    """What a program says of a kernel whose loads are scattered."""
    (launch,) = read_raw_page(PAGE.read_text(), list_raw_names(taught))
    return recommend(taught, launch.metrics, device="h100-sxm")


def log_decision(taught, monkeypatch):
    """The decision that a session records of the variant that remaps the threads."""
    monkeypatch.setattr(outcomes, "load_compiled_rules", lambda: taught)
    applies = ("remap-threads-coalesced", "vectorize-128b", "tile-into-smem")
    mine = Variant(id="slow", target="cuda", language="cuda", source="a.cu", summary="slow")
    given = {"id": "fast", "applies": applies}
    kernel = load_kernel("row_softmax", ROOT).kernel
    variants = (mine.model_copy(update={"applies": applies[1:2]}), mine.model_copy(update=given))
    kernel = kernel.model_copy(update={"variants": variants})
    choice = choose_fix_variant(kernel, variants[0], recommend_scattered_loads(taught))
    (decision,) = make_decisions(choice, None, SLOW_RESULT, SLOW_RESULT)
    return decision


def test_a_decision_records_the_calibration_it_used(monkeypatch):
    unlearned = compile_rules(knowledge().model_copy(update={"learned": LearnedCatalogue()}))
    lesson = learn_from_sessions([make_session("s", make_decision(share=0.2))], is_known)
    taught = compile_rules(knowledge().model_copy(update={"learned": lesson}))

    assert log_decision(unlearned, monkeypatch).calibration == PRIOR_SHARE
    assert log_decision(taught, monkeypatch).calibration == pytest.approx((0.2 + 5) / 6, abs=1e-4)


def test_a_decision_lists_the_other_fixes_of_the_variant(monkeypatch):
    assert log_decision(program(), monkeypatch).together == ("tile-into-smem",)

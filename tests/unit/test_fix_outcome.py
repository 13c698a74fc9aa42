"""What a change gave is said only where two benches can be divided."""

from pathlib import Path

import pytest
from programs import knowledge, program
from session_histories import PRIORS, decision, kind_of, session

from kernelkb.actions import fix_outcome
from kernelkb.actions.evaluate_variant import settled
from kernelkb.actions.fix_outcome import Choice, choose, comparable, compare, decisions, disturbed
from kernelkb.cli.screen import triage_end
from kernelkb.decide.recommend import recommend
from kernelkb.graph.compile import flatten
from kernelkb.loading.kernels import load_kernel
from kernelkb.measure.bench_verdict import _of_heat, _of_others
from kernelkb.measure.statistics import Speedup
from kernelkb.measure.timing_analysis import Sifted
from kernelkb.model.kernel import Variant
from kernelkb.model.learned import Learned
from kernelkb.model.measurement import Bench, Clocks
from kernelkb.model.recommendation import KernelAnswer
from kernelkb.model.triage import Examined, Triage
from kernelkb.record.learn import learned

ROOT = Path(__file__).parents[2]

PAIRS = [None] * 10  # only how many they are is said
(CROWDED,) = _of_others(Sifted(PAIRS, PAIRS, PAIRS[:1]), Speedup(1, 1, 1))
(SHARED,) = _of_others(Sifted(PAIRS, PAIRS, PAIRS[:1], 9), Speedup(1, 1, 1))
CLOCKS = Clocks(
    sm_mhz=(600, 700), sm_max_mhz=1980, temperature_c=90, power_w=600, throttled=("heat",)
)
(HOT,) = _of_heat(Sifted(PAIRS, [], []), CLOCKS)
FAST = Variant(id="fast", target="cpu", language="c++", source="fast.cpp", summary="fast")
CHOICE = Choice(FAST, ())


def seen(variant, speedup, interval, verdict="slower", **more):
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
    return Examined(variant=variant, bench=timed)


SLOW = seen("slow", 0.5, (0.4, 0.6))


def test_benches_next_to_the_same_baseline_are_divided():
    found = compare(SLOW, seen("fast", 2.0, (1.8, 2.4), "faster"), CHOICE)

    assert found.measured == pytest.approx(4.0)
    assert found.interval == pytest.approx((3.0, 6.0))
    assert found.confirmed is True
    assert found.unmeasured is None


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"baseline": "torch.compile"}, "slow was timed next to torch, fast next to torch.compile"),
        ({"timing": "graph"}, "slow was timed call by call, fast in a CUDA graph"),
    ],
)
def test_benches_next_to_different_clocks_are_not_divided(more, words):
    before = seen("slow", 0.5, (0.4, 0.6), timing="eager")
    after = seen("fast", 2.0, (1.8, 2.4), "faster", **{"timing": "eager", **more})
    found = compare(before, after, CHOICE)

    assert (found.measured, found.interval, found.confirmed) == (None, None, None)
    assert found.unmeasured == words


def test_a_duel_says_what_two_benches_cannot():
    after = seen("fast", 2.0, (1.8, 2.4), "faster", baseline="torch.compile")
    duel = seen("fast", 3.9, (3.8, 4.0), "faster", baseline="variant slow").bench
    found = compare(SLOW, after, CHOICE, duel)

    assert not comparable(SLOW, after)
    assert (found.measured, found.interval) == (3.9, (3.8, 4.0))
    assert found.confirmed is True
    assert found.unmeasured is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"verdict": "invalid"}, "slow was timed next to torch, fast next to torch.compile"),
        ({"verdict": "inconclusive", "warnings": (CROWDED,)}, CROWDED),
    ],
)
def test_a_duel_that_tells_nothing_leaves_it_unmeasured(change, words):
    after = seen("fast", 2.0, (1.8, 2.4), "faster", baseline="torch.compile")
    duel = seen("fast", 3.9, (3.8, 4.0), "faster").bench.model_copy(update=change)
    found = compare(SLOW, after, CHOICE, duel)

    assert (found.measured, found.confirmed) == (None, None)
    assert found.unmeasured == words


def test_there_is_no_duel_after_a_disturbed_bench():
    told = {"verdict": "inconclusive", "warnings": (CROWDED,), "baseline": "torch.compile"}
    bench = SLOW.bench.model_copy(update=told)

    assert comparable(SLOW.model_copy(update={"bench": bench}), SLOW)


@pytest.mark.parametrize("warning", [CROWDED, HOT, SHARED])
@pytest.mark.parametrize("which", [0, 1])
def test_a_bench_that_was_disturbed_measures_nothing(which, warning):
    benches = [SLOW, seen("fast", 2.0, (1.8, 2.4), "faster")]
    told = {"verdict": "inconclusive", "warnings": (warning,)}
    bench = benches[which].bench.model_copy(update=told)
    benches[which] = benches[which].model_copy(update={"bench": bench})
    found = compare(*benches, CHOICE)

    assert (found.measured, found.confirmed) == (None, None)
    assert found.unmeasured == f"{benches[which].variant}: {warning}"


def test_no_difference_from_the_baseline_is_a_number_too():
    found = compare(SLOW, seen("fast", 1.0, (0.99, 1.01), "inconclusive"), CHOICE)

    assert found.measured == pytest.approx(2.0)
    assert found.confirmed is True


def test_what_the_judge_could_not_tell_from_1_reaches_to_1():
    """Only the runner's own clock excluded 1; the judge's did not see that."""
    before = seen("slow", 1.0, (0.99, 1.005), "inconclusive")
    found = compare(before, seen("fast", 1.04, (1.03, 1.05), "inconclusive"), CHOICE)

    assert found.interval[0] < 1
    assert found.confirmed is False


def test_an_invalid_bench_is_not_compared_although_it_has_numbers():
    assert compare(SLOW, seen("fast", 50.0, (49.0, 51.0), "invalid"), CHOICE) is None


def test_a_disturbed_bench_tells_the_gate_no_speedup():
    timed = seen("fast", 0.3, (0.1, 0.9), "inconclusive", warnings=(CROWDED,)).bench

    assert settled(timed).metrics == {"correct": 1.0}
    assert settled(SLOW.bench) is SLOW.bench


def test_a_warning_about_few_pairs_does_not_undo_a_verdict():
    timed = seen("fast", 3.0, (1.5, 4.0), "faster", warnings=(CROWDED,)).bench

    assert disturbed(timed) is None


def ended(*examined):
    return Triage(
        kernel="k",
        target="cpu",
        machine=None,
        steps=(),
        examined=examined,
        followed=compare(*examined, CHOICE),
        outcome="done",
        seconds=1.0,
    )


def test_the_end_names_the_baseline_that_each_was_timed_next_to(capsys):
    triage_end(ended(SLOW, seen("fast", 2.0, (1.8, 2.4), "faster", baseline="sdpa-flash")))

    out = capsys.readouterr().out
    assert "0.5x of torch [0.4, 0.6]" in out
    assert "2x of sdpa-flash [1.8, 2.4]" in out
    assert "not measured: slow was timed next to torch, fast next to sdpa-flash" in out
    assert "confirmed" not in out


GIVEN = {"sector_load_useful_bytes": 8.0, "load_sector_count": 4e6, "load_request_count": 2.5e5}


def answered(taught):
    """What a program says of a kernel whose loads are scattered."""
    known = {**GIVEN, "l2_utilization": 0.5}
    return KernelAnswer.model_validate(recommend(taught, known, device="h100-sxm"))


def decided(taught, monkeypatch):
    """The decision that a session records of the variant that remaps the threads."""
    monkeypatch.setattr(fix_outcome, "decision_program", lambda: taught)
    applies = ("remap-threads-coalesced", "vectorize-128b", "tile-into-smem")
    mine = Variant(id="slow", target="cuda", language="cuda", source="a.cu", summary="slow")
    given = {"id": "fast", "applies": applies}
    kernel = load_kernel("row_softmax", ROOT).kernel
    variants = (mine.model_copy(update={"applies": applies[1:2]}), mine.model_copy(update=given))
    kernel = kernel.model_copy(update={"variants": variants})
    choice = choose(kernel, variants[0], answered(taught))
    (decision,) = decisions(choice, None, SLOW, SLOW)
    return decision


def test_a_decision_remembers_the_share_that_was_taken_for_granted(monkeypatch):
    unlearned = flatten(knowledge().model_copy(update={"learned": Learned()}))
    lesson = learned([session("s", decision(share=0.2))], PRIORS, kind_of)
    taught = flatten(knowledge().model_copy(update={"learned": lesson}))

    assert decided(unlearned, monkeypatch).calibration == 0.8
    assert decided(taught, monkeypatch).calibration == 0.7


def test_a_decision_names_what_else_the_variant_changed(monkeypatch):
    assert decided(program(), monkeypatch).together == ("tile-into-smem",)

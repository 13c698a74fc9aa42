"""Two measurements next to each other: a ratio with its interval, or why there is none."""

import random
from datetime import UTC, datetime
from math import exp, log
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelkb.measure.bench_verdict import CROWDED
from kernelkb.measure.statistics import paired_speedup
from kernelkb.model.history import Subject
from kernelkb.record.measurements.compare import compare
from kernelkb.record.measurements.identity import identified

AT = datetime(2026, 11, 21, tzinfo=UTC)


def timed(variant, samples=(), *, baseline="torch", judge="1.0", device="A CPU", **fields):
    """A bench with these pairs of times."""
    subject = Subject(
        kernel="row_softmax",
        variant=variant,
        target="cpu",
        workload="medium",
        sources={"naive.cpp": variant},
        device=device,
        environment={"torch": fields.pop("torch", "2.9")},
        judge=judge,
    )
    if samples:
        found = paired_speedup(*zip(*samples, strict=True))
        fields = {"speedup": found.point, "interval": (found.low, found.high), **fields}
    given = {"verdict": "faster", "candidate_us": 1.0, "timing": "eager", **fields}
    return identified("bench", AT, subject, baseline=baseline, samples=samples, **given)


def pairs(speedup, count=101, noise=0.02, seed=0):
    draw = random.Random(seed)
    return tuple((1.0, speedup * exp(draw.gauss(0, noise))) for _ in range(count))


def test_next_to_the_same_baseline_the_paired_ratios_are_divided():
    found = compare(timed("naive", pairs(2.0)), timed("vectorized", pairs(3.0, seed=1)))

    assert found.by == "same-baseline"
    assert found.ratio == pytest.approx(1.5, rel=0.01)
    assert found.interval[0] < found.ratio < found.interval[1]


def test_the_other_way_round_it_is_the_inverse():
    a, b = timed("naive", pairs(2.0)), timed("vectorized", pairs(3.0, seed=1))

    assert compare(b, a).ratio == pytest.approx(1 / compare(a, b).ratio)


def test_a_pair_that_was_timed_in_turn_needs_no_third():
    a = timed("naive", pairs(2.0))
    b = timed(
        "vectorized",
        pairs(1.4, seed=1),
        baseline="variant naive",
        baseline_sources={"naive.cpp": "naive"},
    )
    forth, back = compare(a, b), compare(b, a)

    assert (forth.by, forth.ratio, forth.interval) == ("direct", b.speedup, b.interval)
    assert back.interval == (1 / b.interval[1], 1 / b.interval[0])


def test_a_baseline_that_was_changed_since_is_not_the_same_thing():
    a = timed("naive", pairs(2.0))
    old = {"naive.cpp": "as it was"}
    b = timed("vectorized", pairs(1.4, seed=1), baseline="variant naive", baseline_sources=old)

    assert compare(a, b).ratio is None
    assert "naive had other sources when it was the baseline" in compare(a, b).because


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"baseline": "torch.compile"}, "next to different things: torch and torch.compile"),
        ({"judge": "0.9"}, "their judge differs: 1.0 and 0.9"),
        ({"device": "A GPU"}, "their device differs: A CPU and A GPU"),
        ({"timing": "graph"}, "timed in different ways: eager and graph"),
        ({"torch": "2.8"}, "different releases of torch: 2.9 and 2.8"),
        ({"verdict": "incorrect", "candidate_us": None}, "is incorrect"),
        (
            {"verdict": "inconclusive", "warnings": (f"{CROWDED} in 9 of 9 pairs",)},
            "is no fair sample: threads waited for cores",
        ),
    ],
)
def test_without_common_ground_there_is_no_ratio_but_a_command(other, why):
    found = compare(timed("naive", pairs(2.0)), timed("vectorized", pairs(3.0), **other))

    assert (found.ratio, found.interval) == (None, None)
    assert why in found.because
    assert found.command == (
        "kb bench row_softmax --variant vectorized --target cpu --workload medium --against naive"
    )


def test_what_came_without_samples_is_not_compared():
    found = compare(timed("naive", pairs(2.0)), timed("vectorized", speedup=3.0))

    assert found.ratio is None
    assert "came without its samples" in found.because


def test_few_pairs_make_no_interval():
    found = compare(timed("naive", pairs(2.0)), timed("vectorized", pairs(3.0, count=4)))

    assert found.ratio is None
    assert "has 4 pairs, too few" in found.because


def test_a_measurement_is_not_compared_with_itself():
    one = timed("naive", pairs(2.0))

    assert compare(one, one).because == "they are one measurement"


def test_what_the_judge_could_not_know_stays_in_the_interval():
    a, sure = timed("naive", pairs(2.0)), timed("vectorized", pairs(3.0, seed=1))
    unsure = timed("vectorized", pairs(3.0, seed=1), interval=(2.7, 3.3))

    assert compare(a, unsure).interval[0] < compare(a, sure).interval[0] * 0.95
    assert compare(a, unsure).interval[1] > compare(a, sure).interval[1] * 1.05


@pytest.mark.parametrize("count", [15, 16, 64, 101])
def test_the_fast_bootstrap_is_that_of_the_benches(count):
    """Over a baseline that never varies, the ratio's interval is that of one bench alone."""
    varied, steady = pairs(2.0, count, 0.1), tuple((1.0, 1.0) for _ in range(count))
    low, high = compare(timed("naive", steady), timed("vectorized", varied)).interval
    slow = paired_speedup(*zip(*varied, strict=True))

    width = log(slow.high / slow.low)
    assert log(low / slow.low) == pytest.approx(0, abs=0.15 * width)
    assert log(high / slow.high) == pytest.approx(0, abs=0.15 * width)


def test_the_interval_holds_the_truth_about_as_often_as_it_says():
    held = 0
    for seed in range(200):
        a = timed("naive", pairs(2.0, 31, 0.05, 2 * seed))
        b = timed("vectorized", pairs(3.0, 31, 0.05, 2 * seed + 1))
        low, high = compare(a, b).interval
        held += low <= 1.5 <= high

    assert held >= 182, "91 %: below the 1st percentile of 200 draws at 95 %"


TIMES = st.floats(min_value=0.1, max_value=1e4)


@settings(max_examples=50)
@given(st.lists(st.tuples(TIMES, TIMES), min_size=5, max_size=40))
def test_the_ratio_lies_in_its_interval_and_is_one_of_medians(samples):
    found = compare(timed("naive", ((1.0, 1.0),) * 5), timed("vectorized", tuple(samples)))

    low, high = found.interval
    assert low <= found.ratio * (1 + 1e-9)
    assert found.ratio <= high * (1 + 1e-9)
    assert found.ratio == pytest.approx(exp(median(log(r / c) for c, r in samples)))

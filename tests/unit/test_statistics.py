"""A speedup is an interval, and a verdict needs all of it."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelkb.measure.bench.statistics import Speedup, decide_verdict, paired_speedup


def draw_pairs(gain, noise, count=60, seed=1):
    draw = random.Random(seed)
    candidate = [100 * draw.lognormvariate(0, noise) for _ in range(count)]
    reference = [100 * gain * draw.lognormvariate(0, noise) for _ in range(count)]
    return candidate, reference


def test_the_interval_holds_the_point():
    found = paired_speedup(*draw_pairs(1.3, 0.05))

    assert found.low <= found.point <= found.high


def test_the_same_times_give_the_same_interval():
    assert paired_speedup(*draw_pairs(1.3, 0.05)) == paired_speedup(*draw_pairs(1.3, 0.05))


@pytest.mark.parametrize(
    ("gain", "word"), [(1.0, "inconclusive"), (1.03, "faster"), (0.9, "slower"), (30, "faster")]
)
def test_the_verdict_follows_from_the_interval(gain, word):
    assert decide_verdict(paired_speedup(*draw_pairs(gain, 0.01))) == word


def test_a_drift_that_hits_both_alike_changes_nothing():
    candidate, reference = draw_pairs(1.5, 0.0)
    drift = [1 + at / 10 for at in range(len(candidate))]
    found = paired_speedup(
        [t * d for t, d in zip(candidate, drift, strict=True)],
        [t * d for t, d in zip(reference, drift, strict=True)],
    )

    assert found.point == pytest.approx(1.5)


TIMES = st.floats(0.01, 1e6)
PAIRS = st.lists(st.tuples(TIMES, TIMES), min_size=1, max_size=30)


@given(PAIRS)
@settings(max_examples=15, deadline=None)
def test_any_times_give_an_interval_around_the_point(times):
    found = paired_speedup(*zip(*times, strict=True))

    assert 0 < found.low <= found.point <= found.high


@given(PAIRS, st.randoms(use_true_random=False))
@settings(max_examples=10, deadline=None)
def test_the_order_of_the_pairs_does_not_move_the_point(times, draw):
    mixed = list(times)
    draw.shuffle(mixed)

    assert paired_speedup(*zip(*mixed, strict=True)).point == pytest.approx(
        paired_speedup(*zip(*times, strict=True)).point
    )


def test_the_order_of_the_pairs_hardly_moves_the_interval():
    candidate, reference = draw_pairs(1.3, 0.05)
    ahead, back = (paired_speedup(c[::d], r[::d]) for c, r, d in [
        (candidate, reference, 1), (candidate, reference, -1)
    ])  # fmt: skip

    assert back == pytest.approx(ahead, rel=0.01)


def test_the_unit_of_time_does_not_matter():
    candidate, reference = draw_pairs(1.3, 0.05)
    seconds = paired_speedup([t / 1e6 for t in candidate], [t / 1e6 for t in reference])

    assert seconds == pytest.approx(paired_speedup(candidate, reference))


def test_swapping_candidate_and_reference_inverts_the_speedup():
    candidate, reference = draw_pairs(1.3, 0.05)
    there = paired_speedup(candidate, reference).point
    back = paired_speedup(reference, candidate).point

    assert there * back == pytest.approx(1.0)


@pytest.mark.parametrize("seed", range(12))
def test_a_kernel_against_itself_is_inconclusive(seed):
    assert decide_verdict(paired_speedup(*draw_pairs(1.0, 0.02, seed=seed))) == "inconclusive"


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("gain", "word"), [(1.03, "faster"), (0.97, "slower")])
def test_three_percent_is_found_under_little_noise(gain, word, seed):
    assert decide_verdict(paired_speedup(*draw_pairs(gain, 0.01, seed=seed))) == word


def test_three_percent_under_heavy_noise_is_not_claimed():
    assert decide_verdict(paired_speedup(*draw_pairs(1.03, 0.3, count=20))) == "inconclusive"


def test_one_outlier_changes_nothing():
    candidate, reference = draw_pairs(1.3, 0.01)
    candidate[7] *= 50

    assert paired_speedup(candidate, reference).point == pytest.approx(1.3, rel=0.02)


def test_lists_of_different_length_raise():
    with pytest.raises(ValueError, match="shorter"):
        paired_speedup([1.0, 2.0], [1.0])


@pytest.mark.parametrize(
    ("interval", "word"),
    [
        ((1.005, 1.2), "inconclusive"),
        ((1.011, 1.2), "faster"),
        ((0.8, 0.995), "inconclusive"),
        ((0.8, 0.989), "slower"),
        ((0.5, 2.0), "inconclusive"),
    ],
)
def test_less_than_a_percent_is_no_verdict(interval, word):
    low, high = interval

    assert decide_verdict(Speedup((low + high) / 2, low, high)) == word

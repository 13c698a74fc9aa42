"""A speedup is an interval, and a verdict needs all of it."""

import random

import pytest

from engine.measure.statistics import paired_speedup, verdict


def pairs(gain, noise, count=60, seed=1):
    draw = random.Random(seed)
    candidate = [100 * draw.lognormvariate(0, noise) for _ in range(count)]
    reference = [100 * gain * draw.lognormvariate(0, noise) for _ in range(count)]
    return candidate, reference


def test_the_interval_holds_the_point():
    found = paired_speedup(*pairs(1.3, 0.05))

    assert found.low <= found.point <= found.high


def test_the_same_times_give_the_same_interval():
    assert paired_speedup(*pairs(1.3, 0.05)) == paired_speedup(*pairs(1.3, 0.05))


@pytest.mark.parametrize(
    ("gain", "word"), [(1.0, "inconclusive"), (1.03, "faster"), (0.9, "slower"), (30, "faster")]
)
def test_verdict(gain, word):
    assert verdict(paired_speedup(*pairs(gain, 0.01))) == word


def test_a_drift_that_hits_both_alike_changes_nothing():
    candidate, reference = pairs(1.5, 0.0)
    drift = [1 + at / 10 for at in range(len(candidate))]
    found = paired_speedup(
        [t * d for t, d in zip(candidate, drift, strict=True)],
        [t * d for t, d in zip(reference, drift, strict=True)],
    )

    assert found.point == pytest.approx(1.5)

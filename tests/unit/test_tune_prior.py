"""What searches elsewhere tell shortens a search, and is dropped where it does not hold."""

import math

import numpy as np
import pytest
from benchmarks.tuner import RecordedSpace, replay_search

from kernelkb.tune.space import EnumeratedSpace
from kernelkb.tune.strategies.gaussian_process import (
    LEAST_TRIALS,
    MAX_SPACES,
    GaussianProcess,
    build_prior,
    list_promising,
)
from kernelkb.tune.strategies.model_search import ModelSearch

_SIZES = (8, 16, 32, 64, 96, 128, 192, 256)


def make_space(names=("M", "N", "S", "U")):
    values = (_SIZES, _SIZES, (1, 2, 3, 4, 5, 6), (1, 2, 4))
    shape = [len(one) for one in values]
    rows = np.argwhere(np.ones(shape, dtype=bool))
    return EnumeratedSpace(names, values, rows, len(rows), ())


def time_configuration(one, scale=1.0, shift=0.0):
    """A valley with an interaction; the scale and shift are those of another device."""
    m, n, s, u = one.values()
    far = abs(math.log2(m * n / 2048)) + 0.7 * abs(s - 3 - shift) + 0.2 * (u != 2)
    return scale * (10 + far**2 + 0.3 * abs(math.log2(m / n)))


def draw_trials(space, count, seed=1, **there):
    order = np.random.default_rng(seed).permutation(len(space.rows))[:count]
    trials = [space.get_configuration(index) for index in order]
    return [(one, time_configuration(one, **there)) for one in trials]


@pytest.fixture(scope="module")
def recorded():
    space = make_space()
    times = [time_configuration(space.get_configuration(one)) for one in range(len(space.rows))]
    return RecordedSpace(space, np.array(times))


def count_trials(recorded, prior, seeds=8):
    found = [
        replay_search(recorded, ModelSearch(recorded.space, seed, prior=prior), 200, 0.01).solved_at
        or 200
        for seed in range(seeds)
    ]
    return sum(found) / len(found)


def test_a_search_elsewhere_shortens_a_search(recorded):
    prior = build_prior(recorded.space, [draw_trials(recorded.space, 120, scale=7.0, shift=0.5)])

    assert prior.shape == (len(recorded.times), 1)
    assert count_trials(recorded, prior) < 0.7 * count_trials(recorded, None)


def test_a_prior_that_does_not_hold_is_overcome(recorded):
    prior = build_prior(recorded.space, [draw_trials(recorded.space, 120)])
    wrong = np.random.default_rng(0).permutation(prior)

    assert count_trials(recorded, wrong) < 1.5 * count_trials(recorded, None) + 8


def test_what_elsewhere_promises_is_tried_after_what_was_asked_for_first(recorded):
    prior = build_prior(recorded.space, [draw_trials(recorded.space, 120)])
    search = ModelSearch(recorded.space, 0, first=[5], prior=prior)

    assert [search.propose() for _ in range(5)] == [5, *list_promising(prior, 4)]


def test_spaces_that_tell_too_little_are_left_out(recorded):
    space = recorded.space
    few = draw_trials(space, LEAST_TRIALS - 1)
    failed = [(one, None) for one, _ in draw_trials(space, 50)]
    equal = [(one, 3.0) for one, _ in draw_trials(space, 50)]
    other = [({"M": 7, "N": 8, "S": 1, "U": 1}, 1.0)] * 50
    renamed = [({f"X{name}": value for name, value in one.items()}, time) for one, time in few * 3]

    assert build_prior(space, []) is None
    assert build_prior(space, [few, failed, equal, other, renamed]) is None


def test_the_largest_spaces_count_and_failures_are_slow(recorded):
    space = recorded.space
    others = [draw_trials(space, count, seed=count) for count in (30, 90, 60, 40)]
    prior = build_prior(space, others)
    fastest = draw_trials(space, 60)
    fails = [(one, None if one["M"] > 100 else time) for one, time in fastest]
    expected = build_prior(space, [fails])[:, 0]
    sizes = np.array([space.get_configuration(one)["M"] for one in range(len(space.rows))])

    assert prior.shape == (len(space.rows), MAX_SPACES)
    assert prior.mean(axis=0) == pytest.approx(np.zeros(MAX_SPACES), abs=1e-9)
    assert expected[sizes > 100].mean() > expected[sizes <= 100].mean()


def test_the_slope_of_the_likelihood_is_that_of_finite_differences():
    random = np.random.default_rng(0)
    points = random.random((30, 5))
    values = np.sin(5 * points[:, 0]) + 2 * points[:, 3] + 0.1 * random.random(30)
    model = GaussianProcess(3, 2)
    logs = model._logs + 0.3 * random.standard_normal(6)
    standard = (values - values.mean()) / values.std()
    loss, slope = model._compute_loss(logs, points, standard)
    steps = 1e-5 * np.eye(6)
    differences = [
        (
            model._compute_loss(logs + step, points, standard)[0]
            - model._compute_loss(logs - step, points, standard)[0]
        )
        / 2e-5
        for step in steps
    ]

    assert np.isfinite(loss)
    assert slope == pytest.approx(np.array(differences), rel=1e-3, abs=1e-3)


def test_a_trend_carries_the_prediction_beyond_the_observations():
    points = np.linspace(0, 1, 12)
    trend = 3 * np.cos(7 * points)
    model = GaussianProcess(1, 1)
    seen = np.stack([points, trend], axis=1)
    model.fit(seen, 5 + 2 * trend, optimize=True)
    means = model.predict(np.array([[2.5, 1.0], [2.5, -2.0]])).means

    assert means == pytest.approx([7.0, 1.0], abs=0.6)


def test_results_arrive_later_with_several_outstanding(recorded):
    at_once = replay_search(recorded, ModelSearch(recorded.space, 0), 60, -1.0, outstanding=16)
    alone = replay_search(recorded, ModelSearch(recorded.space, 0), 60, -1.0)

    assert len(at_once.best_times) == len(alone.best_times) == 60
    assert at_once.best_times[:16] == alone.best_times[:16]
    assert at_once.best_times != alone.best_times

"""Searches propose each configuration once, learn from results, and need few of them."""

import gzip
import json

import numpy as np
import pytest
from benchmarks.tuner import read_recorded_space, replay_search

from kernelkb.errors import BadValueError
from kernelkb.tune.strategies.gaussian_process import GaussianProcess, rank_tunables
from kernelkb.tune.strategies.model_search import SEED_COUNT, ModelSearch, sample_latin_hypercube
from kernelkb.tune.strategies.table import STRATEGIES


def time_configuration(m, n, stages):
    """A smooth valley with an interaction, as tile sizes have."""
    return 10 + abs(m * n - 2048) / 256 + abs(stages - 3) * (1 + m / 64)


@pytest.fixture
def recorded(tmp_path):
    """A recorded space of 8 x 8 x 6 configurations, of which a few failed."""
    sizes = [8, 16, 32, 64, 96, 128, 192, 256]
    cache = {
        f"{m},{n},{s}": {
            "M": m,
            "N": n,
            "S": s,
            "time": "RuntimeFailedConfig" if m * n * s > 150_000 else time_configuration(m, n, s),
        }
        for m in sizes
        for n in sizes
        for s in range(1, 7)
    }
    path = tmp_path / "space.json.gz"
    content = {"tune_params_keys": ["M", "N", "S"], "cache": cache}
    path.write_bytes(gzip.compress(json.dumps(content).encode()))
    return read_recorded_space(path)


def test_a_recorded_space_is_read(recorded):
    assert len(recorded.times) == 384
    assert recorded.best == min(
        time_configuration(m, n, s)
        for m in (8, 16, 32, 64, 128, 256)
        for n in (8, 16, 32, 64, 128, 256)
        for s in range(1, 7)
    )
    assert np.isinf(recorded.times).sum() == sum(
        m * n * s > 150_000
        for m in (8, 16, 32, 64, 96, 128, 192, 256)
        for n in (8, 16, 32, 64, 96, 128, 192, 256)
        for s in range(1, 7)
    )


def test_t4_and_caches_hold_the_same(recorded, tmp_path):
    results = [
        {
            "configuration": recorded.space.get_configuration(index),
            "invalidity": "correct" if np.isfinite(time) else "compile",
            "measurements": [{"name": "time", "value": float(time) if np.isfinite(time) else 0}],
        }
        for index, time in enumerate(recorded.times)
    ]
    path = tmp_path / "t4.json"
    path.write_text(json.dumps({"schema_version": "1.0.0", "results": results}))
    read = read_recorded_space(path)

    assert read.times.tolist() == recorded.times.tolist()
    assert read.space.rows.tolist() == recorded.space.rows.tolist()


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"cache": {}}', '{"results": [{}]}'])
def test_what_is_no_recorded_space_is_refused(tmp_path, text):
    path = tmp_path / "other.json"
    path.write_text(text)

    with pytest.raises(BadValueError, match="no recorded space"):
        read_recorded_space(path)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_each_configuration_is_proposed_once_until_all_were(strategy, recorded):
    search = STRATEGIES[strategy].load()(recorded.space, 0)
    count = 40 if strategy == "tpe" else len(recorded.times)
    proposed = []
    for _ in range(count):
        index = search.propose()
        proposed.append(index)
        time = float(recorded.times[index])
        search.record(index, time if np.isfinite(time) else None)

    assert len(set(proposed)) == count
    assert strategy == "tpe" or search.propose() is None


def test_the_model_needs_a_fraction_of_what_chance_needs(recorded):
    def count(strategy):
        found = [
            replay_search(
                recorded, STRATEGIES[strategy].load()(recorded.space, seed), 384
            ).solved_at
            for seed in range(5)
        ]
        return sum(found) / len(found)

    assert count("model") < count("random") / 2


def test_a_search_is_the_same_for_the_same_seed_and_results(recorded):
    def play():
        search = STRATEGIES["model"].load()(recorded.space, 3)
        order = []
        for _ in range(30):
            index = search.propose()
            order.append(index)
            time = float(recorded.times[index])
            search.record(index, time if np.isfinite(time) else None)
        return order

    assert play() == play()


def test_several_proposals_without_a_result_differ(recorded):
    search = STRATEGIES["model"].load()(recorded.space, 1)
    for _ in range(SEED_COUNT):
        index = search.propose()
        search.record(index, float(min(recorded.times[index], 100.0)))
    pending = [search.propose() for _ in range(12)]

    assert len(set(pending)) == 12


def test_known_results_are_not_proposed_and_the_first_ones_come_first(recorded):
    known = [(index, float(recorded.times[index])) for index in range(50)]
    search = ModelSearch(recorded.space, 0, known=known, first=[3, 60, 61])

    assert [search.propose() for _ in range(2)] == [60, 61]
    assert all(search.propose() >= 50 for _ in range(30))


def test_a_space_of_failures_is_searched_to_its_end(recorded):
    search = STRATEGIES["model"].load()(recorded.space, 0)
    for _ in range(len(recorded.times)):
        search.record(search.propose(), None)

    assert search.propose() is None


def test_a_latin_hypercube_spreads_over_each_tunable():
    grid = np.array([[x / 7, y / 7] for x in range(8) for y in range(8)])
    chosen = sample_latin_hypercube(grid, 8, np.random.default_rng(0))

    assert len(set(chosen)) == 8
    for column in grid[chosen].T:
        assert len(set(column)) >= 5


def test_the_process_interpolates_and_doubts_far_points():
    points = np.linspace(0, 1, 9)[:, None]
    model = GaussianProcess(1)
    model.fit(points, np.sin(4 * points[:, 0]), optimize=True)
    found = model.predict(np.array([[0.5], [0.56], [3.0]]))
    means, deviations = found.means, found.deviations

    assert means[0] == pytest.approx(np.sin(2.0), abs=0.05)
    assert means[1] == pytest.approx(np.sin(2.24), abs=0.05)
    assert deviations[2] > 5 * deviations[0]


def test_a_believed_point_is_as_one_that_was_fitted_with_its_mean():
    rng = np.random.default_rng(0)
    points, values = rng.random((12, 3)), rng.random(12)
    asked = rng.random((20, 3))
    model = GaussianProcess(3)
    model.fit(points, values, optimize=True)
    believed = model.predict(asked)
    means, deviations = believed.means.copy(), believed.deviations.copy()
    for index in (4, 7):
        believed.believe(index)
    joined = np.vstack([points, asked[[4, 7]]])
    model.fit(joined, np.append(values, means[[4, 7]]), optimize=False)
    fitted = model.predict(asked)
    ratio = believed.deviations / fitted.deviations  # of two scales of the values

    assert believed.means == pytest.approx(means)
    assert fitted.means == pytest.approx(means, abs=0.02)
    assert ratio == pytest.approx(np.full(20, ratio[0]), rel=1e-6)
    assert (believed.deviations[[4, 7]] < 0.5 * deviations[[4, 7]]).all()


def test_equal_times_and_few_times_do_not_stop_the_search(recorded):
    model = GaussianProcess(2)
    model.fit(np.array([[0.0, 0.0], [1.0, 1.0]]), np.array([2.0, 2.0]), optimize=True)
    found = model.predict(np.array([[0.5, 0.5]]))
    search = STRATEGIES["model"].load()(recorded.space, 2)
    for _ in range(SEED_COUNT):
        last = search.propose()
    search.record(last, 5.0)
    proposed = []
    for _ in range(10):
        proposed.append(search.propose())
        search.record(proposed[-1], 5.0)

    assert found.means[0] == pytest.approx(2.0)
    assert np.isfinite(found.deviations[0])
    assert len({last, *proposed}) == 11


def test_what_decides_is_told_though_the_trials_crowd_around_the_best(recorded):
    space = recorded.space
    stages = space.rows[:, space.names.index("S")]
    sizes = space.rows[:, space.names.index("M")]
    times = np.exp(0.5 * stages + 0.1 * sizes)
    search = STRATEGIES["model"].load()(space, 0)
    trials = []
    for _ in range(40):
        trials.append(search.propose())
        search.record(trials[-1], float(times[trials[-1]]))
    shares = rank_tunables(space, trials, [float(times[one]) for one in trials])

    assert list(shares) == ["S", "M", "N"]
    assert shares["S"] == pytest.approx(0.93, abs=0.1)
    assert shares["N"] < 0.05
    assert rank_tunables(space, trials[:29], [1.0] * 29) == {}

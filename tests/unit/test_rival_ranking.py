"""Which rivals are timed in pairs: the fastest in trials, and others that may be faster."""

import pytest

from kernelkb.measure.worker.judge.timing.time_candidate import (
    BatchSizes,
    gain_ratio,
    may_gain_nothing,
    rank_rivals,
)
from kernelkb.measure.worker.shared.messages.jobs import Batch


def make_times(eager_us, graph_us=None):
    return {"eager_ns": eager_us * 1e3, "graph_ns": graph_us and graph_us * 1e3}


def make_pairs(gain, count=20, slower=0):
    """Return pairs in which the candidate is faster by a factor, but slower in some."""
    own = [Batch(1e6, 1e6, 1, 0.0, 1.0)] * count
    rival = [
        Batch(1e6 / gain if at < slower else gain * 1e6, 1e6, 1, 0.0, 1.0) for at in range(count)
    ]
    rival = [one._replace(runner_ns=one.judge_ns) for one in rival]
    return {"candidate_batches": own, "rival_batches": rival}


def rank(*eager_us):
    return rank_rivals(
        {f"rival{at}": make_times(us) for at, us in enumerate(eager_us)}, graph=False
    )


def test_those_that_the_trials_cannot_tell_apart_are_ranked():
    assert [rival.name for rival in rank(103.5, 100.0, 102.0, 150.0)] == ["rival1", "rival2"]


def test_in_a_graph_the_time_in_a_graph_counts():
    times = {"fast in a graph": make_times(100, 20), "never in a graph": make_times(30)}
    in_graph, one_by_one = (rank_rivals(times, graph=graph)[0] for graph in (True, False))

    assert (in_graph.name, in_graph.uses_graph) == ("fast in a graph", True)
    assert (one_by_one.name, one_by_one.uses_graph) == ("never in a graph", False)


def test_the_fastest_of_all_may_be_one_that_is_in_no_graph():
    times = {"a": make_times(50, 40), "b": make_times(30)}
    (best,) = rank_rivals(times, graph=True)

    assert (best.name, best.uses_graph, best.call_ns) == ("b", False, 30e3)


@pytest.mark.parametrize(
    ("gain", "slower", "other_us", "may"),
    [
        (1.01, 0, 101.0, True),
        (1.01, 9, 101.0, True),
        (1.004, 0, 101.0, False),  # it will not be called faster
        (1.05, 0, 101.0, False),  # it is faster than the other one anyway
        (1.01, 0, 102.9, False),
        (0.99, 0, 101.0, False),
        (0.1, 0, 101.0, False),
    ],
)
def test_a_small_gain_has_to_hold_over_the_other_one_too(gain, slower, other_us, may):
    first, other = rank(100.0, other_us)

    assert may_gain_nothing(make_pairs(gain, slower=slower), first, other) == may


def test_the_gain_is_that_of_the_median_pair():
    assert gain_ratio(make_pairs(1.3, slower=5)) == pytest.approx(1.3)


@pytest.mark.parametrize(
    ("target", "round_trip_us", "call_us", "is_long"),
    [
        ("cpu", 60, 499, False), ("cpu", 60, 501, True), ("cpu", 600, 2390, False),
        ("cpu", 600, 2410, True), ("cuda", 600, 1010, True),
    ],
)  # fmt: skip
def test_a_call_is_timed_alone_where_it_is_long_beside_the_round_trip(
    target, round_trip_us, call_us, is_long
):
    sizes = BatchSizes({"target": target})
    sizes.round_trip_ns = 1e3 * round_trip_us

    assert sizes.is_long(1e3 * call_us) is is_long

"""Two sessions are compared where that is honest, and otherwise told apart with the reason."""

from datetime import UTC, datetime

import pytest

from kernelkb.model.records.outcome import AchievedSpeedup, SessionOutcome
from kernelkb.record.compare_sessions import compare_outcomes

DAY = datetime(2026, 11, 21, tzinfo=UTC)


def make_reached(speedup, low, high, **more):
    given = {"kernel": "k", "target": "cuda", "machine": "m", "baseline": "torch"}
    given |= {"workload": "large", "checked": True, "interval": (low, high), **more}
    return AchievedSpeedup(speedup=speedup, **given)


def make_outcomes(final, name="a", **more):
    return SessionOutcome(session=name, opened=DAY, kind="recorded", goal="g", final=final, **more)


def test_the_ratio_has_the_widest_interval_that_both_allow():
    both = compare_outcomes(
        make_outcomes(make_reached(1.0, 0.9, 1.1)), make_outcomes(make_reached(2.0, 1.8, 2.2))
    )

    assert both.ratio == 2.0
    assert both.interval == pytest.approx((1.8 / 1.1, 2.2 / 0.9))
    assert both.why_not is None


def test_swapping_the_sessions_inverts_the_ratio():
    one, other = (
        make_outcomes(make_reached(1.0, 0.9, 1.1)),
        make_outcomes(make_reached(2.0, 1.8, 2.2)),
    )
    there, back = compare_outcomes(one, other), compare_outcomes(other, one)

    assert there.ratio * back.ratio == pytest.approx(1)
    assert there.interval[0] * back.interval[1] == pytest.approx(1)


@pytest.mark.parametrize("term", ["kernel", "target", "machine", "baseline", "workload"])
def test_without_the_same_terms_there_is_no_ratio(term):
    other = {"target": "cpu"}.get(term, "other")
    both = compare_outcomes(
        make_outcomes(make_reached(1, 0.9, 1.1)),
        make_outcomes(make_reached(2, 1.8, 2.2, **{term: other})),
    )

    assert both.ratio is None
    assert both.why_not.startswith(f"not the same {term}: ")


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (make_outcomes(None, "b"), "b has no valid speedup"),
        (
            make_outcomes(make_reached(1, 0.9, 1.1, checked=False), "b"),
            "b timed code that no check passed",
        ),
        (
            make_outcomes(make_reached(1, 0.9, 1.1, baseline=None), "b"),
            "b does not say its baseline",
        ),
        (
            make_outcomes(make_reached(1, 0, 0, interval=None), "b"),
            "the speedup of b has no interval",
        ),
        (
            make_outcomes(make_reached(1, 0.9, 1.1), "b").model_copy(update={"kind": "reported"}),
            "b is an account, and nothing in it was measured here",
        ),
    ],
    ids=["nothing", "unchecked", "no baseline", "no interval", "account"],
)
def test_the_missing_information_is_named(other, why):
    first = make_outcomes(make_reached(1, 0.9, 1.1))

    assert compare_outcomes(first, other).why_not == why
    assert compare_outcomes(other, first).why_not == why


def test_a_difference_needs_both_numbers():
    both = compare_outcomes(
        make_outcomes(None, minutes=2.0, cost_usd=1.0), make_outcomes(None, minutes=5.0)
    )
    rows = {row.metric: row.difference for row in both.rows}

    assert rows["minutes"] == 3.0
    assert rows["cost_usd"] is None


def test_speedups_of_two_kernels_have_no_difference():
    both = compare_outcomes(
        make_outcomes(make_reached(1, 0.9, 1.1)),
        make_outcomes(make_reached(2, 1.8, 2.2, kernel="other")),
    )
    rows = {row.metric: row for row in both.rows}

    assert (rows["final_speedup"].before, rows["final_speedup"].after) == (1, 2)
    assert rows["final_speedup"].difference is None

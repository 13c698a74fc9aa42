"""Not measured is not false."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from programs import metrics, program

from engine.decide.conditions import holds, missing, reasons
from engine.decide.derive import complete
from engine.decide.diagnose import verdict

A = ["is", "a", ">", 1.0, "test"]
B = ["is", "b", "<", "c", "test"]


@pytest.mark.parametrize(
    ("condition", "known", "expected"),
    [
        (A, {"a": 2}, True),
        (A, {"a": 1}, False),
        (A, {}, None),
        (B, {"b": 1, "c": 2}, True),
        (B, {"b": 1}, None),
        (["all", A, B], {"a": 0}, False),
        (["all", A, B], {"a": 2}, None),
        (["any", A, B], {"a": 2}, True),
        (["any", A, B], {"a": 0}, None),
        (["not", A], {}, None),
        (["not", A], {"a": 0}, True),
    ],
)
def test_kleene(condition, known, expected):
    assert holds(condition, known) is expected


def test_nan_is_unknown_not_zero():
    known = complete(program(), {"occupancy": float("nan"), "speedup": 0.3}, None)

    assert "occupancy" not in known


CONDITIONS = [row["when"] for row in program()["bottlenecks"]]


@given(st.sampled_from(CONDITIONS), metrics())
def test_something_is_missing_exactly_while_undecided(condition, measured):
    known = complete(program(), measured, None)

    assert bool(missing(condition, known)) == (holds(condition, known) is None)


@given(st.sampled_from(CONDITIONS), metrics())
def test_every_reason_given_for_a_true_condition_is_true(condition, measured):
    known = complete(program(), measured, None)

    for reason in reasons(condition, known):
        assert holds(["is", reason["metric"], reason["op"], reason["limit"], ""], known)


@given(st.sampled_from(program()["bottlenecks"]), metrics(), st.data())
def test_measuring_more_never_turns_excluded_into_matches(row, measured, data):
    """Derived metrics are fixed beforehand: a later direct value may contradict a derived one."""
    known = complete(program(), measured, None)
    more = {**data.draw(metrics()), **known}

    if verdict(row, known) == "excluded":
        assert verdict(row, more) == "excluded"

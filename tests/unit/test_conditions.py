"""Not measured is not false."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shipped_rules import (
    bottleneck_rows,
    compare_metrics,
    evaluate_condition,
    flatten_condition,
    metrics,
    program,
)

from kernelkb.decide.conditions import (
    evaluate_comparisons,
    find_missing_quantities,
    find_reasons,
    judge_condition,
)
from kernelkb.decide.derive import complete_metrics
from kernelkb.decide.diagnose import judge_bottleneck

A = ("a", ">", 1.0)
B = ("b", "<", "c")


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
def test_conditions_follow_kleene_logic(condition, known, expected):
    assert evaluate_condition(condition, known) is expected


def test_nan_is_unknown_not_zero():
    known = complete_metrics(program(), {"occupancy": float("nan"), "speedup": 0.3}, None)

    assert "occupancy" not in known


CONDITIONS = [row["when"] for row in bottleneck_rows()]


@given(st.sampled_from(CONDITIONS), metrics())
def test_something_is_missing_exactly_while_undecided(condition, measured):
    about = compare_metrics(measured)

    assert bool(find_missing_quantities(condition, about)) == (
        judge_condition(condition, about.truth) is None
    )


@given(st.sampled_from(CONDITIONS), metrics())
def test_every_reason_given_for_a_true_condition_is_true(condition, measured):
    about = compare_metrics(measured)

    for reason in find_reasons(condition, about):
        assert evaluate_condition((reason["metric"], reason["op"], reason["limit"]), about.values)


@given(st.sampled_from(bottleneck_rows()), metrics(), st.data())
def test_measuring_more_never_turns_excluded_into_matches(row, measured, data):
    """Derived metrics are fixed beforehand: a later direct value may contradict a derived one."""
    about = compare_metrics(measured)
    more = evaluate_comparisons(program()["comparisons"], {**data.draw(metrics()), **about.values})

    if judge_bottleneck(row, about.truth) == "excluded":
        assert judge_bottleneck(row, more.truth) == "excluded"


TRUE, FALSE, OPEN = ("t", ">", 0.0), ("t", "<", 0.0), ("u", ">", 0.0)
LEAVES = [FALSE, OPEN, TRUE]
RANK = {False: 0, None: 1, True: 2}
RANK_VALUE = {0: False, 1: None, 2: True}


@pytest.mark.parametrize("left", range(3))
@pytest.mark.parametrize("right", range(3))
def test_all_is_the_lesser_and_any_the_greater_of_two(left, right):
    """With false below unknown below true."""
    parts = [LEAVES[left], LEAVES[right]]

    assert evaluate_condition(["all", *parts], {"t": 1.0}) is RANK_VALUE[min(left, right)]
    assert evaluate_condition(["any", *parts], {"t": 1.0}) is RANK_VALUE[max(left, right)]


@pytest.mark.parametrize("leaf", range(3))
def test_not_inverts_only_decided_values(leaf):
    assert RANK[evaluate_condition(["not", LEAVES[leaf]], {"t": 1.0})] == 2 - leaf


@pytest.mark.parametrize(
    ("op", "below", "same", "above"),
    [
        ("<", True, False, False),
        ("<=", True, True, False),
        (">", False, False, True),
        (">=", False, True, True),
        ("==", False, True, False),
        ("!=", True, False, True),
    ],
)
def test_each_operator_at_its_limit(op, below, same, above):
    found = [evaluate_condition(("a", op, 1.0), {"a": value}) for value in (0.5, 1.0, 1.5)]

    assert found == [below, same, above]


NESTED = st.recursive(
    st.builds(
        lambda name, op, limit: (name, op, limit),
        st.sampled_from("abc"),
        st.sampled_from(["<", "<=", ">", ">=", "==", "!="]),
        st.sampled_from([0.0, 1.0, "c"]),
    ),
    lambda inner: st.one_of(
        st.builds(lambda part: ["not", part], inner),
        st.builds(
            lambda kind, parts: [kind, *parts],
            st.sampled_from(["all", "any"]),
            st.lists(inner, min_size=1, max_size=3),
        ),
    ),
    max_leaves=8,
)
KNOWN_METRICS = st.dictionaries(st.sampled_from("abc"), st.sampled_from([0.0, 0.5, 1.0, 2.0]))


@given(NESTED, KNOWN_METRICS, KNOWN_METRICS)
def test_measuring_more_never_takes_a_decision_back(condition, more, known):
    before = evaluate_condition(condition, known)

    if before is not None:
        assert evaluate_condition(condition, {**more, **known}) is before


@given(NESTED, KNOWN_METRICS)
def test_what_is_missing_decides(condition, known):
    """Once all of it is measured nothing stays open, whatever the values are."""
    while lacking := find_missing_quantities(*flatten_condition(condition, known)):
        known = {**known, **dict.fromkeys(lacking, 1.0)}

    assert evaluate_condition(condition, known) is not None


@given(NESTED, KNOWN_METRICS)
def test_double_negation_is_the_identity(condition, known):
    assert evaluate_condition(["not", ["not", condition]], known) is evaluate_condition(
        condition, known
    )


@given(NESTED, KNOWN_METRICS, st.booleans())
def test_every_reason_is_a_comparison_that_holds(condition, known, wanted):
    for reason in find_reasons(*flatten_condition(condition, known), wanted):
        assert evaluate_condition((reason["metric"], reason["op"], reason["limit"]), known)


@given(NESTED, KNOWN_METRICS)
def test_a_decided_condition_has_a_reason(condition, known):
    found = evaluate_condition(condition, known)

    if found is not None:
        assert list(find_reasons(*flatten_condition(condition, known), found))


def test_a_comparison_with_an_unmeasured_quantity_asks_for_both():
    assert find_missing_quantities(*flatten_condition(("a", "<", "c"), {})) == ["a", "c"]


def test_what_cannot_change_the_verdict_is_not_missing():
    either = ["any", ["all", FALSE, OPEN], ("b", ">", 0.0)]

    assert find_missing_quantities(*flatten_condition(either, {"t": 1.0})) == ["b"]

"""Not measured is not false."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from programs import facts, metrics, program, rows, truth, written

from kernelkb.decide.conditions import compare, holds, missing, reasons
from kernelkb.decide.derive import complete
from kernelkb.decide.diagnose import verdict

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
def test_kleene(condition, known, expected):
    assert truth(condition, known) is expected


def test_nan_is_unknown_not_zero():
    known = complete(program(), {"occupancy": float("nan"), "speedup": 0.3}, None)

    assert "occupancy" not in known


CONDITIONS = [row["when"] for row in rows()]


@given(st.sampled_from(CONDITIONS), metrics())
def test_something_is_missing_exactly_while_undecided(condition, measured):
    about = facts(measured)

    assert bool(missing(condition, about)) == (holds(condition, about.truth) is None)


@given(st.sampled_from(CONDITIONS), metrics())
def test_every_reason_given_for_a_true_condition_is_true(condition, measured):
    about = facts(measured)

    for reason in reasons(condition, about):
        assert truth((reason["metric"], reason["op"], reason["limit"]), about.known)


@given(st.sampled_from(rows()), metrics(), st.data())
def test_measuring_more_never_turns_excluded_into_matches(row, measured, data):
    """Derived metrics are fixed beforehand: a later direct value may contradict a derived one."""
    about = facts(measured)
    more = compare(program()["comparisons"], {**data.draw(metrics()), **about.known})

    if verdict(row, about.truth) == "excluded":
        assert verdict(row, more.truth) == "excluded"


TRUE, FALSE, OPEN = ("t", ">", 0.0), ("t", "<", 0.0), ("u", ">", 0.0)
LEAVES = [FALSE, OPEN, TRUE]
RANK = {False: 0, None: 1, True: 2}
WORTH = {0: False, 1: None, 2: True}


@pytest.mark.parametrize("left", range(3))
@pytest.mark.parametrize("right", range(3))
def test_all_is_the_lesser_and_any_the_greater_of_two(left, right):
    """With false below unknown below true."""
    parts = [LEAVES[left], LEAVES[right]]

    assert truth(["all", *parts], {"t": 1.0}) is WORTH[min(left, right)]
    assert truth(["any", *parts], {"t": 1.0}) is WORTH[max(left, right)]


@pytest.mark.parametrize("leaf", range(3))
def test_not_turns_around_what_is_decided(leaf):
    assert RANK[truth(["not", LEAVES[leaf]], {"t": 1.0})] == 2 - leaf


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
def test_a_limit_itself(op, below, same, above):
    found = [truth(("a", op, 1.0), {"a": value}) for value in (0.5, 1.0, 1.5)]

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
SOME = st.dictionaries(st.sampled_from("abc"), st.sampled_from([0.0, 0.5, 1.0, 2.0]))


@given(NESTED, SOME, SOME)
def test_measuring_more_never_takes_a_decision_back(condition, more, known):
    before = truth(condition, known)

    if before is not None:
        assert truth(condition, {**more, **known}) is before


@given(NESTED, SOME)
def test_what_is_missing_decides(condition, known):
    """Once all of it is measured nothing stays open, whatever the values are."""
    while lacking := missing(*written(condition, known)):
        known = {**known, **dict.fromkeys(lacking, 1.0)}

    assert truth(condition, known) is not None


@given(NESTED, SOME)
def test_two_negations_are_none(condition, known):
    assert truth(["not", ["not", condition]], known) is truth(condition, known)


@given(NESTED, SOME, st.booleans())
def test_every_reason_is_a_comparison_that_holds(condition, known, wanted):
    for reason in reasons(*written(condition, known), wanted):
        assert truth((reason["metric"], reason["op"], reason["limit"]), known)


@given(NESTED, SOME)
def test_a_decided_condition_has_a_reason(condition, known):
    found = truth(condition, known)

    if found is not None:
        assert list(reasons(*written(condition, known), found))


def test_a_comparison_with_an_unmeasured_quantity_asks_for_both():
    assert missing(*written(("a", "<", "c"), {})) == ["a", "c"]


def test_what_cannot_change_the_verdict_is_not_missing():
    either = ["any", ["all", FALSE, OPEN], ("b", ">", 0.0)]

    assert missing(*written(either, {"t": 1.0})) == ["b"]

"""What wrong cases have in common, and right ones have not."""

import pytest

from kernelkb.measure.check.wrong_cases import describe_when


def make_cases(axis, wrong, right):
    cases = [({"m": 4, axis: size}, True) for size in wrong]
    return cases + [({"m": 4, axis: size}, False) for size in right]


@pytest.mark.parametrize(
    ("wrong", "right", "told"),
    [
        ((33, 100), (64, 128), "each whose n is no multiple of 8 to 64, the smallest m=4 n=33"),
        ((33, 7), (2, 64, 6), "each whose n is odd, the smallest m=4 n=7"),
        ((2048, 4096), (64, 1024), "each whose n is above 1024, the smallest m=4 n=2048"),
        ((16, 32), (64, 128), "each whose n is no multiple of 64, the smallest m=4 n=16"),
        (
            (33, 65),
            (64, 128, 32, 1),
            "only where n is no multiple of 2 to 32, the smallest m=4 n=33",
        ),
    ],
)
def test_what_sizes_have_in_common_is_said_once(wrong, right, told):
    cases = make_cases("n", wrong, right)

    assert describe_when(cases) == f"wrong on {len(wrong)} of {len(cases)} workloads: {told}"


def test_axes_that_differ_are_named_where_square_sizes_are_right():
    cases = [({"m": 4, "n": 8}, True), ({"m": 4, "n": 4}, False), ({"m": 8, "n": 8}, False)]

    assert describe_when(cases) == "wrong on 1 of 3 workloads: each whose m and n differ"


def test_sizes_without_a_pattern_are_only_counted():
    cases = make_cases("n", (8, 64), (4, 32, 128))

    assert describe_when(cases) == "wrong on 2 of 5 workloads, the smallest m=4 n=8"


def test_all_and_none_and_one_are_said_as_they_are():
    assert describe_when(make_cases("n", (8, 64), ())) == (
        "wrong on all 2 workloads, the smallest m=4 n=8"
    )
    assert describe_when(make_cases("n", (), (8, 64))) == (
        "right on all 2 named workloads, wrong on hidden inputs"
    )
    assert describe_when(make_cases("n", (8,), ())) is None

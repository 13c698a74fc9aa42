"""The speedup gate of the origin, and what is asked before it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shipped_rules import compare_metrics, metrics, program

from kernelkb.decide.diagnose import walk_gate_tree


def walk_gate(**measured):
    return walk_gate_tree(program()["trees"]["performance-gate"], compare_metrics(measured)).gate


@pytest.mark.parametrize(
    ("speedup", "leaf", "verdict"),
    [
        (0.1, "stop-and-profile", "stop"),
        (0.499, "stop-and-profile", "stop"),
        (0.5, "close-the-gap", "caution"),
        (0.999, "close-the-gap", "caution"),
        (1.0, "validate-and-document", "continue"),
        (2.0, "validate-and-document", "continue"),
        (2.001, "audit-the-baseline", "caution"),
    ],
)
def test_bands_of_speedup(speedup, leaf, verdict):
    found = walk_gate(speedup=speedup)

    assert (found["id"], found["verdict"]) == (leaf, verdict)


def test_the_verdict_names_the_comparison_that_made_it():
    assert walk_gate(speedup=0.3)["because"].startswith("speedup 0.3 < 0.5: ")


def test_without_a_speedup_the_gate_is_no_baseline():
    assert walk_gate(occupancy=0.4)["id"] == "no-baseline"


def test_a_wrong_result_stops_however_fast():
    assert walk_gate(speedup=5.0, correct=0)["id"] == "incorrect"


def test_at_the_roof_is_done_even_when_slower_than_the_reference():
    assert walk_gate(speedup=0.9, attainable_speedup=1.05)["verdict"] == "done"


def test_faster_than_possible_is_not_done():
    assert walk_gate(speedup=3.0, attainable_speedup=0.4)["verdict"] == "stop"


@pytest.mark.parametrize(
    ("attainable", "leaf"),
    [
        (0.79, "impossible-time"),
        (0.80, "at-roof"),
        (1.0, "at-roof"),
        (1.11, "at-roof"),
        (1.12, "validate-and-document"),
    ],
)
def test_bands_of_distance_to_the_roof(attainable, leaf):
    assert walk_gate(speedup=1.5, attainable_speedup=attainable)["id"] == leaf


def test_a_wrong_result_comes_before_an_impossible_time():
    assert walk_gate(speedup=5.0, attainable_speedup=0.1, correct=0)["id"] == "incorrect"


def test_a_correct_result_continues_to_the_next_question():
    assert walk_gate(speedup=1.5, correct=1)["id"] == "validate-and-document"


def test_nothing_at_all_is_no_baseline():
    found = walk_gate()

    assert (found["id"], found["verdict"]) == ("no-baseline", "caution")


def test_a_speedup_of_nan_is_no_baseline():
    assert walk_gate(speedup=float("nan"))["id"] == "no-baseline"


def test_without_a_comparison_only_the_reason_is_given():
    assert walk_gate()["because"].startswith("Without the time of a reference")


def test_far_above_the_roof_the_speedup_decides():
    assert walk_gate(speedup=0.3, attainable_speedup=4.0)["id"] == "stop-and-profile"


def test_nobody_is_told_to_profile_who_has_a_profile():
    gate = walk_gate(speedup=0.3, profiled_us=90.0)

    assert (gate["id"], gate["verdict"]) == ("structural-gap", "caution")
    assert "without a profile" not in gate["because"]


def test_the_path_lists_every_question_and_answer():
    path = walk_gate_tree(
        program()["trees"]["performance-gate"], compare_metrics({"speedup": 0.7})
    ).path

    assert path == (
        ("result-correct", "unknown"),
        ("debug-build", "unknown"),
        ("faster-than-possible", "unknown"),
        ("slower-than-half-with-a-profile", "otherwise"),
        ("slower-than-half", "otherwise"),
        ("slower-than-reference", "then"),
    )


@given(metrics())
@settings(max_examples=25, deadline=None)
def test_every_walk_ends_with_something_to_do(measured):
    found = walk_gate_tree(program()["trees"]["performance-gate"], compare_metrics(measured))

    assert found.gate["id"] in program()["trees"]["performance-gate"]["leaves"]
    assert found.do


@given(st.floats(0, 1e6), st.floats(0, 1e6))
def test_a_higher_speedup_never_gets_a_worse_verdict_up_to_twice(slow, fast):
    order = ["stop", "caution", "continue"]
    slow, fast = sorted((min(slow, 2.0), min(fast, 2.0)))

    assert order.index(walk_gate(speedup=slow)["verdict"]) <= order.index(
        walk_gate(speedup=fast)["verdict"]
    )

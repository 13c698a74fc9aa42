"""The speedup gate of the origin, and what is asked before it."""

import pytest
from programs import program

from engine.decide.derive import complete
from engine.decide.gates import walk


def gate(**measured):
    return walk(program()["gate"], complete(program(), measured, None)).gate


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
    found = gate(speedup=speedup)

    assert (found["id"], found["verdict"]) == (leaf, verdict)


def test_the_verdict_names_the_comparison_that_made_it():
    assert gate(speedup=0.3)["because"].startswith("speedup 0.3 < 0.5: ")


def test_without_a_speedup_nobody_can_say():
    assert gate(occupancy=0.4)["id"] == "no-baseline"


def test_a_wrong_result_stops_however_fast():
    assert gate(speedup=5.0, correct=0)["id"] == "incorrect"


def test_at_the_roof_is_done_even_when_slower_than_the_reference():
    assert gate(speedup=0.9, attainable_speedup=1.05)["verdict"] == "done"


def test_faster_than_possible_is_not_done():
    assert gate(speedup=3.0, attainable_speedup=0.4)["verdict"] == "stop"

"""A stop near the floor is right: the bars, on all recordings and walks."""

from functools import cache

import pytest
from benchmarks.zoo.stop import (
    cross_validate,
    list_launches,
    list_library_launches,
    read_library_calls,
    score_stops,
)
from shipped_rules import program

WRONG_STOPS, WRONG_GO_ONS = 0.05, 0.2


@cache
def launches(with_cost):
    return list(list_launches(program(), with_cost=with_cost))


@pytest.mark.parametrize("with_cost", [True, False])
def test_stops_and_go_ons_are_right(with_cost):
    score = score_stops(launches(with_cost))
    wrong = len(score.wrong_stops) + len(score.wrong_conditional)

    assert score.late >= 380
    assert score.due >= 75
    assert wrong <= WRONG_STOPS * score.late
    assert len(score.wrong_go_ons) <= WRONG_GO_ONS * score.due


@pytest.mark.parametrize("with_cost", [True, False])
def test_they_are_right_with_limits_that_do_not_know_the_kind(with_cost):
    rows = launches(with_cost)
    stops, go_ons = cross_validate(rows)

    assert stops <= WRONG_STOPS * sum(one.is_late for one in rows)
    assert go_ons <= WRONG_GO_ONS * sum(one.is_due for one in rows)


def test_with_the_cost_no_stop_needs_a_condition():
    assert score_stops(launches(True)).wrong_conditional == ()


@pytest.mark.parametrize("with_cost", [True, False])
def test_of_calls_of_libraries_those_at_their_ceiling_are_told_to_stop(with_cost):
    rows = list_library_launches(program(), read_library_calls(None), with_cost=with_cost)
    stopped = {one.kernel: one.is_stopped for one in rows}
    far = ["gelu bf16", "softmax", "log_softmax", "cumsum rows", "flip", "transpose", "cast"]
    far += ["argmax", "embedding 256 B", "take 4 B", "attention", "avg_pool"]
    near = ["add fp32", "exp fp32", "sum", "max", "sum of columns", "matmul bf16", "matmul fp8"]

    assert len(stopped) == 29
    assert [name for name in far if stopped[name]] == []
    assert [name for name in near if not stopped[name]] == []

"""What to measure next, on a program small enough to see through."""

import pytest
from hypothesis import given, settings
from programs import metrics, program

from engine.decide.derive import complete
from engine.decide.diagnose import Finding, diagnose
from engine.decide.next_metric import measure_next

SMALL = {
    "metrics": {
        "a": {"recipe": "cheap", "base": ["a"]},
        "b": {"recipe": "cheap", "base": ["b"]},
        "c": {"recipe": "dear", "base": ["c"]},
        "a_over_b": {"recipe": None, "base": ["a", "b"]},
        "told": {"recipe": None, "base": ["told"]},
    },
    "recipes": {
        "cheap": {"command": "look at {kernel} on {target}", "cost": 1.0, "target": None},
        "dear": {"command": "look hard at {kernel}", "cost": 40.0, "target": None},
    },
}


def lacking(name, *missing):
    return Finding({"id": name}, "unknown", {}, None, missing)


def ask(*findings, known=(), kernel="k", extra=(), of=SMALL):
    return measure_next(of, findings, dict.fromkeys(known, 1.0), kernel, "cpu", extra)


def names(rows):
    return [row["metric"] for row in rows]


def test_the_cheap_recipe_comes_first():
    assert names(ask(lacking("dear", "c"), lacking("cheap", "a"))) == ["a", "c"]


def test_a_derived_metric_is_asked_for_as_what_it_follows_from():
    assert names(ask(lacking("ratio", "a_over_b"))) == ["a", "b"]


def test_what_is_known_is_not_asked_for_again():
    assert names(ask(lacking("ratio", "a_over_b"), known=["a"])) == ["b"]


def test_what_only_the_caller_can_say_is_not_asked_for():
    assert ask(lacking("told", "told")) == []


def test_a_hypothesis_that_one_number_settles_stands_first_beside_it():
    (first, *_) = ask(lacking("far", "a", "b"), lacking("near", "a"))

    assert first["separates"] == ["near", "far"]


def test_a_metric_that_settles_more_comes_first_within_a_recipe():
    rows = ask(lacking("one", "b"), lacking("two", "a"), lacking("three", "a"))

    assert names(rows) == ["a", "b"]


def test_what_the_gate_wants_comes_before_everything():
    rows = ask(lacking("one", "a"), lacking("two", "a"), extra=["c"])

    assert names(rows)[0] == "c"


def test_the_command_names_the_kernel_and_the_target():
    (row,) = ask(lacking("one", "a"))

    assert row["command"] == "look at k on cpu"


def test_without_a_name_the_command_says_where_it_goes():
    (row,) = ask(lacking("one", "a"), kernel="")

    assert row["command"] == "look at <kernel> on cpu"


def test_nothing_open_asks_for_nothing():
    assert ask() == []


@pytest.mark.parametrize("target", ["cpu", "cuda"])
@given(measured=metrics())
@settings(max_examples=40, deadline=None)
def test_every_question_is_one_that_can_be_answered(target, measured):
    known = complete(program(), measured, None)
    findings, _ = diagnose(program(), known, target)
    rows = measure_next(program(), findings, known, "k", target, [])

    assert len(rows) <= 8
    assert len(set(names(rows))) == len(rows)
    assert not set(names(rows)) & set(known)
    for row in rows:
        assert row["separates"]
        assert "{" not in row["command"]
        assert target in program()["metrics"][row["metric"]]["targets"]

"""What to measure next, on a program small enough to see through."""

from functools import reduce
from operator import and_, or_

import pytest
from hypothesis import given, settings
from programs import facts, metrics, program

from kernelkb.decide.conditions import compare
from kernelkb.decide.diagnose import diagnose, supported
from kernelkb.decide.next_measurement import measure_next

LEAF = {"a": 0, "b": 1, "c": 2, "a_over_b": 3, "told": 4}
NEEDS = [["a"], ["b"], ["c"], ["a", "b"], ["told"]]
SMALL = {
    "metrics": {
        "a": {"recipe": "cheap", "level": "L2"},
        "b": {"recipe": "cheap", "level": "L2"},
        "c": {"recipe": "dear", "level": "L3"},
        "a_over_b": {"recipe": None, "level": "L0"},
        "told": {"recipe": None, "level": "L0"},
    },
    "recipes": {
        "cheap": {
            "command": "look at {kernel} on {target}",
            "cost": 1.0,
            "target": None,
            "collects": 0b01,
        },
        "dear": {
            "command": "look hard at {kernel}",
            "cost": 40.0,
            "target": None,
            "collects": 0b11,
        },
    },
    "collectors": {"a": 0b11, "b": 0b11, "c": 0b10},
    "bases": {"a_over_b": ["a", "b"]},
    "comparisons": {
        "rows": [[name, ">", 0.0, 0] for name in LEAF],
        "by_metric": {name: [[">", [leaf], [0.0]]] for name, leaf in LEAF.items()},
        "needs": NEEDS,
        "collected_by": [0b11, 0b11, 0b10, 0b11, 0],
        "touches": {"a": [0, 3], "b": [1, 3], "c": [2], "a_over_b": [3], "told": [4]},
        "sources": ["test"],
    },
}


def lacking(name, *missing, of="all"):
    when = [of, *(LEAF[metric] for metric in missing)]
    masks = [SMALL["comparisons"]["collected_by"][leaf] for leaf in when[1:]]
    some, every = reduce(or_, masks), reduce(and_, masks)
    asks = dict.fromkeys(m for leaf in when[1:] for m in NEEDS[leaf] if m in SMALL["collectors"])
    hint = {
        "leaves": when[1:],
        "false": some if of == "all" else every,
        "true": every if of == "all" else some,
        "asks": list(asks),
    }
    return {"id": name, "when": when, "hint": hint}


def ask(*rows, known=(), kernel="k", extra=(), of=SMALL):
    about = compare(of["comparisons"], dict.fromkeys(known, 1.0))
    open_ = supported(list(rows), about, 100)
    return measure_next(of, [], open_, about, kernel, "cpu", extra)


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


def test_a_metric_names_what_it_separates():
    (first, *_) = ask(lacking("one", "a", "b"), lacking("two", "a"))

    assert first["separates"] == ["one", "two"]


def test_what_may_exclude_counts_for_more_than_what_could_only_confirm():
    """One false part settles an ``all``; an ``any`` stays open until every part is known."""
    dear = {"cheap": {**SMALL["recipes"]["cheap"], "cost": 40.0}, "dear": SMALL["recipes"]["dear"]}
    exclusive = {**dear, "dear": {**dear["dear"], "collects": 0b10}}
    collectors = {"a": 0b01, "b": 0b01, "c": 0b10}
    table = {**SMALL["comparisons"], "collected_by": [0b01, 0b01, 0b10, 0b01, 0]}
    small = {**SMALL, "recipes": exclusive, "collectors": collectors, "comparisons": table}
    either, both = lacking("either", "a", "c", of="any"), lacking("both", "a", "c")
    either["hint"].update({"false": 0, "true": 0b11})
    both["hint"].update({"false": 0b10, "true": 0})

    assert names(ask(either, both, of=small))[0] == "c"


def test_a_part_that_is_known_narrows_what_is_asked():
    rows = ask(lacking("both", "a", "c"), known=["a"])

    assert names(rows) == ["c"]


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
    about = facts(measured)
    found = diagnose(program(), about, target)
    open_ = supported(found.open, about, 100)
    rows = measure_next(program(), found.matches, open_, about, "k", target, [])

    assert len(rows) <= 10
    assert len(set(names(rows))) == len(rows)
    assert not set(names(rows)) & set(about.known)
    for row in rows:
        assert row["separates"]
        assert "{" not in row["command"]
        assert target in program()["metrics"][row["metric"]]["targets"]

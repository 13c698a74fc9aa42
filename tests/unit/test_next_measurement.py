"""What to measure next, on a program small enough to see through."""

from functools import reduce
from operator import and_, or_

import pytest
from hypothesis import given, settings
from shipped_rules import compare_metrics, metrics, program

from kernelkb.decide.conditions import evaluate_comparisons
from kernelkb.decide.diagnose import diagnose, rank_open_bottlenecks
from kernelkb.decide.next_measurement import choose_next_measurements

LEAF_INDEX = {"a": 0, "b": 1, "c": 2, "a_over_b": 3, "told": 4}
LEAF_METRICS = [["a"], ["b"], ["c"], ["a", "b"], ["told"]]
SMALL_RULES = {
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
        "rows": [[name, ">", 0.0, 0] for name in LEAF_INDEX],
        "by_metric": {name: [[">", [leaf], [0.0]]] for name, leaf in LEAF_INDEX.items()},
        "needs": LEAF_METRICS,
        "collected_by": [0b11, 0b11, 0b10, 0b11, 0],
        "touches": {"a": [0, 3], "b": [1, 3], "c": [2], "a_over_b": [3], "told": [4]},
        "sources": ["test"],
    },
}


def make_open_condition(name, *missing, of="all"):
    when = [of, *(LEAF_INDEX[metric] for metric in missing)]
    masks = [SMALL_RULES["comparisons"]["collected_by"][leaf] for leaf in when[1:]]
    some, every = reduce(or_, masks), reduce(and_, masks)
    asks = dict.fromkeys(
        m for leaf in when[1:] for m in LEAF_METRICS[leaf] if m in SMALL_RULES["collectors"]
    )
    hint = {
        "leaves": when[1:],
        "false": some if of == "all" else every,
        "true": every if of == "all" else some,
        "asks": list(asks),
    }
    return {"id": name, "when": when, "hint": hint}


def suggest_measurements(*rows, known=(), kernel="k", extra=(), of=SMALL_RULES):
    about = evaluate_comparisons(of["comparisons"], dict.fromkeys(known, 1.0))
    open_ = rank_open_bottlenecks(list(rows), about, 100)
    return choose_next_measurements(of, [], open_, about, kernel, "cpu", extra)


def list_metrics(rows):
    return [row["metric"] for row in rows]


def test_the_cheap_recipe_comes_first():
    assert list_metrics(
        suggest_measurements(make_open_condition("dear", "c"), make_open_condition("cheap", "a"))
    ) == ["a", "c"]


def test_a_derived_metric_is_requested_by_its_inputs():
    assert list_metrics(suggest_measurements(make_open_condition("ratio", "a_over_b"))) == [
        "a",
        "b",
    ]


def test_known_metrics_are_not_requested():
    assert list_metrics(
        suggest_measurements(make_open_condition("ratio", "a_over_b"), known=["a"])
    ) == ["b"]


def test_metrics_without_a_recipe_are_not_requested():
    assert suggest_measurements(make_open_condition("told", "told")) == []


def test_a_metric_lists_the_bottlenecks_it_separates():
    (first, *_) = suggest_measurements(
        make_open_condition("one", "a", "b"), make_open_condition("two", "a")
    )

    assert first["separates"] == ["one", "two"]


def test_a_metric_that_can_exclude_outweighs_one_that_only_confirms():
    """One false part settles an ``all``; an ``any`` stays open until every part is known."""
    dear = {
        "cheap": {**SMALL_RULES["recipes"]["cheap"], "cost": 40.0},
        "dear": SMALL_RULES["recipes"]["dear"],
    }
    exclusive = {**dear, "dear": {**dear["dear"], "collects": 0b10}}
    collectors = {"a": 0b01, "b": 0b01, "c": 0b10}
    table = {**SMALL_RULES["comparisons"], "collected_by": [0b01, 0b01, 0b10, 0b01, 0]}
    small = {**SMALL_RULES, "recipes": exclusive, "collectors": collectors, "comparisons": table}
    either, both = (
        make_open_condition("either", "a", "c", of="any"),
        make_open_condition("both", "a", "c"),
    )
    either["hint"].update({"false": 0, "true": 0b11})
    both["hint"].update({"false": 0b10, "true": 0})

    assert list_metrics(suggest_measurements(either, both, of=small))[0] == "c"


def test_known_parts_of_a_condition_narrow_the_request():
    rows = suggest_measurements(make_open_condition("both", "a", "c"), known=["a"])

    assert list_metrics(rows) == ["c"]


def test_a_metric_that_settles_more_comes_first_within_a_recipe():
    rows = suggest_measurements(
        make_open_condition("one", "b"),
        make_open_condition("two", "a"),
        make_open_condition("three", "a"),
    )

    assert list_metrics(rows) == ["a", "b"]


def test_metrics_of_the_gate_come_first():
    rows = suggest_measurements(
        make_open_condition("one", "a"), make_open_condition("two", "a"), extra=["c"]
    )

    assert list_metrics(rows)[0] == "c"


def test_the_command_names_the_kernel_and_the_target():
    (row,) = suggest_measurements(make_open_condition("one", "a"))

    assert row["command"] == "look at k on cpu"


def test_without_a_name_the_command_says_where_it_goes():
    (row,) = suggest_measurements(make_open_condition("one", "a"), kernel="")

    assert row["command"] == "look at <kernel> on cpu"


def test_nothing_open_asks_for_nothing():
    assert suggest_measurements() == []


@pytest.mark.parametrize("target", ["cpu", "cuda"])
@given(measured=metrics())
@settings(max_examples=40, deadline=None)
def test_every_question_is_one_that_can_be_answered(target, measured):
    about = compare_metrics(measured)
    found = diagnose(program(), about, target)
    open_ = rank_open_bottlenecks(found.open_rows, about, 100)
    rows = choose_next_measurements(program(), found.matches, open_, about, "k", target, [])

    assert len(rows) <= 10
    assert len(set(list_metrics(rows))) == len(rows)
    assert not set(list_metrics(rows)) & set(about.values)
    for row in rows:
        assert row["separates"]
        assert "{" not in row["command"]
        assert target in program()["metrics"][row["metric"]]["targets"]

"""What to measure next, on a program small enough to see through."""

import pytest
from hypothesis import given, settings
from shipped_rules import compare_metrics, metrics, program

from kernelkb.decide.conditions import Combination, CompiledComparison, evaluate_comparisons
from kernelkb.decide.diagnose import diagnose, rank_open_bottlenecks
from kernelkb.decide.next_measurement import choose_next_measurements
from kernelkb.decide.predict import Predictor
from kernelkb.graph.rows import ComparisonTableBuilder

CHEAP_AND_DEAR = {
    "cheap": {
        "command": "look at {kernel} on {target}",
        "verb": "profile",
        "is_own": False,
        "cost": 1.0,
        "target": None,
        "covers": {"cheap"},
    },
    "dear": {
        "command": "look hard at {kernel}",
        "verb": None,
        "is_own": False,
        "cost": 40.0,
        "target": None,
        "covers": {"cheap", "dear"},
    },
}
RECIPE_OF = {"a": "cheap", "b": "cheap", "c": "dear", "a_over_b": None, "told": None}
LEVELS = {"a": "L2", "b": "L2", "c": "L3", "a_over_b": "L0", "told": "L0"}
BASES = {"a_over_b": ["a", "b"]}


class SmallRules:
    """Five metrics, two recipes, and a comparison ``> 0`` of each metric."""

    def __init__(self, recipes=CHEAP_AND_DEAR):
        collectors = {
            metric: frozenset(name for name, row in recipes.items() if own in row["covers"])
            for metric, own in RECIPE_OF.items()
            if own
        }
        self.table = ComparisonTableBuilder(BASES, collectors)
        self.compiled = {
            "metrics": {m: {"recipe": own, "level": LEVELS[m]} for m, own in RECIPE_OF.items()},
            "recipes": recipes,
            "collectors": collectors,
            "bases": BASES,
            "comparisons": self.table.table,
        }

    def make_bottleneck(self, name, *metrics, of="all"):
        when = Combination(
            of, tuple(self.table.add(CompiledComparison(m, ">", 0, "")) for m in metrics)
        )
        return {"id": name, "when": when, "requirements": self.table.find_requirements(name, when)}


SMALL_RULES = SmallRules()
make_open_condition = SMALL_RULES.make_bottleneck


def suggest_measurements(*rows, known=(), kernel="k", extra=(), of=SMALL_RULES):
    about = evaluate_comparisons(of.compiled["comparisons"], dict.fromkeys(known, 1.0))
    open_ = rank_open_bottlenecks(list(rows), about, 100)
    return choose_next_measurements(of.compiled, [], open_, about, kernel, "cpu", extra).rows


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
    """One false part decides an ``all``; an ``any`` stays open until every part is known."""
    small = SmallRules(
        {name: {**row, "cost": 40.0, "covers": {name}} for name, row in CHEAP_AND_DEAR.items()}
    )
    confirmable = small.make_bottleneck("confirmable", "a", "told", of="any")
    excludable = small.make_bottleneck("excludable", "c", "told", of="all")

    assert list_metrics(suggest_measurements(confirmable, excludable, of=small))[0] == "c"


def test_known_parts_of_a_condition_narrow_the_request():
    rows = suggest_measurements(make_open_condition("both", "a", "c"), known=["a"])

    assert list_metrics(rows) == ["c"]


def test_a_metric_that_decides_more_comes_first_within_a_recipe():
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
@settings(max_examples=25, deadline=None)
def test_every_question_is_one_that_can_be_answered(target, measured):
    about = compare_metrics(measured)
    found = diagnose(program(), about, target, Predictor(program(), about))
    open_ = rank_open_bottlenecks(found.open_rows, about, 100)
    of = choose_next_measurements(program(), found.matches, open_, about, "k", target, [])
    rows = of.rows

    assert len(rows) <= 10
    assert len(set(list_metrics(rows))) == len(rows)
    assert not set(list_metrics(rows)) & set(about.values)
    for row in rows:
        assert row["separates"]
        assert "{" not in row["command"]
        assert target in program()["metrics"][row["metric"]]["targets"]

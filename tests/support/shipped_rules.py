"""The compiled rules of the shipped knowledge, and strategies that draw metrics for them."""

from functools import cache

from hypothesis import strategies as st
from pydantic import TypeAdapter

from kernelkb import checks
from kernelkb.decide.conditions import (
    Combination,
    CompiledComparison,
    evaluate_comparisons,
    judge_condition,
)
from kernelkb.decide.derive import complete_metrics
from kernelkb.graph.build import build_graph
from kernelkb.graph.compile import compile_rules
from kernelkb.graph.rows import ComparisonTableBuilder
from kernelkb.loading.knowledge import load_knowledge
from kernelkb.model.base import Record


@cache
def knowledge():
    return load_knowledge()


@cache
def program():
    return compile_rules(knowledge())


@cache
def graph():
    return build_graph(knowledge())


def leave_out_slow_checks(patch):
    """Let the checks of symptoms and names pass, which take longest, for mistakes in the rest."""
    for name in (
        "every_example_shows_its_symptom",
        "no_look_alike_shows_its_symptom",
        "every_other_name_belongs_to_an_entry",
    ):
        patch.setattr(checks, name, lambda *_: ())


def bottleneck_rows(rules=None):
    """Return the bottleneck rows of all targets of a program."""
    return [row for found in (rules or program())["bottlenecks"].values() for row in found]


def guards(rules=None):
    return [guard for found in (rules or program())["guards"].values() for guard in found]


def compare_metrics(measured, device=None, rules=None):
    """Return the comparisons of a program, evaluated on measured and derived metrics."""
    rules = rules or program()
    return evaluate_comparisons(rules["comparisons"], complete_metrics(rules, measured, device))


def validate_answer(answer, kind):
    """Validate an answer against a TypedDict: exactly its keys, each value of its type."""
    TypeAdapter(list[kind], config=Record.model_config).validate_python([answer], strict=True)


def flatten_condition(condition, known):
    """A compiled condition, and the outcomes of its comparisons.

    A comparison is ``("metric", op, limit)``; ``["all", …]``, ``["any", …]`` and ``["not", c]``
    combine.
    """
    builder = ComparisonTableBuilder({}, {})

    def flatten_part(part):
        if isinstance(part, list):
            return Combination(part[0], tuple(map(flatten_part, part[1:])))
        return builder.add(CompiledComparison(*part, "test"))

    compiled = flatten_part(condition)
    return compiled, evaluate_comparisons(builder.table, known)


def evaluate_condition(condition, known):
    """Return the truth of a readable condition; None when it is unknown."""
    flat, about = flatten_condition(condition, known)
    return judge_condition(flat, about.truth)


def metric_values(row):
    """Return a strategy for values in a metric's range, with extra weight on common limits."""
    low, high = row["low"], row["high"]
    top = high if high is not None else 1e6
    edges = [
        v for v in (0.0, 0.05, 0.3, 0.5, 0.6, 0.8, 0.85, 1.0, 1.5, 2.0, 16.0) if low <= v <= top
    ]
    return st.one_of(st.sampled_from(edges), st.floats(low, top, allow_nan=False))


_MAX_DRAWN = 60
"""Metrics of one example: hypothesis refuses examples that take much more randomness."""


def metrics(target=None):
    """Return a strategy for any subset of a target's metrics, each with a value in its range."""
    rows = program()["metrics"]
    chosen = {
        n: metric_values(r) for n, r in rows.items() if target is None or target in r["targets"]
    }
    some = st.sets(st.sampled_from(sorted(chosen)), max_size=_MAX_DRAWN)
    return some.flatmap(lambda names: st.fixed_dictionaries({n: chosen[n] for n in sorted(names)}))

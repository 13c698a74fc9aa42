"""Chooses what must be measured after a fix: the fired comparison, moved as far as predicted.

It is false before the change. So a fix whose cause was right makes it true, and one that changed
nothing, or something else, does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kernelkb.decide.conditions import Facts, find_reasons, satisfies
from kernelkb.decide.time_model import KernelTime, compute_latency_factor, predict_time

if TYPE_CHECKING:
    from kernelkb.decide.effect_rows import TimeModelRow
    from kernelkb.decide.predict import Prediction
    from kernelkb.decide.rules import BottleneckRow, FalsifierRow
    from kernelkb.model.answers.recommendation import Expectation, Reason

_DEFAULT_MOVE = 0.2
"""Least move, as a share of the value before, where nothing predicts one (judgement)."""
_MOVED_SHARE = 0.4
"""Share of the predicted move that must be seen (judgement)."""
_UNWANTED_OPS = {"<": ">=", "<=": ">=", ">": "<=", ">=": "<="}
"""By the operator of a fired comparison, that of its falsifier."""


def build_falsifier(
    row: BottleneckRow,
    facts: Facts,
    model: TimeModelRow,
    now: KernelTime | None,
    prediction: Prediction | None,
) -> Expectation | None:
    """Return the comparison that the fix must make true; None if nothing that fired can move.

    The comparison that fired for the bottleneck's own metric is taken, else one that the knowledge
    names if it is false now, else the first that fired. Its number lies between the value before
    and the one that is predicted, or else the limit that fired.
    """
    told = row["falsifier"]
    if told is None:
        return None
    fired = [r for r in find_reasons(row["when"], facts) if r["op"] in _UNWANTED_OPS]
    own = [
        reason
        for reason in fired
        if reason["metric"] == told["metric"] and _UNWANTED_OPS[reason["op"]][0] == told["op"][0]
    ]
    if own:
        return _negate(own[0], model, now, prediction)
    return _compare_as_told(told, facts.values) or (
        _negate(fired[0], model, now, prediction) if fired else None
    )


def _negate(
    reason: Reason, model: TimeModelRow, now: KernelTime | None, prediction: Prediction | None
) -> Expectation | None:
    metric, value, limit = reason["metric"], reason["value"], reason["limit"]
    op = _UNWANTED_OPS[reason["op"]]
    after = _predict_metric(metric, value, model, now, prediction)
    wants_less = op == "<="
    if after is None or (after >= value if wants_less else after <= value):
        after = limit
    goal = value + _MOVED_SHARE * (after - value)
    if goal == value:
        goal = value * (1 - _DEFAULT_MOVE if wants_less else 1 + _DEFAULT_MOVE)
    return _make_expectation(metric, op, goal, value)


def _compare_as_told(told: FalsifierRow, known: Mapping[str, float]) -> Expectation | None:
    """Return the comparison of the knowledge; None if it holds already or cannot be compared."""
    metric, op, limit = told["metric"], told["op"], told["value"]
    value = known.get(metric)
    if value is None:
        return None
    if limit == metric:
        factor = 1 - _DEFAULT_MOVE if op in ("<", "<=") else 1 + _DEFAULT_MOVE
        goal: float | None = value * factor
    else:
        goal = known.get(limit) if isinstance(limit, str) else limit
    if goal is None or satisfies(value, op, goal):
        return None
    return _make_expectation(metric, op, goal, value)


def _make_expectation(metric: str, op: str, goal: float, value: float) -> Expectation | None:
    goal = float(f"{goal:.4g}")
    if satisfies(value, op, goal):
        return None
    return {
        "metric": metric,
        "op": op,
        "value": goal,
        "before": value,
        "expect": f"{metric} {op} {goal:.4g}, it is {value:.4g} now",
    }


def _predict_metric(
    metric: str,
    value: float,
    model: TimeModelRow,
    now: KernelTime | None,
    prediction: Prediction | None,
) -> float | None:
    """Return a metric after the change: the use of a resource, or the share of a wait."""
    if now is None or prediction is None or prediction.change is None:
        return None
    change = prediction.change
    for resource in model["resources"]:
        if resource["use"] == metric and resource["id"] in now.use:
            work = change.work.get(resource["id"], 1.0)
            return value * work / predict_time(now, change)
    for name, (own, _) in model["waits"].items():
        if own == metric and name in change.waits:
            left = max(compute_latency_factor(now, change), 1e-6)
            return min(value, value * change.waits[name] / left)
    return None

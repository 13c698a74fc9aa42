"""Writes compiled rules as JSON, and reads them back."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

from kernelkb.decide.conditions import (
    Combination,
    CompiledComparison,
    Condition,
    DecidingRecipes,
    DerivedMetric,
    OpenCondition,
)

if TYPE_CHECKING:
    from kernelkb.decide.rules import CompiledRules

RULES_SCHEMA = 39
"""Version of the file format. Raise it whenever ``kernelkb.decide.rules`` changes: files of other
versions are ignored."""


def format_rules(rules: CompiledRules) -> str:
    """Return the rules as JSON; named tuples and sets become lists."""
    return json.dumps(rules, separators=(",", ":"), default=sorted)


def parse_rules(text: str) -> CompiledRules:
    """Return the rules that ``format_rules`` wrote.

    Raises:
        ValueError, KeyError, TypeError: The text is not rules of this version.
    """
    rules: CompiledRules = json.loads(text)
    if rules["schema"] != RULES_SCHEMA:
        raise ValueError(f"schema {rules['schema']}, not {RULES_SCHEMA}")
    rules["derived"] = [DerivedMetric(*row) for row in rules["derived"]]
    rules["collectors"] = {m: _share_set(tuple(names)) for m, names in rules["collectors"].items()}
    table = rules["comparisons"]
    table["rows"] = [CompiledComparison(*row) for row in table["rows"]]
    table["deciding"] = [_parse_deciding(pair) for pair in table["deciding"]]
    for recipe in rules["recipes"].values():
        recipe["covers"] = _share_set(tuple(recipe["covers"]))
    for bottleneck in (row for rows in rules["bottlenecks"].values() for row in rows):
        bottleneck["when"] = _parse_condition(bottleneck["when"])
        if bottleneck["hint"] is not None:
            bottleneck["hint"] = _parse_condition(bottleneck["hint"])
        if bottleneck["data"] is not None:
            bottleneck["data"] = _parse_condition(bottleneck["data"])
        for look_alike in bottleneck["unless"]:
            look_alike["when"] = _parse_condition(look_alike["when"])
        requirements = bottleneck["requirements"]
        requirements["untouched"] = _parse_open_condition(requirements["untouched"])
    for guard in (row for rows in rules["guards"].values() for row in rows):
        guard["when"] = _parse_condition(guard["when"])
    for question in (row for tree in rules["trees"].values() for row in tree["questions"].values()):
        question["when"] = _parse_condition(question["when"])
    for fix in rules["fixes"].values():
        fix["applies"] = _parse_condition(fix["applies"])
    for effect in rules["effects"].values():
        if "when" in effect:
            effect["when"] = _parse_condition(effect["when"])
    return rules


@cache
def _share_set(names: tuple[str, ...]) -> frozenset[str]:
    """Return one object for equal sets, so that comparing them is fast."""
    return frozenset(names)


def _parse_deciding(data: Any) -> DecidingRecipes:
    excluding, confirming = data
    return _share_pair(tuple(excluding), tuple(confirming))


@cache
def _share_pair(excluding: tuple[str, ...], confirming: tuple[str, ...]) -> DecidingRecipes:
    return DecidingRecipes(_share_set(excluding), _share_set(confirming))


def _parse_open_condition(data: Any) -> OpenCondition:
    bottleneck, recipes, probability, weight, metrics = data
    return OpenCondition(bottleneck, _parse_deciding(recipes), probability, weight, metrics)


def _parse_condition(data: Any) -> Condition:
    if isinstance(data, int):
        return data
    kind, parts = data
    return Combination(kind, tuple([_parse_condition(part) for part in parts]))

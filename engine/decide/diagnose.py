"""Judge every bottleneck against the metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from kernelkb.decide.conditions import Facts, find_reasons, format_reason, judge_condition

if TYPE_CHECKING:
    from kernelkb.decide.rules import (
        BottleneckRow,
        CalibrationRow,
        CompiledRules,
        FalsifierRow,
        FlatCondition,
        GuardRow,
    )
    from kernelkb.model.recommendation import (
        Advice,
        Diagnosis,
        Expectation,
        Reason,
        RuledOut,
        Suppressed,
    )


_OPEN_LOOK_ALIKE_FACTOR = 0.8
"""What is left of the confidence for each look-alike that could not be ruled out (judgement)."""


class BottleneckMatch(NamedTuple):
    """A bottleneck that matches, with what ranking and asking further need."""

    row: BottleneckRow
    diagnosis: Diagnosis
    removed_share: tuple[float, float, float] | None
    open_conditions: list[FlatCondition]
    """Unknown conditions that would rule a look-alike out."""


def judge_bottleneck(row: BottleneckRow, truth: list[bool | None]) -> str:
    """Return ``matches``, ``excluded`` or ``unknown``.

    A look-alike that holds excludes; one that is unknown leaves a match standing, with doubt.
    """
    held = judge_condition(row["when"], truth)
    if held is False:
        return "excluded"
    for other in row["unless"]:
        if judge_condition(other["when"], truth):
            return "excluded"
    return "matches" if held else "unknown"


class DiagnosisResult(NamedTuple):
    """What a set of metrics says about every bottleneck that it does not exclude."""

    matches: list[BottleneckMatch]
    open_rows: list[BottleneckRow]
    """Those that stay unknown, in evaluation order."""
    suppressed: list[Suppressed]
    """Matches, and fixes of matches, that a guard forbids."""


def diagnose(rules: CompiledRules, facts: Facts, target: str) -> DiagnosisResult:
    """Judge every bottleneck of a target, and withhold what a guard forbids."""
    truth, untouched = facts.truth, facts.touched_leaves.isdisjoint
    guards = [guard for guard in rules["guards"][target] if judge_condition(guard["when"], truth)]
    silenced: dict[str, GuardRow] = {}
    for guard in reversed(guards):  # the first guard in the file speaks
        silenced.update(dict.fromkeys(guard["bottlenecks"], guard))
    found = DiagnosisResult([], [], [])
    for row in rules["bottlenecks"][target]:
        outcome = "unknown" if untouched(row["leaves"]) else judge_bottleneck(row, truth)
        if outcome == "unknown":
            if row["id"] not in silenced:
                found.open_rows.append(row)
        elif outcome == "matches":
            if row["id"] in silenced:
                found.suppressed.append(_build_suppressed(row["id"], silenced[row["id"]], facts))
            else:
                found.matches.append(_build_match(rules, row, facts, guards, found.suppressed))
    return found


OpenBottleneck: TypeAlias = "tuple[BottleneckRow, int | None]"
"""An unknown bottleneck, and how many comparisons of its condition hold; None: nothing that it
asks for is known."""


def rank_open_bottlenecks(
    rows: list[BottleneckRow], facts: Facts, max_count: int
) -> list[OpenBottleneck]:
    """Return the unknown bottlenecks to which most already points, the best first."""
    truth, untouched = facts.truth, facts.touched_leaves.isdisjoint
    found: list[OpenBottleneck] = []
    for row in rows:
        leaves = row["hint"]["leaves"]
        found.append((row, None if untouched(leaves) else [truth[n] for n in leaves].count(True)))
    found.sort(key=lambda one: one[1] or 0, reverse=True)
    return found[:max_count]


def build_unknown_diagnosis(bottleneck: OpenBottleneck, facts: Facts) -> Diagnosis:
    """Return what an answer says of an unknown bottleneck."""
    row, held = bottleneck
    return {
        "bottleneck": row["id"],
        "group": row["group"],
        "verdict": "unknown",
        "confidence": 0.0,
        "predicted_speedup": None,
        "because": [] if held is None else list(find_reasons(row["when"], facts)),
        "ruled_out": [],
        "falsifier": None,
        "fixes": [],
        "learned": None,
    }


def _build_match(
    rules: CompiledRules,
    row: BottleneckRow,
    facts: Facts,
    guards: list[GuardRow],
    suppressed: list[Suppressed],
) -> BottleneckMatch:
    from kernelkb.decide.gain import (
        as_speedup,
        predict_removed_share,
    )  # a few numbers mostly match nothing

    widen = max((guard["widen"] for guard in guards if guard["widen"]), default=1.0)
    fixes = _select_fixes(rules, row, facts, guards, suppressed)
    lesson = _find_calibration(rules, row, fixes, facts.values)
    share = lesson["share"] if lesson else None
    removed = predict_removed_share(row["gain"], facts.values, rules["realised"], widen, share)
    doubts = [o["when"] for o in row["unless"] if judge_condition(o["when"], facts.truth) is None]
    diagnosis: Diagnosis = {
        "bottleneck": row["id"],
        "group": row["group"],
        "verdict": "matches",
        "confidence": round(row["weight"] * _OPEN_LOOK_ALIKE_FACTOR ** len(doubts), 3),
        "predicted_speedup": as_speedup(removed) if removed else None,
        "because": _drop_duplicates(list(find_reasons(row["when"], facts))),
        "ruled_out": _list_ruled_out(row, facts),
        "falsifier": _describe_falsifier(row["falsifier"], facts.values),
        "fixes": fixes,
        "learned": lesson["learned"] if lesson and removed else None,
    }
    return BottleneckMatch(row, diagnosis, removed, doubts)


def _find_calibration(
    rules: CompiledRules, row: BottleneckRow, fixes: list[Advice], known: Mapping[str, float]
) -> CalibrationRow | None:
    """Return what was learned about the fix to try first, where it would be tried.

    The order of the fixes stays: it says what comes before what, and is no matter of price.
    """
    if not fixes or not rules["learned"]:
        return None
    cc = known.get("device.cc")
    if row["target"] == "cpu":
        where = "cpu"
    elif cc is None:
        return None
    else:
        where = f"sm_{round(cc * 10)}"
    return rules["learned"].get(f"{where}/{row['id']}/{fixes[0]['id']}")


def _build_suppressed(
    bottleneck: str, guard: GuardRow, facts: Facts, fix: str | None = None
) -> Suppressed:
    grounds = ", ".join(
        format_reason(r, facts.table["notes"]) for r in find_reasons(guard["when"], facts)
    )
    because = f"{grounds}: {guard['because']}"
    return {"bottleneck": bottleneck, "guard": guard["id"], "because": because, "fix": fix}


def _drop_duplicates(found: list[Reason]) -> list[Reason]:
    return [reason for at, reason in enumerate(found) if reason not in found[:at]]


def _list_ruled_out(row: BottleneckRow, facts: Facts) -> list[RuledOut]:
    out: list[RuledOut] = []
    for other in row["unless"]:
        if judge_condition(other["when"], facts.truth) is False:
            reasons_not = find_reasons(other["when"], facts, outcome=False)
            grounds = ", ".join(format_reason(r, facts.table["notes"]) for r in reasons_not)
            out.append({"bottleneck": other["bottleneck"], "because": grounds})
    return out


def _describe_falsifier(row: FalsifierRow | None, known: Mapping[str, float]) -> Expectation | None:
    if row is None:
        return None
    value = row["value"]
    limit = known.get(value) if isinstance(value, str) else value
    goal = f"{value}" if limit is None else f"{limit:.4g}"
    now = known.get(row["metric"])
    was = "" if now is None else f", it is {now:.4g} now"
    return {"metric": row["metric"], "expect": f"{row['metric']} {row['op']} {goal}{was}"}


def _select_fixes(
    rules: CompiledRules,
    row: BottleneckRow,
    facts: Facts,
    guards: list[GuardRow],
    suppressed: list[Suppressed],
) -> list[Advice]:
    """Return the fixes that fit this kernel and GPU, in the order to try them."""
    offered: list[Advice] = []
    for name in row["fixes"]:
        fix = rules["fixes"][name]
        guard = next((g for g in guards if name in g["fixes"]), None)
        if guard:
            suppressed.append(_build_suppressed(row["id"], guard, facts, name))
        elif "applies" not in fix or judge_condition(fix["applies"], facts.truth) is not False:
            offered.append(fix["advice"])
    return offered

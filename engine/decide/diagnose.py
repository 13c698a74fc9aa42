"""Judge every bottleneck against the metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from engine.decide.answer import Advice, Diagnosis, Expectation, Reason, RuledOut, Suppressed
from engine.decide.conditions import holds, limit_of, missing, reasons, said
from engine.decide.gain import as_speedup, predict
from engine.decide.program import BottleneckRow, FalsifierRow, Program

_DOUBT = 0.8
"""What is left of the confidence for each look-alike that could not be ruled out (judgement)."""


class Finding(NamedTuple):
    """One bottleneck's verdict, with what ranking and asking further need."""

    row: BottleneckRow
    verdict: str
    diagnosis: Diagnosis
    removed: tuple[float, float, float] | None
    missing: tuple[str, ...]
    """Quantities that would settle the verdict, or rule a look-alike out."""


def verdict(row: BottleneckRow, known: Mapping[str, float]) -> str:
    """Return ``matches``, ``excluded`` or ``unknown``.

    A look-alike that holds excludes; one that is unknown leaves a match standing, with doubt.
    """
    held = holds(row["when"], known)
    if held is False or any(holds(other["when"], known) for other in row["unless"]):
        return "excluded"
    return "matches" if held else "unknown"


def diagnose(
    program: Program, known: Mapping[str, float], target: str
) -> tuple[list[Finding], list[Suppressed]]:
    """Judge every bottleneck of a target, and withhold what a guard forbids."""
    guards = [
        guard
        for guard in program["guards"]
        if guard["target"] == target and holds(guard["when"], known)
    ]
    findings: list[Finding] = []
    suppressed: list[Suppressed] = []
    for row in program["bottlenecks"]:
        if row["target"] != target:
            continue
        finding = _judge(program, row, known)
        if finding.verdict == "excluded":
            continue
        guard = next((g for g in guards if row["id"] in g["bottlenecks"]), None)
        if guard is None:
            findings.append(finding)
        else:
            facts = ", ".join(said(r) for r in reasons(guard["when"], known))
            because = f"{facts}: {guard['because']}"
            suppressed.append({"bottleneck": row["id"], "guard": guard["id"], "because": because})
    return findings, suppressed


def _judge(program: Program, row: BottleneckRow, known: Mapping[str, float]) -> Finding:
    outcome = verdict(row, known)
    matched = outcome == "matches"
    removed = predict(row["gain"], known, program["realised"]) if matched else None
    open_look_alikes = [o["when"] for o in row["unless"] if holds(o["when"], known) is None]
    lacking = dict.fromkeys(missing(row["when"], known))
    if matched:
        lacking = dict.fromkeys(name for c in open_look_alikes for name in missing(c, known))
    confidence = row["weight"] * _DOUBT ** len(open_look_alikes) if matched else 0.0
    diagnosis: Diagnosis = {
        "bottleneck": row["id"],
        "group": row["group"],
        "verdict": outcome,
        "confidence": round(confidence, 3),
        "predicted_speedup": as_speedup(removed) if removed else None,
        "because": _distinct(list(reasons(row["when"], known))),
        "ruled_out": _ruled_out(row, known) if matched else [],
        "falsifier": _expectation(row["falsifier"], known) if matched else None,
        "fixes": [_advice(program, name) for name in row["fixes"]] if matched else [],
    }
    return Finding(row, outcome, diagnosis, removed, tuple(lacking))


def _distinct(found: list[Reason]) -> list[Reason]:
    return [reason for at, reason in enumerate(found) if reason not in found[:at]]


def _ruled_out(row: BottleneckRow, known: Mapping[str, float]) -> list[RuledOut]:
    out: list[RuledOut] = []
    for other in row["unless"]:
        if holds(other["when"], known) is False:
            facts = ", ".join(said(r) for r in reasons(other["when"], known, wanted=False))
            out.append({"bottleneck": other["bottleneck"], "because": facts})
    return out


def _expectation(row: FalsifierRow | None, known: Mapping[str, float]) -> Expectation | None:
    if row is None:
        return None
    limit = limit_of(row["value"], known)
    goal = f"{row['value']}" if limit is None else f"{limit:.4g}"
    now = known.get(row["metric"])
    was = "" if now is None else f", it is {now:.4g} now"
    return {"metric": row["metric"], "expect": f"{row['metric']} {row['op']} {goal}{was}"}


def _advice(program: Program, name: str) -> Advice:
    fix = program["fixes"][name]
    return {
        "id": name,
        "do": fix["do"],
        "before": fix["before"],
        "after": fix["after"],
        "when_not": fix["when_not"],
        "cost_min": fix["cost_min"],
        "risk": fix["risk"],
    }

"""Judge every bottleneck against the metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from kernelkb.decide.conditions import Facts, holds, reasons, said

if TYPE_CHECKING:
    from kernelkb.decide.answer import Advice, Diagnosis, Expectation, Reason, RuledOut, Suppressed
    from kernelkb.decide.rules import (
        BottleneckRow,
        Condition,
        FalsifierRow,
        GuardRow,
        LearnedRow,
        Program,
    )


_DOUBT = 0.8
"""What is left of the confidence for each look-alike that could not be ruled out (judgement)."""


class Finding(NamedTuple):
    """A bottleneck that matches, with what ranking and asking further need."""

    row: BottleneckRow
    diagnosis: Diagnosis
    removed: tuple[float, float, float] | None
    open: list[Condition]
    """Unknown conditions that would rule a look-alike out."""


def verdict(row: BottleneckRow, truth: list[bool | None]) -> str:
    """Return ``matches``, ``excluded`` or ``unknown``.

    A look-alike that holds excludes; one that is unknown leaves a match standing, with doubt.
    """
    held = holds(row["when"], truth)
    if held is False:
        return "excluded"
    for other in row["unless"]:
        if holds(other["when"], truth):
            return "excluded"
    return "matches" if held else "unknown"


class Diagnosed(NamedTuple):
    """What a set of metrics says about every bottleneck that it does not exclude."""

    matches: list[Finding]
    open: list[BottleneckRow]
    """Those that stay unknown, in evaluation order."""
    suppressed: list[Suppressed]
    """Matches, and fixes of matches, that a guard forbids."""


def diagnose(program: Program, facts: Facts, target: str) -> Diagnosed:
    """Judge every bottleneck of a target, and withhold what a guard forbids."""
    truth, untouched = facts.truth, facts.touched.isdisjoint
    guards = [guard for guard in program["guards"][target] if holds(guard["when"], truth)]
    silenced: dict[str, GuardRow] = {}
    for guard in reversed(guards):  # the first guard in the file speaks
        silenced.update(dict.fromkeys(guard["bottlenecks"], guard))
    found = Diagnosed([], [], [])
    for row in program["bottlenecks"][target]:
        outcome = "unknown" if untouched(row["leaves"]) else verdict(row, truth)
        if outcome == "unknown":
            if row["id"] not in silenced:
                found.open.append(row)
        elif outcome == "matches":
            if row["id"] in silenced:
                found.suppressed.append(_withheld(row["id"], silenced[row["id"]], facts))
            else:
                found.matches.append(_match(program, row, facts, guards, found.suppressed))
    return found


Candidate: TypeAlias = "tuple[BottleneckRow, int | None]"
"""An unknown bottleneck, and how many comparisons of its condition hold; None: nothing that it
asks for is known."""


def supported(rows: list[BottleneckRow], facts: Facts, most: int) -> list[Candidate]:
    """Return the unknown bottlenecks to which most already points, the best first."""
    truth, untouched = facts.truth, facts.touched.isdisjoint
    found: list[Candidate] = []
    for row in rows:
        leaves = row["hint"]["leaves"]
        found.append((row, None if untouched(leaves) else [truth[n] for n in leaves].count(True)))
    found.sort(key=lambda one: one[1] or 0, reverse=True)
    return found[:most]


def unknown(candidate: Candidate, facts: Facts) -> Diagnosis:
    """Return what an answer says of an unknown bottleneck."""
    row, held = candidate
    return {
        "bottleneck": row["id"],
        "group": row["group"],
        "verdict": "unknown",
        "confidence": 0.0,
        "predicted_speedup": None,
        "because": [] if held is None else list(reasons(row["when"], facts)),
        "ruled_out": [],
        "falsifier": None,
        "fixes": [],
        "learned": None,
    }


def _match(
    program: Program,
    row: BottleneckRow,
    facts: Facts,
    guards: list[GuardRow],
    suppressed: list[Suppressed],
) -> Finding:
    from kernelkb.decide.gain import as_speedup, predict  # a few numbers mostly match nothing

    widen = max((guard["widen"] for guard in guards if guard["widen"]), default=1.0)
    fixes = _advice(program, row, facts, guards, suppressed)
    lesson = _lesson(program, row, fixes, facts.known)
    share = lesson["share"] if lesson else None
    removed = predict(row["gain"], facts.known, program["realised"], widen, share)
    doubts = [o["when"] for o in row["unless"] if holds(o["when"], facts.truth) is None]
    diagnosis: Diagnosis = {
        "bottleneck": row["id"],
        "group": row["group"],
        "verdict": "matches",
        "confidence": round(row["weight"] * _DOUBT ** len(doubts), 3),
        "predicted_speedup": as_speedup(removed) if removed else None,
        "because": _distinct(list(reasons(row["when"], facts))),
        "ruled_out": _ruled_out(row, facts),
        "falsifier": _expectation(row["falsifier"], facts.known),
        "fixes": fixes,
        "learned": lesson["said"] if lesson and removed else None,  # type: ignore[typeddict-item]
    }
    return Finding(row, diagnosis, removed, doubts)


def _lesson(
    program: Program, row: BottleneckRow, fixes: list[Advice], known: Mapping[str, float]
) -> LearnedRow | None:
    """Return what was learned about the fix to try first, where it would be tried.

    The order of the fixes stays: it says what comes before what, and is no matter of price.
    """
    if not fixes or not program["learned"]:
        return None
    cc = known.get("device.cc")
    if row["target"] == "cpu":
        where = "cpu"
    elif cc is None:
        return None
    else:
        where = f"sm_{round(cc * 10)}"
    return program["learned"].get(f"{where}/{row['id']}/{fixes[0]['id']}")


def _withheld(bottleneck: str, guard: GuardRow, facts: Facts) -> Suppressed:
    grounds = ", ".join(said(r, facts.table["notes"]) for r in reasons(guard["when"], facts))
    because = f"{grounds}: {guard['because']}"
    return {"bottleneck": bottleneck, "guard": guard["id"], "because": because}


def _distinct(found: list[Reason]) -> list[Reason]:
    return [reason for at, reason in enumerate(found) if reason not in found[:at]]


def _ruled_out(row: BottleneckRow, facts: Facts) -> list[RuledOut]:
    out: list[RuledOut] = []
    for other in row["unless"]:
        if holds(other["when"], facts.truth) is False:
            reasons_not = reasons(other["when"], facts, wanted=False)
            grounds = ", ".join(said(r, facts.table["notes"]) for r in reasons_not)
            out.append({"bottleneck": other["bottleneck"], "because": grounds})
    return out


def _expectation(row: FalsifierRow | None, known: Mapping[str, float]) -> Expectation | None:
    if row is None:
        return None
    value = row["value"]
    limit = known.get(value) if isinstance(value, str) else value
    goal = f"{value}" if limit is None else f"{limit:.4g}"
    now = known.get(row["metric"])
    was = "" if now is None else f", it is {now:.4g} now"
    return {"metric": row["metric"], "expect": f"{row['metric']} {row['op']} {goal}{was}"}


def _advice(
    program: Program,
    row: BottleneckRow,
    facts: Facts,
    guards: list[GuardRow],
    suppressed: list[Suppressed],
) -> list[Advice]:
    """Return the fixes that fit this kernel and GPU, in the order to try them."""
    offered: list[Advice] = []
    for name in row["fixes"]:
        fix = program["fixes"][name]
        guard = next((g for g in guards if name in g["fixes"]), None)
        if guard:
            suppressed.append({**_withheld(row["id"], guard, facts), "fix": name})
        elif "applies" not in fix or holds(fix["applies"], facts.truth) is not False:
            offered.append({"id": name, **fix["advice"]})  # type: ignore[typeddict-item]  # JSON
    return offered

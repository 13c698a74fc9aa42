"""Decides for each bottleneck whether the metrics match it, exclude it or leave it unknown."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from kernelkb.decide.conditions import Facts, find_reasons, format_reasons, judge_condition
from kernelkb.decide.falsifier import build_falsifier
from kernelkb.decide.open_bottlenecks import weigh_undecided

if TYPE_CHECKING:
    from kernelkb.decide.predict import Prediction, Predictor
    from kernelkb.decide.rule_rows import Condition
    from kernelkb.decide.rules import (
        BottleneckRow,
        CalibrationRow,
        CompiledRules,
        GuardRow,
        LibraryRow,
    )
    from kernelkb.model.answers.recommendation import (
        Advice,
        Diagnosis,
        Reason,
        RuledOut,
        Suppressed,
    )


_UNPRICED_GROUPS = ("correctness", "build", "measurement", "terminal")
"""Groups whose fixes make no kernel faster: they repair a measurement, or say that it is done."""

_ROOF_GROUPS = ("memory-traffic", "terminal", *_UNPRICED_GROUPS)
"""Groups whose diagnoses are not advice alone, but say what binds."""

_MIN_SPEEDUP = 1.03
"""Predicted speedup below which a true observation is no advice (judgement)."""

_OPEN_LOOK_ALIKE_FACTOR = 0.8
"""Factor on the confidence for each look-alike that could not be ruled out (judgement)."""


class BottleneckMatch(NamedTuple):
    """A bottleneck that the metrics match, with its diagnosis and predicted gain."""

    row: BottleneckRow
    diagnosis: Diagnosis
    prediction: Prediction | None
    """What its first fix with a computed gain would gain; None if no fix has one."""
    open_conditions: list[Condition]
    """Conditions of look-alikes that are still unknown."""


def judge_bottleneck(row: BottleneckRow, truth: list[bool | None]) -> str:
    """Return ``matches``, ``excluded`` or ``unknown``.

    A look-alike whose condition is true excludes the bottleneck; one that is unknown does not.
    """
    held = judge_condition(row["when"], truth)
    if held is False:
        return "excluded"
    for other in row["unless"]:
        if judge_condition(other["when"], truth):
            return "excluded"
    return "matches" if held else "unknown"


class DiagnosisResult(NamedTuple):
    """Every bottleneck that the metrics do not exclude."""

    matches: list[BottleneckMatch]
    open_rows: list[BottleneckRow]
    """Unknown bottlenecks, in evaluation order."""
    suppressed: list[Suppressed]
    """Matches, and fixes of matches, that a guard forbids."""
    library: LibraryRow | None
    """The library that the kernel comes from; None for a kernel of one's own."""
    undecided: dict[str, float]
    """Causes that missing counters leave open, with the factor on every confidence; empty without
    a profile."""


def diagnose(
    rules: CompiledRules,
    facts: Facts,
    target: str,
    predictor: Predictor,
    library: LibraryRow | None = None,
) -> DiagnosisResult:
    """Return the matching, unknown and suppressed bottlenecks of a target, ``cpu`` or ``cuda``.

    Of a kernel of a library only the fixes that change its call are offered.
    """
    truth, is_untouched = facts.truth, facts.touched.isdisjoint
    guards = [guard for guard in rules["guards"][target] if judge_condition(guard["when"], truth)]
    suppressing: dict[str, GuardRow] = {}
    for guard in reversed(guards):  # reversed, so that the first of several guards is reported
        suppressing.update(dict.fromkeys(guard["bottlenecks"], guard))
    result = DiagnosisResult([], [], [], library, {})
    for row in rules["bottlenecks"][target]:
        unknown = is_untouched(row["comparisons"])
        verdict = "unknown" if unknown else judge_bottleneck(row, truth)
        name = row["id"]
        if verdict == "unknown":
            if name not in suppressing:
                result.open_rows.append(row)
        elif verdict == "matches":
            if name in suppressing:
                result.suppressed.append(_build_suppressed(name, suppressing[name], facts))
            else:
                match = _build_match(
                    rules, row, facts, guards, result.suppressed, predictor, library
                )
                because = _find_reason_to_drop(match, library)
                if because is None:
                    result.matches.append(match)
                else:
                    result.suppressed.append(because)
    if predictor.now is not None:
        result.undecided.update(weigh_undecided(rules, result.open_rows, facts))
        _lower_confidence(result)
    return result


def _lower_confidence(result: DiagnosisResult) -> None:
    """Lower the confidence of every match for each cause that is left open."""
    factor = prod(result.undecided.values())
    for match in result.matches:
        match.diagnosis["confidence"] = round(match.diagnosis["confidence"] * factor, 3)


def _build_match(
    rules: CompiledRules,
    row: BottleneckRow,
    facts: Facts,
    guards: list[GuardRow],
    suppressed: list[Suppressed],
    predictor: Predictor,
    library: LibraryRow | None,
) -> BottleneckMatch:
    widen = max((guard["widen"] for guard in guards if guard["widen"]), default=1.0)
    fixes = _select_fixes(rules, row, facts, guards, suppressed)
    if library is not None:
        fixes = [fix for fix in fixes if rules["fixes"][fix["id"]]["at_call"]]
    calibration = _find_calibration(rules, row, fixes, facts.values)
    share = calibration["share"] if calibration else None
    prediction = _predict_fixes(row, fixes, predictor, share, widen)
    doubts = [o["when"] for o in row["unless"] if judge_condition(o["when"], facts.truth) is None]
    diagnosis: Diagnosis = {
        "bottleneck": row["id"],
        "group": row["group"],
        "verdict": "matches",
        "confidence": round(row["weight"] * _OPEN_LOOK_ALIKE_FACTOR ** len(doubts), 3),
        "predicted_speedup": predictor.make_interval(prediction, widen) if prediction else None,
        "because": _drop_duplicates(list(find_reasons(row["when"], facts))),
        "ruled_out": _list_ruled_out(row, facts),
        "falsifier": build_falsifier(row, facts, rules["time_model"], predictor.now, prediction),
        "fixes": fixes,
        "learned": calibration["learned"] if calibration and prediction else None,
        "lines": None,
    }
    return BottleneckMatch(row, diagnosis, prediction, doubts)


def _predict_fixes(
    row: BottleneckRow,
    fixes: list[Advice],
    predictor: Predictor,
    learned_share: float | None,
    widen: float,
) -> Prediction | None:
    """Give each fix its predicted speedup, and leave out those that give nothing.

    Returns:
        The prediction of the first fix with an effect that is to be expected and needs no
        permission, or of the next one if sessions found that it gives nothing; None if a counter
        for it is missing.
    """
    found: dict[str, Prediction] = {}
    for fix in fixes if row["group"] not in _UNPRICED_GROUPS else ():
        prediction = predictor.predict_fix(fix["id"], learned_share if fix is fixes[0] else None)
        if prediction is not None:
            found[fix["id"]] = prediction
            fix["predicted_speedup"] = predictor.make_interval(prediction, widen)
    wanted = [f["id"] for f in fixes if predictor.expects_effect(f["id"])]
    firm = [name for name in wanted if name not in found or not found[name].conditional]
    first = found.get(firm[0]) if firm else None
    if first is not None and first.speedup < _MIN_SPEEDUP <= first.model_speedup:
        others = (found[name] for name in firm if name in found)
        first = next((other for other in others if other.speedup >= _MIN_SPEEDUP), first)
    if first is not None and first.speedup >= _MIN_SPEEDUP:
        gainless = {name for name, p in found.items() if p.speedup < _MIN_SPEEDUP}
        fixes[:] = [fix for fix in fixes if fix["id"] not in gainless]
    return first


def _find_calibration(
    rules: CompiledRules, row: BottleneckRow, fixes: list[Advice], known: Mapping[str, float]
) -> CalibrationRow | None:
    """Return the calibration of the first fix on this architecture; None if never measured."""
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
    reasons = format_reasons(find_reasons(guard["when"], facts), facts)
    because = f"{reasons}: {guard['because']}"
    return {"bottleneck": bottleneck, "guard": guard["id"], "because": because, "fix": fix}


def _find_reason_to_drop(match: BottleneckMatch, library: LibraryRow | None) -> Suppressed | None:
    """Return why a true observation is no advice; None if it is.

    That a roof binds is worth saying also where no fix gains anything.
    """
    name, gain = match.row["id"], match.prediction.speedup if match.prediction else None
    if library is not None and not match.diagnosis["fixes"]:
        because = f"its fixes change the kernel, which is {library['title']}'s"
        return {"bottleneck": name, "guard": "library-kernel", "because": because, "fix": None}
    if gain is None or gain >= _MIN_SPEEDUP or match.row["group"] in _ROOF_GROUPS:
        return None
    because = f"its fix would gain {gain:.2f}x: other limits hold the time"
    return {"bottleneck": name, "guard": "no-gain", "because": because, "fix": None}


def _drop_duplicates(reasons: list[Reason]) -> list[Reason]:
    return [reason for at, reason in enumerate(reasons) if reason not in reasons[:at]]


def _list_ruled_out(row: BottleneckRow, facts: Facts) -> list[RuledOut]:
    excluded: list[RuledOut] = []
    for other in row["unless"]:
        if judge_condition(other["when"], facts.truth) is False:
            reasons = find_reasons(other["when"], facts, outcome=False)
            because = format_reasons(reasons, facts)
            excluded.append({"bottleneck": other["bottleneck"], "because": because})
    return excluded


def _select_fixes(
    rules: CompiledRules,
    row: BottleneckRow,
    facts: Facts,
    guards: list[GuardRow],
    suppressed: list[Suppressed],
) -> list[Advice]:
    """Return the applicable fixes, in the order to try them; add guarded ones to ``suppressed``."""
    offered: list[Advice] = []
    for name in row["fixes"]:
        fix = rules["fixes"][name]
        guard = next((g for g in guards if name in g["fixes"]), None)
        if guard:
            suppressed.append(_build_suppressed(row["id"], guard, facts, name))
        elif "applies" not in fix or judge_condition(fix["applies"], facts.truth) is not False:
            advice = fix["advice"].copy()
            advice["measured"] = fix["measured"].get(row["id"], advice["measured"])
            offered.append(advice)
    return offered

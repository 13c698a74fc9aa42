"""Judges every bottleneck by the metrics: those that match, ranked, and those that stay open.

And walks decision trees, to the leaf that the metrics lead to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

from kernelkb.decide.conditions import (
    Facts,
    find_missing_quantities,
    find_reasons,
    format_reasons,
    judge_condition,
)
from kernelkb.decide.predict import LEAST_GAIN, build_falsifier

if TYPE_CHECKING:
    from kernelkb.decide.conditions import Condition
    from kernelkb.decide.predict import Prediction, Predictor
    from kernelkb.decide.rules import (
        BottleneckRow,
        CalibrationRow,
        CompiledRules,
        GuardRow,
        LibraryRow,
        TreeRow,
    )
    from kernelkb.model.answers.recommendation import (
        Advice,
        Diagnosis,
        Gate,
        GateVerdict,
        PredictedSpeedup,
        Reason,
        RuledOut,
        Suppressed,
    )

LEAST_SURE = 0.3
"""Confidence below which a cause is measured, not acted on (judgement): where no counter tells
causes apart, by ``python -m benchmarks.zoo reliability``."""

_LEAST_UNDECIDED = 0.69
"""Least factor on a confidence for the causes that missing counters leave open: of all of them, one
at most comes before what was found. Chosen by ``python -m benchmarks.zoo reliability``."""
_OUTER_GROUPS = ("measurement", "system", "terminal")
"""Groups of bottlenecks around the kernel."""
_PROFILE_LEVELS = ("L1", "L2", "L3")

_UNPRICED_GROUPS = ("correctness", "build", "measurement", "terminal")
"""Groups whose fixes make no kernel faster: they repair a measurement, or say that it is done."""

_LAUNCH = "parallelism"
"""Group of causes that lie in the shape of the launch."""

_ROOF_GROUPS = ("memory-traffic", "terminal", *_UNPRICED_GROUPS)
"""Groups whose diagnoses are not advice alone, but say what binds."""

_BY_GAIN = ("launch-overhead-bound",)
"""Causes whose fixes differ in gain by far more than predictions err (fewer launches gained 24x,
30x and 56x where a graph was told 2.5x to 3.9x): the greatest is told first."""
_MIN_SPEEDUP = 1.03
"""Predicted speedup below which a true observation is no advice (judgement)."""

_OPEN_FACTOR = 0.8
"""Factor on the confidence for each look-alike that could not be ruled out, and for each other
cause that missing counters leave open (judgement)."""

_MAX_HINTED = 1
"""Reasons to wait that the messages of ncu's rules name where there is no table of them."""

_LEADING_GROUPS = ("correctness", "build", "measurement", "terminal")
"""Groups ranked before all others: the measured times are not valid, or no gain is possible."""

_UNPRICED_SAVING = 0.08
"""Saving assumed where none can be computed: a roof that binds stands before fixes that give
nothing, and after those that give something (judgement)."""

_UNPRICED_SHAPE = 0.5
"""Factor on it for the shape of a launch whose gain is not told: it tells what can be lost at most,
so what counters saw comes first (judgement; 0.2 to 0.5 rank the zoo alike)."""

_CAUSE_SPEEDUP = 1.1
"""Predicted speedup from which a cause ranks before its symptoms, even if theirs is larger
(judgement)."""

_BEHIND_CAUSE = 0.99


class BottleneckMatch(NamedTuple):
    """A bottleneck that the metrics match, with its diagnosis and predicted gain."""

    row: BottleneckRow
    diagnosis: Diagnosis
    prediction: Prediction | None
    """What its first fix with a computed gain would gain; None if no fix has one."""
    open_conditions: list[Condition]
    """Conditions of look-alikes that are still unknown, and its own where a hint speaks for it."""


def judge_bottleneck(
    row: BottleneckRow, truth: list[bool | None], *, takes_hints: bool = True
) -> str:
    """Return ``matches``, ``excluded`` or ``unknown``.

    A look-alike whose condition is true excludes the bottleneck; one that is unknown does not.
    """
    held = judge_condition(row["when"], truth)
    if held is None and takes_hints and row["hint"] is not None:
        held = judge_condition(row["hint"], truth) or None
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
    undecided: list[str]
    """Causes that missing counters leave open; empty without a profile."""


def diagnose(
    rules: CompiledRules,
    facts: Facts,
    target: str,
    predictor: Predictor,
    library: LibraryRow | None = None,
) -> DiagnosisResult:
    """Return the matching, unknown and suppressed bottlenecks of a target, ``cpu`` or ``cuda``.

    Of a kernel of a library only the fixes that change its call are offered. Hints count in a short
    profile, without the table of waits, which tells causes apart.
    """
    truth, is_untouched = facts.truth, facts.touched.isdisjoint
    guards = [guard for guard in rules["guards"][target] if judge_condition(guard["when"], truth)]
    suppressing: dict[str, GuardRow] = {}
    for guard in reversed(guards):  # reversed, so that the first of several guards is reported
        suppressing.update(dict.fromkeys(guard["bottlenecks"], guard))
    result = DiagnosisResult([], [], [], library, [])
    is_short = predictor.now is None or len(predictor.now.waits) <= _MAX_HINTED
    for row in rules["bottlenecks"][target]:
        unknown = is_untouched(row["comparisons"])
        verdict = "unknown" if unknown else judge_bottleneck(row, truth, takes_hints=is_short)
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
    return result if predictor.now is None else _weigh_open_causes(rules, result, facts)


def _weigh_open_causes(
    rules: CompiledRules, result: DiagnosisResult, facts: Facts
) -> DiagnosisResult:
    """Return the result with a lower confidence of every match for the causes left open."""
    undecided = list_undecided(rules, result.open_rows, facts)
    factor = max(_LEAST_UNDECIDED, _OPEN_FACTOR ** len(undecided))
    matches = [_lower_confidence(match, factor) for match in result.matches]
    return result._replace(matches=matches, undecided=undecided)


def _lower_confidence(match: BottleneckMatch, factor: float) -> BottleneckMatch:
    confidence = round(match.diagnosis["confidence"] * factor, 3)
    return match._replace(diagnosis={**match.diagnosis, "confidence": confidence})


def _build_match(
    rules: CompiledRules,
    row: BottleneckRow,
    facts: Facts,
    guards: list[GuardRow],
    suppressed: list[Suppressed],
    predictor: Predictor,
    library: LibraryRow | None,
) -> BottleneckMatch:
    doubts = [o["when"] for o in row["unless"] if judge_condition(o["when"], facts.truth) is None]
    weight = row["weight"] * _OPEN_FACTOR ** len(doubts)
    if row["hint"] is not None and judge_condition(row["when"], facts.truth) is None:
        doubts.append(row["when"])
        weight = min(weight, row["hint_weight"])
        row = {**row, "when": row["hint"]}
    widen = max((guard["widen"] for guard in guards if guard["widen"]), default=1.0)
    fixes = _select_fixes(rules, row, facts, guards, suppressed)
    if library is not None:
        fixes = [fix for fix in fixes if rules["fixes"][fix["id"]]["at_call"]]
    fixes = _put_greatest_first(row, fixes, predictor)
    calibration = _find_calibration(rules, row, fixes, facts.values)
    share = calibration["share"] if calibration else None
    priced, prediction = _predict_fixes(row, fixes, predictor, share, widen)
    diagnosis: Diagnosis = {
        "bottleneck": row["id"],
        "group": row["group"],
        "verdict": "matches",
        "confidence": round(weight, 3),
        "predicted_speedup": (told := predictor.tell_interval(prediction, widen)),
        "because": _list_reasons(row, facts),
        "ruled_out": _list_ruled_out(row, facts),
        "falsifier": build_falsifier(row, facts, rules["time_model"], predictor.now, prediction),
        "fixes": priced,
        "learned": calibration["learned"] if calibration and told else None,
        "lines": None,
    }
    return BottleneckMatch(row, diagnosis, prediction, doubts)


def _put_greatest_first(
    row: BottleneckRow, fixes: list[Advice], predictor: Predictor
) -> list[Advice]:
    """Return the fixes of a cause of ``_BY_GAIN`` with the one that is told to gain most first.

    One whose own condition is unknown stays behind; so do all where the first has no price.
    """
    if row["id"] not in _BY_GAIN or not fixes:
        return fixes
    priced = {fix["id"]: predictor.predict_fix(fix["id"], None, 1.0) for fix in fixes}
    gains = {name: found.speedup for name, found in priced.items() if found is not None}
    if fixes[0]["id"] not in gains:
        return fixes
    sure = [fix for fix in fixes if fix["id"] in gains and not fix["undecided"]]
    best = max([fixes[0], *sure], key=lambda fix: gains[fix["id"]])
    return [best, *(fix for fix in fixes if fix is not best)]


def _predict_fixes(
    row: BottleneckRow,
    fixes: list[Advice],
    predictor: Predictor,
    learned_share: float | None,
    widen: float,
) -> tuple[list[Advice], Prediction | None]:
    """Return the fixes with their predicted speedups, without those that give nothing.

    Returns:
        The fixes, and the prediction of the first one with an effect that is to be expected and
        needs no permission, or of the next one if sessions found that it gives nothing; None if a
        counter for it is missing.
    """
    found: dict[str, Prediction] = {}
    for fix in fixes if row["group"] not in _UNPRICED_GROUPS else ():
        share = learned_share if fix is fixes[0] else None
        prediction = predictor.predict_fix(fix["id"], share, widen)
        if prediction is not None:
            found[fix["id"]] = prediction
    wanted = [f["id"] for f in fixes if predictor.expects_effect(f["id"])]
    firm = [name for name in wanted if name not in found or not found[name].conditional]
    first = found.get(firm[0]) if firm else None
    if first is not None and first.speedup < _MIN_SPEEDUP <= first.model_speedup:
        others = (found[name] for name in firm if name in found)
        first = next((other for other in others if other.speedup >= _MIN_SPEEDUP), first)
    if first is not None and first.speedup < _MIN_SPEEDUP and predictor.lacks_waits():
        found, first = {}, None
    if first is not None and first.speedup >= _MIN_SPEEDUP:
        gainless = {name for name, p in found.items() if p.speedup < _MIN_SPEEDUP}
        fixes = [fix for fix in fixes if fix["id"] not in gainless]
    intervals = {name: predictor.tell_interval(p, widen) for name, p in found.items()}
    priced = [_price(fix, intervals.get(fix["id"])) for fix in fixes]
    return priced, first


def _price(fix: Advice, interval: PredictedSpeedup | None) -> Advice:
    return fix if interval is None else {**fix, "predicted_speedup": interval}


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
    if match.row["group"] in _ROOF_GROUPS:
        return None
    if gain is not None and gain < _MIN_SPEEDUP:
        because = f"its fix would gain {gain:.2f}x: other limits hold the time"
        return {"bottleneck": name, "guard": "no-gain", "because": because, "fix": None}
    is_untold = match.diagnosis["predicted_speedup"] is None  # the gain is the most it can be
    if is_untold and gain is not None and gain < LEAST_GAIN and match.row["group"] == _LAUNCH:
        because = f"its fix would gain {gain:.2f}x at most, and no counter tells that it does"
        return {"bottleneck": name, "guard": "no-gain", "because": because, "fix": None}
    if not match.diagnosis["fixes"]:
        because = "none of its fixes can gain anything here, by their own conditions"
        return {"bottleneck": name, "guard": "no-fix-applies", "because": because, "fix": None}
    return None


def _list_reasons(row: BottleneckRow, facts: Facts) -> list[Reason]:
    """Return what made a bottleneck match, then what of its inputs explains it."""
    told = [] if row["data"] is None else find_reasons(row["data"], facts)
    return _drop_duplicates([*find_reasons(row["when"], facts), *told])


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
            continue
        holds = judge_condition(fix["applies"], facts.truth)
        if holds is not False:
            measured = fix["measured"].get(row["id"], fix["advice"]["measured"])
            lacking = [] if holds else find_missing_quantities(fix["applies"], facts)
            offered.append({**fix["advice"], "measured": measured, "undecided": lacking})
    return offered


def rank_matches(
    matches: Iterable[BottleneckMatch], effort: Mapping[str, float]
) -> list[BottleneckMatch]:
    """Return the same matches: faults and terminal verdicts, then the others by score.

    A symptom stands behind its causes, and what no change is known for behind what has one. Ties
    keep evaluation order.

    Args:
        matches: Matches in evaluation order.
        effort: Factor by the minutes that a fix takes, such as ``30``.
    """
    found = list(matches)
    scores = _lower_symptoms(found, {match.row["id"]: score(match, effort) for match in found})

    def sort_key(finding: BottleneckMatch) -> tuple[int, bool, float]:
        if finding.row["group"] in _LEADING_GROUPS:
            return _LEADING_GROUPS.index(finding.row["group"]), False, 0.0
        is_bare = not finding.diagnosis["fixes"]
        return len(_LEADING_GROUPS), is_bare, -scores[finding.row["id"]]

    return sorted(found, key=sort_key)


def put_structure_first(
    matches: list[BottleneckMatch], names: Sequence[str]
) -> list[BottleneckMatch]:
    """Return the causes with the one first that a change of structure cures, if one does.

    The small changes stand behind it: none of them gives as much.

    Args:
        matches: Ranked.
        names: Fixes that close what all others leave, the best first.
    """
    if not matches or matches[0].row["group"] in _LEADING_GROUPS:
        return matches
    for name in names:
        for match in matches:
            found = [fix for fix in match.diagnosis["fixes"] if fix["id"] == name]
            if found:
                others = [fix for fix in match.diagnosis["fixes"] if fix["id"] != name]
                fixes, gain = [*found, *others], found[0]["predicted_speedup"]
                diagnosis: Diagnosis = {**match.diagnosis, "fixes": fixes}
                first = match._replace(diagnosis={**diagnosis, "predicted_speedup": gain})
                return [first, *(one for one in matches if one is not match)]
    return matches


def _lower_symptoms(found: list[BottleneckMatch], scores: Mapping[str, float]) -> dict[str, float]:
    """Return the scores, that of each symptom below those of its causes."""
    gains = {m.row["id"]: m.prediction.speedup for m in found if m.prediction}
    lowered = dict(scores)
    for _ in found:  # as often as a chain of symptoms can be long
        before = dict(lowered)
        for match in found:
            name = match.row["id"]
            enough = min(_CAUSE_SPEEDUP, gains.get(name, _CAUSE_SPEEDUP))
            causes = (c for c in match.row["symptom_of"] if gains.get(c, 0.0) >= enough)
            above = [lowered[cause] for cause in causes]
            lowered[name] = min([lowered[name], *(each * _BEHIND_CAUSE for each in above)])
        if lowered == before:
            break
    return lowered


def score(finding: BottleneckMatch, effort: Mapping[str, float]) -> float:
    """Return the rank score of a match, 0 to 1.

    It is the share of the time that its fix would remove, times the confidence, times a factor for
    the effort of the first fix.
    """
    is_shape = finding.row["group"] == _LAUNCH
    saved = _UNPRICED_SAVING * (_UNPRICED_SHAPE if is_shape else 1.0)
    is_told = finding.diagnosis["predicted_speedup"] is not None
    if finding.prediction is not None and (is_told or not is_shape):
        saved = max(0.0, 1 - 1 / finding.prediction.speedup)
    fixes = finding.diagnosis["fixes"]
    factor = effort[str(fixes[0]["cost_min"])] if fixes else 1.0
    return saved * finding.diagnosis["confidence"] * factor


class OpenBottlenecks(NamedTuple):
    """Unknown bottlenecks, those with the most true comparisons first."""

    rows: list[BottleneckRow]
    held_counts: dict[str, int]
    """By id, how many comparisons of its condition are true; absent if no quantity is known."""


def rank_open_bottlenecks(
    rows: list[BottleneckRow], facts: Facts, max_count: int
) -> OpenBottlenecks:
    """Return at most ``max_count`` unknown bottlenecks, those with most true comparisons first."""
    truth, is_untouched = facts.truth, facts.touched.isdisjoint
    held_counts: dict[str, int] = {}
    for row in rows:
        own = row["requirements"]["comparisons"]
        if not is_untouched(own):
            held_counts[row["id"]] = [truth[position] for position in own].count(True)
    ranked = sorted(rows, key=lambda row: held_counts.get(row["id"], 0), reverse=True)
    return OpenBottlenecks(ranked[:max_count], held_counts)


def list_undecided(rules: CompiledRules, rows: list[BottleneckRow], facts: Facts) -> list[str]:
    """Return the unknown bottlenecks of the kernel itself that a counter could decide.

    A full profile leaves few; one with counters missing, many.
    """
    levels = {name: row["level"] for name, row in rules["metrics"].items()}
    return [
        row["id"]
        for row in rows
        if row["group"] not in _OUTER_GROUPS
        and any(
            levels.get(quantity) in _PROFILE_LEVELS
            for quantity in find_missing_quantities(row["when"], facts)
        )
    ]


def build_unknown_diagnosis(row: BottleneckRow, facts: Facts) -> Diagnosis:
    """Return the diagnosis of an unknown bottleneck: no prediction and no fixes."""
    return {
        "bottleneck": row["id"],
        "group": row["group"],
        "verdict": "unknown",
        "confidence": 0.0,
        "predicted_speedup": None,
        "because": list(find_reasons(row["when"], facts)),
        "ruled_out": [],
        "falsifier": None,
        "fixes": [],
        "learned": None,
        "lines": None,
    }


class GateWalk(NamedTuple):
    """The leaf at which a walk ended, and the path to it."""

    gate: Gate
    """The leaf's id and verdict, with the reasons."""
    path: tuple[tuple[str, str], ...]
    """For each question passed, its id and the branch taken: then, otherwise or unknown."""
    do: tuple[str, ...]
    """Next steps, in order."""
    comes_first: bool
    """Whether they come before any fix."""
    fixes: tuple[str, ...] = ()
    """Changes that the leaf names."""


def walk_gate_tree(tree: TreeRow, facts: Facts) -> GateWalk:
    """Return the leaf of a decision tree that the metrics lead to.

    Every question has a branch for unknown.
    """
    path: list[tuple[str, str]] = []
    reasons = ""
    node = tree["root"]
    while node not in tree["leaves"]:
        question = tree["questions"][node]
        holds = judge_condition(question["when"], facts.truth)
        branch = "unknown" if holds is None else "then" if holds else "otherwise"
        path.append((node, branch))
        if holds is not None:
            found = list(find_reasons(question["when"], facts, holds))
            numbers = [reason for reason in found if reason["op"] != "=="]  # the leaf tells flags
            reasons = format_reasons(numbers, facts) if found else reasons
        node = question["then"] if holds else question["otherwise"] if holds is False else ""
        node = node or question["unknown"]
    leaf = tree["leaves"][node]
    because = leaf["because"]
    if reasons and path[-1][1] != "unknown":
        because = f"{reasons}: {because[0].lower()}{because[1:]}"
    verdict = cast("GateVerdict", leaf["verdict"])  # other trees also end in diagnose and measure
    gate: Gate = {"id": node, "verdict": verdict, "because": because}
    do, fixes = tuple(leaf["do"]), tuple(leaf["fixes"])
    return GateWalk(gate, tuple(path), do, leaf["comes_first"], fixes)

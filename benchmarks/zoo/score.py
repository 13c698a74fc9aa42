"""Scores advice on the zoo: is the first cause right, and does its fix give what was told.

The gain is judged for the fix that was made, where the answer prices it, and else for the first
diagnosis. Nsight Compute's own rules are scored the same way, by their largest estimate.
"""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from math import exp, log
from pathlib import Path
from typing import NamedTuple

from benchmarks.zoo.pairs import list_pairs
from benchmarks.zoo.recordings import PairRecording, read_recordings
from benchmarks.zoo.score_lines import LineScore, score_lines

from kernelkb.actions.project.bench_target import get_project_path, measure_language
from kernelkb.actions.project.rules_cache import load_compiled_rules
from kernelkb.decide.conditions import satisfies
from kernelkb.decide.derive import complete_metrics
from kernelkb.decide.recommend import recommend
from kernelkb.decide.rules import CompiledRules
from kernelkb.errors import BadValueError
from kernelkb.model.answers.recommendation import Diagnosis, KernelAnswer, PredictedSpeedup
from kernelkb.model.base import Name, Record, Slug
from kernelkb.model.kernels.kernel import Kernel, Pair
from kernelkb.safety.paths import shipped_folder

_WORST_COUNT = 10
_ALARM = 1.2
"""Predicted speedup above which advice on a kernel at its roof is false."""
CURED = ("flaw", "two-flaws")
"""Kinds of pairs with a flaw that the change cures."""
_NO_PROMISE: PredictedSpeedup = {"low": 1 / _ALARM, "point": 1.0, "high": _ALARM}
"""What an answer without a predicted gain says: nothing known would help."""
NCU_CAUSES: dict[str, frozenset[str]] = {
    "UncoalescedGlobalAccess": frozenset({"uncoalesced-global-access", "partial-sector-writes"}),
    "MemoryCacheAccessPattern": frozenset(
        {
            "uncoalesced-global-access",
            "partial-sector-writes",
            "narrow-memory-access",
            "register-spilling",
            "local-array-indexing",
        }
    ),
    "SharedMemoryConflicts": frozenset({"shared-memory-bank-conflicts"}),
    "UncoalescedSharedAccess": frozenset({"shared-memory-bank-conflicts"}),
    "ThreadDivergence": frozenset({"branch-divergence"}),
    "AchievedOccupancy": frozenset({"workload-imbalance", "tail-effect", "barrier-stall"}),
    "TheoreticalOccupancy": frozenset(
        {
            "occupancy-limited-registers",
            "occupancy-limited-shared-memory",
            "occupancy-limited-block-size",
        }
    ),
    "LaunchConfiguration": frozenset({"small-grid", "tail-effect"}),
    "WorkloadImbalance": frozenset({"workload-imbalance", "small-grid", "tail-effect"}),
    "SOLFPRoofline": frozenset({"fp64-on-slow-pipe"}),
    "FPInstructions": frozenset({"non-fused-fp"}),
    "CPIStall": frozenset(
        {"memory-latency-bound", "barrier-stall", "lsu-queue-throttle", "mio-throttle", "low-ilp"}
    ),
}
"""The bottlenecks that a rule of Nsight Compute may mean; others mean none of ours."""


class ScoreRow(Record):
    """How often one predictor was right, on one set of pairs."""

    predictor: str
    pair_count: int
    """Pairs with a flaw that a change cured."""
    first_cause: int
    """Pairs whose first cause was a correct one."""
    cause_in_three: int
    within_14: int
    """Pairs whose told gain was within a factor of 1.4 of the measured one."""
    within_2: int
    median_error: float
    """Median factor between told and measured gain, at least 1."""
    first_change: int | None = None
    """Pairs whose first fix of the first cause is the change that was made, or one as right; None
    for a predictor that names no fixes."""
    held_50: float | None = None
    """Share of the intervals for 50 % that held the measured gain; None without intervals. Their
    width is fitted to the pairs of other operations."""
    held_80: float | None = None
    held_95: float | None = None


class AdviceError(Record):
    """A pair for which more was promised than the kernel or the change can give."""

    kernel: Name
    told: float
    measured: float


class WorstPrediction(Record):
    """One of the predictions with the largest errors."""

    kernel: Name
    bottleneck: Slug | None
    """The first cause that was named."""
    fix: Slug
    told: float
    measured: float


class Score(Record):
    """How often advice was right, by predictor, and where it was not."""

    rows: tuple[ScoreRow, ...]
    roof_count: int
    """Pairs at their roof."""
    roof_alarms: tuple[AdviceError, ...]
    """Of those, the ones that were promised more than 1.2x."""
    no_gain_count: int
    """Pairs whose change gains nothing or makes the kernel slower."""
    no_gain_advised: tuple[AdviceError, ...]
    """Of those, the ones whose change was the first fix told, with more than 1.2x."""
    tempting_count: int
    """Pairs with a variant whose change seems fit and is to gain nothing; not all are timed."""
    tempted: tuple[Name, ...]
    """Of those, the ones where the first fix told is that change."""
    falsifier_count: int
    """Pairs whose correct cause came with a falsifier."""
    falsifiers_held: int
    """Of those, the ones that held after the change."""
    falsifiers_true_before: int
    """Falsifiers of any diagnosis that held before the change."""
    worst: tuple[WorstPrediction, ...]
    profiler_timed: int
    """Pairs whose gain is a ratio of profiler durations, since they were not timed yet."""
    devices: tuple[Slug, ...]
    lines: LineScore | None = None
    """None without reports."""


class Judged(NamedTuple):
    """One pair with the answer for its kernel before the change."""

    kernel: Kernel
    pair: Pair
    recording: PairRecording
    answer: KernelAnswer

    @property
    def matches(self) -> list[Diagnosis]:
        """The diagnoses that match, best first."""
        return [d for d in self.answer["diagnoses"] if d["verdict"] == "matches"]

    @property
    def told(self) -> PredictedSpeedup:
        """The gain told for the change that was made, or else for the first diagnosis."""
        for diagnosis in self.matches[:3]:
            for fix in diagnosis["fixes"]:
                gain = fix["predicted_speedup"]
                if fix["id"] == self.pair.fix and gain is not None:
                    return gain
        first = self.matches[0]["predicted_speedup"] if self.matches else None
        return first or _NO_PROMISE

    def find_cause(self) -> Diagnosis | None:
        """Return the first correct diagnosis whose fixes hold the change, or else the first."""
        right = [d for d in self.matches if d["bottleneck"] in self.pair.bottlenecks]
        with_fix = (d for d in right if any(f["id"] == self.pair.fix for f in d["fixes"]))
        return next(with_fix, right[0] if right else None)

    @property
    def first_fix(self) -> Slug | None:
        """The first fix of the first cause."""
        fixes = self.matches[0]["fixes"] if self.matches else []
        return fixes[0]["id"] if fixes else None

    def names_change(self) -> bool:
        """Return whether the first fix is a right one."""
        return self.first_fix in (self.pair.fix, *self.pair.also_right)

    def names_tempting(self) -> bool:
        """Return whether the first fix is only what a variant that tempts has done."""
        variants = [v for v in self.kernel.variants if v.id in self.pair.tempting]
        return not self.names_change() and any(self.first_fix in v.applies for v in variants)

    def names_cause(self, count: int) -> bool:
        """Return whether a correct cause is among the first ones."""
        return any(d["bottleneck"] in self.pair.bottlenecks for d in self.matches[:count])


def score_advice(measured: Path | None = None, reports: Path | None = None) -> Score:
    """Score the advice on every recorded pair.

    Args:
        measured: Folder of recordings; by default the project's, or else the shipped one.
        reports: Folder of their binary reports, to score the lines of the source as well.

    Raises:
        BadValueError: There are no recordings, or no reports.
        KbError: A report cannot be read.
    """
    rules = load_compiled_rules()
    recordings = read_all_recordings(measured)
    judged = list(judge_pairs(rules, recordings))
    cured = [one for one in judged if one.pair.kind in CURED]
    at_roof = [one for one in judged if one.pair.kind == "at-roof"]
    no_gain = [one for one in judged if one.pair.kind == "no-gain"]
    held, with_falsifier = _count_falsifiers(rules, cured)
    tempted = [one for one in judged if one.pair.tempting]
    return Score(
        rows=(*_score_sets(cured, rules), _score_ncu(cured)),
        roof_count=len(at_roof),
        roof_alarms=tuple(_find_alarms(at_roof)),
        no_gain_count=len(no_gain),
        no_gain_advised=tuple(_find_bad_advice(no_gain)),
        tempting_count=len(tempted),
        tempted=tuple(one.recording.kernel for one in tempted if one.names_tempting()),
        falsifier_count=with_falsifier,
        falsifiers_held=held,
        falsifiers_true_before=sum(_count_true_before(rules, one) for one in judged),
        worst=tuple(_list_worst(cured)),
        profiler_timed=sum(one.recording.timed_by == "profiler" for one in judged),
        devices=tuple(dict.fromkeys(one.recording.device for one in judged)),
        lines=score_lines(recordings, reports) if reports is not None else None,
    )


def read_all_recordings(measured: Path | None = None) -> list[PairRecording]:
    """Return the recordings of a folder; by default those of the project, or the shipped ones.

    Raises:
        BadValueError: There are none.
    """
    own = get_project_path() / "kernels" / "zoo" / "measured"
    shipped = Path(shipped_folder("kernels")) / "zoo" / "measured"
    folder = measured or (own if own.is_dir() else shipped)
    rows = [row for file in sorted(folder.glob("*.jsonl")) for row in read_recordings(file)]
    if not rows:
        raise BadValueError(
            f"no recordings in {folder}; python -m benchmarks.zoo record writes them"
        )
    return rows


def judge_pairs(
    rules: CompiledRules, rows: Iterable[PairRecording], kept: Collection[str] | None = None
) -> Iterable[Judged]:
    """Yield each pair with the answer for its kernel before the change.

    Args:
        rules: The knowledge.
        rows: The recordings; one that was timed and is still to be profiled is left out.
        kept: Metrics that the answer may rest on; None for all that were recorded.
    """
    kernels = list_pairs()
    for recorded in rows:
        kernel = kernels.get(recorded.kernel)
        pair = kernel.pair if kernel else None
        if kernel is None or pair is None or not (recorded.report or pair.launch_count > 1):
            continue
        row = _add_language(recorded, kernel)
        metrics = row.before.metrics
        if kept is not None:
            metrics = {name: value for name, value in metrics.items() if name in kept}
        yield Judged(kernel, pair, row, recommend(rules, metrics, device=row.device))


def _add_language(row: PairRecording, kernel: Kernel) -> PairRecording:
    """Return a recording with the metric of the language, which the kernel's folder tells."""
    own = [measure_language(one) for one in kernel.variants if one.id == row.before.variant]
    metrics = {name: value for found in own for name, value in found.items()}
    before = row.before.model_copy(update={"metrics": {**metrics, **row.before.metrics}})
    return row.model_copy(update={"before": before})


def _score_sets(cured: Sequence[Judged], rules: CompiledRules) -> Iterator[ScoreRow]:
    """Yield the score on the pairs that the rules know, and that on those that are held out."""
    known = [one for one in cured if not one.pair.held_out]
    yield _score_rows("kb recommend", known, known, rules)
    if held_out := [one for one in cured if one.pair.held_out]:
        yield _score_rows("kb recommend, held out", held_out, (), rules)


def _score_rows(
    name: str, cured: Sequence[Judged], fitted: Sequence[Judged], rules: CompiledRules
) -> ScoreRow:
    errors = [abs(log(one.recording.speedup / one.told["point"])) for one in cured]
    shares = {level: _share_held(cured, fitted, rules, level) for level in (50, 80, 95)}
    return ScoreRow(
        predictor=name,
        pair_count=len(cured),
        first_cause=sum(one.names_cause(1) for one in cured),
        cause_in_three=sum(one.names_cause(3) for one in cured),
        first_change=sum(one.names_change() for one in cured),
        within_14=sum(error <= log(1.4) for error in errors),
        within_2=sum(error <= log(2) for error in errors),
        median_error=round(exp(statistics.median(errors)), 3) if errors else 1.0,
        held_50=shares[50],
        held_80=shares[80],
        held_95=shares[95],
    )


def _share_held(
    cured: Sequence[Judged], fitted: Sequence[Judged], rules: CompiledRules, level: int
) -> float | None:
    """Return the share of intervals that hold, each as wide as other operations need, or as told.

    The width of an answer's interval is divided by the fitted one, so that only the fit is left
    out, not the factors of effects.

    Args:
        cured: The pairs whose intervals are judged.
        fitted: Those that the width is fitted to, without those of the same operation; without
            any, the width is the one that answers have.
        rules: The knowledge.
        level: Percent of the measured gains that the intervals are to hold.
    """
    widths = rules["time_model"]["widths"]
    width_80 = widths["80"]
    fits = [(one.pair.operation, *_measure_error(one, width_80)) for one in fitted]
    held = 0
    for one in cured:
        others = sorted(e / u for name, e, u in fits if name != one.pair.operation and u > 0)
        if fitted and not others:
            return None
        error, unit = _measure_error(one, width_80)
        last = min(len(others) - 1, round(level / 100 * len(others)))
        width = others[last] if others else widths[str(level)]
        held += error <= width * unit
    return round(held / len(cured), 3) if cured else None


def _measure_error(one: Judged, width_80: float) -> tuple[float, float]:
    """Return the logarithm of the factor between told and measured gain, and its unit of width."""
    unit = log(one.told["point"] / one.told["low"]) / width_80
    return abs(log(one.recording.speedup / one.told["point"])), unit


def _score_ncu(cured: Sequence[Judged]) -> ScoreRow:
    """Score Nsight Compute: its rules of the whole kernel, the largest estimate first."""
    first = three = 0
    errors: list[float] = []
    for one in cured:
        rules = one.recording.before.ncu_rules
        ranked = sorted((r for r in rules if r in NCU_CAUSES), key=lambda rule: -rules[rule])
        named = [bool(NCU_CAUSES[rule] & set(one.pair.bottlenecks)) for rule in ranked[:3]]
        first += named[:1] == [True]
        three += any(named)
        told = 1 / (1 - rules[ranked[0]]) if ranked else 1.0
        errors.append(abs(log(one.recording.speedup / told)))
    return ScoreRow(
        predictor="Nsight Compute's rules",
        pair_count=len(cured),
        first_cause=first,
        cause_in_three=three,
        within_14=sum(error <= log(1.4) for error in errors),
        within_2=sum(error <= log(2) for error in errors),
        median_error=round(exp(statistics.median(errors)), 3) if errors else 1.0,
    )


def _find_alarms(at_roof: Iterable[Judged]) -> Iterable[AdviceError]:
    for one in at_roof:
        told = max((g["point"] for d in one.matches if (g := d["predicted_speedup"])), default=1.0)
        if told > _ALARM:
            yield _make_error(one, told)


def _find_bad_advice(no_gain: Iterable[Judged]) -> Iterable[AdviceError]:
    for one in no_gain:
        first = one.matches[0]["fixes"][0] if one.matches and one.matches[0]["fixes"] else None
        gain = first["predicted_speedup"] if first else None
        if first and gain and first["id"] == one.pair.fix and gain["point"] > _ALARM:
            yield _make_error(one, gain["point"])


def _make_error(one: Judged, told: float) -> AdviceError:
    return AdviceError(
        kernel=one.recording.kernel, told=told, measured=round(one.recording.speedup, 3)
    )


def _count_falsifiers(rules: CompiledRules, cured: Iterable[Judged]) -> tuple[int, int]:
    """Return how many falsifiers of correct causes held after the change, and their number.

    One whose metric was not measured after the change is left out.
    """
    held = count = 0
    for one in cured:
        right = one.find_cause()
        told = right["falsifier"] if right else None
        after = complete_metrics(rules, one.recording.after.metrics, one.recording.device)
        if right is None or told is None or told["metric"] not in after:
            continue
        count += 1
        held += _holds(rules, right, one.recording.after.metrics, one.recording.device)
    return held, count


def _count_true_before(rules: CompiledRules, one: Judged) -> int:
    metrics, device = one.recording.before.metrics, one.recording.device
    return sum(_holds(rules, diagnosis, metrics, device) for diagnosis in one.matches)


def _holds(
    rules: CompiledRules, diagnosis: Diagnosis, metrics: Mapping[str, float], device: str
) -> bool:
    told = diagnosis["falsifier"]
    if told is None:
        return False
    value = complete_metrics(rules, metrics, device).get(told["metric"])
    return value is not None and satisfies(value, told["op"], told["value"])


def _list_worst(cured: Iterable[Judged]) -> list[WorstPrediction]:
    ranked = sorted(cured, key=lambda one: -abs(log(one.recording.speedup / one.told["point"])))
    return [
        WorstPrediction(
            kernel=one.recording.kernel,
            bottleneck=one.matches[0]["bottleneck"] if one.matches else None,
            fix=one.pair.fix,
            told=one.told["point"],
            measured=round(one.recording.speedup, 3),
        )
        for one in ranked[:_WORST_COUNT]
    ]

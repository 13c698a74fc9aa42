"""Judges what a change or a fix gave, from the records before and after it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from kernelkb.actions.project.bench_target import BenchTarget
from kernelkb.actions.project.rules_cache import load_compiled_rules
from kernelkb.decide.conditions import format_comparison, satisfies
from kernelkb.decide.derive import complete_metrics
from kernelkb.decide.recognise import ChangeEvidence, RecognisedChange, recognise_change
from kernelkb.errors import KbError
from kernelkb.measure.bench.statistics import Speedup
from kernelkb.model.answers.recommendation import Diagnosis, KernelFindings, PredictedSpeedup
from kernelkb.model.answers.triage import FixOutcome, VariantResult
from kernelkb.model.entries.learned import PRIOR_SHARE
from kernelkb.model.kernels.kernel import Kernel, Variant
from kernelkb.model.records.history import (
    AdvisedChange,
    Attempt,
    AttemptEvent,
    AttemptId,
    ChangeOutcome,
    ChangeResult,
    Measurement,
)
from kernelkb.model.records.measurement import Bench, is_undecided, is_valid
from kernelkb.model.records.session import Decision
from kernelkb.record.measurements.compare import compute_comparison, find_noise_reason

if TYPE_CHECKING:
    from kernelkb.decide.rules import SignatureRow
    from kernelkb.record.attempt_store import AttemptStore
    from kernelkb.record.measurements.store import Store

NO_GAIN_BELOW = 1.05
"""A change whose interval ends below this gains nothing that counts (judgement)."""
_LARGE = 1.3
"""Ratio of times of two runs from which on it is told without an interval (judgement)."""
_MAX_BACK = 20
"""States before among which one that was timed is looked for."""


class _Gain(NamedTuple):
    """The measured gain of a change, or why there is none."""

    result: ChangeResult
    measured: float | None = None
    interval: tuple[float, float] | None = None
    why: str | None = None


def find_outcome(
    bench_target: BenchTarget,
    store: AttemptStore,
    attempt: AttemptId,
    events: Sequence[AttemptEvent],
) -> AttemptEvent | None:
    """Return what a change gave, once a step failed or a bench was timed; None otherwise.

    Args:
        bench_target: The variant.
        store: Holds the attempt and its events.
        attempt: The new state.
        events: Of the command that ended.
    """
    steps = [one for one in events if one.kind != "note"]
    failure = next((one for one in steps[-1:] if one.status == "failure"), None)
    timed = next((event for event in reversed(events) if event.kind == "bench"), None)
    if not (failure or timed):
        return None
    found = store.get_many([attempt]).get(attempt)
    parent = store.get_many([found.parent]).get(found.parent) if found and found.parent else None
    if found is None or parent is None:
        return None
    line = store.list_ancestors(parent.id)[:_MAX_BACK]
    before = store.list_events(line)
    own = [event for event in before if event.attempt == parent.id]
    advised = next((one.advised for one in reversed(own) if one.advised), None)
    failed = failure and _Gain("failed", why=failure.found)
    gain = failed or _compare(bench_target, line, before, timed)
    change = _recognise(store, parent, found, (own, events), advised)
    from kernelkb.record.attempt_store import create_event  # loads SQLAlchemy

    return create_event(
        attempt=attempt,
        kernel=found.kernel,
        kind="outcome",
        outcome=_make_outcome(parent.id, change, advised, gain),
        **_name_place(failure or timed or events[-1]),
    )


def _name_place(event: AttemptEvent) -> dict[str, str | None]:
    return {"origin": event.origin, "device": event.device, "workload": event.workload}


def _make_outcome(
    parent: AttemptId, change: RecognisedChange, advised: AdvisedChange | None, gain: _Gain
) -> ChangeOutcome:
    return ChangeOutcome(
        parent=parent,
        fixes=change.fixes,
        recognised_by=change.by,
        lines=change.lines,
        advised=advised,
        bottleneck=advised.bottleneck if advised else None,
        measured=gain.measured,
        interval=gain.interval,
        result=gain.result,
        why=gain.why,
    )


def _compare(
    bench_target: BenchTarget,
    line: Sequence[AttemptId],
    before: Sequence[AttemptEvent],
    timed: AttemptEvent | None,
) -> _Gain:
    """Compare with the parent, or where it was not timed, the next one in its line that was."""
    if timed is None or timed.measurement is None:
        return _Gain("undecided", why="the bench was not recorded")
    olds = [
        event
        for event in before
        if event.kind == "bench"
        and event.measurement
        and (event.workload, event.device) == (timed.workload, timed.device)
    ]
    if not olds:
        return _Gain("undecided", why="no state before was timed")
    nearest = min(olds, key=lambda event: line.index(event.attempt)).attempt
    olds = [event for event in olds if event.attempt == nearest]
    from kernelkb.record.measurements.store import open_store

    with open_store(bench_target.project, writes=False) as measurements:
        return _compare_newest(measurements, olds, timed.measurement)


def _compare_newest(measurements: Store, olds: Sequence[AttemptEvent], new: str) -> _Gain:
    """Compare with the newest bench before that can be compared."""
    gain = _Gain("undecided")
    for event in reversed(olds):
        if event.measurement == new:  # the record answered for equal machine code
            return _Gain("no-gain", 1.0, (1.0, 1.0))
        old, now = measurements.get_many([str(event.measurement), new])
        compared = compute_comparison(old, now)
        if compared.ratio is None or compared.interval is None:
            gain = _compare_roughly(old, now, compared.because)
            continue
        low, high = compared.interval
        result: ChangeResult = "undecided"
        if low > 1:
            result = "faster"
        elif high < 1:
            result = "slower"
        elif high < NO_GAIN_BELOW:
            result = "no-gain"
        return _Gain(result, compared.ratio, compared.interval)
    return gain


def _compare_roughly(old: Measurement, new: Measurement, because: str) -> _Gain:
    """Compare two times of two runs, which only tell large changes, and have no interval."""
    unfit = [one for one in (old, new) if find_noise_reason(one) or not one.candidate_us]
    if unfit or old.id == new.id or old.timing != new.timing:
        return _Gain("undecided", why=because)
    ratio = (old.candidate_us or 0.0) / (new.candidate_us or 1.0)
    if max(ratio, 1 / ratio) < _LARGE:
        return _Gain("undecided", why=because)
    return _Gain("faster" if ratio > 1 else "slower", ratio, why=because)


def _recognise(
    store: AttemptStore,
    parent: Attempt,
    attempt: Attempt,
    events: tuple[Sequence[AttemptEvent], Sequence[AttemptEvent]],
    advised: AdvisedChange | None,
) -> RecognisedChange:
    evidence = collect_evidence(store, parent, attempt, events)
    evidence = evidence._replace(advised=advised.fix if advised else None)
    return recognise_change(list_signatures(), load_compiled_rules()["fixes"].keys(), evidence)


def list_signatures() -> dict[str, SignatureRow]:
    """Return the signatures of the fixes that have one, by the fix's id."""
    rows = {name: row["recognised_by"] for name, row in load_compiled_rules()["fixes"].items()}
    return {name: row for name, row in rows.items() if row is not None}


def collect_evidence(
    store: AttemptStore,
    parent: Attempt,
    attempt: Attempt,
    events: tuple[Sequence[AttemptEvent], Sequence[AttemptEvent]],
) -> ChangeEvidence:
    """Return what is kept of a change, without what was advised.

    Args:
        store: Holds the sources.
        parent: The state before.
        attempt: The state after.
        events: Of both.
    """
    sources = read_changed_sources(store, parent, attempt)
    names = parent.files.keys() | attempt.files.keys()
    changed = {name for name in names if parent.files.get(name) != attempt.files.get(name)}
    counts = [_find_counts(part) for part in events]
    codes = [find_code(part) for part in events]
    return ChangeEvidence(
        sources=list(sources.values()),
        counts=(counts[0], counts[1]) if counts[0] and counts[1] else None,
        said=next((one.found for one in reversed(events[1]) if one.kind == "note"), attempt.said),
        same_code=codes[0] == codes[1] is not None and is_compiled_ahead(attempt),
        is_whole=changed == sources.keys() and parent.flags == attempt.flags,
    )


def is_compiled_ahead(attempt: Attempt) -> bool:
    """Return whether the machine code of a state is all that runs; of Python it is not."""
    return not any(name.endswith(".py") for name in attempt.files)


def find_code(events: Sequence[AttemptEvent]) -> str | None:
    """Return the digest of the machine code of the newest build; None where it is not known."""
    return next((event.code for event in reversed(events) if event.code), None)


def _find_counts(events: Sequence[AttemptEvent]) -> dict[str, float]:
    return next((dict(event.counts) for event in reversed(events) if event.counts), {})


def read_changed_sources(
    store: AttemptStore, parent: Attempt, attempt: Attempt
) -> dict[str, tuple[str, str]]:
    """Return the texts before and after of each file that differs and is kept, by its path."""
    found: dict[str, tuple[str, str]] = {}
    for name in sorted(parent.files.keys() | attempt.files.keys()):
        old, new = parent.files.get(name), attempt.files.get(name)
        if old != new:
            try:
                texts = [store.read_file(key).decode(errors="replace") if key else ""
                         for key in (old, new)]  # fmt: skip
            except KbError:  # imported without sources
                continue
            found[name] = texts[0], texts[1]
    return found


class FixVariant(NamedTuple):
    """A variant that applies a recommended fix."""

    variant: Variant
    diagnosis_fixes: tuple[tuple[Diagnosis, str], ...]
    """Diagnoses that the variant addresses, each with the fix that it applies."""
    added_fixes: tuple[str, ...] = ()
    """All fixes that the variant applies and the current variant does not."""


def choose_fix_variant(
    kernel: Kernel, current: Variant, answer: KernelFindings
) -> FixVariant | None:
    """Return the variant that applies the best-ranked fix that any variant applies."""
    matches = [d for d in answer["diagnoses"] if d["verdict"] == "matches"]
    others = [v for v in kernel.variants if v.target == current.target and v.id != current.id]
    for diagnosis in matches:
        for fix in diagnosis["fixes"]:
            for variant in others:
                if fix["id"] in variant.applies and fix["id"] not in current.applies:
                    changes = tuple(f for f in variant.applies if f not in current.applies)
                    return FixVariant(
                        variant, _pair_diagnoses_with_fixes(matches, variant), changes
                    )
    return None


def _pair_diagnoses_with_fixes(
    matches: list[Diagnosis], variant: Variant
) -> tuple[tuple[Diagnosis, str], ...]:
    pairs: list[tuple[Diagnosis, str]] = []
    for diagnosis in matches:
        fix = next((f["id"] for f in diagnosis["fixes"] if f["id"] in variant.applies), None)
        if fix is not None:
            pairs.append((diagnosis, fix))
    return tuple(pairs)


def compare_to_prediction(
    before: VariantResult,
    after: VariantResult,
    choice: FixVariant,
    direct_bench: Bench | None = None,
) -> FixOutcome | None:
    """Return the predicted and the measured speedup of a change.

    The ratio of two speedups against the same baseline does not depend on the load of the machine
    in between; its interval is the widest that both intervals allow. Speedups against different
    baselines cannot be divided; then a ``direct_bench`` is needed, which times the new variant
    against the old one.

    Returns:
        None if one of the variants has no valid time.
    """
    old, new = _get_valid_speedup(before.bench), _get_valid_speedup(after.bench)
    if not (old and new and before.bench and after.bench):
        return None
    unmeasured = _explain_incomparable(before.bench, after.bench)
    point, low, high = new.point / old.point, new.low / old.high, new.high / old.low
    direct = _get_valid_speedup(direct_bench)
    if direct_bench and direct:
        unmeasured = find_noise_reason(direct_bench)
        point, low, high = direct
    predicted = predict_combined_speedup(choice, before.answer)
    return FixOutcome(
        before=before.variant,
        after=after.variant,
        fixes=tuple(dict.fromkeys(fix for _, fix in choice.diagnosis_fixes)),
        predicted=predicted,
        measured=None if unmeasured else point,
        interval=None if unmeasured else (low, high),
        confirmed=None if unmeasured else low > 1,
        cause=_judge_cause(choice, before, after),
        gain=None if unmeasured else _judge_gain(point, predicted),
        unmeasured=unmeasured,
    )


def _judge_cause(
    choice: FixVariant, before: VariantResult, after: VariantResult
) -> Literal["confirmed", "refuted"] | None:
    """Return whether the falsifier of the best diagnosis held."""
    for diagnosis, _ in choice.diagnosis_fixes:
        held = evaluate_falsifier(diagnosis, before, after)[1]
        if held is not None:
            return "confirmed" if held else "refuted"
    return None


def _judge_gain(
    measured: float, predicted: PredictedSpeedup | None
) -> Literal["below", "inside", "above"] | None:
    if predicted is None:
        return None
    if measured < predicted["low"]:
        return "below"
    return "above" if measured > predicted["high"] else "inside"


def are_comparable(before: VariantResult, after: VariantResult) -> bool:
    """Return whether two benches have the same baseline and timing, or one of them is unusable."""
    old, new = before.bench, after.bench
    if (
        not (old and new and _get_valid_speedup(old) and _get_valid_speedup(new))
        or find_noise_reason(old)
        or find_noise_reason(new)
    ):
        return True
    return _explain_incomparable(old, new) is None


def _get_valid_speedup(timed: Bench | None) -> Speedup | None:
    """Return a valid speedup; the interval of an inconclusive one is extended to contain 1."""
    if timed is None or timed.speedup is None or timed.interval is None:
        return None
    low, high = timed.interval
    if is_undecided(timed.verdict):
        low, high = min(low, 1.0), max(high, 1.0)
    return Speedup(timed.speedup, low, high) if is_valid(timed.verdict) else None


def _explain_incomparable(old: Bench, new: Bench) -> str | None:
    """Return why the speedups of two benches cannot be divided; None if they can."""
    for timed in (old, new):
        if noise := find_noise_reason(timed):
            return f"{timed.variant}: {noise}"
    if old.baseline != new.baseline:
        return (
            f"{old.variant} was timed against {old.baseline}, {new.variant} against {new.baseline}"
        )
    if old.timing != new.timing:
        was, now = _describe_timing(old), _describe_timing(new)
        return f"{old.variant} was timed {was}, {new.variant} {now}"
    return None


def _describe_timing(timed: Bench) -> str:
    return "in a CUDA graph" if timed.timing == "graph" else "call by call"


def predict_combined_speedup(
    choice: FixVariant, answer: KernelFindings | None
) -> PredictedSpeedup | None:
    """Return the best prediction of the variant's fixes; joint ones are priced together."""
    gains = [
        fix["predicted_speedup"]
        for diagnosis, name in choice.diagnosis_fixes
        for fix in diagnosis["fixes"]
        if fix["id"] == name and fix["predicted_speedup"] is not None
    ]
    together = answer["combined_speedup"] if answer else None
    if together and len(gains) > 1:
        found = {diagnosis["bottleneck"] for diagnosis, _ in choice.diagnosis_fixes}
        if found >= set(together["bottlenecks"]):
            low, point, high = together["low"], together["point"], together["high"]
            return {"low": low, "point": point, "high": high}
    return max(gains, key=lambda gain: gain["point"], default=None)


def make_decisions(
    choice: FixVariant, outcome: FixOutcome | None, before: VariantResult, after: VariantResult
) -> tuple[Decision, ...]:
    """Return the decisions for the session: prediction, measurement and falsifier of each fix."""
    decisions: list[Decision] = []
    for diagnosis, fix in choice.diagnosis_fixes:
        gain = next((a["predicted_speedup"] for a in diagnosis["fixes"] if a["id"] == fix), None)
        falsifier, held = evaluate_falsifier(diagnosis, before, after)
        decisions.append(
            Decision(
                bottleneck=diagnosis["bottleneck"],
                fix=fix,
                applied_as=choice.variant.id,
                predicted=(gain["low"], gain["point"], gain["high"]) if gain else None,
                predicted_by="effects" if gain else None,
                calibration=_find_calibration(diagnosis, fix) if gain else None,
                measured=outcome.measured if outcome else None,
                interval=outcome.interval if outcome else None,
                falsifier=falsifier,
                falsifier_held=held,
                falsifier_could_fail=None if held is None else True,
                together=tuple(name for name in choice.added_fixes if name != fix),
            )
        )
    return tuple(decisions)


def make_unapplied_decisions(answer: KernelFindings) -> tuple[Decision, ...]:
    """Return the decision for a recommendation that was not applied."""
    best = next((d for d in answer["diagnoses"] if d["verdict"] == "matches"), None)
    if best is None or not best["fixes"]:
        return ()
    fix = best["fixes"][0]
    gain = fix["predicted_speedup"]
    predicted = (gain["low"], gain["point"], gain["high"]) if gain else None
    return (
        Decision(
            bottleneck=best["bottleneck"],
            fix=fix["id"],
            predicted=predicted,
            predicted_by="effects" if gain else None,
            calibration=_find_calibration(best, fix["id"]) if gain else None,
        ),
    )


def _find_calibration(diagnosis: Diagnosis, fix: str) -> float:
    """Return the share of the model's gain that the prediction used; only the first fix has one."""
    if diagnosis["learned"] and diagnosis["fixes"][0]["id"] == fix:
        return diagnosis["learned"]["calibration"]
    return PRIOR_SHARE


def evaluate_falsifier(
    diagnosis: Diagnosis, before: VariantResult, after: VariantResult
) -> tuple[str | None, bool | None]:
    """Return the falsifier's comparison after the change, and whether it is true.

    Returns:
        The text is None where the bottleneck has no falsifier or a profile is missing; the boolean
        is None there, too, and where the metric was not measured.
    """
    expected = diagnosis["falsifier"]
    if expected is None or before.profile is None or after.profile is None:
        return None, None
    known = complete_metrics(load_compiled_rules(), after.profile.metrics, None)
    metric, op, limit = expected["metric"], expected["op"], expected["value"]
    value = known.get(metric)
    if value is None:
        return f"{metric} was not measured after the change", None
    fact = format_comparison(metric, value, op, limit)
    if satisfies(value, op, limit):
        return fact, True
    return f"{fact} is false; revert", False

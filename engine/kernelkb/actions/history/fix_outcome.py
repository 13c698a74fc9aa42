"""Chooses the variant that applies a recommended fix, and compares its gain with the prediction."""

from __future__ import annotations

from typing import Literal, NamedTuple

from kernelkb.actions.project.rules_cache import load_compiled_rules
from kernelkb.decide.conditions import format_comparison, satisfies
from kernelkb.decide.derive import complete_metrics
from kernelkb.measure.bench.statistics import Speedup
from kernelkb.model.answers.recommendation import Diagnosis, KernelFindings, PredictedSpeedup
from kernelkb.model.answers.triage import FixOutcome, VariantResult
from kernelkb.model.entries.learned import PRIOR_SHARE
from kernelkb.model.kernels.kernel import Kernel, Variant
from kernelkb.model.records.measurement import Bench, is_undecided, is_valid
from kernelkb.model.records.session import Decision
from kernelkb.record.measurements.compare import find_noise_reason


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

"""The regression gate: compares the newest benches with the promoted one, and promotes faster ones.

Each place (kernel, workload, device, target) has one promoted measurement at a time. The newest
bench of the promoted variant has *regressed* when its whole interval lies below ``fail_under``, or
when its results are now incorrect. The newest bench of any variant is *promoted* when its whole
interval lies above 1 and its ratio is at least 1.01; a few dozen pairs cannot resolve a smaller
gain. Another variant that is slower than the promoted one is no regression: being slower is why it
was not promoted. The first valid bench of a place is promoted without a comparison.

After a change of judge, baseline or torch version the two benches cannot be compared. The gate
reports that and changes nothing, unless called with ``renew``: then the newest valid bench of the
promoted variant is promoted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from kernelkb.model.records.history import (
    Measurement,
    PairwiseComparison,
    Promotion,
    PromotionScope,
    RegressionResult,
)
from kernelkb.model.records.measurement import is_valid, is_wrong
from kernelkb.record.measurements.compare import (
    compute_comparison,
    mark_imported,
    no_timing_reason,
)
from kernelkb.record.measurements.store import Store

FAIL_UNDER = 0.97
_MIN_GAIN = 1.01


def apply_regression_gate(
    store: Store,
    kernel: str | None = None,
    workload: str | None = None,
    device: str | None = None,
    *,
    target: str | None = None,
    fail_under: float = FAIL_UNDER,
    renew: bool = False,
    at: datetime | None = None,
) -> list[RegressionResult]:
    """Compare the newest benches with the promoted ones; append the new promotions.

    Args:
        store: The database of measurements.
        kernel: Only this kernel; None for all, as with the next three.
        workload: Only this workload of the kernel.
        device: Only this device, by its name in measurements.
        target: ``cpu`` or ``cuda``.
        fail_under: A whole interval below this is a regression; 0.97 allows a loss of 3 %.
        renew: Promote the promoted variant's newest bench where the two cannot be compared.
        at: The time to record in promotions; now by default.

    Raises:
        DatabaseError: The database cannot be read or written.
    """
    places = _group_by_place(store.latest(kernel, None, workload, device, target=target))
    in_force = {one.place: one for one in store.list_promotions(kernel) if one.place in places}
    known = {one.id: one for one in store.get_many([one.measurement for one in in_force.values()])}
    rulings: list[RegressionResult] = []
    promotions: list[Promotion] = []
    rules = _GateRules(at or datetime.now(UTC), fail_under, renew)
    for place, benches in places.items():
        chain = _PlaceGate(place, in_force.get(place), known, rules)
        rulings += chain.evaluate_benches(benches)
        promotions += chain.promotions
    if promotions:
        store.add_promotions(promotions)
    return rulings


def _group_by_place(newest: list[Measurement]) -> dict[PromotionScope, list[Measurement]]:
    """Return the measurements of each place, oldest first."""
    places: defaultdict[PromotionScope, list[Measurement]] = defaultdict(list)
    for one in sorted(newest, key=lambda one: (one.at, one.id)):
        places[get_place(one)].append(one)
    return places


def get_place(measurement: Measurement) -> PromotionScope:
    """Return the kernel, workload, device and target of a measurement."""
    subject = measurement.subject
    return PromotionScope(
        kernel=subject.kernel,
        workload=subject.workload,
        device=subject.device,
        target=subject.target,
    )


class _GateRules(NamedTuple):
    """The settings of one run of the gate, the same for all places."""

    now: datetime
    fail_under: float
    renew: bool


class _PlaceGate:
    """Evaluates the benches of one place, and collects its new promotions."""

    def __init__(
        self,
        place: PromotionScope,
        last: Promotion | None,
        known: dict[str, Measurement],
        rules: _GateRules,
    ) -> None:
        self.promotions: list[Promotion] = []
        self._place, self._rules = place, rules
        self._number = last.number if last else 0
        self._best = known[last.measurement] if last else None

    def evaluate_benches(self, benches: list[Measurement]) -> Iterator[RegressionResult]:
        """Yield a result for each bench other than the promoted one, oldest first."""
        for one in benches:
            if self._best is None:
                why = no_timing_reason(one)
                if may_be_best(one) and why:
                    yield self._build_result("incomparable", one, None, why)
                elif may_be_best(one):
                    yield self._promote(one, "the first valid one", None)
            elif one.id != self._best.id:
                yield self._evaluate(self._best, one)

    def _evaluate(self, best: Measurement, one: Measurement) -> RegressionResult:
        same = one.subject.variant == best.subject.variant
        if same and is_wrong(one.verdict):
            return self._build_result(
                "regressed", one, None, f"its answers are wrong: {one.detail}"
            )
        if not same and _is_clearly_not_faster(best, one):
            return self._build_result(
                "steady", one, None, f"no faster, against the same {one.baseline}"
            )
        found = compute_comparison(best, one)
        if found.ratio is None or found.interval is None:
            if same and self._rules.renew and may_be_best(one):
                return self._promote(one, f"renewed: {found.because}", None)
            return self._build_result("incomparable", one, found, found.because)
        low, high = found.interval
        if low > 1 and found.ratio >= _MIN_GAIN:
            return self._promote(one, f"confirmed faster: {found.because}", found)
        if same and high < self._rules.fail_under:
            because = f"its whole interval lies below {self._rules.fail_under:g}: {found.because}"
            return self._build_result("regressed", one, found, because)
        because = "no change is confirmed" if same else "it is not confirmed to be faster"
        return self._build_result("steady", one, found, f"{because}{mark_imported(best, one)}")

    def _promote(
        self, one: Measurement, because: str, found: PairwiseComparison | None
    ) -> RegressionResult:
        self._number += 1
        previous = self._best.id if self._best else None
        promotion = Promotion(
            place=self._place,
            number=self._number,
            measurement=one.id,
            previous=previous,
            at=self._rules.now,
            because=because,
            ratio=found.ratio if found else None,
            interval=found.interval if found else None,
        )
        self.promotions.append(promotion)
        ruling = self._build_result("promoted", one, found, because)
        self._best = one
        return ruling

    def _build_result(
        self, verdict: str, one: Measurement, found: PairwiseComparison | None, because: str
    ) -> RegressionResult:
        mark = mark_imported(self._best, one) if found is None else ""
        return RegressionResult.model_validate(
            {
                "place": self._place,
                "variant": one.subject.variant,
                "verdict": verdict,
                "latest": one.id,
                "promoted": self._best.id if self._best else None,
                "comparison": found,
                "because": f"{because}{mark}",
            }
        )


def _is_clearly_not_faster(best: Measurement, one: Measurement) -> bool:
    """Return whether the point estimates alone rule out a promotion.

    They do for most benches; a bootstrap for each would take most of the gate's run time.
    """
    if one.baseline != best.baseline or one.speedup is None or best.speedup is None:
        return False
    return one.speedup < _MIN_GAIN * best.speedup


def may_be_best(measurement: Measurement) -> bool:
    """Return whether a bench is correct and has a time."""
    return measurement.candidate_us is not None and is_valid(measurement.verdict)

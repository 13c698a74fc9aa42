"""``kb bench --changes``: times variants one change at a time against the same base."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kernelkb.actions.history.measured_subject import identify_checkout, keep_state
from kernelkb.actions.history.outcomes import NO_GAIN_BELOW
from kernelkb.actions.history.record_result import (
    CallRecord,
    StepRunner,
    record_result,
    summarize_bench,
    summarize_build,
    summarize_check,
)
from kernelkb.actions.kernels.measure_variant import bench_built, build_prepared, check_built
from kernelkb.actions.project.bench_target import BenchTarget, prepare, resolve_workload
from kernelkb.errors import BadValueError, KbError
from kernelkb.loading.kernels import select_variant
from kernelkb.measure.bench.statistics import (
    Speedup,
    combine_rounds,
    decide_verdict,
    multiply_speedups,
)
from kernelkb.measure.job_specs import is_reference
from kernelkb.measure.machine.environment import TargetChoice
from kernelkb.measure.subject import DEFAULT_OPTIONS, BenchOptions
from kernelkb.model.answers.triage import BundleSplit, ChangeTable, ChangeVerdict, TimedChange
from kernelkb.model.base import Slug
from kernelkb.model.kernels.kernel import Kernel, Variant
from kernelkb.model.records.history import ChangeOutcome, ChangeResult
from kernelkb.model.records.measurement import Bench, Build, FailureVerdict
from kernelkb.progress import report_progress
from kernelkb.record.measurements.compare import find_noise_reason

_ROUNDS = 2
"""The second runs backwards, so that a steady drift of the machine hits all variants alike."""
_ROUND_BUDGET_S = 1.5
"""Of timed batches: both rounds take what one bench does."""
_MAX_CHANGES = 8
_RESULTS: Mapping[str, ChangeResult] = {
    "faster": "faster",
    "slower": "slower",
    "no-difference": "no-gain",
    "undecided": "undecided",
}


class _Named(NamedTuple):
    """The variants that a text names, and which of them are bundles of which others."""

    base: Variant
    variants: list[Variant]
    bundles: dict[Slug, tuple[Slug, ...]]


@dataclass
class _Change:
    """One variant while it is measured."""

    target: BenchTarget
    built: Build
    options: BenchOptions
    steps: StepRunner = field(default_factory=StepRunner)
    benches: list[Bench] = field(default_factory=list)
    failure: TimedChange | None = None

    @property
    def name(self) -> Slug:
        return self.target.subject.variant.id

    def list_warnings(self) -> list[str]:
        return [note for bench in self.benches for note in bench.warnings]

    def fail(self, verdict: FailureVerdict, detail: str | None, cure: str | None) -> None:
        self.failure = TimedChange(variant=self.name, verdict=verdict, detail=detail, cure=cure)


def bench_changes(
    kernel: str,
    changes: str,
    variant: str | None = None,
    target: TargetChoice = "auto",
    workload: str | None = None,
    options: BenchOptions = DEFAULT_OPTIONS,
) -> ChangeTable:
    """Build, check and time variants against one base; each is a change of it in the log.

    Args:
        kernel: Its name.
        changes: See ``parse_changes``.
        variant: The base; None: the first of the target.
        target: Where they run.
        workload: Its name.
        options: How; its budget is that of each bench.

    Raises:
        KbError: A name is unknown, the base cannot be timed, or the machine lacks something.
    """
    started = time.monotonic()
    base = prepare(kernel, variant, target)
    size = resolve_workload(base.subject.kernel, base.subject.variant.target, workload)
    named = parse_changes(base.subject.kernel, base.subject.variant, changes)
    built = _build_base(base, size, options)
    measured = _time_rounds(base, built, named, size, options)
    rows = tuple(_finish_change(base, built, change) for change in measured)
    return ChangeTable(
        kernel=kernel,
        base=named.base.id,
        target=named.base.target,
        workload=size,
        base_us=_find_base_time(measured),
        rounds=_ROUNDS,
        changes=rows,
        bundles=tuple(split_bundles(rows, named.bundles)),
        warnings=tuple(dict.fromkeys(note for one in measured for note in one.list_warnings())),
        seconds=round(time.monotonic() - started, 3),
    )


def _find_base_time(measured: Sequence[_Change]) -> float | None:
    """Return the median time of the base over all rounds; None where nothing was timed."""
    benches = [bench for change in measured for bench in change.benches]
    times = [bench.baseline_us for bench in benches if bench.baseline_us is not None]
    return statistics.median(times) if times else None


def _time_rounds(
    base: BenchTarget, built: Build, named: _Named, workload: str, options: BenchOptions
) -> list[_Change]:
    """Build and check all variants, then time them in rounds, each the other way round."""
    how = options._replace(
        budget_s=options.budget_s or _ROUND_BUDGET_S,
        rival=(base.subject, built),
        only_rival=True,
        against=base.subject.variant.id,
        change=None,
    )
    measured = [_prepare_change(base, built, one, workload, how) for one in named.variants]
    for number in range(_ROUNDS):
        for change in measured[:: -1 if number % 2 else 1]:
            if change.failure is None:
                report_progress(f"round {number + 1} of {_ROUNDS}")
                _time_change(change, workload)
    return measured


def parse_changes(kernel: Kernel, base: Variant, text: str) -> _Named:
    """Return the variants that a text names, with commas between, and the bundles among them.

    ``a+b`` is the variant that applies what both apply; ``c=a+b`` says that ``c`` is their bundle.
    A variant whose added fixes are those of others that share none is their bundle, too.

    Raises:
        UnknownNameError: There is no such variant of the base's target.
        BadValueError: Nothing is named, too much, the base itself, or a bundle that no variant is.
    """
    names: list[Slug] = []
    bundles: dict[Slug, tuple[Slug, ...]] = {}
    for word in filter(None, (one.strip() for one in text.split(","))):
        name, equals, joined = word.rpartition("=")
        parts = tuple(joined.split("+"))
        if len(parts) > 1:
            for part in parts:
                select_variant(kernel, base.target, part)
            name = name if equals else _find_bundle(kernel, base, parts)
            bundles[name] = parts
            names += parts
        names.append(name if equals or len(parts) > 1 else word)
    chosen = [select_variant(kernel, base.target, one) for one in dict.fromkeys(names)]
    if not chosen or len(chosen) > _MAX_CHANGES:
        raise BadValueError(f"--changes {text!r} names {len(chosen)}; name 1 to {_MAX_CHANGES}")
    if base.id in {one.id for one in chosen}:
        raise BadValueError(f"{base.id} is the base; name another with --variant, or leave it out")
    return _Named(base, chosen, {**_find_bundles(base, chosen), **bundles})


def _list_added(base: Variant, variant: Variant) -> frozenset[str]:
    return frozenset(variant.applies) - frozenset(base.applies)


def _find_bundle(kernel: Kernel, base: Variant, parts: Sequence[Slug]) -> Slug:
    """Return the variant that applies what the parts apply.

    Raises:
        BadValueError: None does.
    """
    others = [one for one in kernel.variants if one.target == base.target and one.id not in parts]
    added = [_list_added(base, select_variant(kernel, base.target, part)) for part in parts]
    whole = frozenset[str]().union(*added)
    found = next((one.id for one in others if whole and _list_added(base, one) == whole), None)
    if found is None:
        joined = "+".join(parts)
        raise BadValueError(
            f"no variant applies what {joined} apply together; write NAME={joined} for the one "
            f"that holds them"
        )
    return found


def _find_bundles(base: Variant, chosen: Sequence[Variant]) -> dict[Slug, tuple[Slug, ...]]:
    """Return which variants apply exactly what several others that share no fix apply."""
    added = {one.id: _list_added(base, one) for one in chosen}
    found: dict[Slug, tuple[Slug, ...]] = {}
    for name, whole in added.items():
        parts, left = [], whole
        for other in sorted(added, key=lambda one: -len(added[one])):
            if added[other] and added[other] < whole and added[other] <= left:
                parts.append(other)
                left -= added[other]
        if len(parts) > 1 and not left:
            found[name] = tuple(one for one in added if one in parts)
    return found


def _build_base(base: BenchTarget, workload: str, options: BenchOptions) -> Build:
    """Build and check the variant that all others are compared with.

    Raises:
        BadValueError: It does not compile, or its outputs are wrong.
    """
    subject = base.subject
    report_progress(f"base {subject.variant.id}")
    built = build_prepared(base, options._replace(change=None))
    problem = built.error
    if problem is None and not is_reference(subject.kernel, subject.variant):
        checked = check_built(base, built, workload, options.timeout_s)
        problem = None if checked.status == "correct" else checked.detail or checked.status
    if problem is not None:
        raise BadValueError(f"nothing can be compared with {subject.variant.id}: {problem}")
    return built


def _prepare_change(
    base: BenchTarget, base_build: Build, variant: Variant, workload: str, options: BenchOptions
) -> _Change:
    """Build and check a variant; one that fails is a result."""
    target = base.with_variant(variant)
    added = " + ".join(sorted(_list_added(base.subject.variant, variant)))
    keep_state(target, added or None, base_build.attempt)
    steps = StepRunner()
    built = steps.run(
        "build",
        variant.id,
        lambda: build_prepared(target, options),
        lambda built, run: summarize_build(target, built, run),
    )
    change = _Change(target, built, options, steps)
    if built.error is not None:
        change.fail("invalid", built.error, built.cure)
        return change
    if is_reference(target.subject.kernel, variant):
        return change
    checked = steps.run(
        "check",
        variant.id,
        lambda: check_built(target, built, workload, options.timeout_s),
        summarize_check,
    )
    if checked.failure is not None:
        change.fail(checked.failure, checked.detail or checked.status, checked.cure)
    return change


def _time_change(change: _Change, workload: str) -> None:
    """Time a variant against the base once, and record it; a bench that fails ends its rounds."""
    try:
        timed = change.steps.run(
            "bench",
            change.name,
            lambda: bench_built(change.target, change.built, workload, change.options),
            summarize_bench,
        )
    except KbError as error:  # what the other variants gave is still told
        change.fail("invalid", str(error), None)
        return
    record = CallRecord(change.target, None, change.steps, change.options, change.built, timed)
    timed = record_result(record, timed)
    change.benches.append(timed)
    if timed.verdict in ("incorrect", "invalid"):
        change.fail(timed.verdict, timed.detail, timed.cure)


def _finish_change(base: BenchTarget, base_build: Build, change: _Change) -> TimedChange:
    """Return what a variant gave, after it was logged as one change of the base."""
    row = change.failure or _judge_change(change)
    applies = tuple(sorted(_list_added(base.subject.variant, change.target.subject.variant)))
    row = row.model_copy(update={"applies": applies, "attempt": change.built.attempt})
    record = CallRecord(change.target, "bench", change.steps, change.options, change.built)
    last = change.benches[-1] if change.benches else None
    written = record_result(record, last) if last else record_result(record, change.built)
    failures = [*(one.unrecorded for one in change.benches), written.unrecorded]
    failures.append(_log_outcome(base_build, row, record))
    told = dict.fromkeys(filter(None, failures))
    return row.model_copy(update={"unrecorded": "; ".join(told) or None})


def _judge_change(change: _Change) -> TimedChange:
    rounds = [
        Speedup(bench.speedup, *bench.interval)
        for bench in change.benches
        if bench.speedup is not None and bench.interval is not None
    ]
    noise = next(filter(None, map(find_noise_reason, change.benches)), None)
    found = combine_rounds(rounds)
    return TimedChange(
        variant=change.name,
        verdict="undecided" if noise else _decide(found),
        ratio=found.point,
        interval=(found.low, found.high),
        detail=noise,
        last_bench=change.benches[-1],
    )


def _decide(found: Speedup) -> ChangeVerdict:
    verdict = decide_verdict(found)
    if verdict != "inconclusive":
        return verdict
    is_same = found.low > 1 / NO_GAIN_BELOW and found.high < NO_GAIN_BELOW
    return "no-difference" if is_same else "undecided"


def _log_outcome(base_build: Build, row: TimedChange, record: CallRecord) -> str | None:
    """Add to the history that a variant is one change of the base; return why that failed."""
    if base_build.attempt is None or row.attempt is None or row.attempt == base_build.attempt:
        return None
    from kernelkb.record.attempt_store import create_event, open_attempts

    subject = record.bench_target.subject
    try:
        with open_attempts(record.bench_target.project) as store:
            events = store.list_events([base_build.attempt])
            advised = next((one.advised for one in reversed(events) if one.advised), None)
            outcome = ChangeOutcome(
                parent=base_build.attempt,
                fixes=row.applies,
                recognised_by="said" if row.applies else None,
                advised=advised,
                bottleneck=advised.bottleneck if advised else None,
                measured=row.ratio,
                interval=row.interval,
                result=_RESULTS.get(row.verdict, "failed"),
                why=row.detail,
            )
            event = create_event(
                attempt=row.attempt,
                kernel=subject.kernel.id,
                kind="outcome",
                outcome=outcome,
                origin=identify_checkout(record.bench_target.project),
                device=subject.machine.title,
                workload=row.last_bench.workload if row.last_bench else None,
            )
            store.add((), [event])
    except (KbError, OSError) as error:
        return f"the history has no entry of it: {error}"
    return None


def split_bundles(
    rows: Sequence[TimedChange], bundles: Mapping[Slug, Sequence[Slug]]
) -> Iterator[BundleSplit]:
    """Yield what the parts of each bundle explain, and what only the bundle gives.

    Args:
        rows: With the ratios of all.
        bundles: The parts of each bundle; one that lacks a ratio is left out.
    """
    speedups = {
        row.variant: Speedup(row.ratio, *row.interval)
        for row in rows
        if row.ratio is not None and row.interval is not None
    }
    for name, parts in bundles.items():
        if not speedups.keys() >= {name, *parts}:
            continue
        product = multiply_speedups([speedups[part] for part in parts])
        inverse = Speedup(1 / product.point, 1 / product.high, 1 / product.low)
        yield BundleSplit(
            variant=name,
            parts=tuple(parts),
            bundle=speedups[name],
            product=product,
            only_together=multiply_speedups([speedups[name], inverse]),
        )

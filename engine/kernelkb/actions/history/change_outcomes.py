"""Finds what a change from one attempt to the next was, and what it gave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from kernelkb.actions.project.bench_target import BenchTarget
from kernelkb.actions.project.rules_cache import load_compiled_rules
from kernelkb.decide.recognise import ChangeEvidence, RecognisedChange, recognise_change
from kernelkb.errors import KbError
from kernelkb.model.records.history import (
    AdvisedChange,
    Attempt,
    AttemptEvent,
    AttemptId,
    ChangeOutcome,
    ChangeResult,
    Measurement,
)
from kernelkb.record.attempt_store import create_event
from kernelkb.record.measurements.compare import compute_comparison, find_noise_reason
from kernelkb.record.measurements.store import Store

if TYPE_CHECKING:
    from kernelkb.decide.rules import SignatureRow
    from kernelkb.record.attempt_store import AttemptStore

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
    last = failure or timed or events[-1]
    return create_event(
        attempt=attempt,
        kernel=found.kernel,
        kind="outcome",
        origin=last.origin,
        device=last.device,
        workload=last.workload,
        outcome=_make_outcome(parent.id, change, advised, gain),
    )


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

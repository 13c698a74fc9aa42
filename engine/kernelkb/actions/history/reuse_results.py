"""Finds what the history already knows: a bench that answers for this state, or for its code.

Of a fresh build it says which state has equal machine code, and which words nothing shows. A
history that cannot be read costs these lines, and not the build.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from kernelkb.actions.history.measured_subject import digest_task, make_record_subject
from kernelkb.actions.history.outcomes import (
    collect_evidence,
    find_code,
    is_compiled_ahead,
    list_signatures,
)
from kernelkb.actions.project.bench_target import BenchTarget, resolve_workload
from kernelkb.actions.project.rules_cache import load_compiled_rules
from kernelkb.decide.recognise import find_unconfirmed
from kernelkb.errors import KbError
from kernelkb.measure.build.folders import find_machine_code
from kernelkb.model.records.history import (
    Attempt,
    AttemptEvent,
    AttemptId,
    Measurement,
    SubjectRecord,
)
from kernelkb.model.records.measurement import Bench, Build, is_decided
from kernelkb.profiles.machine_code import count_built_code, digest_code
from kernelkb.record.measurements.compare import find_noise_reason
from kernelkb.units import format_duration

if TYPE_CHECKING:
    from kernelkb.record.attempt_store import AttemptStore


_MAX_AGE = timedelta(days=7)
"""Chosen: clocks, heat and other users change what a machine gives, and no record tells."""
_RECENT = 300
SHOWN_DIGITS = 8
"""Of the id of an attempt."""


class _KnownBench(NamedTuple):
    measurement: Measurement
    event: AttemptEvent
    same_source: bool


def find_known_bench(bench_target: BenchTarget, built: Build, workload: str) -> Bench | None:
    """Return the bench of this state, or of a state with the same machine code, from the record.

    None where there is none, or where something that it depends on changed since: the machine, the
    driver, the compiler, torch, the judge, the workload, kernel.yaml or the reference; or where it
    decided nothing, was disturbed, was imported, or is older than a week.
    """
    if built.attempt is None:
        return None
    subject = make_record_subject(bench_target, built, workload)
    try:
        known = next(_iter_known(bench_target, built, subject), None)
    except KbError:  # a damaged history costs the shortcut
        return None
    return None if known is None else _make_bench(known, built.variant)


def find_bench_of_equal_code(
    bench_target: BenchTarget, built: Build, workload: str
) -> tuple[AttemptId, float] | None:
    """Return another attempt whose bench ``find_known_bench`` may answer with, and its time in us.

    Raises:
        DatabaseError: The database cannot be read.
    """
    subject = make_record_subject(bench_target, built, workload)
    return next(
        (
            (known.event.attempt, known.measurement.candidate_us)
            for known in _iter_known(bench_target, built, subject)
            if not known.same_source and known.measurement.candidate_us
        ),
        None,
    )


def find_alike(store: AttemptStore, built: Build) -> set[AttemptId]:
    """Return the attempts at a kernel whose newest builds have this machine code.

    Raises:
        DatabaseError: The database cannot be read.
    """
    code = digest_code(find_machine_code(built))
    builds = store.list_events_of_kind(built.kernel, ["build"], _RECENT)
    return {event.attempt for event in builds if code is not None and event.code == code}


def _iter_known(
    bench_target: BenchTarget, built: Build, subject: SubjectRecord
) -> Iterator[_KnownBench]:
    from kernelkb.record.attempt_store import open_history

    task = digest_task(bench_target)
    with open_history(bench_target.project, writes=False) as (store, attempts):
        alike = find_alike(attempts, built)
        ids = [str(built.attempt), *sorted(alike - {str(built.attempt)})]
        for event in reversed(attempts.list_events(ids)):
            if (
                event.kind != "bench"
                or event.imported
                or event.measurement is None
                or not is_decided(event.verdict)
                or (event.workload, event.device, event.task)
                != (subject.workload, subject.device, task)
                or datetime.now(UTC) - event.at > _MAX_AGE
            ):
                continue
            (measurement,) = store.get_many([event.measurement])
            same_source = event.attempt == built.attempt
            if measurement.imported or find_noise_reason(measurement) is not None:
                continue
            if _is_same_subject(measurement, subject):
                yield _KnownBench(measurement, event, same_source)


def _is_same_subject(measurement: Measurement, subject: SubjectRecord) -> bool:
    """Return whether all but the sources and the variant is the same, whose code is compared."""
    return all(
        getattr(measurement.subject, name) == getattr(subject, name)
        for name in ("kernel", "target", "workload", "inputs", "device", "environment", "judge")
    )


def _make_bench(known: _KnownBench, variant: str) -> Bench:
    measurement, event = known.measurement, known.event
    what = (
        "this state was measured"
        if known.same_source
        else f"its machine code is that of attempt {event.attempt[:SHOWN_DIGITS]}, measured"
    )
    age = describe_age(datetime.now(UTC) - measurement.at)
    note = f"not measured again: {what} {age} ago; --again measures it"
    names = ("verdict", "candidate_us", "baseline", "baseline_us", "speedup", "interval", "timing")
    details = ("detail", "metrics", "disturbed_by", "resource_use", "samples")
    return Bench(
        kernel=measurement.subject.kernel,
        variant=variant,
        target=measurement.subject.target,
        workload=measurement.subject.workload,
        **{name: getattr(measurement, name) for name in (*names, *details)},
        pair_count=len(measurement.samples),
        measurement=measurement.id,
        warnings=(note, *measurement.warnings),
        from_record=True,
        seconds=0.0,
    )


def describe_age(age: timedelta) -> str:
    """Return an age in its largest unit: ``2 h``."""
    seconds = age.total_seconds()
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size:.0f} {unit}"
    return f"{seconds:.0f} s"


def add_known_state(bench_target: BenchTarget, built: Build) -> Build:
    """Return a build with ``same_code`` and ``warnings``, as far as its history tells.

    Args:
        bench_target: What was built.
        built: The build, with the id of its attempt.
    """
    if built.attempt is None or built.error is not None:
        return built
    from kernelkb.record.attempt_store import open_attempts  # loads SQLAlchemy

    try:
        with open_attempts(bench_target.project, writes=False) as store:
            attempt = store.get_many([built.attempt])[built.attempt]
            update = {
                "same_code": _describe_same_code(bench_target, store, attempt, built),
                "warnings": _list_doubts(store, attempt, built),
            }
    except (KbError, OSError, KeyError):
        return built
    return built.model_copy(update=update)


def _describe_same_code(
    bench_target: BenchTarget, store: AttemptStore, attempt: Attempt, built: Build
) -> str | None:
    """Return which other state has this machine code: one that answers a bench, or the parent."""
    alike = find_alike(store, built) - {attempt.id} if is_compiled_ahead(attempt) else set()
    if not alike:
        return None
    kernel = bench_target.subject.kernel
    workload = resolve_workload(kernel, attempt.target, None)
    known = find_bench_of_equal_code(bench_target, built, workload)
    if known is not None:
        name, time_us = known
        return (
            f"machine code as in attempt {name[:SHOWN_DIGITS]}, measured "
            f"{format_duration(time_us)} on {workload}: kb bench answers from the record"
        )
    if attempt.parent in alike:
        return f"machine code as in attempt {str(attempt.parent)[:SHOWN_DIGITS]}, the state before"
    return None


def _list_doubts(store: AttemptStore, attempt: Attempt, built: Build) -> tuple[str, ...]:
    """Return a line for each fix that the author names and that the change does not show."""
    parent = store.get_many([attempt.parent]).get(attempt.parent) if attempt.parent else None
    if parent is None:
        return ()
    before, after = store.list_events([parent.id]), store.list_events([attempt.id])
    evidence = collect_evidence(store, parent, attempt, (before, after))
    if not evidence.said:
        return ()
    paths = find_machine_code(built)
    own_code = digest_code(paths) if is_compiled_ahead(attempt) else None
    evidence = evidence._replace(same_code=own_code is not None and own_code == find_code(before))
    counted = next((dict(event.counts) for event in reversed(before) if event.counts), {})
    fixes = load_compiled_rules()["fixes"].keys()
    if counted and not (evidence.counts or evidence.same_code) and (now := count_built_code(paths)):
        evidence = evidence._replace(counts=(counted, now))
    doubts = find_unconfirmed(list_signatures(), fixes, evidence)
    return tuple(f"the change is called {fix}, but {why}" for fix, why in doubts.items())

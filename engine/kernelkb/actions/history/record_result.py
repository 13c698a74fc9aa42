"""Writes what a call gave: one record becomes a measurement, events of an attempt, and an entry.

A failure to write costs the entry, and neither the answer nor the user's files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from kernelkb.actions.history.fix_outcome import make_unapplied_decisions
from kernelkb.actions.history.measured_subject import (
    collect_versions,
    find_session,
    make_measurement,
)
from kernelkb.actions.history.record_attempt import digest_task, identify_checkout
from kernelkb.actions.history.steps import StepRunner, summarize_recommendation
from kernelkb.actions.project.bench_target import BenchTarget, get_project_path
from kernelkb.errors import KbError
from kernelkb.measure.build.folders import find_machine_code
from kernelkb.measure.subject import DEFAULT_OPTIONS, BenchOptions
from kernelkb.model.answers.recommendation import KernelFindings
from kernelkb.model.base import MeasurementId
from kernelkb.model.records.history import AttemptEvent, EventKind, Measurement
from kernelkb.model.records.measurement import Bench, Build, Check, Machine, Profile
from kernelkb.model.records.session import SessionEntry, Step
from kernelkb.profiles.machine_code import count_built_code, digest_code
from kernelkb.record.sessions import append_entry, find_open_session_for, may_have_open_session
from kernelkb.safety.workspace import may_write

if TYPE_CHECKING:
    from kernelkb.record.attempt_store import AttemptStore

T = TypeVar("T", Bench, Build, Check, Profile)
_Result = Bench | Build | Check | Profile | None

_KINDS: dict[str, EventKind] = {
    "build": "build",
    "check": "check",
    "bench": "bench",
    "profile": "profile",
}


class CallRecord(NamedTuple):
    """What a call gave: its measurement, its attempt and its session entry are written from it."""

    bench_target: BenchTarget
    by: str | None
    """The command that the session names; None: the caller writes the entry at its end."""
    steps: StepRunner
    options: BenchOptions = DEFAULT_OPTIONS
    built: Build | None = None
    """The build that was measured; its state gets the steps in the history."""
    measured: Bench | Profile | None = None
    """The result of the last step, if it is to be a measurement."""
    measurement: Measurement | None = None
    """The one that another host made."""
    versions: Mapping[str, str] | None = None
    """Of the machine that measured; None: of this one."""


def record_result(record: CallRecord, result: T) -> T:
    """Write a call to the project's database, and to the open session if there is one.

    Args:
        record: The call.
        result: What it answers.

    Returns:
        The result, with the id of its measurement; its ``unrecorded`` says what could not be
        written, and why.
    """
    failures = [result.unrecorded] if result.unrecorded else []
    measurement = _write(record, result, failures)
    update = {"unrecorded": "; ".join(dict.fromkeys(failures)) or None}
    if measurement is not None:
        update["measurement"] = measurement
    return result.model_copy(update=update)


def record_steps(record: CallRecord) -> None:
    """Write the steps of a call that came to no result."""
    _write(record, None, [])


def _write(record: CallRecord, result: _Result, failures: list[str]) -> MeasurementId | None:
    """Write everything, and append what failed; return the id of the measurement."""
    if not record.options.keeps:
        return None
    measurement = _write_history(record, result, failures)
    if record.by is not None:
        with _note_failure(failures):
            _log_steps(record, record.by, result)
    return measurement


@contextmanager
def _note_failure(failures: list[str], what: str = "") -> Iterator[None]:
    """Append why the block could not write: what was measured is still returned."""
    try:
        yield
    except (KbError, OSError) as error:
        failures.append(f"{what}{error}")


def _write_history(
    record: CallRecord, result: _Result, failures: list[str]
) -> MeasurementId | None:
    """Write the measurement, and what the steps gave; return the id of the measurement."""
    built, measured, stored = record.built, record.measured, None
    is_new = measured is not None and not (isinstance(measured, Bench) and measured.from_record)
    has_state = built is not None and built.attempt is not None and may_write()
    if built is None or not (is_new or record.measurement or has_state):
        return None
    from kernelkb.record.attempt_store import open_history  # loads SQLAlchemy

    with (
        _note_failure(failures),
        open_history(record.bench_target.project) as (measurements, attempts),
    ):
        with _note_failure(failures):
            made = record.measurement
            if made is None and is_new and measured is not None:
                made = _make_measurement(record, built, measured)
            if made is not None:
                measurements.add([made])
                stored = made.id
                record.steps.set_measurement(stored)
        if has_state:
            with _note_failure(failures, "the history has no entry of it: "):
                _add_events(record, attempts, built, getattr(result, "candidate_us", None))
    return stored


def _make_measurement(record: CallRecord, built: Build, measured: Bench | Profile) -> Measurement:
    rival = record.options.rival[0].variant if record.options.rival else None
    session = find_session(record.bench_target)
    return make_measurement(record.bench_target, built, measured, rival, session)


def _add_events(
    record: CallRecord, store: AttemptStore, built: Build, candidate_us: float | None
) -> None:
    """Add what the steps with a build gave, with the time of a call, and what the change did."""
    from kernelkb.actions.history.change_outcomes import find_outcome

    attempt = str(built.attempt)
    steps = [step for step in record.steps.take_unkept() if step.name in _KINDS]
    events = [_make_event(record, step, built, candidate_us) for step in steps]
    store.add((), events)
    if record.options.change is not None:  # said of a state that may have been timed before
        known = store.list_events([attempt])
        events = [one for one in known if one.kind in ("note", *_KINDS.values())]
    outcome = find_outcome(record.bench_target, store, attempt, events)
    if outcome is not None:
        store.add((), [outcome])


def _make_event(
    record: CallRecord, step: Step, built: Build, candidate_us: float | None
) -> AttemptEvent:
    from kernelkb.record.attempt_store import create_event

    subject = record.bench_target.subject
    own: dict[str, Any] = {
        "attempt": built.attempt,
        "kernel": subject.kernel_folder.kernel.id,
        "kind": _KINDS[step.name],
        "origin": identify_checkout(record.bench_target.project),
        "device": subject.machine.title,
        "task": digest_task(record.bench_target),
    }
    if step.name == "build":
        own["code"] = digest_code(find_machine_code(built))
    if step.name == "bench":
        own |= {"candidate_us": candidate_us, "counts": _count_code(built)}
    return create_event(**{**step.get_shared_fields(AttemptEvent), **own})


def _count_code(built: Build) -> dict[str, float]:
    return count_built_code(find_machine_code(built)) if built.target == "cuda" else {}


def _log_steps(record: CallRecord, by: str, result: _Result) -> None:
    """Append the steps of a command to the open session, if one is open for this kernel.

    Raises:
        KbError: The entry could not be written.
    """
    subject, steps = record.bench_target.subject, record.steps.records
    kernel, variant = subject.kernel_folder.kernel.id, subject.variant
    fields = {
        "kernel": kernel,
        "variant": variant.id,
        "target": variant.target,
        **machine_fields(subject.machine, record.versions),
        "steps": tuple(steps),
        "metrics": round_metrics(getattr(result, "metrics", {})),
        "went_wrong": tuple(step.found for step in steps if step.status == "failure"),
    }
    _append_entry(
        record.bench_target.project, by, f"{by} {kernel} on {variant.target}", kernel, fields
    )


def should_log_to_session() -> bool:
    """Return whether a session may be open; costs one look at the file system."""
    return may_have_open_session(get_project_path())


def log_recommendation(answer: KernelFindings) -> str | None:
    """Append a recommendation to the open session, if one is open for its kernel."""
    steps = StepRunner()
    steps.run("recommend", None, lambda: answer, summarize_recommendation)
    name = answer["kernel"]
    kernel = name if re.fullmatch(r"[a-z][a-z0-9_]{0,59}", name) else None
    goal = f"recommend for {kernel}" if kernel else "recommend"
    fields = {
        "kernel": kernel,
        "steps": tuple(steps.records),
        "decisions": make_unapplied_decisions(answer),
    }
    return log_entry(get_project_path(), "recommend", goal, kernel, fields)


def log_entry(
    project_root: Path, by: str, goal: str, kernel: str | None, fields: Mapping[str, Any]
) -> str | None:
    """Append an entry to the open session; return why it could not be written."""
    failures: list[str] = []
    with _note_failure(failures):
        _append_entry(project_root, by, goal, kernel, fields)
    return failures[0] if failures else None


def _append_entry(
    project_root: Path, by: str, goal: str, kernel: str | None, fields: Mapping[str, Any]
) -> None:
    if not may_write():
        return
    name = find_open_session_for(kernel, project_root)
    if name is not None:
        entry = SessionEntry(session=name, at=datetime.now(UTC), goal=goal, by=by, **fields)
        append_entry(entry, project_root / "sessions")


def machine_fields(machine: Machine, versions: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the fields of a session entry that describe a machine, by default this one."""
    return {
        "machine": machine.title,
        "device": machine.device,
        "cc": machine.cc,
        "environment": collect_versions(machine) if versions is None else dict(versions),
    }


def round_metrics(metrics: Mapping[str, float]) -> dict[str, float]:
    """Return metrics rounded to six significant digits."""
    return {name: float(f"{value:.6g}") for name, value in metrics.items()}

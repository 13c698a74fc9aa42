"""Runs, times and summarizes the steps of a command, and records what they gave.

A failure to write costs the entry, and neither the answer nor the user's files.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypedDict, TypeVar

from kernelkb.actions.history.measured_subject import (
    collect_versions,
    digest_task,
    find_session,
    identify_checkout,
    make_measurement,
    sources_digest,
)
from kernelkb.actions.history.outcomes import make_unapplied_decisions
from kernelkb.actions.project.bench_target import BenchTarget, get_project_path
from kernelkb.errors import KbError
from kernelkb.measure.build.folders import find_machine_code
from kernelkb.measure.process.device_queue import queue_wait_s
from kernelkb.measure.subject import DEFAULT_OPTIONS, BenchOptions
from kernelkb.model.answers.recommendation import KernelFindings
from kernelkb.model.base import MeasurementId, Slug
from kernelkb.model.records.history import AttemptEvent, EventKind, Measurement
from kernelkb.model.records.measurement import (
    Bench,
    Build,
    Check,
    Environment,
    Machine,
    Profile,
    Status,
    is_valid,
)
from kernelkb.model.records.session import SessionEntry, Step
from kernelkb.profiles.machine_code import count_built_code, digest_code
from kernelkb.progress import record_event, report_progress
from kernelkb.record.measurements.compare import find_noise_reason
from kernelkb.record.sessions import append_entry, find_open_session_for, may_have_open_session
from kernelkb.render.text.answers import describe_advice
from kernelkb.render.text.measurements import (
    describe_bench,
    describe_build,
    describe_check,
    describe_environment,
    describe_profile,
)
from kernelkb.safety.workspace import may_write

if TYPE_CHECKING:
    from kernelkb.record.attempt_store import AttemptStore

ResultT = TypeVar("ResultT")

T = TypeVar("T", Bench, Build, Check, Profile)
_Result = Bench | Build | Check | Profile | None

_KINDS: dict[str, EventKind] = {
    "build": "build",
    "check": "check",
    "bench": "bench",
    "profile": "profile",
}


class StepListener(Protocol):
    """Called for each step: as it starts, with None, and as it ends."""

    def __call__(self, name: str, variant: str | None, step: Step | None) -> None:
        """Receive the start or the end of one step."""


def ignore_step(name: str, variant: str | None, step: Step | None) -> None:
    """Discard a step."""


class StepRun(TypedDict):
    """How a step ran: what its record has besides the result."""

    name: str
    variant: Slug | None
    at: datetime
    seconds: float


class StepRunner:
    """Runs steps, times them, and reports them to a listener."""

    def __init__(self, listener: StepListener = ignore_step) -> None:
        self._listener = listener
        self.records: list[Step] = []
        self._kept_count = 0

    def run(
        self,
        name: str,
        variant: Slug | None,
        work: Callable[[], ResultT],
        summarize: Callable[[ResultT, StepRun], Step],
    ) -> ResultT:
        """Run one step and return its result; its time excludes waiting for the device."""
        self._listener(name, variant, None)
        report_progress(f"{name} {variant}" if variant else name)
        at, started, waited_s = datetime.now(UTC), time.monotonic(), queue_wait_s()
        result = work()
        seconds = round(time.monotonic() - started - (queue_wait_s() - waited_s), 3)
        step = summarize(result, StepRun(name=name, variant=variant, at=at, seconds=seconds))
        self.records.append(step)
        record_event(
            "result",
            text=step.found,
            name=name,
            variant=variant,
            status=step.status,
            seconds=seconds,
            speedup=step.speedup,
            interval=step.interval,
            baseline=step.baseline,
        )
        self._listener(name, variant, step)
        return result

    def set_measurement(self, measurement: MeasurementId) -> None:
        """Give the last step the id of its record in the database."""
        self.records[-1] = self.records[-1].model_copy(update={"measurement": measurement})

    def take_unkept(self) -> list[Step]:
        """Return the steps since the last call of this."""
        new = self.records[self._kept_count :]
        self._kept_count = len(self.records)
        return new

    @property
    def has_failed(self) -> bool:
        """Whether the last step failed."""
        return bool(self.records) and self.records[-1].status == "failure"


def summarize_environment(environment: Environment, run: StepRun) -> Step:
    """Summarize this machine, or the first thing that it lacks."""
    failure = next((line for line in environment.lines if line.status == "failure"), None)
    return Step(
        **run,
        status="failure" if failure else "ok",
        found=describe_environment(environment),
        cure=failure.cure if failure else None,
    )


def summarize_build(bench_target: BenchTarget, built: Build, run: StepRun) -> Step:
    """Summarize a build, with the digest of its sources."""
    return Step(
        **run,
        status="ok" if built.error is None else "failure",
        found=describe_build(built),
        cure=built.cure,
        sources=sources_digest(bench_target),
    )


def summarize_check(result: Check, run: StepRun) -> Step:
    """Summarize a check."""
    return Step(
        **run,
        status="failure" if result.failure else "ok",
        found=describe_check(result),
        cure=result.cure,
        symptom=result.symptom,
    )


def summarize_bench(timed: Bench, run: StepRun) -> Step:
    """Summarize a bench; a disturbed one is a warning."""
    noise = find_noise_reason(timed)
    status: Status = "failure" if timed.has_failed else "warning" if noise else "ok"
    own = {
        **run,
        "status": status,
        "found": "; ".join([describe_bench(timed), *timed.warnings]),
        "cure": timed.cure if timed.has_failed else timed.cure or noise,
        "baseline": timed.baseline if timed.speedup is not None else None,
    }
    return Step(**{**timed.get_shared_fields(Step), **own})


def summarize_profile(result: Profile, run: StepRun) -> Step:
    """Summarize a profile."""
    status: Status = "warning" if result.detail else "ok"
    return Step(**run, status=status, found=describe_profile(result), cure=result.cure)


def summarize_gate(answer: KernelFindings, run: StepRun) -> Step:
    """Summarize the verdict of the gate."""
    gate = answer["gate"]
    passed = gate["verdict"] in ("continue", "done")
    found = f"{gate['verdict']}: {gate['because']}"
    return Step(**run, status="ok" if passed else "warning", found=found)


def summarize_recommendation(answer: KernelFindings, run: StepRun) -> Step:
    """Summarize a recommendation."""
    best = next((d["bottleneck"] for d in answer["diagnoses"] if d["verdict"] == "matches"), None)
    return Step(**run, status="ok", found=describe_advice(answer), bottleneck=best)


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
    from kernelkb.actions.history.outcomes import find_outcome

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
        "kernel": subject.kernel.id,
        "kind": _KINDS[step.name],
        "origin": identify_checkout(record.bench_target.project),
        "device": subject.machine.title,
        "task": digest_task(record.bench_target),
    }
    if step.name == "build":
        own["code"] = digest_code(find_machine_code(built))
    if step.name == "bench":
        own |= {"candidate_us": candidate_us, "counts": _count_code(built)}
        if step.measurement is None:  # could not be written: no time without its samples
            own |= dict.fromkeys(("candidate_us", "speedup", "interval"))
            own["verdict"] = None if is_valid(step.verdict) else step.verdict
    return create_event(**{**step.get_shared_fields(AttemptEvent), **own})


def _count_code(built: Build) -> dict[str, float]:
    return count_built_code(find_machine_code(built)) if built.target == "cuda" else {}


def _log_steps(record: CallRecord, by: str, result: _Result) -> None:
    """Append the steps of a command to the open session, if one is open for this kernel.

    Raises:
        KbError: The entry could not be written.
    """
    subject, steps = record.bench_target.subject, record.steps.records
    kernel, variant = subject.kernel.id, subject.variant
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

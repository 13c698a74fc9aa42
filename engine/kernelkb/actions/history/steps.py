"""Runs and times the steps of a command, and summarizes each for the listener and the session."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol, TypedDict, TypeVar

from kernelkb.actions.history.measured_subject import sources_digest
from kernelkb.actions.project.bench_target import BenchTarget
from kernelkb.measure.process.device_queue import queue_wait_s
from kernelkb.model.answers.recommendation import KernelFindings
from kernelkb.model.base import MeasurementId, Slug
from kernelkb.model.records.measurement import (
    Bench,
    Build,
    Check,
    Environment,
    Profile,
    Status,
)
from kernelkb.model.records.session import Step
from kernelkb.progress import report_progress
from kernelkb.record.measurements.compare import find_noise_reason
from kernelkb.render.text.answers import describe_advice
from kernelkb.render.text.measurements import (
    describe_bench,
    describe_build,
    describe_check,
    describe_environment,
    describe_profile,
)

T = TypeVar("T")


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
        work: Callable[[], T],
        summarize: Callable[[T, StepRun], Step],
    ) -> T:
        """Run one step and return its result; its time excludes waiting for the device."""
        self._listener(name, variant, None)
        report_progress(f"{name} {variant}" if variant else name)
        at, started, waited_s = datetime.now(UTC), time.monotonic(), queue_wait_s()
        result = work()
        seconds = round(time.monotonic() - started - (queue_wait_s() - waited_s), 3)
        step = summarize(result, StepRun(name=name, variant=variant, at=at, seconds=seconds))
        self.records.append(step)
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

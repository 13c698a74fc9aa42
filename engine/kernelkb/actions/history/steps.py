"""Runs and times the steps of a command, and summarizes each for the listener and the session."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple, Protocol, TypeVar

from kernelkb.actions.history.recording import sources_digest
from kernelkb.actions.project.bench_target import BenchTarget
from kernelkb.measure.process.device_queue import queue_wait_s
from kernelkb.model.answers.recommendation import KernelAnswer
from kernelkb.model.base import Slug
from kernelkb.model.records.measurement import (
    Bench,
    Build,
    Check,
    Environment,
    Profile,
    Status,
)
from kernelkb.model.records.session import Step
from kernelkb.model.records.verdict import Verdict
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


class StepOutcome(NamedTuple):
    """The summary of a step, with the numbers that a session keeps."""

    status: Status
    found: str
    cure: str | None = None
    sources: str | None = None
    measurement: str | None = None
    verdict: Verdict | None = None
    speedup: float | None = None
    interval: tuple[float, float] | None = None
    baseline: str | None = None
    workload: str | None = None
    bottleneck: Slug | None = None


class StepRunner:
    """Runs steps, times them, and reports them to a listener."""

    def __init__(self, listener: StepListener = ignore_step) -> None:
        self._listener = listener
        self.records: list[Step] = []

    def run(
        self,
        name: str,
        variant: Slug | None,
        work: Callable[[], T],
        summarize: Callable[[T], StepOutcome],
    ) -> T:
        """Run one step and return its result; its time excludes waiting for the device."""
        self._listener(name, variant, None)
        report_progress(f"{name} {variant}" if variant else name)
        at, started, waited_s = datetime.now(UTC), time.monotonic(), queue_wait_s()
        result = work()
        outcome = summarize(result)._asdict()
        seconds = round(time.monotonic() - started - (queue_wait_s() - waited_s), 3)
        step = Step(name=name, variant=variant, at=at, seconds=seconds, **outcome)
        self.records.append(step)
        self._listener(name, variant, step)
        return result

    @property
    def has_failed(self) -> bool:
        """Whether the last step failed."""
        return bool(self.records) and self.records[-1].status == "failure"


def summarize_environment(environment: Environment) -> StepOutcome:
    """Summarize this machine, or the first thing that it lacks."""
    failure = next((line for line in environment.lines if line.status == "failure"), None)
    return StepOutcome(
        "failure" if failure else "ok",
        describe_environment(environment),
        failure.cure if failure else None,
    )


def summarize_build(bench_target: BenchTarget, built: Build) -> StepOutcome:
    """Summarize a build, with the digest of its sources."""
    status: Status = "ok" if built.error is None else "failure"
    return StepOutcome(
        status, describe_build(built), built.cure, sources=sources_digest(bench_target)
    )


def summarize_check(result: Check) -> StepOutcome:
    """Summarize a check."""
    return StepOutcome(
        "ok" if result.status == "correct" else "failure", describe_check(result), result.cure
    )


def summarize_bench(timed: Bench) -> StepOutcome:
    """Summarize a bench; a disturbed one is a warning."""
    noise = find_noise_reason(timed)
    bad = timed.has_failed
    return StepOutcome(
        status="failure" if bad else "warning" if noise else "ok",
        found="; ".join([describe_bench(timed), *timed.warnings]),
        cure=timed.cure if bad else timed.cure or noise,
        measurement=timed.measurement,
        verdict=timed.verdict,
        speedup=timed.speedup,
        interval=timed.interval,
        baseline=timed.baseline if timed.speedup is not None else None,
        workload=timed.workload,
    )


def summarize_profile(result: Profile) -> StepOutcome:
    """Summarize a profile."""
    status: Status = "warning" if result.detail else "ok"
    return StepOutcome(
        status, describe_profile(result), result.cure, measurement=result.measurement
    )


def summarize_gate(answer: KernelAnswer) -> StepOutcome:
    """Summarize the verdict of the gate."""
    gate = answer["gate"]
    passed = gate["verdict"] in ("continue", "done")
    return StepOutcome("ok" if passed else "warning", f"{gate['verdict']}: {gate['because']}")


def summarize_recommendation(answer: KernelAnswer) -> StepOutcome:
    """Summarize a recommendation."""
    best = next((d["bottleneck"] for d in answer["diagnoses"] if d["verdict"] == "matches"), None)
    return StepOutcome("ok", describe_advice(answer), bottleneck=best)

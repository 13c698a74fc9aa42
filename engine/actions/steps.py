"""Steps of the loop: run, timed, and put into words for whoever watches and for the session."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple, Protocol, TypeVar

from kernelkb.actions.bench_target import BenchTarget
from kernelkb.actions.recording import sources_digest
from kernelkb.measure.process.device_queue import queue_wait_s
from kernelkb.measure.process.progress import report_progress
from kernelkb.model.base import Slug
from kernelkb.model.measurement import Bench, Build, Check, Environment, Profile, Status, Verdict
from kernelkb.model.recommendation import KernelAnswer
from kernelkb.model.session import Step
from kernelkb.record.measurements.compare import find_noise_reason
from kernelkb.render.answers import describe_advice
from kernelkb.render.measurements import (
    describe_bench,
    describe_build,
    describe_check,
    describe_environment,
    describe_profile,
)

T = TypeVar("T")


class StepListener(Protocol):
    """Who wants to see each step, as it starts (None) and as it ends."""

    def __call__(self, name: str, variant: str | None, step: Step | None) -> None:
        """Take one step's start or end."""


def ignore_step(name: str, variant: str | None, step: Step | None) -> None:
    """Report to nobody."""


class StepOutcome(NamedTuple):
    """A step's outcome in words, with the numbers that a session keeps."""

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
    """Runs steps, times them, and tells whoever watches."""

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
        """Do one step and return what it gave; to wait for the device is no part of its time."""
        self._listener(name, variant, None)
        report_progress(f"{name} {variant}" if variant else name)
        at, started, before = datetime.now(UTC), time.monotonic(), queue_wait_s()
        result = work()
        said = summarize(result)._asdict()
        seconds = round(time.monotonic() - started - (queue_wait_s() - before), 3)
        step = Step(name=name, variant=variant, at=at, seconds=seconds, **said)
        self.records.append(step)
        self._listener(name, variant, step)
        return result

    @property
    def has_failed(self) -> bool:
        """Whether the last step failed."""
        return bool(self.records) and self.records[-1].status == "failure"


def summarize_environment(found: Environment) -> StepOutcome:
    """Say what this machine is, or lacks."""
    failure = next((line for line in found.lines if line.status == "failure"), None)
    return StepOutcome(
        "failure" if failure else "ok",
        describe_environment(found),
        failure.cure if failure else None,
    )


def summarize_build(place: BenchTarget, built: Build) -> StepOutcome:
    """Say how a build went, and of which sources."""
    status: Status = "ok" if built.error is None else "failure"
    return StepOutcome(status, describe_build(built), built.cure, sources=sources_digest(place))


def summarize_check(result: Check) -> StepOutcome:
    """Say whether a variant is right."""
    return StepOutcome(
        "ok" if result.status == "correct" else "failure", describe_check(result), result.cure
    )


def summarize_bench(timed: Bench) -> StepOutcome:
    """Say how a bench went."""
    noise = find_noise_reason(timed)
    bad = timed.verdict in ("incorrect", "invalid")
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
    """Say what a profile collected."""
    status: Status = "warning" if result.detail else "ok"
    return StepOutcome(
        status, describe_profile(result), result.cure, measurement=result.measurement
    )


def summarize_gate(answer: KernelAnswer) -> StepOutcome:
    """Say what the gate decided."""
    gate = answer["gate"]
    passed = gate["verdict"] in ("continue", "done")
    return StepOutcome("ok" if passed else "warning", f"{gate['verdict']}: {gate['because']}")


def summarize_recommendation(answer: KernelAnswer) -> StepOutcome:
    """Say what is recommended."""
    best = next((d["bottleneck"] for d in answer["diagnoses"] if d["verdict"] == "matches"), None)
    return StepOutcome("ok", describe_advice(answer), bottleneck=best)

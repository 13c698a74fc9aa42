"""Steps of the loop: run, timed, and put into words for whoever watches and for the session."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple, Protocol, TypeVar

from kernelkb.actions.bench_target import Workplace
from kernelkb.actions.fix_outcome import disturbed
from kernelkb.actions.recording import sources_digest
from kernelkb.measure.process.device_queue import waited_s
from kernelkb.measure.process.progress import tell
from kernelkb.model.base import Slug
from kernelkb.model.measurement import Bench, Build, Check, Environment, Profile, Status, Verdict
from kernelkb.model.recommendation import KernelAnswer
from kernelkb.model.session import Step
from kernelkb.render.answers import advice_line
from kernelkb.render.measurements import (
    bench_line,
    build_line,
    check_line,
    environment_line,
    profile_line,
)

T = TypeVar("T")


class Report(Protocol):
    """Who wants to see each step, as it starts (None) and as it ends."""

    def __call__(self, name: str, variant: str | None, step: Step | None) -> None:
        """Take one step's start or end."""


def silent(name: str, variant: str | None, step: Step | None) -> None:
    """Report to nobody."""


class Said(NamedTuple):
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


class Steps:
    """Runs steps, times them, and tells whoever watches."""

    def __init__(self, report: Report = silent) -> None:
        self._report = report
        self.done: list[Step] = []

    def run(
        self, name: str, variant: Slug | None, work: Callable[[], T], say: Callable[[T], Said]
    ) -> T:
        """Do one step and return what it gave; to wait for the device is no part of its time."""
        self._report(name, variant, None)
        tell(f"{name} {variant}" if variant else name)
        at, started, before = datetime.now(UTC), time.monotonic(), waited_s()
        result = work()
        said = say(result)._asdict()
        seconds = round(time.monotonic() - started - (waited_s() - before), 3)
        step = Step(name=name, variant=variant, at=at, seconds=seconds, **said)
        self.done.append(step)
        self._report(name, variant, step)
        return result

    @property
    def failed(self) -> bool:
        """Whether the last step failed."""
        return bool(self.done) and self.done[-1].status == "failure"


def machine_said(found: Environment) -> Said:
    """Say what this machine is, or lacks."""
    failure = next((line for line in found.lines if line.status == "failure"), None)
    return Said(
        "failure" if failure else "ok", environment_line(found), failure.cure if failure else None
    )


def build_said(place: Workplace, built: Build) -> Said:
    """Say how a build went, and of which sources."""
    status: Status = "ok" if built.error is None else "failure"
    return Said(status, build_line(built), built.cure, sources=sources_digest(place))


def check_said(right: Check) -> Said:
    """Say whether a variant is right."""
    return Said("ok" if right.status == "correct" else "failure", check_line(right), right.cure)


def bench_said(timed: Bench) -> Said:
    """Say how a bench went."""
    warned = disturbed(timed)
    notes = [warning for warning in timed.warnings if warning != warned]
    bad = timed.verdict in ("incorrect", "invalid")
    return Said(
        status="failure" if bad else "warning" if warned else "ok",
        found="; ".join([bench_line(timed), *notes]),
        cure=timed.cure if bad else timed.cure or warned,
        measurement=timed.measurement,
        verdict=timed.verdict,
        speedup=timed.speedup,
        interval=timed.interval,
        baseline=timed.baseline if timed.speedup is not None else None,
        workload=timed.workload,
    )


def profile_said(why: Profile) -> Said:
    """Say what a profile collected."""
    status: Status = "warning" if why.detail else "ok"
    return Said(status, profile_line(why), why.cure, measurement=why.measurement)


def gate_said(answer: KernelAnswer) -> Said:
    """Say what the gate decided."""
    calm = answer.gate.verdict in ("continue", "done")
    return Said("ok" if calm else "warning", f"{answer.gate.verdict}: {answer.gate.because}")


def advice_said(answer: KernelAnswer) -> Said:
    """Say what is recommended."""
    best = next((d.bottleneck for d in answer.diagnoses if d.verdict == "matches"), None)
    return Said("ok", advice_line(answer.model_dump()), bottleneck=best)

"""One variant through build, check, bench, gate, profile and recommend; a failure ends it."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple, Protocol, TypeVar

from engine.actions import kernels
from engine.actions.building import build_here
from engine.actions.follow import disturbed
from engine.actions.program import decision_program
from engine.actions.workplace import Workplace
from engine.decide.recommend import recommend
from engine.model.base import Slug
from engine.model.measurement import Bench, Build, Check, Profile, Status, Verdict
from engine.model.recommendation import KernelAnswer
from engine.model.session import Step
from engine.model.triage import Examined
from engine.render.answers import advice_line
from engine.render.measurements import bench_line, build_line, check_line, profile_line

T = TypeVar("T")


class Report(Protocol):
    """Who wants to see each step, as it starts (None) and as it ends."""

    def __call__(self, name: str, variant: str | None, step: Step | None) -> None:
        """Take one step's start or end."""


class Said(NamedTuple):
    """A step's outcome in words."""

    status: Status
    found: str
    cure: str | None = None
    verdict: Verdict | None = None
    speedup: float | None = None
    interval: tuple[float, float] | None = None
    bottleneck: Slug | None = None


class Steps:
    """Runs steps, times them, and tells whoever watches."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self.done: list[Step] = []

    def run(
        self, name: str, variant: Slug | None, work: Callable[[], T], say: Callable[[T], Said]
    ) -> T:
        """Do one step and return what it gave."""
        self._report(name, variant, None)
        at, started = datetime.now(UTC), time.monotonic()
        result = work()
        said = say(result)._asdict()
        seconds = round(time.monotonic() - started, 3)
        step = Step(name=name, variant=variant, at=at, seconds=seconds, **said)
        self.done.append(step)
        self._report(name, variant, step)
        return result

    @property
    def failed(self) -> bool:
        """Whether the last step failed."""
        return bool(self.done) and self.done[-1].status == "failure"


def examine(place: Workplace, workload: str, steps: Steps) -> Examined:
    """Take one variant as far as it goes.

    Args:
        place: The kernel, the variant, the machine.
        workload: What to time.
        steps: Where each step is run and reported.
    """
    name = place.subject.variant.id
    seen = Examined(variant=name)
    built = steps.run("build", name, lambda: build_here(place), _build)
    seen = seen.model_copy(update={"build": built})
    if steps.failed:
        return seen
    right = steps.run("check", name, lambda: kernels.check_here(place, built, workload), _check)
    seen = seen.model_copy(update={"check": right})
    if steps.failed:
        return seen
    timed = steps.run(
        "bench", name, lambda: settled(kernels.bench_here(place, built, workload)), bench_said
    )
    seen = seen.model_copy(update={"bench": timed})
    if steps.failed:
        return seen
    steps.run("gate", name, lambda: answer_to(place, timed.metrics), _gate)
    why = steps.run("profile", name, lambda: kernels.profile_here(place, built, timed), _profile)
    advice = steps.run("recommend", name, lambda: answer_to(place, why.metrics), _advice)
    return seen.model_copy(update={"profile": why, "answer": advice})


def answer_to(place: Workplace, metrics: dict[str, float]) -> KernelAnswer:
    """Decide on metrics that were measured here."""
    machine = place.subject.machine
    answer = recommend(
        decision_program(),
        metrics,
        target=machine.target,
        device=machine.device,
        kernel=place.subject.source.kernel.id,
    )
    return KernelAnswer.model_validate(answer)


def settled(timed: Bench) -> Bench:
    """Leave the speedup out of the metrics of a bench that was disturbed: nothing decides on it.

    Its times stay. They are too long rather than too short, so no roof is reached by them.
    """
    if disturbed(timed) is None:
        return timed
    kept = {name: value for name, value in timed.metrics.items() if name != "speedup"}
    return timed.model_copy(update={"metrics": kept})


def _build(built: Build) -> Said:
    return Said("ok" if built.error is None else "failure", build_line(built), built.cure)


def _check(right: Check) -> Said:
    return Said("ok" if right.status == "correct" else "failure", check_line(right), right.cure)


def bench_said(timed: Bench) -> Said:
    """Say how a bench went."""
    warned = disturbed(timed)
    notes = [warning for warning in timed.warnings if warning != warned]
    found = "; ".join([bench_line(timed), *notes])
    numbers = (timed.verdict, timed.speedup, timed.interval)
    if timed.verdict in ("incorrect", "invalid"):
        return Said("failure", found, timed.cure, *numbers)
    return Said("warning" if warned else "ok", found, timed.cure or warned, *numbers)


def _gate(answer: KernelAnswer) -> Said:
    calm = answer.gate.verdict in ("continue", "done")
    return Said("ok" if calm else "warning", f"{answer.gate.verdict}: {answer.gate.because}")


def _profile(why: Profile) -> Said:
    return Said("warning" if why.detail else "ok", profile_line(why), why.cure)


def _advice(answer: KernelAnswer) -> Said:
    best = next((d.bottleneck for d in answer.diagnoses if d.verdict == "matches"), None)
    return Said("ok", advice_line(answer.model_dump()), bottleneck=best)

"""One variant through build, check, bench, gate, profile and recommend; a failure ends it."""

from __future__ import annotations

from kernelkb.actions import kernels
from kernelkb.actions.bench_target import Workplace
from kernelkb.actions.building import build_here
from kernelkb.actions.fix_outcome import disturbed
from kernelkb.actions.rules_cache import decision_program
from kernelkb.actions.steps import (
    Steps,
    advice_said,
    bench_said,
    build_said,
    check_said,
    gate_said,
    profile_said,
)
from kernelkb.decide.recommend import recommend
from kernelkb.model.measurement import Bench
from kernelkb.model.recommendation import KernelAnswer
from kernelkb.model.triage import Examined


def examine(place: Workplace, workload: str, steps: Steps) -> Examined:
    """Take one variant as far as it goes.

    Args:
        place: The kernel, the variant, the machine.
        workload: What to time.
        steps: Where each step is run and reported.
    """
    name = place.subject.variant.id
    seen = Examined(variant=name)
    built = steps.run(
        "build", name, lambda: build_here(place), lambda made: build_said(place, made)
    )
    seen = seen.model_copy(update={"build": built})
    if steps.failed:
        return seen
    right = steps.run("check", name, lambda: kernels.check_here(place, built, workload), check_said)
    seen = seen.model_copy(update={"check": right})
    if steps.failed:
        return seen
    timed = steps.run(
        "bench", name, lambda: settled(kernels.bench_here(place, built, workload)), bench_said
    )
    seen = seen.model_copy(update={"bench": timed})
    if steps.failed:
        return seen
    steps.run("gate", name, lambda: answer_to(place, timed.metrics), gate_said)
    why = steps.run(
        "profile", name, lambda: kernels.profile_here(place, built, timed), profile_said
    )
    advice = steps.run("recommend", name, lambda: answer_to(place, why.metrics), advice_said)
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

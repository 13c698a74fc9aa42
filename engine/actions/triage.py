"""The main job: a kernel through the whole loop, then the fix that was recommended, measured."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Literal

from kernelkb.actions.bench_target import Workplace, environment_for, project, workload_of
from kernelkb.actions.evaluate_variant import examine
from kernelkb.actions.fix_outcome import Choice, choose, comparable, compare, decisions, untried
from kernelkb.actions.kernels import bench_here, untimed
from kernelkb.actions.session_log import shortened, whereabouts
from kernelkb.actions.sessions import session_for
from kernelkb.actions.steps import Report, Steps, bench_said, machine_said, silent
from kernelkb.errors import KbError
from kernelkb.loading.kernels import load_kernel, variant_of
from kernelkb.measure.machine.environment import Wanted
from kernelkb.measure.subject import Subject
from kernelkb.model.measurement import Bench, Environment
from kernelkb.model.session import Decision, Entry
from kernelkb.model.triage import Examined, Followed, Triage
from kernelkb.record.sessions import append


def triage(
    kernel: str,
    variant: str | None = None,
    target: Wanted = "auto",
    workload: str | None = None,
    report: Report = silent,
) -> Triage:
    """Take a kernel through environment, build, check, bench, gate, profile and recommend.

    Where a variant applies the recommended fix, it goes through the same, and the report says what
    was predicted and what came of it. All is appended to the project's sessions.

    Args:
        kernel: The kernel's name.
        variant: Where to start; the plain variant by default.
        target: See ``workplace.prepare``.
        workload: What to time; the target's default when None.
        report: Told of each step as it starts and as it ends.

    Raises:
        UnknownNameError: No such kernel, variant or workload.
        KnowledgeError: The kernel.yaml is wrong.
        KbError: The kernel's reference or tolerance is at fault.
    """
    started = time.monotonic()
    source = load_kernel(kernel, project())
    workload_of(source.kernel, "cpu", workload)
    steps = Steps(report)
    found = steps.run(
        "environment", None, lambda: environment_for(source.kernel, variant, target), machine_said
    )
    if found.machine is None:
        return _report(kernel, found, steps, started)
    chosen = variant_of(source.kernel, found.target, variant)
    place = Workplace(Subject(source, chosen, found.machine), project())
    name = workload_of(source.kernel, found.target, workload)
    examined, choice = _loop(place, name, steps)
    followed = _followed(place, examined, choice, name, steps) if choice else None
    return _report(kernel, found, steps, started, examined, followed, choice)


def _loop(
    place: Workplace, workload: str, steps: Steps
) -> tuple[tuple[Examined, ...], Choice | None]:
    """Examine a variant, then the one that applies what was recommended, if there is one."""
    first = examine(place, workload, steps)
    subject = place.subject
    if first.answer is None:
        return (first,), None
    choice = choose(subject.source.kernel, subject.variant, first.answer)
    if choice is None:
        return (first,), None
    return (first, examine(place.with_variant(choice.variant), workload, steps)), choice


def _followed(
    place: Workplace, examined: tuple[Examined, ...], choice: Choice, workload: str, steps: Steps
) -> Followed | None:
    """Say what the change gave, if need be by timing the one next to the other."""
    before, after = examined[0], examined[-1]
    old, new = before.build, after.build
    if comparable(before, after) or old is None or new is None:
        return compare(before, after, choice)
    mine = place.with_variant(choice.variant)

    def duel() -> Bench:
        try:
            return bench_here(mine, new, workload, incumbent=(place.subject, old), alone=True)
        except KbError as error:  # what was found before is still to be recorded
            return untimed(mine, workload, "invalid", str(error), None, 0.0)

    timed = steps.run("compare", choice.variant.id, duel, bench_said)
    return compare(before, after, choice, timed)


def _report(
    kernel: str,
    found: Environment,
    steps: Steps,
    started: float,
    examined: tuple[Examined, ...] = (),
    followed: Followed | None = None,
    choice: Choice | None = None,
) -> Triage:
    made = decisions(choice, followed, examined[0], examined[-1]) if choice else _advice(examined)
    result = Triage(
        kernel=kernel,
        target=found.target,
        machine=found.machine,
        steps=tuple(steps.done),
        examined=examined,
        followed=followed,
        decisions=made,
        outcome=_outcome(examined),
        seconds=time.monotonic() - started,
    )
    if not examined:
        return result
    path = append(_entry(result, examined), project() / "sessions")
    return result.model_copy(update={"session": str(path)})


def _outcome(
    examined: tuple[Examined, ...],
) -> Literal["done", "stopped", "could-not-run"]:
    if not examined:
        return "could-not-run"
    answer = examined[-1].answer
    return "stopped" if answer is None or answer.gate.verdict == "stop" else "done"


def _advice(examined: tuple[Examined, ...]) -> tuple[Decision, ...]:
    answer = examined[-1].answer if examined else None
    return untried(answer) if answer else ()


def _entry(result: Triage, examined: tuple[Examined, ...]) -> Entry:
    last, machine = examined[-1], result.machine
    metrics = last.profile.metrics if last.profile else last.bench.metrics if last.bench else {}
    why = result.followed.unmeasured if result.followed else None
    apart = (f"the change was not measured: {why}",) if why else ()
    return Entry(
        session=session_for(result.kernel),
        at=datetime.now(UTC),
        goal=f"triage {result.kernel} on {result.target}",
        by="triage",
        kernel=result.kernel,
        variant=last.variant,
        target=result.target,
        **(whereabouts(machine) if machine else {}),
        steps=result.steps,
        metrics=shortened(metrics),
        decisions=result.decisions,
        went_wrong=(*(s.found for s in result.steps if s.status == "failure"), *apart),
    )

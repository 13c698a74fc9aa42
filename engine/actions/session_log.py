"""What verbs did, written into the session that is open."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from kernelkb.actions.bench_target import Workplace, project
from kernelkb.actions.fix_outcome import untried
from kernelkb.actions.recording import environment_of
from kernelkb.actions.steps import Steps, advice_said, machine_said
from kernelkb.errors import KbError
from kernelkb.model.measurement import Bench, Build, Check, Environment, Machine, Profile
from kernelkb.model.recommendation import KernelAnswer
from kernelkb.model.session import Entry
from kernelkb.record import sessions as files
from kernelkb.record.open_session import current_for, may_be_open
from kernelkb.safety.workspace import may_write

T = TypeVar("T", Bench, Build, Check, Profile)


def written_down(place: Workplace, by: str, steps: Steps, result: T) -> T:
    """Note a result in the open session, if there is one; say with it where that failed."""
    metrics = getattr(result, "metrics", {})
    trouble = noted(place, by, steps, metrics)
    if trouble is None:
        return result
    said = "; ".join(filter(None, (result.unrecorded, trouble)))
    return result.model_copy(update={"unrecorded": said})


def noted(
    place: Workplace, by: str, steps: Steps, metrics: Mapping[str, float] | None = None
) -> str | None:
    """Append what a verb did to the open session, if there is one, and it is about this kernel.

    Returns:
        Why it could not be written; None when it was, or when no session wants it.
    """
    kernel, variant = place.subject.source.kernel.id, place.subject.variant
    fields = {
        "kernel": kernel,
        "variant": variant.id,
        "target": variant.target,
        **whereabouts(place.subject.machine),
        "steps": tuple(steps.done),
        "metrics": shortened(metrics or {}),
        "went_wrong": tuple(step.found for step in steps.done if step.status == "failure"),
    }
    return note(place.project, by, f"{by} {kernel} on {variant.target}", kernel, fields)


def listening() -> bool:
    """Say, at the cost of one look, whether a session may be open."""
    return may_be_open(project())


def advised(given: Mapping[str, Any]) -> str | None:
    """Append advice that was given to the open session, if there is one that wants it.

    Args:
        given: The fields of a ``KernelAnswer``.
    """
    answer = KernelAnswer.model_validate(given)
    steps = Steps()
    steps.run("recommend", None, lambda: answer, advice_said)
    kernel = answer.kernel if re.fullmatch(r"[a-z][a-z0-9_]{0,59}", answer.kernel) else None
    goal = f"recommend for {kernel}" if kernel else "recommend"
    fields = {"kernel": kernel, "steps": tuple(steps.done), "decisions": untried(answer)}
    return note(project(), "recommend", goal, kernel, fields)


def surveyed(found: Environment) -> str | None:
    """Append what a machine was found to be to the open session, if there is one."""
    steps = Steps()
    steps.run("environment", None, lambda: found, machine_said)
    step = steps.done[0].model_copy(update={"seconds": found.seconds})
    where = whereabouts(found.machine) if found.machine else {}
    fields = {"target": found.target, "steps": (step,), **where}
    return note(project(), "env", f"check this machine for {found.target}", None, fields)


def note(
    place: Path, by: str, goal: str, kernel: str | None, fields: Mapping[str, Any]
) -> str | None:
    """Append an entry to the open session; return why it could not be written."""
    if not may_write():
        return None
    try:
        name = current_for(kernel, place)
        if name is not None:
            entry = Entry(session=name, at=datetime.now(UTC), goal=goal, by=by, **fields)
            files.append(entry, place / "sessions")
    except KbError as error:
        return str(error)
    return None


def whereabouts(machine: Machine) -> dict[str, Any]:
    """Return the fields of an entry that say where its numbers are from."""
    return {
        "machine": machine.title,
        "device": machine.device,
        "cc": machine.cc,
        "environment": environment_of(machine),
    }


def shortened(metrics: Mapping[str, float]) -> dict[str, float]:
    """Return metrics as people read them."""
    return {name: float(f"{value:.6g}") for name, value in metrics.items()}

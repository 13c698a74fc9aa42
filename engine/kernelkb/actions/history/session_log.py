"""Appends the results of commands to the open session."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from kernelkb.actions.history.fix_outcome import make_unapplied_decisions
from kernelkb.actions.history.record_attempt import keep_steps
from kernelkb.actions.history.recording import collect_versions
from kernelkb.actions.history.steps import StepRunner, summarize_recommendation
from kernelkb.actions.project.bench_target import BenchTarget, get_project_path
from kernelkb.errors import KbError
from kernelkb.model.answers.recommendation import KernelAnswer
from kernelkb.model.records.measurement import Bench, Build, Check, Machine, Profile
from kernelkb.model.records.session import SessionEntry
from kernelkb.record.open_session import find_open_session_for, may_have_open_session
from kernelkb.record.sessions import append_entry
from kernelkb.safety.workspace import may_write

T = TypeVar("T", Bench, Build, Check, Profile)


def log_result(
    bench_target: BenchTarget,
    by: str,
    steps: StepRunner,
    result: T,
    built: Build | None = None,
    versions: Mapping[str, str] | None = None,
    *,
    said: str | None = None,
) -> T:
    """Append a result to the history of the kernel, and to the open session, if there is one.

    Args:
        bench_target: What was measured.
        by: The command.
        steps: Its steps.
        result: Of the last one.
        built: The build that was measured; its state gets the steps in the history.
        versions: Of the machine that measured; None: of this one.
        said: What the author says that was changed.

    Returns:
        The result; its ``unrecorded`` says why the session does not hold it, if that failed.
    """
    failure = log_steps(bench_target, by, steps, getattr(result, "metrics", {}), versions)
    candidate_us = getattr(result, "candidate_us", None)
    unkept = keep_steps(bench_target, built, steps.records, candidate_us, said)
    reasons = "; ".join(dict.fromkeys(filter(None, (result.unrecorded, failure, unkept))))
    if not reasons:
        return result
    return result.model_copy(update={"unrecorded": reasons})


def log_steps(
    bench_target: BenchTarget,
    by: str,
    steps: StepRunner,
    metrics: Mapping[str, float] | None = None,
    versions: Mapping[str, str] | None = None,
) -> str | None:
    """Append the steps of a command to the open session, if one is open for this kernel.

    Returns:
        Why the entry could not be written; None if it was, or if no such session is open.
    """
    kernel, variant = bench_target.subject.kernel_folder.kernel.id, bench_target.subject.variant
    fields = {
        "kernel": kernel,
        "variant": variant.id,
        "target": variant.target,
        **machine_fields(bench_target.subject.machine, versions),
        "steps": tuple(steps.records),
        "metrics": round_metrics(metrics or {}),
        "went_wrong": tuple(step.found for step in steps.records if step.status == "failure"),
    }
    return log_entry(bench_target.project, by, f"{by} {kernel} on {variant.target}", kernel, fields)


def should_log_to_session() -> bool:
    """Return whether a session may be open; costs one look at the file system."""
    return may_have_open_session(get_project_path())


def log_recommendation(answer: KernelAnswer) -> str | None:
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
    if not may_write():
        return None
    try:
        name = find_open_session_for(kernel, project_root)
        if name is not None:
            entry = SessionEntry(session=name, at=datetime.now(UTC), goal=goal, by=by, **fields)
            append_entry(entry, project_root / "sessions")
    except KbError as error:
        return str(error)
    return None


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

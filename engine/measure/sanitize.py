"""compute-sanitizer over a candidate: accesses out of bounds, races, memory that nobody wrote."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from kernelkb.measure.machine.tools import find_cuda_tool
from kernelkb.measure.process.worker_jobs import (
    Job,
    case_of,
    label,
    reference_of,
    run_job,
    scratch_folder,
)
from kernelkb.measure.runner_specs import code_of
from kernelkb.measure.subject import Subject
from kernelkb.model.measurement import Build

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
TIMEOUT_S = 120.0
_FINDING = re.compile(r"^=+ (?P<said>(?:Invalid|Error|Race|Warning|Uninitialized|Barrier).+)$")
_SUMMARY = re.compile(r"(?P<count>\d+) (?:error|hazard)s?\b")
_LARGEST = 2**18


class Finding(NamedTuple):
    """What one tool found."""

    tool: str
    times: int
    said: str
    """The first complaint, with the lines that say where."""


class Sanitized(NamedTuple):
    """What all tools found, or why none could look."""

    findings: tuple[Finding, ...]
    looked: tuple[str, ...]
    detail: str | None = None
    cure: str | None = None


def sanitize(
    subject: Subject, built: Build, *, tools: Sequence[str] = TOOLS, timeout_s: float = TIMEOUT_S
) -> Sanitized:
    """Run a candidate once on each small workload under each tool.

    Args:
        subject: What to run.
        built: Its build, which must not have failed.
        tools: Of compute-sanitizer.
        timeout_s: For each tool; a kernel runs some hundred times slower under one.
    """
    program = find_cuda_tool("compute-sanitizer")
    if program is None:
        cure = "install the CUDA toolkit's compute-sanitizer, or put it on PATH"
        return Sanitized((), (), "compute-sanitizer was not found", cure)
    job = _job(subject, built)
    findings: list[Finding] = []
    looked: list[str] = []
    for tool in tools:
        log = _log(program, tool, job, timeout_s)
        if log is None:
            continue
        looked.append(tool)
        found = finding(tool, log)
        if found is not None:
            findings.append(found)
    if not looked:
        detail = f"no tool of compute-sanitizer ended within {timeout_s:g} s"
        return Sanitized((), (), detail, "add a small workload to check_workloads")
    return Sanitized(tuple(findings), tuple(looked))


def _job(subject: Subject, built: Build) -> Job:
    what, source = code_of(subject, built), subject.source
    sizes = [*source.kernel.check_workloads, *source.kernel.workloads.values()]
    small = [s for s in sizes if _elements(subject, s) <= _LARGEST] or sizes[:1]
    return {
        "mode": "light" if what["kind"] == "c" else "repeat",
        "target": "cuda",
        "reference": reference_of(source),
        "what": what,
        "cases": [case_of(source, label(one), one) for one in small],
        "times": 1,
    }


def _log(program: str, tool: str, job: Job, timeout_s: float) -> str | None:
    """Return what a tool printed, None when it did not end in time."""
    with scratch_folder() as folder:
        wrapper = (program, "--tool", tool, "--target-processes", "all")
        end = run_job(job, folder, timeout_s=timeout_s, wrapper=wrapper)
        log = (folder / f"{job['mode']}.log").read_text(encoding="utf-8", errors="replace")
    return None if end.end.timed_out else log


def finding(tool: str, log: str) -> Finding | None:
    """Return what a tool found, by its own report; None when it found nothing."""
    lines = log.splitlines()
    summary = next((s for line in reversed(lines) if (s := _SUMMARY.search(line))), None)
    count = int(summary["count"]) if summary else 0
    if not count:
        return None
    for at, line in enumerate(lines):
        found = _FINDING.match(line.strip())
        if found:
            where = [one.strip("= ").strip() for one in lines[at + 1 : at + 4]]
            return Finding(tool, count, "; ".join([found["said"], *(w for w in where if w)]))
    return Finding(tool, count, f"{count} findings")


def _elements(subject: Subject, sizes: dict[str, int]) -> int:
    total = 0
    for array in subject.source.kernel.inputs:
        count = 1
        for dimension in array.shape:
            count *= dimension if isinstance(dimension, int) else sizes[dimension]
        total += count
    return total

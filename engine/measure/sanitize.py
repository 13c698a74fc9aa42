"""compute-sanitizer over a candidate: accesses out of bounds, races, memory that nobody wrote."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from kernelkb.measure.machine.tools import find_cuda_tool
from kernelkb.measure.process.worker_jobs import (
    Job,
    format_sizes,
    make_case_spec,
    make_reference_spec,
    run_job,
    scratch_folder,
)
from kernelkb.measure.runner_specs import make_code_spec
from kernelkb.measure.subject import MeasurementSubject
from kernelkb.model.measurement import Build

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
TIMEOUT_S = 120.0
_FINDING_LINE = re.compile(r"^=+ (?P<said>(?:Invalid|Error|Race|Warning|Uninitialized|Barrier).+)$")
_SUMMARY_COUNT = re.compile(r"(?P<count>\d+) (?:error|hazard)s?\b")
_MAX_INPUT_ELEMENTS = 2**18


class SanitizerFinding(NamedTuple):
    """What one tool found."""

    tool: str
    error_count: int
    message: str
    """The first complaint, with the lines that say where."""


class SanitizerReport(NamedTuple):
    """What all tools found, or why none could look."""

    findings: tuple[SanitizerFinding, ...]
    finished_tools: tuple[str, ...]
    reason: str | None = None
    cure: str | None = None


def sanitize(
    subject: MeasurementSubject,
    build: Build,
    *,
    tools: Sequence[str] = TOOLS,
    timeout_s: float = TIMEOUT_S,
) -> SanitizerReport:
    """Run a candidate once on each small workload under each tool.

    Args:
        subject: What to run.
        build: Its build, which must not have failed.
        tools: Of compute-sanitizer.
        timeout_s: For each tool; a kernel runs some hundred times slower under one.
    """
    program = find_cuda_tool("compute-sanitizer")
    if program is None:
        cure = "install the CUDA toolkit's compute-sanitizer, or put it on PATH"
        return SanitizerReport((), (), "compute-sanitizer was not found", cure)
    job = _make_job(subject, build)
    findings: list[SanitizerFinding] = []
    looked: list[str] = []
    for tool in tools:
        log = _run_tool(program, tool, job, timeout_s)
        if log is None:
            continue
        looked.append(tool)
        found = parse_finding(tool, log)
        if found is not None:
            findings.append(found)
    if not looked:
        detail = f"no tool of compute-sanitizer ended within {timeout_s:g} s"
        return SanitizerReport((), (), detail, "add a small workload to check_workloads")
    return SanitizerReport(tuple(findings), tuple(looked))


def _make_job(subject: MeasurementSubject, build: Build) -> Job:
    what, source = make_code_spec(subject, build), subject.kernel_folder
    sizes = [*source.kernel.check_workloads, *source.kernel.workloads.values()]
    small = [s for s in sizes if _count_input_elements(subject, s) <= _MAX_INPUT_ELEMENTS] or sizes[
        :1
    ]
    return {
        "mode": "light" if what["kind"] == "c" else "repeat",
        "target": "cuda",
        "reference": make_reference_spec(source),
        "what": what,
        "cases": [make_case_spec(source, format_sizes(one), one) for one in small],
        "times": 1,
    }


def _run_tool(program: str, tool: str, job: Job, timeout_s: float) -> str | None:
    """Return what a tool printed, None when it did not end in time."""
    with scratch_folder() as folder:
        wrapper = (program, "--tool", tool, "--target-processes", "all")
        end = run_job(job, folder, timeout_s=timeout_s, wrapper=wrapper)
        log = (folder / f"{job['mode']}.log").read_text(encoding="utf-8", errors="replace")
    return None if end.process.timed_out else log


def parse_finding(tool: str, log: str) -> SanitizerFinding | None:
    """Return what a tool found, by its own report; None when it found nothing."""
    lines = log.splitlines()
    summary = next((s for line in reversed(lines) if (s := _SUMMARY_COUNT.search(line))), None)
    count = int(summary["count"]) if summary else 0
    if not count:
        return None
    for at, line in enumerate(lines):
        found = _FINDING_LINE.match(line.strip())
        if found:
            where = [one.strip("= ").strip() for one in lines[at + 1 : at + 4]]
            return SanitizerFinding(
                tool, count, "; ".join([found["said"], *(w for w in where if w)])
            )
    return SanitizerFinding(tool, count, f"{count} findings")


def _count_input_elements(subject: MeasurementSubject, sizes: dict[str, int]) -> int:
    total = 0
    for array in subject.kernel_folder.kernel.inputs:
        count = 1
        for dimension in array.shape:
            count *= dimension if isinstance(dimension, int) else sizes[dimension]
        total += count
    return total

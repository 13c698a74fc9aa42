"""Runs compute-sanitizer on a candidate: out-of-bounds accesses, races, uninitialized reads."""

from __future__ import annotations

import re
from typing import NamedTuple

from kernelkb.measure.job_specs import (
    count_input_elements,
    format_sizes,
    make_case_spec,
    make_code_spec,
    make_reference_spec,
)
from kernelkb.measure.machine.tools import find_cuda_tool
from kernelkb.measure.process.subprocesses import scratch_folder
from kernelkb.measure.process.worker_jobs import run_job
from kernelkb.measure.subject import MeasurementSubject
from kernelkb.measure.worker.shared.messages.jobs import RepeatJob
from kernelkb.model.records.measurement import Build

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
TIMEOUT_S = 120.0
_FINDING_LINE = re.compile(r"^=+ (?P<text>(?:Invalid|Error|Race|Warning|Uninitialized|Barrier).+)$")
_SUMMARY_COUNT = re.compile(r"(?<!\d)(?P<count>\d+) (?:error|hazard)s?\b")
_MAX_INPUT_ELEMENTS = 2**18
"""Of a workload that is small enough: a kernel runs some hundred times slower under a tool."""
_CONTEXT_LINES = 3


class SanitizerFinding(NamedTuple):
    """Errors that one tool reported."""

    tool: str
    error_count: int
    message: str
    """The first of them, with the lines that locate it."""


class SanitizerReport(NamedTuple):
    """Findings of all tools, or why none finished."""

    findings: tuple[SanitizerFinding, ...]
    finished_tools: tuple[str, ...]
    reason: str | None = None
    cure: str | None = None


def sanitize(subject: MeasurementSubject, build: Build) -> SanitizerReport:
    """Run a candidate once on each small workload under each tool.

    Args:
        subject: What to run.
        build: Its build, which must not have failed.
    """
    program = find_cuda_tool("compute-sanitizer")
    if program is None:
        cure = "install the CUDA toolkit's compute-sanitizer, or put it on PATH"
        return SanitizerReport((), (), "compute-sanitizer was not found", cure)
    job = _make_job(subject, build)
    findings: list[SanitizerFinding] = []
    finished: list[str] = []
    for tool in TOOLS:
        log = _run_tool(program, tool, job)
        if log is None:
            continue
        finished.append(tool)
        finding = parse_finding(tool, log)
        if finding is not None:
            findings.append(finding)
    if not finished:
        detail = f"no tool of compute-sanitizer ended within {TIMEOUT_S:g} s"
        return SanitizerReport((), (), detail, "add a small workload to check_workloads")
    return SanitizerReport(tuple(findings), tuple(finished))


def _make_job(subject: MeasurementSubject, build: Build) -> RepeatJob:
    code, kernel_folder = make_code_spec(subject, build), subject.kernel_folder
    kernel = kernel_folder.kernel
    workloads = [*kernel.check_workloads, *kernel.workloads.values()]
    small = [w for w in workloads if count_input_elements(kernel_folder, w) <= _MAX_INPUT_ELEMENTS]
    return {
        "mode": "repeat-without-torch" if code["kind"] == "c" else "repeat",
        "target": "cuda",
        "reference": make_reference_spec(kernel_folder),
        "code": code,
        "cases": [
            make_case_spec(kernel_folder, format_sizes(sizes), sizes)
            for sizes in small or workloads[:1]
        ],
        "call_count": 1,
    }


def _run_tool(program: str, tool: str, job: RepeatJob) -> str | None:
    """Return what a tool printed; None when it did not end in time."""
    with scratch_folder() as folder:
        wrapper = (program, "--tool", tool, "--target-processes", "all")
        run = run_job(job, folder, timeout_s=TIMEOUT_S, wrapper=wrapper)
        log = (folder / f"{job['mode']}.log").read_text(encoding="utf-8", errors="replace")
    return None if run.process.timed_out else log


def parse_finding(tool: str, log: str) -> SanitizerFinding | None:
    """Return the finding that a tool's log reports; None where it reports no errors."""
    lines = log.splitlines()
    summary = next((s for line in reversed(lines) if (s := _SUMMARY_COUNT.search(line))), None)
    count = int(summary["count"]) if summary else 0
    if not count:
        return None
    for index, line in enumerate(lines):
        match = _FINDING_LINE.match(line.strip())
        if match:
            context = lines[index + 1 : index + 1 + _CONTEXT_LINES]
            details = (text.strip("= ").strip() for text in context)
            message = "; ".join([match["text"], *filter(None, details)])
            return SanitizerFinding(tool, count, message)
    return SanitizerFinding(tool, count, f"{count} findings")

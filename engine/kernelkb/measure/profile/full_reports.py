"""Records whole Nsight Compute reports of C entry points, several launches in one run of ncu."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from kernelkb.measure.machine.tools import find_cuda_tool
from kernelkb.measure.process.scratch_folders import scratch_folder
from kernelkb.measure.process.worker_jobs import run_job
from kernelkb.measure.worker.shared.messages.other_jobs import RepeatJob, RepeatSeveralJob


def record_full_report(
    jobs: Sequence[RepeatJob], kernels: Sequence[str], report: Path, *, timeout_s: float
) -> str | None:
    """Profile every launch of the named kernels with all counters, source and machine code.

    Starting ncu and the CUDA driver takes seconds, so the jobs share one process.

    Args:
        jobs: C entry points that run without torch, called in this order.
        kernels: Names of the ``__global__`` functions to profile.
        report: The binary report to write.
        timeout_s: For all jobs together.

    Returns:
        Why there is no report; None if there is one.
    """
    ncu = find_cuda_tool("ncu")
    if ncu is None:
        return "ncu was not found; install Nsight Compute, or put it on PATH"
    pattern = f"regex:^({'|'.join(dict.fromkeys(kernels))})$"
    wrapper = (
        *(ncu, "--set", "full", "--import-source", "yes", "--kernel-name", pattern),
        *("--clock-control", "none", "--force-overwrite", "--export", str(report)),
    )
    job: RepeatSeveralJob = {"mode": "repeat-several", "jobs": list(jobs)}
    report.parent.mkdir(parents=True, exist_ok=True)
    with scratch_folder() as folder:
        run = run_job(job, folder, timeout_s=timeout_s, wrapper=wrapper)
    if run.process.returncode == 0 and report.is_file():
        report.write_bytes(blank_foreign_sources(report.read_bytes()))
        return None
    lines = [line for line in run.process.output.splitlines() if line.strip()]
    return lines[-1] if lines else f"ncu ended with {run.process.returncode}"


def blank_foreign_sources(report: bytes) -> bytes:
    """Return a report in which the text of the toolkit's own headers is blank.

    ncu imports every file with a line in the kernel, also headers of the CUDA toolkit, which are
    not ours to publish. Lines keep their numbers, and the report its length. In the report, which
    is a protocol buffer, the text is the field of number 2 behind that of the path.
    """
    blanked = bytearray(report)
    for match in _HEADER_PATH.finditer(report):
        start, length = _read_varint(report, match.end())
        blanked[start : start + length] = re.sub(rb"[^\n]", b" ", report[start : start + length])
    return bytes(blanked)


_HEADER_PATH = re.compile(rb"/[\w./+-]*/include/[\w./+-]+\x12")


def _read_varint(data: bytes, start: int) -> tuple[int, int]:
    """Return the position behind a variable-length integer, and the integer."""
    value = shift = 0
    while True:
        byte = data[start]
        value |= (byte & 0x7F) << shift
        start, shift = start + 1, shift + 7
        if byte < 0x80:
            return start, value

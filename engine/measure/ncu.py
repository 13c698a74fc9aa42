"""Nsight Compute: one run of a candidate's kernels under it, and what its counters are worth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from kernelkb.measure.machine.json_cache import read_cache, write_cache
from kernelkb.measure.machine.nvidia_driver import driver_fingerprint
from kernelkb.measure.machine.tools import find_cuda_tool, query_version
from kernelkb.measure.process.worker_jobs import Job, JobRun, run_job, scratch_folder
from kernelkb.profiles.launch import ProfiledLaunch, RawName
from kernelkb.profiles.ncu_csv import read_raw_page

_PERMISSION_ERROR = "ERR_NVGPUCTRPERM"
_SELF_TEST_BYTES = 64 * 2**20
_SELF_TEST_TOLERANCE = 0.15
_SELF_TEST_KERNEL = "kernelkb_copy"
_DRAM_READ_BYTES = RawName("dram_read_bytes", ("dram__bytes_read.sum",), 1.0)
_SELF_TEST_CACHE = "counters"

FORBIDDEN_CURE = (
    "run as administrator, or load the driver with NVreg_RestrictProfilingToAdminUsers=0"
)


class NcuReport(NamedTuple):
    """What came out of one run."""

    launch: ProfiledLaunch | None
    """The longest launch of the candidate's own kernels."""
    page: str
    """The raw page as ncu wrote it, to be kept and read again."""
    reason: str | None = None
    cure: str | None = None


def collect_counters(
    job: Job, kernels: Sequence[str], raw_names: Sequence[RawName], *, timeout_s: float
) -> NcuReport:
    """Collect counters of a candidate's own kernels.

    Counters are asked for by name: the sections that hold the same ones take twice the passes.

    Args:
        job: A ``light`` or ``repeat`` job of the worker.
        kernels: Names of ``__global__`` functions; other kernels are not looked at. With none,
            all are, inside the NVTX range of a ``repeat`` job.
        raw_names: What to collect.
        timeout_s: For the run.
    """
    ncu = find_cuda_tool("ncu")
    if ncu is None:
        return NcuReport(None, "", "ncu was not found", "install Nsight Compute, or put it on PATH")
    wanted = dict.fromkeys(name for raw in raw_names for name in raw.names)
    page, end = _run_ncu(ncu, job, kernels, list(wanted), timeout_s)
    said = page + end.process.output
    if _PERMISSION_ERROR in said:
        return NcuReport(
            None, "", "the driver forbids reading performance counters", FORBIDDEN_CURE
        )
    if "No kernels were profiled" in page:
        return _report_no_launch(kernels, page)
    if '"Kernel Name"' not in page:
        lines = [line for line in said.splitlines() if "==" in line]
        what = lines[-1] if lines else f"ncu ended with {end.process.returncode} and no report"
        return NcuReport(None, page, what, "run the command by hand to see more, or do without")
    launches = read_raw_page(page, raw_names)
    longest = max(launches, key=lambda one: one.metrics.get("profiled_us", 0.0), default=None)
    if longest is None:
        return _report_no_launch(kernels, page)
    return NcuReport(longest, page)


def _report_no_launch(kernels: Sequence[str], page: str) -> NcuReport:
    names = ", ".join(kernels) or "anything"
    detail = f"none of its launches is named {names}"
    return NcuReport(None, page, detail, "correct kernels: in kernel.yaml")


def describe_counter_error() -> str | None:
    """Say how far the counters are off on a kernel whose traffic is known; None when they are not.

    Kept for each driver, GPU and version of ncu: counters break with those.
    """
    ncu = find_cuda_tool("ncu")
    if ncu is None:
        return None
    key = f"{driver_fingerprint()} {query_version(ncu)}"
    share = read_cache(_SELF_TEST_CACHE, key)
    if share is None:
        job = {"mode": "traffic", "bytes": _SELF_TEST_BYTES}
        page, _ = _run_ncu(ncu, job, [_SELF_TEST_KERNEL], list(_DRAM_READ_BYTES.names), 60.0)
        found = read_raw_page(page, [_DRAM_READ_BYTES]) if '"Kernel Name"' in page else []
        read = found[-1].metrics.get("dram_read_bytes", math.nan) if found else math.nan
        share = read / _SELF_TEST_BYTES if math.isfinite(read) else -1.0
        write_cache(_SELF_TEST_CACHE, key, share)
    if abs(share - 1) <= _SELF_TEST_TOLERANCE:
        return None
    said = f"{share:.2f} of the bytes" if share >= 0 else "nothing"
    return f"ncu counted {said} of a kernel that reads {_SELF_TEST_BYTES / 2**20:.0f} MiB"


def _run_ncu(
    ncu: str, job: Job, kernels: Sequence[str], names: Sequence[str], timeout_s: float
) -> tuple[str, JobRun]:
    with scratch_folder() as folder:
        log = folder / "ncu.csv"
        end = run_job(
            job, folder, timeout_s=timeout_s, wrapper=_make_ncu_command(ncu, kernels, names, log)
        )
        page = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    return page, end


def _make_ncu_command(
    ncu: str, kernels: Sequence[str], names: Sequence[str], log: Path
) -> tuple[str, ...]:
    only = ["--nvtx", "--nvtx-include", "kernelkb/"]
    if kernels:
        only = ["--kernel-name", f"regex:{'|'.join(kernels)}", "--launch-skip", "1"]
    return (
        *(ncu, "--metrics", ",".join(names)),
        *only,
        *("--launch-count", "1", "--clock-control", "none"),
        *("--csv", "--page", "raw", "--print-units", "base", "--log-file", str(log)),
    )

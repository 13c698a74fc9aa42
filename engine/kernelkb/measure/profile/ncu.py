"""Runs Nsight Compute on a candidate in stages, and tests its counters on known traffic."""

from __future__ import annotations

import hashlib
import math
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from kernelkb.measure.machine.cached_facts import read_cache, write_cache
from kernelkb.measure.machine.host import find_cuda_tool, query_version
from kernelkb.measure.machine.nvidia_driver import driver_fingerprint
from kernelkb.measure.process.subprocesses import ProcessResult, scratch_folder
from kernelkb.measure.process.worker_jobs import run_job
from kernelkb.measure.subject import MeasurementSubject
from kernelkb.measure.worker.shared.messages.jobs import KnownTrafficJob, RepeatJob
from kernelkb.profiles.launch import ProfiledLaunch, RawName, split_instance
from kernelkb.profiles.ncu_csv import read_raw_page
from kernelkb.profiles.reader_process import has_reader

_PERMISSION_ERROR = "ERR_NVGPUCTRPERM"  # in ncu's output
_REMARK = re.compile(r"==PROF==|==WARNING== Note")
"""What ncu also logs where all is well."""
_SELF_TEST_BYTES = 64 * 2**20
_SELF_TEST_TOLERANCE = 0.15
"""Relative error of the counted bytes that is accepted."""
_SELF_TEST_KERNEL = "kernelkb_copy"
_SELF_TEST_TIMEOUT_S = 60.0
_DRAM_READ_BYTES = RawName("dram_read_bytes", ("dram__bytes_read.sum",), 1.0)
_SELF_TEST_CACHE = "counters"
_REPORT_OPTIONS = ("--section", "SourceCounters", "--import-source", "yes")

FORBIDDEN_CURE = (
    "run as administrator, or load the driver with NVreg_RestrictProfilingToAdminUsers=0"
)

_MAX_STAGES = 3
_REPORT_NUMBER_BYTES = 4

NextCounters = Callable[[Mapping[str, float]], Sequence[RawName]]
"""Takes the metrics known so far; returns the counters to collect next, none to end."""


class NcuReport(NamedTuple):
    """Result of one ncu run."""

    launch: ProfiledLaunch | None
    """The longest launch of the candidate's own kernels; None where there is none."""
    page: str
    """ncu's raw page, as CSV."""
    reason: str | None = None
    cure: str | None = None


def collect_counters(
    job: RepeatJob,
    kernels: Sequence[str],
    raw_names: Sequence[RawName],
    *,
    timeout_s: float,
    report_file: Path | None = None,
) -> NcuReport:
    """Collect counters of a candidate's own kernels.

    Counters are requested by name: ncu's sections that contain them need twice the passes.

    Args:
        job: Calls the candidate.
        kernels: Names of ``__global__`` functions to profile. Empty: every kernel inside the NVTX
            range, which a job of mode ``repeat`` marks.
        raw_names: Counters to collect.
        timeout_s: For the run.
        report_file: A ``.ncu-rep`` file to write, with what is counted at each instruction and the
            source; None: nothing is counted by instruction.
    """
    ncu = find_cuda_tool("ncu")
    if ncu is None:
        return NcuReport(None, "", "ncu was not found", "install Nsight Compute, or put it on PATH")
    counters = list_counters(raw_names)
    page, process = _run_ncu(ncu, job, kernels, counters, timeout_s, report_file)
    if '"Kernel Name"' not in page:
        if "No kernels were profiled" in page:
            return _report_no_launch(kernels, page)
        reason, cure = explain_failure(page, process)
        return NcuReport(None, page, reason, cure)
    launches = read_raw_page(page, raw_names)
    longest = max(launches, key=lambda launch: launch.metrics.get("profiled_us", 0.0), default=None)
    if longest is None:
        return _report_no_launch(kernels, page)
    return NcuReport(longest, page)


def list_counters(raw_names: Sequence[RawName]) -> list[str]:
    """Return the counters that metrics are read from, each once."""
    names = (split_instance(name)[0] for raw in raw_names for name in raw.names)
    return list(dict.fromkeys(names))


def explain_failure(page: str, process: ProcessResult) -> tuple[str, str]:
    """Return why ncu counted nothing, and the cure.

    Args:
        page: What it logged.
        process: Its end.
    """
    output = page + process.output
    if _PERMISSION_ERROR in output:
        return "the driver forbids reading performance counters", FORBIDDEN_CURE
    lines = [line for line in output.splitlines() if "==" in line and not _REMARK.search(line)]
    errors = [line for line in lines if "==ERROR==" in line] or lines
    reason = errors[-1] if errors else f"ncu ended with {process.returncode} and no report"
    return reason, "run the command by hand to see more, or do without"


def _report_no_launch(kernels: Sequence[str], page: str) -> NcuReport:
    names = ", ".join(kernels) or "anything"
    detail = f"none of its launches is named {names}"
    return NcuReport(None, page, detail, "correct kernels: in kernel.yaml")


def describe_counter_error() -> str | None:
    """Report wrong counters on a copy kernel of known DRAM traffic; None when they are right.

    Cached by driver, GPU and version of ncu, with which counters break. None without ncu.
    """
    ncu = find_cuda_tool("ncu")
    if ncu is None:
        return None
    key = f"{driver_fingerprint()} {query_version(ncu)}"
    share = read_cache(_SELF_TEST_CACHE, key)
    if share is None:
        job: KnownTrafficJob = {"mode": "known-traffic", "bytes": _SELF_TEST_BYTES}
        counters = list(_DRAM_READ_BYTES.names)
        page, _ = _run_ncu(ncu, job, [_SELF_TEST_KERNEL], counters, _SELF_TEST_TIMEOUT_S)
        launches = read_raw_page(page, [_DRAM_READ_BYTES]) if '"Kernel Name"' in page else []
        counted = launches[-1].metrics.get("dram_read_bytes", math.nan) if launches else math.nan
        share = counted / _SELF_TEST_BYTES if math.isfinite(counted) else -1.0
        write_cache(_SELF_TEST_CACHE, key, share)
    if abs(share - 1) <= _SELF_TEST_TOLERANCE:
        return None
    amount = f"{share:.2f} of the bytes" if share >= 0 else "nothing"
    return f"ncu counted {amount} of a kernel that reads {_SELF_TEST_BYTES / 2**20:.0f} MiB"


def _run_ncu(
    ncu: str,
    job: RepeatJob | KnownTrafficJob,
    kernels: Sequence[str],
    counters: Sequence[str],
    timeout_s: float,
    report_file: Path | None = None,
) -> tuple[str, ProcessResult]:
    """Run a worker job under ncu; return the raw page, empty where there is none."""
    with scratch_folder() as folder:
        log = folder / "ncu.csv"
        wrapper = _make_ncu_command(ncu, kernels, counters, log, report_file)
        run = run_job(job, folder, timeout_s=timeout_s, wrapper=wrapper)
        page = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    return page, run.process


def _make_ncu_command(
    ncu: str,
    kernels: Sequence[str],
    counters: Sequence[str],
    log: Path,
    report_file: Path | None = None,
) -> tuple[str, ...]:
    selection = ["--nvtx", "--nvtx-include", "kernelkb/"]
    if kernels:
        selection = ["--kernel-name", f"regex:{'|'.join(kernels)}", "--launch-skip", "1"]
    return format_ncu_command(ncu, [*selection, "--launch-count", "1"], counters, log, report_file)


def format_ncu_command(
    ncu: str,
    selection: Sequence[str],
    counters: Sequence[str],
    log: Path,
    report_file: Path | None = None,
) -> tuple[str, ...]:
    """Return the words that go before a program for ncu to count.

    Args:
        ncu: Its path.
        selection: Its options that choose launches.
        counters: Names.
        log: A file for the raw page.
        report_file: As for ``collect_counters``.
    """
    return (
        *(ncu, "--metrics", ",".join(counters)),
        *selection,
        *("--clock-control", "none"),
        *("--csv", "--page", "raw", "--print-units", "base", "--log-file", str(log)),
        *("--print-metric-instances", "details"),
        *(_REPORT_OPTIONS if report_file else ()),
        *(("--export", str(report_file)) if report_file else ()),
    )


class CountedStages(NamedTuple):
    """What Nsight Compute counted in all stages."""

    metrics: dict[str, float]
    pages: tuple[str, ...]
    report: str | None
    """A file with what was counted by instruction."""
    detail: str | None = None
    """Why the last stage counted nothing."""
    cure: str | None = None


def count_in_stages(
    subject: MeasurementSubject,
    job: RepeatJob,
    known: Mapping[str, float],
    next_counters: NextCounters,
    report_folder: Path,
    timeout_s: float,
) -> CountedStages:
    """Run ncu as long as ``next_counters`` asks for more; the first time also by instruction."""
    kernels, requested = subject.variant.kernels, set[str]()
    counted = CountedStages({}, (), None)
    for stage in range(_MAX_STAGES):
        wanted = next_counters({**known, **counted.metrics})
        counters = [counter for counter in wanted if counter.metric not in requested]
        if not counters:
            break
        requested |= {counter.metric for counter in counters}
        file = None if stage else _name_report(report_folder, subject)
        found = collect_counters(job, kernels, counters, timeout_s=timeout_s, report_file=file)
        if file and file.exists():
            counted = counted._replace(report=str(file))
        if found.launch is None:
            return counted._replace(detail=found.reason, cure=found.cure or "")
        page = _save_page(report_folder, subject, stage, found.page)
        counted = counted._replace(
            metrics=counted.metrics | found.launch.metrics, pages=(*counted.pages, page)
        )
    return counted


def _name_report(report_folder: Path, subject: MeasurementSubject) -> Path | None:
    """Return a new file for what is counted by instruction; None where nothing could read it."""
    if not has_reader():
        return None
    report_folder.mkdir(parents=True, exist_ok=True)
    names = subject.identity_fields
    number = secrets.token_hex(_REPORT_NUMBER_BYTES)
    return report_folder / f"{names['kernel']}-{names['variant']}-{number}.ncu-rep"


def _save_page(report_folder: Path, subject: MeasurementSubject, stage: int, page: str) -> str:
    """Write a raw page, which ``kb recommend --profile`` can read; return its path."""
    report_folder.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256(page.encode()).hexdigest()[:8]
    names = subject.identity_fields
    path = report_folder / f"{names['kernel']}-{names['variant']}-{digest}-{stage}.csv"
    path.write_text(page, encoding="utf-8")
    return str(path)

"""Runs Nsight Compute in stages, each of which decides what the next one counts."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from kernelkb.measure.profile.ncu import collect_counters
from kernelkb.measure.subject import MeasurementSubject
from kernelkb.measure.worker.shared.messages.other_jobs import RepeatJob
from kernelkb.profiles.launch import RawName
from kernelkb.profiles.reader_process import has_reader

_MAX_STAGES = 3
_REPORT_NUMBER_BYTES = 4

NextCounters = Callable[[Mapping[str, float]], Sequence[RawName]]
"""Takes the metrics known so far; returns the counters to collect next, none to end."""


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

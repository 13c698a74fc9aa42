"""Profiles the zoo's pairs into binary reports, and reads the recorded metrics from them."""

from __future__ import annotations

import lzma
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from benchmarks.zoo.measured_cases import write_measured_cases
from benchmarks.zoo.pairs import BuiltPair, ShowProgress
from benchmarks.zoo.recordings import (
    PairRecording,
    VariantRecording,
    read_recordings,
    write_recordings,
)

from kernelkb.actions.advice.code_location import measure_counted_code
from kernelkb.actions.project.rules_cache import load_compiled_rules
from kernelkb.errors import BadValueError
from kernelkb.measure.machine.host import find_cuda_tool
from kernelkb.measure.machine.nvidia_driver import query_driver
from kernelkb.measure.process.subprocesses import scratch_folder
from kernelkb.measure.process.worker_jobs import run_job
from kernelkb.measure.profile.profile import make_repeat_job, static_metrics
from kernelkb.measure.worker.shared.messages.jobs import RepeatJob, RepeatSeveralJob
from kernelkb.model.kernels.kernel import evaluate_axis_expression
from kernelkb.profiles.launch import ProfiledLaunch, list_raw_names
from kernelkb.profiles.report import load_source_counters, read_report

_REPORT_TIMEOUT_S = 300.0
_HEADER_PATH = re.compile(rb"/[\w./+-]*/include/[\w./+-]+\x12")
"""The path of a toolkit's header in a report, up to the tag of the field with its text."""


def extract_metrics(measured: Path, reports: Path) -> list[PairRecording]:
    """Read the metrics of every recording from its report again, and write them.

    Raises:
        BadValueError: A folder has no recordings.
    """
    if not (files := sorted(measured.glob("*.jsonl"))):
        raise BadValueError(
            f"no recordings in {measured}; python -m benchmarks.zoo record writes them"
        )
    renewed: list[PairRecording] = []
    for file in files:
        recordings = read_recordings(file)
        by_report: dict[Path, list[PairRecording]] = defaultdict(list)
        for row in recordings:
            if row.report:
                by_report[reports / file.stem / row.report].append(row)
        with ProcessPoolExecutor() as pool:
            found = pool.map(_extract_compressed, by_report.keys(), by_report.values())
        rows = [row for group in found for row in group]
        write_recordings(file, rows)
        renewed += rows
    write_measured_cases(measured)
    return renewed


def profile_pairs(
    members: Sequence[tuple[BuiltPair, PairRecording | None]],
    reports: Path,
    name: str,
    show_progress: ShowProgress,
) -> list[PairRecording]:
    """Profile both variants of pairs in one run of ncu, and return the pairs with their metrics.

    Args:
        members: Compiled pairs with their recordings; one that was not timed gets the profiler's
            times.
        reports: Folder that gets the report, compressed.
        name: The report's name, without its suffixes.
        show_progress: Called with what went wrong.

    Returns:
        One recording for each pair; none where ncu failed.
    """
    targets = [(one, t) for one, _ in members for t in (one.before, one.after)]
    jobs = [
        make_repeat_job(t.subject, one.builds[t.subject.variant.id], one.workload, 1)
        for one, t in targets
    ]
    kernels = [kernel for _, t in targets for kernel in t.subject.variant.kernels]
    report = reports / f"{name}.ncu-rep"
    problem = record_full_report(jobs, kernels, report, timeout_s=_REPORT_TIMEOUT_S)
    launches = [] if problem else _read_launches(report)
    runs = split_launches([t.subject.variant.kernels for _, t in targets], launches)
    if problem is None and runs is None:
        problem = f"{len(launches)} launches of {len(kernels)} kernels"
        report.unlink()
    if problem is not None or runs is None:
        show_progress(f"{report.stem}: {problem}")
        return []
    codes = _measure_codes(report, (one.longest for one in runs))
    packed = report.with_name(report.name + ".xz")
    packed.write_bytes(lzma.compress(report.read_bytes()))
    report.unlink()
    rows = []
    for (pair, row), before, after in zip(members, runs[::2], runs[1::2], strict=True):
        own = row or make_untimed(pair, before.total_us, after.total_us)
        places = {"launch": before.longest, "after_launch": after.longest}
        rows.append(own.model_copy(update={"report": packed.name, **places}))
    return [_add_metrics(row, launches, codes) for row in rows]


class VariantRun(NamedTuple):
    """The launches of one variant in a report."""

    longest: int
    """Index of the longest."""
    total_us: float
    """Of all of them, as the profiler timed them."""


def split_launches(
    kernels: Sequence[Sequence[str]], launches: Sequence[ProfiledLaunch]
) -> list[VariantRun] | None:
    """Return which launches are those of each variant.

    Args:
        kernels: The kernels of each variant, in the order in which the variants ran; each is
            launched once.
        launches: Of all variants, in order.

    Returns:
        None where the launches are not those of the kernels.
    """
    if len(launches) != sum(len(names) for names in kernels):
        return None
    runs: list[VariantRun] = []
    start = 0
    for names in kernels:
        mine = range(start, start + len(names))
        start = mine.stop
        ran = [launches[index].kernel for index in mine]
        if not all(any(re.search(rf"\b{name}\b", one) for one in ran) for name in names):
            return None
        times = {index: launches[index].metrics["profiled_us"] for index in mine}
        runs.append(VariantRun(max(mine, key=lambda index: times[index]), sum(times.values())))
    return runs


def make_untimed(pair: BuiltPair, before_us: float, after_us: float) -> PairRecording:
    """Return the recording of a pair with the times of a profiler.

    Args:
        pair: Compiled.
        before_us: Time of the variant before the change.
        after_us: Of that after it.
    """
    sizes, cost = pair.kernel.workloads[pair.workload], pair.kernel.cost
    work = {"bytes": cost.bytes, "flop_count": cost.flops} if cost else {}
    common = {f"algorithmic_{n}": evaluate_axis_expression(e, sizes) for n, e in work.items()}
    driver = query_driver()
    sides = {}
    for target, us in ((pair.before, before_us), (pair.after, after_us)):
        variant = target.subject.variant.id
        metrics = {"kernel_us": us, **common, **static_metrics(pair.builds[variant])}
        sides[variant] = VariantRecording(variant=variant, kernel_us=us, metrics=metrics)
    return PairRecording(
        kernel=pair.kernel.id,
        device=str(pair.before.subject.machine.device),
        driver=driver.version if driver else "",
        workload=pair.workload,
        speedup=before_us / after_us,
        timed_by="profiler",
        before=sides[pair.pair.before],
        after=sides[pair.pair.after],
    )


def _add_metrics(
    row: PairRecording,
    launches: Sequence[ProfiledLaunch],
    codes: Mapping[int, Mapping[str, float]],
) -> PairRecording:
    """Return a recording with the metrics of its two launches in its report, and of their code."""
    sides = {"before": row.before, "after": row.after}
    for index, (name, side) in zip(_list_launches(row), sides.items(), strict=True):
        launch = launches[index]
        metrics = {**_keep_own_metrics({**side.metrics, **codes[index]}), **launch.metrics}
        update = {"metrics": metrics, "ncu_rules": _list_rule_estimates(launch)}
        sides[name] = side.model_copy(update=update)
    return row.model_copy(update=sides)


def _list_launches(row: PairRecording) -> tuple[int, int]:
    return row.launch, row.launch + 1 if row.after_launch is None else row.after_launch


def _measure_codes(report: Path, launches: Iterable[int]) -> dict[int, dict[str, float]]:
    """Return the metrics of the machine code of some launches."""
    return {n: measure_counted_code(load_source_counters(report, n)) for n in launches}


def _keep_own_metrics(metrics: Mapping[str, float]) -> dict[str, float]:
    """Return the metrics that no report holds; names that the knowledge lacks are left out."""
    rules = load_compiled_rules()
    counted = {raw.metric for raw in list_raw_names(rules)}
    return {n: v for n, v in metrics.items() if n in rules["metrics"] and n not in counted}


def _list_rule_estimates(launch: ProfiledLaunch) -> dict[str, float]:
    """Return the largest share of the kernel's time that each rule says a fix would remove."""
    estimates: dict[str, float] = {}
    for rule in launch.rules:
        if rule.scope == "kernel" and rule.removes:
            estimates[rule.rule] = max(rule.removes, estimates.get(rule.rule, 0.0))
    return estimates


def _read_launches(report: Path) -> list[ProfiledLaunch]:
    return read_report(report, list_raw_names(load_compiled_rules()), find_cuda_tool("ncu"))


def _extract_compressed(packed: Path, rows: Sequence[PairRecording]) -> list[PairRecording]:
    """Return the recordings of one report with its metrics."""
    with TemporaryDirectory() as folder:
        report = Path(folder) / packed.stem
        report.write_bytes(lzma.decompress(packed.read_bytes()))
        launches = _read_launches(report)
        codes = _measure_codes(report, (index for row in rows for index in _list_launches(row)))
    return [_add_metrics(row, launches, codes) for row in rows]


def record_full_report(
    jobs: Sequence[RepeatJob], kernels: Sequence[str], report: Path, *, timeout_s: float
) -> str | None:
    """Profile every launch of the named kernels with all counters, source and machine code.

    Starting ncu and the CUDA driver takes seconds, so the jobs share one process.

    Args:
        jobs: Called in this order.
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
    own = [line for line in lines if not line.startswith("==")]  # others are ncu's
    return (own or lines or [f"ncu ended with {run.process.returncode}"])[-1]


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


def _read_varint(data: bytes, start: int) -> tuple[int, int]:
    """Return the position behind a variable-length integer, and the integer."""
    value = shift = 0
    while True:
        byte = data[start]
        value |= (byte & 0x7F) << shift
        start, shift = start + 1, shift + 7
        if byte < 0x80:
            return start, value

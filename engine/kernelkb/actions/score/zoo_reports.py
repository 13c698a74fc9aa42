"""Profiles the zoo's pairs into binary reports, and reads the recorded metrics from them."""

from __future__ import annotations

import lzma
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from kernelkb.actions.project.rules_cache import load_compiled_rules
from kernelkb.actions.score.measured_cases import write_measured_cases
from kernelkb.actions.score.zoo_pairs import BuiltPair, ShowProgress
from kernelkb.errors import BadValueError
from kernelkb.loading.zoo import read_recordings, write_recordings
from kernelkb.measure.machine.tools import find_cuda_tool
from kernelkb.measure.profile.full_reports import record_full_report
from kernelkb.measure.profile.profile import make_repeat_job
from kernelkb.model.kernels.zoo import PairRecording
from kernelkb.profiles.launch import ProfiledLaunch, list_raw_names
from kernelkb.profiles.report import read_report

_REPORT_TIMEOUT_S = 300.0


def extract_metrics(measured: Path, reports: Path) -> list[PairRecording]:
    """Read the metrics of every recording from its report again, and write them.

    Raises:
        BadValueError: A folder has no recordings.
    """
    if not (files := sorted(measured.glob("*.jsonl"))):
        raise BadValueError(f"no recordings in {measured}; kb zoo record writes them")
    renewed: list[PairRecording] = []
    for file in files:
        recordings = read_recordings(file)
        launches = {
            name: _read_compressed(reports / file.stem / name)
            for name in {row.report for row in recordings if row.report}
        }
        rows = [
            _add_metrics(row, launches[row.report]) if row.report else row for row in recordings
        ]
        write_recordings(file, rows)
        renewed += rows
    write_measured_cases(measured)
    return renewed


def profile_pairs(
    members: Sequence[tuple[BuiltPair, PairRecording]],
    reports: Path,
    name: str,
    show_progress: ShowProgress,
) -> list[PairRecording]:
    """Profile both variants of pairs in one run of ncu, and return the pairs with their metrics.

    Args:
        members: Compiled pairs with their times.
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
    if problem is None and len(launches) != len(targets):
        problem = f"{len(launches)} launches of {len(targets)} variants"
        report.unlink()
    if problem is not None:
        show_progress(f"{report.stem}: {problem}")
        return []
    packed = report.with_name(report.name + ".xz")
    packed.write_bytes(lzma.compress(report.read_bytes()))
    report.unlink()
    named = [
        row.model_copy(update={"report": packed.name, "launch": 2 * index})
        for index, (_, row) in enumerate(members)
    ]
    return [_add_metrics(row, launches) for row in named]


def _add_metrics(row: PairRecording, launches: Sequence[ProfiledLaunch]) -> PairRecording:
    """Return a recording with the metrics of its two launches in its report."""
    sides = {"before": row.before, "after": row.after}
    for offset, (name, side) in enumerate(sides.items()):
        launch = launches[row.launch + offset]
        metrics = {**_keep_own_metrics(side.metrics), **launch.metrics}
        update = {"metrics": metrics, "ncu_rules": _list_rule_estimates(launch)}
        sides[name] = side.model_copy(update=update)
    return row.model_copy(update=sides)


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


def _read_compressed(packed: Path) -> list[ProfiledLaunch]:
    with TemporaryDirectory() as folder:
        report = Path(folder) / packed.stem
        report.write_bytes(lzma.decompress(packed.read_bytes()))
        return _read_launches(report)

"""The difference of two attempts: sources, times, machine code, counters and lines."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from pathlib import Path

from kernelkb.actions.comparison.compare_reports import compare_reports
from kernelkb.actions.history.outcomes import read_changed_sources
from kernelkb.actions.project.bench_target import get_project_path
from kernelkb.actions.project.profile_reports import ReportChoice, find_report
from kernelkb.errors import KbError
from kernelkb.model.answers.report_comparison import ReportComparison
from kernelkb.model.records.history import Attempt, PairwiseComparison
from kernelkb.record.attempt_store import AttemptStore, open_attempts
from kernelkb.record.attempt_tree import AttemptDifference, AttemptNode, build_tree
from kernelkb.record.measurements.compare import compute_comparison
from kernelkb.record.measurements.store import open_store


def compare_attempts(a: str, b: str) -> AttemptDifference:
    """Return the source, time, code and metrics of two attempts side by side.

    Args:
        a: Id of the one before, or its beginning.
        b: Id of the one after.

    Raises:
        UnknownNameError: There is no such attempt.
        BadValueError: Several ids begin like this.
        DatabaseError: The database cannot be read.
    """
    project = get_project_path()
    with open_attempts(project, writes=False) as store:
        one, other = store.find(a), store.find(b)
        tree = build_tree([one, other], store.list_events([one.id, other.id]))
        source = list(_iter_diff(store, one, other))
    before, after = tree.nodes[one.id], tree.nodes[other.id]
    codes = [_find_last(node, "code") for node in (before, after)]
    counts = [_find_last(node, "counts") or {} for node in (before, after)]
    profiles = _find_profiles(before, after)
    return AttemptDifference(
        before,
        after,
        source,
        None if one.flags == other.flags else (one.flags, other.flags),
        _compare_benches(project, before, after),
        None if None in codes else codes[0] == codes[1],
        _pair_changed(counts[0], counts[1], 0.0),
        _compare_profiles(project, profiles),
        _compare_lines(project, profiles),
    )


def _iter_diff(store: AttemptStore, before: Attempt, after: Attempt) -> Iterator[str]:
    for name, (old, new) in read_changed_sources(store, before, after).items():
        yield from difflib.unified_diff(
            old.splitlines(), new.splitlines(), f"a/{name}", f"b/{name}", lineterm=""
        )


def _find_last(node: AttemptNode, field: str) -> object:
    return next((v for event in reversed(node.events) if (v := getattr(event, field))), None)


def _compare_benches(
    project: Path, before: AttemptNode, after: AttemptNode
) -> PairwiseComparison | None:
    benches = [
        (old, new)
        for new in reversed(after.events)
        if new.kind == "bench" and new.measurement
        for old in reversed(before.events)
        if old.kind == "bench"
        and old.measurement
        and (old.workload, old.device) == (new.workload, new.device)
    ]
    if not benches:
        return None
    with open_store(project, writes=False) as store:
        ids = [str(event.measurement) for event in benches[0]]
        return compute_comparison(*store.get_many(ids))


def _find_profiles(before: AttemptNode, after: AttemptNode) -> tuple[str, str] | None:
    """Return the records of the newest profiles of both; None where one has none."""
    found = []
    for node in (before, after):
        ids = [one.measurement for one in node.events if one.kind == "profile" and one.measurement]
        found.append(str(ids[-1]) if ids else None)
    return (found[0], found[1]) if found[0] and found[1] else None


def _compare_profiles(
    project: Path, profiles: tuple[str, str] | None
) -> dict[str, tuple[float, float]]:
    if profiles is None:
        return {}
    with open_store(project, writes=False) as store:
        old, new = store.get_many(profiles)
    return _pair_changed(old.metrics, new.metrics, 0.1)


def _compare_lines(project: Path, profiles: tuple[str, str] | None) -> ReportComparison | None:
    """Return what changed by resource, stall and line, where both profiles counted them."""
    reports = [find_report(project, one) for one in profiles or ()]
    if len(reports) < 2 or reports[0] is None or reports[1] is None:
        return None
    try:
        return compare_reports(ReportChoice(reports[0], 0), ReportChoice(reports[1], 0))
    except KbError:  # without the reader of reports
        return None


def _pair_changed(before: object, after: object, least: float) -> dict[str, tuple[float, float]]:
    """Return the numbers of both that differ by more than a share of the larger one."""
    if not isinstance(before, dict) or not isinstance(after, dict):
        return {}
    if not before or not after:
        return {}
    pairs = {
        name: (float(before.get(name, 0.0)), float(after.get(name, 0.0)))
        for name in sorted(before.keys() | after.keys())
    }
    return {
        name: (old, new)
        for name, (old, new) in pairs.items()
        if abs(new - old) > least * max(abs(old), abs(new))
    }

"""Recommends for the kernel of a recorded bench or profile."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kernelkb.actions.advice.apply_history import keep_first_fix, read_history
from kernelkb.actions.advice.code_location import (
    find_answered_variant,
    measure_counted_code,
    read_first_counters,
)
from kernelkb.actions.advice.recommend import complete_answer, parse_given_metrics
from kernelkb.actions.project.bench_target import get_project_path, measure_language_by_name
from kernelkb.actions.project.profile_reports import find_data, find_report
from kernelkb.actions.project.rules_cache import load_compiled_rules
from kernelkb.decide.parse_metric import find_device, resolve_device
from kernelkb.decide.recommend import build_recommendation, recommend
from kernelkb.errors import BadValueError, NextStep
from kernelkb.measure.machine.cached_facts import read_peak_metrics
from kernelkb.model.answers.recommendation import KernelAnswer, Recommendation
from kernelkb.model.records.history import Measurement
from kernelkb.model.records.measurement import is_failure, is_undecided
from kernelkb.record.measurements.compare import find_noise_reason, mark_noisy
from kernelkb.record.measurements.store import open_read_only
from kernelkb.sass.counters import SourceCounters

_DECIDABLE_KINDS = ("bench", "profile")
_BENCHED = ("build", "bench")
"""Commands whose result is known after a bench."""
_ID_DIGITS = 12


def recommend_from_run(
    run: str,
    *,
    metrics: Mapping[str, str | float] | None = None,
    headlines: Mapping[str, str | float] | None = None,
    gpu: str | None = None,
    kernel: str = "",
) -> Recommendation:
    """Return the recommendation for the kernel of a recorded bench or profile.

    Args:
        run: Id of the record, or the beginning of it.
        metrics: Further values by metric id; they override those of the record.
        headlines: Further values by headline flag.
        gpu: Any name of the GPU; by default the one of the record.
        kernel: Name for the answer; by default the record's.

    Raises:
        UnknownNameError: No such record, metric or GPU.
        BadValueError: The id is ambiguous, or the record holds no valid metrics.
        DatabaseError: The database cannot be read.
    """
    project = get_project_path()
    measurement = _load_decidable(project, run)
    subject, program = measurement.subject, load_compiled_rules()
    named = resolve_device(program, gpu) if gpu else None
    device = named or find_device(program["device_names"], subject.device)
    given = parse_given_metrics(program, metrics or {}, headlines or {}, subject.target)
    known, notes = _select_known_metrics(measurement, program["metrics"])
    language = measure_language_by_name(subject.kernel, subject.target, subject.variant)
    counters = read_first_counters(find_report(project, measurement.id))
    values = {**language, **known, **measure_counted_code(counters), **given}
    name, target, peaks = kernel or subject.kernel, subject.target, read_peak_metrics(device)
    answer = recommend(program, values, target=target, device=device, kernel=name, peaks=peaks)
    noted: KernelAnswer = {**answer, "notes": [*notes, *answer["notes"]]}
    return build_recommendation(program, [_complete(project, noted, measurement, counters)])


def _complete(
    project: Path,
    answer: KernelAnswer,
    measurement: Measurement,
    counters: SourceCounters | str | None,
) -> KernelAnswer:
    """Return an answer in the order of what was tried, with lines and with steps to follow."""
    subject, history = measurement.subject, None
    if answer["kernel"] == subject.kernel:
        history = read_history(project, subject.kernel, measurement=measurement.id)
    complete = complete_answer(
        answer,
        counters=counters,
        history=history,
        subject=find_answered_variant(
            subject.kernel, subject.target, subject.variant, subject.workload
        ),
        measured=("build", "bench", "profile") if measurement.kind == "profile" else _BENCHED,
        data=find_data(project, measurement.id),
    )
    return keep_first_fix(project, complete, history)


def _load_decidable(project: Path, run: str) -> Measurement:
    with open_read_only(project) as store:
        measurement = store.get(run)
    _require_decidable(measurement)
    return measurement


def _require_decidable(measurement: Measurement) -> None:
    subject = measurement.subject
    which = {"kernel": subject.kernel, "variant": subject.variant}
    measure_again = NextStep("bench", which, "measures it again")
    name = measurement.id[:_ID_DIGITS]
    if measurement.kind not in _DECIDABLE_KINDS:
        problem = f"record {name} is of a {measurement.kind}, not a bench or profile"
        raise BadValueError(problem, NextStep("bench", which, "records a bench"))
    if is_failure(measurement.verdict):
        why = f": {measurement.detail}" if measurement.detail else ""
        raise BadValueError(f"bench {name} is {measurement.verdict}{why}; fix it", measure_again)
    if not measurement.metrics:
        raise BadValueError(f"{measurement.kind} {name} holds no metrics", measure_again)


def _select_known_metrics(
    measurement: Measurement, known: Mapping[str, object]
) -> tuple[dict[str, float], list[str]]:
    """Return the metrics that the knowledge has, and notes on where they are from."""
    subject = measurement.subject
    where = f"{subject.kernel} {subject.variant}, {subject.workload}, on {subject.device}"
    run = f"{measurement.kind} {measurement.id[:_ID_DIGITS]}"
    mark = ", imported" if measurement.imported else ""
    notes = [f"metrics of {run}: {where}, {measurement.at:%Y-%m-%d %H:%M}{mark}"]
    metrics = {name: value for name, value in measurement.metrics.items() if name in known}
    if unknown := sorted(measurement.metrics.keys() - metrics.keys()):
        notes.append(f"left out, because the knowledge has no such metric: {', '.join(unknown)}")
    noise = find_noise_reason(measurement)
    if noise and is_undecided(measurement.verdict):
        metrics = mark_noisy(metrics)
        notes.append(f"its speedup is left out, because the bench was disturbed: {noise}")
    elif noise:
        notes.append(f"its speedup is rough, because the bench was disturbed: {noise}")
    return metrics, notes

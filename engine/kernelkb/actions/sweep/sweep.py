"""``kb lab sweep``: judges many kernels on all lanes of a cluster, and records what each gave."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from kernelkb.actions.history.record_attempt import keep_state
from kernelkb.actions.history.record_result import CallRecord, record_result
from kernelkb.actions.history.steps import StepRunner
from kernelkb.actions.project.bench_target import BenchTarget
from kernelkb.actions.sweep.sweep_plan import PlannedJob, SweepPlan
from kernelkb.actions.sweep.sweep_worker import JudgedJob, build_ahead, judge, keep_files
from kernelkb.cluster.cluster import Cluster
from kernelkb.cluster.lanes import Lane
from kernelkb.cluster.project_copy import pack_kernel
from kernelkb.cluster.tasks import Task, WorkerDiedError
from kernelkb.errors import KbError
from kernelkb.loading.kernels import load_kernel_folder, select_variant
from kernelkb.measure.subject import MeasurementSubject
from kernelkb.model.records.measurement import (
    Bench,
    Check,
    Sweep,
    SweepLane,
    SweepRow,
    SweepVerdict,
)
from kernelkb.record.sessions import find_open_session_for


class SweepRun:
    """The rows of a sweep until now; it can be concluded at any time."""

    def __init__(self, cluster: Cluster, plan: SweepPlan, project: Path) -> None:
        self._cluster, self._plan, self._project = cluster, plan, project
        self._rows: list[SweepRow] = []
        self._lanes = {lane.worker: _LaneTimes(lane) for lane in cluster.lanes}
        self._started = time.monotonic()

    def judge_all(self) -> Iterator[SweepRow]:
        """Judge every job, and yield its row as soon as it is recorded.

        What is timed on a CPU waits until all builds have ended, which would use the same cores.
        """
        for name, problem in sorted(self._plan.broken.items()):
            yield self._add(_make_broken_row(name, problem))
        later = []
        architectures = self._list_architectures()
        for number, planned in enumerate(self._plan.jobs):
            job = planned.job._replace(session=self._find_session(planned))
            planned = planned._replace(job=job)
            files = self._cluster.submit_build(keep_files, planned.packed)
            ahead: Task | None = None
            if planned.is_compiled:
                wanted = architectures if job.target == "cuda" else ()
                ahead = self._cluster.submit_build(build_ahead, files, job, wanted)
            if job.target == "cpu":
                later.append((planned, files, ahead))
            else:
                self._submit(planned, files, ahead, self._choose_model(number))
        yield from self._finish()
        for planned, files, ahead in later:
            self._submit(planned, files, ahead, None)
        yield from self._finish()

    def conclude(self) -> Sweep:
        """Return what is known now."""
        rows = sorted(self._rows, key=lambda row: (row.kernel, row.variant or ""))
        count = len(self._plan.jobs) + len(self._plan.broken)
        return Sweep(
            rows=tuple(rows),
            left_out=self._plan.left_out,
            not_judged_count=count - len(rows),
            lanes=tuple(times.summarize() for _, times in sorted(self._lanes.items())),
            counts=dict(Counter(row.verdict for row in rows).most_common()),
            seconds=time.monotonic() - self._started,
        )

    def _submit(
        self, planned: PlannedJob, files: Task, ahead: Task | None, model: str | None
    ) -> None:
        needed = [files, planned.job] if ahead is None else [files, planned.job, ahead]
        self._cluster.submit_timed(model, judge, *needed, label=planned)

    def _finish(self) -> Iterator[SweepRow]:
        for task in self._cluster.as_completed():
            if isinstance(task.label, PlannedJob):
                row = self._make_row(task, task.label)
                for done in (task, *task.needs):
                    done.future = None  # Dask would run it again if its worker died
                yield self._add(row)

    def _add(self, row: SweepRow) -> SweepRow:
        self._rows.append(row)
        return row

    def _list_architectures(self) -> tuple[str, ...]:
        found = {lane.compute_capability for lane in self._cluster.lanes}
        return tuple(sorted(found - {""}))

    def _choose_model(self, number: int) -> str | None:
        """Return the model of GPU for a job, by turns; None where every lane has a GPU."""
        lanes = self._cluster.lanes
        models = [lane.model for lane in lanes if lane.compute_capability]
        if len(models) == len(lanes) or not models:
            return None
        return models[number % len(models)]

    def _find_session(self, planned: PlannedJob) -> str | None:
        if planned.source is None:
            return None
        try:
            return find_open_session_for(planned.job.name, self._project)
        except KbError:  # what logs the steps reports it
            return None

    def _make_row(self, task: Task, planned: PlannedJob) -> SweepRow:
        job = planned.job
        fields: dict[str, object] = {
            "kernel": job.name,
            "variant": job.variant,
            "target": job.target,
        }
        if task.error is not None:
            died = isinstance(task.error, WorkerDiedError)
            verdict: SweepVerdict = "invalid" if died else "not-run"
            detail = str(task.error) or type(task.error).__name__
            return SweepRow.model_validate({**fields, "verdict": verdict, "detail": detail})
        judged: JudgedJob = task.result()
        self._count_on_lane(judged)
        device = judged.machine.title if judged.machine else None
        fields |= {"device": device, "lane": judged.lane, "seconds": judged.seconds}
        return SweepRow.model_validate({**fields, **self._record(planned, judged)})

    def _count_on_lane(self, judged: JudgedJob) -> None:
        if judged.lane not in self._lanes:  # it joined meanwhile
            self._lanes |= {
                lane.worker: _LaneTimes(lane)
                for lane in self._cluster.lanes
                if lane.worker not in self._lanes
            }
        if judged.lane in self._lanes:
            self._lanes[judged.lane].add(judged)

    def _record(self, planned: PlannedJob, judged: JudgedJob) -> dict[str, object]:
        """Write what a lane found to the project, as ``kb bench`` does; return it as fields."""
        if judged.problem is not None or judged.machine is None:
            return {"verdict": "not-run", "detail": judged.problem}
        if judged.results is None:
            return _describe_bench(judged.bench) if judged.bench else {"verdict": "not-run"}
        results, bench = judged.results, judged.bench
        target = self._make_target(planned, judged)
        built = results.build
        if self._is_unchanged(planned):
            kept = keep_state(target)
            built = built.model_copy(update={"attempt": kept.attempt, "unrecorded": kept.failure})
        steps = StepRunner()
        steps.records.extend(judged.steps)
        record = CallRecord(
            target,
            "sweep",
            steps,
            built=built,
            measurement=judged.measurement,
            versions=judged.versions,
        )
        if bench is not None:
            return _describe_bench(record_result(record, bench))
        if results.check is not None:
            return _describe_check(record_result(record, results.check))
        record_result(record, built)
        return {"verdict": "invalid", "detail": built.error, "cure": built.cure}

    def _make_target(self, planned: PlannedJob, judged: JudgedJob) -> BenchTarget:
        """Return what was judged, with this project's files and the lane's machine."""
        source = planned.source
        if judged.files is not None:
            source = load_kernel_folder(judged.files.write(self._project / ".kb" / "tasks"))
        if source is None or judged.machine is None:
            raise AssertionError("nothing was judged")
        variant = select_variant(source.kernel, planned.job.target, planned.job.variant)
        return BenchTarget(MeasurementSubject(source, variant, judged.machine), self._project)

    def _is_unchanged(self, planned: PlannedJob) -> bool:
        """Return whether the files are still those that were judged: their state is kept then."""
        if planned.source is None:
            return True
        try:
            return pack_kernel(planned.source, self._project) == planned.packed
        except (KbError, OSError):
            return False


class _LaneTimes:
    """When a lane judged, by the clock of its host."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._count, self._busy_s = 0, 0.0
        self._first, self._last = float("inf"), 0.0

    def add(self, judged: JudgedJob) -> None:
        self._count += 1
        self._busy_s += judged.seconds - judged.waited_s
        self._first = min(self._first, judged.started_at)
        self._last = max(self._last, judged.started_at + judged.seconds)

    def summarize(self) -> SweepLane:
        span_s = self._last - self._first
        share = min(1.0, self._busy_s / span_s) if self._count and span_s > 0 else None
        return SweepLane(
            lane=self._lane.worker,
            model=self._lane.model,
            judged_count=self._count,
            busy_share=share,
        )


def _make_broken_row(name: str, problem: str) -> SweepRow:
    return SweepRow(kernel=name, variant=None, target=None, verdict="not-run", detail=problem)


def _describe_bench(bench: Bench) -> dict[str, object]:
    shown = {"detail": bench.detail, "cure": bench.cure}
    return {"verdict": bench.verdict, "bench": bench, **shown}


def _describe_check(check: Check) -> dict[str, object]:
    verdict = check.failure or "correct"
    detail = None if verdict == "correct" else check.detail or check.status
    return {"verdict": verdict, "detail": detail, "cure": check.cure, "check": check}

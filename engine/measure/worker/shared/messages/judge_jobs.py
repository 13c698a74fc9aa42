"""Jobs of the judge process, check and bench, and their results."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypedDict

from kernelkb.measure.worker.shared.messages.specs import (
    CaseSpec,
    HostGap,
    Reference,
    RunnerFailure,
    RunnerSpec,
    Target,
    Tolerances,
)


class CheckJob(TypedDict):
    """Compare a candidate's outputs with the reference's on every case."""

    mode: Literal["check"]
    target: Target
    reference: Reference
    tolerances: Tolerances
    cases: list[CaseSpec]
    timeout_s: float
    """For the candidate, all cases together; the judge's own time is not counted."""
    runners: dict[str, RunnerSpec]
    """One: ``candidate``."""


class OutputComparison(TypedDict):
    """Outputs against the reference; of several outputs the worst."""

    correct: bool
    max_abs_error: float | None
    """None where it is infinite or NaN."""
    matched_ratio: float
    nan_count: int
    """NaN where the reference has none; outputs that were never written are NaN."""
    reference_error: float
    """Largest error of the reference itself, computed in the kernel's own dtype."""


class CaseResult(OutputComparison):
    """A candidate on one case: the worst of several calls."""

    name: str
    kernel_error: str | None
    tampering: str | None
    """What it wrote besides its outputs, or that it ignored the order of its stream."""
    is_deterministic: bool
    """Two calls on the same inputs returned the same bits."""


class CheckReport(TypedDict):
    """What the judge saw of a candidate."""

    cases: list[CaseResult]
    selftest_accepted: list[str]
    """Outputs that are wrong on purpose and pass the comparison: its limits are too wide."""
    selftest_rejected: list[str]
    runner_died: RunnerFailure | None
    layers: list[str]
    """Sandbox layers that the kernel of this machine applied."""


class JudgeResult(TypedDict, total=False):
    """One key of those that the subclass names, or this one."""

    unsupported_host: HostGap


class CheckJobResult(JudgeResult, total=False):
    """Answer to a CheckJob: exactly one key."""

    report: CheckReport


class BenchJob(TypedDict):
    """Time a candidate against the fastest of its rivals, on one case."""

    mode: Literal["bench"]
    target: Target
    reference: Reference
    tolerances: Tolerances
    cases: list[CaseSpec]
    """One."""
    runners: dict[str, RunnerSpec]
    """``candidate``, and the rivals by their names."""
    returns: bool
    """Whether the candidate returns its outputs."""
    working_set_bytes: int
    """All inputs and outputs of the case."""
    cache_bytes: int
    """The cache to flush before each batch: L2 of a GPU, L3 of a CPU."""
    budget_s: float
    """How long to time pairs of batches."""
    min_pairs: int
    max_pairs: int
    batch_ns: float
    """Length of a batch to aim at."""
    max_slots: int
    arena_bytes: int
    """Upper bound of the memory for all slots."""


class Batch(NamedTuple):
    """One timed batch: calls on distinct buffers, one after another."""

    judge_ns: float
    """All calls, by the judge's clock: includes the harness's round trip."""
    runner_ns: float
    """All calls, by the runner's own clock (CUDA events on a GPU)."""
    calls: int
    start_s: float
    """On the system's monotonic clock."""
    end_s: float
    copy_ns: float = 0.0
    """Copies of returned outputs into the judge's buffers, by the runner's clock; not the kernel's
    work."""
    runqueue_wait_ns: float = 0.0
    """How long threads of the runner and of the judge waited on the run queue for a core."""
    idle_read_ns: float = 0.0
    """The judge's own read of the flush buffer just before, while all runners were stopped."""
    reported_copy_ns: float = 0.0
    """The candidate's own ``copy_ns``, where that holds an estimate from the rival's copies."""


class RivalTimes(TypedDict):
    """Median nanoseconds of one call."""

    eager_ns: float
    graph_ns: float | None
    """In a CUDA graph; None where there is none."""


class PairTimes(TypedDict):
    """Candidate and rival, batch by batch."""

    candidate_batches: list[Batch]
    rival_batches: list[Batch]
    """As many; those of one index were timed one after the other."""
    single_call_batches: list[Batch]
    """The candidate's, of one call each, at times that it cannot foresee."""
    warm_call_ns: float
    """Median nanoseconds of one call of the candidate whose data is in the cache."""
    busy_cores: float | None
    """Mean number of cores that the candidate keeps busy; None on a GPU."""
    checked_count: int
    """Timed calls that were compared with the reference."""
    new_thread_count: int
    """Threads that the candidate started while it was timed, and left."""


class BenchTimes(PairTimes):
    """All times of a bench, without a verdict."""

    rival_name: str
    rivals: dict[str, RivalTimes]
    rejection_reasons: dict[str, str]
    """Why a rival could not be timed, by its name."""
    uses_graph: bool
    """Whether the batches are CUDA graphs."""
    no_graph_reason: str | None
    """Why the candidate's are not, where that was tried."""
    eager_ns: float
    """Median nanoseconds of one call of the candidate, launched one by one."""
    layers: list[str]
    """Sandbox layers around the candidate."""
    copy_ns: float | None
    """Copies of one call's outputs, by the slowest rival; None where nothing is copied."""
    idle_read_ns: float
    """As in ``Batch``, before the candidate was loaded; 0 on a CPU."""


class BenchJobResult(JudgeResult, total=False):
    """Answer to a BenchJob: exactly one key."""

    times: BenchTimes
    runner_died: RunnerFailure
    """The candidate did not last."""
    incorrect_reason: str
    """A timed call of the candidate was incorrect."""
    baseline_error: str
    """The rival did not last: its name and what happened."""


JudgeJob = CheckJob | BenchJob


def restore_batches(times: PairTimes) -> None:
    """Turn the lists of a decoded result back into batches, in place: JSON has no tuples."""
    times["candidate_batches"] = [Batch(*row) for row in times["candidate_batches"]]
    times["rival_batches"] = [Batch(*row) for row in times["rival_batches"]]
    times["single_call_batches"] = [Batch(*row) for row in times["single_call_batches"]]

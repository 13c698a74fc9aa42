"""What the workers of a search do: describe their device, build, time, compare, judge."""

from __future__ import annotations

import atexit
import hashlib
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import NamedTuple

from kernelkb.actions.project.bench_target import (
    BenchTarget,
    prepare_architecture_in,
    prepare_in,
)
from kernelkb.cluster.project_copy import PackedKernel, unpack_kernel
from kernelkb.cluster.tasks import note_progress
from kernelkb.measure.bench.trials import TrialOutcome, TrialProcess
from kernelkb.measure.build.build import build, compute_build_digest
from kernelkb.measure.build.folders import find_machine_code
from kernelkb.measure.machine.environment import lock_device
from kernelkb.measure.machine.nvidia_driver import query_driver
from kernelkb.model.base import Target
from kernelkb.model.records.measurement import Bench, Build, Machine
from kernelkb.profiles.machine_code import digest_code
from kernelkb.safety.files import replace_file
from kernelkb.tune.winner import judge_configuration


class SearchJob(NamedTuple):
    """What a worker has to know about a search, beside the kernel's files."""

    kernel: str
    variant: str
    target: Target
    workload: str


class LaneFacts(NamedTuple):
    """What makes the times of two lanes comparable."""

    machine: Machine
    driver: str
    """Version; empty without a GPU."""
    build_digest: str


class WorkerBuild(NamedTuple):
    """A configuration that a compile worker has built."""

    build: Build
    code: str | None
    """Digest of its machine code."""
    seconds: float
    library: bytes
    """The shared library, for hosts that do not have the file; empty where none was built, and in
    a summary."""


class LaneTrial(NamedTuple):
    """A trial, or a comparison, on a lane."""

    outcome: TrialOutcome
    trial_s: float
    """While the device was held."""


class LaneBatch(NamedTuple):
    """Trials of one task."""

    trials: tuple[LaneTrial, ...]
    span: tuple[float, float]
    """When it began and ended, by the clock of this host, s."""


def keep_kernel(packed: PackedKernel) -> PackedKernel:
    """Return the kernel's files: as the result of a task they travel to each worker once."""
    return packed


def describe_lane(packed: PackedKernel, job: SearchJob) -> LaneFacts:
    """Describe the machine of this worker, and how it compiles the variant.

    Raises:
        EnvironmentGapError: The machine lacks something.
    """
    target = _prepare(packed, job)
    driver = query_driver() if job.target == "cuda" else None
    return LaneFacts(
        target.subject.machine,
        driver.version if driver else "",
        compute_build_digest(target.subject),
    )


def build_configuration(
    packed: PackedKernel, job: SearchJob, cc: str | None, defines: Sequence[str]
) -> WorkerBuild:
    """Build a configuration for the GPUs of a compute capability, or for this CPU.

    Raises:
        EnvironmentGapError: This host has no compiler.
    """
    started = time.monotonic()
    target = _prepare(packed, job) if cc is None else _prepare_compiler(packed, job, cc)
    built = build(target.subject, target.build_root, defines)
    code, library = None, b""
    if built.status != "failed" and built.library is not None:
        library = Path(built.library).read_bytes()
        if built.target == "cuda":
            code = digest_code(find_machine_code(built))
    return WorkerBuild(built, code, time.monotonic() - started, library)


def summarize_build(built: WorkerBuild) -> WorkerBuild:
    """Return a build without its library, which only the lane needs."""
    return built._replace(library=b"")


def time_configurations(
    packed: PackedKernel, job: SearchJob, best_us: float | None, *built: WorkerBuild
) -> LaneBatch:
    """Check configurations on this worker's device and time them, one after the other.

    Each is noted when it begins, by its number: if the worker dies, that one is to blame.

    Raises:
        KbError: The reference fails, or there is no memory.
    """
    began = time.time()
    trials = []
    for number, one in enumerate(built):
        note_progress(str(number))
        trials.append(_run_trial(packed, job, [one], best_us, 1))
    return LaneBatch(tuple(trials), (began, time.time()))


def compare_configurations(
    packed: PackedKernel, job: SearchJob, rounds: int, *built: WorkerBuild
) -> LaneTrial:
    """Time configurations in turns on this worker's device.

    Raises:
        KbError: The reference fails, or there is no memory.
    """
    failed = next((one.build for one in built if one.build.status == "failed"), None)
    if failed is not None:
        return LaneTrial(TrialOutcome("unloadable", failed.error, ()), 0.0)
    return _run_trial(packed, job, built, None, rounds)


def judge_on_lane(packed: PackedKernel, job: SearchJob, configuration: dict[str, int]) -> Bench:
    """Check and time a configuration as ``kb bench`` does; see ``judge_configuration``.

    Raises:
        KbError: The reference or a baseline fails.
    """
    _LANE_PROCESS.stop()  # its memory is the judge's
    return judge_configuration(_prepare(packed, job), job.workload, configuration)


def _run_trial(
    packed: PackedKernel,
    job: SearchJob,
    builds: Sequence[WorkerBuild],
    best_us: float | None,
    rounds: int,
) -> LaneTrial:
    target = _prepare(packed, job)
    here = [_place_library(target, one) for one in builds]
    process = _LANE_PROCESS.get(packed.digest, job, target)
    with lock_device(target.subject.machine):
        locked = time.monotonic()
        outcome = process.run(here, best_us, rounds)
        trial_s = time.monotonic() - locked
    return LaneTrial(outcome, trial_s)


def _place_library(target: BenchTarget, built: WorkerBuild) -> Build:
    """Return the build with a library of this host: the file itself, or a copy."""
    library = built.build.library
    if library is None or _has_content(Path(library), built.library):
        return built.build
    name = hashlib.sha256(built.library).hexdigest()[:32]
    folder = target.build_root / "libraries"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.so"
    if not path.exists():
        replace_file(path, built.library)
    return built.build.model_copy(update={"library": str(path)})


def _has_content(path: Path, content: bytes) -> bool:
    try:
        return path.read_bytes() == content
    except OSError:
        return False


class _LaneProcess:
    """The process of trials of this worker: kept from task to task, of one search at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._key: tuple[str, SearchJob] | None = None
        self._process: TrialProcess | None = None
        self._stack = ExitStack()
        atexit.register(self.stop)

    def get(self, digest: str, job: SearchJob, target: BenchTarget) -> TrialProcess:
        """Return the process for a search, after that of another one has ended."""
        with self._lock:
            if self._process is None or self._key != (digest, job):
                self._stack.close()
                process = TrialProcess(target.subject, job.workload)
                self._process = self._stack.enter_context(process)
                self._key = (digest, job)
            return self._process

    def stop(self) -> None:
        """End the process, if there is one."""
        with self._lock:
            self._stack.close()
            self._process = None


_LANE_PROCESS = _LaneProcess()


def _prepare(packed: PackedKernel, job: SearchJob) -> BenchTarget:
    return _prepare_once(str(unpack_kernel(packed)), job)


@cache
def _prepare_once(project: str, job: SearchJob) -> BenchTarget:
    return prepare_in(Path(project), job.kernel, job.variant, job.target)


def _prepare_compiler(packed: PackedKernel, job: SearchJob, cc: str) -> BenchTarget:
    return _prepare_compiler_once(str(unpack_kernel(packed)), job, cc)


@cache
def _prepare_compiler_once(project: str, job: SearchJob, cc: str) -> BenchTarget:
    return prepare_architecture_in(Path(project), job.kernel, job.variant, cc)

"""Runs one worker job in a supervised child process, and keeps its scratch folder."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar, overload

import kernelkb
from kernelkb.measure.process.subprocesses import ProcessResult, SupervisedProgram, start_supervised
from kernelkb.measure.worker.shared.messages.jobs import (
    BenchJob,
    BenchJobResult,
    CheckJob,
    CheckJobResult,
    ClocksJob,
    ClocksResult,
    DescribeJob,
    DescribeResult,
    KnownTrafficJob,
    KnownTrafficResult,
    PeaksJob,
    PeaksResult,
    ProbeJob,
    ProbeResult,
    RepeatJob,
    RepeatResult,
    RepeatSeveralJob,
    ReplayJob,
    ReplayResult,
    TorchProfileJob,
    TorchProfileResult,
    TrialJob,
    restore_batches,
)
from kernelkb.progress import (
    OperationCancelled,
    record_event,
    report_progress,
    sleep_cancellable,
)
from kernelkb.safety.paths import cache_folder
from kernelkb.safety.storage import require_space
from kernelkb.safety.untrusted_text import parse_json

_LOCK = threading.Lock()
_job_count = 0
_affinities: dict[int, frozenset[int]] = {}

_WORKER_SCRIPT = Path(next(iter(kernelkb.__path__))) / "measure" / "worker" / "start.py"

_Result = TypeVar("_Result")
_Env = Mapping[str, str]

Job = (
    CheckJob
    | BenchJob
    | RepeatJob
    | RepeatSeveralJob
    | TorchProfileJob
    | ClocksJob
    | KnownTrafficJob
    | DescribeJob
    | ProbeJob
    | PeaksJob
    | ReplayJob
    | TrialJob
)

_POLL_S = 0.02


class JobRun(NamedTuple, Generic[_Result]):
    """A finished worker process and its result."""

    result: _Result | None
    """None when the worker did not finish."""
    process: ProcessResult
    last_step: str
    """The case or runner that ran last; empty where none did."""
    known: str = ""
    """What was done until then, as the end of a sentence: ``, after 12 pairs``."""
    done_count: int = 0


def worker_python() -> str:
    """Return the interpreter that has torch: KB_PYTHON, else this one."""
    return os.environ.get("KB_PYTHON") or sys.executable


@overload
def run_job(
    job: CheckJob, folder: Path, *, timeout_s: float, env: _Env | None = None
) -> JobRun[CheckJobResult]: ...
@overload
def run_job(
    job: BenchJob, folder: Path, *, timeout_s: float, env: _Env | None = None
) -> JobRun[BenchJobResult]: ...
@overload
def run_job(
    job: RepeatJob, folder: Path, *, timeout_s: float, wrapper: tuple[str, ...] = ()
) -> JobRun[RepeatResult]: ...
@overload
def run_job(
    job: RepeatSeveralJob, folder: Path, *, timeout_s: float, wrapper: tuple[str, ...] = ()
) -> JobRun[RepeatResult]: ...
@overload
def run_job(
    job: KnownTrafficJob, folder: Path, *, timeout_s: float, wrapper: tuple[str, ...] = ()
) -> JobRun[KnownTrafficResult]: ...
@overload
def run_job(
    job: TorchProfileJob, folder: Path, *, timeout_s: float
) -> JobRun[TorchProfileResult]: ...
@overload
def run_job(job: ClocksJob, folder: Path, *, timeout_s: float) -> JobRun[ClocksResult]: ...
@overload
def run_job(job: DescribeJob, folder: Path, *, timeout_s: float) -> JobRun[DescribeResult]: ...
@overload
def run_job(job: ReplayJob, folder: Path, *, timeout_s: float) -> JobRun[ReplayResult]: ...
@overload
def run_job(job: ProbeJob, folder: Path, *, timeout_s: float) -> JobRun[ProbeResult]: ...
@overload
def run_job(
    job: PeaksJob, folder: Path, *, timeout_s: float, env: _Env | None = None
) -> JobRun[PeaksResult]: ...


def run_job(
    job: Job,
    folder: Path,
    *,
    timeout_s: float,
    wrapper: tuple[str, ...] = (),
    env: _Env | None = None,
) -> JobRun[Any]:
    """Run one job in a worker process.

    Args:
        job: What to do.
        folder: Scratch folder for the job, its result and its files.
        timeout_s: Wall-clock limit.
        wrapper: A program that runs the worker for us, such as ncu, with its arguments.
        env: Environment variables on top of our own.

    Raises:
        OperationCancelled: The event given to ``cancel_on`` was set.
        EnvironmentGapError: The worker failed, and the disk is full.
    """
    with _start(job, folder, wrapper, env, with_input=False) as started:
        return started.finish(timeout_s)


class StartedJob(Generic[_Result]):
    """A worker process that was started."""

    def __init__(self, program: SupervisedProgram, job: Job, folder: Path) -> None:
        self._program, self._job, self._folder = program, job, folder

    def wait_until_ready(self) -> None:
        """Wait until it waits for ``finish``, or has ended.

        Raises:
            OperationCancelled: The event given to ``cancel_on`` was set.
        """
        while not (self._folder / "ready").exists() and not self._program.has_ended():
            sleep_cancellable(_POLL_S)

    def has_ended(self) -> bool:
        """Return whether its process has ended."""
        return self._program.has_ended()

    def finish(self, timeout_s: float) -> JobRun[_Result]:
        """Let it go on, and wait for its end; see ``run_job``.

        Args:
            timeout_s: Wall-clock limit, from now on.
        """
        process = self._program.finish(timeout_s)
        result = _read_result(self._folder / "result.json") if process.returncode == 0 else None
        if result is None:
            require_space(self._folder)
        if self._job["mode"] == "bench" and result and "times" in result:
            restore_batches(result["times"])
        last_step, count = self._read_progress()
        return JobRun(result, process, last_step, self._describe_done(count), count)

    def describe_progress(self) -> str:
        """Return where it stands, for an answer after it was ended; empty before it began."""
        last_step, count = self._read_progress()
        mode = self._job["mode"]
        return f"the {mode} was at {last_step}{self._describe_done(count)}" if last_step else ""

    def _read_progress(self) -> tuple[str, int]:
        """Return the case or runner that ran last, and how many cases or pairs ended before."""
        progress = self._folder / "progress"
        text = progress.read_text(encoding="utf-8") if progress.exists() else ""
        last_step, count, *_ = *text.split("\n"), ""
        return last_step, int(count) if count.isdecimal() else 0

    def _describe_done(self, count: int) -> str:
        return f", after {count} {'pairs' if self._job['mode'] == 'bench' else 'workloads'}" * (
            count > 0
        )


@contextmanager
def report_where_it_ended(started: StartedJob[Any]) -> Iterator[None]:
    """Report as a notice where a job stood, if the block is interrupted or cancelled."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit, OperationCancelled):
        if text := started.describe_progress():
            report_progress(text, "notice")
        raise


@overload
def start_job(
    job: CheckJob, folder: Path, *, env: _Env
) -> AbstractContextManager[StartedJob[CheckJobResult]]: ...
@overload
def start_job(
    job: BenchJob, folder: Path, *, env: _Env
) -> AbstractContextManager[StartedJob[BenchJobResult]]: ...


@overload
def start_job(
    job: TrialJob, folder: Path, *, env: _Env
) -> AbstractContextManager[StartedJob[None]]: ...


def start_job(
    job: CheckJob | BenchJob | TrialJob, folder: Path, *, env: _Env
) -> AbstractContextManager[StartedJob[Any]]:
    """Start a judge, which starts its runners and waits; it is ended after the block.

    A process of trials goes on at once.

    Args:
        job: What to do.
        folder: Scratch folder for the job, its result and its files.
        env: Environment variables on top of our own.
    """
    return _start(job, folder, (), env, with_input=True)


@contextmanager
def _start(
    job: Job, folder: Path, wrapper: tuple[str, ...], env: _Env | None, *, with_input: bool
) -> Iterator[StartedJob[Any]]:
    words, variables, log = write_job(job, folder)
    (folder / "result.json").unlink(missing_ok=True)
    both = {**variables, **(env or {})}
    with (
        keep_own_cores(),
        start_supervised([*wrapper, *words], log=log, env=both, with_input=with_input) as program,
    ):
        record_event("judge", folder=str(folder))
        yield StartedJob(program, job, folder)


def write_job(job: Job, folder: Path) -> tuple[list[str], dict[str, str], Path]:
    """Write a job; return the words that start its worker, its variables, and its log.

    Args:
        job: What to do.
        folder: Scratch folder for the job, its result and its files.
    """
    # A candidate that lists files or processes must not see whether it is checked or timed.
    name = "judge" if job["mode"] in ("check", "bench") else job["mode"]
    job_file = folder / f"{name}.json"
    job_file.write_text(json.dumps(job), encoding="utf-8")
    words = [worker_python(), "-P", str(_WORKER_SCRIPT), str(job_file)]
    # The log is for what the kernel prints, not for warnings of the libraries around it.
    return words, {"PYTHONWARNINGS": "ignore", **_bytecode_env()}, folder / f"{name}.log"


def _bytecode_env() -> dict[str, str]:
    """Return where workers keep compiled modules if the user wants none beside their sources.

    Many containers set PYTHONDONTWRITEBYTECODE and hold no compiled modules. Each worker would then
    compile torch anew: importing it took 6.0 s, and 3.5 s where it was compiled (16 cores, H100).
    """
    if not os.environ.get("PYTHONDONTWRITEBYTECODE") or "PYTHONPYCACHEPREFIX" in os.environ:
        return {}
    folder = Path(cache_folder()) / "bytecode"
    return {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(folder)}


def threads_env(core_count: int) -> dict[str, str]:
    """Return OpenMP variables: as many threads for each process; the judge's idle ones sleep."""
    return {"OMP_NUM_THREADS": str(core_count), "OMP_WAIT_POLICY": "passive"}


def _read_result(path: Path) -> Any:
    try:
        return parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


@contextmanager
def keep_own_cores() -> Iterator[None]:
    """Restore, after the block, the cores of each thread as they were before it.

    Linux lets each process of a user set the cores of all others of that user, and a filter of
    system calls cannot tell a candidate's own threads, which OpenMP binds, from later ones of ours.
    Where blocks overlap in time, those before the first of them count. A thread that was started
    meanwhile gets the cores that the process's first thread had.
    """
    global _job_count
    with _LOCK:
        if _job_count == 0:
            _affinities.clear()
            _affinities.update(_read_affinities())
        _job_count += 1
    try:
        yield
    finally:
        with _LOCK:
            _job_count -= 1
            _restore()


def _restore() -> None:
    common = _affinities.get(os.getpid())
    for thread, cores in _read_affinities().items():
        wanted = _affinities.get(thread, common)
        if wanted is not None and wanted != cores:
            with suppress(OSError):  # it has ended, or cores were taken away from this process
                os.sched_setaffinity(thread, wanted)


def _read_affinities() -> dict[int, frozenset[int]]:
    """Return the cores that each of our threads may use, by thread id."""
    affinities = {}
    for entry in Path("/proc/self/task").glob("[0-9]*"):
        with suppress(OSError):
            thread = int(entry.name)
            affinities[thread] = frozenset(os.sched_getaffinity(thread))
    return affinities

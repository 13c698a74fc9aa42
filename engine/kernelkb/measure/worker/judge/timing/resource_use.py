"""Memory, energy and own time of candidate and rival, after the pairs are timed.

Two numbers of each runner, in bytes, none of which the runner reports itself:

- *scratch*: the peak of one call beyond what the process used before it, less the outputs where the
  code allocates and returns them (a destination that is passed in costs the same memory). Before
  each call the allocators of the process return what they only cache. On a CPU the kernel's
  high-water mark of resident memory, which the judge resets (``/proc/PID/clear_refs``): touched
  pages of the process's own and shared mappings, without those of processes that it starts. On a
  GPU the device memory in use by the driver's count, which the judge samples during the call and
  reads after it, before torch returns its cache: it is as coarse as the allocators, 2 to 20 MiB.
  The median of three calls; one call where they are slow.
- *held*: what the runner keeps between calls, such as weights, workspaces and compiled code. On a
  CPU anonymous and shared memory beyond that before its code was loaded, without the arena of the
  judge. On a GPU all device memory that the end of the process frees, its context included.

The outputs of the candidate's calls are compared with the reference like those of timed ones. A
process that forbids its parent to reset the mark has no scratch memory that is known. On Linux
without Landlock a process may reset its own mark; no verdict depends on these numbers.
"""

from __future__ import annotations

import math
import statistics
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import torch

from kernelkb.measure.worker.judge import procfs
from kernelkb.measure.worker.judge.case_buffers import CaseBuffers, compare_call
from kernelkb.measure.worker.judge.runner_process import RunnerProcess
from kernelkb.measure.worker.judge.timing.pair_timing import IncorrectCallError
from kernelkb.measure.worker.judge.timing.runner_timer import CALL_TIMEOUT_S, RunnerTimer
from kernelkb.measure.worker.shared.failures import (
    RunnerDied,
    RunnerError,
    UnsupportedHost,
    classify_error,
)
from kernelkb.measure.worker.shared.memory import array_bytes, clearing_s, release_torch_cache
from kernelkb.measure.worker.shared.messages.jobs import (
    BenchJob,
    EnergyStretch,
    MemoryReadings,
    ResourceReadings,
)
from kernelkb.measure.worker.shared.messages.runner_commands import Answer, RunBatchCommand
from kernelkb.measure.worker.shared.messages.specs import Target

_CALL_COUNT = 3
_SLOW_CALL_S = 1.0
"""Above this, one call is measured."""
_POLL_S = 1e-4
_KINDS = ("RssAnon", "RssShmem")
_MIN_FREE_SHARE = 0.5
"""Of a GPU's memory; below, runners return what they cache. Intermediate results of a task can be
30 times its inputs and outputs, and each runner caches its own."""
_STRETCH_S = 0.8
"""Contains at least 7 changes of the counter."""
_PILOT_S = 0.05
_MAX_BATCH_S = 2.0
SLOT_COUNT = 1
"""Slots of the buffers that calls for memory need."""


class MemoryMeter:
    """Measures the runners of one bench."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._loaded_bytes: dict[str, int] = {}

    def note_ready(self, runner: RunnerProcess) -> None:
        """Remember what a runner uses before its code is loaded."""
        release(runner)
        self._loaded_bytes[runner.name] = procfs.resident_bytes(runner.pid, *_KINDS)

    def measure(
        self,
        candidate: RunnerProcess,
        rival: RunnerProcess,
        buffers: CaseBuffers,
        report_progress: Callable[[str], None],
    ) -> tuple[MemoryReadings, MemoryReadings]:
        """Measure candidate and rival in the same way; closes the buffers, and on a GPU both.

        Args:
            candidate: Its outputs are compared with the reference.
            rival: Its outputs are not.
            buffers: Fresh ones, attached to neither.
            report_progress: Called with the name of the runner that runs next.

        Raises:
            IncorrectCallError: An output of the candidate is incorrect.
            RunnerDied: A runner ended.
            RunnerError: A runner reported an error.
        """
        uses: list[MemoryReadings] = []
        for runner in (candidate, rival):
            report_progress(runner.name)
            buffers.attach_runner(runner, timeout_s=CALL_TIMEOUT_S)
            scratch = self._measure_scratch(runner, buffers, judged=runner is candidate)
            held = self._host_held_bytes(runner, buffers) if self._target == "cpu" else None
            uses.append({"scratch_bytes": scratch, "held_bytes": held})
        buffers.close()
        if self._target == "cuda":
            for runner, use in zip((candidate, rival), uses, strict=True):
                use["held_bytes"] = _close_and_count(runner)
        return uses[0], uses[1]

    def _measure_scratch(
        self, runner: RunnerProcess, buffers: CaseBuffers, *, judged: bool
    ) -> int | None:
        start = time.monotonic()
        answer = _call(runner)  # with what only the first call allocates
        count = 1 if time.monotonic() - start > _SLOW_CALL_S else _CALL_COUNT
        specs = buffers.case.output_specs if answer.get("returned") is True else []
        returned_bytes = sum(map(array_bytes, specs))
        measure = _host_growth if self._target == "cpu" else _device_growth
        growths = []
        for _ in range(count):
            buffers.reset_outputs(0)
            growth = measure(runner)
            if judged:
                _require_correct(buffers)
            if growth is None:
                return None
            growths.append(growth)
        return max(0, int(statistics.median(growths)) - returned_bytes)

    def _host_held_bytes(self, runner: RunnerProcess, buffers: CaseBuffers) -> int:
        release(runner)
        now = procfs.resident_bytes(runner.pid, *_KINDS) - buffers.arena.size
        return max(0, now - self._loaded_bytes[runner.name])


def _require_correct(buffers: CaseBuffers) -> None:
    comparison = compare_call(buffers, 0, buffers.copy_outputs(0))
    if not comparison["correct"]:
        wrong = 1 - comparison["matched_ratio"]
        raise IncorrectCallError(
            f"a call after the timed ones was wrong in {wrong:.1%} of its elements"
        )


def _call(runner: RunnerProcess) -> Answer:
    answer = runner.ask({"command": "call", "slot": 0, "fills_memory": False}, CALL_TIMEOUT_S)
    runner.pause()
    return answer


def release(runner: RunnerProcess) -> None:
    """Have a runner return the memory that its allocators only cache, and stop it.

    On a GPU, wait until that has been cleared: the next call would take longer.
    """
    free_bytes = _free_device_bytes()
    runner.close_opened_memory()
    runner.ask({"command": "release"}, CALL_TIMEOUT_S)
    runner.pause()
    time.sleep(clearing_s(max(0, _free_device_bytes() - free_bytes)))


def _free_device_bytes() -> int:
    """Return a GPU's free memory; 0 where none is used."""
    return int(torch.cuda.mem_get_info()[0]) if torch.cuda.is_initialized() else 0


def is_device_memory_short(target: Target) -> bool:
    """Return whether less than half of a GPU's memory is free; false on a CPU."""
    if target != "cuda":
        return False
    free_bytes, total_bytes = torch.cuda.mem_get_info()
    return bool(free_bytes < _MIN_FREE_SHARE * total_bytes)


def blame_for_memory(error: Exception, candidate: RunnerProcess) -> None:
    """End the candidate, and raise RunnerDied if it was what left others too little GPU memory.

    It was if that frees over half of all memory, without what its allocators only cached, or if it
    ran out itself with over half left by others. Otherwise the task is too large, or the machine
    has other work.

    Args:
        error: Anything; most have to do with other things.
        candidate: Alone on the GPU with the judge, as far as this bench or check goes.
    """
    is_own = isinstance(error, RunnerDied) and error.runner_name == candidate.name
    if not isinstance(error, UnsupportedHost) and (
        classify_error(str(error)) != "out-of-gpu-memory"
        or (is_own and is_device_memory_short("cuda"))
    ):
        return
    total = torch.cuda.mem_get_info()[1]
    held = 0 if is_own else _close_and_count(candidate) or 0
    if is_own:
        reason = f"it ran out of the GPU's memory, of which others left it over half: {error}"
    elif held > _MIN_FREE_SHARE * total:
        reason = (
            f"between calls it keeps {held / 2**30:.1f} of the GPU's {total / 2**30:.1f} GiB of "
            "memory, which it has to share with its baseline and the judge"
        )
    else:
        return
    raise RunnerDied("limit-exceeded", reason, candidate.name) from error


def _host_growth(runner: RunnerProcess) -> int | None:
    """Return how far one call raises a runner's resident memory; None if that is forbidden."""
    release(runner)
    if not procfs.reset_peak_resident(runner.pid):
        return None
    before = procfs.resident_bytes(runner.pid, "VmRSS")
    _call(runner)
    return max(0, procfs.resident_bytes(runner.pid, "VmHWM") - before)


def _device_growth(runner: RunnerProcess) -> int:
    """Return how far one call raises the device memory in use, by the driver's count."""
    release(runner)
    release_torch_cache()
    before = _used_device_bytes()
    with _DevicePeak() as peak:
        command: RunBatchCommand = {"command": "run-batch", "slots": [0], "copies": True}
        runner.ask(command, CALL_TIMEOUT_S)
        runner.pause()
    return max(0, peak.highest_bytes - before)


class _DevicePeak:
    """Samples the device memory in use in a thread; the last sample is taken after the block."""

    def __init__(self) -> None:
        self.highest_bytes = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample_until_stopped, daemon=True)

    def __enter__(self) -> _DevicePeak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self.highest_bytes = max(self.highest_bytes, _used_device_bytes())

    def _sample_until_stopped(self) -> None:
        while not self._stop.wait(_POLL_S):
            self.highest_bytes = max(self.highest_bytes, _used_device_bytes())


def _used_device_bytes() -> int:
    free, total = torch.cuda.mem_get_info()
    return int(total - free)


def _close_and_count(runner: RunnerProcess) -> int | None:
    """Kill a runner; return the device memory that this frees, without what it only cached.

    None where nothing was freed: its own context takes some, so another process took as much
    meanwhile, and the difference tells nothing of either.
    """
    with suppress(RunnerDied, RunnerError):
        release(runner)
    before = _used_device_bytes()
    runner.close()
    freed = before - _used_device_bytes()
    return freed if freed > 0 else None


class StepClock:
    """Seconds of each step; every moment between two calls of ``finish`` belongs to one step.

    Attributes:
        seconds: By step, in the order in which they were finished first.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._finished_at = time.monotonic()

    def restart(self) -> None:
        """Forget the time so far: it belongs to no step."""
        self._finished_at = time.monotonic()

    def finish(self, step: str) -> None:
        """Add the time since the last call, or since the start, to a step."""
        now = time.monotonic()
        self.seconds[step] = self.seconds.get(step, 0.0) + now - self._finished_at
        self._finished_at = now

    def move(self, from_step: str, to_step: str, seconds: float) -> None:
        """Count seconds of a finished step as another step's."""
        self.seconds[from_step] -= seconds
        self.seconds[to_step] = self.seconds.get(to_step, 0.0) + seconds


def run_energy_stretch(timer: RunnerTimer) -> EnergyStretch | None:
    """Run the planned batch of a runner again and again for about 0.8 s.

    Args:
        timer: Its batches are planned.

    Returns:
        When and how often; None where one batch takes more than 2 s.

    Raises:
        RunnerDied: The runner ended.
        RunnerError: It reported an error.
    """
    batch_s = _time_repeats(timer, 1)
    if batch_s > _MAX_BATCH_S:
        return None
    pilot_count = math.ceil(_PILOT_S / batch_s)  # one batch is mostly the round trip
    batch_s = _time_repeats(timer, pilot_count) / pilot_count
    start_s = time.monotonic()
    calls = timer.repeat_batch(math.ceil(_STRETCH_S / batch_s))
    return {"start_s": start_s, "end_s": time.monotonic(), "calls": calls}


def _time_repeats(timer: RunnerTimer, count: int) -> float:
    start_s = time.monotonic()
    timer.repeat_batch(count)
    return time.monotonic() - start_s


class ResourceMeter:
    """Measures one bench.

    Attributes:
        steps: The judge's own time.
        memory: Has to see each runner before its code is loaded.
    """

    def __init__(self, job: BenchJob) -> None:
        self._target = job["target"]
        self.steps, self.memory = StepClock(), MemoryMeter(job["target"])

    def finish_timing(self, check_s: float) -> None:
        """End the step of the timed pairs, ``check_s`` seconds of which compared outputs."""
        self.steps.finish("timing")
        self.steps.move("timing", "checks", check_s)

    def measure(
        self,
        timers: tuple[RunnerTimer, RunnerTimer],
        runners: tuple[RunnerProcess, RunnerProcess],
        renew_buffers: Callable[[int], CaseBuffers],
        report_progress: Callable[[str], None],
        *,
        with_energy: bool,
    ) -> ResourceReadings:
        """Measure both after everything that decides the verdict; closes their buffers.

        Args:
            timers: Candidate and rival, with their batches planned.
            runners: Their processes.
            renew_buffers: Closes the buffers and returns new ones of some slots.
            report_progress: Called with the name of the runner that runs next.
            with_energy: Whether to measure energy, where there is a GPU.

        Raises:
            IncorrectCallError: An output of the candidate is incorrect.
            RunnerDied: A runner ended.
            RunnerError: A runner reported an error.
        """
        energy: list[EnergyStretch | None] = [None, None]
        if self._target == "cuda" and with_energy:
            for index, timer in enumerate(timers):
                report_progress(timer.name)
                energy[index] = run_energy_stretch(timer)
            self.steps.finish("energy")
        memory = self.memory.measure(*runners, renew_buffers(SLOT_COUNT), report_progress)
        self.steps.finish("memory")
        return {
            "candidate_memory": memory[0],
            "rival_memory": memory[1],
            "candidate_energy": energy[0],
            "rival_energy": energy[1],
            "step_seconds": self.steps.seconds,
        }

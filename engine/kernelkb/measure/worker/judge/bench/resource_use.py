"""Memory, energy and own time of candidate and rival, after the pairs are timed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from kernelkb.measure.worker.judge.buffers.buffers import CaseBuffers
from kernelkb.measure.worker.judge.processes.runner_process import RunnerProcess
from kernelkb.measure.worker.judge.timing.peak_memory import MemoryMeter
from kernelkb.measure.worker.judge.timing.runner_timer import RunnerTimer
from kernelkb.measure.worker.shared.messages.judge_jobs import (
    BenchJob,
    EnergyStretch,
    ResourceReadings,
)


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


_STRETCH_S = 0.8
"""Contains at least 7 changes of the counter."""
_PILOT_S = 0.05
_MAX_BATCH_S = 2.0


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


SLOT_COUNT = 1
"""Slots of the buffers that calls for memory need."""


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

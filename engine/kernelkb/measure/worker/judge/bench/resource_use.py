"""Measures what candidate and rival use besides time, and the judge's own time by its steps."""

from __future__ import annotations

from collections.abc import Callable

from kernelkb.measure.worker.judge.bench.energy_stretch import run_energy_stretch
from kernelkb.measure.worker.judge.bench.step_clock import StepClock
from kernelkb.measure.worker.judge.buffers.buffers import CaseBuffers
from kernelkb.measure.worker.judge.processes.runner_process import RunnerProcess
from kernelkb.measure.worker.judge.timing.peak_memory import MemoryMeter
from kernelkb.measure.worker.judge.timing.runner_timer import RunnerTimer
from kernelkb.measure.worker.shared.messages.judge_jobs import (
    BenchJob,
    EnergyStretch,
    ResourceReadings,
)

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
